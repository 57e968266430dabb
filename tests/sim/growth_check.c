/* growth_check: what must hold, always. */
#include "tests/sim/growth.h"

#include <stdio.h>
#include <string.h>

static const struct placement_cluster *placed(const struct growth *g, unsigned cluster,
                                              struct usage *ret)
{
    uint32_t id = core_place_of(g->core, g->clusters[cluster].name);

    placement_usage(core_placement(g->core), id, ret);
    return placement_cluster_at(core_placement(g->core), id);
}

static unsigned kind_of(const struct growth_cluster *k)
{
    return k->is_h ? CLUSTER_XGW_H : CLUSTER_X86;
}

/* No table above the critical level. */
void check_levels(struct growth *g)
{
    for (unsigned i = 0; i < g->cluster_count && !g->failure[0]; i++) {
        uint32_t critical =
            health_marks(core_health(g->core), kind_of(&g->clusters[i])).critical_bp;
        const struct placement_cluster *x;
        struct usage use;

        if (core_place_of(g->core, g->clusters[i].name) == PLACEMENT_NONE) {
            continue; /* its command failed */
        }
        x = placed(g, i, &use);
        for (unsigned r = 0; r < x->set.count; r++) {
            for (unsigned half = 0; half < 2 && !x->set.is_shared_out[r]; half++) {
                if (use.amount[half][r] * 10000 > x->set.capacity[r] * critical) {
                    growth_fail(g, "%s: %s is above its critical level: %llu of %llu",
                                x->name, x->set.at[r].name,
                                (unsigned long long)use.amount[half][r],
                                (unsigned long long)x->set.capacity[r]);
                }
            }
        }
    }
}

/* Sale is closed exactly where a level says so, and levels are what is measured. */
static void check_sale(struct growth *g, unsigned cluster)
{
    const struct growth_cluster *k = &g->clusters[cluster];
    const struct health *h = core_health(g->core);
    struct level_marks m = health_marks(h, kind_of(k));
    const struct level_subject *s;
    const struct placement_cluster *x;
    char subject[SUBJECT_MAX + 1];
    bool is_closed = false;
    bool has_model = false;
    struct usage use;

    snprintf(subject, sizeof(subject), "cluster/%s", k->name);
    s = levels_find(health_levels(h), subject);
    for (uint32_t i = 0; s && i < s->count; i++) {
        const struct level *l = &s->levels[i];
        enum water least = water_next(&m, WATER_CLEAR, l->bp);

        has_model = has_model || strncmp(l->resource, "model.", 6) == 0;
        is_closed = is_closed || l->water >= WATER_SALE;
        if (l->water < least || l->water != water_next(&m, l->water, l->bp)) {
            growth_fail(g, "%s: %s is %s at %u bp", k->name, l->resource,
                        water_name(l->water), l->bp);
        }
    }
    x = placed(g, cluster, &use);
    if (!has_model) {
        growth_fail(g, "%s: nobody looks at its levels", k->name);
    } else if (health_is_on_sale(h, k->name) == is_closed || x->is_open == is_closed) {
        growth_fail(g, "%s: its sale is not what its levels say", k->name);
    }
}

static bool is_same_set(const struct table_set *a, const struct table_set *b)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        struct digest x =
            table_set_digest(a, (enum table_id)t, (struct tree_node){ 0 });
        struct digest y =
            table_set_digest(b, (enum table_id)t, (struct tree_node){ 0 });

        if (x.sum != y.sum || x.count != y.count) {
            return false;
        }
    }
    return true;
}

