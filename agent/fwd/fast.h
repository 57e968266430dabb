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
 * the short way takes about half the instructions of the long one (callgrind of
 * bench_fwd).
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

static inline uint16_t fast_load16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint64_t fast_load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* 20 bytes of IPv4 header, its first 16 in `a` and `b`, whose sum is all ones (RFC
 * 1071). The sum is kept in 64 bits with the carry brought round (2^64 = 1 modulo
 * 65,535), so it is good if 65,535 divides it (it is not 0: a header begins with 0x45).
 * A number is a multiple of an odd d if its product with d's inverse modulo 2^64 is at
 * most (2^64 - 1) / d (Granlund and Montgomery 1994, section 9). */
static inline bool fast_ip4_sums_up(uint64_t a, uint64_t b, const uint8_t *ip)
{
    const uint64_t inverse = UINT64_C(0xfffefffefffeffff);
    uint64_t sum;

    _Static_assert(UINT64_C(65535) * UINT64_C(0xfffefffefffeffff) == 1, "inverse");
    sum = a + b;
    sum += sum < b;
    a = fast_load32(ip + 16);
    sum += a;
    sum += sum < a;
    return sum * inverse <= UINT64_MAX / 65535;
}

/* Checks 10, 14 and 18.  Packets of one sender come in runs: `*known` is the pair of
 * addresses that was good last. */
static inline bool fast_addresses_are_good(const struct fwd_config *c, const uint8_t *d,
                                           uint64_t *known)
{
    uint64_t pair = fast_load64(d + FAST_IP + 12);

    if (__builtin_expect(pair == *known, 1)) {
        return true;
    }
    if (!(fwd_config_local4(c, d + FAST_IP + 16) & ADDRESS_TUNNEL) ||
        !fwd_config_source4(c, d + FAST_IP + 12)) {
        return false;
    }
    *known = pair;
    return true;
}

/* Checks 3 to 21, and the kind of the inner packet: IP_V4, IP_V6, or 0 for the general
 * way.  The lengths leave room for an inner IPv4 header.  `*known` is 0 at the start of
 * a burst; no address of ours is. */
static inline uint8_t fast_outer(const struct fwd_config *c, const struct fwd_packet *p,
                                 uint64_t *known)
{
    const uint64_t no_fragment = UINT64_C(0xff3f000000000000);
    const uint64_t flags = (uint64_t)(VXLAN_FLAG_I | VXLAN_FLAG_P) << 48;
    const uint8_t *d = p->data;
    uint64_t a;
    uint64_t b;
    uint64_t udp; /* destination port, length, checksum, VXLAN flags */
    uint32_t inner;
    uint32_t size;
    uint32_t is_v4;
    uint32_t is_v6;

    if (p->length < FAST_INNER_IP + IP4_SIZE ||
        (p->rx_flags & ~FWD_RX_IP_CSUM_GOOD) != 0) {
        return 0;
    }
    a = fast_load64(d + FAST_IP);     /* version to fragment offset */
    b = fast_load64(d + FAST_IP + 8); /* TTL, protocol, checksum, source */
    udp = fast_load64(d + FAST_UDP + 2);
    size = load_be16(d + FAST_IP + 2);
    inner = fast_load32(d + FAST_INNER_IP - 2);             /* ethertype, version */
    if (fast_load16(d + FAST_IP - 2) != 0x0008 ||           /* IPv4 */
        (a & (no_fragment | 0xff)) != 0x45 ||               /* 20 bytes, whole */
        (b & 0xff00) != PROTO_UDP << 8 || (uint8_t)b < 2 || /* TTL */
        size - (FAST_HEADERS + IP4_SIZE) >
            p->length - (FAST_IP + FAST_HEADERS + IP4_SIZE) ||
        (udp & (flags | 0xffff)) !=
            ((uint64_t)VXLAN_FLAG_I << 48 | __builtin_bswap16(VXLAN_PORT)) ||
        load_be16(d + FAST_UDP + 4) != size - IP4_SIZE ||
        !fast_ip4_sums_up(a, b, d + FAST_IP) || !fast_addresses_are_good(c, d, known)) {
        return 0;
    }
    is_v4 = ((inner ^ 0x450008) & 0xffffff) == 0;
    is_v6 = ((inner ^ 0x60dd86) & 0xf0ffff) == 0;
    /* The family is random to the branch predictor: not to be branched on. */
    __asm__("" : "+r"(is_v4), "+r"(is_v6));
    return (uint8_t)(is_v4 * IP_V4 + is_v6 * IP_V6);
}

