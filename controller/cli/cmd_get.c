/* xgwctl get, describe, delete: one table of the kinds of objects for all three. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_kind.h"
#include "controller/cli/cli_print.h"
#include "controller/cli/cli_wait.h"

/* Finds the kind that the first argument names, and checks how many others there are.
 */
static const struct cli_kind *read_kind(const struct cli *cli, unsigned min_keys,
                                        enum cli_exit *ret_code)
{
    const struct cli_kind *kind = cli_kind_find(cli->args[0]);
    unsigned keys = cli->arg_count - 1;

    if (!kind) {
        *ret_code = cli_usage(
            cli,
            "'%s': not region, policy, clusters, nodes, tenants, "
            "routes, vms, acl, meter, levels, festivals, alarms, operations, audits, "
            "probes, consumers or steering",
            cli->args[0]);
    } else if (keys < min_keys || keys > kind->key_count) {
        *ret_code = cli_usage(cli, "%s takes: %s", kind->plural,
                              kind->key_count ? kind->keys : "no name");
        kind = NULL;
    }
    return kind;
}

static enum rc get_one(const struct cli *cli, const struct cli_kind *kind, json_t **ret,
                       struct err *err)
{
    struct buf path = BUF_INIT;
    struct cli_answer a = { 0 };
    enum rc rc;

    cli_kind_path(kind, cli->args + 1, cli->arg_count - 1, &path);
    rc = cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, err);
    buf_fini(&path);
    if (rc == RC_OK) {
        *ret = a.json;
    }
    return rc;
}

static enum rc get_list(const struct cli *cli, const struct cli_kind *kind,
                        size_t limit, json_t **ret, struct err *err)
{
    struct buf path = BUF_INIT;
    enum rc rc;

    cli_kind_path(kind, cli->args + 1, cli->arg_count - 1, &path);
    rc = cli_http_list(cli->http, buf_cstr(&path), limit, ret, err);
    buf_fini(&path);
    return rc;
}

static enum cli_exit print_list(const struct cli *cli, const struct cli_kind *kind,
                                json_t *items)
{
    struct buf text = BUF_INIT;
    json_t *whole;

    if (cli->settings.output == CLI_TABLE) {
        cli_table(items, kind->columns, &text);
        cli_print_buf(&text);
        return CLI_OK;
    }
    /* Under its plural: what `apply -f` reads. */
    whole = json_pack("{s:O}", kind->plural, items);
    cli_print_json(whole, (enum cli_output)cli->settings.output);
    json_decref(whole);
    return CLI_OK;
}

static enum cli_exit print_one(const struct cli *cli, const struct cli_kind *kind,
                               json_t *object)
{
    json_t *items;

    if (cli->settings.output != CLI_TABLE) {
        cli_print_json(object, (enum cli_output)cli->settings.output);
        return CLI_OK;
    }
    items = json_pack("[O]", object);
    print_list(cli, kind, items);
    json_decref(items);
    return CLI_OK;
}

static bool read_limit(const struct cli *cli, size_t *ret)
{
    const char *text = cli_option(cli, "limit");
    char *end = NULL;

    *ret = text ? strtoul(text, &end, 10) : 0;
    return !text || (text[0] >= '0' && text[0] <= '9' && *end == '\0' && *ret > 0);
}

enum cli_exit cmd_get(struct cli *cli)
{
    struct err err = { 0 };
    json_t *json = NULL;
    enum cli_exit code = CLI_USAGE;
    size_t limit;
    const struct cli_kind *kind = read_kind(cli, 0, &code);

    if (!kind) {
        return code;
    }
    if (!read_limit(cli, &limit)) {
        return cli_usage(cli, "limit: not a number above 0");
    }
    if (cli->arg_count - 1 < kind->parent_count) {
        return cli_usage(cli, "%s takes: %s", kind->plural, kind->keys);
    }
    if (cli->arg_count - 1 == kind->key_count) {
        code = get_one(cli, kind, &json, &err) == RC_OK ? print_one(cli, kind, json)
                                                        : cli_fail(&err);
    } else {
        code = get_list(cli, kind, limit, &json, &err) == RC_OK
                   ? print_list(cli, kind, json)
                   : cli_fail(&err);
    }
    json_decref(json);
    return code;
}

/* ---- describe ---- */

#define RELATED_MAX 20 /* lines of a list below an object; `get` shows all */

