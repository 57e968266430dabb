/* What anybody may ask: status, counters, and what the tables hold. */
#include "agent/gateway/control_internal.h"
#include "agent/gateway/report.h"

#include <stdlib.h>
#include <string.h>

#define READ_CHUNK      (128u << 10) /* a message; gRPC is quickest from 32 to 256 KiB */
#define READ_ROWS       4096         /* a turn: 2 to 3 ms of work */
#define READ_ROWS_FIELD 15

static struct control *control_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

static uint64_t tables_bytes(const struct control *c)
{
    const struct device *d = c->config.device;

    return fib_stats(d->fib).memory_bytes + table_set_memory(d->records);
}

void control_fill_status(const struct control *c, Xgw__Gateway__V1__Status *status,
                         uint64_t entries[TABLE_COUNT], uint64_t capacity[TABLE_COUNT])
{
    const struct device *d = c->config.device;

    for (int table = 0; table < TABLE_COUNT; table++) {
        entries[table] = table_set_count(d->records, (enum table_id)table);
        capacity[table] = device_capacity(d, (enum table_id)table);
    }
    status->boot_id = d->boot_id;
    status->term = d->term;
    status->applied = d->applied;
    status->writes = d->writes;
    status->ready = atomic_load(&d->is_ready);
    status->config_digest = d->config_digest;
    status->version = control_text(XGW_VERSION);
    status->entries = entries;
    status->n_entries = TABLE_COUNT;
    status->capacity = capacity;
    status->n_capacity = TABLE_COUNT;
    status->memory_bytes = tables_bytes(c);
    status->uptime_seconds = (double)(program_now_ms() - c->started_ms) / 1000.0;
}

static void on_get_status(struct rpc_call *call, const struct rpc_msg *msg)
{
    Xgw__Gateway__V1__Status status = XGW__GATEWAY__V1__STATUS__INIT;
    uint64_t entries[TABLE_COUNT];
    uint64_t capacity[TABLE_COUNT];

    (void)msg; /* the request is empty; unknown fields are the future's */
    control_fill_status(control_of(call), &status, entries, capacity);
    rpc_pb_reply(call, &status.base);
}

/* ---- counters ---- */

struct counters {
    Xgw__Gateway__V1__TableUse tables[TABLE_COUNT];
    Xgw__Gateway__V1__TableUse *table_list[TABLE_COUNT];
    struct report parts;
    struct fwd_totals totals;
    Xgw__Gateway__V1__DropCounter drops[DROP_COUNT];
    Xgw__Gateway__V1__DropCounter *drop_list[DROP_COUNT];
};

/* Of the tables that this gateway holds; returns how many. */
static unsigned fill_tables(const struct control *c, struct counters *k)
{
    const struct device *d = c->config.device;
    unsigned count = 0;

    for (unsigned table = 0; table < TABLE_COUNT; table++) {
        if (!(d->table_mask >> table & 1)) {
            continue;
        }
        xgw__gateway__v1__table_use__init(&k->tables[count]);
        k->tables[count].name = control_text(table_name((enum table_id)table));
        k->tables[count].used = table_set_count(d->records, (enum table_id)table);
        k->tables[count].capacity = device_capacity(d, (enum table_id)table);
        k->table_list[count] = &k->tables[count];
        count++;
    }
    return count;
}

static void on_get_counters(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct control *c = control_of(call);
    Xgw__Gateway__V1__Counters reply = XGW__GATEWAY__V1__COUNTERS__INIT;
    struct counters *k = calloc(1, sizeof(*k));

    (void)msg;
    if (!k) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    for (unsigned i = 0; i < c->config.worker_count; i++) {
        fwd_worker_sum(&c->config.workers[i].fwd, &k->totals);
    }
    k->totals.drops[DROP_NO_BUFFER] +=
        report_lost(c->config.workers, c->config.worker_count, c->config.ports);
    report_parts(&k->parts, c->config.workers, c->config.worker_count, c->config.ports,
                 &reply);
    for (unsigned i = 1; i < DROP_COUNT; i++) {
        xgw__gateway__v1__drop_counter__init(&k->drops[i]);
        k->drops[i].reason = control_text(drop_reason_name(i));
        k->drops[i].packets = k->totals.drops[i];
        k->drop_list[i - 1] = &k->drops[i];
    }
    reply.drops = k->drop_list;
    reply.n_drops = DROP_COUNT - 1;
    reply.forwarded = k->totals.forwarded;
    reply.icmp_sent = k->totals.icmp_sent;
    reply.local = k->totals.local;
    reply.tables = k->table_list;
    reply.n_tables = fill_tables(c, k);
    reply.tables_bytes = tables_bytes(c);
    rpc_pb_reply(call, &reply.base);
    free(k);
}

static void on_get_top(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct control *c = control_of(call);

    report_top(call, &c->arena, &c->top, msg);
}

/* ---- read-back ---- */

