#include "controller/probe/twist.h"

#include <string.h>

#include "proto/model/entry.h"

enum { ETH = 14, IP4 = 20, IP6 = 40, UDP = 8, VXLAN = 8, TAG = 4, TAIL = 8 };

#define TYPE_ARP   0x0806
#define TYPE_VLAN  0x8100
#define TYPE_NONE  0x88b5 /* IEEE 802: for local experiments */
#define PORT_BFD   3784   /* RFC 5881 */
#define PORT_GPE   4790
#define EXT_HOP    0
#define EXT_FRAG   44
#define EXT_OPTS   60
#define ND_SOLICIT 135

static const struct twist_rule rules[TWISTS] = {
    [TWIST_NONE] = { "plain", 0, NULL, TWIST_BOTH, TWIST_BOTH },
    [TWIST_TAG] = { "outer VLAN tag", 0, NULL, TWIST_BOTH, 0 },
    [TWIST_L2_CUT] = { "outer Ethernet cut", 1, "l2_truncated", TWIST_V4, 0 },
    [TWIST_TAGS] = { "three outer tags", 2, "l2_vlan_depth", TWIST_V4, 0 },
    [TWIST_TYPE] = { "outer ethertype not IP", 3, "l2_not_ip", TWIST_V4, 0 },
    [TWIST_ARP] = { "ARP", 3, NULL, TWIST_V4, 0 },
    [TWIST_IP_VERSION] = { "outer IP version", 5, "outer_version", TWIST_BOTH, 0 },
    [TWIST_IP_LENGTH] = { "outer IP longer than the frame", 4, "outer_length",
                          TWIST_BOTH, 0 },
    [TWIST_IP_CHECKSUM] = { "outer IP checksum", 6, "outer_checksum", TWIST_V4, 0 },
    [TWIST_IP_OPTIONS] = { "outer IP options", 7, "outer_options", TWIST_BOTH, 0 },
    [TWIST_IP_FRAGMENT] = { "outer fragment", 8, "outer_frag", TWIST_BOTH, 0 },
    [TWIST_ND] = { "neighbour discovery", 9, NULL, TWIST_V6, 0 },
    [TWIST_PING] = { "ping to the node", 11, NULL, TWIST_BOTH, 0 },
    [TWIST_UDP_LENGTH] = { "outer UDP length", 12, "outer_length", TWIST_BOTH, 0 },
    [TWIST_BFD] = { "BFD", 13, NULL, TWIST_BOTH, 0 },
    [TWIST_PORT] = { "UDP port not VXLAN", 13, "not_vxlan", TWIST_BOTH, 0 },
    [TWIST_VXLAN_CUT] = { "VXLAN header cut", 19, "vxlan_truncated", TWIST_BOTH, 0 },
    [TWIST_VXLAN_NO_I] = { "VXLAN without its I flag", 20, "vxlan_i_flag", TWIST_BOTH,
                           0 },
    [TWIST_VXLAN_P] = { "VXLAN-GPE", 21, "vxlan_gpe", TWIST_BOTH, 0 },
    [TWIST_VXLAN_RESERVED] = { "reserved bits of VXLAN", 0, NULL, TWIST_BOTH, 0 },
    [TWIST_IN_L2_CUT] = { "inner Ethernet cut", 23, "inner_truncated", TWIST_BOTH, 0 },
    [TWIST_IN_TAG] = { "inner VLAN tag", 24, "inner_vlan", TWIST_BOTH, TWIST_BOTH },
    [TWIST_IN_TYPE] = { "inner ARP", 25, "inner_not_ip", TWIST_BOTH, 0 },
    [TWIST_IN_IP_CUT] = { "inner IP cut", 26, "inner_truncated", TWIST_BOTH,
                          TWIST_BOTH },
    [TWIST_IN_VERSION] = { "inner IP version", 27, "inner_version", TWIST_BOTH,
                           TWIST_BOTH },
    [TWIST_IN_LENGTH] = { "inner IP longer than the frame", 28, "inner_length",
                          TWIST_BOTH, TWIST_BOTH },
    [TWIST_IN_CHECKSUM] = { "inner IP checksum", 29, "inner_checksum", TWIST_BOTH,
                            TWIST_V4 },
    [TWIST_IN_EXT_CUT] = { "inner extension header cut", 30, "inner_ext", TWIST_BOTH,
                           TWIST_V6 },
    [TWIST_IN_ND] = { "inner neighbour discovery", 31, "inner_nd", TWIST_BOTH,
                      TWIST_V6 },
    [TWIST_IN_OPTIONS] = { "inner options", 0, NULL, TWIST_BOTH, TWIST_BOTH },
    [TWIST_IN_FRAGMENT] = { "inner fragment", 0, NULL, TWIST_BOTH, TWIST_BOTH },
    [TWIST_IN_PADDING] = { "inner padding", 0, NULL, TWIST_BOTH, TWIST_BOTH },
    [TWIST_IN_TCP] = { "TCP inside", 0, NULL, TWIST_BOTH, TWIST_BOTH },
    [TWIST_IN_PING] = { "ping inside", 0, NULL, TWIST_BOTH, TWIST_BOTH },
};

