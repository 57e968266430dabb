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
