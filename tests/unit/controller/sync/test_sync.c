#include "tests/unit/unit.h"

#include <string.h>

#include "tests/unit/controller/sync/sync_pair.h"

/* A VM's NC address tells when it was written: 11.0.0.0 + revision; 172.16.x.x is what
 * the device held before anybody here wrote. */
#define NC_OLD UINT32_C(0xac100000)
#define NC_NEW UINT32_C(0x0b000000)

static void add_vm(struct batch_writer *w, enum entry_op op, uint32_t vni, uint32_t vm,
                   uint32_t nc)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni };

    e.vm_nc.vm = ip_v4(0x0a000000 + vm);
    e.vm_nc.nc = ip_v4(nc);
    batch_add_entry(w, op, &e);
}

static void add_route(struct batch_writer *w, uint32_t vni, uint32_t net)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.dst.addr = ip_v4(net << 8);
    e.route.dst.len = 24;
    e.route.action.scope = SCOPE_LOCAL;
    batch_add_entry(w, ENTRY_PUT, &e);
}

static void add_vni(struct batch_writer *w, uint32_t vni)
{
    struct entry e = { .table = TABLE_VNI, .vni = vni };

    batch_add_entry(w, ENTRY_PUT, &e);
}

static struct blob *finish(struct batch_writer *w)
{
    struct blob *b = batch_writer_finish(w);

    batch_writer_fini(w);
    ck_assert_ptr_nonnull(b);
    return b;
}

static struct blob *some_vms(uint32_t vni, uint32_t first, uint32_t count, uint32_t nc)
{
    struct batch_writer w;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        add_vm(&w, ENTRY_PUT, vni, first + i, nc);
    }
    return finish(&w);
}

/* A region of `vnis` VNIs with a VNI row, 2 routes and `vms` VMs each. */
static struct blob *some_region(uint32_t vnis, uint32_t vms)
{
    struct batch_writer w;

    batch_writer_init(&w);
    for (uint32_t v = 0; v < vnis; v++) {
        uint32_t vni = 1 + v * 4093 % VNI_MAX;

        add_vni(&w, vni);
        add_route(&w, vni, 0x0a0000);
        add_route(&w, vni, 0x0a0001);
        for (uint32_t i = 1; i <= vms; i++) {
            add_vm(&w, ENTRY_PUT, vni, i, NC_NEW);
        }
    }
    return finish(&w);
}

START_TEST(an_empty_device_is_filled_in_a_few_large_batches_and_ready_only_then)
{
    struct pair p;
    struct memory_device_counts counts;

    pair_init(&p, 1);
    pair_change(&p, some_region(3000, 10));
    pair_start_agent(&p);
    while (!memory_device_state(p.device).ready) {
        ck_assert(pair_step(&p));
        ck_assert(memory_device_state(p.device).applied == 0 ||
                  memory_device_state(p.device).ready);
    }
    ck_assert(pair_is_equal(&p)); /* at the very write that made it ready */
    ck_assert(pair_settle(&p));
    ck_assert_uint_eq(memory_device_state(p.device).applied, p.revision);
    counts = memory_device_counts(p.device);
    ck_assert_uint_eq(counts.puts, 39000); /* each row once */
    ck_assert_uint_eq(counts.deletes, 0);
    ck_assert_uint_le(counts.writes, 12); /* some 850 KiB by 128 KiB */
    pair_fini(&p);
}
END_TEST

START_TEST(a_restart_with_unchanged_intent_writes_nothing_whoever_restarts)
{
    struct pair p;
    uint64_t writes;

    pair_init(&p, 2);
    pair_change(&p, some_region(500, 5));
    pair_start_agent(&p);
    ck_assert(pair_settle(&p));
    writes = memory_device_counts(p.device).writes;

    pair_stop_agent(&p);
    pair_start_agent(&p);
    ck_assert(pair_settle(&p));
    pair_restart_controller(&p);
    ck_assert(pair_settle(&p));
    pair_cut(&p);
    ck_assert(pair_settle(&p));
    memory_device_disconnect(p.device);
    for (unsigned hellos = p.hellos; p.hellos == hellos;) {
        ck_assert(pair_step(&p));
    }
    ck_assert(pair_settle(&p));
    ck_assert_uint_eq(memory_device_counts(p.device).writes, writes);
    ck_assert(pair_is_equal(&p));
    pair_fini(&p);
}
END_TEST

