#include "agent/driver/memory_probe.h"

#include <stdio.h>
#include <string.h>

#include "proto/model/vxlan_packet.h"

#define LOOKUPS_MAX 4

struct walk {
    const struct memory_probe_view *view;
    const struct vxlan_packet *in;
    struct vxlan_packet out;
    const char *reason; /* of a drop; null: forwarded */
};

static void drop(struct walk *w, const char *reason)
{
    w->reason = reason;
}

static bool is_h(const struct walk *w)
{
    uint8_t kind = w->view->config->kind;

    return kind == DEVICE_SOFT_H || kind == DEVICE_TOFINO || kind == DEVICE_BMV2;
}

/* ---- look-ups, by going through the rows ---- */

/* The longest route that covers the destination. */
static bool find_route(const struct walk *w, uint32_t vni, struct entry *ret)
{
    struct rows_iter it = rows_begin(
        table_set_rows(w->view->tables, vni, TABLE_VXLAN_ROUTE), TABLE_VXLAN_ROUTE);
    struct entry e;
    struct row row;
    int best = -1;

    while (rows_next(&it, &row)) {
        if (!entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, &e, NULL) &&
            prefix_contains(&e.route.dst, &w->in->dst) && e.route.dst.len > best) {
            best = e.route.dst.len;
            *ret = e;
        }
    }
    return best >= 0;
}

static bool find_vm(const struct walk *w, uint32_t vni, struct entry *ret)
{
    struct rows_iter it =
        rows_begin(table_set_rows(w->view->tables, vni, TABLE_VM_NC), TABLE_VM_NC);
    struct row row;

    while (rows_next(&it, &row)) {
        if (!entry_unpack(TABLE_VM_NC, vni, &row, ret, NULL) &&
            ip_compare(&ret->vm_nc.vm, &w->in->dst) == 0) {
            return true;
        }
    }
    return false;
}

static bool rule_matches(const struct acl_match *m, const struct vxlan_packet *p)
{
    return prefix_contains(&m->src, &p->src) && prefix_contains(&m->dst, &p->dst) &&
           (!m->has_proto || m->proto == IP_PROTO_UDP) && m->sport.first <= p->sport &&
           p->sport <= m->sport.last && m->dport.first <= p->dport &&
           p->dport <= m->dport.last;
}

/* The strongest rule that matches; of equal ones a deny. */
static bool is_denied(const struct walk *w)
{
    uint32_t vni = w->in->vni;
    struct rows_iter it =
        rows_begin(table_set_rows(w->view->tables, vni, TABLE_ACL), TABLE_ACL);
    unsigned best = 0;
    bool denied = false;
    struct entry e;
    struct row row;

    while (rows_next(&it, &row)) {
        if (entry_unpack(TABLE_ACL, vni, &row, &e, NULL) ||
            !rule_matches(&e.acl.match, w->in) || e.acl.priority < best) {
            continue;
        }
        denied = e.acl.action == ACL_DENY || (denied && e.acl.priority == best);
        best = e.acl.priority;
    }
    return denied;
}

/* ---- ways out ---- */

/* XGW-H hands on what it cannot answer; XGW-x86 drops it. */
static void miss(struct walk *w, const char *reason)
{
    const struct device_config *c = w->view->config;

    if (!is_h(w)) {
        drop(w, reason);
        return;
    }
    w->out = *w->in;
    w->out.outer_ttl--;
    for (unsigned i = 0; i < c->fallback_member_count; i++) {
        const struct ip *to = w->in->outer_dst.family == IP_V4
                                  ? &c->fallback_members[i].v4
                                  : &c->fallback_members[i].v6;

        if (to->family != IP_NONE) {
            w->out.outer_dst = *to;
            return;
        }
    }
    drop(w, "fallback_no_member");
}

static void send_to(struct walk *w, const struct ip *to, uint32_t vni, bool leaves)
{
    const struct device_config *c = w->view->config;
    const struct ip *vip = to->family == IP_V4 ? &c->vip_v4 : &c->vip_v6;
    bool is_same = to->family == w->in->outer_dst.family;

    if (is_h(w) && !is_same) {
        miss(w, "");
        return;
    }
    if (vip->family == IP_NONE) {
        drop(w, "no_vip");
        return;
    }
    w->out.outer_src = *vip;
    w->out.outer_dst = *to;
    w->out.outer_ttl--;
    w->out.vni = vni;
    if (leaves || vni != w->in->vni) {
        w->out.ttl--;
    }
    if (!is_same) {
        w->out.has_outer_csum = to->family == IP_V6 && !c->udp6_zero_csum;
    }
}

