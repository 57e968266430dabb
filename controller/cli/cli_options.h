/*
 * cli_options - reads the command line of xgwctl.
 *
 * Settings come from the command line, else the environment (XGWCTL_SERVER, …), else
 * the file ~/.config/xgwctl.conf, else their defaults; they may stand before or behind
 * the command.  Nothing here prints or exits.
 */
#pragma once

#include "controller/cli/cli.h"
#include "proto/base/buf.h"

enum cli_action { CLI_RUN, CLI_HELP, CLI_VERSION };

extern const struct config_table cli_settings_table;

/* Looks up a variable of the environment: getenv, or a test's own. */
typedef const char *cli_getenv_fn(const char *name);

/* Fills `*ret` (all but http) and `*ret_action`; with CLI_HELP, `ret->command` is the
 * one that help was asked about, or null.  Strings point into argv.  RC_INVALID or
 * RC_RANGE for a misuse, which the message explains; `*ret` then has the command, if
 * one was seen. */
enum rc cli_parse(int argc, char *const *argv, cli_getenv_fn *env, struct cli *ret,
                  enum cli_action *ret_action, struct err *err);

/* Help of one command, or of the program where `command` is null. */
void cli_print_help(const struct cli_command *command, struct buf *to);

/* The bearer token in `path`, a file that others cannot read: its first line.  "" for
 * an empty path. */
enum rc cli_read_token(const char *path, char *ret, size_t size, struct err *err);

#define CLI_TOKEN_SIZE 256