START_TEST(equal_tables_cost_a_hello_and_an_assignment)
{
    struct pair p;

    pair_init(&p, 3);
    pair_change(&p, some_region(500, 5));
    pair_start_agent(&p);
    ck_assert(pair_settle(&p));
    p.to_agent.messages = p.to_ctl.messages = 0;
    pair_cut(&p);
    ck_assert(pair_settle(&p));
    ck_assert_uint_eq(p.to_agent.messages, 1); /* ASSIGN */
    ck_assert_uint_eq(p.to_ctl.messages, 1);   /* HELLO */
    ck_assert_uint_eq(sync_status(p.sync).sent_entries, 0);
    pair_fini(&p);
}
END_TEST

START_TEST(a_change_is_forwarded_as_it_is_and_nothing_else)
{
    struct pair p;
    struct ctl_msg m;
    struct blob *ops = some_vms(7, 1, 3, NC_NEW);
    struct agent_hello hello = { .device_id = "gw", .boot_id = 1, .ready = true };
    struct sync *s;

    pair_init(&p, 4);
    s = sync_new(p.desired, 5);
    hello.applied = 5;
    sync_start(s, &hello);
    ck_assert(!sync_next(s, &m));
    ck_assert(sync_status(s).in_sync);

    table_set_apply(p.desired, ops->data, ops->len, NULL, NULL, NULL);
    sync_change(s, 6, ops);
    ck_assert(!sync_status(s).in_sync);
    ck_assert(sync_next(s, &m));
    ck_assert_int_eq(m.kind, CTL_BATCH);
    ck_assert_ptr_eq(m.batch.ops, ops); /* shared, not packed again */
    ck_assert_uint_eq(m.batch.revision, 6);
    ck_assert_uint_eq(m.batch.seq, 1);
    ck_assert(!sync_next(s, &m));

    sync_change(s, 7, NULL); /* of another group: costs this one nothing */
    ck_assert(!sync_next(s, &m));
    ck_assert_int_eq(
        sync_ack(s, &(struct agent_ack){ .seq = 1, .applied = 6, .ready = true }, NULL),
        RC_OK);
    ck_assert(sync_status(s).in_sync);
    ck_assert_int_eq(sync_ack(s, &(struct agent_ack){ .seq = 2 }, NULL), RC_INVALID);
    blob_unref(ops);
    blob_unref(ops);
    sync_free(s);
    pair_fini(&p);
}
END_TEST

START_TEST(a_device_that_does_not_answer_gets_no_more_than_the_window)
{
    struct pair p;
    struct ctl_msg m;
    struct agent_hello hello = { .device_id = "gw", .boot_id = 1, .ready = true };
    struct sync *s;
    unsigned sent = 0;
    struct blob *ops = NULL;

    pair_init(&p, 5);
    s = sync_new(p.desired, 5);
    hello.applied = 5;
    sync_start(s, &hello);
    /* Past the backlog's bound nothing is kept: the device is compared again. */
    for (uint32_t r = 6; r < 6 + 2000; r++) {
        blob_unref(ops);
        ops = some_vms(7, 1, 500, NC_NEW + r);
        table_set_apply(p.desired, ops->data, ops->len, NULL, NULL, NULL);
        sync_change(s, r, ops);
        while (sync_next(s, &m)) {
            sent += m.kind == CTL_BATCH;
            ctl_msg_fini(&m);
        }
    }
    ck_assert_uint_eq(sent, SESSION_WINDOW);
    ck_assert(sync_status(s).is_walking);
    blob_unref(ops);
    sync_free(s);
    pair_fini(&p);
}
END_TEST

/* Desired goes to `ops`, which this takes, and so does sync. */
static void change(struct pair *p, struct sync *s, uint64_t revision, struct blob *ops)
{
    ck_assert_int_eq(table_set_apply(p->desired, ops->data, ops->len, NULL, NULL, NULL),
                     RC_OK);
    sync_change(s, revision, ops);
    blob_unref(ops);
}

static uint8_t next_op(struct sync *s)
{
    struct batch_reader r;
    struct batch_run run = { 0 };
    struct ctl_msg m;

    while (!sync_next(s, &m)) {
        ck_assert(sync_has_work(s)); /* a slice was used up */
    }
    ck_assert_int_eq(m.kind, CTL_BATCH);
    r = batch_reader_of(m.batch.ops->data, m.batch.ops->len);
    ck_assert(batch_next(&r, &run));
    ctl_msg_fini(&m);
    return run.op;
}

