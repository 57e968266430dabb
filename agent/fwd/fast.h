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

#ifdef __AVX2__
#include <immintrin.h>
#endif

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

/* 20 bytes of IPv4 header whose sum is all ones (RFC 1071).  The sum of 32-bit words is
 * that of 16-bit ones modulo 65,535 (2^16 = 1), so it is good if 65,535 divides it (it
 * is not 0: a header begins with 0x45). A number is a multiple of an odd d if its
 * product with d's inverse modulo 2^64 is at most (2^64 - 1) / d (Granlund and
 * Montgomery 1994, section 9). */
static inline bool fast_ip4_sums_up(const uint8_t *ip)
{
    const uint64_t inverse = UINT64_C(0xfffefffefffeffff);
    uint64_t sum;

    _Static_assert(UINT64_C(65535) * UINT64_C(0xfffefffefffeffff) == 1, "inverse");
    sum = (uint64_t)fast_load32(ip) + fast_load32(ip + 4) + fast_load32(ip + 8) +
          fast_load32(ip + 12) + fast_load32(ip + 16);
    return sum * inverse <= UINT64_MAX / 65535;
}

/* ---- the headers' first 64 bytes: all up to the inner IP header ---- */

typedef uint8_t fast_vector __attribute__((vector_size(32)));
_Static_assert(FAST_INNER_IP == 2 * sizeof(fast_vector), "the first line");

/* What is the same in all such packets, and which bits of it count: checks 3, 4, 6 to
 * 9, 12, 15, 16, 19 and 21.  Nothing is set that is reserved, so nothing need be
 * cleared. */
struct fast_shape {
    _Alignas(64) uint8_t want[FAST_INNER_IP];
    uint8_t mask[FAST_INNER_IP];
};
static const struct fast_shape fast_shape = {
    .want = { [FAST_IP - 2] = 0x08, /* IPv4 */
              [FAST_IP] = 0x45,     /* 20 bytes */
              [FAST_IP + 9] = PROTO_UDP,
              [FAST_UDP + 2] = VXLAN_PORT >> 8,
              [FAST_UDP + 3] = VXLAN_PORT & 0xff,
              [FAST_VXLAN] = VXLAN_FLAG_I },
    .mask = { [FAST_IP - 2] = 0xff,
              [FAST_IP - 1] = 0xff,
              [FAST_IP] = 0xff,
              [FAST_IP + 6] = 0x3f, /* no fragment */
              [FAST_IP + 7] = 0xff,
              [FAST_IP + 9] = 0xff,
              [FAST_UDP + 2] = 0xff,
              [FAST_UDP + 3] = 0xff,
              [FAST_VXLAN] = 0xff,
              [FAST_VXLAN + 1] = 0xff,
              [FAST_VXLAN + 2] = 0xff,
              [FAST_VXLAN + 3] = 0xff,
              [FAST_VXLAN + 7] = 0xff },
};

