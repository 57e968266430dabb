#include "agent/link.h"

#include "proto/rpc/agent_codec.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SESSION "/xgw.agent.v1.AgentSession/Session"

struct link {
    struct link_config config;
    const struct link_events *events;
    void *ctx;
    struct rpc_channel *channel; /* to `address` */
    char address[128];
    struct rpc_call *call; /* null: not dialled */
    struct event *failed;  /* tells of a dial that could not even start */
    struct err failed_err;
    struct buf buf;
};

/* The link of a call that is still wanted; null once it was freed or dialled anew. */
static struct link *link_of(struct rpc_call *call)
{
    struct link *l = rpc_call_data(call);

    return l && l->call == call ? l : NULL;
}

static void on_open(struct rpc_call *call)
{
    struct link *l = link_of(call);

    if (l) {
        l->events->up(l->ctx);
    }
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct link *l = link_of(call);
    struct ctl_msg ctl;
    struct err err = { 0 };

    if (!l) {
        return;
    }
    if (ctl_msg_decode(msg->data, msg->len, &ctl, &err) != RC_OK) {
        rpc_call_cancel(call, RPC_INVALID_ARGUMENT, err.msg);
        return;
    }
    l->events->message(l->ctx, &ctl);
    ctl_msg_fini(&ctl);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct link *l = link_of(call);
    struct err err = { 0 };

    if (!l) {
        return;
    }
    l->call = NULL;
    if (rpc_status_to_err(status, &err) == RC_OK) {
        err_set(&err, RC_UNREACHABLE, "closed by the controller");
    }
    err_wrap(&err, err.code, "controller %s", l->address);
    l->events->down(l->ctx, &err);
}

static void on_failed(evutil_socket_t fd, short what, void *arg)
{
    struct link *l = arg;

    (void)fd;
    (void)what;
    l->events->down(l->ctx, &l->failed_err);
}

enum rc link_new(const struct link_config *config, const struct link_events *events,
                 void *ctx, struct link **ret, struct err *err)
{
    struct link *l = calloc(1, sizeof(*l));

    if (!l) {
        return err_set(err, RC_NO_MEMORY, "link: no memory");
    }
    l->config = *config;
    l->events = events;
    l->ctx = ctx;
    l->failed = event_new(rpc_loop_base(config->loop), -1, 0, on_failed, l);
    if (!l->failed) {
        free(l);
        return err_set(err, RC_NO_MEMORY, "link: no memory");
    }
    *ret = l;
    return RC_OK;
}

/* Ends the present call without a word to the owner. */
static void drop_call(struct link *l)
{
    if (l->call) {
        rpc_call_set_data(l->call, NULL);
        rpc_call_cancel(l->call, RPC_CANCELLED, "hung up");
        l->call = NULL;
    }
}

void link_free(struct link *l)
{
    if (!l) {
        return;
    }
    drop_call(l);
    rpc_channel_free(l->channel);
    event_free(l->failed);
    buf_fini(&l->buf);
    free(l);
}

/* A channel keeps its connection; another address is another channel. */
static enum rc channel_to(struct link *l, const char *address, struct err *err)
{
    struct rpc_channel_options options = {
        .address = address,
        .tls = l->config.tls,
        .tls_name = l->config.tls_name,
        .max_message_bytes = 4u << 20,
    };

    if (l->channel && strcmp(l->address, address) == 0) {
        return RC_OK;
    }
    rpc_channel_free(l->channel);
    l->channel = NULL;
    strncpy(l->address, address, sizeof(l->address) - 1);
    return rpc_channel_new(l->config.loop, &options, &l->channel, err);
}

void link_dial(struct link *l, uint32_t index, const char *redirect)
{
    static const struct rpc_call_ops ops = { .on_open = on_open,
                                             .on_message = on_message,
                                             .on_closed = on_closed };
    const char *address = redirect[0] ? redirect : l->config.controllers[index];
    enum rc rc;

    drop_call(l);
    memset(&l->failed_err, 0, sizeof(l->failed_err));
    rc = channel_to(l, address, &l->failed_err);
    if (rc == RC_OK) {
        rc = rpc_stream(l->channel, PATH_SESSION, NULL, &ops, l, &l->call);
        if (rc != RC_OK) {
            err_set(&l->failed_err, rc, "controller %s: cannot dial", address);
        }
    }
    if (rc != RC_OK) {
        event_active(l->failed, EV_TIMEOUT, 0);
    }
}

void link_send(struct link *l, const struct agent_msg *msg)
{
    enum rc rc;

    if (!l->call) {
        return;
    }
    buf_reset(&l->buf);
    rc = agent_msg_encode(msg, &l->buf);
    if (rc == RC_OK) {
        rc = rpc_call_send_bytes(l->call, l->buf.data, l->buf.len);
    }
    if (rc != RC_OK) {
        rpc_call_cancel(l->call, RPC_RESOURCE_EXHAUSTED, "cannot send");
    }
}

void link_hangup(struct link *l)
{
    if (l->call) {
        rpc_call_cancel(l->call, RPC_CANCELLED, "hung up");
    }
}
