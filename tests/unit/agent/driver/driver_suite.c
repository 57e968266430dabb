#include "tests/unit/agent/driver/driver_suite.h"

#include <string.h>

#include "proto/model/object.h"
#include "proto/model/table_set.h"
#include "proto/model/vxlan_packet.h"

static driver_rig_new make_rig;

/* What the driver said, and what is being waited for. */
struct seen {
    unsigned ups, downs, dones, read_ends, totals;
    unsigned tables; /* of the last totals, those that hold something */
    unsigned want_ups, want_dones, want_read_ends, want_totals;
    unsigned probes, want_probes;
    uint64_t probe_ids[4];
    struct probe_result probe[4]; /* without frames */
    struct device_state state;
    uint64_t done_ids[32];
    enum rc done_rcs[32];
    uint32_t exceptions;
    enum rc read_rc;
    struct table_set *read;
    bool is_inside; /* a call into the driver: no event may come now */
};

struct bench {
    struct driver_rig *rig;
    struct driver *driver;
    struct seen seen;
};

static void on_up(void *ctx, const struct device_state *state)
{
    struct seen *s = ctx;

    ck_assert(!s->is_inside);
    s->ups++;
    s->state = *state;
}

static void on_down(void *ctx, const struct err *cause)
{
    struct seen *s = ctx;

    (void)cause;
    ck_assert(!s->is_inside);
    s->downs++;
}

static void on_done(void *ctx, const struct driver_done *done)
{
    struct seen *s = ctx;

    ck_assert(!s->is_inside);
    ck_assert_uint_lt(s->dones, ARRAY_LEN(s->done_ids));
    s->done_ids[s->dones] = done->id;
    s->done_rcs[s->dones++] = done->rc;
    s->exceptions += done->exception_count;
}

static void on_rows(void *ctx, uint64_t read_id, const uint8_t *batch, size_t len)
{
    (void)read_id;
    struct seen *s = ctx;

    ck_assert(!s->is_inside);
    ck_assert_int_eq(table_set_apply(s->read, batch, len, NULL, NULL, NULL), RC_OK);
}

static void on_read_end(void *ctx, uint64_t read_id, enum rc rc, const struct err *err)
{
    (void)read_id;
    struct seen *s = ctx;

    (void)err;
    s->read_rc = rc;
    s->read_ends++;
}

static void on_totals(void *ctx, const struct device_totals *totals)
{
    struct seen *s = ctx;

    s->totals++;
    s->tables = 0;
    for (uint32_t i = 0; i < totals->reading_count; i++) {
        const struct device_reading *x = &totals->readings[i];

        ck_assert(telemetry_text_is_valid(x->part) && x->resource[0] &&
                  telemetry_text_is_valid(x->resource));
        s->tables += x->kind == READING_TABLE && x->value > 0;
    }
}

static void on_probe(void *ctx, const struct device_probe *probe)
{
    struct seen *s = ctx;

    ck_assert(!s->is_inside);
    ck_assert_uint_lt(s->probes, ARRAY_LEN(s->probe));
    s->probe_ids[s->probes] = probe->id;
    s->probe[s->probes] = *probe->result;
    s->probe[s->probes++].frame = NULL;
}

static const struct driver_events events = {
    .up = on_up,
    .down = on_down,
    .done = on_done,
    .rows = on_rows,
    .read_end = on_read_end,
    .totals = on_totals,
    .probe = on_probe,
};

static bool has_all(void *arg)
{
    const struct seen *s = arg;

    return s->ups >= s->want_ups && s->dones >= s->want_dones &&
           s->read_ends >= s->want_read_ends && s->totals >= s->want_totals &&
           s->probes >= s->want_probes;
}

static void wait_for(struct bench *b)
{
    ck_assert(b->rig->pump(b->rig, has_all, &b->seen));
}

static void open_driver(struct bench *b)
{
    b->driver = b->rig->make(b->rig, &events, &b->seen);
    ck_assert_ptr_nonnull(b->driver);
    b->seen.is_inside = true;
    b->driver->cls->open(b->driver);
    b->seen.is_inside = false;
    b->seen.want_ups++;
    wait_for(b);
}

static struct bench bench_new(void)
{
    struct bench b = { .rig = make_rig() };

    ck_assert_ptr_nonnull(b.rig);
    return b;
}

