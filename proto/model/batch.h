/*
 * batch - a packed list of changes: what an API call carries, the journal keeps, and a
 * session sends.
 *
 *   batch  := run*
 *   run    := op(1) table(1) vni(3) count(4) bytes(4) [bucket] row*
 *   bucket := depth(1) path(4)              only where op is REPLACE
 *   row    := key value (PUT, REPLACE) | key (DELETE), packed as entry.h says
 *
 * `bytes` counts the rows alone.  A PUT or DELETE run has at least one row; a DELETE
 * where the VNI is the key has no bytes at all, so it is always a run of one row.
 * Rows of a REPLACE lie in the bucket and their keys ascend.  Runs are applied in
 * order.  REPLACE says: of the rows whose key hash starts with `path` (4·depth bits;
 * depth 0 = all rows of the VNI), exactly these remain.  It occurs between controller
 * and agent only.
 *
 * An API batch holds at most BATCH_MAX_ENTRIES entries and BATCH_MAX_BYTES.
 */
#pragma once

#include "proto/base/blob.h"
#include "proto/model/entry.h"
#include "proto/model/entry_text.h"

#define BATCH_MAX_ENTRIES 10000
#define BATCH_MAX_BYTES   (1u << 20)
#define BATCH_RUN_HEADER  13

enum batch_op { BATCH_PUT = 1, BATCH_DELETE = 2, BATCH_REPLACE = 3 };

struct bucket {
    uint8_t depth; /* nibbles of the key hash, 0-8 */
    uint32_t path; /* in the top 4·depth bits; the rest zero */
};

struct batch_run {
    uint8_t op; /* enum batch_op */
    uint8_t table;
    uint32_t vni;
    uint32_t count; /* rows */
    struct bucket bucket;
    const uint8_t *rows; /* packed, `bytes` long; borrowed */
    uint32_t bytes;
};

/* Writing: entries of one (op, table, VNI) in a row join one run. */
struct batch_writer {
    struct buf buf;
    size_t run_at; /* offset of the open run's header */
    bool has_run;
    struct batch_run run; /* header of the open run */
    uint32_t entry_count;
};

void batch_writer_init(struct batch_writer *w);
void batch_writer_fini(struct batch_writer *w);
void batch_writer_reset(struct batch_writer *w); /* keeps the memory */
void batch_add_entry(struct batch_writer *w, enum entry_op op, const struct entry *e);
void batch_add_row(struct batch_writer *w, enum batch_op op, enum table_id table,
                   uint32_t vni, const struct row *row);
/* Whole packed rows at once; `bucket` only with BATCH_REPLACE, else null.  A REPLACE
 * run always stands alone, and may be empty. */
void batch_add_rows(struct batch_writer *w, enum batch_op op, enum table_id table,
                    uint32_t vni, const struct bucket *bucket, const uint8_t *rows,
                    uint32_t bytes, uint32_t count);
size_t batch_writer_bytes(const struct batch_writer *w);
/* Closes the open run and gives the bytes as a blob (one reference), null when memory
 * ran out; the writer is empty again. */
struct blob *batch_writer_finish(struct batch_writer *w);

/* Reading.  batch_next() fills `*run` and returns true; false at the end or at damage,
 * told apart by `r->failed`. */
struct batch_reader {
    struct reader in;
    bool failed;
};
struct batch_reader batch_reader_of(const void *bytes, size_t len);
bool batch_next(struct batch_reader *r, struct batch_run *run);

/* The rows of a run, in order; false at the end or at damage (`it->failed`). */
struct run_reader {
    struct reader in;
    uint8_t table;
    bool has_value;
    uint32_t left;
    bool failed;
};
struct run_reader run_reader_of(const struct batch_run *run);
bool run_next(struct run_reader *it, struct row *ret);

/* Walks everything and unpacks each row: RC_INVALID with the index of the first bad
 * entry in `*ret_index` and field and rule in `err`; counts entries.  Bytes from
 * outside pass this once before anything else touches them. */
enum rc batch_check(const void *bytes, size_t len, bool allow_replace,
                    uint32_t *ret_count, uint32_t *ret_index, struct err *err);
