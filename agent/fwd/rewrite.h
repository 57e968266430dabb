/*
 * rewrite - turns a packet that arrived into the one that leaves, in place.
 *
 * The rules are "The packet that goes out" of tests/reference/README.md.  Everything
 * that can refuse a packet was checked before: these functions do not fail.  Pure; any
 * thread.
 */
#pragma once

#include "agent/fwd/parse.h"

/* Where a packet goes, decided. */
struct egress {
    const uint8_t *source;      /* the VIP, 4 or 16 bytes */
    const uint8_t *destination; /* NC or tunnel endpoint, likewise */
    const uint8_t *inner_mac;   /* new inner destination MAC, or null */
    const uint8_t *port_mac;    /* 6 bytes each */
    const uint8_t *next_hop_mac;
    uint32_t vni;
    uint8_t family;        /* of source and destination */
    bool decrements_inner; /* the VNI changed or the packet leaves the region */
    bool udp6_zero_csum;
};

/* Bytes of the outer IP packet after the rewrite; at most 65,535 and 40 more. */
uint32_t rewrite_size(const struct layers *l, uint8_t family);

/* Bytes that `data` moves towards the front (negative: towards the back). */
int32_t rewrite_growth(const struct layers *l, uint8_t family);

/* Rewrites; moves p->data and p->length to the packet that leaves.  There is headroom
 * for rewrite_growth(), inner TTL >= 2 where it is decremented, outer TTL >= 2. */
void rewrite_packet(struct fwd_packet *p, const struct layers *l,
                    const struct egress *e);

/* What a load balancer does to a packet, and XGW-H to one that goes on to XGW-x86:
 * outer destination, TTL and checksums change; the source (unless given: null keeps
 * it), the VXLAN header with its reserved bits and the inner packet stay.  Addresses
 * are of the family that the packet arrived in; outer TTL >= 2.  Moves p->data behind
 * tags that are taken off, and cuts padding. */
void rewrite_hand_on(struct fwd_packet *p, const struct layers *l,
                     const uint8_t *source, const uint8_t *destination,
                     const uint8_t next_hop_mac[6], const uint8_t port_mac[6]);

/* Ethernet header at `to`: 14 bytes. */
void write_ethernet(uint8_t *to, const uint8_t *destination, const uint8_t *source,
                    uint16_t ethertype);

/* The UDP checksum over `size` bytes of UDP at `udp` (its field taken as 0) and the
 * IPv6 pseudo-header (RFC 8200, section 8.1) of the addresses at `addresses`, source
 * first; never 0.  In memory order. */
uint16_t udp6_checksum(const uint8_t *addresses, const uint8_t *udp, uint32_t size);