const struct twist_rule *twist_rule_of(unsigned twist)
{
    return &rules[twist < TWISTS ? twist : TWIST_NONE];
}

uint8_t twist_proto(unsigned twist, uint8_t inner_family)
{
    switch (twist) {
    case TWIST_IN_TCP:
        return IP_PROTO_TCP;
    case TWIST_IN_PING:
        return inner_family == IP_V4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6;
    default:
        return IP_PROTO_UDP;
    }
}

bool twist_has_ports(unsigned twist)
{
    return twist != TWIST_IN_FRAGMENT && twist != TWIST_IN_PING;
}

/* ---- bytes ---- */

static void put16(uint8_t *to, size_t v)
{
    to[0] = (uint8_t)(v >> 8);
    to[1] = (uint8_t)v;
}

static size_t get16(const uint8_t *p)
{
    return (size_t)p[0] << 8 | p[1];
}

/* The one's complement sum (RFC 1071), not yet complemented. */
static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* `count` bytes more at `at`; what is there moves on. */
static void insert(uint8_t *frame, size_t *len, size_t at, const void *bytes,
                   size_t count)
{
    memmove(frame + at + count, frame + at, *len - at);
    memcpy(frame + at, bytes, count);
    *len += count;
}

static void sum_ip4(uint8_t *ip)
{
    put16(ip + 10, 0);
    put16(ip + 10, ~sum16(0, ip, (size_t)(ip[0] & 15) * 4) & 0xffff);
}

/* The checksum at `at` of an L4 packet whose addresses stand before it. */
static void sum_l4(const uint8_t *ip, uint8_t proto, uint8_t *l4, size_t len, size_t at)
{
    bool is_v4 = ip[0] >> 4 == 4;
    uint32_t sum = proto + (uint32_t)len;

    put16(l4 + at, 0);
    if (!is_v4 || proto != IP_PROTO_ICMP) {
        sum = sum16(sum, ip + (is_v4 ? 12 : 8), is_v4 ? 8 : 32);
    } else {
        sum = 0; /* RFC 792: of the message alone */
    }
    sum = ~sum16(sum, l4, len) & 0xffff;
    put16(l4 + at, sum || proto != IP_PROTO_UDP ? sum : 0xffff);
}

/* A length that an IP header tells, so much more. */
static void add_length(uint8_t *ip, size_t more)
{
    size_t at = ip[0] >> 4 == 4 ? 2 : 4;

    put16(ip + at, get16(ip + at) + more);
    if (ip[0] >> 4 == 4) {
        sum_ip4(ip);
    }
}

/* ---- inside ---- */

struct inside {
    const struct vxlan_packet *p;
    uint8_t *at;
    size_t len;
    size_t ip_size;
};

static uint8_t *inner_ip(const struct inside *in)
{
    return in->at + ETH;
}

static uint8_t *inner_l4(const struct inside *in)
{
    return in->at + ETH + in->ip_size;
}

static void set_proto(const struct inside *in, uint8_t proto)
{
    inner_ip(in)[in->ip_size == IP4 ? 9 : 6] = proto;
    add_length(inner_ip(in), 0);
}

/* Room for a longer payload, before the bytes that tell it from others. */
static void fill(struct inside *in, uint16_t filler)
{
    static const uint8_t zero[PROBE_FRAME_MAX];
    uint8_t *udp = inner_l4(in);

    if (filler > 0) {
        insert(in->at, &in->len, in->len - TAIL, zero, filler);
        add_length(inner_ip(in), filler);
        put16(udp + 4, in->len - (size_t)(udp - in->at));
        sum_l4(inner_ip(in), IP_PROTO_UDP, udp, in->len - (size_t)(udp - in->at), 6);
    }
}

