/*
 * rows - the rows of one VNI in one table: an immutable, sorted, reference-counted set.
 *
 * An edit makes a new set that shares every untouched page with the old one, so a
 * snapshot costs a pointer, undo is keeping the old pointer, and store, memory, sync
 * and digest all read the same bytes.  Null is the empty set.  Small sets (one page)
 * are one allocation.  Counting is atomic: any thread may hold and read a set; only
 * edits of the same lineage need one thread.
 */
#pragma once

#include "proto/model/batch.h"

struct rows; /* opaque: rows.c */

#define ROWS_PAGE_BYTES 8192 /* a page splits above this; a guess */

struct rows *rows_ref(struct rows *r);
void rows_unref(struct rows *r);

uint32_t rows_count(const struct rows *r);
uint64_t rows_digest(const struct rows *r); /* sum of row_digest() modulo 2^64 */
size_t rows_bytes(const struct rows *r);    /* packed bytes of all rows */
size_t rows_memory(const struct rows *r);   /* heap bytes, pages counted whole */

bool rows_find(const struct rows *r, enum table_id table, const uint8_t *key,
               uint8_t key_len, struct row *ret);

/* In key order.  Valid while the caller holds a reference. */
struct rows_iter {
    const struct rows *rows;
    uint32_t page;
    const uint8_t *p;
    const uint8_t *end;
    uint8_t table;
};
struct rows_iter rows_begin(const struct rows *r, enum table_id table);
/* Starts at the first key >= `key`. */
struct rows_iter rows_seek(const struct rows *r, enum table_id table,
                           const uint8_t *key, uint8_t key_len);
bool rows_next(struct rows_iter *it, struct row *ret);

/* Pages, for the store and for packing: packed sorted rows, shared and immutable. */
uint32_t rows_page_count(const struct rows *r);
struct rows_page {
    const void *identity; /* same pointer in two sets = same bytes */
    const uint8_t *data;
    uint32_t bytes;
    uint32_t count;
};
struct rows_page rows_page_at(const struct rows *r, uint32_t index);

/* What an edit did. */
struct rows_change {
    uint32_t added;
    uint32_t changed;
    uint32_t deleted;
    uint32_t unchanged; /* puts of what stood there, deletes of what did not */
};

/* One step of an edit; a null row.value deletes. */
struct rows_step {
    struct row row;
};

/* Applies `count` steps in order (of two with one key the later wins) to `old`, which
 * it borrows, and gives the new set in `*ret` (null when empty).  The steps' bytes are
 * copied.  An edit that changes nothing gives another reference to `old`.
 * RC_NO_MEMORY leaves all as it was. */
enum rc rows_edit(const struct rows *old, enum table_id table, uint32_t vni,
                  struct rows_step *steps, uint32_t count, struct rows **ret,
                  struct rows_change *ret_change);

/* Builds from packed rows that are sorted and unique already (a stored page, a
 * read-back).  RC_INVALID when they are not. */
enum rc rows_load(enum table_id table, uint32_t vni, const uint8_t *bytes, uint32_t len,
                  const struct rows *append_to, struct rows **ret);

/* Steps that turn `have` into `want` within `bucket`: puts of what is missing or
 * different first, then deletes of what is extra.  Appends runs to `to`; both sets are
 * borrowed.  Returns the number of steps. */
uint32_t rows_diff(const struct rows *have, const struct rows *want,
                   enum table_id table, uint32_t vni, struct bucket bucket,
                   struct batch_writer *to);

/* Digest and count of the 16 children of `bucket`, on demand: O(rows). */
struct digest {
    uint64_t sum;
    uint64_t count;
};
void rows_bucket_digests(const struct rows *r, enum table_id table, uint32_t vni,
                         struct bucket bucket, struct digest ret[16]);
/* The same in pieces: adds up to `*rows` more, which counts down.  True: the end. */
bool rows_bucket_digests_on(struct rows_iter *it, uint32_t vni, struct bucket bucket,
                            uint32_t *rows, struct digest io[16]);
/* Appends the rows of one bucket, packed and in order, to `to`; returns their count. */
uint32_t rows_bucket_pack(const struct rows *r, enum table_id table,
                          struct bucket bucket, struct buf *to);
