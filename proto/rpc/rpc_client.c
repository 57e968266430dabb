#include "proto/rpc/rpc_client.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_core.h"

struct rpc_channel {
    struct rpc_loop *loop;
    LIST_ENTRY(rpc_channel) in_loop;
    grpc_channel *channel;
    size_t max_queue_bytes;
    struct rpc_call_list calls;
    bool is_closing;
};

static void fill_args(struct rpc_args *args, const struct rpc_channel_options *options)
{
    const int backoff = (int)(options->backoff_ms ? options->backoff_ms : 100);
    const int longest = (int)(options->max_backoff_ms ? options->max_backoff_ms : 1000);

    rpc_args_common(args, options->max_message_bytes, options->keepalive_ms,
                    options->keepalive_timeout_ms);
    rpc_args_int(args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, backoff);
    rpc_args_int(args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, longest);
    rpc_args_int(args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, longest);
    /* Channels to one address do not share a connection: one device, one connection. */
    rpc_args_int(args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    /* What is repeated, and when, is decided above, where it is known to be safe. */
    rpc_args_int(args, GRPC_ARG_ENABLE_RETRIES, 0);
    /* Nothing outside decides how we reach our own peers. */
    rpc_args_int(args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    rpc_args_int(args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    rpc_args_int(args, GRPC_ARG_MAX_METADATA_SIZE,
                 (int)(options->max_metadata_bytes ? options->max_metadata_bytes
                                                   : RPC_MAX_METADATA_BYTES));
    if (options->tls_name) {
        rpc_args_text(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, options->tls_name);
    }
}

enum rc rpc_channel_new(struct rpc_loop *loop,
                        const struct rpc_channel_options *options,
                        struct rpc_channel **ret_channel, struct err *err)
{
    struct rpc_channel *channel;
    grpc_channel_credentials *creds = NULL;
    struct rpc_args args = { 0 };
    grpc_channel_args list;
    enum rc rc = rpc_tls_client(options->tls, &creds, err);

    if (rc != RC_OK) {
        return err_wrap(err, rc, "channel to %s", options->address);
    }
    channel = calloc(1, sizeof(*channel));
    if (!channel) {
        grpc_channel_credentials_release(creds);
        return err_set(err, RC_NO_MEMORY, "channel to %s: out of memory",
                       options->address);
    }
    fill_args(&args, options);
    list = (grpc_channel_args){ .num_args = args.count, .args = args.list };
    channel->loop = loop;
    channel->max_queue_bytes =
        options->max_queue_bytes ? options->max_queue_bytes : RPC_MAX_QUEUE_BYTES;
    channel->channel = grpc_channel_create(options->address, creds, &list);
    grpc_channel_credentials_release(creds);
    TAILQ_INIT(&channel->calls);
    LIST_INSERT_HEAD(&loop->channels, channel, in_loop);
    *ret_channel = channel;
    return RC_OK;
}

void rpc_channel_settle(struct rpc_channel *channel)
{
    if (channel->is_closing && TAILQ_EMPTY(&channel->calls)) {
        grpc_channel_destroy(channel->channel);
        LIST_REMOVE(channel, in_loop);
        free(channel);
    }
}

void rpc_channel_forget(struct rpc_channel *channel, struct rpc_call *call)
{
    TAILQ_REMOVE(&channel->calls, call, in_owner);
}

void rpc_channel_free(struct rpc_channel *channel)
{
    struct rpc_call *call;

    if (!channel || channel->is_closing) {
        return;
    }
    channel->is_closing = true;
    TAILQ_FOREACH(call, &channel->calls, in_owner)
    {
        rpc_call_cancel(call, RPC_CANCELLED, "channel closed");
        /* One that ended well and waits, paused, to show its last message: drop it. */
        call->is_cancelled = true;
        rpc_call_mark(call);
    }
    rpc_channel_settle(channel);
}

struct rpc_channel *rpc_channel_first_open(struct rpc_loop *loop)
{
    struct rpc_channel *channel;

    LIST_FOREACH(channel, &loop->channels, in_loop)
    {
        if (!channel->is_closing) {
            return channel;
        }
    }
    return NULL;
}

static bool copy_headers(struct rpc_call *call, const struct rpc_call_options *options)
{
    if (options->header_count == 0) {
        return true;
    }
    call->headers = calloc(options->header_count, sizeof(*call->headers));
    if (!call->headers) {
        return false;
    }
    for (size_t i = 0; i < options->header_count; i++) {
        call->headers[i].key = grpc_slice_from_copied_string(options->headers[i].name);
        call->headers[i].value =
            grpc_slice_from_copied_string(options->headers[i].value);
    }
    call->header_count = options->header_count;
    return true;
}

static gpr_timespec deadline_of(const struct rpc_call_options *options)
{
    if (options->deadline_ms == 0) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(options->deadline_ms, GPR_TIMESPAN));
}

/* A call that has not started: nothing was posted, so it can still be dropped. */
static struct rpc_call *make_call(struct rpc_channel *channel, const char *path,
                                  const struct rpc_call_options *options)
{
    static const struct rpc_call_options none = { 0 };
    gpr_timespec deadline;
    struct rpc_call *call;
    grpc_call *grpc;
    grpc_slice path_slice;

    options = options ? options : &none;
    deadline = deadline_of(options);
    path_slice = grpc_slice_from_copied_string(path);
    grpc =
        grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                 channel->loop->cq, path_slice, NULL, deadline, NULL);
    grpc_slice_unref(path_slice);
    call = rpc_call_new(channel->loop, grpc);
    if (!call) {
        grpc_call_unref(grpc);
        return NULL;
    }
    if (!copy_headers(call, options)) {
        rpc_call_drop(call);
        return NULL;
    }
    call->channel = channel;
    call->deadline = deadline;
    call->kind = RPC_BIDI;
    call->max_queue_bytes = channel->max_queue_bytes;
    call->is_paused = options->paused;
    if (options->wait_for_ready) {
        call->initial_flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                              GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    }
    return call;
}

static void launch(struct rpc_channel *channel, struct rpc_call *call, void *arg)
{
    call->arg = arg;
    call->data = arg;
    TAILQ_INSERT_TAIL(&channel->calls, call, in_owner);
    rpc_call_start(call);
}

enum rc rpc_stream(struct rpc_channel *channel, const char *path,
                   const struct rpc_call_options *options,
                   const struct rpc_call_ops *ops, void *arg,
                   struct rpc_call **ret_call)
{
    struct rpc_call *call;

    if (channel->is_closing) {
        return RC_INVALID;
    }
    call = make_call(channel, path, options);
    if (!call) {
        return RC_NO_MEMORY;
    }
    call->ops = *ops;
    launch(channel, call, arg);
    *ret_call = call;
    return RC_OK;
}

enum rc rpc_unary_bytes(struct rpc_channel *channel, const char *path,
                        grpc_byte_buffer *request,
                        const struct rpc_call_options *options, rpc_done_fn *on_done,
                        void *arg, struct rpc_call **ret_call)
{
    struct rpc_call *call;
    enum rc rc;

    if (channel->is_closing) {
        grpc_byte_buffer_destroy(request);
        return RC_INVALID;
    }
    call = make_call(channel, path, options);
    if (!call) {
        grpc_byte_buffer_destroy(request);
        return RC_NO_MEMORY;
    }
    call->kind = RPC_UNARY;
    call->is_paused = false;
    call->done = on_done;
    rc = rpc_call_queue(call, request);
    if (rc != RC_OK) {
        rpc_call_drop(call);
        return rc;
    }
    rpc_call_close_send(call);
    launch(channel, call, arg);
    if (ret_call) {
        *ret_call = call;
    }
    return RC_OK;
}

enum rc rpc_unary(struct rpc_channel *channel, const char *path,
                  const struct rpc_part *parts, size_t count,
                  const struct rpc_call_options *options, rpc_done_fn *on_done,
                  void *arg, struct rpc_call **ret_call)
{
    return rpc_unary_bytes(channel, path, rpc_bytes_of_parts(parts, count), options,
                           on_done, arg, ret_call);
}
