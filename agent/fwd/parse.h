/*
 * parse - finds the layers of one packet and refuses what breaks a rule.
 *
 * Checks 3 to 32 of tests/reference/README.md, in their order.  Every length is checked
 * against the bytes that are there and against the length field of the layer around it.
 * Two of the rules need the VNI's row, which is looked up later, so the outer and the
 * inner half give their results apart and fwd.c puts them together.  Pure; any thread.
 */
#pragma once

#include "agent/fwd/fwd.h"
#include "agent/fwd/wire.h"

/* Offsets count from the packet's first byte.  They fit 16 bits: 22 + 40 + 16 + 22 + 40
 * bytes of fixed headers and at most 8 extension headers of at most 2,048 bytes. */
struct layers {
    uint32_t outer_size; /* outer IP packet, bytes, without Ethernet padding */
    uint32_t inner_size; /* inner IP packet, likewise */
    uint32_t vni;
    uint16_t outer_l3;
    uint16_t udp;
    uint16_t inner_l2;
    uint16_t inner_l3;
    uint16_t inner_l4;      /* behind options and extension headers; may be the end */
    uint8_t outer_family;   /* IP_V4, IP_V6 */
    uint8_t inner_family;   /* 0 while unknown */
    uint8_t inner_tags;     /* 0 to 2 */
    uint8_t inner_proto;    /* of what starts at inner_l4 */
    bool is_fragment;       /* inner: any fragment of a datagram, the first included */
    bool is_later_fragment; /* inner: offset not 0, so inner_l4 is no header */
};

/* A drop reason, or PARSE_LOCAL + enum fwd_local_kind, or 0 for "goes on". */
#define PARSE_LOCAL 64u
_Static_assert(DROP_COUNT <= PARSE_LOCAL, "reasons and kinds share a byte");

/* Ethernet to VXLAN.  Fills all of the outer fields, inner_l2 and vni on 0. */
unsigned parse_outer(const struct fwd_config *c, const struct fwd_packet *p,
                     struct layers *ret);

/* Inner Ethernet and IP, as if the VNI allowed inner tags: check 24's other half is the
 * caller's, who knows the VNI's flags; `inner_tags` > 0 says so, also on failure. */
unsigned parse_inner(const struct fwd_packet *p, struct layers *l);

/* Is it an address that packets are routed to (check 32)?  As in the packet. */
static inline bool is_unicast4(const uint8_t *address)
{
    uint8_t first = address[0];

    return first != 0 && first != 127 && first < 224;
}

static inline bool is_unicast6(const uint8_t *address)
{
    uint64_t high = load_be64(address);
    uint64_t low = load_be64(address + 8);

    if (high == 0 && low <= 1) {
        return false; /* unspecified, loopback */
    }
    return address[0] != 0xff && (high >> 54) != 0xfe80 >> 6;
}
