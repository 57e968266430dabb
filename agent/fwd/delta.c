#include "agent/fwd/delta.h"

#include <string.h>

struct row_cursor row_cursor_of(const struct rows *rows, enum table_id table)
{
    return (struct row_cursor){ .rows = rows, .table = (uint8_t)table };
}

static bool page_open(struct row_cursor *c)
{
    struct rows_page page;

    if (!c->rows || c->page >= rows_page_count(c->rows)) {
        return false;
    }
    page = rows_page_at(c->rows, c->page++);
    c->p = page.data;
    c->end = page.data + page.bytes;
    return true;
}

bool row_cursor_next(struct row_cursor *c)
{
    size_t used;

    c->has_row = false;
    while (c->p == c->end) {
        if (!page_open(c)) {
            return false;
        }
    }
    used = row_scan(c->table, c->p, (size_t)(c->end - c->p), true, &c->row);
    if (used == 0) {
        c->failed = true;
        c->p = c->end;
        c->rows = NULL;
        return false;
    }
    c->p += used;
    c->has_row = true;
    return true;
}

struct delta delta_of(const struct rows *before, const struct rows *after,
                      enum table_id table)
{
    return (struct delta){ .before = row_cursor_of(before, table),
                           .after = row_cursor_of(after, table) };
}

/* Skips pages that both sides come to at once. */
static void skip_shared(struct delta *d)
{
    struct row_cursor *a = &d->before;
    struct row_cursor *b = &d->after;

    while (a->rows && b->rows && a->p == a->end && b->p == b->end &&
           a->page < rows_page_count(a->rows) && b->page < rows_page_count(b->rows) &&
           rows_page_at(a->rows, a->page).identity ==
               rows_page_at(b->rows, b->page).identity) {
        a->page++;
        b->page++;
    }
}

static void step_both(struct delta *d)
{
    skip_shared(d);
    (void)row_cursor_next(&d->before);
    (void)row_cursor_next(&d->after);
}

bool delta_next(struct delta *d, struct delta_step *ret)
{
    if (!d->started) {
        d->started = true;
        step_both(d);
    }
    for (;;) {
        const struct row *a = d->before.has_row ? &d->before.row : NULL;
        const struct row *b = d->after.has_row ? &d->after.row : NULL;
        int order;

        if (!a && !b) {
            return false;
        }
        order = !a ? 1 : !b ? -1 : row_compare(a, b);
        *ret = (struct delta_step){ 0 };
        if (order < 0) {
            ret->before = *a;
            (void)row_cursor_next(&d->before);
            return true;
        }
        if (order > 0) {
            ret->after = *b;
            (void)row_cursor_next(&d->after);
            return true;
        }
        bool same =
            a->value_len == b->value_len &&
            (a->value_len == 0 || memcmp(a->value, b->value, a->value_len) == 0);

        ret->before = *a;
        ret->after = *b;
        step_both(d);
        if (!same) {
            return true;
        }
    }
}
