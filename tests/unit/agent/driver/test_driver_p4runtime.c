/* The driver of a switch over P4Runtime: every driver's suite, and what bad switches,
 * other controllers and foreign entries lead to. */
#include "agent/driver/driver_p4runtime.h"

#include <signal.h>

#include "agent/xgwh/phys_make.h"
#include "agent/xgwh/xgwh.h"
#include "proto/model/batch.h"
#include "proto/model/object.h"
#include "proto/model/table_set.h"
#include "tests/unit/agent/driver/driver_suite.h"
#include "tests/unit/agent/driver/switch_rig.h"

/* ---- the suite ---- */

struct suite_rig {
    struct driver_rig base;
    struct switch_rig rig;
};

static struct driver_p4runtime_options options_of(const struct switch_rig *rig)
{
    return (struct driver_p4runtime_options){ .sw = rig_options(rig, 2),
                                              .write_deadline_ms = 500 };
}

static struct driver *suite_make(struct driver_rig *base,
                                 const struct driver_events *events, void *ctx)
{
    struct suite_rig *r = (struct suite_rig *)base;
    struct driver_p4runtime_options o = options_of(&r->rig);
    struct driver *d = NULL;
    struct err err = { 0 };

    ck_assert_msg(driver_p4runtime_new(r->rig.loop, &o, events, ctx, &d, &err) == RC_OK,
                  "%s", err.msg);
    return d;
}

static bool suite_pump(struct driver_rig *base, bool (*is_done)(void *arg), void *arg)
{
    struct suite_rig *r = (struct suite_rig *)base;
    const struct timeval slice = { 0, 20000 };
    double end = rig_now() + 20;

    while (!is_done(arg)) {
        if (rig_now() > end) {
            return false;
        }
        event_base_loopexit(r->rig.base, &slice);
        event_base_loop(r->rig.base, EVLOOP_ONCE);
    }
    return true;
}

static void suite_restart(struct driver_rig *base)
{
    test_switch_restart(((struct suite_rig *)base)->rig.sw);
}

static void suite_free(struct driver_rig *base)
{
    rig_fini(&((struct suite_rig *)base)->rig);
    free(base);
}

static struct driver_rig *suite_new(void)
{
    struct suite_rig *r = calloc(1, sizeof(*r));

    r->base = (struct driver_rig){ .make = suite_make,
                                   .pump = suite_pump,
                                   .restart_device = suite_restart,
                                   .free = suite_free };
    rig_init(&r->rig);
    return &r->base;
}

/* ---- a bench of our own ---- */

struct bench {
    struct switch_rig rig;
    struct driver *d;
    unsigned ups, downs, dones, reads, totals;
    struct device_state state;
    struct err cause;
    struct driver_done last;
    struct exception exceptions[2000];
    uint32_t exception_count;
    enum rc rcs[64];
    uint64_t ids[64];
    enum rc read_rc;
    struct table_set *rows;
    struct device_totals seen;
    struct device_reading readings[READINGS_MAX];
    char reading_parts[READINGS_MAX][READING_PART_MAX + 1];
    struct top_report top; /* the last; interval_ms 0: none */
    uint64_t drops_of_3, vm_nc_used, vm_nc_capacity;
    char reason_3[32];
    uint64_t last_id;
    unsigned probes;
    uint64_t probe_id;
    struct probe_result probe; /* the last, without its frame */
    uint64_t packets, ends;
    unsigned counters;
    struct device_counters counted;
    struct vni_counter items[COUNTERS_MAX];
};

static void on_up(void *ctx, const struct device_state *state)
{
    struct bench *b = ctx;

    b->ups++;
    b->state = *state;
}

static void on_down(void *ctx, const struct err *cause)
{
    struct bench *b = ctx;

    b->downs++;
    b->cause = *cause;
}

static void on_done(void *ctx, const struct driver_done *done)
{
    struct bench *b = ctx;

    b->last = *done;
    b->rcs[b->dones % 64] = done->rc;
    b->ids[b->dones++ % 64] = done->id;
    ck_assert_uint_le(done->exception_count, ARRAY_LEN(b->exceptions));
    b->exception_count = done->exception_count;
    if (done->exception_count > 0) {
        memcpy(b->exceptions, done->exceptions,
               done->exception_count * sizeof(b->exceptions[0]));
    }
}

static void on_rows(void *ctx, uint64_t read_id, const uint8_t *batch, size_t len)
{
    (void)read_id;
    struct bench *b = ctx;

    ck_assert_int_eq(table_set_apply(b->rows, batch, len, NULL, NULL, NULL), RC_OK);
}

static void on_read_end(void *ctx, uint64_t read_id, enum rc rc, const struct err *err)
{
    (void)read_id;
    struct bench *b = ctx;

    (void)err;
    b->reads++;
    b->read_rc = rc;
}

static void on_totals(void *ctx, const struct device_totals *totals)
{
    struct bench *b = ctx;

    b->totals++;
    b->seen = *totals;
    for (uint32_t i = 0; i < totals->reading_count; i++) {
        b->readings[i] = totals->readings[i];
        strcpy(b->reading_parts[i], totals->readings[i].part);
    }
    if (totals->top) {
        b->top = *totals->top;
    }
    b->drops_of_3 = totals->drop_list[2].packets;
    snprintf(b->reason_3, sizeof(b->reason_3), "%s", totals->drop_list[2].reason);
    b->vm_nc_used = 0;
    for (uint32_t i = 0; i < totals->reading_count; i++) {
        const struct device_reading *x = &totals->readings[i];

        if (x->part[0] == '\0') {
            ck_assert_int_eq(x->kind, READING_TABLE);
            ck_assert_uint_le(x->value, x->capacity);
        }
        if (strncmp(x->resource, "table.vm_nc.", 12) == 0) { /* .0 and .1 */
            b->vm_nc_used += x->value;
            b->vm_nc_capacity = x->capacity;
        }
    }
}

static void on_counters(void *ctx, const struct device_counters *c)
{
    struct bench *b = ctx;

    b->counters++;
    b->counted = *c;
    ck_assert_uint_le(c->count, ARRAY_LEN(b->items));
    if (c->count > 0) {
        memcpy(b->items, c->items, c->count * sizeof(b->items[0]));
    }
}

static void on_probe(void *ctx, const struct device_probe *probe)
{
    struct bench *b = ctx;

    b->probes++;
    b->probe_id = probe->id;
    b->probe = *probe->result;
    b->probe.frame = NULL;
}

static const struct driver_events events = { .up = on_up,
                                             .down = on_down,
                                             .done = on_done,
                                             .rows = on_rows,
                                             .read_end = on_read_end,
                                             .totals = on_totals,
                                             .counters = on_counters,
                                             .probe = on_probe };

static void bench_open(struct bench *b)
{
    struct driver_p4runtime_options o = options_of(&b->rig);
    struct err err = { 0 };
    unsigned ups = b->ups;

    ck_assert_msg(driver_p4runtime_new(b->rig.loop, &o, &events, b, &b->d, &err) ==
                      RC_OK,
                  "%s", err.msg);
    b->d->cls->open(b->d);
    RIG_UNTIL(&b->rig, b->ups == ups + 1);
}

