#include "tests/unit/unit.h"

#include "proto/model/table_set.h"
#include "tests/unit/proto/model/naive.h"

/* The model: for each VNI that was ever used, a naive set a table. */
#define VNIS 400
struct naive_set {
    uint32_t vni[VNIS];
    struct naive at[VNIS][TABLE_COUNT];
};

/* Numbers that share nodes at every depth, and the ends of the space. */
static void choose_vnis(struct naive_set *n, uint64_t *seed)
{
    uint32_t count = 0;

    memset(n, 0, sizeof(*n));
    n->vni[count++] = VNI_MIN;
    n->vni[count++] = VNI_MAX;
    while (count < VNIS) {
        uint32_t near = n->vni[random_below(seed, count)];
        uint32_t step = 1u << 6 * random_below(seed, 4);
        uint32_t vni = (near + step * random_below(seed, 64)) & VNI_MAX;
        bool known = vni == 0;

        for (uint32_t i = 0; i < count && !known; i++) {
            known = n->vni[i] == vni;
        }
        if (!known) {
            n->vni[count++] = vni;
        }
    }
}

static void naive_set_fini(struct naive_set *n)
{
    for (int i = 0; i < VNIS; i++) {
        for (int t = 0; t < TABLE_COUNT; t++) {
            naive_fini(&n->at[i][t]);
        }
    }
}

static struct digest naive_below(const struct naive_set *n, enum table_id table,
                                 struct tree_node node)
{
    const uint32_t mask = VNI_MAX << (24 - 6 * node.depth) & VNI_MAX;
    struct digest all = { 0 };

    for (int i = 0; i < VNIS; i++) {
        if ((n->vni[i] & mask) == node.vni) {
            all.sum += naive_digest(&n->at[i][table], table, n->vni[i]);
            all.count += n->at[i][table].count;
        }
    }
    return all;
}

/* The digest tree below `node`, followed down to the VNIs. */
static void check_tree(const struct table_set *s, const struct naive_set *n,
                       enum table_id table, struct tree_node node)
{
    struct digest want = naive_below(n, table, node);
    struct digest got = table_set_digest(s, table, node);
    struct tree_child child[64];
    struct digest sum = { 0 };
    unsigned count;

    ck_assert_uint_eq(got.sum, want.sum);
    ck_assert_uint_eq(got.count, want.count);
    if (node.depth == 4) {
        return;
    }
    count = table_set_children(s, table, node, child);
    for (unsigned i = 0; i < count; i++) {
        struct tree_node below = { (uint8_t)(node.depth + 1),
                                   node.vni | (uint32_t)child[i].index
                                                  << (18 - 6 * node.depth) };

        ck_assert(i == 0 || child[i].index > child[i - 1].index);
        ck_assert_uint_gt(child[i].digest.count, 0);
        want = table_set_digest(s, table, below);
        ck_assert_uint_eq(child[i].digest.sum, want.sum);
        ck_assert_uint_eq(child[i].digest.count, want.count);
        sum.sum += want.sum;
        sum.count += want.count;
        check_tree(s, n, table, below);
    }
    ck_assert_uint_eq(sum.sum, got.sum);
    ck_assert_uint_eq(sum.count, got.count);
}

static uint32_t naive_next(const struct naive_set *n, uint32_t from, uint32_t mask)
{
    uint32_t best = 0;

    for (int i = 0; i < VNIS; i++) {
        bool holds = false;

        for (unsigned t = 0; t < TABLE_COUNT; t++) {
            holds = holds || (mask >> t & 1 && n->at[i][t].count > 0);
        }
        if (holds && n->vni[i] >= from && (best == 0 || n->vni[i] < best)) {
            best = n->vni[i];
        }
    }
    return best;
}

