#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_TABLES                                                                  \
    (1u << TABLE_VNI | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC | 1u << TABLE_ACL | \
     1u << TABLE_METER)
#define TIGHT_REPACK 4096 /* writes to make room in a full route table */

/* ---- steps ---- */

static struct step *steps_add(struct steps *s)
{
    if (s->count == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 64;
        struct step *at = realloc(s->at, cap * sizeof(*at));

        if (!at) {
            return NULL;
        }
        s->at = at;
        s->cap = cap;
    }
    s->at[s->count] = (struct step){ 0 };
    return &s->at[s->count++];
}

/* One row of every (VNI, table) that the batch changed, where it differs. */
static enum rc collect(const struct change_list *changes, struct steps *steps)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct table_change *c = &changes->at[i];
        struct delta d = delta_of(c->before, c->after, (enum table_id)c->table);
        struct delta_step differs;

        while (delta_next(&d, &differs)) {
            struct step *s = steps_add(steps);

            if (!s) {
                return RC_NO_MEMORY;
            }
            s->before = differs.before;
            s->after = differs.after;
            s->vni = c->vni;
            s->table = c->table;
        }
    }
    return RC_OK;
}

/* ---- one round ---- */

/* What became of a row; only the end of memory ends the round. */
static enum rc settle(struct step *s, enum rc rc)
{
    if (rc == RC_NO_MEMORY) {
        return rc;
    }
    s->state = rc == RC_OK ? STEP_DONE : rc == RC_FULL ? STEP_FULL : STEP_REFUSED;
    return RC_OK;
}

static bool waits(const struct step *s, enum table_id table, bool is_put)
{
    return s->state == STEP_WAITS && s->table == table &&
           (s->after.key != NULL) == is_put;
}

/* A row that is about to be put, unpacked while its key's place in memory is fetched.
 */
struct vm_ahead {
    struct entry e;
    enum rc rc;
};
#define VMS_AHEAD 8u

static void look_ahead(const struct xgwh *x, const struct step *s, struct vm_ahead *ret)
{
    ret->rc = entry_unpack(TABLE_VM_NC, s->vni, &s->after, &ret->e, NULL);
    if (ret->rc == RC_OK && ret->e.vm_nc.has_mac) {
        ret->rc = RC_INVALID; /* the chip has no action that sets one */
    }
    if (ret->rc == RC_OK) {
        vm_prefetch(x, s->vni, &ret->e.vm_nc.vm);
    }
}

static enum rc put_vms(struct xgwh *x, struct steps *steps)
{
    struct vm_ahead ring[VMS_AHEAD];
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < steps->count + VMS_AHEAD; i++) {
        struct vm_ahead *a = &ring[i % VMS_AHEAD];
        struct step *s = i < VMS_AHEAD ? NULL : &steps->at[i - VMS_AHEAD];

        if (s && waits(s, TABLE_VM_NC, true)) {
            rc = a->rc;
            if (rc == RC_OK) {
                rc = vm_put(x, s->vni, &a->e.vm_nc.vm, &a->e.vm_nc.nc,
                            s->before.key != NULL);
            }
            rc = settle(s, rc);
        }
        if (i < steps->count && waits(&steps->at[i], TABLE_VM_NC, true)) {
            look_ahead(x, &steps->at[i], a);
        }
    }
    return rc;
}

static enum rc delete_vms(struct xgwh *x, struct steps *steps, bool only_conflicts)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < steps->count; i++) {
        struct step *s = &steps->at[i];
        struct row key = { .key = s->before.key, .key_len = s->before.key_len };
        bool is_done = true;
        struct entry e;

        if (!waits(s, TABLE_VM_NC, false)) {
            continue;
        }
        rc = entry_unpack(TABLE_VM_NC, s->vni, &key, &e, NULL);
        if (rc == RC_OK) {
            rc = vm_delete(x, s->vni, &e.vm_nc.vm, only_conflicts, &is_done);
        }
        rc = is_done ? settle(s, rc) : rc;
    }
    return rc;
}

