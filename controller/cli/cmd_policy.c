/* xgwctl policy: which services XGW-H holds. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_print.h"
#include "controller/cli/cli_wait.h"

static void print_services(json_t *policy)
{
    static const struct cli_column columns[] = {
        { "SERVICE", "service" },
        { "PLACE", "place" },
        { NULL, NULL },
    };
    json_t *rows = json_array();
    struct buf text = BUF_INIT;
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(policy, "services"), key, value)
    {
        json_array_append_new(rows,
                              json_pack("{s:s, s:O}", "service", key, "place", value));
    }
    cli_table(rows, columns, &text);
    if (json_is_true(json_object_get(policy, "pending"))) {
        buf_text(&text, "the nodes' tables are still being worked out\n");
    }
    cli_print_buf(&text);
    json_decref(rows);
}

enum cli_exit cmd_policy_get(struct cli *cli)
{
    struct err err = { 0 };
    struct cli_answer a = { 0 };

    if (cli_http_call(cli->http, "GET", "/v1/policy", NULL, &a, &err) != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        print_services(a.json);
    } else {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    }
    json_decref(a.json);
    return CLI_OK;
}

/* "idc=xgw-x86"; "default" is the patch's null. */
static bool add_change(const char *arg, json_t *services)
{
    const char *equals = strchr(arg, '=');
    char service[64];

    if (!equals || equals == arg || (size_t)(equals - arg) >= sizeof(service)) {
        return false;
    }
    snprintf(service, sizeof(service), "%.*s", (int)(equals - arg), arg);
    json_object_set_new(services, service,
                        strcmp(equals + 1, "default") == 0 ? json_null()
                                                           : json_string(equals + 1));
    return true;
}

enum cli_exit cmd_policy_set(struct cli *cli)
{
    struct err err = { 0 };
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    json_t *services = json_object();
    json_t *body = json_pack("{s:o}", "services", services);
    enum cli_exit code;
    enum rc rc;

    for (unsigned i = 0; i < cli->arg_count; i++) {
        if (!add_change(cli->args[i], services)) {
            json_decref(body);
            return cli_usage(cli, "'%s': not SERVICE=PLACE", cli->args[i]);
        }
    }
    buf_text(&path, "/v1/policy");
    cli_http_change_query(cli, &path);
    rc = cli_http_call(cli->http, "PATCH", buf_cstr(&path), body, &a, &err);
    buf_fini(&path);
    json_decref(body);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    printf("policy %s%s\n",
           json_integer_value(json_object_get(a.json, "changed")) > 0 ? "changed"
                                                                      : "unchanged",
           cli_option(cli, "dry-run") ? " (dry run)" : "");
    code = cli_change_exit(cli, a.json);
    json_decref(a.json);
    return code;
}

/* ---- suggest ---- */

/* "12 d", "5 h", "3 min"; with ">" where it may be more. */
static json_t *age_cell(const json_t *service)
{
    const json_t *age = json_object_get(service, "age_seconds");
    const char *least =
        json_is_true(json_object_get(service, "age_is_least")) ? ">" : "";
    long long minutes = json_integer_value(age) / 60;

    if (!json_is_integer(age)) {
        return json_null();
    }
    if (minutes >= 2 * 24 * 60) {
        return json_sprintf("%s%lld d", least, minutes / (24 * 60));
    }
    return minutes >= 120 ? json_sprintf("%s%lld h", least, minutes / 60)
                          : json_sprintf("%s%lld min", least, minutes);
}

/* "12.0-34.5 % heavy", "unknown". */
static json_t *traffic_cell(const json_t *service)
{
    const json_t *traffic = json_object_get(service, "traffic");
    const char *weight = json_string_value(json_object_get(service, "weight"));

    if (!json_is_object(traffic) || !weight) {
        return json_string("unknown");
    }
    return json_sprintf(
        "%.1f-%.1f %% %s",
        100 * json_number_value(json_object_get(traffic, "least_share")),
        100 * json_number_value(json_object_get(traffic, "most_share")), weight);
}

