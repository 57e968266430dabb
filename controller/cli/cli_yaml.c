#include "controller/cli/cli_yaml.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define KEY_MAX     128
#define INTEGER_MAX 18 /* digits; always fits an int64 */

struct anchor {
    char name[KEY_MAX];
    json_t *json; /* one reference */
};

struct reader {
    const char *name;
    yaml_parser_t parser;
    struct cli_yaml out;
    struct anchor anchors[CLI_YAML_ANCHORS];
    unsigned anchor_count;
    size_t nodes;
    size_t copied;
    char path[CLI_YAML_PATH];
    struct err *err;
    enum rc rc;
};

static json_t *fail(struct reader *r, size_t line, const char *rule, const char *what)
{
    if (r->rc == RC_OK) {
        r->rc = err_field(r->err, RC_INVALID, r->path, rule, "%s:%zu: %s", r->name,
                          line + 1, what);
    }
    return NULL;
}

static bool next_event(struct reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event)) {
        return true;
    }
    fail(r, r->parser.problem_mark.line, "yaml_syntax",
         r->parser.problem ? r->parser.problem : "no YAML");
    return false;
}

/* Adds ".name" or "[index]" to the path; returns its length before, to cut it back. */
static size_t descend(struct reader *r, const char *name, size_t index)
{
    size_t len = strlen(r->path);
    char *to = r->path + len;

    if (name) {
        snprintf(to, sizeof(r->path) - len, "%s%s", len ? "." : "", name);
    } else {
        snprintf(to, sizeof(r->path) - len, "[%zu]", index);
    }
    return len;
}

static bool count_nodes(struct reader *r, size_t n, size_t line)
{
    r->nodes += n;
    if (r->nodes > CLI_YAML_NODES_MAX) {
        fail(r, line, "yaml_limit", "too many values");
        return false;
    }
    return true;
}

/* ---- anchors and aliases ---- */

static void measure(const json_t *json, size_t *nodes, size_t *bytes)
{
    void *it;
    size_t i;
    json_t *item;

    *nodes += 1;
    *bytes += sizeof(json_t) + json_string_length(json);
    json_array_foreach(json, i, item)
    {
        measure(item, nodes, bytes);
    }
    for (it = json_object_iter((json_t *)json); it;
         it = json_object_iter_next((json_t *)json, it)) {
        *bytes += strlen(json_object_iter_key(it));
        measure(json_object_iter_value(it), nodes, bytes);
    }
}

static bool keep_anchor(struct reader *r, const char *name, json_t *json, size_t line)
{
    struct anchor *a = NULL;

    for (unsigned i = 0; i < r->anchor_count; i++) {
        if (strcmp(r->anchors[i].name, name) == 0) {
            a = &r->anchors[i]; /* YAML lets a later one replace it */
        }
    }
    if (!a && (r->anchor_count == CLI_YAML_ANCHORS || strlen(name) >= KEY_MAX)) {
        fail(r, line, "yaml_limit", "too many anchors, or one with too long a name");
        return false;
    }
    if (!a) {
        a = &r->anchors[r->anchor_count++];
        snprintf(a->name, sizeof(a->name), "%s", name);
    }
    json_decref(a->json);
    a->json = json_incref(json);
    return true;
}

static json_t *copy_of(struct reader *r, const char *name, size_t line)
{
    for (unsigned i = 0; i < r->anchor_count; i++) {
        size_t nodes = 0;
        size_t bytes = 0;

        if (strcmp(r->anchors[i].name, name) != 0) {
            continue;
        }
        measure(r->anchors[i].json, &nodes, &bytes);
        r->copied += bytes;
        if (r->copied > CLI_YAML_COPY_MAX) {
            return fail(r, line, "yaml_limit", "aliases unfold to too much");
        }
        return count_nodes(r, nodes, line) ? json_deep_copy(r->anchors[i].json) : NULL;
    }
    return fail(r, line, "yaml_alias", "an alias of nothing that stands before it");
}

static void drop_anchors(struct reader *r)
{
    while (r->anchor_count > 0) {
        json_decref(r->anchors[--r->anchor_count].json);
        r->anchors[r->anchor_count].json = NULL;
    }
}

/* ---- values ---- */

static bool is_integer(const char *text, size_t len)
{
    size_t sign = len > 0 && text[0] == '-';
    size_t digits = len - sign;

    if (digits == 0 || digits > INTEGER_MAX || (text[sign] == '0' && len > 1)) {
        return false;
    }
    for (size_t i = sign; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return true;
}

static json_t *read_scalar(struct reader *r, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    json_t *json;

    if (e->data.scalar.tag) {
        return fail(r, e->start_mark.line, "yaml_tag", "tags are not taken");
    }
    if (memchr(text, '\0', len)) {
        return fail(r, e->start_mark.line, "yaml_syntax", "a zero byte in a text");
    }
    if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        if (len == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0) {
            return json_null();
        }
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
            return json_boolean(text[0] == 't');
        }
        if (is_integer(text, len)) {
            return json_integer(strtoll(text, NULL, 10));
        }
    }
    json = json_stringn(text, len);
    return json ? json : fail(r, e->start_mark.line, "yaml_syntax", "no UTF-8");
}

static json_t *read_value(struct reader *r, yaml_event_t *e, unsigned depth);

static json_t *read_sequence(struct reader *r, unsigned depth)
{
    json_t *array = json_array();
    yaml_event_t e;

    for (size_t i = 0; r->rc == RC_OK && next_event(r, &e); i++) {
        size_t len;
        json_t *item;

        if (e.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&e);
            return array;
        }
        len = descend(r, NULL, i);
        item = read_value(r, &e, depth);
        r->path[len] = '\0';
        if (item && json_array_append_new(array, item) != 0) {
            r->rc = err_set(r->err, RC_NO_MEMORY, "no memory for YAML");
        }
    }
    json_decref(array);
    return NULL;
}

