/*
 * plan - whose turn it is to be audited.
 *
 * Every node is due each max(interval, 2 × nodes of its side × what a read-back takes),
 * at a time of its own within that; one node of a side at a time, so that a side never
 * has more than one node that is busy with it.  What was asked for comes first.
 *
 * It also keeps what was last observed of each node, for nodes that hold the same can
 * be held against each other without anybody's truth.
 *
 * Pure; a few thousand nodes: everything is a walk over the array.
 */
#pragma once

#include "proto/model/agent_msg.h"

struct audit_seen {
    uint64_t revision; /* of the group when it was read; 0: nothing to compare */
    uint64_t at_ms;    /* unix; 0: never */
    struct digest root[TABLE_COUNT];
};

struct audit_node {
    char name[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    uint8_t side;
    uint64_t due_ms;
    uint64_t read_ms; /* what its last read-back took */
    bool is_running;
    bool differs; /* from another node, as was last said */
    struct audit_seen seen;
};

struct audit_plan {
    struct audit_node *at; /* by name */
    uint32_t count;
    uint64_t interval_ms; /* 0: nothing is scheduled */
};

void audit_plan_fini(struct audit_plan *p);
/* There is such a node, of that cluster and side now.  False: no memory. */
bool audit_plan_put(struct audit_plan *p, uint64_t now_ms, const char *name,
                    const char *cluster, uint8_t side);
void audit_plan_drop(struct audit_plan *p, const char *name);
struct audit_node *audit_plan_find(const struct audit_plan *p, const char *name);
/* No other node of its side is running. */
bool audit_plan_may_run(const struct audit_plan *p, const struct audit_node *n);
/* A node that is due and may run, the longest due first; null: none. */
struct audit_node *audit_plan_next(const struct audit_plan *p, uint64_t now_ms);
/* When the next one is due; UINT64_MAX: never. */
uint64_t audit_plan_wake(const struct audit_plan *p);
/* Its audit is over: due again after its interval. */
void audit_plan_ended(struct audit_plan *p, struct audit_node *n, uint64_t now_ms);
/* Another node of the cluster, of either side, that was observed at the same revision
 * and holds something else; null: none. */
const struct audit_node *audit_plan_contradicts(const struct audit_plan *p,
                                                const struct audit_node *n);
