/*
 * twist - what is wrong, or unusual, about a probe's frame.
 *
 *   vxlan_packet ── build ──▶ the plain frame ── twist ──▶ the bytes that are sent
 *                                             └─ twist ──▶ the bytes that must come out
 *
 * A twist is one deviation from the packet that proto/model/vxlan_packet writes, all
 * else staying right: lengths and checksums follow it.  Those inside the tunnel come
 * out again as they went in, those outside do not.  What a node must make of each is
 * in one table, by the numbers of the checks in tests/reference/README.md.
 *
 * Values only; any thread.
 */
#pragma once

#include "proto/model/agent_msg.h"
#include "proto/model/vxlan_packet.h"

enum twist {
    TWIST_NONE,
    /* The outer headers. */
    TWIST_TAG,         /* one VLAN tag: it is taken off */
    TWIST_L2_CUT,      /* a tag is announced behind the frame's end */
    TWIST_TAGS,        /* three of them */
    TWIST_TYPE,        /* no IP */
    TWIST_ARP,         /* the node's own control takes it … */
    TWIST_IP_VERSION,  /* not the ethertype's */
    TWIST_IP_LENGTH,   /* more than there is */
    TWIST_IP_CHECKSUM, /* of IPv4 */
    TWIST_IP_OPTIONS,
    TWIST_IP_FRAGMENT,
    TWIST_ND, /* … and this … */
    TWIST_PING,
    TWIST_UDP_LENGTH,
    TWIST_BFD, /* … and this */
    TWIST_PORT,
    /* VXLAN. */
    TWIST_VXLAN_CUT,
    TWIST_VXLAN_NO_I,
    TWIST_VXLAN_P, /* GPE */
    TWIST_VXLAN_RESERVED,
    /* Inside. */
    TWIST_IN_L2_CUT,
    TWIST_IN_TAG,
    TWIST_IN_TYPE, /* ARP */
    TWIST_IN_IP_CUT,
    TWIST_IN_VERSION,
    TWIST_IN_LENGTH,
    TWIST_IN_CHECKSUM, /* of IPv4 */
    TWIST_IN_EXT_CUT,  /* of IPv6 */
    TWIST_IN_ND,       /* of IPv6 */
    TWIST_IN_OPTIONS,  /* or an extension header */
    TWIST_IN_FRAGMENT, /* not the first one */
    TWIST_IN_PADDING,  /* behind the packet */
    TWIST_IN_TCP,
    TWIST_IN_PING,
    TWISTS
};

#define TWIST_V4   1 /* of underlay or inner families */
#define TWIST_V6   2
#define TWIST_BOTH 3

/* What a node makes of it. */
struct twist_rule {
    const char *name;
    uint8_t check;      /* the one it fails at; 0: none */
    const char *reason; /* of the drop; null: it is kept, or passes (`check` is 0) */
    uint8_t underlay;   /* families there are such packets of */
    uint8_t inner;      /* the same, of the inside */
};
const struct twist_rule *twist_rule_of(unsigned twist);

/* Inside such a packet is (IANA); UDP unless the twist says otherwise. */
uint8_t twist_proto(unsigned twist, uint8_t inner_family);
/* It has no ports: no first fragment, or no TCP or UDP. */
bool twist_has_ports(unsigned twist);

/* The frame; `filler` zeroes stand before the last 8 bytes of the inner payload (as
 * many as the frame has room for).  Returns its length: PROBE_FRAME_MIN to
 * PROBE_FRAME_MAX, of which the last 8 bytes tell probes of different `payload`s apart.
 */
size_t twist_build(const struct vxlan_packet *p, unsigned twist, uint16_t filler,
                   uint8_t to[PROBE_FRAME_MAX]);

/* The frame as it comes out when `p` is the packet that was sent, rewritten.
 * `as_it_is`: the VXLAN header was not looked into (a fallback). */
size_t twist_build_out(const struct vxlan_packet *p, unsigned twist, uint16_t filler,
                       bool as_it_is, uint8_t to[PROBE_FRAME_MAX]);
