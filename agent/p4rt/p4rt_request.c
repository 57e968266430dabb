/* The outsides of messages: heads, and the walk over what is repeated. */
#include "agent/p4rt/p4rt_codec.h"

#include <string.h>

#include "agent/p4rt/p4rt_wire.h"

bool p4rt_next(struct p4rt_cursor *c, struct p4rt_piece *ret)
{
    struct wire_field f;

    while (reader_left(&c->left) > 0 && field_next(&c->left, &f)) {
        if (f.number == c->number && f.type == WIRE_BYTES) {
            *ret = (struct p4rt_piece){ f.bytes, f.len };
            return true;
        }
    }
    return false;
}

/* Uint128. */
static bool take_election(const struct wire_field *outer, struct p4rt_write_head *ret)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f;

    ret->has_election = true;
    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f)) {
            return false;
        }
        if (f.type == WIRE_VARINT && f.number == 1) {
            ret->election_high = f.value;
        } else if (f.type == WIRE_VARINT && f.number == 2) {
            ret->election_low = f.value;
        }
    }
    return true;
}

static bool take_head(const struct wire_field *f, struct p4rt_write_head *ret)
{
    bool is_number = f->type == WIRE_VARINT;

    switch (f->number) {
    case 1:
        ret->device_id = is_number ? f->value : 0;
        return is_number;
    case 2:
        ret->has_role |= is_number && f->value != 0;
        return is_number;
    case 3:
        return f->type == WIRE_BYTES && take_election(f, ret);
    case 4:
        ret->update_count++;
        return f->type == WIRE_BYTES;
    case 5:
        ret->atomicity = is_number ? (uint32_t)f->value : 0;
        return is_number && f->value <= UINT32_MAX;
    case 6:
        ret->has_role |= f->type == WIRE_BYTES && f->len > 0;
        return f->type == WIRE_BYTES;
    default:
        return true;
    }
}

enum rc p4rt_write_open(const void *bytes, size_t len, struct p4rt_write_head *ret,
                        struct p4rt_cursor *ret_updates, struct err *err)
{
    struct reader r = reader_of(bytes, len);
    struct p4rt_write_head head = { 0 };
    struct wire_field f;

    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f) || !take_head(&f, &head)) {
            return err_field(err, RC_INVALID, "write", "protobuf",
                             "no WriteRequest: malformed");
        }
    }
    *ret = head;
    *ret_updates = (struct p4rt_cursor){ reader_of(bytes, len), 4 };
    return RC_OK;
}

enum rc p4rt_read_open(const void *bytes, size_t len, uint64_t *ret_device_id,
                       struct p4rt_cursor *ret_queries, struct err *err)
{
    struct reader r = reader_of(bytes, len);
    uint64_t device_id = 0;
    struct wire_field f;

    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f) || (f.number == 1 && f.type != WIRE_VARINT) ||
            (f.number == 2 && f.type != WIRE_BYTES)) {
            return err_field(err, RC_INVALID, "read", "protobuf",
                             "no ReadRequest: malformed");
        }
        if (f.number == 1) {
            device_id = f.value;
        }
    }
    *ret_device_id = device_id;
    *ret_queries = (struct p4rt_cursor){ reader_of(bytes, len), 2 };
    return RC_OK;
}

enum rc p4rt_response_open(const void *bytes, size_t len,
                           struct p4rt_cursor *ret_entities, struct err *err)
{
    struct reader r = reader_of(bytes, len);
    struct wire_field f;

    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f) || (f.number == 1 && f.type != WIRE_BYTES)) {
            return err_field(err, RC_INVALID, "read", "protobuf",
                             "no ReadResponse: malformed");
        }
    }
    *ret_entities = (struct p4rt_cursor){ reader_of(bytes, len), 1 };
    return RC_OK;
}

/* ---- per-update errors ---- */

#define ERROR_TYPE "type.googleapis.com/p4.v1.Error"

static void put_head(struct buf *to, uint32_t number, size_t len)
{
    uint8_t bytes[2 * WIRE_VARINT_MAX];

    buf_add(to, bytes, wire_head(bytes, number, len));
}

