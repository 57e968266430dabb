#include "tests/unit/proto/rpc/echo_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one call. */
struct state {
    uint32_t next; /* Stream: number of the next message */
    uint32_t count;
    size_t size;
    struct blob *blob;    /* Stream: payload behind the number */
    uint64_t bytes;       /* Collect */
    struct blob *waiting; /* Bidi: does not fit the queue yet */
};

static void on_open(struct rpc_call *call)
{
    struct echo *echo = rpc_call_arg(call);

    echo->opened++;
    echo->last = call;
    rpc_call_set_data(call, calloc(1, sizeof(struct state)));
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct echo *echo = rpc_call_arg(call);
    struct state *s = rpc_call_data(call);

    echo->closed++;
    echo->cancelled += status->code == RPC_CANCELLED;
    if (echo->last == call) {
        echo->last = NULL;
    }
    blob_unref(s->blob);
    blob_unref(s->waiting);
    free(s);
}

static bool is_text(const struct rpc_msg *msg, const char *text)
{
    return msg->len == strlen(text) && memcmp(msg->data, text, msg->len) == 0;
}

static void reply_text(struct rpc_call *call, const char *text)
{
    const struct rpc_part part = { .data = text, .len = strlen(text) };

    rpc_call_reply(call, &part, 1);
}

static void on_unary(struct rpc_call *call, const struct rpc_msg *msg)
{
    const struct rpc_part whole = { .data = msg->data, .len = msg->len };
    const char *auth = rpc_call_metadata(call, "authorization");
    struct err err = { 0 };
    char text[32];

    if (is_text(msg, "hang")) {
        return;
    }
    if (is_text(msg, "fail")) {
        err_field(&err, RC_RANGE, "routes[3].vni", "vni_range", "vni 0: below 1");
        rpc_call_finish_err(call, &err);
    } else if (is_text(msg, "who")) {
        reply_text(call, rpc_call_peer_name(call));
    } else if (is_text(msg, "auth")) {
        reply_text(call, auth ? auth : "(none)");
    } else if (is_text(msg, "left")) {
        snprintf(text, sizeof(text), "%" PRId64, rpc_call_ms_left(call));
        reply_text(call, text);
    } else {
        rpc_call_reply(call, &whole, 1);
    }
}

static void pump_stream(struct rpc_call *call)
{
    struct echo *echo = rpc_call_arg(call);
    struct state *s = rpc_call_data(call);

    while (s->next < s->count) {
        const uint32_t number = s->next;
        const struct rpc_part parts[] = {
            { .data = &number, .len = sizeof(number) },
            { .data = s->blob->data, .len = s->size - sizeof(number), .blob = s->blob },
        };

        if (rpc_call_send(call, parts, 2) != RC_OK) {
            return; /* on_writable or on_closed will come */
        }
        s->next++;
        echo->produced++;
        if (rpc_call_queued_bytes(call) > echo->max_queued) {
            echo->max_queued = rpc_call_queued_bytes(call);
        }
    }
    rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
}

static void on_stream(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct state *s = rpc_call_data(call);
    char text[64];

    snprintf(text, sizeof(text), "%.*s", (int)msg->len, (const char *)msg->data);
    if (sscanf(text, "%" SCNu32 " %zu", &s->count, &s->size) != 2 ||
        s->size < sizeof(uint32_t)) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "not \"COUNT SIZE\"", NULL, 0);
        return;
    }
    s->blob = blob_new(s->size);
    memset(s->blob->data, 'x', s->size);
    pump_stream(call);
}

static void on_collect(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct state *s = rpc_call_data(call);

    s->count++;
    s->bytes += msg->len;
}

static void on_collect_end(struct rpc_call *call)
{
    struct echo *echo = rpc_call_arg(call);
    struct state *s = rpc_call_data(call);
    char text[64];

    echo->half_closed++;
    snprintf(text, sizeof(text), "%" PRIu32 " %" PRIu64, s->count, s->bytes);
    reply_text(call, text);
}

static void on_bidi(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct echo *echo = rpc_call_arg(call);
    struct state *s = rpc_call_data(call);
    struct blob *copy = rpc_msg_blob(msg);
    const struct rpc_part part = { .blob = copy };

    if (rpc_call_send(call, &part, 1) == RC_FULL) {
        s->waiting = copy;
        rpc_call_pause(call);
        return;
    }
    if (rpc_call_queued_bytes(call) > echo->max_queued) {
        echo->max_queued = rpc_call_queued_bytes(call);
    }
    blob_unref(copy);
}

static void on_bidi_writable(struct rpc_call *call)
{
    struct state *s = rpc_call_data(call);
    const struct rpc_part part = { .blob = s->waiting };

    if (rpc_call_send(call, &part, 1) != RC_FULL) {
        blob_unref(s->waiting);
        s->waiting = NULL;
        rpc_call_resume(call);
    }
}

static void on_bidi_end(struct rpc_call *call)
{
    struct echo *echo = rpc_call_arg(call);

    echo->half_closed++;
    rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
}

enum rc echo_add(struct rpc_server *server, struct echo *echo, struct err *err)
{
    const struct rpc_method methods[] = {
        { "/test.Echo/Unary",
          RPC_UNARY,
          { .on_open = on_open, .on_message = on_unary, .on_closed = on_closed },
          echo },
        { "/test.Echo/Stream",
          RPC_SERVER_STREAM,
          { .on_open = on_open,
            .on_message = on_stream,
            .on_writable = pump_stream,
            .on_closed = on_closed },
          echo },
        { "/test.Echo/Collect",
          RPC_CLIENT_STREAM,
          { .on_open = on_open,
            .on_message = on_collect,
            .on_half_close = on_collect_end,
            .on_closed = on_closed },
          echo },
        { "/test.Echo/Bidi",
          RPC_BIDI,
          { .on_open = on_open,
            .on_message = on_bidi,
            .on_half_close = on_bidi_end,
            .on_writable = on_bidi_writable,
            .on_closed = on_closed },
          echo },
    };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]) && rc == RC_OK; i++) {
        rc = rpc_server_add(server, &methods[i], err);
    }
    return rc;
}
