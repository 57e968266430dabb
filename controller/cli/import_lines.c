#include "controller/cli/import_lines.h"

#include <string.h>

/* What one entry can add to a batch, in a run of its own. */
#define ENTRY_BYTES_MAX (BATCH_RUN_HEADER + ENTRY_KEY_MAX + ENTRY_VALUE_MAX)

/* One line, without its end. */
struct line {
    const char *p;
    size_t len;
    size_t next; /* offset behind it */
};

void import_lines_init(struct import_lines *l, const char *text, size_t len,
                       enum import_format format)
{
    static const char mark[] = { '\xef', '\xbb', '\xbf' }; /* U+FEFF in UTF-8 */

    memset(l, 0, sizeof(*l));
    l->text = text;
    l->len = len;
    l->line = 1;
    l->format = format;
    if (len >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0) {
        l->at = sizeof(mark);
    }
    batch_writer_init(&l->writer);
}

void import_lines_fini(struct import_lines *l)
{
    batch_writer_fini(&l->writer);
}

static struct line line_at(const char *text, size_t len, size_t at)
{
    const char *newline = memchr(text + at, '\n', len - at);
    struct line line = { .p = text + at };

    line.len = (newline ? (size_t)(newline - text) : len) - at;
    line.next = at + line.len + (newline != NULL);
    if (line.len > 0 && line.p[line.len - 1] == '\r') {
        line.len--;
    }
    return line;
}

static bool is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->len; i++) {
        if (line->p[i] != ' ' && line->p[i] != '\t') {
            return false;
        }
    }
    return true;
}

static void step(struct import_lines *l, const struct line *line)
{
    l->at = line->next;
    l->line++;
}

/* The first line that is not blank names the columns. */
static enum rc read_header(struct import_lines *l, uint64_t *ret_bad_line,
                           struct err *err)
{
    while (!l->has_header && l->at < l->len) {
        struct line line = line_at(l->text, l->len, l->at);

        if (!is_blank(&line)) {
            enum rc rc = entry_csv_header(&l->csv, line.p, line.len, err);

            if (rc != RC_OK) {
                *ret_bad_line = l->line;
                return rc;
            }
            l->has_header = true;
        }
        step(l, &line);
    }
    return RC_OK;
}

enum rc import_lines_seek(struct import_lines *l, uint64_t line, uint64_t *ret_bad_line,
                          struct err *err)
{
    enum rc rc =
        l->format == IMPORT_CSV && line > 1 ? read_header(l, ret_bad_line, err) : RC_OK;

    if (rc != RC_OK) {
        return rc;
    }
    while (l->line < line && l->at < l->len) {
        struct line skipped = line_at(l->text, l->len, l->at);

        step(l, &skipped);
    }
    if (l->line < line) {
        return err_set(err, RC_STALE,
                       "the controller has line %llu, the input ends "
                       "before",
                       (unsigned long long)line - 1);
    }
    return RC_OK;
}

static enum rc parse(const struct import_lines *l, const struct line *line,
                     enum entry_op *op, struct entry *e, struct err *err)
{
    return l->format == IMPORT_CSV
               ? entry_parse_csv(&l->csv, line->p, line->len, op, e, err)
               : entry_parse_json(line->p, line->len, op, e, err);
}

static bool has_room(const struct batch_writer *w)
{
    return w->entry_count < BATCH_MAX_ENTRIES &&
           batch_writer_bytes(w) + ENTRY_BYTES_MAX <= BATCH_MAX_BYTES;
}

static enum rc fill(struct import_lines *l, uint64_t *ret_bad_line, struct err *err)
{
    struct batch_writer *w = &l->writer;

    while (l->at < l->len && has_room(w)) {
        struct line line = line_at(l->text, l->len, l->at);

        if (!is_blank(&line)) {
            enum entry_op op;
            struct entry e;
            enum rc rc = parse(l, &line, &op, &e, err);

            if (rc != RC_OK) {
                *ret_bad_line = l->line;
                return rc;
            }
            batch_add_entry(w, op, &e);
        }
        step(l, &line);
    }
    return RC_OK;
}

enum rc import_lines_next(struct import_lines *l, struct import_batch *ret,
                          uint64_t *ret_bad_line, struct err *err)
{
    struct import_batch b = { .first_line = l->line, .from = l->at };
    enum rc rc = l->format == IMPORT_CSV && !l->has_header
                     ? read_header(l, ret_bad_line, err)
                     : RC_OK;

    batch_writer_reset(&l->writer);
    rc = rc == RC_OK ? fill(l, ret_bad_line, err) : rc;
    if (rc != RC_OK) {
        return rc;
    }
    b.next_line = l->line;
    b.to = l->at;
    b.entry_count = l->writer.entry_count;
    if (b.entry_count > 0) {
        b.ops = batch_writer_finish(&l->writer);
        if (!b.ops) {
            *ret_bad_line = b.first_line;
            return err_set(err, RC_NO_MEMORY, "no memory for a batch");
        }
    }
    *ret = b;
    return RC_OK;
}

uint64_t import_lines_of_entry(const char *text, enum import_format format,
                               const struct import_batch *b, uint32_t index)
{
    bool skip = format == IMPORT_CSV && b->first_line == 1; /* the header is no entry */
    uint64_t number = b->first_line;
    uint32_t seen = 0;

    for (size_t at = b->from; at < b->to; number++) {
        struct line line = line_at(text, b->to, at);

        if (!is_blank(&line)) {
            if (!skip && seen++ == index) {
                return number;
            }
            skip = false;
        }
        at = line.next;
    }
    return b->first_line;
}
