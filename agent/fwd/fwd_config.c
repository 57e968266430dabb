#include "agent/fwd/fwd_config.h"

#include <stdlib.h>
#include <string.h>

#include "agent/fwd/uplink.h"
#include "agent/fwd/wire.h"

/* A hash of an IPv4 address as loaded from the wire; the top bits are the good ones. */
static uint32_t hash6(const uint8_t *address)
{
    uint64_t halves[2];

    memcpy(halves, address, sizeof(halves));
    return (uint32_t)(((halves[0] ^ (halves[1] * UINT64_C(0xbf58476d1ce4e5b9))) *
                       UINT64_C(0x9e3779b97f4a7c15)) >>
                      32);
}

unsigned fwd_config_local6(const struct fwd_config *c, const uint8_t *address)
{
    for (uint32_t i = hash6(address);; i++) {
        const struct fwd_local6 *slot = &c->local6[i & c->local6_mask];

        if (slot->kind == 0 || memcmp(slot->address, address, 16) == 0) {
            return slot->kind;
        }
    }
}

static bool not_above(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] < b[0] || (a[0] == b[0] && a[1] <= b[1]);
}

bool fwd_config_source6(const struct fwd_config *c, const uint8_t *address)
{
    uint64_t key[2] = { load_be64(address), load_be64(address + 8) };
    const struct fwd_range6 *base = c->source6;
    uint32_t n = c->source6_count;

    if (n == 0) {
        return false;
    }
    while (n > 1) {
        uint32_t half = n / 2;

        base = not_above(base[half].first, key) ? base + half : base;
        n -= half;
    }
    return not_above(base->first, key) && not_above(key, base->last);
}

/* ---- making one: the control thread, seldom ---- */

void fwd_config_free(struct fwd_config *c)
{
    if (c == NULL) {
        return;
    }
    free((void *)c->local4);
    free((void *)c->local6);
    free((void *)c->source4);
    free((void *)c->source6);
    free(c);
}

static void local4_add(struct fwd_local4 *table, uint32_t mask, const struct ip *ip,
                       uint32_t kind)
{
    uint32_t key;
    uint32_t i;

    memcpy(&key, ip->b, sizeof(key));
    i = fwd_local4_hash(key);
    while (table[i & mask].kind != 0 && table[i & mask].address != key) {
        i++;
    }
    table[i & mask].address = key;
    table[i & mask].kind |= kind;
}

static void local6_add(struct fwd_local6 *table, uint32_t mask, const struct ip *ip,
                       uint32_t kind)
{
    uint32_t i = hash6(ip->b);

    while (table[i & mask].kind != 0 &&
           memcmp(table[i & mask].address, ip->b, 16) != 0) {
        i++;
    }
    memcpy(table[i & mask].address, ip->b, 16);
    table[i & mask].kind |= kind;
}

static int range4_compare(const void *a, const void *b)
{
    const struct fwd_range4 *x = a;
    const struct fwd_range4 *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static int range6_compare(const void *a, const void *b)
{
    const struct fwd_range6 *x = a;
    const struct fwd_range6 *y = b;

    return not_above(x->first, y->first) ? (not_above(y->first, x->first) ? 0 : -1) : 1;
}

static struct fwd_range4 range4_of(const struct prefix *p)
{
    uint32_t first = load_be32(p->addr.b);
    uint32_t host = p->len == 0 ? UINT32_MAX : (UINT32_C(1) << (32 - p->len)) - 1;

    return (struct fwd_range4){ first, first | host };
}

/* Ones behind the first `bits` of 64. */
static uint64_t ones_behind(unsigned bits)
{
    return bits == 0 ? UINT64_MAX : bits >= 64 ? 0 : (UINT64_C(1) << (64 - bits)) - 1;
}

static struct fwd_range6 range6_of(const struct prefix *p)
{
    struct fwd_range6 r = { .first = { load_be64(p->addr.b),
                                       load_be64(p->addr.b + 8) } };

    r.last[0] = r.first[0] | ones_behind(p->len);
    r.last[1] = r.first[1] | ones_behind(p->len < 64 ? 0 : p->len - 64u);
    return r;
}

/* Sorts, and drops ranges that lie within an earlier one (prefixes nest or are
 * disjoint).  Returns how many remain. */
static uint32_t ranges4_settle(struct fwd_range4 *r, uint32_t count)
{
    uint32_t kept = 0;

    qsort(r, count, sizeof(*r), range4_compare);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && r[i].first <= r[kept - 1].last) {
            if (r[i].last > r[kept - 1].last) {
                r[kept - 1].last = r[i].last; /* the same start, shorter prefix */
            }
        } else {
            r[kept++] = r[i];
        }
    }
    return kept;
}

