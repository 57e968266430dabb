#include "agent/gateway/neigh.h"

#include <string.h>

#define ETH_ARP  0x0806
#define ETH_IPV6 0x86dd
#define ETH_SIZE 14
#define ARP_SIZE 28 /* RFC 826 for Ethernet and IPv4 */
#define IP6_SIZE 40
#define ND_SIZE  32 /* solicitation or advertisement with one link-layer option */

#define ARP_REQUEST 1
#define ARP_REPLY   2

#define ICMPV6     58
#define ND_SOLICIT 135
#define ND_ADVERT  136

#define ND_SOURCE_LINK 1
#define ND_TARGET_LINK 2

/* Ethernet, IPv4, and the sizes of their addresses. */
static const uint8_t arp_kind[6] = { 0, 1, 0x08, 0, 6, 4 };
static const uint8_t unknown_mac[6];
static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

static uint16_t load16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static void store16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

void neigh_configure(struct neigh *n, struct fwd_config *config, uint64_t now_ms)
{
    struct neigh_entry entry[FWD_UPLINK_MAX] = { 0 };

    for (unsigned i = 0; i < config->uplink_count; i++) {
        uint64_t mac = atomic_load(&config->next_hop_mac[i]);

        entry[i].next_ms = config->uplink[i].has_static_mac ? UINT64_MAX : now_ms;
        entry[i].is_known = (mac & FWD_MAC_KNOWN) != 0;
        for (unsigned j = 0; n->config && j < n->config->uplink_count; j++) {
            if (entry[i].is_known && n->entry[j].is_known &&
                n->config->uplink[j].seed == config->uplink[i].seed) {
                entry[i] = n->entry[j];
            }
        }
    }
    memcpy(n->entry, entry, sizeof(entry));
    n->config = config;
}

static void learn(struct neigh *n, unsigned uplink, const uint8_t mac[6],
                  uint64_t now_ms)
{
    struct neigh_entry *e = &n->entry[uplink];

    if (n->config->uplink[uplink].has_static_mac || (mac[0] & 1)) {
        return; /* a group address is nobody's */
    }
    e->is_known = true;
    e->unanswered = 0;
    e->next_ms = now_ms + NEIGH_REFRESH_MS;
    memcpy(e->mac, mac, 6);
    fwd_config_set_mac(n->config, uplink, mac);
}

/* Every uplink on `port` whose next hop is `address` has this MAC. */
static void learn_all(struct neigh *n, uint16_t port, uint8_t family,
                      const uint8_t *address, const uint8_t mac[6], uint64_t now_ms)
{
    for (unsigned i = 0; i < n->config->uplink_count; i++) {
        const struct fwd_uplink *u = &n->config->uplink[i];

        if (u->port == port && u->family == family &&
            memcmp(u->next_hop.b, address, ip_size(&u->next_hop)) == 0) {
            learn(n, i, mac, now_ms);
        }
    }
}

/* The uplink on `port` whose own address this is; null if none. */
static const struct fwd_uplink *own(const struct neigh *n, uint16_t port,
                                    uint8_t family, const uint8_t *address)
{
    for (unsigned i = 0; i < n->config->uplink_count; i++) {
        const struct fwd_uplink *u = &n->config->uplink[i];

        if (u->port == port && u->family == family &&
            memcmp(u->address.b, address, ip_size(&u->address)) == 0) {
            return u;
        }
    }
    return NULL;
}

static void ethernet(struct neigh_out *out, const uint8_t to[6], const uint8_t from[6],
                     uint16_t type)
{
    memcpy(out->frame, to, 6);
    memcpy(out->frame + 6, from, 6);
    store16(out->frame + 12, type);
}

static void make_arp(struct neigh_out *out, const struct fwd_uplink *u, uint16_t op,
                     const uint8_t to[6], const uint8_t *target_ip)
{
    uint8_t *arp = out->frame + ETH_SIZE;

    ethernet(out, to, u->mac, ETH_ARP);
    memcpy(arp, arp_kind, 6);
    store16(arp + 6, op);
    memcpy(arp + 8, u->mac, 6);
    memcpy(arp + 14, u->address.b, 4);
    memcpy(arp + 18, op == ARP_REPLY ? to : unknown_mac, 6);
    memcpy(arp + 24, target_ip, 4);
    out->port = u->port;
    out->len = ETH_SIZE + ARP_SIZE;
}

