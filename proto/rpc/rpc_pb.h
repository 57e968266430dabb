/*
 * rpc_pb - protobuf-c messages in and out of calls.
 *
 * In: unpacked into an arena with a limit, so a hostile message cannot take more memory
 * than it is granted, and freeing is one reset.  Out: packed straight into gRPC's
 * memory; big payloads ride along as a blob without a copy.  The loop's thread, or any
 * one thread for the functions without a call.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/blob.h"
#include "proto/base/err.h"
#include "proto/rpc/rpc_call.h"
#include "proto/rpc/rpc_client.h"

/* Memory that dies as a whole.  Zero-initialise but for `limit`; reuse with reset. */
struct rpc_arena {
    size_t limit; /* most bytes it may hold; 0 means 64 MiB */
    size_t used;
    struct rpc_arena_chunk *chunks; /* private */
    bool failed;                    /* a request was refused since the last reset */
};

#define RPC_ARENA_INIT                                                                 \
    {                                                                                  \
        0                                                                              \
    }

void rpc_arena_reset(struct rpc_arena *arena); /* keeps the first chunk */
void rpc_arena_fini(struct rpc_arena *arena);

/* Unpacks into `arena`; the message lives until its reset.  RC_INVALID with rule
 * "protobuf" for bytes that are no such message, RC_FULL when the arena's limit is
 * passed. */
enum rc rpc_pb_unpack(struct rpc_arena *arena,
                      const ProtobufCMessageDescriptor *descriptor,
                      const uint8_t *bytes, size_t len, ProtobufCMessage **ret_msg,
                      struct err *err);

/* Unpacks `msg`; when that fails on a server's call, finishes the call with the error
 * (INVALID_ARGUMENT) and returns null. */
ProtobufCMessage *rpc_pb_take(struct rpc_call *call, struct rpc_arena *arena,
                              const ProtobufCMessageDescriptor *descriptor,
                              const struct rpc_msg *msg);

/* As rpc_call_send(), rpc_call_reply() and rpc_unary(), with a message. */
enum rc rpc_pb_send(struct rpc_call *call, const ProtobufCMessage *msg);
enum rc rpc_pb_reply(struct rpc_call *call, const ProtobufCMessage *msg);
enum rc rpc_pb_unary(struct rpc_channel *channel, const char *path,
                     const ProtobufCMessage *msg,
                     const struct rpc_call_options *options, rpc_done_fn *on_done,
                     void *arg, struct rpc_call **ret_call);

/* Sends `msg` with the bytes field `bytes_field` := `blob`, uncopied.  With
 * `outer_field` > 0 all of it is the content of that field of the message that
 * travels: for `ToAgent { oneof { … Batch batch = 3; } }`, `Batch { bytes packed = 2;
 * }` it is rpc_pb_send_blob(call, 3, &batch->base, 2, blob).  Leave that field of `msg`
 * empty. */
enum rc rpc_pb_send_blob(struct rpc_call *call, uint32_t outer_field,
                         const ProtobufCMessage *msg, uint32_t bytes_field,
                         struct blob *blob);

/* Finds the last length-delimited field `field` in an encoded message without
 * unpacking it.  RC_NOT_FOUND when absent, RC_INVALID when the bytes are malformed
 * before their end. */
enum rc rpc_pb_find(const uint8_t *bytes, size_t len, uint32_t field,
                    const uint8_t **ret_bytes, size_t *ret_len);
