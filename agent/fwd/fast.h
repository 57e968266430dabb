/*
 * fast - the one shape that nearly all packets have, taken the short way.
 *
 * Outer: untagged IPv4 without options, UDP, VXLAN to one of our tunnel addresses.
 * Inner: untagged IPv4 without options, or IPv6 with TCP or UDP right behind it.  All
 * offsets are then constants, so nothing is remembered of such a packet but that it is
 * one.
 *
 * A packet is taken only if it passes every check of parse.h; any doubt sends it the
 * general way, which finds the reason.  So this file decides nothing: leaving it out
 * changes no packet (tests/unit/agent/fwd/test_fast.c compares).  Everything is inline:
 * with it bench_fwd takes 594 instructions a packet, without it 1,123 (callgrind).
 */
#pragma once

#include "agent/fwd/checksum.h"
#include "agent/fwd/parse.h"
#include "agent/fwd/wire.h"

enum {
    FAST_IP = ETH_SIZE,
    FAST_UDP = FAST_IP + IP4_SIZE,
    FAST_VXLAN = FAST_UDP + UDP_SIZE,
    FAST_INNER = FAST_VXLAN + VXLAN_SIZE,
    FAST_INNER_IP = FAST_INNER + ETH_SIZE,
    FAST_HEADERS = FAST_INNER_IP - FAST_IP, /* outer IP packet up to the inner one */
};

/* Loads in memory order, for comparisons with constants in memory order. */
static inline uint32_t fast_load32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint64_t fast_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline bool fast_ip4_sums_up(const uint8_t *ip)
{
    uint64_t a = fast_load64(ip);
    uint64_t b = fast_load64(ip + 8);
    uint64_t sum = (uint32_t)a + (a >> 32) + (uint32_t)b + (b >> 32);

    return csum_fold(sum + fast_load32(ip + 16)) == 0xffff;
}

/* Checks 3 to 21, and the kind of the inner packet: IP_V4, IP_V6, or 0 for the general
 * way.  The lengths leave room for an inner IPv4 header. */
static inline uint8_t fast_outer(const struct fwd_config *c, const struct fwd_packet *p)
{
    const uint8_t *d = p->data;
    uint32_t inner;
    uint32_t size;

    if (p->length < FAST_INNER_IP + IP4_SIZE ||
        (p->rx_flags & ~FWD_RX_IP_CSUM_GOOD) != 0) {
        return 0;
    }
    size = load_be16(d + FAST_IP + 2);
    inner = fast_load32(d + FAST_INNER_IP - 2); /* ethertype, version */
    if ((fast_load32(d + FAST_IP - 2) & 0xffffff) != 0x450008 || /* IPv4, 20 bytes */
        (fast_load32(d + FAST_IP + 6) & 0xff00ff3f) != 0x11000000 || /* whole, UDP */
        d[FAST_IP + 8] < 2 || size > p->length - FAST_IP ||
        size < FAST_HEADERS + IP4_SIZE ||
        load_be16(d + FAST_UDP + 4) != size - IP4_SIZE ||
        load_be16(d + FAST_UDP + 2) != VXLAN_PORT ||
        (d[FAST_VXLAN] & (VXLAN_FLAG_I | VXLAN_FLAG_P)) != VXLAN_FLAG_I ||
        !fast_ip4_sums_up(d + FAST_IP) ||
        !(fwd_config_local4(c, d + FAST_IP + 16) & ADDRESS_TUNNEL) ||
        !fwd_config_source4(c, d + FAST_IP + 12)) {
        return 0;
    }
    return (inner & 0xffffff) == 0x450008   ? IP_V4
           : (inner & 0xf0ffff) == 0x60dd86 ? IP_V6
                                            : 0;
}

/* Checks 26 to 32 of the inner packet, whose kind is known.  A fragment is as good as
 * any other. */
static inline bool fast_inner4(const uint8_t *d)
{
    const uint8_t *ip = d + FAST_INNER_IP;
    uint32_t room = load_be16(d + FAST_IP + 2) - (uint32_t)FAST_HEADERS;
    uint32_t size = load_be16(ip + 2);

    return size >= IP4_SIZE && size <= room && fast_ip4_sums_up(ip) &&
           is_unicast4(ip + 16);
}

