#include "agent/gateway/device.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t tables_of[] = {
    [DEVICE_X86] = 1u << TABLE_VNI | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC,
    [DEVICE_LB] = 1u << TABLE_VNI_CLUSTER,
};

enum rc device_init(struct device *d, uint8_t kind, const struct fib_limits *limits,
                    uint64_t boot_id, struct err *err)
{
    bool is_lb = kind == DEVICE_LB;

    memset(d, 0, sizeof(*d));
    d->kind = kind;
    d->table_mask = tables_of[kind];
    d->limits = limits ? *limits : (struct fib_limits){ 0 };
    d->boot_id = boot_id;
    d->records = table_set_new();
    d->fib = fib_new(limits);
    d->steer = is_lb ? steer_new() : NULL;
    if (!d->records || !d->fib || (is_lb && !d->steer)) {
        device_fini(d);
        return err_set(err, RC_NO_MEMORY, "tables: no memory");
    }
    return RC_OK;
}

void device_fini(struct device *d)
{
    fwd_config_free(atomic_load(&d->fwd));
    steer_free(d->steer);
    fib_free(d->fib);
    table_set_free(d->records);
    memset(d, 0, sizeof(*d));
}

uint64_t device_capacity(const struct device *d, enum table_id table)
{
    if (!(d->table_mask >> table & 1)) {
        return 0;
    }
    switch (table) {
    case TABLE_VXLAN_ROUTE:
        return d->limits.max_routes;
    case TABLE_VM_NC:
        return d->limits.max_vm_nc;
    default:
        return d->limits.max_vnis;
    }
}

void refusals_fini(struct refusals *r)
{
    free(r->at);
    memset(r, 0, sizeof(*r));
}

static struct exception *refusals_add(struct refusals *r)
{
    if (r->count == r->cap) {
        uint32_t cap = r->cap ? r->cap * 2 : 16;
        struct exception *at = realloc(r->at, cap * sizeof(*at));

        if (!at) {
            return NULL;
        }
        r->at = at;
        r->cap = cap;
    }
    return &r->at[r->count++];
}

static uint8_t reason_of(enum rc rc)
{
    switch (rc) {
    case RC_FULL:
        return EXCEPTION_FULL;
    case RC_NO_MEMORY:
        return EXCEPTION_NO_MEMORY;
    default:
        return EXCEPTION_REFUSED;
    }
}

static void report(const struct fib_exceptions *from, struct refusals *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        struct exception *e = refusals_add(to);

        if (!e) {
            to->unlisted++;
            continue;
        }
        memset(e, 0, sizeof(*e));
        e->reason = reason_of(from->at[i].reason);
        e->table = from->at[i].table;
        e->vni = from->at[i].vni;
        e->key_len = from->at[i].key_len;
        memcpy(e->key, from->at[i].key, from->at[i].key_len);
    }
    to->unlisted += from->unlisted;
}

/* A controller's `tenant` rows have no place in a device, nor another kind's tables. */
static enum rc check_tables(const struct device *d, const struct device_write *w,
                            struct err *err)
{
    struct batch_reader r = batch_reader_of(w->ops, w->len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        if (!(d->table_mask & 1u << run.table)) {
            return err_field(err, RC_INVALID, "table", "device_table",
                             "table %s is no table of a device of kind %s",
                             table_name((enum table_id)run.table),
                             device_kind_name(d->kind));
        }
    }
    return RC_OK;
}

/* Takes the rows that the fib refused out of the records again. */
static enum rc revert(struct device *d, const struct fib_exceptions *exceptions,
                      const struct change_list *changes, struct err *err)
{
    struct batch_writer back;
    struct blob *ops;
    enum rc rc;

    batch_writer_init(&back);
    fib_exceptions_revert(exceptions, changes, &back);
    ops = batch_writer_finish(&back);
    rc = ops ? table_set_apply(d->records, ops->data, ops->len, NULL, NULL, err)
             : err_set(err, RC_NO_MEMORY, "records: no memory to take rows out");
    blob_unref(ops);
    batch_writer_fini(&back);
    return rc;
}

static enum rc write_rows(struct device *d, const struct device_write *w,
                          struct refusals *ret, struct err *err)
{
    struct change_list changes = { 0 };
    struct fib_exceptions exceptions = { 0 };
    uint32_t count;
    uint32_t index;
    enum rc rc;

