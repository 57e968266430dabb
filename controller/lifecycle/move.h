/*
 * move - a tenant moves from its clusters to others, and no packet of it is lost.
 *
 *   step      the tenant's rows stand      steered to   waits for
 *   INSTALL   at the source and the target  source      the target's nodes: applied
 *   AUDIT     the same                      source      their read-back: equal
 *   PROBE     the same                      source      their pipelines: packets agree
 *   HELD      the same                      source      its parent, where it has one
 *   STEER     the same                      target      all who steer: told and done
 *   DRAIN     the same                      target      packets under way
 *   REMOVE    at the target only            target      the source's nodes: applied
 *
 * Each step is durable.  Up to HELD it can be taken back, by taking the rows out of
 * the target again; from STEER on it only goes forward.  So whoever stops at any step
 * leaves the tenant with one home that is whole and steered to.
 *
 * Pure: facts in, verdict out; the core gathers the facts and writes the steps.
 */
#pragma once

#include "controller/lifecycle/operation.h"

enum move_step {
    MOVE_INSTALL = 1,
    MOVE_AUDIT,
    MOVE_PROBE,
    MOVE_HELD,
    MOVE_STEER,
    MOVE_DRAIN,
    MOVE_REMOVE,
    MOVE_STEPS = MOVE_REMOVE
};

/* How long a step up to PROBE may take before all is taken back.  Nothing is lost by
 * waiting, but a move that hangs keeps room on two clusters. */
#define MOVE_TIMEOUT_MS       600000
#define MOVE_DRAIN_MS_DEFAULT 5000
#define MOVE_DRAIN_MS_MAX     3600000

struct move_facts {
    bool tenant_is_gone;
    bool target_has_node;   /* each target cluster has a node that forwards */
    bool target_is_applied; /* … and all of these hold what they should */
    bool target_refused;    /* … or say that they cannot; `why` */
    enum gate gate;         /* of AUDIT or PROBE; `why` when it failed */
    bool is_steered;        /* every group that leads to the tenant, every consumer */
    bool source_is_applied;
    uint64_t step_ms; /* spent at this step since it began or the controller started */
    const char *why;  /* borrowed; null: nothing to say */
};

/* `ret_why` gets one sentence: what is waited for, or why it goes back. */
enum verdict move_next(const struct operation *o, const struct move_facts *facts,
                       char ret_why[OPERATION_TEXT_MAX + 1]);

/* The clusters that hold the tenant's rows beside its homes; null: none. */
const struct home *move_also(const struct operation *o);