static struct bench *bench_new(void)
{
    struct bench *b = calloc(1, sizeof(*b));

    rig_init(&b->rig);
    return b;
}

static void bench_free(struct bench *b)
{
    b->d->cls->close(b->d);
    rig_fini(&b->rig);
    table_set_free(b->rows);
    free(b);
}

static struct blob *vms(enum entry_op op, uint32_t vni, uint32_t first, uint32_t count)
{
    struct batch_writer w;
    struct blob *blob;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = vni };

        e.vm_nc.vm = ip_v4(0x0a000000 + first + i);
        e.vm_nc.nc = ip_v4(0x01000001);
        batch_add_entry(&w, op, &e);
    }
    blob = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return blob;
}

static void give(struct bench *b, uint64_t term, uint64_t revision, struct blob *ops)
{
    struct driver_write w = {
        .id = ++b->last_id, .term = term, .revision = revision, .ops = ops
    };

    b->d->cls->write(b->d, &w);
    blob_unref(ops);
}

/* Writes and waits for the answer. */
static enum rc do_write(struct bench *b, uint64_t term, uint64_t revision,
                        struct blob *ops)
{
    unsigned dones = b->dones;

    give(b, term, revision, ops);
    RIG_UNTIL(&b->rig, b->dones == dones + 1);
    ck_assert_uint_eq(b->last.id, b->last_id);
    return b->last.rc;
}

static uint64_t do_read(struct bench *b)
{
    unsigned reads = b->reads;

    table_set_free(b->rows);
    b->rows = table_set_new();
    b->d->cls->read(b->d, 1, 0);
    RIG_UNTIL(&b->rig, b->reads == reads + 1);
    ck_assert_int_eq(b->read_rc, RC_OK);
    return table_set_count(b->rows, TABLE_VM_NC);
}

/* VM-NC entries on the switch, of either half and either table. */
static size_t vm_entries(const struct bench *b)
{
    size_t sum = 0;

    for (unsigned i = 0; i < 2; i++) {
        sum += test_switch_count(b->rig.sw, i, PHYS_VM_NC) +
               test_switch_count(b->rig.sw, i, PHYS_VM_NC_SPILL);
    }
    return sum;
}

static struct driver_p4runtime_status status_of(const struct bench *b)
{
    return driver_p4runtime_status(b->d);
}

START_TEST(a_batch_of_thousands_is_on_the_switch_with_its_revision_behind_it)
{
    struct bench *b = bench_new();

    bench_open(b);
    for (uint32_t i = 0; i < 20; i++) {
        give(b, 3, 100 + i, vms(ENTRY_PUT, 100 + i, 1, 1000));
    }
    RIG_UNTIL(&b->rig, b->dones == 20);
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(b->rcs[i], RC_OK);
        ck_assert_uint_eq(b->ids[i], i + 1);
    }
    ck_assert_uint_eq(b->exception_count, 0);
    ck_assert_uint_eq(vm_entries(b), 20000);
    ck_assert(test_switch_count(b->rig.sw, 0, PHYS_VM_NC) > 0);
    ck_assert(test_switch_count(b->rig.sw, 1, PHYS_VM_NC) > 0);
    ck_assert_uint_eq(b->rig.sw->counts.failed_updates, 0);
    ck_assert_uint_eq(do_read(b), 20000);
    bench_free(b);
}
END_TEST

START_TEST(a_new_agent_finds_everything_and_writes_nothing_twice)
{
    struct bench *b = bench_new();
    uint64_t updates;
    uint64_t boot_id;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 3, 77, vms(ENTRY_PUT, 100, 1, 500)), RC_OK);
    boot_id = b->state.boot_id;
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_uint_eq(b->state.boot_id, boot_id);
    ck_assert_uint_eq(b->state.applied, 77);
    ck_assert_uint_eq(b->state.term, 3);
    ck_assert_uint_eq(do_read(b), 500);
    ck_assert_uint_eq(status_of(b).read_backs, 1); /* that of `up` serves the session */
    updates = b->rig.sw->counts.updates;
    ck_assert_int_eq(do_write(b, 3, 77, vms(ENTRY_PUT, 100, 1, 500)), RC_OK);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates);
    ck_assert_uint_eq(b->rig.sw->counts.pushes[1], 2); /* by the first agent */
    bench_free(b);
}
END_TEST

/* VNIs 1 to `count`, each with a meter of its own. */
static struct blob *metered(uint32_t count)
{
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    for (uint32_t vni = 1; vni <= count; vni++) {
        struct entry e = { .table = TABLE_VNI, .vni = vni };

        batch_add_entry(&w, ENTRY_PUT, &e);
        e = (struct entry){ .table = TABLE_METER, .vni = vni };
        e.meter = (struct meter){ 8000, 16000 + vni, 20000, 30000 };
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

START_TEST(meters_that_a_new_agent_finds_as_they_should_be_are_not_written)
{
    struct bench *b = bench_new();
    struct phys_entry vni = phys_make(PHYS_VNI, PHYS_BOTH, 0);
    const struct phys_entry *found;
    uint64_t updates;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 3, 77, metered(100)), RC_OK);
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_uint_eq(b->state.applied, 0); /* what they are called must be sent */
    updates = b->rig.sw->counts.updates;
    ck_assert_int_eq(do_write(b, 3, 77, metered(100)), RC_OK);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates);
    (void)do_read(b);
    ck_assert_uint_eq(table_set_count(b->rows, TABLE_METER), 100);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates);

    /* One that somebody opened meanwhile is set again, on both devices. */
    b->d->cls->close(b->d);
    phys_set_key(&vni, 0, 7);
    found = test_switch_find(b->rig.sw, 1, &vni);
    ck_assert_ptr_nonnull(found);
    test_switch_open_meter(b->rig.sw, 1, 0x14000000 + 7 * PHYS_METER_VNI + 3,
                           phys_param(found, 2));
    bench_open(b);
    updates = b->rig.sw->counts.updates;
    ck_assert_int_eq(do_write(b, 3, 77, metered(100)), RC_OK);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates + 2);
    bench_free(b);
}
END_TEST

START_TEST(a_connection_that_comes_back_costs_no_read_back_when_nothing_has_changed)
{
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 3, 77, vms(ENTRY_PUT, 100, 1, 500)), RC_OK);
    test_switch_disconnect(b->rig.sw);
    RIG_UNTIL(&b->rig, b->ups == 2);
    ck_assert_uint_eq(b->downs, 1);
    ck_assert_uint_eq(b->state.applied, 77);
    ck_assert_uint_eq(status_of(b).read_backs, 0);
    ck_assert_int_eq(do_write(b, 3, 78, vms(ENTRY_DELETE, 100, 1, 100)), RC_OK);
    ck_assert_uint_eq(vm_entries(b), 400);
    bench_free(b);
}
END_TEST

