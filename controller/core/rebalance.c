/* rebalance: which tenants to move so that the fullest clusters become less full. */
#include "controller/core/core_internal.h"

/* The share of the cluster that a tenant takes, of the dimension it takes most of. */
static double share_of(const struct resource_set *set, const struct demand *d)
{
    double share = 0;

    for (unsigned i = 0; i < set->count; i++) {
        double one =
            set->capacity[i] ? (double)d->amount[i] / (double)set->capacity[i] : 0;

        share = one > share ? one : share;
    }
    return share;
}

#define CANDIDATES_MAX 256   /* the largest of a cluster */
#define LOADS_MAX      50000 /* looked at in all: some 5 ms */

struct picks {
    struct placement_tenant at[CANDIDATES_MAX];
    double share[CANDIDATES_MAX];
    uint32_t count;
};

/* Keeps the largest, the smallest of them first: a heap. */
static void pick(struct picks *l, const struct placement_tenant *t, double share)
{
    uint32_t at = 0;

    if (l->count < CANDIDATES_MAX) {
        at = l->count++;
        for (uint32_t up; at > 0 && l->share[up = (at - 1) / 2] > share; at = up) {
            l->at[at] = l->at[up];
            l->share[at] = l->share[up];
        }
    } else if (share > l->share[0]) {
        for (uint32_t down; (down = 2 * at + 1) < l->count; at = down) {
            down += down + 1 < l->count && l->share[down + 1] < l->share[down];
            if (l->share[down] >= share) {
                break;
            }
            l->at[at] = l->at[down];
            l->share[at] = l->share[down];
        }
    } else {
        return;
    }
    l->at[at] = *t;
    l->share[at] = share;
}

static uint32_t pick_tenants(const struct core *c, const struct group *g,
                             struct picks *l)
{
    const struct resource_set *set = &placement_cluster_at(c->placement, g->place)->set;
    struct placement_tenant t = { .cluster = g->place };
    struct map_slot *slot;
    uint32_t at = 0;
    uint32_t looked = 0;

    l->count = 0;
    while ((slot = map_each(&g->loads, &at))) {
        struct homes homes;
        enum half ignored;

        t.id = (uint32_t)slot->key;
        looked++;
        if (demand_of_vni(c, g, t.id, &t.need, &t.half)) {
            homes = homes_of_vni(c, t.id);
            if (g->kind == GROUP_H && homes.of[GROUP_X86]) {
                demand_of_vni(c, homes.of[GROUP_X86], t.id, &t.backing_need, &ignored);
            }
            /* An x86 cluster's own: others go where their XGW-H home goes. */
            if (g->kind == GROUP_H || !homes.of[GROUP_H]) {
                pick(l, &t, share_of(set, &t.need));
            }
        }
    }
    return looked;
}

static int compare_groups(const void *a, const void *b, void *ctx)
{
    const struct group *x = *(struct group *const *)a;
    const struct group *y = *(struct group *const *)b;
    double left = placement_fullness(ctx, x->place);
    double right = placement_fullness(ctx, y->place);

    return left > right ? -1 : left < right ? 1 : strcmp(x->name, y->name);
}

enum rc core_rebalance(const struct core *c, unsigned cluster_kind,
                       uint32_t threshold_bp, struct placement_move *ret, uint32_t cap,
                       uint32_t *ret_count)
{
    unsigned kind = cluster_kind == CLUSTER_XGW_H ? GROUP_H : GROUP_X86;
    struct group **groups = calloc(c->group_count + 1, sizeof(*groups));
    struct picks *picks = malloc(sizeof(*picks));
    struct placement_tenant *all = NULL;
    uint32_t group_count = 0;
    uint32_t count = 0;
    uint32_t looked = 0;
    enum rc rc = groups && picks ? RC_OK : RC_NO_MEMORY;

    for (uint32_t i = 0; !rc && i < c->group_count; i++) {
        if (c->groups[i]->kind == kind) {
            groups[group_count++] = c->groups[i];
        }
    }
    if (!rc && group_count > 0) {
        qsort_r(groups, group_count, sizeof(*groups), compare_groups, c->placement);
    }
    for (uint32_t i = 0; !rc && i < group_count && looked < LOADS_MAX; i++) {
        struct placement_tenant *more;

        looked += pick_tenants(c, groups[i], picks);
        more = realloc(all, (count + picks->count + 1) * sizeof(*all));
        rc = more ? RC_OK : RC_NO_MEMORY;
        all = more ? more : all;
        for (uint32_t k = 0; !rc && k < picks->count; k++) {
            all[count++] = picks->at[k];
        }
    }
    rc = rc ? rc
            : placement_rebalance(c->placement, kind, all, count, threshold_bp, ret,
                                  cap, ret_count);
    free(all);
    free(groups);
    free(picks);
    return rc;
}