/* Another header in the place of UDP's, before the same payload. */
static void change_l4(struct inside *in, uint8_t proto, const uint8_t *header,
                      size_t size, size_t sum_at)
{
    uint8_t *l4 = inner_l4(in);
    size_t at = (size_t)(l4 - in->at);

    insert(in->at, &in->len, at, header, size - UDP);
    memcpy(l4, header, size);
    add_length(inner_ip(in), size - UDP);
    set_proto(in, proto);
    sum_l4(inner_ip(in), proto, l4, in->len - at, sum_at);
}

static void to_tcp(struct inside *in)
{
    uint8_t tcp[20] = { [12] = 0x50, [13] = 0x02, [14] = 0x20 }; /* SYN */

    put16(tcp, in->p->sport);
    put16(tcp + 2, in->p->dport);
    change_l4(in, IP_PROTO_TCP, tcp, sizeof(tcp), 16);
}

static void to_ping(struct inside *in)
{
    bool is_v4 = in->ip_size == IP4;
    const uint8_t echo[8] = { is_v4 ? 8 : 128, [5] = 1, [7] = 1 };

    change_l4(in, is_v4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6, echo, sizeof(echo), 2);
}

/* A header of 8 bytes between IPv6 and UDP. */
static void add_extension(struct inside *in, uint8_t number, const uint8_t header[8])
{
    insert(in->at, &in->len, ETH + IP6, header, 8);
    inner_ip(in)[6] = number;
    add_length(inner_ip(in), 8);
}

static void add_options(struct inside *in)
{
    static const uint8_t nops[4] = { 1, 1, 1, 0 };
    static const uint8_t pad[8] = { IP_PROTO_UDP, 0, 1, 4 }; /* PadN */

    if (in->ip_size == IP6) {
        add_extension(in, EXT_OPTS, pad);
        return;
    }
    insert(in->at, &in->len, ETH + IP4, nops, sizeof(nops));
    inner_ip(in)[0]++;
    add_length(inner_ip(in), sizeof(nops));
}

static void to_fragment(struct inside *in)
{
    static const uint8_t later[8] = { IP_PROTO_UDP, 0, 0, 8 << 3, 0, 0, 0, 1 };

    if (in->ip_size == IP6) {
        add_extension(in, EXT_FRAG, later);
        return;
    }
    put16(inner_ip(in) + 6, 8);
    sum_ip4(inner_ip(in));
}

static void to_nd(struct inside *in)
{
    set_proto(in, IP_PROTO_ICMPV6);
    inner_l4(in)[0] = ND_SOLICIT;
}

static void cut_inside(struct inside *in, size_t len)
{
    memcpy(in->at + len - TAIL, in->at + in->len - TAIL, TAIL);
    in->len = len;
}

static void spoil_checksum(struct inside *in)
{
    inner_ip(in)[11] ^= 0x55;
}

static void twist_inside(struct inside *in, unsigned twist)
{
    static const uint8_t tag[TAG] = { TYPE_VLAN >> 8, TYPE_VLAN & 0xff, 0, 7 };
    static const uint8_t too_long[8] = { IP_PROTO_UDP, 0xff };

    switch (twist) {
    case TWIST_IN_L2_CUT:
        cut_inside(in, ETH - 2);
        break;
    case TWIST_IN_TAG:
        insert(in->at, &in->len, ETH - 2, tag, sizeof(tag));
        break;
    case TWIST_IN_TYPE:
        put16(in->at + ETH - 2, TYPE_ARP);
        break;
    case TWIST_IN_IP_CUT:
        cut_inside(in, ETH + 1 + TAIL);
        break;
    case TWIST_IN_VERSION:
        inner_ip(in)[0] = (uint8_t)(0x50 | (inner_ip(in)[0] & 15));
        break;
    case TWIST_IN_LENGTH:
        add_length(inner_ip(in), 1);
        break;
    case TWIST_IN_CHECKSUM:
        spoil_checksum(in);
        break;
    case TWIST_IN_EXT_CUT:
        add_extension(in, EXT_OPTS, too_long);
        break;
    case TWIST_IN_ND:
        to_nd(in);
        break;
    case TWIST_IN_OPTIONS:
        add_options(in);
        break;
    case TWIST_IN_FRAGMENT:
        to_fragment(in);
        break;
    case TWIST_IN_PADDING:
        insert(in->at, &in->len, in->len, in->at + in->len - TAIL, TAIL);
        break;
    case TWIST_IN_TCP:
        to_tcp(in);
        break;
    case TWIST_IN_PING:
        to_ping(in);
        break;
    default:
        break;
    }
}

