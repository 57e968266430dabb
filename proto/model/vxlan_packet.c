#include "proto/model/vxlan_packet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/model/mac.h"

enum { ETH = 14, IP4 = 20, IP6 = 40, UDP = 8, VXLAN = 8 };

#define TYPE_IPV4  0x0800
#define TYPE_IPV6  0x86dd
#define PROTO_UDP  17
#define PORT_VXLAN 4789 /* RFC 7348, section 5 */
#define FLAG_I     0x08
#define IPV4_DF    0x4000

static const uint8_t link_dst[6] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t link_src[6] = { 2, 0, 0, 0, 0, 2 };

/* ---- bytes ---- */

static void put16(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 8);
    to[1] = (uint8_t)v;
}

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
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

static size_t ip_header_size(const struct ip *ip)
{
    return ip->family == IP_V4 ? IP4 : IP6;
}

/* ---- building, from the inside out ---- */

/* A UDP header and the checksum over all of it, whose payload stands behind it. */
static void put_udp(uint8_t *to, const struct ip *src, const struct ip *dst,
                    uint16_t sport, uint16_t dport, size_t len, bool has_csum)
{
    uint32_t sum = PROTO_UDP + (uint32_t)len;

    put16(to, sport);
    put16(to + 2, dport);
    put16(to + 4, (uint32_t)len);
    put16(to + 6, 0);
    if (has_csum) {
        sum = sum16(sum, src->b, ip_size(src));
        sum = sum16(sum, dst->b, ip_size(dst));
        sum = ~sum16(sum, to, len) & 0xffff;
        put16(to + 6, sum ? sum : 0xffff); /* RFC 768: 0 says "none" */
    }
}

static void put_ip(uint8_t *to, const struct ip *src, const struct ip *dst, uint8_t ttl,
                   uint16_t flow, size_t payload)
{
    if (src->family == IP_V4) {
        memset(to, 0, IP4);
        to[0] = 0x45;
        put16(to + 2, (uint32_t)(IP4 + payload));
        put16(to + 6, IPV4_DF);
        to[8] = ttl;
        to[9] = PROTO_UDP;
        memcpy(to + 12, src->b, 4);
        memcpy(to + 16, dst->b, 4);
        put16(to + 10, ~sum16(0, to, IP4));
        return;
    }
    memset(to, 0, IP6);
    to[0] = 0x60;
    put16(to + 2, flow);
    put16(to + 4, (uint32_t)payload);
    to[6] = PROTO_UDP;
    to[7] = ttl;
    memcpy(to + 8, src->b, 16);
    memcpy(to + 24, dst->b, 16);
}

static void put_eth(uint8_t *to, const uint8_t dst[6], const uint8_t src[6],
                    const struct ip *carries)
{
    memcpy(to, dst, 6);
    memcpy(to + 6, src, 6);
    put16(to + 12, carries->family == IP_V4 ? TYPE_IPV4 : TYPE_IPV6);
}

size_t vxlan_packet_inner_at(const struct vxlan_packet *p)
{
    return ETH + ip_header_size(&p->outer_src) + UDP + VXLAN;
}

size_t vxlan_packet_build_inner(const struct vxlan_packet *p, uint8_t *to)
{
    uint8_t *udp = to + ETH + ip_header_size(&p->src);
    size_t len = UDP + (size_t)p->payload_len;

    memcpy(udp + UDP, p->payload, p->payload_len);
    put_udp(udp, &p->src, &p->dst, p->sport, p->dport, len, true);
    put_ip(to + ETH, &p->src, &p->dst, p->ttl, 0, len);
    put_eth(to, p->inner_dst_mac, p->inner_src_mac, &p->src);
    return (size_t)(udp - to) + len;
}

size_t vxlan_packet_wrap(const struct vxlan_packet *p, size_t inner_len, uint8_t *to)
{
    uint8_t *udp = to + ETH + ip_header_size(&p->outer_src);
    uint8_t *vxlan = udp + UDP;
    size_t len = UDP + VXLAN + inner_len;

    memset(vxlan, 0, VXLAN);
    vxlan[0] = FLAG_I;
    vxlan[4] = (uint8_t)(p->vni >> 16);
    put16(vxlan + 5, p->vni & 0xffff);
    put_udp(udp, &p->outer_src, &p->outer_dst, p->outer_sport, PORT_VXLAN, len,
            p->has_outer_csum);
    put_ip(to + ETH, &p->outer_src, &p->outer_dst, p->outer_ttl, p->outer_sport, len);
    put_eth(to, link_dst, link_src, &p->outer_src);
    return (size_t)(udp - to) + len;
}

size_t vxlan_packet_build(const struct vxlan_packet *p, uint8_t to[VXLAN_PACKET_MAX])
{
    size_t len = vxlan_packet_build_inner(p, to + vxlan_packet_inner_at(p));

    return vxlan_packet_wrap(p, len, to);
}

/* ---- reading ---- */

struct cursor {
    const uint8_t *p;
    size_t left;
};

/* Null when fewer bytes are left. */
static const uint8_t *take(struct cursor *c, size_t len)
{
    const uint8_t *p = c->p;

    if (c->left < len) {
        return NULL;
    }
    c->p += len;
    c->left -= len;
    return p;
}

static const uint8_t *take_ip(struct cursor *c, uint16_t type, struct ip *src,
                              struct ip *dst, uint8_t *ttl)
{
    const uint8_t *h = take(c, type == TYPE_IPV4 ? IP4 : IP6);
    size_t size = type == TYPE_IPV4 ? 4 : 16;
    size_t at = type == TYPE_IPV4 ? 12 : 8;

