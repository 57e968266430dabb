#include "controller/sync/sync_impl.h"

#include <stdlib.h>
#include <string.h>

struct sync *sync_new(const struct table_set *desired, uint64_t revision)
{
    struct sync *s = calloc(1, sizeof(*s));

    if (s) {
        s->desired = desired;
        s->revision = revision;
        s->last_change = revision;
        s->queries_end = &s->queries;
        s->changes_end = &s->changes;
        s->raw_end = &s->raw;
    }
    return s;
}

void sync_free(struct sync *s)
{
    if (s) {
        walk_fini(s);
        changes_fini(s);
        free(s);
    }
}

void sync_start(struct sync *s, const struct agent_hello *hello)
{
    walk_fini(s);
    changes_fini(s);
    s->has_device = hello->boot_id != 0;
    s->applied = hello->applied;
    s->is_ready = hello->ready;
    s->exception_count = 0;
    s->sent_seq = 0;
    s->acked_seq = 0;
    s->sent_entries = 0;
    s->sent_bytes = 0;
    s->query_bytes = 0;
    /* An `applied` from the future: the store was restored from a copy. */
    s->must_end = !hello->ready || hello->applied < s->last_change ||
                  hello->applied > s->revision;
    if (!s->has_device) {
        return;
    }
    for (int i = TABLE_VNI; i < TABLE_COUNT; i++) {
        uint8_t t = (uint8_t)i;
        struct tree_node root = { 0 };
        struct digest want = table_set_digest(s->desired, (enum table_id)t, root);
        struct work w;

        if (want.sum == hello->root[t].sum && want.count == hello->root[t].count) {
            continue;
        }
        s->must_end = true;
        w = work_of_node(hello->root[t].count == 0 ? WORK_PUT : WORK_QUERY, t, root);
        if (walk_add(s, &w, 1) != RC_OK) {
            s->has_device = false; /* nothing is sent; the session's timeout ends it */
        }
    }
}

void sync_change(struct sync *s, uint64_t revision, struct blob *ops)
{
    bool has_ops = ops && ops->len > 0;
    bool was_partial = s->is_partial;

    s->revision = revision ? revision : s->revision;
    s->is_partial = revision == 0;
    if (revision && (has_ops || was_partial)) {
        s->last_change = revision;
        s->must_end = s->must_end || !has_ops;
    }
    if (s->has_device && has_ops && changes_add(s, revision, ops) != RC_OK) {
        walk_restart(s);
    }
}

/* ---- sending ---- */

static bool has_credit(const struct sync *s)
{
    return s->sent_seq - s->acked_seq < SESSION_WINDOW;
}

/* Everything that the device needs to equal `desired` has been sent. */
static bool is_complete(const struct sync *s)
{
    return walk_is_over(s) && !s->changes && !s->raw && !s->is_partial;
}

/* Takes `ops`. */
static void fill_batch(struct sync *s, struct ctl_msg *m, uint64_t revision, bool ends,
                       struct blob *ops)
{
    memset(m, 0, sizeof(*m));
    m->kind = CTL_BATCH;
    m->batch.seq = ++s->sent_seq;
    m->batch.revision = ends ? revision : 0;
    m->batch.ready = ends;
    m->batch.ops = ops;
    if (ends && revision >= s->last_change) { /* else a later one is still to be told */
        s->must_end = false;
    }
    if (ops) {
        struct batch_reader r = batch_reader_of(ops->data, ops->len);
        struct batch_run run;

        while (batch_next(&r, &run)) {
            s->sent_entries += run.count;
        }
        s->sent_bytes += ops->len;
    }
}

static void send_change(struct sync *s, struct ctl_msg *ret)
{
    struct change *c = s->changes;

    s->changes = c->next;
    if (!s->changes) {
        s->changes_end = &s->changes;
    }
    s->change_bytes -= c->ops->len;
    fill_batch(s, ret, c->revision, c->revision != 0 && walk_is_over(s), c->ops);
    free(c);
}

bool sync_next(struct sync *s, struct ctl_msg *ret)
{
    if (!s->has_device) {
        return false;
    }
    if (s->raw) {
        if (changes_sort(s) != RC_OK) {
            walk_restart(s);
        }
        return false;
    }
    if (s->changes) {
        if (!has_credit(s)) {
            return false;
        }
        send_change(s, ret);
        return true;
    }
    if (walk_can_ask(s)) {
        memset(ret, 0, sizeof(*ret));
        ret->kind = CTL_QUERY;
        return walk_ask(s, &ret->query);
    }
    if (!has_credit(s)) {
        return false;
    }
    if (walk_can_send(s)) {
        struct blob *ops = walk_pack(s);

        if (ops) {
            fill_batch(s, ret, s->revision, is_complete(s), ops);
        }
        return ops != NULL;
    }
    if (s->must_end && is_complete(s)) {
        fill_batch(s, ret, s->revision, true, NULL);
        return true;
    }
    return false;
}

bool sync_has_work(const struct sync *s)
{
    if (!s->has_device) {
        return false;
    }
    if (s->raw) {
        return true;
    }
    if (s->changes) {
        return has_credit(s);
    }
    return walk_can_ask(s) ||
           (has_credit(s) && (walk_can_send(s) || (s->must_end && is_complete(s))));
}

/* ---- acknowledgements ---- */

enum rc sync_ack(struct sync *s, const struct agent_ack *ack, struct err *err)
{
    if (ack->seq > s->sent_seq || ack->seq < s->acked_seq) {
        return err_field(err, RC_INVALID, "ack.seq", "window",
                         "an acknowledgement of %llu: sent are %llu to %llu",
                         (unsigned long long)ack->seq, (unsigned long long)s->acked_seq,
                         (unsigned long long)s->sent_seq);
    }
    s->acked_seq = ack->seq;
    s->applied = ack->applied;
    s->is_ready = ack->ready;
    s->exception_count = ack->exception_count;
    return RC_OK;
}

void sync_compare(struct sync *s)
{
    if (s->has_device) {
        walk_restart(s);
    }
}

bool sync_is_level(const struct sync *s)
{
    return s->has_device && is_complete(s) && !s->must_end;
}

struct sync_status sync_status(const struct sync *s)
{
    bool is_idle =
        s->has_device && is_complete(s) && !s->must_end && s->acked_seq == s->sent_seq;

    return (struct sync_status){
        .is_walking = s->has_device && (!walk_is_over(s) || s->must_end),
        .is_waiting = s->query_count > 0 || s->acked_seq != s->sent_seq,
        .applied = s->applied,
        .desired = s->last_change,
        .sent_entries = s->sent_entries,
        .sent_bytes = s->sent_bytes,
        .query_bytes_est = s->query_bytes,
        .in_sync = is_idle && s->applied >= s->last_change && s->exception_count == 0,
        .exception_count = s->exception_count,
    };
}
