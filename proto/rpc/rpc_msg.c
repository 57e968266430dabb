/* Messages between gRPC's slices and our bytes and blobs, and channel arguments. */
#include "proto/rpc/rpc_core.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <string.h>

static void release_blob(void *blob)
{
    blob_unref(blob);
}

static grpc_slice slice_of_part(const struct rpc_part *part)
{
    const uint8_t *data = part->data;
    size_t len = part->len;

    if (!part->blob) {
        return grpc_slice_from_copied_buffer(part->data, part->len);
    }
    if (!data) {
        data = part->blob->data;
        len = part->blob->len;
    }
    /* gRPC wants a mutable pointer and never writes through it. */
    return grpc_slice_new_with_user_data((void *)data, len, release_blob,
                                         blob_ref(part->blob));
}

void rpc_bytes_add(grpc_byte_buffer *bytes, const struct rpc_part *part)
{
    if (part->len > 0 || part->blob) {
        grpc_slice_buffer_add(&bytes->data.raw.slice_buffer, slice_of_part(part));
    }
}

grpc_byte_buffer *rpc_bytes_of_parts(const struct rpc_part *parts, size_t count)
{
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(NULL, 0);

    for (size_t i = 0; i < count; i++) {
        rpc_bytes_add(bytes, &parts[i]);
    }
    return bytes;
}

bool rpc_msg_of_bytes(grpc_byte_buffer *bytes, struct rpc_msg *ret_msg)
{
    grpc_slice_buffer *slices = &bytes->data.raw.slice_buffer;
    struct blob *blob;
    size_t at = 0;

    if (slices->count == 1) {
        /* The slice stays where it is while `bytes` lives, inlined ones included. */
        *ret_msg = (struct rpc_msg){ .data = GRPC_SLICE_START_PTR(slices->slices[0]),
                                     .len = GRPC_SLICE_LENGTH(slices->slices[0]) };
        return true;
    }
    blob = blob_new(slices->length);
    if (!blob) {
        return false;
    }
    for (size_t i = 0; i < slices->count; i++) {
        memcpy(blob->data + at, GRPC_SLICE_START_PTR(slices->slices[i]),
               GRPC_SLICE_LENGTH(slices->slices[i]));
        at += GRPC_SLICE_LENGTH(slices->slices[i]);
    }
    *ret_msg = (struct rpc_msg){ .data = blob->data, .len = at, .blob = blob };
    return true;
}

struct blob *rpc_msg_blob(const struct rpc_msg *msg)
{
    return msg->blob ? blob_ref(msg->blob) : blob_copy(msg->data, msg->len);
}

void rpc_args_int(struct rpc_args *args, const char *key, int value)
{
    grpc_arg *arg = &args->list[args->count++];

    arg->type = GRPC_ARG_INTEGER;
    arg->key = (char *)key;
    arg->value.integer = value;
}

void rpc_args_text(struct rpc_args *args, const char *key, const char *value)
{
    grpc_arg *arg = &args->list[args->count++];

    arg->type = GRPC_ARG_STRING;
    arg->key = (char *)key;
    arg->value.string = (char *)value;
}

void rpc_args_common(struct rpc_args *args, uint32_t max_message_bytes,
                     uint32_t keepalive_ms, uint32_t keepalive_timeout_ms)
{
    rpc_args_int(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                 (int)(max_message_bytes ? max_message_bytes : RPC_MAX_MESSAGE_BYTES));
    rpc_args_int(args, GRPC_ARG_KEEPALIVE_TIME_MS,
                 (int)(keepalive_ms ? keepalive_ms : 1000));
    rpc_args_int(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                 (int)(keepalive_timeout_ms ? keepalive_timeout_ms : 1000));
    rpc_args_int(args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    rpc_args_int(args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    /* A server's default lets a client ping every 5 minutes and then hangs up with
     * too_many_pings.  100 ms leaves room for pings that were late and come together.
     */
    rpc_args_int(args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
    /* Only "identity": a compressed message is refused, so a small one cannot grow
     * past the limit. */
    rpc_args_int(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                 1 << GRPC_COMPRESS_NONE);
}
