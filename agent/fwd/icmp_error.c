#include "agent/fwd/icmp_error.h"

#include "agent/fwd/checksum.h"
#include "agent/fwd/rewrite.h"
#include "agent/fwd/wire.h"

enum {
    ICMP_SIZE = 8,
    ERROR4_MAX = 576,    /* whole IP packet (RFC 1812, 4.3.2.3) */
    ERROR6_MAX = 1280,   /* whole IP packet (RFC 4443, 2.4 c) */
    TTL = 64,            /* RFC 1700's default, as the reference says */
    TOS = 0xc0,          /* internetwork control (RFC 1812, 4.3.2.5) */
    PORT_FIRST = 0xc000, /* we originate from 49152 up (RFC 7348, section 5) */
};

/* Is this ICMP message an error, or cut before its type? */
static bool is_icmp_error4(const uint8_t *icmp, uint32_t size)
{
    if (size == 0) {
        return true;
    }
    switch (icmp[0]) {
    case 3:  /* destination unreachable */
    case 4:  /* source quench */
    case 5:  /* redirect */
    case 11: /* time exceeded */
    case 12: /* parameter problem */
        return true;
    default:
        return false;
    }
}

bool icmp_error_is_due(const struct fwd_config *c, const struct fwd_packet *p,
                       const struct layers *l)
{
    const uint8_t *ip = p->data + l->inner_l3;
    const uint8_t *icmp = p->data + l->inner_l4;
    uint32_t size = l->inner_l3 + l->inner_size - l->inner_l4;

    if (l->is_later_fragment || (p->data[l->inner_l2] & 1)) {
        return false;
    }
    if (l->inner_family == IP_V4) {
        return c->has_icmp4 && is_unicast4(ip + 12) &&
               !(l->inner_proto == PROTO_ICMP4 && is_icmp_error4(icmp, size));
    }
    return c->has_icmp6 && is_unicast6(ip + 8) &&
           !(l->inner_proto == PROTO_ICMP6 && (size == 0 || icmp[0] < 128));
}

/* An IPv4 header as we originate them: no identification, DF (RFC 6864). */
static void write_ip4(uint8_t *ip, uint32_t total, uint8_t proto, const uint8_t *source,
                      const uint8_t *destination)
{
    ip[0] = 0x45;
    ip[1] = TOS;
    store_be16(ip + 2, (uint16_t)total);
    store_be16(ip + 4, 0);
    store_be16(ip + 6, IP4_DF);
    ip[8] = TTL;
    ip[9] = proto;
    csum_store(ip + 10, 0);
    memcpy(ip + 12, source, 4);
    memcpy(ip + 16, destination, 4);
    csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, IP4_SIZE)));
}

static void write_ip6(uint8_t *ip, uint32_t payload, uint8_t proto, uint32_t label,
                      const uint8_t *source, const uint8_t *destination)
{
    store_be32(ip, UINT32_C(6) << 28 | (uint32_t)TOS << 20 | label);
    store_be16(ip + 4, (uint16_t)payload);
    ip[6] = proto;
    ip[7] = TTL;
    memcpy(ip + 8, source, 16);
    memcpy(ip + 24, destination, 16);
}

/* The longest inner IP packet that an error may be: by the RFCs, and so that the outer
 * packet fits the uplink, for a gateway never fragments. */
static uint32_t error_max(const struct icmp_error *e, const struct layers *l)
{
    uint32_t max = l->inner_family == IP_V4 ? ERROR4_MAX : ERROR6_MAX;
    uint32_t around = (l->outer_family == IP_V4 ? IP4_SIZE : IP6_SIZE) + UDP_SIZE +
                      VXLAN_SIZE + (uint32_t)(l->inner_l3 - l->inner_l2);

    return e->uplink_mtu - around < max ? e->uplink_mtu - around : max;
}

/* ICMP header and quote behind it; returns the size of both.  The checksum is left 0.
 */
