/*
 * records - what was written into one physical table, as the control thread reads it
 * back: a row for each entry, found by key and told in a stable order.
 *
 * A row keeps its place while it stands, so a read-back that goes on after other
 * writes tells every row that stood throughout exactly once.  Two entries of a table
 * with priorities may have the same key and mask; they are neighbours in the index.
 *
 * The packet path never looks here.  The control thread only.
 */
#pragma once

#include "agent/xgwh/phys.h"

#define HRECORDS_NONE UINT32_MAX

struct hrecords {
    const struct phys_table_desc *desc;
    uint8_t *rows;
    uint32_t *index; /* row + 1, or 0; open addressing */
    uint32_t index_mask;
    uint32_t limit; /* rows */
    uint32_t top;   /* rows from here on were never used */
    uint32_t free;  /* a free row + 1, which holds the next one; 0 ends */
    uint32_t count;
    uint16_t stride;
    uint8_t data_len;
    uint8_t table;
};

/* Address space for `limit` rows.  Returns 0, or -1 when that is refused. */
int hrecords_init(struct hrecords *r, enum phys_table table, uint32_t limit);
void hrecords_fini(struct hrecords *r);

/* The row of this key, mask and priority, or HRECORDS_NONE. */
uint32_t hrecords_find(const struct hrecords *r, const struct phys_entry *e);

/* Of the rows with this key and mask but for row `but`, that of the highest priority,
 * or HRECORDS_NONE. */
uint32_t hrecords_best(const struct hrecords *r, const struct phys_entry *e,
                       uint32_t but);

/* Asks for the memory where hrecords_find() will look. */
void hrecords_prefetch(const struct hrecords *r, const struct phys_entry *e);

/* Room in the index for one more; it grows to twice its size, so that a table of few
 * rows has a small one.  False: memory is out. */
bool hrecords_reserve(struct hrecords *r);
/* Adds an entry that is not there; there is room and hrecords_reserve() said so.  Gives
 * its row. */
uint32_t hrecords_add(struct hrecords *r, const struct phys_entry *e);
/* Writes action and data over those of a row. */
void hrecords_set(struct hrecords *r, uint32_t row, const struct phys_entry *e);
void hrecords_remove(struct hrecords *r, uint32_t row);

/* Fills `ret` (but for its half) from a row; false where it is free. */
bool hrecords_get(const struct hrecords *r, uint32_t row, struct phys_entry *ret);