START_TEST(a_full_table_in_the_middle_of_a_batch_leaves_exceptions_and_no_more)
{
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 50)), RC_OK);
    /* The switch has less room than its program says. */
    b->rig.sw->faults.capacity[PHYS_VM_NC] = 80;
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 100, 51, 100)), RC_OK);
    ck_assert_uint_eq(b->exception_count, 70);
    for (uint32_t i = 0; i < b->exception_count; i++) {
        ck_assert_uint_eq(b->exceptions[i].reason, EXCEPTION_FULL);
        ck_assert_uint_eq(b->exceptions[i].table, TABLE_VM_NC);
        ck_assert_uint_eq(b->exceptions[i].vni, 100);
    }
    ck_assert_uint_eq(b->downs, 0);
    ck_assert_uint_eq(do_read(b), 80);
    /* Room again: what was refused goes in. */
    b->rig.sw->faults.capacity[PHYS_VM_NC] = 0;
    ck_assert_int_eq(do_write(b, 1, 7, vms(ENTRY_PUT, 100, 51, 100)), RC_OK);
    ck_assert_uint_eq(b->exception_count, 0);
    ck_assert_uint_eq(do_read(b), 150);
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_uint_eq(b->state.applied, 7);
    bench_free(b);
}
END_TEST

/* ---- a switch that has less room than its program says ---- */

static struct blob *many(enum entry_op op, enum table_id table, uint32_t first,
                         uint32_t count)
{
    struct batch_writer w;
    struct blob *blob;

    if (table == TABLE_VM_NC) {
        return vms(op, 100, first, count);
    }
    batch_writer_init(&w);
    for (uint32_t i = first; i < first + count; i++) {
        struct entry e = { .table = (uint8_t)table, .vni = 100 };

        if (table == TABLE_VNI) {
            e.vni = 2 * i;
        } else {
            e.route.dst = (struct prefix){ ip_v4(0x0a000000 + (i * 53 << 8)), 24 };
            e.route.action.scope = SCOPE_LOCAL;
        }
        batch_add_entry(&w, op, &e);
    }
    blob = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return blob;
}

static const struct {
    enum phys_table full;
    uint32_t capacity;
    enum table_id table;
} narrow[] = { { PHYS_VM_NC, 80, TABLE_VM_NC },
               { PHYS_ROUTE_TCAM, 8, TABLE_VXLAN_ROUTE },
               { PHYS_VNI, 70, TABLE_VNI } };

START_TEST(rows_that_the_switch_has_no_room_for_are_tried_again_once_there_is_some)
{
    struct bench *b = bench_new();
    uint64_t read_backs;
    uint64_t updates;
    uint32_t rows;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 4, many(ENTRY_PUT, narrow[_i].table, 1, 50)),
                     RC_OK);
    b->rig.sw->faults.capacity[narrow[_i].full] = narrow[_i].capacity;
    b->rig.sw->faults.capacity[PHYS_VM_NC_SPILL] = 10;
    for (unsigned i = 0; i < 3; i++) { /* vm_nc, the spill, and all is known */
        ck_assert_int_eq(do_write(b, 1, 5, many(ENTRY_PUT, narrow[_i].table, 1, 200)),
                         RC_OK);
        ck_assert_uint_gt(b->exception_count, 0);
    }
    read_backs = status_of(b).read_backs;
    updates = b->rig.sw->counts.updates;
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_int_eq(do_write(b, 1, 5, many(ENTRY_PUT, narrow[_i].table, 1, 200)),
                         RC_OK);
        ck_assert_uint_gt(b->exception_count, 0);
        ck_assert_uint_eq(b->exceptions[0].reason, EXCEPTION_FULL);
    }
    ck_assert_uint_eq(status_of(b).read_backs, read_backs);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates);
    /* Room: most come again. */
    (void)do_read(b);
    rows = table_set_count(b->rows, narrow[_i].table);
    ck_assert_int_eq(do_write(b, 1, 6, many(ENTRY_DELETE, narrow[_i].table, 1, 40)),
                     RC_OK);
    ck_assert_int_eq(do_write(b, 1, 7, many(ENTRY_PUT, narrow[_i].table, 1, 30)),
                     RC_OK);
    ck_assert_uint_eq(b->exception_count, 0);
    (void)do_read(b);
    ck_assert_uint_eq(table_set_count(b->rows, narrow[_i].table), rows - 40 + 30);
    bench_free(b);
}
END_TEST

START_TEST(batches_behind_one_that_was_refused_are_done_all_the_same)
{
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    b->rig.sw->faults.capacity[PHYS_VM_NC] = 20;
    give(b, 1, 6, vms(ENTRY_PUT, 100, 11, 30));
    give(b, 1, 7, vms(ENTRY_DELETE, 100, 1, 5));
    give(b, 1, 8, vms(ENTRY_PUT, 101, 1, 3));
    RIG_UNTIL(&b->rig, b->dones == 4);
    for (unsigned i = 1; i < 4; i++) {
        ck_assert_uint_eq(b->ids[i], i + 1);
        ck_assert_int_eq(b->rcs[i], RC_OK);
    }
    ck_assert_uint_eq(do_read(b), 20 - 5 + 3);
    bench_free(b);
}
END_TEST

START_TEST(an_entry_that_somebody_else_wrote_is_read_back_and_the_end_is_right)
{
    struct bench *b = bench_new();
    struct phys_entry e;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    /* VM 10.0.0.20 of VNI 100, which we are about to insert. */
    e = *test_switch_any(b->rig.sw, 0, PHYS_VM_NC);
    e.key[7] = 20;
    ck_assert(test_switch_insert(b->rig.sw, 0, &e));
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 100, 20, 1)), RC_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(b->last.err.msg, "ALREADY_EXISTS"));
    /* Until the session has read back, nothing is written. */
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 100, 21, 1)), RC_TIMEOUT);
    ck_assert_uint_eq(do_read(b), 11);
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 100, 20, 2)), RC_OK);
    ck_assert_uint_eq(do_read(b), 12);
    bench_free(b);
}
END_TEST

START_TEST(an_entry_that_somebody_deleted_is_read_back_and_the_end_is_right)
{
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert(
        test_switch_delete(b->rig.sw, 0, test_switch_any(b->rig.sw, 0, PHYS_VM_NC)));
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_DELETE, 100, 1, 10)), RC_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(b->last.err.msg, "delete vm_nc: NOT_FOUND"));
    ck_assert_uint_le(do_read(b), 9);
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_DELETE, 100, 1, 10)), RC_OK);
    ck_assert_uint_eq(do_read(b), 0);
    bench_free(b);
}
END_TEST

