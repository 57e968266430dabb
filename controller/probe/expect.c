/* expect: what must come of a packet, by the rows that the node should hold.  The
 * numbers are those of the checks in tests/reference/README.md. */
#include "controller/probe/address.h"
#include "controller/probe/lookup.h"
#include "controller/probe/probe.h"

#include <stdio.h>
#include <string.h>

#define ETH 14

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff }; /* ::ffff:0:0/96 */

static bool is_h(const struct probe_node *n)
{
    uint8_t kind = n->config->kind;

    return kind == DEVICE_SOFT_H || kind == DEVICE_TOFINO || kind == DEVICE_BMV2;
}

static void drop(struct probe_want *w, const char *reason)
{
    w->outcome = PROBE_DROPPED;
    snprintf(w->reason, sizeof(w->reason), "%s", reason);
}

/* ---- ways out: checks 39 to 43 ---- */

static bool has_family(const struct uplink *u, uint8_t family)
{
    return (family == IP_V4 ? &u->addr_v4 : &u->addr_v6)->family != IP_NONE;
}

/* A node without ports, as in tests, may do as if. */
static bool has_uplink(const struct device_config *c, uint8_t family)
{
    for (unsigned i = 0; i < c->uplink_count; i++) {
        if (has_family(&c->uplinks[i], family)) {
            return true;
        }
    }
    return c->uplink_count == 0;
}

/* None of the family's uplinks takes an IP packet of so many bytes. */
static bool is_too_big(const struct device_config *c, uint8_t family, size_t size)
{
    size_t most = c->uplink_count > 0 ? 0 : SIZE_MAX;

    for (unsigned i = 0; i < c->uplink_count; i++) {
        const struct uplink *u = &c->uplinks[i];

        most = has_family(u, family) && u->mtu > most ? u->mtu : most;
    }
    return size > most;
}

/* XGW-H hands the packet on as it came; outer destination and TTL alone change. */
static void fall_back(const struct probe_node *n, const struct vxlan_packet *sent,
                      struct probe_want *w)
{
    const struct device_config *c = n->config;
    uint8_t family = sent->outer_dst.family;

    for (unsigned i = 0; i < c->fallback_member_count; i++) {
        const struct ip *to =
            family == IP_V4 ? &c->fallback_members[i].v4 : &c->fallback_members[i].v6;

        if (to->family != IP_NONE) {
            w->members[w->member_count++] = *to;
        }
    }
    if (w->member_count == 0) {
        drop(w, "fallback_no_member");
        return;
    }
    if (!has_uplink(c, family)) {
        w->member_count = 0;
        drop(w, "no_uplink");
        return;
    }
    w->outcome = PROBE_FORWARDED;
    w->is_fallback = true;
    w->packet = *sent;
    w->packet.outer_dst = w->members[0];
    w->packet.outer_ttl--;
}

/* What XGW-x86 drops, XGW-H hands on. */
static void miss(const struct probe_node *n, const char *reason, struct probe *p)
{
    if (is_h(n)) {
        fall_back(n, &p->sent, &p->want);
    } else {
        drop(&p->want, reason);
    }
}

/* As it would leave, without what links and ports say of it. */
static void rewrite(const struct device_config *c, bool is_elsewhere, struct probe *p)
{
    struct vxlan_packet *out = &p->want.packet;
    const struct probe_way *way = &p->way;

    out->outer_src = way->to.family == IP_V4 ? c->vip_v4 : c->vip_v6;
    out->outer_dst = way->to;
    out->outer_ttl--;
    out->vni = way->vni;
    if (is_elsewhere) {
        out->ttl--;
    }
    if (way->end == WAY_LOCAL_MAC) {
        memcpy(out->inner_dst_mac, way->mac, sizeof(out->inner_dst_mac));
    }
    if (way->to.family != p->sent.outer_dst.family) {
        out->has_outer_csum = way->to.family == IP_V6 && !c->udp6_zero_csum;
    }
}

static size_t size_out(const struct probe *p)
{
    uint8_t frame[PROBE_FRAME_MAX];

    return probe_frame_out(p, &p->want.packet.outer_dst, frame) - ETH;
}

/* To an NC or a tunnel's end. */
static void forward(const struct probe_node *n, struct probe *p)
{
    const struct device_config *c = n->config;
    struct probe_want *w = &p->want;
    uint8_t family = p->way.to.family;
    bool has_vip = (family == IP_V4 ? &c->vip_v4 : &c->vip_v6)->family != IP_NONE;
    bool leaves = p->way.end == WAY_IDC || p->way.end == WAY_REGION ||
                  (p->way.end == WAY_DERIVED && is_h(n)); /* it knows no scopes */
    bool is_elsewhere = leaves || p->way.vni != p->sent.vni;

    if (is_h(n) &&
        (family != p->sent.outer_dst.family || (is_elsewhere && p->sent.ttl <= 1))) {
        fall_back(n, &p->sent, w);
    } else if (is_elsewhere && p->sent.ttl <= 1) {
        drop(w, "inner_ttl");
    } else if (is_h(n) && !has_uplink(c, family)) { /* the chip looks in this order */
        drop(w, "no_uplink");
    } else if (!has_vip) {
        drop(w, "no_vip");
    } else if (!has_uplink(c, family)) {
        drop(w, "no_uplink");
    } else {
        rewrite(c, is_elsewhere, p);
        w->outcome = PROBE_FORWARDED;
        if (is_too_big(c, family, size_out(p))) {
            w->outcome = 0;
            miss(n, "mtu", p);
        }
    }
}

