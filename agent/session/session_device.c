#include "agent/session/session_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading back ---- */

static void start_read(struct session *s)
{
    struct session_out *out;

    if (!s->reading) {
        s->reading = table_set_new();
    }
    out = s->reading ? session_out_add(s, SESSION_READ) : NULL;
    if (!out) {
        s->is_out_of_memory = true;
        s->read_at_ms = s->now_ms + session_pause_ms(s, s->read_attempt++);
        return;
    }
    s->is_reading = true;
    s->read_at_ms = 0;
}

void device_read_again(struct session *s)
{
    s->is_believed_valid = false;
    session_start_over(s);
    if (s->is_device_up && !s->is_reading && s->read_at_ms == 0) {
        s->read_at_ms = s->now_ms + session_pause_ms(s, s->read_attempt++);
    }
}

void device_up(struct session *s, const struct device_state *state)
{
    bool is_same = s->is_believed_valid && state->boot_id == s->device.boot_id &&
                   state->applied == s->device.applied;

    s->is_device_up = true;
    s->device = *state;
    if (state->term > s->term) {
        s->term = state->term;
    }
    s->config_id = 0;
    s->config_at_ms = 0;
    s->has_config_failed = false;
    if (!is_same) {
        s->is_believed_valid = false;
        start_read(s);
    }
    session_start_over(s);
}

void device_down(struct session *s, const struct err *cause)
{
    if (!s->is_device_up) {
        return;
    }
    session_log(s, 2 /* LOG_WARN */, "device lost", "cause=\"%s\"",
                cause ? cause->msg : "");
    s->is_device_up = false;
    s->is_reading = false;
    s->read_at_ms = 0;
    table_set_free(s->reading);
    s->reading = NULL;
    s->config_id = 0;
    s->config_at_ms = 0;
    if (s->flights) {
        s->is_believed_valid = false; /* who knows which of them were done */
    }
    device_forget_flights(s);
    session_start_over(s);
}

void device_rows(struct session *s, const uint8_t *batch, size_t len)
{
    uint32_t count;
    uint32_t index;
    struct err err = { 0 };
    enum rc rc;

    if (!s->is_reading || !s->reading) {
        return;
    }
    rc = batch_check(batch, len, false, &count, &index, &err);
    if (rc == RC_OK) {
        rc = table_set_apply(s->reading, batch, len, NULL, NULL, &err);
    }
    if (rc != RC_OK) {
        session_log(s, 3 /* LOG_ERROR */, "read-back damaged", "entry=%u cause=\"%s\"",
                    index, err.msg);
        table_set_free(s->reading);
        s->reading = NULL; /* seen at the end of the read-back */
    }
}

void device_read_end(struct session *s, enum rc rc)
{
    if (!s->is_reading) {
        return;
    }
    s->is_reading = false;
    if (rc != RC_OK || !s->reading) {
        table_set_free(s->reading);
        s->reading = NULL;
        s->read_at_ms = s->now_ms + session_pause_ms(s, s->read_attempt++);
        session_log(s, 2 /* LOG_WARN */, "read-back failed", "code=%s", rc_name(rc));
        return;
    }
    table_set_free(s->believed);
    s->believed = s->reading;
    s->reading = NULL;
    s->is_believed_valid = true;
    s->is_fresh = true;
    s->was_read = true;
    s->read_attempt = 0;
    if (exceptions_clear(s) != RC_OK) {
        s->is_out_of_memory = true;
    }
    session_start_over(s);
}

/* ---- writes on their way ---- */

static void flight_free(struct flight *f)
{
    blob_unref(f->ops);
    change_list_fini(&f->changes);
    free(f);
}

void device_forget_flights(struct session *s)
{
    while (s->flights) {
        struct flight *f = s->flights;

        s->flights = f->next;
        flight_free(f);
    }
    s->flights_end = &s->flights;
    s->sent_count = 0;
}

static struct flight *flight_add(struct session *s, struct blob *ops)
{
    struct flight *f = calloc(1, sizeof(*f));

    if (f) {
        f->ops = ops;
        *s->flights_end = f;
        s->flights_end = &f->next;
    }
    return f;
}

bool device_has_room(const struct session *s)
{
    if (!s->is_device_up || !s->is_believed_valid || s->config_id != 0) {
        return false;
    }
    for (const struct flight *f = s->flights; f; f = f->next) {
        if (f->id != 0 && !f->is_sent) {
            return false;
        }
    }
    return s->sent_count < s->config.writes_in_flight;
}

