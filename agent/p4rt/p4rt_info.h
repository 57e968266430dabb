/*
 * p4rt_info - a P4 program's p4info, held against the physical tables.
 *
 * A switch and its driver may only talk when the program on the switch is XGW-H: every
 * table, action, field and parameter with the id, name, width and kind of match that
 * agent/xgwh/phys.h says, and as many rows as are counted on.  Meters and counters are
 * found by name, for their ids are the compiler's.
 *
 * Pure; any thread.
 */
#pragma once

#include "agent/xgwh/phys.h"
#include "proto/base/err.h"

/* A program counts a thing where it sees it: TNA has no counter that two gresses share,
 * so each that drops has a `drop_reason` of its own.  What is meant is their sum. */
#define P4RT_COUNTER_PARTS 4

/* What phys.h does not say. */
struct p4rt_info {
    char program[64]; /* PkgInfo.name, cut; "" if there is none */
    uint64_t table_size[PHYS_TABLES];
    uint32_t meter_id[PHYS_METERS];
    uint64_t meter_size[PHYS_METERS];                       /* cells */
    uint32_t counter_id[PHYS_COUNTERS][P4RT_COUNTER_PARTS]; /* 0: no more */
    uint64_t counter_size[PHYS_COUNTERS];                   /* the smallest part's */
    /* Of the stream's packets, ids of metadata (p4/include/headers.p4); 0: it has none.
     */
    uint32_t packet_in_port, packet_out_port;
    uint32_t packet_in_probe, packet_out_probe;
    uint32_t packet_in_reason;
};

/* `bytes` is a binary p4.config.v1.P4Info.  With `sizes`, each table must have at least
 * that many rows.  RC_INVALID, rule "protobuf": malformed.  RC_CONFLICT, rule "p4info":
 * it is another program; `field` names the table or action that differs and `msg` how.
 */
enum rc p4rt_info_read(const void *bytes, size_t len, const struct phys_sizes *sizes,
                       struct p4rt_info *ret, struct err *err);

/* Which counter one of this id is (a part of); -1: none. */
int p4rt_info_counter(const struct p4rt_info *info, uint32_t id);
