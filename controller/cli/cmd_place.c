/* xgwctl tenant place, rebalance: where tenants go, and the numbers behind it. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_print.h"

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

/* ---- tenant place --dry-run ---- */

/* A row for each dimension of a cluster. */
static void add_rows(json_t *rows, const char *cluster, const char *verdict,
                     const char *half, const json_t *dimensions)
{
    size_t i;
    json_t *d;

    json_array_foreach(dimensions, i, d)
    {
        json_t *row = json_copy(d);

        json_object_set_new(row, "cluster", json_string(cluster));
        json_object_set_new(row, "verdict", json_string(verdict));
        json_object_set_new(row, "half", json_string(half));
        json_array_append_new(rows, row);
    }
}

static void print_candidates(const json_t *answer)
{
    static const struct cli_column columns[] = {
        { "CLUSTER", "cluster" },   { "VERDICT", "verdict" }, { "HALF", "half" },
        { "RESOURCE", "resource" }, { "NEEDED", "needed" },   { "FREE", "free" },
        { "USED", "used" },         { "TO SELL", "room" },    { "OF", "capacity" },
        { "FITS", "fits" },         { "UNIT", "unit" },       { NULL, NULL },
    };
    const json_t *chosen = json_object_get(answer, "chosen");
    json_t *rows = json_array();
    struct buf text = BUF_INIT;
    size_t i;
    json_t *k;

    json_array_foreach(json_object_get(answer, "candidates"), i, k)
    {
        const json_t *behind = json_object_get(k, "backing");

        add_rows(rows, text_of(k, "cluster"), text_of(k, "verdict"), text_of(k, "half"),
                 json_object_get(k, "dimensions"));
        if (behind) {
            add_rows(rows, text_of(behind, "cluster"), "behind", "",
                     json_object_get(behind, "dimensions"));
        }
    }
    cli_table(rows, columns, &text);
    if (!json_is_object(chosen)) {
        buf_printf(&text, "no cluster takes it: %s\n", text_of(answer, "proposal"));
    } else if (text_of(chosen, "h_home")[0]) {
        buf_printf(&text, "it would go to %s, half %s, with %s behind it\n",
                   text_of(chosen, "h_home"), text_of(chosen, "half"),
                   text_of(chosen, "cluster"));
    } else {
        buf_printf(&text, "it would go to %s\n", text_of(chosen, "cluster"));
    }
    cli_print_buf(&text);
    json_decref(rows);
}

/* The options that say how large it is, and what a query and a tenant call them. */
static const struct {
    const char *option, *query, *field;
} sizes[] = {
    { "routes", "routes", "reserved_routes" },
    { "vms", "vms_v4", "reserved_vms" },
    { "bps", "bps", "reserved_bps" },
    { "pps", "pps", "reserved_pps" },
};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static enum rc read_sizes(struct cli *cli, json_t *to, struct err *err)
{
    enum rc rc = RC_OK;

    for (unsigned i = 0; i < SIZES && !rc; i++) {
        double value = 0;

        rc = cli_option_number(cli, sizes[i].option, 0, 1e13, &value, err);
        if (!rc && cli_option(cli, sizes[i].option)) {
            json_object_set_new(to, sizes[i].option, json_integer((json_int_t)value));
        }
    }
    return rc;
}

static enum cli_exit explain(struct cli *cli, const json_t *size)
{
    struct buf path = BUF_INIT;
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    enum rc rc;

    buf_text(&path, "/v1/placement");
    for (unsigned i = 0; i < SIZES; i++) {
        const json_t *value = json_object_get(size, sizes[i].option);
        char number[24];

        if (value) {
            snprintf(number, sizeof(number), "%lld",
                     (long long)json_integer_value(value));
            cli_http_query(&path, sizes[i].query, number);
        }
    }
    if (cli_option(cli, "peers")) {
        cli_http_query(&path, "peers", cli_option(cli, "peers"));
    }
    if (cli_option(cli, "kind")) {
        cli_http_query(&path, "kind", cli_option(cli, "kind"));
    }
    rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        print_candidates(a.json);
    } else {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    }
    rc = json_is_object(json_object_get(a.json, "chosen")) ? RC_OK : RC_CONFLICT;
    json_decref(a.json);
    return rc ? CLI_FAILED : CLI_OK;
}

/* ---- tenant place ---- */

static enum cli_exit show_place(struct cli *cli, const char *path)
{
    struct cli_answer a = { 0 };
    struct err err = { 0 };