/* Checks 26 to 32 of the inner packet, whose kind is known.  A fragment is as good as
 * any other. */
static inline bool fast_inner4(const uint8_t *d)
{
    const uint8_t *ip = d + FAST_INNER_IP;
    uint32_t room = load_be16(d + FAST_IP + 2) - (uint32_t)FAST_HEADERS;
    uint32_t size = load_be16(ip + 2);

    return size - IP4_SIZE <= room - IP4_SIZE &&
           fast_ip4_sums_up(fast_load64(ip), fast_load64(ip + 8), ip) &&
           is_unicast4(ip + 16);
}

static inline bool fast_inner6(const uint8_t *d)
{
    const uint8_t *ip = d + FAST_INNER_IP;
    uint32_t room = load_be16(d + FAST_IP + 2) - (uint32_t)FAST_HEADERS;

    return room >= IP6_SIZE && load_be16(ip + 4) <= room - IP6_SIZE &&
           (ip[6] == PROTO_TCP || ip[6] == PROTO_UDP) && is_unicast6(ip + 24);
}

/* The inner family of a packet that was taken. */
static inline uint8_t fast_family(const uint8_t *d)
{
    return d[FAST_INNER_IP] >> 4 == 4 ? IP_V4 : IP_V6;
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

/* A way out over IPv4 at the moment of a burst. */
struct fast_exit {
    uint8_t ethernet[12]; /* next hop's MAC, the port's */
    uint32_t mtu;
    uint64_t source; /* the VIP, in the upper half as in a packet */
    uint64_t sum;    /* m' of the VIP, and ~m + m' of the TTL's word, being one less */
    uint8_t uplink;
};

/* `ethernet` and `mtu` are the caller's to set as well. */
static inline void fast_exit_from(struct fast_exit *e, const uint8_t *vip)
{
    uint32_t source = fast_load32(vip);

    e->source = (uint64_t)source << 32;
    e->sum = UINT64_C(0xfffe) + source;
}

/* rewrite_packet() for IPv4 to IPv4 in the VNI that it came in, without a UDP checksum,
 * the inner packet left as it is but for its destination MAC if `inner_mac` is not
 * null. Fewer and wider loads and stores, and each byte is loaded before something else
 * is stored beside it.  `to` as in a packet; `size` of the outer IP packet. */
static inline void fast_rewrite(struct fwd_packet *p, const struct fast_exit *e,
                                uint32_t to, uint32_t size, const uint8_t *inner_mac)
{
    uint8_t *d = p->data;
    uint64_t old = fast_load64(d + FAST_IP + 8); /* TTL, protocol, checksum, source */
    uint32_t before = fast_load32(d + FAST_IP + 16);
    uint64_t vxlan = fast_load64(d + FAST_VXLAN); /* flags, VNI, what is reserved */
    uint64_t inverse = ~old;
    /* ~HC + ~m + m' (RFC 1624). */
    uint64_t sum =
        (uint16_t)(inverse >> 16) + (inverse >> 32) + (uint32_t)~before + to + e->sum;
    uint16_t checksum = (uint16_t)~csum_fold(sum);

    old = (uint32_t)(uint16_t)(old - 1) | (uint32_t)checksum << 16 | e->source;
    vxlan = (vxlan & UINT64_C(0x00ffffff00000000)) | VXLAN_FLAG_I;
    memcpy(d + FAST_IP + 8, &old, sizeof(old));
    memcpy(d + FAST_IP + 16, &to, sizeof(to));
    memcpy(d + FAST_VXLAN, &vxlan, sizeof(vxlan));
    if (inner_mac != NULL) {
        memcpy(d + FAST_INNER, inner_mac, 6);
    }
    p->length = ETH_SIZE + size;
    memcpy(d, e->ethernet, sizeof(e->ethernet));
}
