/* The heaviest flows and tenants of the gateway's last interval, for the next totals.
 */
#include "agent/driver/driver_gateway_impl.h"

#include "proto/rpc/rpc_pb.h"

#include <string.h>

#define PATH_TOP  "/xgw.gateway.v1.Gateway/GetTop"
#define TOP_POLLS 10 /* polls are a second apart, intervals ten */

static struct ip address(const ProtobufCBinaryData *w)
{
    struct ip ip = { .family = w->len == 16 ? IP_V6 : IP_V4 };

    memcpy(ip.b, w->data, w->len < 16 ? w->len : 16);
    return ip;
}

static void take_flows(const Xgw__Gateway__V1__Top *w, struct top_list *ret)
{
    for (size_t i = 0; i < w->n_flows && ret->count < TOP_LIST_MAX; i++) {
        const Xgw__Gateway__V1__TopFlow *from = w->flows[i];

        ret->items[ret->count++] = (struct top_item){ .vni = from->vni,
                                                      .src = address(&from->src),
                                                      .dst = address(&from->dst),
                                                      .proto = (uint8_t)from->proto,
                                                      .sport = (uint16_t)from->sport,
                                                      .dport = (uint16_t)from->dport,
                                                      .bytes = from->bytes,
                                                      .error = from->error };
    }
    ret->rest = w->flows_rest;
}

static void take_tenants(const Xgw__Gateway__V1__Top *w, struct top_list *ret)
{
    for (size_t i = 0; i < w->n_tenants && ret->count < TOP_LIST_MAX; i++) {
        ret->items[ret->count++] = (struct top_item){ .vni = w->tenants[i]->vni,
                                                      .bytes = w->tenants[i]->bytes,
                                                      .error = w->tenants[i]->error };
    }
    ret->rest = w->tenants_rest;
}

static void on_top(const struct rpc_status *status, const struct rpc_msg *reply,
                   void *arg)
{
    struct gateway *g = arg;
    ProtobufCMessage *base;

    (void)status;
    g->topping = NULL;
    if (!g->is_closing && reply &&
        rpc_pb_unpack(&g->arena, &xgw__gateway__v1__top__descriptor, reply->data,
                      reply->len, &base, NULL) == RC_OK) {
        const Xgw__Gateway__V1__Top *w = (const Xgw__Gateway__V1__Top *)base;

        memset(&g->top, 0, sizeof(g->top));
        take_flows(w, &g->top.flows);
        take_tenants(w, &g->top.tenants);
        g->top.bytes = w->bytes;
        g->top.interval_ms = w->interval_ms;
    }
    rpc_arena_reset(&g->arena);
}

void gateway_poll_top(struct gateway *g)
{
    Xgw__Gateway__V1__GetTopRequest request = XGW__GATEWAY__V1__GET_TOP_REQUEST__INIT;
    struct rpc_call_options options = { .deadline_ms = 1000 };

    if (g->topping || g->polls++ % TOP_POLLS != 0) {
        return;
    }
    request.count = TOP_LIST_MAX;
    if (rpc_pb_unary(g->channel, PATH_TOP, &request.base, &options, on_top, g,
                     &g->topping) != RC_OK) {
        g->topping = NULL; /* ten seconds later */
    }
}
