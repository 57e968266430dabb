#include "agent/session/session_impl.h"

#include <string.h>

#include "proto/base/log.h"

static struct table_change *find_change(const struct flight *f, enum table_id table,
                                        uint32_t vni)
{
    for (uint32_t i = 0; i < f->changes.count; i++) {
        struct table_change *c = &f->changes.at[i];

        if (c->vni == vni && c->table == table) {
            return c;
        }
    }
    return NULL;
}

static bool is_same_row(bool has_a, const struct row *a, bool has_b,
                        const struct row *b)
{
    return has_a == has_b &&
           (!has_a || (a->value_len == b->value_len &&
                       memcmp(a->value, b->value, a->value_len) == 0));
}

/* Whether this write changes what stands under the key. */
static bool touches(const struct table_change *c, const struct row *key)
{
    enum table_id table = (enum table_id)c->table;
    struct row before;
    struct row after;
    bool has_before = rows_find(c->before, table, key->key, key->key_len, &before);
    bool has_after = rows_find(c->after, table, key->key, key->key_len, &after);

    return !is_same_row(has_before, &before, has_after, &after);
}

/* A newer wish for the key is on its way: what became of the older does not matter. */
static bool is_decided_later(const struct flight *owner, enum table_id table,
                             uint32_t vni, const struct row *key)
{
    for (const struct flight *f = owner->next; f; f = f->next) {
        const struct table_change *c = find_change(f, table, vni);

        if (c && touches(c, key)) {
            return true;
        }
    }
    return false;
}

/* Makes `*rows` hold `was` (null: nothing) under the key. */
static enum rc put_back(struct rows **rows, enum table_id table, uint32_t vni,
                        const struct row *key, const struct row *was)
{
    struct rows_step step = { .row = { .key = key->key, .key_len = key->key_len } };
    struct rows *now;
    enum rc rc;

    if (was) {
        step.row.value = was->value;
        step.row.value_len = was->value_len;
    }
    rc = rows_edit(*rows, table, vni, &step, 1, &now, NULL);
    if (rc == RC_OK) {
        rows_unref(*rows);
        *rows = now;
    }
    return rc;
}

/* The device still holds `was` under the key: so do all later writes' ideas of what
 * stood before them, up to the next that touches the key, and else believed. */
static enum rc correct_belief(struct session *s, struct flight *owner,
                              enum table_id table, uint32_t vni, const struct row *key,
                              const struct row *was)
{
    struct rows *rows;
    enum rc rc = RC_OK;

    for (struct flight *f = owner->next; rc == RC_OK && f; f = f->next) {
        struct table_change *c = find_change(f, table, vni);
        bool is_decided;

        if (!c) {
            continue;
        }
        is_decided = touches(c, key);
        rc = put_back(&c->before, table, vni, key, was);
        if (rc == RC_OK && is_decided) {
            return RC_OK;
        }
        if (rc == RC_OK) {
            rc = put_back(&c->after, table, vni, key, was);
        }
    }
    if (rc != RC_OK) {
        return rc;
    }
    rows = rows_ref(table_set_rows(s->believed, vni, table));
    rc = put_back(&rows, table, vni, key, was);
    if (rc == RC_OK) {
        rc = table_set_put(s->believed, vni, table, rows);
    }
    if (rc != RC_OK) {
        rows_unref(rows);
    }
    return rc;
}

/* One row of `f` was not done (or, with `is_unknown`, perhaps not). */
static enum rc row_failed(struct session *s, struct flight *f, uint8_t reason,
                          enum table_id table, uint32_t vni, const struct row *key)
{
    bool is_unknown = reason == EXCEPTION_UNKNOWN;
    struct flight *owner = f;
    struct table_change *c;
    struct row was;
    struct row want;
    bool has_was;
    bool has_want;
    enum rc rc = RC_OK;

    while (owner && owner->changes.count == 0) {
        owner = owner->next; /* its BATCH's last piece */
    }
    c = owner ? find_change(owner, table, vni) : NULL;
    if (!c) {
        return RC_OK; /* not a row of ours */
    }
    has_was = rows_find(c->before, table, key->key, key->key_len, &was);
    has_want = rows_find(c->after, table, key->key, key->key_len, &want);
    if (is_same_row(has_was, &was, has_want, &want)) {
        return RC_OK;
    }
    if (!(f->is_old && !is_unknown) && !is_decided_later(owner, table, vni, key)) {
        rc = exceptions_add(s, reason, table, vni, has_want ? &want : &was,
                            has_want ? &want : NULL);
    }
    if (rc == RC_OK && !is_unknown) {
        rc = correct_belief(s, owner, table, vni, key, has_was ? &was : NULL);
    }
    return rc;
}

