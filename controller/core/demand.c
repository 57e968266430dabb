/*
 * demand: what each tenant takes of the clusters that hold it, kept as its rows change.
 *
 * What counts is what a group holds (its desired set): all of a tenant on XGW-x86, the
 * resident part on XGW-H.  A tenant that is on two clusters of a kind for a while, on
 * its way from one to the other, is counted on both.  On top comes what was announced
 * for it (its reservation) and what was measured, where they are more; traffic is
 * counted where it arrives, at the XGW-H home where there is one.
 *
 * NCs are shared by tenants, so a cluster counts each address once.  Traffic that ports
 * receive and that was measured or announced for no tenant counts for the cluster.
 */
#include "controller/core/core_internal.h"

#include <xxhash.h>

/* What a group holds of a tenant; the two words of a map slot. */
struct held {
    uint64_t routes : 32;
    uint64_t rules : 24;
    uint64_t half : 2; /* enum vni_half */
    uint64_t is_metered : 1;
    uint64_t is_here : 1; /* the tenant's `vni` row is */
    uint32_t vms_v4;
    uint32_t vms_v6;
};

static_assert(sizeof(struct held) == 2 * sizeof(uint64_t), "fits a map slot");

static struct held held_of(const struct map_slot *slot)
{
    struct held l = { 0 };

    if (slot) {
        memcpy(&l, &slot->a, sizeof(uint64_t));
        memcpy((uint8_t *)&l + sizeof(uint64_t), &slot->b, sizeof(uint64_t));
    }
    return l;
}

static void held_put(struct group *g, uint32_t vni, const struct held *l)
{
    static const struct held none;
    struct map_slot *slot = map_find(&g->loads, vni);

    if (memcmp(l, &none, sizeof(none)) == 0) {
        if (slot) {
            map_remove(&g->loads, slot);
        }
        return;
    }
    slot = slot ? slot : core_need(map_add(&g->loads, vni));
    memcpy(&slot->a, l, sizeof(uint64_t));
    memcpy(&slot->b, (const uint8_t *)l + sizeof(uint64_t), sizeof(uint64_t));
}

/* ---- a tenant's vector ---- */