static enum rc change_vnis(struct xgwh *x, struct steps *steps, bool is_put)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < steps->count; i++) {
        struct step *s = &steps->at[i];

        if (!waits(s, TABLE_VNI, is_put)) {
            continue;
        }
        if (is_put) {
            rc = settle(s, vni_put(x, s->vni, s->after.value[0])); /* flags, half */
        } else {
            vni_delete(x, s->vni);
            s->state = STEP_DONE;
        }
    }
    return rc;
}

static enum rc change_meters(struct xgwh *x, struct steps *steps)
{
    enum rc rc = RC_OK;

    for (uint32_t i = 0; rc == RC_OK && i < steps->count; i++) {
        struct step *s = &steps->at[i];
        struct entry e;

        if (waits(s, TABLE_METER, false)) {
            meter_delete(x, s->vni);
            s->state = STEP_DONE;
        } else if (waits(s, TABLE_METER, true)) {
            rc = entry_unpack(TABLE_METER, s->vni, &s->after, &e, NULL);
            rc = settle(s, rc == RC_OK ? meter_put(x, s->vni, &e.meter) : rc);
        }
    }
    return rc;
}

/* The entries of VNIs whose meter is another; those that were just written agree. */
static void turn_meters(struct xgwh *x, const struct steps *steps)
{
    for (uint32_t i = 0; i < steps->count; i++) {
        if (steps->at[i].table == TABLE_METER) {
            vni_refresh(x, steps->at[i].vni);
        }
    }
    for (uint32_t i = 0; i < x->taken_back.count; i++) {
        vni_refresh(x, x->taken_back.vnis[i]);
    }
}

/* Every step that waits, in an order that opens no hole. */
static enum rc run_round(struct xgwh *x, struct steps *steps, uint32_t repack,
                         struct xgwh_cost *cost)
{
    enum rc rc = put_vms(x, steps);

    if (rc == RC_OK) {
        rc = change_vnis(x, steps, false);
    }
    if (rc == RC_OK) {
        rc = routes_apply(x, steps, cost);
    }
    if (rc == RC_OK) {
        rc = acl_apply(x, steps);
    }
    if (rc == RC_OK) {
        rc = change_meters(x, steps);
    }
    if (rc == RC_OK) {
        rc = change_vnis(x, steps, true);
        turn_meters(x, steps);
    }
    if (rc == RC_OK) {
        rc = vm_repack(x, repack, &cost->moves);
    }
    if (rc == RC_OK) {
        rc = delete_vms(x, steps, true);
    }
    return rc == RC_OK ? delete_vms(x, steps, false) : rc;
}

static enum rc repack_routes(struct xgwh *x, uint32_t budget, struct xgwh_cost *cost)
{
    struct alpm_cost c = { 0 };
    enum rc rc = RC_OK;

    for (unsigned half = 0; rc == RC_OK && budget > 0 && half < x->halves; half++) {
        bool is_done;

        rc = alpm_repack(x->alpm[half], budget, route_sink, &x->plan, &c, &is_done);
    }
    cost->moves += c.move_writes;
    return rc == RC_FULL ? RC_OK : rc;
}

/* What found a table full gets a second chance once the deletes are done. */
static enum rc try_again(struct xgwh *x, struct steps *steps,
                         const struct xgwh_sink *sink, struct xgwh_cost *cost,
                         struct err *err)
{
    bool lacks_routes = false;
    bool lacks_any = false;
    bool has_room = false;
    enum rc rc;

    for (uint32_t i = 0; i < steps->count; i++) {
        struct step *s = &steps->at[i];

        has_room |= s->state == STEP_DONE && !s->after.key;
        lacks_any |= s->state == STEP_FULL;
        lacks_routes |= s->state == STEP_FULL && s->table == TABLE_VXLAN_ROUTE;
    }
    has_room |= x->taken_back.count > 0;
    if (!lacks_routes && !(lacks_any && has_room)) {
        return RC_OK;
    }
    for (uint32_t i = 0; i < steps->count; i++) {
        if (steps->at[i].state == STEP_FULL) {
            steps->at[i].state = STEP_WAITS;
        }
    }
    rc = lacks_routes ? repack_routes(x, TIGHT_REPACK, cost) : RC_OK;
    if (rc == RC_OK) {
        rc = run_round(x, steps, 0, cost);
    }
    return rc == RC_OK ? xgwh_flush(x, sink, cost, err) : rc;
}

