/* xgwctl top: what nodes, ports and cores do now; cmd_top_heaviest.c has the flows and
 * tenants.  xgwctl alarm ack. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_print.h"

static json_t *amount(const json_t *number)
{
    return json_is_number(number) ? cli_amount(json_number_value(number)) : json_null();
}

static json_t *percent(const json_t *item)
{
    if (!item || json_integer_value(json_object_get(item, "capacity")) == 0) {
        return json_null();
    }
    return json_sprintf("%.1f %%", json_number_value(json_object_get(item, "percent")));
}

static json_t *find(json_t *usage, const char *subject, const char *resource)
{
    json_t *item;
    size_t i;

    json_array_foreach(usage, i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "subject")), subject) == 0 &&
            strcmp(json_string_value(json_object_get(item, "resource")), resource) ==
                0) {
            return item;
        }
    }
    return NULL;
}

/* ---- rows ---- */

typedef void rows_fn(json_t *rows, json_t *node, json_t *usage);

static void add_node(json_t *rows, json_t *node, json_t *usage)
{
    static const char *const sums[] = { "rx_bps", "tx_bps", "rx_pps", "tx_pps" };
    json_t *status = json_object_get(node, "status");
    const char *name = json_string_value(json_object_get(node, "name"));
    json_t *row = json_pack("{s:s, s:O, s:O, s:O?, s:O?}", "name", name, "cluster",
                            json_object_get(node, "cluster"), "state",
                            json_object_get(status, "state"), "level",
                            json_object_get(status, "level"), "fullest",
                            json_object_get(status, "fullest"));
    json_t *busiest = NULL;
    char subject[160];
    json_t *item;
    size_t i;

    for (unsigned s = 0; s < sizeof(sums) / sizeof(sums[0]); s++) {
        json_int_t sum = 0;

        json_array_foreach(usage, i, item)
        {
            if (strcmp(json_string_value(json_object_get(item, "resource")), sums[s]) ==
                0) {
                sum += json_integer_value(json_object_get(item, "used"));
            }
        }
        json_object_set_new(row, sums[s], json_integer(sum));
    }
    json_array_foreach(usage, i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "resource")), "busy") == 0 &&
            (!busiest || json_number_value(json_object_get(item, "percent")) >
                             json_number_value(json_object_get(busiest, "percent")))) {
            busiest = item;
        }
    }
    snprintf(subject, sizeof(subject), "node/%s", name);
    json_object_set_new(row, "busiest_core", percent(busiest));
    json_object_set_new(row, "memory", percent(find(usage, subject, "memory")));
    json_object_set_new(row, "disk", percent(find(usage, subject, "disk")));
    json_array_append_new(rows, row);
}

/* Parts of a node of one sort, "port" or "core": a row for each. */
static void add_parts(json_t *rows, json_t *node, json_t *usage, const char *sort,
                      const char *first)
{
    const char *name = json_string_value(json_object_get(node, "name"));
    char prefix[160];
    json_t *item;
    size_t i;

    snprintf(prefix, sizeof(prefix), "node/%s/%s/", name, sort);
    json_array_foreach(usage, i, item)
    {
        const char *subject = json_string_value(json_object_get(item, "subject"));
        const char *resource = json_string_value(json_object_get(item, "resource"));
        json_t *row;
        json_t *other;
        size_t j;

        if (strncmp(subject, prefix, strlen(prefix)) != 0 ||
            strcmp(resource, first) != 0) {
            continue;
        }
        row = json_pack("{s:s, s:s, s:o, s:O}", "node", name, sort,
                        subject + strlen(prefix), "percent", percent(item), "level",
                        json_object_get(item, "level"));
        json_array_foreach(usage, j, other)
        {
            if (strcmp(json_string_value(json_object_get(other, "subject")), subject) ==
                0) {
                json_object_set(row,
                                json_string_value(json_object_get(other, "resource")),
                                json_object_get(other, "used"));
            }
        }
        json_array_append_new(rows, row);
    }
}

static void add_ports(json_t *rows, json_t *node, json_t *usage)
{
    add_parts(rows, node, usage, "port", "rx_bps");
}

static void add_cores(json_t *rows, json_t *node, json_t *usage)
{
    add_parts(rows, node, usage, "core", "busy");
}