START_TEST(an_answer_that_is_lost_is_no_failure_and_no_success_until_read_back)
{
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    b->rig.sw->faults.lose_answers = 1;
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 100, 11, 10)), RC_TIMEOUT);
    ck_assert_uint_eq(do_read(b), 20);
    b->rig.sw->faults.lose_writes = 1;
    ck_assert_int_eq(do_write(b, 1, 7, vms(ENTRY_PUT, 100, 21, 10)), RC_TIMEOUT);
    ck_assert_uint_eq(do_read(b), 20);
    ck_assert_int_eq(do_write(b, 1, 7, vms(ENTRY_PUT, 100, 21, 10)), RC_OK);
    ck_assert_uint_eq(do_read(b), 30);
    bench_free(b);
}
END_TEST

START_TEST(a_second_controller_that_takes_over_is_named_and_we_write_no_more)
{
    struct bench *b = bench_new();
    uint64_t updates;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 3, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    {
        struct bench *other = calloc(1, sizeof(*other));
        struct driver_p4runtime_options po = options_of(&b->rig);

        ck_assert_int_eq(
            driver_p4runtime_new(b->rig.loop, &po, &events, other, &other->d, NULL),
            RC_OK);
        other->d->cls->open(other->d);
        RIG_UNTIL(&b->rig, other->ups == 1);
        ck_assert_uint_eq(other->state.applied, 5);
        give(other, 8, 6, vms(ENTRY_PUT, 200, 1, 7));
        RIG_UNTIL(&b->rig, other->dones == 1);
        ck_assert_int_eq(other->last.rc, RC_OK);
        /* We hear of it, and of its term. */
        RIG_UNTIL(&b->rig, b->downs == 1 && b->ups == 2);
        ck_assert_int_eq(b->cause.code, RC_DENIED);
        ck_assert_str_eq(b->cause.rule, "mastership");
        ck_assert_uint_eq(b->state.term, 8);
        ck_assert(!status_of(b).is_primary);
        ck_assert_str_eq(status_of(b).trouble.rule, "mastership");
        updates = b->rig.sw->counts.updates;
        ck_assert_int_eq(do_write(b, 3, 7, vms(ENTRY_PUT, 100, 11, 10)), RC_STALE);
        ck_assert_int_eq(do_write(b, 7, 7, vms(ENTRY_PUT, 100, 11, 10)), RC_STALE);
        ck_assert_uint_eq(b->rig.sw->counts.updates, updates);
        ck_assert_uint_eq(do_read(b), 17); /* reading goes on */
        /* With a higher term it is ours again, and read back first. */
        give(b, 9, 7, vms(ENTRY_PUT, 100, 11, 10));
        RIG_UNTIL(&b->rig, b->downs == 2 && b->ups == 3);
        ck_assert_ptr_nonnull(strstr(b->cause.msg, "primary again"));
        ck_assert_uint_eq(do_read(b), 17);
        ck_assert_int_eq(do_write(b, 9, 7, vms(ENTRY_PUT, 100, 11, 10)), RC_OK);
        ck_assert_uint_eq(do_read(b), 27);
        RIG_UNTIL(&b->rig, other->downs == 1);
        ck_assert_str_eq(other->cause.rule, "mastership");
        other->d->cls->close(other->d);
        table_set_free(other->rows);
        rig_run_ms(&b->rig, 50);
        free(other);
    }
    bench_free(b);
}
END_TEST

START_TEST(another_program_keeps_it_down_with_the_difference_named)
{
    struct bench *b = bench_new();
    struct driver_p4runtime_options o = options_of(&b->rig);
    struct buf other = BUF_INIT;

    buf_text(&other, "\x0a\x03\x0a\x01x"); /* a p4info of nothing but a name */
    test_switch_load(b->rig.sw, 0, other.data, other.len);
    ck_assert_int_eq(driver_p4runtime_new(b->rig.loop, &o, &events, b, &b->d, NULL),
                     RC_OK);
    b->d->cls->open(b->d);
    RIG_UNTIL(&b->rig, status_of(b).trouble.code != RC_OK);
    rig_run_ms(&b->rig, 100);
    ck_assert_uint_eq(b->ups, 0);
    ck_assert_str_eq(status_of(b).trouble.rule, "p4info");
    ck_assert_str_eq(status_of(b).trouble.field, "vtep");
    ck_assert_uint_eq(b->rig.sw->counts.writes, 0);
    /* It is taken away: up. */
    test_switch_restart(b->rig.sw);
    RIG_UNTIL(&b->rig, b->ups == 1);
    buf_fini(&other);
    bench_free(b);
}
END_TEST

START_TEST(tables_that_were_emptied_behind_us_are_a_new_life)
{
    struct bench *b = bench_new();
    uint64_t boot_id;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    boot_id = b->state.boot_id;
    test_switch_clear(b->rig.sw);
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_DELETE, 100, 1, 1)), RC_TIMEOUT);
    table_set_free(b->rows);
    b->rows = table_set_new();
    b->d->cls->read(b->d, 1, 0);
    RIG_UNTIL(&b->rig, b->ups == 2);
    ck_assert_ptr_nonnull(strstr(b->cause.msg, "emptied"));
    ck_assert_uint_ne(b->state.boot_id, boot_id);
    ck_assert_uint_eq(b->state.applied, 0);
    ck_assert_uint_eq(do_read(b), 0);
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert_uint_eq(vm_entries(b), 10);
    bench_free(b);
}
END_TEST

START_TEST(a_program_that_is_refused_is_told_to_whoever_writes)
{
    struct bench *b = bench_new();

    b->rig.sw->faults.refuses_program = true;
    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(b->last.err.msg, "does not take the program"));
    b->rig.sw->faults.refuses_program = false;
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    bench_free(b);
}
END_TEST

START_TEST(a_half_that_lost_its_program_gets_it_back_and_all_is_compared)
{
    struct bench *b = bench_new();
    struct phys_entry *gone;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert_int_eq(do_write(b, 1, 6, vms(ENTRY_PUT, 101, 1, 10)), RC_OK);
    /* Half 1 restarts alone: no program, no entries. */
    test_switch_load(b->rig.sw, 1, "", 0);
    while ((gone = (struct phys_entry *)test_switch_any(b->rig.sw, 1, PHYS_TABLES))) {
        struct phys_entry key = *gone;

        ck_assert(test_switch_delete(b->rig.sw, 1, &key));
    }
    test_switch_disconnect(b->rig.sw);
    RIG_UNTIL(&b->rig, b->ups == 2);
    ck_assert_uint_eq(b->state.applied, 0);
    /* The first write pushes; then what is really there is read back. */
    give(b, 2, 0, vms(ENTRY_PUT, 101, 1, 10));
    RIG_UNTIL(&b->rig, b->ups == 3);
    ck_assert_uint_eq(do_read(b), 10);
    ck_assert_int_eq(do_write(b, 2, 0, vms(ENTRY_PUT, 101, 1, 10)), RC_OK);
    ck_assert_uint_eq(do_read(b), 20);
    bench_free(b);
}
END_TEST

