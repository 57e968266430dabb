#include "proto/model/rows_impl.h"

#include <stdlib.h>

void rows_builder_init(struct rows_builder *b, enum table_id table)
{
    b->table = table;
    b->failed = false;
    b->tail_touched = false;
    b->pending_count = 0;
    b->chunk = NULL;
    b->chunk_count = 0;
    b->chunk_cap = 0;
}

/* Makes room for one more chunk. */
static bool reserve_chunk(struct rows_builder *b)
{
    if (b->chunk_count == b->chunk_cap) {
        uint32_t cap = b->chunk_cap ? 2 * b->chunk_cap : 8;
        struct chunk **grown = realloc(b->chunk, cap * sizeof(struct chunk *));

        if (!grown) {
            b->failed = true;
            return false;
        }
        b->chunk = grown;
        b->chunk_cap = cap;
    }
    return true;
}

/* A chunk of the first `count` pending pages, whose references it takes. */
static void pack_chunk(struct rows_builder *b, uint32_t count)
{
    size_t size = sizeof(struct chunk) + count * sizeof(struct rows *);
    struct chunk *c = NULL;

    if (!reserve_chunk(b) || !(c = malloc(size))) {
        b->failed = true;
        return;
    }
    atomic_init(&c->refs, 1);
    c->page_count = count;
    c->count = 0;
    c->bytes = 0;
    c->digest = 0;
    c->memory = heap_bytes(size);
    for (uint32_t i = 0; i < count; i++) {
        c->page[i] = b->pending[i];
        c->count += c->page[i]->count;
        c->bytes += c->page[i]->bytes;
        c->digest += c->page[i]->digest;
        c->memory += rows_memory(c->page[i]);
    }
    b->chunk[b->chunk_count++] = c;
    b->pending_count -= count;
    memmove(b->pending, b->pending + count, b->pending_count * sizeof(struct rows *));
}

/* All pending pages into chunks of even size. */
static void pack_pending(struct rows_builder *b)
{
    uint32_t chunks = (b->pending_count + CHUNK_MAX - 1) / CHUNK_MAX;

    for (; chunks > 0 && !b->failed; chunks--) {
        pack_chunk(b, (b->pending_count + chunks - 1) / chunks);
    }
    b->tail_touched = false;
}

static bool should_join(const struct rows *a, const struct rows *b)
{
    return (a->bytes < ROWS_PAGE_BYTES / 2 || b->bytes < ROWS_PAGE_BYTES / 2) &&
           (unsigned)a->bytes + b->bytes <= PAGE_MERGE_MAX;
}

void rows_builder_page(struct rows_builder *b, struct rows *page, bool touched)
{
    struct rows **tail;

    if (!page) {
        b->failed = true;
    }
    if (b->failed) {
        rows_unref(page);
        return;
    }
    tail = b->pending_count ? &b->pending[b->pending_count - 1] : NULL;
    if (tail && (touched || b->tail_touched) && should_join(*tail, page)) {
        struct rows *joined = page_concat(b->table, *tail, page);

        rows_unref(page);
        if (!joined) {
            b->failed = true;
            return;
        }
        rows_unref(*tail);
        *tail = joined;
        b->tail_touched = true;
        return;
    }
    if (b->pending_count == 2 * CHUNK_MAX) {
        pack_chunk(b, CHUNK_MAX);
        if (b->failed) {
            rows_unref(page);
            return;
        }
    }
    b->pending[b->pending_count++] = page;
    b->tail_touched = touched;
}

void rows_builder_chunk(struct rows_builder *b, struct chunk *c)
{
    bool joins = b->pending_count > 0 && b->tail_touched &&
                 should_join(b->pending[b->pending_count - 1], c->page[0]);

    if (joins || (b->pending_count > 0 && b->pending_count < CHUNK_MIN)) {
        for (uint32_t i = 0; i < c->page_count; i++) {
            rows_builder_page(b, rows_ref(c->page[i]), false);
        }
        return;
    }
    pack_pending(b);
    if (!b->failed && reserve_chunk(b)) {
        b->chunk[b->chunk_count++] = chunk_ref(c);
    }
}

/* A short rest joins the last chunk: taken back to pages and divided evenly. */
static void pack_rest(struct rows_builder *b)
{
    struct chunk *last;
    uint32_t rest = b->pending_count;

    if (b->chunk_count > 0 && rest > 0 && rest < CHUNK_MIN) {
        last = b->chunk[--b->chunk_count];
        memmove(b->pending + last->page_count, b->pending,
                rest * sizeof(struct rows *));
        for (uint32_t i = 0; i < last->page_count; i++) {
            b->pending[i] = rows_ref(last->page[i]);
        }
        b->pending_count += last->page_count;
        chunk_unref(last);
    }
    pack_pending(b);
}

/* A spine over all chunks, whose references it takes; null when memory is out. */
static struct rows *pack_spine(struct rows_builder *b)
{
    size_t size = sizeof(struct spine) + b->chunk_count * sizeof(struct spine_slot);
    struct spine *s = malloc(size);

    if (!s) {
        b->failed = true;
        return NULL;
    }
    memset(s, 0, sizeof(*s));
    atomic_init(&s->head.refs, 1);
    s->head.bytes = BYTES_SPINE;
    s->chunk_count = b->chunk_count;
    s->memory = heap_bytes(size);
    for (uint32_t i = 0; i < b->chunk_count; i++) {
        const struct chunk *c = b->chunk[i];

        s->slot[i] = (struct spine_slot){ b->chunk[i], s->page_count };
        s->page_count += c->page_count;
        s->count += c->count;
        s->bytes += c->bytes;
        s->memory += c->memory;
        s->head.digest += c->digest;
    }
    b->chunk_count = 0;
    return &s->head;
}

enum rc rows_builder_finish(struct rows_builder *b, struct rows **ret)
{
    struct rows *made = NULL;

    if (!b->failed && b->chunk_count == 0 && b->pending_count <= 1) {
        made = b->pending_count ? b->pending[0] : NULL;
        b->pending_count = 0;
    } else if (!b->failed) {
        pack_rest(b);
        made = b->failed ? NULL : pack_spine(b);
    }
    for (uint32_t i = 0; i < b->pending_count; i++) {
        rows_unref(b->pending[i]);
    }
    for (uint32_t i = 0; i < b->chunk_count; i++) {
        chunk_unref(b->chunk[i]);
    }
    free(b->chunk);
    if (b->failed) {
        return RC_NO_MEMORY;
    }
    *ret = made;
    return RC_OK;
}
