/*
 * steer - who carries the packets of a cluster, as a load balancer's workers see it.
 *
 * The nouns: a *cluster* has a number (fib.h); its *members* are nodes with the
 * addresses that packets are sent to; the *choice* of a family is the list of those
 * that have such an address and a member_table over them.  A cluster's entry is
 * immutable: one whose members changed is made anew and published by one store, and the
 * others' stay, so a change costs its own cluster alone (filling a table takes 0.5 ms a
 * member).
 *
 * The control thread changes; workers that are online at the fib read.  What was taken
 * out comes back to the caller, who frees it once every worker has passed a quiescent
 * point.
 */
#pragma once

#include <stdatomic.h>

#include "agent/fwd/fib.h"
#include "agent/fwd/member_table.h"
#include "proto/model/object.h"

/* Members of one family.  `table` gives places in `address`; null without members. */
struct steer_choice {
    const struct member_table *table;
    uint32_t count;
    uint8_t address[MEMBER_TABLE_MEMBERS][16]; /* as in a packet; IPv4 in [0..3] */
};

struct steer_cluster;

struct steer {
    _Atomic(const struct steer_cluster *) at[FIB_CLUSTERS_MAX]; /* by number */
};

/* One cluster's entry; what workers read. */
struct steer_cluster {
    struct steer_choice v4;
    struct steer_choice v6;
    /* the control thread's */
    struct steer_cluster *next; /* in a list of those that were taken out */
    uint32_t number;
    uint32_t member_count;
    struct cluster_member members[MEMBER_TABLE_MEMBERS]; /* that it was made from */
};

/* All zero is empty: no cluster has a member. */
struct steer *steer_new(void); /* null: no memory */
/* No worker may be inside; the fib goes with it.  Null is fine. */
void steer_free(struct steer *s);

/* Makes it `members`: ascending by cluster, at most MEMBER_TABLE_MEMBERS of one (as
 * device_config_check() has it).  Clusters whose members stay the same are not touched.
 * Holds a number of `f` for each cluster.  Appends to `*io_old` what workers may still
 * read.  RC_NO_MEMORY; RC_FULL: no number is free.  Then nothing was changed. */
enum rc steer_configure(struct steer *s, struct fib *f,
                        const struct cluster_member members[], uint32_t count,
                        struct steer_cluster **io_old, struct err *err);

/* Frees a list of entries. */
void steer_free_old(struct steer_cluster *old);

/* The entry of a number that came from the fib; null: the cluster has no members. */
static inline const struct steer_cluster *steer_find(const struct steer *s,
                                                     uint32_t number)
{
    return atomic_load_explicit(&s->at[number], memory_order_acquire);
}
