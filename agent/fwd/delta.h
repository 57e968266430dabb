/*
 * delta - in what two sets of rows of one (VNI, table) differ, in key order.
 *
 * Pages that both sets share are skipped whole, so a small change of a large VNI costs
 * its pages, not its rows.  Borrows both sets; allocates nothing.
 */
#pragma once

#include <stdbool.h>

#include "proto/model/rows.h"

/* One set, row by row. */
struct row_cursor {
    const struct rows *rows;
    const uint8_t *p;
    const uint8_t *end;
    uint32_t page; /* next page to open */
    uint8_t table;
    bool has_row;
    bool failed; /* bytes that are no row: stops */
    struct row row;
};

struct row_cursor row_cursor_of(const struct rows *rows, enum table_id table);
/* Steps to the next row; false at the end. */
bool row_cursor_next(struct row_cursor *c);

struct delta {
    struct row_cursor before;
    struct row_cursor after;
    bool started;
};

/* A key that stands in one set alone, or in both with different values. */
struct delta_step {
    struct row before; /* key null: it was not there */
    struct row after;  /* key null: it is not there any more */
};

struct delta delta_of(const struct rows *before, const struct rows *after,
                      enum table_id table);
bool delta_next(struct delta *d, struct delta_step *ret);
