/* p4runtime_soft: what a switch in software tells beside P4Runtime, by the gateway's
 * own service on the same connection: the speed of its links, what it lost around the
 * packet path, how busy its workers are, and the heaviest flows.
 *
 * A chip has no such service and says so once a connection.
 */
#include "agent/driver/p4runtime_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/driver/gateway_words.h"
#include "proto/rpc/rpc_pb.h"

#define PATH_COUNTERS "/xgw.gateway.v1.Gateway/GetCounters"
#define PATH_TOP      "/xgw.gateway.v1.Gateway/GetTop"

struct soft_call {
    struct p4runtime *driver; /* null: nobody waits for it any more */
    struct rpc_call *call;
};

/* True: its answer is of use.  The call is over. */
static bool is_answered(struct p4runtime *p, const struct rpc_status *status,
                        const struct rpc_msg *reply,
                        const ProtobufCMessageDescriptor *descriptor,
                        ProtobufCMessage **ret)
{
    if (status->code == RPC_UNIMPLEMENTED) {
        p->soft.is_absent = true;
    }
    return reply && rpc_pb_unpack(&p->soft.arena, descriptor, reply->data, reply->len,
                                  ret, NULL) == RC_OK;
}

/* P4 port n is the n-th of its ports. */
static void take_ports(struct p4runtime_soft *s, const Xgw__Gateway__V1__Counters *c)
{
    s->link_count = 0;
    s->missed = 0;
    for (size_t i = 0; i < c->n_ports; i++) {
        s->missed += c->ports[i]->rx_missed;
        if (i < XGWH_UPLINKS_MAX) {
            s->link_bps[s->link_count++] = c->ports[i]->link_bps;
        }
    }
}

static void take_drops(struct p4runtime_soft *s, const Xgw__Gateway__V1__Counters *c)
{
    s->lost = 0;
    for (size_t i = 0; i < c->n_drops; i++) {
        s->lost += c->drops[i]->packets;
    }
}

static void take_cores(struct p4runtime_soft *s, const Xgw__Gateway__V1__Counters *c)
{
    s->core_count = 0;
    for (size_t i = 0; i < c->n_cores && i < SOFT_CORES_MAX; i++) {
        char *part = s->core_names[i];

        snprintf(part, sizeof(s->core_names[0]), "core/%s", c->cores[i]->name);
        s->cores[s->core_count++] = gateway_words_core(part, c->cores[i]->busy_ns);
    }
}

static void on_counters(const struct rpc_status *status, const struct rpc_msg *reply,
                        void *arg)
{
    struct soft_call *call = arg;
    struct p4runtime *p = call->driver;
    ProtobufCMessage *base;

    free(call);
    if (!p) {
        return;
    }
    p->soft.counting = NULL;
    if (is_answered(p, status, reply, &xgw__gateway__v1__counters__descriptor, &base)) {
        const Xgw__Gateway__V1__Counters *c = (const Xgw__Gateway__V1__Counters *)base;

        p->soft.has_counted = true;
        take_ports(&p->soft, c);
        take_drops(&p->soft, c);
        take_cores(&p->soft, c);
    }
    rpc_arena_reset(&p->soft.arena);
    p4runtime_read_totals(p);
}

static void on_top(const struct rpc_status *status, const struct rpc_msg *reply,
                   void *arg)
{
    struct soft_call *call = arg;
    struct p4runtime *p = call->driver;
    ProtobufCMessage *base;

    free(call);
    if (!p) {
        return;
    }
    p->soft.topping = NULL;
    if (is_answered(p, status, reply, &xgw__gateway__v1__top__descriptor, &base)) {
        gateway_words_top((const Xgw__Gateway__V1__Top *)base, &p->soft.top);
    }
    rpc_arena_reset(&p->soft.arena);
    p4runtime_top_flows(p);
}

static struct soft_call *ask(struct p4runtime *p, const char *path,
                             const ProtobufCMessage *request, rpc_done_fn *done)
{
    struct rpc_call_options options = { .deadline_ms = 1000 };
    struct soft_call *call = p->soft.is_absent ? NULL : calloc(1, sizeof(*call));

    if (call && rpc_pb_unary(p4rt_switch_channel(p->sw), path, request, &options, done,
                             call, &call->call) != RC_OK) {
        free(call);
        return NULL;
    }
    if (call) {
        call->driver = p;
    }
    return call;
}

bool p4runtime_soft_cores(struct p4runtime *p)
{
    Xgw__Gateway__V1__GetCountersRequest request =
        XGW__GATEWAY__V1__GET_COUNTERS_REQUEST__INIT;

    p->soft.counting = ask(p, PATH_COUNTERS, &request.base, on_counters);
    return p->soft.counting != NULL;
}

bool p4runtime_soft_flows(struct p4runtime *p)
{
    Xgw__Gateway__V1__GetTopRequest request = XGW__GATEWAY__V1__GET_TOP_REQUEST__INIT;

    request.count = TOP_LIST_MAX;
    p->soft.topping = ask(p, PATH_TOP, &request.base, on_top);
    return p->soft.topping != NULL;
}

static void drop(struct soft_call **at)
{
    if (*at) {
        (*at)->driver = NULL;
        rpc_call_cancel((*at)->call, RPC_CANCELLED, "given up");
        *at = NULL;
    }
}

void p4runtime_soft_drop(struct p4runtime *p)
{
    drop(&p->soft.counting);
    drop(&p->soft.topping);
    p->soft.is_absent = false;
    p->soft.has_counted = false;
    p->soft.link_count = p->soft.core_count = 0;
    rpc_arena_fini(&p->soft.arena);
}
