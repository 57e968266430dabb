/*
 * rewrite - what happens to a packet that goes on to XGW-x86: what a load balancer
 * does.  Outer destination, TTL and checksums change; source, VXLAN header and the
 * inner packet stay.  Pure; any thread.
 */
#pragma once

#include "agent/fwd/parse.h"

/* `source` null: it stays.  Addresses are of the family that the packet arrived in;
 * outer TTL >= 2.  Moves p->data behind tags that are taken off, and cuts padding. */
void hrewrite_fallback(struct fwd_packet *p, const struct layers *l,
                       const uint8_t *source, const uint8_t *destination,
                       const uint8_t next_hop_mac[6], const uint8_t port_mac[6]);
