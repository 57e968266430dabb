#include "proto/model/json_scan.h"

#include <string.h>

struct json_scan json_scan_of(const char *text, size_t len, char *scratch)
{
    return (struct json_scan){
        .start = text, .p = text, .end = text + len, .scratch = scratch
    };
}

static void skip_space(struct json_scan *s)
{
    while (s->p < s->end &&
           (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\n')) {
        s->p++;
    }
}

bool json_scan_take(struct json_scan *s, char c)
{
    skip_space(s);
    if (s->p < s->end && *s->p == c) {
        s->p++;
        return true;
    }
    return false;
}

bool json_scan_expect(struct json_scan *s, char c, const char *problem)
{
    if (!json_scan_take(s, c)) {
        s->problem = problem;
        return false;
    }
    return true;
}

bool json_scan_end(struct json_scan *s)
{
    skip_space(s);
    return s->p == s->end;
}

struct json_text json_scan_number(struct json_scan *s)
{
    struct json_text ret;

    skip_space(s);
    ret.p = s->p;
    while (s->p < s->end && ((*s->p >= '0' && *s->p <= '9') || *s->p == '-' ||
                             *s->p == '+' || *s->p == '.' || (*s->p | 0x20) == 'e')) {
        s->p++;
    }
    ret.len = (uint32_t)(s->p - ret.p);
    return ret;
}

static bool read_hex4(struct json_scan *s, uint32_t *ret)
{
    uint32_t v = 0;

    if (s->end - s->p < 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        char c = *s->p++;

        if (c >= '0' && c <= '9') {
            v = v << 4 | (uint32_t)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        } else {
            return false;
        }
    }
    *ret = v;
    return true;
}

/* \uXXXX, or the pair of them that stands for a character above U+FFFF (RFC 8259,
 * section 7).  A lone surrogate is refused: it has no UTF-8 form. */
static bool read_code_point(struct json_scan *s, uint32_t *ret)
{
    uint32_t high;
    uint32_t low;

    if (!read_hex4(s, &high) || (high >= 0xdc00 && high <= 0xdfff)) {
        return false;
    }
    if (high < 0xd800 || high > 0xdbff) {
        *ret = high;
        return true;
    }
    if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u') {
        return false;
    }
    s->p += 2;
    if (!read_hex4(s, &low) || low < 0xdc00 || low > 0xdfff) {
        return false;
    }
    *ret = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* At most 4 bytes; never more than the escape had. */
static char *put_utf8(char *to, uint32_t v)
{
    if (v < 0x80) {
        *to++ = (char)v;
        return to;
    }
    if (v < 0x800) {
        *to++ = (char)(0xc0 | v >> 6);
    } else {
        if (v < 0x10000) {
            *to++ = (char)(0xe0 | v >> 12);
        } else {
            *to++ = (char)(0xf0 | v >> 18);
            *to++ = (char)(0x80 | (v >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (v >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (v & 0x3f));
    return to;
}

/* Reads what follows a backslash and writes what it means; null when it means nothing.
 */
static char *read_escape(struct json_scan *s, char *to)
{
    static const char plain[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const char *at;
    uint32_t code_point;

    if (s->p == s->end) {
        return NULL;
    }
    if (*s->p == 'u') {
        s->p++;
        return read_code_point(s, &code_point) ? put_utf8(to, code_point) : NULL;
    }
    at = memchr(plain, *s->p, sizeof(plain) - 1);
    if (!at) {
        return NULL;
    }
    s->p++;
    *to = meant[at - plain];
    return to + 1;
}

/* The slow way, from the first backslash on: what came before is copied. */
static bool read_escaped(struct json_scan *s, const char *start, struct json_text *ret)
{
    char *to = s->scratch;

    memcpy(to, start, (size_t)(s->p - start));
    to += s->p - start;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20) {
            s->problem = "a control character in a string";
            return false;
        }
        if (*s->p != '\\') {
            *to++ = *s->p++;
            continue;
        }
        s->p++;
        to = read_escape(s, to);
        if (!to) {
            s->problem = "an escape that RFC 8259 does not know";
            return false;
        }
    }
    if (s->p == s->end) {
        s->problem = "a string without its closing quote";
        return false;
    }
    s->p++;
    ret->p = s->scratch;
    ret->len = (uint32_t)(to - s->scratch);
    s->scratch = to;
    return true;
}

bool json_scan_string(struct json_scan *s, struct json_text *ret)
{
    const char *start;

    if (!json_scan_expect(s, '"', "a string was expected")) {
        return false;
    }
    start = s->p;
    while (s->p < s->end && *s->p != '"') {
        if (*s->p == '\\') {
            return read_escaped(s, start, ret);
        }
        if ((unsigned char)*s->p < 0x20) {
            s->problem = "a control character in a string";
            return false;
        }
        s->p++;
    }
    if (s->p == s->end) {
        s->problem = "a string without its closing quote";
        return false;
    }
    ret->p = start;
    ret->len = (uint32_t)(s->p - start);
    s->p++;
    return true;
}
