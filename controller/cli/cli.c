#include "controller/cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cli_option(const struct cli *cli, const char *name)
{
    const struct cli_option *o = cli->command->options;

    for (unsigned i = 0; o && o[i].name; i++) {
        if (strcmp(o[i].name, name) == 0) {
            return cli->options[i];
        }
    }
    return NULL;
}

enum cli_exit cli_exit_of(enum rc rc)
{
    switch (rc) {
    case RC_OK:
        return CLI_OK;
    case RC_NOT_FOUND:
        return CLI_NOT_FOUND;
    case RC_INVALID:
    case RC_RANGE:
    case RC_EXISTS:
    case RC_CONFLICT:
    case RC_FULL:
    case RC_STALE:
        return CLI_REFUSED;
    case RC_DENIED:
        return CLI_DENIED;
    case RC_UNREACHABLE:
    case RC_TIMEOUT:
        return CLI_UNREACHABLE;
    default:
        return CLI_FAILED;
    }
}

enum cli_exit cli_fail(const struct err *err)
{
    bool names_field = err->field[0] && !strstr(err->msg, err->field);

    fprintf(stderr, "xgwctl: %s", err->msg);
    if (names_field || err->rule[0]) {
        fprintf(stderr, " (%s%s%s%s%s)", names_field ? "field " : "",
                names_field ? err->field : "", names_field && err->rule[0] ? ", " : "",
                err->rule[0] ? "rule " : "", err->rule);
    }
    fputc('\n', stderr);
    return cli_exit_of(err->code);
}

enum cli_exit cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "xgwctl %s: ", cli->command->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "; see xgwctl %s --help\n", cli->command->name);
    return CLI_USAGE;
}
