#include "proto/rpc/rpc_pb.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_core.h"
#include "proto/rpc/wire.h"

enum {
    ARENA_LIMIT = 64 << 20,
    FIRST_CHUNK = 16 << 10,
};

/* ---- arena ---- */

struct rpc_arena_chunk {
    struct rpc_arena_chunk *next; /* older; the first chunk is last */
    size_t size;
    size_t used;
    alignas(16) uint8_t bytes[];
};

static struct rpc_arena_chunk *add_chunk(struct rpc_arena *arena, size_t size)
{
    const size_t limit = arena->limit ? arena->limit : ARENA_LIMIT;
    struct rpc_arena_chunk *chunk;
    size_t want = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;

    if (size > limit - arena->used) {
        return NULL;
    }
    if (want > limit - arena->used) {
        want = limit - arena->used;
    }
    if (want < size) {
        want = size;
    }
    chunk = malloc(sizeof(*chunk) + want);
    if (chunk) {
        chunk->next = arena->chunks;
        chunk->size = want;
        chunk->used = 0;
        arena->chunks = chunk;
    }
    return chunk;
}

/* 16-byte aligned; null when memory or the arena's limit is out. */
static void *arena_take(struct rpc_arena *arena, size_t size)
{
    struct rpc_arena_chunk *chunk = arena->chunks;
    void *at;

    if (size > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    size = (size + 15) & ~(size_t)15;
    if (!chunk || size > chunk->size - chunk->used) {
        chunk = add_chunk(arena, size);
        if (!chunk) {
            arena->failed = true;
            return NULL;
        }
    }
    at = chunk->bytes + chunk->used;
    chunk->used += size;
    arena->used += size;
    return at;
}

void rpc_arena_reset(struct rpc_arena *arena)
{
    while (arena->chunks && arena->chunks->next) {
        struct rpc_arena_chunk *next = arena->chunks->next;

        free(arena->chunks);
        arena->chunks = next;
    }
    if (arena->chunks) {
        arena->chunks->used = 0;
    }
    arena->used = 0;
    arena->failed = false;
}

void rpc_arena_fini(struct rpc_arena *arena)
{
    rpc_arena_reset(arena);
    free(arena->chunks);
    arena->chunks = NULL;
}

static void *arena_alloc(void *arena, size_t size)
{
    return arena_take(arena, size);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer; /* dies with the arena */
}

/* ---- in ---- */

enum rc rpc_pb_unpack(struct rpc_arena *arena,
                      const ProtobufCMessageDescriptor *descriptor,
                      const uint8_t *bytes, size_t len, ProtobufCMessage **ret_msg,
                      struct err *err)
{
    ProtobufCAllocator allocator = { arena_alloc, arena_free, arena };
    ProtobufCMessage *msg =
        protobuf_c_message_unpack(descriptor, &allocator, len, bytes);

    if (msg) {
        *ret_msg = msg;
        return RC_OK;
    }
    if (arena->failed) {
        return err_field(err, RC_FULL, "", "message_memory",
                         "%s of %zu bytes needs too much memory", descriptor->name,
                         len);
    }
    return err_field(err, RC_INVALID, "", "protobuf",
                     "%zu bytes are no valid %s message", len, descriptor->name);
}

ProtobufCMessage *rpc_pb_take(struct rpc_call *call, struct rpc_arena *arena,
                              const ProtobufCMessageDescriptor *descriptor,
                              const struct rpc_msg *msg)
{
    ProtobufCMessage *got = NULL;
    struct err err = { 0 };

    if (rpc_pb_unpack(arena, descriptor, msg->data, msg->len, &got, &err) != RC_OK) {
        rpc_call_finish_err(call, &err);
        return NULL;
    }
    return got;
}

enum rc rpc_pb_find(const uint8_t *bytes, size_t len, uint32_t field,
                    const uint8_t **ret_bytes, size_t *ret_len)
{
    struct reader r = reader_of(bytes, len);
    struct wire_field found = { 0 };
    struct wire_field f;

    while (reader_left(&r) > 0) {
        if (!wire_next(&r, &f)) {
            return RC_INVALID;
        }
        if (f.number == field && f.type == WIRE_BYTES) {
            found = f;
        }
    }
    if (found.number == 0) {
        return RC_NOT_FOUND;
    }
    *ret_bytes = found.bytes;
    *ret_len = found.len;
    return RC_OK;
}

/* ---- out ---- */

static grpc_byte_buffer *bytes_of_message(const ProtobufCMessage *msg)
{
    size_t len = protobuf_c_message_get_packed_size(msg);
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice slice = grpc_slice_malloc(len);

    protobuf_c_message_pack(msg, GRPC_SLICE_START_PTR(slice));
    grpc_slice_buffer_add(&bytes->data.raw.slice_buffer, slice);
    return bytes;
}

enum rc rpc_pb_send(struct rpc_call *call, const ProtobufCMessage *msg)
{
    return rpc_call_queue(call, bytes_of_message(msg));
}

enum rc rpc_pb_reply(struct rpc_call *call, const ProtobufCMessage *msg)
{
    enum rc rc = rpc_pb_send(call, msg);

    if (rc == RC_OK) {
        rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
    }
    return rc;
}

enum rc rpc_pb_unary(struct rpc_channel *channel, const char *path,
                     const ProtobufCMessage *msg,
                     const struct rpc_call_options *options, rpc_done_fn *on_done,
                     void *arg, struct rpc_call **ret_call)
{
    return rpc_unary_bytes(channel, path, bytes_of_message(msg), options, on_done, arg,
                           ret_call);
}

enum rc rpc_pb_send_blob(struct rpc_call *call, uint32_t outer_field,
                         const ProtobufCMessage *msg, uint32_t bytes_field,
                         struct blob *blob)
{
    const size_t len = protobuf_c_message_get_packed_size(msg);
    uint8_t outer[2 * WIRE_VARINT_MAX];
    uint8_t inner[2 * WIRE_VARINT_MAX];
    const size_t inner_len = wire_head(inner, bytes_field, blob->len);
    size_t outer_len = 0;
    grpc_byte_buffer *bytes;
    const struct rpc_part part = { .blob = blob };
    grpc_slice head;
    uint8_t *to;

    if (outer_field > 0) {
        outer_len = wire_head(outer, outer_field, len + inner_len + blob->len);
    }
    head = grpc_slice_malloc(outer_len + len + inner_len);
    to = GRPC_SLICE_START_PTR(head);
    memcpy(to, outer, outer_len);
    protobuf_c_message_pack(msg, to + outer_len);
    memcpy(to + outer_len + len, inner, inner_len);
    bytes = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer_add(&bytes->data.raw.slice_buffer, head);
    rpc_bytes_add(bytes, &part);
    return rpc_call_queue(call, bytes);
}
