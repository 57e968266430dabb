/*
 * p4rt_wire - wire_next() with its usual case inline: a tag, a length and a number of
 * one byte each, which is nearly all of what a table entry is made of.  Private.
 */
#pragma once

#include "proto/rpc/wire.h"

static inline bool field_next(struct reader *r, struct wire_field *ret)
{
    size_t left = reader_left(r);
    const uint8_t *p = r->p;

    if (left < 2 || p[0] >= 0x80 || p[0] < 8 || p[1] >= 0x80) {
        return wire_next(r, ret);
    }
    ret->number = p[0] >> 3;
    ret->type = p[0] & 7;
    if (ret->type == WIRE_VARINT) {
        ret->value = p[1];
        r->p = p + 2;
        return true;
    }
    if (ret->type == WIRE_BYTES && p[1] <= left - 2) {
        ret->bytes = p + 2;
        ret->len = p[1];
        r->p = p + 2 + p[1];
        return true;
    }
    return wire_next(r, ret);
}

static inline struct reader reader_of_field(const struct wire_field *f)
{
    return (struct reader){ .p = f->bytes, .end = f->bytes + f->len };
}