    if (w->len > BATCH_MAX_BYTES) {
        return err_set(err, RC_RANGE, "a batch of %zu bytes: more than %u", w->len,
                       BATCH_MAX_BYTES);
    }
    rc = batch_check(w->ops, w->len, false, &count, &index, err);
    if (rc != RC_OK) {
        return err_wrap(err, rc, "entry %u", index);
    }
    rc = check_tables(d, w, err);
    if (rc == RC_OK) {
        rc = table_set_apply(d->records, w->ops, w->len, &changes, NULL, err);
    }
    if (rc == RC_OK && fib_apply(d->fib, &changes, &exceptions) != RC_OK) {
        report(&exceptions, ret);
        rc = revert(d, &exceptions, &changes, err);
    }
    fib_exceptions_fini(&exceptions);
    change_list_fini(&changes);
    return rc;
}

static enum rc check_term(struct device *d, uint64_t term, struct err *err)
{
    if (term < d->term) {
        return err_set(err, RC_STALE, "term %llu is over: %llu was seen",
                       (unsigned long long)term, (unsigned long long)d->term);
    }
    d->term = term;
    return RC_OK;
}

enum rc device_write(struct device *d, const struct device_write *w,
                     struct refusals *ret, struct err *err)
{
    enum rc rc = check_term(d, w->term, err);

    if (rc == RC_OK && w->ready && !atomic_load(&d->fwd)) {
        rc = err_set(err, RC_CONFLICT, "ready before the first configuration");
    }
    if (rc == RC_OK && w->len > 0) {
        rc = write_rows(d, w, ret, err);
    }
    if (rc != RC_OK) {
        return rc;
    }
    d->writes += w->len > 0;
    if (w->revision > 0) {
        d->applied = w->revision;
    }
    if (w->ready) {
        atomic_store_explicit(&d->is_ready, true, memory_order_release);
    }
    return RC_OK;
}

void device_old_fini(struct device_old *old)
{
    fwd_config_free(old->fwd);
    steer_free_old(old->clusters);
    memset(old, 0, sizeof(*old));
}

/* The members come before the configuration that is told with them: nothing can fail
 * behind them. */
static enum rc publish(struct device *d, const struct device_config *config,
                       struct fwd_config *now, struct device_old *ret_old,
                       struct err *err)
{
    struct fwd_config *old = atomic_load(&d->fwd);
    enum rc rc = d->steer ? steer_configure(d->steer, d->fib, config->cluster_members,
                                            config->cluster_member_count,
                                            &ret_old->clusters, err)
                          : RC_OK;

    if (rc != RC_OK) {
        return rc;
    }
    if (old) {
        fwd_config_inherit_macs(now, old);
    }
    d->config_digest = device_config_digest(config);
    atomic_store_explicit(&d->fwd, now, memory_order_release);
    ret_old->fwd = old;
    return RC_OK;
}

static enum rc configure(struct device *d, const struct device_config *config,
                         device_bind_fn *bind, void *arg, struct device_old *ret_old,
                         struct err *err)
{
    struct fwd_port ports[UPLINKS_MAX] = { 0 };
    struct fwd_config *now = NULL;
    enum rc rc;

    if (config->kind != d->kind) {
        return err_field(err, RC_INVALID, "kind", "device_kind",
                         "a configuration for a device of kind %s: this one is %s",
                         device_kind_name(config->kind), device_kind_name(d->kind));
    }
    rc = bind(arg, config, ports, err);
    rc = rc ? rc : fwd_config_of_device(config, ports, &now, err);
    rc = rc ? rc : publish(d, config, now, ret_old, err);
    if (rc != RC_OK) {
        fwd_config_free(now);
    }
    return rc;
}

enum rc device_configure(struct device *d, uint64_t term, const uint8_t *packed,
                         size_t len, device_bind_fn *bind, void *arg,
                         struct device_old *ret_old, struct err *err)
{
    struct device_config *config = malloc(sizeof(*config));
    enum rc rc = config ? check_term(d, term, err)
                        : err_set(err, RC_NO_MEMORY, "configuration: no memory");

    memset(ret_old, 0, sizeof(*ret_old));
    rc = rc ? rc : device_config_unpack(packed, len, config, err);
    rc = rc ? rc : configure(d, config, bind, arg, ret_old, err);
    free(config);
    return rc;
}

/* ---- read-back ---- */

