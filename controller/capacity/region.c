#include "controller/capacity/region.h"

#include <math.h>

#define WHOLE_BP  10000
#define ECMP_MAX  1024
#define NODES_MAX 1e6

static enum rc check(const struct tier_input *in, struct err *err)
{
    if (!(in->traffic_bps >= 0) || isinf(in->traffic_bps)) {
        return err_field(err, RC_RANGE, "traffic", "traffic_range",
                         "%s: traffic: not a number of bits a second", in->name);
    }
    if (!(in->node_bps > 0) || isinf(in->node_bps)) {
        return err_field(err, RC_RANGE, "node", "node_range",
                         "%s: throughput of a node: not above 0", in->name);
    }
    if (in->level_bp < 1 || in->level_bp > WHOLE_BP) {
        return err_field(err, RC_RANGE, "level", "level_range",
                         "%s: level: not above 0 %% and at most 100 %%", in->name);
    }
    if (in->sides < 1 || in->sides > 2) {
        return err_field(err, RC_RANGE, "sides", "sides_range", "%s: sides: not 1 or 2",
                         in->name);
    }
    if (in->ecmp_max < 1 || in->ecmp_max > ECMP_MAX) {
        return err_field(err, RC_RANGE, "ecmp", "ecmp_range",
                         "%s: ECMP limit: not 1 to %d next hops", in->name, ECMP_MAX);
    }
    if (in->side_min < 1 || in->side_min > in->ecmp_max) {
        return err_field(err, RC_RANGE, "side-min", "side_min_range",
                         "%s: least nodes of a side: not 1 to the ECMP limit, %u",
                         in->name, in->ecmp_max);
    }
    if (!(in->node_cost_usd >= 0) || isinf(in->node_cost_usd)) {
        return err_field(err, RC_RANGE, "node-cost", "node_cost_range",
                         "%s: cost of a node: below 0", in->name);
    }
    return RC_OK;
}

/* ⌈a⌉ of a quotient that is a whole number but for rounding. */
static double whole(double a)
{
    return ceil(a - a * 1e-12);
}

enum rc tier_plan_make(const struct tier_input *in, struct tier_plan *ret,
                       struct err *err)
{
    struct tier_plan p = { .name = in->name };
    double room = in->node_bps * in->level_bp / WHOLE_BP;
    double needed;
    enum rc rc = check(in, err);

    if (rc != RC_OK) {
        return rc;
    }
    needed = whole(in->traffic_bps / room);
    if (needed > NODES_MAX) {
        return err_field(err, RC_RANGE, "traffic", "nodes_range",
                         "%s: %.0f nodes a side: more than a million", in->name,
                         needed);
    }
    if (needed > 0) {
        needed = fmax(needed, in->side_min);
        p.side_sum = (uint32_t)needed;
        p.clusters = (p.side_sum + in->ecmp_max - 1) / in->ecmp_max;
        p.side = (p.side_sum + p.clusters - 1) / p.clusters;
        if (p.side_sum / p.clusters < in->side_min) {
            /* Evenly split, a cluster would have too small a side. */
            p.side_sum = p.clusters * in->side_min;
            p.side = in->side_min;
        }
        p.nodes = p.side_sum * in->sides;
        p.level_bp =
            (uint32_t)whole(in->traffic_bps / (p.side_sum * in->node_bps) * WHOLE_BP);
        p.cost_usd = p.nodes * in->node_cost_usd;
    }
    *ret = p;
    return RC_OK;
}

double region_saved(double old_usd, double new_usd)
{
    return old_usd > 0 && new_usd < old_usd ? 1 - new_usd / old_usd : 0;
}