/* The objects that belong to one: nodes of a cluster, routes and VMs of a tenant. */
static enum rc print_related(const struct cli *cli, const struct cli_kind *related,
                             const char *field, const char *parent, struct err *err)
{
    struct buf text = BUF_INIT;
    const char *keys[] = { parent };
    json_t *all = NULL;
    json_t *mine = json_array();
    json_t *item;
    size_t i;
    enum rc rc;

    cli_kind_path(related, keys, related->parent_count, &text);
    rc = cli_http_list(cli->http, buf_cstr(&text),
                       related->parent_count ? RELATED_MAX + 1 : 0, &all, err);
    buf_reset(&text);
    json_array_foreach(all, i, item)
    {
        const char *name = json_string_value(json_object_get(item, field));

        if (related->parent_count || !parent[0] ||
            (name && strcmp(name, parent) == 0)) {
            json_array_append(mine, item);
        }
    }
    if (rc == RC_OK && json_array_size(mine) > 0) {
        bool more = json_array_size(mine) > RELATED_MAX;

        if (more) {
            json_array_remove(mine, RELATED_MAX);
        }
        buf_printf(&text, "\n%s:\n", related->plural);
        cli_table(mine, related->columns, &text);
        if (more) {
            buf_printf(&text, "… `xgwctl get %s %s` shows all\n", related->plural,
                       parent);
        }
        fputs(buf_cstr(&text), stdout);
    }
    buf_fini(&text);
    json_decref(all);
    json_decref(mine);
    return rc;
}

enum cli_exit cmd_describe(struct cli *cli)
{
    struct err err = { 0 };
    json_t *json = NULL;
    enum cli_exit code = CLI_USAGE;
    const struct cli_kind *kind = cli_kind_find(cli->args[0]);

    kind = read_kind(cli, kind ? kind->key_count : 0, &code);
    if (!kind) {
        return code;
    }
    if (get_one(cli, kind, &json, &err) != RC_OK) {
        return cli_fail(&err);
    }
    if (cli->settings.output != CLI_TABLE) {
        cli_print_json(json, (enum cli_output)cli->settings.output);
    } else {
        enum rc rc = RC_OK;

        cli_print_json(json, CLI_YAML);
        for (unsigned i = 0; rc == RC_OK && i < 3 && kind->related[i]; i++) {
            rc = print_related(cli, cli_kind_find(kind->related[i]), kind->singular,
                               kind->key_count ? cli->args[1] : "", &err);
        }
        if (rc != RC_OK) {
            json_decref(json);
            return cli_fail(&err);
        }
    }
    json_decref(json);
    return CLI_OK;
}

/* ---- delete ---- */

enum cli_exit cmd_delete(struct cli *cli)
{
    struct err err = { 0 };
    struct buf path = BUF_INIT;
    struct cli_answer a = { 0 };
    enum cli_exit code = CLI_USAGE;
    const struct cli_kind *kind = cli_kind_find(cli->args[0]);
    bool was_there;
    enum rc rc;

    if (kind && kind->key_count == 0) {
        return cli_usage(cli, "a %s is not deleted", kind->singular);
    }
    kind = read_kind(cli, kind ? kind->key_count : 0, &code);
    if (!kind) {
        return code;
    }
    cli_kind_path(kind, cli->args + 1, kind->key_count, &path);
    cli_http_change_query(cli, &path);
    rc = cli_http_call(cli->http, "DELETE", buf_cstr(&path), NULL, &a, &err);
    buf_fini(&path);
    if (rc != RC_OK) {
        code = cli_fail(&err);
        if (err.code == RC_DENIED && strcmp(err.rule, "mass_delete") == 0) {
            fputs("xgwctl: if so much is meant to go: --confirm\n", stderr);
        }
        return code;
    }
    was_there = json_integer_value(json_object_get(a.json, "deleted")) +
                    json_integer_value(json_object_get(a.json, "changed")) >
                0;
    printf("%s %s%s%s %s%s\n", kind->singular, cli->args[1],
           kind->key_count > 1 ? " " : "", kind->key_count > 1 ? cli->args[2] : "",
           was_there ? "deleted" : "was not there",
           cli_option(cli, "dry-run") ? " (dry run)" : "");
    code = cli_change_exit(cli, a.json);
    json_decref(a.json);
    return code;
}
