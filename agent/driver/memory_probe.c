#include "agent/driver/memory_probe.h"

#include <stdio.h>
#include <string.h>

#include "agent/driver/memory_frame.h"
#include "proto/model/vxlan_packet.h"

#define LOOKUPS_MAX 4

struct walk {
    const struct memory_probe_view *view;
    const struct memory_frame *frame;
    const struct vxlan_packet *in; /* of the frame */
    struct vxlan_packet out;
    bool is_fallback;
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

static bool rule_matches(const struct acl_match *m, const struct memory_frame *f)
{
    const struct vxlan_packet *p = &f->packet;
    bool names_ports = m->sport.first > 0 || m->sport.last < UINT16_MAX ||
                       m->dport.first > 0 || m->dport.last < UINT16_MAX;

    if (!prefix_contains(&m->src, &p->src) || !prefix_contains(&m->dst, &p->dst) ||
        (m->has_proto && m->proto != f->proto)) {
        return false;
    }
    return !names_ports ||
           (f->has_ports && m->sport.first <= p->sport && p->sport <= m->sport.last &&
            m->dport.first <= p->dport && p->dport <= m->dport.last);
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
            !rule_matches(&e.acl.match, w->frame) || e.acl.priority < best) {
            continue;
        }
        denied = e.acl.action == ACL_DENY || (denied && e.acl.priority == best);
        best = e.acl.priority;
    }
    return denied;
}

/* ---- ways out ---- */

/* A node that knows of no links sends as if it had some. */
static bool has_uplink(const struct device_config *c, uint8_t family)
{
    for (unsigned i = 0; i < c->uplink_count; i++) {
        const struct uplink *u = &c->uplinks[i];

        if ((family == IP_V4 ? u->addr_v4.family : u->addr_v6.family) != IP_NONE) {
            return true;
        }
    }
    return c->uplink_count == 0;
}

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
    w->is_fallback = true;
    for (unsigned i = 0; i < c->fallback_member_count; i++) {
        const struct ip *to = w->in->outer_dst.family == IP_V4
                                  ? &c->fallback_members[i].v4
                                  : &c->fallback_members[i].v6;

        if (to->family != IP_NONE) {
            w->out.outer_dst = *to;
            if (!has_uplink(c, to->family)) {
                drop(w, "no_uplink");
            }
            return;
        }
    }
    drop(w, "fallback_no_member");
}

/* The links of the family take no IP packet of this size. */
static bool is_too_big(const struct walk *w)
{
    const struct device_config *c = w->view->config;
    uint8_t family = w->out.outer_dst.family;
    size_t size =
        vxlan_packet_inner_at(&w->out) - VXLAN_PACKET_IP + w->frame->inner_len;

    for (unsigned i = 0; i < c->uplink_count; i++) {
        const struct uplink *u = &c->uplinks[i];

        if ((family == IP_V4 ? u->addr_v4.family : u->addr_v6.family) != IP_NONE &&
            size <= u->mtu) {
            return false;
        }
    }
    return c->uplink_count > 0;
}