/* ---- outside ---- */

struct outside {
    const struct vxlan_packet *p;
    uint8_t *frame;
    size_t len;
    size_t ip_size;
};

static uint8_t *outer_ip(const struct outside *o)
{
    return o->frame + ETH;
}

static uint8_t *outer_udp(const struct outside *o)
{
    return o->frame + ETH + o->ip_size;
}

static void set_outer_proto(const struct outside *o, uint8_t proto)
{
    outer_ip(o)[o->ip_size == IP4 ? 9 : 6] = proto;
    add_length(outer_ip(o), 0);
}

/* UDP's checksum follows what was changed behind it. */
static void sum_outer(const struct outside *o)
{
    uint8_t *udp = outer_udp(o);

    if (o->p->has_outer_csum) {
        sum_l4(outer_ip(o), IP_PROTO_UDP, udp, o->len - (size_t)(udp - o->frame), 6);
    }
}

static void add_tags(struct outside *o, unsigned count)
{
    static const uint8_t tag[TAG] = { TYPE_VLAN >> 8, TYPE_VLAN & 0xff, 0, 5 };

    for (unsigned i = 0; i < count; i++) {
        insert(o->frame, &o->len, ETH - 2, tag, sizeof(tag));
    }
}

/* What is left is an Ethernet header, whose addresses are the probe's last bytes. */
static void cut_link(struct outside *o)
{
    memcpy(o->frame + ETH - 2 - 6, o->frame + o->len - 6, 6);
    put16(o->frame + ETH - 2, TYPE_VLAN);
    o->len = ETH;
}

static void add_outer_options(struct outside *o)
{
    static const uint8_t nops[4] = { 1, 1, 1, 0 };
    static const uint8_t pad[8] = { IP_PROTO_UDP, 0, 1, 4 };

    if (o->ip_size == IP6) {
        insert(o->frame, &o->len, ETH + IP6, pad, sizeof(pad));
        outer_ip(o)[6] = EXT_HOP;
        add_length(outer_ip(o), sizeof(pad));
        return;
    }
    insert(o->frame, &o->len, ETH + IP4, nops, sizeof(nops));
    outer_ip(o)[0]++;
    add_length(outer_ip(o), sizeof(nops));
}

static void to_outer_fragment(struct outside *o)
{
    static const uint8_t first[8] = { IP_PROTO_UDP, 0, 0, 1, 0, 0, 0, 1 };

    if (o->ip_size == IP6) {
        insert(o->frame, &o->len, ETH + IP6, first, sizeof(first));
        outer_ip(o)[6] = EXT_FRAG;
        add_length(outer_ip(o), sizeof(first));
        return;
    }
    put16(outer_ip(o) + 6, 0x2000); /* more fragments */
    sum_ip4(outer_ip(o));
}

static void to_outer_icmp(struct outside *o, uint8_t type4, uint8_t type6)
{
    bool is_v4 = o->ip_size == IP4;

    set_outer_proto(o, is_v4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6);
    outer_udp(o)[0] = is_v4 ? type4 : type6;
    outer_udp(o)[1] = 0;
    sum_l4(outer_ip(o), is_v4 ? IP_PROTO_ICMP : IP_PROTO_ICMPV6, outer_udp(o),
           o->len - ETH - o->ip_size, 2);
}

/* Half of a VXLAN header is there, and all lengths say so. */
static void cut_vxlan(struct outside *o)
{
    uint8_t *udp = outer_udp(o);
    size_t whole = o->len - ETH - o->ip_size;
    uint8_t *length = outer_ip(o) + (o->ip_size == IP4 ? 2 : 4);

    memcpy(udp + UDP, o->frame + o->len - TAIL / 2, TAIL / 2);
    o->len = ETH + o->ip_size + UDP + VXLAN / 2;
    put16(length, get16(length) - whole + UDP + VXLAN / 2);
    add_length(outer_ip(o), 0);
    put16(udp + 4, UDP + VXLAN / 2);
    sum_outer(o);
}