static uint32_t ranges6_settle(struct fwd_range6 *r, uint32_t count)
{
    uint32_t kept = 0;

    qsort(r, count, sizeof(*r), range6_compare);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && not_above(r[i].first, r[kept - 1].last)) {
            if (!not_above(r[i].last, r[kept - 1].last)) {
                memcpy(r[kept - 1].last, r[i].last, sizeof(r[i].last));
            }
        } else {
            r[kept++] = r[i];
        }
    }
    return kept;
}

static enum rc check_uplink(const struct fwd_uplink_spec *u, unsigned index,
                            struct err *err)
{
    if (u->address.family != IP_V4 && u->address.family != IP_V6) {
        return err_field(err, RC_INVALID, "uplinks", "uplink_address",
                         "uplink %u has no address", index);
    }
    if (u->next_hop.family != u->address.family) {
        return err_field(
            err, RC_INVALID, "uplinks", "next_hop_family",
            "uplink %u: the next hop is of another family than the address", index);
    }
    if (u->mtu < FWD_MTU_MIN || u->mtu > FWD_MTU_MAX) {
        return err_field(err, RC_RANGE, "uplinks", "mtu",
                         "uplink %u: MTU %u is not %u to %u", index, u->mtu,
                         FWD_MTU_MIN, FWD_MTU_MAX);
    }
    return RC_OK;
}

static enum rc check_node(const struct fwd_node *node, struct err *err)
{
    if (node->uplink_count > FWD_UPLINK_MAX) {
        return err_field(err, RC_RANGE, "uplinks", "uplink_count",
                         "%u uplinks, at most %u are supported", node->uplink_count,
                         FWD_UPLINK_MAX);
    }
    for (unsigned i = 0; i < node->uplink_count; i++) {
        enum rc rc = check_uplink(&node->uplinks[i], i, err);

        if (rc != RC_OK) {
            return rc;
        }
    }
    if ((node->icmp_source4.family != IP_NONE && node->icmp_source4.family != IP_V4) ||
        (node->icmp_source6.family != IP_NONE && node->icmp_source6.family != IP_V6)) {
        return err_field(err, RC_INVALID, "icmp_source", "family",
                         "an ICMP source is of the wrong family");
    }
    return RC_OK;
}

/* All addresses of ours, of one kind after the other. */
static void add_local(struct fwd_config *c, struct fwd_local4 *local4,
                      struct fwd_local6 *local6, const struct ip *ip, uint32_t kind)
{
    if (ip->family == IP_V4) {
        local4_add(local4, c->local4_mask, ip, kind);
    } else if (ip->family == IP_V6) {
        local6_add(local6, c->local6_mask, ip, kind);
    }
}

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = 4;

    while (slots < count * 2) { /* at most half full, so probes are short */
        slots *= 2;
    }
    return slots;
}

static enum rc compile_local(struct fwd_config *c, const struct fwd_node *node)
{
    uint32_t slots = slots_for(node->vtep_count + node->vip_count + node->uplink_count);
    struct fwd_local4 *local4 = calloc(slots, sizeof(*local4));
    struct fwd_local6 *local6 = calloc(slots, sizeof(*local6));

    c->local4 = local4;
    c->local6 = local6;
    c->local4_mask = slots - 1;
    c->local6_mask = slots - 1;
    if (local4 == NULL || local6 == NULL) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < node->vtep_count; i++) {
        add_local(c, local4, local6, &node->vteps[i], ADDRESS_TUNNEL);
    }
    for (uint32_t i = 0; i < node->vip_count; i++) {
        add_local(c, local4, local6, &node->vips[i], ADDRESS_TUNNEL);
    }
    for (uint32_t i = 0; i < node->uplink_count; i++) {
        add_local(c, local4, local6, &node->uplinks[i].address, ADDRESS_PORT);
    }
    return RC_OK;
}

static enum rc compile_sources(struct fwd_config *c, const struct fwd_node *node)
{
    uint32_t count = node->underlay_source_count;
    struct fwd_range4 *r4 = calloc(count + 1, sizeof(*r4)); /* never of no size */
    struct fwd_range6 *r6 = calloc(count + 1, sizeof(*r6));

    c->source4 = r4;
    c->source6 = r6;
    if (r4 == NULL || r6 == NULL) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct prefix *p = &node->underlay_sources[i];

