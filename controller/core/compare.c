#include "controller/core/compare.h"

#include <string.h>

void rows_compare_begin(struct rows_compare *it, const struct rows *before,
                        const struct rows *after, enum table_id table)
{
    *it = (struct rows_compare){ .before = rows_begin(before, table),
                                 .after = rows_begin(after, table) };
}

/* Goes to the next page with rows; the page index and bounds of an iterator that
 * stands at a page's end are those of that page. */
static void enter_page(struct rows_iter *it)
{
    while (it->p == it->end && it->page + 1 < rows_page_count(it->rows)) {
        struct rows_page page = rows_page_at(it->rows, ++it->page);

        it->p = page.data;
        it->end = page.data + page.bytes;
    }
}

/* Steps over pages that both hold, as long as both stand at the start of the same. */
static void skip_shared(struct rows_iter *a, struct rows_iter *b, uint32_t *units)
{
    while (*units > 1) {
        enter_page(a);
        enter_page(b);
        if (a->p == a->end || a->p != b->p) {
            return;
        }
        a->p = a->end;
        b->p = b->end;
        --*units;
    }
}

static bool same_value(const struct row *a, const struct row *b)
{
    return a->value_len == b->value_len && !memcmp(a->value, b->value, a->value_len);
}

bool rows_compare_next(struct rows_compare *it, uint32_t *units, struct row *ret_before,
                       struct row *ret_after)
{
    while (*units > 0 && !it->is_over) {
        int order;
        bool differ;

        if (it->before.rows && it->after.rows && !it->has_before && !it->has_after) {
            skip_shared(&it->before, &it->after, units);
        }
        --*units;
        it->has_before = it->has_before || rows_next(&it->before, &it->next_before);
        it->has_after = it->has_after || rows_next(&it->after, &it->next_after);
        if (!it->has_before && !it->has_after) {
            it->is_over = true;
            break;
        }
        order = !it->has_before  ? 1
                : !it->has_after ? -1
                                 : row_compare(&it->next_before, &it->next_after);
        differ = order != 0 || !same_value(&it->next_before, &it->next_after);
        *ret_before = order <= 0 ? it->next_before : (struct row){ 0 };
        *ret_after = order >= 0 ? it->next_after : (struct row){ 0 };
        it->has_before = it->has_before && order > 0;
        it->has_after = it->has_after && order < 0;
        if (differ) {
            return true;
        }
    }
    return false;
}

void rows_compare_walk(const struct rows *before, const struct rows *after,
                       enum table_id table, rows_visit *visit, void *ctx)
{
    struct rows_compare it;
    struct row b;
    struct row a;

    rows_compare_begin(&it, before, after, table);
    while (!it.is_over) {
        uint32_t units = UINT32_MAX;

        while (rows_compare_next(&it, &units, &b, &a)) {
            visit(ctx, b.key ? &b : NULL, a.key ? &a : NULL);
        }
    }
}
