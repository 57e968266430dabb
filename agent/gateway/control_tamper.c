/* For tests: the call that corrupts tables.  Served with --tamper alone. */
#include "agent/gateway/control_internal.h"

#include "proto/base/log.h"

static void on_tamper(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct control *c = rpc_call_arg(call);
    const Xgw__Gateway__V1__TamperRequest *request =
        (const Xgw__Gateway__V1__TamperRequest *)rpc_pb_take(
            call, &c->arena, &xgw__gateway__v1__tamper_request__descriptor, msg);
    Xgw__Gateway__V1__TamperReply reply = XGW__GATEWAY__V1__TAMPER_REPLY__INIT;
    struct err err = { 0 };

    if (request) {
        struct device_tamper t = { .place = (enum tamper_place)request->place,
                                   .keeps = request->keeps,
                                   .ops = request->ops.data,
                                   .len = request->ops.len };

        if (device_tamper(c->config.device, &t, &err) == RC_OK) {
            log_warn("tables tampered with", "place=%s keeps=%d bytes=%zu",
                     t.place == TAMPER_RECORDS      ? "records"
                     : t.place == TAMPER_STRUCTURES ? "structures"
                                                    : "marks",
                     t.keeps, t.len);
            control_reclaim(c);
            rpc_pb_reply(call, &reply.base);
        } else {
            rpc_call_finish(call, rpc_code_of_rc(err.code), err.msg, NULL, 0);
        }
    }
    rpc_arena_reset(&c->arena);
}

enum rc control_tamper_register(struct control *c, struct err *err)
{
    struct rpc_method method = { .path = "/xgw.gateway.v1.Gateway/Tamper",
                                 .kind = RPC_UNARY,
                                 .ops = { .on_message = on_tamper },
                                 .arg = c };

    return c->config.is_tamperable ? rpc_server_add(c->server, &method, err) : RC_OK;
}