bool device_is_quiet(const struct session *s)
{
    for (const struct flight *f = s->flights; f; f = f->next) {
        if (!f->is_done && !f->is_late) {
            return false;
        }
    }
    return true;
}

/* Cuts runs into blobs of about PIECE_BYTES and chains them as flights. */
static enum rc add_pieces(struct session *s, struct batch_writer *w, bool has_deletes,
                          bool is_last, struct flight **ret_last)
{
    struct blob *ops;

    if (batch_writer_bytes(w) == 0 || (!is_last && batch_writer_bytes(w) < PIECE_BYTES)) {
        return RC_OK;
    }
    ops = batch_writer_finish(w);
    if (!ops || !(*ret_last = flight_add(s, ops))) {
        blob_unref(ops);
        return RC_NO_MEMORY;
    }
    (*ret_last)->id = ++s->last_id;
    (*ret_last)->has_deletes = has_deletes;
    return RC_OK;
}

/* All runs of `op` in `from`, row by row, into pieces. */
static enum rc cut_runs(struct session *s, const struct buf *from, enum batch_op op,
                        struct flight **ret_last)
{
    struct batch_reader r = batch_reader_of(from->data, from->len);
    struct batch_writer w;
    struct batch_run run;
    enum rc rc = RC_OK;

    batch_writer_init(&w);
    while (rc == RC_OK && batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;

        while (run.op == op && rc == RC_OK && run_next(&it, &row)) {
            batch_add_row(&w, op, (enum table_id)run.table, run.vni, &row);
            rc = add_pieces(s, &w, op == BATCH_DELETE, false, ret_last);
        }
    }
    if (rc == RC_OK) {
        rc = add_pieces(s, &w, op == BATCH_DELETE, true, ret_last);
    }
    batch_writer_fini(&w);
    return rc;
}

/* The writes that turn every `before` into its `after`: all puts, then all deletes, so
 * that a lookup between any two sees the old or the new answer. */
static enum rc add_differences(struct session *s, const struct change_list *changes,
                               struct flight **ret_last)
{
    static const struct bucket whole = { 0 };
    struct batch_writer w;
    struct blob *all;
    enum rc rc = RC_NO_MEMORY;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct table_change *c = &changes->at[i];

        rows_diff(c->before, c->after, (enum table_id)c->table, c->vni, whole, &w);
    }
    all = batch_writer_finish(&w);
    batch_writer_fini(&w);
    if (all) {
        struct buf view = { .data = all->data, .len = all->len };

        rc = cut_runs(s, &view, BATCH_PUT, ret_last);
        if (rc == RC_OK) {
            rc = cut_runs(s, &view, BATCH_DELETE, ret_last);
        }
    }
    blob_unref(all);
    return rc;
}

/* Whether every row of the batch has its effect as it stands, in an order that is safe:
 * then it goes to the device as it is, uncopied. */
static bool is_write_as_it_is(const struct blob *ops, const struct rows_change *total,
                              bool any_order, bool *ret_has_deletes)
{
    struct batch_reader r = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    uint64_t rows = 0;
    bool has_puts = false;
    bool has_deletes = false;

    while (batch_next(&r, &run)) {
        if (run.op == BATCH_REPLACE) {
            return false;
        }
        has_puts |= run.op == BATCH_PUT;
        has_deletes |= run.op == BATCH_DELETE;
        rows += run.count;
    }
    *ret_has_deletes = has_deletes;
    return rows == (uint64_t)total->added + total->changed + total->deleted &&
           (any_order || !has_puts || !has_deletes);
}

/* Applies `ops` to believed and queues what the device has to be told.  `*ret_last`
 * stays null when that is nothing. */
static enum rc add_writes(struct session *s, struct blob *ops, bool any_order,
                          struct flight **ret_last)
{
    struct change_list changes = { 0 };
    struct rows_change total = { 0 };
    bool has_deletes = false;
    enum rc rc =
        table_set_apply(s->believed, ops->data, ops->len, &changes, &total, NULL);

    if (rc != RC_OK || changes.count == 0) {
        change_list_fini(&changes);
        return rc;
    }
    if (is_write_as_it_is(ops, &total, any_order, &has_deletes)) {
        *ret_last = flight_add(s, blob_ref(ops));
        if (!*ret_last) {
            blob_unref(ops);
            rc = RC_NO_MEMORY;
        } else {
            (*ret_last)->id = ++s->last_id;
            (*ret_last)->has_deletes = has_deletes;
        }
    } else {
        rc = add_differences(s, &changes, ret_last);
    }
    if (rc == RC_OK && *ret_last) {
        (*ret_last)->changes = changes;
    } else {
        change_list_fini(&changes);
    }
    return rc;
}

