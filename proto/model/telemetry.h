/*
 * telemetry - what a device says of its use and load, as plain values.
 *
 * A *reading* is one figure: which part of the node it is of, which resource, how much
 * of how much.  Nobody on the way from the driver to the history knows which readings
 * there are; what they are called and mean is written once, here:
 *
 *   part          resource         kind    value
 *   ""            memory, disk     LOAD    bytes, of the host
 *   ""            tables_memory    FIGURE  bytes that the tables take
 *   ""            table.NAME[.0|1] TABLE   entries (x86), rows or words of a half (H)
 *   "port/NAME"   rx_bps, tx_bps   LOAD    bit/s, of the link's speed (0: not known)
 *   "port/NAME"   rx_pps, tx_pps   FIGURE  packets/s
 *   "core/NAME"   busy             LOAD    nanoseconds of work in a second
 *                                  FIGURE  … of a core that carries no packets
 *
 * Beside them a *top*, once for each interval that the device measured: its heaviest
 * flows and tenants with what each may be wrong by, besides sampling (agent/fwd).
 *
 * Packets received and dropped are counts, not rates: one lost packet of 10^9 has to be
 * seen.  Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/model/object.h"

#define READING_PART_MAX     (PORT_NAME_MAX + 5) /* "port/NAME" */
#define READING_RESOURCE_MAX 31
#define READINGS_MAX         384 /* of one message */
#define DROP_REASON_MAX      31
#define DROP_REASONS_MAX     64
#define TELEMETRY_SPAN_MAX   3600000 /* ms */
#define TOP_LIST_MAX         32
#define TOP_BYTES_MAX        (UINT64_C(1) << 50) /* of an interval; sums and rates fit */

enum reading_kind {
    READING_TABLE = 1, /* table memory: equal on all nodes of a cluster */
    READING_LOAD = 2,  /* this node's */
    READING_FIGURE = 3 /* of nothing in particular: no level, only history */
};

struct telemetry_reading {
    char part[READING_PART_MAX + 1]; /* printable, without spaces; "" = the node */
    char resource[READING_RESOURCE_MAX + 1];
    uint8_t kind;      /* enum reading_kind */
    uint64_t capacity; /* 0 = not known */
    uint64_t min, mean, max;
};

struct drop_count {
    char reason[DROP_REASON_MAX + 1]; /* as the data plane names it */
    uint64_t packets;                 /* within the span */
};

/* A flow as its packets' inner headers name it, or (no addresses) a whole tenant. */
struct top_item {
    uint32_t vni;
    struct ip src, dst;
    uint8_t proto;
    uint16_t sport, dport; /* 0 for fragments, and where the protocol has none */
    uint64_t bytes;        /* at most; at least bytes - error */
    uint64_t error;
};

struct top_list {
    uint32_t count;
    uint64_t rest;                       /* what one that is not listed had at most */
    struct top_item items[TOP_LIST_MAX]; /* the heaviest first, each once */
};

struct top_report {
    uint32_t interval_ms; /* 0: there is none */
    bool no_flows;        /* the device never looks at flows: a chip counts tenants */
    uint64_t bytes;       /* of all */
    struct top_list flows, tenants;
};

struct telemetry {
    uint64_t boot_id;  /* of the data plane */
    uint32_t span_ms;  /* what counts and means are of */
    uint64_t received; /* packets, within the span */
    uint32_t reading_count;
    uint32_t drop_count;
    struct telemetry_reading readings[READINGS_MAX];
    struct drop_count drops[DROP_REASONS_MAX];
    struct top_report top;
};

/* What can stand as part, resource or reason: printable ASCII without spaces, quotes
 * and backslashes. */
bool telemetry_text_is_valid(const char *text);
