/*
 * room_gain: what a batch adds to clusters that hold its tenants already, and whether
 * their tables take it below the critical level.
 *
 * Tables are equal on all nodes of a cluster, so no node can be taken out for being
 * full: from the critical level on further entries are refused.  What is changed or
 * deleted is not more, and passes.  Counted is what placement counts: a tenant's
 * entries, or what was announced for it where that is more, so who fills what was
 * announced gains nothing.  What other batches in flight gain is held in `c->coming`.
 *
 * By the model that is exact for routes, VMs, rules and meters, and of XGW-H an upper
 * bound, for the policy may leave some to x86.  What it does not know (NCs, conflicts
 * of keys) devices report: from the critical level of one of their tables on, until it
 * is cleared, no row more is taken, announced or not.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

/* Of one half of one cluster. */
struct sum {
    uint32_t place;
    enum half half;
    int64_t routes, vms, rules, meters; /* as placement counts */
    int64_t rows;                       /* as devices do */
    uint32_t vni;                       /* the first that gains */
    uint8_t table;
};

struct room_gain {
    struct sum *at;
    uint32_t count, cap;
    uint32_t last; /* found: neighbours in a batch are often at home together */
    struct tenant_reserve was;
    uint32_t announced_vni; /* whose announcement was `was` before the batch */
    uint32_t new_vni;       /* placed with what follows it: place_batch.c */
};

void room_gain_free(struct room_gain *g)
{
    if (g) {
        free(g->at);
    }
    free(g);
}

static struct sum *sum_of(struct room_gain *all, uint32_t place, enum half half)
{
    for (uint32_t i = 0; i < all->count; i++) {
        struct sum *s = &all->at[(all->last + i) % all->count];

        if (s->place == place && s->half == half) {
            all->last = (uint32_t)(s - all->at);
            return s;
        }
    }
    if (all->count == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 8;
        all->at = core_need(realloc(all->at, all->cap * sizeof(*all->at)));
    }
    all->last = all->count;
    all->at[all->count] = (struct sum){ .place = place, .half = half };
    return &all->at[all->count++];
}

/* ---- one tenant ---- */

/* Of a tenant, by this change. */
struct step {
    uint32_t vni;
    uint8_t table;
    int64_t routes, vms, rules, meters, rows;
};

static int64_t at_least(const struct core *c, uint32_t rows, uint32_t announced,
                        bool is_route)
{
    uint32_t least = is_route ? c->config.least_routes : c->config.least_vms;

    rows = rows > announced ? rows : announced;
    return rows > least ? rows : least;
}

/* Rows came or went; `was`: what was announced before the batch. */
static void count_rows(const struct core *c, const struct table_change *ch,
                       const struct tenant_reserve *was, struct step *io)
{
    uint32_t before = rows_count(ch->before);
    uint32_t after = rows_count(ch->after);

    io->rows = (int64_t)after - before;
    switch (ch->table) {
    case TABLE_VXLAN_ROUTE:
        io->routes = at_least(c, after, was->routes, true) -
                     at_least(c, before, was->routes, true);
        break;
    case TABLE_VM_NC:
        io->vms =
            at_least(c, after, was->vms, false) - at_least(c, before, was->vms, false);
        break;
    case TABLE_ACL:
        io->rules = io->rows;
        break;
    case TABLE_METER:
        io->meters = (after > 0) - (before > 0);
        break;
    default:
        break;
    }
}

/* Something else is announced; the rows are those after the batch. */
static void count_announced(const struct core *c, uint32_t vni,
                            const struct tenant_reserve *was,
                            const struct tenant_reserve *now, struct step *io)
{
    uint32_t routes = rows_count(table_set_rows(c->tip, vni, TABLE_VXLAN_ROUTE));
    uint32_t vms = rows_count(table_set_rows(c->tip, vni, TABLE_VM_NC));

    io->routes =
        at_least(c, routes, now->routes, true) - at_least(c, routes, was->routes, true);
    io->vms = at_least(c, vms, now->vms, false) - at_least(c, vms, was->vms, false);
}

