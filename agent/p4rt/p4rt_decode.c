#include "agent/p4rt/p4rt_decode.h"

#include <string.h>

/* ---- MeterEntry, CounterEntry ---- */

static enum rc take_numbers(const struct wire_field *outer, uint64_t *to,
                            unsigned count, struct err *err)
{
    struct reader r = reader_of_field(outer);
    struct wire_field f;

    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "cell");
        if (f.type == WIRE_VARINT && f.number <= count) {
            if (f.value > INT64_MAX) {
                return err_field(err, RC_INVALID, "cell", "negative",
                                 "a meter's or counter's number is negative");
            }
            to[f.number - 1] = f.value;
        }
    }
    return RC_OK;
}

static enum rc take_cell(const struct wire_field *outer, struct p4rt_entity *ret,
                         struct err *err)
{
    struct reader r = reader_of_field(outer);
    uint64_t numbers[4] = { 0 };
    struct wire_field f;
    enum rc rc = RC_OK;

    while (reader_left(&r) > 0 && rc == RC_OK) {
        NEXT_OR_FAIL(&r, &f, "cell");
        if (is_number(&f, 1)) {
            if (f.value > UINT32_MAX) {
                return broken(err, "cell");
            }
            ret->id = (uint32_t)f.value;
        } else if (is_bytes(&f, 2)) {
            ret->has_index = true;
            rc = take_numbers(&f, &ret->index, 1, err);
        } else if (is_bytes(&f, 3)) {
            ret->has_config = ret->kind == P4RT_METER;
            rc = take_numbers(&f, numbers, 4, err);
        }
    }
    if (ret->kind == P4RT_METER) {
        ret->config = (struct phys_meter_config){ numbers[0], numbers[1], numbers[2],
                                                  numbers[3] };
    } else {
        ret->bytes = numbers[0];
        ret->packets = numbers[1];
    }
    return rc;
}

/* ---- Entity ---- */

/* The one member of Entity's oneof. */
static enum rc entity_field(const uint8_t *bytes, size_t len, struct wire_field *ret,
                            struct err *err)
{
    struct reader r = reader_of(bytes, len);

    *ret = (struct wire_field){ 0 };
    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, ret, "entity");
    }
    if (ret->type != WIRE_BYTES ||
        (ret->number != 2 && ret->number != 5 && ret->number != 7)) {
        return err_field(err, RC_INVALID, "entity", "entity_unsupported",
                         "neither a table entry nor a meter or counter cell");
    }
    return RC_OK;
}

static enum rc take_entity(const uint8_t *bytes, size_t len, enum place place,
                           struct p4rt_entity *ret, struct err *err)
{
    struct p4rt_entity got;
    struct wire_field f;
    enum rc rc = entity_field(bytes, len, &f, err);

    if (rc != RC_OK) {
        return rc;
    }
    memset(&got, 0, sizeof(got));
    got.kind = f.number == 2 ? P4RT_TABLE : f.number == 5 ? P4RT_METER : P4RT_COUNTER;
    rc = got.kind == P4RT_TABLE ? p4rt_take_entry(&f, place, &got, err)
                                : take_cell(&f, &got, err);
    if (rc == RC_OK) {
        *ret = got;
    }
    return rc;
}

enum rc p4rt_entity_decode(struct p4rt_piece entity, struct p4rt_entity *ret,
                           struct err *err)
{
    return take_entity(entity.bytes, entity.len, IN_RESPONSE, ret, err);
}

/* What an update may be, beyond what its entity may be anywhere. */
static enum rc check_update(uint64_t op, const struct p4rt_entity *e, struct err *err)
{
    if (e->kind != P4RT_TABLE && (op != PHYS_MODIFY || e->id == 0)) {
        return err_field(err, RC_INVALID, "type", "modify_only",
                         "cells of a meter or counter are modified only");
    }
    if (e->kind == P4RT_TABLE && e->is_default) {
        return err_field(err, RC_INVALID, "is_default_action", "default_const",
                         "the default actions are fixed");
    }
    if (e->kind == P4RT_TABLE && op == PHYS_INSERT && e->entry.action == 0) {
        return err_field(err, RC_INVALID, "action", "action_missing",
                         "an entry needs an action");
    }
    return RC_OK;
}

enum rc p4rt_update_decode(struct p4rt_piece update, enum phys_op *ret_op,
                           struct p4rt_entity *ret, struct err *err)
{
    struct reader r = reader_of(update.bytes, update.len);
    struct p4rt_piece entity = { 0 };
    struct p4rt_entity got;
    struct wire_field f;
    uint64_t op = 0;
    enum rc rc;

    while (reader_left(&r) > 0) {
        NEXT_OR_FAIL(&r, &f, "update");
        if (is_number(&f, 1)) {
            op = f.value;
        } else if (is_bytes(&f, 2)) {
            entity = (struct p4rt_piece){ f.bytes, f.len };
        }
    }
    if (op < PHYS_INSERT || op > PHYS_DELETE) {
        return err_field(err, RC_INVALID, "type", "type",
                         "neither insert nor modify nor delete");
    }
    rc = take_entity(entity.bytes, entity.len, op == PHYS_DELETE ? IN_DELETE : IN_WRITE,
                     &got, err);
    if (rc == RC_OK) {
        rc = check_update(op, &got, err);
    }
    if (rc == RC_OK) {
        *ret_op = (enum phys_op)op;
        *ret = got;
    }
    return rc;
}

enum rc p4rt_query_decode(struct p4rt_piece query, struct p4rt_query *ret,
                          struct err *err)
{
    struct p4rt_query q = { 0 };
    struct p4rt_entity cell = { 0 };
    struct wire_field f;
    enum rc rc = entity_field(query.bytes, query.len, &f, err);

    if (rc != RC_OK) {
        return rc;
    }
    if (f.number == 2) {
        rc = p4rt_take_table_query(&f, &q, err);
    } else {
        q.kind = cell.kind = f.number == 5 ? P4RT_METER : P4RT_COUNTER;
        rc = take_cell(&f, &cell, err);
        q.id = cell.id;
        q.has_index = cell.has_index;
        q.index = cell.index;
    }
    if (rc == RC_OK) {
        *ret = q;
    }
    return rc;
}
