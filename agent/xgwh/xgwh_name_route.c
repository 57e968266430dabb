/* The logical routes of what was read back, and the guards that they need. */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

/* `key` is what sorts: VNI(3), then a row's key as if all were as long: tag, address,
 * length. */
struct route_item {
    uint8_t key[21];
    uint8_t half;
    uint8_t scope;
    uint32_t vni;
    uint32_t idx;
};

struct route_items {
    struct route_item *at;
    size_t count;
    size_t cap;
    unsigned half; /* being collected */
};

static bool collect_route(void *ctx, const struct alpm_route *route)
{
    struct route_items *items = ctx;
    struct route_item *i = &items->at[items->count];
    struct prefix p;

    if (items->count == items->cap) {
        return false;
    }
    items->count++;
    *i = (struct route_item){ .half = (uint8_t)items->half,
                              .scope = route->result.scope,
                              .vni = route->result.vni,
                              .idx = route->result.idx };
    prefix_of_pooled(route->addr, route->len, &p);
    i->key[0] = (uint8_t)(route->vni >> 16);
    i->key[1] = (uint8_t)(route->vni >> 8);
    i->key[2] = (uint8_t)route->vni;
    i->key[3] = p.addr.family;
    memcpy(i->key + 4, p.addr.b, 16);
    i->key[20] = p.len;
    return true;
}

/* Its first 8 bytes: VNI, family and an IPv4 address, which decide nearly always. */
static uint64_t first_bytes(const void *item)
{
    uint64_t v;

    memcpy(&v, item, sizeof(v));
    return __builtin_bswap64(v);
}

static int compare_routes(const void *a, const void *b)
{
    uint64_t i = first_bytes(a);
    uint64_t k = first_bytes(b);
    int order = i != k ? (i > k ? 1 : -1) : memcmp(a, b, 21);
    const struct route_item *x = a;
    const struct route_item *y = b;

    return order != 0 ? order : x->half - y->half;
}

static uint32_t route_vni(const struct route_item *i)
{
    return (uint32_t)i->key[0] << 16 | (uint32_t)i->key[1] << 8 | i->key[2];
}

/* The changes that put right what no row can say, by half. */
struct repairs {
    struct alpm_change *at[2];
    size_t count[2];
    size_t cap[2];
};

static enum rc repair(struct repairs *r, const struct route_item *i, bool is_delete)
{
    unsigned half = i->half;
    struct alpm_change *c;
    struct prefix p = { .addr = { .family = i->key[3] }, .len = i->key[20] };

    if (r->count[half] == r->cap[half]) {
        size_t cap = r->cap[half] ? 2 * r->cap[half] : 16;
        struct alpm_change *at = realloc(r->at[half], cap * sizeof(*at));

        if (!at) {
            return RC_NO_MEMORY;
        }
        r->at[half] = at;
        r->cap[half] = cap;
    }
    c = &r->at[half][r->count[half]++];
    *c = (struct alpm_change){ .is_delete = is_delete };
    memcpy(p.addr.b, i->key + 4, sizeof(p.addr.b));
    pooled_of(&p, c->route.addr, &c->route.len);
    c->route.vni = route_vni(i);
    c->route.result = (struct alpm_result){ i->scope, i->vni, i->idx };
    return RC_OK;
}

/* What stands in the way of guards of one VNI. */
struct guard_look {
    bool has_over; /* an IPv6 route over the pool's IPv4 */
    bool has_default;
    bool has_guard;
};

struct naming {
    struct xgwh *x;
    const struct table_set *old;
    struct row_writer named;
    struct row_writer unnamed;
    struct repairs repairs;
    struct guard_look look;
    uint32_t vni;
    uint8_t place;
    struct xgwh_findings *found;
};

enum verdict { GOOD, GUARD, FOREIGN, DANGLING };

static enum verdict judge(const struct naming *n, const struct route_item *i)
{
    static const uint8_t v4_default[18] = { IP_V4 };
    struct ip addr;

    if (n->vni < VNI_MIN || !half_is_in(n->place, i->half)) {
        return FOREIGN;
    }
    switch (i->scope) {
    case PHYS_SCOPE_LOCAL:
        return GOOD;
    case PHYS_SCOPE_PEER:
        return i->vni >= VNI_MIN && i->vni != n->vni ? GOOD : FOREIGN;
    case PHYS_SCOPE_TUNNEL:
        if (i->vni < VNI_MIN) {
            return FOREIGN;
        }
        return nc_pool_address(&n->x->holds.ncs, i->idx, &addr) ? GOOD : DANGLING;
    default:
        if (i->idx == PHYS_CLASS_SERVICE) {
            return GOOD;
        }
        return memcmp(i->key + 3, v4_default, sizeof(v4_default)) == 0 ? GUARD
                                                                       : FOREIGN;
    }
}

