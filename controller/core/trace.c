/* trace: what the committed entries make of a packet, hop by hop.  Reasons are those
 * of tests/reference/README.md, which the data plane counts. */
#include "controller/core/core_internal.h"

#include "controller/probe/lookup.h"

#include <stdio.h>

#define LOOKUPS_MAX 4 /* on one node (FIB_LOOKUPS_MAX in agent/fwd/fib.h) */

struct trace {
    const struct core *c;
    struct trace_hop *hops;
    uint32_t count;
    const struct ip *dst;
    struct trace_packet came; /* XGW-H passes it on to XGW-x86 as it is */
};

static struct trace_hop *hop_add(struct trace *t, enum trace_kind kind, uint32_t vni,
                                 const struct group *g)
{
    struct trace_hop *hop = &t->hops[t->count++];

    memset(hop, 0, sizeof(*hop));
    hop->kind = kind;
    hop->vni = vni;
    hop->came = t->came;
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
    hop->is_verdict = g != NULL;
}

/* Where the walk goes on. */
struct next {
    uint32_t vni;    /* 0: it is over */
    struct group *g; /* looked up there */
    bool anew;       /* another node: its lookups count from the start */
};

static const struct next over;

/* XGW-H has no answer: XGW-x86 starts over with the arriving VNI.  On XGW-x86 itself
 * the packet is dropped. */
static struct next fall_back(struct trace *t, uint32_t vni, struct group *g,
                             const char *reason, const char *why)
{
    struct trace_hop *hop;
    struct homes homes;

    if (g->kind != GROUP_H) {
        drop(t, vni, g, reason, why);
        return over;
    }
    homes = homes_of_vni(t->c, t->came.vni);
    hop = hop_add(t, TRACE_FALLBACK, vni, g);
    hop->is_verdict = true;
    t->came.is_fallback = true;
    snprintf(hop->note, sizeof(hop->note),
             "%s: metered as %s and sent to a node of cluster %s with vni %u", why,
             strcmp(reason, "service") == 0 ? "service" : "miss",
             homes.of[GROUP_X86]->name, t->came.vni);
    return (struct next){ t->came.vni, homes.of[GROUP_X86], true };
}

/* Whether XGW-H would have to change the underlay's family, which the chip cannot: it
 * cannot compute the checksum that this needs.  Then `*ret` is where it goes on. */
static bool is_other_family(struct trace *t, uint32_t vni, struct group *g,
                            const struct ip *to, const char *what, struct next *ret)
{
    char why[80];

    if (g->kind != GROUP_H || to->family == t->came.underlay) {
        return false;
    }
    snprintf(why, sizeof(why), "the packet came over IPv%c, the %s needs IPv%c",
             t->came.underlay == IP_V4 ? '4' : '6', what,
             to->family == IP_V4 ? '4' : '6');
    *ret = fall_back(t, vni, g, "underlay", why);
    return true;
}

/* Where packets of the group's nodes come from; of IP_NONE without one. */
static const struct ip *vip_of(const struct trace *t, const struct group *g,
                               uint8_t family)
{
    const struct cluster *cluster = objects_cluster(&t->c->objects, g->name);

    return family == IP_V4 ? &cluster->vip_v4 : &cluster->vip_v6;
}

/* To an NC or a tunnel's end. */
static struct next forward(struct trace *t, uint32_t vni, struct group *g,
                           const struct ip *to, uint32_t out_vni, const char *what)
{
    const struct ip *vip = vip_of(t, g, to->family);
    struct trace_hop *hop;
    char dst[IP_TEXT_MAX];
    char src[IP_TEXT_MAX];
    struct next next;

    if (is_other_family(t, vni, g, to, what, &next)) {
        return next;
    }
    if (vip->family == IP_NONE) {
        drop(t, vni, g, "no_vip", "the cluster has no VIP of the outer family");
        return over;
    }
    hop = hop_add(t, TRACE_FORWARD, out_vni, g);
    hop->outer_dst = *to;
    hop->is_verdict = true;
    ip_print(to, dst);
    ip_print(vip, src);
    snprintf(hop->note, sizeof(hop->note), "to %s %s with vni %u, from %s", what, dst,
             out_vni, src);
    return over;
}

