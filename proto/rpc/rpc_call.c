#include "proto/rpc/rpc_call.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_core.h"

#define DETAILS_KEY "grpc-status-details-bin"

/* gRPC shows a cancelled stream's end to the reader exactly like a half-close, and only
 * then that it was cancelled (9 of 200 cancels were seen that way round).  So the end
 * of messages is believed when no cancel followed for this long; guess, microseconds
 * are usual. */
#define HALF_CLOSE_DOUBT_MS 20

#define OP_OWNER(op, member)                                                           \
    ((struct rpc_call *)(void *)((char *)(op)-offsetof(struct rpc_call, member)))

static bool reads_once(const struct rpc_call *call)
{
    return call->server && (call->kind == RPC_UNARY || call->kind == RPC_SERVER_STREAM);
}

/* ---- completions: record and mark, nothing else ---- */

static void on_sent(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = OP_OWNER(op, send_op);

    if (call->message_in_flight) {
        struct rpc_out *out = STAILQ_FIRST(&call->queue);

        call->message_in_flight = false;
        STAILQ_REMOVE_HEAD(&call->queue, link);
        call->queued_bytes -= out->len;
        grpc_byte_buffer_destroy(out->bytes);
        free(out);
    }
    if (!ok) {
        call->is_send_broken = true;
    }
    rpc_call_mark(call);
}

static void on_doubt_over(evutil_socket_t fd, short what, void *arg)
{
    struct rpc_call *call = arg;

    (void)fd;
    (void)what;
    call->half_close_due = true;
    rpc_call_mark(call);
}

/* The peer seems to have half-closed. */
static void doubt_half_close(struct rpc_call *call)
{
    const struct timeval wait = { .tv_usec = HALF_CLOSE_DOUBT_MS * 1000L };

    if (!call->server || reads_once(call)) {
        call->half_close_due = true;
        return;
    }
    call->doubt = event_new(call->loop->base, -1, 0, on_doubt_over, call);
    if (!call->doubt || event_add(call->doubt, &wait) < 0) {
        call->half_close_due = true;
    }
}

static void on_arrived(struct rpc_op *op)
{
    struct rpc_call *call = OP_OWNER(op, recv_op);

    if (call->recv_bytes && call->ops.on_arrival) {
        call->ops.on_arrival(call);
    }
}

static void on_received(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = OP_OWNER(op, recv_op);

    if (!ok || !call->recv_bytes) {
        call->recv_done = true;
        if (ok) {
            doubt_half_close(call);
        }
    }
    call->inbox = call->recv_bytes;
    call->recv_bytes = NULL;
    rpc_call_mark(call);
}

static void on_initial(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = OP_OWNER(op, initial_op);

    call->initial_ok = ok;
    rpc_call_mark(call);
}

static void on_close_op(struct rpc_op *op, bool ok)
{
    struct rpc_call *call = OP_OWNER(op, close_op);

    (void)ok;
    call->close_done = true;
    rpc_call_mark(call);
}

/* ---- making and freeing ---- */

struct rpc_call *rpc_call_new(struct rpc_loop *loop, grpc_call *grpc)
{
    struct rpc_call *call = calloc(1, sizeof(*call));

    if (!call) {
        return NULL;
    }
    call->loop = loop;
    call->call = grpc;
    call->send_op.done = on_sent;
    call->recv_op.done = on_received;
    call->recv_op.arrived = on_arrived;
    call->initial_op.done = on_initial;
    call->close_op.done = on_close_op;
    call->message = grpc_empty_slice();
    call->details = grpc_empty_slice();
    call->peer_message = grpc_empty_slice();
    call->deadline = gpr_inf_future(GPR_CLOCK_REALTIME);
    STAILQ_INIT(&call->queue);
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->metadata);
    return call;
}

