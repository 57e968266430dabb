/* What came of a probe, off the wire. */
#include "proto/rpc/agent_wire.h"

/* An outcome says all that belongs to it and nothing else, or there is an error. */
static bool is_probe_sound(const Xgw__Agent__V1__Probe *w)
{
    bool has_reason = w->reason[0] != '\0';

    if (w->code != RC_OK) {
        return w->outcome == 0 && !has_reason && w->frame.len == 0;
    }
    switch (w->outcome) {
    case PROBE_FORWARDED:
        return !has_reason && w->frame.len >= PROBE_FRAME_MIN;
    case PROBE_DROPPED:
        return has_reason && w->frame.len == 0;
    case PROBE_KEPT:
        return !has_reason && w->frame.len == 0;
    default:
        return false;
    }
}

enum rc agent_probe_take(const Xgw__Agent__V1__Probe *w, struct agent_probe *p,
                         struct err *err)
{
    struct probe_result *r = &p->result;

    if (w->code > RC_BUG || w->outcome > PROBE_KEPT || !is_probe_sound(w)) {
        return agent_wire_bad(err, "probe.outcome");
    }
    if (!agent_wire_text(r->error, sizeof(r->error), w->error)) {
        return agent_wire_bad(err, "probe.error");
    }
    if (!agent_wire_text(r->reason, sizeof(r->reason), w->reason) ||
        !telemetry_text_is_valid(r->reason)) {
        return agent_wire_bad(err, "probe.reason");
    }
    if (!agent_wire_text(r->port, sizeof(r->port), w->port)) {
        return agent_wire_bad(err, "probe.port");
    }
    if (w->frame.len > PROBE_FRAME_MAX) {
        return agent_wire_bad(err, "probe.frame");
    }
    if (w->frame.len > 0) {
        r->frame = blob_copy(w->frame.data, w->frame.len);
        if (!r->frame) {
            return err_set(err, RC_NO_MEMORY, "out of memory");
        }
    }
    p->probe_id = w->probe_id;
    r->rc = (enum rc)w->code;
    r->outcome = (uint8_t)w->outcome;
    return RC_OK;
}