/* A batch that carries something, and whether it brings the device to `revision`. */
static void expect_batch(struct sync *s, bool has_ops, uint64_t revision)
{
    struct ctl_msg m;

    ck_assert(sync_next(s, &m));
    ck_assert_int_eq(m.kind, CTL_BATCH);
    ck_assert_int_eq(m.batch.ops != NULL, has_ops);
    ck_assert_uint_eq(m.batch.revision, revision);
    ck_assert_int_eq(m.batch.ready, revision != 0);
    ctl_msg_fini(&m);
}

START_TEST(a_revision_that_comes_in_parts_is_had_only_with_the_last)
{
    struct agent_hello hello = { .device_id = "gw", .boot_id = 1, .ready = true };
    const struct agent_ack ack = { .seq = 2, .applied = 5, .ready = true };
    struct pair p;
    struct ctl_msg m;
    struct sync *s;

    pair_init(&p, 12);
    s = sync_new(p.desired, 5);
    hello.applied = 5;
    sync_start(s, &hello);
    change(&p, s, 0, some_vms(7, 1, 3, NC_NEW));
    change(&p, s, 0, some_vms(7, 9, 3, NC_NEW));
    expect_batch(s, true, 0);
    expect_batch(s, true, 0);
    ck_assert(!sync_next(s, &m));
    ck_assert_int_eq(sync_ack(s, &ack, NULL), RC_OK);
    ck_assert(!sync_status(s).in_sync);

    sync_change(s, 6, NULL); /* the last part was empty */
    expect_batch(s, false, 6);
    change(&p, s, 0, some_vms(8, 1, 3, NC_NEW));
    change(&p, s, 7, some_vms(8, 9, 3, NC_NEW));
    expect_batch(s, true, 0);
    expect_batch(s, true, 7);
    ck_assert(!sync_next(s, &m));
    sync_free(s);
    pair_fini(&p);
}
END_TEST

/* The revision before is still to be sent when the last part of the next one comes and
 * brings nothing: a node stayed one revision behind for good. */
START_TEST(an_empty_last_part_behind_an_unsent_revision_is_not_forgotten)
{
    struct agent_hello hello = { .device_id = "gw", .boot_id = 1, .ready = true };
    struct pair p;
    struct ctl_msg m;
    struct sync *s;

    pair_init(&p, 13);
    s = sync_new(p.desired, 5);
    hello.applied = 5;
    sync_start(s, &hello);
    change(&p, s, 6, some_vms(7, 1, 3, NC_NEW));
    change(&p, s, 0, some_vms(7, 9, 3, NC_NEW));
    sync_change(s, 7, NULL);
    expect_batch(s, true, 6);
    expect_batch(s, true, 0);
    expect_batch(s, false, 7);
    ck_assert(!sync_next(s, &m));
    sync_free(s);
    pair_fini(&p);
}
END_TEST

START_TEST(a_delete_is_passed_on_to_where_a_put_went_before_it_was_known_to_be_empty)
{
    struct agent_hello hello = { .device_id = "gw", .boot_id = 1, .ready = true };
    struct digests_item item = { .of.table = TABLE_VM_NC };
    struct agent_digests d = { .items = &item, .item_count = 1 };
    struct batch_writer w;
    struct ctl_msg m;
    struct pair p;
    struct sync *s;

    pair_init(&p, 8);
    pair_change(&p, some_vms(7, 1, 10, NC_NEW));
    s = sync_new(p.desired, 5);
    hello.root[TABLE_VM_NC] = (struct digest){ 1, 1 };
    sync_start(s, &hello);
    ck_assert(sync_next(s, &m));
    ck_assert_int_eq(m.kind, CTL_QUERY);
    d.query_id = m.query.query_id;
    change(&p, s, 6, some_vms(7, 50, 1, NC_NEW));
    ck_assert_uint_eq(next_op(s), BATCH_PUT);
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_OK); /* holds nothing */
    batch_writer_init(&w);
    add_vm(&w, ENTRY_DELETE, 7, 50, 0);
    change(&p, s, 7, finish(&w));
    ck_assert_uint_eq(next_op(s), BATCH_DELETE);
    ck_assert_uint_eq(next_op(s), BATCH_PUT); /* the ten */
    ck_assert(!sync_next(s, &m));
    sync_free(s);
    pair_fini(&p);
}
END_TEST

