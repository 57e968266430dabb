/* In which half a VNI lies, and how it moves to another. */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

uint8_t xgwh_half(uint32_t vni)
{
    return vni & 1 ? PHYS_HALF_1 : PHYS_HALF_0;
}

uint8_t xgwh_half_of(const struct xgwh *x, uint32_t vni)
{
    const uint32_t *place;

    if (x->halves == 1) {
        return PHYS_HALF_0;
    }
    place = u64map_find(&x->places, vni);
    return place ? (uint8_t)*place : xgwh_half(vni);
}

bool xgwh_set_place(struct xgwh *x, uint32_t vni, uint8_t place)
{
    if (place == xgwh_half(vni)) {
        u64map_delete(&x->places, vni);
        return true;
    }
    return u64map_put(&x->places, vni, place);
}

/* ---- one move ---- */

struct move {
    uint32_t vni;
    uint8_t from;
    uint8_t to;
    const struct rows *vms; /* that stand */
    struct step *step;      /* of its `vni` row */
    bool has_failed;
};

struct moves {
    struct move *at;
    uint32_t count;
    uint32_t cap;
};

static struct move *moves_add(struct moves *m)
{
    if (m->count == m->cap) {
        uint32_t cap = m->cap ? 2 * m->cap : 64;
        struct move *at = realloc(m->at, cap * sizeof(*at));

        if (!at) {
            return NULL;
        }
        m->at = at;
        m->cap = cap;
    }
    return &m->at[m->count++];
}

/* The routes of one call, as changes of another half. */
struct routes {
    struct alpm_change *at;
    size_t count;
    size_t cap;
    bool failed;
    struct xgwh *x;
    bool is_delete;
};

static void routes_add(struct routes *r, const struct alpm_route *route)
{
    if (r->count == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct alpm_change *at = realloc(r->at, cap * sizeof(*at));

        if (!at) {
            r->failed = true;
            return;
        }
        r->at = at;
        r->cap = cap;
    }
    r->at[r->count++] =
        (struct alpm_change){ .route = *route, .is_delete = r->is_delete };
}

static bool take_route(void *ctx, const struct alpm_route *route)
{
    routes_add(ctx, route);
    return true;
}

/* What routes that come or go mean to NCs and peers. */
static enum rc count_routes(struct xgwh *x, const struct routes *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct alpm_result *result = &r->at[i].route.result;

        count_peers(x, r->is_delete ? result : NULL, r->is_delete ? NULL : result);
        if (result->scope != PHYS_SCOPE_TUNNEL) {
            continue;
        }
        if (!r->is_delete) {
            nc_pool_ref(&x->holds.ncs, result->idx);
        } else if (!nc_pool_release(&x->holds.ncs, result->idx)) {
            return RC_NO_MEMORY;
        }
    }
    return RC_OK;
}

/* Copies the routes from a half that has them, or deletes them there. */
static enum rc move_routes(struct xgwh *x, uint32_t vni, unsigned from, unsigned to,
                           bool is_delete, struct xgwh_cost *cost)
{
    struct routes r = { .x = x, .is_delete = is_delete };
    enum rc rc = RC_OK;

    alpm_routes_of(x->alpm[from], vni, take_route, &r);
    if (r.failed) {
        rc = RC_NO_MEMORY;
    } else if (r.count > 0) {
        rc = route_changes(x, to, r.at, r.count, cost);
    }
    if (rc == RC_OK) {
        rc = count_routes(x, &r);
    }
    free(r.at);
    return rc;
}

/* Every VM whose entry lies elsewhere then, one by one. */
struct moving {
    struct rows_iter it;
    uint64_t slot; /* where it is, or where it was put */
    struct entry e;
};

static bool next_moving(const struct move *m, uint8_t at, uint8_t other,
                        struct moving *ret)
{
    struct row row;

    while (rows_next(&ret->it, &row)) {
        if (entry_unpack(TABLE_VM_NC, m->vni, &row, &ret->e, NULL) != RC_OK) {
            continue; /* cannot be: the rows were checked */
        }
        ret->slot = vm_slot_in(m->vni, at, &ret->e.vm_nc.vm);
        if (ret->slot != vm_slot_in(m->vni, other, &ret->e.vm_nc.vm)) {
            return true;
        }
    }
    return false;
}

static enum rc put_vms(struct xgwh *x, const struct move *m)
{
    struct moving v = { .it = rows_begin(m->vms, TABLE_VM_NC) };
    enum rc rc = RC_OK;

    while (rc == RC_OK && next_moving(m, m->to, m->from, &v)) {
        rc = vm_put(x, m->vni, &v.e.vm_nc.vm, &v.e.vm_nc.nc, false);
    }
    return rc;
}

/* From where they lie with `gone` as their place, if not with `stays` too; conflicts
 * first, for the reason that vm_delete() has. */
static enum rc delete_vms(struct xgwh *x, const struct move *m, uint8_t gone,
                          uint8_t stays)
{
    bool *is_done = calloc(rows_count(m->vms) + 1, sizeof(*is_done));
    enum rc rc = is_done ? RC_OK : RC_NO_MEMORY;

    for (unsigned pass = 0; rc == RC_OK && pass < 2; pass++) {
        struct moving v = { .it = rows_begin(m->vms, TABLE_VM_NC) };

        for (uint32_t i = 0; rc == RC_OK && next_moving(m, gone, stays, &v); i++) {
            if (!is_done[i]) {
                rc = vm_delete_at(x, v.slot, &v.e.vm_nc.vm, pass == 0, &is_done[i]);
            }
        }
    }
    free(is_done);
    return rc;
}