static const struct cli_column node_columns[] = {
    { "NODE", "name" },       { "CLUSTER", "cluster" },   { "STATE", "state" },
    { "RX BIT/S", "rx_bps" }, { "TX BIT/S", "tx_bps" },   { "RX PKT/S", "rx_pps" },
    { "TX PKT/S", "tx_pps" }, { "CORE", "busiest_core" }, { "MEMORY", "memory" },
    { "DISK", "disk" },       { "LEVEL", "level" },       { "FULLEST", "fullest" },
    { NULL, NULL },
};
static const struct cli_column port_columns[] = {
    { "NODE", "node" },       { "PORT", "port" },       { "RX BIT/S", "rx_bps" },
    { "TX BIT/S", "tx_bps" }, { "RX PKT/S", "rx_pps" }, { "TX PKT/S", "tx_pps" },
    { "RX", "percent" },      { "LEVEL", "level" },     { NULL, NULL },
};
static const struct cli_column core_columns[] = {
    { "NODE", "node" },   { "CORE", "core" }, { "BUSY", "percent" },
    { "LEVEL", "level" }, { NULL, NULL },
};

static const struct sort {
    const char *name;
    rows_fn *add;
    const struct cli_column *columns;
} sorts[] = { { "nodes", add_node, node_columns },
              { "ports", add_ports, port_columns },
              { "cores", add_cores, core_columns } };

/* ---- top ---- */

static enum rc read_usage(const struct cli *cli, const char *node, json_t **ret,
                          struct err *err)
{
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    char subject[160];
    enum rc rc;

    snprintf(subject, sizeof(subject), "node/%s", node);
    buf_text(&path, "/v1/usage");
    cli_http_query(&path, "subject", subject);
    rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, err);
    buf_fini(&path);
    *ret = rc == RC_OK ? json_incref(json_object_get(a.json, "items")) : NULL;
    json_decref(a.json);
    return rc;
}

static enum rc read_rows(const struct cli *cli, const struct sort *sort, json_t *rows,
                         struct err *err)
{
    json_t *nodes = NULL;
    json_t *node;
    size_t i;
    enum rc rc = cli_http_list(cli->http, "/v1/nodes", 0, &nodes, err);

    json_array_foreach(nodes, i, node)
    {
        const char *name = json_string_value(json_object_get(node, "name"));
        json_t *usage = NULL;

        rc = rc == RC_OK ? read_usage(cli, name, &usage, err) : rc;
        if (rc == RC_OK) {
            sort->add(rows, node, usage);
        }
        json_decref(usage);
    }
    json_decref(nodes);
    return rc;
}

/* Numbers of packets and bits as people read them. */
static void shorten(json_t *rows)
{
    static const char *const keys[] = { "rx_bps", "tx_bps", "rx_pps", "tx_pps" };
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        for (unsigned k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            json_object_set_new(row, keys[k], amount(json_object_get(row, keys[k])));
        }
    }
}

enum cli_exit cmd_top(struct cli *cli)
{
    const char *what = cli->arg_count > 0 ? cli->args[0] : "nodes";
    const struct sort *sort = NULL;
    struct err err = { 0 };
    struct buf text = BUF_INIT;
    json_t *rows = json_array();

    if (strcmp(what, "flows") == 0 || strcmp(what, "tenants") == 0) {
        json_decref(rows);
        return cmd_top_heaviest(cli);
    }
    if (cli_option(cli, "cluster") || cli_option(cli, "node") ||
        cli_option(cli, "number")) {
        json_decref(rows);
        return cli_usage(cli, "--cluster, --node and -n are of flows and tenants");
    }
    for (unsigned i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++) {
        sort = strcmp(sorts[i].name, what) == 0 ? &sorts[i] : sort;
    }
    if (!sort) {
        json_decref(rows);
        return cli_usage(cli, "'%s': not nodes, ports, cores, flows or tenants", what);
    }
    if (read_rows(cli, sort, rows, &err) != RC_OK) {
        json_decref(rows);
        return cli_fail(&err);
    }
    if (cli->settings.output == CLI_TABLE) {
        shorten(rows);
        cli_table(rows, sort->columns, &text);
        cli_print_buf(&text);
    } else {
        cli_print_json(rows, (enum cli_output)cli->settings.output);
    }
    buf_fini(&text);
    json_decref(rows);
    return CLI_OK;
}

/* ---- alarm ack ---- */

enum cli_exit cmd_alarm_ack(struct cli *cli)
{
    for (unsigned i = 0; i < cli->arg_count; i++) {
        struct cli_answer a = { 0 };
        struct buf path = BUF_INIT;
        struct err err = { 0 };
        enum rc rc;

        buf_text(&path, "/v1/alarms");
        cli_http_path(&path, cli->args[i]);
        buf_text(&path, "/ack");
        rc = cli_http_call(cli->http, "POST", buf_cstr(&path), NULL, &a, &err);
        buf_fini(&path);
        if (rc != RC_OK) {
            return cli_fail(&err);
        }
        printf("alarm %s acknowledged: %s\n", cli->args[i],
               json_string_value(json_object_get(a.json, "text")));
        json_decref(a.json);
    }
    return CLI_OK;
}
