/* Memory that runs out at every possible place, and memory that must not grow.  The
 * linker sends malloc, calloc and realloc through here (--wrap). */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "proto/model/table_set.h"
#include "tests/unit/proto/model/naive.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

/* Sanitizers keep freed memory aside: what is resident says nothing then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

static long allocations_left = -1; /* -1: no limit */

static bool may_allocate(void)
{
    if (allocations_left < 0) {
        return true;
    }
    if (allocations_left == 0) {
        return false;
    }
    allocations_left--;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return may_allocate() ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return may_allocate() ? __real_realloc(p, n) : NULL;
}

#define VNIS 60
static uint32_t vni_of(uint32_t i)
{
    return 1 + i * 262147 % VNI_MAX;
}

/* Puts and deletes over many VNIs in changing order, with one large set among them. */
static struct blob *make_batch(uint64_t *seed, uint32_t rows, unsigned delete_percent,
                               uint32_t big_rows)
{
    struct batch_writer w;
    struct blob *batch;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < rows + big_rows; i++) {
        uint32_t key = i < rows ? random_below(seed, 10) : random_below(seed, 20000);
        struct naive_row n = naive_row_make(TABLE_VM_NC, key, random_next(seed));
        struct row row = naive_as_row(&n);
        bool is_delete = random_below(seed, 100) < delete_percent;

        row.value = is_delete ? NULL : row.value;
        row.value_len = is_delete ? 0 : row.value_len;
        batch_add_row(&w, is_delete ? BATCH_DELETE : BATCH_PUT, TABLE_VM_NC,
                      i < rows ? vni_of(random_below(seed, VNIS)) : 777, &row);
    }
    batch = batch_writer_finish(&w);
    batch_writer_fini(&w);
    ck_assert_ptr_nonnull(batch);
    return batch;
}

struct picture {
    struct rows *rows[VNIS + 1];
    uint64_t sum;
    uint64_t count;
    uint32_t vnis;
};

static struct picture look_at(const struct table_set *s)
{
    struct picture p = { .vnis = table_set_vni_count(s) };
    struct digest all = table_set_digest(s, TABLE_VM_NC, (struct tree_node){ 0 });

    p.sum = all.sum;
    p.count = all.count;
    for (uint32_t i = 0; i < VNIS; i++) {
        p.rows[i] = table_set_rows(s, vni_of(i), TABLE_VM_NC);
    }
    p.rows[VNIS] = table_set_rows(s, 777, TABLE_VM_NC);
    return p;
}

START_TEST(an_apply_that_runs_out_of_memory_changes_nothing)
{
    uint64_t seed = 1 + (uint64_t)_i;
    struct table_set *s = table_set_new();
    struct blob *batch = make_batch(&seed, 40, 0, 6000);
    struct picture before;
    enum rc rc = RC_NO_MEMORY;
    long limit = 0;

    ck_assert_int_eq(table_set_apply(s, batch->data, batch->len, NULL, NULL, NULL),
                     RC_OK);
    blob_unref(batch);
    batch = make_batch(&seed, 80, 50, 400);
    before = look_at(s);
    for (; rc == RC_NO_MEMORY; limit++) {
        struct change_list changes = { 0 };
        struct rows_change total = { .added = 99 };
        struct err err = { 0 };
        struct picture after;

        allocations_left = limit;
        rc = table_set_apply(s, batch->data, batch->len, _i % 2 ? &changes : NULL,
                             &total, &err);
        allocations_left = -1;
        after = look_at(s);
        if (rc == RC_NO_MEMORY) {
            ck_assert_mem_eq(&before, &after, sizeof(before)); /* identical rows */
            ck_assert_uint_eq(changes.count, 0);
            ck_assert_uint_eq(total.added, 99);
            ck_assert_int_eq(err.code, RC_NO_MEMORY);
        }
        change_list_fini(&changes);
    }
    ck_assert_int_eq(rc, RC_OK);
    ck_assert_int_gt(limit, 90); /* it did fail in many places */
    blob_unref(batch);
    table_set_free(s);
}
END_TEST

START_TEST(an_undo_needs_no_memory)
{
    uint64_t seed = 20 + (uint64_t)_i;
    struct table_set *s = table_set_new();
    struct blob *batch = make_batch(&seed, 200, 0, 3000);
    struct change_list changes[3] = { 0 };
    struct picture before[3];

    ck_assert_int_eq(table_set_apply(s, batch->data, batch->len, NULL, NULL, NULL),
                     RC_OK);
    blob_unref(batch);
    for (int k = 0; k < 3; k++) {
        before[k] = look_at(s);
        batch = make_batch(&seed, 150, k == 0 ? 95 : 60, 100);
        ck_assert_int_eq(
            table_set_apply(s, batch->data, batch->len, &changes[k], NULL, NULL),
            RC_OK);
        blob_unref(batch);
    }
    for (int k = 2; k >= 0; k--) {
        struct picture after;

        allocations_left = 0;
        table_set_undo(s, &changes[k]);
        allocations_left = -1;
        after = look_at(s);
        ck_assert_mem_eq(&before[k], &after, sizeof(after));
        change_list_fini(&changes[k]);
    }
    table_set_free(s);
}
END_TEST

