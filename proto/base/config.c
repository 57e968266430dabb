#include "proto/base/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/config_value.h"

/* A load under way. */
struct loading {
    const struct config_table *table;
    void *values;
    bool by_file[CONFIG_KEYS_MAX];
    bool by_line[CONFIG_KEYS_MAX]; /* the command line */
};

static const struct config_key *find_key(const struct config_table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->keys[i].name, name) == 0) {
            return &t->keys[i];
        }
    }
    return NULL;
}

/* Sets one key once per source. */
static enum rc set_once(struct loading *l, bool *seen, const char *name,
                        const char *text, struct err *err)
{
    const struct config_key *key = find_key(l->table, name);
    size_t index;

    if (!key) {
        return err_field(err, RC_INVALID, name, "unknown_key", "no such setting");
    }
    index = (size_t)(key - l->table->keys);
    if (seen[index]) {
        return err_field(err, RC_INVALID, name, "repeated_key", "given twice");
    }
    seen[index] = true;
    return config_value_set(key, text, l->values, err);
}

/* Without the spaces around it; ends it with a zero. */
static char *trim(char *p, char *end)
{
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) {
        end--;
    }
    *end = '\0';
    return p;
}

static enum rc read_line(struct loading *l, const char *text, size_t len,
                         struct err *err)
{
    char line[CONFIG_LINE_MAX + 1];
    char *start;
    char *equals;
    const char *name;
    enum rc rc;

    if (len > CONFIG_LINE_MAX) {
        return err_field(err, RC_RANGE, "", "line_length", "longer than %d bytes",
                         CONFIG_LINE_MAX);
    }
    if (memchr(text, 0, len)) {
        return err_field(err, RC_INVALID, "", "text_printable", "has a zero byte");
    }
    memcpy(line, text, len);
    start = trim(line, line + len);
    if (*start == '\0' || *start == '#') {
        return RC_OK;
    }
    equals = strchr(start, '=');
    if (!equals) {
        return err_field(err, RC_INVALID, "", "line_syntax", "not `key = value`");
    }
    len = strlen(equals + 1);
    name = trim(start, equals);
    rc = set_once(l, l->by_file, name, trim(equals + 1, equals + 1 + len), err);
    return rc ? err_wrap(err, rc, "%s", name) : RC_OK;
}

static enum rc read_text(struct loading *l, const char *name, const char *text,
                         size_t len, struct err *err)
{
    const char *end = text + len;
    unsigned number = 1;

    for (const char *p = text; p < end; number++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        enum rc rc = read_line(l, p, (size_t)(stop - p), err);

        if (rc != RC_OK) {
            return err_wrap(err, rc, "%s:%u", name, number);
        }
        p = stop + 1;
    }
    return RC_OK;
}

static enum rc read_file(struct loading *l, const char *path, struct err *err)
{
    FILE *file = fopen(path, "rbe");
    char *text;
    size_t len;
    enum rc rc;

    if (!file) {
        return err_field(err, errno == ENOENT ? RC_NOT_FOUND : RC_INVALID, "config",
                         "file", "%s: %s", path, strerror(errno));
    }
    text = malloc(CONFIG_FILE_MAX + 1);
    if (!text) {
        fclose(file);
        return err_set(err, RC_NO_MEMORY, "%s: no memory", path);
    }
    len = fread(text, 1, CONFIG_FILE_MAX + 1, file);
    if (ferror(file)) {
        rc = err_field(err, RC_INVALID, "config", "file", "%s: cannot be read", path);
    } else if (len > CONFIG_FILE_MAX) {
        rc = err_field(err, RC_RANGE, "config", "file", "%s: larger than %u bytes",
                       path, CONFIG_FILE_MAX);
    } else {
        rc = read_text(l, path, text, len, err);
    }
    free(text);
    fclose(file);
    return rc;
}

static int find_action(const char *arg)
{
    static const struct {
        const char *arg;
        enum config_action action;
    } actions[] = {
        { "--help", CONFIG_HELP },           { "-h", CONFIG_HELP },
        { "--version", CONFIG_VERSION },     { "--print-config", CONFIG_VALUES },
        { "--print-sample", CONFIG_SAMPLE }, { "--print-reference", CONFIG_REFERENCE },
    };

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(actions[i].arg, arg) == 0) {
            return (int)actions[i].action;
        }
    }
    return -1;
}

/* One argument of the command line, its value maybe in the next one. */
struct argument {
    char name[64];
    const char *value;
};

static enum rc read_argument(const struct config_table *t, int argc, char *const *argv,
                             int *at, struct argument *ret, struct err *err)
{
    const char *arg = argv[*at];
    const char *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct config_key *key;

    if (strncmp(arg, "--", 2) != 0 || len < 3) {
        return err_field(err, RC_INVALID, "", "argument", "'%s': not --KEY", arg);
    }
    if (len - 2 >= sizeof(ret->name)) {
        return err_field(err, RC_INVALID, "", "unknown_key", "%s: no such setting",
                         arg);
    }
    memcpy(ret->name, arg + 2, len - 2);
    ret->name[len - 2] = '\0';
    key = find_key(t, ret->name);
    if (!key && strcmp(ret->name, "config") != 0) {
        return err_field(err, RC_INVALID, ret->name, "unknown_key",
                         "--%s: no such setting", ret->name);
    }
    if (equals) {
        ret->value = equals + 1;
    } else if (key && key->type == CONFIG_TYPE_BOOL) {
        ret->value = "true";
    } else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0) {
        ret->value = argv[++*at];
    } else {
        return err_field(err, RC_INVALID, ret->name, "argument", "--%s: needs a value",
                         ret->name);
    }
    return RC_OK;
}

