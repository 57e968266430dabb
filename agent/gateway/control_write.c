/* The Control stream: at most one writer, fenced by its term. */
#include "agent/gateway/control_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct control *control_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

static void send_status(struct control *c, struct rpc_call *call)
{
    Xgw__Gateway__V1__Status status = XGW__GATEWAY__V1__STATUS__INIT;
    Xgw__Gateway__V1__ControlReply reply = XGW__GATEWAY__V1__CONTROL_REPLY__INIT;
    uint64_t entries[TABLE_COUNT];
    uint64_t capacity[TABLE_COUNT];

    control_fill_status(c, &status, entries, capacity);
    reply.m_case = XGW__GATEWAY__V1__CONTROL_REPLY__M_STATUS;
    reply.status = &status;
    rpc_pb_send(call, &reply.base);
}

/* The first message: a second writer needs a higher term than any that was seen. */
static void on_open(struct control *c, struct rpc_call *call,
                    const Xgw__Gateway__V1__Open *open)
{
    if (c->writer == call) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "open: twice", NULL, 0);
        return;
    }
    if (c->writer && open->term <= c->config.device->term) {
        rpc_call_finish(call, RPC_FAILED_PRECONDITION,
                        "another writer is connected, and this term is not higher",
                        NULL, 0);
        return;
    }
    if (c->writer) {
        rpc_call_finish(c->writer, RPC_ABORTED, "a writer with a higher term came",
                        NULL, 0);
    }
    c->writer = call;
    send_status(c, call);
}

/* A writer that does not read its answers is ended: it starts over with what we hold.
 * So is one whose refused rows cannot all be named: it would believe them placed. */
static void send_done(struct rpc_call *call, uint64_t id, enum rc rc,
                      const struct err *err, const struct refusals *refusals)
{
    Xgw__Gateway__V1__Done done = XGW__GATEWAY__V1__DONE__INIT;
    Xgw__Gateway__V1__ControlReply reply = XGW__GATEWAY__V1__CONTROL_REPLY__INIT;
    uint32_t count = refusals->count;
    Xgw__Gateway__V1__Refusal *list = NULL;
    Xgw__Gateway__V1__Refusal **pointers = NULL;
    bool has_memory = refusals->unlisted == 0;

    if (has_memory && count > 0) {
        list = calloc(count, sizeof(*list));
        pointers = calloc(
            count,
            sizeof(Xgw__Gateway__V1__Refusal *)); /* NOLINT(bugprone-sizeof-expression):
                                                     a list of pointers */
        has_memory = list && pointers;
    }
    for (uint32_t i = 0; has_memory && i < count; i++) {
        xgw__gateway__v1__refusal__init(&list[i]);
        list[i].reason = refusals->at[i].reason;
        list[i].table = refusals->at[i].table;
        list[i].vni = refusals->at[i].vni;
        list[i].key.data = refusals->at[i].key;
        list[i].key.len = refusals->at[i].key_len;
        pointers[i] = &list[i];
    }
    done.id = id;
    done.code = (uint32_t)rc;
    done.error = control_text(rc == RC_OK ? "" : err->msg);
    done.refusals = pointers;
    done.n_refusals = count;
    reply.m_case = XGW__GATEWAY__V1__CONTROL_REPLY__M_DONE;
    reply.done = &done;
    if (!has_memory || rpc_pb_send(call, &reply.base) != RC_OK) {
        rpc_call_cancel(call, RPC_RESOURCE_EXHAUSTED,
                        has_memory ? "answers are not read" : "no memory to answer");
    }
    free(pointers);
    free(list);
}

static void on_write(struct control *c, struct rpc_call *call,
                     const Xgw__Gateway__V1__Write *msg)
{
    struct device_write w = {
        .term = msg->term,
        .revision = msg->revision,
        .ready = msg->ready,
        .ops = msg->ops.data,
        .len = msg->ops.len,
    };
    struct refusals refusals = { 0 };
    struct err err = { 0 };
    enum rc rc = device_write(c->config.device, &w, &refusals, &err);

    control_reclaim(c);
    send_done(call, msg->id, rc, &err, &refusals);
    refusals_fini(&refusals);
}

/* Port numbers and our MACs, by the port's name. */
static enum rc bind_ports(void *arg, const struct device_config *config,
                          struct fwd_port ports[UPLINKS_MAX], struct err *err)
{
    struct control *c = arg;

    for (unsigned i = 0; i < config->uplink_count; i++) {
        const char *name = config->uplinks[i].port;
        unsigned port = ports_find(c->config.ports, name);

        if (port == UINT_MAX) {
            return err_field(err, RC_NOT_FOUND, "uplinks.port", "port_unknown",
                             "uplink %u: this gateway has no port %s", i, name);
        }
        ports[i].number = (uint16_t)port;
        memcpy(ports[i].mac, c->config.ports->at[port].mac, 6);
    }
    return RC_OK;
}

static void on_configure(struct control *c, struct rpc_call *call,
                         const Xgw__Gateway__V1__Configure *msg)
{
    struct device *d = c->config.device;
    struct refusals none = { 0 };
    struct retired *old = calloc(1, sizeof(*old)); /* before there is no way back */
    struct err err = { 0 };
    enum rc rc = old ? device_configure(d, msg->term, msg->config.data, msg->config.len,
                                        bind_ports, c, &old->old, &err)
                     : err_set(&err, RC_NO_MEMORY, "configuration: no memory");

    if (rc != RC_OK) {
        free(old);
    } else {
        neigh_configure(&c->neigh, atomic_load(&d->fwd), program_now_ms());
        control_retire(c, old);
        frames_tick_soon(&c->frames); /* ask for next hops at once */
    }
    send_done(call, msg->id, rc, &err, &none);
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct control *c = control_of(call);
    const Xgw__Gateway__V1__ControlRequest *request =
        (const Xgw__Gateway__V1__ControlRequest *)rpc_pb_take(
            call, &c->arena, &xgw__gateway__v1__control_request__descriptor, msg);

    if (!request) {
        rpc_arena_reset(&c->arena);
        return;
    }
    if (request->m_case == XGW__GATEWAY__V1__CONTROL_REQUEST__M_OPEN) {
        on_open(c, call, request->open);
    } else if (call != c->writer) {
        rpc_call_finish(call, RPC_FAILED_PRECONDITION, "open first", NULL, 0);
    } else if (request->m_case == XGW__GATEWAY__V1__CONTROL_REQUEST__M_WRITE) {
        on_write(c, call, request->write);
    } else if (request->m_case == XGW__GATEWAY__V1__CONTROL_REQUEST__M_CONFIGURE) {
        on_configure(c, call, request->configure);
    } else {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "empty request", NULL, 0);
    }
    rpc_arena_reset(&c->arena);
}

static void on_half_close(struct rpc_call *call)
{
    rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct control *c = control_of(call);

    (void)status;
    if (c->writer == call) {
        c->writer = NULL; /* packets go on with what is there */
    }
}

enum rc control_write_register(struct control *c, struct err *err)
{
    struct rpc_method method = {
        .path = "/xgw.gateway.v1.Gateway/Control",
        .kind = RPC_BIDI,
        .ops = { .on_message = on_message,
                 .on_half_close = on_half_close,
                 .on_closed = on_closed },
        .arg = c,
    };

    return rpc_server_add(c->server, &method, err);
}
