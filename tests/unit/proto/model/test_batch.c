#include "tests/unit/unit.h"

#include "proto/model/batch.h"
#include "tests/unit/proto/model/random_entry.h"

START_TEST(entries_of_one_table_and_vni_share_a_run_of_the_named_bytes)
{
    static const uint8_t want[] = {
        1, 3,  0, 0, 100, 0, 0,   0,  2, 0, 0, 0, 22, /* put vm_nc 100: 2 rows */
        4, 10, 0, 0, 5,   4, 172, 16, 1, 1, 0,        /* 10.0.0.5 */
        4, 10, 0, 0, 6,   4, 172, 16, 1, 1, 0,        /* 10.0.0.6 */
        2, 3,  0, 0, 100, 0, 0,   0,  1, 0, 0, 0, 5,  /* delete vm_nc 100: 1 row */
        4, 10, 0, 0, 5,                               /* 10.0.0.5 */
        2, 0,  0, 0, 100, 0, 0,   0,  1, 0, 0, 0, 0,  /* delete tenant 100 */
        2, 0,  0, 0, 100, 0, 0,   0,  1, 0, 0, 0, 0,  /* the same again */
        3, 2,  0, 0, 7,   0, 0,   0,  0, 0, 0, 0, 0,
        0, 0,  0, 0, 0, /* replace by nothing */
    };
    struct entry e = { .table = TABLE_VM_NC, .vni = 100 };
    struct entry tenant = { .table = TABLE_TENANT, .vni = 100 };
    struct bucket all = { 0 };
    struct batch_writer w;
    struct blob *b;

    batch_writer_init(&w);
    e.vm_nc.vm = ip_v4(0x0a000005);
    e.vm_nc.nc = ip_v4(0xac100101);
    batch_add_entry(&w, ENTRY_PUT, &e);
    e.vm_nc.vm = ip_v4(0x0a000006);
    batch_add_entry(&w, ENTRY_PUT, &e);
    e.vm_nc.vm = ip_v4(0x0a000005);
    batch_add_entry(&w, ENTRY_DELETE, &e);
    batch_add_entry(&w, ENTRY_DELETE, &tenant);
    batch_add_entry(&w, ENTRY_DELETE, &tenant);
    batch_add_rows(&w, BATCH_REPLACE, TABLE_VXLAN_ROUTE, 7, &all, NULL, 0, 0);
    ck_assert_uint_eq(w.entry_count, 5);
    ck_assert_uint_eq(batch_writer_bytes(&w), sizeof(want));
    b = batch_writer_finish(&w);
    ck_assert_uint_eq(b->len, sizeof(want));
    ck_assert_mem_eq(b->data, want, sizeof(want));
    ck_assert_uint_eq(batch_writer_bytes(&w), 0);
    blob_unref(b);
    batch_writer_fini(&w);
}
END_TEST

enum { RANDOM_COUNT = 3000 };

START_TEST(what_is_written_is_read_back_in_order)
{
    static struct entry entries[RANDOM_COUNT];
    static enum entry_op ops[RANDOM_COUNT];
    uint64_t seed = 7;
    struct batch_writer w;
    struct batch_reader r;
    struct batch_run run;
    struct blob *b;
    struct err err = { 0 };
    uint32_t at = 0;
    uint32_t count = 0;

    batch_writer_init(&w);
    for (int i = 0; i < RANDOM_COUNT; i++) {
        entries[i] = random_entry(&seed);
        if (i > 0 && random_below(&seed, 4)) { /* runs of some length */
            entries[i].vni = entries[i - 1].vni;
            if (entries[i].table == TABLE_VXLAN_ROUTE) {
                entries[i].route.action = (struct route_action){ .scope = SCOPE_LOCAL };
            }
        }
        ops[i] = random_below(&seed, 5) ? ENTRY_PUT : ENTRY_DELETE;
        batch_add_entry(&w, ops[i], &entries[i]);
    }
    b = batch_writer_finish(&w);
    ck_assert_msg(batch_check(b->data, b->len, false, &count, NULL, &err) == RC_OK,
                  "%s", err.msg);
    ck_assert_uint_eq(count, RANDOM_COUNT);

    r = batch_reader_of(b->data, b->len);
    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;
        struct entry e;

        while (run_next(&it, &row)) {
            ck_assert_int_eq(entry_unpack(run.table, run.vni, &row, &e, &err), RC_OK);
            ck_assert_int_eq(run.op == BATCH_DELETE, ops[at] == ENTRY_DELETE);
            if (run.op == BATCH_PUT) {
                ck_assert(entry_same(&e, &entries[at]));
            } else {
                ck_assert_uint_eq(e.vni, entries[at].vni);
                ck_assert_uint_eq(e.table, entries[at].table);
            }
            at++;
        }
        ck_assert(!it.failed);
    }
    ck_assert(!r.failed);
    ck_assert_uint_eq(at, RANDOM_COUNT);
    blob_unref(b);
    batch_writer_fini(&w);
}
END_TEST

/* Packs again, row by row, what passed batch_check(). */
static struct blob *repack(const uint8_t *bytes, size_t len)
{
    struct batch_reader r = batch_reader_of(bytes, len);
    struct batch_run run;
    struct buf out = BUF_INIT;
    struct blob *ret;

