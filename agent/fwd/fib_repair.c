/* Makes structures say what the records say, whatever they say now: for what audits
 * find.  VM-NC values that were referred to by what was wrong are counted anew;
 * tunnels and services of routes keep their references: nobody knows any more which
 * they were. */
#include "agent/fwd/fib_impl.h"

#include <stdlib.h>

static bool is_pooled(uint64_t code)
{
    return (code & NC_POOLED_MASK) == NC_POOLED;
}

static enum rc repair_vm(struct fib *f, uint32_t vni, const uint8_t *key,
                         uint8_t key_len, const struct rows *rows)
{
    struct exact_entry entry;
    struct exact *table;
    struct nc_value value;
    struct fib_key k;
    struct row row;
    uint32_t code = 0;
    uint64_t old;
    bool existed;
    bool is_there = rows_find(rows, TABLE_VM_NC, key, key_len, &row);
    enum rc rc = RC_OK;

    if (vm_key_parse(key, key_len, &k) || (is_there && nc_parse(&row, &value))) {
        return RC_INVALID;
    }
    table = k.is_v6 ? &f->v6 : &f->v4;
    entry = vm_entry(vni, &k, 0);
    f->must_recount |= exact_find(table, &entry, &old) && is_pooled(old);
    if (is_there) {
        rc = nc_acquire(f, &value, &code);
        f->must_recount |= is_pooled(code);
        entry = vm_entry(vni, &k, code);
        rc = rc ? rc : exact_put(table, &entry, &existed, &old);
    }
    if (rc == RC_OK) {
        exact_purge(table, &entry, is_there); /* also copies that no lookup finds */
        exact_mark(table, &entry, mark_is_due(f, slot_find(f, vni, k.is_v6), &k));
    }
    return rc;
}

/* ---- who refers to what ---- */

static void count_codes(const struct exact *table, uint32_t counts[], uint32_t top)
{
    struct exact_cursor c = { 0 };
    struct exact_entry x;
    bool is_found;

    while (!c.is_over) {
        uint32_t budget = UINT32_MAX;

        while (exact_next(table, &c, &budget, &x, &is_found)) {
            if (is_pooled(x.val) && (x.val & NC_INDEX_MASK) < top) {
                counts[x.val & NC_INDEX_MASK]++;
            }
        }
    }
}

void fib_repaired(struct fib *f)
{
    uint32_t top = f->ncs.top;
    uint32_t *counts = f->must_recount ? calloc(top + 1, sizeof(*counts)) : NULL;

    if (!counts || !retire_reserve(&f->retire, f->ncs.live)) {
        free(counts);
        return;
    }
    count_codes(&f->v4, counts, top);
    count_codes(&f->v6, counts, top);
    for (uint32_t i = 0; i < top; i++) {
        if (pool_recount(&f->ncs, i, counts[i])) {
            retire_add(&f->retire, RETIRED_NC, i, 0);
        }
    }
    f->must_recount = false;
    free(counts);
    atomic_fetch_add(&f->retire.epoch, 1); /* what was retired is now unreachable */
}

static void repair_vni(struct fib *f, const struct table_change *c,
                       struct refusal *refused)
{
    for (unsigned is_v6 = 0; is_v6 < 2; is_v6++) {
        struct exact_entry key = { .w0 = slot_key(c->vni, is_v6) };

        exact_purge(&f->vni, &key, true);
    }
    if (c->after) {
        vni_put_pass(f, c, refused);
    } else {
        vni_delete_pass(f, c, refused);
    }
}

static void repair_cluster(struct fib *f, const struct table_change *c,
                           struct refusal *refused)
{
    struct exact_entry key = { .w0 = c->vni };

    exact_purge(&f->clusters, &key, c->after != NULL);
    if (c->after) {
        cluster_pass(f, c, refused);
    }
}

/* The marks of all VMs of a VNI: none, or those that are due. */
static void repair_marks(struct fib *f, uint32_t vni, bool is_set)
{
    for (unsigned is_v6 = 0; is_v6 < 2; is_v6++) {
        marks_of_vni(f, vni, is_v6, is_set ? slot_find(f, vni, is_v6) : 0, is_set);
    }
}

enum rc fib_repair(struct fib *f, const struct table_set *records, enum table_id table,
                   uint32_t vni, const uint8_t *key, uint8_t key_len)
{
    struct rows *rows = table_set_rows(records, vni, table);
    struct table_change c = {
        .vni = vni, .table = (uint8_t)table, .before = rows, .after = rows
    };
    struct fib_exceptions list = { 0 };
    struct refusal refused = { .list = &list };
    enum rc rc = RC_INVALID;

    if (!retire_reserve(&f->retire, 64)) { /* of any of the three: some 32 */
        return RC_NO_MEMORY;
    }
    f->records = records;
    if (table == TABLE_VNI || table == TABLE_VXLAN_ROUTE) {
        repair_marks(f, vni, false);
    }
    if (table == TABLE_VM_NC) {
        rc = repair_vm(f, vni, key, key_len, rows);
    } else if (table == TABLE_VNI) {
        repair_vni(f, &c, &refused);
        rc = refused.first;
    } else if (table == TABLE_VNI_CLUSTER) {
        repair_cluster(f, &c, &refused);
        rc = refused.first;
    } else if (table == TABLE_VXLAN_ROUTE) {
        rc = route_rebuild(f, &c);
    }
    if (table == TABLE_VNI || table == TABLE_VXLAN_ROUTE) {
        repair_marks(f, vni, true);
    }
    f->records = NULL;
    fib_exceptions_fini(&list);
    atomic_fetch_add_explicit(&f->changes, 1, memory_order_release);
    atomic_fetch_add(&f->retire.epoch, 1); /* what was retired is now unreachable */
    return rc;
}
