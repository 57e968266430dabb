#include "agent/driver/p4rt_reader.h"

#include <stdlib.h>

#include "agent/p4rt/p4rt_codec.h"

#define PATH_READ "/p4.v1.P4Runtime/Read"

/* A read-back of a full switch takes seconds; this is for one that hangs. */
#define READ_MS 120000

struct stream {
    struct p4rt_read *read;
    struct rpc_call *call;
    uint8_t device;
};

struct p4rt_read {
    struct p4rt_switch *sw;
    const struct p4rt_read_events *events;
    void *ctx;
    struct stream streams[P4RT_DEVICES_MAX];
    unsigned running;
    bool is_cancelled;
    struct err err; /* the first */
};

static void fail(struct p4rt_read *r, const struct err *err)
{
    if (r->err.code == RC_OK) {
        r->err = *err;
    }
    for (unsigned i = 0; i < P4RT_DEVICES_MAX; i++) {
        if (r->streams[i].call) {
            rpc_call_cancel(r->streams[i].call, RPC_CANCELLED, "read given up");
        }
    }
}

/* Which meter one of this id is; -1: none of ours. */
static int meter_of(const struct p4rt_info *info, uint32_t id)
{
    for (int i = 0; i < PHYS_METERS; i++) {
        if (info->meter_id[i] == id) {
            return i;
        }
    }
    return -1;
}

static void tell(struct stream *st, struct p4rt_entity *e)
{
    struct p4rt_read *r = st->read;

    if (e->kind == P4RT_TABLE && !e->is_default) {
        e->entry.half = st->device;
        r->events->entry(r->ctx, &e->entry);
    } else if (e->kind == P4RT_COUNTER && r->events->counter) {
        int counter = p4rt_info_counter(p4rt_switch_info(r->sw), e->id);

        if (counter >= 0) {
            r->events->counter(r->ctx, (enum phys_counter)counter, st->device, e->index,
                               e->packets, e->bytes);
        }
    } else if (e->kind == P4RT_METER && r->events->meter) {
        int meter = meter_of(p4rt_switch_info(r->sw), e->id);

        if (meter >= 0) {
            r->events->meter(r->ctx, (enum phys_meter)meter, st->device, e->index,
                             &e->config);
        }
    }
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct stream *st = rpc_call_arg(call);
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity e;
    struct err err = { 0 };
    enum rc rc;

    if (st->read->is_cancelled || st->read->err.code != RC_OK) {
        return;
    }
    rc = p4rt_response_open(msg->data, msg->len, &c, &err);
    while (rc == RC_OK && p4rt_next(&c, &piece)) {
        rc = p4rt_entity_decode(piece, &e, &err);
        if (rc == RC_OK) {
            tell(st, &e);
        }
    }
    if (rc != RC_OK) {
        err_wrap(&err, rc, "switch: device %llu: read back",
                 (unsigned long long)p4rt_switch_device_id(st->read->sw, st->device));
        fail(st->read, &err);
    }
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct stream *st = rpc_call_arg(call);
    struct p4rt_read *r = st->read;
    struct err err = { 0 };

    st->call = NULL;
    if (rpc_status_to_err(status, &err) != RC_OK && !r->is_cancelled) {
        err_wrap(&err, err.code, "switch: device %llu: read",
                 (unsigned long long)p4rt_switch_device_id(r->sw, st->device));
        fail(r, &err);
    }
    if (--r->running > 0) {
        return;
    }
    if (!r->is_cancelled) {
        r->events->end(r->ctx, r->err.code, &r->err);
    }
    free(r);
}

typedef void add_queries(struct buf *to, const struct p4rt_read *r, const void *arg);

static void add_tables(struct buf *to, const struct p4rt_read *r, const void *arg)
{
    (void)r;
    (void)arg;
    for (unsigned i = 0; i < PHYS_TABLES; i++) {
        struct p4rt_query q = { .kind = P4RT_TABLE };

        q.id = phys_table_desc((enum phys_table)i)->id;
        p4rt_read_add(to, &q);
    }
}

static void add_state(struct buf *to, const struct p4rt_read *r, const void *arg)
{
    static const uint32_t rows[] = { PHYS_NC_STATE_BOOT, PHYS_NC_STATE_APPLIED };

    (void)r;
    (void)arg;
    for (unsigned i = 0; i < 2; i++) {
        struct p4rt_query q = { .kind = P4RT_TABLE, .has_key = true };

        q.entry.table = PHYS_NC;
        q.entry.key[0] = (uint8_t)(rows[i] >> 16);
        q.entry.key[1] = (uint8_t)(rows[i] >> 8);
        q.entry.key[2] = (uint8_t)rows[i];
        p4rt_read_add(to, &q);
    }
}

