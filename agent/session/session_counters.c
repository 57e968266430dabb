/* Counters of VNIs, one question at a time. */
#include "agent/session/session_impl.h"

#include <stdlib.h>
#include <string.h>

static void send_answer(struct session *s, uint64_t ask_id,
                        const struct device_counters *c)
{
    struct vni_counter *items = NULL;
    struct session_out *out;

    if (c->count > 0) {
        items = malloc(c->count * sizeof(*items));
        if (!items) {
            s->is_out_of_memory = true;
            return;
        }
        memcpy(items, c->items, c->count * sizeof(*items));
    }
    out = session_out_add(s, SESSION_SEND);
    if (!out) {
        free(items);
        return;
    }
    out->send.kind = AGENT_COUNTERS;
    out->send.counters = (struct agent_counters){ .ask_id = ask_id,
                                                  .rc = c->rc,
                                                  .items = items,
                                                  .item_count = c->count,
                                                  .next_vni = c->next_vni,
                                                  .rest_packets = c->rest_packets,
                                                  .rest_bytes = c->rest_bytes };
}

void counters_ask(struct session *s, const struct ctl_counters *c)
{
    static const struct device_counters none = { .rc = RC_UNREACHABLE };
    struct session_out *out;

    if (s->awaits_assign) {
        return; /* of a conversation that is over */
    }
    if (!s->is_device_up) {
        send_answer(s, c->ask_id, &none);
        return;
    }
    out = session_out_add(s, SESSION_COUNTERS);
    if (out) {
        s->counters.id = out->counters.id = ++s->last_id;
        out->counters.from_vni = c->from_vni;
        s->counters.ask_id = c->ask_id;
        s->counters.deadline_ms = s->now_ms + s->config.write_timeout_ms;
    }
}

void counters_answer(struct session *s, const struct device_counters *c)
{
    if (s->counters.id != 0 && c->id == s->counters.id) {
        send_answer(s, s->counters.ask_id, c);
        counters_drop(s);
    }
}

void counters_drop(struct session *s)
{
    s->counters.id = 0;
}

void counters_tick(struct session *s)
{
    if (s->counters.id != 0 && s->counters.deadline_ms <= s->now_ms) {
        struct device_counters late = { .id = s->counters.id, .rc = RC_TIMEOUT };

        counters_answer(s, &late);
    }
}

uint64_t counters_wake(const struct session *s)
{
    return s->counters.id != 0 ? s->counters.deadline_ms : UINT64_MAX;
}
