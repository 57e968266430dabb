/*
 * import_lines - turns the text of an input into batches, and keeps count of lines.
 *
 * Lines are numbered from 1, blank ones and a CSV's header included; a batch says which
 * lines it covers, and the batches of an input follow each other without a gap.  A line
 * ends with LF or CRLF, the last one also with the end of the input; a byte order mark
 * in front is skipped.  Values only: the text is borrowed and nothing is printed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/model/batch.h"

enum import_format { IMPORT_NDJSON, IMPORT_CSV };

struct import_lines {
    const char *text;
    size_t len;
    size_t at;     /* offset of the next line */
    uint64_t line; /* its number */
    enum import_format format;
    struct entry_csv csv;
    bool has_header; /* CSV: it was read */
    struct batch_writer writer;
};

struct import_batch {
    struct blob *ops; /* one reference */
    uint64_t first_line;
    uint64_t next_line;
    size_t from; /* offsets of the text it was made of */
    size_t to;
    uint32_t entry_count;
};

void import_lines_init(struct import_lines *l, const char *text, size_t len,
                       enum import_format format);
void import_lines_fini(struct import_lines *l);

/* Goes to `line` from the start; 0 and 1 are the start.  RC_STALE when the input has
 * fewer lines; RC_INVALID for a CSV header that makes no sense, as of
 * import_lines_next(). */
enum rc import_lines_seek(struct import_lines *l, uint64_t line, uint64_t *ret_bad_line,
                          struct err *err);

/* The next batch: as many lines as fit.  Gives `ret->ops`; RC_OK with entry_count 0 at
 * the end (then ops is null).  A bad line: what entry_parse_json() says, its number in
 * `*ret_bad_line`, and nothing of the batch that it would be in. */
enum rc import_lines_next(struct import_lines *l, struct import_batch *ret,
                          uint64_t *ret_bad_line, struct err *err);

/* The line of entry `index` (0-based) of `b`, for answers that count entries. */
uint64_t import_lines_of_entry(const char *text, enum import_format format,
                               const struct import_batch *b, uint32_t index);
