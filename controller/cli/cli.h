/*
 * cli - what the files of xgwctl share: the command line as it was read, and how a
 * command ends.
 *
 * A command is a row of a table (cli_commands.c): name, arguments, options, examples
 * and a function.  Help, completion and the parser come from that table alone.  One
 * thread, but for the reader of an import (import_reader.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/config.h"
#include "proto/base/err.h"

/* What scripts can rely on; `xgwctl --help` says the same. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_NOT_APPLIED = 4, /* durable, but not on all nodes within --wait-ms */
    CLI_UNREACHABLE = 5,
    CLI_DENIED = 6,  /* no valid token, a role too low, or a confirmation missing */
    CLI_REFUSED = 7, /* the input breaks a rule, which the message names */
    CLI_DIFFERS = 8, /* trace --live: a node does not as its entries say */
};

enum cli_output { CLI_TABLE, CLI_JSON, CLI_YAML };
enum cli_wait { CLI_WAIT_NONE, CLI_WAIT_APPLIED };

struct cli_settings {
    char server[256];
    char grpc[256];
    char token_file[256];
    char ca[256];
    uint32_t output; /* enum cli_output */
    uint32_t wait;   /* enum cli_wait */
    uint32_t wait_ms;
};

#define CLI_ARGS_MAX    4
#define CLI_OPTIONS_MAX 16

struct cli_option {
    const char *name;  /* "file"; null ends a list */
    char letter;       /* 'f', or 0 */
    const char *value; /* "FILE"; null: a flag */
    const char *what;  /* one sentence, with its full stop */
};

struct cli;

struct cli_command {
    /* One word, or a group's and one of its own, "capacity explain"; the rows of a
     * group stand together. */
    const char *name;
    const char *args; /* "FILE|-" */
    const char *summary;
    unsigned min_args;
    unsigned max_args;
    const char *const *words; /* what the first argument may be, then null; or null */
    const struct cli_option *options; /* null: none */
    const char *examples;             /* whole lines */
    enum cli_exit (*run)(struct cli *cli);
};

struct cli_http;

struct cli {
    struct cli_settings settings;
    const struct cli_command *command;
    const char *args[CLI_ARGS_MAX];
    unsigned arg_count;
    const char *options[CLI_OPTIONS_MAX]; /* by index in command->options */
    struct cli_http *http;                /* made by main, before run */
};

extern const struct cli_command cli_commands[];
extern const unsigned cli_command_count;

/* The value of an option of the command, "" for a flag that was given, else null. */
const char *cli_option(const struct cli *cli, const char *name);

/* The exit code that an error means. */
enum cli_exit cli_exit_of(enum rc rc);

/* Prints "xgwctl: SENTENCE" to stderr, with field and rule, and returns the code. */
enum cli_exit cli_fail(const struct err *err);
/* The same for a misuse of the command line. */
enum cli_exit cli_usage(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
