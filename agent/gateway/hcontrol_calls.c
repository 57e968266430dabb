/* hcontrol_calls - Write, Read, the pipeline and Capabilities: calls to hserver's
 * bytes. */
#include "agent/gateway/hcontrol_internal.h"

#include <stdlib.h>

#include "proto/base/log.h"

static void finish(struct rpc_call *call, struct hanswer *a)
{
    /* A failed buffer of details is sent without them: the code says enough. */
    bool has_details = a->details.len > 0 && !buf_failed(&a->details);

    rpc_call_finish(call, a->code, a->message, has_details ? a->details.data : NULL,
                    has_details ? a->details.len : 0);
    hanswer_fini(a);
}

/* Ends a unary call: with `response` where the answer is good. */
static void reply(struct rpc_call *call, const struct buf *response, struct hanswer *a)
{
    struct rpc_part part = { .data = response ? response->data : NULL,
                             .len = response ? response->len : 0 };

    if (a->code != RPC_OK) {
        finish(call, a);
    } else if ((response && buf_failed(response)) ||
               rpc_call_reply(call, &part, 1) != RC_OK) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
    }
}

static void on_write(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct hcontrol *c = rpc_call_arg(call);
    struct hanswer a;

    hserver_write(&c->server, msg->data, msg->len, &a);
    log_debug("written", "bytes=%zu code=%d", msg->len, (int)a.code);
    hcontrol_follow(c);
    reply(call, NULL, &a);
}

static void on_set_pipeline(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct hcontrol *c = rpc_call_arg(call);
    struct hanswer a;

    hserver_set_pipeline(&c->server, msg->data, msg->len, &a);
    log_debug("program set", "bytes=%zu code=%d", msg->len, (int)a.code);
    hcontrol_follow(c);
    reply(call, NULL, &a);
}

static void on_get_pipeline(struct rpc_call *call, const struct rpc_msg *msg)
{
    const struct hcontrol *c = rpc_call_arg(call);
    struct buf response = BUF_INIT;
    struct hanswer a;

    hserver_get_pipeline(&c->server, msg->data, msg->len, &response, &a);
    reply(call, &response, &a);
    buf_fini(&response);
}

static void on_capabilities(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct buf response = BUF_INIT;
    struct hanswer a = { .code = RPC_OK };

    (void)msg;
    hserver_capabilities(&response);
    reply(call, &response, &a);
    buf_fini(&response);
}

/* ---- reading ---- */

struct reading {
    struct hcontrol *control;
    struct rpc_call *call;
    struct event *next; /* the next turn, after other work */
    struct hread read;
    struct buf response; /* of the last turn, until the call's queue takes it */
    struct hanswer answer;
    bool has_more;
};

/* One turn of a read-back; the loop comes back for the next one. */
static void read_turn(struct reading *r)
{
    enum rc rc = RC_OK;

    if (r->response.len == 0) {
        r->has_more =
            hread_turn(&r->control->server, &r->read, &r->response, &r->answer);
    }
    if (r->response.len > 0) {
        rc = rpc_call_send_bytes(r->call, r->response.data, r->response.len);
    }
    if (rc == RC_FULL) {
        return; /* on_writable tries it again */
    }
    if (rc != RC_OK || buf_failed(&r->response)) {
        r->answer.code = RPC_RESOURCE_EXHAUSTED;
        r->has_more = false;
    }
    buf_reset(&r->response);
    if (!r->has_more) {
        finish(r->call, &r->answer);
    } else if (rpc_call_is_writable(r->call)) {
        event_active(r->next, EV_TIMEOUT, 0);
    }
}

static void on_next(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    read_turn(arg);
}

static void reading_free(struct reading *r)
{
    if (r && r->next) {
        event_free(r->next);
    }
    if (r) {
        hread_fini(&r->read);
        buf_fini(&r->response);
    }
    free(r);
}

static void on_read(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct hcontrol *c = rpc_call_arg(call);
    struct reading *r = calloc(1, sizeof(*r));
    struct blob *request = rpc_msg_blob(msg);
    struct hanswer a = { .code = RPC_RESOURCE_EXHAUSTED };

    if (r && request) {
        r->control = c;
        r->call = call;
        r->next = event_new(c->config.base, -1, 0, on_next, r);
        hread_start(&c->server, request, &r->read, &a);
        if (!r->next) {
            a.code = RPC_RESOURCE_EXHAUSTED;
        }
    }
    blob_unref(request);
    if (a.code != RPC_OK) {
        reading_free(r);
        rpc_call_set_data(call, NULL);
        finish(call, &a);
        return;
    }
    rpc_call_set_data(call, r);
    read_turn(r);
}

static void on_read_opened(struct rpc_call *call)
{
    rpc_call_set_data(call, NULL);
}

static void on_read_writable(struct rpc_call *call)
{
    struct reading *r = rpc_call_data(call);

    if (r) {
        event_active(r->next, EV_TIMEOUT, 0);
    }
}

static void on_read_closed(struct rpc_call *call, const struct rpc_status *status)
{
    (void)status;
    reading_free(rpc_call_data(call));
}

enum rc hcontrol_calls_register(struct hcontrol *c, struct err *err)
{
    const struct rpc_method methods[] = {
        { "/p4.v1.P4Runtime/Write", RPC_UNARY, { .on_message = on_write }, c },
        { "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
          RPC_UNARY,
          { .on_message = on_set_pipeline },
          c },
        { "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
          RPC_UNARY,
          { .on_message = on_get_pipeline },
          c },
        { "/p4.v1.P4Runtime/Capabilities",
          RPC_UNARY,
          { .on_message = on_capabilities },
          c },
        { "/p4.v1.P4Runtime/Read",
          RPC_SERVER_STREAM,
          { .on_open = on_read_opened,
            .on_message = on_read,
            .on_writable = on_read_writable,
            .on_closed = on_read_closed },
          c },
    };
    enum rc rc = RC_OK;

    for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]) && rc == RC_OK; i++) {
        rc = rpc_server_add(c->rpc, &methods[i], err);
    }
    return rc;
}
