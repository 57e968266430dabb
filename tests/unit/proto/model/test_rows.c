#include "tests/unit/unit.h"

#include <pthread.h>

#include "tests/unit/proto/model/naive.h"

#define VNI 4711

static const enum table_id tables[] = { TABLE_VXLAN_ROUTE, TABLE_VM_NC };

/* The set says exactly what the model says, however one asks. */
static void check_same(const struct rows *r, enum table_id table,
                       const struct naive *want)
{
    struct rows_iter it = rows_begin(r, table);
    struct row row;
    size_t bytes = 0;
    size_t page_bytes = 0;
    uint32_t page_rows = 0;

    ck_assert_uint_eq(rows_count(r), want->count);
    ck_assert_uint_eq(rows_digest(r), naive_digest(want, table, VNI));
    ck_assert((r == NULL) == (want->count == 0));
    for (uint32_t i = 0; i < want->count; i++) {
        /* No ck_assert where nothing is wrong: each one is a write to a file. */
        if (!rows_next(&it, &row) || !row_is(&row, &want->at[i])) {
            ck_abort_msg("row %u is not the model's", i);
        }
        bytes += (size_t)row.key_len + row.value_len;
    }
    ck_assert(!rows_next(&it, &row));
    ck_assert_uint_eq(rows_bytes(r), bytes);
    for (uint32_t i = 0; i < rows_page_count(r); i++) {
        struct rows_page page = rows_page_at(r, i);

        ck_assert_uint_gt(page.count, 0);
        ck_assert_uint_le(page.bytes, ROWS_PAGE_BYTES);
        page_bytes += page.bytes;
        page_rows += page.count;
    }
    ck_assert_uint_eq(page_bytes, bytes);
    ck_assert_uint_eq(page_rows, want->count);
    ck_assert_uint_ge(rows_memory(r), bytes);
}

static struct rows *edit(const struct rows *old, enum table_id table,
                         struct rows_step *steps, uint32_t count,
                         struct rows_change *change)
{
    struct rows *made = NULL;

    if (rows_edit(old, table, VNI, steps, count, &made, change)) {
        ck_abort_msg("an edit failed");
    }
    return made;
}

static int compare_rows(const void *a, const void *b)
{
    return naive_compare(a, b);
}

/* A set of keys 0 … count-1, built by one edit. */
static struct rows *make_set(enum table_id table, uint32_t count, struct naive *model)
{
    struct rows_step *steps = calloc(count + 1, sizeof(*steps));
    struct naive local = { 0 };
    struct rows *made;

    local.at = calloc(count + 1, sizeof(*local.at));
    local.count = count;
    local.cap = count + 1;
    for (uint32_t i = 0; i < count; i++) {
        local.at[i] = naive_row_make(table, i, i);
    }
    qsort(local.at, count, sizeof(*local.at), compare_rows);
    for (uint32_t i = 0; i < count; i++) {
        steps[i].row = naive_as_row(&local.at[i]);
    }
    made = edit(NULL, table, steps, count, NULL);
    free(steps);
    if (model) {
        *model = local;
    } else {
        naive_fini(&local);
    }
    return made;
}

START_TEST(the_empty_set_is_null_and_answers_everything)
{
    struct rows_iter it = rows_begin(NULL, TABLE_VM_NC);
    struct digest digests[16];
    struct bucket all = { 0 };
    struct row row;

    ck_assert(!rows_next(&it, &row));
    it = rows_seek(NULL, TABLE_VM_NC, (const uint8_t *)"\4\1\2\3\4", 5);
    ck_assert(!rows_next(&it, &row));
    ck_assert(!rows_find(NULL, TABLE_VM_NC, (const uint8_t *)"\4\1\2\3\4", 5, &row));
    ck_assert_uint_eq(rows_count(NULL), 0);
    ck_assert_uint_eq(rows_digest(NULL), 0);
    ck_assert_uint_eq(rows_page_count(NULL), 0);
    ck_assert_uint_eq(rows_memory(NULL), 0);
    ck_assert_ptr_null(rows_ref(NULL));
    rows_unref(NULL);
    ck_assert_ptr_null(edit(NULL, TABLE_VM_NC, NULL, 0, NULL));
    rows_bucket_digests(NULL, TABLE_VM_NC, VNI, all, digests);
    ck_assert_uint_eq(digests[0].count, 0);
}
END_TEST

