/*
 * region - how many nodes a region's traffic needs, and what they cost.
 *
 * nodes of a side = ⌈traffic ÷ (node throughput × level)⌉, times the sides (1:1
 * backup).  A side is never larger than the upstream's ECMP group: the planner splits
 * the tier into clusters instead, each with sides of its own.  A front LB tier carries
 * all traffic and is counted like any other.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdint.h>

#include "proto/base/err.h"

/* One kind of node doing one job. */
struct tier_input {
    const char *name;     /* "xgw-h"; kept */
    double traffic_bps;   /* that this tier carries; 0: none */
    double node_bps;      /* throughput of a node, above 0 */
    uint32_t level_bp;    /* of it that is planned for, 1 to 10,000 basis points */
    uint32_t sides;       /* 2: each node has a hot backup; 1: none */
    uint32_t ecmp_max;    /* next hops upstream has for a side, 1 to 1,024 */
    uint32_t side_min;    /* nodes of a side at least: 2, so that one may fail */
    double node_cost_usd; /* 0: not reckoned */
};

struct tier_plan {
    const char *name;
    uint32_t clusters; /* 1, or more where a side would pass ecmp_max */
    uint32_t side;     /* nodes of a side of the largest cluster */
    uint32_t side_sum; /* nodes of one side, all clusters */
    uint32_t nodes;    /* in all */
    uint32_t level_bp; /* that the active side then runs at, rounded up */
    double cost_usd;
};

/* RC_RANGE with the field and its rule; `ret` is then untouched.  A tier of more than a
 * million nodes is out of range. */
enum rc tier_plan_make(const struct tier_input *in, struct tier_plan *ret,
                       struct err *err);

/* Share of `old_usd` that is saved, 0 to 1; 0 if nothing is. */
double region_saved(double old_usd, double new_usd);
