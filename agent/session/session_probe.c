/* Probes: frames that the controller wants taken through the device's pipeline. */
#include "agent/session/session_impl.h"

#include <stdio.h>

static void send_result(struct session *s, uint64_t probe_id,
                        const struct probe_result *r)
{
    struct session_out *out = session_out_add(s, SESSION_SEND);

    if (out) {
        out->send.kind = AGENT_PROBE;
        out->send.probe = (struct agent_probe){ .probe_id = probe_id, .result = *r };
        blob_ref(r->frame);
    }
}

static void send_error(struct session *s, uint64_t probe_id, enum rc rc,
                       const char *why)
{
    struct probe_result r = { .rc = rc };

    snprintf(r.error, sizeof(r.error), "%s", why);
    send_result(s, probe_id, &r);
}

static struct session_probe *probe_of(struct session *s, uint64_t id)
{
    for (unsigned i = 0; i < PROBES_MAX; i++) {
        if (s->probes[i].id == id) {
            return &s->probes[i];
        }
    }
    return NULL;
}

void probes_ask(struct session *s, const struct ctl_probe *p)
{
    struct session_probe *place = probe_of(s, 0);
    struct session_out *out;

    if (s->awaits_assign) {
        return; /* of a conversation that is over */
    }
    if (!s->is_device_up) {
        send_error(s, p->probe_id, RC_UNREACHABLE, "there is no data plane");
        return;
    }
    if (!place) {
        send_error(s, p->probe_id, RC_FULL, "as many probes as may be are under way");
        return;
    }
    out = session_out_add(s, SESSION_PROBE);
    if (out) {
        place->id = out->probe.id = ++s->last_id;
        place->probe_id = p->probe_id;
        place->deadline_ms = s->now_ms + s->config.write_timeout_ms;
        out->probe.frame = blob_ref(p->frame);
    }
}

void probes_answer(struct session *s, const struct device_probe *p)
{
    struct session_probe *place = p->id != 0 ? probe_of(s, p->id) : NULL;

    if (place) {
        send_result(s, place->probe_id, p->result);
        place->id = 0;
    }
}

void probes_drop(struct session *s)
{
    for (unsigned i = 0; i < PROBES_MAX; i++) {
        s->probes[i].id = 0;
    }
}

void probes_tick(struct session *s)
{
    for (unsigned i = 0; i < PROBES_MAX; i++) {
        if (s->probes[i].id != 0 && s->probes[i].deadline_ms <= s->now_ms) {
            send_error(s, s->probes[i].probe_id, RC_TIMEOUT,
                       "the data plane did not answer");
            s->probes[i].id = 0;
        }
    }
}

uint64_t probes_wake(const struct session *s)
{
    uint64_t at = UINT64_MAX;

    for (unsigned i = 0; i < PROBES_MAX; i++) {
        if (s->probes[i].id != 0 && s->probes[i].deadline_ms < at) {
            at = s->probes[i].deadline_ms;
        }
    }
    return at;
}