static void to_vm(struct walk *w, uint32_t vni)
{
    struct entry vm;

    if (!find_vm(w, vni, &vm)) {
        miss(w, "vm_nc_miss");
        return;
    }
    if (vm.vm_nc.has_mac) {
        memcpy(w->out.inner_dst_mac, vm.vm_nc.mac, 6);
    }
    send_to(w, &vm.vm_nc.nc, vni, false);
}

static void route(struct walk *w)
{
    uint32_t vni = w->in->vni;
    struct entry e;

    for (int i = 0; i < LOOKUPS_MAX; i++) {
        const struct route_action *a = &e.route.action;

        if (!find_route(w, vni, &e)) {
            miss(w, "route_miss");
            return;
        }
        switch (a->scope) {
        case SCOPE_PEER:
            vni = a->vni;
            break;
        case SCOPE_LOCAL:
            to_vm(w, vni);
            return;
        case SCOPE_IDC:
        case SCOPE_REGION:
        case SCOPE_DERIVED:
            send_to(w, &a->endpoint, a->vni, true);
            return;
        case SCOPE_INTERNET:
            miss(w, "no_snat");
            return;
        default:
            miss(w, "service_unbound");
            return;
        }
    }
    drop(w, "peer_limit");
}

/* ---- checks before ---- */

static bool is_ours(const struct device_config *c, const struct ip *dst)
{
    return ip_compare(dst, &c->vtep_v4) == 0 || ip_compare(dst, &c->vtep_v6) == 0 ||
           ip_compare(dst, &c->vip_v4) == 0 || ip_compare(dst, &c->vip_v6) == 0 ||
           ip_compare(dst, &c->fallback_v4) == 0 ||
           ip_compare(dst, &c->fallback_v6) == 0;
}

static void check(struct walk *w)
{
    const struct memory_probe_view *v = w->view;

    if (!is_ours(v->config, &w->in->outer_dst)) {
        drop(w, "not_our_address");
    } else if (w->in->outer_ttl < 2) {
        drop(w, "outer_ttl");
    } else if (!device_config_takes_from(v->config, &w->in->outer_src)) {
        drop(w, "source_check");
    } else if (!table_set_rows(v->tables, w->in->vni, TABLE_VNI)) {
        drop(w, "unknown_vni");
    } else if (is_denied(w)) {
        drop(w, "acl_deny");
    } else {
        route(w);
    }
}

void memory_probe(const struct memory_probe_view *view, const struct blob *frame,
                  struct probe_result *ret)
{
    struct vxlan_packet in;
    struct walk w = { .view = view, .in = &in };
    uint8_t bytes[VXLAN_PACKET_MAX];

    memset(ret, 0, sizeof(*ret));
    if (!view->is_ready || !view->config) {
        ret->rc = RC_UNREACHABLE;
        snprintf(ret->error, sizeof(ret->error), "not ready: nothing is forwarded yet");
        return;
    }
    ret->outcome = PROBE_DROPPED;
    if (vxlan_packet_parse(frame->data, frame->len, &in, NULL)) {
        drop(&w, "inner_not_ip");
    } else {
        w.out = in;
        check(&w);
    }
    if (w.reason) {
        snprintf(ret->reason, sizeof(ret->reason), "%s", w.reason);
        return;
    }
    ret->frame = blob_copy(bytes, vxlan_packet_build(&w.out, bytes));
    ret->outcome = ret->frame ? PROBE_FORWARDED : 0;
    ret->rc = ret->frame ? RC_OK : RC_NO_MEMORY;
}

void memory_probe_spoil(struct probe_result *r)
{
    struct vxlan_packet p;
    uint8_t bytes[VXLAN_PACKET_MAX];
    struct blob *other;

    if (vxlan_packet_parse(r->frame->data, r->frame->len, &p, NULL)) {
        return; /* it wrote it itself */
    }
    p.vni ^= 1;
    other = blob_copy(bytes, vxlan_packet_build(&p, bytes));
    if (other) {
        blob_unref(r->frame);
        r->frame = other;
    }
}
