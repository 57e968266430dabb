/* What is refused and why: every row of the table in tests/reference/README.md that
 * parsing decides, the order of the rows, and every length. */
#include <string.h>

#include "agent/fwd/parse.h"
#include "tests/unit/agent/fwd/fixture.h"
#include "tests/unit/unit.h"

enum base { L2, L3, UDP, VXLAN, IN2, IN3, IN4, END };
enum fix { FIX_NONE = 0, FIX_OUTER = 1, FIX_INNER = 2 };

struct patch {
    enum base base;
    int at;
    const char *bytes;
    unsigned len;
};
#define P(base, at, bytes)                                                             \
    {                                                                                  \
        base, at, bytes, sizeof(bytes) - 1                                             \
    }

struct parse_case {
    const char *name;
    int outer, inner; /* 4 or 6 */
    struct patch patch[4];
    unsigned fix;
    unsigned rx_flags;
    unsigned verdict;
    unsigned reason; /* or local kind */
};

static uint8_t *at(struct frame *f, const struct patch *p)
{
    unsigned from[] = { 0,           f->l3,       f->udp,      f->vxlan,
                        f->inner_l2, f->inner_l3, f->inner_l4, f->n };

    return f->b + from[p->base] + p->at;
}

#define DROPS(r) FWD_DROP, DROP_##r
#define KEEPS(k) FWD_LOCAL, FWD_LOCAL_##k
#define FORWARDS FWD_FORWARD, 0

