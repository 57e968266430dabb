/* What anybody may ask: status, counters, and what the tables hold. */
#include "agent/gateway/control_internal.h"

#include <stdlib.h>
#include <string.h>

#define READ_CHUNK      (128u << 10) /* STACK: 32 to 256 KiB a message */
#define READ_ROWS_FIELD 15

static struct control *control_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

void control_fill_status(const struct control *c, Xgw__Gateway__V1__Status *status,
                         uint64_t entries[TABLE_COUNT], uint64_t capacity[TABLE_COUNT])
{
    const struct device *d = c->config.device;

    for (int table = 0; table < TABLE_COUNT; table++) {
        entries[table] = table_set_count(d->records, (enum table_id)table);
        capacity[table] = 0;
    }
    capacity[TABLE_VNI] = c->config.limits->max_vnis;
    capacity[TABLE_VXLAN_ROUTE] = c->config.limits->max_routes;
    capacity[TABLE_VM_NC] = c->config.limits->max_vm_nc;
    status->boot_id = d->boot_id;
    status->term = d->term;
    status->applied = d->applied;
    status->ready = atomic_load(&d->is_ready);
    status->config_digest = d->config_digest;
    status->version = (char *)(uintptr_t)XGW_VERSION;
    status->entries = entries;
    status->n_entries = TABLE_COUNT;
    status->capacity = capacity;
    status->n_capacity = TABLE_COUNT;
    status->memory_bytes =
        fib_stats(d->fib).memory_bytes + table_set_memory(d->records);
    status->uptime_seconds = (double)(control_now_ms(c) - c->started_ms) / 1000.0;
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
    struct fwd_totals totals;
    Xgw__Gateway__V1__PortCounters ports[PORTS_MAX];
    Xgw__Gateway__V1__PortCounters *port_list[PORTS_MAX];
    Xgw__Gateway__V1__DropCounter drops[DROP_COUNT];
    Xgw__Gateway__V1__DropCounter *drop_list[DROP_COUNT];
};

static void fill_ports(const struct control *c, struct counters *k)
{
    for (unsigned i = 0; i < c->config.ports->count; i++) {
        const struct port *p = &c->config.ports->at[i];
        struct rte_eth_stats stats = { 0 };

        rte_eth_stats_get(p->id, &stats);
        xgw__gateway__v1__port_counters__init(&k->ports[i]);
        k->ports[i].name = (char *)(uintptr_t)p->name;
        k->ports[i].rx_packets = stats.ipackets;
        k->ports[i].rx_bytes = stats.ibytes;
        k->ports[i].tx_packets = stats.opackets;
        k->ports[i].tx_bytes = stats.obytes;
        k->ports[i].rx_missed = stats.imissed + stats.rx_nombuf;
        k->port_list[i] = &k->ports[i];
    }
}

/* Frames that a device did not take, or that could not be made contiguous, left no
 * verdict in fwd's counters: they are drops for want of a buffer. */
static uint64_t lost_frames(const struct control *c)
{
    uint64_t lost = 0;

    for (unsigned i = 0; i < c->config.worker_count; i++) {
        lost += atomic_load(&c->config.workers[i].no_buffer);
        lost += atomic_load(&c->config.workers[i].local_lost);
    }
    for (unsigned i = 0; i < c->config.ports->count; i++) {
        lost += atomic_load(&c->config.ports->at[i].tx_lost);
    }
    return lost;
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
    k->totals.drops[DROP_NO_BUFFER] += lost_frames(c);
    fill_ports(c, k);
    for (unsigned i = 1; i < DROP_COUNT; i++) {
        xgw__gateway__v1__drop_counter__init(&k->drops[i]);
        k->drops[i].reason = (char *)(uintptr_t)drop_reason_name(i);
        k->drops[i].packets = k->totals.drops[i];
        k->drop_list[i - 1] = &k->drops[i];
    }
    reply.ports = k->port_list;
    reply.n_ports = c->config.ports->count;
    reply.drops = k->drop_list;
    reply.n_drops = DROP_COUNT - 1;
    reply.forwarded = k->totals.forwarded;
    reply.icmp_sent = k->totals.icmp_sent;
    reply.local = k->totals.local;
    rpc_pb_reply(call, &reply.base);
    free(k);
}

/* ---- read-back ---- */

struct reading {
    struct device_cursor cursor;
    struct batch_writer writer;
    uint32_t table;
    uint32_t vni;
    bool is_through;
};

/* Sends until the peer's queue is full; on_writable goes on. */
static void read_more(struct rpc_call *call)
{
    struct control *c = control_of(call);
    struct reading *r = rpc_call_data(call);

    while (!r->is_through && rpc_call_is_writable(call)) {
        Xgw__Gateway__V1__ReadReply reply = XGW__GATEWAY__V1__READ_REPLY__INIT;
        struct blob *rows;
        enum rc rc;

        r->is_through = !device_read(c->config.device, (uint8_t)r->table, r->vni,
                                     &r->cursor, READ_CHUNK, &r->writer);
        rows = batch_writer_finish(&r->writer);
        reply.applied = c->config.device->applied;
        rc = rows ? rpc_pb_send_blob(call, 0, &reply.base, READ_ROWS_FIELD, rows)
                  : RC_NO_MEMORY;
        blob_unref(rows);
        if (rc != RC_OK) {
            rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
            return;
        }
    }
    if (r->is_through) {
        rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
    }
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
    r = calloc(1, sizeof(*r));
    if (r) {
        r->table = request->table;
        r->vni = request->vni;
        batch_writer_init(&r->writer);
        rpc_call_set_data(call, r);
        read_more(call);
    } else {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
    }
    rpc_arena_reset(&c->arena);
}

static void on_read_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct reading *r = rpc_call_data(call);

    (void)status;
    if (r != rpc_call_arg(call)) {
        batch_writer_fini(&r->writer);
        free(r);
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
    struct rpc_method read = { .path = "/xgw.gateway.v1.Gateway/Read",
                               .kind = RPC_SERVER_STREAM,
                               .ops = { .on_message = on_read,
                                        .on_writable = read_more,
                                        .on_closed = on_read_closed },
                               .arg = c };
    enum rc rc = rpc_server_add(c->server, &status, err);

    rc = rc == RC_OK ? rpc_server_add(c->server, &counters, err) : rc;
    return rc == RC_OK ? rpc_server_add(c->server, &read, err) : rc;
}