/* ---- what was refused ---- */

static void add_exception(struct xgwh_exceptions *to, const struct step *s)
{
    const struct row *key = s->after.key ? &s->after : &s->before;
    struct exception *e;

    if (to->count == to->cap) {
        uint32_t cap = to->cap ? 2 * to->cap : 16;
        struct exception *at = realloc(to->at, cap * sizeof(*at));

        if (!at) {
            to->unlisted++;
            return;
        }
        to->at = at;
        to->cap = cap;
    }
    e = &to->at[to->count++];
    memset(e, 0, sizeof(*e));
    e->reason = s->state == STEP_FULL ? EXCEPTION_FULL : EXCEPTION_REFUSED;
    e->table = s->table;
    e->vni = s->vni;
    e->key_len = key->key_len;
    if (key->key_len > 0) {
        memcpy(e->key, key->key, key->key_len);
    }
}

/* Lists them, and puts the rows back to what stands. */
static enum rc refuse(struct xgwh *x, const struct steps *steps,
                      struct xgwh_exceptions *exceptions, struct xgwh_cost *cost)
{
    struct batch_writer back;
    struct blob *ops;
    uint32_t refused = 0;
    enum rc rc;

    batch_writer_init(&back);
    for (uint32_t i = 0; i < steps->count; i++) {
        const struct step *s = &steps->at[i];
        struct row gone = { .key = s->after.key, .key_len = s->after.key_len };

        if (s->state == STEP_DONE) {
            cost->rows++;
            continue;
        }
        refused++;
        add_exception(exceptions, s);
        batch_add_row(&back, s->before.key ? BATCH_PUT : BATCH_DELETE,
                      (enum table_id)s->table, s->vni,
                      s->before.key ? &s->before : &gone);
    }
    ops = refused > 0 ? batch_writer_finish(&back) : NULL;
    rc = ops ? table_set_apply(x->rows, ops->data, ops->len, NULL, NULL, NULL) : RC_OK;
    rc = refused > 0 && !ops ? RC_NO_MEMORY : rc;
    blob_unref(ops);
    batch_writer_fini(&back);
    return rc;
}

/* Routes that are named now. */
static enum rc claim(struct xgwh *x, const struct steps *steps)
{
    struct batch_writer w;
    struct blob *ops = NULL;
    enum rc rc = RC_OK;

    if (table_set_count(x->unnamed, TABLE_VXLAN_ROUTE) == 0) {
        return RC_OK;
    }
    batch_writer_init(&w);
    for (uint32_t i = 0; i < steps->count; i++) {
        const struct step *s = &steps->at[i];
        struct row key = { .key = s->after.key, .key_len = s->after.key_len };

        if (s->table == TABLE_VXLAN_ROUTE && s->state == STEP_DONE && key.key) {
            batch_add_row(&w, BATCH_DELETE, TABLE_VXLAN_ROUTE, s->vni, &key);
        }
    }
    if (batch_writer_bytes(&w) > 0) {
        ops = batch_writer_finish(&w);
        rc = ops ? table_set_apply(x->unnamed, ops->data, ops->len, NULL, NULL, NULL)
                 : RC_NO_MEMORY;
    }
    blob_unref(ops);
    batch_writer_fini(&w);
    return rc;
}

/* ---- all of it ---- */

/* Its rows were looked at by whoever took it from outside; its runs are of any table.
 */
static enum rc check_runs(const uint8_t *ops, size_t len, struct err *err)
{
    struct batch_reader r = batch_reader_of(ops, len);
    struct batch_run run;

