/*
 * wire - protobuf's encoding by hand, for the few large fields that the packer would
 * copy: varints, and the fields of a message one after the other.
 *
 * proto3 only: groups are refused.  Pure; any thread.
 */
#pragma once

#include "proto/base/buf.h"

/* The encoding's numbers (protobuf, encoding.md). */
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

#define WIRE_VARINT_MAX 10 /* bytes of one varint */

/* One field as it stands on the wire. */
struct wire_field {
    uint32_t number; /* 1 to 2^29 - 1 */
    uint8_t type;
    uint64_t value;       /* WIRE_VARINT */
    const uint8_t *bytes; /* WIRE_BYTES: borrowed from the message */
    size_t len;
};

/* Takes the next field; false when what is left does not begin with a whole one.  The
 * caller asks reader_left() first: the end of a message is no field. */
bool wire_next(struct reader *r, struct wire_field *ret);

/* Writes `value` to `to` and returns its length, 1 to WIRE_VARINT_MAX bytes. */
size_t wire_varint(uint8_t to[WIRE_VARINT_MAX], uint64_t value);

/* Writes tag and length of a WIRE_BYTES field; returns their length. */
size_t wire_head(uint8_t to[2 * WIRE_VARINT_MAX], uint32_t number, uint64_t len);
