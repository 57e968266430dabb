#include "agent/driver/p4rt_writer.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/p4rt/p4rt_codec.h"

#define PATH_WRITE "/p4.v1.P4Runtime/Write"

/* One WriteRequest, or one mark. */
struct item {
    TAILQ_ENTRY(item) next;
    struct p4rt_writer *writer;
    uint64_t segment; /* barriers before it */
    uint64_t mark;    /* not 0: a mark */
    uint8_t device;
    bool is_sent;
    uint32_t updates;
    struct buf body; /* WriteRequest.updates */
};

TAILQ_HEAD(items, item);

struct p4rt_writer {
    struct p4rt_switch *sw;
    struct event *kick;
    struct p4rt_writer_options options;
    const struct p4rt_writer_events *events;
    void *ctx;
    struct items items;   /* in order; answered requests are taken out */
    struct items dropped; /* sent, and of no interest any more */
    struct item
        *open[P4RT_DEVICES_MAX]; /* the last of each device, while it may grow */
    uint64_t segment;
    uint32_t flying[P4RT_DEVICES_MAX];
    size_t bytes;
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

static void item_free(struct item *it)
{
    buf_fini(&it->body);
    free(it);
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

static struct item *item_add(struct p4rt_writer *w)
{
    struct item *it = calloc(1, sizeof(*it));

    if (!it) {
        fail_no_memory(w);
        return NULL;
    }
    it->writer = w;
    it->segment = w->segment;
    TAILQ_INSERT_TAIL(&w->items, it, next);
    kick(w);
    return it;
}

/* The request of `device` that the next update goes into. */
static struct item *request_for(struct p4rt_writer *w, unsigned device)
{
    struct item *it = w->open[device];

    if (!it || it->is_sent || it->body.len >= w->options.request_bytes ||
        it->updates >= w->options.request_updates) {
        it = item_add(w);
        w->open[device] = it;
        if (it) {
            it->device = (uint8_t)device;
        }
    }
    return it;
}

typedef void add_update(struct item *it, const void *what);

static void add_to(struct p4rt_writer *w, unsigned device, add_update *add,
                   const void *what)
{
    struct item *it = request_for(w, device);
    size_t before;

    if (!it) {
        return;
    }
    before = it->body.len;
    add(it, what);
    it->updates++;
    w->bytes += it->body.len - before;
    if (buf_failed(&it->body)) {
        fail_no_memory(w);
    }
}

static void add(struct p4rt_writer *w, uint8_t half, add_update *add_one,
                const void *what)
{
    unsigned devices = p4rt_switch_devices(w->sw);

    if (w->is_stopping) {
        return;
    }
    for (unsigned i = 0; i < devices; i++) {
        if (devices == 1 || half == PHYS_BOTH || half == i) {
            add_to(w, i, add_one, what);
        }
    }
}

static void add_entry(struct item *it, const void *what)
{
    const struct phys_write *write = what;

    p4rt_write_entry(&it->body, (enum phys_op)write->op, &write->entry);
}

static void add_meter(struct item *it, const void *what)
{
    const struct phys_meter_write *write = what;
    struct p4rt_entity cell = { .kind = P4RT_METER,
                                .has_index = true,
                                .index = write->index,
                                .config = write->config };

    cell.id = p4rt_switch_info(it->writer->sw)->meter_id[write->meter];
    cell.has_config = write->config.cir != 0 || write->config.cburst != 0 ||
                      write->config.pir != 0 || write->config.pburst != 0;
    p4rt_write_cell(&it->body, &cell);
}

void p4rt_writer_entry(struct p4rt_writer *w, const struct phys_write *write)
{
    if (write->barrier) {
        p4rt_writer_barrier(w);
    }
    add(w, write->entry.half, add_entry, write);
}

void p4rt_writer_meter(struct p4rt_writer *w, const struct phys_meter_write *write)
{
    if (write->barrier) {
        p4rt_writer_barrier(w);
    }
    add(w, write->half, add_meter, write);
}

void p4rt_writer_barrier(struct p4rt_writer *w)
{
    struct item *last = TAILQ_LAST(&w->items, items);

    if (last && last->segment == w->segment) {
        w->segment++;
        memset(w->open, 0, sizeof(w->open));
    }
}

void p4rt_writer_mark(struct p4rt_writer *w, uint64_t mark)
{
    struct item *it = w->is_stopping ? NULL : item_add(w);

    if (it) {
        it->mark = mark;
    }
    memset(w->open, 0, sizeof(w->open)); /* what comes later is not before it */
}

/* ---- answers ---- */

static uint64_t mark_behind(struct item *it)
{
    while (it && it->mark == 0) {
        it = TAILQ_NEXT(it, next);
    }
    return it ? it->mark : 0;
}

/* "insert vm_nc" of the index-th update, for people; and its table. */
static void name_update(const struct item *it, size_t index, char *to, size_t size,
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

static void judge_update(const struct item *it, const struct p4rt_failure *f,
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
static bool judge(struct item *it, const struct rpc_status *status,
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
    struct item *it = arg;
    struct p4rt_writer *w = it->writer;
    struct p4rt_outcome outcome;

    (void)reply;
    w->flying[it->device]--;
    w->bytes_flying -= it->body.len;
    if (it->segment == UINT64_MAX) { /* dropped */
        TAILQ_REMOVE(&w->dropped, it, next);
        item_free(it);
        kick(w);
        return;
    }
    w->updates += it->updates;
    w->bytes -= it->body.len;
    if (judge(it, status, &outcome)) {
        fail(w, &outcome);
    }
    TAILQ_REMOVE(&w->items, it, next);
    item_free(it);
    kick(w);
}

/* ---- sending ---- */

static bool send_item(struct p4rt_writer *w, struct item *it)
{
    struct p4rt_write_head head = { .election_high = p4rt_switch_term(w->sw) };
    struct rpc_call_options options = { .deadline_ms = w->options.deadline_ms };
    struct buf front = BUF_INIT;
    struct rpc_part parts[2];
    enum rc rc = RC_NO_MEMORY;

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
    w->flying[it->device]++;
    w->bytes_flying += it->body.len;
    return true;
}

/* Sends what stands before the next barrier, as far as the window goes. */
static void send_some(struct p4rt_writer *w)
{
    struct item *first = TAILQ_FIRST(&w->items);
    struct item *it;

    TAILQ_FOREACH(it, &w->items, next)
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
    struct item *it;

    while (!w->is_stopping && (it = TAILQ_FIRST(&w->items)) != NULL && it->mark != 0) {
        uint64_t mark = it->mark;

        TAILQ_REMOVE(&w->items, it, next);
        item_free(it);
        w->events->reached(w->ctx, mark);
    }
}

static void forget_unsent(struct p4rt_writer *w)
{
    struct item *it = TAILQ_FIRST(&w->items);

    while (it) {
        struct item *next = TAILQ_NEXT(it, next);

        if (!it->is_sent) {
            TAILQ_REMOVE(&w->items, it, next);
            w->bytes -= it->body.len;
            item_free(it);
        }
        it = next;
    }
    memset(w->open, 0, sizeof(w->open));
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
        struct item *it;

        /* Marks are kept until here: a late failure looks for the one behind it. */
        TAILQ_FOREACH(it, &w->items, next)
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
    if (!TAILQ_EMPTY(&w->items) && p4rt_switch_is_primary(w->sw)) {
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
    return TAILQ_EMPTY(&w->items) && !w->is_stopping;
}

size_t p4rt_writer_bytes(const struct p4rt_writer *w)
{
    return w->bytes;
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
    struct item *it;

    forget_unsent(w);
    while ((it = TAILQ_FIRST(&w->items)) != NULL) {
        TAILQ_REMOVE(&w->items, it, next);
        it->segment = UINT64_MAX;
        TAILQ_INSERT_TAIL(&w->dropped, it, next);
    }
    w->bytes = 0;
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
    TAILQ_INIT(&w->items);
    TAILQ_INIT(&w->dropped);
    w->kick = event_new(rpc_loop_base(loop), -1, 0, on_kick, w);
    if (!w->kick) {
        free(w);
        return NULL;
    }
    return w;
}