static void add_step(struct room_gain *all, uint32_t place, enum half half,
                     bool has_guards, const struct step *by)
{
    struct sum *s = sum_of(all, place, half);
    bool is_guard = by->table == TABLE_ACL || by->table == TABLE_METER;

    if (is_guard && !has_guards) {
        return;
    }
    s->routes += by->routes;
    s->vms += by->vms;
    s->rules += by->rules;
    s->meters += by->meters;
    s->rows += by->rows;
    if (!s->vni && (by->routes > 0 || by->vms > 0 || by->rows > 0)) {
        s->vni = by->vni;
        s->table = by->table;
    }
}

/* To all clusters that hold the tenant. */
static void add_to_holders(const struct core *c, struct room_gain *all,
                           const struct step *by)
{
    struct rows *tenant = table_set_rows(c->tip, by->vni, TABLE_TENANT);
    struct holders h = holders_of(c, by->vni, tenant);
    const struct operation *move = objects_move(&c->objects, by->vni);
    struct tenant_row row;

    tenant_row_of(tenant, &row);
    for (unsigned i = 0; i < h.count; i++) {
        const struct group *g = h.at[i];
        uint8_t half = row.half;

        if (move && g->kind == GROUP_H) {
            half = strcmp(g->name, move->move.to.h) == 0 ? move->move.to.half
                                                         : move->move.from.half;
        }
        add_step(all, g->place, half ? (enum half)(half - 1) : HALF_0,
                 g->kind == GROUP_H, by);
    }
}

/* ---- the batch ---- */

void room_gain_add(struct core *c, struct pending *p, const struct table_change *ch)
{
    struct step step = { .vni = ch->vni, .table = ch->table };
    struct tenant_row now;
    struct tenant_row old = { 0 };
    struct room_gain *all = p->at.gain;

    if (!all) {
        all = p->at.gain = core_need(calloc(1, sizeof(*all)));
    }
    if (ch->table == TABLE_TENANT && !ch->before) {
        all->new_vni = ch->vni;
    }
    if (ch->vni == all->new_vni ||
        !tenant_row_of(table_set_rows(c->tip, ch->vni, TABLE_TENANT), &now)) {
        return;
    }
    if (ch->table == TABLE_TENANT) {
        tenant_row_of(ch->before, &old);
        all->was = old.reserve;
        all->announced_vni = ch->vni;
        count_announced(c, ch->vni, &all->was, &now.reserve, &step);
    } else {
        count_rows(c, ch, ch->vni == all->announced_vni ? &all->was : &now.reserve,
                   &step);
    }
    if (step.routes | step.vms | step.rows) {
        add_to_holders(c, all, &step);
    }
}

static uint64_t more_than_none(int64_t n)
{
    return n > 0 ? (uint64_t)n : 0;
}

/* False: it gains nothing. */
static bool demand_of_sum(const struct core *c, const struct sum *s, struct demand *ret)
{
    const struct profile *p =
        &c->profiles[placement_cluster_at(c->placement, s->place)->pool];
    struct tenant_counts counts = { .routes = more_than_none(s->routes),
                                    .vms_v4 = more_than_none(s->vms),
                                    .acl_rules = more_than_none(s->rules),
                                    .is_metered = false };
    struct tenant_counts none = { 0 };
    struct demand base;
    bool gains = false;
    int meter = resource_find(&p->set, "meter");

    if (!p->demand) {
        return false;
    }
    profile_demand(p, &counts, ret);
    profile_demand(p, &none, &base); /* a tenant's own, which is there already */
    if (meter >= 0) {
        ret->amount[meter] = more_than_none(s->meters);
    }
    for (unsigned i = 0; i < p->set.count; i++) {
        ret->amount[i] -=
            base.amount[i] < ret->amount[i] ? base.amount[i] : ret->amount[i];
        gains = gains || ret->amount[i] > 0;
    }
    return gains;
}

/* ---- the critical level ---- */

