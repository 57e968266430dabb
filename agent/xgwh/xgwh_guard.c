/* Guards: where an IPv6 route lies over the pool's IPv4 and there is no IPv4 default, a
 * miss of IPv4 must not find it, so a route of the whole IPv4 says `miss`. */
#include "agent/xgwh/xgwh_impl.h"

#include <string.h>

const struct alpm_result guard_result = { .scope = PHYS_SCOPE_FALLBACK,
                                          .idx = PHYS_CLASS_MISS };

/* ---- where one is wanted ---- */

/* A v6 prefix short enough to lie over the IPv4 of the pool. */
bool prefix_is_over_v4(const struct prefix *p)
{
    struct prefix pool = { .addr = { .family = IP_V6 }, .len = V4_POOL_LEN };

    memcpy(pool.addr.b, v4_pool, sizeof(pool.addr.b));
    return prefix_covers(p, &pool);
}

bool prefix_is_v4_default(const struct prefix *p)
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

bool guard_is_wanted(const struct table_set *rows, const struct table_set *unnamed,
                     uint32_t vni)
{
    const struct rows *a = table_set_rows(rows, vni, TABLE_VXLAN_ROUTE);
    const struct rows *b =
        unnamed ? table_set_rows(unnamed, vni, TABLE_VXLAN_ROUTE) : NULL;

    return !has_v4_default(a) && !has_v4_default(b) &&
           (has_over_v4(a) || has_over_v4(b));
}

/* ---- how one comes and goes ---- */

struct alpm_change guard_change(uint32_t vni)
{
    struct alpm_change c = {
        .route = { .vni = vni, .len = V4_POOL_LEN, .result = guard_result }
    };

    memcpy(c.route.addr, v4_pool, sizeof(c.route.addr));
    return c;
}

bool guard_hides(const struct alpm_route *r)
{
    struct prefix p;

    return prefix_of_pooled(r->addr, r->len, &p) && prefix_is_over_v4(&p);
}

enum rc guard_note(struct xgwh *x, const struct alpm_change *c)
{
    const struct alpm_route *r = &c->route;

    if (r->len != V4_POOL_LEN || memcmp(r->addr, v4_pool, sizeof(r->addr)) != 0) {
        return RC_OK;
    }
    if (!c->is_delete && r->result.scope == PHYS_SCOPE_FALLBACK &&
        r->result.idx == PHYS_CLASS_MISS) {
        return u64map_put(&x->guards, r->vni, 1) ? RC_OK : RC_NO_MEMORY;
    }
    u64map_delete(&x->guards, r->vni);
    return RC_OK;
}

enum rc guard_drop(struct xgwh *x, uint32_t vni, struct xgwh_cost *cost)
{
    struct alpm_change c = guard_change(vni);
    struct alpm_result r;
    enum rc rc = RC_OK;

    c.is_delete = true;
    for (unsigned half = 0; rc == RC_OK && half < x->halves; half++) {
        if (alpm_get(x->alpm[half], vni, c.route.addr, c.route.len, &r)) {
            rc = route_changes(x, half, &c, 1, cost);
        }
    }
    u64map_delete(&x->guards, vni);
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
            !guard_is_wanted(x->rows, x->unnamed, vni)) {
            rc = guard_drop(x, vni, cost);
        }
    }
    return rc;
}
