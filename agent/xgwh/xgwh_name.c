/* The logical rows of what was read back. */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

/* Rows of one (VNI, table) on their way, in key order. */
struct writer {
    struct table_set *to;
    enum table_id table;
    uint32_t vni;
    struct buf rows;
};

static enum rc writer_close(struct writer *w)
{
    struct rows *set;
    enum rc rc;

    if (buf_failed(&w->rows)) {
        return RC_NO_MEMORY;
    }
    if (w->rows.len == 0) {
        return RC_OK;
    }
    rc = rows_load(w->table, w->vni, w->rows.data, (uint32_t)w->rows.len, NULL, &set);
    if (rc != RC_OK) {
        return rc;
    }
    rc = table_set_put(w->to, w->vni, w->table, set);
    if (rc != RC_OK) {
        rows_unref(set);
    }
    buf_reset(&w->rows);
    return rc;
}

/* From here on rows of `vni`. */
static enum rc writer_turn(struct writer *w, uint32_t vni)
{
    enum rc rc = w->vni == vni ? RC_OK : writer_close(w);

    w->vni = vni;
    return rc;
}

/* ---- VNIs ---- */

/* Without halves the switch does not say which one the row names. */
static uint8_t name_half(const struct xgwh *x, const struct table_set *old,
                         uint32_t vni)
{
    struct row row;

    if (x->halves == 1 &&
        rows_find(table_set_rows(old, vni, TABLE_VNI), TABLE_VNI, NULL, 0, &row)) {
        return row.value[1];
    }
    return xgwh_half_of(x, vni);
}

static enum rc name_vnis(struct xgwh *x, const struct table_set *old,
                         struct table_set *rows)
{
    const struct u64map *vnis = &x->holds.vnis;
    struct writer w = { .to = rows, .table = TABLE_VNI };
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < u64map_places(vnis); i++) {
        if (vnis->keys[i] != U64MAP_NONE) {
            rc = writer_turn(&w, (uint32_t)vnis->keys[i]);
            buf_u8(&w.rows, vnis->values[i] >> 18 & VNI_FLAGS_ON_CHIP);
            buf_u8(&w.rows, name_half(x, old, w.vni));
        }
    }
    rc = rc == RC_OK ? writer_close(&w) : rc;
    buf_fini(&w.rows);
    return rc;
}

/* ---- VM-NC ---- */

/* `key` is what sorts: VNI, then the address. */
struct vm4_item {
    uint64_t key; /* VNI(24) address(32) */
    uint32_t nc;
};
struct vm6_item {
    uint8_t key[20]; /* VNI(4) address(16) */
    uint32_t nc;
};
struct vm_items {
    struct vm4_item *v4;
    struct vm6_item *v6;
    uint32_t v4_count;
    uint32_t v6_count;
};

static int compare_vm4(const void *a, const void *b)
{
    const struct vm4_item *x = a;
    const struct vm4_item *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static int compare_vm6(const void *a, const void *b)
{
    return memcmp(a, b, 20);
}

static void add_vm6(struct vm_items *items, uint32_t vni, const uint8_t addr[16],
                    uint32_t nc)
{
    struct vm6_item *v = &items->v6[items->v6_count++];
    uint32_t be = __builtin_bswap32(vni);

    memcpy(v->key, &be, 4);
    memcpy(v->key + 4, addr, 16);
    v->nc = nc;
}

/* Whether the NC index is that of the address. */
static bool is_nc_of(const struct xgwh *x, uint32_t index, const struct ip *addr)
{
    struct ip has;

    return nc_pool_address(&x->holds.ncs, index, &has) && ip_compare(&has, addr) == 0;
}

/* A row held before names the key that it has, if it has the NC that it says. */
static void name_slot(struct xgwh *x, uint32_t vni, const struct row *row,
                      struct vm_items *items)
{
    struct vm_side *v = &x->holds.vm;
    struct entry e;
    uint64_t slot;
    uint32_t *value;

    if (entry_unpack(TABLE_VM_NC, vni, row, &e, NULL) != RC_OK || e.vm_nc.has_mac) {
        return;
    }
    slot = vm_slot(x, vni, &e.vm_nc.vm);
    value = u64map_find(&v->slots, slot);
    if (!value || *value & SLOT_NAMED || vm_find_conflict(v, slot, e.vm_nc.vm.b) != 0 ||
        !is_nc_of(x, *value & SLOT_NC, &e.vm_nc.nc)) {
        return;
    }
    *value |= SLOT_NAMED;
    add_vm6(items, vni, e.vm_nc.vm.b, *value & SLOT_NC);
}

static void name_slots(struct xgwh *x, const struct table_set *old,
                       struct vm_items *items)
{
    static const uint8_t v6_first[17] = { IP_V6 };
    const unsigned mask = 1u << TABLE_VM_NC;

    for (uint32_t vni = table_set_next(old, VNI_MIN, mask); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(old, vni + 1, mask)) {
        struct rows_iter it = rows_seek(table_set_rows(old, vni, TABLE_VM_NC),
                                        TABLE_VM_NC, v6_first, sizeof(v6_first));
        struct row row;

        while (rows_next(&it, &row)) {
            name_slot(x, vni, &row, items);
        }
    }
}

static enum rc collect_vms(struct xgwh *x, const struct table_set *old,
                           struct vm_items *items)
{
    struct vm_side *v = &x->holds.vm;
    size_t conflicts = v->used[2][0] + v->used[2][1];
    size_t v6 = 0;

    for (uint32_t i = 0; i < u64map_places(&v->slots); i++) {
        v6 += v->slots.keys[i] != U64MAP_NONE && slot_is_v6(v->slots.keys[i]);
    }
    items->v4 = malloc((v->slots.count - v6 + 1) * sizeof(*items->v4));
    items->v6 = malloc((v6 + conflicts + 1) * sizeof(*items->v6));
    if (!items->v4 || !items->v6) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < u64map_places(&v->slots); i++) {
        uint64_t slot = v->slots.keys[i];

        if (slot != U64MAP_NONE && !slot_is_v6(slot)) {
            items->v4[items->v4_count++] =
                (struct vm4_item){ (uint64_t)slot_vni(slot) << 32 | (uint32_t)slot,
                                   v->slots.values[i] & SLOT_NC };
        }
    }
    for (uint32_t i = 1; i <= v->conflict_end; i++) {
        const struct conflict *c = &v->conflicts[i];

        if (vm_find_conflict(v, c->slot, c->addr) == i) {
            add_vm6(items, slot_vni(c->slot), c->addr, c->nc);
        }
    }
    name_slots(x, old, items);
    qsort(items->v4, items->v4_count, sizeof(*items->v4), compare_vm4);
    qsort(items->v6, items->v6_count, sizeof(*items->v6), compare_vm6);
    return RC_OK;
}

