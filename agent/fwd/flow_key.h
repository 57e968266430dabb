/*
 * flow_key - whose packet it is: a tenant's 5-tuple, as a value that is compared and
 * hashed by its bytes.  A key of a VNI alone (all else zero) stands for the tenant.
 */
#pragma once

#include "agent/fwd/parse.h"

struct flow_key {
    uint8_t src[16]; /* inner addresses; the rest of an IPv4 one is zero */
    uint8_t dst[16];
    uint32_t vni;
    uint16_t sport; /* zero for fragments, and where the protocol has none */
    uint16_t dport;
    uint8_t family; /* IP_V4, IP_V6; 0: a tenant's key */
    uint8_t proto;
    uint8_t zero[6];
};
_Static_assert(sizeof(struct flow_key) == 48, "no padding: bytes are compared");

/* Of a packet whose outer and inner layers were found. */
void flow_key_of(const struct fwd_packet *p, const struct layers *l,
                 struct flow_key *ret);

static inline struct flow_key flow_key_tenant(uint32_t vni)
{
    return (struct flow_key){ .vni = vni };
}
