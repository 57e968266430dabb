#include "proto/model/rows_impl.h"

#include <stdlib.h>

/* What a page's merge puts out, in order: rows of the old page, or one step. */
struct span {
    uint32_t first; /* row of the old page, or index of the step */
    uint32_t count; /* rows; SPAN_STEP for a step */
};
#define SPAN_STEP UINT32_MAX

#define SPANS_INLINE 64

struct merge {
    enum table_id table;
    uint32_t vni;
    struct page_view old;
    const struct rows_step *steps;
    struct span *spans;
    uint32_t span_count;
    uint32_t bytes; /* of all rows put out */
    uint32_t count;
    uint64_t digest;
    uint32_t effects; /* steps that changed something */
};

/* Where the next output page starts. */
struct cursor {
    uint32_t span;
    uint32_t row; /* within the span */
};

static void merge_old(struct merge *m, unsigned first, unsigned end)
{
    if (end > first) {
        m->spans[m->span_count++] = (struct span){ first, end - first };
        m->bytes += page_view_at(&m->old, end) - page_view_at(&m->old, first);
        m->count += end - first;
    }
}

static void merge_step(struct merge *m, uint32_t index)
{
    const struct row *row = &m->steps[index].row;

    m->spans[m->span_count++] = (struct span){ index, SPAN_STEP };
    m->bytes += (uint32_t)row->key_len + row->value_len;
    m->count++;
    m->digest += row_digest(m->table, m->vni, row);
}

static bool same_value(const struct row *a, const struct row *b)
{
    return a->value_len == b->value_len && !memcmp(a->value, b->value, a->value_len);
}

/* Merges sorted, unique steps into the old page's rows, as spans. */
static void merge_plan(struct merge *m, uint32_t step_count, struct rows_change *change)
{
    unsigned kept = 0; /* old rows before this one are dealt with */
    unsigned at = 0;   /* where the search goes on */

    m->digest = m->old.page ? m->old.page->digest : 0;
    for (uint32_t i = 0; i < step_count; i++) {
        const struct row *step = &m->steps[i].row;
        struct row row;
        bool stands;

        at = page_view_search(&m->old, m->table, at, step->key, step->key_len);
        stands =
            at < m->old.count && key_compare_at(m->table, m->old.data + m->old.at[at],
                                                step->key, step->key_len) == 0;
        if (stands) {
            page_view_row(&m->old, m->table, at, &row);
        }
        if (step->value ? stands && same_value(&row, step) : !stands) {
            change->unchanged++;
            continue;
        }
        m->effects++;
        merge_old(m, kept, at);
        if (stands) {
            m->digest -= row_digest(m->table, m->vni, &row);
            at++;
        }
        kept = at;
        if (step->value) {
            merge_step(m, i);
        }
        *(!stands       ? &change->added
          : step->value ? &change->changed
                        : &change->deleted) += 1;
    }
    merge_old(m, kept, m->old.count);
}

static unsigned step_bytes(const struct merge *m, const struct span *span)
{
    const struct row *row = &m->steps[span->first].row;

    return (unsigned)row->key_len + row->value_len;
}

/* Moves `*c` past the rows of one page, which ends with the row that reaches `target`
 * bytes or with the last one. */
static void cut_page(const struct merge *m, struct cursor *c, unsigned target,
                     unsigned *ret_bytes, unsigned *ret_count)
{
    unsigned bytes = 0;
    unsigned count = 0;

    while (c->span < m->span_count && bytes < target) {
        const struct span *span = &m->spans[c->span];

        if (span->count == SPAN_STEP) {
            bytes += step_bytes(m, span);
            count++;
            c->span++;
            continue;
        }
        unsigned first = span->first + c->row;
        unsigned end = span->first + span->count;
        unsigned base = page_view_at(&m->old, first);

        if (bytes + page_view_at(&m->old, end) - base > target) {
            end = first + 1;
            while (bytes + page_view_at(&m->old, end) - base < target) {
                end++;
            }
        }
        bytes += page_view_at(&m->old, end) - base;
        count += end - first;
        c->row += end - first;
        if (c->row == span->count) {
            c->span++;
            c->row = 0;
        }
    }
    *ret_bytes = bytes;
    *ret_count = count;
}

