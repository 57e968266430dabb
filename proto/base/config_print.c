/* What a configuration table says to people, and the check of the table itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/config_value.h"

void config_print_value(const struct config_key *key, const void *values,
                        struct buf *to)
{
    const char *member = (const char *)values + key->offset;
    uint32_t number = 0;
    bool flag = false;

    switch (key->type) {
    case CONFIG_TYPE_BOOL:
        memcpy(&flag, member, sizeof(flag));
        buf_text(to, flag ? "true" : "false");
        break;
    case CONFIG_TYPE_U32:
        memcpy(&number, member, sizeof(number));
        buf_printf(to, "%u", number);
        break;
    case CONFIG_TYPE_DURATION:
        memcpy(&number, member, sizeof(number));
        config_duration_print(number, to);
        break;
    case CONFIG_TYPE_ENUM:
        memcpy(&number, member, sizeof(number));
        buf_text(to, key->choices[number]);
        break;
    default:
        buf_text(to, member);
        break;
    }
}

void config_print_values(const struct config_table *t, const void *values,
                         struct buf *to)
{
    for (size_t i = 0; i < t->count; i++) {
        buf_printf(to, "%s = ", t->keys[i].name);
        config_print_value(&t->keys[i], values, to);
        buf_text(to, "\n");
    }
}

/* "a number from 1 to 64 (threads); default 1; reloadable" */
static void print_facts(const struct config_key *key, struct buf *to)
{
    config_value_describe(key, to);
    if (!key->def) {
        buf_text(to, "; must be given");
    } else if (*key->def) {
        buf_printf(to, "; default %s", key->def);
    } else {
        buf_text(to, "; default none");
    }
    if (key->reloadable) {
        buf_text(to, "; reloadable");
    }
}

void config_print_help(const struct config_table *t, struct buf *to)
{
    buf_printf(to, "Usage: %s [--config FILE] [--KEY VALUE | --KEY=VALUE]…\n%s\n\n",
               t->program, t->summary);
    for (size_t i = 0; i < t->count; i++) {
        const struct config_key *key = &t->keys[i];

        buf_printf(to, "  --%s%s\n      %s\n      ", key->name,
                   key->type == CONFIG_TYPE_BOOL ? "" : " VALUE", key->what);
        print_facts(key, to);
        buf_text(to, "\n");
    }
    buf_text(to,
             "\n"
             "  --config FILE       read `key = value` lines; the command line wins\n"
             "  --print-config      print the effective values and exit\n"
             "  --print-sample      print a commented file with the defaults and exit\n"
             "  --print-reference   print this as Markdown and exit\n"
             "  --version, --help\n");
}

void config_print_sample(const struct config_table *t, struct buf *to)
{
    buf_printf(to, "# %s: %s\n# Made by `%s --print-sample`.\n", t->program, t->summary,
               t->program);
    for (size_t i = 0; i < t->count; i++) {
        const struct config_key *key = &t->keys[i];

        buf_printf(to, "\n# %s\n# Takes ", key->what);
        print_facts(key, to);
        buf_printf(to, ".\n#%s = %s\n", key->name, key->def ? key->def : "");
    }
}

void config_print_reference(const struct config_table *t, struct buf *to)
{
    buf_printf(to,
               "# %s: settings\n\n%s Made by `%s --print-reference`.\n\n"
               "| key | takes | default | reload | what it does |\n"
               "|---|---|---|---|---|\n",
               t->program, t->summary, t->program);
    for (size_t i = 0; i < t->count; i++) {
        const struct config_key *key = &t->keys[i];

        buf_printf(to, "| `%s` | ", key->name);
        config_value_describe(key, to);
        if (!key->def) {
            buf_text(to, " | must be given");
        } else if (*key->def) {
            buf_printf(to, " | `%s`", key->def);
        } else {
            buf_text(to, " | none");
        }
        buf_printf(to, " | %s | %s |\n", key->reloadable ? "yes" : "no", key->what);
    }
}

/* Prints to stdout; the exit code. */
static int show(void (*print)(const struct config_table *, struct buf *),
                const struct config_table *t)
{
    struct buf text = BUF_INIT;
    int bad;

    print(t, &text);
    bad = fputs(buf_cstr(&text), stdout) == EOF || fflush(stdout) == EOF;
    buf_fini(&text);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int show_values(const struct config_table *t, const void *values)
{
    struct buf text = BUF_INIT;
    int bad;

    config_print_values(t, values, &text);
    bad = fputs(buf_cstr(&text), stdout) == EOF || fflush(stdout) == EOF;
    buf_fini(&text);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

int config_start(const struct config_table *t, int argc, char *const *argv,
                 void *ret_values)
{
    enum config_action action;
    struct err err = { 0 };

    if (config_load(t, argc, argv, ret_values, &action, &err) != RC_OK) {
        fprintf(stderr, "%s: %s\nTry %s --help.\n", t->program, err.msg, t->program);
        return 2;
    }
    switch (action) {
    case CONFIG_HELP:
        return show(config_print_help, t);
    case CONFIG_SAMPLE:
        return show(config_print_sample, t);
    case CONFIG_REFERENCE:
        return show(config_print_reference, t);
    case CONFIG_VALUES:
        return show_values(t, ret_values);
    case CONFIG_VERSION:
        return printf("%s %s\n", t->program, XGW_VERSION) < 0;
    default:
        return -1;
    }
}

static size_t member_size(enum config_type type, size_t size)
{
    if (type == CONFIG_TYPE_BOOL) {
        return sizeof(bool);
    }
    return type == CONFIG_TYPE_TEXT || type == CONFIG_TYPE_PATH ? size
                                                                : sizeof(uint32_t);
}

static enum rc check_key(const struct config_table *t, size_t index, void *values,
                         struct err *err)
{
    const struct config_key *key = &t->keys[index];
    enum rc rc;

    if (!key->name || !key->name[0] ||
        key->name[strspn(key->name, "abcdefghijklmnopqrstuvwxyz0123456789-")] ||
        strcmp(key->name, "config") == 0) {
        return err_set(err, RC_BUG, "key %zu: name", index);
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(t->keys[i].name, key->name) == 0) {
            return err_set(err, RC_BUG, "%s: named twice", key->name);
        }
    }
    if (!key->what || !key->what[0] || key->what[strlen(key->what) - 1] != '.') {
        return err_set(err, RC_BUG, "%s: no sentence", key->name);
    }
    if (key->size != member_size(key->type, key->size) ||
        key->offset + key->size > t->values_size) {
        return err_set(err, RC_BUG, "%s: member of another type", key->name);
    }
    if ((key->type == CONFIG_TYPE_ENUM) != (key->choices != NULL) ||
        key->min > key->max) {
        return err_set(err, RC_BUG, "%s: choices or bounds", key->name);
    }
    rc = key->def ? config_value_set(key, key->def, values, err) : RC_OK;
    return rc ? err_wrap(err, rc, "%s: default", key->name) : RC_OK;
}

enum rc config_table_check(const struct config_table *t, struct err *err)
{
    void *values = calloc(1, t->values_size);
    enum rc rc = RC_OK;

    if (!values) {
        return err_set(err, RC_NO_MEMORY, "no memory");
    }
    if (t->count > CONFIG_KEYS_MAX) {
        rc = err_set(err, RC_BUG, "more than %d keys", CONFIG_KEYS_MAX);
    }
    for (size_t i = 0; rc == RC_OK && i < t->count; i++) {
        rc = check_key(t, i, values, err);
    }
    free(values);
    return rc;
}