static void put_text(struct buf *to, uint32_t number, const char *text)
{
    if (text && text[0]) {
        put_head(to, number, strlen(text));
        buf_text(to, text);
    }
}

static void put_code(struct buf *to, enum rpc_code code)
{
    if (code != RPC_OK) {
        buf_u8(to, 1 << 3 | WIRE_VARINT);
        buf_u8(to, (uint8_t)code);
    }
}

/* The bytes that put_text() of it takes. */
static size_t text_size(const char *text)
{
    uint8_t head[2 * WIRE_VARINT_MAX];

    return text && text[0] ? wire_head(head, 1, strlen(text)) + strlen(text) : 0;
}

void p4rt_errors_begin(struct buf *to, enum rpc_code code, const char *message)
{
    put_code(to, code);
    put_text(to, 2, message);
}

void p4rt_errors_add(struct buf *to, enum rpc_code code, const char *message)
{
    uint8_t head[2 * WIRE_VARINT_MAX];
    size_t value = (code != RPC_OK ? 2 : 0) + text_size(message);
    size_t any =
        text_size(ERROR_TYPE) + (value ? wire_head(head, 2, value) + value : 0);

    put_head(to, 3, any);
    put_text(to, 1, ERROR_TYPE);
    if (value > 0) {
        put_head(to, 2, value);
    }
    put_code(to, code);
    put_text(to, 2, message);
}

/* p4.v1.Error. */
static bool take_error(const struct wire_field *value, enum rpc_code *ret_code,
                       struct wire_field *ret_message)
{
    struct reader r = reader_of_field(value);
    struct wire_field f;
    uint64_t code = 0;

    *ret_message = (struct wire_field){ 0 };
    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f)) {
            return false;
        }
        if (f.number == 1 && f.type == WIRE_VARINT) {
            code = f.value;
        } else if (f.number == 2 && f.type == WIRE_BYTES) {
            *ret_message = f;
        }
    }
    *ret_code = code <= RPC_UNAUTHENTICATED ? (enum rpc_code)code : RPC_UNKNOWN;
    return true;
}

/* google.protobuf.Any: false if it is malformed or no p4.v1.Error. */
static bool take_any(const struct wire_field *any, struct wire_field *ret_value)
{
    struct reader r = reader_of_field(any);
    bool is_error = false;
    struct wire_field f;

    *ret_value = (struct wire_field){ .bytes = any->bytes };
    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f)) {
            return false;
        }
        if (f.number == 1 && f.type == WIRE_BYTES) {
            is_error =
                f.len == strlen(ERROR_TYPE) && memcmp(f.bytes, ERROR_TYPE, f.len) == 0;
        } else if (f.number == 2 && f.type == WIRE_BYTES) {
            *ret_value = f;
        }
    }
    return is_error;
}

static void note_failure(struct p4rt_failure *first, size_t index, enum rpc_code code,
                         const struct wire_field *message)
{
    size_t len = message->len < sizeof(first->message) - 1 ? message->len
                                                           : sizeof(first->message) - 1;

    first->index = index;
    first->code = code;
    if (len > 0) {
        memcpy(first->message, message->bytes, len);
    }
    first->message[len] = '\0';
}

enum rc p4rt_errors_decode(const void *details, size_t len, uint8_t *codes,
                           size_t count, struct p4rt_failure *ret_first)
{
    struct reader r = reader_of(details, len);
    struct p4rt_failure first = { .index = count };
    struct wire_field f;
    struct wire_field value;
    struct wire_field text;
    enum rpc_code code;
    size_t n = 0;

    while (reader_left(&r) > 0) {
        if (!field_next(&r, &f)) {
            return RC_INVALID;
        }
        if (f.number != 3 || f.type != WIRE_BYTES) {
            continue;
        }
        if (n == count || !take_any(&f, &value) || !take_error(&value, &code, &text)) {
            return RC_INVALID;
        }
        if (code != RPC_OK && first.index == count) {
            note_failure(&first, n, code, &text);
        }
        codes[n++] = (uint8_t)code;
    }
    if (n != count) {
        return n == 0 ? RC_NOT_FOUND : RC_INVALID;
    }
    *ret_first = first;
    return RC_OK;
}
