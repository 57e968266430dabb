/*
 * import_input - an input file as one run of bytes, and its name for the controller.
 *
 * A file is mapped; a pipe is spooled to a nameless temporary file first, since the
 * digest of the whole comes before the first batch.  One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "controller/cli/import_lines.h"

#define IMPORT_DIGEST_SIZE 16

struct import_input {
    const char *name; /* as messages say it */
    const char *text; /* "" when empty */
    size_t len;
    void *map; /* null when empty */
    enum import_format format;
};

/* "-" is stdin.  `format` null: by the name's end or the first byte.  Borrows `path`.
 */
enum rc import_input_open(struct import_input *in, const char *path, const char *format,
                          struct err *err);
void import_input_close(struct import_input *in);

/* XXH3-128 of the input with the number of the run as seed, big-endian.  Run 0 is the
 * plain digest; each --restart is the next run, so that it can be resumed too. */
void import_input_digest(const struct import_input *in, uint64_t run,
                         uint8_t ret[IMPORT_DIGEST_SIZE]);