enum rc device_take_batch(struct session *s, const struct ctl_batch *b)
{
    struct flight *last = NULL;
    enum rc rc = exceptions_supersede(s, b->ops);

    if (rc == RC_OK && b->ops) {
        rc = add_writes(s, b->ops, false, &last);
    }
    if (rc == RC_OK && !last) {
        last = flight_add(s, NULL);
        rc = last ? RC_OK : RC_NO_MEMORY;
    }
    if (rc != RC_OK) {
        return rc;
    }
    if (b->revision != 0) {
        s->want_applied = b->revision;
    }
    s->want_ready |= b->ready;
    last->seq = b->seq;
    last->revision = b->revision;
    last->ready = b->ready;
    if (last->id == 0 && ((b->revision != 0 && b->revision != s->device.applied) ||
                          (b->ready && !s->device.ready))) {
        last->id = ++s->last_id; /* `applied` advances all the same */
    }
    return RC_OK;
}

/* ---- answers ---- */

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
        struct row before;
        struct row after;
        bool has_before;
        bool has_after;
        bool is_decided;

        if (!c) {
            continue;
        }
        has_before = rows_find(c->before, table, key->key, key->key_len, &before);
        has_after = rows_find(c->after, table, key->key, key->key_len, &after);
        is_decided = !is_same_row(has_before, &before, has_after, &after);
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
    enum rc rc;

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
    rc = exceptions_add(s, reason, table, vni, has_want ? &want : &was,
                        has_want ? &want : NULL);
    if (rc == RC_OK && !is_unknown) {
        rc = correct_belief(s, owner, table, vni, key, has_was ? &was : NULL);
    }
    return rc;
}

static enum rc all_rows_failed(struct session *s, struct flight *f, uint8_t reason)
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

static void retire_flights(struct session *s)
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
static enum rc settle(struct session *s, struct flight *f, const struct driver_done *done)
{
    enum rc rc = RC_OK;