static struct next to_vm(struct trace *t, uint32_t vni, struct group *g)
{
    struct trace_hop *hop;
    struct entry vm;
    char nc[IP_TEXT_MAX];

    if (!lookup_vm(g->desired, vni, t->dst, &vm)) {
        return fall_back(t, vni, g, "vm_nc_miss",
                         g->kind == GROUP_H
                             ? "no VM-NC entry here"
                             : "the route is local, and no VM has this address");
    }
    hop = hop_add(t, TRACE_VM_NC, vni, g);
    hop->entry = vm;
    ip_print(&vm.vm_nc.nc, nc);
    snprintf(hop->note, sizeof(hop->note), "the VM is on NC %s", nc);
    return forward(t, vni, g, &vm.vm_nc.nc, vni, "NC");
}

/* To the VIP of the cluster where a peer is at home: its nodes begin anew. */
static struct next to_home(struct trace *t, struct trace_hop *hop, struct group *g,
                           struct group *home)
{
    const struct route_action *a = &hop->entry.route.action;
    const struct ip *vip = vip_of(t, g, a->endpoint.family);
    char note[sizeof(hop->note)];
    char from[IP_TEXT_MAX];
    struct next next;

    if (is_other_family(t, hop->vni, g, &a->endpoint, "VIP", &next)) {
        return next;
    }
    if (vip->family == IP_NONE) {
        drop(t, hop->vni, g, "no_vip", "the cluster has no VIP of the outer family");
        return over;
    }
    hop->is_verdict = true;
    t->came = (struct trace_packet){ a->vni, a->endpoint.family, *vip, false };
    if (!region_takes_from(&t->c->objects.region, vip)) {
        ip_print(vip, from);
        snprintf(note, sizeof(note),
                 "it comes from %s, which is in none of the region's underlay sources",
                 from);
        drop(t, a->vni, home, "source_check", note);
        return over;
    }
    return (struct next){ a->vni, home, true };
}

/* A derived peer leads to that tenant's steering group. */
static struct next to_peer(struct trace *t, struct trace_hop *hop, struct group *g)
{
    const struct route_action *a = &hop->entry.route.action;
    struct homes homes = homes_of_vni(t->c, a->vni);
    struct group *home = a->scope == SCOPE_PEER ? g : homes_steering(&homes);
    char prefix[PREFIX_TEXT_MAX];

    prefix_print(&hop->entry.route.dst, prefix);
    if (!home) { /* groups follow what was committed (jobs.c) */
        drop(t, a->vni, NULL, "no_tenant",
             "the tenant was deleted just now, and this route is about to go");
        return over;
    }
    if (a->scope == SCOPE_DERIVED) {
        snprintf(hop->note, sizeof(hop->note),
                 "%s is peered with vni %u, whose home is cluster %s: sent to its VIP",
                 prefix, a->vni, home->name);
        return to_home(t, hop, g, home);
    }
    snprintf(hop->note, sizeof(hop->note), "%s is peered with vni %u: looked up there",
             prefix, a->vni);
    return (struct next){ a->vni, home, false };
}

static struct next to_service(struct trace *t, uint32_t vni, struct group *g,
                              uint8_t scope)
{
    if (g->kind == GROUP_H) {
        return fall_back(t, vni, g, "service",
                         scope == SCOPE_FALLBACK
                             ? "this route is answered by XGW-x86 alone"
                             : "XGW-x86 answers routes of this scope");
    }
    if (scope == SCOPE_INTERNET) {
        drop(t, vni, g, "no_snat", "the tenant has no public addresses");
    } else {
        drop(t, vni, g, "service_unbound", "no function is bound to the service");
    }
    return over;
}

