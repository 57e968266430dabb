#include "proto/rpc/wire.h"

/* Base-128, least significant group first. */
static bool take_varint(struct reader *r, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t b = read_u8(r);

        if (r->failed || (shift == 63 && b > 1)) {
            return false;
        }
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

bool wire_next(struct reader *r, struct wire_field *ret)
{
    struct wire_field f = { 0 };
    bool is_whole = false;
    uint64_t v;

    if (!take_varint(r, &v) || v >> 3 == 0 || v >> 3 > 0x1fffffff) {
        return false;
    }
    f.number = (uint32_t)(v >> 3);
    f.type = v & 7;
    switch (f.type) {
    case WIRE_VARINT:
        is_whole = take_varint(r, &f.value);
        break;
    case WIRE_FIXED64:
        is_whole = read_bytes(r, 8) != NULL;
        break;
    case WIRE_FIXED32:
        is_whole = read_bytes(r, 4) != NULL;
        break;
    case WIRE_BYTES:
        if (!take_varint(r, &v) || v > reader_left(r)) {
            return false;
        }
        f.len = (size_t)v;
        f.bytes = read_bytes(r, f.len);
        is_whole = true;
        break;
    default:
        break; /* groups are not proto3 */
    }
    if (is_whole) {
        *ret = f;
    }
    return is_whole;
}

size_t wire_varint(uint8_t to[WIRE_VARINT_MAX], uint64_t value)
{
    size_t len = 0;

    while (value >= 0x80) {
        to[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    to[len++] = (uint8_t)value;
    return len;
}

size_t wire_head(uint8_t to[2 * WIRE_VARINT_MAX], uint32_t number, uint64_t len)
{
    size_t at = wire_varint(to, (uint64_t)number << 3 | WIRE_BYTES);

    return at + wire_varint(to + at, len);
}
