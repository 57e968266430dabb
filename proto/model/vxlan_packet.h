/*
 * vxlan_packet - one VXLAN packet that we originate, as plain values: a probe.
 *
 * Inside is a UDP datagram from one VM address to another.  Everything that is not
 * named here is what a plain host writes (RFC 791, 8200, 768, 7348): no options, no
 * tags, no fragments, DF and identification 0 in IPv4, the outer IPv6 flow label being
 * the outer UDP source port (RFC 6437), all checksums right.  So one value is one run
 * of bytes, and a packet that came through a gateway is compared field by field.
 *
 * It knows no table and decides nothing.  Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/ip.h"

#define VXLAN_PACKET_PAYLOAD_MAX 32
/* Ethernet, outer IPv6, UDP, VXLAN, inner Ethernet, IPv6, UDP, payload. */
#define VXLAN_PACKET_MAX (14 + 40 + 8 + 8 + 14 + 40 + 8 + VXLAN_PACKET_PAYLOAD_MAX)

struct vxlan_packet {
    struct ip outer_src; /* of one family */
    struct ip outer_dst;
    uint8_t outer_ttl;
    uint16_t outer_sport;
    bool has_outer_csum; /* of UDP; else it is 0, "none" (RFC 768, RFC 6935) */
    uint32_t vni;
    uint8_t inner_dst_mac[6];
    uint8_t inner_src_mac[6];
    struct ip src; /* of one family */
    struct ip dst;
    uint8_t ttl;
    uint16_t sport;
    uint16_t dport;
    uint8_t payload_len; /* at most VXLAN_PACKET_PAYLOAD_MAX */
    uint8_t payload[VXLAN_PACKET_PAYLOAD_MAX];
};

/* Where in a frame the outer IP header begins: behind an Ethernet header without tags,
 * whose addresses are the link's affair. */
#define VXLAN_PACKET_IP 14

/* Writes the frame, its MAC addresses 02:00:00:00:00:01 (to) and :02 (from); returns
 * its length. */
size_t vxlan_packet_build(const struct vxlan_packet *p, uint8_t to[VXLAN_PACKET_MAX]);

/* The same in two steps, for an inside that is none of ours: where it begins in the
 * frame, what a packet's own is, and all that stands before `inner_len` bytes that are
 * there already; both return a length, the second one the frame's. */
size_t vxlan_packet_inner_at(const struct vxlan_packet *p);
size_t vxlan_packet_build_inner(const struct vxlan_packet *p, uint8_t *to);
size_t vxlan_packet_wrap(const struct vxlan_packet *p, size_t inner_len, uint8_t *to);

/* Reads a frame that vxlan_packet_build() could have written but for its MAC addresses:
 * RC_INVALID says what is otherwise, and leaves `*ret` as it was. */
enum rc vxlan_packet_parse(const uint8_t *frame, size_t len, struct vxlan_packet *ret,
                           struct err *err);

/* The fields in which `got` is not `want`, in words: "outer destination is 10.0.0.1,
 * not 10.0.0.2"; of several the first.  False: they are equal. */
bool vxlan_packet_differs(const struct vxlan_packet *got,
                          const struct vxlan_packet *want, char *to, size_t size);