static void check_set(const struct table_set *s, const struct naive_set *n,
                      uint64_t *seed)
{
    uint32_t vnis = 0;
    uint32_t walked = 0;

    for (int i = 0; i < VNIS; i++) {
        bool any = false;

        for (unsigned t = 0; t < TABLE_COUNT; t++) {
            const struct naive *want = &n->at[i][t];
            struct rows *r = table_set_rows(s, n->vni[i], t);
            struct rows_iter it = rows_begin(r, t);
            struct row row;

            bool same = rows_count(r) == want->count;

            for (uint32_t k = 0; same && rows_next(&it, &row); k++) {
                same = row_is(&row, &want->at[k]);
            }
            if (!same) { /* each ck_assert is a write to a file */
                ck_abort_msg("vni %u table %u: not the model's rows", n->vni[i], t);
            }
            any = any || want->count > 0;
        }
        vnis += any;
    }
    ck_assert_uint_eq(table_set_vni_count(s), vnis);
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        struct tree_node root = { 0 };

        check_tree(s, n, t, root);
        ck_assert_uint_eq(table_set_count(s, t), naive_below(n, t, root).count);
    }
    for (uint32_t mask = 1; mask < 1u << TABLE_COUNT; mask++) {
        uint32_t from = random_below(seed, VNI_MAX);

        ck_assert_uint_eq(table_set_next(s, from, mask), naive_next(n, from, mask));
    }
    for (uint32_t vni = 0; (vni = table_set_next(s, vni + 1, UINT32_MAX)) != 0;) {
        ck_assert_uint_eq(vni, naive_next(n, vni, UINT32_MAX));
        walked++;
    }
    ck_assert_uint_eq(walked, vnis);
}

static bool has_key(enum table_id table)
{
    return table == TABLE_VXLAN_ROUTE || table == TABLE_VM_NC;
}

/* Random runs, applied to the model as they are written. */
static struct blob *random_batch(struct naive_set *n, uint64_t *seed,
                                 unsigned delete_percent)
{
    struct batch_writer w;
    uint32_t steps = 1 + random_below(seed, 400);
    struct blob *batch;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t which = random_below(seed, VNIS);
        enum table_id table = random_below(seed, TABLE_COUNT);
        uint32_t rows = has_key(table) ? 1 + random_below(seed, 6) : 1;

        for (uint32_t k = 0; k < rows; k++) {
            struct naive_row r =
                naive_row_make(table, has_key(table) ? random_below(seed, 20) : 0,
                               random_below(seed, 3));
            struct row row = naive_as_row(&r);
            bool is_delete = random_below(seed, 100) < delete_percent;

            if (is_delete) {
                row.value = NULL;
                row.value_len = 0;
                naive_delete(&n->at[which][table], &r);
            } else {
                naive_put(&n->at[which][table], &r);
            }
            batch_add_row(&w, is_delete ? BATCH_DELETE : BATCH_PUT, table,
                          n->vni[which], &row);
        }
    }
    batch = batch_writer_finish(&w);
    batch_writer_fini(&w);
    ck_assert_ptr_nonnull(batch);
    return batch;
}

/* Every change names the set's rows before and after, once a (VNI, table). */
static void check_changes(const struct table_set *s, const struct change_list *l,
                          const struct rows_change *total)
{
    struct rows_change sum = { 0 };

    for (uint32_t i = 0; i < l->count; i++) {
        const struct table_change *c = &l->at[i];

        ck_assert_ptr_ne(c->before, c->after);
        ck_assert_ptr_eq(c->after, table_set_rows(s, c->vni, c->table));
        ck_assert_int_eq((int)rows_count(c->after) - (int)rows_count(c->before),
                         (int)c->counts.added - (int)c->counts.deleted);
        for (uint32_t k = 0; k < i; k++) {
            if (l->at[k].vni == c->vni && l->at[k].table == c->table) {
                ck_abort_msg("vni %u table %u: two changes", c->vni, c->table);
            }
        }
        sum.added += c->counts.added;
        sum.changed += c->counts.changed;
        sum.deleted += c->counts.deleted;
    }
    ck_assert_uint_eq(sum.added, total->added);
    ck_assert_uint_eq(sum.changed, total->changed);
    ck_assert_uint_eq(sum.deleted, total->deleted);
}

START_TEST(random_batches_agree_with_plain_arrays)
{
    static struct naive_set model;
    uint64_t seed = 40 + (uint64_t)_i;
    struct table_set *s = table_set_new();
    size_t empty = table_set_memory(s);

    choose_vnis(&model, &seed);
    for (int round = 0; round < 24; round++) {
        unsigned deletes = round < 10 ? 10 : round < 14 ? 50 : 96;
        struct blob *batch = random_batch(&model, &seed, deletes);
        struct change_list changes = { 0 };
        struct rows_change total;

        ck_assert_int_eq(
            table_set_apply(s, batch->data, batch->len, &changes, &total, NULL), RC_OK);
        check_changes(s, &changes, &total);
        change_list_fini(&changes);
        blob_unref(batch);
        if (round % 3 == 0 || round > 20) {
            check_set(s, &model, &seed);
        }
    }
    for (int i = 0; i < VNIS; i++) { /* empty it */
        for (unsigned t = 0; t < TABLE_COUNT; t++) {
            naive_fini(&model.at[i][t]);
            ck_assert_int_eq(table_set_put(s, model.vni[i], t, NULL), RC_OK);
        }
    }
    check_set(s, &model, &seed);
    ck_assert_uint_lt(table_set_memory(s), empty + 200000); /* bones only */
    table_set_free(s);
    naive_set_fini(&model);
}
END_TEST

