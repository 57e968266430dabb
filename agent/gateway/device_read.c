/* Read-back: along the records first, each row as packets get it; then along the slots
 * of the structures, for what no record leads to. */
#include "agent/gateway/device_impl.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_A_ROW 8 /* of work: a slot that is only counted costs so much less */

void device_reading_init(struct device_reading *r, uint8_t table, uint32_t vni)
{
    memset(r, 0, sizeof(*r));
    r->table = table;
    r->vni = vni;
}

void device_reading_fini(struct device_reading *r)
{
    refusals_fini(&r->wrong);
    free(r->found);
    r->found = NULL;
    r->found_count = 0;
    r->found_cap = 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct exception *x = a;
    const struct exception *y = b;
    struct row row_x = { .key = x->key, .key_len = x->key_len };
    struct row row_y = { .key = y->key, .key_len = y->key_len };

    return row_compare(&row_x, &row_y);
}

static void on_mismatch(void *arg, enum table_id table, uint32_t vni,
                        const uint8_t *key, uint8_t key_len)
{
    struct device_reading *r = arg;
    struct exception *e;

    (void)table;
    (void)vni;
    r->is_odd = true;
    if (key_len == 0) {
        return; /* addresses that no row covers: what they get is found */
    }
    e = refusals_add(&r->wrong);
    if (!e) {
        r->is_memory_out = true;
        return;
    }
    memset(e, 0, sizeof(*e));
    e->key_len = key_len;
    memcpy(e->key, key, key_len);
}

static void on_found(void *arg, uint32_t vni, const uint8_t *key, uint8_t key_len,
                     const uint8_t *value, uint8_t value_len)
{
    struct device_reading *r = arg;
    struct found_row *f;

    (void)vni;
    if (r->found_count == r->found_cap) {
        uint32_t cap = r->found_cap ? r->found_cap * 2 : 16;
        struct found_row *more = realloc(r->found, cap * sizeof(*more));

        if (!more) {
            r->is_memory_out = true;
            return;
        }
        r->found = more;
        r->found_cap = cap;
    }
    f = &r->found[r->found_count++];
    *f = (struct found_row){ .key_len = key_len, .value_len = value_len };
    memcpy(f->key, key, key_len);
    memcpy(f->value, value, value_len);
}

static bool is_wrong(const struct device_reading *r, const struct row *row)
{
    struct exception e = { .key_len = row->key_len };

    if (r->wrong.count == 0 || r->is_memory_out) {
        return r->is_memory_out;
    }
    memcpy(e.key, row->key, row->key_len);
    return bsearch(&e, r->wrong.at, r->wrong.count, sizeof(e), compare_keys) != NULL;
}

/* What packets get, and that it is not sound. */
static void tell_unsound(struct batch_writer *to, enum table_id table, uint32_t vni,
                         const struct row *row)
{
    struct row key = { .key = row->key, .key_len = row->key_len };

    if (row->value) {
        batch_add_row(to, BATCH_PUT, table, vni, row);
    }
    batch_add_row(to, BATCH_DELETE, table, vni, &key);
}

static void tell_found(struct device_reading *r, struct batch_writer *to, uint32_t vni)
{
    for (uint32_t i = 0; i < r->found_count; i++) {
        const struct found_row *f = &r->found[i];
        struct row row = { .key = f->key,
                           .key_len = f->key_len,
                           .value = f->value,
                           .value_len = f->value_len };

        tell_unsound(to, TABLE_VXLAN_ROUTE, vni, &row);
    }
    r->found_count = 0;
}

/* Tells of one record what packets get. */
static void tell_row(const struct device *d, struct device_reading *r,
                     const struct row *record, struct batch_writer *to)
{
    enum table_id table = (enum table_id)r->at_table;
    struct buf value = BUF_INIT;
    struct row row = *record;

    if (table == TABLE_VXLAN_ROUTE ? !is_wrong(r, record)
                                   : fib_holds(d->fib, table, r->at_vni, record)) {
        batch_add_row(to, BATCH_PUT, table, r->at_vni, record);
        r->expected += table == TABLE_VM_NC || table == TABLE_VNI_CLUSTER;
        return;
    }
    /* Of a row that has a slot of its own the counts tell whether there is another. */
    r->is_odd = r->is_odd || table == TABLE_VXLAN_ROUTE || table == TABLE_VNI;
    if (table != TABLE_VXLAN_ROUTE &&
        fib_get(d->fib, table, r->at_vni, row.key, row.key_len, &value) == RC_OK &&
        !buf_failed(&value)) {
        row.value = value.data;
        row.value_len = (uint8_t)value.len;
        tell_unsound(to, table, r->at_vni, &row);
        r->expected += table != TABLE_VNI;
    }
    buf_fini(&value);
}

