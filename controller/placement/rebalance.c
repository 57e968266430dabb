/*
 * rebalance: which tenants to move so that the fullest clusters become less full.
 *
 * Greedy, on a copy: of the fullest cluster's tenants the one whose move brings it down
 * most goes to the cluster that is emptiest with it; then the next, until no move
 * helps.  What falls short of the threshold is taken back, and the next cluster tried.
 */
#include "controller/placement/placement_internal.h"

#include <stdlib.h>
#include <string.h>

#define WHOLE_BP 10000.0
#define ROUNDING 1e-6 /* basis points; of the difference of two quotients */

struct work {
    struct placement *p;
    unsigned pool;
    const struct placement_tenant *tenants;
    uint32_t *by_cluster; /* indexes, those of one cluster together … */
    uint32_t *start;      /* … from here to the next cluster's */
    bool *is_moved;
    struct placement_move *moves;
    uint32_t count, cap;
};

struct option {
    uint32_t tenant; /* index */
    uint32_t to;
    enum half half;
    double from_after, to_after;
    double gain;
};

static void shift(struct placement *p, uint32_t id, enum half half,
                  const struct placement_tenant *t, bool is_add)
{
    uint32_t backing = p->slots[id].is.backing;

    if (is_add) {
        placement_add(p, id, half, &t->need);
    } else {
        placement_sub(p, id, half, &t->need);
    }
    if (backing != PLACEMENT_NONE && is_add) {
        placement_add(p, backing, HALF_0, &t->backing_need);
    } else if (backing != PLACEMENT_NONE) {
        placement_sub(p, backing, HALF_0, &t->backing_need);
    }
}

/* The cluster that is emptiest with the tenant, which is off its own already. */
static void best_target(struct work *w, uint32_t from, struct option *io)
{
    struct placement *p = w->p;
    const struct pool *pool = &p->pools[w->pool];
    const struct placement_tenant *t = &w->tenants[io->tenant];
    struct placement_ask ask = { .pool = w->pool,
                                 .need = t->need,
                                 .backing_need = t->backing_need,
                                 .except = from };
    struct need need = need_of(pool, &t->need);

    io->to = PLACEMENT_NONE;
    for (uint32_t i = pool->order_count; i > 0; i--) {
        uint32_t id = pool->order[i - 1].id;
        const struct slot *s = &p->slots[id];
        enum half half;
        double after;

        if (id == from || !s->is.is_open || !placement_fits(p, &ask, id, &half)) {
            continue;
        }
        after = level_with(p, id, &need, half);
        after = after > s->fullness ? after : s->fullness;
        if (io->to == PLACEMENT_NONE || after < io->to_after) {
            io->to = id;
            io->half = half;
            io->to_after = after;
        }
    }
}

/* How full the half is that the tenant is in, or both. */
static double level_at(const struct slot *s, enum half half)
{
    return half == HALF_BOTH
               ? s->fullness
               : row_level(&s->used[half], NULL, &s->capacity, s->is.set.count, NULL);
}

/* What moving one tenant away would bring the fuller half of its cluster, or either
 * where both are equally full. */
static bool try_tenant(struct work *w, uint32_t from, uint32_t tenant,
                       struct option *ret)
{
    struct placement *p = w->p;
    const struct slot *s = &p->slots[from];
    const struct placement_tenant *t = &w->tenants[tenant];
    double before = s->fullness;
    double after;

    *ret = (struct option){ .tenant = tenant };
    if (level_at(s, t->half) < before) {
        return false;
    }
    shift(p, from, t->half, t, false);
    after = level_at(s, t->half);
    ret->from_after = s->fullness;
    best_target(w, from, ret);
    shift(p, from, t->half, t, true);
    ret->gain = before - after;
    return ret->to != PLACEMENT_NONE && ret->gain > 0 && ret->to_after <= after;
}