static void receive_arp(struct neigh *n, uint16_t port, const uint8_t *arp, size_t len,
                        uint64_t now_ms, struct neigh_out *ret)
{
    uint16_t op;
    const struct fwd_uplink *u;

    if (len < ARP_SIZE || memcmp(arp, arp_kind, 6) != 0) {
        return;
    }
    op = load16(arp + 6);
    u = own(n, port, IP_V4, arp + 24);
    if (!u) {
        return;
    }
    learn_all(n, port, IP_V4, arp + 14, arp + 8, now_ms);
    if (op == ARP_REQUEST) {
        make_arp(ret, u, ARP_REPLY, arp + 8, arp + 14);
    }
}

/* RFC 4443, section 2.3: over the pseudo-header and the message. */
static uint16_t icmp6_checksum(const uint8_t *ip6, const uint8_t *icmp, size_t len)
{
    uint32_t sum = ICMPV6 + (uint32_t)len;

    for (unsigned i = 8; i < IP6_SIZE; i += 2) {
        sum += load16(ip6 + i);
    }
    for (size_t i = 0; i + 1 < len; i += 2) {
        sum += load16(icmp + i);
    }
    if (len & 1) {
        sum += (uint32_t)icmp[len - 1] << 8;
    }
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static void make_nd(struct neigh_out *out, const struct fwd_uplink *u, uint8_t type,
                    const uint8_t to_mac[6], const uint8_t to_ip[16],
                    const uint8_t target[16], uint8_t flags)
{
    uint8_t *ip6 = out->frame + ETH_SIZE;
    uint8_t *nd = ip6 + IP6_SIZE;

    ethernet(out, to_mac, u->mac, ETH_IPV6);
    memset(ip6, 0, IP6_SIZE + ND_SIZE);
    ip6[0] = 0x60;
    store16(ip6 + 4, ND_SIZE);
    ip6[6] = ICMPV6;
    ip6[7] = 255; /* RFC 4861: proves that no router passed it on */
    memcpy(ip6 + 8, u->address.b, 16);
    memcpy(ip6 + 24, to_ip, 16);
    nd[0] = type;
    nd[4] = flags;
    memcpy(nd + 8, target, 16);
    nd[24] = type == ND_SOLICIT ? ND_SOURCE_LINK : ND_TARGET_LINK;
    nd[25] = 1; /* in units of 8 bytes */
    memcpy(nd + 26, u->mac, 6);
    store16(nd + 2, icmp6_checksum(ip6, nd, ND_SIZE));
    out->port = u->port;
    out->len = ETH_SIZE + IP6_SIZE + ND_SIZE;
}

/* The link-layer address option of `type` (RFC 4861, 4.6.1), or null. */
static const uint8_t *nd_option(const uint8_t *p, size_t len, uint8_t type)
{
    while (len >= 8) {
        size_t size = (size_t)p[1] * 8;

        if (size == 0 || size > len) {
            return NULL;
        }
        if (p[0] == type) {
            return p + 2;
        }
        p += size;
        len -= size;
    }
    return NULL;
}

static bool is_unspecified(const uint8_t *ip)
{
    static const uint8_t zero[16];

    return memcmp(ip, zero, 16) == 0;
}

static void receive_solicit(struct neigh *n, uint16_t port, const uint8_t *ip6,
                            const uint8_t *nd, size_t len, uint64_t now_ms,
                            struct neigh_out *ret)
{
    static const uint8_t all_nodes_mac[6] = { 0x33, 0x33, 0, 0, 0, 1 };
    static const uint8_t all_nodes[16] = { 0xff, 2, [15] = 1 };
    const struct fwd_uplink *u = own(n, port, IP_V6, nd + 8);
    const uint8_t *link = nd_option(nd + 24, len - 24, ND_SOURCE_LINK);

    if (!u) {
        return;
    }
    if (is_unspecified(ip6 + 8)) {
        /* Duplicate address detection: defend it (section 7.2.4). */
        make_nd(ret, u, ND_ADVERT, all_nodes_mac, all_nodes, u->address.b, 0x20);
        return;
    }
    if (link) {
        learn_all(n, port, IP_V6, ip6 + 8, link, now_ms);
        make_nd(ret, u, ND_ADVERT, link, ip6 + 8, u->address.b, 0x60);
    }
}

static void receive_nd(struct neigh *n, uint16_t port, const uint8_t *ip6, size_t len,
                       uint64_t now_ms, struct neigh_out *ret)
{
    const uint8_t *nd = ip6 + IP6_SIZE;
    size_t size;

    /* Section 7.1: hop limit 255, code 0, length at least 24, checksum. */
    if (len < IP6_SIZE + 24 || ip6[6] != ICMPV6 || ip6[7] != 255) {
        return;
    }
    size = load16(ip6 + 4);
    if (size < 24 || size > len - IP6_SIZE || nd[1] != 0 ||
        icmp6_checksum(ip6, nd, size) != 0) {
        return;
    }
    if (nd[0] == ND_SOLICIT) {
        receive_solicit(n, port, ip6, nd, size, now_ms, ret);
    } else if (nd[0] == ND_ADVERT) {
        const uint8_t *link = nd_option(nd + 24, size - 24, ND_TARGET_LINK);

        if (link) {
            learn_all(n, port, IP_V6, nd + 8, link, now_ms);
        }
    }
}

void neigh_receive(struct neigh *n, uint16_t port, const uint8_t *frame, size_t len,
                   uint64_t now_ms, struct neigh_out *ret)
{
    ret->len = 0;
    if (!n->config || len < ETH_SIZE) {
        return;
    }
    if (load16(frame + 12) == ETH_ARP) {
        receive_arp(n, port, frame + ETH_SIZE, len - ETH_SIZE, now_ms, ret);
    } else if (load16(frame + 12) == ETH_IPV6) {
        receive_nd(n, port, frame + ETH_SIZE, len - ETH_SIZE, now_ms, ret);
    }
}

/* By unicast where the MAC is known, else to everybody who may be it. */
static void make_question(const struct neigh *n, unsigned uplink, struct neigh_out *ret)
{
    const struct fwd_uplink *u = &n->config->uplink[uplink];
    const struct neigh_entry *e = &n->entry[uplink];
    const uint8_t *hop = u->next_hop.b;

    if (u->family == IP_V4) {
        make_arp(ret, u, ARP_REQUEST, e->is_known ? e->mac : broadcast, hop);
    } else {
        uint8_t mac[6] = { 0x33, 0x33, 0xff, hop[13], hop[14], hop[15] };
        uint8_t group[16] = { 0xff, 2, [11] = 1, [12] = 0xff };

        memcpy(group + 13, hop + 13, 3); /* solicited-node address, RFC 4291 2.7.1 */
        make_nd(ret, u, ND_SOLICIT, e->is_known ? e->mac : mac,
                e->is_known ? hop : group, hop, 0);
    }
}

bool neigh_ask(struct neigh *n, uint64_t now_ms, struct neigh_out *ret)
{
    for (unsigned i = 0; n->config && i < n->config->uplink_count; i++) {
        struct neigh_entry *e = &n->entry[i];

        if (e->next_ms > now_ms) {
            continue;
        }
        if (e->is_known && e->unanswered >= NEIGH_PROBES) {
            e->is_known = false;
            fwd_config_clear_mac(n->config, i);
        }
        make_question(n, i, ret);
        e->unanswered += e->unanswered < UINT8_MAX;
        e->next_ms = now_ms + NEIGH_ASK_MS;
        return true;
    }
    return false;
}

uint64_t neigh_next_wake(const struct neigh *n)
{
    uint64_t wake = UINT64_MAX;

    for (unsigned i = 0; n->config && i < n->config->uplink_count; i++) {
        if (n->entry[i].next_ms < wake) {
            wake = n->entry[i].next_ms;
        }
    }
    return wake;
}