START_TEST(undo_restores_the_very_same_rows)
{
    static struct naive_set model;
    static struct rows *before[3][VNIS][TABLE_COUNT];
    struct change_list changes[3] = { 0 };
    uint64_t seed = 90 + (uint64_t)_i;
    struct table_set *s = table_set_new();
    struct blob *batch;

    choose_vnis(&model, &seed);
    for (int i = 0; i < 3; i++) {
        batch = random_batch(&model, &seed, 30);
        ck_assert_int_eq(table_set_apply(s, batch->data, batch->len, NULL, NULL, NULL),
                         RC_OK);
        blob_unref(batch);
    }
    for (int k = 0; k < 3; k++) { /* three in flight */
        for (int i = 0; i < VNIS; i++) {
            for (unsigned t = 0; t < TABLE_COUNT; t++) {
                before[k][i][t] = rows_ref(table_set_rows(s, model.vni[i], t));
            }
        }
        batch = random_batch(&model, &seed, k == 1 ? 95 : 40);
        ck_assert_int_eq(
            table_set_apply(s, batch->data, batch->len, &changes[k], NULL, NULL),
            RC_OK);
        blob_unref(batch);
    }
    for (int k = 2; k >= 0; k--) {
        table_set_undo(s, &changes[k]);
        change_list_fini(&changes[k]);
        for (int i = 0; i < VNIS; i++) {
            for (unsigned t = 0; t < TABLE_COUNT; t++) {
                ck_assert_ptr_eq(table_set_rows(s, model.vni[i], t), before[k][i][t]);
                rows_unref(before[k][i][t]);
            }
        }
    }
    table_set_free(s);
    naive_set_fini(&model);
}
END_TEST

START_TEST(replace_leaves_exactly_its_rows_in_the_bucket)
{
    struct table_set *s = table_set_new();
    struct naive model = { 0 };
    struct naive_row extra[64];
    struct batch_writer w;
    struct blob *batch;
    struct buf packed = BUF_INIT;
    struct change_list changes = { 0 };
    struct bucket bucket = { (uint8_t)_i, 0 };
    uint32_t mask = _i ? UINT32_MAX << (32 - 4 * _i) : 0;
    uint32_t count = 0;
    struct rows *r;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < 2000; i++) {
        struct naive_row n = naive_row_make(TABLE_VM_NC, i, i);
        struct row row = naive_as_row(&n);

        batch_add_row(&w, BATCH_PUT, TABLE_VM_NC, 77, &row);
        naive_put(&model, &n);
        if (i == 1500) {
            bucket.path = (uint32_t)(row_key_hash(&row) >> 32) & mask;
        }
    }
    batch = batch_writer_finish(&w);
    ck_assert_int_eq(table_set_apply(s, batch->data, batch->len, NULL, NULL, NULL),
                     RC_OK);
    blob_unref(batch);

    /* A put in the bucket before the replace does not survive it; of the bucket every
     * third row stays, with a new value, and key 5000 and up comes in. */
    for (uint32_t i = 0; i < 64; i++) {
        extra[i] = naive_row_make(TABLE_VM_NC, 9000 + i, i);
        struct row row = naive_as_row(&extra[i]);

        batch_add_row(&w, BATCH_PUT, TABLE_VM_NC, 77, &row);
        if (((uint32_t)(row_key_hash(&row) >> 32) & mask) != bucket.path) {
            naive_put(&model, &extra[i]);
        }
    }
    struct naive keep = { 0 };
    for (uint32_t i = 0; i < 6000; i = i == 2000 ? 5000 : i + 1) {
        struct naive_row n = naive_row_make(TABLE_VM_NC, i, i + 1);
        struct row row = naive_as_row(&n);

        if (((uint32_t)(row_key_hash(&row) >> 32) & mask) != bucket.path) {
            continue;
        }
        naive_delete(&model, &n);
        if (i % 3 == 0) {
            naive_put(&keep, &n);
            naive_put(&model, &n);
        }
    }
    for (uint32_t i = 0; i < keep.count; i++) {
        buf_add(&packed, keep.at[i].key, keep.at[i].key_len);
        buf_add(&packed, keep.at[i].value, keep.at[i].value_len);
        count++;
    }
    batch_add_rows(&w, BATCH_REPLACE, TABLE_VM_NC, 77, &bucket, packed.data,
                   (uint32_t)packed.len, count);
    batch = batch_writer_finish(&w);
    ck_assert_int_eq(table_set_apply(s, batch->data, batch->len, &changes, NULL, NULL),
                     RC_OK);
    blob_unref(batch);
    ck_assert_uint_eq(changes.count, 1);
    r = table_set_rows(s, 77, TABLE_VM_NC);
    ck_assert_uint_eq(rows_count(r), model.count);
    ck_assert_uint_eq(rows_digest(r), naive_digest(&model, TABLE_VM_NC, 77));
    change_list_fini(&changes);
    batch_writer_fini(&w);
    buf_fini(&packed);
    naive_fini(&keep);
    naive_fini(&model);
    table_set_free(s);
}
END_TEST

