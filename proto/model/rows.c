#include "proto/model/rows_impl.h"

#include <stdlib.h>

struct rows *rows_ref(struct rows *r)
{
    if (r) {
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    }
    return r;
}

struct chunk *chunk_ref(struct chunk *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void chunk_unref(struct chunk *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < c->page_count; i++) {
        rows_unref(c->page[i]);
    }
    free(c);
}

void rows_unref(struct rows *r)
{
    if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (rows_is_spine(r)) {
        struct spine *s = (struct spine *)r;

        for (uint32_t i = 0; i < s->chunk_count; i++) {
            chunk_unref(s->slot[i].chunk);
        }
    }
    free(r);
}

uint32_t rows_count(const struct rows *r)
{
    if (!r) {
        return 0;
    }
    return rows_is_spine(r) ? rows_spine(r)->count : r->count;
}

uint64_t rows_digest(const struct rows *r)
{
    return r ? r->digest : 0;
}

size_t rows_bytes(const struct rows *r)
{
    if (!r) {
        return 0;
    }
    return rows_is_spine(r) ? rows_spine(r)->bytes : r->bytes;
}

size_t rows_memory(const struct rows *r)
{
    if (!r) {
        return 0;
    }
    return rows_is_spine(r) ? rows_spine(r)->memory
                            : heap_bytes(page_size(r->bytes, r->count));
}

uint32_t rows_page_count(const struct rows *r)
{
    if (!r) {
        return 0;
    }
    return rows_is_spine(r) ? rows_spine(r)->page_count : 1;
}

/* The last slot that starts at or before page `index`. */
static const struct rows *spine_page(const struct spine *s, uint32_t index)
{
    uint32_t low = 0;
    uint32_t high = s->chunk_count;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;

        if (s->slot[mid].first_page <= index) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return s->slot[low].chunk->page[index - s->slot[low].first_page];
}

static const struct rows *page_at(const struct rows *r, uint32_t index)
{
    assert(index < rows_page_count(r));
    return rows_is_spine(r) ? spine_page(rows_spine(r), index) : r;
}

struct rows_page rows_page_at(const struct rows *r, uint32_t index)
{
    const struct rows *page = page_at(r, index);

    return (struct rows_page){ .identity = page,
                               .data = page_data(page),
                               .bytes = page->bytes,
                               .count = page->count };
}

