/* xgwctl apply: a region file becomes PUTs, one object after the other. */
#include "controller/cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/apply_plan.h"
#include "controller/cli/cli_http.h"
#include "controller/cli/cli_print.h"
#include "controller/cli/cli_wait.h"

struct apply {
    const struct cli *cli;
    const char *name; /* of the file */
    bool is_dry;
    json_t *planned; /* labels that a dry run would create */
    json_t *results;
    uint64_t revision; /* of the last change */
    unsigned done;
};

static enum rc read_file(const char *path, struct buf *to, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    char bytes[8192];
    size_t n;

    if (!f) {
        return err_set(err, errno == ENOENT ? RC_NOT_FOUND : RC_INVALID, "%s: %s", path,
                       strerror(errno));
    }
    while (to->len <= CLI_YAML_TEXT_MAX &&
           (n = fread(bytes, 1, sizeof(bytes), f)) > 0) {
        buf_add(to, bytes, n);
    }
    if (ferror(f)) {
        err_set(err, RC_INVALID, "%s: %s", path, strerror(errno));
    } else if (buf_failed(to)) {
        err_set(err, RC_NO_MEMORY, "%s: no memory", path);
    }
    if (!is_stdin) {
        fclose(f);
    }
    return err->code;
}

/* Region, policy, clusters and nodes do not say in their answer whether they were
 * there. */
static enum rc exists(const struct apply *a, const char *path, bool *ret,
                      struct err *err)
{
    struct cli_answer answer = { 0 };
    struct err why = { 0 };
    enum rc rc = cli_http_call(a->cli->http, "GET", path, NULL, &answer, &why);

    json_decref(answer.json);
    if (rc != RC_OK && rc != RC_NOT_FOUND) {
        *err = why;
        return rc;
    }
    *ret = rc == RC_OK;
    return RC_OK;
}

static const char *outcome_of(json_t *answer, bool is_new)
{
    if (json_integer_value(json_object_get(answer, "added")) > 0) {
        return "created";
    }
    if (json_integer_value(json_object_get(answer, "changed")) > 0) {
        return is_new ? "created" : "changed";
    }
    return "unchanged";
}

static bool needs_planned(const struct apply *a, const struct apply_item *item)
{
    for (unsigned i = 0; i < 2; i++) {
        if (item->needs[i][0] && json_object_get(a->planned, item->needs[i])) {
            return true;
        }
    }
    return json_object_get(a->planned, "region") != NULL;
}

static void report(struct apply *a, const struct apply_item *item, const char *outcome,
                   bool is_checked)
{
    json_t *result = json_pack("{s:s, s:s}", "object", item->label, "outcome", outcome);

    json_array_append_new(a->results, result);
    a->done += strcmp(outcome, "unchanged") != 0;
    if (a->is_dry && strcmp(outcome, "created") == 0) {
        json_object_set_new(a->planned, item->label, json_true());
    }
    if (a->cli->settings.output == CLI_TABLE) {
        printf("%s %s%s%s\n", item->label, outcome, a->is_dry ? " (dry run)" : "",
               is_checked ? "" : " (checked once what it needs is there)");
    }
}

static enum rc put(struct apply *a, const struct apply_item *item, const char *path,
                   struct cli_answer *ret, struct err *err)
{
    struct buf full = BUF_INIT;
    enum rc rc;

    buf_text(&full, path);
    if (a->is_dry) {
        cli_http_query(&full, "dryRun", "true");
    }
    if (cli_option(a->cli, "confirm")) {
        cli_http_query(&full, "confirm", "true");
    }
    rc = cli_http_call(a->cli->http, "PUT", buf_cstr(&full), item->body, ret, err);
    buf_fini(&full);
    return rc;
}

static enum rc apply_item(struct apply *a, const struct apply_item *item,
                          struct err *err)
{
    const char *keys[2] = { item->keys[0], item->keys[1] };
    bool is_entry = strcmp(item->kind->fields[0], "vni") == 0;
    struct cli_answer answer = { 0 };
    struct buf path = BUF_INIT;
    bool is_there = true;
    const char *outcome;
    enum rc rc = RC_OK;

    cli_kind_path(item->kind, keys, item->kind->key_count, &path);
    if (!is_entry) {
        rc = exists(a, buf_cstr(&path), &is_there, err);
    }
    rc = rc == RC_OK ? put(a, item, buf_cstr(&path), &answer, err) : rc;
    buf_fini(&path);
    if (rc == RC_OK) {
        outcome = outcome_of(answer.json, !is_there);
        if (strcmp(outcome, "unchanged") != 0) {
            a->revision =
                (uint64_t)json_integer_value(json_object_get(answer.json, "revision"));
        }
        report(a, item, outcome, true);
        json_decref(answer.json);
    } else if (a->is_dry && rc != RC_UNREACHABLE && rc != RC_TIMEOUT &&
               needs_planned(a, item)) {
        report(a, item, is_there && !is_entry ? "changed" : "created", false);
        rc = RC_OK;
    }
    return rc;
}

static enum cli_exit apply_all(struct apply *a, const struct apply_plan *plan)
{
    struct err err = { 0 };

    for (size_t i = 0; i < plan->count; i++) {
        const struct apply_item *item = &plan->items[i];

        if (apply_item(a, item, &err) != RC_OK) {
            enum cli_exit code;

            err_wrap(&err, err.code, "%s:%d: %s", a->name, item->line, item->label);
            code = cli_fail(&err);
            if (!a->is_dry && a->done > 0) {
                fprintf(stderr,
                        "xgwctl: %u objects before it were created or changed; "
                        "applying again goes on from there\n",
                        a->done);
            }
            return code;
        }
    }
    if (a->cli->settings.output != CLI_TABLE) {
        cli_print_json(a->results, (enum cli_output)a->cli->settings.output);
    }
    return a->cli->settings.wait == CLI_WAIT_APPLIED && a->revision > 0 && !a->is_dry
               ? cli_wait_applied(a->cli, a->revision)
               : CLI_OK;
}

enum cli_exit cli_apply_plan(const struct cli *cli, const char *name,
                             const struct apply_plan *plan)
{
    struct apply a = { .cli = cli,
                       .name = name,
                       .is_dry = cli_option(cli, "dry-run") != NULL,
                       .planned = json_object(),
                       .results = json_array() };
    enum cli_exit code = apply_all(&a, plan);

    json_decref(a.planned);
    json_decref(a.results);
    return code;
}

enum rc cli_read_yaml(const char *path, const char *name, struct cli_yaml *ret,
                      struct err *err)
{
    struct buf text = BUF_INIT;
    enum rc rc = read_file(path, &text, err);

    rc = rc ? rc : cli_yaml_read(name, (const char *)text.data, text.len, ret, err);
    buf_fini(&text);
    return rc;
}

enum cli_exit cmd_apply(struct cli *cli)
{
    const char *path = cli_option(cli, "file");
    const char *name = path && strcmp(path, "-") == 0 ? "(stdin)" : path;
    struct cli_yaml yaml = { 0 };
    struct apply_plan plan = { 0 };
    struct err err = { 0 };
    enum cli_exit code;

    if (!path) {
        return cli_usage(cli, "-f FILE is needed");
    }
    if (cli_read_yaml(path, name, &yaml, &err) == RC_OK &&
        apply_plan_make(name, &yaml, &plan, &err) == RC_OK) {
        code = cli_apply_plan(cli, name, &plan);
    } else {
        code = cli_fail(&err);
    }
    apply_plan_fini(&plan);
    cli_yaml_fini(&yaml);
    return code;
}