/* With these uplinks. */
static struct blob *config_with(const char *const ports[], unsigned count)
{
    struct device_config c;
    struct region region = { .name = "r" };
    struct cluster cluster = { .name = "c", .kind = CLUSTER_X86, .active_side = 'a' };
    struct node node = {
        .name = "sw", .cluster = "c", .kind = DEVICE_X86, .side = 'a'
    };
    struct buf packed = BUF_INIT;
    struct blob *b;

    region.icmp_source_v4 = ip_v4(0x0afe0001);
    cluster.vip_v4 = ip_v4(0xc0000201);
    node.vtep_v4 = ip_v4(0xc0000202);
    for (unsigned i = 0; i < count; i++) {
        struct uplink *u = &node.uplinks[node.uplink_count++];

        strcpy(u->port, ports[i]);
        u->addr_v4 = ip_v4(0x0a000002 + 256 * i);
        u->next_hop_v4 = ip_v4(0x0a000001 + 256 * i);
        u->mtu = 1500;
    }
    device_config_of(&region, &cluster, &node, &c);
    device_config_pack(&c, &packed);
    b = blob_copy(packed.data, packed.len);
    buf_fini(&packed);
    return b;
}

static struct blob *some_config(void)
{
    return config_with(NULL, 0);
}

static void do_configure(struct bench *b, uint64_t term, struct blob *config)
{
    unsigned dones = b->dones;

    b->d->cls->configure(b->d, ++b->last_id, term, config);
    RIG_UNTIL(&b->rig, b->dones == dones + 1);
    ck_assert_msg(b->last.rc == RC_OK, "%s", b->last.err.msg);
}

static void give_ready(struct bench *b, uint64_t revision)
{
    struct driver_write w = {
        .id = ++b->last_id, .term = 1, .revision = revision, .ready = true
    };

    b->d->cls->write(b->d, &w);
}

START_TEST(a_configuration_of_an_agent_before_is_asked_for_again_to_become_ready)
{
    struct bench *b = bench_new();
    struct blob *config = some_config();
    uint64_t updates;
    unsigned dones;

    bench_open(b);
    do_configure(b, 1, config);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 3)), RC_OK);
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_uint_ne(b->state.config_digest, 0);
    ck_assert(!b->state.ready);
    give_ready(b, 6);
    RIG_UNTIL(&b->rig, b->downs == 1 && b->ups == 3);
    ck_assert_uint_eq(b->state.config_digest, 0);
    updates = b->rig.sw->counts.updates;
    do_configure(b, 1, config);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates); /* meters included */
    dones = b->dones;
    give_ready(b, 6);
    RIG_UNTIL(&b->rig, b->dones == dones + 1);
    ck_assert_int_eq(b->last.rc, RC_OK);
    ck_assert_uint_eq(test_switch_count(b->rig.sw, 0, PHYS_VTEP), 2);
    /* Ready once, an agent needs no configuration to stay so. */
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert(b->state.ready);
    dones = b->dones;
    give_ready(b, 7);
    RIG_UNTIL(&b->rig, b->dones == dones + 1);
    ck_assert_int_eq(b->last.rc, RC_OK);
    blob_unref(config);
    bench_free(b);
}
END_TEST

static struct blob *v6_vm(uint8_t last)
{
    const uint8_t bytes[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = last };
    struct entry e = { .table = TABLE_VM_NC, .vni = 100 };
    struct batch_writer w;
    struct blob *blob;

    e.vm_nc.vm = ip_v6(bytes);
    e.vm_nc.nc = ip_v4(0x01000001);
    batch_writer_init(&w);
    batch_add_entry(&w, ENTRY_PUT, &e);
    blob = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return blob;
}

/* A v6 entry on the switch is a hash: a new agent cannot name it. */
/* Somebody may only want to know: what has to be put right waits for a write. */
START_TEST(a_read_back_of_the_session_writes_nothing_before_the_session_does)
{
    struct bench *b = bench_new();
    struct phys_entry e;
    uint64_t updates;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    e = *test_switch_any(b->rig.sw, 0, PHYS_VM_NC); /* stands in the spill as well */
    e.table = PHYS_VM_NC_SPILL;
    e.action = PHYS_SPILL_NC;
    ck_assert(test_switch_insert(b->rig.sw, 0, &e));
    updates = b->rig.sw->counts.updates;
    ck_assert_uint_eq(do_read(b), 9); /* and one that is not sound */
    ck_assert_uint_eq(do_read(b), 9);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates);
    ck_assert_uint_eq(test_switch_count(b->rig.sw, 0, PHYS_VM_NC_SPILL), 1);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert_uint_eq(test_switch_count(b->rig.sw, 0, PHYS_VM_NC_SPILL), 0);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates + 1);
    ck_assert_uint_eq(do_read(b), 10);
    ck_assert_uint_eq(b->ups, 1);
    bench_free(b);
}
END_TEST

START_TEST(entries_without_names_are_claimed_or_swept_when_the_comparison_ends)
{
    struct bench *b = bench_new();
    uint64_t updates;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert_int_eq(do_write(b, 1, 6, v6_vm(1)), RC_OK);
    ck_assert_int_eq(do_write(b, 1, 7, v6_vm(2)), RC_OK);
    ck_assert_uint_eq(do_read(b), 12); /* who wrote them knows them */
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_uint_eq(b->state.applied, 0); /* so all is compared */
    ck_assert_uint_eq(do_read(b), 10);
    updates = b->rig.sw->counts.updates;
    ck_assert_int_eq(do_write(b, 1, 0, v6_vm(1)), RC_OK);
    ck_assert_uint_eq(b->rig.sw->counts.updates, updates); /* claimed */
    ck_assert_uint_eq(vm_entries(b), 12);
    ck_assert_int_eq(do_write(b, 1, 7, NULL), RC_OK);
    ck_assert_uint_eq(vm_entries(b), 11); /* and the other one swept */
    ck_assert_uint_eq(do_read(b), 11);
    bench_free(b);
}
END_TEST

/* It goes down and up to have all compared; what had to be put right is, on the way. */
START_TEST(entries_without_names_and_something_to_put_right_end_well_together)
{
    struct bench *b = bench_new();
    struct phys_entry e;

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert_int_eq(do_write(b, 1, 6, v6_vm(1)), RC_OK);
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 0, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    e = *test_switch_any(b->rig.sw, 0, PHYS_VM_NC);
    e.table = PHYS_VM_NC_SPILL;
    e.action = PHYS_SPILL_NC;
    ck_assert(test_switch_insert(b->rig.sw, 0, &e));
    b->ups = 0;
    b->d->cls->read(b->d, 9, 0);
    RIG_UNTIL(&b->rig, b->ups == 1);
    ck_assert_uint_eq(b->state.applied, 0);
    (void)do_read(b);
    ck_assert_int_eq(do_write(b, 1, 0, vms(ENTRY_PUT, 100, 1, 10)), RC_OK);
    ck_assert_int_eq(do_write(b, 1, 7, v6_vm(1)), RC_OK);
    ck_assert_uint_eq(test_switch_count(b->rig.sw, 0, PHYS_VM_NC_SPILL), 0);
    ck_assert_uint_eq(vm_entries(b), 11);
    ck_assert_uint_eq(do_read(b), 11);
    ck_assert_uint_eq(b->ups, 1);
    bench_free(b);
}
END_TEST