/* The text of a key in `key`; takes the event. */
static bool read_key(struct reader *r, yaml_event_t *e, const json_t *object, char *key)
{
    size_t line = e->start_mark.line;
    bool fits = e->type == YAML_SCALAR_EVENT && e->data.scalar.length < KEY_MAX &&
                e->data.scalar.length > 0 && !e->data.scalar.tag &&
                !memchr(e->data.scalar.value, '\0', e->data.scalar.length);

    if (fits) {
        memcpy(key, e->data.scalar.value, e->data.scalar.length + 1);
    }
    yaml_event_delete(e);
    if (!fits) {
        fail(r, line, "yaml_key", "a key that is no text of 1 to 127 bytes");
    } else if (json_object_get(object, key)) {
        char what[KEY_MAX + 32];

        snprintf(what, sizeof(what), "the key '%s' stands here twice", key);
        fail(r, line, "yaml_duplicate", what);
        fits = false;
    }
    return fits;
}

static json_t *read_mapping(struct reader *r, unsigned depth)
{
    json_t *object = json_object();
    char key[KEY_MAX];
    yaml_event_t e;

    while (r->rc == RC_OK && next_event(r, &e)) {
        size_t len;
        json_t *value;

        if (e.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&e);
            return object;
        }
        if (!read_key(r, &e, object, key) || !next_event(r, &e)) {
            break;
        }
        len = descend(r, key, 0);
        value = read_value(r, &e, depth);
        r->path[len] = '\0';
        if (value && json_object_set_new(object, key, value) != 0) {
            r->rc = err_set(r->err, RC_INVALID, "%s:%zu: a key that is no UTF-8",
                            r->name, r->parser.mark.line + 1);
        }
    }
    json_decref(object);
    return NULL;
}

/* The value that `e` begins, up to its end; takes the event. */
static json_t *read_value(struct reader *r, yaml_event_t *e, unsigned depth)
{
    size_t line = e->start_mark.line;
    const yaml_char_t *anchor = NULL;
    const yaml_char_t *tag = NULL;
    json_t *json = NULL;

    json_object_set_new(r->out.lines, r->path, json_integer((json_int_t)line + 1));
    if (!count_nodes(r, 1, line)) {
        yaml_event_delete(e);
        return NULL;
    }
    if (depth == CLI_YAML_DEPTH_MAX) {
        yaml_event_delete(e);
        return fail(r, line, "yaml_limit", "nested too deep");
    }
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        json = copy_of(r, (const char *)e->data.alias.anchor, line);
        break;
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        json = read_scalar(r, e);
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        json = tag ? fail(r, line, "yaml_tag", "tags are not taken")
                   : read_sequence(r, depth + 1);
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        json = tag ? fail(r, line, "yaml_tag", "tags are not taken")
                   : read_mapping(r, depth + 1);
        break;
    default:
        json = fail(r, line, "yaml_syntax", "no value");
    }
    if (json && anchor && !keep_anchor(r, (const char *)anchor, json, line)) {
        json_decref(json);
        json = NULL;
    }
    yaml_event_delete(e);
    return json;
}

static void read_stream(struct reader *r)
{
    yaml_event_t e;
    bool is_over = false;

    while (!is_over && r->rc == RC_OK && next_event(r, &e)) {
        is_over = e.type == YAML_STREAM_END_EVENT;
        if (e.type == YAML_SCALAR_EVENT || e.type == YAML_SEQUENCE_START_EVENT ||
            e.type == YAML_MAPPING_START_EVENT || e.type == YAML_ALIAS_EVENT) {
            json_t *value;

            descend(r, NULL, json_array_size(r->out.documents));
            value = read_value(r, &e, 0);
            r->path[0] = '\0';
            if (value && json_array_append_new(r->out.documents, value) != 0) {
                r->rc = err_set(r->err, RC_NO_MEMORY, "no memory for YAML");
            }
            drop_anchors(r);
        } else {
            yaml_event_delete(&e);
        }
    }
}

enum rc cli_yaml_read(const char *name, const char *text, size_t len,
                      struct cli_yaml *ret, struct err *err)
{
    struct reader r = { .name = name, .err = err };

    if (len > CLI_YAML_TEXT_MAX) {
        return err_field(err, RC_INVALID, "", "yaml_limit", "%s: larger than %u bytes",
                         name, CLI_YAML_TEXT_MAX);
    }
    r.out.documents = json_array();
    r.out.lines = json_object();
    if (!r.out.documents || !r.out.lines || !yaml_parser_initialize(&r.parser)) {
        cli_yaml_fini(&r.out);
        return err_set(err, RC_NO_MEMORY, "no memory for YAML");
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    read_stream(&r);
    drop_anchors(&r);
    yaml_parser_delete(&r.parser);
    if (r.rc != RC_OK) {
        cli_yaml_fini(&r.out);
        return r.rc;
    }
    *ret = r.out;
    return RC_OK;
}

void cli_yaml_fini(struct cli_yaml *y)
{
    json_decref(y->documents);
    json_decref(y->lines);
    y->documents = NULL;
    y->lines = NULL;
}

int cli_yaml_line(const struct cli_yaml *y, const char *path)
{
    char at[CLI_YAML_PATH];
    const json_t *line;

    snprintf(at, sizeof(at), "%s", path);
    while (!(line = json_object_get(y->lines, at)) && at[0]) {
        char *dot = strrchr(at, '.');
        char *bracket = strrchr(at, '[');

        *(dot && (!bracket || dot > bracket) ? dot : bracket ? bracket : at) = '\0';
    }
    return line ? (int)json_integer_value(line) : 1;
}