static inline fast_vector fast_load_vector(const uint8_t *p)
{
    fast_vector v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline fast_vector fast_differs(const uint8_t *d, unsigned at)
{
    return (fast_load_vector(d + at) ^ fast_load_vector(fast_shape.want + at)) &
           fast_load_vector(fast_shape.mask + at);
}

static inline bool fast_has_shape(const uint8_t *d)
{
    fast_vector differs = fast_differs(d, 0) | fast_differs(d, sizeof(fast_vector));

#ifdef __AVX2__
    return _mm256_testz_si256((__m256i)differs, (__m256i)differs);
#else
    uint64_t words[4];

    memcpy(words, &differs, sizeof(words));
    return (words[0] | words[1] | words[2] | words[3]) == 0;
#endif
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
 * way.  The lengths leave room for an inner IPv4 header, and nothing lies behind the
 * outer IP packet.  `*known` is 0 at the start of a burst; no address of ours is. */
static inline uint8_t fast_outer(const struct fwd_config *c, const struct fwd_packet *p,
                                 uint64_t *known)
{
    /* Ethertype and version, in memory order. */
    static const uint32_t inner_want[2] = { 0x450008, 0x60dd86 };
    static const uint32_t inner_mask[2] = { 0xffffff, 0xf0ffff };
    const uint8_t *d = p->data;
    uint32_t inner;
    uint32_t size;
    uint32_t is_v6;

    if (p->length < FAST_INNER_IP + IP4_SIZE ||
        (p->rx_flags & ~FWD_RX_IP_CSUM_GOOD) != 0) {
        return 0;
    }
    size = load_be16(d + FAST_IP + 2);
    inner = fast_load32(d + FAST_INNER_IP - 2);
    is_v6 = inner >> 7 & 1;
    if (!fast_has_shape(d) || ((inner ^ inner_want[is_v6]) & inner_mask[is_v6]) != 0 ||
        d[FAST_IP + 8] < 2 || /* TTL */
        size + ETH_SIZE != p->length ||
        load_be16(d + FAST_UDP + 4) + (uint32_t)IP4_SIZE != size ||
        !fast_ip4_sums_up(d + FAST_IP) || !fast_addresses_are_good(c, d, known)) {
        return 0;
    }
    /* The family is random to the branch predictor: not to be branched on. */
    __asm__("" : "+r"(is_v6));
    return (uint8_t)(IP_V4 + is_v6 * (IP_V6 - IP_V4));
}

/* Checks 26 to 32 of the inner packet, whose kind is known.  A fragment is as good as
 * any other. */
static inline bool fast_inner4(const struct fwd_packet *p)
{
    const uint8_t *ip = p->data + FAST_INNER_IP;
    uint32_t room = p->length - FAST_INNER_IP;

    return load_be16(ip + 2) - (uint32_t)IP4_SIZE <= room - IP4_SIZE &&
           fast_ip4_sums_up(ip) && is_unicast4(ip + 16);
}

static inline bool fast_inner6(const struct fwd_packet *p)
{
    const uint8_t *ip = p->data + FAST_INNER_IP;
    uint32_t room = p->length - FAST_INNER_IP;

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
    /* Of the first 32 bytes of a packet: what stays, and what is added to it: both
     * MACs, one TTL less, the VIP as source. */
    _Alignas(32) uint8_t keep[32];
    uint8_t add[32];
    uint64_t sum; /* m' of the VIP, ~m + m' of the TTL's word, and enough of 65,535 to
                     take what was there from */
    /* the caller's: */
    uint32_t length;  /* of the longest frame */
    uint32_t outcome; /* fwd_packet's, of a packet that goes this way */
};

static inline void fast_exit_init(struct fast_exit *e, const uint8_t *next_hop_mac,
                                  const uint8_t *port_mac, const uint8_t *vip)
{
    enum { REPLACED = 12, TTL = FAST_IP + 8, CHECKSUM = FAST_IP + 10 };

    memset(e->keep, 0xff, sizeof(e->keep));
    memset(e->add, 0, sizeof(e->add));
    memset(e->keep, 0, REPLACED);
    memcpy(e->add, next_hop_mac, 6);
    memcpy(e->add + 6, port_mac, 6);
    e->add[TTL] = 0xff; /* one less; it is 2 at least */
    memset(e->keep + CHECKSUM, 0, sizeof(e->keep) - CHECKSUM);
    memcpy(e->add + FAST_IP + 12, vip, 4);
    e->sum = UINT64_C(0xffff) * 0x30000 + 0xfffe + fast_load32(vip);
}

/* rewrite_packet() for IPv4 to IPv4 in the VNI that it came in, without a UDP checksum,
 * the inner packet left as it is but for its destination MAC if `inner_mac` is not
 * null.  `to` as in a packet. */
static inline void fast_rewrite(struct fwd_packet *p, const struct fast_exit *e,
                                uint32_t to, const uint8_t *inner_mac)
{
    uint8_t *d = p->data;
    /* ~HC + ~m + m' (RFC 1624), with -x for ~x, which is the same modulo 65,535. */
    uint64_t sum = e->sum - fast_load16(d + FAST_IP + 10) -
                   fast_load32(d + FAST_IP + 12) - fast_load32(d + FAST_IP + 16) + to;
    uint16_t checksum = (uint16_t)~csum_fold(sum);
    fast_vector v =
        (fast_load_vector(d) & fast_load_vector(e->keep)) + fast_load_vector(e->add);

    memcpy(d, &v, sizeof(v));
    memcpy(d + FAST_IP + 10, &checksum, sizeof(checksum));
    memcpy(d + FAST_IP + 16, &to, sizeof(to));
    if (inner_mac != NULL) {
        memcpy(d + FAST_INNER, inner_mac, 6);
    }
}