/* Each tenant's entries are at its homes, and nowhere else. */
static void check_cluster(struct growth *g, unsigned cluster)
{
    struct growth_cluster *k = &g->clusters[cluster];
    const struct table_set *set = core_group_desired(g->core, k->name);
    uint32_t tenants =
        placement_tenants(core_placement(g->core), core_place_of(g->core, k->name));

    k->seen = 0;
    for (uint32_t vni = table_set_next(set, VNI_MIN, ~0u); vni && !g->failure[0];
         vni = table_set_next(set, vni + 1, ~0u)) {
        uint32_t place = g->place_of[vni];
        struct growth_tenant *t = place ? &g->tenants[place - 1] : NULL;
        struct tenant_status status;

        k->seen++;
        if (!t || !t->is_alive || core_tenant(g->core, vni, &status)) {
            growth_fail(g, "%s holds vni %u, which is no tenant", k->name, vni);
        } else if (strcmp(k->is_h ? status.h_home : status.cluster, k->name) != 0) {
            growth_fail(g, "%s holds vni %u, whose home is %s", k->name, vni,
                        k->is_h ? status.h_home : status.cluster);
        } else if (t->seen[k->is_h]++ > 0) {
            growth_fail(g, "vni %u is on two clusters", vni);
        } else if (rows_count(table_set_rows(set, vni, TABLE_VM_NC)) != t->vms) {
            growth_fail(g, "%s: vni %u: %u VMs and not %u", k->name, vni,
                        rows_count(table_set_rows(set, vni, TABLE_VM_NC)), t->vms);
        }
    }
    if (!g->failure[0] && k->seen != tenants) {
        growth_fail(g, "%s: placement counts %u tenants of %u", k->name, tenants,
                    k->seen);
    }
}

/* A route to a peer leads to where the peer is: it is looked up here, or sent to the
 * VIP of the peer's XGW-H home. */
static void check_peer(struct growth *g, uint32_t place, bool on_h)
{
    uint32_t peer_vni = growth_vni(g->tenants[place].peer - 1);
    struct tenant_status mine;
    struct tenant_status peer;
    const struct cluster *steer;
    const char *here;
    struct rows_iter it;
    struct row row;
    bool found = false;

    if (core_tenant(g->core, growth_vni(place), &mine) ||
        core_tenant(g->core, peer_vni, &peer)) {
        growth_fail(g, "vni %u or its peer is gone", growth_vni(place));
        return;
    }
    here = on_h ? mine.h_home : mine.cluster;
    steer = core_cluster_find(g->core, peer.h_home);
    it = rows_begin(table_set_rows(core_group_desired(g->core, here), growth_vni(place),
                                   TABLE_VXLAN_ROUTE),
                    TABLE_VXLAN_ROUTE);
    while (rows_next(&it, &row)) {
        bool is_here = strcmp(on_h ? peer.h_home : peer.cluster, here) == 0;
        struct entry e;

        if (entry_unpack(TABLE_VXLAN_ROUTE, growth_vni(place), &row, &e, NULL) ||
            e.route.action.scope == SCOPE_LOCAL) {
            continue;
        }
        found = true;
        if (e.route.action.vni != peer_vni ||
            e.route.action.scope != (is_here ? SCOPE_PEER : SCOPE_DERIVED) ||
            (!is_here && ip_compare(&e.route.action.endpoint, &steer->vip_v4) != 0)) {
            growth_fail(g, "%s: the route of vni %u leads to where vni %u is not", here,
                        growth_vni(place), peer_vni);
        }
    }
    if (!found) {
        growth_fail(g, "%s: vni %u has no route to its peer", here, growth_vni(place));
    }
}

void check_week(struct growth *g)
{
    uint32_t on[2] = { 0, 0 };

    check_levels(g);
    for (uint32_t i = 0; i < g->tenant_count; i++) {
        g->tenants[i].seen[0] = g->tenants[i].seen[1] = 0;
    }
    for (unsigned i = 0; i < g->cluster_count && !g->failure[0]; i++) {
        check_cluster(g, i);
        check_sale(g, i);
        on[g->clusters[i].is_h] += g->clusters[i].seen;
    }
    for (unsigned i = 0; i < g->node_count && !g->failure[0]; i++) {
        const struct growth_node *n = &g->nodes[i];

        if (!is_same_set(memory_device_tables(n->device),
                         core_group_desired(g->core, g->clusters[n->cluster].name))) {
            growth_fail(g, "%s: in sync, and not equal to what is desired", n->name);
        }
    }
    if (!g->failure[0] && (on[0] != g->alive || on[1] != g->alive ||
                           core_count(g->core, TABLE_TENANT) != g->alive)) {
        growth_fail(g, "%u tenants live, and %u are on XGW-x86, %u on XGW-H", g->alive,
                    on[0], on[1]);
    }
    for (uint32_t i = 0; i < g->tenant_count && !g->failure[0]; i++) {
        if (g->tenants[i].is_alive && g->tenants[i].peer) {
            check_peer(g, i, false);
            check_peer(g, i, true);
        }
    }
    g->counts.checks++;
}
