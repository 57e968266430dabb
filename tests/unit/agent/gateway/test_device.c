/* What a gateway promises its writer, without a socket and without DPDK. */
#include <string.h>

#include "agent/gateway/device.h"
#include "proto/model/entry_text.h"
#include "tests/unit/unit.h"

/* ---- writing ---- */

static void add_line(struct batch_writer *w, const char *line)
{
    struct err err = { 0 };
    enum entry_op op;
    struct entry e;

    if (entry_parse_json(line, strlen(line), &op, &e, &err) != RC_OK) {
        ck_abort_msg("%s: %s", line, err.msg);
    }
    batch_add_entry(w, op, &e);
}

static const char *const small_region[] = {
    "{\"table\":\"vni\",\"vni\":7,\"flags\":[\"internet\"]}",
    "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"10.0.0.0/16\",\"scope\":"
    "\"local\"}",
    "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"10.1.0.0/16\",\"scope\":"
    "\"peer\",\"peer_vni\":8}",
    "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"2001:db8::/48\",\"scope\":"
    "\"idc\",\"endpoint\":\"172.16.9.9\",\"endpoint_vni\":5000}",
    "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.4\",\"nc\":\"172.16.2.2\"}",
    "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"2001:db8::4\",\"nc\":\"fd00::2\",\"mac\":"
    "\"02:00:00:00:00:01\"}",
    "{\"table\":\"vni\",\"vni\":8}",
    "{\"table\":\"vxlan_route\",\"vni\":16777215,\"prefix\":\"0.0.0.0/0\",\"scope\":"
    "\"service\",\"service\":\"dns\"}",
};

static void add_small_region(struct batch_writer *w)
{
    for (unsigned i = 0; i < ARRAY_LEN(small_region); i++) {
        add_line(w, small_region[i]);
    }
}

/* `count` routes of one VNI that lie under and beside each other, and as many VMs. */
static void add_large_vni(struct batch_writer *w, uint32_t vni, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

        e.route.dst.addr = ip_v4(0x0a000000 + (i / 4 << 12));
        e.route.dst.len = (uint8_t)(20 + i % 4);
        e.route.action.scope = SCOPE_PEER;
        e.route.action.vni = 1000 + i;
        batch_add_entry(w, ENTRY_PUT, &e);
        e = (struct entry){ .table = TABLE_VM_NC, .vni = vni };
        e.vm_nc.vm = ip_v4(0x0a000001 + i);
        e.vm_nc.nc = ip_v4(0xac100001 + i);
        batch_add_entry(w, ENTRY_PUT, &e);
    }
}

static enum rc write_ops(struct device *d, struct batch_writer *ops,
                         struct device_write w, struct refusals *refusals)
{
    struct blob *b = batch_writer_finish(ops);
    struct err err = { 0 };
    enum rc rc;

    ck_assert_ptr_nonnull(b);
    w.ops = b->data;
    w.len = b->len;
    rc = device_write(d, &w, refusals, &err);
    ck_assert_int_eq(err.msg[0] != '\0', rc != RC_OK);
    blob_unref(b);
    return rc;
}

static struct device device_new(const struct fib_limits *limits)
{
    struct device d;
    struct err err = { 0 };

    ck_assert_int_eq(device_init(&d, DEVICE_X86, limits, 42, &err), RC_OK);
    return d;
}

/* Every row of `batch` alone, in the order it has there. */
static void load(struct table_set *to, const struct blob *batch)
{
    uint32_t count;
    uint32_t index;

    ck_assert_int_eq(batch_check(batch->data, batch->len, false, &count, &index, NULL),
                     RC_OK);
    ck_assert_int_eq(table_set_apply(to, batch->data, batch->len, NULL, NULL, NULL),
                     RC_OK);
}