static void bench_end(struct bench *b)
{
    b->driver->cls->close(b->driver);
    b->rig->free(b->rig);
    table_set_free(b->seen.read);
}

static struct entry vm_entry(uint32_t vni, uint32_t vm, uint32_t nc)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni };

    e.vm_nc.vm = ip_v4(vm);
    e.vm_nc.nc = ip_v4(nc);
    return e;
}

/* `count` VMs from 10.0.0.1 on, all on `nc`. */
static struct blob *vm_batch(enum entry_op op, uint32_t vni, uint32_t count,
                             uint32_t nc)
{
    struct batch_writer w;
    struct blob *b;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = vm_entry(vni, 0x0a000001 + i, nc);

        batch_add_entry(&w, op, &e);
    }
    b = batch_writer_finish(&w);
    batch_writer_fini(&w);
    ck_assert_ptr_nonnull(b);
    return b;
}

static void do_write(struct bench *b, struct driver_write w)
{
    b->seen.is_inside = true;
    b->driver->cls->write(b->driver, &w);
    b->seen.is_inside = false;
    blob_unref(w.ops); /* the driver has its own reference */
    b->seen.want_dones++;
}

static void do_read(struct bench *b)
{
    table_set_free(b->seen.read);
    b->seen.read = table_set_new();
    b->driver->cls->read(b->driver, 1, 0);
    b->seen.want_read_ends++;
    wait_for(b);
    ck_assert_int_eq(b->seen.read_rc, RC_OK);
}

/* The state as a new connection hears it. */
static void reopen(struct bench *b)
{
    b->driver->cls->close(b->driver);
    open_driver(b);
}

/* The smallest configuration that a gateway takes. */
static struct blob *some_config(void)
{
    struct device_config c;
    struct region region = { .name = "r" };
    struct cluster cluster = { .name = "c", .kind = CLUSTER_X86, .active_side = 'a' };
    struct node node = {
        .name = "gw", .cluster = "c", .kind = DEVICE_X86, .side = 'a'
    };
    struct buf packed = BUF_INIT;
    struct blob *b;

    region.icmp_source_v4 = ip_v4(0x0afe0001);
    cluster.vip_v4 = ip_v4(0xc0000201);
    node.vtep_v4 = ip_v4(0xc0000202);
    device_config_of(&region, &cluster, &node, &c);
    device_config_pack(&c, &packed);
    b = blob_copy(packed.data, packed.len);
    buf_fini(&packed);
    return b;
}

/* A device is ready for nothing before it knows what it is. */
static void do_configure(struct bench *b, uint64_t id, uint64_t term)
{
    struct blob *config = some_config();

    b->driver->cls->configure(b->driver, id, term, config);
    blob_unref(config);
    b->seen.want_dones++;
}

START_TEST(an_empty_device_says_so)
{
    struct bench b = bench_new();

    open_driver(&b);
    ck_assert_uint_ne(b.seen.state.boot_id, 0);
    ck_assert_uint_eq(b.seen.state.term, 0);
    ck_assert_uint_eq(b.seen.state.applied, 0);
    ck_assert_uint_eq(b.seen.state.config_digest, 0);
    ck_assert(!b.seen.state.ready);
    do_read(&b);
    ck_assert_uint_eq(table_set_vni_count(b.seen.read), 0);
    bench_end(&b);
}
END_TEST

START_TEST(what_was_written_is_read_back_and_survives_a_new_connection)
{
    struct bench b = bench_new();
    uint64_t boot_id;

    open_driver(&b);
    boot_id = b.seen.state.boot_id;
    do_configure(&b, 9, 3);
    do_write(&b,
             (struct driver_write){
                 .id = 1, .term = 3, .ops = vm_batch(ENTRY_PUT, 100, 500, 1 << 24) });
    do_write(&b, (struct driver_write){ .id = 2,
                                        .term = 3,
                                        .revision = 77,
                                        .ready = true,
                                        .ops = vm_batch(ENTRY_DELETE, 100, 100, 0) });
    wait_for(&b);
    ck_assert_uint_eq(b.seen.exceptions, 0);
    reopen(&b);
    ck_assert_uint_eq(b.seen.state.boot_id, boot_id);
    ck_assert_uint_eq(b.seen.state.term, 3);
    ck_assert_uint_eq(b.seen.state.applied, 77);
    ck_assert(b.seen.state.ready);
    do_read(&b);
    ck_assert_uint_eq(table_set_count(b.seen.read, TABLE_VM_NC), 400);
    bench_end(&b);
}
END_TEST