static uint32_t write_message(const struct icmp_error *e, const struct fwd_packet *p,
                              const struct layers *l, uint8_t *icmp)
{
    bool is_v4 = l->inner_family == IP_V4;
    uint32_t room = error_max(e, l) - (is_v4 ? IP4_SIZE : IP6_SIZE) - ICMP_SIZE;
    uint32_t quote = l->inner_size < room ? l->inner_size : room;

    memset(icmp, 0, ICMP_SIZE);
    if (e->kind == ICMP_ERROR_TIME_EXCEEDED) {
        icmp[0] = is_v4 ? 11 : 3;
    } else if (is_v4) {
        icmp[0] = 3;
        icmp[1] = 4;
        store_be16(icmp + 6, (uint16_t)(e->mtu < 0xffff ? e->mtu : 0xffff));
    } else {
        icmp[0] = 2;
        store_be32(icmp + 4, e->mtu);
    }
    memcpy(icmp + ICMP_SIZE, p->data + l->inner_l3, quote);
    return ICMP_SIZE + quote;
}

/* The inner IP packet at `ip`; returns its size. */
static uint32_t write_inner_ip(const struct icmp_error *e, const struct fwd_packet *p,
                               const struct layers *l, uint8_t *ip)
{
    const uint8_t *offender = p->data + l->inner_l3;
    uint64_t sum;
    uint8_t *icmp;
    uint32_t size;

    if (l->inner_family == IP_V4) {
        icmp = ip + IP4_SIZE;
        size = write_message(e, p, l, icmp);
        write_ip4(ip, IP4_SIZE + size, PROTO_ICMP4, e->source, offender + 12);
        csum_store(icmp + 2, (uint16_t)~csum_fold(csum_add(0, icmp, size)));
        return IP4_SIZE + size;
    }
    icmp = ip + IP6_SIZE;
    size = write_message(e, p, l, icmp);
    write_ip6(ip, size, PROTO_ICMP6, 0, e->source, offender + 8);
    sum = csum_add(0, ip + 8, 32); /* pseudo-header: RFC 4443, section 2.3 */
    sum = csum_add_be16(sum, (uint16_t)size);
    sum = csum_add_be16(sum, PROTO_ICMP6);
    csum_store(icmp + 2, (uint16_t)~csum_fold(csum_add(sum, icmp, size)));
    return IP6_SIZE + size;
}

/* The inner frame's header: addresses exchanged, tags and ethertype as they came. */
static uint32_t write_inner_ethernet(const struct fwd_packet *p, const struct layers *l,
                                     uint8_t *to)
{
    const uint8_t *from = p->data + l->inner_l2;
    uint32_t size = (uint32_t)l->inner_l3 - l->inner_l2;

    memcpy(to, from + 6, 6);
    memcpy(to + 6, from, 6);
    memcpy(to + 12, from + 12, size - 12);
    return size;
}

uint32_t icmp_error_write(const struct icmp_error *e, const struct fwd_packet *p,
                          const struct layers *l, uint8_t *to)
{
    const uint8_t *outer = p->data + l->outer_l3;
    bool is_v4 = l->outer_family == IP_V4;
    uint8_t *ip = to + ETH_SIZE;
    uint8_t *udp = ip + (is_v4 ? IP4_SIZE : IP6_SIZE);
    uint8_t *frame = udp + UDP_SIZE + VXLAN_SIZE;
    uint16_t port = PORT_FIRST | (load_be16(p->data + l->udp) & 0x3fff);
    uint32_t size = UDP_SIZE + VXLAN_SIZE;

    size += write_inner_ethernet(p, l, frame);
    size += write_inner_ip(e, p, l, udp + size);

    store_be32(udp + UDP_SIZE, (uint32_t)VXLAN_FLAG_I << 24);
    store_be32(udp + UDP_SIZE + 4, l->vni << 8);
    store_be16(udp, port);
    store_be16(udp + 2, VXLAN_PORT);
    store_be16(udp + 4, (uint16_t)size);
    csum_store(udp + 6, 0);
    write_ethernet(to, e->next_hop_mac, e->port_mac,
                   is_v4 ? ETHERTYPE_IP4 : ETHERTYPE_IP6);
    if (is_v4) {
        write_ip4(ip, IP4_SIZE + size, PROTO_UDP, e->vip, outer + 12);
        return ETH_SIZE + IP4_SIZE + size;
    }
    write_ip6(ip, size, PROTO_UDP, port, e->vip, outer + 8);
    if (!e->udp6_zero_csum) {
        csum_store(udp + 6, udp6_checksum(ip + 8, udp, size));
    }
    return ETH_SIZE + IP6_SIZE + size;
}
