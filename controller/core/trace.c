/* trace: what the committed entries make of a packet, hop by hop.  Reasons are those
 * of tests/reference/README.md, which the data plane counts. */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define LOOKUPS_MAX 4 /* on one node (FIB_LOOKUPS_MAX in agent/fwd/fib.h) */

struct trace {
    const struct core *c;
    struct trace_hop *hops;
    uint32_t count;
    const struct ip *dst;
};

static struct trace_hop *hop_add(struct trace *t, enum trace_kind kind, uint32_t vni,
                                 const struct group *g)
{
    struct trace_hop *hop = &t->hops[t->count++];

    memset(hop, 0, sizeof(*hop));
    hop->kind = kind;
    hop->vni = vni;
    if (g) {
        memcpy(hop->cluster, g->name, sizeof(hop->cluster));
    }
    return hop;
}

static void drop(struct trace *t, uint32_t vni, const struct group *g,
                 const char *reason, const char *note)
{
    struct trace_hop *hop = hop_add(t, TRACE_DROP, vni, g);

    snprintf(hop->reason, sizeof(hop->reason), "%s", reason);
    snprintf(hop->note, sizeof(hop->note), "%s", note);
}

/* What can be no destination of a packet: check 32 of the reference. */
static bool is_routable(const struct ip *ip)
{
    static const uint8_t zero[15];

    if (ip->family == IP_V4) {
        return ip->b[0] != 0 && ip->b[0] != 127 && ip->b[0] < 224;
    }
    if (ip->b[0] == 0xff || (ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80)) {
        return false;
    }
    return memcmp(ip->b, zero, 15) != 0 || ip->b[15] > 1;
}

static bool find_route(const struct core *c, uint32_t vni, const struct ip *dst,
                       struct entry *ret)
{
    const struct rows *rows = committed_rows(c, vni, TABLE_VXLAN_ROUTE);
    struct err err;

    for (int len = dst->family == IP_V4 ? 32 : 128; rows && len >= 0; len--) {
        struct entry e = { .table = TABLE_VXLAN_ROUTE,
                           .vni = vni,
                           .route.dst = { *dst, (uint8_t)len } };
        struct buf key = BUF_INIT;
        struct row row;
        bool found;

        prefix_mask(&e.route.dst);
        entry_pack_key(&e, &key);
        found = !buf_failed(&key) &&
                rows_find(rows, TABLE_VXLAN_ROUTE, key.data, (uint8_t)key.len, &row);
        found = found && !entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, ret, &err);
        buf_fini(&key);
        if (found) {
            return true;
        }
    }
    return false;
}

static bool find_vm(const struct core *c, uint32_t vni, const struct ip *dst,
                    struct entry *ret)
{
    const struct rows *rows = committed_rows(c, vni, TABLE_VM_NC);
    struct entry e = { .table = TABLE_VM_NC, .vni = vni, .vm_nc.vm = *dst };
    struct buf key = BUF_INIT;
    struct err err;
    struct row row;
    bool found;

    entry_pack_key(&e, &key);
    found = !buf_failed(&key) &&
            rows_find(rows, TABLE_VM_NC, key.data, (uint8_t)key.len, &row) &&
            !entry_unpack(TABLE_VM_NC, vni, &row, ret, &err);
    buf_fini(&key);
    return found;
}

static void forward(struct trace *t, uint32_t vni, const struct group *g,
                    const struct ip *to, uint32_t out_vni, const char *what)
{
    const struct cluster *cluster = objects_cluster(&t->c->objects, g->name);
    const struct ip *vip = to->family == IP_V4 ? &cluster->vip_v4 : &cluster->vip_v6;
    struct trace_hop *hop;
    char dst[IP_TEXT_MAX];
    char src[IP_TEXT_MAX];

    if (vip->family == IP_NONE) {
        drop(t, vni, g, "no_vip", "the cluster has no VIP of the outer family");
        return;
    }
    hop = hop_add(t, TRACE_FORWARD, out_vni, g);
    hop->outer_dst = *to;
    ip_print(to, dst);
    ip_print(vip, src);
    snprintf(hop->note, sizeof(hop->note), "to %s %s with vni %u, from %s", what, dst,
             out_vni, src);
}