static enum rc drop_routes(struct xgwh *x, const struct move *m, uint8_t gone,
                           uint8_t stays, struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    for (unsigned half = 0; rc == RC_OK && half < 2; half++) {
        if (half_is_in(gone, half) && !half_is_in(stays, half)) {
            rc = move_routes(x, m->vni, half, half, true, cost);
        }
    }
    return rc;
}

/* Everything stands in the new place too, or nothing does. */
static enum rc fill(struct xgwh *x, struct move *m, struct xgwh_cost *cost)
{
    unsigned from = half_is_in(m->from, 0) ? 0 : 1;
    enum rc rc = RC_OK;

    if (!xgwh_set_place(x, m->vni, m->to)) {
        return RC_NO_MEMORY;
    }
    for (unsigned half = 0; rc == RC_OK && half < 2; half++) {
        if (half_is_in(m->to, half) && !half_is_in(m->from, half)) {
            rc = move_routes(x, m->vni, from, half, false, cost);
        }
    }
    if (rc == RC_OK) {
        rc = put_vms(x, m);
    }
    if (rc == RC_OK || rc == RC_NO_MEMORY) {
        return rc;
    }
    m->has_failed = true;
    m->step->state = STEP_FULL;
    rc = xgwh_set_place(x, m->vni, m->from) ? delete_vms(x, m, m->to, m->from)
                                            : RC_NO_MEMORY;
    return rc == RC_OK ? drop_routes(x, m, m->to, m->from, cost) : rc;
}

static enum rc drop(struct xgwh *x, struct move *m, struct xgwh_cost *cost)
{
    enum rc rc = drop_routes(x, m, m->from, m->to, cost);

    return rc == RC_OK ? delete_vms(x, m, m->from, m->to) : rc;
}

/* ---- who points there ---- */

static bool take_peer(void *ctx, const struct alpm_route *route)
{
    struct routes *r = ctx;
    struct alpm_route now = *route;

    if (route->result.scope == PHYS_SCOPE_PEER) {
        now.result.idx = xgwh_half_of(r->x, route->result.vni);
        if (now.result.idx != route->result.idx) {
            routes_add(r, &now);
        }
    }
    return true;
}

/* Looks at every route: moves are rare, and a batch's are seen to together. */
static enum rc turn_peers(struct xgwh *x, struct xgwh_cost *cost)
{
    enum rc rc = RC_OK;

    plan_join(&x->plan); /* they are there before others point to them */
    for (unsigned half = 0; rc == RC_OK && half < 2; half++) {
        struct routes r = { .x = x };

        alpm_routes(x->alpm[half], take_peer, &r);
        if (r.failed) {
            rc = RC_NO_MEMORY;
        } else if (r.count > 0) {
            rc = route_changes(x, half, r.at, r.count, cost);
        }
        free(r.at);
    }
    return rc;
}

/* ---- all of a batch ---- */

/* The VMs of those that move, as they stood before the batch. */
static enum rc find_vms(struct xgwh *x, const struct change_list *changes,
                        struct moves *moves)
{
    struct u64map changed = { 0 }; /* VNI -> its change */
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && moves->count > 0 && i < changes->count; i++) {
        if (changes->at[i].table == TABLE_VM_NC &&
            !u64map_put(&changed, changes->at[i].vni, i)) {
            rc = RC_NO_MEMORY;
        }
    }
    for (uint32_t i = 0; rc == RC_OK && i < moves->count; i++) {
        struct move *m = &moves->at[i];
        const uint32_t *change = u64map_find(&changed, m->vni);

        m->vms = change ? changes->at[*change].before
                        : table_set_rows(x->rows, m->vni, TABLE_VM_NC);
    }
    u64map_fini(&changed);
    return rc;
}

static enum rc collect(struct xgwh *x, struct steps *steps,
                       const struct change_list *changes, struct moves *moves)
{
    for (uint32_t i = 0; i < steps->count; i++) {
        struct step *s = &steps->at[i];
        struct move *at;
        struct entry e;

        if (s->table != TABLE_VNI || !s->after.key ||
            entry_unpack(TABLE_VNI, s->vni, &s->after, &e, NULL) != RC_OK ||
            e.vni_row.flags & ~VNI_FLAGS_ON_CHIP || /* will be refused */
            e.vni_row.half == xgwh_half_of(x, s->vni)) {
            continue;
        }
        at = moves_add(moves);
        if (!at) {
            return RC_NO_MEMORY;
        }
        *at = (struct move){ .vni = s->vni,
                             .from = xgwh_half_of(x, s->vni),
                             .to = e.vni_row.half,
                             .step = s };
    }
    return find_vms(x, changes, moves);
}

enum rc places_apply(struct xgwh *x, struct steps *steps,
                     const struct change_list *changes, const struct xgwh_sink *sink,
                     struct xgwh_cost *cost, struct err *err)
{
    struct moves moves = { 0 };
    enum rc rc = x->halves == 2 ? collect(x, steps, changes, &moves) : RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < moves.count; i++) {
        rc = fill(x, &moves.at[i], cost);
    }
    if (rc == RC_OK && moves.count > 0 && x->peers > 0) {
        rc = turn_peers(x, cost);
    }
    for (uint32_t i = 0; rc == RC_OK && i < moves.count; i++) {
        if (!moves.at[i].has_failed) {
            vni_refresh(x, moves.at[i].vni);
        }
    }
    if (rc == RC_OK && moves.count > 0) {
        rc = xgwh_flush(x, sink, cost, err);
    }
    for (uint32_t i = 0; rc == RC_OK && i < moves.count; i++) {
        if (!moves.at[i].has_failed) {
            rc = drop(x, &moves.at[i], cost);
        }
    }
    if (rc == RC_OK && moves.count > 0) {
        rc = xgwh_flush(x, sink, cost, err);
    }
    free(moves.at);
    return rc;
}
