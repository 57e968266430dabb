/*
 * fwd_lb - the packet functions of a load balancer in front of the clusters.
 *
 * One call, lb_burst(), takes packets through all that `xgw-gateway --pipeline lb` does
 * with them: checks 1 to 21 of tests/reference/README.md, VNI → cluster, a member of
 * it by a hash of the outer 5-tuple, and out with another outer destination.  The inner
 * packet is not looked at: a member does that.  Nobody is answered.
 *
 * As in fwd.h: no clock, no lock, no DPDK; on the packet path it never allocates, logs,
 * waits or reads a global.  Any number of workers on one view, each with its counters,
 * online at the fib.
 */
#pragma once

#include "agent/fwd/fwd.h"
#include "agent/fwd/steer.h"

struct lb_view {
    const struct fwd_config *config; /* may be null while not ready */
    const struct fib *fib;           /* vni_cluster */
    const struct steer *steer;
    bool is_ready; /* false: everything is dropped as not_ready */
};

/* Gives each of packets[0..n) its verdict, as fwd_burst() does. */
void lb_burst(const struct lb_view *view, struct fwd_worker *w,
              struct fwd_packet packets[], uint32_t n);
