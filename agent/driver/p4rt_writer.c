#include "agent/driver/p4rt_writer.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/p4rt/p4rt_codec.h"

#define PATH_WRITE "/p4.v1.P4Runtime/Write"

struct p4rt_writer {
    struct p4rt_switch *sw;
    struct event *kick;
    struct p4rt_writer_options options;
    const struct p4rt_writer_events *events;
    void *ctx;
    struct p4rt_requests requests; /* answered ones are taken out */
    struct p4rt_items dropped;     /* sent, and of no interest any more */
    uint32_t flying[P4RT_DEVICES_MAX];
    size_t bytes_flying;
    size_t bytes_told; /* what that was when `moved` was told last */
    uint64_t updates;
    bool is_stopping;
    bool is_closing;
    struct p4rt_outcome first;
};

static void kick(struct p4rt_writer *w)
{
    event_active(w->kick, EV_TIMEOUT, 0);
}

/* ---- adding ---- */

static void fail(struct p4rt_writer *w, const struct p4rt_outcome *o)
{
    if (!w->is_stopping) {
        w->is_stopping = true;
        w->first = *o;
    }
    kick(w);
}

static void fail_no_memory(struct p4rt_writer *w)
{
    struct p4rt_outcome o = { 0 };

    err_set(&o.err, RC_NO_MEMORY, "switch: no memory for a request");
    fail(w, &o);
}

/* Something was added, or could not be. */
static void added(struct p4rt_writer *w)
{
    if (w->requests.failed) {
        w->requests.failed = false;
        fail_no_memory(w);
    }
    kick(w);
}

/* What the switch says of itself, which may be another one by now. */
static struct p4rt_requests *tuned(struct p4rt_writer *w)
{
    w->requests.options = p4rt_writer_packing(w);
    return &w->requests;
}

struct p4rt_requests_options p4rt_writer_packing(const struct p4rt_writer *w)
{
    struct p4rt_requests_options o = { .request_bytes = w->options.request_bytes,
                                       .request_updates = w->options.request_updates,
                                       .devices = p4rt_switch_devices(w->sw) };

    memcpy(o.meter_id, p4rt_switch_info(w->sw)->meter_id, sizeof(o.meter_id));
    return o;
}

void p4rt_writer_entry(struct p4rt_writer *w, const struct phys_write *write)
{
    if (!w->is_stopping) {
        p4rt_requests_entry(tuned(w), write);
        added(w);
    }
}

void p4rt_writer_meter(struct p4rt_writer *w, const struct phys_meter_write *write)
{
    if (!w->is_stopping) {
        p4rt_requests_meter(tuned(w), write);
        added(w);
    }
}

void p4rt_writer_barrier(struct p4rt_writer *w)
{
    p4rt_requests_barrier(&w->requests);
}

void p4rt_writer_mark(struct p4rt_writer *w, uint64_t mark)
{
    if (!w->is_stopping) {
        p4rt_requests_mark(&w->requests, mark);
        added(w);
    }
}

void p4rt_writer_take(struct p4rt_writer *w, struct p4rt_requests *more)
{
    if (w->is_stopping) {
        p4rt_requests_clear(more);
        return;
    }
    p4rt_requests_append(&w->requests, more);
    added(w);
}

/* ---- answers ---- */

static uint64_t mark_behind(struct p4rt_item *it)
{
    while (it && it->mark == 0) {
        it = TAILQ_NEXT(it, next);
    }
    return it ? it->mark : 0;
}

/* "insert vm_nc" of the index-th update, for people; and its table. */
static void name_update(const struct p4rt_item *it, size_t index, char *to, size_t size,
                        uint8_t *ret_table)
{
    struct p4rt_cursor c = { reader_of(it->body.data, it->body.len), 4 };
    struct p4rt_piece piece;
    struct p4rt_entity e;
    enum phys_op op;
    static const char *const ops[] = { "", "insert", "modify", "delete" };

    snprintf(to, size, "update %zu", index);
    for (size_t i = 0; p4rt_next(&c, &piece); i++) {
        if (i == index && p4rt_update_decode(piece, &op, &e, NULL) == RC_OK) {
            *ret_table = e.kind == P4RT_TABLE ? e.entry.table : PHYS_TABLES;
            snprintf(to, size, "%s %s", ops[op],
                     e.kind == P4RT_TABLE
                         ? phys_table_desc((enum phys_table)e.entry.table)->name
                         : "meter");
        }
    }
}

/* Codes of an update that say something of it and not of what the tables hold.  The
 * others are for a read-back to clear up. */