static void print_measured(const json_t *traffic, struct buf *text)
{
    size_t i;
    json_t *node;

    if (!json_is_object(traffic)) {
        return;
    }
    if (json_integer_value(json_object_get(traffic, "nodes")) > 0) {
        buf_printf(
            text,
            "traffic: %.3f Mbit/s in %lld s on %lld nodes, of it %.3f of VNIs that are "
            "not counted one by one\n",
            json_number_value(json_object_get(traffic, "total_bps")) / 1e6,
            (long long)json_integer_value(json_object_get(traffic, "seconds")),
            (long long)json_integer_value(json_object_get(traffic, "nodes")),
            json_number_value(json_object_get(traffic, "uncounted_bps")) / 1e6);
    }
    json_array_foreach(json_object_get(traffic, "unmeasured"), i, node)
    {
        buf_text(text, "not measured: ");
        cli_cell(json_object_get(node, "node"), text);
        buf_text(text, ", ");
        cli_cell(json_object_get(node, "why"), text);
        buf_text(text, "\n");
    }
}

static json_t *suggest_row(json_t *service)
{
    const json_t *rate = json_object_get(service, "changes_per_hour");
    json_t *row = json_copy(service);

    json_object_set_new(row, "traffic", traffic_cell(service));
    json_object_set_new(row, "rate",
                        json_is_number(rate)
                            ? json_sprintf("%.1f", json_number_value(rate))
                            : json_null());
    json_object_set_new(row, "age", age_cell(service));
    return row;
}

static long long resident(const json_t *answer, const char *when, const char *what)
{
    const json_t *sizes = json_object_get(json_object_get(answer, "resident"), when);

    return (long long)json_integer_value(json_object_get(sizes, what));
}

/* The command that follows the advice; nothing of it is done here. */
static void print_how(const json_t *services, struct buf *text)
{
    bool any = false;
    size_t i;
    json_t *s;

    json_array_foreach(services, i, s)
    {
        const char *to = json_string_value(json_object_get(s, "suggested"));
        const char *is = json_string_value(json_object_get(s, "place"));
        const char *name = json_string_value(json_object_get(s, "service"));

        if (to && is && name && strcmp(to, is) != 0) {
            buf_printf(text, "%s %s=%s",
                       any ? "" : "nothing was moved; to follow: xgwctl policy set",
                       name, to);
            any = true;
        }
    }
    buf_text(text, any ? "\n" : "nothing to move\n");
}

static void print_suggestion(const json_t *answer)
{
    static const struct cli_column columns[] = {
        { "SERVICE", "service" },     { "PLACE", "place" },    { "TRAFFIC", "traffic" },
        { "ENTRIES", "entries" },     { "CHANGES/H", "rate" }, { "AGE", "age" },
        { "SUGGESTED", "suggested" }, { "REASON", "reason" },  { NULL, NULL },
    };
    const json_t *services = json_object_get(answer, "services");
    json_t *rows = json_array();
    struct buf text = BUF_INIT;
    size_t i;
    json_t *service;

    json_array_foreach(services, i, service)
    {
        json_array_append_new(rows, suggest_row(service));
    }
    cli_table(rows, columns, &text);
    print_measured(json_object_get(answer, "traffic"), &text);
    buf_printf(
        &text,
        "on XGW-H now %lld routes, %lld VMs; as suggested %lld routes, %lld VMs\n",
        resident(answer, "now", "vxlan_route"), resident(answer, "now", "vm_nc"),
        resident(answer, "suggested", "vxlan_route"),
        resident(answer, "suggested", "vm_nc"));
    print_how(services, &text);
    cli_print_buf(&text);
    json_decref(rows);
}

enum cli_exit cmd_policy_suggest(struct cli *cli)
{
    const char *seconds = cli_option(cli, "seconds");
    struct buf path = BUF_INIT;
    struct err err = { 0 };
    struct cli_answer a = { 0 };
    enum rc rc;

    buf_text(&path, "/v1/policy/suggestion");
    if (seconds) {
        cli_http_query(&path, "seconds", seconds);
    }
    rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        print_suggestion(a.json);
    } else {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    }
    json_decref(a.json);
    return CLI_OK;
}