static const struct parse_case cases[] = {
    { "valid v4 in v4", 4, 4, { { 0 } }, 0, 0, FORWARDS },
    { "valid v6 in v4", 4, 6, { { 0 } }, 0, 0, FORWARDS },
    { "valid v4 in v6", 6, 4, { { 0 } }, 0, 0, FORWARDS },
    { "valid v6 in v6", 6, 6, { { 0 } }, 0, 0, FORWARDS },

    /* 3 */
    { "ARP", 4, 4, { P(L2, 12, "\x08\x06") }, 0, 0, KEEPS(ARP) },
    { "LLDP", 4, 4, { P(L2, 12, "\x88\xcc") }, 0, 0, DROPS(L2_NOT_IP) },
    { "802.3 length", 4, 4, { P(L2, 12, "\x00\x40") }, 0, 0, DROPS(L2_NOT_IP) },
    { "0x9100 is no tag", 4, 4, { P(L2, 12, "\x91\x00") }, 0, 0, DROPS(L2_NOT_IP) },
    /* 4 */
    { "IHL 4", 4, 4, { P(L3, 0, "\x44") }, FIX_OUTER, 0, DROPS(OUTER_LENGTH) },
    { "total length 19",
      4,
      4,
      { P(L3, 2, "\0\x13") },
      FIX_OUTER,
      0,
      DROPS(OUTER_LENGTH) },
    { "total length 1 too long",
      4,
      4,
      { P(L3, 3, "\x77") },
      FIX_OUTER,
      0,
      DROPS(OUTER_LENGTH) },
    { "total length 65535",
      4,
      4,
      { P(L3, 2, "\xff\xff") },
      FIX_OUTER,
      0,
      DROPS(OUTER_LENGTH) },
    { "payload length 65535",
      6,
      4,
      { P(L3, 4, "\xff\xff") },
      0,
      0,
      DROPS(OUTER_LENGTH) },
    { "payload length 0", 6, 4, { P(L3, 4, "\0\0") }, 0, 0, DROPS(OUTER_LENGTH) },
    /* 5 */
    { "version 6 behind 0x0800",
      4,
      4,
      { P(L3, 0, "\x65") },
      FIX_OUTER,
      0,
      DROPS(OUTER_VERSION) },
    { "version 4 behind 0x86dd",
      6,
      4,
      { P(L3, 0, "\x45") },
      0,
      0,
      DROPS(OUTER_VERSION) },
    { "version before IHL", 4, 4, { P(L3, 0, "\x50") }, 0, 0, DROPS(OUTER_VERSION) },
    /* 6 */
    { "bad header checksum",
      4,
      4,
      { P(L3, 10, "\x12\x34") },
      0,
      0,
      DROPS(OUTER_CHECKSUM) },
    { "bad by the NIC's word",
      4,
      4,
      { { 0 } },
      0,
      FWD_RX_IP_CSUM_BAD,
      DROPS(OUTER_CHECKSUM) },
    { "good by the NIC's word is not summed again",
      4,
      4,
      { P(L3, 10, "\x12\x34") },
      0,
      FWD_RX_IP_CSUM_GOOD,
      FORWARDS },
    { "the NIC's word on IPv4 is nothing to v6",
      6,
      4,
      { { 0 } },
      0,
      FWD_RX_IP_CSUM_BAD,
      FORWARDS },
    { "checksum before fragment",
      4,
      4,
      { P(L3, 6, "\x20\x00") },
      0,
      0,
      DROPS(OUTER_CHECKSUM) },
    /* 7 */
    { "options", 4, 4, { P(L3, 0, "\x46") }, FIX_OUTER, 0, DROPS(OUTER_OPTIONS) },
    { "checksum of options too",
      4,
      4,
      { P(L3, 0, "\x46") },
      0,
      0,
      DROPS(OUTER_CHECKSUM) },
    { "hop-by-hop", 6, 4, { P(L3, 6, "\x00") }, 0, 0, DROPS(OUTER_OPTIONS) },
    { "routing", 6, 4, { P(L3, 6, "\x2b") }, 0, 0, DROPS(OUTER_OPTIONS) },
    { "AH", 6, 4, { P(L3, 6, "\x33") }, 0, 0, DROPS(OUTER_OPTIONS) },
    { "destination options", 6, 4, { P(L3, 6, "\x3c") }, 0, 0, DROPS(OUTER_OPTIONS) },
    { "mobility", 6, 4, { P(L3, 6, "\x87") }, 0, 0, DROPS(OUTER_OPTIONS) },
    { "HIP", 6, 4, { P(L3, 6, "\x8b") }, 0, 0, DROPS(OUTER_OPTIONS) },
    { "Shim6", 6, 4, { P(L3, 6, "\x8c") }, 0, 0, DROPS(OUTER_OPTIONS) },
    /* 8 */
    { "first fragment",
      4,
      4,
      { P(L3, 6, "\x20\x00") },
      FIX_OUTER,
      0,
      DROPS(OUTER_FRAG) },
    { "second fragment",
      4,
      4,
      { P(L3, 6, "\x00\xb9") },
      FIX_OUTER,
      0,
      DROPS(OUTER_FRAG) },
    { "DF is no fragment", 4, 4, { P(L3, 6, "\x40\x00") }, FIX_OUTER, 0, FORWARDS },
    { "v6 fragment", 6, 4, { P(L3, 6, "\x2c") }, 0, 0, DROPS(OUTER_FRAG) },
    /* 9 */
    { "neighbour solicitation to anyone",
      6,
      4,
      { P(L3, 6, "\x3a"), P(L3, 24, "\xff\x02"), P(UDP, 0, "\x87") },
      0,
      0,
      KEEPS(ND) },
    { "router solicitation",
      6,
      4,
      { P(L3, 6, "\x3a"), P(UDP, 0, "\x85") },
      0,
      0,
      KEEPS(ND) },
    { "redirect", 6, 4, { P(L3, 6, "\x3a"), P(UDP, 0, "\x89") }, 0, 0, KEEPS(ND) },
    { "echo to ourselves",
      6,
      4,
      { P(L3, 6, "\x3a"), P(UDP, 0, "\x80") },
      0,
      0,
      KEEPS(IP) },
    { "type 138 to others",
      6,
      4,
      { P(L3, 6, "\x3a"), P(L3, 24, "\xff\x02"), P(UDP, 0, "\x8a") },
      0,
      0,
      DROPS(NOT_OUR_ADDRESS) },
    { "ICMPv6 without a byte",
      6,
      4,
      { P(L3, 6, "\x3a"), P(L3, 4, "\0\0") },
      0,
      0,
      KEEPS(IP) },
    /* 10, 11 */
    { "not our address",
      4,
      4,
      { P(L3, 19, "\x65") },
      FIX_OUTER,
      0,
      DROPS(NOT_OUR_ADDRESS) },
    { "not our address in v6",
      6,
      4,
      { P(L3, 39, "\x99") },
      0,
      0,
      DROPS(NOT_OUR_ADDRESS) },
    { "to the VTEP", 4, 4, { P(L3, 19, "\x01") }, FIX_OUTER, 0, FORWARDS },
    { "to the v6 VTEP", 6, 4, { P(L3, 38, "\x00\x01") }, 0, 0, FORWARDS },
    { "ICMP to us", 4, 4, { P(L3, 9, "\x01") }, FIX_OUTER, 0, KEEPS(IP) },
    { "BGP to an uplink's address",
      4,
      4,
      { P(L3, 9, "\x06"), P(L3, 19, "\x0a") },
      FIX_OUTER,
      0,
      KEEPS(IP) },
    /* 12 */
    { "UDP length 7", 4, 4, { P(UDP, 4, "\0\x07") }, 0, 0, DROPS(OUTER_LENGTH) },
    { "UDP shorter than IP", 4, 4, { P(UDP, 5, "\x61") }, 0, 0, DROPS(OUTER_LENGTH) },
    { "UDP longer than IP", 4, 4, { P(UDP, 5, "\x63") }, 0, 0, DROPS(OUTER_LENGTH) },
    { "4 bytes of UDP",
      4,
      4,
      { P(L3, 2, "\0\x18") },
      FIX_OUTER,
      0,
      DROPS(OUTER_LENGTH) },
    /* 13 */
    { "BFD", 4, 4, { P(UDP, 2, "\x0e\xc8") }, 0, 0, KEEPS(BFD) },
    { "BFD echo", 4, 4, { P(UDP, 2, "\x0e\xc9") }, 0, 0, KEEPS(BFD) },
    { "multihop BFD", 6, 4, { P(UDP, 2, "\x12\xb0") }, 0, 0, KEEPS(BFD) },
    { "BFD with TTL 1 is the control thread's to judge",
      4,
      4,
      { P(UDP, 2, "\x0e\xc8"), P(L3, 8, "\x01") },
      FIX_OUTER,
      0,
      KEEPS(BFD) },
    { "Linux' old port 8472", 4, 4, { P(UDP, 2, "\x21\x18") }, 0, 0, DROPS(NOT_VXLAN) },
    { "GPE's port 4790", 4, 4, { P(UDP, 2, "\x12\xb6") }, 0, 0, DROPS(NOT_VXLAN) },
    /* 14 */
    { "VXLAN to an uplink's address",
      4,
      4,
      { P(L3, 19, "\x0a") },
      FIX_OUTER,
      0,
      DROPS(NOT_OUR_ADDRESS) },
    /* 15 to 18 */
    { "TTL 1", 4, 4, { P(L3, 8, "\x01") }, FIX_OUTER, 0, DROPS(OUTER_TTL) },
    { "TTL 0", 4, 4, { P(L3, 8, "\x00") }, FIX_OUTER, 0, DROPS(OUTER_TTL) },
    { "TTL 2", 4, 4, { P(L3, 8, "\x02") }, FIX_OUTER, 0, FORWARDS },
    { "hop limit 1", 6, 4, { P(L3, 7, "\x01") }, 0, 0, DROPS(OUTER_TTL) },
    { "UDP checksum 0 over v6",
      6,
      4,
      { P(UDP, 6, "\0\0") },
      0,
      0,
      DROPS(OUTER_UDP6_ZERO_CSUM) },
    { "UDP checksum 0 over v4", 4, 4, { P(UDP, 6, "\0\0") }, 0, 0, FORWARDS },
    { "a wrong UDP checksum is not ours to find",
      4,
      4,
      { P(UDP, 6, "\xde\xad") },
      0,
      0,
      FORWARDS },
    { "UDP checksum bad by the NIC's word",
      4,
      4,
      { { 0 } },
      0,
      FWD_RX_L4_CSUM_BAD,
      DROPS(OUTER_L4_CHECKSUM) },
    { "zero before the NIC's word",
      6,
      4,
      { P(UDP, 6, "\0\0") },
      0,
      FWD_RX_L4_CSUM_BAD,
      DROPS(OUTER_UDP6_ZERO_CSUM) },
    { "source just below",
      4,
      4,
      { P(L3, 12, "\xc6\x33\x63\xff") },
      FIX_OUTER,
      0,
      DROPS(SOURCE_CHECK) },
    { "source just above",
      4,
      4,
      { P(L3, 12, "\xc6\x33\x65\x00") },
      FIX_OUTER,
      0,
      DROPS(SOURCE_CHECK) },
    { "first address of the range",
      4,
      4,
      { P(L3, 15, "\x00") },
      FIX_OUTER,
      0,
      FORWARDS },
    { "last address of the range",
      4,
      4,
      { P(L3, 15, "\xff") },
      FIX_OUTER,
      0,
      FORWARDS },
    { "a single host",
      4,
      4,
      { P(L3, 12, "\xcb\x00\x71\x07") },
      FIX_OUTER,
      0,
      FORWARDS },
    { "its neighbour",
      4,
      4,
      { P(L3, 12, "\xcb\x00\x71\x08") },
      FIX_OUTER,
      0,
      DROPS(SOURCE_CHECK) },
    { "v6 source outside", 6, 4, { P(L3, 13, "\x0b") }, 0, 0, DROPS(SOURCE_CHECK) },
    { "last v6 source",
      6,
      4,
      { P(L3, 14, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") },
      0,
      0,
      FORWARDS },
    { "source before VXLAN flags",
      4,
      4,
      { P(L3, 12, "\xc6\x33\x65\x00"), P(VXLAN, 0, "\0") },
      FIX_OUTER,
      0,
      DROPS(SOURCE_CHECK) },
    /* 20, 21 */
    { "I flag clear", 4, 4, { P(VXLAN, 0, "\x00") }, 0, 0, DROPS(VXLAN_I_FLAG) },
    { "all but I", 4, 4, { P(VXLAN, 0, "\xf7") }, 0, 0, DROPS(VXLAN_I_FLAG) },
    { "GPE", 4, 4, { P(VXLAN, 0, "\x0c\0\0\x01") }, 0, 0, DROPS(VXLAN_GPE) },
    { "other reserved bits are ignored",
      4,
      4,
      { P(VXLAN, 0, "\xfb\xff\xff\xff"), P(VXLAN, 7, "\xff") },
      0,
      0,
      FORWARDS },
    /* 22 */
    { "unknown VNI", 4, 4, { P(VXLAN, 4, "\0\0\x0b") }, 0, 0, DROPS(UNKNOWN_VNI) },
    { "VNI 0", 4, 4, { P(VXLAN, 4, "\0\0\0") }, 0, 0, DROPS(UNKNOWN_VNI) },
    { "unknown VNI before what is inside",
      4,
      4,
      { P(VXLAN, 4, "\xff\xff\xff"), P(IN2, 12, "\x08\x06") },
      0,
      0,
      DROPS(UNKNOWN_VNI) },
    /* 24 */
    { "inner tag",
      4,
      4,
      { P(IN2, 12, "\x81\0\0\x05\x08\0") },
      0,
      0,
      DROPS(INNER_VLAN) },
    { "inner 802.1ad tag", 4, 4, { P(IN2, 12, "\x88\xa8") }, 0, 0, DROPS(INNER_VLAN) },
    { "three tags where two may be",
      4,
      4,
      { P(VXLAN, 4, "\0\0\x1e"), P(IN2, 12, "\x81\0\0\x05\x81\0\0\x06\x81\0") },
      0,
      0,
      DROPS(INNER_VLAN) },
    /* 25 */
    { "inner ARP", 4, 4, { P(IN2, 12, "\x08\x06") }, 0, 0, DROPS(INNER_NOT_IP) },
    { "inner MPLS", 4, 4, { P(IN2, 12, "\x88\x47") }, 0, 0, DROPS(INNER_NOT_IP) },
    { "inner LLC", 4, 4, { P(IN2, 12, "\x00\x26") }, 0, 0, DROPS(INNER_NOT_IP) },
    /* 27 */
    { "inner version",
      4,
      4,
      { P(IN3, 0, "\x65") },
      FIX_INNER,
      0,
      DROPS(INNER_VERSION) },
    { "inner v6 version", 4, 6, { P(IN3, 0, "\x45") }, 0, 0, DROPS(INNER_VERSION) },
    /* 28 */
    { "inner IHL 4", 4, 4, { P(IN3, 0, "\x44") }, FIX_INNER, 0, DROPS(INNER_LENGTH) },
    { "inner IHL beyond total",
      4,
      4,
      { P(IN3, 0, "\x4f\0\0\x3b") },
      0,
      0,
      DROPS(INNER_LENGTH) },
    { "inner total length 1 too long",
      4,
      4,
      { P(IN3, 2, "\0\x3d") },
      FIX_INNER,
      0,
      DROPS(INNER_LENGTH) },
    { "inner total length 1400",
      4,
      4,
      { P(IN3, 2, "\x05\x78") },
      FIX_INNER,
      0,
      DROPS(INNER_LENGTH) },
    { "inner total length shorter: padding",
      4,
      4,
      { P(IN3, 2, "\0\x20") },
      FIX_INNER,
      0,
      FORWARDS },
    { "inner payload length 1 too long",
      4,
      6,
      { P(IN3, 4, "\0\x29") },
      0,
      0,
      DROPS(INNER_LENGTH) },
    { "inner payload length 0", 4, 6, { P(IN3, 4, "\0\0") }, 0, 0, FORWARDS },
    /* 29 */
    { "inner checksum", 4, 4, { P(IN3, 10, "\xab\xcd") }, 0, 0, DROPS(INNER_CHECKSUM) },
    { "inner options are summed",
      4,
      4,
      { P(IN3, 0, "\x46") },
      0,
      0,
      DROPS(INNER_CHECKSUM) },
    { "inner options go through", 4, 4, { P(IN3, 0, "\x46") }, FIX_INNER, 0, FORWARDS },
    /* 30 */
    { "one hop-by-hop header",
      4,
      6,
      { P(IN3, 6, "\0"), P(IN4, 0, "\x3b\0") },
      0,
      0,
      FORWARDS },
    { "a header as long as the payload",
      4,
      6,
      { P(IN3, 6, "\x3c"), P(IN4, 0, "\x3b\x04") },
      0,
      0,
      FORWARDS },
    { "a header beyond the payload",
      4,
      6,
      { P(IN3, 6, "\x3c"), P(IN4, 0, "\x3b\x05") },
      0,
      0,
      DROPS(INNER_EXT) },
    { "AH counts in words of four",
      4,
      6,
      { P(IN3, 6, "\x33"), P(IN4, 0, "\x3b\x08") },
      0,
      0,
      FORWARDS },
    { "AH beyond the payload",
      4,
      6,
      { P(IN3, 6, "\x33"), P(IN4, 0, "\x3b\x09") },
      0,
      0,
      DROPS(INNER_EXT) },
    { "a fragment header is eight bytes whatever it says",
      4,
      6,
      { P(IN3, 6, "\x2c"), P(IN4, 0, "\x3b\xff\0\x01") },
      0,
      0,
      FORWARDS },
    { "behind a later fragment's header nobody looks",
      4,
      6,
      { P(IN3, 6, "\x2c"), P(IN4, 0, "\x3c\0\0\x08"), P(IN4, 8, "\x3a\xff") },
      0,
      0,
      FORWARDS },
    { "behind a first fragment's header we do",
      4,
      6,
      { P(IN3, 6, "\x2c"), P(IN4, 0, "\x3c\0\0\x01"), P(IN4, 8, "\x3a\xff") },
      0,
      0,
      DROPS(INNER_EXT) },
    { "an extension header announced at the end",
      4,
      6,
      { P(IN3, 6, "\x3c"), P(IN4, 0, "\x3c\x04") },
      0,
      0,
      DROPS(INNER_EXT) },
    /* 31 */
    { "inner ND",
      4,
      6,
      { P(IN3, 6, "\x3a"), P(IN4, 0, "\x87") },
      0,
      0,
      DROPS(INNER_ND) },
    { "inner ND behind an extension",
      4,
      6,
      { P(IN3, 6, "\0"), P(IN4, 0, "\x3a\0"), P(IN4, 8, "\x88") },
      0,
      0,
      DROPS(INNER_ND) },
    { "inner echo", 4, 6, { P(IN3, 6, "\x3a"), P(IN4, 0, "\x80") }, 0, 0, FORWARDS },
    { "ND before multicast",
      4,
      6,
      { P(IN3, 6, "\x3a"), P(IN4, 0, "\x87"), P(IN3, 24, "\xff\x02") },
      0,
      0,
      DROPS(INNER_ND) },
    { "protocol 58 in IPv4 is no ND",
      4,
      4,
      { P(IN3, 9, "\x3a"), P(IN4, 0, "\x87") },
      FIX_INNER,
      0,
      FORWARDS },
    /* 32 */
    { "to 0.0.0.0",
      4,
      4,
      { P(IN3, 16, "\0\0\0\0") },
      FIX_INNER,
      0,
      DROPS(INNER_NOT_UNICAST) },
    { "to 127.0.0.1",
      4,
      4,
      { P(IN3, 16, "\x7f") },
      FIX_INNER,
      0,
      DROPS(INNER_NOT_UNICAST) },
    { "to 224.0.0.1",
      4,
      4,
      { P(IN3, 16, "\xe0") },
      FIX_INNER,
      0,
      DROPS(INNER_NOT_UNICAST) },
    { "to 255.255.255.255",
      4,
      4,
      { P(IN3, 16, "\xff\xff\xff\xff") },
      FIX_INNER,
      0,
      DROPS(INNER_NOT_UNICAST) },
    { "to 223.255.255.255",
      4,
      4,
      { P(IN3, 16, "\xdf\xff\xff\xff") },
      FIX_INNER,
      0,
      DROPS(ROUTE_MISS) },
    { "to ::",
      4,
      6,
      { P(IN3, 24, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0") },
      0,
      0,
      DROPS(INNER_NOT_UNICAST) },
    { "to ::1",
      4,
      6,
      { P(IN3, 24, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01") },
      0,
      0,
      DROPS(INNER_NOT_UNICAST) },
    { "to ::2",
      4,
      6,
      { P(IN3, 24, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02") },
      0,
      0,
      DROPS(ROUTE_MISS) },
    { "to ff02::1", 4, 6, { P(IN3, 24, "\xff\x02") }, 0, 0, DROPS(INNER_NOT_UNICAST) },
    { "to fe80::1", 4, 6, { P(IN3, 24, "\xfe\x80") }, 0, 0, DROPS(INNER_NOT_UNICAST) },
    { "to febf::1", 4, 6, { P(IN3, 24, "\xfe\xbf") }, 0, 0, DROPS(INNER_NOT_UNICAST) },
    { "to fec0::1", 4, 6, { P(IN3, 24, "\xfe\xc0") }, 0, 0, DROPS(ROUTE_MISS) },
};

static void expect(struct fixture *x, const uint8_t *bytes, unsigned n,
                   unsigned rx_flags, unsigned verdict, unsigned reason,
                   const char *name)
{
    struct outcome o;
    unsigned got;

    fixture_run(x, bytes, n, FWD_HEADROOM, (uint8_t)rx_flags, &o);
    got = o.packet.verdict == FWD_LOCAL ? o.packet.local : o.packet.reason;
    ck_assert_msg(o.packet.verdict == verdict && got == reason,
                  "%s: verdict %u, %s (local %u); expected %u, %u", name,
                  o.packet.verdict, drop_reason_name(o.packet.reason), o.packet.local,
                  verdict, reason);
    outcome_fini(&o);
}

START_TEST(each_broken_rule_has_its_own_reason)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        const struct parse_case *c = &cases[i];
        struct frame_spec s = frame_spec(c->outer, c->inner);
        struct frame f;

        frame_make(&s, &f);
        for (unsigned k = 0; k < ARRAY_LEN(c->patch) && c->patch[k].len > 0; k++) {
            memcpy(at(&f, &c->patch[k]), c->patch[k].bytes, c->patch[k].len);
        }
        if (c->fix & FIX_OUTER) {
            frame_fix_outer(&f);
        }
        if (c->fix & FIX_INNER) {
            frame_fix_inner(&f);
        }
        expect(&x, f.b, f.n, c->rx_flags, c->verdict, c->reason, c->name);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(two_outer_tags_are_read_and_a_third_is_refused)
{
    struct fixture x;
    struct frame f;

    fixture_init(&x, NULL);
    for (unsigned tags = 0; tags <= 3; tags++) {
        for (int outer = 4; outer <= 6; outer += 2) {
            struct frame_spec s = frame_spec(outer, 4);

            s.outer_tags = tags;
            frame_make(&s, &f);
            expect(&x, f.b, f.n, 0, tags <= 2 ? FWD_FORWARD : FWD_DROP,
                   tags <= 2 ? 0 : DROP_L2_VLAN_DEPTH, "outer tags");
        }
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(inner_tags_pass_where_the_vni_allows_them)
{
    struct fixture x;
    struct frame f;

    fixture_init(&x, NULL);
    for (unsigned tags = 0; tags <= 3; tags++) {
        struct frame_spec s = frame_spec(4, 4);

        s.vni = 30;
        s.inner_tags = tags;
        frame_make(&s, &f);
        expect(&x, f.b, f.n, 0, tags <= 2 ? FWD_FORWARD : FWD_DROP,
               tags <= 2 ? 0 : DROP_INNER_VLAN, "allowed");
        s.vni = 10;
        frame_make(&s, &f);
        expect(&x, f.b, f.n, 0, tags == 0 ? FWD_FORWARD : FWD_DROP,
               tags == 0 ? 0 : DROP_INNER_VLAN, "refused");
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(at_most_eight_extension_headers_are_walked)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned count = 7; count <= 9; count++) {
        struct frame_spec s = frame_spec(4, 6);
        struct frame f;

        s.payload = 8 * count + 8;
        s.inner_proto = 60;
        frame_make(&s, &f);
        for (unsigned i = 0; i < count; i++) {
            f.b[f.inner_l4 + 8 * i] = i + 1 == count ? 59 : 60;
            f.b[f.inner_l4 + 8 * i + 1] = 0;
        }
        expect(&x, f.b, f.n, 0, count <= 8 ? FWD_FORWARD : FWD_DROP,
               count <= 8 ? 0 : DROP_INNER_EXT, "extension headers");
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(padding_behind_the_outer_packet_changes_no_verdict)
{
    struct fixture x;
    struct frame_spec s = frame_spec(4, 4);
    struct frame f;
    struct outcome o;

    fixture_init(&x, NULL);
    s.outer_padding = 13;
    frame_make(&s, &f);
    fixture_run(&x, f.b, f.n, 0, 0, &o);
    ck_assert_uint_eq(o.packet.verdict, FWD_FORWARD);
    ck_assert_uint_eq(o.packet.length, f.n - 13);
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

/* Every length of a valid packet, in a buffer that ends there: the sanitizers see any
 * read past it.  A cut packet is never forwarded. */
START_TEST(a_packet_cut_anywhere_is_dropped_without_a_read_past_its_end)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned kind = 0; kind < 16; kind++) {
        struct frame_spec s = frame_spec(kind & 1 ? 6 : 4, kind & 2 ? 6 : 4);
        struct frame f;

        s.outer_tags = kind & 4 ? 2 : 0;
        s.inner_tags = kind & 8 ? 2 : 0;
        s.vni = kind & 8 ? 30 : 10;
        s.inner_dst = s.inner == 6 ? "2001:db8:10::6" : "10.0.0.4";
        frame_make(&s, &f);
        for (unsigned n = 0; n < f.n; n++) {
            unsigned reason = n < f.l3 ? DROP_L2_TRUNCATED : DROP_OUTER_LENGTH;

            expect(&x, f.b, n, 0, FWD_DROP, reason, "cut");
        }
        expect(&x, f.b, f.n, 0, FWD_FORWARD, 0, "whole");
    }
    fixture_fini(&x);
}
END_TEST

/* The same with outer lengths that agree with the cut, so that what is inside is cut.
 */
START_TEST(a_packet_cut_inside_with_lengths_that_agree_is_dropped_as_what_is_cut)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned kind = 0; kind < 8; kind++) {
        struct frame_spec s = frame_spec(kind & 1 ? 6 : 4, kind & 2 ? 6 : 4);
        struct frame whole;

        s.inner_tags = kind & 4 ? 2 : 0;
        s.vni = 30;
        s.inner_dst = s.inner == 6 ? "2001:db8:10::6" : "10.0.0.4";
        frame_make(&s, &whole);
        for (unsigned n = whole.udp; n < whole.n; n++) {
            struct frame f = whole;
            unsigned ip = s.inner == 4 ? 20 : 40;
            unsigned reason = n < f.vxlan           ? DROP_OUTER_LENGTH
                              : n < f.inner_l2      ? DROP_VXLAN_TRUNCATED
                              : n < f.inner_l3 + ip ? DROP_INNER_TRUNCATED
                                                    : DROP_INNER_LENGTH;

            if (f.is_v6) {
                put16(f.b + f.l3 + 4, n - f.udp);
            } else {
                put16(f.b + f.l3 + 2, n - f.l3);
            }
            if (n >= f.vxlan) {
                put16(f.b + f.udp + 4, n - f.udp);
            }
            frame_fix_outer(&f);
            expect(&x, f.b, n, 0, FWD_DROP, reason, "cut inside");
        }
    }
    fixture_fini(&x);
}
END_TEST

/* Any byte of a valid packet changed to anything: no crash, a verdict, and a reason
 * that has a name. */
START_TEST(any_single_byte_may_have_any_value)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct frame_spec s = frame_spec(kind & 1 ? 6 : 4, kind & 2 ? 6 : 4);
        struct frame f;

        s.payload = 12;
        frame_make(&s, &f);
        for (unsigned i = 0; i < f.n; i++) {
            uint8_t was = f.b[i];

            for (unsigned v = 0; v < 256; v++) {
                struct outcome o;

                f.b[i] = (uint8_t)v;
                fixture_run(&x, f.b, f.n, FWD_HEADROOM, 0, &o);
                ck_assert_uint_ge(o.packet.verdict, FWD_FORWARD);
                ck_assert_uint_le(o.packet.verdict, FWD_LOCAL);
                ck_assert((o.packet.verdict == FWD_DROP) ==
                          (o.packet.reason != DROP_NONE));
                ck_assert_uint_lt(o.packet.reason, DROP_COUNT);
                outcome_fini(&o);
            }
            f.b[i] = was;
        }
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(every_reason_has_a_name_of_its_own)
{
    for (unsigned i = 0; i < DROP_COUNT; i++) {
        ck_assert_ptr_nonnull(drop_reason_name(i));
        for (unsigned k = 0; k < i; k++) {
            ck_assert_str_ne(drop_reason_name(i), drop_reason_name(k));
        }
    }
    ck_assert_ptr_null(drop_reason_name(DROP_COUNT));
    ck_assert_str_eq(drop_reason_name(DROP_OUTER_UDP6_ZERO_CSUM),
                     "outer_udp6_zero_csum");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("parse");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, each_broken_rule_has_its_own_reason);
    tcase_add_test(tc, two_outer_tags_are_read_and_a_third_is_refused);
    tcase_add_test(tc, inner_tags_pass_where_the_vni_allows_them);
    tcase_add_test(tc, at_most_eight_extension_headers_are_walked);
    tcase_add_test(tc, padding_behind_the_outer_packet_changes_no_verdict);
    tcase_add_test(tc, a_packet_cut_anywhere_is_dropped_without_a_read_past_its_end);
    tcase_add_test(
        tc, a_packet_cut_inside_with_lengths_that_agree_is_dropped_as_what_is_cut);
    tcase_add_test(tc, any_single_byte_may_have_any_value);
    tcase_add_test(tc, every_reason_has_a_name_of_its_own);
    return unit_run("parse", tc);
}