static void add_counter(struct buf *to, const struct p4rt_read *r,
                        const struct p4rt_cells *cells)
{
    const uint32_t *ids = p4rt_switch_info(r->sw)->counter_id[cells->counter];

    for (unsigned part = 0; part < P4RT_COUNTER_PARTS && ids[part] != 0; part++) {
        struct p4rt_query q = { .kind = P4RT_COUNTER, .has_index = cells->index };

        q.id = ids[part];
        for (uint32_t i = 0; i < (cells->index ? cells->count : 1); i++) {
            q.index = cells->index ? cells->index[i] : 0;
            p4rt_read_add(to, &q);
        }
    }
}

struct counters {
    const struct p4rt_cells *cells;
    unsigned count;
};

static void add_counters(struct buf *to, const struct p4rt_read *r, const void *arg)
{
    const struct counters *counters = arg;

    for (unsigned i = 0; i < counters->count; i++) {
        add_counter(to, r, &counters->cells[i]);
    }
}

struct indexes {
    const uint32_t *index;
    uint32_t count;
};

static void add_meters(struct buf *to, const struct p4rt_read *r, const void *arg)
{
    const uint32_t *ids = p4rt_switch_info(r->sw)->meter_id;
    const struct indexes *of_vnis = arg;

    for (unsigned meter = 0; meter < PHYS_METERS; meter++) {
        struct p4rt_query q = { .kind = P4RT_METER, .id = ids[meter] };

        q.has_index = meter == PHYS_METER_VNI;
        for (uint32_t i = 0; i < (q.has_index ? of_vnis->count : 1); i++) {
            q.index = q.has_index ? of_vnis->index[i] : 0;
            p4rt_read_add(to, &q);
        }
    }
}

static enum rc ask(struct p4rt_read *r, unsigned device, add_queries *add,
                   const void *arg)
{
    static const struct rpc_call_ops ops = { .on_message = on_message,
                                             .on_closed = on_closed };
    struct rpc_call_options options = { .deadline_ms = READ_MS };
    struct stream *st = &r->streams[device];
    struct buf request = BUF_INIT;
    enum rc rc = RC_NO_MEMORY;

    st->read = r;
    st->device = (uint8_t)device;
    p4rt_read_begin(&request, p4rt_switch_device_id(r->sw, (uint8_t)device));
    add(&request, r, arg);
    if (!buf_failed(&request)) {
        rc = rpc_stream(p4rt_switch_channel(r->sw), PATH_READ, &options, &ops, st,
                        &st->call);
    }
    if (rc == RC_OK) {
        r->running++;
        rc = rpc_call_send_bytes(st->call, request.data, request.len);
        rpc_call_close_send(st->call);
    }
    buf_fini(&request);
    return rc;
}

static struct p4rt_read *start(struct p4rt_switch *sw,
                               const struct p4rt_read_events *events, void *ctx,
                               add_queries *add, const void *arg)
{
    struct p4rt_read *r = calloc(1, sizeof(*r));

    if (!r) {
        return NULL;
    }
    r->sw = sw;
    r->events = events;
    r->ctx = ctx;
    for (unsigned i = 0; i < p4rt_switch_devices(sw); i++) {
        if (ask(r, i, add, arg) != RC_OK) {
            if (r->running == 0) {
                free(r);
            } else {
                p4rt_read_cancel(r);
            }
            return NULL;
        }
    }
    return r;
}

struct p4rt_read *p4rt_read_tables(struct p4rt_switch *sw,
                                   const struct p4rt_read_events *events, void *ctx)
{
    return start(sw, events, ctx, add_tables, NULL);
}

struct p4rt_read *p4rt_read_state(struct p4rt_switch *sw,
                                  const struct p4rt_read_events *events, void *ctx)
{
    return start(sw, events, ctx, add_state, NULL);
}

struct p4rt_read *p4rt_read_counter(struct p4rt_switch *sw, enum phys_counter counter,
                                    const struct p4rt_read_events *events, void *ctx)
{
    const struct p4rt_cells all = { .counter = counter };

    return p4rt_read_cells(sw, &all, 1, events, ctx);
}

struct p4rt_read *p4rt_read_cells(struct p4rt_switch *sw,
                                  const struct p4rt_cells cells[], unsigned count,
                                  const struct p4rt_read_events *events, void *ctx)
{
    const struct counters some = { cells, count };

    return start(sw, events, ctx, add_counters, &some);
}

struct p4rt_read *p4rt_read_meters(struct p4rt_switch *sw, const uint32_t index[],
                                   uint32_t count,
                                   const struct p4rt_read_events *events, void *ctx)
{
    const struct indexes of_vnis = { index, count };

    return start(sw, events, ctx, add_meters, &of_vnis);
}

void p4rt_read_cancel(struct p4rt_read *r)
{
    if (r) {
        struct err err;

        r->is_cancelled = true;
        err_set(&err, RC_UNREACHABLE, "given up");
        fail(r, &err);
    }
}
