#include "proto/model/rows_impl.h"

#include <stdlib.h>

void page_view_init(struct page_view *v, enum table_id table, const struct rows *page)
{
    v->page = page;
    v->count = page ? page->count : 0;
    v->bytes = page ? page->bytes : 0;
    v->data = page ? page_data(page) : NULL;
    v->at = v->scanned;
    if (!page) {
        return;
    }
    if (page_has_index(page)) {
        v->at = page_index(page);
        return;
    }
    for (unsigned i = 0, at = 0; i < v->count; i++) {
        struct row row;

        v->scanned[i] = (uint16_t)at;
        at += (unsigned)row_scan(table, v->data + at, v->bytes - at, true, &row);
    }
}

unsigned page_view_search(const struct page_view *v, enum table_id table, unsigned from,
                          const uint8_t *key, unsigned key_len)
{
    unsigned low = from;
    unsigned high = v->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (key_compare_at(table, v->data + v->at[mid], key, key_len) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

void page_view_row(const struct page_view *v, enum table_id table, unsigned index,
                   struct row *ret)
{
    unsigned at = page_view_at(v, index);
    unsigned len = page_view_at(v, index + 1) - at;
    unsigned key_len = key_len_at(table, v->data + at);

    ret->key = v->data + at;
    ret->key_len = (uint8_t)key_len;
    ret->value = ret->key + key_len;
    ret->value_len = (uint8_t)(len - key_len);
}

struct rows *page_new(unsigned bytes, unsigned count)
{
    struct rows *page = malloc(page_size(bytes, count));

    if (!page) {
        return NULL;
    }
    atomic_init(&page->refs, 1);
    page->bytes = (uint16_t)bytes;
    page->count = (uint16_t)count;
    page->digest = 0;
    return page;
}

uint8_t *page_fill(struct rows *page)
{
    return (uint8_t *)(page + 1);
}

uint16_t *page_fill_index(struct rows *page)
{
    if (!page_has_index(page)) {
        return NULL;
    }
    return (uint16_t *)((uint8_t *)page + page_index_at(page->bytes));
}

static void add_offsets(const struct page_view *v, unsigned shift, uint16_t *to)
{
    for (unsigned i = 0; i < v->count; i++) {
        to[i] = (uint16_t)(v->at[i] + shift);
    }
}

struct rows *page_concat(enum table_id table, const struct rows *a,
                         const struct rows *b)
{
    struct rows *page =
        page_new((unsigned)a->bytes + b->bytes, (unsigned)a->count + b->count);
    uint16_t *index;

    if (!page) {
        return NULL;
    }
    memcpy(page_fill(page), page_data(a), a->bytes);
    memcpy(page_fill(page) + a->bytes, page_data(b), b->bytes);
    page->digest = a->digest + b->digest;
    index = page_fill_index(page);
    if (index) {
        struct page_view v;

        page_view_init(&v, table, a);
        add_offsets(&v, 0, index);
        page_view_init(&v, table, b);
        add_offsets(&v, a->bytes, index + a->count);
    }
    return page;
}

uint64_t page_digest(enum table_id table, uint32_t vni, const uint8_t *p,
                     unsigned bytes)
{
    uint64_t sum = 0;

    for (unsigned at = 0; at < bytes;) {
        struct row row;
        size_t len = row_scan(table, p + at, bytes - at, true, &row);

        if (len == 0) {
            assert(!"a page holds only whole rows");
            break;
        }
        sum += row_digest(table, vni, &row);
        at += (unsigned)len;
    }
    return sum;
}
