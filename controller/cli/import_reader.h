/*
 * import_reader - reads batches ahead, on a thread of its own.
 *
 * The thread fills a short queue and waits when it is full; the loop's thread takes
 * from it and is woken by a descriptor.  That thread touches the input and the queue,
 * nothing else.
 */
#pragma once

#include "controller/cli/import_input.h"

struct import_reader;

/* Starts to read at `line`.  Keeps `in` until import_reader_free().  Gives `*ret`. */
enum rc import_reader_new(const struct import_input *in, uint64_t line,
                          struct import_reader **ret, struct err *err);
/* Stops the thread and waits for it; null is fine. */
void import_reader_free(struct import_reader *r);

/* Readable when there may be something to take. */
int import_reader_fd(const struct import_reader *r);

enum import_read {
    IMPORT_READ_BATCH,   /* `*ret` was given, with its blob */
    IMPORT_READ_NOT_YET, /* wait for the descriptor */
    IMPORT_READ_END,
    IMPORT_READ_FAILED, /* `err` and `*ret_bad_line` say why (0: not about a line) */
};
enum import_read import_reader_take(struct import_reader *r, struct import_batch *ret,
                                    uint64_t *ret_bad_line, struct err *err);