static void pack_vm(const struct xgwh *x, uint8_t family, const uint8_t *addr,
                    uint32_t nc, struct buf *to)
{
    struct ip at = { 0 };

    nc_pool_address(&x->holds.ncs, nc, &at);
    buf_u8(to, family);
    buf_add(to, addr, family == IP_V4 ? 4 : 16);
    buf_u8(to, at.family);
    buf_add(to, at.b, ip_size(&at));
    buf_u8(to, 0); /* no MAC */
}

static uint32_t vm6_vni(const struct vm6_item *v)
{
    uint32_t be;

    memcpy(&be, v->key, 4);
    return __builtin_bswap32(be);
}

static enum rc name_vms(struct xgwh *x, const struct table_set *old,
                        struct table_set *rows)
{
    struct vm_items items = { 0 };
    struct writer w = { .to = rows, .table = TABLE_VM_NC };
    enum rc rc = collect_vms(x, old, &items);
    uint32_t i = 0;
    uint32_t k = 0;

    while (rc == RC_OK && (i < items.v4_count || k < items.v6_count)) {
        uint32_t vni4 =
            i < items.v4_count ? (uint32_t)(items.v4[i].key >> 32) : UINT32_MAX;
        uint32_t vni6 = k < items.v6_count ? vm6_vni(&items.v6[k]) : UINT32_MAX;

        rc = writer_turn(&w, vni4 <= vni6 ? vni4 : vni6);
        if (vni4 <= vni6) {
            uint32_t be = __builtin_bswap32((uint32_t)items.v4[i].key);
            uint8_t addr[4];

            memcpy(addr, &be, 4);
            pack_vm(x, IP_V4, addr, items.v4[i].nc, &w.rows);
            i++;
        } else {
            pack_vm(x, IP_V6, items.v6[k].key + 4, items.v6[k].nc, &w.rows);
            k++;
        }
    }
    rc = rc == RC_OK ? writer_close(&w) : rc;
    buf_fini(&w.rows);
    free(items.v4);
    free(items.v6);
    return rc;
}

/* ---- routes ---- */

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

static int compare_routes(const void *a, const void *b)
{
    int order = memcmp(a, b, 21);
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
    struct writer named;
    struct writer unnamed;
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

/* `is_whole`: it says the same wherever it should stand. */
static void name_route(struct naming *n, const struct route_item *i, bool is_whole)
{
    uint8_t key[18];
    uint8_t len = (uint8_t)pack_route_key(i, key);
    struct row old;

    if (is_whole && i->scope == PHYS_SCOPE_LOCAL) {
        buf_add(&n->named.rows, key, len);
        buf_u8(&n->named.rows, SCOPE_LOCAL);
    } else if (is_whole && i->scope == PHYS_SCOPE_PEER) {
        buf_add(&n->named.rows, key, len);
        buf_u8(&n->named.rows, SCOPE_PEER);
        buf_u24(&n->named.rows, i->vni);
    } else if (is_whole &&
               rows_find(table_set_rows(n->old, n->vni, TABLE_VXLAN_ROUTE),
                         TABLE_VXLAN_ROUTE, key, len, &old) &&
               verifies(n, i, &old)) {
        buf_add(&n->named.rows, key, len);
        buf_add(&n->named.rows, old.value, old.value_len);
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
        rc = writer_turn(&n->named, vni);
    }
    if (rc == RC_OK) {
        rc = writer_turn(&n->unnamed, vni);
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

static enum rc name_routes(struct xgwh *x, const struct table_set *old,
                           struct table_set *rows, struct table_set *unnamed,
                           struct xgwh_findings *f)
{
    struct route_items items = { 0 };
    struct naming n = { .x = x, .old = old, .found = f };
    enum rc rc = collect_routes(x, &items);

    n.named = (struct writer){ .to = rows, .table = TABLE_VXLAN_ROUTE };
    n.unnamed = (struct writer){ .to = unnamed, .table = TABLE_VXLAN_ROUTE };
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

enum rc name_all(struct xgwh *x, const struct table_set *old, struct table_set *rows,
                 struct table_set *unnamed, struct xgwh_findings *f)
{
    enum rc rc = meters_adopt(x, old, rows);

    if (rc == RC_OK) {
        rc = name_vnis(x, old, rows);
    }
    if (rc == RC_OK) {
        rc = acl_name(x, old, rows);
    }
    u64map_fini(&x->guards);
    x->peers = 0;
    if (rc == RC_OK) {
        rc = name_vms(x, old, rows);
    }
    return rc == RC_OK ? name_routes(x, old, rows, unnamed, f) : rc;
}
