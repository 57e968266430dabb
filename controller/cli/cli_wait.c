#include "controller/cli/cli_wait.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_print.h"
#include "proto/rpc/program.h"

#define LOOK_MS 100

/* A node's `applied` follows only changes of its own group: what counts is that it
 * holds what it should, at a time when the controller had reached the revision. */
static bool has_it(json_t *node, uint64_t revision)
{
    json_t *status = json_object_get(node, "status");
    const char *state = json_string_value(json_object_get(status, "state"));

    return !state || strcmp(state, "online") != 0 ||
           json_is_true(json_object_get(status, "in_sync")) ||
           (uint64_t)json_integer_value(json_object_get(status, "applied")) >= revision;
}

/* The names of the nodes that are waited for, in `missing`. */
static enum rc look(const struct cli *cli, uint64_t revision, struct buf *missing,
                    struct err *err)
{
    json_t *nodes = NULL;
    json_t *node;
    size_t i;
    enum rc rc = cli_http_list(cli->http, "/v1/nodes", 0, &nodes, err);

    buf_reset(missing);
    json_array_foreach(nodes, i, node)
    {
        if (!has_it(node, revision)) {
            buf_printf(missing, "%s%s", missing->len ? ", " : "",
                       json_string_value(json_object_get(node, "name")));
        }
    }
    json_decref(nodes);
    return rc;
}

enum cli_exit cli_wait_applied(const struct cli *cli, uint64_t revision)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
    uint64_t deadline_ms = program_now_ms() + cli->settings.wait_ms;
    struct buf missing = BUF_INIT;
    struct err err = { 0 };
    enum cli_exit code = CLI_OK;

    for (;;) {
        if (look(cli, revision, &missing, &err) != RC_OK) {
            code = cli_fail(&err);
            break;
        }
        if (missing.len == 0) {
            break;
        }
        if (program_now_ms() >= deadline_ms) {
            fprintf(stderr, "xgwctl: not applied within %u ms by: %s\n",
                    cli->settings.wait_ms, buf_cstr(&missing));
            code = CLI_NOT_APPLIED;
            break;
        }
        nanosleep(&pause, NULL);
    }
    buf_fini(&missing);
    return code;
}

enum cli_exit cli_change_exit(const struct cli *cli, const json_t *answer)
{
    const char *state = json_string_value(json_object_get(answer, "state"));
    struct buf missing = BUF_INIT;

    if (cli->settings.wait != CLI_WAIT_APPLIED || cli_option(cli, "dry-run") ||
        !state || strcmp(state, "pending") != 0) {
        return CLI_OK;
    }
    cli_cell(json_object_get(answer, "missing"), &missing);
    fprintf(stderr, "xgwctl: not applied within %u ms by: %s\n", cli->settings.wait_ms,
            buf_cstr(&missing));
    buf_fini(&missing);
    return CLI_NOT_APPLIED;
}
