/* What a read-back tells of a device in which something was corrupted, in its records
 * or in the structures that packets are looked up in; and that writing the rows that
 * differ makes it sound again. */
#include <string.h>

#include "agent/gateway/device.h"
#include "proto/model/entry_text.h"
#include "tests/unit/unit.h"

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

static struct blob *finish(struct batch_writer *w)
{
    struct blob *b = batch_writer_finish(w);

    ck_assert_ptr_nonnull(b);
    batch_writer_fini(w);
    return b;
}

static struct blob *batch_of(const char *const lines[], unsigned count)
{
    struct batch_writer w;

    batch_writer_init(&w);
    for (unsigned i = 0; i < count && lines[i]; i++) {
        add_line(&w, lines[i]);
    }
    return finish(&w);
}

static void apply(struct table_set *to, const void *ops, size_t len)
{
    ck_assert_int_eq(table_set_apply(to, ops, len, NULL, NULL, NULL), RC_OK);
}

#define ROUTE4                                                                         \
    "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"10.0.0.0/16\",\"scope\":"
#define ROUTE6                                                                         \
    "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"2001:db8::/48\",\"scope\":"
#define VM4 "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.4\",\"nc\":"
#define VM6 "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"2001:db8::4\",\"nc\":"
#define GONE_ROUTE4                                                                    \
    "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"10.0.0.0/"    \
    "16\"}"
#define GONE_VM4 "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.4\"}"
#define GONE_VM6                                                                       \
    "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"2001:db8::4\"}"

static const char *const sound[] = {
    "{\"table\":\"vni\",\"vni\":7,\"flags\":[\"internet\"]}",
    ROUTE4 "\"local\"}",
    "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"10.0.8.0/24\",\"scope\":"
    "\"peer\",\"peer_vni\":8}",
    ROUTE6 "\"idc\",\"endpoint\":\"172.16.9.9\",\"endpoint_vni\":5000}",
    VM4 "\"172.16.2.2\"}",
    VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}",
    "{\"table\":\"vni\",\"vni\":8}",
    "{\"table\":\"vxlan_route\",\"vni\":9,\"prefix\":\"0.0.0.0/0\",\"scope\":"
    "\"service\",\"service\":\"dns\"}",
};

/* `count` routes and VMs of many VNIs beside them: what is sound stays so. */
static void add_many(struct batch_writer *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = 100 + i % 37 * 1000 };

        e.route.dst.addr = ip_v4(0x0a000000 + (i / 4 << 12));
        e.route.dst.len = (uint8_t)(20 + i % 4);
        e.route.action.scope = SCOPE_PEER;
        e.route.action.vni = 1000 + i;
        batch_add_entry(w, ENTRY_PUT, &e);
        e = (struct entry){ .table = TABLE_VM_NC, .vni = 100 + i % 37 * 1000 };
        e.vm_nc.vm = ip_v4(0x0a000001 + i);
        e.vm_nc.nc = ip_v4(0xac100001 + i);
        batch_add_entry(w, ENTRY_PUT, &e);
    }
}

struct rig {
    struct device d;
    struct table_set *want;
};

static void rig_write(struct rig *r, const struct blob *b)
{
    struct refusals none = { 0 };
    struct err err = { 0 };
    struct device_write w = { .term = 1, .ops = b->data, .len = b->len };

    ck_assert_int_eq(device_write(&r->d, &w, &none, &err), RC_OK);
    ck_assert_uint_eq(none.count, 0);
}

static void rig_init(struct rig *r)
{
    struct batch_writer w;
    struct blob *b;

    *r = (struct rig){ .want = table_set_new() };
    ck_assert_int_eq(device_init(&r->d, DEVICE_X86, NULL, 42, NULL), RC_OK);
    batch_writer_init(&w);
    for (unsigned i = 0; i < ARRAY_LEN(sound); i++) {
        add_line(&w, sound[i]);
    }
    add_many(&w, 400);
    b = finish(&w);
    rig_write(r, b);
    apply(r->want, b->data, b->len);
    blob_unref(b);
}

static void rig_fini(struct rig *r)
{
    table_set_free(r->want);
    device_fini(&r->d);
}

