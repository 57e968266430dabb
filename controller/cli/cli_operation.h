/*
 * cli_operation - an operation, followed to its end.  Values only.
 */
#pragma once

#include <jansson.h>

#include "controller/cli/cli.h"
#include "proto/base/err.h"

/* Looks until it is over, or for so long (0: as long as it takes); each step and what
 * it waits for is told once, to stderr.  Takes `*o`, as the API gave it, and gives the
 * last look.  RC_TIMEOUT: it goes on. */
enum rc cli_follow_operation(const struct cli *cli, uint64_t wait_ms, json_t **o,
                             struct err *err);
/* Prints how it ended; CLI_FAILED where it is undone. */
enum cli_exit cli_print_operation_end(const struct cli *cli, const json_t *o);