/* Spends up to `budget` rows on the (VNI, table) that the reading is at; gives what is
 * left.  Through when r->key_len is 0 afterwards and something is left. */
static uint32_t tell_rows(const struct device *d, struct device_reading *r,
                          const struct rows *rows, uint32_t budget, size_t max_bytes,
                          struct batch_writer *to)
{
    struct rows_iter it =
        rows_seek(rows, (enum table_id)r->at_table, r->key, r->key_len);
    struct row row;

    r->key_len = 0;
    while (rows_next(&it, &row)) {
        if (budget <= 1 || batch_writer_bytes(to) >= max_bytes) {
            r->key_len = row.key_len;
            memcpy(r->key, row.key, row.key_len);
            return 0;
        }
        tell_row(d, r, &row, to);
        budget--;
    }
    return budget;
}

/* The next part of the audit that routes pass before they are told. */
static uint32_t audit_part(const struct device *d, struct device_reading *r,
                           const struct rows *rows, uint32_t budget)
{
    uint32_t before = rows_count(rows);

    r->is_audited = !fib_audit_routes(d->fib, r->at_vni, rows, &r->audit_at, budget,
                                      on_mismatch, on_found, r);
    if (r->is_audited && r->wrong.count > 0) {
        qsort(r->wrong.at, r->wrong.count, sizeof(*r->wrong.at), compare_keys);
    }
    return before < budget ? budget - before : 0;
}

static bool has_family(const struct rows *routes, uint8_t family)
{
    struct rows_iter it = rows_seek(routes, TABLE_VXLAN_ROUTE, &family, 1);
    struct row row;

    return rows_next(&it, &row) && row.key[0] == family;
}

/* How many slots a VNI should have: one a family, the IPv4 one also for its row. */
static unsigned slots_of_vni(const struct device *d, uint32_t vni)
{
    const struct rows *routes = table_set_rows(d->records, vni, TABLE_VXLAN_ROUTE);
    bool has_v4 = table_set_rows(d->records, vni, TABLE_VNI) != NULL;

    return (unsigned)(has_v4 || (routes && has_family(routes, IP_V4))) +
           (routes && has_family(routes, IP_V6));
}

static void begin_table(struct device_reading *r)
{
    r->is_audited = false;
    r->is_memory_out = false;
    memset(&r->audit_at, 0, sizeof(r->audit_at));
    r->wrong.count = 0;
    r->key_len = 0;
}

/* To the next VNI with records; 0: none. */
static void begin_vni(const struct device *d, struct device_reading *r, uint32_t vni)
{
    r->at_table = 0;
    r->at_vni = vni;
    if (vni != 0) {
        r->expected += slots_of_vni(d, vni);
    }
}

/* Moves on to the next table or VNI. */
static void move_on(const struct device *d, struct device_reading *r, uint32_t mask,
                    struct batch_writer *to)
{
    tell_found(r, to, r->at_vni);
    begin_table(r);
    while (++r->at_table < TABLE_COUNT) {
        if (mask & 1u << r->at_table) {
            return;
        }
    }
    begin_vni(d, r,
              r->vni || r->at_vni == VNI_MAX
                  ? 0
                  : table_set_next(d->records, r->at_vni + 1, mask));
}

/* A VNI costs one row of work even where it has none. */
static uint32_t spend(uint32_t budget)
{
    return budget > 0 ? budget - 1 : 0;
}

/* True: through with the records. */
static bool read_records(const struct device *d, struct device_reading *r,
                         uint32_t mask, uint32_t budget, size_t max_bytes,
                         struct batch_writer *to)
{
    while (r->at_vni != 0) {
        enum table_id table = (enum table_id)r->at_table;
        const struct rows *rows = table_set_rows(d->records, r->at_vni, table);

        if (budget <= 1 || batch_writer_bytes(to) >= max_bytes) {
            return false;
        }
        if (rows && (mask & 1u << table)) {
            if (table == TABLE_VXLAN_ROUTE && !r->is_audited) {
                budget = audit_part(d, r, rows, budget);
                continue;
            }
            budget = tell_rows(d, r, rows, budget, max_bytes, to);
            if (r->key_len > 0) {
                return false;
            }
        }
        budget = spend(budget);
        move_on(d, r, mask, to);
    }
    return true;
}

/* ---- slots ---- */

/* As many entries as there should be, and all of these were found: there is nothing
 * else.  True: through. */
