/*
 * compare - two sets of rows side by side: the keys on which they differ, in order.
 *
 * Whole pages that both share are skipped.  Both sets are borrowed for as long as it
 * lasts.  What is looked at is paid for in units, so that long comparisons can be done
 * in slices.  Pure.
 */
#pragma once

#include "proto/model/rows.h"

struct rows_compare {
    struct rows_iter before;
    struct rows_iter after;
    struct row next_before;
    struct row next_after;
    bool has_before; /* read and not used yet */
    bool has_after;
    bool is_over;
};

void rows_compare_begin(struct rows_compare *it, const struct rows *before,
                        const struct rows *after, enum table_id table);

/* The next key, with the row of each side that has it: a null key where it does not.
 * False: `it->is_over`, or `*units` are used up. */
bool rows_compare_next(struct rows_compare *it, uint32_t *units, struct row *ret_before,
                       struct row *ret_after);

/* All at once: for changes whose number is bounded by a batch's. */
typedef void rows_visit(void *ctx, const struct row *before, const struct row *after);
void rows_compare_walk(const struct rows *before, const struct rows *after,
                       enum table_id table, rows_visit *visit, void *ctx);