static void set_port(struct outside *o, uint16_t port)
{
    put16(outer_udp(o) + 2, port);
    sum_outer(o);
}

static void set_flags(struct outside *o, uint8_t flags)
{
    outer_udp(o)[UDP] = flags;
    sum_outer(o);
}

/* All but P: RFC 7348, section 5. */
static void set_reserved(struct outside *o)
{
    uint8_t *vxlan = outer_udp(o) + UDP;

    vxlan[0] = 0xfb;
    vxlan[1] = 0xff;
    vxlan[2] = 0x01;
    vxlan[3] = 0x03;
    vxlan[7] = 0xa5;
    sum_outer(o);
}

static void twist_outer_ip(struct outside *o, unsigned twist)
{
    switch (twist) {
    case TWIST_IP_VERSION:
        outer_ip(o)[0] = o->ip_size == IP4 ? 0x65 : 0x40;
        break;
    case TWIST_IP_LENGTH:
        add_length(outer_ip(o), 1);
        break;
    case TWIST_IP_CHECKSUM:
        outer_ip(o)[11] ^= 0x55;
        break;
    case TWIST_IP_OPTIONS:
        add_outer_options(o);
        break;
    case TWIST_IP_FRAGMENT:
        to_outer_fragment(o);
        break;
    case TWIST_ND:
        to_outer_icmp(o, 0, ND_SOLICIT);
        break;
    case TWIST_PING:
        to_outer_icmp(o, 8, 128);
        break;
    default:
        break;
    }
}

static void twist_outside(struct outside *o, unsigned twist)
{
    switch (twist) {
    case TWIST_TAG:
        add_tags(o, 1);
        break;
    case TWIST_L2_CUT:
        cut_link(o);
        break;
    case TWIST_TAGS:
        add_tags(o, 3);
        break;
    case TWIST_TYPE:
        put16(o->frame + ETH - 2, TYPE_NONE);
        break;
    case TWIST_ARP:
        put16(o->frame + ETH - 2, TYPE_ARP);
        break;
    case TWIST_UDP_LENGTH:
        put16(outer_udp(o) + 4, get16(outer_udp(o) + 4) - 1);
        break;
    case TWIST_BFD:
        set_port(o, PORT_BFD);
        break;
    case TWIST_PORT:
        set_port(o, PORT_GPE);
        break;
    case TWIST_VXLAN_CUT:
        cut_vxlan(o);
        break;
    case TWIST_VXLAN_NO_I:
        set_flags(o, 0);
        break;
    case TWIST_VXLAN_P:
        set_flags(o, 0x0c);
        break;
    case TWIST_VXLAN_RESERVED:
        set_reserved(o);
        break;
    default:
        twist_outer_ip(o, twist);
        break;
    }
}

/* ---- both ---- */

#define TWIST_ROOM 32 /* what a twist adds at most */

static void build(const struct vxlan_packet *p, unsigned twist, uint16_t filler,
                  struct outside *ret)
{
    size_t at = vxlan_packet_inner_at(p);
    struct inside in = { .p = p,
                         .at = ret->frame + at,
                         .ip_size = p->src.family == IP_V4 ? IP4 : IP6 };
    size_t room;

    in.len = vxlan_packet_build_inner(p, in.at);
    room = PROBE_FRAME_MAX - TWIST_ROOM - at - in.len;
    fill(&in, filler < room ? filler : (uint16_t)room);
    twist_inside(&in, twist);
    ret->p = p;
    ret->len = vxlan_packet_wrap(p, in.len, ret->frame);
    ret->ip_size = p->outer_src.family == IP_V4 ? IP4 : IP6;
}

size_t twist_build(const struct vxlan_packet *p, unsigned twist, uint16_t filler,
                   uint8_t to[PROBE_FRAME_MAX])
{
    struct outside o = { .frame = to };

    build(p, twist, filler, &o);
    twist_outside(&o, twist);
    return o.len;
}

size_t twist_build_out(const struct vxlan_packet *p, unsigned twist, uint16_t filler,
                       bool as_it_is, uint8_t to[PROBE_FRAME_MAX])
{
    struct outside o = { .frame = to };

    build(p, twist, filler, &o);
    if (as_it_is && twist == TWIST_VXLAN_RESERVED) {
        twist_outside(&o, twist);
    }
    return o.len;
}
