/* probe: which packets to send. */
#include "controller/probe/probe.h"

#include "controller/probe/address.h"

#include <string.h>

#define SPORT         40000 /* inner; any */
#define DPORT_DISCARD 9     /* RFC 863 */
#define TTL           64
#define ENTROPY_FIRST 49152 /* RFC 7348, section 5: a port of the dynamic range */

static const uint8_t mac_src[6] = { 2, 'X', 'G', 'W', 0, 1 };
static const uint8_t mac_dst[6] = { 2, 'X', 'G', 'W', 0, 2 };

unsigned probe_families(const struct table_set *tables, uint32_t vni,
                        uint8_t ret[static 2])
{
    static const uint8_t families[] = { IP_V4, IP_V6 };
    struct rows_iter it;
    unsigned count = 0;

    for (unsigned i = 0; i < 2; i++) {
        if (address_rows(tables, vni, TABLE_VM_NC, families[i], &it) ||
            address_rows(tables, vni, TABLE_VXLAN_ROUTE, families[i], &it)) {
            ret[count++] = families[i];
        }
    }
    if (count == 0) {
        ret[count++] = IP_V4;
    }
    return count;
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

void probe_begin(const struct probe_node *node, uint32_t vni, const struct ip *dst,
                 uint8_t underlay, uint64_t number, struct probe *ret)
{
    struct vxlan_packet *p = &ret->sent;

    memset(ret, 0, sizeof(*ret));
    p->outer_src = address_source(node->config, underlay);
    p->outer_dst = *vtep_of(node->config, underlay);
    p->outer_ttl = TTL;
    p->outer_sport = (uint16_t)(ENTROPY_FIRST + number % 16384);
    p->has_outer_csum = underlay == IP_V6; /* over v6 none is refused (RFC 8200) */
    p->vni = vni;
    memcpy(p->inner_dst_mac, mac_dst, sizeof(mac_dst));
    memcpy(p->inner_src_mac, mac_src, sizeof(mac_src));
    p->src = address_beside(node->tables, vni, dst);
    p->dst = *dst;
    p->ttl = TTL;
    p->sport = SPORT;
    p->dport = DPORT_DISCARD;
    sign(p, number);
}

void probe_make_to(const struct probe_node *node, uint32_t vni, const struct ip *dst,
                   uint8_t underlay, uint64_t number, struct probe *ret)
{
    probe_begin(node, vni, dst, underlay, number, ret);
    probe_expect(node, ret);
}

void probe_make(const struct probe_node *node, uint32_t vni, uint8_t family,
                uint64_t number, struct probe *ret)
{
    struct ip dst = address_some(node->tables, vni, family);
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