        if (p->addr.family == IP_V4) {
            r4[c->source4_count++] = range4_of(p);
        } else if (p->addr.family == IP_V6) {
            r6[c->source6_count++] = range6_of(p);
        }
    }
    c->source4_count = ranges4_settle(r4, c->source4_count);
    c->source6_count = ranges6_settle(r6, c->source6_count);
    return RC_OK;
}

static void compile_values(struct fwd_config *c, const struct fwd_node *node)
{
    for (uint32_t i = 0; i < node->vip_count; i++) {
        const struct ip *vip = &node->vips[i];

        if (vip->family == IP_V4 && !c->has_vip4) {
            memcpy(c->vip4, vip->b, 4);
            c->has_vip4 = true;
        } else if (vip->family == IP_V6 && !c->has_vip6) {
            memcpy(c->vip6, vip->b, 16);
            c->has_vip6 = true;
        }
    }
    memcpy(c->icmp4, node->icmp_source4.b, 4);
    memcpy(c->icmp6, node->icmp_source6.b, 16);
    c->has_icmp4 = node->icmp_source4.family == IP_V4;
    c->has_icmp6 = node->icmp_source6.family == IP_V6;
    c->udp6_zero_csum = node->udp6_zero_csum;
}

static uint64_t mac_word(const uint8_t mac[6])
{
    uint64_t word = 0;

    for (unsigned i = 0; i < 6; i++) {
        word = word << 8 | mac[i];
    }
    return word | FWD_MAC_KNOWN;
}

static void compile_uplinks(struct fwd_config *c, const struct fwd_node *node)
{
    c->uplink_count = (uint8_t)node->uplink_count;
    for (unsigned i = 0; i < node->uplink_count; i++) {
        const struct fwd_uplink_spec *from = &node->uplinks[i];
        struct fwd_uplink *to = &c->uplink[i];

        to->seed = uplink_seed(from->port, &from->address, &from->next_hop);
        to->mtu = from->mtu;
        to->port = from->port;
        to->family = from->address.family;
        memcpy(to->mac, from->mac, 6);
        to->address = from->address;
        to->next_hop = from->next_hop;
        to->has_static_mac = from->has_next_hop_mac;
        atomic_init(&c->next_hop_mac[i],
                    from->has_next_hop_mac ? mac_word(from->next_hop_mac) : 0);
    }
}

enum rc fwd_config_new(const struct fwd_node *node, struct fwd_config **ret,
                       struct err *err)
{
    struct fwd_config *c;
    enum rc rc = check_node(node, err);

    if (rc != RC_OK) {
        return rc;
    }
    c = aligned_alloc(_Alignof(struct fwd_config), sizeof(*c));
    if (c == NULL) {
        return err_set(err, RC_NO_MEMORY, "no memory for a configuration");
    }
    memset(c, 0, sizeof(*c));
    if (compile_local(c, node) != RC_OK || compile_sources(c, node) != RC_OK) {
        fwd_config_free(c);
        return err_set(err, RC_NO_MEMORY, "no memory for a configuration");
    }
    compile_values(c, node);
    compile_uplinks(c, node);
    *ret = c;
    return RC_OK;
}

void fwd_config_set_mac(struct fwd_config *c, unsigned uplink, const uint8_t mac[6])
{
    if (!c->uplink[uplink].has_static_mac) {
        atomic_store_explicit(&c->next_hop_mac[uplink], mac_word(mac),
                              memory_order_relaxed);
    }
}

void fwd_config_clear_mac(struct fwd_config *c, unsigned uplink)
{
    if (!c->uplink[uplink].has_static_mac) {
        atomic_store_explicit(&c->next_hop_mac[uplink], 0, memory_order_relaxed);
    }
}

void fwd_config_inherit_macs(struct fwd_config *now, const struct fwd_config *before)
{
    for (unsigned i = 0; i < now->uplink_count; i++) {
        const struct fwd_uplink *to = &now->uplink[i];

        for (unsigned k = 0; k < before->uplink_count; k++) {
            const struct fwd_uplink *from = &before->uplink[k];

            if (!to->has_static_mac && !from->has_static_mac &&
                to->port == from->port &&
                ip_compare(&to->next_hop, &from->next_hop) == 0) {
                atomic_store_explicit(&now->next_hop_mac[i],
                                      atomic_load_explicit(&before->next_hop_mac[k],
                                                           memory_order_relaxed),
                                      memory_order_relaxed);
            }
        }
    }
}