static bool best_option(struct work *w, uint32_t from, struct option *ret)
{
    bool has_any = false;

    for (uint32_t i = w->start[from]; i < w->start[from + 1]; i++) {
        struct option o;

        if (!w->is_moved[w->by_cluster[i]] &&
            try_tenant(w, from, w->by_cluster[i], &o) &&
            (!has_any || o.gain > ret->gain)) {
            *ret = o;
            has_any = true;
        }
    }
    return has_any;
}

static void take(struct work *w, uint32_t from, const struct option *o)
{
    const struct placement_tenant *t = &w->tenants[o->tenant];
    struct placement_move *m = &w->moves[w->count++];

    *m = (struct placement_move){ .id = t->id,
                                  .from = from,
                                  .to = o->to,
                                  .from_half = t->half,
                                  .to_half = o->half,
                                  .from_before = w->p->slots[from].fullness,
                                  .to_before = w->p->slots[o->to].fullness,
                                  .from_after = o->from_after,
                                  .to_after = o->to_after };
    shift(w->p, from, t->half, t, false);
    shift(w->p, o->to, o->half, t, true);
    w->is_moved[o->tenant] = true;
}

static void take_back(struct work *w, uint32_t first, const uint32_t *tenants)
{
    while (w->count > first) {
        const struct placement_move *m = &w->moves[--w->count];
        uint32_t tenant = tenants[w->count - first];
        const struct placement_tenant *t = &w->tenants[tenant];

        shift(w->p, m->to, m->to_half, t, false);
        shift(w->p, m->from, m->from_half, t, true);
        w->is_moved[tenant] = false;
    }
}

static void relieve(struct work *w, uint32_t from, uint32_t threshold_bp,
                    uint32_t *tenants)
{
    double before = w->p->slots[from].fullness;
    uint32_t first = w->count;
    struct option o;

    while (w->count < w->cap && best_option(w, from, &o)) {
        tenants[w->count - first] = o.tenant;
        take(w, from, &o);
    }
    if ((before - w->p->slots[from].fullness) * WHOLE_BP + ROUNDING < threshold_bp) {
        take_back(w, first, tenants);
    }
}

/* Sorts the tenants' indexes by cluster. */
static void group_tenants(struct work *w, uint32_t count)
{
    uint32_t end = w->p->end;

    for (uint32_t i = 0; i < count; i++) {
        w->start[w->tenants[i].cluster + 2]++;
    }
    for (uint32_t i = 0; i <= end; i++) {
        w->start[i + 1] += w->start[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        w->by_cluster[w->start[w->tenants[i].cluster + 1]++] = i;
    }
}

enum rc placement_rebalance(const struct placement *p, unsigned pool,
                            const struct placement_tenant *tenants, uint32_t count,
                            uint32_t threshold_bp, struct placement_move *ret,
                            uint32_t cap, uint32_t *ret_count)
{
    struct work w = { .pool = pool, .tenants = tenants, .moves = ret, .cap = cap };
    uint32_t *sources = calloc(p->pools[pool].order_count + 1, sizeof(*sources));
    uint32_t *taken = calloc(cap + 1, sizeof(*taken));
    enum rc rc = RC_NO_MEMORY;

    w.p = placement_copy(p);
    w.by_cluster = calloc(count + 1, sizeof(*w.by_cluster));
    w.start = calloc(p->end + 3, sizeof(*w.start));
    w.is_moved = calloc(count + 1, sizeof(*w.is_moved));
    if (w.p && w.by_cluster && w.start && w.is_moved && sources && taken) {
        group_tenants(&w, count);
        for (uint32_t i = 0; i < p->pools[pool].order_count; i++) {
            sources[i] = p->pools[pool].order[i].id;
        }
        for (uint32_t i = 0; i < p->pools[pool].order_count; i++) {
            relieve(&w, sources[i], threshold_bp, taken);
        }
        *ret_count = w.count;
        rc = RC_OK;
    }
    placement_free(w.p);
    free(w.by_cluster);
    free(w.start);
    free(w.is_moved);
    free(sources);
    free(taken);
    return rc;
}
