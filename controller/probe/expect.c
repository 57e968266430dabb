/* expect: what must come of a packet, by the rows that the node should hold. */
#include "controller/probe/lookup.h"
#include "controller/probe/probe.h"

#include <stdio.h>
#include <string.h>

#define LOOKUPS_MAX 4 /* 3 peers and a last one */

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

/* A node without ports, as in tests, may do as if. */
static bool has_uplink(const struct device_config *c, uint8_t family)
{
    for (unsigned i = 0; i < c->uplink_count; i++) {
        const struct uplink *u = &c->uplinks[i];

        if ((family == IP_V4 ? &u->addr_v4 : &u->addr_v6)->family != IP_NONE) {
            return true;
        }
    }
    return c->uplink_count == 0;
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
static void miss(const struct probe_node *n, const struct vxlan_packet *sent,
                 const char *reason, struct probe_want *w)
{
    if (is_h(n)) {
        fall_back(n, sent, w);
    } else {
        drop(w, reason);
    }
}

/* To an NC or a tunnel's end. */
static void forward(const struct probe_node *n, const struct vxlan_packet *sent,
                    const struct ip *to, uint32_t vni, bool leaves,
                    struct probe_want *w)
{
    const struct device_config *c = n->config;
    const struct ip *vip = to->family == IP_V4 ? &c->vip_v4 : &c->vip_v6;
    bool crosses = to->family != sent->outer_dst.family;

    if (is_h(n) && crosses) {
        fall_back(n, sent, w);
        return;
    }
    if (is_h(n) && !has_uplink(c, to->family)) { /* the chip looks in this order */
        drop(w, "no_uplink");
        return;
    }
    if (vip->family == IP_NONE) {
        drop(w, "no_vip");
        return;
    }
    if (!has_uplink(c, to->family)) {
        drop(w, "no_uplink");
        return;
    }
    w->outcome = PROBE_FORWARDED;
    w->packet.outer_src = *vip;
    w->packet.outer_dst = *to;
    w->packet.outer_ttl--;
    w->packet.vni = vni;
    if (leaves || vni != sent->vni) {
        w->packet.ttl--;
    }
    if (crosses) {
        w->packet.has_outer_csum = to->family == IP_V6 && !c->udp6_zero_csum;
    }
}

static void to_vm(const struct probe_node *n, const struct vxlan_packet *sent,
                  uint32_t vni, struct probe_want *w)
{
    struct entry vm;

    if (!lookup_vm(n->tables, vni, &sent->dst, &vm)) {
        miss(n, sent, "vm_nc_miss", w);
        return;
    }
    if (vm.vm_nc.has_mac) {
        memcpy(w->packet.inner_dst_mac, vm.vm_nc.mac, 6);
    }
    forward(n, sent, &vm.vm_nc.nc, vni, false, w);
}

static void follow_routes(const struct probe_node *n, const struct vxlan_packet *sent,
                          struct probe_want *w)
{
    uint32_t vni = sent->vni;

    for (unsigned i = 0; i < LOOKUPS_MAX; i++) {
        struct entry e;
        const struct route_action *a = &e.route.action;

        if (!lookup_route(n->tables, vni, &sent->dst, &e)) {
            miss(n, sent, "route_miss", w);
            return;
        }
        switch (a->scope) {
        case SCOPE_PEER:
            vni = a->vni;
            break;
        case SCOPE_LOCAL:
            to_vm(n, sent, vni, w);
            return;
        case SCOPE_IDC:
        case SCOPE_REGION:
        case SCOPE_DERIVED:
            forward(n, sent, &a->endpoint, a->vni, true, w);
            return;
        default: /* XGW-x86 has neither pools nor functions yet */
            miss(n, sent, a->scope == SCOPE_INTERNET ? "no_snat" : "service_unbound",
                 w);
            return;
        }
    }
    drop(w, "peer_limit");
}

static bool is_denied(const struct probe_node *n, const struct vxlan_packet *p)
{
    const struct lookup_flow flow = { p->src, p->dst, p->sport, p->dport };
    struct entry rule;

    return lookup_acl(n->tables, p->vni, &flow, &rule) && rule.acl.action == ACL_DENY;
}

void probe_expect(const struct probe_node *n, struct probe *p)
{
    const struct vxlan_packet *sent = &p->sent;
    struct probe_want *w = &p->want;

    memset(w, 0, sizeof(*w));
    w->packet = *sent;
    if (!device_config_takes_from(n->config, &sent->outer_src)) {
        drop(w, "source_check");
    } else if (!table_set_rows(n->tables, sent->vni, TABLE_VNI)) {
        drop(w, "unknown_vni");
    } else if (!lookup_is_routable(&sent->dst)) {
        drop(w, "inner_not_unicast");
    } else if (is_denied(n, sent)) { /* only XGW-H has rules */
        drop(w, "acl_deny");
    } else if (is_h(n) && sent->dst.family == IP_V6 &&
               memcmp(sent->dst.b, mapped, sizeof(mapped)) == 0) {
        fall_back(n, sent, w); /* where it has its IPv4 routes */
    } else {
        follow_routes(n, sent, w);
    }
}