START_TEST(a_damaged_batch_is_refused_and_changes_nothing)
{
    struct table_set *s = table_set_new();
    struct naive_row n = naive_row_make(TABLE_VM_NC, 1, 1);
    struct row row = naive_as_row(&n);
    struct batch_writer w;
    struct blob *batch;
    struct err err = { 0 };

    batch_writer_init(&w);
    batch_add_row(&w, BATCH_PUT, TABLE_VM_NC, 5, &row);
    batch_add_row(&w, BATCH_PUT, TABLE_VM_NC, 9, &row);
    batch = batch_writer_finish(&w);
    ck_assert_int_eq(table_set_apply(s, batch->data, batch->len - 1, NULL, NULL, &err),
                     RC_INVALID);
    ck_assert_str_ne(err.msg, "");
    ck_assert_uint_eq(table_set_vni_count(s), 0);
    batch->data[batch->len - row.key_len - row.value_len] = 9; /* the last row's tag */
    ck_assert_int_eq(table_set_apply(s, batch->data, batch->len, NULL, NULL, &err),
                     RC_INVALID);
    ck_assert_uint_eq(table_set_vni_count(s), 0);
    ck_assert_ptr_null(table_set_rows(s, 5, TABLE_VM_NC));
    blob_unref(batch);
    batch_writer_fini(&w);
    table_set_free(s);
}
END_TEST

START_TEST(an_empty_set_answers_everything)
{
    struct table_set *s = table_set_new();
    struct tree_child child[64];

    for (uint8_t depth = 0; depth <= 4; depth++) {
        struct tree_node node = { depth, 0 };

        ck_assert_uint_eq(table_set_digest(s, TABLE_VM_NC, node).count, 0);
        if (depth < 4) {
            ck_assert_uint_eq(table_set_children(s, TABLE_VM_NC, node, child), 0);
        }
    }
    ck_assert_uint_eq(table_set_next(s, 0, UINT32_MAX), 0);
    ck_assert_uint_eq(table_set_next(s, VNI_MAX, UINT32_MAX), 0);
    ck_assert_uint_eq(table_set_next(s, VNI_MAX + 1, UINT32_MAX), 0);
    ck_assert_ptr_null(table_set_rows(s, 1, TABLE_VNI));
    ck_assert_int_eq(table_set_put(s, 1, TABLE_VNI, NULL), RC_OK);
    ck_assert_int_eq(table_set_apply(s, NULL, 0, NULL, NULL, NULL), RC_OK);
    table_set_free(s);
    table_set_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("table_set");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, an_empty_set_answers_everything);
    tcase_add_loop_test(tc, random_batches_agree_with_plain_arrays, 0, 4);
    tcase_add_loop_test(tc, undo_restores_the_very_same_rows, 0, 4);
    tcase_add_loop_test(tc, replace_leaves_exactly_its_rows_in_the_bucket, 0, 4);
    tcase_add_test(tc, a_damaged_batch_is_refused_and_changes_nothing);
    return unit_run("table_set", tc);
}