    if (f->is_late) {
        rc = exceptions_supersede(s, f->ops); /* now it is known */
        s->must_ack = true;
    }
    if (done->rc != RC_OK) {
        uint8_t reason = reason_of(done->rc);

        session_log(s, 2 /* LOG_WARN */, "device write failed", "code=%s cause=\"%s\"",
                    rc_name(done->rc), done->err.msg);
        if (done->rc == RC_TIMEOUT) {
            device_read_again(s); /* the only way to know */
            return RC_OK;
        }
        if (done->rc == RC_UNREACHABLE) {
            reason = EXCEPTION_NO_MEMORY; /* certainly not done, and worth a retry */
        }
        return rc == RC_OK ? all_rows_failed(s, f, reason) : rc;
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

static void config_done(struct session *s, const struct driver_done *done)
{
    s->config_id = 0;
    s->has_config_failed = done->rc != RC_OK;
    if (done->rc == RC_OK) {
        s->device.config_digest = s->config_digest;
        return;
    }
    session_log(s, 3 /* LOG_ERROR */, "device refused its configuration",
                "code=%s cause=\"%s\"", rc_name(done->rc), done->err.msg);
    s->config_at_ms = s->now_ms + s->config.redial_max_ms;
}

void device_done(struct session *s, const struct driver_done *done)
{
    struct flight *f = s->flights;

    if (done->rc == RC_STALE) {
        session_log(s, 2 /* LOG_WARN */, "device has a newer term", "ours=%llu",
                    (unsigned long long)s->term);
        s->config_id = 0;
        session_hangup(s);
        device_read_again(s);
    } else if (done->id == s->config_id) {
        config_done(s, done);
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
    retire_flights(s);
}

/* ---- what can go to the device now ---- */

static void send_config(struct session *s)
{
    struct session_out *out;

    if (!s->device_config || s->config_id != 0 ||
        s->config_digest == s->device.config_digest || s->config_at_ms > s->now_ms) {
        return;
    }
    out = session_out_add(s, SESSION_CONFIGURE);
    if (out) {
        s->config_id = ++s->last_id;
        s->config_at_ms = 0;
        s->config_deadline_ms = s->now_ms + s->config.write_timeout_ms;
        out->configure.id = s->config_id;
        out->configure.term = s->term;
        out->configure.config = blob_ref(s->device_config);
    }
}

static void send_flights(struct session *s)
{
    for (struct flight *f = s->flights;
         f && s->sent_count < s->config.writes_in_flight; f = f->next) {
        struct session_out *out;

        if (f->id == 0 || f->is_sent) {
            continue;
        }
        out = session_out_add(s, SESSION_WRITE);
        if (!out) {
            return;
        }
        out->write = (struct driver_write){ .id = f->id,
                                            .term = s->term,
                                            .revision = f->revision,
                                            .ready = f->ready && !s->has_config_failed,
                                            .ops = blob_ref(f->ops) };
        f->is_sent = true;
        f->deadline_ms = s->now_ms + s->config.write_timeout_ms;
        s->sent_count++;
        s->device_writes += f->ops != NULL;
    }
}

static bool lacks_state(const struct session *s)
{
    return (s->want_applied != 0 && s->device.applied != s->want_applied) ||
           (s->want_ready && !s->device.ready && !s->has_config_failed);
}

/* Tries again what failed, once nothing else is on its way. */
static void send_retry(struct session *s)
{
    struct flight *f = NULL;
    struct blob *ops = NULL;
    enum rc rc = RC_OK;

    if (s->flights || s->inbox || s->awaits_assign || !s->is_assigned ||
        (!exceptions_can_retry(s) && !lacks_state(s))) {
        return;
    }
    if (s->retry_at_ms == 0) {
        s->retry_at_ms = s->now_ms + session_pause_ms(s, s->retry_attempt++);
    }
    if (s->retry_at_ms > s->now_ms) {
        return;
    }
    s->retry_at_ms = 0;
    if (exceptions_can_retry(s)) {
        ops = exceptions_take_retry(s);
        rc = ops ? add_writes(s, ops, true, &f) : RC_NO_MEMORY;
        blob_unref(ops);
        s->must_ack = true;
    }
    if (rc == RC_OK && !f && lacks_state(s)) {
        f = flight_add(s, NULL);
        if (f) {
            f->id = ++s->last_id;
        }
    }
    if (rc != RC_OK) {
        s->is_out_of_memory = true;
        device_read_again(s);
    } else if (f) {
        f->is_retry = true;
        f->revision = s->want_applied;
        f->ready = s->want_ready;
    }
}

void device_pump(struct session *s)
{
    if (!s->is_device_up || !s->is_believed_valid || !s->is_assigned) {
        return;
    }
    send_config(s);
    if (s->config_id == 0) {
        send_retry(s);
        send_flights(s);
    }
    retire_flights(s);
}

void device_tick(struct session *s)
{
    if (!s->is_device_up) {
        return;
    }
    if (!s->is_believed_valid && !s->is_reading && s->read_at_ms <= s->now_ms) {
        start_read(s);
    }
    if (s->config_id != 0 && s->config_deadline_ms <= s->now_ms) {
        struct driver_done done = { .id = s->config_id, .rc = RC_TIMEOUT };

        err_set(&done.err, RC_TIMEOUT, "no answer from the device");
        config_done(s, &done);
    }
    for (struct flight *f = s->flights; f; f = f->next) {
        if (!f->is_sent || f->is_done || f->is_late || f->deadline_ms > s->now_ms) {
            continue;
        }
        session_log(s, 2 /* LOG_WARN */, "device write late", "id=%llu",
                    (unsigned long long)f->id);
        f->is_late = true;
        if (s->is_believed_valid && all_rows_failed(s, f, EXCEPTION_UNKNOWN) != RC_OK) {
            s->is_out_of_memory = true;
            device_read_again(s);
        }
    }
    retire_flights(s);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t device_next_wake(const struct session *s)
{
    uint64_t at = UINT64_MAX;

    if (!s->is_device_up) {
        return at;
    }
    if (!s->is_believed_valid && !s->is_reading) {
        at = earlier(at, s->read_at_ms);
    }
    for (const struct flight *f = s->flights; f; f = f->next) {
        if (f->is_sent && !f->is_done && !f->is_late) {
            at = earlier(at, f->deadline_ms);
            break;
        }
    }
    if (!s->is_believed_valid || !s->is_assigned || s->awaits_assign) {
        return at;
    }
    if (s->config_id != 0) {
        at = earlier(at, s->config_deadline_ms);
    } else if (s->device_config && s->config_digest != s->device.config_digest) {
        at = earlier(at, s->config_at_ms);
    }
    if (!s->flights && !s->inbox && s->retry_at_ms != 0) {
        at = earlier(at, s->retry_at_ms);
    }
    return at;
}
