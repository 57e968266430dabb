/* place: the clusters as placement knows them, and what can be asked of it. */
#include "controller/core/core_internal.h"

#include <stdio.h>

/* ---- clusters ---- */

static uint32_t side_nodes(const struct objects *o, const char *cluster, char side,
                           const char *but)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < o->node_count; i++) {
        count += o->nodes[i].side == side &&
                 strcmp(o->nodes[i].cluster, cluster) == 0 &&
                 strcmp(o->nodes[i].name, but) != 0;
    }
    return count;
}

static uint32_t ecmp_limit(const struct objects *o)
{
    return o->has_region && o->region.ecmp_limit ? o->region.ecmp_limit
                                                 : ECMP_LIMIT_DEFAULT;
}

enum rc place_check_node(const struct objects *o, const struct node *x, struct err *err)
{
    uint32_t limit = ecmp_limit(o);
    uint32_t others = side_nodes(o, x->cluster, x->side, x->name);

    if (others < limit) {
        return RC_OK;
    }
    return err_field(err, RC_CONFLICT, "side", "ecmp_limit",
                     "node %s: side %c of cluster %s has %u nodes, and routers take %u "
                     "next hops: build another cluster",
                     x->name, x->side, x->cluster, others, limit);
}

enum rc place_check_region(const struct objects *o, const struct region *r,
                           struct err *err)
{
    uint32_t limit = r->ecmp_limit ? r->ecmp_limit : ECMP_LIMIT_DEFAULT;

    for (uint32_t i = 0; i < 2 * o->cluster_count; i++) {
        const char *cluster = o->clusters[i / 2].name;
        char side = i % 2 ? 'b' : 'a';
        uint32_t count = side_nodes(o, cluster, side, "");

        if (count > limit) {
            return err_field(err, RC_CONFLICT, "ecmp_limit", "ecmp_limit",
                             "ecmp_limit %u: side %c of cluster %s has %u nodes", limit,
                             side, cluster, count);
        }
    }
    return RC_OK;
}

/* Every node of a side holds all tables and takes its share of the traffic. */
static void scale_to_nodes(struct resource_set *set, uint32_t nodes)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->is_shared_out[i]) {
            set->capacity[i] *= nodes;
        }
    }
}

static uint32_t place_of_group(const struct core *c, const char *name)
{
    const struct group *g = name[0] ? group_find(c, name) : NULL;

    return g ? g->place : PLACEMENT_NONE;
}

static void put_group(struct core *c, struct group *g)
{
    const struct cluster *x = objects_cluster(&c->objects, g->name);
    struct placement_cluster p = {
        .name = g->name,
        .pool = g->kind,
        .backing = place_of_group(c, x->backing),
        .sale_bp = health_marks(c->health, x->kind).sale_bp,
        .is_open = x->state == CLUSTER_SERVING &&
                   health_is_on_sale(c->health, g->name) &&
                   (x->kind == CLUSTER_X86 || x->kind == CLUSTER_XGW_H),
        .set = x->profile == TABLES_BENCH ? c->bench_set : c->profiles[g->kind].set,
    };

    scale_to_nodes(&p.set, side_nodes(&c->objects, g->name, x->active_side, ""));
    core_must(!placement_put_cluster(c->placement, &p, &g->place, NULL));
}

void place_refresh(struct core *c)
{
    for (unsigned kind = 0; kind < GROUP_KINDS; kind++) { /* x86 first: it backs */
        for (uint32_t i = 0; i < c->group_count; i++) {
            if (c->groups[i]->kind == kind) {
                put_group(c, c->groups[i]);
            }
        }
    }
}

bool place_init(struct core *c)
{
    struct profile bench;

    profile_init_x86(&c->profiles[GROUP_X86], &c->config.x86_node);
    profile_init_h_bench(&bench, &layout_xgw_h, &chips[0], c->config.frame_bytes);
    c->bench_set = bench.set;
    profile_init_h(&c->profiles[GROUP_H], &layout_xgw_h, &chips[0],
                   c->config.frame_bytes);
    c->placement = placement_new();
    return c->placement != NULL;
}

