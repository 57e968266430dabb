/*
 * uplink - which way out a flow takes.
 *
 * All packets of a flow take the same uplink, flows spread evenly over the uplinks
 * whose next hop is known, and one that goes away moves its own flows only: the highest
 * of a score per (flow, uplink) wins (rendezvous hashing, Thaler and Ravishankar 1998).
 * The score depends on port, address and next hop, not on the place in the
 * configuration.
 */
#pragma once

#include "agent/fwd/parse.h"

/* The ways out of one family at the start of a burst: the resolver's words read once.
 */
struct uplink_set {
    uint8_t configured;             /* uplinks of this family */
    uint8_t count;                  /* those whose next hop is known */
    uint8_t index[FWD_UPLINK_MAX];  /* into config->uplink */
    uint8_t mac[FWD_UPLINK_MAX][8]; /* of the next hop: 6 bytes; by place in `index` */
};

void uplink_set_read(struct uplink_set *set, const struct fwd_config *c,
                     uint8_t family);

/* The place in set->index for this packet; set->count is not 0. */
unsigned uplink_pick(const struct uplink_set *set, const struct fwd_config *c,
                     const struct fwd_packet *p, const struct layers *l);

/* The same by a hash of the caller's, for packets whose inside nobody looked at. */
unsigned uplink_pick_by(const struct uplink_set *set, const struct fwd_config *c,
                        uint64_t hash);

/* The score's seed of an uplink: equal for equal port, address and next hop. */
uint64_t uplink_seed(uint16_t port, const struct ip *address,
                     const struct ip *next_hop);