static bool is_refusal(enum rpc_code code)
{
    return code == RPC_RESOURCE_EXHAUSTED || code == RPC_INVALID_ARGUMENT ||
           code == RPC_OUT_OF_RANGE || code == RPC_UNIMPLEMENTED;
}

static void judge_update(const struct p4rt_item *it, const struct p4rt_failure *f,
                         struct p4rt_outcome *ret)
{
    char what[48];

    name_update(it, f->index, what, sizeof(what), &ret->table);
    ret->is_known = true;
    ret->is_refusal = is_refusal(f->code);
    ret->is_full = f->code == RPC_RESOURCE_EXHAUSTED;
    ret->is_not_primary = f->code == RPC_PERMISSION_DENIED;
    err_set(&ret->err, rpc_rc_of_code(f->code), "switch: %s: %s: %s", what,
            rpc_code_name(f->code), f->message);
}

/* What the answer says; false: all is done. */
static bool judge(struct p4rt_item *it, const struct rpc_status *status,
                  struct p4rt_outcome *ret)
{
    struct p4rt_failure first;
    uint8_t *codes;
    enum rc rc;

    if (status->code == RPC_OK) {
        return false;
    }
    *ret = (struct p4rt_outcome){ .mark = mark_behind(it),
                                  .table = PHYS_TABLES,
                                  .device = it->device };
    codes = malloc(it->updates ? it->updates : 1);
    rc = codes && status->details
             ? p4rt_errors_decode(status->details, status->details_len, codes,
                                  it->updates, &first)
             : RC_NOT_FOUND;
    free(codes);
    if (rc == RC_OK && first.index < it->updates) {
        judge_update(it, &first, ret);
        return true;
    }
    rpc_status_to_err(status, &ret->err);
    err_wrap(&ret->err, ret->err.code, "switch: write of %u updates: %s", it->updates,
             rpc_code_name(status->code));
    /* Refused as a whole before anything was tried: specification, Error Reporting. */
    ret->is_not_primary = status->code == RPC_PERMISSION_DENIED;
    ret->is_known = ret->is_not_primary || status->code == RPC_FAILED_PRECONDITION ||
                    status->code == RPC_NOT_FOUND;
    return true;
}

static void on_written(const struct rpc_status *status, const struct rpc_msg *reply,
                       void *arg)
{
    struct p4rt_item *it = arg;
    struct p4rt_writer *w = it->owner;
    struct p4rt_outcome outcome;

    (void)reply;
    w->flying[it->device]--;
    w->bytes_flying -= it->body.len;
    if (it->segment == UINT64_MAX) { /* dropped */
        TAILQ_REMOVE(&w->dropped, it, next);
        p4rt_item_free(it);
        kick(w);
        return;
    }
    w->updates += it->updates;
    w->requests.bytes -= it->body.len;
    if (judge(it, status, &outcome)) {
        fail(w, &outcome);
    }
    TAILQ_REMOVE(&w->requests.items, it, next);
    p4rt_item_free(it);
    kick(w);
}

/* ---- sending ---- */

static bool send_item(struct p4rt_writer *w, struct p4rt_item *it)
{
    struct p4rt_write_head head = { .election_high = p4rt_switch_term(w->sw) };
    struct rpc_call_options options = { .deadline_ms = w->options.deadline_ms };
    struct buf front = BUF_INIT;
    struct rpc_part parts[2];
    enum rc rc = RC_NO_MEMORY;

    it->owner = w;
    head.device_id = p4rt_switch_device_id(w->sw, it->device);
    p4rt_write_begin(&front, &head);
    parts[0] = (struct rpc_part){ .data = front.data, .len = front.len };
    parts[1] = (struct rpc_part){ .data = it->body.data, .len = it->body.len };
    if (!buf_failed(&front)) {
        rc = rpc_unary(p4rt_switch_channel(w->sw), PATH_WRITE, parts, 2, &options,
                       on_written, it, NULL);
    }
    buf_fini(&front);
    if (rc != RC_OK) {
        fail_no_memory(w);
        return false;
    }
    it->is_sent = true;
    if (w->requests.open[it->device] == it) {
        w->requests.open[it->device] = NULL; /* it grows no more */
    }
    w->flying[it->device]++;
    w->bytes_flying += it->body.len;
    return true;
}

/* Sends what stands before the next barrier, as far as the window goes. */
static void send_some(struct p4rt_writer *w)
{
    struct p4rt_item *first = TAILQ_FIRST(&w->requests.items);
    struct p4rt_item *it;

    TAILQ_FOREACH(it, &w->requests.items, next)
    {
        if (it->segment != first->segment) {
            return;
        }
        if (it->mark == 0 && !it->is_sent &&
            w->flying[it->device] < w->options.window && !send_item(w, it)) {
            return;
        }
    }
}

