#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

#define NO_STEP UINT32_MAX

const uint8_t v4_pool[16] = { [10] = 0xff, [11] = 0xff };

/* ---- keys and results ---- */

void pooled_of(const struct prefix *p, uint8_t addr[16], uint8_t *len)
{
    if (p->addr.family == IP_V6) {
        memcpy(addr, p->addr.b, 16);
        *len = p->len;
        return;
    }
    memcpy(addr, v4_pool, 16);
    memcpy(addr + 12, p->addr.b, 4);
    *len = (uint8_t)(V4_POOL_LEN + p->len);
}

bool prefix_of_pooled(const uint8_t addr[16], uint8_t len, struct prefix *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (len > 128) {
        return false;
    }
    if (len >= V4_POOL_LEN && memcmp(addr, v4_pool, 12) == 0) {
        ret->addr.family = IP_V4;
        memcpy(ret->addr.b, addr + 12, 4);
        ret->len = (uint8_t)(len - V4_POOL_LEN);
    } else {
        ret->addr.family = IP_V6;
        memcpy(ret->addr.b, addr, 16);
        ret->len = len;
    }
    return true;
}

enum rc route_result(struct xgwh *x, const struct route_action *a,
                     struct alpm_result *ret)
{
    *ret = (struct alpm_result){ 0 };
    switch (a->scope) {
    case SCOPE_LOCAL:
        ret->scope = PHYS_SCOPE_LOCAL;
        return RC_OK;
    case SCOPE_PEER:
        ret->scope = PHYS_SCOPE_PEER;
        ret->vni = a->vni;
        ret->idx = xgwh_half_of(x, a->vni);
        return RC_OK;
    case SCOPE_IDC:
    case SCOPE_REGION:
    case SCOPE_DERIVED:
        ret->scope = PHYS_SCOPE_TUNNEL;
        ret->vni = a->vni;
        return nc_pool_acquire(&x->holds.ncs, &a->endpoint, &ret->idx);
    default:
        ret->scope = PHYS_SCOPE_FALLBACK;
        ret->idx = PHYS_CLASS_SERVICE;
        return RC_OK;
    }
}

static enum rc release(struct xgwh *x, const struct alpm_result *r)
{
    return r->scope != PHYS_SCOPE_TUNNEL || nc_pool_release(&x->holds.ncs, r->idx)
               ? RC_OK
               : RC_NO_MEMORY;
}

static const struct alpm_result guard_result = { .scope = PHYS_SCOPE_FALLBACK,
                                                 .idx = PHYS_CLASS_MISS };

/* ---- guards ---- */

/* A v6 prefix short enough to lie over the IPv4 of the pool. */
bool prefix_is_over_v4(const struct prefix *p)
{
    struct prefix pool = { .addr = { .family = IP_V6 }, .len = V4_POOL_LEN };

    memcpy(pool.addr.b, v4_pool, sizeof(pool.addr.b));
    return prefix_covers(p, &pool);
}

static bool is_v4_default(const struct prefix *p)
{
    return p->addr.family == IP_V4 && p->len == 0;
}

static bool has_v4_default(const struct rows *routes)
{
    static const uint8_t key[6] = { IP_V4 };
    struct row row;

    return rows_find(routes, TABLE_VXLAN_ROUTE, key, sizeof(key), &row);
}

static bool has_over_v4(const struct rows *routes)
{
    static const uint8_t v6_first[18] = { IP_V6 };
    struct rows_iter it = rows_seek(routes, TABLE_VXLAN_ROUTE, v6_first, 18);
    struct row row;

    /* What lies over the pool begins at or before it. */
    while (rows_next(&it, &row) && memcmp(row.key + 1, v4_pool, 16) <= 0) {
        struct prefix p = { .addr = { .family = IP_V6 }, .len = row.key[17] };

        memcpy(p.addr.b, row.key + 1, 16);
        if (prefix_is_over_v4(&p)) {
            return true;
        }
    }
    return false;
}

/* Does the VNI need a guard, with the routes that `rows` and, if not null, `unnamed`
 * hold? */