static void to_vm(struct trace *t, uint32_t vni, const struct group *g)
{
    struct trace_hop *hop;
    struct entry vm;
    char nc[IP_TEXT_MAX];

    if (!find_vm(t->c, vni, t->dst, &vm)) {
        drop(t, vni, g, "vm_nc_miss", "the route is local, and no VM has this address");
        return;
    }
    hop = hop_add(t, TRACE_VM_NC, vni, g);
    hop->entry = vm;
    ip_print(&vm.vm_nc.nc, nc);
    snprintf(hop->note, sizeof(hop->note), "the VM is on NC %s", nc);
    forward(t, vni, g, &vm.vm_nc.nc, vni, "NC");
}

static void note_route(struct trace *t, struct trace_hop *hop, const struct group *g,
                       const struct group *home)
{
    const struct route_action *a = &hop->entry.route.action;
    char prefix[PREFIX_TEXT_MAX];

    (void)t;
    prefix_print(&hop->entry.route.dst, prefix);
    if (a->scope == SCOPE_PEER && home && home != g) {
        snprintf(hop->note, sizeof(hop->note),
                 "%s is peered with vni %u, whose home is cluster %s: sent to its VIP",
                 prefix, a->vni, home->name);
    } else if (a->scope == SCOPE_PEER) {
        snprintf(hop->note, sizeof(hop->note),
                 "%s is peered with vni %u: looked up there", prefix, a->vni);
    } else {
        snprintf(hop->note, sizeof(hop->note), "%s is the longest match: %s", prefix,
                 scope_name(a->scope));
    }
}

/* One lookup.  Returns the VNI to look up next, 0 at the end. */
static uint32_t look_up(struct trace *t, uint32_t vni, struct group **g)
{
    struct group *home;
    struct trace_hop *hop;
    struct entry route;

    if (!find_route(t->c, vni, t->dst, &route)) {
        drop(t, vni, *g, "route_miss", "no route of this vni covers the destination");
        return 0;
    }
    hop = hop_add(t, TRACE_ROUTE, vni, *g);
    hop->entry = route;
    home = route.route.action.scope == SCOPE_PEER
               ? group_of_vni(t->c, route.route.action.vni)
               : NULL;
    note_route(t, hop, *g, home);
    switch (route.route.action.scope) {
    case SCOPE_LOCAL:
        to_vm(t, vni, *g);
        return 0;
    case SCOPE_PEER:
        *g = home;
        return route.route.action.vni;
    case SCOPE_INTERNET:
        drop(t, vni, *g, "no_snat", "the tenant has no public addresses");
        return 0;
    case SCOPE_SERVICE:
        drop(t, vni, *g, "service_unbound", "no function is bound to the service");
        return 0;
    default:
        forward(t, vni, *g, &route.route.action.endpoint, route.route.action.vni,
                scope_name(route.route.action.scope));
        return 0;
    }
}

uint32_t core_trace(const struct core *c, uint32_t vni, const struct ip *dst,
                    struct trace_hop ret[TRACE_HOPS_MAX])
{
    struct trace t = { .c = c, .hops = ret, .dst = dst };
    struct rows *tenant =
        vni >= VNI_MIN && vni <= VNI_MAX ? committed_rows(c, vni, TABLE_TENANT) : NULL;
    struct group *g = tenant ? group_of_vni(c, vni) : NULL;
    struct rows_iter it = rows_begin(tenant, TABLE_TENANT);
    struct trace_hop *hop;
    struct row row;
    struct err err;

    if (!g || !rows_next(&it, &row)) {
        drop(&t, vni, NULL, "unknown_vni", "no tenant has this vni");
        return t.count;
    }
    hop = hop_add(&t, TRACE_TENANT, vni, g);
    entry_unpack(TABLE_TENANT, vni, &row, &hop->entry, &err);
    snprintf(hop->note, sizeof(hop->note), "tenant '%s', home cluster %s",
             hop->entry.tenant.name, g->name);
    if (!is_routable(dst)) {
        drop(&t, vni, g, "inner_not_unicast", "the destination is no unicast address");
        return t.count;
    }
    for (int lookups = 0; vni; lookups++) {
        if (lookups == LOOKUPS_MAX) {
            drop(&t, vni, g, "peer_limit", "more than 3 peers in a row");
            break;
        }
        vni = look_up(&t, vni, &g);
    }
    return t.count;
}
