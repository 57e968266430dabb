#include "agent/session/session_impl.h"

#include "proto/base/log.h"

bool audit_is_under_way(const struct session *s)
{
    return s->audit.read_id != 0;
}

void audit_drop(struct session *s)
{
    table_set_free(s->audit.found);
    s->audit.found = NULL;
    s->audit.read_id = 0;
}

void audit_begin(struct session *s, const struct ctl_audit *a)
{
    struct session_out *out = session_out_add(s, SESSION_READ);

    s->audit.found = table_set_new();
    if (!out || !s->audit.found) {
        s->is_out_of_memory = true;
        return;
    }
    out->read.id = ++s->last_id;
    out->read.vni = a->vni;
    s->audit.read_id = out->read.id;
    s->audit.audit_id = a->audit_id;
    s->audit.deadline_ms = s->now_ms + s->config.write_timeout_ms;
}

void audit_rows(struct session *s, const uint8_t *batch, size_t len)
{
    uint32_t count;
    uint32_t index;
    struct err err = { 0 };
    enum rc rc = batch_check(batch, len, false, &count, &index, &err);

    rc = rc ? rc : table_set_apply(s->audit.found, batch, len, NULL, NULL, &err);
    if (rc != RC_OK) {
        session_log(s, LOG_ERROR, "audit's read-back damaged", "entry=%u cause=\"%s\"",
                    index, err.msg);
        audit_end(s, rc);
    }
}

void audit_end(struct session *s, enum rc rc)
{
    struct session_out *out = session_out_add(s, SESSION_SEND);
    struct agent_audit *a;

    if (out) {
        out->send.kind = AGENT_AUDIT;
        a = &out->send.audit;
        a->audit_id = s->audit.audit_id;
        a->rc = rc;
        for (unsigned t = 0; rc == RC_OK && t < TABLE_COUNT; t++) {
            a->found[t] = table_set_digest(s->audit.found, (enum table_id)t,
                                           (struct tree_node){ 0 });
        }
    }
    audit_drop(s);
}

void audit_tick(struct session *s)
{
    if (audit_is_under_way(s) && s->audit.deadline_ms <= s->now_ms) {
        session_log(s, LOG_WARN, "audit's read-back late",
                    "next=\"the controller asks again\"");
        audit_end(s, RC_TIMEOUT);
    }
}