/* Not the message that gRPC is working on: that goes with its completion. */
static void drop_queue(struct rpc_call *call)
{
    struct rpc_out *first = STAILQ_FIRST(&call->queue);
    struct rpc_out *out;

    if (call->message_in_flight) {
        STAILQ_REMOVE_HEAD(&call->queue, link);
    }
    while ((out = STAILQ_FIRST(&call->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&call->queue, link);
        call->queued_bytes -= out->len;
        grpc_byte_buffer_destroy(out->bytes);
        free(out);
    }
    if (call->message_in_flight) {
        STAILQ_INSERT_HEAD(&call->queue, first, link);
    }
}

static void drop_inbox(struct rpc_call *call)
{
    if (call->inbox) {
        grpc_byte_buffer_destroy(call->inbox);
        call->inbox = NULL;
    }
}

static void call_free(struct rpc_call *call)
{
    drop_queue(call);
    drop_inbox(call);
    if (call->reply) {
        grpc_byte_buffer_destroy(call->reply);
    }
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_slice_unref(call->message);
    grpc_slice_unref(call->details);
    grpc_slice_unref(call->peer_message);
    for (size_t i = 0; i < call->header_count; i++) {
        grpc_slice_unref(call->headers[i].key);
        grpc_slice_unref(call->headers[i].value);
    }
    grpc_call_unref(call->call);
    if (call->doubt) {
        event_free(call->doubt);
    }
    free(call->metadata_value);
    free(call->headers);
    free(call);
}

void rpc_call_start(struct rpc_call *call)
{
    grpc_op op = { 0 };

    if (call->server) {
        op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        op.data.recv_close_on_server.cancelled = &call->was_cancelled;
    } else {
        op.op = GRPC_OP_RECV_INITIAL_METADATA;
        op.data.recv_initial_metadata.recv_initial_metadata = &call->initial;
        rpc_op_batch(call->call, &op, 1, &call->initial_op);
        op = (grpc_op){ 0 };
        op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
        op.data.recv_status_on_client.trailing_metadata = &call->metadata;
        op.data.recv_status_on_client.status = &call->peer_code;
        op.data.recv_status_on_client.status_details = &call->peer_message;
    }
    rpc_op_batch(call->call, &op, 1, &call->close_op);
    rpc_call_mark(call);
}

/* ---- posting ---- */

/* Our last words: a server's status, a client's half-close. */
static void fill_end(struct rpc_call *call, grpc_op *op)
{
    call->end_posted = true;
    if (!call->server) {
        op->op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
        return;
    }
    op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    op->data.send_status_from_server.status = (grpc_status_code)call->code;
    op->data.send_status_from_server.status_details = &call->message;
    if (GRPC_SLICE_LENGTH(call->details) > 0) {
        call->trailer.key = grpc_slice_from_static_string(DETAILS_KEY);
        call->trailer.value = call->details;
        op->data.send_status_from_server.trailing_metadata = &call->trailer;
        op->data.send_status_from_server.trailing_metadata_count = 1;
    }
}

/* A unary call's initial metadata waits for its reply, so all goes in one batch. */
static bool initial_is_due(const struct rpc_call *call)
{
    return !call->initial_posted &&
           (!call->server || call->wants_end || !STAILQ_EMPTY(&call->queue) ||
            call->kind == RPC_SERVER_STREAM || call->kind == RPC_BIDI);
}

static void post_send(struct rpc_call *call)
{
    struct rpc_out *out = STAILQ_FIRST(&call->queue);
    grpc_op ops[3] = { 0 };
    size_t count = 0;

    if (call->send_op.is_pending || call->is_send_broken || call->close_done) {
        return;
    }
    if (initial_is_due(call)) {
        call->initial_posted = true;
        ops[count].op = GRPC_OP_SEND_INITIAL_METADATA;
        ops[count].flags = call->initial_flags;
        ops[count].data.send_initial_metadata.count = call->header_count;
        ops[count].data.send_initial_metadata.metadata = call->headers;
        count++;
    }
    if (out) {
        bool has_more = STAILQ_NEXT(out, link) != NULL;

        call->message_in_flight = true;
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count].flags = has_more ? GRPC_WRITE_BUFFER_HINT : 0;
        ops[count].data.send_message.send_message = out->bytes;
        count++;
    }
    if (call->wants_end && !call->end_posted && (!out || !STAILQ_NEXT(out, link))) {
        fill_end(call, &ops[count++]);
    }
    if (count > 0 && !rpc_op_batch(call->call, ops, count, &call->send_op)) {
        call->message_in_flight = false;
        call->is_send_broken = true;
        rpc_call_cancel(call, RPC_INTERNAL, "batch refused");
    }
}

/* Whether the owner may still be shown messages. */
static bool is_listening(const struct rpc_call *call)
{
    if (call->is_cancelled) {
        return false;
    }
    if (call->server) {
        return !call->wants_end && !call->close_done;
    }
    return !call->close_done || call->peer_code == GRPC_STATUS_OK || !call->is_paused;
}

static void post_recv(struct rpc_call *call)
{
    grpc_op op = { 0 };

    if (call->recv_op.is_pending || call->recv_done || call->inbox || call->is_paused ||
        call->close_done || !is_listening(call)) {
        return;
    }
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &call->recv_bytes;
    if (!rpc_op_batch(call->call, &op, 1, &call->recv_op)) {
        call->recv_done = true;
    }
}

/* ---- callbacks ---- */

