/* The routes of a batch: jobs for alpm, in turns. */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>

#define NO_STEP UINT32_MAX /* of guards */

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

/* What the job would have taken is free again. */
static enum rc release_new(struct xgwh *x, const struct job *job)
{
    return job->change.is_delete ? RC_OK : route_release(x, &job->change.route.result);
}

static enum rc close_done(struct xgwh *x, struct job *job)
{
    job->is_done = true;
    count_peers(x, &job->old, job->change.is_delete ? NULL : &job->change.route.result);
    return route_release(x, &job->old);
}

/* Without a guard, the routes of its VNI that call for it have no place: they stand
 * behind it, in the same turn. */
static enum rc close_failed(struct xgwh *x, struct jobs *j, uint32_t at)
{
    struct job *failed = &j->at[at];
    enum rc rc = release_new(x, failed);

    failed->has_failed = true;
    for (uint32_t i = at + 1; failed->step == NO_STEP && rc == RC_OK && i < j->count &&
                              j->at[i].change.route.vni == failed->change.route.vni;
         i++) {
        struct job *job = &j->at[i];

        if (job->half == failed->half && !job->change.is_delete &&
            guard_hides(&job->change.route)) {
            job->has_failed = true;
            rc = release_new(x, job);
        }
    }
    return rc;
}

/* The jobs of one half, as one change of its routes or, where that is too much at once,
 * as several. */
static enum rc run(struct xgwh *x, struct jobs *j, const uint32_t *order,
                   uint32_t count, struct xgwh_cost *cost)
{
    uint32_t half = count / 2;
    size_t changes = 0;
    enum rc rc;

    for (uint32_t i = 0; i < count; i++) {
        if (!j->at[order[i]].has_failed) {
            j->changes[changes++] = j->at[order[i]].change;
        }
    }
    if (changes == 0) {
        return RC_OK;
    }
    rc = route_changes(x, j->at[order[0]].half, j->changes, changes, cost);
    for (uint32_t i = 0; rc == RC_OK && i < count; i++) {
        if (!j->at[order[i]].has_failed) {
            rc = close_done(x, &j->at[order[i]]);
        }
    }
    if (rc == RC_OK || rc == RC_NO_MEMORY) {
        return rc;
    }
    if (count == 1) {
        return close_failed(x, j, order[0]);
    }
    rc = run(x, j, order, half, cost);
    return rc == RC_OK ? run(x, j, order + half, count - half, cost) : rc;
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
    plan_join(&x->plan);
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
            prefix_is_v4_default(&e.route.dst) || prefix_is_over_v4(&e.route.dst);
        g->has_default_step |= prefix_is_v4_default(&e.route.dst);
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
    } else if (g->wants_guard && prefix_is_v4_default(&e.route.dst)) {
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
            route_release(x, &j->at[j->count].change.route.result) != RC_OK) {
            rc = RC_NO_MEMORY;
        }
    }
    g->steps[step].state = rc == RC_FULL ? STEP_FULL : STEP_REFUSED;
    return rc == RC_NO_MEMORY ? rc : RC_OK;
}

/* Comes before the routes that call for it. */
static enum rc add_guard(struct xgwh *x, struct jobs *j, const struct group *g)
{
    for (unsigned half = 0; half < x->halves; half++) {
        struct job *job = half_is_in(g->place, half) ? jobs_add(j) : NULL;

        if (job) {
            *job = (struct job){ .change = guard_change(g->vni),
                                 .step = NO_STEP,
                                 .half = (uint8_t)half,
                                 .turn = g->turn };
        } else if (half_is_in(g->place, half)) {
            return RC_NO_MEMORY;
        }
    }
    return RC_OK;
}

static enum rc add_group(struct xgwh *x, struct jobs *j, struct group *g)
{
    enum rc rc = look_at_group(g);

    if (rc != RC_OK) {
        return rc;
    }
    g->place = xgwh_half_of(x, g->vni);
    g->wants_guard = g->is_near_guard && guard_is_wanted(x->rows, x->unnamed, g->vni);
    if (g->wants_guard && !g->has_default_step && !u64map_find(&x->guards, g->vni)) {
        rc = add_guard(x, j, g);
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
    return rc == RC_OK ? release_new(x, job) : rc;
}

/* A step with two jobs is done where both are. */
static enum rc close_step(struct xgwh *x, struct step *step, struct job *a,
                          struct job *b, struct xgwh_cost *cost)
{
    bool is_done = a->is_done && (!b || b->is_done);

    step->state = is_done ? STEP_DONE : STEP_FULL;
    if (is_done) {
        return guard_note(x, &a->change);
    }
    if (a->is_done) {
        return undo(x, a, cost);
    }
    return b && b->is_done ? undo(x, b, cost) : RC_OK;
}

/* A guard that stands in one half alone is trimmed in the end, for the routes that call
 * for it stand in none. */
static enum rc close_jobs(struct xgwh *x, struct steps *steps, struct jobs *j,
                          struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < j->count; i++) {
        struct job *a = &j->at[i];
        struct job *b = i + 1 < j->count && a[1].step == a->step ? &a[1] : NULL;

        if (a->step == NO_STEP) {
            rc = a->is_done ? guard_note(x, &a->change) : RC_OK;
            continue;
        }
        rc = close_step(x, &steps->at[a->step], a, b, cost);
        i += b != NULL;
    }
    return rc;
}

static enum rc add_groups(struct xgwh *x, struct steps *steps, struct jobs *j)
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
            rc = add_group(x, j, &g);
        }
    }
    return rc;
}

enum rc routes_apply(struct xgwh *x, struct steps *steps, struct xgwh_cost *cost)
{
    struct jobs j = { 0 };
    enum rc rc = add_groups(x, steps, &j);

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
