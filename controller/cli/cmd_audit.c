/* xgwctl audit: what nodes really hold, held against what they should. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_print.h"
#include "proto/rpc/program.h"

#define LOOK_MS 200

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

static long long number_of(const json_t *json, const char *key)
{
    return (long long)json_integer_value(json_object_get(json, key));
}

/* Looks until it is done; gives the last look, with what differs by name. */
static enum rc follow(const struct cli *cli, const char *id, uint64_t deadline_ms,
                      json_t **ret, struct err *err)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };

    for (;;) {
        struct buf path = BUF_INIT;
        struct cli_answer a = { 0 };
        enum rc rc;

        buf_text(&path, "/v1/audits");
        cli_http_path(&path, id);
        rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, err);
        buf_fini(&path);
        if (rc != RC_OK) {
            return rc;
        }
        if (strcmp(text_of(a.json, "state"), "done") == 0) {
            *ret = a.json;
            return RC_OK;
        }
        json_decref(a.json);
        if (program_now_ms() >= deadline_ms) {
            return err_set(err, RC_TIMEOUT,
                           "audit %s goes on; look again with: xgwctl get audit %s", id,
                           id);
        }
        nanosleep(&pause, NULL);
    }
}

static void print_side(const char *what, const json_t *entry)
{
    char *text = json_is_null(entry) ? NULL : json_dumps(entry, JSON_COMPACT);

    if (text) {
        printf("    %-8s %s\n", what, text);
    }
    free(text);
}

static void print_audit(const json_t *a)
{
    json_t *d;
    size_t i;

    printf("%s: %s: %s%s%s (%lld missing, %lld extra, %lld different; read in %lld "
           "ms)\n",
           text_of(a, "id"), text_of(a, "node"), text_of(a, "result"),
           text_of(a, "reason")[0] ? ": " : "", text_of(a, "reason"),
           number_of(a, "missing"), number_of(a, "extra"), number_of(a, "different"),
           number_of(a, "read_ms"));
    json_array_foreach(json_object_get(a, "differences"), i, d)
    {
        printf("  %s %s vni %lld\n", text_of(d, "kind"), text_of(d, "table"),
               number_of(d, "vni"));
        print_side("expected", json_object_get(d, "expected"));
        print_side("found", json_object_get(d, "found"));
    }
}

static enum cli_exit follow_all(const struct cli *cli, const json_t *items,
                                struct err *err)
{
    uint64_t deadline_ms = program_now_ms() + cli->settings.wait_ms;
    json_t *done = json_array();
    enum cli_exit code = CLI_OK;
    json_t *item;
    size_t i;

    json_array_foreach(items, i, item)
    {
        json_t *last = NULL;

        if (follow(cli, text_of(item, "id"), deadline_ms, &last, err) != RC_OK) {
            json_decref(done);
            return cli_fail(err);
        }
        if (cli->settings.output == CLI_TABLE) {
            print_audit(last);
        }
        if (strcmp(text_of(last, "result"), "differs") == 0 ||
            strcmp(text_of(last, "result"), "failed") == 0) {
            code = CLI_FAILED;
        }
        json_array_append_new(done, last);
    }
    if (cli->settings.output != CLI_TABLE) {
        cli_print_json(done, (enum cli_output)cli->settings.output);
    }
    json_decref(done);
    return code;
}

enum cli_exit cmd_audit(struct cli *cli)
{
    static const char *const names[] = { "cluster", "node" };
    const char *vni = cli_option(cli, "vni");
    json_t *body = json_object();
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    enum cli_exit code;
    char *end = NULL;
    enum rc rc;

    for (unsigned i = 0; i < 2; i++) {
        if (cli_option(cli, names[i])) {
            json_object_set_new(body, names[i], json_string(cli_option(cli, names[i])));
        }
    }
    if (vni) {
        long long n = strtoll(vni, &end, 10);

        if (end == vni || *end != '\0') {
            json_decref(body);
            return cli_usage(cli, "--vni: not a number");
        }
        json_object_set_new(body, "vni", json_integer(n));
    }
    if (cli_option(cli, "report")) {
        json_object_set_new(body, "repair", json_false());
    }
    rc = cli_http_call(cli->http, "POST", "/v1/audits", body, &a, &err);
    json_decref(body);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    if (cli_option(cli, "no-wait")) {
        cli_print_json(a.json, cli->settings.output == CLI_TABLE
                                   ? CLI_JSON
                                   : (enum cli_output)cli->settings.output);
        json_decref(a.json);
        return CLI_OK;
    }
    code = follow_all(cli, json_object_get(a.json, "items"), &err);
    json_decref(a.json);
    return code;
}