static bool wants_guard(const struct table_set *rows, const struct table_set *unnamed,
                        uint32_t vni)
{
    const struct rows *a = table_set_rows(rows, vni, TABLE_VXLAN_ROUTE);
    const struct rows *b =
        unnamed ? table_set_rows(unnamed, vni, TABLE_VXLAN_ROUTE) : NULL;

    return !has_v4_default(a) && !has_v4_default(b) &&
           (has_over_v4(a) || has_over_v4(b));
}

/* ---- jobs: what one step asks of one half ---- */

enum turn { TURN_READY, TURN_PEER, TURN_AWAY, TURN_EMPTY, TURNS };

struct job {
    struct alpm_change change;
    struct alpm_result old; /* PHYS_SCOPE_MISS: there was none */
    uint32_t step;
    uint8_t half;
    uint8_t turn;
    bool is_done;
    bool has_failed;
};

struct jobs {
    struct job *at;
    uint32_t count;
    uint32_t cap;
    struct alpm_change *changes; /* of one call */
    uint32_t *order;             /* jobs of one call */
};

static void jobs_fini(struct jobs *j)
{
    free(j->at);
    free(j->changes);
    free(j->order);
}

static struct job *jobs_add(struct jobs *j)
{
    if (j->count == j->cap) {
        uint32_t cap = j->cap ? 2 * j->cap : 64;
        struct job *at = realloc(j->at, cap * sizeof(*at));

        if (!at) {
            return NULL;
        }
        j->at = at;
        j->cap = cap;
    }
    j->at[j->count] = (struct job){ .step = NO_STEP };
    return &j->at[j->count++];
}

static void sink(void *ctx, const struct phys_write *w)
{
    plan_add_write(ctx, STAGE_ROUTE, w);
}

enum rc route_changes(struct xgwh *x, unsigned half, const struct alpm_change *changes,
                      size_t count, struct xgwh_cost *cost)
{
    struct alpm_cost c = { 0 };
    enum rc rc = alpm_apply(x->alpm[half], changes, count, sink, &x->plan, &c, NULL);

    cost->covering += c.cover_writes;
    cost->moves += c.move_writes;
    return rc;
}

/* The jobs of one half, as one change of its routes or, where that is too much at once,
 * as several. */
static enum rc run(struct xgwh *x, struct jobs *j, const uint32_t *order,
                   uint32_t count, struct xgwh_cost *cost)
{
    enum rc rc;

    if (count == 0) {
        return RC_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        j->changes[i] = j->at[order[i]].change;
    }
    rc = route_changes(x, j->at[order[0]].half, j->changes, count, cost);
    if (rc == RC_OK) {
        for (uint32_t i = 0; rc == RC_OK && i < count; i++) {
            struct job *job = &j->at[order[i]];

            job->is_done = true;
            count_peers(x, &job->old,
                        job->change.is_delete ? NULL : &job->change.route.result);
            rc = release(x, &job->old);
        }
        return rc;
    }
    if (rc == RC_NO_MEMORY) {
        return rc;
    }
    if (count > 1) {
        rc = run(x, j, order, count / 2, cost);
        return rc == RC_OK ? run(x, j, order + count / 2, count - count / 2, cost) : rc;
    }
    j->at[order[0]].has_failed = true;
    return j->at[order[0]].change.is_delete
               ? RC_OK
               : release(x, &j->at[order[0]].change.route.result);
}

static enum rc run_turn(struct xgwh *x, struct jobs *j, unsigned turn,
                        struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < j->count; i++) {
            const struct job *job = &j->at[i];

            if (job->turn == turn && job->half == half && !job->has_failed) {
                j->order[count++] = i;
            }
        }
        rc = run(x, j, j->order, count, cost);
    }
    return rc;
}

/* ---- from steps to jobs ---- */

static enum rc unpack(const struct step *s, const struct row *row, struct entry *ret)
{
    return entry_unpack(TABLE_VXLAN_ROUTE, s->vni, row, ret, NULL);
}

/* The routes of one VNI: steps [first, end). */
struct group {
    struct step *steps;
    uint32_t first;
    uint32_t end;
    uint32_t vni;
    uint8_t place; /* its half */
    uint8_t turn;
    bool is_near_guard;    /* may call for a guard, or make it needless */
    bool has_default_step; /* of IPv4 */
    bool wants_guard;
};