/* ---- whatever fails ---- */

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*seed >> 33);
}

/* PUTs of what is wanted and DELETEs of all else that there could be. */
#define ADDRESSES 60
static struct blob *all_of(const bool wanted[2][ADDRESSES])
{
    struct batch_writer w;
    struct blob *blob;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < 2 * ADDRESSES; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = 100 + i % 2 };

        e.vm_nc.vm = ip_v4(0x0a000000 + i / 2);
        e.vm_nc.nc = ip_v4(0x01000001);
        batch_add_entry(&w, wanted[i % 2][i / 2] ? ENTRY_PUT : ENTRY_DELETE, &e);
    }
    blob = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return blob;
}

static void hurt(struct bench *b, uint32_t how)
{
    const struct phys_entry *e;

    switch (how % 8) {
    case 0:
        b->rig.sw->faults.lose_answers = 1;
        break;
    case 1:
        b->rig.sw->faults.lose_writes = 1;
        break;
    case 2:
        e = test_switch_any(b->rig.sw, how / 8 % 2, PHYS_VM_NC);
        if (e) {
            test_switch_delete(b->rig.sw, how / 8 % 2, e);
        }
        break;
    case 3:
        test_switch_disconnect(b->rig.sw);
        break;
    case 4:
        b->rig.sw->faults.no_details = true;
        b->rig.sw->faults.capacity[PHYS_VM_NC] = 20;
        break;
    case 5:
        b->rig.sw->faults.capacity[PHYS_VM_NC] = 20;
        break;
    case 6:
        if (how / 8 % 4 == 0) {
            test_switch_restart(b->rig.sw);
        }
        break;
    default:
        break;
    }
}

/* As a session does it: until a write is done, read back and write all again. */
static void make_so(struct bench *b, const bool wanted[2][ADDRESSES], uint64_t revision)
{
    for (int tries = 0; tries < 20; tries++) {
        unsigned dones = b->dones;
        unsigned ups = b->ups;

        RIG_UNTIL(&b->rig, b->ups > b->downs);
        give(b, 1, revision, all_of(wanted));
        RIG_UNTIL(&b->rig, b->dones > dones || b->ups > ups);
        memset(&b->rig.sw->faults, 0, sizeof(b->rig.sw->faults));
        if (b->dones > dones && b->last.rc == RC_OK && b->exception_count == 0) {
            return;
        }
        if (b->dones > dones && b->last.rc == RC_TIMEOUT) {
            unsigned reads = b->reads;

            table_set_free(b->rows);
            b->rows = table_set_new();
            b->d->cls->read(b->d, 1, 0);
            RIG_UNTIL(&b->rig, b->reads > reads || b->ups > ups);
        }
    }
    ck_abort_msg("does not come to rest: %s", b->last.err.msg);
}

START_TEST(whatever_fails_the_end_is_what_was_wanted)
{
    struct bench *b = bench_new();
    bool wanted[2][ADDRESSES] = { 0 };
    uint64_t seed = 12;
    size_t count;

    bench_open(b);
    for (uint64_t round = 1; round <= 40; round++) {
        for (uint32_t i = 0; i < 30; i++) {
            uint32_t r = next_random(&seed);

            wanted[r & 1][r / 2 % ADDRESSES] = r / 2 / ADDRESSES % 2;
        }
        hurt(b, next_random(&seed));
        make_so(b, wanted, round);
    }
    do_read(b); /* as an audit does: what somebody took away is missed */
    make_so(b, wanted, 40);
    /* The belief is not right by chance: a new driver sees the same. */
    count = 0;
    for (uint32_t i = 0; i < 2 * ADDRESSES; i++) {
        count += wanted[i % 2][i / 2];
    }
    b->d->cls->close(b->d);
    bench_open(b);
    ck_assert_uint_eq(do_read(b), count);
    ck_assert_uint_eq(vm_entries(b), count);
    ck_assert_uint_eq(b->state.applied, 40);
    bench_free(b);
}
END_TEST

START_TEST(drops_are_the_sum_over_the_gresses_that_drop_and_over_the_devices)
{
    struct bench *b = calloc(1, sizeof(*b));

    rig_init(&b->rig);
    blob_unref(b->rig.p4info);
    b->rig.p4info = rig_program(p4info_split_drops, 3);
    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 1)), RC_OK);
    for (unsigned device = 0; device < 2; device++) {
        test_switch_set_counter(b->rig.sw, device, 0x12000009, 3, 1, 0);
        test_switch_set_counter(b->rig.sw, device, P4INFO_DROP_PART(1), 3, 20, 0);
        test_switch_set_counter(b->rig.sw, device, P4INFO_DROP_PART(2), 9, 300, 0);
    }
    b->d->cls->poll_totals(b->d);
    RIG_UNTIL(&b->rig, b->totals == 1);
    ck_assert_uint_eq(b->seen.drops, 2 * 321);
    bench_free(b);
}
END_TEST

/* UINT64_MAX: there is none. */
static uint64_t reading_of(const struct bench *b, const char *part,
                           const char *resource)
{
    for (uint32_t i = 0; i < b->seen.reading_count; i++) {
        if (strcmp(b->reading_parts[i], part) == 0 &&
            strcmp(b->readings[i].resource, resource) == 0) {
            return b->readings[i].value;
        }
    }
    return UINT64_MAX;
}

/* An uplink is a port in either pipe, and each device counts its own: all are summed.
 * Ports of no uplink are not ours. */
START_TEST(a_port_s_counts_are_the_sum_of_its_cells_in_both_pipes_and_devices)
{
    const uint32_t rx = 0x12000000 + 5 * PHYS_COUNTER_PORT_RX + 9;
    const uint32_t tx = 0x12000000 + 5 * PHYS_COUNTER_PORT_TX + 9;
    struct blob *config = config_with((const char *const[]){ "3", "7" }, 2);
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 1)), RC_OK);
    do_configure(b, 1, config);
    for (unsigned device = 0; device < 2; device++) {
        test_switch_set_counter(b->rig.sw, device, rx, 3, 1, 100);
        test_switch_set_counter(b->rig.sw, device, rx, 3 + 256, 20, 2000);
        test_switch_set_counter(b->rig.sw, device, rx, 4, 7777, 7777);
        test_switch_set_counter(b->rig.sw, device, tx, 3, 300, 30000);
        test_switch_set_counter(b->rig.sw, device, tx, 7 + 256, 4, 400);
    }
    b->d->cls->poll_totals(b->d);
    RIG_UNTIL(&b->rig, b->totals == 1);
    ck_assert_uint_eq(b->seen.rx_packets, 2 * 21);
    ck_assert_uint_eq(b->seen.rx_bytes, 2 * 2100);
    ck_assert_uint_eq(b->seen.tx_packets, 2 * 304);
    ck_assert_uint_eq(b->seen.tx_bytes, 2 * 30400);
    ck_assert_uint_eq(reading_of(b, "port/3", "rx_pps"), 2 * 21);
    ck_assert_uint_eq(reading_of(b, "port/3", "tx_bps"), 2 * 30000 * 8);
    ck_assert_uint_eq(reading_of(b, "port/7", "rx_bps"), 0);
    ck_assert_uint_eq(reading_of(b, "port/7", "tx_pps"), 2 * 4);
    ck_assert_uint_eq(reading_of(b, "port/4", "rx_pps"), UINT64_MAX); /* no uplink */
    bench_free(b);
    blob_unref(config);
}
END_TEST

