/* What an owner asks of a call: flags are set here, rpc_call_step() acts on them. */
#include "proto/rpc/rpc_core.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

/* What a queued message costs beside its bytes, so that empty ones are bounded too. */
#define OUT_OVERHEAD 128

bool rpc_call_takes_messages(const struct rpc_call *call)
{
    return !call->wants_end && !call->close_done && !call->is_send_broken;
}

char *rpc_text_of_slice(grpc_slice slice)
{
    return strndup((const char *)GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

enum rc rpc_call_queue(struct rpc_call *call, grpc_byte_buffer *bytes)
{
    size_t len = grpc_byte_buffer_length(bytes) + OUT_OVERHEAD;
    struct rpc_out *out = NULL;
    enum rc rc = RC_OK;

    if (!rpc_call_takes_messages(call)) {
        rc = RC_INVALID;
    } else if (call->queued_bytes > 0 &&
               call->queued_bytes + len > call->max_queue_bytes) {
        call->wants_writable = true;
        rc = RC_FULL;
    } else {
        out = malloc(sizeof(*out));
        rc = out ? RC_OK : RC_NO_MEMORY;
    }
    if (rc != RC_OK) {
        grpc_byte_buffer_destroy(bytes);
        return rc;
    }
    out->bytes = bytes;
    out->len = len;
    call->queued_bytes += len;
    STAILQ_INSERT_TAIL(&call->queue, out, link);
    rpc_call_mark(call);
    return RC_OK;
}

enum rc rpc_call_send(struct rpc_call *call, const struct rpc_part *parts, size_t count)
{
    return rpc_call_queue(call, rpc_bytes_of_parts(parts, count));
}

enum rc rpc_call_send_bytes(struct rpc_call *call, const void *bytes, size_t len)
{
    const struct rpc_part part = { .data = bytes, .len = len };

    return rpc_call_send(call, &part, 1);
}

bool rpc_call_is_writable(struct rpc_call *call)
{
    if (call->queued_bytes < call->max_queue_bytes) {
        return rpc_call_takes_messages(call);
    }
    call->wants_writable = true;
    return false;
}

size_t rpc_call_queued_bytes(const struct rpc_call *call)
{
    return call->queued_bytes;
}

void rpc_call_pause(struct rpc_call *call)
{
    call->is_paused = true;
}

void rpc_call_resume(struct rpc_call *call)
{
    call->is_paused = false;
    rpc_call_mark(call);
}

void rpc_call_close_send(struct rpc_call *call)
{
    if (!call->server) {
        call->wants_end = true;
        rpc_call_mark(call);
    }
}

void rpc_call_finish(struct rpc_call *call, enum rpc_code code, const char *message,
                     const void *details, size_t details_len)
{
    if (!call->server || call->wants_end) {
        return;
    }
    call->wants_end = true;
    call->code = code;
    call->message = grpc_slice_from_copied_string(message ? message : "");
    if (details_len > 0) {
        call->details = grpc_slice_from_copied_buffer(details, details_len);
    }
    rpc_call_mark(call);
}

void rpc_call_finish_err(struct rpc_call *call, const struct err *err)
{
    uint8_t details[RPC_DETAILS_MAX];
    size_t len = rpc_details_encode(err, details, sizeof(details));

    rpc_call_finish(call, rpc_code_of_rc(err->code), err->msg, details, len);
}

enum rc rpc_call_reply(struct rpc_call *call, const struct rpc_part *parts,
                       size_t count)
{
    enum rc rc = rpc_call_send(call, parts, count);

    if (rc == RC_OK) {
        rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
    }
    return rc;
}

void rpc_call_cancel(struct rpc_call *call, enum rpc_code code, const char *message)
{
    if (call->close_done) {
        return;
    }
    call->is_cancelled = true;
    call->is_send_broken = true;
    grpc_call_cancel_with_status(call->call, (grpc_status_code)code,
                                 message ? message : "cancelled", NULL);
    rpc_call_mark(call);
}

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
    return call->data;
}

void *rpc_call_arg(const struct rpc_call *call)
{
    return call->arg;
}

const char *rpc_call_peer_name(const struct rpc_call *call)
{
    return call->peer_name;
}

const char *rpc_call_metadata(struct rpc_call *call, const char *name)
{
    for (size_t i = 0; i < call->metadata.count; i++) {
        if (grpc_slice_str_cmp(call->metadata.metadata[i].key, name) == 0) {
            free(call->metadata_value);
            call->metadata_value = rpc_text_of_slice(call->metadata.metadata[i].value);
            return call->metadata_value;
        }
    }
    return NULL;
}

int64_t rpc_call_ms_left(const struct rpc_call *call)
{
    gpr_timespec left;

    if (gpr_time_cmp(call->deadline, gpr_inf_future(call->deadline.clock_type)) == 0) {
        return -1;
    }
    left = gpr_time_sub(call->deadline, gpr_now(call->deadline.clock_type));
    return left.tv_sec < 0 ? 0 : left.tv_sec * 1000 + left.tv_nsec / 1000000;
}
