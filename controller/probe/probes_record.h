/*
 * probes_record - what is kept of one node's probes: how they came out, and what of the
 * matrix they cover.
 *
 * Values only; any thread.
 */
#pragma once

#include "controller/probe/matrix_cell.h"
#include "controller/probe/probe.h"

enum probes_state {
    PROBES_WAITING = 1, /* for its turn, or for the node */
    PROBES_PICKING,     /* what to send */
    PROBES_SENDING,
    PROBES_DONE
};
const char *probes_state_name(unsigned state); /* "waiting", … */

enum probes_result {
    PROBES_OPEN, /* not done */
    PROBES_PASSED,
    PROBES_FAILED,
    PROBES_CANNOT_SAY /* what was answered agrees, but not all was answered */
};
const char *probes_result_name(unsigned result); /* "open", …, "cannot_say" */

/* Of one cell. */
enum probes_verdict { VERDICT_NONE, VERDICT_AGREED, VERDICT_DIFFERED, VERDICT_UNSAID };
const char *probes_verdict_name(unsigned verdict); /* "none", "agreed", … */

#define PROBES_WHO_MAX    63
#define PROBES_LISTED_MAX 8
/* "probe 12 (local, …): " and why. */
#define PROBES_WHY_MAX (MATRIX_NAME_MAX + PROBE_WHY_MAX + 24)

struct probes_cell {
    uint8_t reach;                  /* enum matrix_reach */
    uint8_t verdict;                /* enum probes_verdict */
    uint16_t number;                /* of the probe that covers it, from 1 */
    char want[DROP_REASON_MAX + 1]; /* "forwarded", "fallback", "kept" or a reason */
};

struct probes_record {
    uint64_t number; /* 1, 2, … in the order of asking */
    char node[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    uint32_t vni; /* only its rows; 0: all */
    char who[PROBES_WHO_MAX + 1];
    uint8_t state;     /* enum probes_state */
    uint8_t result;    /* enum probes_result */
    uint64_t asked_ms; /* unix */
    uint64_t ended_ms; /* 0: not yet */
    uint32_t probes;   /* that the node's entries need, as far as that is known */
    uint32_t agreed;
    uint32_t differed;
    uint32_t unsaid; /* did not say in the end */
    /* Of the first probe that differs; else of the first that says nothing, or why none
     * can be sent.  "" if all agreed. */
    char why[PROBES_WHY_MAX + 1];
    uint32_t listed; /* of those that differ, by number */
    char differs[PROBES_LISTED_MAX][PROBES_WHY_MAX + 1];
    uint16_t cell_count; /* 0: none was looked at */
    struct probes_cell cells[MATRIX_CELLS_MAX];
};

/* Append the canonical bytes of a record that is done. */
void probes_record_pack(const struct probes_record *r, struct buf *to);
/* RC_INVALID for bytes that packing could not have written; `*ret` is then of no use.
 */
enum rc probes_record_unpack(const void *bytes, size_t len, struct probes_record *ret,
                             struct err *err);
