/*
 * calibrate - what a packet costs on this machine, at one configuration of tables.
 *
 * A *rig* holds tables of a given size with a node around them and sends packets
 * through fwd_burst(), as a worker of the gateway does.  It calls fwd through its
 * public functions alone.  Cycles are the TSC's, each call is timed by itself and the
 * median of all calls is what counts, so those that the host interrupted do not.
 * Buffers are filled outside of the measured time, as a NIC would.
 *
 * Packets: VXLAN over IPv4 with a TCP segment of IPv4 inside, 64 bytes of inner frame,
 * to VMs drawn uniformly over all of the tables, so every lookup hits.  A packet's way:
 * `hops` peer routes, a local one, a VM-NC entry.
 *
 * One thread.
 */
#pragma once

#include <stdint.h>

#include "proto/base/err.h"

#define CALIBRATE_HOPS_MAX    3 /* one lookup more is the limit of a chain */
#define CALIBRATE_BURST_MAX   64
#define CALIBRATE_ENTRIES_MAX 4000000
#define CALIBRATE_ENTRIES_MIN 64

struct calibrate_rig; /* opaque */

/* Tables of about `entries` routes and VM-NC entries together.  Gives `*ret`. */
enum rc calibrate_rig_new(uint32_t entries, uint32_t hops, struct calibrate_rig **ret,
                          struct err *err);
void calibrate_rig_free(struct calibrate_rig *r); /* null is fine */

/* Bytes that the lookup structures take. */
uint64_t calibrate_rig_bytes(const struct calibrate_rig *r);

/* Cycles a packet in calls of `burst` packets, 1 to CALIBRATE_BURST_MAX: the median of
 * so many calls that `packets` go through, after a tenth more to warm up.  RC_BUG if a
 * packet was not forwarded. */
enum rc calibrate_rig_run(struct calibrate_rig *r, uint32_t burst, uint32_t packets,
                          double *ret_cycles, struct err *err);

/* Times that something else had the core, while nothing was done for `cycles`: gaps of
 * more than `least` cycles between two looks at the TSC. */
struct calibrate_gaps {
    uint64_t count;
    uint64_t cycles;  /* of all of them */
    uint64_t longest; /* cycles */
    uint64_t watched; /* cycles in all */
};
void calibrate_gaps(uint64_t cycles, uint64_t least, struct calibrate_gaps *ret);