/* Announced or measured; null: neither. */
static const struct growth *growth_of(const struct core *c, uint32_t vni)
{
    const struct map_slot *slot = map_find(&c->growth, vni);

    return slot ? slot->p : NULL;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void demand_of_counts(const struct core *c, unsigned kind, struct tenant_counts counts,
                      const struct tenant_reserve *reserve, bool takes_traffic,
                      struct demand *ret)
{
    uint64_t vms = larger(counts.vms_v4 + counts.vms_v6, reserve->vms);

    counts.routes =
        larger(larger(counts.routes, reserve->routes), c->config.least_routes);
    counts.vms_v4 = larger(vms, c->config.least_vms) - counts.vms_v6;
    counts.bps = takes_traffic ? larger(counts.bps, reserve->bps) : 0;
    counts.pps = takes_traffic ? larger(counts.pps, reserve->pps) : 0;
    profile_demand(&c->profiles[kind], &counts, ret);
}

static void demand_of_held(const struct core *c, unsigned kind, const struct held *l,
                           const struct growth *growth, struct demand *ret)
{
    static const struct growth none;
    struct tenant_counts counts = { .routes = l->routes,
                                    .vms_v4 = l->vms_v4,
                                    .vms_v6 = l->vms_v6,
                                    .acl_rules = l->rules,
                                    .is_metered = l->is_metered };

    growth = growth ? growth : &none;
    counts.bps = growth->measured_bps;
    counts.pps = growth->measured_pps;
    demand_of_counts(c, kind, counts, &growth->reserve,
                     kind == GROUP_H || !growth->has_h_home, ret);
}

bool demand_of_vni(const struct core *c, const struct group *g, uint32_t vni,
                   struct demand *ret, enum half *ret_half)
{
    struct held l = held_of(map_find(&g->loads, vni));

    if (!l.is_here) {
        return false;
    }
    *ret_half = (enum half)l.half;
    demand_of_held(c, g->kind, &l, growth_of(c, vni), ret);
    return true;
}

void demand_of_tenant(const struct core *c, unsigned kind, uint32_t vni,
                      bool takes_traffic, struct demand *ret)
{
    static const struct growth none;
    const struct growth *growth = growth_of(c, vni);
    struct homes homes = homes_of_vni(c, vni);
    struct group *h = homes.of[GROUP_H];
    struct held l = { 0 };
    struct tenant_counts counts;

    growth = growth ? growth : &none;
    /* On XGW-x86 is all of it but rules and meters; of XGW-H, as much as there now. */
    if (homes.of[GROUP_X86]) {
        l = held_of(
            map_find(&(kind == GROUP_H && h ? h : homes.of[GROUP_X86])->loads, vni));
    }
    counts = (struct tenant_counts){
        .routes = l.routes,
        .vms_v4 = l.vms_v4,
        .vms_v6 = l.vms_v6,
        .acl_rules = rows_count(committed_rows(c, vni, TABLE_ACL)),
        .is_metered = committed_rows(c, vni, TABLE_METER) != NULL,
        .bps = growth->measured_bps,
        .pps = growth->measured_pps,
    };
    demand_of_counts(c, kind, counts, &growth->reserve, takes_traffic, ret);
}

/* ---- rows that come and go ---- */

static void nc_count(struct group *g, const uint8_t *tagged, int step)
{
    unsigned family = tagged[0] == IP_V6;
    uint64_t key = XXH3_64bits(tagged, family ? 17 : 5);
    struct map_slot *slot = core_need(map_add(&g->ncs[family], key ? key : 1));

    slot->a += (uint64_t)(int64_t)step;
    if (slot->a == 0) {
        map_remove(&g->ncs[family], slot);
    }
}

/* The tagged address that a packed row sends packets to; null: none. */
static const uint8_t *row_nc(enum table_id table, const struct row *row)
{
    if (table == TABLE_VM_NC) {
        return row->value;
    }
    return row->value[0] == SCOPE_IDC || row->value[0] == SCOPE_REGION ||
                   row->value[0] == SCOPE_DERIVED
               ? row->value + 1
               : NULL;
}

void demand_row(struct group *g, enum table_id table, const struct row *before,
                const struct row *after)
{
    const uint8_t *was = before ? row_nc(table, before) : NULL;
    const uint8_t *is = after ? row_nc(table, after) : NULL;

    if (is) { /* first, so that one that stays is not taken out */
        nc_count(g, is, 1);
    }
    if (was) {
        nc_count(g, was, -1);
    }
}

/* In key order IPv4 comes first, so where IPv6 begins says how many there are. */
static uint32_t count_v4(const struct rows *vms)
{
    static const uint8_t first_v6[17] = { IP_V6 };
    const struct rows_iter end =
        rows_seek(vms, TABLE_VM_NC, first_v6, sizeof(first_v6));
    struct rows_iter it = end;
    struct row row;
    uint32_t count = 0;

    if (!vms) {
        return 0;
    }
    for (uint32_t i = 0; i < end.page; i++) {
        count += rows_page_at(vms, i).count;
    }
    it.p = rows_page_at(vms, end.page).data;
    while (it.p < end.p && rows_next(&it, &row)) {
        count++;
    }
    return count;
}

static void count_vni_row(struct held *l, const struct rows *after)
{
    struct rows_iter it = rows_begin(after, TABLE_VNI);
    struct row row;

    l->is_here = after && rows_next(&it, &row);
    l->half = l->is_here ? row.value[1] & 3 : 0;
}

static void count_table(struct held *l, enum table_id table, const struct rows *after)
{
    switch (table) {
    case TABLE_VNI:
        count_vni_row(l, after);
        break;
    case TABLE_VXLAN_ROUTE:
        l->routes = rows_count(after);
        break;
    case TABLE_VM_NC:
        l->vms_v4 = count_v4(after);
        l->vms_v6 = rows_count(after) - l->vms_v4;
        break;
    case TABLE_ACL:
        l->rules = rows_count(after);
        break;
    case TABLE_METER:
        l->is_metered = rows_count(after) > 0;
        break;
    default:
        break;
    }
}

/* Takes `was` off the group's cluster and puts `now` on it. */
static void replace(struct core *c, struct group *g, const struct held *was,
                    const struct growth *old, const struct held *now,
                    const struct growth *new)
{
    struct demand from;
    struct demand to;

    if (was->is_here) {
        demand_of_held(c, g->kind, was, old, &from);
    }
    if (now->is_here) {
        demand_of_held(c, g->kind, now, new, &to);
    }
    if (was->is_here && now->is_here && was->half == now->half) {
        placement_change(c->placement, g->place, (enum half)now->half, &from, &to);
        return;
    }
    if (was->is_here) {
        placement_sub(c->placement, g->place, (enum half)was->half, &from);
    }
    if (now->is_here) {
        placement_add(c->placement, g->place, (enum half)now->half, &to);
    }
}

static void tell_ncs(struct core *c, struct group *g)
{
    for (unsigned family = 0; family < 2; family++) {
        int which =
            resource_find(&c->profiles[g->kind].set, family ? "nc_v6" : "nc_v4");

        if (which >= 0) {
            placement_set_common(c->placement, g->place, (unsigned)which,
                                 g->ncs[family].count);
        }
    }
}

void demand_tables(struct core *c, struct group *g, uint32_t vni, uint32_t mask,
                   struct rows *const after[])
{
    const struct growth *growth = growth_of(c, vni);
    struct held was = held_of(map_find(&g->loads, vni));
    struct held now = was;

    if (!c->profiles[g->kind].demand) {
        return; /* a kind that no tenant is at home on */
    }
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        if (mask >> t & 1) {
            count_table(&now, (enum table_id)t, after[t]);
        }
    }
    if (g->kind == GROUP_H && mask & (1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE)) {
        tell_ncs(c, g);
    }
    replace(c, g, &was, growth, &now, growth);
    held_put(g, vni, &now);
}

