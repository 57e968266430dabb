#include "agent/gateway/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/rpc/program.h"

/* protobuf-c does not write to texts that it packs. */
static void fill_port(const struct port *p, Xgw__Gateway__V1__PortCounters *to)
{
    union {
        const char *in;
        char *out;
    } name = { p->name };
    struct rte_eth_stats stats = { 0 };

    rte_eth_stats_get(p->id, &stats);
    xgw__gateway__v1__port_counters__init(to);
    to->name = name.out;
    to->rx_packets = stats.ipackets;
    to->rx_bytes = stats.ibytes;
    to->tx_packets = stats.opackets;
    to->tx_bytes = stats.obytes;
    to->rx_missed = stats.imissed + stats.rx_nombuf;
    to->link_bps = port_link_bps(p);
}

void report_parts(struct report *r, const struct worker *workers, unsigned worker_count,
                  const struct ports *ports, Xgw__Gateway__V1__Counters *to)
{
    for (unsigned i = 0; i < ports->count; i++) {
        fill_port(&ports->at[i], &r->ports[i]);
        r->port_list[i] = &r->ports[i];
    }
    for (unsigned i = 0; i < worker_count; i++) {
        snprintf(r->core_names[i], sizeof(r->core_names[i]), "worker%u", i);
        xgw__gateway__v1__core_counter__init(&r->cores[i]);
        r->cores[i].name = r->core_names[i];
        r->cores[i].busy_ns = worker_busy_ns(&workers[i]);
        r->core_list[i] = &r->cores[i];
    }
    to->ports = r->port_list;
    to->n_ports = ports->count;
    to->cores = r->core_list;
    to->n_cores = worker_count;
}

uint64_t report_lost(const struct worker *workers, unsigned worker_count,
                     const struct ports *ports)
{
    uint64_t lost = 0;

    for (unsigned i = 0; i < worker_count; i++) {
        lost += atomic_load(&workers[i].no_buffer);
        lost += atomic_load(&workers[i].local_lost);
    }
    for (unsigned i = 0; i < ports->count; i++) {
        lost += atomic_load(&ports->at[i].tx_lost);
    }
    return lost;
}

/* ---- the heaviest ---- */

#define TOP_DEFAULT 10

struct top_reply {
    Xgw__Gateway__V1__TopFlow flows[TOP_MAX];
    Xgw__Gateway__V1__TopFlow *flow_list[TOP_MAX];
    Xgw__Gateway__V1__TopTenant tenants[TOP_MAX];
    Xgw__Gateway__V1__TopTenant *tenant_list[TOP_MAX];
};

static void fill_flow(Xgw__Gateway__V1__TopFlow *to, const struct top_entry *from)
{
    size_t size = from->key.family == IP_V4 ? 4 : 16;
    union {
        const uint8_t *in;
        uint8_t *out;
    } src = { from->key.src }, dst = { from->key.dst };

    xgw__gateway__v1__top_flow__init(to);
    to->vni = from->key.vni;
    to->src = (ProtobufCBinaryData){ size, src.out };
    to->dst = (ProtobufCBinaryData){ size, dst.out };
    to->proto = from->key.proto;
    to->sport = from->key.sport;
    to->dport = from->key.dport;
    to->bytes = from->bytes;
    to->error = from->error;
}

static void reply_top(struct rpc_call *call, const struct top *t, uint32_t count)
{
    Xgw__Gateway__V1__Top reply = XGW__GATEWAY__V1__TOP__INIT;
    struct top_reply *r = calloc(1, sizeof(*r));

    if (!r) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    reply.n_flows = t->flow_count < count ? t->flow_count : count;
    reply.n_tenants = t->tenant_count < count ? t->tenant_count : count;
    for (uint32_t i = 0; i < reply.n_flows; i++) {
        fill_flow(&r->flows[i], &t->flows[i]);
        r->flow_list[i] = &r->flows[i];
    }
    for (uint32_t i = 0; i < reply.n_tenants; i++) {
        xgw__gateway__v1__top_tenant__init(&r->tenants[i]);
        r->tenants[i].vni = t->tenants[i].key.vni;
        r->tenants[i].bytes = t->tenants[i].bytes;
        r->tenants[i].error = t->tenants[i].error;
        r->tenant_list[i] = &r->tenants[i];
    }
    reply.flows = r->flow_list;
    reply.tenants = r->tenant_list;
    reply.flows_rest = count < t->flow_count ? t->flows[count].bytes : t->flows_rest;
    reply.tenants_rest =
        count < t->tenant_count ? t->tenants[count].bytes : t->tenants_rest;
    reply.bytes = t->bytes;
    reply.interval_ms = t->interval_ms;
    reply.ended_ms_ago = t->interval_ms ? program_now_ms() - t->ended_ms : 0;
    rpc_pb_reply(call, &reply.base);
    free(r);
}

void report_top(struct rpc_call *call, struct rpc_arena *arena, const struct top *t,
                const struct rpc_msg *msg)
{
    const Xgw__Gateway__V1__GetTopRequest *request =
        (const Xgw__Gateway__V1__GetTopRequest *)rpc_pb_take(
            call, arena, &xgw__gateway__v1__get_top_request__descriptor, msg);

    if (request && request->count > TOP_MAX) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "count: at most 100", NULL, 0);
    } else if (request) {
        reply_top(call, t, request->count ? request->count : TOP_DEFAULT);
    }
    rpc_arena_reset(arena);
}