static bool is_peer(const struct row *row)
{
    return row->key && row->value_len > 0 && row->value[0] == SCOPE_PEER;
}

static enum rc look_at_group(struct group *g)
{
    bool gains_peer = false;
    bool loses_peer = false;
    int64_t grows = 0;

    for (uint32_t i = g->first; i < g->end; i++) {
        const struct step *s = &g->steps[i];
        struct entry e;

        if (s->state != STEP_WAITS) {
            continue;
        }
        if (unpack(s, s->after.key ? &s->after : &s->before, &e) != RC_OK) {
            return RC_INVALID;
        }
        gains_peer |= is_peer(&s->after);
        loses_peer |= is_peer(&s->before);
        grows += (s->after.key != NULL) - (s->before.key != NULL);
        g->is_near_guard |=
            is_v4_default(&e.route.dst) || prefix_is_over_v4(&e.route.dst);
        g->has_default_step |= is_v4_default(&e.route.dst);
    }
    g->turn = gains_peer   ? TURN_PEER
              : grows >= 0 ? TURN_READY
              : loses_peer ? TURN_AWAY
                           : TURN_EMPTY;
    return RC_OK;
}

/* One step in one half.  RC_FULL: there is no NC index for it. */
static enum rc add_job(struct xgwh *x, struct jobs *j, const struct group *g,
                       uint32_t step, unsigned half)
{
    const struct step *s = &g->steps[step];
    struct job job = { .step = step, .half = (uint8_t)half, .turn = g->turn };
    struct alpm_route *route = &job.change.route;
    struct job *at;
    struct entry e;
    enum rc rc = unpack(s, s->after.key ? &s->after : &s->before, &e);

    if (rc != RC_OK) {
        return rc;
    }
    route->vni = g->vni;
    pooled_of(&e.route.dst, route->addr, &route->len);
    alpm_get(x->alpm[half], route->vni, route->addr, route->len, &job.old);
    if (s->after.key) {
        rc = route_result(x, &e.route.action, &route->result);
    } else if (g->wants_guard && is_v4_default(&e.route.dst)) {
        route->result = guard_result;
    } else {
        job.change.is_delete = true;
    }
    if (rc != RC_OK) {
        return rc;
    }
    at = jobs_add(j);
    if (!at) {
        return RC_NO_MEMORY;
    }
    *at = job;
    return RC_OK;
}

static enum rc add_step(struct xgwh *x, struct jobs *j, const struct group *g,
                        uint32_t step)
{
    uint32_t first = j->count;
    enum rc rc = RC_OK;

    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        if (half_is_in(g->place, half)) {
            rc = add_job(x, j, g, step, half);
        }
    }
    if (rc == RC_OK || rc == RC_NO_MEMORY) {
        return rc;
    }
    while (j->count > first && rc != RC_NO_MEMORY) {
        j->count--;
        if (!j->at[j->count].change.is_delete &&
            release(x, &j->at[j->count].change.route.result) != RC_OK) {
            rc = RC_NO_MEMORY;
        }
    }
    g->steps[step].state = rc == RC_FULL ? STEP_FULL : STEP_REFUSED;
    return rc == RC_NO_MEMORY ? rc : RC_OK;
}

/* Out of whichever half has it. */
static enum rc drop_guard(struct xgwh *x, uint32_t vni, struct xgwh_cost *cost)
{
    struct alpm_change c = { .is_delete = true,
                             .route = { .vni = vni, .len = V4_POOL_LEN } };
    struct alpm_result r;
    enum rc rc = RC_OK;

    memcpy(c.route.addr, v4_pool, sizeof(c.route.addr));
    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        if (alpm_get(x->alpm[half], vni, c.route.addr, c.route.len, &r)) {
            rc = route_changes(x, half, &c, 1, cost);
        }
    }
    u64map_delete(&x->guards, vni);
    return rc;
}

/* Where an IPv6 route lies over the pool's IPv4 and there is no IPv4 default, a miss of
 * IPv4 must not find it: a route of the whole IPv4 says `miss`.  It comes first. */