START_TEST(an_answer_to_nothing_that_was_asked_is_refused)
{
    struct pair p;
    struct ctl_msg m;
    struct agent_hello hello = { .device_id = "gw", .boot_id = 1, .ready = true };
    struct digests_item items[2] = { 0 };
    struct agent_digests d = { .query_id = 1, .items = items, .item_count = 1 };
    struct sync *s;

    pair_init(&p, 6);
    pair_change(&p, some_region(3, 3));
    s = sync_new(p.desired, 5);
    hello.root[TABLE_VM_NC] = (struct digest){ 1, 1 };
    hello.applied = 5;
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_INVALID);
    sync_start(s, &hello);
    while (sync_next(s, &m)) {
        if (m.kind == CTL_QUERY) {
            ck_assert_uint_eq(m.query.item_count, 1);
            items[0].of = m.query.items[0];
            d.query_id = m.query.query_id;
        }
        ctl_msg_fini(&m);
    }
    d.query_id++;
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_INVALID);
    d.query_id--;
    d.item_count = 2;
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_INVALID);
    d.item_count = 1;
    items[0].of.table = TABLE_VNI;
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_INVALID);
    items[0].of.table = TABLE_VM_NC;
    items[0].child_count = 1;
    items[0].children[0].index = 64;
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_INVALID);
    items[0].child_count = 0;
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_OK);
    ck_assert_int_eq(sync_digests(s, &d, NULL), RC_INVALID); /* once is enough */
    sync_free(s);
    pair_fini(&p);
}
END_TEST

/* The generator's shape: a quarter as many VNIs as routes, and few large ones. */
static void fill_two_million(struct table_set *s)
{
    uint32_t left = 1000000;
    uint32_t vni = 17;

    for (uint32_t v = 0; left > 0; v++) {
        uint32_t want = v < 2     ? 100000
                        : v < 3   ? 30000
                        : v < 13  ? 3000
                        : v < 113 ? 400
                                  : 3;
        uint32_t n = want < left ? want : left;
        struct batch_writer w;
        struct blob *b;

        batch_writer_init(&w);
        for (uint32_t i = 0; i < n; i++) {
            add_route(&w, vni, 0x0a0000 + i);
        }
        for (uint32_t i = 0; i < n; i++) {
            add_vm(&w, ENTRY_PUT, vni, 1 + i, NC_NEW);
        }
        b = finish(&w);
        ck_assert_int_eq(table_set_apply(s, b->data, b->len, NULL, NULL, NULL), RC_OK);
        blob_unref(b);
        left -= n;
        vni = (vni + 6700417) % VNI_MAX + 1;
    }
}

static void copy_rows(const struct table_set *from, struct memory_device *to)
{
    for (uint32_t vni = table_set_next(from, 1, ~0u); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(from, vni + 1, ~0u)) {
        for (int t = 0; t < TABLE_COUNT; t++) {
            struct rows *rows = table_set_rows(from, vni, (enum table_id)t);

            ck_assert_int_eq(memory_device_preset_rows(to, vni, (enum table_id)t, rows),
                             RC_OK);
        }
    }
}

START_TEST(one_wrong_entry_in_two_million_is_found_and_repaired_within_64_kib)
{
    static const enum memory_corruption kinds[] = { CORRUPT_VALUE, CORRUPT_DROP,
                                                    CORRUPT_DUPLICATE };
    struct pair p;

    pair_init(&p, 7);
    fill_two_million(p.desired);
    copy_rows(p.desired, p.device);
    ck_assert_uint_eq(table_set_count(p.desired, TABLE_VXLAN_ROUTE), 1000000);
    ck_assert(pair_is_equal(&p));
    pair_start_agent(&p);
    ck_assert(pair_settle(&p));
    ck_assert_uint_eq(memory_device_counts(p.device).writes, 0);

    for (unsigned i = 0; i < 6; i++) {
        struct memory_device_counts before = memory_device_counts(p.device);
        struct memory_device_counts after;
        /* 17 is the VNI with 100,000 routes. */
        uint64_t pick =
            i < 3 ? pair_random(&p, UINT32_MAX) * 97 : 16 + i * VNI_MAX * 91;

        ck_assert(memory_device_corrupt(p.device, kinds[i % 3], pick));
        ck_assert(!pair_is_equal(&p));
        p.to_agent.bytes = p.to_ctl.bytes = 0;
        pair_stop_agent(&p); /* a new one reads back */
        pair_start_agent(&p);
        ck_assert(pair_settle(&p));
        ck_assert(pair_is_equal(&p));
        after = memory_device_counts(p.device);
        ck_assert_uint_eq(after.writes, before.writes + 1);
        ck_assert_uint_eq(after.puts + after.deletes, before.puts + before.deletes + 1);
        ck_assert_msg(p.to_agent.bytes + p.to_ctl.bytes < 64 << 10, "%llu bytes",
                      (unsigned long long)(p.to_agent.bytes + p.to_ctl.bytes));
    }
    pair_fini(&p);
}
END_TEST

