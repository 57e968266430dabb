#include "agent/session/session_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- writes on their way ---- */

void flight_free(struct flight *f)
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

void flights_drop_unsent(struct session *s)
{
    struct flight **at = &s->flights;

    while (*at) {
        struct flight *f = *at;

        if (f->id != 0 && !f->is_sent) {
            *at = f->next;
            flight_free(f);
        } else {
            at = &f->next;
        }
    }
    s->flights_end = at;
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

    if (batch_writer_bytes(w) == 0 ||
        (!is_last && batch_writer_bytes(w) < PIECE_BYTES)) {
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
    audit_touch(s, &changes);
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

    rc = rc ? rc : audit_wished(s, b->ops);
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

/* ---- sending ---- */

void flights_send(struct session *s)
{
    for (struct flight *f = s->flights; f && s->sent_count < s->config.writes_in_flight;
         f = f->next) {
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

bool device_lacks_state(const struct session *s)
{
    return (s->want_applied != 0 && s->device.applied != s->want_applied) ||
           (s->want_ready && !s->device.ready && !s->has_config_failed);
}

static uint32_t rows_in(const struct blob *ops)
{
    struct batch_reader r = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    uint32_t n = 0;

    while (batch_next(&r, &run)) {
        n += run.count;
    }
    return n;
}

/* Tries again what failed, once nothing else is on its way. */
void flights_retry(struct session *s)
{
    struct flight *f = NULL;
    struct blob *ops = NULL;
    uint32_t count = 0;
    enum rc rc = RC_OK;

    if (s->flights || s->inbox || s->config_id != 0 ||
        (!exceptions_can_retry(s) && !device_lacks_state(s))) {
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
        count = ops ? rows_in(ops) : 0;
        blob_unref(ops);
    }
    if (rc == RC_OK && !f && device_lacks_state(s)) {
        f = flight_add(s, NULL);
        if (f) {
            f->id = ++s->last_id;
        }
    }
    if (rc != RC_OK) {
        s->is_out_of_memory = true;
        device_read_again(s);
    } else if (!f) {
        s->must_ack = true; /* nothing was left to do */
    } else {
        f->is_retry = true;
        f->retry_rows = count;
        f->revision = s->want_applied;
        f->ready = s->want_ready;
    }
}
