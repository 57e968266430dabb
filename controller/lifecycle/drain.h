/*
 * drain - a cluster gives its tenants away; and retire: an empty one leaves service.
 *
 *   drain   MOVE      draining  no tenant comes any more; each is moved where it finds
 *                               room, or to the cluster that was named
 *   retire  WITHDRAW  retired   load balancers not to know its nodes any more
 *
 * A drain leaves no tenant between two clusters: it can be cancelled at any time, which
 * begins no further move, waits for those under way, and lets the cluster serve again.
 * Tenants that cannot be moved stay where they are and are told at its end; the cluster
 * stays `draining`, and a drain may be begun again.
 *
 * Pure: facts in, verdict out.
 */
#pragma once

#include "controller/lifecycle/operation.h"
#include "proto/model/object.h"

enum drain_step { DRAIN_MOVE = 1, DRAIN_STEPS = DRAIN_MOVE };
enum retire_step { RETIRE_WITHDRAW = 1, RETIRE_STEPS = RETIRE_WITHDRAW };

struct drain_facts {
    uint8_t state;   /* of the cluster: enum cluster_state */
    bool is_whole;   /* all its tenants were looked at */
    uint32_t left;   /* tenants at home on it */
    uint32_t moving; /* moves of this drain that are under way */
    uint32_t stuck;  /* of `left`, those that cannot be moved; `why` */
    const char *why; /* borrowed; null: nothing to say */
};

/* The state that the cluster is to have now (enum cluster_state). */
uint8_t drain_state(const struct operation *o);
enum verdict drain_next(const struct operation *o, const struct drain_facts *f,
                        char ret_why[OPERATION_TEXT_MAX + 1]);

struct retire_facts {
    uint8_t state;     /* of the cluster: enum cluster_state */
    bool is_withdrawn; /* load balancers do not know its nodes; else `why` */
    const char *why;   /* borrowed; null: nothing to say */
};
enum verdict retire_next(const struct retire_facts *f,
                         char ret_why[OPERATION_TEXT_MAX + 1]);
