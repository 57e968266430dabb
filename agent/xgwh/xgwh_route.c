/* Routes of the logical table in the terms of alpm, and into the plan. */
#include "agent/xgwh/xgwh_impl.h"

#include <string.h>

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

enum rc route_release(struct xgwh *x, const struct alpm_result *r)
{
    return r->scope != PHYS_SCOPE_TUNNEL || nc_pool_release(&x->holds.ncs, r->idx)
               ? RC_OK
               : RC_NO_MEMORY;
}

/* ---- into the plan ---- */

void route_sink(void *ctx, const struct phys_write *w)
{
    plan_add_strand(
        ctx, w->entry.half == PHYS_HALF_1 ? STRAND_ROUTES_1 : STRAND_ROUTES_0, w);
}

enum rc route_changes(struct xgwh *x, unsigned half, const struct alpm_change *changes,
                      size_t count, struct xgwh_cost *cost)
{
    struct alpm_cost c = { 0 };
    enum rc rc =
        alpm_apply(x->alpm[half], changes, count, route_sink, &x->plan, &c, NULL);

    cost->covering += c.cover_writes;
    cost->moves += c.move_writes;
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
    if (prefix_is_v4_default(&e.route.dst) && guard_is_wanted(x->rows, NULL, vni)) {
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
            rc = rc == RC_OK ? route_release(x, &old) : rc;
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
            !guard_is_wanted(x->rows, NULL, vni)) {
            rc = guard_drop(x, vni, cost);
        }
    }
    return rc;
}