    while (batch_next(&r, &run)) {
        if (run.op == BATCH_REPLACE) {
            return err_field(err, RC_INVALID, "op", "op_known",
                             "a replace run is not taken here");
        }
        if (!(DEVICE_TABLES & 1u << run.table)) {
            return err_field(err, RC_INVALID, "table", "device_table",
                             "table %s is no device table",
                             table_name((enum table_id)run.table));
        }
    }
    return r.failed ? err_field(err, RC_INVALID, "run", "packed_form",
                                "malformed run header")
                    : RC_OK;
}

static enum rc apply_changes(struct xgwh *x, const struct change_list *changes,
                             const struct xgwh_sink *sink,
                             struct xgwh_exceptions *exceptions, struct xgwh_cost *cost,
                             struct err *err)
{
    struct steps steps = { 0 };
    enum rc rc = collect(changes, &steps);

    x->taken_back.count = 0;
    if (rc == RC_OK) {
        rc = places_apply(x, &steps, changes, sink, cost, err);
    }
    if (rc == RC_OK) {
        rc = run_round(x, &steps, x->repack, cost);
    }
    if (rc == RC_OK) {
        rc = xgwh_flush(x, sink, cost, err);
    }
    if (rc == RC_OK) {
        rc = try_again(x, &steps, sink, cost, err);
    }
    if (rc == RC_OK) {
        rc = claim(x, &steps);
    }
    if (rc == RC_OK) {
        rc = refuse(x, &steps, exceptions, cost);
    }
    free(steps.at);
    return rc;
}

enum rc xgwh_apply(struct xgwh *x, const uint8_t *ops, size_t len,
                   const struct xgwh_sink *sink, struct xgwh_exceptions *exceptions,
                   struct xgwh_cost *cost, struct err *err)
{
    struct xgwh_cost ignored = { 0 };
    struct change_list changes = { 0 };
    enum rc rc = xgwh_check(x, err);

    cost = cost ? cost : &ignored;
    if (rc == RC_OK) {
        rc = check_runs(ops, len, err);
    }
    if (rc != RC_OK) {
        return rc;
    }
    x->keeps_orphans = false;
    rc = table_set_apply(x->rows, ops, len, &changes, NULL, err);
    if (rc == RC_OK) {
        rc = apply_changes(x, &changes, sink, exceptions, cost, err);
    }
    if (rc == RC_OK) {
        rc = doubts_settle(x, ops, len);
    }
    if (rc == RC_OK) {
        rc = xgwh_flush(x, sink, cost, err);
    }
    if (rc == RC_OK) {
        rc = guards_trim(x, &changes, cost);
    }
    if (rc == RC_OK) {
        rc = repack_routes(x, x->repack, cost);
    }
    if (rc == RC_OK) {
        rc = meters_count_more(x, x->repack, &cost->moves);
    }
    if (rc == RC_OK) {
        rc = xgwh_flush(x, sink, cost, err);
    }
    change_list_fini(&changes);
    return rc == RC_OK ? RC_OK : xgwh_out_of_memory(x, err);
}

/* ---- after a read-back ---- */

enum rc xgwh_sweep(struct xgwh *x, const struct xgwh_sink *sink, struct xgwh_cost *cost,
                   struct err *err)
{
    struct xgwh_cost ignored = { 0 };
    struct table_set *none;
    enum rc rc = xgwh_check(x, err);

    cost = cost ? cost : &ignored;
    if (rc != RC_OK) {
        return rc;
    }
    x->keeps_orphans = false;
    none = table_set_new();
    rc = none ? routes_sweep(x, cost) : RC_NO_MEMORY;
    if (rc == RC_OK) {
        rc = vm_sweep(x);
    }
    if (rc == RC_OK) {
        rc = acl_sweep(x);
        meters_sweep(x);
    }
    if (rc == RC_OK) {
        table_set_free(x->unnamed);
        x->unnamed = none;
        x->knows_all = true;
        none = NULL;
        rc = xgwh_flush(x, sink, cost, err);
    }
    table_set_free(none);
    return rc == RC_OK ? RC_OK : xgwh_out_of_memory(x, err);
}