START_TEST(an_edit_counts_what_it_did)
{
    struct naive_row a = naive_row_make(TABLE_VM_NC, 1, 1);
    struct naive_row a2 = naive_row_make(TABLE_VM_NC, 1, 77);
    struct naive_row b = naive_row_make(TABLE_VM_NC, 2, 2);
    struct naive_row c = naive_row_make(TABLE_VM_NC, 3, 3);
    struct rows_step steps[4] = { { naive_as_row(&a) }, { naive_as_row(&b) } };
    struct rows_change change;
    struct rows *one = edit(NULL, TABLE_VM_NC, steps, 2, &change);
    struct rows *two;

    ck_assert_uint_eq(change.added, 2);
    ck_assert_uint_eq(change.changed + change.deleted + change.unchanged, 0);
    steps[0].row = naive_as_row(&c); /* new */
    steps[1].row = naive_as_row(&b); /* stands */
    steps[2].row = naive_as_row(&a2);
    two = edit(one, TABLE_VM_NC, steps, 3, &change);
    ck_assert_uint_eq(change.added, 1);
    ck_assert_uint_eq(change.changed, 1);
    ck_assert_uint_eq(change.unchanged, 1);
    ck_assert_uint_eq(change.deleted, 0);
    rows_unref(one);
    steps[0].row = (struct row){ .key = a.key, .key_len = a.key_len };
    steps[1].row = (struct row){ .key = b.key, .key_len = b.key_len };
    steps[2].row = (struct row){ .key = c.key, .key_len = c.key_len };
    one = edit(two, TABLE_VM_NC, steps, 3, &change);
    ck_assert_ptr_null(one);
    ck_assert_uint_eq(change.deleted, 3);
    ck_assert_ptr_null(edit(one, TABLE_VM_NC, steps, 3, &change));
    ck_assert_uint_eq(change.unchanged, 3);
    rows_unref(two);
}
END_TEST

START_TEST(of_two_steps_with_one_key_the_later_wins)
{
    struct naive_row first = naive_row_make(TABLE_VM_NC, 9, 1);
    struct naive_row last = naive_row_make(TABLE_VM_NC, 9, 2);
    struct naive_row low = naive_row_make(TABLE_VM_NC, 4, 2);
    struct row del = { .key = low.key, .key_len = low.key_len };
    struct rows_step steps[] = { { naive_as_row(&first) },
                                 { naive_as_row(&low) },
                                 { naive_as_row(&last) },
                                 { del } };
    struct rows *r = edit(NULL, TABLE_VM_NC, steps, 4, NULL);
    struct row row;

    ck_assert_uint_eq(rows_count(r), 1);
    ck_assert(rows_find(r, TABLE_VM_NC, last.key, last.key_len, &row));
    ck_assert(row_is(&row, &last));
    rows_unref(r);
}
END_TEST

START_TEST(an_edit_that_changes_nothing_gives_the_same_set)
{
    const uint32_t sizes[] = { 1, 5, 17, 3000, 60000 };
    struct naive model;
    struct rows *r = make_set(TABLE_VM_NC, sizes[_i], &model);
    struct naive_row absent = naive_row_make(TABLE_VM_NC, 100000, 1);
    struct rows_step steps[3] = {
        { naive_as_row(&model.at[0]) },
        { naive_as_row(&model.at[model.count - 1]) },
        { { .key = absent.key, .key_len = absent.key_len } },
    };
    struct rows *same = edit(r, TABLE_VM_NC, steps, 3, NULL);

    ck_assert_ptr_eq(same, r);
    rows_unref(same);
    same = edit(r, TABLE_VM_NC, NULL, 0, NULL);
    ck_assert_ptr_eq(same, r);
    rows_unref(same);
    rows_unref(r);
    naive_fini(&model);
}
END_TEST

START_TEST(tables_keyed_by_vni_alone_hold_one_row)
{
    const enum table_id table = _i == 0 ? TABLE_TENANT : TABLE_VNI;
    struct naive_row a = naive_row_make(table, 0, 3);
    struct naive_row b = naive_row_make(table, 0, 12);
    struct rows_step step = { naive_as_row(&a) };
    struct rows *one = edit(NULL, table, &step, 1, NULL);
    struct rows *two;
    struct row row;

    step.row = naive_as_row(&b);
    two = edit(one, table, &step, 1, NULL);
    ck_assert_uint_eq(rows_count(two), 1);
    ck_assert(rows_find(two, table, NULL, 0, &row));
    ck_assert(row_is(&row, &b));
    step.row = (struct row){ .key = (const uint8_t *)"" };
    ck_assert_ptr_null(edit(two, table, &step, 1, NULL));
    rows_unref(one);
    rows_unref(two);
}
END_TEST