    if (h) {
        src->family = dst->family = type == TYPE_IPV4 ? IP_V4 : IP_V6;
        memcpy(src->b, h + at, size);
        memcpy(dst->b, h + at + size, size);
        *ttl = h[type == TYPE_IPV4 ? 8 : 7];
    }
    return h;
}

static bool is_ip(uint16_t type)
{
    return type == TYPE_IPV4 || type == TYPE_IPV6;
}

/* The fields where a packet of ours has them; null, or what is missing. */
static const char *read_fields(const uint8_t *frame, size_t len, struct vxlan_packet *p)
{
    struct cursor c = { frame, len };
    const uint8_t *eth = take(&c, ETH);
    const uint8_t *h;

    if (!eth || !is_ip(get16(eth + 12)) ||
        !take_ip(&c, get16(eth + 12), &p->outer_src, &p->outer_dst, &p->outer_ttl)) {
        return "no outer IP header behind the Ethernet header";
    }
    h = take(&c, UDP + VXLAN);
    if (!h || get16(h + 2) != PORT_VXLAN) {
        return "no UDP and VXLAN headers behind the outer IP header";
    }
    p->outer_sport = get16(h);
    p->has_outer_csum = get16(h + 6) != 0;
    p->vni = (uint32_t)h[UDP + 4] << 16 | get16(h + UDP + 5);
    eth = take(&c, ETH);
    if (!eth || !is_ip(get16(eth + 12)) ||
        !take_ip(&c, get16(eth + 12), &p->src, &p->dst, &p->ttl)) {
        return "no inner IP header";
    }
    memcpy(p->inner_dst_mac, eth, 6);
    memcpy(p->inner_src_mac, eth + 6, 6);
    h = take(&c, UDP);
    if (!h || c.left > VXLAN_PACKET_PAYLOAD_MAX) {
        return "no inner UDP datagram of this length";
    }
    p->sport = get16(h);
    p->dport = get16(h + 2);
    p->payload_len = (uint8_t)c.left;
    memcpy(p->payload, c.p, c.left);
    return NULL;
}

enum rc vxlan_packet_parse(const uint8_t *frame, size_t len, struct vxlan_packet *ret,
                           struct err *err)
{
    uint8_t again[VXLAN_PACKET_MAX];
    struct vxlan_packet p;
    const char *missing;

    memset(&p, 0, sizeof(p));
    missing = read_fields(frame, len, &p);
    if (missing) {
        return err_set(err, RC_INVALID, "%s", missing);
    }
    /* What no field says is as we write it: lengths, flags, checksums. */
    vxlan_packet_build(&p, again);
    for (size_t i = VXLAN_PACKET_IP; i < len; i++) {
        if (frame[i] != again[i]) {
            return err_set(err, RC_INVALID, "byte %zu is %02x, not %02x", i, frame[i],
                           again[i]);
        }
    }
    memcpy(ret, &p, sizeof(*ret));
    return RC_OK;
}

/* ---- comparing ---- */

static bool say(char *to, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool say(char *to, size_t size, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(to, size, fmt, args);
    va_end(args);
    return true;
}

static bool ip_differs(const char *what, const struct ip *got, const struct ip *want,
                       char *to, size_t size)
{
    char a[IP_TEXT_MAX];
    char b[IP_TEXT_MAX];

    if (ip_compare(got, want) == 0) {
        return false;
    }
    ip_print(got, a);
    ip_print(want, b);
    return say(to, size, "%s is %s, not %s", what, a, b);
}

static bool number_differs(const char *what, uint32_t got, uint32_t want, char *to,
                           size_t size)
{
    return got != want && say(to, size, "%s is %u, not %u", what, got, want);
}

static bool mac_differs(const char *what, const uint8_t got[6], const uint8_t want[6],
                        char *to, size_t size)
{
    char a[MAC_TEXT_MAX];
    char b[MAC_TEXT_MAX];

    if (memcmp(got, want, 6) == 0) {
        return false;
    }
    mac_print(got, a);
    mac_print(want, b);
    return say(to, size, "%s is %s, not %s", what, a, b);
}

bool vxlan_packet_differs(const struct vxlan_packet *got,
                          const struct vxlan_packet *want, char *to, size_t size)
{
    return ip_differs("outer destination", &got->outer_dst, &want->outer_dst, to,
                      size) ||
           number_differs("VNI", got->vni, want->vni, to, size) ||
           ip_differs("outer source", &got->outer_src, &want->outer_src, to, size) ||
           number_differs("outer TTL", got->outer_ttl, want->outer_ttl, to, size) ||
           number_differs("outer source port", got->outer_sport, want->outer_sport, to,
                          size) ||
           number_differs("outer UDP checksum's presence", got->has_outer_csum,
                          want->has_outer_csum, to, size) ||
           mac_differs("inner destination MAC", got->inner_dst_mac, want->inner_dst_mac,
                       to, size) ||
           mac_differs("inner source MAC", got->inner_src_mac, want->inner_src_mac, to,
                       size) ||
           ip_differs("inner destination", &got->dst, &want->dst, to, size) ||
           ip_differs("inner source", &got->src, &want->src, to, size) ||
           number_differs("inner TTL", got->ttl, want->ttl, to, size) ||
           number_differs("inner source port", got->sport, want->sport, to, size) ||
           number_differs("inner destination port", got->dport, want->dport, to,
                          size) ||
           number_differs("payload's length", got->payload_len, want->payload_len, to,
                          size) ||
           (memcmp(got->payload, want->payload, got->payload_len) != 0 &&
            say(to, size, "payload is another one"));
}
