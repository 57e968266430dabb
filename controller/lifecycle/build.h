/*
 * build - a cluster is proven right before it carries anybody's packets, and takes its
 * tenants little by little (the paper's section 6.1, "cluster construction").
 *
 *   step      the cluster is   waits for
 *   JOIN      planned          its nodes: each has a session and holds what it should
 *   LOAD      loading          the named tenants: each stands on it too, read back and
 *                              probed (its move is HELD)
 *   AUDIT     checking         the read-back of every node: as desired, row by row
 *   PROBE     probing          probes of every scenario through every node
 *   ANNOUNCE  admitting        load balancers to know its nodes
 *   ADMIT     admitting        five stages: so many moves are let in that their tenants
 *                              make 1, 5, 25, 50, 100 % of the traffic; then the stage
 *                              is held and watched
 *   SERVE     serving          the state to be stored
 *   BACK      as it was, then  every tenant to be back where it was
 *             failed, planned
 *
 * No step begins before the one before it is passed.  Whatever fails leads to BACK, and
 * so does an operator who cancels up to ADMIT: moves that are not steered are taken
 * back, tenants that are in move back.  The cluster is then `failed` (something was
 * wrong; the reason is kept) or `planned` (cancelled); the build may be begun again.
 *
 * Every step may be waited for twice, so a controller that starts goes on where the
 * last one stopped; a stage that was being watched is watched anew.
 *
 * Pure: facts in, verdict out.
 */
#pragma once

#include "controller/lifecycle/operation.h"
#include "proto/model/object.h"

enum build_step {
    BUILD_JOIN = 1,
    BUILD_LOAD,
    BUILD_AUDIT,
    BUILD_PROBE,
    BUILD_ANNOUNCE,
    BUILD_ADMIT,
    BUILD_SERVE,
    BUILD_STEPS = BUILD_SERVE,
    BUILD_BACK
};

#define BUILD_HOLD_MS_REGION UINT32_MAX /* of a request: as the region has it */

/* Percent of the traffic that is in at a stage. */
unsigned build_stage_percent(unsigned stage);

/* How many of the first tenants each stage lets in: those whose measured traffic first
 * reaches its percentage, at least one more than the stage before while there are any.
 * `bps[i]`: of the i-th; where nothing was measured, tenants count alike. */
void build_cuts(const uint64_t *bps, uint32_t count, uint32_t ret[BUILD_STAGES]);

/* The named tenants, as they stand. */
struct build_tally {
    bool is_whole;   /* all of them were looked at */
    uint32_t named;  /* those that exist */
    uint32_t there;  /* at home on the cluster */
    uint32_t held;   /* their moves are HELD */
    uint32_t moving; /* their moves are at any other step; of BACK: of any kind */
    uint32_t due;    /* of the stage, those that exist … */
    uint32_t in;     /* … and are at home on the cluster */
    bool is_broken;  /* a move went back, or was refused; `why` */
};

struct build_facts {
    uint8_t state;        /* of the cluster: enum cluster_state */
    uint32_t nodes;       /* of the cluster */
    uint32_t nodes_ready; /* … that are online and hold what they should */
    struct build_tally tally;
    enum gate gate;    /* of AUDIT or PROBE */
    bool is_announced; /* load balancers know its nodes */
    bool has_breach;   /* loss, a water level or a node that is gone; `why` */
    uint64_t stage_ms; /* since all of the stage are in; 0: they are not */
    const char *why;   /* borrowed; null: nothing to say */
};

/* The state that the cluster is to have now (enum cluster_state). */
uint8_t build_state(const struct operation *o, const struct build_facts *f);
/* `ret_why` gets one sentence: what is waited for, or why it goes back. */
enum verdict build_next(const struct operation *o, const struct build_facts *f,
                        char ret_why[OPERATION_TEXT_MAX + 1]);
