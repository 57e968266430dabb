#include "agent/gateway/device_impl.h"

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
    table_set_free(d->kept[0]);
    table_set_free(d->kept[1]);
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

struct exception *refusals_add(struct refusals *r)
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

/* Whether the structures say of the row what the records say. */
static bool is_sound(const struct device *d, enum table_id table, uint32_t vni,
                     const struct row *key)
{
    struct rows *rows = table_set_rows(d->records, vni, table);
    struct buf value = BUF_INIT;
    struct row record;
    bool is_gone;

    if (table == TABLE_VXLAN_ROUTE) {
        return fib_audit(d->fib, table, vni, rows, NULL, NULL) == 0;
    }
    if (rows && rows_find(rows, table, key->key, key->key_len, &record)) {
        return fib_holds(d->fib, table, vni, &record);
    }
    is_gone = fib_get(d->fib, table, vni, key->key, key->key_len, &value) != RC_OK;
    buf_fini(&value);
    return is_gone;
}

/* Rows that changed nothing in the records: the structures follow all the same. */
static enum rc repair_rows(struct device *d, const struct device_write *w,
                           struct err *err)
{
    struct batch_reader r = batch_reader_of(w->ops, w->len);
    struct batch_run run;
    enum rc rc = RC_OK;

    while (rc == RC_OK && batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        enum table_id table = (enum table_id)run.table;
        struct row row;

        while (rc == RC_OK && run_next(&it, &row)) {
            if (!is_sound(d, table, run.vni, &row)) {
                rc = fib_repair(d->fib, d->records, table, run.vni, row.key,
                                row.key_len);
            } else if (table == TABLE_VXLAN_ROUTE) {
                break; /* all of the VNI's are */
            }
        }
    }
    fib_repaired(d->fib);
    return rc ? err_set(err, rc, "structures: no memory to repair them") : RC_OK;
}

static enum rc write_rows(struct device *d, const struct device_write *w,
                          struct refusals *ret, struct err *err)
{
    struct change_list changes = { 0 };
    struct rows_change total = { 0 };
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
        rc = table_set_apply(d->records, w->ops, w->len, &changes, &total, err);
    }
    if (rc == RC_OK && fib_apply(d->fib, d->records, &changes, &exceptions) != RC_OK) {
        report(&exceptions, ret);
        rc = revert(d, &exceptions, &changes, err);
    }
    if (rc == RC_OK && total.unchanged > 0) {
        rc = repair_rows(d, w, err);
    }
    if (rc == RC_OK && (d->kept[0] || d->kept[1])) {
        rc = tamper_after_write(d, &changes, err);
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