static bool count_slots(const struct device *d, struct device_reading *r,
                        uint32_t budget)
{
    struct fib_slot slot;

    while (fib_walk(d->fib, &r->walk, &budget, &slot)) {
        r->counted++;
    }
    return budget > 0;
}

/* Of a VM, or of a VNI's cluster. */
static void check_row(const struct device *d, const struct fib_slot *slot,
                      struct batch_writer *to)
{
    const struct rows *rows = table_set_rows(d->records, slot->vni, slot->table);
    struct buf value = BUF_INIT;
    struct row record;
    struct row row = { .key = slot->key, .key_len = slot->key_len };

    if (slot->vni == 0 ||
        (slot->is_found && rows &&
         rows_find(rows, slot->table, slot->key, slot->key_len, &record))) {
        return; /* told with its record */
    }
    if (fib_slot_value(d->fib, slot, &value) == RC_OK && !buf_failed(&value)) {
        row.value = value.data;
        row.value_len = (uint8_t)value.len;
    }
    tell_unsound(to, slot->table, slot->vni, &row);
    buf_fini(&value);
}

static void check_vni(const struct device *d, struct device_reading *r,
                      const struct fib_slot *slot, uint32_t mask,
                      struct batch_writer *to)
{
    struct buf value = BUF_INIT;
    struct row row = { .key = slot->key, .key_len = 0 };
    bool has_row = table_set_rows(d->records, slot->vni, TABLE_VNI) != NULL;

    if ((mask & 1u << TABLE_VNI) && slot->is_known && (!has_row || !slot->is_found) &&
        fib_slot_value(d->fib, slot, &value) == RC_OK && !buf_failed(&value)) {
        row.value = value.data;
        row.value_len = (uint8_t)value.len;
        tell_unsound(to, TABLE_VNI, slot->vni, &row);
    }
    buf_fini(&value);
    if ((mask & 1u << TABLE_VXLAN_ROUTE) && slot->has_routes && slot->is_found &&
        !table_set_rows(d->records, slot->vni, TABLE_VXLAN_ROUTE)) {
        struct fib_audit_at at = { 0 };

        while (fib_audit_routes(d->fib, slot->vni, NULL, &at, UINT32_MAX, on_mismatch,
                                on_found, r)) {
        }
        tell_found(r, to, slot->vni);
        begin_table(r);
    }
}

/* True: through. */
static bool check_slots(const struct device *d, struct device_reading *r, uint32_t mask,
                        uint32_t budget, size_t max_bytes, struct batch_writer *to)
{
    struct fib_slot slot;

    while (batch_writer_bytes(to) < max_bytes) {
        if (!fib_walk(d->fib, &r->walk, &budget, &slot)) {
            return budget > 0;
        }
        if (r->vni != 0 && slot.vni != r->vni) {
            continue;
        }
        if (slot.table == TABLE_VNI) {
            check_vni(d, r, &slot, mask, to);
        } else if (mask & 1u << slot.table) {
            check_row(d, &slot, to);
        }
    }
    return false;
}

static void begin_slots(struct device_reading *r, enum reading_step step)
{
    r->step = step;
    memset(&r->walk, 0, sizeof(r->walk));
}

bool device_read(const struct device *d, struct device_reading *r, uint32_t max_rows,
                 size_t max_bytes, struct batch_writer *to)
{
    uint32_t mask = r->table ? 1u << r->table : d->table_mask;
    bool is_all = !r->table && !r->vni;

    if (!r->has_begun) {
        r->has_begun = true;
        r->writes = d->writes;
        begin_table(r);
        begin_vni(d, r, r->vni ? r->vni : table_set_next(d->records, VNI_MIN, mask));
    }
    switch (r->step) {
    case READ_RECORDS:
        if (read_records(d, r, mask, max_rows + 1, max_bytes, to)) {
            begin_slots(r, is_all && !r->is_odd ? READ_COUNT : READ_SLOTS);
        }
        return true;
    case READ_COUNT:
        if (count_slots(d, r, max_rows * SLOTS_A_ROW)) {
            bool is_plain = r->counted == r->expected && r->writes == d->writes;

            begin_slots(r, is_plain ? READ_DONE : READ_SLOTS);
        }
        return r->step != READ_DONE;
    case READ_SLOTS:
        if (check_slots(d, r, mask, max_rows * (r->vni ? SLOTS_A_ROW : 1), max_bytes,
                        to)) {
            r->step = READ_DONE;
        }
        return r->step != READ_DONE;
    default:
        return false;
    }
}
