/* xgwctl: wiring only. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "controller/cli/cli_http.h"
#include "controller/cli/cli_options.h"
#include "controller/cli/cli_print.h"

static const char *environment(const char *name)
{
    return getenv(name);
}

static enum cli_exit misuse(const struct cli *cli, const struct err *err)
{
    fprintf(stderr, "xgwctl: %s\nxgwctl: see xgwctl %s%s--help\n", err->msg,
            cli->command ? cli->command->name : "", cli->command ? " " : "");
    return CLI_USAGE;
}

static enum cli_exit run(struct cli *cli)
{
    struct err err = { 0 };
    enum cli_exit code;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        fputs("xgwctl: no memory for HTTP\n", stderr);
        return CLI_FAILED;
    }
    code = cli_http_new(&cli->settings, &cli->http, &err) == RC_OK
               ? cli->command->run(cli)
               : cli_fail(&err);
    cli_http_free(cli->http);
    curl_global_cleanup();
    /* Results that went nowhere are no results. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("xgwctl: stdout");
        return code == CLI_OK ? CLI_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    struct cli cli;
    struct err err = { 0 };
    enum cli_action action;
    struct buf text = BUF_INIT;

    signal(SIGPIPE, SIG_IGN);
    if (cli_parse(argc, argv, environment, &cli, &action, &err) != RC_OK) {
        return (int)misuse(&cli, &err);
    }
    switch (action) {
    case CLI_HELP:
        cli_print_help(cli.command, &text);
        cli_print_buf(&text);
        return CLI_OK;
    case CLI_VERSION:
        puts("xgwctl " XGW_VERSION);
        return CLI_OK;
    default:
        return (int)run(&cli);
    }
}