void device_reading_init(struct device_reading *r, uint8_t table, uint32_t vni)
{
    memset(r, 0, sizeof(*r));
    r->table = table;
    r->vni = vni;
}

void device_reading_fini(struct device_reading *r)
{
    refusals_fini(&r->wrong);
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
    struct refusals *list = arg;
    struct exception *e;

    (void)table;
    (void)vni;
    if (key_len == 0) {
        return; /* addresses that no row covers: there is no row to tell of */
    }
    e = refusals_add(list);
    if (!e) {
        list->unlisted++;
        return;
    }
    memset(e, 0, sizeof(*e));
    e->key_len = key_len;
    memcpy(e->key, key, key_len);
}

/* Without memory to list what is wrong, nothing can be vouched for. */
static bool is_wrong(const struct refusals *list, const struct row *row)
{
    struct exception e = { .key_len = row->key_len };

    if (list->count == 0 || list->unlisted > 0) {
        return list->unlisted > 0;
    }
    memcpy(e.key, row->key, row->key_len);
    return bsearch(&e, list->at, list->count, sizeof(e), compare_keys) != NULL;
}

static bool equals(const struct row *row, const struct buf *value)
{
    return value->len == row->value_len &&
           memcmp(value->data, row->value, row->value_len) == 0;
}

/* Tells of one row what packets get. */
static void tell_row(const struct device *d, const struct device_reading *r,
                     const struct row *record, struct batch_writer *to)
{
    enum table_id table = (enum table_id)r->at_table;
    bool is_route = table == TABLE_VXLAN_ROUTE;
    struct buf value = BUF_INIT;
    struct row row = *record;

    if (is_route && !is_wrong(&r->wrong, record)) {
        batch_add_row(to, BATCH_PUT, table, r->at_vni, record);
        return;
    }
    if (fib_get(d->fib, table, r->at_vni, row.key, row.key_len, &value) == RC_OK &&
        !buf_failed(&value) && !(is_route && equals(record, &value))) {
        row.value = value.data;
        row.value_len = (uint8_t)value.len;
        batch_add_row(to, BATCH_PUT, table, r->at_vni, &row);
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
                                      on_mismatch, &r->wrong);
    if (r->is_audited && r->wrong.count > 0) {
        qsort(r->wrong.at, r->wrong.count, sizeof(*r->wrong.at), compare_keys);
    }
    return before < budget ? budget - before : 0;
}

/* Moves on to the next table or VNI; false behind the last. */
static bool move_on(const struct device *d, struct device_reading *r, uint32_t mask)
{
    r->is_audited = false;
    memset(&r->audit_at, 0, sizeof(r->audit_at));
    refusals_fini(&r->wrong);
    r->key_len = 0;
    while (++r->at_table < TABLE_COUNT) {
        if (mask & 1u << r->at_table) {
            return true;
        }
    }
    r->at_table = 0;
    r->at_vni = r->vni || r->at_vni == VNI_MAX
                    ? 0
                    : table_set_next(d->records, r->at_vni + 1, mask);
    return r->at_vni != 0;
}

/* A VNI costs one row of work even where it has none. */
static uint32_t spend(uint32_t budget)
{
    return budget > 0 ? budget - 1 : 0;
}

bool device_read(const struct device *d, struct device_reading *r, uint32_t max_rows,
                 size_t max_bytes, struct batch_writer *to)
{
    uint32_t mask = r->table ? 1u << r->table : d->table_mask;
    uint32_t budget = max_rows + 1;

    if (!r->has_begun) {
        r->has_begun = true;
        r->at_vni = r->vni ? r->vni : table_set_next(d->records, VNI_MIN, mask);
    }
    while (r->at_vni != 0) {
        enum table_id table = (enum table_id)r->at_table;
        const struct rows *rows = table_set_rows(d->records, r->at_vni, table);

        if (budget <= 1 || batch_writer_bytes(to) >= max_bytes) {
            return true;
        }
        if (rows && (mask & 1u << table)) {
            if (table == TABLE_VXLAN_ROUTE && !r->is_audited) {
                budget = audit_part(d, r, rows, budget);
                continue;
            }
            budget = tell_rows(d, r, rows, budget, max_bytes, to);
            if (r->key_len > 0) {
                return true;
            }
        }
        budget = spend(budget);
        if (!move_on(d, r, mask)) {
            return false;
        }
    }
    return false;
}
