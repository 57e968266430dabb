#include "proto/model/rows_impl.h"

/* The bits of a key's hash that a bucket fixes. */
static uint32_t bucket_mask(struct bucket bucket)
{
    return bucket.depth ? UINT32_MAX << (32 - 4 * bucket.depth) : 0;
}

static bool in_bucket(const struct row *row, struct bucket bucket)
{
    return bucket.depth == 0 ||
           ((uint32_t)(row_key_hash(row) >> 32) & bucket_mask(bucket)) == bucket.path;
}

static const void *page_identity(const struct rows_iter *it)
{
    return rows_page_at(it->rows, it->page).identity;
}

/* Steps over whole pages as long as both sides stand at the start of the same one. */
static void skip_shared(struct rows_iter *a, struct rows_iter *b)
{
    const uint32_t a_pages = rows_page_count(a->rows);
    const uint32_t b_pages = rows_page_count(b->rows);

    for (;;) {
        if (a->p == a->end && a->page + 1 < a_pages) {
            struct rows_page page = rows_page_at(a->rows, ++a->page);

            a->p = page.data;
            a->end = page.data + page.bytes;
        }
        if (b->p == b->end && b->page + 1 < b_pages) {
            struct rows_page page = rows_page_at(b->rows, ++b->page);

            b->p = page.data;
            b->end = page.data + page.bytes;
        }
        if (a->p == a->end || a->p != b->p || page_identity(a) != page_identity(b)) {
            return;
        }
        a->p = a->end;
        b->p = b->end;
    }
}

/* Two sets side by side: each turn yields one key, with the row of each side that has
 * it (null key where it does not). */
struct pair_iter {
    struct rows_iter have;
    struct rows_iter want;
    struct row h;
    struct row w;
    bool has_h; /* a row was read and not used yet */
    bool has_w;
};

static bool pair_next(struct pair_iter *it, const struct row **ret_have,
                      const struct row **ret_want, struct row used[2])
{
    int order;

    if (!it->has_h && !it->has_w) {
        skip_shared(&it->have, &it->want);
    }
    if (!it->has_h) {
        it->has_h = rows_next(&it->have, &it->h);
    }
    if (!it->has_w) {
        it->has_w = rows_next(&it->want, &it->w);
    }
    if (!it->has_h && !it->has_w) {
        return false;
    }
    order = !it->has_h ? 1 : !it->has_w ? -1 : row_compare(&it->h, &it->w);
    *ret_have = NULL;
    *ret_want = NULL;
    if (order <= 0) {
        used[0] = it->h;
        *ret_have = &used[0];
        it->has_h = false;
    }
    if (order >= 0) {
        used[1] = it->w;
        *ret_want = &used[1];
        it->has_w = false;
    }
    return true;
}

static bool same_row(const struct row *a, const struct row *b)
{
    return a->value_len == b->value_len && !memcmp(a->value, b->value, a->value_len);
}

static uint32_t diff_pass(const struct rows *have, const struct rows *want,
                          enum table_id table, uint32_t vni, struct bucket bucket,
                          enum batch_op op, struct batch_writer *to)
{
    struct pair_iter it = { .have = rows_begin(have, table),
                            .want = rows_begin(want, table) };
    const struct row *h;
    const struct row *w;
    struct row used[2];
    uint32_t steps = 0;

    while (pair_next(&it, &h, &w, used)) {
        bool is_step = op == BATCH_PUT ? w && !(h && same_row(h, w)) : h && !w;

        if (is_step && in_bucket(w ? w : h, bucket)) {
            batch_add_row(to, op, table, vni, w ? w : h);
            steps++;
        }
    }
    return steps;
}

uint32_t rows_diff(const struct rows *have, const struct rows *want,
                   enum table_id table, uint32_t vni, struct bucket bucket,
                   struct batch_writer *to)
{
    uint32_t steps;

    if (have == want) {
        return 0;
    }
    steps = diff_pass(have, want, table, vni, bucket, BATCH_PUT, to);
    return steps + diff_pass(have, want, table, vni, bucket, BATCH_DELETE, to);
}

bool rows_bucket_digests_on(struct rows_iter *it, uint32_t vni, struct bucket bucket,
                            uint32_t *rows, struct digest io[16])
{
    const uint32_t mask = bucket_mask(bucket);
    struct row row;

    for (; *rows > 0; --*rows) {
        uint64_t hash;
        struct digest *child;

        if (!it->rows || !rows_next(it, &row)) {
            return true;
        }
        hash = row_key_hash(&row);
        child = &io[hash >> (60 - 4 * bucket.depth) & 15];
        if (((uint32_t)(hash >> 32) & mask) == bucket.path) {
            child->sum += row_digest((enum table_id)it->table, vni, &row);
            child->count++;
        }
    }
    return false;
}

void rows_bucket_digests(const struct rows *r, enum table_id table, uint32_t vni,
                         struct bucket bucket, struct digest ret[16])
{
    struct rows_iter it = rows_begin(r, table);
    uint32_t rows;

    memset(ret, 0, 16 * sizeof(ret[0]));
    do {
        rows = UINT32_MAX;
    } while (!rows_bucket_digests_on(&it, vni, bucket, &rows, ret));
}

uint32_t rows_bucket_pack(const struct rows *r, enum table_id table,
                          struct bucket bucket, struct buf *to)
{
    struct rows_iter it = rows_begin(r, table);
    struct row row;
    uint32_t count = 0;

    while (rows_next(&it, &row)) {
        if (in_bucket(&row, bucket)) {
            /* A row that is read from a page has its key and value adjoining. */
            buf_add(to, row.key, (size_t)row.key_len + row.value_len);
            count++;
        }
    }
    return count;
}
