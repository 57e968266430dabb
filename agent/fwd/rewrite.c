#include "agent/fwd/rewrite.h"

#include "agent/fwd/checksum.h"
#include "agent/fwd/wire.h"

void write_ethernet(uint8_t *to, const uint8_t *destination, const uint8_t *source,
                    uint16_t ethertype)
{
    memcpy(to, destination, 6);
    memcpy(to + 6, source, 6);
    store_be16(to + 12, ethertype);
}

static uint32_t ip_header_size(uint8_t family)
{
    return family == IP_V4 ? IP4_SIZE : IP6_SIZE;
}

static uint32_t udp_size(const struct layers *l)
{
    return l->outer_l3 + l->outer_size - l->udp;
}

uint32_t rewrite_size(const struct layers *l, uint8_t family)
{
    return ip_header_size(family) + udp_size(l);
}

int32_t rewrite_growth(const struct layers *l, uint8_t family)
{
    return ETH_SIZE + (int32_t)ip_header_size(family) - (int32_t)l->udp;
}

uint16_t udp6_checksum(const uint8_t *addresses, const uint8_t *udp, uint32_t size)
{
    uint64_t sum = csum_add(0, addresses, 32);
    uint16_t checksum;

    sum = csum_add_be16(sum, (uint16_t)size);
    sum = csum_add_be16(sum, PROTO_UDP);
    sum = csum_add(sum, udp, 6);
    sum = csum_add(sum, udp + UDP_SIZE, size - UDP_SIZE);
    checksum = (uint16_t)~csum_fold(sum);
    return checksum == 0 ? 0xffff : checksum;
}

/* Writes `now` over `old` and returns the change in the sum. */
static uint64_t replace(uint64_t delta, uint8_t *old, const uint8_t *now, size_t len)
{
    delta = csum_change(delta, old, now, len);
    memcpy(old, now, len);
    return delta;
}

static uint64_t replace_be32(uint64_t delta, uint8_t *at, uint32_t now)
{
    uint32_t before;

    memcpy(&before, at, sizeof(before));
    store_be32(at, now);
    return delta + (uint64_t)~before + __builtin_bswap32(now);
}

/* Takes one from the first byte of a word, a TTL of at least 1, and returns the change
 * in the sum.  One load and one store of the word: a load that follows a store to a
 * part of it would wait for the store to leave the core. */
static uint64_t decrement_high(uint8_t *word)
{
    uint16_t before = csum_load(word);
    uint16_t now = (uint16_t)(before - 1); /* the first byte is the low one in memory */

    csum_store(word, now);
    return (uint64_t)(uint16_t)~before + now;
}

/* VXLAN header and inner frame.  Returns the change in the UDP checksum's sum.  All
 * offsets from the UDP header are even, so words stay words. */
static uint64_t rewrite_inside(uint8_t *data, const struct layers *l,
                               const struct egress *e)
{
    uint8_t *inner = data + l->inner_l3;
    uint8_t *vxlan = data + l->udp + UDP_SIZE;
    uint16_t before;
    uint16_t now;
    uint64_t delta;

    delta = replace_be32(0, vxlan, (uint32_t)VXLAN_FLAG_I << 24);
    delta = replace_be32(delta, vxlan + 4, e->vni << 8);
    if (e->inner_mac != NULL) {
        delta = replace(delta, data + l->inner_l2, e->inner_mac, 6);
    }
    if (!e->decrements_inner) {
        return delta;
    }
    if (l->inner_family == IP_V6) {
        before = csum_load(inner + 6);
        now = (uint16_t)(before - 0x0100); /* the hop limit is the second byte */
        csum_store(inner + 6, now);
        return delta + (uint16_t)~before + now;
    }
    /* The IPv4 header's own checksum takes up the change: the sum over both words, and
     * so the UDP checksum, stays. */
    csum_store(inner + 10,
               csum_update(csum_load(inner + 10), decrement_high(inner + 8)));
    return delta;
}

/* Addresses and TTL where the family stays.  Returns the change in the UDP checksum's
 * sum: of the addresses, which the pseudo-header holds. */
static uint64_t rewrite_same_family(uint8_t *ip, const struct egress *e)
{
    uint64_t addresses;

    if (e->family == IP_V6) {
        addresses = replace(0, ip + 8, e->source, 16);
        ip[7]--;
        return replace(addresses, ip + 24, e->destination, 16);
    }
    addresses = replace(0, ip + 12, e->source, 4);
    addresses = replace(addresses, ip + 16, e->destination, 4);
    csum_store(ip + 10,
               csum_update(csum_load(ip + 10), addresses + decrement_high(ip + 8)));
    return addresses;
}