START_TEST(writes_are_answered_once_each_and_in_order)
{
    struct bench b = bench_new();

    open_driver(&b);
    for (uint32_t i = 0; i < 20; i++) {
        do_write(&b, (struct driver_write){
                         .id = 100 + i,
                         .term = 1,
                         .ops = vm_batch(ENTRY_PUT, 7, 1, (1 << 24) + i) });
    }
    wait_for(&b);
    for (uint32_t i = 0; i < 20; i++) {
        ck_assert_uint_eq(b.seen.done_ids[i], 100 + i);
        ck_assert_int_eq(b.seen.done_rcs[i], RC_OK);
    }
    do_read(&b);
    ck_assert_uint_eq(b.seen.dones, 20);
    {
        struct entry want = vm_entry(7, 0x0a000001, (1 << 24) + 19);
        struct entry got;
        struct row row;
        struct rows_iter it =
            rows_begin(table_set_rows(b.seen.read, 7, TABLE_VM_NC), TABLE_VM_NC);

        ck_assert(rows_next(&it, &row));
        ck_assert_int_eq(entry_unpack(TABLE_VM_NC, 7, &row, &got, NULL), RC_OK);
        ck_assert_int_eq(ip_compare(&got.vm_nc.nc, &want.vm_nc.nc), 0);
        ck_assert(!rows_next(&it, &row));
    }
    bench_end(&b);
}
END_TEST

START_TEST(a_lower_term_changes_nothing_and_is_told_so)
{
    struct bench b = bench_new();

    open_driver(&b);
    do_write(&b, (struct driver_write){ .id = 1, .term = 9, .revision = 5 });
    do_write(&b, (struct driver_write){ .id = 2,
                                        .term = 8,
                                        .revision = 6,
                                        .ready = true,
                                        .ops = vm_batch(ENTRY_PUT, 7, 1, 1 << 24) });
    wait_for(&b);
    ck_assert_int_eq(b.seen.done_rcs[0], RC_OK);
    ck_assert_int_eq(b.seen.done_rcs[1], RC_STALE);
    reopen(&b);
    ck_assert_uint_eq(b.seen.state.term, 9);
    ck_assert_uint_eq(b.seen.state.applied, 5);
    ck_assert(!b.seen.state.ready);
    do_read(&b);
    ck_assert_uint_eq(table_set_vni_count(b.seen.read), 0);
    bench_end(&b);
}
END_TEST

START_TEST(the_same_write_twice_and_a_delete_of_nothing_are_no_errors)
{
    struct bench b = bench_new();

    open_driver(&b);
    for (uint64_t id = 1; id <= 2; id++) {
        do_write(&b,
                 (struct driver_write){
                     .id = id, .term = 1, .ops = vm_batch(ENTRY_PUT, 7, 3, 1 << 24) });
    }
    do_write(&b, (struct driver_write){
                     .id = 3, .term = 1, .ops = vm_batch(ENTRY_DELETE, 8, 3, 0) });
    wait_for(&b);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(b.seen.done_rcs[i], RC_OK);
    }
    do_read(&b);
    ck_assert_uint_eq(table_set_count(b.seen.read, TABLE_VM_NC), 3);
    bench_end(&b);
}
END_TEST

START_TEST(a_restarted_device_is_new_empty_and_not_ready)
{
    struct bench b = bench_new();
    uint64_t boot_id;

    open_driver(&b);
    boot_id = b.seen.state.boot_id;
    do_configure(&b, 9, 2);
    do_write(&b, (struct driver_write){ .id = 1,
                                        .term = 2,
                                        .revision = 5,
                                        .ready = true,
                                        .ops = vm_batch(ENTRY_PUT, 7, 3, 1 << 24) });
    wait_for(&b);
    ck_assert_int_eq(b.seen.done_rcs[1], RC_OK);
    b.rig->restart_device(b.rig);
    b.seen.want_ups++;
    wait_for(&b);
    ck_assert_uint_eq(b.seen.downs, 1);
    ck_assert_uint_ne(b.seen.state.boot_id, boot_id);
    ck_assert_uint_eq(b.seen.state.applied, 0);
    ck_assert(!b.seen.state.ready);
    do_read(&b);
    ck_assert_uint_eq(table_set_vni_count(b.seen.read), 0);
    bench_end(&b);
}
END_TEST

