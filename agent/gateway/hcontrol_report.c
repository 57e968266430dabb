/* hcontrol_report - what a switch in software can tell beside P4Runtime: its links and
 * what was lost around the packet path, how busy its workers are, whose packets they
 * see. */
#include "agent/gateway/hcontrol_internal.h"
#include "agent/gateway/report.h"

#include "agent/fwd/drop_reason.h"
#include "proto/model/telemetry.h"

#include <stdio.h>
#include <stdlib.h>

static void on_get_counters(struct rpc_call *call, const struct rpc_msg *msg)
{
    const struct hcontrol *c = rpc_call_arg(call);
    Xgw__Gateway__V1__Counters reply = XGW__GATEWAY__V1__COUNTERS__INIT;
    Xgw__Gateway__V1__DropCounter lost = XGW__GATEWAY__V1__DROP_COUNTER__INIT;
    Xgw__Gateway__V1__DropCounter *drops[] = { &lost };
    struct report *parts = calloc(1, sizeof(*parts));
    char reason[DROP_REASON_MAX + 1];

    (void)msg;
    if (!parts) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    report_parts(parts, c->config.workers, c->config.worker_count, c->config.ports,
                 &reply);
    snprintf(reason, sizeof(reason), "%s", drop_reason_name(DROP_NO_BUFFER));
    lost.reason = reason;
    lost.packets =
        report_lost(c->config.workers, c->config.worker_count, c->config.ports);
    reply.drops = drops;
    reply.n_drops = 1;
    rpc_pb_reply(call, &reply.base);
    free(parts);
}

static void on_get_top(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct hcontrol *c = rpc_call_arg(call);

    report_top(call, &c->arena, &c->top, msg);
}

enum rc hcontrol_report_register(struct hcontrol *c, struct err *err)
{
    const struct rpc_method counters = { "/xgw.gateway.v1.Gateway/GetCounters",
                                         RPC_UNARY,
                                         { .on_message = on_get_counters },
                                         c };
    const struct rpc_method top = {
        "/xgw.gateway.v1.Gateway/GetTop", RPC_UNARY, { .on_message = on_get_top }, c
    };
    enum rc rc = rpc_server_add(c->rpc, &counters, err);

    return rc == RC_OK ? rpc_server_add(c->rpc, &top, err) : rc;
}