/* One random batch on set and model alike; the old set must not notice. */
static struct rows *random_edit(struct rows *old, enum table_id table,
                                struct naive *model, uint32_t keys, uint32_t batch,
                                uint32_t delete_percent, uint64_t *seed)
{
    struct naive_row *rows = calloc(batch, sizeof(*rows));
    struct rows_step *steps = calloc(batch, sizeof(*steps));
    struct naive before = naive_copy(model);
    uint32_t start = random_below(seed, keys);
    bool is_run = random_below(seed, 3) == 0;
    struct rows *made;

    for (uint32_t i = 0; i < batch; i++) {
        uint32_t key = is_run ? (start + i) % keys : random_below(seed, keys);
        bool is_delete = random_below(seed, 100) < delete_percent;

        rows[i] = naive_row_make(table, key, random_below(seed, 4));
        steps[i].row = naive_as_row(&rows[i]);
        if (is_delete) {
            steps[i].row.value = NULL;
            steps[i].row.value_len = 0;
            naive_delete(model, &rows[i]);
        } else {
            naive_put(model, &rows[i]);
        }
    }
    made = edit(old, table, steps, batch, NULL);
    memset(rows, 0xee, batch * sizeof(*rows)); /* the set has copies of its own */
    check_same(made, table, model);
    check_same(old, table, &before);
    rows_unref(old);
    naive_fini(&before);
    free(rows);
    free(steps);
    return made;
}

static void check_seeks(const struct rows *r, enum table_id table,
                        const struct naive *model, uint32_t keys, uint64_t *seed)
{
    for (int i = 0; i < 200; i++) {
        struct naive_row key = naive_row_make(table, random_below(seed, keys + 9), 0);
        uint32_t place = naive_place(model, &key);
        struct rows_iter it = rows_seek(r, table, key.key, key.key_len);
        struct row row;

        ck_assert_int_eq(rows_find(r, table, key.key, key.key_len, &row),
                         naive_has(model, &key));
        for (uint32_t k = place; k < place + 3 && k < model->count; k++) {
            ck_assert(rows_next(&it, &row));
            ck_assert(row_is(&row, &model->at[k]));
        }
        if (place == model->count) {
            ck_assert(!rows_next(&it, &row));
        }
    }
}

START_TEST(a_seek_with_the_head_of_a_key_finds_the_first_that_starts_so)
{
    struct naive model;
    struct rows *r = make_set(TABLE_VM_NC, 9000, &model);
    struct naive_row some = model.at[2345];
    struct row row;

    for (uint8_t len = 0; len < some.key_len; len++) {
        struct rows_iter it = rows_seek(r, TABLE_VM_NC, some.key, len);
        uint32_t first = 0;

        while (memcmp(model.at[first].key, some.key, len) != 0) {
            first++;
        }
        ck_assert(rows_next(&it, &row));
        ck_assert(row_is(&row, &model.at[first]));
        ck_assert(!rows_find(r, TABLE_VM_NC, some.key, len, &row));
    }
    rows_unref(r);
    naive_fini(&model);
}
END_TEST

START_TEST(random_edits_agree_with_a_sorted_array)
{
    const struct {
        uint32_t keys;
        uint32_t batch;
    } shapes[] = { { 6, 4 }, { 60, 20 }, { 900, 40 }, { 3000, 300 }, { 9000, 1500 } };
    const enum table_id table = tables[_i % 2];
    uint64_t seed = (uint64_t)_i + 1;

    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct naive model = { 0 };
        struct rows *r = NULL;

        for (uint32_t round = 0; round < 30; round++) {
            uint32_t batch = 1 + random_below(&seed, shapes[s].batch);
            /* Grows, stays, then shrinks to nothing. */
            uint32_t deletes = round < 10 ? 10 : round < 20 ? 50 : 95;

            r = random_edit(r, table, &model, shapes[s].keys, batch, deletes, &seed);
            check_seeks(r, table, &model, shapes[s].keys, &seed);
        }
        rows_unref(r);
        naive_fini(&model);
    }
}
END_TEST