START_TEST(a_configuration_is_known_by_its_digest)
{
    struct bench b = bench_new();
    struct blob *config = some_config();

    open_driver(&b);
    b.driver->cls->configure(b.driver, 4, 1, config);
    b.seen.want_dones++;
    wait_for(&b);
    ck_assert_uint_eq(b.seen.done_ids[0], 4);
    ck_assert_int_eq(b.seen.done_rcs[0], RC_OK);
    reopen(&b);
    ck_assert_uint_eq(b.seen.state.config_digest,
                      device_config_bytes_digest(config->data, config->len));
    blob_unref(config);
    bench_end(&b);
}
END_TEST

START_TEST(totals_come_when_asked_for)
{
    struct bench b = bench_new();

    open_driver(&b);
    do_configure(&b, 9, 3);
    do_write(&b, (struct driver_write){
                     .id = 1, .term = 3, .ops = vm_batch(ENTRY_PUT, 100, 5, 1 << 24) });
    wait_for(&b);
    b.driver->cls->poll_totals(b.driver);
    b.seen.want_totals++;
    wait_for(&b);
    ck_assert_uint_ge(b.seen.tables, 1); /* it says that it holds something */
    bench_end(&b);
}
END_TEST

static void do_probe(struct bench *b, uint64_t id, uint32_t to)
{
    struct vxlan_packet p = { .outer_src = ip_v4(0xc0000301),
                              .outer_dst = ip_v4(to),
                              .outer_ttl = 64,
                              .outer_sport = 50000,
                              .vni = 100,
                              .src = ip_v4(0x0a000001),
                              .dst = ip_v4(0x0a000002),
                              .ttl = 64 };
    uint8_t bytes[VXLAN_PACKET_MAX];
    struct blob *frame = blob_copy(bytes, vxlan_packet_build(&p, bytes));

    b->seen.is_inside = true;
    b->driver->cls->probe(b->driver, id, frame);
    b->seen.is_inside = false;
    blob_unref(frame);
    b->seen.want_probes++;
}

START_TEST(a_probe_is_answered_with_what_the_pipeline_says_once_it_is_ready)
{
    struct bench b = bench_new();

    if (!b.rig->takes_probes) {
        b.rig->free(b.rig);
        return;
    }
    open_driver(&b);
    do_probe(&b, 70, 0xc0000202);
    wait_for(&b);
    ck_assert_int_eq(b.seen.probe[0].rc, RC_UNREACHABLE);
    ck_assert_str_ne(b.seen.probe[0].error, "");
    do_configure(&b, 9, 3);
    do_write(&b,
             (struct driver_write){ .id = 1, .term = 3, .ready = true, .ops = NULL });
    wait_for(&b);
    do_probe(&b, 71, 0xc0000202); /* nobody may send to it */
    wait_for(&b);
    do_probe(&b, 72, 0xc0000203); /* that is not the device */
    wait_for(&b);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(b.seen.probe_ids[i], 70 + i);
    }
    ck_assert_int_eq(b.seen.probe[1].rc, RC_OK);
    ck_assert_uint_eq(b.seen.probe[1].outcome, PROBE_DROPPED);
    ck_assert_str_eq(b.seen.probe[1].reason, "source_check");
    ck_assert_str_eq(b.seen.probe[2].reason, "not_our_address");
    bench_end(&b);
}
END_TEST

void driver_suite(TCase *tc, driver_rig_new rig_new)
{
    make_rig = rig_new;
    tcase_add_test(tc, an_empty_device_says_so);
    tcase_add_test(tc, what_was_written_is_read_back_and_survives_a_new_connection);
    tcase_add_test(tc, writes_are_answered_once_each_and_in_order);
    tcase_add_test(tc, a_lower_term_changes_nothing_and_is_told_so);
    tcase_add_test(tc, the_same_write_twice_and_a_delete_of_nothing_are_no_errors);
    tcase_add_test(tc, a_restarted_device_is_new_empty_and_not_ready);
    tcase_add_test(tc, a_configuration_is_known_by_its_digest);
    tcase_add_test(tc, totals_come_when_asked_for);
    tcase_add_test(tc,
                   a_probe_is_answered_with_what_the_pipeline_says_once_it_is_ready);
}
