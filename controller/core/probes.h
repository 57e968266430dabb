/*
 * probes - the probes of whole clusters, for those in the core that wait for them: each
 * node is sent what its entries need (controller/probe/matrix.h), and has a number
 * under which it is asked after.  What API and shell see of them: core.h.
 *
 * One owner, the core's thread.
 */
#pragma once

#include "controller/probe/probes_record.h"

struct core;

/* Begins the probes of all nodes of a cluster, numbered on from `*ret_first`; returns
 * of how many.  0: it has no node, or is one of load balancers, which are not probed.
 */
uint32_t probes_ask_cluster(struct core *c, const char *cluster, const char *who,
                            uint64_t *ret_first);

struct probes_status {
    enum probes_result result; /* PROBES_OPEN as long as it goes on */
    uint32_t probes;           /* that the node's entries need; 0: not known yet */
    uint32_t agreed;
    uint32_t differed; /* not as its entries say, in the third try too */
    uint32_t unsaid;   /* said nothing, however often they were asked */
    /* The first probe that differs, else that said nothing, else why none was sent; ""
     * when there is nothing to tell. */
    char why[PROBES_WHY_MAX + 1];
};
/* Of one node's probes, running or kept; false: there are none of that number. */
bool probes_status(const struct core *c, uint64_t number, struct probes_status *ret);
/* Ends those that go on: they cannot say, because they were stopped. */
void probes_stop_asked(struct core *c, uint64_t first, uint32_t count);