START_TEST(pages_stay_half_full_under_single_edits)
{
    const uint32_t keys = 20000;
    struct rows *r = make_set(TABLE_VM_NC, keys, NULL);
    uint64_t seed = 5;

    /* Delete nine of ten in random order, looking now and then. */
    for (uint32_t i = 0; i < 8 * keys; i++) {
        uint32_t key = random_below(&seed, keys);
        struct naive_row row = naive_row_make(TABLE_VM_NC, key, 0);
        struct rows_step step = { { .key = row.key, .key_len = row.key_len } };
        struct rows *next;

        if (key % 10 == 0) {
            continue;
        }
        next = edit(r, TABLE_VM_NC, &step, 1, NULL);
        rows_unref(r);
        r = next;
        if (i % 5000 == 0 && rows_page_count(r) > 1) {
            ck_assert_uint_ge(rows_bytes(r) * 2,
                              (size_t)rows_page_count(r) * ROWS_PAGE_BYTES * 9 / 10);
        }
    }
    ck_assert_uint_lt(rows_count(r), keys / 5);
    rows_unref(r);
}
END_TEST

START_TEST(untouched_pages_keep_their_identity)
{
    struct naive model;
    struct rows *r = make_set(TABLE_VXLAN_ROUTE, 100000, &model);
    uint64_t seed = 3;

    ck_assert_uint_gt(rows_page_count(r), 100);
    for (int round = 0; round < 300; round++) {
        struct naive_row row = naive_row_make(
            TABLE_VXLAN_ROUTE, random_below(&seed, 110000), 1000 + (uint64_t)round);
        struct rows_step step = { naive_as_row(&row) };
        struct rows *next;
        uint32_t shared = 0;
        uint32_t b = 0;

        if (round % 3 == 0) {
            step.row.value = NULL;
        }
        next = edit(r, TABLE_VXLAN_ROUTE, &step, 1, NULL);
        for (uint32_t a = 0; a < rows_page_count(r); a++) {
            const void *identity = rows_page_at(r, a).identity;

            for (uint32_t k = b; k < b + 4 && k < rows_page_count(next); k++) {
                if (rows_page_at(next, k).identity == identity) {
                    shared++;
                    b = k + 1;
                    break;
                }
            }
        }
        ck_assert_uint_ge(shared + 2, rows_page_count(r));
        rows_unref(r);
        r = next;
    }
    rows_unref(r);
    naive_fini(&model);
}
END_TEST

START_TEST(a_set_loads_from_its_own_pages_and_refuses_disorder)
{
    const uint32_t sizes[] = { 1, 16, 17, 3000, 30000 };
    struct naive model;
    struct rows *r = make_set(TABLE_VM_NC, sizes[_i], &model);
    struct rows *copy = NULL;
    struct rows *untouched;
    struct buf all = BUF_INIT;
    struct bucket whole = { 0 };
    struct rows *at_once = NULL;

    for (uint32_t i = 0; i < rows_page_count(r); i++) {
        struct rows_page page = rows_page_at(r, i);
        struct rows *longer = NULL;

        ck_assert_int_eq(
            rows_load(TABLE_VM_NC, VNI, page.data, page.bytes, copy, &longer), RC_OK);
        untouched = longer;
        ck_assert_int_eq(
            rows_load(TABLE_VM_NC, VNI, page.data, page.bytes, longer, &untouched),
            RC_INVALID); /* not behind what is there */
        ck_assert_ptr_eq(untouched, longer);
        rows_unref(copy);
        copy = longer;
    }
    check_same(copy, TABLE_VM_NC, &model);
    ck_assert_uint_eq(rows_bucket_pack(r, TABLE_VM_NC, whole, &all), sizes[_i]);
    ck_assert_int_eq(
        rows_load(TABLE_VM_NC, VNI, all.data, (uint32_t)all.len, NULL, &at_once),
        RC_OK);
    check_same(at_once, TABLE_VM_NC, &model);
    untouched = r;
    ck_assert_int_eq(
        rows_load(TABLE_VM_NC, VNI, all.data, (uint32_t)all.len - 1, NULL, &untouched),
        RC_INVALID); /* cut */
    ck_assert_ptr_eq(untouched, r);
    rows_unref(at_once);
    rows_unref(copy);
    rows_unref(r);
    buf_fini(&all);
    naive_fini(&model);
}
END_TEST

/* Carries a diff's steps out on `have`, and sees that puts come before deletes. */
static struct rows *apply_diff(struct rows *have, enum table_id table,
                               struct batch_writer *w)
{
    struct blob *batch = batch_writer_finish(w);
    struct batch_reader reader = batch_reader_of(batch->data, batch->len);
    struct batch_run run;
    struct rows *r = rows_ref(have);
    bool seen_delete = false;

