/* p4rt_decode - shared by p4rt_decode.c (messages, entities, cells) and
 * p4rt_decode_entry.c (table entries); private. */
#pragma once

#include "agent/p4rt/p4rt_codec.h"
#include "agent/p4rt/p4rt_wire.h"

/* Where an entity stands decides what it may carry. */
enum place { IN_WRITE, IN_DELETE, IN_READ, IN_RESPONSE };

static inline enum rc broken(struct err *err, const char *field)
{
    return err_field(err, RC_INVALID, field, "protobuf", "%s: malformed", field);
}

/* Takes the next field, which must be whole and, if it is one of ours, of `type`. */
#define NEXT_OR_FAIL(r, f, name)                                                       \
    do {                                                                               \
        if (!field_next((r), (f))) {                                                   \
            return broken(err, (name));                                                \
        }                                                                              \
    } while (0)

static inline bool is_bytes(const struct wire_field *f, uint32_t number)
{
    return f->number == number && f->type == WIRE_BYTES;
}

static inline bool is_number(const struct wire_field *f, uint32_t number)
{
    return f->number == number && f->type == WIRE_VARINT;
}

/* TableEntry: the entry into `ret->entry`, and whether it is a default. */
enum rc p4rt_take_entry(const struct wire_field *outer, enum place place,
                        struct p4rt_entity *ret, struct err *err);
/* A read's: it names a table, an entry of one, or none at all. */
enum rc p4rt_take_table_query(const struct wire_field *outer, struct p4rt_query *q,
                              struct err *err);
