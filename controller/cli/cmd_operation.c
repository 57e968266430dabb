/* xgwctl tenant move, operation cancel: long work, with its progress. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_operation.h"
#include "controller/cli/cli_print.h"
#include "proto/rpc/program.h"

#define LOOK_MS 200

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

/* "op-0000000017: 4 of 6, steer: waits for …", in place where somebody looks on. */
static void print_progress(const json_t *o, bool is_terminal)
{
    long long number = json_integer_value(json_object_get(o, "step_number"));
    long long count = json_integer_value(json_object_get(o, "step_count"));

    fprintf(stderr, "%s%s: ", is_terminal ? "\r\033[K" : "", text_of(o, "id"));
    if (number <= count) { /* else it is on its way back */
        fprintf(stderr, "step %lld of %lld, ", number, count);
    }
    fprintf(stderr, "%s%s%s%s", text_of(o, "step"),
            text_of(o, "waits_for")[0] ? ": " : "", text_of(o, "waits_for"),
            is_terminal ? "" : "\n");
    fflush(stderr);
}

enum rc cli_follow_operation(const struct cli *cli, uint64_t wait_ms, json_t **o,
                             struct err *err)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
    uint64_t deadline_ms = wait_ms ? program_now_ms() + wait_ms : UINT64_MAX;
    bool is_terminal = isatty(STDERR_FILENO);
    char told[160] = "";

    while (strcmp(text_of(*o, "state"), "running") == 0) {
        struct buf path = BUF_INIT;
        struct cli_answer a = { 0 };
        char now[160];
        enum rc rc;

        snprintf(now, sizeof(now), "%s %s", text_of(*o, "step"),
                 text_of(*o, "waits_for"));
        if (strcmp(now, told) != 0) {
            print_progress(*o, is_terminal);
            memcpy(told, now, sizeof(told));
        }
        if (program_now_ms() >= deadline_ms) {
            return err_set(err, RC_TIMEOUT,
                           "operation %s goes on; look again with: xgwctl get "
                           "operation %s",
                           text_of(*o, "id"), text_of(*o, "id"));
        }
        nanosleep(&pause, NULL);
        buf_text(&path, "/v1/operations");
        cli_http_path(&path, text_of(*o, "id"));
        rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, err);
        buf_fini(&path);
        if (rc != RC_OK) {
            return rc;
        }
        json_decref(*o);
        *o = a.json;
    }
    if (is_terminal && told[0]) {
        fputs("\r\033[K", stderr);
    }
    return RC_OK;
}

enum cli_exit cli_print_operation_end(const struct cli *cli, const json_t *o)
{
    const char *state = text_of(o, "state");

    if (cli->settings.output != CLI_TABLE) {
        cli_print_json((json_t *)o, (enum cli_output)cli->settings.output);
    } else if (text_of(o, "cluster")[0]) {
        printf("%s: %s of cluster %s: %s%s%s\n", text_of(o, "id"), text_of(o, "kind"),
               text_of(o, "cluster"), state, text_of(o, "reason")[0] ? ": " : "",
               text_of(o, "reason"));
    } else {
        printf("%s: vni %lld: %s%s%s\n", text_of(o, "id"),
               (long long)json_integer_value(json_object_get(o, "vni")), state,
               text_of(o, "reason")[0] ? ": " : "", text_of(o, "reason"));
    }
    return strcmp(state, "undone") == 0 ? CLI_FAILED : CLI_OK;
}

static json_t *move_body(struct cli *cli, bool *ret_is_bad)
{
    const char *drain = cli_option(cli, "drain-ms");
    json_t *body = json_pack("{s:s}", "cluster", cli_option(cli, "to"));
    char *end = NULL;

    *ret_is_bad = false;
    if (drain) {
        long long ms = strtoll(drain, &end, 10);

        *ret_is_bad = end == drain || *end != '\0' || ms < 0;
        json_object_set_new(body, "drain_ms", json_integer(ms));
    }
    if (cli_option(cli, "ignore-steering")) {
        json_object_set_new(body, "ignore_steering", json_true());
    }
    return body;
}

enum cli_exit cmd_tenant_move(struct cli *cli)
{
    struct err err = { 0 };
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    enum cli_exit code;
    bool is_bad = false;
    json_t *body;
    enum rc rc;

    if (!cli_option(cli, "to")) {
        return cli_usage(cli, "--to CLUSTER is missing");
    }
    body = move_body(cli, &is_bad);
    if (is_bad) {
        json_decref(body);
        return cli_usage(cli, "--drain-ms: not a number of milliseconds");
    }
    buf_text(&path, "/v1/tenants");
    cli_http_path(&path, cli->args[0]);
    buf_text(&path, "/move");
    if (cli_option(cli, "dry-run")) {
        cli_http_query(&path, "dryRun", "true");
    }
    rc = cli_http_call(cli->http, "POST", buf_cstr(&path), body, &a, &err);
    buf_fini(&path);
    json_decref(body);
    if (rc == RC_OK && cli_option(cli, "dry-run")) {
        printf("vni %s may move to %s (dry run)\n", cli->args[0],
               cli_option(cli, "to"));
        json_decref(a.json);
        return CLI_OK;
    }
    if (rc == RC_OK && !cli_option(cli, "no-wait")) {
        rc = cli_follow_operation(cli, cli->settings.wait_ms, &a.json, &err);
    }
    code = rc == RC_OK ? cli_print_operation_end(cli, a.json) : cli_fail(&err);
    json_decref(a.json);
    return code;
}

enum cli_exit cmd_operation_cancel(struct cli *cli)
{
    struct err err = { 0 };
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    enum rc rc;

    buf_text(&path, "/v1/operations");
    cli_http_path(&path, cli->args[0]);
    buf_text(&path, "/cancel");
    rc = cli_http_call(cli->http, "POST", buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc == RC_OK) {
        rc = cli_follow_operation(cli, cli->settings.wait_ms, &a.json, &err);
    }
    if (rc != RC_OK) {
        json_decref(a.json);
        return cli_fail(&err);
    }
    printf("%s: %s: %s\n", cli->args[0], text_of(a.json, "state"),
           text_of(a.json, "reason"));
    json_decref(a.json);
    return CLI_OK;
}

enum cli_exit cmd_operation_proceed(struct cli *cli)
{
    struct err err = { 0 };
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    json_t *body;
    enum rc rc;

    if (!cli_option(cli, "without-consumers")) {
        return cli_usage(cli, "--without-consumers is missing");
    }
    if (!cli_option(cli, "reason")) {
        return cli_usage(cli, "--reason TEXT is missing");
    }
    body = json_pack("{s:b, s:s}", "without_consumers", 1, "reason",
                     cli_option(cli, "reason"));
    buf_text(&path, "/v1/operations");
    cli_http_path(&path, cli->args[0]);
    buf_text(&path, "/proceed");
    rc = cli_http_call(cli->http, "POST", buf_cstr(&path), body, &a, &err);
    buf_fini(&path);
    json_decref(body);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    printf("%s: goes on without consumers\n", cli->args[0]);
    json_decref(a.json);
    return CLI_OK;
}