static void rig_tamper(struct rig *r, enum tamper_place place, bool keeps,
                       const char *const lines[], unsigned count)
{
    struct blob *b = batch_of(lines, count);
    struct device_tamper t = { place, keeps, b->data, b->len };

    ck_assert_int_eq(device_tamper(&r->d, &t, NULL), RC_OK);
    blob_unref(b);
}

static bool find(const struct table_set *s, uint8_t table, uint32_t vni,
                 const struct row *key, struct row *ret)
{
    const struct rows *rows = table_set_rows(s, vni, (enum table_id)table);

    return rows && rows_find(rows, (enum table_id)table, key->key, key->key_len, ret);
}

/* By the rule of device.h: a row that is told and then deleted counts as what was told,
 * unless that is just what was expected. */
static void take_unsound(struct table_set *got, const struct table_set *want,
                         const struct batch_run *run)
{
    struct run_reader it = run_reader_of(run);
    struct batch_writer w;
    struct blob *b;
    struct row key;

    batch_writer_init(&w);
    while (run_next(&it, &key)) {
        struct row is;
        struct row as;

        if (find(got, run->table, run->vni, &key, &is) &&
            find(want, run->table, run->vni, &key, &as) &&
            is.value_len == as.value_len &&
            memcmp(is.value, as.value, as.value_len) == 0) {
            batch_add_row(&w, BATCH_DELETE, (enum table_id)run->table, run->vni, &key);
        }
    }
    b = finish(&w);
    apply(got, b->data, b->len);
    blob_unref(b);
}

static struct table_set *read_back(const struct rig *r, uint32_t vni, uint32_t max_rows,
                                   size_t max_bytes)
{
    struct table_set *got = table_set_new();
    struct device_reading reading;
    struct batch_writer w;
    bool has_more = true;

    device_reading_init(&reading, 0, vni);
    for (uint32_t calls = 0; has_more; calls++) {
        struct batch_reader in;
        struct batch_run run;
        struct blob *b;

        ck_assert_uint_lt(calls, 1000000);
        batch_writer_init(&w);
        has_more = device_read(&r->d, &reading, max_rows, max_bytes, &w);
        b = finish(&w);
        in = batch_reader_of(b->data, b->len);
        while (batch_next(&in, &run)) {
            if (run.op == BATCH_PUT) {
                apply(got, run.rows - BATCH_RUN_HEADER,
                      run.bytes + (size_t)BATCH_RUN_HEADER);
            } else {
                take_unsound(got, r->want, &run);
            }
        }
        blob_unref(b);
    }
    device_reading_fini(&reading);
    return got;
}

/* The writes that turn what was read into what is wanted, as an agent makes them. */
static struct blob *difference(const struct table_set *got,
                               const struct table_set *want)
{
    struct bucket whole = { 0 };
    struct batch_writer w;

    batch_writer_init(&w);
    for (unsigned t = TABLE_VNI; t < TABLE_COUNT; t++) {
        for (uint32_t vni = 1; vni <= 40000; vni++) {
            rows_diff(table_set_rows(got, vni, (enum table_id)t),
                      table_set_rows(want, vni, (enum table_id)t), (enum table_id)t,
                      vni, whole, &w);
        }
    }
    return finish(&w);
}

static uint32_t rows_in(const struct blob *b)
{
    uint32_t count = 0;
    uint32_t index;

    ck_assert_int_eq(batch_check(b->data, b->len, false, &count, &index, NULL), RC_OK);
    return count;
}

/* ---- what is done to it, and what has to be written then ---- */

struct corruption {
    const char *what;
    enum tamper_place place;
    const char *tamper[2];
    const char *repair[3];
};