    while (batch_next(&reader, &run)) {
        struct run_reader it = run_reader_of(&run);
        struct rows_step step;

        seen_delete = seen_delete || run.op == BATCH_DELETE;
        ck_assert(!(seen_delete && run.op == BATCH_PUT));
        ck_assert_uint_eq(run.vni, VNI);
        while (run_next(&it, &step.row)) {
            struct rows *next = edit(r, table, &step, 1, NULL);

            ck_assert_ptr_ne(next, r); /* every step is needed */
            rows_unref(r);
            r = next;
        }
    }
    ck_assert(!reader.failed);
    blob_unref(batch);
    return r;
}

START_TEST(a_diff_applied_to_have_gives_want)
{
    const uint32_t keys[] = { 12, 300, 20000 };
    const enum table_id table = tables[_i % 2];
    uint64_t seed = 100 + (uint64_t)_i;
    struct naive model = { 0 };
    struct rows *have = NULL;

    for (int round = 0; round < 8; round++) {
        struct naive before = naive_copy(&model);
        struct rows *keep = rows_ref(have);
        struct batch_writer w;
        struct rows *got;
        struct bucket all = { 0 };
        struct rows *want =
            random_edit(have, table, &model, keys[_i / 2], 1 + keys[_i / 2] / 8,
                        20 + 10 * (uint32_t)round, &seed);

        batch_writer_init(&w);
        rows_diff(keep, want, table, VNI, all, &w);
        got = apply_diff(keep, table, &w);
        check_same(got, table, &model);
        rows_unref(got);
        ck_assert_uint_eq(rows_diff(want, want, table, VNI, all, &w), 0);
        rows_diff(want, keep, table, VNI, all, &w); /* and back */
        got = apply_diff(want, table, &w);
        check_same(got, table, &before);
        rows_unref(got);
        batch_writer_fini(&w);
        rows_unref(keep);
        naive_fini(&before);
        have = want;
    }
    rows_unref(have);
    naive_fini(&model);
}
END_TEST

START_TEST(bucket_digests_and_packs_split_the_set_by_key_hash)
{
    const enum table_id table = tables[_i % 2];
    struct naive model;
    struct rows *r = make_set(table, 3000, &model);

    for (uint8_t depth = 0; depth <= 8; depth++) {
        struct row some = naive_as_row(&model.at[1234]);
        uint32_t hash = (uint32_t)(row_key_hash(&some) >> 32);
        uint32_t mask = depth ? UINT32_MAX << (32 - 4 * depth) : 0;
        struct bucket bucket = { depth, hash & mask };
        struct digest want[16] = { 0 };
        struct digest got[16];
        struct buf packed = BUF_INIT;
        struct buf want_packed = BUF_INIT;
        uint32_t count = 0;

        for (uint32_t i = 0; i < model.count; i++) {
            struct row row = naive_as_row(&model.at[i]);
            uint64_t h = row_key_hash(&row);

            if (((h >> 32) & mask) == bucket.path) {
                want[h >> (60 - 4 * depth) & 15].sum += row_digest(table, VNI, &row);
                want[h >> (60 - 4 * depth) & 15].count++;
                buf_add(&want_packed, row.key, row.key_len);
                buf_add(&want_packed, row.value, row.value_len);
                count++;
            }
        }
        rows_bucket_digests(r, table, VNI, bucket, got);
        for (int i = 0; i < 16; i++) {
            ck_assert_uint_eq(got[i].sum, want[i].sum);
            ck_assert_uint_eq(got[i].count, want[i].count);
        }
        ck_assert_uint_eq(rows_bucket_pack(r, table, bucket, &packed), count);
        ck_assert_uint_gt(count, 0);
        ck_assert_uint_eq(packed.len, want_packed.len);
        ck_assert_mem_eq(packed.data, want_packed.data, packed.len);
        buf_fini(&packed);
        buf_fini(&want_packed);
    }
    rows_unref(r);
    naive_fini(&model);
}
END_TEST