    if (cli_http_call(cli->http, "GET", path, NULL, &a, &err) != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output != CLI_TABLE) {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    } else if (text_of(a.json, "h_home")[0]) {
        printf("vni %s is on %s, half %s, with %s behind it\n", cli->args[0],
               text_of(a.json, "h_home"), text_of(a.json, "half"),
               text_of(a.json, "cluster"));
    } else {
        printf("vni %s is on %s\n", cli->args[0], text_of(a.json, "cluster"));
    }
    json_decref(a.json);
    return CLI_OK;
}

static enum cli_exit create(struct cli *cli, const json_t *size)
{
    const char *name = cli_option(cli, "name");
    struct buf path = BUF_INIT;
    struct buf query = BUF_INIT;
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    json_t *body = json_object();
    enum cli_exit code;
    enum rc rc;

    if (name) {
        json_object_set_new(body, "name", json_string(name));
    }
    for (unsigned i = 0; i < SIZES; i++) {
        json_t *value = json_object_get(size, sizes[i].option);

        if (value) {
            json_object_set(body, sizes[i].field, value);
        }
    }
    buf_text(&path, "/v1/tenants");
    cli_http_path(&path, cli->args[0]);
    buf_text(&query, buf_cstr(&path));
    cli_http_change_query(cli, &query);
    rc = cli_http_call(cli->http, "PUT", buf_cstr(&query), body, &a, &err);
    json_decref(body);
    json_decref(a.json);
    code = rc == RC_OK ? show_place(cli, buf_cstr(&path)) : cli_fail(&err);
    buf_fini(&path);
    buf_fini(&query);
    return code;
}

enum cli_exit cmd_tenant_place(struct cli *cli)
{
    json_t *size = json_object();
    struct err err = { 0 };
    enum cli_exit code;

    if (read_sizes(cli, size, &err) != RC_OK) {
        code = cli_fail(&err);
    } else if (cli_option(cli, "dry-run")) {
        code = explain(cli, size);
    } else if (cli->arg_count < 1) {
        code = cli_usage(cli, "name the VNI, or say --dry-run");
    } else if (cli_option(cli, "peers") || cli_option(cli, "kind")) {
        code = cli_usage(cli, "--peers and --kind are of a --dry-run");
    } else {
        code = create(cli, size);
    }
    json_decref(size);
    return code;
}

/* ---- rebalance ---- */

static void print_moves(const json_t *answer)
{
    static const struct cli_column columns[] = {
        { "VNI", "vni" },
        { "FROM", "from.cluster" },
        { "FULL %", "from.fullest_percent" },
        { "THEN %", "from.fullest_percent_after" },
        { "TO", "to.cluster" },
        { "HALF", "to.half" },
        { "FULL %", "to.fullest_percent" },
        { "THEN %", "to.fullest_percent_after" },
        { NULL, NULL },
    };
    const json_t *moves = json_object_get(answer, "moves");
    struct buf text = BUF_INIT;

    if (json_array_size(moves) == 0) {
        buf_printf(&text,
                   "no move is worth it: no cluster would become less full by "
                   "%g points\n",
                   (double)json_integer_value(json_object_get(answer, "threshold_bp")) /
                       100);
    } else {
        cli_table(moves, columns, &text);
        buf_text(&text, "nothing was moved; to follow: xgwctl tenant move VNI --to "
                        "CLUSTER\n");
    }
    cli_print_buf(&text);
}

enum cli_exit cmd_rebalance(struct cli *cli)
{
    struct buf path = BUF_INIT;
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    double points = 5;
    char number[24];
    enum rc rc;

    if (!cli_option(cli, "dry-run")) {
        return cli_usage(cli, "it only proposes: say --dry-run");
    }
    if (cli_option_number(cli, "threshold", 0.01, 100, &points, &err) != RC_OK) {
        return cli_fail(&err);
    }
    snprintf(number, sizeof(number), "%d", (int)(points * 100 + 0.5));
    buf_text(&path, "/v1/placement/rebalance");
    cli_http_query(&path, "thresholdBp", number);
    if (cli_option(cli, "kind")) {
        cli_http_query(&path, "kind", cli_option(cli, "kind"));
    }
    rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        print_moves(a.json);
    } else {
        cli_print_json(a.json, (enum cli_output)cli->settings.output);
    }
    json_decref(a.json);
    return CLI_OK;
}
