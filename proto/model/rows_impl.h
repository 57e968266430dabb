/*
 * rows_impl - what the rows_*.c files share and nobody else includes.
 *
 *   small set   page                       the set is its one page
 *   large set   spine → chunk × n → page   16 to 32 pages a chunk
 *
 * An edit copies the touched pages, the chunks that hold them and the spine; all else
 * is shared by reference.  Two levels of pointers, because copying a flat array of
 * the pages of a 100,000-row set would touch the counter of each of them.
 *
 * A page is its header, the packed rows, and, with more than PAGE_SCAN_MAX rows, a
 * uint16_t offset for each row, so that a search is binary and an edit copies spans
 * without looking at the rows it keeps.
 */
#pragma once

#include <assert.h>
#include <string.h>

#include "proto/model/rows.h"

#define PAGE_SCAN_MAX 16u /* rows that are scanned faster than an index pays for */
#define CHUNK_MAX     32u /* pages; a 100,000-row set is some 200 pages, 7 chunks */
#define CHUNK_MIN     8u  /* a shorter run of new pages takes its neighbour chunk in */

/* An edited page and its neighbour become one when they fit in this: below a full page
 * so that a set edited around the border does not split and merge all the time. */
#define PAGE_MERGE_MAX (ROWS_PAGE_BYTES / 8 * 7)

#define BYTES_SPINE 0xffffu /* in rows.bytes: this is a spine, not a page */

/* The common head: 16 bytes, since most sets are a handful of rows. */
struct rows {
    atomic_uint refs;
    uint16_t bytes; /* packed rows of a page; BYTES_SPINE */
    uint16_t count; /* rows of a page */
    uint64_t digest;
};

struct chunk {
    atomic_uint refs;
    uint32_t page_count; /* 1 to CHUNK_MAX */
    uint32_t count;      /* rows below, and so on */
    uint32_t bytes;
    uint64_t digest;
    size_t memory; /* heap bytes below and of this chunk */
    struct rows *page[];
};

struct spine_slot {
    struct chunk *chunk;
    uint32_t first_page; /* index of its first page in the whole set */
};

struct spine {
    struct rows head;
    uint32_t count;
    uint32_t page_count;
    size_t bytes;
    size_t memory;
    uint32_t chunk_count;
    struct spine_slot slot[];
};

static inline bool rows_is_spine(const struct rows *r)
{
    return r->bytes == BYTES_SPINE;
}

static inline const struct spine *rows_spine(const struct rows *r)
{
    assert(rows_is_spine(r));
    return (const struct spine *)r;
}

/* What malloc(n) takes from the heap: glibc's 8-byte header, 16-byte steps, at least
 * 32 (malloc/malloc.c, "Minimum allocated size"). */
static inline size_t heap_bytes(size_t n)
{
    size_t chunk = (n + 8 + 15) & ~(size_t)15;

    return chunk < 32 ? 32 : chunk;
}

static inline const uint8_t *page_data(const struct rows *page)
{
    return (const uint8_t *)(page + 1);
}

static inline bool page_has_index(const struct rows *page)
{
    return page->count > PAGE_SCAN_MAX;
}

static inline size_t page_index_at(unsigned bytes)
{
    return sizeof(struct rows) + ((bytes + 1u) & ~1u);
}

/* The size of the allocation of a page. */
static inline size_t page_size(unsigned bytes, unsigned count)
{
    return count > PAGE_SCAN_MAX ? page_index_at(bytes) + 2 * (size_t)count
                                 : sizeof(struct rows) + bytes;
}

static inline const uint16_t *page_index(const struct rows *page)
{
    return (const uint16_t *)((const uint8_t *)page + page_index_at(page->bytes));
}