enum rc flight_rows_failed(struct session *s, struct flight *f, uint8_t reason)
{
    struct batch_reader r;
    struct batch_run run;
    enum rc rc = RC_OK;

    if (!f->ops) {
        return RC_OK;
    }
    r = batch_reader_of(f->ops->data, f->ops->len);
    while (rc == RC_OK && batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (rc == RC_OK && run_next(&it, &row)) {
            rc = row_failed(s, f, reason, (enum table_id)run.table, run.vni, &row);
        }
    }
    return rc;
}

static uint8_t reason_of(enum rc rc)
{
    return rc == RC_FULL        ? EXCEPTION_FULL
           : rc == RC_NO_MEMORY ? EXCEPTION_NO_MEMORY
           : rc == RC_TIMEOUT   ? EXCEPTION_UNKNOWN
                                : EXCEPTION_REFUSED;
}

void flights_retire(struct session *s)
{
    for (struct flight *f = s->flights; f && (f->is_done || f->is_late || f->id == 0);
         f = f->next) {
        if (f->seq > s->done_seq) {
            s->done_seq = f->seq;
        }
        f->is_done |= f->id == 0;
    }
    while (s->flights && s->flights->is_done) {
        struct flight *f = s->flights;

        s->flights = f->next;
        if (!s->flights) {
            s->flights_end = &s->flights;
        }
        flight_free(f);
    }
}

/* A transient failure (no memory, not reached) is tried again; what the device took
 * offence at is not. */
static enum rc settle(struct session *s, struct flight *f,
                      const struct driver_done *done)
{
    bool is_as_said = done->rc == RC_OK && done->exception_count == 0;
    enum rc rc = RC_OK;

    if (f->is_old && !is_as_said && !s->must_hello && s->link == LINK_UP) {
        session_start_over(s); /* HELLO said that it holds what it does not */
    }

    if (f->is_late) {
        rc = exceptions_supersede(s, f->ops); /* now it is known */
    }
    s->must_ack |= f->is_late || f->is_retry;
    if (done->rc != RC_OK) {
        uint8_t reason = reason_of(done->rc);

        session_log(s, LOG_WARN, "device write failed", "code=%s cause=\"%s\"",
                    rc_name(done->rc), done->err.msg);
        if (done->rc == RC_TIMEOUT) {
            device_read_again(s); /* the only way to know */
            return RC_OK;
        }
        if (done->rc == RC_UNREACHABLE) {
            reason = EXCEPTION_NO_MEMORY; /* certainly not done, and worth a retry */
        }
        return rc == RC_OK ? flight_rows_failed(s, f, reason) : rc;
    }
    if (f->revision != 0) {
        s->device.applied = f->revision;
    }
    s->device.ready |= f->ready && !s->has_config_failed;
    if (f->is_retry && done->exception_count == 0) {
        s->retry_attempt = 0;
    }
    if (f->has_deletes && exceptions_can_retry(s)) {
        s->retry_at_ms = s->now_ms; /* there may be room now */
    }
    for (uint32_t i = 0; rc == RC_OK && i < done->exception_count; i++) {
        const struct exception *e = &done->exceptions[i];
        struct row key = { .key = e->key, .key_len = e->key_len };

        rc = row_failed(s, f, e->reason, (enum table_id)e->table, e->vni, &key);
    }
    return rc;
}

void device_done(struct session *s, const struct driver_done *done)
{
    struct flight *f = s->flights;

    if (done->rc == RC_STALE) {
        session_log(s, LOG_WARN, "device has a newer term", "ours=%llu",
                    (unsigned long long)s->term);
        s->config_id = 0;
        session_hangup(s);
        device_read_again(s);
    } else if (done->id == s->config_id) {
        device_config_done(s, done);
        return;
    }
    while (f && f->id != done->id) {
        f = f->next;
    }
    if (!f || f->is_done) {
        return;
    }
    f->is_done = true;
    s->sent_count--;
    if (done->rc != RC_STALE && s->is_believed_valid && settle(s, f, done) != RC_OK) {
        s->is_out_of_memory = true;
        device_read_again(s);
    }
    flights_retire(s);
}
