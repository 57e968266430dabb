/* xgwctl cluster build, drain, retire. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/apply_plan.h"
#include "controller/cli/cli_http.h"
#include "controller/cli/cli_operation.h"

static enum rc call_cluster(const struct cli *cli, const char *method,
                            const char *cluster, const char *verb, json_t *body,
                            bool is_dry, struct cli_answer *ret, struct err *err)
{
    struct buf path = BUF_INIT;
    enum rc rc;

    buf_text(&path, "/v1/clusters");
    cli_http_path(&path, cluster);
    buf_text(&path, verb);
    if (is_dry) {
        cli_http_query(&path, "dryRun", "true");
    }
    rc = cli_http_call(cli->http, method, buf_cstr(&path), body, ret, err);
    buf_fini(&path);
    return rc;
}

/* Follows what was begun, to its end.  Takes `o`. */
static enum cli_exit follow(const struct cli *cli, json_t *o)
{
    struct err err = { 0 };
    enum cli_exit code;
    enum rc rc = RC_OK;

    if (!cli_option(cli, "no-wait")) {
        rc = cli_follow_operation(cli, 0, &o, &err);
    }
    code = rc ? cli_fail(&err) : cli_print_operation_end(cli, o);
    json_decref(o);
    return code;
}

/* Begins an operation and follows it; `body` is the caller's. */
static enum cli_exit begin(const struct cli *cli, const char *cluster, const char *verb,
                           json_t *body)
{
    bool is_dry = cli_option(cli, "dry-run");
    struct cli_answer a = { 0 };
    struct err err = { 0 };
    enum rc rc = call_cluster(cli, "POST", cluster, verb, body, is_dry, &a, &err);

    if (rc) {
        return cli_fail(&err);
    }
    if (is_dry) {
        printf("nothing speaks against it (dry run)\n");
        json_decref(a.json);
        return CLI_OK;
    }
    return follow(cli, a.json);
}

/* ---- build ---- */

struct build_file {
    const char *name;
    struct cli_yaml yaml;
    struct apply_plan plan;
    json_t *build;       /* its `build`, without the cluster's name */
    const char *cluster; /* of it; in the yaml's documents */
    json_t *asked;       /* the one that `cluster` is borrowed from */
};

static enum rc fail(const struct build_file *f, const char *path, const char *what,
                    struct err *err)
{
    return err_field(err, RC_INVALID, path, "required", "%s:%d: %s", f->name,
                     cli_yaml_line(&f->yaml, path), what);
}

/* Takes `build` out of the only document; the rest is as in `apply`. */
static enum rc take_build(struct build_file *f, struct err *err)
{
    json_t *document = json_array_get(f->yaml.documents, 0);
    json_t *build = json_object_get(document, "build");

    if (json_array_size(f->yaml.documents) != 1 || !json_is_object(build)) {
        return fail(f, "[0].build", "one document with `build` is needed", err);
    }
    f->asked = json_incref(build);
    f->cluster = json_string_value(json_object_get(build, "cluster"));
    if (!f->cluster || !f->cluster[0]) {
        return fail(f, "[0].build.cluster", "cluster: the name of the one to build",
                    err);
    }
    f->build = json_copy(build);
    json_object_del(f->build, "cluster");
    json_object_del(document, "build");
    return RC_OK;
}

/* A cluster that the file describes begins as planned; one that is there is in the
 * state that it is in. */
static void plan_states(struct build_file *f)
{
    for (size_t i = 0; i < f->plan.count; i++) {
        struct apply_item *item = &f->plan.items[i];

        if (strcmp(item->kind->singular, "cluster") == 0 &&
            strcmp(item->keys[0], f->cluster) == 0) {
            json_object_del(item->body, "state");
        }
    }
}

/* The new cluster, if it is not there yet. */
static enum rc plan_new(const struct cli *cli, struct build_file *f, struct err *err)
{
    struct cli_answer a = { 0 };
    struct err why = { 0 };
    enum rc rc = call_cluster(cli, "GET", f->cluster, "", NULL, false, &a, &why);

