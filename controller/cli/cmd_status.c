/* xgwctl status, health, trace: what the controller says of itself and of a packet. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_print.h"
#include "proto/base/ip.h"

/* ---- status ---- */

/* A node without its configuration: how it does. */
static json_t *node_summary(json_t *node)
{
    static const char *const keys[] = { "state",   "in_sync", "ready",
                                        "applied", "desired", "exception_count",
                                        NULL };
    json_t *status = json_object_get(node, "status");
    json_t *json = json_pack(
        "{s:O?, s:O?, s:O?}", "name", json_object_get(node, "name"), "cluster",
        json_object_get(node, "cluster"), "side", json_object_get(node, "side"));

    for (unsigned i = 0; keys[i]; i++) {
        json_t *value = json_object_get(status, keys[i]);

        if (value) {
            json_object_set(json, keys[i], value);
        }
    }
    return json;
}

static enum rc read_status(const struct cli *cli, json_t **ret, struct err *err)
{
    struct cli_answer a = { 0 };
    json_t *nodes = NULL;
    json_t *summaries = json_array();
    json_t *node;
    size_t i;
    enum rc rc = cli_http_call(cli->http, "GET", "/v1/status", NULL, &a, err);

    rc = rc == RC_OK ? cli_http_list(cli->http, "/v1/nodes", 0, &nodes, err) : rc;
    json_array_foreach(nodes, i, node)
    {
        json_array_append_new(summaries, node_summary(node));
    }
    json_decref(nodes);
    if (rc != RC_OK || json_object_set_new(a.json, "nodes", summaries) != 0) {
        json_decref(a.json);
        if (rc != RC_OK) {
            json_decref(summaries);
            return rc;
        }
        return err_set(err, RC_BUG, "/v1/status: the answer is no object");
    }
    *ret = a.json;
    return RC_OK;
}

static void print_status(json_t *status)
{
    static const struct cli_column node_columns[] = {
        { "NODE", "name" },
        { "CLUSTER", "cluster" },
        { "SIDE", "side" },
        { "STATE", "state" },
        { "IN SYNC", "in_sync" },
        { "READY", "ready" },
        { "APPLIED", "applied" },
        { "DESIRED", "desired" },
        { "EXCEPTIONS", "exception_count" },
        { NULL, NULL },
    };
    static const struct cli_column table_columns[] = {
        { "TABLE", "name" },
        { "ENTRIES", "entries" },
        { "DIGEST", "digest" },
        { NULL, NULL },
    };
    json_t *tables = json_array();
    struct buf text = BUF_INIT;
    const char *name;
    json_t *table;

    json_object_foreach(json_object_get(status, "tables"), name, table)
    {
        json_t *row = json_copy(table);

        json_object_set_new(row, "name", json_string(name));
        json_array_append_new(tables, row);
    }
    buf_text(&text, "revision ");
    cli_cell(json_object_get(status, "revision"), &text);
    buf_text(&text, "  term ");
    cli_cell(json_object_get(status, "term"), &text);
    buf_text(&text, "  version ");
    cli_cell(json_object_get(status, "version"), &text);
    buf_text(&text, "  sessions ");
    cli_cell(json_object_get(status, "sessions"), &text);
    buf_text(&text, "\n\n");
    cli_table(tables, table_columns, &text);
    buf_text(&text, "\n");
    cli_table(json_object_get(status, "nodes"), node_columns, &text);
    cli_print_buf(&text);
    json_decref(tables);
}

enum cli_exit cmd_status(struct cli *cli)
{
    struct err err = { 0 };
    json_t *status = NULL;

    if (read_status(cli, &status, &err) != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        print_status(status);
    } else {
        cli_print_json(status, (enum cli_output)cli->settings.output);
    }
    json_decref(status);
    return CLI_OK;
}

/* ---- health ---- */

enum cli_exit cmd_health(struct cli *cli)
{
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    enum rc rc = cli_http_call(cli->http, "GET", "/healthz", NULL, &a, &err);

    json_decref(a.json);
    a.json = NULL;
    if (rc != RC_OK) {
        cli_fail(&err);
        return CLI_UNREACHABLE;
    }
    rc = cli_http_call(cli->http, "GET", "/readyz", NULL, &a, &err);
    json_decref(a.json);
    if (rc != RC_OK) {
        puts("alive, not ready");
        return CLI_FAILED;
    }
    puts("ready");
    return CLI_OK;
}

/* ---- trace ---- */

