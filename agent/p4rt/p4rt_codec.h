/*
 * p4rt_codec - P4Runtime's writes and reads to and from the physical tables' plain
 * bytes.
 *
 * The messages that come in millions (WriteRequest, ReadResponse, and the per-update
 * errors of a failed write) by hand, both ends: nothing is allocated or copied for an
 * entry.  Driven by the descriptions of agent/xgwh/phys.h; the numbers of the wire are
 * those of proto/api/p4runtime.proto.
 *
 * Written values are canonical (specification, Bytestrings: as short as the number
 * allows; a ternary field that matches all is left out).  Read values may have leading
 * zeros, as the specification asks; everything else that it forbids is refused:
 *
 *   RC_INVALID   with field and rule: INVALID_ARGUMENT.  Rule "protobuf": these bytes
 * are no such message, so the whole request is bad RC_RANGE     a value that its field
 * has no room for, or none: OUT_OF_RANGE
 *
 * Pure; any thread.
 *
 * Mistakes people make: taking `entry.half` from here (P4Runtime knows no halves: the
 * device that was asked says which); sending a WriteRequest of so many updates that
 * the per-update errors pass the client's bound of metadata (P4RT_ERROR_BYTES each).
 */
#pragma once

#include "agent/xgwh/phys.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/rpc/rpc_status.h"

enum p4rt_kind { P4RT_TABLE, P4RT_METER, P4RT_COUNTER };

struct p4rt_entity {
    uint8_t kind;    /* enum p4rt_kind */
    bool is_default; /* table: the default action, without a key */
    bool has_index;  /* meter, counter: without one, all cells are meant */
    bool has_config; /* meter; without one it lets everything pass */
    /* Table; PHYS_NO_ACTION: none was carried.  `half` is PHYS_HALF_0. */
    struct phys_entry entry;
    uint32_t id; /* meter, counter: as in the p4info; 0 in a read: all */
    uint64_t index;
    struct phys_meter_config config;
    uint64_t packets, bytes; /* counter */
};

/* ---- WriteRequest ---- */

struct p4rt_write_head {
    uint64_t device_id;
    uint64_t election_high, election_low;
    bool has_election;     /* of a received one; always written */
    bool has_role;         /* any but the default role */
    uint32_t atomicity;    /* as P4Runtime numbers them; 0 = continue on error */
    uint32_t update_count; /* of a received one */
};

/* Most bytes that one update, or one entity of a response, appends. */
#define P4RT_UPDATE_MAX 512

/* A message is its head and what is added, in `to`, in this order. */
void p4rt_write_begin(struct buf *to, const struct p4rt_write_head *head);
void p4rt_write_entry(struct buf *to, enum phys_op op, const struct phys_entry *entry);
/* Of meters and counters: always a MODIFY. */
void p4rt_write_cell(struct buf *to, const struct p4rt_entity *cell);

/* One element after the other of an encoded message, which it borrows. */
struct p4rt_cursor {
    struct reader left;
    uint32_t number; /* of the repeated field */
};

struct p4rt_piece {
    const uint8_t *bytes;
    size_t len;
};

/* False at the end. */
bool p4rt_next(struct p4rt_cursor *c, struct p4rt_piece *ret);

/* Looks at the head, and that the message is whole; the updates are p4rt_next()'s. */
enum rc p4rt_write_open(const void *bytes, size_t len, struct p4rt_write_head *ret,
                        struct p4rt_cursor *ret_updates, struct err *err);
/* Of a delete, only what names the entry is looked at. */
enum rc p4rt_update_decode(struct p4rt_piece update, enum phys_op *ret_op,
                           struct p4rt_entity *ret, struct err *err);

/* ---- ReadRequest ---- */

struct p4rt_query {
    uint8_t kind;    /* enum p4rt_kind */
    uint32_t id;     /* of the table, meter or counter; 0 = all */
    bool has_key;    /* table: one entry, `entry`'s table, key, mask and priority */
    bool is_default; /* table: its default action */
    bool has_index;
    uint64_t index;
    struct phys_entry entry;
};

void p4rt_read_begin(struct buf *to, uint64_t device_id);
void p4rt_read_add(struct buf *to, const struct p4rt_query *q);

enum rc p4rt_read_open(const void *bytes, size_t len, uint64_t *ret_device_id,
                       struct p4rt_cursor *ret_queries, struct err *err);
enum rc p4rt_query_decode(struct p4rt_piece query, struct p4rt_query *ret,
                          struct err *err);

/* ---- ReadResponse: nothing but what is added ---- */

void p4rt_response_entry(struct buf *to, const struct phys_entry *entry);
void p4rt_response_cell(struct buf *to, const struct p4rt_entity *cell);

enum rc p4rt_response_open(const void *bytes, size_t len,
                           struct p4rt_cursor *ret_entities, struct err *err);
enum rc p4rt_entity_decode(struct p4rt_piece entity, struct p4rt_entity *ret,
                           struct err *err);

/* ---- per-update errors: what grpc-status-details-bin carries ---- */

/* What one takes on the wire with a message of some 40 bytes, as base64. */
#define P4RT_ERROR_BYTES 128

/* A google.rpc.Status; then one error for each update, RPC_OK where it was done.
 * `message` may be null. */
void p4rt_errors_begin(struct buf *to, enum rpc_code code, const char *message);
void p4rt_errors_add(struct buf *to, enum rpc_code code, const char *message);

/* The first update that failed. */
struct p4rt_failure {
    size_t index; /* = count: none failed */
    enum rpc_code code;
    char message[160]; /* cut; "" if none was sent */
};

/* Fills `codes` with one code (enum rpc_code) for each of the `count` updates.
 * RC_NOT_FOUND: there are no per-update errors in it (`codes` untouched); RC_INVALID:
 * malformed, or not one for each. */
enum rc p4rt_errors_decode(const void *details, size_t len, uint8_t *codes,
                           size_t count, struct p4rt_failure *ret_first);