static void count_cell(void *ctx, uint64_t index, uint64_t packets, uint64_t bytes)
{
    struct bench *b = ctx;

    b->packets += packets + index + bytes;
}

static void count_end(void *ctx, enum rc rc, const struct err *err)
{
    struct bench *b = ctx;

    (void)err;
    ck_assert_int_eq(rc, RC_OK);
    b->ends++;
}

static struct blob *vnis(uint32_t first, uint32_t count)
{
    struct batch_writer w;
    struct blob *blob;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_VNI, .vni = first + i };

        e.vni_row.half = (first + i) & 1;
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    blob = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return blob;
}

static void ask_counters(struct bench *b, uint32_t from)
{
    unsigned before = b->counters;

    b->d->cls->vni_counters(b->d, 900 + from, from);
    RIG_UNTIL(&b->rig, b->counters == before + 1);
    ck_assert_uint_eq(b->counted.id, 900 + from);
}

/* Cell 17 of vni_counter on one device, the same on the other. */
START_TEST(counters_of_vnis_come_in_pieces_and_are_the_sum_of_both_devices)
{
    struct bench *b = bench_new();

    bench_open(b);
    ask_counters(b, 1); /* no program yet */
    ck_assert_uint_eq(b->counted.count + b->counted.next_vni, 0);
    ck_assert_int_eq(do_write(b, 1, 5, vnis(1000, COUNTERS_MAX + 10)), RC_OK);
    test_switch_set_counter(b->rig.sw, 0, 0x12000000 + 14, 0, 7, 700);
    ask_counters(b, 1);
    ck_assert_int_eq(b->counted.rc, RC_OK);
    ck_assert_uint_eq(b->counted.count, COUNTERS_MAX);
    ck_assert_uint_eq(b->items[0].vni, 1000);
    ck_assert_uint_eq(b->counted.next_vni, 1000 + COUNTERS_MAX);
    ck_assert_uint_eq(b->counted.rest_bytes, 0); /* with the last piece */
    test_switch_set_counter(b->rig.sw, 0, 0x12000000 + 14, b->items[3].cell, 4, 400);
    test_switch_set_counter(b->rig.sw, 1, 0x12000000 + 14, b->items[3].cell, 1, 100);
    ask_counters(b, 1002);
    ck_assert_uint_eq(b->items[1].vni, 1003);
    ck_assert_uint_eq(b->items[1].packets, 5);
    ck_assert_uint_eq(b->items[1].bytes, 500);
    ck_assert_uint_eq(b->items[0].packets + b->items[2].packets, 0);
    ask_counters(b, b->counted.next_vni);
    ck_assert_uint_eq(b->counted.count, 8);
    ck_assert_uint_eq(b->counted.next_vni, 0);
    ck_assert_uint_eq(b->counted.rest_packets, 7);
    ck_assert_uint_eq(b->counted.rest_bytes, 700);
    /* One that the tables' end voids is not answered. */
    b->d->cls->vni_counters(b->d, 5, 1);
    b->d->cls->vni_counters(b->d, 6, 1);
    RIG_UNTIL(&b->rig, b->counted.id == 6);
    b->d->cls->vni_counters(b->d, 7, 1);
    test_switch_disconnect(b->rig.sw);
    RIG_UNTIL(&b->rig, b->downs == 1);
    ck_assert_uint_eq(b->counted.id, 6);
    bench_free(b);
}
END_TEST

static void poll(struct bench *b, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        unsigned totals = b->totals;

        b->d->cls->poll_totals(b->d);
        RIG_UNTIL(&b->rig, b->totals == totals + 1);
    }
}

/* Both devices together; what carries nothing is not listed. */
START_TEST(the_heaviest_tenants_are_those_whose_counters_grew_most)
{
    const uint32_t id = 0x12000000 + 5 * PHYS_COUNTER_VNI + 9;
    struct bench *b = bench_new();

    bench_open(b);
    ck_assert_int_eq(do_write(b, 1, 5, vnis(100, 4)), RC_OK);
    ask_counters(b, 1);
    ck_assert_uint_eq(b->counted.count, 4);
    for (unsigned i = 0; i < 4; i++) { /* long ago */
        test_switch_set_counter(b->rig.sw, 0, id, b->items[i].cell, 1, 1u << 30);
    }
    poll(b, 1); /* the first round */
    ck_assert_uint_eq(b->top.interval_ms, 0);
    test_switch_set_counter(b->rig.sw, 0, id, b->items[1].cell, 1, (1u << 30) + 1000);
    test_switch_set_counter(b->rig.sw, 1, id, b->items[2].cell, 9, 900000000);
    test_switch_set_counter(b->rig.sw, 0, id, 0, 9, 50);
    for (unsigned i = 0; i < 30 && b->top.interval_ms == 0; i++) {
        poll(b, 1);
    }
    ck_assert_uint_gt(b->top.interval_ms, 0);
    ck_assert(b->top.no_flows);
    ck_assert_uint_eq(b->top.flows.count, 0);
    ck_assert_uint_eq(b->top.tenants.count, 2);
    ck_assert_uint_eq(b->top.tenants.items[0].vni, 102);
    ck_assert_uint_eq(b->top.tenants.items[1].vni, 101);
    ck_assert_uint_gt(b->top.tenants.rest, 0);
    ck_assert_uint_ge(b->top.bytes, b->top.tenants.items[0].bytes);
    bench_free(b);
}
END_TEST

START_TEST(counters_go_through)
{
    struct bench *b = bench_new();
    struct driver_p4runtime_counters to = { count_cell, count_end, b };

    bench_open(b);
    ck_assert_int_eq(driver_p4runtime_counters(b->d, PHYS_COUNTER_VNI, &to),
                     RC_UNREACHABLE);
    ck_assert_int_eq(do_write(b, 1, 5, vms(ENTRY_PUT, 100, 1, 1)), RC_OK);
    test_switch_set_counter(b->rig.sw, 0, 0x12000000 + 9, 3, 40, 0);
    test_switch_set_counter(b->rig.sw, 1, 0x12000000 + 9, 3, 2, 0);
    test_switch_set_counter(b->rig.sw, 1, 0x12000000 + 14, 7, 100, 1000);
    b->d->cls->poll_totals(b->d);
    RIG_UNTIL(&b->rig, b->totals == 1);
    ck_assert_uint_eq(b->seen.drops, 42);
    ck_assert_uint_eq(b->drops_of_3, 42);
    ck_assert_str_eq(b->reason_3, "l2_truncated"); /* the third of the reasons' table */
    ck_assert_uint_eq(b->vm_nc_used, 1);
    ck_assert_uint_gt(b->vm_nc_capacity, 100000);
    ck_assert_int_eq(driver_p4runtime_counters(b->d, PHYS_COUNTER_VNI, &to), RC_OK);
    ck_assert_int_eq(driver_p4runtime_counters(b->d, PHYS_COUNTER_VNI, &to),
                     RC_CONFLICT);
    RIG_UNTIL(&b->rig, b->ends == 1);
    ck_assert_uint_eq(b->packets, 1107);
    bench_free(b);
}
END_TEST