/* One call of Read.  It works in turns of READ_ROWS rows, each a turn of the loop, so
 * that ARP and the writer never wait for more than one. */
struct reading {
    struct control *control;
    struct rpc_call *call;
    struct event *turn;
    struct device_reading at;
    struct batch_writer writer;
    bool is_through;
};

static void next_turn(struct reading *r)
{
    static const struct timeval at_once = { 0, 0 };

    event_add(r->turn, &at_once); /* behind what the loop has to do by then */
}

static enum rc send_rows(struct reading *r)
{
    Xgw__Gateway__V1__ReadReply reply = XGW__GATEWAY__V1__READ_REPLY__INIT;
    struct blob *rows = batch_writer_finish(&r->writer);
    enum rc rc;

    reply.applied = r->control->config.device->applied;
    rc = rows ? rpc_pb_send_blob(r->call, 0, &reply.base, READ_ROWS_FIELD, rows)
              : RC_NO_MEMORY;
    blob_unref(rows);
    return rc;
}

/* Reads on while the peer's queue has room; on_writable goes on. */
static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct reading *r = arg;
    enum rc rc = RC_OK;

    (void)fd;
    (void)what;
    if (!rpc_call_is_writable(r->call)) {
        return;
    }
    r->is_through = !device_read(r->control->config.device, &r->at, READ_ROWS,
                                 READ_CHUNK, &r->writer);
    if (r->is_through || batch_writer_bytes(&r->writer) >= READ_CHUNK) {
        rc = send_rows(r);
    }
    if (rc != RC_OK) {
        rpc_call_finish(r->call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
    } else if (r->is_through) {
        rpc_call_finish(r->call, RPC_OK, NULL, NULL, 0);
    } else {
        next_turn(r);
    }
}

static void on_read_writable(struct rpc_call *call)
{
    struct reading *r = rpc_call_data(call);

    if (!r->is_through) {
        next_turn(r);
    }
}

static void reading_free(struct reading *r)
{
    if (r->turn) {
        event_free(r->turn);
    }
    device_reading_fini(&r->at);
    batch_writer_fini(&r->writer);
    free(r);
}

static struct reading *reading_new(struct control *c, struct rpc_call *call,
                                   const Xgw__Gateway__V1__ReadRequest *request)
{
    struct reading *r = calloc(1, sizeof(*r));

    if (!r) {
        return NULL;
    }
    r->control = c;
    r->call = call;
    r->turn = event_new(c->config.base, -1, 0, on_turn, r);
    batch_writer_init(&r->writer);
    device_reading_init(&r->at, (uint8_t)request->table, request->vni);
    if (!r->turn) {
        reading_free(r);
        return NULL;
    }
    return r;
}

static void on_read(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct control *c = control_of(call);
    struct reading *r;
    const Xgw__Gateway__V1__ReadRequest *request =
        (const Xgw__Gateway__V1__ReadRequest *)rpc_pb_take(
            call, &c->arena, &xgw__gateway__v1__read_request__descriptor, msg);

    if (!request) {
        rpc_arena_reset(&c->arena);
        return;
    }
    if (request->table >= TABLE_COUNT || request->vni > VNI_MAX) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "no such table or VNI", NULL, 0);
        rpc_arena_reset(&c->arena);
        return;
    }
    r = reading_new(c, call, request);
    if (r) {
        rpc_call_set_data(call, r);
        next_turn(r);
    } else {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
    }
    rpc_arena_reset(&c->arena);
}

static void on_read_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct reading *r = rpc_call_data(call);

    (void)status;
    if ((void *)r != rpc_call_arg(call)) {
        reading_free(r);
    }
}

enum rc control_read_register(struct control *c, struct err *err)
{
    struct rpc_method status = { .path = "/xgw.gateway.v1.Gateway/GetStatus",
                                 .kind = RPC_UNARY,
                                 .ops = { .on_message = on_get_status },
                                 .arg = c };
    struct rpc_method counters = { .path = "/xgw.gateway.v1.Gateway/GetCounters",
                                   .kind = RPC_UNARY,
                                   .ops = { .on_message = on_get_counters },
                                   .arg = c };
    struct rpc_method top = { .path = "/xgw.gateway.v1.Gateway/GetTop",
                              .kind = RPC_UNARY,
                              .ops = { .on_message = on_get_top },
                              .arg = c };
    struct rpc_method read = { .path = "/xgw.gateway.v1.Gateway/Read",
                               .kind = RPC_SERVER_STREAM,
                               .ops = { .on_message = on_read,
                                        .on_writable = on_read_writable,
                                        .on_closed = on_read_closed },
                               .arg = c };
    enum rc rc = rpc_server_add(c->server, &status, err);

    rc = rc == RC_OK ? rpc_server_add(c->server, &counters, err) : rc;
    rc = rc == RC_OK ? rpc_server_add(c->server, &top, err) : rc;
    return rc == RC_OK ? rpc_server_add(c->server, &read, err) : rc;
}
