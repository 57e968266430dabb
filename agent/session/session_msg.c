#include "agent/session/session_impl.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/log.h"
#include "proto/model/object.h"

static void take_assign(struct session *s, const struct ctl_assign *a)
{
    if (a->term < s->term) {
        session_log(s, LOG_WARN, "stale controller refused", "term=%llu seen=%llu",
                    (unsigned long long)a->term, (unsigned long long)s->term);
        session_hangup(s);
        return;
    }
    if (s->must_hello || a->hello_id != s->hello_id) {
        return; /* the answer to an older HELLO */
    }
    if (!s->awaits_assign && strcmp(a->group, s->group) != 0) {
        session_hangup(s); /* another set: compare from the start */
        return;
    }
    s->term = a->term;
    memcpy(s->group, a->group, sizeof(s->group));
    blob_unref(s->device_config);
    s->device_config = blob_ref(a->config);
    s->config_digest =
        a->config ? device_config_bytes_digest(a->config->data, a->config->len) : 0;
    s->config_at_ms = 0;
    s->has_config_failed = false;
    if (s->beat_ms != a->beat_ms || !s->is_assigned) {
        s->beat_ms = a->beat_ms;
        s->next_beat_ms = s->now_ms + a->beat_ms;
    }
    if (s->telemetry_ms != a->telemetry_ms || !s->is_assigned) {
        s->telemetry_ms = a->telemetry_ms;
        s->next_poll_ms = s->now_ms; /* the first answer is what others compare with */
    }
    if (s->awaits_assign) {
        s->awaits_assign = false;
        s->must_ack = exceptions_count(s) > 0;
    }
    if (!s->is_assigned) {
        session_log(s, LOG_INFO, "session assigned", "group=%s term=%llu", a->group,
                    (unsigned long long)a->term);
    }
    if (!s->is_assigned) {
        s->assigned_at_ms = s->now_ms;
    }
    s->is_assigned = true;
    s->redirect_count = 0;
}

/* What is in the batch is looked at once, before anything else touches it. */
static bool is_batch_sound(struct session *s, const struct ctl_batch *b)
{
    struct err err = { 0 };
    uint32_t count;
    uint32_t index;

    if (b->seq != s->last_seq + 1) {
        session_refuse(s, "a batch out of order");
        return false;
    }
    if (b->ops && batch_check(b->ops->data, b->ops->len, true, &count, &index, &err)) {
        session_refuse(s, err.msg);
        return false;
    }
    s->last_seq = b->seq;
    return true;
}

static bool is_query_sound(struct session *s, const struct ctl_query *q)
{
    for (uint32_t i = 0; i < q->item_count && i < QUERY_MAX; i++) {
        if (!query_item_is_valid(&q->items[i])) {
            session_refuse(s, "a query for no node");
            return false;
        }
    }
    if (q->item_count == 0 || q->item_count > QUERY_MAX) {
        session_refuse(s, "a query of no size");
        return false;
    }
    return true;
}

static bool is_rows_sound(struct session *s, const struct ctl_rows *r)
{
    if (!query_item_is_valid(&r->of) || r->of.node.depth != TREE_DEPTH) {
        session_refuse(s, "rows of no bucket");
        return false;
    }
    return true;
}

static void enqueue(struct session *s, const struct ctl_msg *m)
{
    struct inbox_item *i;

    if (s->awaits_assign) {
        return; /* of a conversation that is over */
    }
    if ((m->kind == CTL_BATCH && !is_batch_sound(s, &m->batch)) ||
        (m->kind == CTL_QUERY && !is_query_sound(s, &m->query)) ||
        (m->kind == CTL_ROWS && !is_rows_sound(s, &m->rows))) {
        return;
    }
    if (s->inbox_count >= INBOX_MAX) {
        session_refuse(s, "more than the window allows");
        return;
    }
    i = calloc(1, sizeof(*i));
    if (!i) {
        s->is_out_of_memory = true;
        return;
    }
    i->msg = *m;
    if (m->kind == CTL_BATCH) {
        blob_ref(m->batch.ops);
    }
    *s->inbox_end = i;
    s->inbox_end = &i->next;
    s->inbox_count++;
}

void session_take_message(struct session *s, const struct ctl_msg *m)
{
    if (s->link != LINK_UP) {
        return;
    }
    switch (m->kind) {
    case CTL_ASSIGN:
        take_assign(s, &m->assign);
        break;
    case CTL_QUERY:
    case CTL_BATCH:
    case CTL_AUDIT:
    case CTL_ROWS:
        enqueue(s, m);
        break;
    case CTL_COUNTERS:
        counters_ask(s, &m->counters);
        break;
    case CTL_PROBE:
        probes_ask(s, &m->probe);
        break;
    case CTL_PROBES:
        for (uint32_t i = 0; i < m->probes.count; i++) {
            probes_ask(s, &m->probes.at[i]);
        }
        break;
    case CTL_REDIRECT:
        memcpy(s->redirect, m->redirect, sizeof(s->redirect));
        s->redirect[sizeof(s->redirect) - 1] = '\0';
        s->redirect_count++;
        session_hangup(s);
        break;
    }
}