static void assert_same(const struct table_set *a, const struct table_set *b)
{
    struct tree_node root = { 0 };

    for (int t = 0; t < TABLE_COUNT; t++) {
        struct digest x = table_set_digest(a, (enum table_id)t, root);
        struct digest y = table_set_digest(b, (enum table_id)t, root);

        ck_assert_uint_eq(x.count, y.count);
        ck_assert_uint_eq(x.sum, y.sum);
    }
}

/* Reads back in calls of these sizes; what comes must ascend strictly. */
static struct table_set *read_all(const struct device *d, uint8_t table, uint32_t vni,
                                  uint32_t max_rows, size_t max_bytes)
{
    struct table_set *got = table_set_new();
    struct device_reading r;
    struct batch_writer w;
    uint64_t rows = 0;
    bool has_more = true;

    device_reading_init(&r, table, vni);
    batch_writer_init(&w);
    for (uint32_t calls = 0; has_more; calls++) {
        struct blob *b;

        ck_assert_uint_lt(calls, 1000000);
        has_more = device_read(d, &r, max_rows, max_bytes, &w);
        rows += w.entry_count;
        b = batch_writer_finish(&w);
        ck_assert_ptr_nonnull(b);
        ck_assert_uint_lt(b->len, max_bytes + 64);
        load(got, b);
        blob_unref(b);
    }
    for (int t = 0; t < TABLE_COUNT; t++) {
        rows -= table_set_count(got, (enum table_id)t); /* none came twice */
    }
    ck_assert_uint_eq(rows, 0);
    batch_writer_fini(&w);
    device_reading_fini(&r);
    return got;
}

static void assert_reads(const struct device *d, const struct table_set *want)
{
    struct table_set *got = read_all(d, 0, 0, 4096, 1u << 17);

    assert_same(got, want);
    table_set_free(got);
}

/* ---- configuring ---- */

struct binding {
    unsigned calls;
    enum rc answer;
};

static enum rc bind_any(void *arg, const struct device_config *config,
                        struct fwd_port ports[UPLINKS_MAX], struct err *err)
{
    struct binding *b = arg;

    (void)config;
    b->calls++;
    ports[0].number = 3;
    memcpy(ports[0].mac, "\x02\x00\x00\x00\x00\x03", 6);
    return b->answer == RC_OK
               ? RC_OK
               : err_field(err, b->answer, "uplinks.port", "port_unknown", "no port");
}

static void pack_config(struct buf *to, uint16_t mtu)
{
    static struct device_config c; /* some 20 KiB */
    struct uplink *u = &c.uplinks[0];

    memset(&c, 0, sizeof(c));
    strcpy(c.node, "gw-1");
    strcpy(c.cluster, "x86-1");
    c.kind = DEVICE_X86;
    c.vtep_v4 = ip_v4(0xac100001);
    c.vip_v4 = ip_v4(0xac1f0001);
    c.uplink_count = 1;
    strcpy(u->port, "up0");
    u->addr_v4 = ip_v4(0xac140001);
    u->next_hop_v4 = ip_v4(0xac140002);
    u->mtu = mtu;
    ck_assert_int_eq(device_config_check(&c, NULL), RC_OK);
    device_config_pack(&c, to);
}

static enum rc configure(struct device *d, uint64_t term, const struct buf *packed,
                         struct binding *b, struct device_old *old)
{
    struct err err = { 0 };

    return device_configure(d, term, packed->data, packed->len, bind_any, b, old, &err);
}

static void configure_ok(struct device *d)
{
    struct buf packed = BUF_INIT;
    struct binding b = { 0 };
    struct device_old old;

    pack_config(&packed, 1500);
    ck_assert_int_eq(configure(d, 1, &packed, &b, &old), RC_OK);
    device_old_fini(&old);
    buf_fini(&packed);
}

/* ---- what it promises ---- */

