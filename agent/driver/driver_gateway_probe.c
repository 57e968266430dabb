/* Probes of a gateway: a call each. */
#include "agent/driver/driver_gateway_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_PROBE "/xgw.gateway.v1.Gateway/Probe"
#define PROBE_MS   2000 /* a worker sleeps for less than one */

struct probing {
    struct gateway *gateway;
    uint64_t id;
    struct rpc_call *call;
};

static bool probe_result_of(const Xgw__Gateway__V1__ProbeReply *reply,
                            struct probe_result *ret)
{
    if (reply->outcome < PROBE_FORWARDED || reply->outcome > PROBE_KEPT ||
        strlen(reply->reason) > DROP_REASON_MAX ||
        strlen(reply->port) > PORT_NAME_MAX ||
        (reply->outcome == PROBE_DROPPED) != (reply->reason[0] != '\0') ||
        (reply->outcome == PROBE_FORWARDED) != (reply->frame.len > 0) ||
        (reply->frame.len > 0 && reply->frame.len < PROBE_FRAME_MIN) ||
        reply->frame.len > PROBE_FRAME_MAX) {
        return false;
    }
    ret->outcome = (uint8_t)reply->outcome;
    snprintf(ret->reason, sizeof(ret->reason), "%s", reply->reason);
    snprintf(ret->port, sizeof(ret->port), "%s", reply->port);
    if (reply->frame.len > 0) {
        ret->frame = blob_copy(reply->frame.data, reply->frame.len);
        return ret->frame;
    }
    return true;
}

static void fail_probe(struct probe_result *r, enum rc rc, const char *why)
{
    memset(r, 0, sizeof(*r));
    r->rc = rc;
    snprintf(r->error, sizeof(r->error), "%s", why);
}

static void on_probe(const struct rpc_status *status, const struct rpc_msg *reply,
                     void *arg)
{
    struct probing *p = arg;
    struct gateway *g = p->gateway;
    struct probe_result result = { 0 };
    struct device_probe answer = { p->id, &result };
    ProtobufCMessage *base;
    struct err err = { 0 };

    g->probe_count--;
    free(p);
    if (g->is_closing) {
        return;
    }
    if (!reply) {
        enum rc rc = rpc_status_to_err(status, &err);

        fail_probe(&result, rc ? rc : RC_INVALID, rc ? err.msg : "no answer");
    } else if (rpc_pb_unpack(&g->arena, &xgw__gateway__v1__probe_reply__descriptor,
                             reply->data, reply->len, &base, NULL) != RC_OK ||
               !probe_result_of((const Xgw__Gateway__V1__ProbeReply *)base, &result)) {
        fail_probe(&result, RC_INVALID, "the gateway's answer is none");
    }
    g->driver.events->probe(g->driver.ctx, &answer);
    blob_unref(result.frame);
    rpc_arena_reset(&g->arena);
}

/* Without memory it is not answered: the session's timeout sees to it. */
void gateway_probe(struct driver *d, uint64_t id, struct blob *frame)
{
    struct gateway *g = (struct gateway *)d;
    Xgw__Gateway__V1__ProbeRequest request = XGW__GATEWAY__V1__PROBE_REQUEST__INIT;
    struct rpc_call_options options = { .deadline_ms = PROBE_MS };
    struct probing *p = calloc(1, sizeof(*p));

    if (!p) {
        return;
    }
    p->gateway = g;
    p->id = id;
    request.frame = (ProtobufCBinaryData){ frame->len, frame->data };
    if (rpc_pb_unary(g->channel, PATH_PROBE, &request.base, &options, on_probe, p,
                     &p->call) != RC_OK) {
        free(p);
    } else {
        g->probe_count++;
    }
}