/* The next message is already asked for while the owner looks at this one. */
static void show_message(struct rpc_call *call)
{
    grpc_byte_buffer *bytes = call->inbox;
    struct rpc_msg msg;

    call->inbox = NULL;
    if (reads_once(call)) {
        call->recv_done = true;
    }
    if (call->done) { /* unary: kept for the status; a second one is nobody's */
        if (call->reply) {
            grpc_byte_buffer_destroy(bytes);
        } else {
            call->reply = bytes;
        }
        return;
    }
    post_recv(call);
    if (!rpc_msg_of_bytes(bytes, &msg)) {
        rpc_call_cancel(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
    } else if (call->ops.on_message) {
        call->ops.on_message(call, &msg);
        blob_unref(msg.blob);
    } else {
        blob_unref(msg.blob);
    }
    grpc_byte_buffer_destroy(bytes);
}

static void show_half_close(struct rpc_call *call)
{
    call->half_close_due = false;
    if (!call->server) {
        return;
    }
    if (reads_once(call)) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "no request message", NULL, 0);
    } else if (call->ops.on_half_close) {
        call->ops.on_half_close(call);
    }
}

static void run_callbacks(struct rpc_call *call)
{
    if (!call->is_opened && (call->server || call->initial_ok)) {
        call->is_opened = true;
        if (call->ops.on_open && is_listening(call)) {
            call->ops.on_open(call);
        }
    }
    if (call->inbox && !is_listening(call)) {
        drop_inbox(call);
    }
    if (call->inbox && !call->is_paused) {
        show_message(call);
    } else if (call->half_close_due && !call->is_paused && is_listening(call)) {
        show_half_close(call);
    }
    if (call->wants_writable && call->queued_bytes <= call->max_queue_bytes / 2 &&
        rpc_call_takes_messages(call)) {
        call->wants_writable = false;
        if (call->ops.on_writable) {
            call->ops.on_writable(call);
        }
    }
}

/* The client's status, with the details out of the trailers. */
static void read_status(const struct rpc_call *call, const char *text,
                        struct rpc_status *ret_status)
{
    ret_status->code = (int)call->peer_code <= (int)RPC_UNAUTHENTICATED
                           ? (enum rpc_code)call->peer_code
                           : RPC_UNKNOWN;
    ret_status->message = text ? text : "";
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *m = &call->metadata.metadata[i];

        if (grpc_slice_str_cmp(m->key, DETAILS_KEY) == 0) {
            ret_status->details = GRPC_SLICE_START_PTR(m->value);
            ret_status->details_len = GRPC_SLICE_LENGTH(m->value);
            return;
        }
    }
}

static void tell_done(struct rpc_call *call, struct rpc_status *status)
{
    struct rpc_msg msg = { 0 };

    if (status->code == RPC_OK && !call->reply) {
        *status =
            (struct rpc_status){ .code = RPC_INTERNAL, .message = "no reply message" };
    } else if (status->code == RPC_OK && !rpc_msg_of_bytes(call->reply, &msg)) {
        *status = (struct rpc_status){ .code = RPC_RESOURCE_EXHAUSTED,
                                       .message = "out of memory" };
    }
    call->done(status, status->code == RPC_OK ? &msg : NULL, call->arg);
    blob_unref(msg.blob);
}

static void tell_closed(struct rpc_call *call)
{
    struct rpc_status status = { .code = RPC_CANCELLED, .message = "cancelled" };
    char *text = NULL;

    if (!call->server) {
        text = rpc_text_of_slice(call->peer_message);
        read_status(call, text, &status);
    } else if (!call->was_cancelled && call->end_posted && !call->is_send_broken) {
        text = rpc_text_of_slice(call->message);
        status.code = call->code;
        status.message = text ? text : "";
    }
    if (call->done) {
        tell_done(call, &status);
    } else if (call->ops.on_closed) {
        call->ops.on_closed(call, &status);
    }
    free(text);
}

/* A client sees what had arrived before it sees the end; one that paused keeps the end
 * waiting if all went well, and loses the message otherwise. */
static bool is_over(const struct rpc_call *call)
{
    return call->close_done && !call->send_op.is_pending && !call->recv_op.is_pending &&
           !call->initial_op.is_pending && !call->inbox;
}

void rpc_call_step(struct rpc_call *call)
{
    struct rpc_server *server = call->server;
    struct rpc_channel *channel = call->channel;

    run_callbacks(call);
    if (call->is_send_broken || call->close_done) {
        drop_queue(call);
    }
    post_send(call);
    post_recv(call);
    if (!is_over(call)) {
        if (call->inbox && !call->is_paused) {
            rpc_call_mark(call); /* it came while callbacks ran */
        }
        return;
    }
    tell_closed(call);
    if (call->is_ready) {
        call->is_ready = false;
        TAILQ_REMOVE(&call->loop->ready, call, in_ready);
    }
    if (server) {
        rpc_server_forget(server, call);
    } else {
        rpc_channel_forget(channel, call);
    }
    call_free(call);
    if (server) {
        rpc_server_settle(server);
    } else {
        rpc_channel_settle(channel);
    }
}

void rpc_call_drop(struct rpc_call *call)
{
    if (call->is_ready) {
        call->is_ready = false;
        TAILQ_REMOVE(&call->loop->ready, call, in_ready);
    }
    call_free(call);
}