/* ---- what is announced and measured ---- */

static bool growth_is_none(const struct growth *g)
{
    return !g->reserve.routes && !g->reserve.vms && !g->reserve.bps &&
           !g->reserve.pps && !g->measured_bps && !g->measured_pps;
}

/* Takes `now` for the tenant in all groups that hold it. */
static void growth_put(struct core *c, uint32_t vni, const struct growth *now)
{
    struct map_slot *slot = map_find(&c->growth, vni);
    struct growth *kept = slot ? slot->p : NULL;

    if (!kept && growth_is_none(now)) {
        return;
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        struct group *g = c->groups[i];
        struct held l = held_of(map_find(&g->loads, vni));

        if (l.is_here) {
            replace(c, g, &l, kept, &l, now);
        }
    }
    if (growth_is_none(now)) {
        free(kept);
        map_remove(&c->growth, slot);
        return;
    }
    if (!kept) {
        kept = core_need(malloc(sizeof(*kept)));
        slot = core_need(map_add(&c->growth, vni));
        slot->p = kept;
    }
    *kept = *now;
}

void demand_tenant(struct core *c, uint32_t vni, const struct rows *tenant)
{
    const struct growth *kept = growth_of(c, vni);
    struct growth now = { 0 };
    struct tenant_row row;

    if (tenant_row_of(tenant, &row)) {
        now = kept ? *kept : now;
        now.reserve = row.reserve;
        now.has_h_home = row.h_home_len > 0;
    }
    growth_put(c, vni, &now);
}

void demand_measured(struct core *c, uint32_t vni, uint64_t bps, uint64_t round)
{
    const struct growth *kept = growth_of(c, vni);
    struct growth now = { 0 };
    struct tenant_row row;

    if ((bps == 0 && !kept) ||
        !tenant_row_of(committed_rows(c, vni, TABLE_TENANT), &row)) {
        return;
    }
    now = kept ? *kept : now;
    now.has_h_home = row.h_home_len > 0;
    now.measured_bps = now.round == round ? now.measured_bps + bps : bps;
    now.measured_pps = (uint64_t)((double)now.measured_bps / 8 / c->config.frame_bytes);
    now.round = round;
    growth_put(c, vni, &now);
}

#define PEAK_S 3600 /* a peak goes down by so much of itself a second */

void demand_cluster(struct core *c, struct group *g, uint64_t bps)
{
    const struct resource_set *set = &c->profiles[g->kind].set;
    int which = resource_find(set, "bps");
    uint64_t halves;
    uint64_t rest;
    uint64_t tenants;
    struct usage use;

    if (which < 0 || (bps == 0 && g->peak_bps == 0)) {
        return;
    }
    g->peak_bps -= (g->peak_bps + PEAK_S - 1) / PEAK_S;
    g->peak_bps = larger(g->peak_bps, bps);
    halves = set->has_halves && set->at[which].per_half ? 2 : 1;
    placement_usage(c->placement, g->place, &use);
    tenants = use.amount[0][which] + (halves == 2 ? use.amount[1][which] : 0) -
              halves * g->rest_bps;
    rest = g->peak_bps > tenants ? (g->peak_bps - tenants + halves - 1) / halves : 0;
    if (rest != g->rest_bps) {
        placement_set_common(c->placement, g->place, (unsigned)which, rest);
        g->rest_bps = rest;
    }
}

void demand_fini(struct core *c)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&c->growth, &at))) {
        free(slot->p);
    }
    map_fini(&c->growth);
}
