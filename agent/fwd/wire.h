/*
 * wire - big-endian loads and stores at any alignment, and the numbers on the wire that
 * the packet functions share.
 */
#pragma once

#include <stdint.h>
#include <string.h>

enum {
    ETH_SIZE = 14,
    VLAN_SIZE = 4, /* TCI and the ethertype behind it */
    IP4_SIZE = 20, /* without options */
    IP6_SIZE = 40,
    UDP_SIZE = 8,
    VXLAN_SIZE = 8,
};

enum {
    ETHERTYPE_IP4 = 0x0800,
    ETHERTYPE_ARP = 0x0806,
    ETHERTYPE_VLAN = 0x8100,  /* 802.1Q */
    ETHERTYPE_SVLAN = 0x88a8, /* 802.1ad */
    ETHERTYPE_IP6 = 0x86dd,
};

enum {
    PROTO_HOPOPTS = 0, /* IPv6 hop-by-hop; no IPv4 protocol */
    PROTO_ICMP4 = 1,
    PROTO_TCP = 6,
    PROTO_UDP = 17,
    PROTO_ROUTING = 43,
    PROTO_FRAGMENT = 44,
    PROTO_AH = 51,
    PROTO_ICMP6 = 58,
    PROTO_DSTOPTS = 60,
    PROTO_MOBILITY = 135,
    PROTO_HIP = 139,
    PROTO_SHIM6 = 140,
    PROTO_SCTP = 132,
};

enum {
    IP4_DF = 0x4000,
    IP4_MF = 0x2000,
    IP4_OFFSET = 0x1fff,
};

enum {
    VXLAN_PORT = 4789, /* RFC 7348, section 5 */
    VXLAN_FLAG_I = 0x08,
    VXLAN_FLAG_P = 0x04, /* draft-ietf-nvo3-vxlan-gpe, section 3.1 */
};

static inline uint16_t load_be16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return __builtin_bswap16(v);
}

static inline uint32_t load_be32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return __builtin_bswap32(v);
}

static inline uint64_t load_be64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return __builtin_bswap64(v);
}

static inline uint32_t load_be24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline void store_be16(uint8_t *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void store_be32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof(v));
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the loads and stores above swap");
