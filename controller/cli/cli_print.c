#include "controller/cli/cli_print.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COLUMNS_MAX 16
#define DEPTH_MAX   32
/* 0.1 is printed as 0.1, not as the nearest double. */
#define CLI_REAL_DIGITS 15

/* ---- tables ---- */

static const json_t *at_path(const json_t *item, const char *path)
{
    char name[64];
    size_t len = strcspn(path, ".");

    if (path[len] == '\0') {
        return json_object_get(item, path);
    }
    snprintf(name, sizeof(name), "%.*s", (int)len, path);
    return at_path(json_object_get(item, name), path + len + 1);
}

/* Control characters, of C1 too, would be obeyed by a terminal. */
static void add_safe(struct buf *to, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool is_c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;

        if (*p < 0x20 || *p == 0x7f || is_c1) {
            buf_u8(to, '?');
            p += is_c1;
        } else {
            buf_u8(to, *p);
        }
    }
}

/* "route 43.4 vm_nc 1.2": those that are not zero, in the order of the answer. */
static void add_numbers(const json_t *object, struct buf *to)
{
    bool any = false;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_number(value) && json_number_value(value) > 0) {
            buf_text(to, any ? " " : "");
            add_safe(to, key);
            buf_u8(to, ' ');
            cli_cell(value, to);
            any = true;
        }
    }
    buf_text(to, any ? "" : "-");
}

void cli_cell(const json_t *value, struct buf *to)
{
    const json_t *item;
    size_t i;

    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        add_safe(to, json_string_length(value) ? json_string_value(value) : "-");
        return;
    case JSON_INTEGER:
        buf_printf(to, "%lld", (long long)json_integer_value(value));
        return;
    case JSON_REAL:
        buf_printf(to, "%g", json_real_value(value));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        buf_text(to, json_is_true(value) ? "yes" : "no");
        return;
    case JSON_ARRAY:
        if (json_array_size(value) == 0 || json_is_object(json_array_get(value, 0))) {
            buf_printf(to, "%zu", json_array_size(value));
            return;
        }
        json_array_foreach(value, i, item)
        {
            buf_text(to, i > 0 ? "," : "");
            cli_cell(item, to);
        }
        return;
    case JSON_OBJECT:
        add_numbers(value, to);
        return;
    default:
        buf_text(to, "-");
    }
}

