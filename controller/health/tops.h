/*
 * tops - the heaviest flows and tenants of several nodes together.
 *
 * Each node tells its own heaviest, what each may be wrong by, and what one that it
 * does not list had at most.  Added up, those bounds still hold (Agarwal et al.,
 * Mergeable Summaries, PODS 2012): a flow really had at least bps - error_bps and at
 * most bps, and one that is not listed here at most rest_bps.  Intervals of nodes are
 * of one length but do not begin together, so rates are added and not bytes.
 *
 * A packet that two nodes carry, XGW-H and then XGW-x86, is counted on both.
 *
 * Pure.
 */
#pragma once

#include "proto/base/err.h"
#include "proto/model/telemetry.h"

#define TOP_ROWS_MAX 100

enum top_kind { TOP_FLOWS, TOP_TENANTS };

struct top_row {
    struct top_item item; /* its bytes are not of use */
    uint64_t bps;
    uint64_t error_bps;
    uint32_t nodes; /* that list it */
};

struct top_sum {
    uint32_t nodes;    /* counted */
    uint32_t without;  /* told nothing lately */
    uint32_t unable;   /* look at no flows: chips, which count tenants alone */
    uint64_t bps;      /* of all traffic there */
    uint64_t rest_bps; /* of one that is not listed, at most */
    uint32_t count;
    struct top_row rows[TOP_ROWS_MAX]; /* the heaviest first */
};

/* The `room` heaviest, at most TOP_ROWS_MAX.  Fills all of `ret` but `without` and
 * `unable`; RC_NO_MEMORY: nothing. */
enum rc tops_merge(const struct top_report *const reports[], uint32_t count,
                   enum top_kind kind, uint32_t room, struct top_sum *ret);