/* ---- checks 33 to 38 ---- */

static void follow_routes(const struct probe_node *n, struct probe *p)
{
    way_find(n->tables, p->sent.vni, &p->sent.dst, &p->way);
    switch (p->way.end) {
    case WAY_ROUTE_MISS:
        miss(n, "route_miss", p);
        break;
    case WAY_PEER_LIMIT:
        drop(&p->want, "peer_limit");
        break;
    case WAY_VM_MISS:
        miss(n, "vm_nc_miss", p);
        break;
    case WAY_INTERNET: /* XGW-x86 has neither pools nor functions yet */
        miss(n, "no_snat", p);
        break;
    case WAY_SERVICE:
    case WAY_FALLBACK:
        miss(n, "service_unbound", p);
        break;
    default:
        forward(n, p);
        break;
    }
}

static uint8_t flags_of(const struct probe_node *n, uint32_t vni)
{
    struct rows_iter it =
        rows_begin(table_set_rows(n->tables, vni, TABLE_VNI), TABLE_VNI);
    struct entry e;
    struct row row;

    return rows_next(&it, &row) && !entry_unpack(TABLE_VNI, vni, &row, &e, NULL)
               ? e.vni_row.flags
               : 0;
}

/* The chip does not look for ports behind options and extension headers. */
static bool hides_ports(const struct probe *p)
{
    return p->twist == TWIST_IN_OPTIONS ||
           (p->twist == TWIST_IN_FRAGMENT && p->sent.src.family == IP_V6);
}

static bool is_denied(const struct probe_node *n, const struct probe *p)
{
    const struct vxlan_packet *s = &p->sent;
    const struct lookup_flow flow = { .src = s->src,
                                      .dst = s->dst,
                                      .proto = twist_proto(p->twist, s->src.family),
                                      .has_ports = twist_has_ports(p->twist),
                                      .sport = s->sport,
                                      .dport = s->dport };
    struct entry rule;

    if (is_h(n) && hides_ports(p) && (flags_of(n, s->vni) & VNI_ACL)) {
        return true;
    }
    return lookup_acl(n->tables, s->vni, &flow, &rule) && rule.acl.action == ACL_DENY;
}

static void route(const struct probe_node *n, struct probe *p)
{
    bool is_mapped = p->sent.dst.family == IP_V6 &&
                     memcmp(p->sent.dst.b, mapped, sizeof(mapped)) == 0;

    if (!lookup_is_routable(&p->sent.dst)) {
        drop(&p->want, "inner_not_unicast");
    } else if (is_denied(n, p)) { /* only XGW-H has rules */
        drop(&p->want, "acl_deny");
    } else if (is_h(n) && (is_mapped || hides_ports(p) || p->twist == TWIST_IN_TAG)) {
        fall_back(n, &p->sent, &p->want); /* where it has its IPv4 routes */
    } else {
        follow_routes(n, p);
    }
}

/* ---- checks 1 to 31 ---- */

/* It fails, at a check from `first` to `last`. */
static bool is_refused(const struct probe_node *n, struct probe *p, unsigned first,
                       unsigned last)
{
    const struct twist_rule *rule = twist_rule_of(p->twist);

    if (rule->check < first || rule->check > last ||
        (p->twist == TWIST_IN_TAG && (flags_of(n, p->sent.vni) & VNI_INNER_VLAN))) {
        return false;
    }
    if (rule->reason) {
        drop(&p->want, rule->reason);
    } else {
        p->want.outcome = PROBE_KEPT;
    }
    return true;
}

void probe_expect(const struct probe_node *n, struct probe *p)
{
    const struct vxlan_packet *s = &p->sent;
    const struct device_config *c = n->config;
    struct probe_want *w = &p->want;

    memset(w, 0, sizeof(*w));
    p->way = (struct probe_way){ .end = WAY_ENDS };
    w->packet = *s;
    if (is_refused(n, p, 1, 9)) {
        return;
    }
    if (!address_is_own(c, &s->outer_dst)) {
        drop(w, "not_our_address");
    } else if (is_refused(n, p, 11, 13)) {
        return;
    } else if (s->outer_ttl < 2) {
        drop(w, "outer_ttl");
    } else if (s->outer_dst.family == IP_V6 && !s->has_outer_csum &&
               !c->udp6_zero_csum) {
        drop(w, "outer_udp6_zero_csum");
    } else if (!device_config_takes_from(c, &s->outer_src)) {
        drop(w, "source_check");
    } else if (is_refused(n, p, 19, 21)) {
        return;
    } else if (!table_set_rows(n->tables, s->vni, TABLE_VNI)) {
        drop(w, "unknown_vni");
    } else if (!is_refused(n, p, 23, 31)) {
        route(n, p);
    }
}

/* ---- bytes ---- */

size_t probe_frame(const struct probe *p, uint8_t ret[PROBE_FRAME_MAX])
{
    return twist_build(&p->sent, p->twist, p->filler, ret);
}

size_t probe_frame_out(const struct probe *p, const struct ip *to,
                       uint8_t ret[PROBE_FRAME_MAX])
{
    struct vxlan_packet packet = p->want.packet;

    packet.outer_dst = *to;
    return twist_build_out(&packet, p->twist, p->filler, p->want.is_fallback, ret);
}