static enum rc put_guard(struct xgwh *x, const struct group *g, bool *ret_full,
                         struct xgwh_cost *cost)
{
    struct alpm_change c = {
        .route = { .vni = g->vni, .len = V4_POOL_LEN, .result = guard_result }
    };
    enum rc rc = RC_OK;

    memcpy(c.route.addr, v4_pool, sizeof(c.route.addr));
    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        if (half_is_in(g->place, half)) {
            rc = route_changes(x, half, &c, 1, cost);
        }
    }
    if (rc == RC_OK) {
        return u64map_put(&x->guards, g->vni, 1) ? RC_OK : RC_NO_MEMORY;
    }
    *ret_full = rc == RC_FULL;
    return *ret_full ? drop_guard(x, g->vni, cost) : rc;
}

/* Without a guard, the routes that call for it have no place. */
static void refuse_over_v4(const struct group *g)
{
    for (uint32_t i = g->first; i < g->end; i++) {
        struct step *s = &g->steps[i];
        struct entry e;

        if (s->state == STEP_WAITS && s->after.key &&
            unpack(s, &s->after, &e) == RC_OK && prefix_is_over_v4(&e.route.dst)) {
            s->state = STEP_FULL;
        }
    }
}

static enum rc add_group(struct xgwh *x, struct jobs *j, struct group *g,
                         struct xgwh_cost *cost)
{
    bool is_full = false;
    enum rc rc = look_at_group(g);

    if (rc != RC_OK) {
        return rc;
    }
    g->place = xgwh_half_of(x, g->vni);
    g->wants_guard = g->is_near_guard && wants_guard(x->rows, x->unnamed, g->vni);
    if (g->wants_guard && !g->has_default_step && !u64map_find(&x->guards, g->vni)) {
        rc = put_guard(x, g, &is_full, cost);
    }
    if (is_full) {
        refuse_over_v4(g);
    }
    for (uint32_t i = g->first; rc == RC_OK && i < g->end; i++) {
        if (g->steps[i].state == STEP_WAITS) {
            rc = add_step(x, j, g, i);
        }
    }
    return rc;
}

/* ---- afterwards ---- */

/* Takes back what one half did when the other could not. */
static enum rc undo(struct xgwh *x, struct job *job, struct xgwh_cost *cost)
{
    struct alpm_change back = job->change;
    enum rc rc;

    back.is_delete = job->old.scope == PHYS_SCOPE_MISS;
    back.route.result = job->old;
    rc = route_changes(x, job->half, &back, 1, cost);
    count_peers(x, job->change.is_delete ? NULL : &job->change.route.result, &job->old);
    if (rc == RC_OK && job->old.scope == PHYS_SCOPE_TUNNEL) {
        nc_pool_ref(&x->holds.ncs, job->old.idx);
    }
    return rc == RC_OK && !job->change.is_delete ? release(x, &job->change.route.result)
                                                 : rc;
}

static enum rc note_guard(struct xgwh *x, const struct job *job)
{
    const struct alpm_route *r = &job->change.route;

    if (r->len != V4_POOL_LEN || memcmp(r->addr, v4_pool, sizeof(r->addr)) != 0) {
        return RC_OK;
    }
    if (!job->change.is_delete && r->result.scope == PHYS_SCOPE_FALLBACK &&
        r->result.idx == PHYS_CLASS_MISS) {
        return u64map_put(&x->guards, r->vni, 1) ? RC_OK : RC_NO_MEMORY;
    }
    u64map_delete(&x->guards, r->vni);
    return RC_OK;
}

/* A step with two jobs is done where both are. */
static enum rc close_jobs(struct xgwh *x, struct steps *steps, struct jobs *j,
                          struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < j->count; i++) {
        struct job *a = &j->at[i];
        struct job *b = i + 1 < j->count && a[1].step == a->step ? &a[1] : NULL;
        bool is_done = a->is_done && (!b || b->is_done);

        if (!is_done && a->is_done) {
            rc = undo(x, a, cost);
        } else if (!is_done && b && b->is_done) {
            rc = undo(x, b, cost);
        } else if (is_done) {
            rc = note_guard(x, a);
        }
        steps->at[a->step].state = is_done ? STEP_DONE : STEP_FULL;
        i += b != NULL;
    }
    return rc;
}

