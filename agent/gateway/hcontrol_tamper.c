/* hcontrol_tamper - for tests: the call that corrupts tables of XGW-H in software.
 * Served with --tamper alone. */
#include "agent/gateway/hcontrol_internal.h"

#include "proto/api/gateway.pb-c.h"
#include "proto/base/log.h"

static void on_tamper(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct hcontrol *c = rpc_call_arg(call);
    const Xgw__Gateway__V1__TamperRequest *request =
        (const Xgw__Gateway__V1__TamperRequest *)rpc_pb_take(
            call, &c->arena, &xgw__gateway__v1__tamper_request__descriptor, msg);
    Xgw__Gateway__V1__TamperReply reply = XGW__GATEWAY__V1__TAMPER_REPLY__INIT;
    struct err err = { 0 };

    if (request) {
        if (hserver_tamper(&c->server, (enum htamper_place)request->place,
                           request->keeps, request->write.data, request->write.len,
                           &err) == RC_OK) {
            log_warn("tables tampered with", "place=%s keeps=%d bytes=%zu",
                     request->place == HTAMPER_RECORDS ? "records" : "structures",
                     request->keeps, request->write.len);
            hcontrol_follow(c);
            reply.updates = c->server.updates;
            rpc_pb_reply(call, &reply.base);
        } else {
            rpc_call_finish(call, rpc_code_of_rc(err.code), err.msg, NULL, 0);
        }
    }
    rpc_arena_reset(&c->arena);
}

enum rc hcontrol_tamper_register(struct hcontrol *c, struct err *err)
{
    struct rpc_method method = { .path = "/xgw.gateway.v1.Gateway/Tamper",
                                 .kind = RPC_UNARY,
                                 .ops = { .on_message = on_tamper },
                                 .arg = c };

    return c->config.is_tamperable ? rpc_server_add(c->rpc, &method, err) : RC_OK;
}