/* The row of before maps to what was read: its value is the name. */
static bool verifies(const struct naming *n, const struct route_item *i,
                     const struct row *row)
{
    struct entry e;

    if (entry_unpack(TABLE_VXLAN_ROUTE, n->vni, row, &e, NULL) != RC_OK) {
        return false;
    }
    switch (e.route.action.scope) {
    case SCOPE_IDC:
    case SCOPE_REGION:
    case SCOPE_DERIVED:
        return i->scope == PHYS_SCOPE_TUNNEL && e.route.action.vni == i->vni &&
               is_nc_of(n->x, i->idx, &e.route.action.endpoint);
    case SCOPE_INTERNET:
    case SCOPE_SERVICE:
    case SCOPE_FALLBACK:
        return i->scope == PHYS_SCOPE_FALLBACK;
    default:
        return false;
    }
}

static unsigned pack_route_key(const struct route_item *i, uint8_t to[18])
{
    unsigned size = i->key[3] == IP_V4 ? 4 : 16;

    memcpy(to, i->key + 3, 1 + size);
    to[1 + size] = i->key[20];
    return size + 2;
}

static bool is_tunnel(enum route_scope scope)
{
    return scope == SCOPE_IDC || scope == SCOPE_REGION || scope == SCOPE_DERIVED;
}

/* As packets get it, where no row of before verifies: with the scope of one that could
 * have been it. */
static void name_as_read(struct naming *n, const struct route_item *i,
                         const struct row *old)
{
    struct entry was;
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = n->vni };
    bool has_old =
        old && entry_unpack(TABLE_VXLAN_ROUTE, n->vni, old, &was, NULL) == RC_OK;

    if (i->scope == PHYS_SCOPE_TUNNEL) {
        e.route.action.scope = has_old && is_tunnel(was.route.action.scope)
                                   ? was.route.action.scope
                                   : SCOPE_IDC;
        e.route.action.vni = i->vni;
        nc_pool_address(&n->x->holds.ncs, i->idx, &e.route.action.endpoint);
    } else {
        e.route.action.scope = SCOPE_INTERNET;
    }
    entry_pack_value(&e, &n->named.rows);
}

/* `is_whole`: it says the same wherever it should stand. */
static void name_route(struct naming *n, const struct route_item *i, bool is_whole)
{
    uint8_t key[18];
    uint8_t len = (uint8_t)pack_route_key(i, key);
    struct row old;
    bool has_old = rows_find(table_set_rows(n->old, n->vni, TABLE_VXLAN_ROUTE),
                             TABLE_VXLAN_ROUTE, key, len, &old);

    if (is_whole && i->scope == PHYS_SCOPE_LOCAL) {
        buf_add(&n->named.rows, key, len);
        buf_u8(&n->named.rows, SCOPE_LOCAL);
    } else if (is_whole && i->scope == PHYS_SCOPE_PEER) {
        buf_add(&n->named.rows, key, len);
        buf_u8(&n->named.rows, SCOPE_PEER);
        buf_u24(&n->named.rows, i->vni);
    } else if (is_whole && has_old && verifies(n, i, &old)) {
        buf_add(&n->named.rows, key, len);
        buf_add(&n->named.rows, old.value, old.value_len);
    } else if (is_whole && n->x->reading->names_all) {
        buf_add(&n->named.rows, key, len);
        name_as_read(n, i, has_old ? &old : NULL);
    } else {
        buf_add(&n->unnamed.rows, key, len);
        buf_u8(&n->unnamed.rows, SCOPE_LOCAL); /* stands for none */
    }
}

static bool is_over(const struct route_item *i)
{
    struct prefix over = { .addr = { .family = i->key[3] }, .len = i->key[20] };
    struct prefix pool = { .addr = { .family = IP_V6 }, .len = V4_POOL_LEN };

    memcpy(over.addr.b, i->key + 4, sizeof(over.addr.b));
    memcpy(pool.addr.b, v4_pool, sizeof(pool.addr.b));
    return prefix_covers(&over, &pool);
}

/* Between two VNIs: a guard that is missing comes, one too many goes. */
static enum rc close_vni(struct naming *n)
{
    static const uint8_t v4_default[18] = { IP_V4 };
    struct route_item guard = { .scope = PHYS_SCOPE_FALLBACK, .idx = PHYS_CLASS_MISS };
    bool wants = n->look.has_over && !n->look.has_default;
    /* One half's guard, where the other has a default, waits with that for the row. */
    bool is_idle = n->look.has_guard && !n->look.has_default;
    enum rc rc = RC_OK;

    guard.key[0] = (uint8_t)(n->vni >> 16);
    guard.key[1] = (uint8_t)(n->vni >> 8);
    guard.key[2] = (uint8_t)n->vni;
    memcpy(guard.key + 3, v4_default, sizeof(v4_default));
    for (unsigned half = 0; rc == RC_OK && half < n->x->halves; half++) {
        if (half_is_in(n->place, half) && (wants || is_idle)) {
            guard.half = (uint8_t)half;
            rc = repair(&n->repairs, &guard, !wants); /* nothing, if it stands */
        }
    }
    if (rc == RC_OK && wants && !u64map_put(&n->x->guards, n->vni, 1)) {
        rc = RC_NO_MEMORY;
    }
    n->look = (struct guard_look){ 0 };
    return rc;
}

