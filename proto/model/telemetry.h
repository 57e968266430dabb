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

struct telemetry {
    uint64_t boot_id;  /* of the data plane */
    uint32_t span_ms;  /* what counts and means are of */
    uint64_t received; /* packets, within the span */
    uint32_t reading_count;
    uint32_t drop_count;
    struct telemetry_reading readings[READINGS_MAX];
    struct drop_count drops[DROP_REASONS_MAX];
};

/* What can stand as part, resource or reason: printable ASCII without spaces, quotes
 * and backslashes. */
bool telemetry_text_is_valid(const char *text);
