#include "proto/base/config_value.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t ms;
} duration_units[] = {
    { "h", 3600000 },
    { "m", 60000 },
    { "s", 1000 },
    { "ms", 1 },
};

enum { UNIT_COUNT = sizeof(duration_units) / sizeof(duration_units[0]) };

/* Decimal digits without leading zero; null when there are none.  Values past
 * UINT32_MAX stop growing. */
static const char *read_digits(const char *p, uint64_t *ret)
{
    const char *start = p;
    uint64_t v = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (v <= UINT32_MAX) {
            v = v * 10 + (uint64_t)(*p - '0');
        }
    }
    *ret = v;
    return p == start || (*start == '0' && p - start > 1) ? NULL : p;
}

static enum rc refuse(const struct config_key *key, enum rc rc, const char *rule,
                      struct err *err)
{
    struct buf wanted = BUF_INIT;

    config_value_describe(key, &wanted);
    err_field(err, rc, key->name, rule, "not %s", buf_cstr(&wanted));
    buf_fini(&wanted);
    return rc;
}

static enum rc set_number(const struct config_key *key, uint64_t v, void *member,
                          struct err *err)
{
    uint32_t number = (uint32_t)v;

    if (v < key->min || v > key->max) {
        return refuse(key, RC_RANGE, "bounds", err);
    }
    memcpy(member, &number, sizeof(number));
    return RC_OK;
}

static enum rc set_u32(const struct config_key *key, const char *text, void *member,
                       struct err *err)
{
    uint64_t v;
    const char *end = read_digits(text, &v);

    if (!end || *end) {
        return refuse(key, RC_INVALID, "number", err);
    }
    return set_number(key, v, member, err);
}

static enum rc set_duration(const struct config_key *key, const char *text,
                            void *member, struct err *err)
{
    uint64_t v;
    const char *end = read_digits(text, &v);

    for (int i = 0; end && i < UNIT_COUNT; i++) {
        if (strcmp(end, duration_units[i].name) == 0) {
            return set_number(key, v * duration_units[i].ms, member, err);
        }
    }
    return refuse(key, RC_INVALID, "duration", err);
}

static enum rc set_bool(const struct config_key *key, const char *text, void *member,
                        struct err *err)
{
    bool v = strcmp(text, "true") == 0;

    if (!v && strcmp(text, "false") != 0) {
        return refuse(key, RC_INVALID, "bool", err);
    }
    memcpy(member, &v, sizeof(v));
    return RC_OK;
}

static enum rc set_enum(const struct config_key *key, const char *text, void *member,
                        struct err *err)
{
    for (uint32_t i = 0; key->choices[i]; i++) {
        if (strcmp(key->choices[i], text) == 0) {
            memcpy(member, &i, sizeof(i));
            return RC_OK;
        }
    }
    return refuse(key, RC_INVALID, "choice", err);
}

static enum rc set_text(const struct config_key *key, const char *text, void *member,
                        struct err *err)
{
    size_t len = strlen(text);

    if (len >= key->size) {
        return err_field(err, RC_RANGE, key->name, "text_length",
                         "longer than %zu bytes", key->size - 1);
    }
    if (len == 0 && (!key->def || *key->def)) {
        return err_field(err, RC_INVALID, key->name, "text_empty", "empty");
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return err_field(err, RC_INVALID, key->name, "text_printable",
                             "has a control character");
        }
    }
    memset(member, 0, key->size); /* so that equal values are equal bytes */
    memcpy(member, text, len);
    return RC_OK;
}

enum rc config_value_set(const struct config_key *key, const char *text, void *values,
                         struct err *err)
{
    void *member = (char *)values + key->offset;

    switch (key->type) {
    case CONFIG_TYPE_BOOL:
        return set_bool(key, text, member, err);
    case CONFIG_TYPE_U32:
        return set_u32(key, text, member, err);
    case CONFIG_TYPE_DURATION:
        return set_duration(key, text, member, err);
    case CONFIG_TYPE_ENUM:
        return set_enum(key, text, member, err);
    default:
        return set_text(key, text, member, err);
    }
}

void config_duration_print(uint32_t ms, struct buf *to)
{
    int i = ms == 0 ? UNIT_COUNT - 1 : 0;

    while (ms % duration_units[i].ms != 0) {
        i++;
    }
    buf_printf(to, "%u%s", ms / duration_units[i].ms, duration_units[i].name);
}

void config_value_describe(const struct config_key *key, struct buf *to)
{
    switch (key->type) {
    case CONFIG_TYPE_BOOL:
        buf_text(to, "true or false");
        break;
    case CONFIG_TYPE_U32:
        buf_printf(to, "a number from %u to %u", key->min, key->max);
        if (key->unit) {
            buf_printf(to, " (%s)", key->unit);
        }
        break;
    case CONFIG_TYPE_DURATION:
        buf_text(to, "a duration (ms, s, m, h) from ");
        config_duration_print(key->min, to);
        buf_text(to, " to ");
        config_duration_print(key->max, to);
        break;
    case CONFIG_TYPE_ENUM:
        buf_text(to, "one of ");
        for (int i = 0; key->choices[i]; i++) {
            buf_printf(to, "%s%s", i ? ", " : "", key->choices[i]);
        }
        break;
    case CONFIG_TYPE_PATH:
        buf_printf(to, "a path of at most %zu bytes", key->size - 1);
        break;
    default:
        buf_printf(to, "a text of at most %zu bytes", key->size - 1);
        break;
    }
}