static const struct corruption corruptions[] = {
    { "a VM's NC, flipped where packets look",
      TAMPER_STRUCTURES,
      { VM4 "\"172.16.2.3\"}" },
      { VM4 "\"172.16.2.2\"}" } },
    { "a VM's NC, flipped in the record",
      TAMPER_RECORDS,
      { VM4 "\"172.16.2.3\"}" },
      { VM4 "\"172.16.2.2\"}" } },
    { "an IPv6 VM's MAC, flipped where packets look",
      TAMPER_STRUCTURES,
      { VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:81\"}" },
      { VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}" } },
    { "a mark, where the VM's route is local",
      TAMPER_MARKS,
      { VM4 "\"172.16.2.2\"}" },
      { VM4 "\"172.16.2.2\"}" } },
    { "marks of a VM whose value is pooled, and of another one",
      TAMPER_MARKS,
      { VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}", VM4 "\"172.16.2.2\"}" },
      { VM4 "\"172.16.2.2\"}", VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}" } },
    { "a VM, lost where packets look",
      TAMPER_STRUCTURES,
      { GONE_VM4 },
      { VM4 "\"172.16.2.2\"}" } },
    { "a VM, lost in the records",
      TAMPER_RECORDS,
      { GONE_VM4 },
      { VM4 "\"172.16.2.2\"}" } },
    { "an IPv6 VM, lost in the records",
      TAMPER_RECORDS,
      { GONE_VM6 },
      { VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}" } },
    { "a VM that nobody wrote, where packets look",
      TAMPER_STRUCTURES,
      { "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.2.2\"}" },
      { "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.5\"}" } },
    { "a VM of a VNI that nobody wrote, where packets look",
      TAMPER_STRUCTURES,
      { "{\"table\":\"vm_nc\",\"vni\":11,\"vm\":\"2001:db8::5\",\"nc\":\"10.1.2.2\"}" },
      { "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":11,\"vm\":\"2001:db8::5\"}" } },
    { "a VM that nobody wrote, in the records",
      TAMPER_RECORDS,
      { "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.2.2\"}" },
      { NULL } }, /* packets do not get it: nothing to be told */
    { "a route, flipped where packets look",
      TAMPER_STRUCTURES,
      { ROUTE4 "\"internet\"}" },
      { ROUTE4 "\"local\"}" } },
    { "a route, lost where packets look",
      TAMPER_STRUCTURES,
      { GONE_ROUTE4 },
      { ROUTE4 "\"local\"}" } },
    { "a route's endpoint, flipped where packets look",
      TAMPER_STRUCTURES,
      { ROUTE6 "\"idc\",\"endpoint\":\"172.16.9.8\",\"endpoint_vni\":5000}" },
      { ROUTE6 "\"idc\",\"endpoint\":\"172.16.9.9\",\"endpoint_vni\":5000}" } },
    { "a longer route that nobody wrote, where packets look",
      TAMPER_STRUCTURES,
      { "{\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":\"10.0.16.0/24\",\"scope\":"
        "\"internet\"}" },
      { ROUTE4 "\"local\"}",
        "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":7,\"prefix\":"
        "\"10.0.16.0/24\"}" } },
    { "routes of a VNI that nobody wrote, where packets look",
      TAMPER_STRUCTURES,
      { "{\"table\":\"vxlan_route\",\"vni\":12,\"prefix\":\"10.0.0.0/9\",\"scope\":"
        "\"internet\"}" },
      { "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":12,\"prefix\":"
        "\"10.0.0.0/9\"}" } },
    { "a VNI's flags, flipped where packets look",
      TAMPER_STRUCTURES,
      { "{\"table\":\"vni\",\"vni\":7,\"flags\":[\"inner_vlan\"]}" },
      { "{\"table\":\"vni\",\"vni\":7,\"flags\":[\"internet\"]}" } },
    { "a VNI, lost where packets look",
      TAMPER_STRUCTURES,
      { "{\"op\":\"delete\",\"table\":\"vni\",\"vni\":8}" },
      { "{\"table\":\"vni\",\"vni\":8}" } },
    { "a VNI, lost in the records",
      TAMPER_RECORDS,
      { "{\"op\":\"delete\",\"table\":\"vni\",\"vni\":8}" },
      { "{\"table\":\"vni\",\"vni\":8}" } },
    { "a VNI that nobody wrote, where packets look",
      TAMPER_STRUCTURES,
      { "{\"table\":\"vni\",\"vni\":13}" },
      { "{\"op\":\"delete\",\"table\":\"vni\",\"vni\":13}" } },
};

static void assert_differs_by(const struct rig *r, const struct corruption *c,
                              const struct table_set *got)
{
    struct table_set *left = table_set_new();
    struct table_set *right = table_set_new();
    struct blob *is = difference(got, r->want);
    struct blob *as = batch_of(c->repair, ARRAY_LEN(c->repair));

    /* The same rows in any order: both applied to nothing, puts and deletes apart. */
    if (rows_in(is) != rows_in(as)) {
        ck_abort_msg("%s: %u rows differ", c->what, rows_in(is));
    }
    apply(left, is->data, is->len);
    apply(right, as->data, as->len);
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        struct digest x =
            table_set_digest(left, (enum table_id)t, (struct tree_node){ 0 });
        struct digest y =
            table_set_digest(right, (enum table_id)t, (struct tree_node){ 0 });

        if (x.count != y.count || x.sum != y.sum) {
            ck_abort_msg("%s: other rows of %s", c->what, table_name((enum table_id)t));
        }
    }
    blob_unref(is);
    blob_unref(as);
    table_set_free(left);
    table_set_free(right);
}

static void assert_sound(const struct rig *r, const char *what)
{
    struct table_set *got = read_back(r, 0, 100, 1000);
    struct blob *b = difference(got, r->want);

    if (rows_in(b) != 0) {
        ck_abort_msg("%s: %u rows still differ", what, rows_in(b));
    }
    blob_unref(b);
    table_set_free(got);
}

START_TEST(a_corruption_shows_as_the_rows_it_hits_and_writing_these_heals_it)
{
    const struct corruption *c = &corruptions[_i];
    struct rig r;
    struct table_set *got;
    struct blob *b;

    rig_init(&r);
    assert_sound(&r, "before");
    rig_tamper(&r, c->place, false, c->tamper, ARRAY_LEN(c->tamper));
    got = read_back(&r, 0, 3, 100);
    assert_differs_by(&r, c, got);
    b = difference(got, r.want);
    rig_write(&r, b);
    blob_unref(b);
    table_set_free(got);
    if (c->repair[0]) {
        assert_sound(&r, c->what);
    }
    rig_fini(&r);
}
END_TEST

START_TEST(one_vni_read_alone_shows_what_is_wrong_of_it_and_only_that)
{
    static const char *const stray[] = {
        "{\"table\":\"vm_nc\",\"vni\":7,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.2.2\"}",
        "{\"table\":\"vm_nc\",\"vni\":11,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.2.2\"}",
    };
    struct rig r;
    struct table_set *got;

    rig_init(&r);
    rig_tamper(&r, TAMPER_STRUCTURES, false, stray, ARRAY_LEN(stray));
    got = read_back(&r, 7, 1, 50);
    ck_assert_uint_eq(table_set_count(got, TABLE_VM_NC), 3);
    ck_assert_uint_eq(table_set_count(got, TABLE_VXLAN_ROUTE), 3);
    table_set_free(got);
    got = read_back(&r, 11, 1, 50);
    ck_assert_uint_eq(table_set_count(got, TABLE_VM_NC), 1);
    table_set_free(got);
    got = read_back(&r, 8, 1, 50);
    ck_assert_uint_eq(table_set_count(got, TABLE_VM_NC), 0);
    ck_assert_uint_eq(table_set_count(got, TABLE_VNI), 1);
    table_set_free(got);
    rig_fini(&r);
}
END_TEST

/* A delete that does not reach one of the two places shows, and the next one does. */
START_TEST(a_row_that_is_kept_once_shows_and_goes_with_the_next_delete)
{
    static const char *const row[] = { VM4 "\"172.16.2.2\"}" };
    static const char *const gone[] = { GONE_VM4 };

    for (unsigned place = TAMPER_STRUCTURES; place >= TAMPER_RECORDS; place--) {
        struct blob *b = batch_of(gone, 1);
        struct table_set *got;
        struct rig r;

        rig_init(&r);
        rig_tamper(&r, (enum tamper_place)place, true, row, 1);
        rig_write(&r, b);
        apply(r.want, b->data, b->len);
        got = read_back(&r, 0, 100, 1000);
        ck_assert_uint_eq(table_set_count(got, TABLE_VM_NC),
                          table_set_count(r.want, TABLE_VM_NC) +
                              (place == TAMPER_STRUCTURES));
        table_set_free(got);
        rig_write(&r, b);
        assert_sound(&r, "the second delete");
        blob_unref(b);
        rig_fini(&r);
    }
}
END_TEST

/* A value that many share is as often referred to as there are rows of it, whatever was
 * done to it in between: when they go, it goes. */
START_TEST(what_was_repaired_leaves_nothing_behind)
{
    static const char *const pooled[] = {
        VM6 "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}"
    };
    static const char *const wrong[] = { VM6
                                         "\"fd00::2\",\"mac\":\"02:00:00:00:00:81\"}" };
    static const char *const gone[] = { GONE_VM6 };
    struct blob *put = batch_of(pooled, 1);
    struct blob *del = batch_of(gone, 1);
    struct rig r;
    uint64_t others;

    rig_init(&r);
    rig_write(&r, del);
    others = fib_stats(r.d.fib).ncs;
    rig_write(&r, put);
    for (unsigned i = 0; i < 30; i++) {
        if (i % 3 == 0) {
            rig_tamper(&r, TAMPER_MARKS, false, pooled, 1);
        } else if (i % 3 == 1) {
            rig_tamper(&r, TAMPER_STRUCTURES, false, wrong, 1);
        } else {
            rig_tamper(&r, TAMPER_STRUCTURES, false, gone, 1);
        }
        rig_write(&r, put);
        assert_sound(&r, "a repair");
        ck_assert_uint_eq(fib_stats(r.d.fib).ncs, others + 1);
    }
    rig_write(&r, del);
    ck_assert_uint_eq(fib_stats(r.d.fib).ncs, others);
    blob_unref(put);
    blob_unref(del);
    rig_fini(&r);
}
END_TEST

/* One batch: rows that are sound, and behind them one that is not. */
START_TEST(a_sound_row_hides_no_other_of_its_batch)
{
    static const char *const rows[] = { VM4 "\"172.16.2.2\"}", VM6
                                        "\"fd00::2\",\"mac\":\"02:00:00:00:00:01\"}" };
    static const char *const gone[] = { GONE_VM6 };
    struct blob *put = batch_of(rows, 2);
    struct rig r;

    rig_init(&r);
    rig_tamper(&r, TAMPER_STRUCTURES, false, gone, 1);
    rig_write(&r, put);
    assert_sound(&r, "the second row");
    blob_unref(put);
    rig_fini(&r);
}
END_TEST

/* Rows come and go between the calls of a read-back; nothing sound is called unsound.
 */
START_TEST(writes_between_the_calls_make_nothing_unsound)
{
    struct rig r;
    struct device_reading reading;
    struct batch_writer w;
    bool has_more = true;
    uint32_t calls = 0;

    rig_init(&r);
    device_reading_init(&reading, 0, 0);
    while (has_more) {
        struct entry e = { .table = TABLE_VM_NC,
                           .vni = 100 + calls * 7919 % 37 * 1000 };
        struct batch_reader in;
        struct batch_run run;
        struct blob *b;

        ck_assert_uint_lt(++calls, 1000000);
        batch_writer_init(&w);
        has_more = device_read(&r.d, &reading, 5, 1000, &w);
        b = finish(&w);
        in = batch_reader_of(b->data, b->len);
        while (batch_next(&in, &run)) {
            ck_assert_int_eq(run.op, BATCH_PUT);
        }
        blob_unref(b);
        batch_writer_init(&w);
        e.vm_nc.vm = ip_v4(0x0b000000 + calls % 1000);
        e.vm_nc.nc = ip_v4(0xac100001 + calls);
        batch_add_entry(&w, calls % 3 ? ENTRY_PUT : ENTRY_DELETE, &e);
        b = finish(&w);
        rig_write(&r, b);
        blob_unref(b);
    }
    ck_assert_uint_gt(calls, 100);
    device_reading_fini(&reading);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("device_read");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(
        tc, a_corruption_shows_as_the_rows_it_hits_and_writing_these_heals_it, 0,
        ARRAY_LEN(corruptions));
    tcase_add_test(tc, one_vni_read_alone_shows_what_is_wrong_of_it_and_only_that);
    tcase_add_test(tc, a_row_that_is_kept_once_shows_and_goes_with_the_next_delete);
    tcase_add_test(tc, what_was_repaired_leaves_nothing_behind);
    tcase_add_test(tc, a_sound_row_hides_no_other_of_its_batch);
    tcase_add_test(tc, writes_between_the_calls_make_nothing_unsound);
    return unit_run("device_read", tc);
}
