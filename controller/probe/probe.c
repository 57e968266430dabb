/* probe: which packets to send. */
#include "controller/probe/probe.h"

#include "controller/probe/lookup.h"

#include <string.h>

#define SPORT         40000 /* inner; any */
#define DPORT_DISCARD 9     /* RFC 863 */
#define TTL           64
#define ENTROPY_FIRST 49152 /* RFC 7348, section 5: a port of the dynamic range */

static const uint8_t mac_src[6] = { 2, 'X', 'G', 'W', 0, 1 };
static const uint8_t mac_dst[6] = { 2, 'X', 'G', 'W', 0, 2 };

/* ---- addresses ---- */

/* The first row of the table whose key speaks of the family. */
static bool first_of(const struct table_set *s, uint32_t vni, enum table_id table,
                     uint8_t family, struct rows_iter *ret)
{
    struct rows_iter it =
        rows_seek(table_set_rows(s, vni, table), table, &family, sizeof(family));
    struct rows_iter look = it;
    struct row row;

    *ret = it;
    return rows_next(&look, &row) && row.key[0] == family;
}

unsigned probe_families(const struct table_set *tables, uint32_t vni,
                        uint8_t ret[static 2])
{
    static const uint8_t families[] = { IP_V4, IP_V6 };
    struct rows_iter it;
    unsigned count = 0;

    for (unsigned i = 0; i < 2; i++) {
        if (first_of(tables, vni, TABLE_VM_NC, families[i], &it) ||
            first_of(tables, vni, TABLE_VXLAN_ROUTE, families[i], &it)) {
            ret[count++] = families[i];
        }
    }
    if (count == 0) {
        ret[count++] = IP_V4;
    }
    return count;
}

/* The first `ret` addresses of VMs of the family. */
static unsigned some_vms(const struct table_set *s, uint32_t vni, uint8_t family,
                         struct ip ret[static 2])
{
    struct rows_iter it;
    unsigned count = 0;
    struct entry e;
    struct row row;

    if (!first_of(s, vni, TABLE_VM_NC, family, &it)) {
        return 0;
    }
    while (count < 2 && rows_next(&it, &row) && row.key[0] == family) {
        if (!entry_unpack(TABLE_VM_NC, vni, &row, &e, NULL)) {
            ret[count++] = e.vm_nc.vm;
        }
    }
    return count;
}

/* An address inside, not the first one where there are others. */
static struct ip inside(const struct prefix *p)
{
    struct ip ip = p->addr;

    if (p->len < ip_size(&ip) * 8) {
        ip.b[ip_size(&ip) - 1] |= 1;
    }
    return ip;
}

/* RFC 5737 and RFC 3849: addresses that nobody has. */
static struct ip nowhere(uint8_t family)
{
    static const uint8_t v6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };

    return family == IP_V4 ? ip_v4(0xc0000201) : ip_v6(v6);
}

/* An address of the VNI's family, of a VM or a route, that packets can have. */
static struct ip some_destination(const struct table_set *s, uint32_t vni,
                                  uint8_t family)
{
    struct rows_iter it;
    struct ip vms[2];
    struct entry e;
    struct row row;

    if (some_vms(s, vni, family, vms) > 0) {
        return vms[0];
    }
    if (first_of(s, vni, TABLE_VXLAN_ROUTE, family, &it)) {
        while (rows_next(&it, &row) && row.key[0] == family) {
            if (!entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, &e, NULL)) {
                struct ip ip = inside(&e.route.dst);

                if (lookup_is_routable(&ip)) {
                    return ip;
                }
            }
        }
    }
    return nowhere(family);
}

/* Another VM, or the neighbour of the destination. */
static struct ip source_beside(const struct table_set *s, uint32_t vni,
                               const struct ip *dst)
{
    struct ip vms[2];
    unsigned count = some_vms(s, vni, dst->family, vms);
    struct ip src = *dst;

    for (unsigned i = 0; i < count; i++) {
        if (ip_compare(&vms[i], dst) != 0) {
            return vms[i];
        }
    }
    src.b[ip_size(&src) - 1] ^= 2;
    return src;
}

static struct ip outer_source(const struct device_config *c, uint8_t family)
{
    for (unsigned i = 0; i < c->underlay_source_count; i++) {
        if (c->underlay_sources[i].addr.family == family) {
            return inside(&c->underlay_sources[i]);
        }
    }
    return nowhere(family);
}

/* ---- packets ---- */

static const struct ip *vtep_of(const struct device_config *c, uint8_t family)
{
    return family == IP_V4 ? &c->vtep_v4 : &c->vtep_v6;
}

static void sign(struct vxlan_packet *p, uint64_t number)
{
    static const char text[] = "xgw probe ";

    memcpy(p->payload, text, sizeof(text) - 1);
    p->payload_len = sizeof(text) - 1;
    for (int shift = 56; shift >= 0; shift -= 8) {
        p->payload[p->payload_len++] = (uint8_t)(number >> shift);
    }
}

void probe_make_to(const struct probe_node *node, uint32_t vni, const struct ip *dst,
                   uint8_t underlay, uint64_t number, struct probe *ret)
{
    struct vxlan_packet *p = &ret->sent;

    memset(ret, 0, sizeof(*ret));
    p->outer_src = outer_source(node->config, underlay);
    p->outer_dst = *vtep_of(node->config, underlay);
    p->outer_ttl = TTL;
    p->outer_sport = (uint16_t)(ENTROPY_FIRST + number % 16384);
    p->has_outer_csum = underlay == IP_V6; /* over v6 none is refused (RFC 8200) */
    p->vni = vni;
    memcpy(p->inner_dst_mac, mac_dst, sizeof(mac_dst));
    memcpy(p->inner_src_mac, mac_src, sizeof(mac_src));
    p->src = source_beside(node->tables, vni, dst);
    p->dst = *dst;
    p->ttl = TTL;
    p->sport = SPORT;
    p->dport = DPORT_DISCARD;
    sign(p, number);
    probe_expect(node, ret);
}

void probe_make(const struct probe_node *node, uint32_t vni, uint8_t family,
                uint64_t number, struct probe *ret)
{
    struct ip dst = some_destination(node->tables, vni, family);
    bool has_v4 = node->config->vtep_v4.family != IP_NONE;
    bool has_v6 = node->config->vtep_v6.family != IP_NONE;

    probe_make_to(node, vni, &dst, has_v4 ? IP_V4 : IP_V6, number, ret);
    if (has_v4 && has_v6 &&
        (ret->want.outcome != PROBE_FORWARDED || ret->want.is_fallback)) {
        struct probe other;

        probe_make_to(node, vni, &dst, IP_V6, number, &other);
        if (other.want.outcome == PROBE_FORWARDED && !other.want.is_fallback) {
            *ret = other;
        }
    }
}