/* Marks at the front are reached. */
static void tell_reached(struct p4rt_writer *w)
{
    struct p4rt_item *it;

    while (!w->is_stopping && (it = TAILQ_FIRST(&w->requests.items)) != NULL &&
           it->mark != 0) {
        uint64_t mark = it->mark;

        TAILQ_REMOVE(&w->requests.items, it, next);
        p4rt_item_free(it);
        w->events->reached(w->ctx, mark);
    }
}

static void forget_unsent(struct p4rt_writer *w)
{
    struct p4rt_item *it = TAILQ_FIRST(&w->requests.items);

    while (it) {
        struct p4rt_item *next = TAILQ_NEXT(it, next);

        if (!it->is_sent) {
            TAILQ_REMOVE(&w->requests.items, it, next);
            w->requests.bytes -= it->body.len;
            p4rt_item_free(it);
        }
        it = next;
    }
    memset(w->requests.open, 0, sizeof(w->requests.open));
}

static void stop(struct p4rt_writer *w)
{
    struct p4rt_outcome first = w->first;

    w->is_stopping = false;
    w->events->stopped(w->ctx, &first);
}

static void writer_fini(struct p4rt_writer *w)
{
    event_free(w->kick);
    free(w);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
    struct p4rt_writer *w = arg;

    (void)fd;
    (void)what;
    if (w->is_closing) {
        if (TAILQ_EMPTY(&w->dropped)) {
            writer_fini(w);
        }
        return;
    }
    if (w->is_stopping) {
        struct p4rt_item *it;

        /* Marks are kept until here: a late failure looks for the one behind it. */
        TAILQ_FOREACH(it, &w->requests.items, next)
        {
            if (it->is_sent) {
                return;
            }
        }
        forget_unsent(w);
        stop(w);
        return;
    }
    tell_reached(w);
    if (!TAILQ_EMPTY(&w->requests.items) && p4rt_switch_is_primary(w->sw)) {
        send_some(w);
    }
    if (w->bytes_flying != w->bytes_told) {
        w->bytes_told = w->bytes_flying;
        w->events->moved(w->ctx);
    }
}

/* ---- life ---- */

bool p4rt_writer_is_idle(const struct p4rt_writer *w)
{
    return TAILQ_EMPTY(&w->requests.items) && !w->is_stopping;
}

size_t p4rt_writer_bytes(const struct p4rt_writer *w)
{
    return w->requests.bytes;
}

size_t p4rt_writer_flying(const struct p4rt_writer *w)
{
    return w->bytes_flying;
}

uint64_t p4rt_writer_updates(const struct p4rt_writer *w)
{
    return w->updates;
}

void p4rt_writer_drop(struct p4rt_writer *w)
{
    struct p4rt_item *it;

    forget_unsent(w);
    while ((it = TAILQ_FIRST(&w->requests.items)) != NULL) {
        TAILQ_REMOVE(&w->requests.items, it, next);
        it->segment = UINT64_MAX;
        TAILQ_INSERT_TAIL(&w->dropped, it, next);
    }
    w->requests.bytes = 0;
    w->is_stopping = false;
}

void p4rt_writer_free(struct p4rt_writer *w)
{
    if (w) {
        p4rt_writer_drop(w);
        w->is_closing = true;
        kick(w);
    }
}

struct p4rt_writer *p4rt_writer_new(struct p4rt_switch *sw, struct rpc_loop *loop,
                                    const struct p4rt_writer_options *options,
                                    const struct p4rt_writer_events *events, void *ctx)
{
    struct p4rt_writer *w = calloc(1, sizeof(*w));
    struct p4rt_requests_options packing;

    if (!w) {
        return NULL;
    }
    w->sw = sw;
    w->events = events;
    w->ctx = ctx;
    w->options = *options;
    w->options.request_bytes =
        options->request_bytes ? options->request_bytes : 1u << 20;
    w->options.request_updates =
        options->request_updates ? options->request_updates : 8192;
    w->options.window = options->window ? options->window : 4;
    w->options.deadline_ms = options->deadline_ms ? options->deadline_ms : 10000;
    TAILQ_INIT(&w->dropped);
    packing = p4rt_writer_packing(w);
    p4rt_requests_init(&w->requests, &packing);
    w->kick = event_new(rpc_loop_base(loop), -1, 0, on_kick, w);
    if (!w->kick) {
        free(w);
        return NULL;
    }
    return w;
}
