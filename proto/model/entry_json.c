/* Reads one entry from a JSON object. */
#include "proto/model/entry_fields.h"
#include "proto/model/json_scan.h"

static enum rc syntax(const struct json_scan *s, struct err *err)
{
    return err_field(err, RC_INVALID, "", "json_syntax", "column %td: %s",
                     s->p - s->start + 1, s->problem);
}

static enum rc read_flags(struct json_scan *s, struct fields *f, struct err *err)
{
    struct json_text text;

    if (!json_scan_take(s, '[')) {
        return err_field(err, RC_INVALID, "flags", "type",
                         "flags: not an array of strings");
    }
    if (json_scan_take(s, ']')) {
        return RC_OK;
    }
    do {
        enum rc rc;

        if (!json_scan_string(s, &text)) {
            return syntax(s, err);
        }
        rc = field_read_flag(text.p, text.len, &f->flags, err);
        if (rc != RC_OK) {
            return rc;
        }
    } while (json_scan_take(s, ','));
    return json_scan_expect(s, ']', "',' or ']' was expected") ? RC_OK : syntax(s, err);
}

static enum rc read_number(struct json_scan *s, struct fields *f, unsigned id,
                           struct err *err)
{
    struct json_text text = json_scan_number(s);

    if (text.len == 0) {
        return err_field(err, RC_INVALID, field_types[id].name, "type",
                         "%s: not a number", field_types[id].name);
    }
    return field_read_number(id, text.p, text.len, &f->number[id], err);
}

static enum rc read_text(struct json_scan *s, struct fields *f, unsigned id,
                         struct err *err)
{
    struct json_text text;

    if (!json_scan_take(s, '"')) {
        return err_field(err, RC_INVALID, field_types[id].name, "type",
                         "%s: not a string", field_types[id].name);
    }
    s->p--;
    if (!json_scan_string(s, &text)) {
        return syntax(s, err);
    }
    f->text[id].p = text.p;
    f->text[id].len = text.len;
    return RC_OK;
}

static enum rc read_field(struct json_scan *s, struct fields *f, struct err *err)
{
    struct json_text name;
    unsigned id;
    enum rc rc;

    if (!json_scan_string(s, &name)) {
        return syntax(s, err);
    }
    rc = field_begin(f, name.p, name.len, &id, err);
    if (rc != RC_OK) {
        return rc;
    }
    if (!json_scan_expect(s, ':', "':' was expected")) {
        return syntax(s, err);
    }
    switch (field_types[id].kind) {
    case KIND_NUMBER:
    case KIND_WIDE:
        return read_number(s, f, id, err);
    case KIND_FLAGS:
        return read_flags(s, f, err);
    default:
        return read_text(s, f, id, err);
    }
}

enum rc entry_parse_json(const char *line, size_t len, enum entry_op *ret_op,
                         struct entry *ret, struct err *err)
{
    char scratch[ENTRY_LINE_MAX];
    struct json_scan s = json_scan_of(line, len, scratch);
    struct fields f;

    if (len > ENTRY_LINE_MAX) {
        return err_field(err, RC_RANGE, "", "line_length", "longer than %d bytes",
                         ENTRY_LINE_MAX);
    }
    f.present = 0;
    f.flags = 0;
    if (!json_scan_expect(&s, '{', "'{' was expected")) {
        return syntax(&s, err);
    }
    if (!json_scan_take(&s, '}')) {
        do {
            enum rc rc = read_field(&s, &f, err);

            if (rc != RC_OK) {
                return rc;
            }
        } while (json_scan_take(&s, ','));
        if (!json_scan_expect(&s, '}', "',' or '}' was expected")) {
            return syntax(&s, err);
        }
    }
    if (!json_scan_end(&s)) {
        s.problem = "text after the object";
        return syntax(&s, err);
    }
    return fields_to_entry(&f, ret_op, ret, err);
}