static enum rc add_groups(struct xgwh *x, struct steps *steps, struct jobs *j,
                          struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < steps->count;) {
        struct group g = { .steps = steps->at, .first = i, .vni = steps->at[i].vni };
        uint8_t table = steps->at[i].table;

        while (i < steps->count && steps->at[i].table == table &&
               steps->at[i].vni == g.vni) {
            i++;
        }
        g.end = i;
        if (table == TABLE_VXLAN_ROUTE) {
            rc = add_group(x, j, &g, cost);
        }
    }
    return rc;
}

enum rc routes_apply(struct xgwh *x, struct steps *steps, struct xgwh_cost *cost)
{
    struct jobs j = { 0 };
    enum rc rc = add_groups(x, steps, &j, cost);

    if (rc == RC_OK && j.count > 0) {
        j.changes = malloc(j.count * sizeof(*j.changes));
        j.order = malloc(j.count * sizeof(*j.order));
        rc = j.changes && j.order ? RC_OK : RC_NO_MEMORY;
    }
    for (unsigned turn = 0; rc == RC_OK && turn < TURNS; turn++) {
        rc = run_turn(x, &j, turn, cost);
    }
    if (rc == RC_OK) {
        rc = close_jobs(x, steps, &j, cost);
    }
    jobs_fini(&j);
    return rc;
}

enum rc guards_trim(struct xgwh *x, const struct change_list *changes,
                    struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && x->guards.count > 0 && i < changes->count;
         i++) {
        uint32_t vni = changes->at[i].vni;

        if (changes->at[i].table == TABLE_VXLAN_ROUTE && u64map_find(&x->guards, vni) &&
            !wants_guard(x->rows, x->unnamed, vni)) {
            rc = drop_guard(x, vni, cost);
        }
    }
    return rc;
}

/* ---- what nobody claimed ---- */

/* A swept default of IPv4 becomes a guard where a route lies over it. */
static enum rc sweep_route(struct xgwh *x, uint32_t vni, const struct row *key,
                           struct xgwh_cost *cost)
{
    struct alpm_change c = { .is_delete = true, .route = { .vni = vni } };
    struct alpm_result old;
    struct entry e;
    enum rc rc = entry_unpack(TABLE_VXLAN_ROUTE, vni, key, &e, NULL);

    if (rc != RC_OK) {
        return rc;
    }
    pooled_of(&e.route.dst, c.route.addr, &c.route.len);
    if (is_v4_default(&e.route.dst) && wants_guard(x->rows, NULL, vni)) {
        c.is_delete = false;
        c.route.result = guard_result;
        if (!u64map_put(&x->guards, vni, 1)) {
            return RC_NO_MEMORY;
        }
    }
    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        bool had = alpm_get(x->alpm[half], vni, c.route.addr, c.route.len, &old);

        if (had || (!c.is_delete && half_is_in(xgwh_half_of(x, vni), half))) {
            rc = route_changes(x, half, &c, 1, cost);
        }
        if (had) {
            count_peers(x, &old, NULL);
            rc = rc == RC_OK ? release(x, &old) : rc;
        }
    }
    return rc;
}

enum rc routes_sweep(struct xgwh *x, struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (uint32_t vni = table_set_next(x->unnamed, VNI_MIN, ~0u); rc == RC_OK && vni;
         vni = vni == VNI_MAX ? 0 : table_set_next(x->unnamed, vni + 1, ~0u)) {
        struct rows_iter it = rows_begin(
            table_set_rows(x->unnamed, vni, TABLE_VXLAN_ROUTE), TABLE_VXLAN_ROUTE);
        struct row row;

        while (rc == RC_OK && rows_next(&it, &row)) {
            rc = sweep_route(x, vni, &row, cost);
        }
        if (rc == RC_OK && u64map_find(&x->guards, vni) &&
            !wants_guard(x->rows, NULL, vni)) {
            rc = drop_guard(x, vni, cost);
        }
    }
    return rc;
}