void place_fini(struct core *c)
{
    placement_free(c->placement);
    free(c->coming);
}

/* ---- questions ---- */

/* Steering homes of peers, as the tip has them. */
uint32_t place_near(const struct core *c, uint32_t peer)
{
    struct homes homes = homes_of_tenant(c, table_set_rows(c->tip, peer, TABLE_TENANT));
    struct group *g = homes_steering(&homes);

    return g ? g->place : PLACEMENT_NONE;
}

unsigned place_kind(const struct core *c)
{
    for (uint32_t i = 0; i < c->group_count; i++) {
        if (c->groups[i]->kind == GROUP_H) {
            return GROUP_H;
        }
    }
    return GROUP_X86;
}

void place_ask(const struct core *c, unsigned kind, const struct tenant_counts *counts,
               const struct tenant_reserve *reserve, const uint32_t *near,
               uint32_t near_count, struct placement_ask *ret)
{
    *ret = (struct placement_ask){
        .pool = kind, .near = near, .near_count = near_count, .except = PLACEMENT_NONE
    };
    demand_of_counts(c, kind, *counts, reserve, true, &ret->need);
    demand_of_counts(c, GROUP_X86, *counts, reserve, false, &ret->backing_need);
}

uint32_t core_place(const struct core *c, const struct core_place_ask *ask,
                    struct placement_candidate *ret, uint32_t cap)
{
    unsigned kind = ask->kind == CLUSTER_X86     ? GROUP_X86
                    : ask->kind == CLUSTER_XGW_H ? GROUP_H
                                                 : place_kind(c);
    struct tenant_reserve none = { 0 };
    uint32_t near[PLACE_NEAR_MAX];
    uint32_t near_count = 0;
    struct placement_ask question;

    for (uint32_t i = 0; i < ask->peer_count && near_count < PLACE_NEAR_MAX; i++) {
        near[near_count++] = place_near(c, ask->peers[i]);
    }
    place_ask(c, kind, &ask->counts, &none, near, near_count, &question);
    return placement_explain(c->placement, &question, ret, cap);
}

const struct placement *core_placement(const struct core *c)
{
    return c->placement;
}

uint32_t core_place_of(const struct core *c, const char *cluster)
{
    return place_of_group(c, cluster);
}

size_t place_print_candidate(const struct core *c, const struct placement_candidate *k,
                             char *to, size_t size)
{
    const struct placement_cluster *x = placement_cluster_at(c->placement, k->cluster);
    bool behind = k->verdict == PLACEMENT_BACKING_NO_ROOM;
    const struct placement_line *lines = behind ? k->backing_at : k->at;
    unsigned count = behind ? k->backing_count : k->count;
    unsigned in = k->half == HALF_1;
    const struct resource_set *set;

    if (behind) {
        x = placement_cluster_at(c->placement, k->backing);
    }
    set = &x->set;
    if (k->verdict == PLACEMENT_CLOSED) {
        return (size_t)snprintf(to, size, "%s takes no new tenants", x->name);
    }
    for (unsigned i = 0; i < count; i++) {
        const struct placement_line *l = &lines[i];
        unsigned at = k->half == HALF_BOTH && l->fits[0] ? 1 : in;
        uint64_t left = l->room > l->used[at] ? l->room - l->used[at] : 0;

        if (!l->fits[at]) {
            return (size_t)snprintf(
                to, size, "%s: %s needs %llu and has %llu %s left", x->name,
                set->at[i].name,
                (unsigned long long)((l->need + set->at[i].scale - 1) /
                                     set->at[i].scale),
                (unsigned long long)(left / set->at[i].scale), set->at[i].unit);
        }
    }
    return (size_t)snprintf(to, size, "%s fits", x->name);
}