    while (batch_next(&r, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct row row;
        struct entry e;

        buf_add(&out, run.rows - (run.op == BATCH_REPLACE ? 18 : 13),
                run.op == BATCH_REPLACE ? 18 : 13);
        while (run_next(&it, &row)) {
            ck_assert_int_eq(entry_unpack(run.table, run.vni, &row, &e, NULL), RC_OK);
            entry_pack_key(&e, &out);
            if (run.op != BATCH_DELETE) {
                entry_pack_value(&e, &out);
            }
        }
    }
    ret = blob_copy(out.data, out.len);
    buf_fini(&out);
    return ret;
}

static struct blob *sample_batch(uint64_t *seed, unsigned count)
{
    struct bucket all = { 0 };
    struct buf rows = BUF_INIT;
    struct batch_writer w;
    struct blob *b;

    batch_writer_init(&w);
    for (unsigned i = 0; i < count; i++) {
        struct entry e = random_entry(seed);

        batch_add_entry(&w, i % 3 ? ENTRY_PUT : ENTRY_DELETE, &e);
        if (i == count / 2) {
            entry_pack_key(&e, &rows);
            entry_pack_value(&e, &rows);
            batch_add_rows(&w, BATCH_REPLACE, e.table, e.vni, &all, rows.data,
                           (uint32_t)rows.len, 1);
        }
    }
    b = batch_writer_finish(&w);
    batch_writer_fini(&w);
    buf_fini(&rows);
    return b;
}

START_TEST(every_cut_and_every_changed_byte_is_refused_or_canonical)
{
    uint64_t seed = (uint64_t)_i + 1;
    struct blob *b = sample_batch(&seed, 6);
    uint8_t *bytes = malloc(b->len);
    uint32_t count;
    uint32_t index;

    for (size_t cut = 0; cut < b->len; cut++) {
        uint8_t *exact = malloc(cut + 1);

        memcpy(exact + 1, b->data, cut);
        if (batch_check(exact + 1, cut, true, &count, &index, NULL) == RC_OK) {
            ck_assert_uint_lt(count, 7); /* cut between two runs */
        }
        free(exact);
    }
    for (size_t at = 0; at < b->len; at++) {
        for (int change = 1; change < 256; change++) {
            struct blob *again;

            memcpy(bytes, b->data, b->len);
            bytes[at] ^= (uint8_t)change;
            if (batch_check(bytes, b->len, true, &count, &index, NULL) != RC_OK) {
                continue;
            }
            again = repack(bytes, b->len);
            ck_assert_uint_eq(again->len, b->len);
            ck_assert_mem_eq(again->data, bytes, b->len);
            blob_unref(again);
        }
    }
    free(bytes);
    blob_unref(b);
}
END_TEST

static const struct {
    const char *why;
    uint8_t bytes[40];
    uint8_t len;
    uint32_t index;
} bad_cases[] = {
    { "op 0", { 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0 }, 15, 0 },
    { "op 4", { 4, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0 }, 15, 0 },
    { "table 6", { 1, 6, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0 }, 15, 0 },
    { "vni 0", { 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0 }, 15, 0 },
    { "empty put", { 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 }, 13, 0 },
    { "more bytes than rows",
      { 1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0 },
      16,
      1 },
    { "more rows than bytes", { 1, 1, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0 }, 15, 0 },
    { "many rows of no bytes",
      { 2, 1, 0, 0, 1, 255, 255, 255, 255, 0, 0, 0, 0 },
      13,
      0 },
    { "a flag unknown", { 1, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 7, 0, 8, 0 }, 17, 1 },
    { "depth 9", { 3, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0 }, 18, 0 },
    { "path below its depth",
      { 3, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x0f, 0, 0, 0 },
      18,
      0 },
    { "a row outside the bucket", /* xxhsum -H3 of nothing starts with 2, not 3 */
      { 3, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0x30, 0, 0, 0, 7, 0 },
      20,
      0 },
    { "the same key twice in a replace",
      { 3, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 1, 0x20, 0, 0, 0, 7, 0, 7, 0 },
      22,
      1 },
};

START_TEST(a_bad_batch_is_refused_with_the_index_of_its_first_bad_entry)
{
    struct err err = { 0 };
    uint32_t count = 77;
    uint32_t index = 77;

    ck_assert_msg(batch_check(bad_cases[_i].bytes, bad_cases[_i].len, true, &count,
                              &index, &err) == RC_INVALID,
                  "%s was taken", bad_cases[_i].why);
    ck_assert_uint_eq(index, bad_cases[_i].index);
    ck_assert_uint_eq(count, 77);
    ck_assert_int_eq(err.code, RC_INVALID);
    ck_assert(err.msg[0] && err.field[0] && err.rule[0]);
}
END_TEST

START_TEST(a_replace_is_taken_only_where_it_is_allowed)
{
    static const uint8_t bytes[] = { 3, 1, 0, 0, 1,    0, 0, 0, 1, 0,
                                     0, 0, 2, 1, 0x20, 0, 0, 0, 7, 0 };
    struct err err = { 0 };
    uint32_t count = 0;
    uint32_t index = 0;

    ck_assert_int_eq(batch_check(bytes, sizeof(bytes), true, &count, &index, &err),
                     RC_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(batch_check(bytes, sizeof(bytes), false, &count, &index, &err),
                     RC_INVALID);
    ck_assert_str_eq(err.field, "op");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("batch");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, entries_of_one_table_and_vni_share_a_run_of_the_named_bytes);
    tcase_add_test(tc, what_is_written_is_read_back_in_order);
    tcase_add_loop_test(tc, every_cut_and_every_changed_byte_is_refused_or_canonical, 0,
                        2);
    tcase_add_loop_test(tc,
                        a_bad_batch_is_refused_with_the_index_of_its_first_bad_entry, 0,
                        ARRAY_LEN(bad_cases));
    tcase_add_test(tc, a_replace_is_taken_only_where_it_is_allowed);
    return unit_run("batch", tc);
}
