/*
 * transit: a tenant's tables of one group on their way to another state.
 *
 * Every prefix of what a device is sent is safe: VM-NC, rules and meter come before the
 * routes and leave after them; of routes the longest come first and leave last, so that
 * a `fallback` stands before what would cover it; the `vni` row comes last and leaves
 * first.  (A reconnecting device that lacks more than was sent meanwhile is repaired in
 * the order of digests; until then it forwards by a mixture of old and new, like every
 * kind.)
 */
#include "controller/core/core_internal.h"

/* Devices' tables in the order in which a tenant's come. */
static const enum table_id in_order[] = { TABLE_VM_NC, TABLE_ACL, TABLE_METER,
                                          TABLE_VXLAN_ROUTE, TABLE_VNI };

/* What XGW-H's rows mean to demand is counted before anything is changed. */
static const enum table_id counted[] = { TABLE_VM_NC, TABLE_VXLAN_ROUTE };

enum {
    TABLES = sizeof(in_order) / sizeof(in_order[0]),
    LEAVES = sizeof(counted) / sizeof(counted[0]), /* the vni row's delete */
    PUTS = LEAVES + 1,                             /* two for each table */
    DELETES = PUTS + 2 * TABLES, /* of all that do not leave earlier */
    PASSES = DELETES + TABLES
};

enum way { WAY_NONE, WAY_COUNT, WAY_PUT, WAY_PUT_BACKWARDS, WAY_DELETE };

/* What the present pass does, and to which table. */
static enum way pass_of(const struct transit *t, enum table_id *ret_table)
{
    bool is_second = t->pass >= PUTS && t->pass < DELETES && (t->pass - PUTS) % 2;
    bool arrives = t->mask >> TABLE_VNI & 1 && !t->before[TABLE_VNI];
    enum table_id table;

    if (t->pass < LEAVES) {
        *ret_table = counted[t->pass];
        return t->group->kind == GROUP_H ? WAY_COUNT : WAY_NONE;
    }
    if (t->pass < PUTS) {
        *ret_table = TABLE_VNI;
        return t->after[TABLE_VNI] ? WAY_NONE : WAY_DELETE;
    }
    table = in_order[t->pass < DELETES ? (t->pass - PUTS) / 2 : t->pass - DELETES];
    *ret_table = table;
    if (table == TABLE_VXLAN_ROUTE) {
        if (t->pass >= DELETES) {
            return WAY_NONE;
        }
        return is_second ? WAY_DELETE : arrives ? WAY_PUT : WAY_PUT_BACKWARDS;
    }
    if (t->pass < DELETES) {
        return is_second ? WAY_NONE : WAY_PUT;
    }
    return table == TABLE_VNI ? WAY_NONE : WAY_DELETE;
}

static void emit(struct transit *t, enum batch_op op, enum table_id table,
                 const struct row *row, uint32_t *units)
{
    batch_add_row(&t->group->writer, op, table, t->vni, row);
    units_spend(units, 1 + (row->key_len + row->value_len) / 32u);
}

/* One of several, for to move hundred thousands of rows to a larger array takes long.
 */
#define KEPT_MAX 1024
struct kept {
    struct kept *before;
    uint32_t count, cap;
    struct row at[];
};

static void keep(struct transit *t, const struct row *row)
{
    if (!t->kept || t->kept->count == t->kept->cap) {
        uint32_t cap = t->kept ? KEPT_MAX : 16;
        struct kept *k = core_need(malloc(sizeof(*k) + cap * sizeof(k->at[0])));

        k->before = t->kept;
        k->count = 0;
        k->cap = cap;
        t->kept = k;
    }
    t->kept->at[t->kept->count++] = *row;
}

/* The last that was kept, taken out; false: there is none. */
static bool take_kept(struct transit *t, struct row *ret)
{
    struct kept *k = t->kept;

    if (!k) {
        return false;
    }
    *ret = k->at[--k->count];
    if (k->count == 0) {
        t->kept = k->before;
        free(k);
    }
    return true;
}

static bool count_work(struct transit *t, enum table_id table, uint32_t *units)
{
    struct row before;
    struct row after;

    while (rows_compare_next(&t->compare, units, &before, &after)) {
        demand_row(t->group, table, before.key ? &before : NULL,
                   after.key ? &after : NULL);
        units_spend(units, 2);
    }
    t->is_comparing = !t->compare.is_over;
    return !t->is_comparing;
}

static bool pass_work(struct transit *t, uint32_t *units)
{
    enum table_id table;
    enum way way = pass_of(t, &table);
    struct row before;
    struct row after;

    if (way == WAY_NONE || !(t->mask >> table & 1)) {
        return true;
    }
    if (!t->is_comparing) {
        rows_compare_begin(&t->compare, t->before[table], t->after[table], table);
        t->is_comparing = true;
    }
    if (way == WAY_COUNT) {
        return count_work(t, table, units);
    }
    while (rows_compare_next(&t->compare, units, &before, &after)) {
        if (way == WAY_DELETE && !after.key) {
            emit(t, BATCH_DELETE, table, &before, units);
        } else if (way == WAY_PUT && after.key) {
            emit(t, BATCH_PUT, table, &after, units);
        } else if (way == WAY_PUT_BACKWARDS && after.key) {
            keep(t, &after);
        }
    }
    /* From the last to the first: what is covered before what covers it. */
    while (t->compare.is_over && *units > 0 && take_kept(t, &after)) {
        emit(t, BATCH_PUT, table, &after, units);
    }
    t->is_comparing = !t->compare.is_over || t->kept;
    return !t->is_comparing;
}

void transit_begin(struct transit *t)
{
    struct group *g = t->group;

    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (!(t->mask >> i & 1)) {
            continue;
        }
        t->before[i] = rows_ref(table_set_rows(g->desired, t->vni, (enum table_id)i));
        if (t->before[i] == t->after[i] ||
            (rows_digest(t->before[i]) == rows_digest(t->after[i]) &&
             rows_count(t->before[i]) == rows_count(t->after[i]))) {
            t->mask &= ~(1u << i);
            if (t->before[i] != t->after[i]) { /* other pages: the new, to share them */
                core_must(
                    !table_set_put(g->desired, t->vni, (enum table_id)i, t->after[i]));
                t->after[i] = NULL;
            }
        }
    }
    t->pass = t->mask ? 0 : PASSES;
}

/* All is counted, and the desired set still as it was. */
static void begin_change(struct core *c, struct transit *t)
{
    struct group *g = t->group;

    g->is_touched = true;
    demand_tables(c, g, t->vni, t->mask, t->after);
    if (g->session_count == 0) {
        t->pass = PASSES; /* nobody is to be told */
    }
}

bool transit_work(struct core *c, struct transit *t)
{
    while (t->pass < PASSES) {
        if (!pass_work(t, &c->units)) {
            return false;
        }
        if (++t->pass == LEAVES) {
            begin_change(c, t);
        }
    }
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (t->mask >> i & 1) {
            core_must(!table_set_put(t->group->desired, t->vni, (enum table_id)i,
                                     t->after[i]));
            t->after[i] = NULL;
        }
    }
    transit_fini(t);
    return true;
}

void transit_fini(struct transit *t)
{
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        rows_unref(t->before[i]);
        rows_unref(t->after[i]);
    }
    for (struct row row; take_kept(t, &row);) {
    }
    *t = (struct transit){ 0 };
}