/* Length of the key that starts at `p` (entry.h's packed form). */
static inline unsigned key_len_at(enum table_id table, const uint8_t *p)
{
    switch (table) {
    case TABLE_VXLAN_ROUTE:
        return p[0] == IP_V4 ? 6 : 18;
    case TABLE_VM_NC:
        return p[0] == IP_V4 ? 5 : 17;
    case TABLE_TENANT:
    case TABLE_VNI:
    case TABLE_METER:
    case TABLE_VNI_CLUSTER:
        return 0;
    default: {
        struct row row = { 0 }; /* a table that came later: the general way */

        row_scan(table, p, ENTRY_KEY_MAX, false, &row);
        return row.key_len;
    }
    }
}

/* row_compare() of the packed row at `p` against a key. */
static inline int key_compare_at(enum table_id table, const uint8_t *p,
                                 const uint8_t *key, unsigned key_len)
{
    unsigned len = key_len_at(table, p);
    unsigned both = len < key_len ? len : key_len;
    int order = both ? memcmp(p, key, both) : 0;

    return order ? order : (int)len - (int)key_len;
}

/* The offsets of a page's rows, whether stored or scanned.  Borrows the page. */
struct page_view {
    const struct rows *page; /* null: no rows */
    const uint8_t *data;
    const uint16_t *at;
    unsigned count;
    unsigned bytes;
    uint16_t scanned[PAGE_SCAN_MAX];
};
void page_view_init(struct page_view *v, enum table_id table, const struct rows *page);

static inline unsigned page_view_at(const struct page_view *v, unsigned index)
{
    return index < v->count ? v->at[index] : v->bytes;
}

/* Index of the first row >= `key`, searching from `from` on. */
unsigned page_view_search(const struct page_view *v, enum table_id table, unsigned from,
                          const uint8_t *key, unsigned key_len);

/* Row `index`, in full. */
void page_view_row(const struct page_view *v, enum table_id table, unsigned index,
                   struct row *ret);

/* One reference; rows, offsets and digest are the caller's to fill.  Null when memory
 * is out.  bytes <= ROWS_PAGE_BYTES. */
struct rows *page_new(unsigned bytes, unsigned count);
uint8_t *page_fill(struct rows *page);        /* where the rows go */
uint16_t *page_fill_index(struct rows *page); /* null when it has none */

/* Both pages' rows in one new page. */
struct rows *page_concat(enum table_id table, const struct rows *a,
                         const struct rows *b);

/* Sum of the digests of `count` packed rows at `p`. */
uint64_t page_digest(enum table_id table, uint32_t vni, const uint8_t *p,
                     unsigned bytes);

/* The chunk, and the page in one, that holds `key` if any does: the last one whose
 * first key is not above it, else the first; none before `from`. */
uint32_t spine_search_chunk(const struct spine *s, enum table_id table, uint32_t from,
                            const uint8_t *key, unsigned key_len);
uint32_t chunk_search(const struct chunk *c, enum table_id table, uint32_t from,
                      const uint8_t *key, unsigned key_len);

struct chunk *chunk_ref(struct chunk *c);
void chunk_unref(struct chunk *c);

/*
 * rows_builder - puts a set together from pages and whole chunks, in key order.
 *
 * Joins small touched pages with their neighbours and keeps chunks between CHUNK_MIN
 * and CHUNK_MAX pages where there are enough.  Out of memory is sticky and reported
 * once, by rows_builder_finish().
 */
struct rows_builder {
    enum table_id table;
    bool failed;
    bool tail_touched; /* the last pending page is new */
    uint32_t pending_count;
    struct rows *pending[2 * CHUNK_MAX]; /* pages not yet in a chunk, referenced */
    struct chunk **chunk;                /* referenced */
    uint32_t chunk_count;
    uint32_t chunk_cap;
};
void rows_builder_init(struct rows_builder *b, enum table_id table);
/* Takes one reference of `page`; null means that memory was out. */
void rows_builder_page(struct rows_builder *b, struct rows *page, bool touched);
/* Adds a reference to an untouched chunk. */
void rows_builder_chunk(struct rows_builder *b, struct chunk *c);
/* Gives the set (null when empty) and ends the builder, also on failure. */
enum rc rows_builder_finish(struct rows_builder *b, struct rows **ret);
