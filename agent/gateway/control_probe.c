/* Probes: a frame in, what the packet path makes of it out. */
#include "agent/gateway/control_internal.h"

#include "agent/fwd/drop_reason.h"

#include <stdlib.h>

/* One call of Probe. */
struct probing {
    struct probing *next;
    struct control *control;
    struct rpc_call *call; /* null: its caller went away */
};

static struct control *control_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

static void probing_free(struct probing *p)
{
    struct probing **at = &p->control->probings;

    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    free(p);
}

static void reply(const struct probing *p, const struct probe_frame *f)
{
    Xgw__Gateway__V1__ProbeReply msg = XGW__GATEWAY__V1__PROBE_REPLY__INIT;

    switch (f->verdict) {
    case FWD_FORWARD:
        msg.outcome = PROBE_FORWARDED;
        msg.port = control_text(p->control->config.ports->at[f->port].name);
        msg.frame.data = rte_pktmbuf_mtod(f->frame, uint8_t *);
        msg.frame.len = rte_pktmbuf_data_len(f->frame);
        break;
    case FWD_LOCAL:
        msg.outcome = PROBE_KEPT;
        break;
    default:
        msg.outcome = PROBE_DROPPED;
        msg.reason = control_text(drop_reason_name(f->reason));
    }
    rpc_pb_reply(p->call, &msg.base);
}

static void on_done(void *arg, const struct probe_frame *f)
{
    struct probing *p = f->tag;

    (void)arg;
    if (p->call) {
        rpc_call_set_data(p->call, NULL);
        reply(p, f);
    }
    probing_free(p);
}

static void send_in(struct control *c, struct rpc_call *call,
                    const Xgw__Gateway__V1__ProbeRequest *request)
{
    struct probing *p = calloc(1, sizeof(*p));

    if (!p || probe_port_send(c->config.probes, 0, request->frame.data,
                              request->frame.len, p) != RC_OK) {
        free(p);
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many probes are under way",
                        NULL, 0);
        return;
    }
    p->control = c;
    p->call = call;
    p->next = c->probings;
    c->probings = p;
    rpc_call_set_data(call, p);
}

static void on_probe(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct control *c = control_of(call);
    const Xgw__Gateway__V1__ProbeRequest *request =
        (const Xgw__Gateway__V1__ProbeRequest *)rpc_pb_take(
            call, &c->arena, &xgw__gateway__v1__probe_request__descriptor, msg);

    rpc_call_set_data(call, NULL);
    if (request && (request->frame.len < PROBE_FRAME_MIN ||
                    request->frame.len > PROBE_FRAME_MAX)) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "frame: 14 to 2000 bytes", NULL, 0);
    } else if (request && !atomic_load(&c->config.device->is_ready)) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "not ready: nothing is forwarded yet",
                        NULL, 0);
    } else if (request) {
        send_in(c, call, request);
    }
    rpc_arena_reset(&c->arena);
}

static void on_probe_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct probing *p = rpc_call_data(call);

    (void)status;
    if (p && (void *)p != rpc_call_arg(call)) {
        p->call = NULL;
    }
}

enum rc control_probe_register(struct control *c, struct err *err)
{
    struct rpc_method probe = { .path = "/xgw.gateway.v1.Gateway/Probe",
                                .kind = RPC_UNARY,
                                .ops = { .on_message = on_probe,
                                         .on_closed = on_probe_closed },
                                .arg = c };
    enum rc rc = probe_port_start(c->config.probes, c->config.base, on_done, c, err);

    return rc == RC_OK ? rpc_server_add(c->server, &probe, err) : rc;
}

void control_probe_fini(struct control *c)
{
    probe_port_stop(c->config.probes);
    while (c->probings) {
        probing_free(c->probings);
    }
}