static void send_to(struct walk *w, const struct ip *to, uint32_t vni, bool leaves)
{
    const struct device_config *c = w->view->config;
    const struct ip *vip = to->family == IP_V4 ? &c->vip_v4 : &c->vip_v6;
    bool is_same = to->family == w->in->outer_dst.family;
    bool counts_hop = leaves || vni != w->in->vni;

    if ((is_h(w) && !is_same) || (counts_hop && w->in->ttl < 2)) {
        miss(w, "inner_ttl");
        return;
    }
    if (is_h(w) && !has_uplink(c, to->family)) { /* its tables are in this order */
        drop(w, "no_uplink");
        return;
    }
    if (vip->family == IP_NONE || !has_uplink(c, to->family)) {
        drop(w, vip->family == IP_NONE ? "no_vip" : "no_uplink");
        return;
    }
    w->out.outer_src = *vip;
    w->out.outer_dst = *to;
    w->out.outer_ttl--;
    w->out.vni = vni;
    w->out.ttl -= counts_hop;
    if (!is_same) {
        w->out.has_outer_csum = to->family == IP_V6 && !c->udp6_zero_csum;
    }
    if (is_too_big(w)) {
        miss(w, "mtu");
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

/* ---- all together ---- */

static uint8_t flags_of(const struct walk *w)
{
    struct rows_iter it =
        rows_begin(table_set_rows(w->view->tables, w->in->vni, TABLE_VNI), TABLE_VNI);
    struct entry e;
    struct row row;

    return rows_next(&it, &row) && !entry_unpack(TABLE_VNI, w->in->vni, &row, &e, NULL)
               ? e.vni_row.flags
               : 0;
}

/* ::ffff:0:0/96, where XGW-H has its IPv4 routes. */
static bool is_mapped(const struct ip *ip)
{
    static const uint8_t first[12] = { [10] = 0xff, [11] = 0xff };

    return ip->family == IP_V6 && memcmp(ip->b, first, sizeof(first)) == 0;
}

static void decide(struct walk *w)
{
    const struct memory_frame *f = w->frame;

    if ((is_h(w) && f->hides_ports && (flags_of(w) & VNI_ACL)) || is_denied(w)) {
        drop(w, "acl_deny");
    } else if (is_h(w) && (f->has_tags || f->hides_ports || is_mapped(&w->in->dst))) {
        miss(w, "");
    } else {
        route(w);
    }
}

/* What came of it, as the device tells it. */
static void tell(const struct walk *w, struct probe_result *ret)
{
    uint8_t bytes[PROBE_FRAME_MAX];
    size_t len;

    if (w->reason) {
        ret->outcome = PROBE_DROPPED;
        snprintf(ret->reason, sizeof(ret->reason), "%s", w->reason);
        return;
    }
    if (w->frame->is_kept) {
        ret->outcome = PROBE_KEPT;
        return;
    }
    len = memory_frame_write(w->frame, &w->out, w->is_fallback, bytes);
    ret->frame = len > 0 ? blob_copy(bytes, len) : NULL;
    ret->outcome = ret->frame ? PROBE_FORWARDED : 0;
    ret->rc = ret->frame ? RC_OK : RC_NO_MEMORY;
}

void memory_probe(const struct memory_probe_view *view, const struct blob *frame,
                  struct probe_result *ret)
{
    const struct memory_node node = { view->tables, view->config };
    struct memory_frame in;
    struct walk w = { .view = view, .frame = &in, .in = &in.packet };

    memset(ret, 0, sizeof(*ret));
    if (!view->is_ready || !view->config) {
        ret->rc = RC_UNREACHABLE;
        snprintf(ret->error, sizeof(ret->error), "not ready: nothing is forwarded yet");
        return;
    }
    w.reason = memory_frame_read(&node, frame->data, frame->len, &in);
    if (!w.reason && !in.is_kept) {
        w.out = in.packet;
        decide(&w);
    }
    tell(&w, ret);
}

void memory_probe_spoil(struct probe_result *r)
{
    uint8_t bytes[PROBE_FRAME_MAX];
    bool is_v4 = r->frame->len > VXLAN_PACKET_IP && r->frame->data[12] == 0x08;
    size_t at = VXLAN_PACKET_IP + (is_v4 ? 20 : 40) + 8 + 6; /* the VNI's last byte */
    size_t len = r->frame->len;
    struct vxlan_packet p;
    struct blob *other;

    if (len <= at || len > sizeof(bytes)) {
        return; /* it wrote it itself */
    }
    if (vxlan_packet_parse(r->frame->data, len, &p, NULL) == RC_OK) {
        p.vni ^= 1;
        len = vxlan_packet_build(&p, bytes);
    } else { /* a checksum is not mended: it is another packet as it is */
        memcpy(bytes, r->frame->data, len);
        bytes[at] ^= 1;
    }
    other = blob_copy(bytes, len);
    if (other) {
        blob_unref(r->frame);
        r->frame = other;
    }
}