static enum rc refuse_level(const struct core *c, const struct sum *s,
                            const struct level *l, uint32_t critical_bp,
                            struct err *err)
{
    const struct placement_cluster *x = placement_cluster_at(c->placement, s->place);

    return err_field(err, RC_FULL, "", "critical_level",
                     "vni %u: cluster %s takes no more entries: %s is at %.2f %%, %llu "
                     "of %llu, and was critical (%.0f %%): move tenants away (xgwctl "
                     "rebalance) or build a cluster",
                     s->vni, x->name, l->resource, l->bp / 100.0,
                     (unsigned long long)l->used, (unsigned long long)l->capacity,
                     critical_bp / 100.0);
}

static enum rc refuse_model(const struct core *c, const struct sum *s,
                            const struct demand *need, const struct usage *use,
                            unsigned which, uint32_t critical_bp, struct err *err)
{
    const struct placement_cluster *x = placement_cluster_at(c->placement, s->place);
    const struct resource *r = &x->set.at[which];
    uint64_t other =
        s->half == HALF_BOTH && use->amount[1][which] > use->amount[0][which];
    uint64_t used = use->amount[r->per_half && (s->half == HALF_1 || other)][which];

    return err_field(
        err, RC_FULL, "", "critical_level",
        "vni %u: cluster %s takes no more entries: %s needs %llu and has %llu of %llu "
        "%s, critical at %.0f %%: move tenants away (xgwctl rebalance) or build a "
        "cluster",
        s->vni, x->name, r->name,
        (unsigned long long)((need->amount[which] + r->scale - 1) / r->scale),
        (unsigned long long)(used / r->scale),
        (unsigned long long)(x->set.capacity[which] / r->scale), r->unit,
        critical_bp / 100.0);
}

struct usage *room_coming(struct core *c, uint32_t place)
{
    if (place >= c->coming_count) {
        uint32_t count = placement_cluster_end(c->placement);

        c->coming = core_need(realloc(c->coming, count * sizeof(*c->coming)));
        memset(&c->coming[c->coming_count], 0,
               (count - c->coming_count) * sizeof(*c->coming));
        c->coming_count = count;
    }
    return &c->coming[place];
}

static enum rc check_sum(struct core *c, const struct sum *s, const struct demand *need,
                         struct err *err)
{
    const struct placement_cluster *x = placement_cluster_at(c->placement, s->place);
    unsigned kind = x->pool == GROUP_H ? CLUSTER_XGW_H : CLUSTER_X86;
    uint32_t critical_bp = health_marks(c->health, kind).critical_bp;
    const struct level *l = health_cluster_at(c->health, x->name, WATER_CRITICAL, true);
    const struct usage *coming = room_coming(c, s->place);
    struct usage use;
    struct demand room;
    unsigned which;

    if (l && s->rows > 0) {
        return refuse_level(c, s, l, critical_bp, err);
    }
    placement_usage(c->placement, s->place, &use);
    for (unsigned i = 0; i < x->set.count; i++) {
        use.amount[0][i] += coming->amount[0][i];
        use.amount[1][i] += coming->amount[1][i];
    }
    resource_room(&x->set, critical_bp, &room);
    return usage_fits(&x->set, &use, need, s->half, &room, &which)
               ? RC_OK
               : refuse_model(c, s, need, &use, which, critical_bp, err);
}

enum rc room_gain_take(struct core *c, struct pending *p, uint32_t *ret_vni,
                       enum table_id *ret_table)
{
    struct room_gain *all = p->at.gain;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; !rc && all && i < all->count; i++) {
        const struct sum *s = &all->at[i];
        struct demand need;

        if (!demand_of_sum(c, s, &need) && s->rows <= 0) {
            continue;
        }
        rc = check_sum(c, s, &need, &p->reply.err);
        if (rc) {
            *ret_vni = s->vni;
            *ret_table = (enum table_id)s->table;
        } else {
            place_hold_gain(c, p, s->place, s->half, &need);
        }
    }
    return rc;
}
