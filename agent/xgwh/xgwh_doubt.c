/* Rows that stand, but on entries that are not sound: a device's own places contradict
 * each other on them, or a read-back has something to put right there.
 *
 * They are told as such (xgwh_rows()), and when the row is written, what was told twice
 * is written with it, even where nothing changes. */
#include "agent/xgwh/alpm_key.h"
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

/* Takes a row that stands on some entry. */
typedef void row_fn(void *ctx, enum table_id table, uint32_t vni,
                    const struct row *row);

/* Which of `rows` stand on entries.  Most say it by their key; who asks for an NC, or
 * has a key of IPv6, shows when all rows were looked at, once. */
struct telling {
    const struct xgwh *x;
    const struct table_set *rows;
    row_fn *fn;
    void *ctx;
    struct u64map ncs;   /* index << 1 | half */
    struct u64map slots; /* of IPv6 */
    bool failed;         /* memory is out */
};

static void telling_fini(struct telling *t)
{
    u64map_fini(&t->ncs);
    u64map_fini(&t->slots);
}

static void tell(const struct telling *t, enum table_id table, uint32_t vni,
                 const uint8_t *key, unsigned len)
{
    const struct rows *rows = table_set_rows(t->rows, vni, table);
    struct row row;

    if (rows && rows_find(rows, table, key, (uint8_t)len, &row)) {
        t->fn(t->ctx, table, vni, &row);
    }
}

/* ---- which rows stand on an entry ---- */

static uint64_t nc_key(uint32_t index, unsigned half)
{
    return (uint64_t)index << 1 | half;
}

static bool asks_for(const struct telling *t, const struct ip *nc, unsigned half)
{
    uint32_t index;

    return nc_pool_find(&t->x->holds.ncs, nc, &index) &&
           u64map_find(&t->ncs, nc_key(index, half));
}

static bool is_asked(const struct telling *t, uint32_t vni, const struct entry *e)
{
    uint8_t place = xgwh_half_of(t->x, vni);
    uint64_t slot;

    if (e->table == TABLE_VXLAN_ROUTE) {
        return (half_is_in(place, 0) && asks_for(t, &e->route.action.endpoint, 0)) ||
               (half_is_in(place, 1) && asks_for(t, &e->route.action.endpoint, 1));
    }
    slot = vm_slot(t->x, vni, &e->vm_nc.vm);
    return asks_for(t, &e->vm_nc.nc, slot_half(slot)) ||
           (e->vm_nc.vm.family == IP_V6 && u64map_find(&t->slots, slot) &&
            vm_find_conflict(&t->x->holds.vm, slot, e->vm_nc.vm.b) == 0);
}

/* All rows of a table that were asked for. */
static void tell_table(const struct telling *t, enum table_id table)
{
    unsigned mask = 1u << table;

    for (uint32_t vni = table_set_next(t->rows, VNI_MIN, mask); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(t->rows, vni + 1, mask)) {
        struct rows_iter it = rows_begin(table_set_rows(t->rows, vni, table), table);
        struct row row;
        struct entry e;

        while (rows_next(&it, &row)) {
            if (entry_unpack(table, vni, &row, &e, NULL) == RC_OK &&
                is_asked(t, vni, &e)) {
                t->fn(t->ctx, table, vni, &row);
            }
        }
    }
}

/* Behind the last rows_on(). */
static void tell_asked(const struct telling *t)
{
    if (t->ncs.count + t->slots.count > 0) {
        tell_table(t, TABLE_VM_NC);
    }
    if (t->ncs.count > 0) {
        tell_table(t, TABLE_VXLAN_ROUTE);
    }
}

static void tell_rules(const struct telling *t, uint32_t vni,
                       const struct phys_entry *by)
{
    struct rows_iter it =
        rows_begin(table_set_rows(t->rows, vni, TABLE_ACL), TABLE_ACL);
    struct row row;
    struct entry e;

    while (rows_next(&it, &row)) {
        if (entry_unpack(TABLE_ACL, vni, &row, &e, NULL) == RC_OK &&
            acl_is_of(vni, &e, by)) {
            t->fn(t->ctx, TABLE_ACL, vni, &row);
        }
    }
}

static void tell_route(const struct telling *t, uint32_t vni, const uint8_t addr[16],
                       uint8_t len)
{
    struct prefix p;
    uint8_t key[18];
    unsigned size;

    prefix_of_pooled(addr, len, &p);
    size = p.addr.family == IP_V4 ? 4 : 16;
    key[0] = p.addr.family;
    memcpy(key + 1, p.addr.b, size);
    key[1 + size] = p.len;
    tell(t, TABLE_VXLAN_ROUTE, vni, key, size + 2);
}

