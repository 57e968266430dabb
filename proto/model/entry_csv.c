/* Reads entries from CSV (RFC 4180): a header, then one entry a line. */
#include <string.h>

#include "proto/model/entry_fields.h"

_Static_assert(FIELD_COUNT <= sizeof(((struct entry_csv *)0)->column),
               "a column for every field");

struct cells {
    const char *p;
    const char *end;
    bool more; /* a cell follows, maybe an empty one */
    char *scratch;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct cells cells_of(const char *line, size_t len, char *scratch)
{
    while (len > 0 && is_space(line[len - 1])) {
        len--;
    }
    return (struct cells){ .p = line, .end = line + len, .more = true, scratch };
}

/* A cell in quotes; a quote inside is written twice. */
static bool quoted_cell(struct cells *c, struct field_text *ret)
{
    char *to = c->scratch;

    ret->p = to;
    for (c->p++; c->p < c->end; c->p++) {
        if (*c->p != '"') {
            *to++ = *c->p;
        } else if (c->p + 1 < c->end && c->p[1] == '"') {
            *to++ = *c->p++;
        } else {
            break;
        }
    }
    if (c->p == c->end) {
        return false;
    }
    c->p++;
    ret->len = (uint32_t)(to - c->scratch);
    c->scratch = to;
    return c->p == c->end || *c->p == ',';
}

static bool plain_cell(struct cells *c, struct field_text *ret)
{
    ret->p = c->p;
    while (c->p < c->end && *c->p != ',') {
        if (*c->p == '"') {
            return false;
        }
        c->p++;
    }
    ret->len = (uint32_t)(c->p - ret->p);
    return true;
}

/* The next cell; RC_INVALID when its quotes are wrong. */
static enum rc next_cell(struct cells *c, struct field_text *ret, struct err *err)
{
    bool ok = c->p < c->end && *c->p == '"' ? quoted_cell(c, ret) : plain_cell(c, ret);

    if (!ok) {
        return err_field(err, RC_INVALID, "", "csv_syntax",
                         "a quote that neither opens nor closes a cell");
    }
    c->more = c->p < c->end;
    c->p += c->more; /* the comma */
    return RC_OK;
}

static enum rc check_length(size_t len, struct err *err)
{
    if (len > ENTRY_LINE_MAX) {
        return err_field(err, RC_RANGE, "", "line_length", "longer than %d bytes",
                         ENTRY_LINE_MAX);
    }
    return RC_OK;
}

enum rc entry_csv_header(struct entry_csv *csv, const char *line, size_t len,
                         struct err *err)
{
    char scratch[ENTRY_LINE_MAX];
    struct entry_csv got = { 0 };
    struct fields f = { .present = 0 };
    struct cells c;
    enum rc rc = check_length(len, err);

    if (rc != RC_OK) {
        return rc;
    }
    if (len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3; /* spreadsheets write a byte order mark */
        len -= 3;
    }
    c = cells_of(line, len, scratch);
    while (c.more) {
        struct field_text name;
        unsigned id;

        rc = next_cell(&c, &name, err);
        if (rc == RC_OK) {
            rc = field_begin(&f, name.p, name.len, &id, err);
        }
        if (rc != RC_OK) {
            return rc;
        }
        got.column[got.column_count++] = (uint8_t)id;
    }
    rc = field_require(&f, FIELD_TABLE, err);
    rc = rc ? rc : field_require(&f, FIELD_VNI, err);
    if (rc == RC_OK) {
        *csv = got;
    }
    return rc;
}

static enum rc read_flags(const struct field_text *cell, uint8_t *flags,
                          struct err *err)
{
    const char *p = cell->p;
    const char *end = cell->p + cell->len;

    for (;;) {
        const char *bar = memchr(p, '|', (size_t)(end - p));
        const char *stop = bar ? bar : end;
        enum rc rc = field_read_flag(p, (size_t)(stop - p), flags, err);

        if (rc != RC_OK || !bar) {
            return rc;
        }
        p = bar + 1;
    }
}

static enum rc read_cell(struct fields *f, unsigned id, const struct field_text *cell,
                         struct err *err)
{
    if (cell->len == 0) {
        return RC_OK; /* an absent field */
    }
    f->present |= 1u << id;
    switch (field_types[id].kind) {
    case KIND_NUMBER:
    case KIND_WIDE:
        return field_read_number(id, cell->p, cell->len, &f->number[id], err);
    case KIND_FLAGS:
        return read_flags(cell, &f->flags, err);
    default:
        f->text[id] = *cell;
        return RC_OK;
    }
}

enum rc entry_parse_csv(const struct entry_csv *csv, const char *line, size_t len,
                        enum entry_op *ret_op, struct entry *ret, struct err *err)
{
    char scratch[ENTRY_LINE_MAX];
    struct fields f;
    struct cells c;
    unsigned at = 0;
    enum rc rc = check_length(len, err);

    if (rc != RC_OK) {
        return rc;
    }
    f.present = 0;
    f.flags = 0;
    c = cells_of(line, len, scratch);
    while (c.more && at < csv->column_count) {
        struct field_text cell = { .len = 0 };

        rc = next_cell(&c, &cell, err);
        if (rc == RC_OK) {
            rc = read_cell(&f, csv->column[at++], &cell, err);
        }
        if (rc != RC_OK) {
            return rc;
        }
    }
    if (c.more || at != csv->column_count) {
        return err_field(err, RC_INVALID, "", "column_count",
                         "not the %u cells that the header has", csv->column_count);
    }
    return fields_to_entry(&f, ret_op, ret, err);
}