static enum rc read_arguments(struct loading *l, int argc, char *const *argv,
                              const char **ret_file, enum config_action *ret_action,
                              struct err *err)
{
    for (int i = 1; i < argc; i++) {
        int action = find_action(argv[i]);
        struct argument a = { .value = NULL };
        enum rc rc;

        if (action >= 0) {
            *ret_action = (enum config_action)action;
            continue;
        }
        rc = read_argument(l->table, argc, argv, &i, &a, err);
        if (rc != RC_OK) {
            return rc;
        }
        if (strcmp(a.name, "config") != 0) {
            rc = set_once(l, l->by_line, a.name, a.value, err);
        } else if (*ret_file) {
            rc = err_field(err, RC_INVALID, "config", "repeated_key", "given twice");
        } else {
            *ret_file = a.value;
        }
        if (rc != RC_OK) {
            return err_wrap(err, rc, "--%s", a.name);
        }
    }
    return RC_OK;
}

static void set_defaults(const struct config_table *t, void *values)
{
    memset(values, 0, t->values_size);
    for (size_t i = 0; i < t->count; i++) {
        if (t->keys[i].def) { /* config_table_check() says that it fits */
            (void)config_value_set(&t->keys[i], t->keys[i].def, values, NULL);
        }
    }
}

static enum rc check_complete(const struct loading *l, struct err *err)
{
    const struct config_table *t = l->table;

    for (size_t i = 0; i < t->count; i++) {
        if (!t->keys[i].def && !l->by_file[i] && !l->by_line[i]) {
            return err_field(err, RC_INVALID, t->keys[i].name, "required",
                             "%s: must be given, in the file or as --%s",
                             t->keys[i].name, t->keys[i].name);
        }
    }
    return t->check ? t->check(l->values, err) : RC_OK;
}

enum rc config_parse(const struct config_table *t, const char *name, const char *text,
                     size_t len, void *ret_values, struct err *err)
{
    struct loading l = { .table = t, .values = malloc(t->values_size) };
    enum rc rc;

    if (!l.values) {
        return err_set(err, RC_NO_MEMORY, "%s: no memory", name);
    }
    set_defaults(t, l.values);
    rc = read_text(&l, name, text, len, err);
    rc = rc ? rc : check_complete(&l, err);
    if (rc == RC_OK) {
        memcpy(ret_values, l.values, t->values_size);
    }
    free(l.values);
    return rc;
}

/* Twice over the command line: it names the file, and it wins over the file. */
static enum rc load(struct loading *l, int argc, char *const *argv,
                    enum config_action *action, struct err *err)
{
    const char *file = NULL;
    const char *again = NULL;
    enum rc rc;

    set_defaults(l->table, l->values);
    rc = read_arguments(l, argc, argv, &file, action, err);
    if (rc != RC_OK || (*action != CONFIG_RUN && *action != CONFIG_VALUES)) {
        return rc;
    }
    if (file) {
        rc = read_file(l, file, err);
        if (rc != RC_OK) {
            return rc;
        }
        memset(l->by_line, 0, sizeof(l->by_line));
        rc = read_arguments(l, argc, argv, &again, action, err);
    }
    return rc ? rc : check_complete(l, err);
}

enum rc config_load(const struct config_table *t, int argc, char *const *argv,
                    void *ret_values, enum config_action *ret_action, struct err *err)
{
    struct loading l = { .table = t, .values = malloc(t->values_size) };
    enum config_action action = CONFIG_RUN;
    enum rc rc;

    if (!l.values) {
        return err_set(err, RC_NO_MEMORY, "configuration: no memory");
    }
    rc = load(&l, argc, argv, &action, err);
    if (rc == RC_OK) {
        memcpy(ret_values, l.values, t->values_size);
        *ret_action = action;
    }
    free(l.values);
    return rc;
}

enum rc config_check_reload(const struct config_table *t, const void *before,
                            const void *after, struct buf *changes, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < t->count; i++) {
        const struct config_key *key = &t->keys[i];

        if (memcmp((const char *)before + key->offset,
                   (const char *)after + key->offset, key->size) == 0) {
            continue;
        }
        if (!key->reloadable && rc == RC_OK) {
            rc = err_field(err, RC_CONFLICT, key->name, "reloadable",
                           "%s: a change needs a restart", key->name);
        }
        if (changes) {
            buf_printf(changes, "%s: ", key->name);
            config_print_value(key, before, changes);
            buf_text(changes, " -> ");
            config_print_value(key, after, changes);
            buf_text(changes, "\n");
        }
    }
    return rc;
}
