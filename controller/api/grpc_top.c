/* GetTop: the heaviest flows and tenants. */
#include "controller/api/grpc_api_internal.h"
#include "controller/api/top_ask.h"

#include <stdlib.h>

struct top_reply {
    struct top_sum sum;
    Xgw__Controller__V1__TopRow rows[TOP_ROWS_MAX];
    Xgw__Controller__V1__TopRow *list[TOP_ROWS_MAX];
};

/* protobuf-c does not write to what it packs. */
static ProtobufCBinaryData address(struct ip *ip)
{
    return (ProtobufCBinaryData){ ip_size(ip), ip->b };
}

static void fill_row(struct top_row *from, Xgw__Controller__V1__TopRow *to)
{
    xgw__controller__v1__top_row__init(to);
    to->vni = from->item.vni;
    to->src = address(&from->item.src);
    to->dst = address(&from->item.dst);
    to->proto = from->item.proto;
    to->sport = from->item.sport;
    to->dport = from->item.dport;
    to->bps = from->bps;
    to->error_bps = from->error_bps;
    to->nodes = from->nodes;
}

static void answer(struct rpc_call *call, struct top_reply *r)
{
    Xgw__Controller__V1__Top reply = XGW__CONTROLLER__V1__TOP__INIT;

    for (uint32_t i = 0; i < r->sum.count; i++) {
        fill_row(&r->sum.rows[i], &r->rows[i]);
        r->list[i] = &r->rows[i];
    }
    reply.nodes = r->sum.nodes;
    reply.without = r->sum.without;
    reply.unable = r->sum.unable;
    reply.bps = r->sum.bps;
    reply.rest_bps = r->sum.rest_bps;
    reply.rows = r->list;
    reply.n_rows = r->sum.count;
    rpc_pb_reply(call, &reply.base);
}

static enum rc ask(const struct grpc_api *a,
                   const Xgw__Controller__V1__GetTopRequest *request,
                   struct top_sum *ret, struct err *err)
{
    bool is_flows = request->kind == XGW__CONTROLLER__V1__TOP_KIND__TOP_KIND_FLOWS;

    if (!is_flows && request->kind != XGW__CONTROLLER__V1__TOP_KIND__TOP_KIND_TENANTS) {
        return err_field(err, RC_INVALID, "kind", "choice",
                         "kind: neither flows nor tenants");
    }
    if (request->count > TOP_ROWS_MAX) {
        return err_field(err, RC_RANGE, "count", "range", "count: at most %d",
                         TOP_ROWS_MAX);
    }
    return top_ask(shell_core(a->shell), shell_unix_ms() / 1000,
                   request->cluster[0] ? request->cluster : NULL,
                   request->node[0] ? request->node : NULL,
                   is_flows ? TOP_FLOWS : TOP_TENANTS,
                   request->count ? request->count : TOP_ROWS, ret, err);
}

static void on_get_top(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct grpc_api *a = grpc_api_of(call);
    const Xgw__Controller__V1__GetTopRequest *request;
    char who[AUTH_NAME_MAX + 1];
    struct top_reply *r;
    struct err err = { 0 };

    if (!grpc_api_allow(call, ROLE_VIEWER, who)) {
        return;
    }
    r = calloc(1, sizeof(*r));
    request = GRPC_TAKE(Xgw__Controller__V1__GetTopRequest, call,
                        xgw__controller__v1__get_top_request__descriptor, msg);
    if (request && !r) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
    } else if (request && ask(a, request, &r->sum, &err) != RC_OK) {
        rpc_call_finish_err(call, &err);
    } else if (request) {
        answer(call, r);
    }
    free(r);
    rpc_arena_reset(&a->arena);
}

enum rc grpc_top_register(struct grpc_api *a, struct rpc_server *server,
                          struct err *err)
{
    const struct rpc_method method = { .path = "/xgw.controller.v1.Controller/GetTop",
                                       .kind = RPC_UNARY,
                                       .ops = { .on_message = on_get_top },
                                       .arg = a };

    return rpc_server_add(server, &method, err);
}