/* Copies the rows from `c` on until `page` is full, with their offsets. */
static void fill_page(const struct merge *m, struct cursor c, struct rows *page)
{
    uint8_t *data = page_fill(page);
    uint16_t *index = page_fill_index(page);
    unsigned at = 0;
    unsigned rows = 0;

    while (rows < page->count) {
        const struct span *span = &m->spans[c.span++];

        if (span->count == SPAN_STEP) {
            const struct row *row = &m->steps[span->first].row;

            if (index) {
                index[rows] = (uint16_t)at;
            }
            if (row->key_len > 0) {
                memcpy(data + at, row->key, row->key_len);
            }
            memcpy(data + at + row->key_len, row->value, row->value_len);
            at += (unsigned)row->key_len + row->value_len;
            rows++;
            continue;
        }
        unsigned first = span->first + c.row;
        unsigned left = page->count - rows;
        unsigned count = span->count - c.row < left ? span->count - c.row : left;
        unsigned from = page_view_at(&m->old, first);
        unsigned len = page_view_at(&m->old, first + count) - from;

        memcpy(data + at, m->old.data + from, len);
        for (unsigned i = 0; index && i < count; i++) {
            index[rows + i] = (uint16_t)(m->old.at[first + i] - from + at);
        }
        at += len;
        rows += count;
        c.row = 0;
    }
    assert(at == page->bytes);
}

/* Writes the merged rows out as pages of even size. */
static void merge_write(struct merge *m, struct rows_builder *b)
{
    /* A page ends with the row that reaches the target, so it may pass it by a row. */
    const unsigned room = ROWS_PAGE_BYTES - ENTRY_KEY_MAX - ENTRY_VALUE_MAX;
    unsigned pages = m->bytes <= ROWS_PAGE_BYTES ? 1 : (m->bytes + room - 1) / room;
    unsigned target = (m->bytes + pages - 1) / pages;
    struct cursor c = { 0 };
    uint64_t rest = m->digest;

    while (c.span < m->span_count && !b->failed) {
        struct cursor start = c;
        struct rows *page;
        unsigned bytes;
        unsigned count;

        cut_page(m, &c, target, &bytes, &count);
        page = page_new(bytes, count);
        if (page) {
            fill_page(m, start, page);
            page->digest = c.span == m->span_count
                               ? rest
                               : page_digest(m->table, m->vni, page_data(page), bytes);
            rest -= page->digest;
        }
        rows_builder_page(b, page, true);
    }
}

/* Puts `page` (null: nothing yet) with `step_count` steps into the builder. */
static void edit_page(struct rows *page, enum table_id table, uint32_t vni,
                      const struct rows_step *steps, uint32_t step_count,
                      struct rows_builder *b, struct rows_change *change)
{
    struct span spans[SPANS_INLINE];
    struct merge m = { .table = table, .vni = vni, .steps = steps, .spans = spans };
    size_t span_max = 2 * (size_t)step_count + 1;

    if (span_max > SPANS_INLINE) {
        m.spans = malloc(span_max * sizeof(*m.spans));
        if (!m.spans) {
            b->failed = true;
            return;
        }
    }
    page_view_init(&m.old, table, page);
    merge_plan(&m, step_count, change);
    if (m.effects > 0) {
        merge_write(&m, b);
    } else if (page) {
        rows_builder_page(b, rows_ref(page), false);
    }
    if (m.spans != spans) {
        free(m.spans);
    }
}