START_TEST(a_lower_term_is_refused_and_changes_nothing)
{
    struct device d = device_new(NULL);
    struct table_set *empty = table_set_new();
    struct refusals none = { 0 };
    struct batch_writer ops;

    batch_writer_init(&ops);
    ck_assert_int_eq(
        write_ops(&d, &ops, (struct device_write){ .term = 9, .revision = 5 }, &none),
        RC_OK);
    add_small_region(&ops);
    ck_assert_int_eq(
        write_ops(&d, &ops, (struct device_write){ .term = 8, .revision = 6 }, &none),
        RC_STALE);
    ck_assert_uint_eq(d.term, 9);
    ck_assert_uint_eq(d.applied, 5);
    assert_same(d.records, empty);
    assert_reads(&d, empty);
    batch_writer_fini(&ops);
    table_set_free(empty);
    device_fini(&d);
}
END_TEST

START_TEST(ready_needs_a_configuration_first)
{
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct batch_writer ops;
    struct device_write w = { .term = 1, .revision = 3, .ready = true };

    batch_writer_init(&ops);
    add_small_region(&ops);
    ck_assert_int_eq(write_ops(&d, &ops, w, &none), RC_CONFLICT);
    ck_assert(!atomic_load(&d.is_ready));
    ck_assert_uint_eq(d.applied, 0);
    ck_assert_uint_eq(table_set_vni_count(d.records), 0);
    configure_ok(&d);
    add_small_region(&ops);
    ck_assert_int_eq(write_ops(&d, &ops, w, &none), RC_OK);
    ck_assert(atomic_load(&d.is_ready));
    ck_assert_uint_eq(d.applied, 3);
    w.ready = false; /* only says nothing: a gateway does not become unready */
    w.revision = 0;  /* as does this */
    ck_assert_int_eq(write_ops(&d, &ops, w, &none), RC_OK);
    ck_assert(atomic_load(&d.is_ready));
    ck_assert_uint_eq(d.applied, 3);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(rows_that_find_no_place_are_named_and_are_in_no_read_back)
{
    struct fib_limits limits = { .max_routes = 10, .max_vm_nc = 20, .max_vnis = 100 };
    struct device d = device_new(&limits);
    struct refusals refused = { 0 };
    struct batch_writer ops;
    struct table_set *got;

    batch_writer_init(&ops);
    add_large_vni(&ops, 5, 30);
    ck_assert_int_eq(write_ops(&d, &ops,
                               (struct device_write){ .term = 1, .revision = 2 },
                               &refused),
                     RC_OK);
    ck_assert_uint_eq(d.applied, 2);
    ck_assert_uint_eq(refused.count, 20 + 10);
    ck_assert_uint_eq(table_set_count(d.records, TABLE_VXLAN_ROUTE), 10);
    ck_assert_uint_eq(table_set_count(d.records, TABLE_VM_NC), 20);
    for (uint32_t i = 0; i < refused.count; i++) {
        const struct exception *e = &refused.at[i];
        struct row row;

        ck_assert_int_eq(e->reason, EXCEPTION_FULL);
        ck_assert_uint_eq(e->vni, 5);
        ck_assert(!rows_find(table_set_rows(d.records, 5, (enum table_id)e->table),
                             (enum table_id)e->table, e->key, e->key_len, &row));
    }
    got = read_all(&d, 0, 0, 4096, 1u << 17);
    assert_same(got, d.records);
    table_set_free(got);
    refusals_fini(&refused);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(a_refused_update_leaves_the_old_value)
{
    /* One address with a MAC needs a pooled value; the pool holds 1.5 x 1 + 64. */
    struct fib_limits limits = { .max_routes = 4, .max_vm_nc = 1, .max_vnis = 4 };
    struct device d = device_new(&limits);
    struct refusals refused = { 0 };
    struct batch_writer ops;
    struct entry e = { .table = TABLE_VM_NC, .vni = 5 };
    struct device_write w = { .term = 1 };

    batch_writer_init(&ops);
    e.vm_nc.vm = ip_v4(0x0a000001);
    e.vm_nc.nc = ip_v4(0xac100001);
    batch_add_entry(&ops, ENTRY_PUT, &e);
    ck_assert_int_eq(write_ops(&d, &ops, w, &refused), RC_OK);
    e.vm_nc.vm = ip_v4(0x0a000002); /* no room */
    batch_add_entry(&ops, ENTRY_PUT, &e);
    e.vm_nc.vm = ip_v4(0x0a000001); /* an update needs none */
    e.vm_nc.nc = ip_v4(0xac100002);
    batch_add_entry(&ops, ENTRY_PUT, &e);
    ck_assert_int_eq(write_ops(&d, &ops, w, &refused), RC_OK);
    ck_assert_uint_eq(refused.count, 1);
    ck_assert_mem_eq(refused.at[0].key, "\x04\x0a\x00\x00\x02", 5);
    assert_reads(&d, d.records);
    ck_assert_uint_eq(table_set_count(d.records, TABLE_VM_NC), 1);
    refusals_fini(&refused);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(a_tenant_row_is_no_row_of_a_device)
{
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct batch_writer ops;

    batch_writer_init(&ops);
    add_small_region(&ops);
    add_line(&ops, "{\"table\":\"tenant\",\"vni\":9,\"cluster\":\"x86-1\"}");
    ck_assert_int_eq(
        write_ops(&d, &ops, (struct device_write){ .term = 1, .revision = 4 }, &none),
        RC_INVALID);
    ck_assert_uint_eq(d.applied, 0);
    ck_assert_uint_eq(table_set_vni_count(d.records), 0);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(damaged_batches_change_nothing)
{
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct batch_writer ops;
    struct blob *b;
    struct table_set *before;

    batch_writer_init(&ops);
    add_small_region(&ops);
    ck_assert_int_eq(write_ops(&d, &ops, (struct device_write){ .term = 1 }, &none),
                     RC_OK);
    before = read_all(&d, 0, 0, 4096, 1u << 17);
    add_large_vni(&ops, 9, 5);
    b = batch_writer_finish(&ops);
    for (size_t cut = 1; cut < b->len; cut++) {
        struct device_write w = { .term = 1, .revision = 3, .ops = b->data };
        struct err err = { 0 };
        struct device e = device_new(NULL);

        w.len = cut;
        /* A cut between two runs leaves a whole batch. */
        if (device_write(&e, &w, &none, &err) != RC_OK) {
            ck_assert_int_eq(err.code, RC_INVALID);
            ck_assert_uint_eq(e.applied, 0);
            ck_assert_uint_eq(table_set_vni_count(e.records), 0);
        }
        device_fini(&e);
    }
    {
        static uint8_t large[BATCH_MAX_BYTES + 1];
        struct device_write w = { .term = 1, .ops = large, .len = sizeof(large) };
        struct err err = { 0 };

        ck_assert_int_eq(device_write(&d, &w, &none, &err), RC_RANGE);
    }
    assert_same(d.records, before);
    blob_unref(b);
    table_set_free(before);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

/* A replace is between controller and agent only. */
START_TEST(a_replace_is_refused)
{
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct batch_writer ops;
    struct bucket all = { 0 };

    batch_writer_init(&ops);
    batch_add_rows(&ops, BATCH_REPLACE, TABLE_VM_NC, 7, &all, NULL, 0, 0);
    ck_assert_int_eq(write_ops(&d, &ops, (struct device_write){ .term = 1 }, &none),
                     RC_INVALID);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(calls_of_every_size_read_back_what_was_written)
{
    static const uint32_t max_rows[] = { 1, 2, 3, 7, 50, 100000 };
    static const size_t max_bytes[] = { 1, 14, 100, 1000, 1u << 17 };
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct batch_writer ops;
    struct table_set *want = table_set_new();
    struct blob *b;
    struct err err = { 0 };

    batch_writer_init(&ops);
    add_small_region(&ops);
    add_large_vni(&ops, 100, 700); /* several pages of rows */
    b = batch_writer_finish(&ops);
    load(want, b);
    ck_assert_int_eq(
        device_write(&d,
                     &(struct device_write){ .term = 1, .ops = b->data, .len = b->len },
                     &none, &err),
        RC_OK);
    blob_unref(b);
    for (unsigned i = 0; i < ARRAY_LEN(max_rows); i++) {
        for (unsigned j = 0; j < ARRAY_LEN(max_bytes); j++) {
            struct table_set *got = read_all(&d, 0, 0, max_rows[i], max_bytes[j]);

            assert_same(got, want);
            table_set_free(got);
        }
    }
    batch_writer_fini(&ops);
    table_set_free(want);
    device_fini(&d);
}
END_TEST

START_TEST(one_table_and_one_vni_can_be_read_alone)
{
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct batch_writer ops;
    struct table_set *got;

    batch_writer_init(&ops);
    add_small_region(&ops);
    add_large_vni(&ops, 100, 50);
    ck_assert_int_eq(write_ops(&d, &ops, (struct device_write){ .term = 1 }, &none),
                     RC_OK);
    got = read_all(&d, TABLE_VXLAN_ROUTE, 0, 10, 100);
    ck_assert_uint_eq(table_set_count(got, TABLE_VXLAN_ROUTE), 50 + 4);
    ck_assert_uint_eq(table_set_count(got, TABLE_VM_NC), 0);
    ck_assert_uint_eq(table_set_count(got, TABLE_VNI), 0);
    table_set_free(got);
    got = read_all(&d, 0, 7, 10, 100);
    ck_assert_uint_eq(table_set_vni_count(got), 1);
    ck_assert_uint_eq(table_set_count(got, TABLE_VXLAN_ROUTE), 3);
    ck_assert_uint_eq(table_set_count(got, TABLE_VM_NC), 2);
    table_set_free(got);
    got = read_all(&d, TABLE_VM_NC, 12345, 10, 100);
    ck_assert_uint_eq(table_set_vni_count(got), 0);
    table_set_free(got);
    got = read_all(&d, 0, VNI_MAX, 10, 100);
    ck_assert_uint_eq(table_set_count(got, TABLE_VXLAN_ROUTE), 1);
    table_set_free(got);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(a_large_vni_that_is_emptied_while_it_is_read_ends_the_reading)
{
    struct device d = device_new(NULL);
    struct refusals none = { 0 };
    struct device_reading r;
    struct batch_writer ops;
    struct batch_writer to;
    bool has_more = true;

    batch_writer_init(&ops);
    batch_writer_init(&to);
    add_large_vni(&ops, 100, 200);
    ck_assert_int_eq(write_ops(&d, &ops, (struct device_write){ .term = 1 }, &none),
                     RC_OK);
    device_reading_init(&r, 0, 0);
    for (unsigned call = 0; has_more; call++) {
        ck_assert_uint_lt(call, 1000);
        has_more = device_read(&d, &r, 10, 1u << 17, &to);
        if (call == 30) { /* in the middle of the routes */
            for (uint32_t i = 0; i < 200; i++) {
                struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = 100 };

                e.route.dst.addr = ip_v4(0x0a000000 + (i / 4 << 12));
                e.route.dst.len = (uint8_t)(20 + i % 4);
                batch_add_entry(&ops, ENTRY_DELETE, &e);
            }
            ck_assert_int_eq(
                write_ops(&d, &ops, (struct device_write){ .term = 1 }, &none), RC_OK);
        }
    }
    ck_assert_uint_gt(to.entry_count, 200); /* the VMs, and routes told before */
    ck_assert_uint_lt(to.entry_count, 400);
    device_reading_fini(&r);
    batch_writer_fini(&to);
    batch_writer_fini(&ops);
    device_fini(&d);
}
END_TEST

START_TEST(a_configuration_is_published_and_the_old_one_handed_back)
{
    struct device d = device_new(NULL);
    struct buf first = BUF_INIT;
    struct buf second = BUF_INIT;
    struct binding b = { 0 };
    struct device_old old;
    struct fwd_config *published;

    pack_config(&first, 1500);
    pack_config(&second, 9000);
    ck_assert_int_eq(configure(&d, 5, &first, &b, &old), RC_OK);
    ck_assert_ptr_null(old.fwd);
    ck_assert_uint_eq(d.term, 5);
    ck_assert_uint_eq(d.config_digest,
                      device_config_bytes_digest(first.data, first.len));
    published = atomic_load(&d.fwd);
    ck_assert_uint_eq(published->uplink_count, 1);
    ck_assert_uint_eq(published->uplink[0].port, 3);
    ck_assert_uint_eq(published->uplink[0].mtu, 1500);
    fwd_config_set_mac(published, 0, (const uint8_t *)"\x02\0\0\0\1\1");
    ck_assert_int_eq(configure(&d, 5, &second, &b, &old), RC_OK);
    ck_assert_ptr_eq(old.fwd, published);
    published = atomic_load(&d.fwd);
    ck_assert_uint_eq(published->uplink[0].mtu, 9000);
    ck_assert_uint_eq(atomic_load(&published->next_hop_mac[0]),
                      atomic_load(&old.fwd->next_hop_mac[0])); /* still resolved */
    ck_assert_uint_ne(atomic_load(&published->next_hop_mac[0]), 0);
    device_old_fini(&old);
    buf_fini(&first);
    buf_fini(&second);
    device_fini(&d);
}
END_TEST

START_TEST(a_configuration_that_cannot_be_changes_nothing)
{
    struct device d = device_new(NULL);
    struct buf packed = BUF_INIT;
    struct binding b = { .answer = RC_NOT_FOUND };
    struct device_old old;

    pack_config(&packed, 1500);
    ck_assert_int_eq(configure(&d, 1, &packed, &b, &old), RC_NOT_FOUND);
    ck_assert_ptr_null(atomic_load(&d.fwd));
    b.answer = RC_OK;
    for (size_t len = 0; len < packed.len; len++) {
        struct buf cut = { .data = packed.data, .len = len };

        ck_assert_int_eq(configure(&d, 1, &cut, &b, &old), RC_INVALID);
    }
    ck_assert_ptr_null(atomic_load(&d.fwd));
    ck_assert_uint_eq(d.config_digest, 0);
    ck_assert_int_eq(configure(&d, 2, &packed, &b, &old), RC_OK);
    ck_assert_int_eq(configure(&d, 1, &packed, &b, &old), RC_STALE);
    ck_assert_ptr_null(old.fwd);
    buf_fini(&packed);
    device_fini(&d);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("device");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_lower_term_is_refused_and_changes_nothing);
    tcase_add_test(tc, ready_needs_a_configuration_first);
    tcase_add_test(tc, rows_that_find_no_place_are_named_and_are_in_no_read_back);
    tcase_add_test(tc, a_refused_update_leaves_the_old_value);
    tcase_add_test(tc, a_tenant_row_is_no_row_of_a_device);
    tcase_add_test(tc, damaged_batches_change_nothing);
    tcase_add_test(tc, a_replace_is_refused);
    tcase_add_test(tc, calls_of_every_size_read_back_what_was_written);
    tcase_add_test(tc, one_table_and_one_vni_can_be_read_alone);
    tcase_add_test(tc, a_large_vni_that_is_emptied_while_it_is_read_ends_the_reading);
    tcase_add_test(tc, a_configuration_is_published_and_the_old_one_handed_back);
    tcase_add_test(tc, a_configuration_that_cannot_be_changes_nothing);
    return unit_run("device", tc);
}
