#include "agent/xgwh/alpm_impl.h"

/* What re-packing steps on by: half a neighbourhood, so that the next one overlaps. */
#define STEP (ALPM_REGION_ROWS / 2)

/* Deletes that leave a row at most 3/8 full look at this many.  Measured with random
 * changes (bench_xgwh): joining pairs of at most 3/4 B gives 9.1 routes a row and 1.24
 * writes a change, this 10.6 and 1.51, 8 rows from half full on 11.1 and 1.68. */
#define JOIN_ROWS 6

/* Carves these rows anew if that takes fewer; what stands in them, and nothing else. */
static enum rc region_carve(struct alpm *a, const uint32_t *rows, size_t count,
                            unsigned cap, struct alpm_out *out)
{
    struct alpm_work *w = &a->work;
    struct alpm_region *region;
    size_t routes = 0;
    uint32_t fresh;

    for (size_t i = 0; i < count; i++) {
        routes += a->row[rows[i]].count;
    }
    if ((routes + cap - 1) / cap >= count) {
        return RC_OK;
    }
    alpm_work_clear(w);
    if (alpm_work_reserve(w, routes, routes + 1, count)) {
        return RC_NO_MEMORY;
    }
    region = alpm_region_add(a, rows, count);
    alpm_carve(a, region, cap);
    if (region->part_count >= count) {
        return RC_OK;
    }
    fresh = alpm_move_match(a, region);
    if (fresh > a->part_free_count || a->rows + region->part_count > a->tcam_max) {
        return RC_OK; /* no room to move in */
    }
    if (alpm_reserve(a, 2 * (size_t)region->part_count, fresh)) {
        return RC_NO_MEMORY;
    }
    a->gained = true;
    alpm_emit_barrier(out);
    alpm_move(a, region);
    alpm_emit_moves(a, out);
    return RC_OK;
}

/* `first`, the row above it, and what follows below that one. */
static size_t neighbourhood(const struct alpm *a, uint32_t first, size_t max,
                            uint32_t rows[])
{
    uint32_t top = alpm_row_above(a, first);
    size_t count = 0;

    rows[count++] = top;
    for (uint32_t n = first;
         n != ALPM_NONE && count < max && key_above(&a->row[top].key, &a->row[n].key);
         n = alpm_row_next(a, n, false)) {
        rows[count++] = n;
    }
    return count;
}

/* ---- after deletes ---- */

/* Where memory is out, rows stay as they are. */
static void join_row(struct alpm *a, uint32_t row, struct alpm_out *out)
{
    uint32_t rows[JOIN_ROWS];
    unsigned count = a->row[row].count;

    if (count == 0 && row) {
        rows[0] = alpm_row_above(a, row);
        rows[1] = row;
        (void)region_carve(a, rows, 2, a->b, out);
    } else if (count <= 3 * a->b / 8) {
        uint32_t first = row ? row : alpm_row_next(a, row, false);

        if (first != ALPM_NONE) {
            /* Some slots stay free, so that the next inserts do not split them again.
             */
            (void)region_carve(a, rows, neighbourhood(a, first, JOIN_ROWS, rows),
                               a->b - a->b / 8, out);
        }
    }
}

void alpm_join(struct alpm *a, struct alpm_out *out)
{
    const struct alpm_work *w = &a->work;

    for (size_t i = 0; i < w->touched_count; i++) {
        const struct alpm_touched *t = &w->touched[i];

        if (t->deletes && a->row[t->row].part) {
            join_row(a, t->row, out);
        }
    }
    if (a->rows == 1 && a->row[0].count == 0) {
        alpm_emit_barrier(out);
        alpm_emit_row(a, PHYS_DELETE, &a->row[0].key, PHYS_PART_NONE,
                      (struct alpm_value){ 0 }, out);
        out->cost->move_writes++;
        alpm_part_give(a, a->row[0].part);
        a->row[0].part = 0;
        a->rows = 0;
    }
}

/* ---- in the background ---- */

enum rc alpm_repack(struct alpm *a, uint32_t budget, alpm_sink *sink, void *ctx,
                    struct alpm_cost *cost, bool *ret_done)
{
    struct alpm_out out = { sink, ctx, cost, true };
    uint64_t stop = cost->move_writes + budget;
    uint64_t look = 32 * (uint64_t)budget / a->b + 1; /* rows */

    while (!a->settled && look && cost->move_writes <= stop) {
        uint32_t first = alpm_row_from(a, &a->cursor);
        uint32_t rows[ALPM_REGION_ROWS];
        struct alpm_key next;
        size_t count;

        if (first == 0) {
            first = alpm_row_next(a, 0, false);
        }
        if (first == ALPM_NONE) {
            a->settled = !a->gained;
            a->gained = false;
            a->cursor = (struct alpm_key){ 0 };
            look--;
            continue;
        }
        count = neighbourhood(a, first, ALPM_REGION_ROWS, rows);
        next = a->row[rows[count > STEP ? STEP : count - 1]].key;
        if (count <= STEP) {
            next.w2++; /* the key behind it: any longer one of the same string */
        }
        if (region_carve(a, rows, count, a->b, &out)) {
            return RC_NO_MEMORY;
        }
        a->cursor = next;
        look -= look < count ? look : count;
    }
    *ret_done = a->settled;
    return RC_OK;
}
