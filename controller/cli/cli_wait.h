/* cli_wait - waits until the nodes have applied a revision, for changes whose call does
 * not wait by itself (an import). */
#pragma once

#include <jansson.h>

#include "controller/cli/cli.h"

/* Looks at /v1/nodes until each online node has applied `revision` or more, at most
 * --wait-ms.  CLI_NOT_APPLIED names those that have not, on stderr. */
enum cli_exit cli_wait_applied(const struct cli *cli, uint64_t revision);

/* What the answer to a change means: CLI_NOT_APPLIED, with the missing nodes on stderr,
 * when --wait=applied was asked for and it ended before. */
enum cli_exit cli_change_exit(const struct cli *cli, const json_t *answer);