/* Frames of which only the last bytes matter to the driver. */
static struct blob *frame_of(uint8_t number)
{
    struct blob *frame = blob_new(60);

    memset(frame->data, number, 60);
    return frame;
}

static void ask_probe(struct bench *b, uint64_t id, uint8_t number)
{
    struct blob *frame = frame_of(number);

    b->d->cls->probe(b->d, id, frame);
    blob_unref(frame);
}

/* What the switch makes of the probe that it has. */
static void come_back(struct bench *b, uint8_t number, uint8_t reason, uint16_t port)
{
    struct blob *frame = frame_of(number);
    struct p4rt_packet p = { port, true, reason, frame->data, frame->len };

    test_switch_packet_in(b->rig.sw, 0, &p);
    blob_unref(frame);
}

static bool has_probe(struct bench *b, uint8_t number)
{
    struct p4rt_packet p;
    const struct buf *out = test_switch_packet_out(b->rig.sw, &p);

    return out->len == 60 && out->data[59] == number && p.is_probe && p.port == 0;
}

START_TEST(probes_go_through_the_switch_one_after_the_other_and_no_other_is_an_answer)
{
    struct bench *b = bench_new();
    struct blob *config = some_config();
    unsigned dones;

    bench_open(b);
    ask_probe(b, 70, 1); /* nothing is there yet */
    RIG_UNTIL(&b->rig, b->probes == 1);
    ck_assert_int_eq(b->probe.rc, RC_UNREACHABLE);
    do_configure(b, 1, config);
    dones = b->dones;
    give_ready(b, 5);
    RIG_UNTIL(&b->rig, b->dones == dones + 1);
    ask_probe(b, 71, 2);
    ask_probe(b, 72, 3);
    RIG_UNTIL(&b->rig, has_probe(b, 2));
    come_back(b, 9, 0, 5); /* one that was given up long ago */
    come_back(b, 2, 0, 5);
    RIG_UNTIL(&b->rig, b->probes == 2);
    ck_assert_uint_eq(b->probe_id, 71);
    ck_assert_uint_eq(b->probe.outcome, PROBE_FORWARDED);
    ck_assert_str_eq(b->probe.port, "5");
    RIG_UNTIL(&b->rig, has_probe(b, 3));
    come_back(b, 3, 40, 0);
    RIG_UNTIL(&b->rig, b->probes == 3);
    ck_assert_uint_eq(b->probe_id, 72);
    ck_assert_uint_eq(b->probe.outcome, PROBE_DROPPED);
    ck_assert_str_eq(b->probe.reason, "no_nc"); /* the fortieth of the reasons' table */
    ask_probe(b, 73, 4);
    RIG_UNTIL(&b->rig, has_probe(b, 4));
    come_back(b, 4, P4RT_REASON_KEPT, 0);
    RIG_UNTIL(&b->rig, b->probes == 4);
    ck_assert_uint_eq(b->probe.outcome, PROBE_KEPT);
    ask_probe(b, 74, 5); /* the switch says nothing */
    RIG_UNTIL(&b->rig, b->probes == 5);
    ck_assert_int_eq(b->probe.rc, RC_TIMEOUT);
    blob_unref(config);
    bench_free(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("driver_p4runtime");

    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(tc, 120);
    driver_suite(tc, suite_new);
    tcase_add_test(tc,
                   a_batch_of_thousands_is_on_the_switch_with_its_revision_behind_it);
    tcase_add_test(tc, a_new_agent_finds_everything_and_writes_nothing_twice);
    tcase_add_test(tc, meters_that_a_new_agent_finds_as_they_should_be_are_not_written);
    tcase_add_test(
        tc, a_connection_that_comes_back_costs_no_read_back_when_nothing_has_changed);
    tcase_add_test(tc,
                   a_full_table_in_the_middle_of_a_batch_leaves_exceptions_and_no_more);
    tcase_add_loop_test(
        tc, rows_that_the_switch_has_no_room_for_are_tried_again_once_there_is_some, 0,
        ARRAY_LEN(narrow));
    tcase_add_test(tc, batches_behind_one_that_was_refused_are_done_all_the_same);
    tcase_add_test(tc,
                   an_entry_that_somebody_else_wrote_is_read_back_and_the_end_is_right);
    tcase_add_test(tc,
                   an_entry_that_somebody_deleted_is_read_back_and_the_end_is_right);
    tcase_add_test(tc,
                   an_answer_that_is_lost_is_no_failure_and_no_success_until_read_back);
    tcase_add_test(tc,
                   a_second_controller_that_takes_over_is_named_and_we_write_no_more);
    tcase_add_test(tc, another_program_keeps_it_down_with_the_difference_named);
    tcase_add_test(tc, tables_that_were_emptied_behind_us_are_a_new_life);
    tcase_add_test(tc, a_program_that_is_refused_is_told_to_whoever_writes);
    tcase_add_test(tc, a_half_that_lost_its_program_gets_it_back_and_all_is_compared);
    tcase_add_test(tc,
                   a_read_back_of_the_session_writes_nothing_before_the_session_does);
    tcase_add_test(tc,
                   entries_without_names_are_claimed_or_swept_when_the_comparison_ends);
    tcase_add_test(tc,
                   entries_without_names_and_something_to_put_right_end_well_together);
    tcase_add_test(
        tc, a_configuration_of_an_agent_before_is_asked_for_again_to_become_ready);
    tcase_add_test(tc, whatever_fails_the_end_is_what_was_wanted);
    tcase_add_test(tc,
                   drops_are_the_sum_over_the_gresses_that_drop_and_over_the_devices);
    tcase_add_test(tc,
                   a_port_s_counts_are_the_sum_of_its_cells_in_both_pipes_and_devices);
    tcase_add_test(tc, the_heaviest_tenants_are_those_whose_counters_grew_most);
    tcase_add_test(tc, counters_of_vnis_come_in_pieces_and_are_the_sum_of_both_devices);
    tcase_add_test(tc, counters_go_through);
    tcase_add_test(
        tc, probes_go_through_the_switch_one_after_the_other_and_no_other_is_an_answer);
    return unit_run("driver_p4runtime", tc);
}