static enum rc turn_to(struct naming *n, uint32_t vni)
{
    enum rc rc = n->vni == vni ? RC_OK : close_vni(n);

    if (rc == RC_OK) {
        rc = row_writer_turn(&n->named, vni);
    }
    if (rc == RC_OK) {
        rc = row_writer_turn(&n->unnamed, vni);
    }
    n->vni = vni;
    n->place = xgwh_half_of(n->x, vni);
    return rc;
}

/* One route, in the one half or the two that have it. */
static enum rc take_route(struct naming *n, struct route_item *i, unsigned count)
{
    bool is_whole = count == (n->place == PHYS_HALF_BY_DST ? 2u : 1u);
    unsigned good = 0;
    enum rc rc = RC_OK;

    for (unsigned k = 0; rc == RC_OK && k < count; k++) {
        enum verdict v = judge(n, &i[k]);

        if (v == GOOD && i[k].scope == PHYS_SCOPE_PEER &&
            i[k].idx != xgwh_half_of(n->x, i[k].vni)) {
            i[k].idx = xgwh_half_of(n->x, i[k].vni);
            n->found->foreign++;
            rc = repair(&n->repairs, &i[k], false);
        }
        if (v == FOREIGN || v == DANGLING) {
            n->found->foreign += v == FOREIGN;
            n->found->dangling += v == DANGLING;
            rc = repair(&n->repairs, &i[k], true);
        }
        n->look.has_guard |= v == GUARD;
        if (v == GOOD) {
            if (i[k].scope == PHYS_SCOPE_TUNNEL) {
                nc_pool_ref(&n->x->holds.ncs, i[k].idx);
            }
            count_peers(n->x, NULL,
                        &(struct alpm_result){ i[k].scope, i[k].vni, i[k].idx });
            i[good++] = i[k];
        }
    }
    if (rc == RC_OK && good > 0) {
        is_whole &= good == count &&
                    (good == 1 || (i[0].scope == i[1].scope && i[0].vni == i[1].vni &&
                                   i[0].idx == i[1].idx));
        n->look.has_default |= i->key[3] == IP_V4 && i->key[20] == 0;
        n->look.has_over |= is_over(i);
        name_route(n, i, is_whole);
    }
    return rc;
}

static enum rc collect_routes(struct xgwh *x, struct route_items *items)
{
    for (unsigned half = 0; half < x->halves; half++) {
        items->cap += alpm_stats(x->alpm[half]).routes;
    }
    items->at = malloc((items->cap + 1) * sizeof(*items->at));
    if (!items->at) {
        return RC_NO_MEMORY;
    }
    for (items->half = 0; items->half < x->halves; items->half++) {
        alpm_routes(x->alpm[items->half], collect_route, items);
    }
    qsort(items->at, items->count, sizeof(*items->at), compare_routes);
    return RC_OK;
}

static enum rc carry_out(struct naming *n)
{
    struct xgwh_cost cost = { 0 };
    enum rc rc = RC_OK;

    for (unsigned half = 0; rc == RC_OK && half < n->x->halves; half++) {
        if (n->repairs.count[half] > 0) {
            rc = route_changes(n->x, half, n->repairs.at[half], n->repairs.count[half],
                               &cost);
        }
    }
    return rc;
}

enum rc name_routes(struct xgwh *x, const struct table_set *old, struct table_set *rows,
                    struct table_set *unnamed, struct xgwh_findings *f)
{
    struct route_items items = { 0 };
    struct naming n = { .x = x, .old = old, .found = f };
    enum rc rc = collect_routes(x, &items);

    n.named = (struct row_writer){ .to = rows, .table = TABLE_VXLAN_ROUTE };
    n.unnamed = (struct row_writer){ .to = unnamed, .table = TABLE_VXLAN_ROUTE };
    for (size_t i = 0; rc == RC_OK && i < items.count;) {
        size_t end = i + 1;

        while (end < items.count &&
               memcmp(items.at[i].key, items.at[end].key, 21) == 0) {
            end++;
        }
        rc = turn_to(&n, route_vni(&items.at[i]));
        if (rc == RC_OK) {
            rc = take_route(&n, &items.at[i], (unsigned)(end - i));
        }
        i = end;
    }
    if (rc == RC_OK) {
        rc = turn_to(&n, 0);
    }
    if (rc == RC_OK) {
        rc = carry_out(&n);
    }
    buf_fini(&n.named.rows);
    buf_fini(&n.unnamed.rows);
    free(n.repairs.at[0]);
    free(n.repairs.at[1]);
    free(items.at);
    return rc;
}