static void print_hop(size_t i, json_t *hop, struct buf *to)
{
    json_t *entry = json_object_get(hop, "entry");
    const char *note = json_string_value(json_object_get(hop, "note"));
    const char *key;
    json_t *value;

    buf_printf(to, "%zu  ", i + 1);
    cli_cell(json_object_get(hop, "kind"), to);
    buf_text(to, "  vni ");
    cli_cell(json_object_get(hop, "vni"), to);
    buf_text(to, "  cluster ");
    cli_cell(json_object_get(hop, "cluster"), to);
    json_object_foreach(entry, key, value)
    {
        if (strcmp(key, "table") != 0 && strcmp(key, "vni") != 0 &&
            strcmp(key, "cluster") != 0) {
            buf_printf(to, "  %s ", key);
            cli_cell(value, to);
        }
    }
    if (json_object_get(hop, "outer_dst")) {
        buf_text(to, "  to ");
        cli_cell(json_object_get(hop, "outer_dst"), to);
    }
    if (json_object_get(hop, "reason")) {
        buf_text(to, "  reason ");
        cli_cell(json_object_get(hop, "reason"), to);
    }
    if (note && note[0]) {
        buf_text(to, "  (");
        cli_cell(json_object_get(hop, "note"), to);
        buf_text(to, ")");
    }
    buf_text(to, "\n");
}

/* "agrees: fallback to 172.30.1.11", "differs: expected fallback, found drop no_vip".
 */
static void print_node(json_t *node, struct buf *to)
{
    const char *verdict = json_string_value(json_object_get(node, "verdict"));
    const char *expected = json_string_value(json_object_get(node, "expected"));
    bool is_mute = verdict && strcmp(verdict, "says_nothing") == 0;

    buf_text(to, "     node ");
    cli_cell(json_object_get(node, "node"), to);
    buf_printf(to, " %s: ", is_mute ? "says nothing now" : verdict ? verdict : "?");
    if (verdict && expected && expected[0] && strcmp(verdict, "agrees") != 0) {
        buf_text(to, "expected ");
        cli_cell(json_object_get(node, "expected"), to);
        buf_text(to, is_mute ? ", but " : ", found ");
    }
    cli_cell(json_object_get(node, "found"), to);
    buf_text(to, "\n");
}

static void print_verdict(json_t *trace, struct buf *to)
{
    static const char *const verdicts[] = { "agrees", "differs", "says_nothing" };
    static const char *const words[] = { "agree", "differ", "can say nothing now" };

    buf_text(to, "nodes:");
    for (unsigned i = 0; i < 3; i++) {
        buf_printf(to, "%s %lld %s", i ? "," : "",
                   json_integer_value(json_object_get(trace, verdicts[i])), words[i]);
    }
    buf_text(to, "; ");
}

static void print_trace(json_t *trace)
{
    struct buf text = BUF_INIT;
    json_t *hop;
    size_t i;

    json_array_foreach(json_object_get(trace, "hops"), i, hop)
    {
        json_t *node;
        size_t n;

        print_hop(i, hop, &text);
        json_array_foreach(json_object_get(hop, "nodes"), n, node)
        {
            print_node(node, &text);
        }
    }
    if (json_object_get(trace, "verdict")) {
        print_verdict(trace, &text);
    }
    buf_text(&text, "at revision ");
    cli_cell(json_object_get(trace, "revision"), &text);
    buf_text(&text, "\n");
    cli_print_buf(&text);
}

static void add_query(const struct cli *cli, const char *name, struct buf *path)
{
    const char *value = cli_option(cli, name);

    if (value) {
        cli_http_query(path, name, value);
    }
}

enum cli_exit cmd_trace(struct cli *cli)
{
    const char *src = cli_option(cli, "src");
    const char *method = cli_option(cli, "live") ? "POST" : "GET";
    const char *verdict;
    struct buf path = BUF_INIT;
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    enum cli_exit code;
    struct ip ip;
    enum rc rc;

    if (!cli_option(cli, "vni") || !cli_option(cli, "dst")) {
        return cli_usage(cli, "--vni and --dst are needed");
    }
    if (src && ip_parse(src, strlen(src), &ip, &err) != RC_OK) {
        return cli_usage(cli, "src: %s", err.msg);
    }
    buf_text(&path, "/v1/trace");
    add_query(cli, "vni", &path);
    add_query(cli, "dst", &path);
    add_query(cli, "src", &path);
    add_query(cli, "underlay", &path);
    rc = cli_http_call(cli->http, method, buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    verdict = json_string_value(json_object_get(a.json, "verdict"));
    code = verdict && strcmp(verdict, "differs") == 0 ? CLI_DIFFERS : CLI_OK;
    if (cli->settings.output == CLI_TABLE) {
        print_trace(a.json);
    } else {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    }
    json_decref(a.json);
    return code;
}
