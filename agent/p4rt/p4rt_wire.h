/*
 * p4rt_wire - wire_next() with its usual case inline: a tag and a length of one byte
 * each and numbers of up to five, which is nearly all of what a table entry is made of.
 * Private.
 */
#pragma once

#include "proto/rpc/wire.h"

static inline bool field_next(struct reader *r, struct wire_field *ret)
{
    size_t left = reader_left(r);
    const uint8_t *p = r->p;

    if (left < 2 || p[0] >= 0x80 || p[0] < 8) {
        return wire_next(r, ret);
    }
    if ((p[0] & 7) == WIRE_BYTES && p[1] < 0x80 && p[1] <= left - 2) {
        ret->number = p[0] >> 3;
        ret->type = WIRE_BYTES;
        ret->bytes = p + 2;
        ret->len = p[1];
        r->p = p + 2 + p[1];
        return true;
    }
    if ((p[0] & 7) == WIRE_VARINT && left >= 6) {
        uint64_t value = 0;

        for (unsigned i = 0; i < 5; i++) {
            value |= (uint64_t)(p[1 + i] & 0x7f) << 7 * i;
            if (p[1 + i] < 0x80) {
                ret->number = p[0] >> 3;
                ret->type = WIRE_VARINT;
                ret->value = value;
                r->p = p + 2 + i;
                return true;
            }
        }
    }
    return wire_next(r, ret);
}

static inline struct reader reader_of_field(const struct wire_field *f)
{
    return (struct reader){ .p = f->bytes, .end = f->bytes + f->len };
}