/* ---- answers ---- */

static void fill_children(const struct session *s, struct digests_item *d)
{
    enum table_id table = (enum table_id)d->of.table;
    struct digest buckets[16];

    if (d->of.node.depth < TREE_DEPTH) {
        d->child_count =
            (uint8_t)table_set_children(s->believed, table, d->of.node, d->children);
        return;
    }
    rows_bucket_digests(table_set_rows(s->believed, d->of.node.vni, table), table,
                        d->of.node.vni, d->of.bucket, buckets);
    for (uint8_t i = 0; i < 16; i++) {
        if (buckets[i].count > 0) {
            d->children[d->child_count].index = i;
            d->children[d->child_count++].digest = buckets[i];
        }
    }
}

static void send_ack(struct session *s)
{
    struct session_out *out = session_out_add(s, SESSION_SEND);
    struct agent_ack *a;

    if (!out) {
        return;
    }
    out->send.kind = AGENT_ACK;
    a = &out->send.ack;
    a->seq = s->done_seq;
    a->applied = s->device.applied;
    a->ready = s->device.ready;
    a->exception_count = exceptions_count(s);
    exceptions_list(s, a);
    s->acked_seq = s->done_seq;
    s->must_ack = false;
}

static void answer_query(struct session *s, const struct ctl_query *q)
{
    struct digests_item *items = calloc(q->item_count, sizeof(*items));
    struct session_out *out;

    if (s->done_seq > s->acked_seq) {
        send_ack(s);
    }
    out = items ? session_out_add(s, SESSION_SEND) : NULL;
    if (!out) {
        free(items);
        s->is_out_of_memory = true;
        return;
    }
    for (uint32_t i = 0; i < q->item_count; i++) {
        items[i].of = q->items[i];
        fill_children(s, &items[i]);
    }
    out->send.kind = AGENT_DIGESTS;
    out->send.digests = (struct agent_digests){ q->query_id, items, q->item_count };
}

static void answer_rows(struct session *s, const struct ctl_rows *r)
{
    enum table_id table = (enum table_id)r->of.table;
    struct session_out *out = session_out_add(s, SESSION_SEND);
    struct buf rows = BUF_INIT;
    struct batch_writer w;
    struct agent_rows *a;
    uint32_t count;

    if (!out) {
        return;
    }
    out->send.kind = AGENT_ROWS;
    a = &out->send.rows;
    a->ask_id = r->ask_id;
    batch_writer_init(&w);
    count = rows_bucket_pack(table_set_rows(s->believed, r->of.node.vni, table), table,
                             r->of.bucket, &rows);
    if (rows.len > BATCH_SEND_BYTES) {
        a->rc = RC_RANGE;
    } else if (count > 0 && !buf_failed(&rows)) {
        batch_add_rows(&w, BATCH_PUT, table, r->of.node.vni, NULL, rows.data,
                       (uint32_t)rows.len, count);
        a->rows = batch_writer_finish(&w);
    }
    if (buf_failed(&rows) || (count > 0 && !a->rows && a->rc == RC_OK)) {
        a->rc = RC_NO_MEMORY;
    }
    batch_writer_fini(&w);
    buf_fini(&rows);
}

void session_work_inbox(struct session *s)
{
    while (s->inbox && device_has_room(s) && !audit_holds(s)) {
        struct inbox_item *i = s->inbox;

        if (i->msg.kind != CTL_BATCH && !device_is_quiet(s)) {
            return;
        }
        s->inbox = i->next;
        if (!s->inbox) {
            s->inbox_end = &s->inbox;
        }
        s->inbox_count--;
        if (i->msg.kind == CTL_QUERY) {
            answer_query(s, &i->msg.query);
        } else if (i->msg.kind == CTL_AUDIT) {
            audit_begin(s, &i->msg.audit);
        } else if (i->msg.kind == CTL_ROWS) {
            answer_rows(s, &i->msg.rows);
        } else if (device_take_batch(s, &i->msg.batch) != RC_OK) {
            s->is_out_of_memory = true;
            device_read_again(s); /* clears the inbox */
        }
        ctl_msg_fini(&i->msg);
        free(i);
        device_pump(s);
    }
}

void session_send_acks(struct session *s)
{
    bool is_idle = !s->inbox && device_is_quiet(s);

    if (s->link == LINK_UP && !s->awaits_assign &&
        (s->must_ack || s->done_seq >= s->acked_seq + ACK_EVERY ||
         (is_idle && s->done_seq > s->acked_seq))) {
        send_ack(s);
    }
}
