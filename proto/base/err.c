#include "proto/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const rc_names[] = {
    [RC_OK] = "ok",           [RC_INVALID] = "invalid",
    [RC_RANGE] = "range",     [RC_NOT_FOUND] = "not_found",
    [RC_EXISTS] = "exists",   [RC_CONFLICT] = "conflict",
    [RC_DENIED] = "denied",   [RC_FULL] = "full",
    [RC_STALE] = "stale",     [RC_UNREACHABLE] = "unreachable",
    [RC_TIMEOUT] = "timeout", [RC_NO_MEMORY] = "no_memory",
    [RC_BUG] = "bug",
};

/* A cut message is still a message: truncation is not an error here. */
static void format(char *to, size_t size, const char *fmt, va_list args)
{
    if (vsnprintf(to, size, fmt, args) < 0) {
        to[0] = '\0';
    }
}

enum rc err_set(struct err *err, enum rc code, const char *fmt, ...)
{
    va_list args;

    if (err) {
        err->code = code;
        err->rule[0] = '\0';
        err->field[0] = '\0';
        va_start(args, fmt);
        format(err->msg, sizeof(err->msg), fmt, args);
        va_end(args);
    }
    return code;
}

enum rc err_field(struct err *err, enum rc code, const char *field, const char *rule,
                  const char *fmt, ...)
{
    va_list args;

    if (err) {
        err->code = code;
        snprintf(err->rule, sizeof(err->rule), "%s", rule);
        snprintf(err->field, sizeof(err->field), "%s", field);
        va_start(args, fmt);
        format(err->msg, sizeof(err->msg), fmt, args);
        va_end(args);
    }
    return code;
}

enum rc err_wrap(struct err *err, enum rc code, const char *fmt, ...)
{
    char context[sizeof(err->msg)];
    char inner[sizeof(err->msg)];
    va_list args;

    if (!err) {
        return code;
    }
    va_start(args, fmt);
    format(context, sizeof(context), fmt, args);
    va_end(args);
    memcpy(inner, err->msg, sizeof(inner));
    if (snprintf(err->msg, sizeof(err->msg), "%s: %s", context, inner) < 0) {
        err->msg[0] = '\0';
    }
    return err->code;
}

const char *rc_name(enum rc code)
{
    if ((unsigned)code >= sizeof(rc_names) / sizeof(rc_names[0])) {
        return "unknown";
    }
    return rc_names[code];
}
