#include "proto/model/name.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

enum rc name_check(const char *name, size_t max, const char *field, struct err *err)
{
    size_t len = strnlen(name, max + 1);

    if (len == 0 || len > max) {
        return err_field(err, RC_RANGE, field, "name_length",
                         "%s: a name has 1 to %zu characters", field, max);
    }
    for (size_t i = 0; i < len; i++) {
        if (i == 0 ? !is_letter(name[i]) : !is_name_char(name[i])) {
            return err_field(err, RC_INVALID, field, "name_syntax",
                             "%s: a name is letters, digits, '-', '.' and '_' and "
                             "starts with a letter",
                             field);
        }
    }
    return RC_OK;
}

/* Bytes of the printable UTF-8 character at `p`, 0 when it is none (RFC 3629: no
 * overlong forms, no surrogates, at most U+10FFFF; and no C0, DEL or C1 control). */
static size_t printable_size(const uint8_t *p, size_t avail)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint8_t c = p[0];
    size_t size = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    uint32_t v;

    if (size == 1) {
        return c >= 0x20 && c != 0x7f ? 1 : 0;
    }
    if (c < 0xc2 || c > 0xf4 || size > avail) {
        return 0;
    }
    v = c & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        v = v << 6 | (p[i] & 0x3f);
    }
    if (v < least[size] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff) || v < 0xa0) {
        return 0;
    }
    return size;
}

enum rc display_name_check(const char *name, size_t max, const char *field,
                           struct err *err)
{
    size_t len = strnlen(name, max + 1);
    size_t at = 0;

    if (len > max) {
        return err_field(err, RC_RANGE, field, "name_length",
                         "%s: a name has at most %zu bytes", field, max);
    }
    while (at < len) {
        size_t size = printable_size((const uint8_t *)name + at, len - at);

        if (size == 0) {
            return err_field(err, RC_INVALID, field, "name_text",
                             "%s: byte %zu is not printable UTF-8", field, at + 1);
        }
        at += size;
    }
    return RC_OK;
}