/* The new header ends where UDP starts, and overlaps the old one. */
static void rewrite_4_to_6(uint8_t *data, const struct layers *l,
                           const struct egress *e)
{
    const uint8_t *old = data + l->outer_l3;
    uint8_t *udp = data + l->udp;
    uint8_t *ip = udp - IP6_SIZE;
    uint8_t tos = old[1];
    uint8_t ttl = (uint8_t)(old[8] - 1);
    uint32_t size = udp_size(l);

    /* Flow label: the UDP source port is the flow's entropy already (RFC 6438). */
    store_be32(ip, UINT32_C(6) << 28 | (uint32_t)tos << 20 | load_be16(udp));
    store_be16(ip + 4, (uint16_t)size);
    ip[6] = PROTO_UDP;
    ip[7] = ttl;
    memcpy(ip + 8, e->source, 16);
    memcpy(ip + 24, e->destination, 16);
    csum_store(udp + 6, e->udp6_zero_csum ? 0 : udp6_checksum(ip + 8, udp, size));
}

static void rewrite_6_to_4(uint8_t *data, const struct layers *l,
                           const struct egress *e)
{
    const uint8_t *old = data + l->outer_l3;
    uint8_t *udp = data + l->udp;
    uint8_t *ip = udp - IP4_SIZE;
    uint8_t tos = (uint8_t)(load_be16(old) >> 4);
    uint8_t ttl = (uint8_t)(old[7] - 1);

    ip[0] = 0x45;
    ip[1] = tos;
    store_be16(ip + 2, (uint16_t)rewrite_size(l, IP_V4));
    store_be16(ip + 4, 0); /* atomic: DF and no identification (RFC 6864) */
    store_be16(ip + 6, IP4_DF);
    ip[8] = ttl;
    ip[9] = PROTO_UDP;
    csum_store(ip + 10, 0);
    memcpy(ip + 12, e->source, 4);
    memcpy(ip + 16, e->destination, 4);
    csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, IP4_SIZE)));
    csum_store(udp + 6, 0);
}

void rewrite_packet(struct fwd_packet *p, const struct layers *l,
                    const struct egress *e)
{
    uint8_t *udp = p->data + l->udp;
    int32_t growth = rewrite_growth(l, e->family);
    uint64_t delta = rewrite_inside(p->data, l, e);

    if (e->family == l->outer_family) {
        delta += rewrite_same_family(p->data + l->outer_l3, e);
        csum_store(udp + 6, csum_update_udp(csum_load(udp + 6), delta));
    } else if (e->family == IP_V6) {
        rewrite_4_to_6(p->data, l, e);
    } else {
        rewrite_6_to_4(p->data, l, e);
    }
    p->data -= growth;
    p->length = ETH_SIZE + rewrite_size(l, e->family);
    p->headroom = (uint16_t)(p->headroom - growth);
    write_ethernet(p->data, e->next_hop_mac, e->port_mac,
                   e->family == IP_V4 ? ETHERTYPE_IP4 : ETHERTYPE_IP6);
}

void rewrite_hand_on(struct fwd_packet *p, const struct layers *l,
                     const uint8_t *source, const uint8_t *destination,
                     const uint8_t next_hop_mac[6], const uint8_t port_mac[6])
{
    uint8_t *ip = p->data + l->outer_l3;
    uint8_t *udp = p->data + l->udp;
    bool is_v4 = l->outer_family == IP_V4;
    uint8_t *source_at = ip + (is_v4 ? 12 : 8);
    size_t size = is_v4 ? 4 : 16;
    uint64_t addresses = replace(0, source_at + size, destination, size);

    if (source != NULL) {
        addresses = replace(addresses, source_at, source, size);
    }
    if (is_v4) {
        csum_store(ip + 10,
                   csum_update(csum_load(ip + 10), addresses + decrement_high(ip + 8)));
    } else {
        ip[7]--;
    }
    csum_store(udp + 6, csum_update_udp(csum_load(udp + 6), addresses));
    p->data = ip - ETH_SIZE;
    p->headroom = (uint16_t)(p->headroom + l->outer_l3 - ETH_SIZE);
    p->length = ETH_SIZE + l->outer_size;
    write_ethernet(p->data, next_hop_mac, port_mac,
                   is_v4 ? ETHERTYPE_IP4 : ETHERTYPE_IP6);
}
