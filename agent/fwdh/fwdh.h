/*
 * fwdh - XGW-H's packet path in software: what the chip does with a packet, stage by
 * stage, over the tables of switch.h.
 *
 *   parse ─ vtep, source ─ vni ─ acl ─ meter ─▶ route_tcam ─ route_part ─┬─ peer: again
 *                                                                        │  (4 lookups)
 *        rewrite ◀─ next_hop ◀─ nc ◀─ vm_nc_conflict ─ vm_nc ─ vm_nc_spill
 *           └─ fallback: tenant's meter ─ class meter ─ member of the x86 cluster
 *
 * It makes of a packet the same as XGW-x86 (agent/fwd) would, or sends it there, or
 * drops it with the same reason: what a chip cannot do is a fallback, never a different
 * packet.  That is a miss, what `to_x86` says, a change of the underlay's family (its
 * UDP checksum), an inner TTL that ends and a packet too long for its port (ICMP
 * errors), inner headers behind which the chip's parser does not look (VLAN tags, IPv4
 * options, IPv6 extension headers), and IPv6 destinations in ::ffff:0:0/96.
 *
 * Threads: any number of workers, each online at the switch (hworker_online) and with
 * an hworker of its own.  No lock, no allocation, no log line, no clock.
 */
#pragma once

#include "agent/fwd/parse.h"
#include "agent/fwdh/switch.h"

/* Gives each of packets[0..n) its verdict, as fwd_burst() does: `uplink` of a forwarded
 * one is the index of its port.  `now_ns` feeds the meters: any monotonic clock above
 * 0.  A packet that is not forwarded is left unchanged. */
void fwdh_burst(const struct hswitch *s, struct hworker *w, uint64_t now_ns,
                struct fwd_packet packets[], uint32_t n);

/* Adds what one worker counted to plain numbers, as fwd_worker_sum(). */
void fwdh_worker_sum(const struct hworker *w, struct fwd_totals *sum);

/* The hash that picks next hops and members: symmetric in the inner 5-tuple, without
 * ports for any fragment of a datagram. */
uint32_t fwdh_flow_hash(const struct fwd_packet *p, const struct layers *l);