uint32_t chunk_search(const struct chunk *c, enum table_id table, uint32_t from,
                      const uint8_t *key, unsigned key_len)
{
    uint32_t low = from;
    uint32_t high = c->page_count;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;

        if (key_compare_at(table, page_data(c->page[mid]), key, key_len) <= 0) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

uint32_t spine_search_chunk(const struct spine *s, enum table_id table, uint32_t from,
                            const uint8_t *key, unsigned key_len)
{
    uint32_t low = from;
    uint32_t high = s->chunk_count;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        const struct rows *first = s->slot[mid].chunk->page[0];

        if (key_compare_at(table, page_data(first), key, key_len) <= 0) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

static uint32_t spine_search(const struct spine *s, enum table_id table,
                             const uint8_t *key, unsigned key_len)
{
    uint32_t slot = spine_search_chunk(s, table, 0, key, key_len);

    return s->slot[slot].first_page +
           chunk_search(s->slot[slot].chunk, table, 0, key, key_len);
}

/* Offset of the first row >= `key` in `page`, its bytes when there is none. */
static unsigned page_seek(const struct rows *page, enum table_id table,
                          const uint8_t *key, unsigned key_len)
{
    struct page_view v;

    page_view_init(&v, table, page);
    return page_view_at(&v, page_view_search(&v, table, 0, key, key_len));
}

bool rows_find(const struct rows *r, enum table_id table, const uint8_t *key,
               uint8_t key_len, struct row *ret)
{
    struct rows_iter it = rows_seek(r, table, key, key_len);
    struct row row;

    if (!rows_next(&it, &row) || row.key_len != key_len ||
        (key_len > 0 && memcmp(row.key, key, key_len) != 0)) {
        return false;
    }
    *ret = row;
    return true;
}

static void iter_enter(struct rows_iter *it, uint32_t index)
{
    const struct rows *page = page_at(it->rows, index);

    it->page = index;
    it->p = page_data(page);
    it->end = it->p + page->bytes;
}

struct rows_iter rows_begin(const struct rows *r, enum table_id table)
{
    struct rows_iter it = { .rows = r, .table = (uint8_t)table };

    if (r) {
        iter_enter(&it, 0);
    }
    return it;
}

struct rows_iter rows_seek(const struct rows *r, enum table_id table,
                           const uint8_t *key, uint8_t key_len)
{
    struct rows_iter it = { .rows = r, .table = (uint8_t)table };

    if (r) {
        uint32_t index =
            rows_is_spine(r) ? spine_search(rows_spine(r), table, key, key_len) : 0;

        iter_enter(&it, index);
        it.p += page_seek(page_at(r, index), table, key, key_len);
    }
    return it;
}

bool rows_next(struct rows_iter *it, struct row *ret)
{
    size_t len;

    if (it->p == it->end) {
        if (it->page + 1 >= rows_page_count(it->rows)) {
            return false;
        }
        iter_enter(it, it->page + 1);
    }
    len = row_scan(it->table, it->p, (size_t)(it->end - it->p), true, ret);
    if (len == 0) {
        assert(!"a page holds only whole rows");
        return false;
    }
    it->p += len;
    return true;
}

/* Bytes of the whole rows at `p` that make one page; counts them.  0 when a row is
 * damaged or not above `*last`. */
static unsigned load_page_span(enum table_id table, const uint8_t *p, uint32_t len,
                               struct row *last, unsigned *ret_count)
{
    unsigned bytes = 0;

    *ret_count = 0;
    while (bytes < len) {
        struct row row;
        size_t n = row_scan(table, p + bytes, len - bytes, true, &row);

        if (n == 0 || (last->key && row_compare(last, &row) >= 0)) {
            return 0;
        }
        if (bytes + n > ROWS_PAGE_BYTES) {
            break;
        }
        *last = row;
        bytes += (unsigned)n;
        (*ret_count)++;
    }
    return bytes;
}

static struct rows *load_page(enum table_id table, uint32_t vni, const uint8_t *p,
                              unsigned bytes, unsigned count)
{
    struct rows *page = page_new(bytes, count);
    uint16_t *index;

    if (!page) {
        return NULL;
    }
    memcpy(page_fill(page), p, bytes);
    page->digest = page_digest(table, vni, p, bytes);
    index = page_fill_index(page);
    for (unsigned i = 0, at = 0; index && i < count; i++) {
        struct row row;

        index[i] = (uint16_t)at;
        at += (unsigned)row_scan(table, p + at, bytes - at, true, &row);
    }
    return page;
}

static void load_last_row(const struct rows *r, enum table_id table, struct row *ret)
{
    struct page_view v;

    *ret = (struct row){ 0 };
    if (r) {
        page_view_init(&v, table, page_at(r, rows_page_count(r) - 1));
        page_view_row(&v, table, v.count - 1, ret);
    }
}

/* What is there already; its last chunk page by page, so that short pieces appended
 * one after the other still end in well-filled pages. */
static void load_start(struct rows_builder *b, const struct rows *append_to)
{
    const struct spine *s;
    const struct chunk *last;

    if (!append_to) {
        return;
    }
    if (!rows_is_spine(append_to)) {
        rows_builder_page(b, rows_ref((struct rows *)append_to), false);
        return;
    }
    s = rows_spine(append_to);
    for (uint32_t i = 0; i + 1 < s->chunk_count; i++) {
        rows_builder_chunk(b, s->slot[i].chunk);
    }
    last = s->slot[s->chunk_count - 1].chunk;
    for (uint32_t i = 0; i < last->page_count; i++) {
        rows_builder_page(b, rows_ref(last->page[i]), false);
    }
}

enum rc rows_load(enum table_id table, uint32_t vni, const uint8_t *bytes, uint32_t len,
                  const struct rows *append_to, struct rows **ret)
{
    struct rows_builder b;
    struct row last;
    enum rc bad = RC_OK;

    rows_builder_init(&b, table);
    load_start(&b, append_to);
    load_last_row(append_to, table, &last);
    for (uint32_t at = 0; at < len && !bad && !b.failed;) {
        unsigned count;
        unsigned n = load_page_span(table, bytes + at, len - at, &last, &count);

        if (n == 0) {
            bad = RC_INVALID;
            break;
        }
        rows_builder_page(&b, load_page(table, vni, bytes + at, n, count), true);
        at += n;
    }
    if (bad) {
        b.failed = true;
        rows_builder_finish(&b, ret);
        return bad;
    }
    return rows_builder_finish(&b, ret);
}