START_TEST(a_diff_within_a_bucket_touches_only_its_keys)
{
    struct rows *a = make_set(TABLE_VM_NC, 2000, NULL);
    struct rows_step *steps = calloc(2000, sizeof(*steps));
    struct naive_row *rows = calloc(2000, sizeof(*rows));
    uint32_t total = 0;
    struct rows *b;

    for (uint32_t i = 0; i < 2000; i++) { /* half changed, half gone */
        rows[i] = naive_row_make(TABLE_VM_NC, i, i + 5000);
        steps[i].row = naive_as_row(&rows[i]);
        if (i % 2) {
            steps[i].row.value = NULL;
        }
    }
    b = edit(a, TABLE_VM_NC, steps, 2000, NULL);
    for (uint32_t nibble = 0; nibble < 16; nibble++) {
        struct bucket bucket = { 1, nibble << 28 };
        struct batch_writer w;
        struct blob *batch;
        struct batch_reader reader;
        struct batch_run run;

        batch_writer_init(&w);
        total += rows_diff(a, b, TABLE_VM_NC, VNI, bucket, &w);
        batch = batch_writer_finish(&w);
        reader = batch_reader_of(batch->data, batch->len);
        while (batch_next(&reader, &run)) {
            struct run_reader it = run_reader_of(&run);
            struct row got;

            while (run_next(&it, &got)) {
                ck_assert_uint_eq(row_key_hash(&got) >> 60, nibble);
            }
        }
        blob_unref(batch);
        batch_writer_fini(&w);
    }
    ck_assert_uint_eq(total, 2000); /* every key differs, each in one bucket */
    rows_unref(a);
    rows_unref(b);
    free(steps);
    free(rows);
}
END_TEST

/* Readers hold, read and drop sets while one writer goes on editing. */
#define READERS 3
struct share {
    pthread_mutex_t lock;
    struct rows *current;
    bool done;
};

static void *read_sets(void *arg)
{
    struct share *share = arg;
    uint64_t wrong = 0;
    bool done = false;

    while (!done) {
        struct rows *r;
        struct rows_iter it;
        struct row row;
        uint64_t sum = 0;

        pthread_mutex_lock(&share->lock);
        r = rows_ref(share->current);
        done = share->done;
        pthread_mutex_unlock(&share->lock);
        it = rows_begin(r, TABLE_VM_NC);
        while (rows_next(&it, &row)) {
            sum += row_digest(TABLE_VM_NC, VNI, &row);
        }
        wrong += sum != rows_digest(r);
        rows_unref(r);
    }
    return wrong ? share : NULL;
}

START_TEST(any_thread_may_hold_and_drop_a_set)
{
    struct share share = { .lock = PTHREAD_MUTEX_INITIALIZER };
    pthread_t readers[READERS];
    uint64_t seed = 8;

    share.current = make_set(TABLE_VM_NC, 4000, NULL);
    for (int i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_sets, &share), 0);
    }
    for (int i = 0; i < 1000; i++) {
        struct naive_row row =
            naive_row_make(TABLE_VM_NC, random_below(&seed, 5000), 9000u + (unsigned)i);
        struct rows_step step = { naive_as_row(&row) };
        struct rows *old = share.current;
        struct rows *next = edit(old, TABLE_VM_NC, &step, 1, NULL);

        pthread_mutex_lock(&share.lock);
        share.current = next;
        share.done = i == 999;
        pthread_mutex_unlock(&share.lock);
        rows_unref(old);
    }
    for (int i = 0; i < READERS; i++) {
        void *wrong;

        ck_assert_int_eq(pthread_join(readers[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    rows_unref(share.current);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rows");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, the_empty_set_is_null_and_answers_everything);
    tcase_add_test(tc, an_edit_counts_what_it_did);
    tcase_add_test(tc, of_two_steps_with_one_key_the_later_wins);
    tcase_add_loop_test(tc, an_edit_that_changes_nothing_gives_the_same_set, 0, 5);
    tcase_add_loop_test(tc, tables_keyed_by_vni_alone_hold_one_row, 0, 2);
    tcase_add_test(tc, a_seek_with_the_head_of_a_key_finds_the_first_that_starts_so);
    tcase_add_loop_test(tc, random_edits_agree_with_a_sorted_array, 0, 6);
    tcase_add_test(tc, pages_stay_half_full_under_single_edits);
    tcase_add_test(tc, untouched_pages_keep_their_identity);
    tcase_add_loop_test(tc, a_set_loads_from_its_own_pages_and_refuses_disorder, 0, 5);
    tcase_add_loop_test(tc, a_diff_applied_to_have_gives_want, 0, 6);
    tcase_add_loop_test(tc, bucket_digests_and_packs_split_the_set_by_key_hash, 0, 2);
    tcase_add_test(tc, a_diff_within_a_bucket_touches_only_its_keys);
    tcase_add_test(tc, any_thread_may_hold_and_drop_a_set);
    return unit_run("rows", tc);
}