/* How many of the steps sort before the first key of `next`; all when it is null. */
static uint32_t steps_before(enum table_id table, const struct rows_step *steps,
                             uint32_t count, const struct rows *next)
{
    uint32_t low = 0;
    uint32_t high = count;

    while (next && low < high) {
        uint32_t mid = (low + high) / 2;

        if (key_compare_at(table, page_data(next), steps[mid].row.key,
                           steps[mid].row.key_len) > 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return next ? low : count;
}

static void edit_chunk(const struct chunk *c, enum table_id table, uint32_t vni,
                       const struct rows_step *steps, uint32_t count,
                       struct rows_builder *b, struct rows_change *change)
{
    uint32_t i = 0;

    while (i < c->page_count && !b->failed) {
        const struct rows *next;
        uint32_t hit = c->page_count;
        uint32_t n;

        if (count > 0) {
            hit = chunk_search(c, table, i, steps->row.key, steps->row.key_len);
        }
        for (; i < hit; i++) {
            rows_builder_page(b, rows_ref(c->page[i]), false);
        }
        if (i == c->page_count) {
            break;
        }
        next = i + 1 < c->page_count ? c->page[i + 1] : NULL;
        n = steps_before(table, steps, count, next);
        edit_page(c->page[i], table, vni, steps, n, b, change);
        steps += n;
        count -= n;
        i++;
    }
}

static void edit_spine(const struct spine *s, enum table_id table, uint32_t vni,
                       const struct rows_step *steps, uint32_t count,
                       struct rows_builder *b, struct rows_change *change)
{
    uint32_t i = 0;

    while (i < s->chunk_count && !b->failed) {
        const struct rows *next;
        uint32_t hit = s->chunk_count;
        uint32_t n;

        if (count > 0) {
            hit = spine_search_chunk(s, table, i, steps->row.key, steps->row.key_len);
        }
        for (; i < hit; i++) {
            rows_builder_chunk(b, s->slot[i].chunk);
        }
        if (i == s->chunk_count) {
            break;
        }
        next = i + 1 < s->chunk_count ? s->slot[i + 1].chunk->page[0] : NULL;
        n = steps_before(table, steps, count, next);
        edit_chunk(s->slot[i].chunk, table, vni, steps, n, b, change);
        steps += n;
        count -= n;
        i++;
    }
}

/* A step's place in the order: by key, then as given. */
struct place {
    uint64_t head; /* the first 8 bytes of the key, zero-padded */
    const struct rows_step *step;
};

static int place_compare(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    int order;

    if (x->head != y->head) {
        return x->head < y->head ? -1 : 1;
    }
    order = row_compare(&x->step->row, &y->step->row);
    if (order != 0) {
        return order;
    }
    return x->step < y->step ? -1 : x->step > y->step;
}

static uint64_t key_head(const struct row *row)
{
    uint64_t head = 0;

    if (row->key_len > 0) {
        memcpy(&head, row->key, row->key_len < 8 ? row->key_len : 8);
    }
    return __builtin_bswap64(head);
}

/* Sorts by key and keeps the last step of each key. */
static enum rc sort_steps(struct rows_step *steps, uint32_t *count)
{
    struct place *places = malloc(*count * sizeof(*places));
    struct rows_step *sorted = malloc(*count * sizeof(*sorted));
    uint32_t n = 0;

    if (!places || !sorted) {
        free(places);
        free(sorted);
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < *count; i++) {
        places[i] = (struct place){ key_head(&steps[i].row), &steps[i] };
    }
    qsort(places, *count, sizeof(*places), place_compare);
    for (uint32_t i = 0; i < *count; i++) {
        if (n > 0 && row_compare(&sorted[n - 1].row, &places[i].step->row) == 0) {
            n--;
        }
        sorted[n++] = *places[i].step;
    }
    memcpy(steps, sorted, n * sizeof(*steps));
    *count = n;
    free(places);
    free(sorted);
    return RC_OK;
}

static bool steps_are_sorted(const struct rows_step *steps, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (row_compare(&steps[i - 1].row, &steps[i].row) >= 0) {
            return false;
        }
    }
    return true;
}

enum rc rows_edit(const struct rows *old, enum table_id table, uint32_t vni,
                  struct rows_step *steps, uint32_t count, struct rows **ret,
                  struct rows_change *ret_change)
{
    struct rows_change change = { 0 };
    struct rows_builder b;
    struct rows *made;
    enum rc rc;

    if (!steps_are_sorted(steps, count)) {
        rc = sort_steps(steps, &count);
        if (rc) {
            return rc;
        }
    }
    rows_builder_init(&b, table);
    if (old && rows_is_spine(old)) {
        edit_spine(rows_spine(old), table, vni, steps, count, &b, &change);
    } else {
        edit_page((struct rows *)old, table, vni, steps, count, &b, &change);
    }
    rc = rows_builder_finish(&b, &made);
    if (rc) {
        return rc;
    }
    if (change.added + change.changed + change.deleted == 0) {
        rows_unref(made);
        made = rows_ref((struct rows *)old);
    }
    *ret = made;
    if (ret_change) {
        *ret_change = change;
    }
    return RC_OK;
}
