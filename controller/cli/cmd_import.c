/* xgwctl import: the file, the run, what a person sees of it. */
#include "controller/cli/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "controller/cli/cli_options.h"
#include "controller/cli/cli_print.h"
#include "controller/cli/cli_wait.h"
#include "controller/cli/import_run.h"

#define PATIENCE_S 30 /* default of --retry */
#define SYSTEM_CA  "/etc/ssl/certs/ca-certificates.crt"

struct progress {
    const struct import_input *in;
    double start_s;
    bool is_shown;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_progress(const struct import_result *r, void *arg)
{
    struct progress *p = arg;
    double took = now_s() - p->start_s;
    double rate = took > 0 ? (double)r->entries / took : 0;
    double share = p->in->len ? (double)r->bytes_done / (double)p->in->len : 1;
    char bar[31];
    size_t full = (size_t)(share * 30);

    memset(bar, '.', 30);
    memset(bar, '#', full > 30 ? 30 : full);
    bar[30] = '\0';
    fprintf(stderr, "\r[%s] %3.0f %%  %" PRIu64 " entries  %.0f/s", bar, share * 100,
            r->entries, rate);
    if (share > 0.01 && share < 1) {
        fprintf(stderr, "  ETA %.0f s", took / share - took);
    }
    fputs("\033[K", stderr);
    p->is_shown = true;
}

/* A file that shrinks under us: what was sent is whole batches, so nothing is lost. */
static void on_sigbus(int signal)
{
    static const char text[] = "xgwctl: the input became shorter while it was read\n";

    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(CLI_FAILED);
}

static void print_text(const struct import_input *in, const struct import_result *r,
                       double took)
{
    if (r->from_line > 1 && r->entries == 0) {
        printf("%s: imported before, all %" PRIu64 " lines; --restart does it again\n",
               in->name, r->next_line - 1);
        return;
    }
    printf("%s: %" PRIu64 " entries: %" PRIu64 " added, %" PRIu64 " changed, %" PRIu64
           " deleted, %" PRIu64 " unchanged",
           in->name, r->entries, r->added, r->changed, r->deleted, r->unchanged);
    if (r->unanswered > 0) {
        printf(", %" PRIu64 " applied whose answer was lost", r->unanswered);
    }
    printf("; %.2f s, %.0f entries/s, revision %" PRIu64 "\n", took,
           took > 0 ? (double)r->entries / took : 0, r->revision);
}

static void print_result(const struct cli *cli, const struct import_input *in,
                         const struct import_result *r, double took)
{
    json_t *json;

    if (cli->settings.output == CLI_TABLE) {
        print_text(in, r, took);
        return;
    }
    json = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:i}", "input",
        in->name, "entries", (json_int_t)r->entries, "added", (json_int_t)r->added,
        "changed", (json_int_t)r->changed, "deleted", (json_int_t)r->deleted,
        "unchanged", (json_int_t)r->unchanged, "unanswered", (json_int_t)r->unanswered,
        "seconds", took, "entries_per_s", took > 0 ? (double)r->entries / took : 0.0,
        "revision", (json_int_t)r->revision, "from_line", (json_int_t)r->from_line,
        "next_line", (json_int_t)r->next_line, "reconnects", (int)r->reconnects);
    cli_print_json(json, (enum cli_output)cli->settings.output);
    json_decref(json);
}

/* What is wrong where, and what is applied all the same. */
static enum cli_exit explain(const struct import_input *in,
                             const struct import_result *r, const struct err *err)
{
    struct err full = *err;

    if (r->bad_line > 0) {
        err_wrap(&full, err->code, "%s:%" PRIu64, in->name, r->bad_line);
    } else {
        err_wrap(&full, err->code, "%s", in->name);
    }
    cli_fail(&full);
    if (err->code == RC_DENIED && strcmp(err->rule, "mass_delete") == 0) {
        fputs("xgwctl: if so many deletes are meant: --confirm\n", stderr);
    }
    if (r->next_line > 1) {
        fprintf(stderr,
                "xgwctl: applied: lines 1 to %" PRIu64 " (%" PRIu64
                " entries by this call); nothing of what follows\n",
                r->next_line - 1, r->entries);
        fprintf(stderr,
                "xgwctl: the same input again goes on with line %" PRIu64
                "; a corrected one starts over, which changes nothing twice\n",
                r->next_line);
    } else if (r->from_line > 0) {
        fputs("xgwctl: nothing was applied\n", stderr);
    }
    return cli_exit_of(err->code);
}

static enum rc read_patience(const struct cli *cli, uint32_t *ret_ms, struct err *err)
{
    const char *text = cli_option(cli, "retry");
    char *end = NULL;
    unsigned long s = PATIENCE_S;

    if (text) {
        s = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0' || s > 86400) {
            return err_field(err, RC_INVALID, "retry", "number",
                             "retry '%s': not 0 to 86400 seconds", text);
        }
    }
    *ret_ms = (uint32_t)s * 1000;
    return RC_OK;
}

static enum cli_exit run(const struct cli *cli, const struct import_input *in,
                         const struct import_options *options, double start_s)
{
    struct progress progress = { .in = in, .start_s = start_s };
    struct import_result result;
    struct err err = { 0 };
    enum rc rc = import_run(in, options, isatty(STDERR_FILENO) ? show_progress : NULL,
                            &progress, &result, &err);

    if (progress.is_shown) {
        show_progress(&result, &progress);
        fputc('\n', stderr);
    }
    if (rc != RC_OK) {
        return explain(in, &result, &err);
    }
    print_result(cli, in, &result, now_s() - start_s);
    return cli->settings.wait == CLI_WAIT_APPLIED && result.revision > 0
               ? cli_wait_applied(cli, result.revision)
               : CLI_OK;
}

enum cli_exit cmd_import(struct cli *cli)
{
    double start_s = now_s();
    struct rpc_tls tls = { .ca_file =
                               cli->settings.ca[0] ? cli->settings.ca : SYSTEM_CA };
    struct import_options options = { .address = cli->settings.grpc,
                                      .confirm = cli_option(cli, "confirm") != NULL,
                                      .create_only =
                                          cli_option(cli, "create-only") != NULL,
                                      .restart = cli_option(cli, "restart") != NULL };
    char token[CLI_TOKEN_SIZE];
    struct import_input in;
    struct err err = { 0 };
    enum cli_exit code;

    options.tls = strncmp(cli->settings.server, "https:", 6) == 0 ? &tls : NULL;
    options.token = token;
    if (read_patience(cli, &options.patience_ms, &err) != RC_OK) {
        return cli_usage(cli, "%s", err.msg);
    }
    if (cli_read_token(cli->settings.token_file, token, sizeof(token), &err) != RC_OK ||
        import_input_open(&in, cli->args[0], cli_option(cli, "format"), &err) !=
            RC_OK) {
        return cli_fail(&err);
    }
    signal(SIGBUS, on_sigbus);
    code = run(cli, &in, &options, start_s);
    import_input_close(&in);
    return code;
}
