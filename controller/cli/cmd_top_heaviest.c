/* xgwctl top flows, xgwctl top tenants: the heaviest of them. */
#include "controller/cli/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_print.h"

#define TOP_COUNT_MAX 100

static const struct cli_column flow_columns[] = {
    { "BIT/S", "most" },  { "AT LEAST", "least" }, { "VNI", "vni" },
    { "FROM", "from" },   { "TO", "to" },          { "PROTO", "proto" },
    { "NODES", "nodes" }, { NULL, NULL },
};
static const struct cli_column tenant_columns[] = {
    { "BIT/S", "most" },  { "AT LEAST", "least" }, { "VNI", "vni" },
    { "NODES", "nodes" }, { NULL, NULL },
};

/* "10.0.0.1:443", "[2001:db8::1]:443" */
static json_t *end_text(const json_t *row, const char *address, const char *port)
{
    const char *text = json_string_value(json_object_get(row, address));
    json_int_t number = json_integer_value(json_object_get(row, port));
    bool is_v6 = text && strchr(text, ':');

    return json_sprintf("%s%s%s:%" JSON_INTEGER_FORMAT, is_v6 ? "[" : "",
                        text ? text : "-", is_v6 ? "]" : "", number);
}

static json_t *proto_text(const json_t *row)
{
    json_int_t proto = json_integer_value(json_object_get(row, "proto"));
    const char *name = proto == 6    ? "tcp"
                       : proto == 17 ? "udp"
                       : proto == 1  ? "icmp"
                       : proto == 58 ? "icmpv6"
                                     : NULL;

    return name ? json_string(name) : json_integer(proto);
}

static void add_texts(json_t *row, bool is_flow)
{
    json_int_t bps = json_integer_value(json_object_get(row, "bps"));
    json_int_t error = json_integer_value(json_object_get(row, "error_bps"));

    json_object_set_new(row, "most", cli_amount((double)bps));
    json_object_set_new(row, "least", cli_amount((double)(bps - error)));
    if (is_flow) {
        json_object_set_new(row, "from", end_text(row, "src", "sport"));
        json_object_set_new(row, "to", end_text(row, "dst", "dport"));
        json_object_set_new(row, "proto", proto_text(row));
    }
}

static void print_table(json_t *answer, bool is_flow)
{
    json_t *rows = json_object_get(answer, "items");
    json_t *all = cli_amount(json_number_value(json_object_get(answer, "bps")));
    json_t *rest = cli_amount(json_number_value(json_object_get(answer, "rest_bps")));
    json_int_t without = json_integer_value(json_object_get(answer, "without"));
    json_int_t unable = json_integer_value(json_object_get(answer, "unable"));
    struct buf text = BUF_INIT;
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        add_texts(row, is_flow);
    }
    cli_table(rows, is_flow ? flow_columns : tenant_columns, &text);
    buf_printf(&text,
               "%" JSON_INTEGER_FORMAT " nodes carry %s bit/s; what is not listed has "
               "at most %s bit/s each\n",
               json_integer_value(json_object_get(answer, "nodes")),
               json_string_value(all), json_string_value(rest));
    if (without > 0) {
        buf_printf(&text, "%" JSON_INTEGER_FORMAT " nodes told nothing in 30 s\n",
                   without);
    }
    if (unable > 0) {
        buf_printf(&text,
                   "of %" JSON_INTEGER_FORMAT
                   " nodes it is not available: a chip counts "
                   "tenants, not flows\n",
                   unable);
    }
    cli_print_buf(&text);
    buf_fini(&text);
    json_decref(all);
    json_decref(rest);
}

enum cli_exit cmd_top_heaviest(struct cli *cli)
{
    bool is_flow = strcmp(cli->args[0], "flows") == 0;
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    struct err err = { 0 };
    uint32_t count = 10;
    char text[16];
    enum rc rc = cli_option_whole(cli, "number", 1, TOP_COUNT_MAX, &count, &err);

    snprintf(text, sizeof(text), "%" PRIu32, count);
    buf_text(&path, is_flow ? "/v1/top/flows" : "/v1/top/tenants");
    cli_http_query(&path, "count", text);
    if (cli_option(cli, "cluster")) {
        cli_http_query(&path, "cluster", cli_option(cli, "cluster"));
    }
    if (cli_option(cli, "node")) {
        cli_http_query(&path, "node", cli_option(cli, "node"));
    }
    rc = rc ? rc : cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        print_table(a.json, is_flow);
    } else {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    }
    json_decref(a.json);
    return CLI_OK;
}