/* Characters on a terminal; close enough: bytes that begin one. */
static size_t width(const char *text)
{
    size_t n = 0;

    for (; *text; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static size_t cell_width(const json_t *item, const struct cli_column *c,
                         struct buf *scratch)
{
    buf_reset(scratch);
    cli_cell(at_path(item, c->path), scratch);
    return width(buf_cstr(scratch));
}

static void add_padded(struct buf *to, const char *text, size_t wide, bool is_last)
{
    buf_text(to, text);
    if (is_last) {
        buf_text(to, "\n");
        return;
    }
    for (size_t n = width(text); n < wide + 2; n++) {
        buf_u8(to, ' ');
    }
}

void cli_table(const json_t *items, const struct cli_column *columns, struct buf *to)
{
    size_t wide[COLUMNS_MAX] = { 0 };
    struct buf cell = BUF_INIT;
    unsigned count = 0;
    const json_t *item;
    size_t i;

    for (; columns[count].title; count++) {
        wide[count] = width(columns[count].title);
    }
    json_array_foreach(items, i, item)
    {
        for (unsigned c = 0; c < count; c++) {
            size_t n = cell_width(item, &columns[c], &cell);

            wide[c] = n > wide[c] ? n : wide[c];
        }
    }
    for (unsigned c = 0; c < count; c++) {
        add_padded(to, columns[c].title, wide[c], c + 1 == count);
    }
    json_array_foreach(items, i, item)
    {
        for (unsigned c = 0; c < count; c++) {
            cell_width(item, &columns[c], &cell);
            add_padded(to, buf_cstr(&cell), wide[c], c + 1 == count);
        }
    }
    buf_fini(&cell);
}

/* ---- YAML ---- */

/* Words that some reader of YAML takes for something else than text. */
static bool is_reserved(const char *text)
{
    static const char *const words[] = { "true", "false", "null", "yes", "no",
                                         "on",   "off",   "y",    "n",   NULL };

    for (unsigned i = 0; words[i]; i++) {
        if (strcasecmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_plain(const char *text)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char rest[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-./";

    return text[0] && strchr(first, text[0]) && text[strspn(text, rest)] == '\0' &&
           !is_reserved(text);
}

/* One character of valid UTF-8; returns its bytes. */
static size_t decode(const unsigned char *p, uint32_t *ret)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++) {
        c = c << 6 | (p[i] & 0x3f);
    }
    *ret = c;
    return n;
}

/* Raw where YAML 1.2 (5.1) takes it and no reader breaks a line at it. */
static bool is_printable(uint32_t c)
{
    return (c >= 0x20 && c < 0x7f) || (c >= 0xa0 && c != 0x2028 && c != 0x2029 &&
                                       c != 0xfeff && c != 0xfffe && c != 0xffff);
}

static void yaml_string(const json_t *json, struct buf *to)
{
    const unsigned char *p = (const unsigned char *)json_string_value(json);
    const unsigned char *end = p + json_string_length(json);
    uint32_t c;

    if (is_plain((const char *)p)) {
        buf_text(to, (const char *)p);
        return;
    }
    buf_text(to, "\"");
    for (size_t n; p < end; p += n) {
        n = decode(p, &c);
        if (c == '"' || c == '\\') {
            buf_printf(to, "\\%c", (int)c);
        } else if (c == '\n') {
            buf_text(to, "\\n");
        } else if (is_printable(c)) {
            buf_add(to, p, n);
        } else {
            buf_printf(to, "\\u%04X", c);
        }
    }
    buf_text(to, "\"");
}

static void indent(struct buf *to, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++) {
        buf_text(to, "  ");
    }
}

static bool is_block(const json_t *json)
{
    return (json_is_object(json) && json_object_size(json) > 0) ||
           (json_is_array(json) && json_array_size(json) > 0);
}

static void yaml_value(const json_t *json, unsigned depth, bool is_inline,
                       struct buf *to);

static void yaml_key(const char *key, struct buf *to)
{
    json_t *text = json_string(key);

    if (text) {
        yaml_string(text, to);
    }
    json_decref(text);
    buf_text(to, ":");
}

static void yaml_object(const json_t *json, unsigned depth, bool is_inline,
                        struct buf *to)
{
    void *it = json_object_iter((json_t *)json);

    for (; it; it = json_object_iter_next((json_t *)json, it)) {
        const json_t *value = json_object_iter_value(it);

        if (!is_inline) {
            indent(to, depth);
        }
        is_inline = false;
        yaml_key(json_object_iter_key(it), to);
        buf_text(to, is_block(value) ? "\n" : " ");
        yaml_value(value, depth + 1, false, to);
    }
}

static void yaml_array(const json_t *json, unsigned depth, bool is_inline,
                       struct buf *to)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json, i, item)
    {
        if (!is_inline) {
            indent(to, depth);
        }
        is_inline = false;
        buf_text(to, "- ");
        yaml_value(item, depth + 1, true, to);
    }
}

/* `is_inline`: the first line goes on behind a "- ". */
static void yaml_value(const json_t *json, unsigned depth, bool is_inline,
                       struct buf *to)
{
    if (is_block(json) && depth > DEPTH_MAX) {
        buf_text(to, "null\n");
    } else if (is_block(json) && json_is_object(json)) {
        yaml_object(json, depth, is_inline, to);
    } else if (is_block(json)) {
        yaml_array(json, depth, is_inline, to);
    } else if (json_is_string(json)) {
        yaml_string(json, to);
        buf_text(to, "\n");
    } else {
        char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT |
                                          JSON_REAL_PRECISION(CLI_REAL_DIGITS));

        buf_printf(to, "%s\n", text ? text : "null");
        free(text);
    }
}

void cli_yaml_print(const json_t *json, struct buf *to)
{
    yaml_value(json, 0, false, to);
}

void cli_print_buf(struct buf *text)
{
    fwrite(buf_cstr(text), 1, strlen(buf_cstr(text)), stdout);
    buf_fini(text);
}

json_t *cli_amount(double value)
{
    static const char suffixes[] = " kMGTP";
    unsigned at = 0;

    while (value >= 1000 && suffixes[at + 1]) {
        value /= 1000;
        at++;
    }
    return at == 0 ? json_sprintf("%.0f", value)
                   : json_sprintf("%.1f %c", value, suffixes[at]);
}

void cli_print_json(const json_t *json, enum cli_output output)
{
    struct buf text = BUF_INIT;

    if (output == CLI_JSON) {
        json_dumpf(json, stdout,
                   JSON_INDENT(2) | JSON_ENCODE_ANY |
                       JSON_REAL_PRECISION(CLI_REAL_DIGITS));
        fputc('\n', stdout);
        return;
    }
    cli_yaml_print(json, &text);
    cli_print_buf(&text);
}