START_TEST(a_put_that_runs_out_of_memory_leaves_the_rows_with_the_caller)
{
    struct table_set *s = table_set_new();
    struct naive_row n = naive_row_make(TABLE_VM_NC, 1, 1);
    struct rows_step step = { naive_as_row(&n) };
    struct rows *r = NULL;
    enum rc rc = RC_NO_MEMORY;
    long limit = 0;

    ck_assert_int_eq(rows_edit(NULL, TABLE_VM_NC, 5, &step, 1, &r, NULL), RC_OK);
    for (; rc == RC_NO_MEMORY; limit++) {
        allocations_left = limit;
        rc = table_set_put(s, 5, TABLE_VM_NC, r);
        allocations_left = -1;
        ck_assert_uint_eq(table_set_vni_count(s), rc == RC_OK);
    }
    ck_assert_int_ge(limit, 3); /* it did fail on the way down */
    ck_assert_ptr_eq(table_set_rows(s, 5, TABLE_VM_NC), r);
    table_set_free(s);
}
END_TEST

START_TEST(loading_that_runs_out_of_memory_gives_nothing)
{
    struct buf packed = BUF_INIT;
    struct rows *whole = NULL;
    struct rows *got = NULL;
    enum rc rc = RC_NO_MEMORY;

    for (uint32_t i = 0; i < 12000; i += 4) {
        struct naive_row n = naive_row_make(TABLE_VM_NC, i, 1);

        buf_add(&packed, n.key, n.key_len);
        buf_add(&packed, n.value, n.value_len);
    }
    ck_assert_int_eq(
        rows_load(TABLE_VM_NC, 5, packed.data, (uint32_t)packed.len, NULL, &whole),
        RC_OK);
    for (long limit = 0; rc == RC_NO_MEMORY; limit++) {
        allocations_left = limit;
        rc = rows_load(TABLE_VM_NC, 5, packed.data, (uint32_t)packed.len, NULL, &got);
        allocations_left = -1;
        ck_assert_int_eq(got != NULL, rc == RC_OK);
    }
    ck_assert_uint_eq(rows_digest(got), rows_digest(whole));
    rows_unref(got);
    rows_unref(whole);
    buf_fini(&packed);
}
END_TEST

/* Bytes of this process in memory (proc(5), statm's second number, in pages). */
static size_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%*s %lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void churn_one(struct table_set *s, struct batch_writer *w, uint32_t vni,
                      uint32_t key, enum batch_op op)
{
    struct naive_row n = naive_row_make(TABLE_VM_NC, key, key);
    struct row row = naive_as_row(&n);
    struct blob *batch;

    if (op == BATCH_DELETE) {
        row.value = NULL;
        row.value_len = 0;
    }
    batch_add_row(w, op, TABLE_VM_NC, vni, &row);
    batch = batch_writer_finish(w);
    if (table_set_apply(s, batch->data, batch->len, NULL, NULL, NULL)) {
        ck_abort_msg("a change of one row failed");
    }
    blob_unref(batch);
}

/* A live set of constant size whose members change a million times: each turn deletes
 * the oldest row and adds one elsewhere, a tenth of them in one large VNI. */
START_TEST(a_million_changes_at_constant_size_do_not_grow_memory)
{
    const uint32_t live = 200000;
    const uint32_t pairs = IS_SANITIZED ? 100000 : 1000000;
    struct table_set *s = table_set_new();
    struct batch_writer w;
    uint32_t *vni = calloc(live, sizeof(*vni));
    uint32_t *key = calloc(live, sizeof(*key));
    uint64_t seed = 3;
    size_t start = 0;
    size_t start_counted = 0;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < live + pairs; i++) {
        uint32_t at = i % live;

        if (i == live) {
            start = resident_bytes();
            start_counted = table_set_memory(s);
        }
        if (i >= live) {
            churn_one(s, &w, vni[at], key[at], BATCH_DELETE);
        }
        vni[at] = i % 10 == 0 ? 1000 : 1 + random_below(&seed, VNI_MAX);
        key[at] = i;
        churn_one(s, &w, vni[at], key[at], BATCH_PUT);
    }
    ck_assert_uint_eq(table_set_count(s, TABLE_VM_NC), live);
    ck_assert_uint_le(table_set_memory(s), start_counted / 10 * 12);
    if (!IS_SANITIZED) {
        ck_assert_uint_le(resident_bytes(), start / 10 * 12);
    }
    batch_writer_fini(&w);
    free(vni);
    free(key);
    table_set_free(s);
}
END_TEST

START_TEST(an_emptied_set_gives_its_memory_back)
{
    const uint32_t vnis = 60000;
    struct table_set *s = table_set_new();
    struct batch_writer w;
    uint64_t seed = 12;
    size_t full;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < vnis; i++) {
        churn_one(s, &w, 1 + random_below(&seed, VNI_MAX), 1, BATCH_PUT);
    }
    full = table_set_memory(s);
    seed = 12;
    for (uint32_t i = 0; i < vnis; i++) {
        churn_one(s, &w, 1 + random_below(&seed, VNI_MAX), 1, BATCH_DELETE);
    }
    ck_assert_uint_eq(table_set_vni_count(s), 0);
    ck_assert_uint_le(table_set_memory(s), full / 10);
    batch_writer_fini(&w);
    table_set_free(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("table_set_memory");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, an_apply_that_runs_out_of_memory_changes_nothing, 0, 4);
    tcase_add_loop_test(tc, an_undo_needs_no_memory, 0, 4);
    tcase_add_test(tc, a_put_that_runs_out_of_memory_leaves_the_rows_with_the_caller);
    tcase_add_test(tc, loading_that_runs_out_of_memory_gives_nothing);
    tcase_add_test(tc, a_million_changes_at_constant_size_do_not_grow_memory);
    tcase_add_test(tc, an_emptied_set_gives_its_memory_back);
    return unit_run("table_set_memory", tc);
}
