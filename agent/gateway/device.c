#include "agent/gateway/device.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_TABLES (1u << TABLE_VNI | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC)

enum rc device_init(struct device *d, const struct fib_limits *limits, uint64_t boot_id,
                    struct err *err)
{
    memset(d, 0, sizeof(*d));
    d->boot_id = boot_id;
    d->records = table_set_new();
    d->fib = fib_new(limits);
    if (!d->records || !d->fib) {
        device_fini(d);
        return err_set(err, RC_NO_MEMORY, "tables: no memory");
    }
    return RC_OK;
}

void device_fini(struct device *d)
{
    fwd_config_free(atomic_load(&d->fwd));
    fib_free(d->fib);
    table_set_free(d->records);
    memset(d, 0, sizeof(*d));
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
            return; /* the session's digests will show what is missing */
        }
        memset(e, 0, sizeof(*e));
        e->reason = reason_of(from->at[i].reason);
        e->table = from->at[i].table;
        e->vni = from->at[i].vni;
        e->key_len = from->at[i].key_len;
        memcpy(e->key, from->at[i].key, from->at[i].key_len);
    }
}

/* A controller's `tenant` rows have no place in a device. */
static enum rc check_tables(const struct device_write *w, struct err *err)
{
    struct batch_reader r = batch_reader_of(w->ops, w->len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        if (!(DEVICE_TABLES & 1u << run.table)) {
            return err_field(err, RC_INVALID, "table", "device_table",
                             "table %s is no device table",
                             table_name((enum table_id)run.table));
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
    enum rc rc = batch_check(w->ops, w->len, false, &count, &index, err);

    if (rc != RC_OK) {
        return err_wrap(err, rc, "entry %u", index);
    }
    rc = check_tables(w, err);
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
    if (w->revision > 0) {
        d->applied = w->revision;
    }
    if (w->ready) {
        atomic_store_explicit(&d->is_ready, true, memory_order_release);
    }
    return RC_OK;
}

enum rc device_configure(struct device *d, uint64_t term, const uint8_t *packed,
                         size_t len, device_bind_fn *bind, void *arg,
                         struct fwd_config **ret_old, struct err *err)
{
    struct device_config *config = malloc(sizeof(*config));
    struct fwd_config *old = atomic_load(&d->fwd);
    struct fwd_config *now = NULL;
    struct fwd_port ports[UPLINKS_MAX] = { 0 };
    enum rc rc = config ? check_term(d, term, err)
                        : err_set(err, RC_NO_MEMORY, "configuration: no memory");

    if (rc == RC_OK) {
        rc = device_config_unpack(packed, len, config, err);
    }
    if (rc == RC_OK) {
        rc = bind(arg, config, ports, err);
    }
    if (rc == RC_OK) {
        rc = fwd_config_of_device(config, ports, &now, err);
    }
    if (rc != RC_OK) {
        free(config);
        return rc;
    }
    if (old) {
        fwd_config_inherit_macs(now, old);
    }
    d->config_digest = device_config_digest(config);
    atomic_store_explicit(&d->fwd, now, memory_order_release);
    *ret_old = old;
    free(config);
    return RC_OK;
}

/* ---- read-back ---- */

static void on_mismatch(void *arg, enum table_id table, uint32_t vni,
                        const uint8_t *key, uint8_t key_len)
{
    struct exception *e = refusals_add(arg);

    if (e) {
        memset(e, 0, sizeof(*e));
        e->table = (uint8_t)table;
        e->vni = vni;
        e->key_len = key_len;
        memcpy(e->key, key, key_len);
    }
}

static bool is_mismatch(const struct refusals *list, const struct row *row)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->at[i].key_len == row->key_len &&
            memcmp(list->at[i].key, row->key, row->key_len) == 0) {
            return true;
        }
    }
    return false;
}

/* A row whose structure disagrees with its record: what packets get, if anything. */
static void add_seen(const struct device *d, enum table_id table, uint32_t vni,
                     const struct row *record, struct batch_writer *to)
{
    struct buf value = BUF_INIT;
    struct row row = *record;

    if (fib_get(d->fib, table, vni, row.key, row.key_len, &value) == RC_OK &&
        !buf_failed(&value)) {
        row.value = value.data;
        row.value_len = (uint8_t)value.len;
        batch_add_row(to, BATCH_PUT, table, vni, &row);
    }
    buf_fini(&value);
}

/* Reads one (VNI, table) from the cursor's key on; true when it is through. */
static bool read_one(const struct device *d, enum table_id table, uint32_t vni,
                     struct device_cursor *cursor, size_t max_bytes,
                     struct batch_writer *to)
{
    const struct rows *rows = table_set_rows(d->records, vni, table);
    struct rows_iter it = rows_seek(rows, table, cursor->key, cursor->key_len);
    struct refusals wrong = { 0 };
    bool is_through = true;
    struct row row;

    fib_audit(d->fib, table, vni, rows, on_mismatch, &wrong);
    while (rows_next(&it, &row)) {
        if (batch_writer_bytes(to) >= max_bytes) {
            cursor->key_len = row.key_len;
            memcpy(cursor->key, row.key, row.key_len);
            is_through = false;
            break;
        }
        if (wrong.count > 0 && is_mismatch(&wrong, &row)) {
            add_seen(d, table, vni, &row, to);
        } else {
            batch_add_row(to, BATCH_PUT, table, vni, &row);
        }
    }
    refusals_fini(&wrong);
    return is_through;
}

bool device_read(const struct device *d, uint8_t table, uint32_t vni,
                 struct device_cursor *cursor, size_t max_bytes,
                 struct batch_writer *to)
{
    uint32_t mask = table ? 1u << table : DEVICE_TABLES;

    if (cursor->vni == 0) {
        cursor->vni = vni ? vni : table_set_next(d->records, VNI_MIN, mask);
    }
    while (cursor->vni != 0) {
        for (; cursor->table < TABLE_COUNT; cursor->table++) {
            if ((mask & 1u << cursor->table) &&
                !read_one(d, (enum table_id)cursor->table, cursor->vni, cursor,
                          max_bytes, to)) {
                return true;
            }
            cursor->key_len = 0;
        }
        cursor->table = 0;
        cursor->vni = vni || cursor->vni == VNI_MAX
                          ? 0
                          : table_set_next(d->records, cursor->vni + 1, mask);
        if (cursor->vni != 0 && batch_writer_bytes(to) >= max_bytes) {
            return true;
        }
    }
    return false;
}
