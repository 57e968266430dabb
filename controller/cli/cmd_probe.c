/* xgwctl probe: what nodes make of packets, held against what their entries say. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* ---- looking on ---- */

/* On a terminal, over and over in one line. */
static void print_progress(const json_t *p)
{
    static const char clear_line[] = "\r\033[K";

    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (strcmp(text_of(p, "state"), "done") == 0) {
        fputs(clear_line, stderr);
        return;
    }
    fprintf(stderr, "%s%s: %s", clear_line, text_of(p, "node"), text_of(p, "state"));
    if (strcmp(text_of(p, "state"), "sending") == 0) {
        fprintf(stderr, ", %lld of %lld probes",
                number_of(p, "agreed") + number_of(p, "differed") +
                    number_of(p, "unsaid"),
                number_of(p, "probes"));
    }
    fflush(stderr);
}

/* Looks until it is done; gives the last look, whole. */
static enum rc follow(const struct cli *cli, const char *id, uint64_t deadline_ms,
                      json_t **ret, struct err *err)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };

    for (;;) {
        struct buf path = BUF_INIT;
        struct cli_answer a = { 0 };
        enum rc rc;

        buf_text(&path, "/v1/probes");
        cli_http_path(&path, id);
        rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, err);
        buf_fini(&path);
        if (rc != RC_OK) {
            return rc;
        }
        print_progress(a.json);
        if (strcmp(text_of(a.json, "state"), "done") == 0) {
            *ret = a.json;
            return RC_OK;
        }
        json_decref(a.json);
        if (program_now_ms() >= deadline_ms) {
            return err_set(err, RC_TIMEOUT,
                           "probes %s go on; look again with: xgwctl get probes %s", id,
                           id);
        }
        nanosleep(&pause, NULL);
    }
}

/* ---- as text ---- */

static void print_cell(const json_t *c)
{
    if (json_is_true(json_object_get(c, "covered"))) {
        printf("  %-8s %s: probe %lld, %s\n", text_of(c, "verdict"), text_of(c, "cell"),
               number_of(c, "probe"), text_of(c, "expected"));
    } else {
        printf("  %-8s %s: %s\n", "-", text_of(c, "cell"), text_of(c, "reason"));
    }
}

static void print_probes(const json_t *p, bool with_coverage)
{
    json_t *coverage = json_object_get(p, "coverage");
    long long covered = 0;
    json_t *item;
    size_t i;

    json_array_foreach(coverage, i, item)
    {
        covered += json_is_true(json_object_get(item, "covered"));
    }
    printf("%s: %s: %s%s%s (%lld of %lld probes agree, %lld differ, %lld say nothing; "
           "they cover %lld of %zu cells)\n",
           text_of(p, "id"), text_of(p, "node"), text_of(p, "result"),
           text_of(p, "reason")[0] ? ": " : "", text_of(p, "reason"),
           number_of(p, "agreed"), number_of(p, "probes"), number_of(p, "differed"),
           number_of(p, "unsaid"), covered, json_array_size(coverage));
    json_array_foreach(json_object_get(p, "differences"), i, item)
    {
        printf("  %s\n", json_string_value(item));
    }
    if (with_coverage) {
        json_array_foreach(coverage, i, item)
        {
            print_cell(item);
        }
    }
}

/* The worst of them says how it ends. */
static enum cli_exit worse(enum cli_exit code, const json_t *p)
{
    const char *result = text_of(p, "result");

    if (code == CLI_DIFFERS || strcmp(result, "failed") == 0) {
        return CLI_DIFFERS;
    }
    return strcmp(result, "passed") == 0 ? code : CLI_FAILED;
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
            print_probes(last, cli_option(cli, "coverage") != NULL);
        }
        code = worse(code, last);
        json_array_append_new(done, last);
    }
    if (cli->settings.output != CLI_TABLE) {
        cli_print_json(done, (enum cli_output)cli->settings.output);
    }
    json_decref(done);
    return code;
}

enum cli_exit cmd_probe(struct cli *cli)
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
    rc = cli_http_call(cli->http, "POST", "/v1/probes", body, &a, &err);
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