static bool tell_behind(void *ctx, const struct alpm_route *route)
{
    tell_route(ctx, route->vni, route->addr, route->len);
    return true;
}

static void tell_part(const struct telling *t, const struct phys_entry *by)
{
    unsigned len = by->priority - 1;

    if (len >= ALPM_VNI_BITS && len <= ALPM_BITS) {
        tell_route(t, (uint32_t)phys_key(by, 1), phys_key_bytes(by, 2),
                   (uint8_t)(len - ALPM_VNI_BITS));
    }
}

static void tell_vm6(const struct telling *t, const struct phys_entry *by)
{
    uint8_t key[17] = { IP_V6 };

    memcpy(key + 1, phys_key_bytes(by, 1), 16);
    tell(t, TABLE_VM_NC, (uint32_t)phys_key(by, 0), key, sizeof(key));
}

static void tell_slot(struct telling *t, const struct phys_entry *by)
{
    uint32_t vni = (uint32_t)phys_key(by, 0);
    bool is_v6 = phys_key(by, 1);
    uint64_t slot = slot_of(vni, by->half, is_v6, (uint32_t)phys_key(by, 2));
    struct ip vm = ip_v4((uint32_t)slot);
    uint8_t key[5] = { IP_V4 };

    if (vni >= VNI_MIN && is_v6) {
        t->failed |= !u64map_put(&t->slots, slot, 1);
    } else if (vni >= VNI_MIN && vm_slot(t->x, vni, &vm) == slot) {
        memcpy(key + 1, vm.b, 4);
        tell(t, TABLE_VM_NC, vni, key, sizeof(key));
    }
}

static void rows_on(struct telling *t, const struct phys_entry *by)
{
    uint32_t first = (uint32_t)phys_key(by, 0);

    switch ((enum phys_table)by->table) {
    case PHYS_VNI:
        tell(t, TABLE_VNI, first, NULL, 0);
        break;
    case PHYS_VM_NC:
    case PHYS_VM_NC_SPILL:
        tell_slot(t, by);
        break;
    case PHYS_VM_NC_CONFLICT:
        tell_vm6(t, by);
        break;
    case PHYS_NC:
        t->failed |= !u64map_put(&t->ncs, nc_key(first, by->half), 1);
        break;
    case PHYS_ROUTE_PART:
        tell_part(t, by);
        break;
    case PHYS_ROUTE_TCAM:
        alpm_routes_behind(t->x->alpm[by->half], by, tell_behind, t);
        break;
    case PHYS_ACL:
        tell_rules(t, first, by);
        break;
    default: /* of the configuration: no row is behind it */
        break;
    }
}

/* ---- after a read-back ---- */

static void add_put(void *ctx, enum table_id table, uint32_t vni, const struct row *row)
{
    batch_add_row(ctx, BATCH_PUT, table, vni, row);
}

static enum rc apply(struct table_set *to, struct batch_writer *w)
{
    struct blob *ops = batch_writer_finish(w);
    enum rc rc =
        ops ? table_set_apply(to, ops->data, ops->len, NULL, NULL, NULL) : RC_NO_MEMORY;

    blob_unref(ops);
    return rc;
}

static void doubt_list(struct telling *t, const struct entry_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        rows_on(t, &l->at[i]);
    }
}

/* What the plan puts right, in whichever half. */
static void doubt_plan(struct telling *t, const struct plan *p)
{
    for (unsigned s = 0; s < STAGES; s++) {
        for (uint32_t i = 0; i < p->stage[s].count; i++) {
            struct phys_entry e = p->stage[s].at[i].entry;

            e.half = e.half == PHYS_BOTH ? PHYS_HALF_0 : e.half;
            rows_on(t, &e);
        }
    }
}

static bool is_deleted(const struct reading *r, const struct phys_entry *e)
{
    for (uint32_t i = 0; i < r->wrong.count; i++) {
        if (r->wrong.at[i].half == e->half && phys_compare(&r->wrong.at[i], e) == 0) {
            return true;
        }
    }
    return false;
}

static void set_true(void *ctx, enum table_id table, uint32_t vni,
                     const struct row *row)
{
    (void)table;
    (void)vni;
    (void)row;
    *(bool *)ctx = true;
}