    json_decref(a.json);
    if (rc && rc != RC_NOT_FOUND) {
        *err = why;
        return rc;
    }
    for (size_t i = 0; rc == RC_NOT_FOUND && i < f->plan.count; i++) {
        struct apply_item *item = &f->plan.items[i];

        if (strcmp(item->kind->singular, "cluster") == 0 &&
            strcmp(item->keys[0], f->cluster) == 0) {
            json_object_set_new(item->body, "state", json_string("planned"));
        }
    }
    return RC_OK;
}

static enum rc read_file(const struct cli *cli, const char *path, struct build_file *f,
                         struct err *err)
{
    enum rc rc;

    f->name = strcmp(path, "-") == 0 ? "(stdin)" : path;
    rc = cli_read_yaml(path, f->name, &f->yaml, err);
    rc = rc ? rc : take_build(f, err);
    rc = rc ? rc : apply_plan_make(f->name, &f->yaml, &f->plan, err);
    if (!rc) {
        plan_states(f);
        rc = plan_new(cli, f, err);
    }
    return rc;
}

/* The operation that is at work on it already, which a repeat follows; null: none. */
static json_t *running(const struct cli *cli, const char *cluster)
{
    struct cli_answer a = { 0 };
    struct buf path = BUF_INIT;
    struct err err = { 0 };
    const char *id;

    if (call_cluster(cli, "GET", cluster, "", NULL, false, &a, &err)) {
        return NULL;
    }
    id = json_string_value(
        json_object_get(json_object_get(a.json, "status"), "operation"));
    buf_text(&path, "/v1/operations");
    cli_http_path(&path, id ? id : "none");
    json_decref(a.json);
    a.json = NULL;
    if (id) {
        cli_http_call(cli->http, "GET", buf_cstr(&path), NULL, &a, &err);
    }
    buf_fini(&path);
    return a.json;
}

static enum cli_exit build(const struct cli *cli, struct build_file *f)
{
    json_t *o = cli_option(cli, "dry-run") ? NULL : running(cli, f->cluster);
    enum cli_exit code;

    if (o) {
        fprintf(stderr, "xgwctl: operation %s is at work on cluster %s already\n",
                json_string_value(json_object_get(o, "id")), f->cluster);
        return follow(cli, o);
    }
    code = cli_apply_plan(cli, f->name, &f->plan);
    return code ? code : begin(cli, f->cluster, "/build", f->build);
}

enum cli_exit cmd_cluster_build(struct cli *cli)
{
    const char *path = cli_option(cli, "file");
    struct build_file f = { 0 };
    struct err err = { 0 };
    enum cli_exit code;

    if (!path) {
        return cli_usage(cli, "-f FILE is needed");
    }
    code = read_file(cli, path, &f, &err) ? cli_fail(&err) : build(cli, &f);
    apply_plan_fini(&f.plan);
    json_decref(f.build);
    json_decref(f.asked);
    cli_yaml_fini(&f.yaml);
    return code;
}

/* ---- drain, retire ---- */

enum cli_exit cmd_cluster_drain(struct cli *cli)
{
    const char *to = cli_option(cli, "to");
    const char *drain = cli_option(cli, "drain-ms");
    json_t *body = json_object();
    enum cli_exit code;
    char *end = NULL;

    if (to) {
        json_object_set_new(body, "to", json_string(to));
    }
    if (drain) {
        json_object_set_new(body, "drain_ms", json_integer(strtoll(drain, &end, 10)));
    }
    code = drain && (end == drain || *end != '\0')
               ? cli_usage(cli, "--drain-ms: not a number of milliseconds")
               : begin(cli, cli->args[0], "/drain", body);
    json_decref(body);
    return code;
}

enum cli_exit cmd_cluster_retire(struct cli *cli)
{
    json_t *body = json_object();
    enum cli_exit code = begin(cli, cli->args[0], "/retire", body);

    json_decref(body);
    return code;
}