static inline bool fast_inner6(const uint8_t *d)
{
    const uint8_t *ip = d + FAST_INNER_IP;
    uint32_t room = load_be16(d + FAST_IP + 2) - (uint32_t)FAST_HEADERS;

    return room >= IP6_SIZE && load_be16(ip + 4) <= room - IP6_SIZE &&
           (ip[6] == PROTO_TCP || ip[6] == PROTO_UDP) && is_unicast6(ip + 24);
}

/* What parse_outer() and parse_inner() would have said of it. */
static inline void fast_layers(const struct fwd_packet *p, uint8_t family,
                               struct layers *ret)
{
    const uint8_t *ip = p->data + FAST_INNER_IP;
    uint32_t fragment = family == IP_V4 ? load_be16(ip + 6) & (IP4_MF | IP4_OFFSET) : 0;

    *ret = (struct layers){
        .outer_size = load_be16(p->data + FAST_IP + 2),
        .inner_size = family == IP_V4 ? load_be16(ip + 2)
                                      : IP6_SIZE + (uint32_t)load_be16(ip + 4),
        .vni = load_be24(p->data + FAST_VXLAN + 4),
        .outer_l3 = FAST_IP,
        .udp = FAST_UDP,
        .inner_l2 = FAST_INNER,
        .inner_l3 = FAST_INNER_IP,
        .inner_l4 = FAST_INNER_IP + (family == IP_V4 ? IP4_SIZE : IP6_SIZE),
        .outer_family = IP_V4,
        .inner_family = family,
        .inner_proto = family == IP_V4 ? ip[9] : ip[6],
        .is_fragment = fragment != 0,
        .is_later_fragment = (fragment & IP4_OFFSET) != 0,
    };
}

/* May it be rewritten by fast_rewrite()?  No UDP checksum to keep up. */
static inline bool fast_has_no_udp_checksum(const uint8_t *d)
{
    return csum_load(d + FAST_UDP + 6) == 0;
}

/* rewrite_packet() for IPv4 to IPv4 without a UDP checksum, the inner packet left as it
 * is but for its destination MAC.  Fewer and wider loads and stores, and each byte is
 * loaded before something else is stored beside it. */
static inline void fast_rewrite(struct fwd_packet *p, const struct fib_query *q,
                                const uint8_t *vip, const uint8_t *next_hop_mac,
                                const uint8_t *port_mac)
{
    uint8_t *d = p->data;
    uint64_t old = fast_load64(d + FAST_IP + 8); /* TTL, protocol, checksum, source */
    uint32_t before = fast_load32(d + FAST_IP + 16);
    uint32_t source = fast_load32(vip);
    uint32_t to = fast_load32(q->addr);
    uint64_t vxlan = VXLAN_FLAG_I | (uint64_t)__builtin_bswap32(q->out_vni << 8) << 32;
    /* ~HC + ~m + m' (RFC 1624); of the TTL's word that is 0xfffe, being one less. */
    uint64_t sum = (uint16_t) ~(old >> 16) + UINT64_C(0xfffe) +
                   (uint32_t) ~(old >> 32) + source + (uint32_t)~before + to;
    uint16_t checksum = (uint16_t)~csum_fold(sum);

    old = (((old & 0xffff) - 1) | (uint64_t)checksum << 16) | (uint64_t)source << 32;
    memcpy(d + FAST_IP + 8, &old, sizeof(old));
    memcpy(d + FAST_IP + 16, &to, sizeof(to));
    memcpy(d + FAST_VXLAN, &vxlan, sizeof(vxlan));
    if (q->has_mac) {
        memcpy(d + FAST_INNER, q->mac, 6);
    }
    p->length = ETH_SIZE + load_be16(d + FAST_IP + 2);
    memcpy(d, next_hop_mac, 6);
    memcpy(d + 6, port_mac, 6);
}