/* Does any row stand on it? */
static bool is_stood_on(struct xgwh *x, const struct phys_entry *e)
{
    uint32_t nc = (uint32_t)phys_key(e, 0);
    bool is_hit = false;
    struct telling t = { .x = x, .rows = x->rows, .fn = set_true, .ctx = &is_hit };

    rows_on(&t, e);
    is_hit |= t.slots.count > 0 &&
              u64map_find(&x->holds.vm.slots,
                          slot_of(nc, e->half, true, (uint32_t)phys_key(e, 2)));
    is_hit |= t.ncs.count > 0 && nc < UINT32_C(1) << PHYS_NC_BITS &&
              x->holds.ncs.at[nc].refs > 0;
    telling_fini(&t);
    return is_hit;
}

/* What came twice is written with a row that stands on it; else with the next write. */
static enum rc doubt_twice(struct xgwh *x, const struct phys_entry *e)
{
    if (is_deleted(x->reading, e) || plan_writes(&x->plan, e)) {
        return RC_OK;
    }
    if (is_stood_on(x, e)) {
        return plan_doubt(&x->plan, e) ? RC_OK : RC_NO_MEMORY;
    }
    plan_add(&x->plan, STAGE_ADD, PHYS_MODIFY, e);
    return RC_OK;
}

enum rc doubts_note(struct xgwh *x)
{
    const struct entry_list *twice = &x->reading->twice;
    struct table_set *unsound = table_set_new();
    struct batch_writer w;
    struct telling t = { .x = x, .rows = x->rows, .fn = add_put, .ctx = &w };
    enum rc rc;

    plan_doubts_clear(&x->plan);
    batch_writer_init(&w);
    doubt_list(&t, &x->reading->wrong);
    doubt_list(&t, twice);
    doubt_plan(&t, &x->plan);
    tell_asked(&t);
    rc = unsound && !t.failed ? apply(unsound, &w) : RC_NO_MEMORY;
    batch_writer_fini(&w);
    telling_fini(&t);
    for (uint32_t i = 0; rc == RC_OK && i < twice->count; i++) {
        rc = doubt_twice(x, &twice->at[i]);
    }
    if (rc == RC_OK) {
        table_set_free(x->unsound);
        x->unsound = unsound;
        unsound = NULL;
    }
    table_set_free(unsound);
    return rc;
}

/* ---- writes of rows ---- */

/* Those of `ops` that are not sound, as PUTs to `put`, and as DELETEs of all to `gone`.
 */
static void collect(const struct xgwh *x, const uint8_t *ops, size_t len,
                    struct batch_writer *put, struct batch_writer *gone)
{
    struct batch_reader r = batch_reader_of(ops, len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        enum table_id table = (enum table_id)run.table;
        const struct rows *rows = table_set_rows(x->unsound, run.vni, table);
        struct run_reader it = run_reader_of(&run);
        struct row row;
        struct row was;

        while (rows && run_next(&it, &row)) {
            struct row key = { .key = row.key, .key_len = row.key_len };

            if (rows_find(rows, table, row.key, row.key_len, &was)) {
                batch_add_row(gone, BATCH_DELETE, table, run.vni, &key);
                if (run.op == BATCH_PUT) {
                    batch_add_row(put, BATCH_PUT, table, run.vni, &was);
                }
            }
        }
    }
}

/* Those that a written row stands on. */
static void write_doubts(struct xgwh *x, const struct table_set *written)
{
    for (uint32_t i = 0; i < x->plan.doubt_count; i++) {
        bool is_hit = false;
        struct telling t = { .x = x, .rows = written, .fn = set_true, .ctx = &is_hit };

        rows_on(&t, &x->plan.doubts[i]);
        tell_asked(&t);
        is_hit |= t.failed;
        telling_fini(&t);
        if (is_hit) {
            plan_add(&x->plan, STAGE_ADD, PHYS_MODIFY, &x->plan.doubts[i]);
        }
    }
}

enum rc doubts_settle(struct xgwh *x, const uint8_t *ops, size_t len)
{
    struct table_set *written;
    struct batch_writer put;
    struct batch_writer gone;
    enum rc rc = RC_OK;

    if (!x->unsound || table_set_vni_count(x->unsound) == 0) {
        return RC_OK;
    }
    written = table_set_new();
    batch_writer_init(&put);
    batch_writer_init(&gone);
    collect(x, ops, len, &put, &gone);
    rc = written ? apply(written, &put) : RC_NO_MEMORY;
    if (rc == RC_OK) {
        write_doubts(x, written);
        rc = apply(x->unsound, &gone);
    }
    batch_writer_fini(&put);
    batch_writer_fini(&gone);
    table_set_free(written);
    return rc;
}