/* One lookup. */
static struct next look_up(struct trace *t, uint32_t vni, struct group *g)
{
    struct trace_hop *hop;
    struct entry route;
    char prefix[PREFIX_TEXT_MAX];
    uint8_t scope;

    if (!lookup_route(g->desired, vni, t->dst, &route)) {
        return fall_back(t, vni, g, "route_miss",
                         g->kind == GROUP_H
                             ? "no resident route covers the destination"
                             : "no route of this vni covers the destination");
    }
    hop = hop_add(t, TRACE_ROUTE, vni, g);
    hop->entry = route;
    scope = route.route.action.scope;
    if (scope == SCOPE_PEER || scope == SCOPE_DERIVED) {
        return to_peer(t, hop, g);
    }
    prefix_print(&route.route.dst, prefix);
    snprintf(hop->note, sizeof(hop->note), "%s is the longest match: %s", prefix,
             scope_name(scope));
    switch (scope) {
    case SCOPE_LOCAL:
        return to_vm(t, vni, g);
    case SCOPE_IDC:
    case SCOPE_REGION:
        return forward(t, vni, g, &route.route.action.endpoint, route.route.action.vni,
                       scope_name(scope));
    default:
        return to_service(t, vni, g, scope);
    }
}

static void walk(struct trace *t, uint32_t vni, struct group *g)
{
    int lookups = 0;

    while (vni) {
        struct next next;

        if (lookups++ == LOOKUPS_MAX || t->count + 3 > TRACE_HOPS_MAX) {
            drop(t, vni, g, "peer_limit", "more than 3 peers in a row");
            return;
        }
        next = look_up(t, vni, g);
        lookups = next.anew ? 0 : lookups;
        vni = next.vni;
        g = next.g;
    }
}

/* Where steering sends a tenant's packets: the cluster's VIP, of IPv4 if it has both.
 */
static uint8_t family_of_vip(const struct core *c, const struct group *g)
{
    const struct cluster *cluster = objects_cluster(&c->objects, g->name);

    return cluster->vip_v4.family != IP_NONE ? IP_V4 : IP_V6;
}

uint32_t core_trace(const struct core *c, uint32_t vni, const struct ip *dst,
                    uint8_t underlay, struct trace_hop ret[TRACE_HOPS_MAX])
{
    struct trace t = {
        .c = c, .hops = ret, .dst = dst, .came = { vni, underlay, { 0 }, false }
    };
    struct rows *tenant =
        vni >= VNI_MIN && vni <= VNI_MAX ? committed_rows(c, vni, TABLE_TENANT) : NULL;
    struct homes homes = homes_of_tenant(c, tenant);
    struct group *g = homes_steering(&homes);
    struct rows_iter it = rows_begin(tenant, TABLE_TENANT);
    struct trace_hop *hop;
    struct row row;
    struct err err;

    if (!g || !rows_next(&it, &row)) {
        drop(&t, vni, NULL, "unknown_vni", "no tenant has this vni");
        return t.count;
    }
    t.came.underlay = underlay != IP_NONE ? underlay : family_of_vip(c, g);
    hop = hop_add(&t, TRACE_TENANT, vni, g);
    entry_unpack(TABLE_TENANT, vni, &row, &hop->entry, &err);
    snprintf(hop->note, sizeof(hop->note),
             "tenant '%s', home cluster %s%s, over IPv%c of the underlay",
             hop->entry.tenant.name, g->name,
             c->objects.region.steering == STEERING_LB ? " behind load balancers" : "",
             t.came.underlay == IP_V4 ? '4' : '6');
    if (!lookup_is_routable(dst)) {
        drop(&t, vni, g, "inner_not_unicast", "the destination is no unicast address");
        return t.count;
    }
    walk(&t, vni, g);
    return t.count;
}
