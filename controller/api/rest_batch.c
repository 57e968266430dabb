/* Entries as JSON: one in a body, many as lines. */
#include "controller/api/rest_internal.h"

#include "proto/model/batch.h"

#include <stdlib.h>
#include <string.h>

enum rc rest_entry_parse(json_t *json, enum entry_op *ret_op, struct entry *ret,
                         struct err *err)
{
    char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;
    enum rc rc = line ? entry_parse_json(line, strlen(line), ret_op, ret, err)
                      : err_set(err, RC_NO_MEMORY, "no memory");

    free(line);
    json_decref(json);
    return rc;
}

static enum rc read_lines(const char *text, size_t len, struct batch_writer *w,
                          uint64_t *ret_line, struct err *err)
{
    const char *end = text + len;

    for (uint64_t line = 1; text < end; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((newline ? newline : end) - text);
        enum entry_op op;
        struct entry e;
        enum rc rc;

        *ret_line = line;
        if (size == 0) {
            return err_field(err, RC_INVALID, "", "empty_line", "an empty line");
        }
        rc = entry_parse_json(text, size, &op, &e, err);
        if (rc != RC_OK) {
            return rc;
        }
        batch_add_entry(w, op, &e);
        if (w->entry_count > BATCH_MAX_ENTRIES ||
            batch_writer_bytes(w) > BATCH_MAX_BYTES) {
            return err_field(err, RC_RANGE, "", "batch_size",
                             "a batch has at most %d entries and %u packed bytes",
                             BATCH_MAX_ENTRIES, BATCH_MAX_BYTES);
        }
        if (!newline) {
            break;
        }
        text = newline + 1;
    }
    *ret_line = 0;
    if (w->entry_count == 0) {
        return err_field(err, RC_INVALID, "", "batch_size", "no entries");
    }
    return RC_OK;
}

enum rc rest_batch_read(const char *text, size_t len, struct blob **ret,
                        uint64_t *ret_line, struct err *err)
{
    struct batch_writer w;
    struct blob *ops;
    enum rc rc;

    batch_writer_init(&w);
    rc = read_lines(text, len, &w, ret_line, err);
    if (rc == RC_OK) {
        ops = batch_writer_finish(&w);
        rc = ops ? RC_OK : err_set(err, RC_NO_MEMORY, "no memory");
        *ret = ops ? ops : *ret;
    }
    batch_writer_fini(&w);
    return rc;
}
