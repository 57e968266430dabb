/* The heaviest flows and tenants of the gateway's last interval, for the next totals.
 */
#include "agent/driver/driver_gateway_impl.h"

#include "agent/driver/gateway_words.h"
#include "proto/rpc/rpc_pb.h"

#define PATH_TOP  "/xgw.gateway.v1.Gateway/GetTop"
#define TOP_POLLS 10 /* polls are a second apart, intervals ten */

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
        gateway_words_top((const Xgw__Gateway__V1__Top *)base, &g->top);
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