/* ---- a repair is as safe as a change ---- */

static void add_route_to(struct batch_writer *w, uint32_t vni, uint32_t net,
                         uint32_t endpoint)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.dst = (struct prefix){ ip_v4(net << 8), 24 };
    e.route.action.scope = SCOPE_IDC;
    e.route.action.vni = 5;
    e.route.action.endpoint = ip_v4(endpoint);
    batch_add_entry(w, ENTRY_PUT, &e);
}

/* Two VNIs with a VM for each route, of which every `share`-th is another now. */
static struct blob *turned(uint32_t routes, uint32_t share, uint32_t nc)
{
    struct batch_writer w;

    batch_writer_init(&w);
    for (uint32_t vni = 7; vni < 9; vni++) {
        for (uint32_t i = 0; i < routes; i++) {
            add_route_to(&w, vni, 0x0a0000 + i, i % share ? NC_OLD : nc);
            add_vm(&w, ENTRY_PUT, vni, 1 + i, i % share ? NC_OLD : nc);
        }
    }
    return finish(&w);
}

static uint64_t digest_of(const struct table_set *s, uint32_t vni, enum table_id table)
{
    return rows_digest(table_set_rows(s, vni, table));
}

static const struct {
    uint32_t routes, share;
} repairs[] = { { 40, 7 }, { 3000, 900 }, { 20000, 60 }, { 20000, 2 } };

/* So a set that is closed before and after is closed at every write. */
START_TEST(a_repair_turns_the_routes_of_a_vni_at_once_and_its_vms_before)
{
    uint64_t old[2];
    bool has_turned[2] = { false, false };
    struct table_set *before = table_set_new();
    struct blob *ops = turned(repairs[_i].routes, repairs[_i].share, NC_OLD);
    struct pair p;

    pair_init(&p, 9 + (uint64_t)_i);
    pair_preset(&p, ops);
    ck_assert_int_eq(table_set_apply(before, ops->data, ops->len, NULL, NULL, NULL),
                     RC_OK);
    blob_unref(ops);
    pair_change(&p, turned(repairs[_i].routes, repairs[_i].share, NC_NEW));
    for (unsigned v = 0; v < 2; v++) {
        old[v] = digest_of(before, 7 + v, TABLE_VXLAN_ROUTE);
    }
    pair_start_agent(&p);
    while (!has_turned[0] || !has_turned[1]) {
        const struct table_set *now = memory_device_tables(p.device);

        ck_assert(pair_step(&p));
        for (unsigned v = 0; v < 2; v++) {
            uint64_t is = digest_of(now, 7 + v, TABLE_VXLAN_ROUTE);

            has_turned[v] = is == digest_of(p.desired, 7 + v, TABLE_VXLAN_ROUTE);
            ck_assert(has_turned[v] || is == old[v]);
            ck_assert(!has_turned[v] || digest_of(now, 7 + v, TABLE_VM_NC) ==
                                            digest_of(p.desired, 7 + v, TABLE_VM_NC));
        }
    }
    ck_assert(pair_settle(&p));
    ck_assert(pair_is_equal(&p));
    table_set_free(before);
    pair_fini(&p);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("sync");

    tcase_set_timeout(tc, 120);
    tcase_add_test(
        tc, an_empty_device_is_filled_in_a_few_large_batches_and_ready_only_then);
    tcase_add_test(tc, a_restart_with_unchanged_intent_writes_nothing_whoever_restarts);
    tcase_add_test(tc, equal_tables_cost_a_hello_and_an_assignment);
    tcase_add_test(tc, a_change_is_forwarded_as_it_is_and_nothing_else);
    tcase_add_test(tc, a_device_that_does_not_answer_gets_no_more_than_the_window);
    tcase_add_test(tc, a_revision_that_comes_in_parts_is_had_only_with_the_last);
    tcase_add_test(tc, an_empty_last_part_behind_an_unsent_revision_is_not_forgotten);
    tcase_add_test(
        tc, a_delete_is_passed_on_to_where_a_put_went_before_it_was_known_to_be_empty);
    tcase_add_test(tc, an_answer_to_nothing_that_was_asked_is_refused);
    tcase_add_test(tc,
                   one_wrong_entry_in_two_million_is_found_and_repaired_within_64_kib);
    tcase_add_loop_test(tc,
                        a_repair_turns_the_routes_of_a_vni_at_once_and_its_vms_before,
                        0, ARRAY_LEN(repairs));
    return unit_run("sync", tc);
}
