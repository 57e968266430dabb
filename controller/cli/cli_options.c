#include "controller/cli/cli_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const outputs[] = { "table", "json", "yaml", NULL };
static const char *const waits[] = { "none", "applied", NULL };

/* Tokens do not travel in clear text, except within one machine. */
static enum rc check(const void *values, struct err *err)
{
    const struct cli_settings *s = values;
    const char *host = s->server + strlen("http://");

    if (strncmp(s->server, "https://", 8) != 0 &&
        strncmp(s->server, "http://", 7) != 0) {
        return err_field(err, RC_INVALID, "server", "url",
                         "server '%s': not https://HOST:PORT or http://HOST:PORT",
                         s->server);
    }
    if (s->server[4] == ':' && s->token_file[0] && strncmp(host, "127.", 4) != 0 &&
        strncmp(host, "[::1]", 5) != 0 && strncmp(host, "localhost", 9) != 0) {
        return err_field(err, RC_INVALID, "server", "tls_required",
                         "server '%s': a token does not travel over plain HTTP, except "
                         "on this machine",
                         s->server);
    }
    return RC_OK;
}

static const struct config_key keys[] = {
    { CONFIG_TEXT(struct cli_settings, server), .name = "server",
      .def = "http://127.0.0.1:7080",
      .what = "REST API of the controller; https also means TLS for gRPC." },
    { CONFIG_TEXT(struct cli_settings, grpc), .name = "grpc", .def = "127.0.0.1:7443",
      .what = "gRPC API of the controller, HOST:PORT, for import." },
    { CONFIG_PATH(struct cli_settings, token_file), .name = "token-file", .def = "",
      .what = "File with the bearer token; others must not be able to read it." },
    { CONFIG_PATH(struct cli_settings, ca), .name = "ca", .def = "",
      .what = "PEM file of the authority that signed the controller's certificate; "
              "empty: the system's." },
    { CONFIG_ENUM(struct cli_settings, output), .name = "output", .choices = outputs,
      .def = "table", .what = "How results are printed." },
    { CONFIG_ENUM(struct cli_settings, wait), .name = "wait", .choices = waits,
      .def = "none", .what = "Wait until all online nodes have applied the change." },
    { CONFIG_U32(struct cli_settings, wait_ms), .name = "wait-ms", .min = 1,
      .max = 600000, .def = "30000", .unit = "ms", .what = "How long to wait." },
};

const struct config_table cli_settings_table = {
    .program = "xgwctl",
    .summary = "Talks to the controller of a region.",
    .keys = keys,
    .count = sizeof(keys) / sizeof(keys[0]),
    .values_size = sizeof(struct cli_settings),
    .check = check,
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

/* What was said where, before settings are made of it. */
struct scan {
    struct cli *cli;
    const char *settings[KEYS]; /* from the command line */
    const char *config;         /* --config FILE */
    const char *group;          /* first word of a command of two; else null */
    enum cli_action action;
    struct err *err;
};

static bool is_group_of(const char *word, const char *name)
{
    size_t len = strlen(word);

    return strncmp(name, word, len) == 0 && name[len] == ' ';
}

/* The command of that name; within a group, if one is given. */
static const struct cli_command *find_command(const char *group, const char *name)
{
    size_t len = group ? strlen(group) + 1 : 0;

    for (unsigned i = 0; i < cli_command_count; i++) {
        const char *has = cli_commands[i].name;

        if ((!group || is_group_of(group, has)) && strcmp(has + len, name) == 0) {
            return &cli_commands[i];
        }
    }
    return NULL;
}

/* "capacity needs one of: explain, plan" */
static enum rc fail_group(struct scan *s, const char *word)
{
    char names[128] = "";
    size_t n = 0;

    for (unsigned i = 0; i < cli_command_count && n < sizeof(names); i++) {
        if (is_group_of(s->group, cli_commands[i].name)) {
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "",
                                  cli_commands[i].name + strlen(s->group) + 1);
        }
    }
    return err_field(s->err, RC_INVALID, "command", "unknown_command",
                     "%s%s%s: no such command; %s needs one of %s", s->group,
                     word ? " " : "", word ? word : "", s->group, names);
}

static bool is_group(const char *word)
{
    for (unsigned i = 0; i < cli_command_count; i++) {
        if (is_group_of(word, cli_commands[i].name)) {
            return true;
        }
    }
    return false;
}

/* Where the value of `--name` or `-l` goes; null: no such option.  `*ret_is_flag`: it
 * has none. */
static const char **find_slot(struct scan *s, const char *name, size_t len, char letter,
                              bool *ret_is_flag)
{
    const struct cli_option *o = s->cli->command ? s->cli->command->options : NULL;

    *ret_is_flag = false;
    for (unsigned i = 0; o && o[i].name; i++) {
        if (letter ? o[i].letter == letter
                   : strlen(o[i].name) == len && memcmp(o[i].name, name, len) == 0) {
            *ret_is_flag = o[i].value == NULL;
            return &s->cli->options[i];
        }
    }
    for (unsigned i = 0; i < KEYS; i++) {
        if (letter
                ? letter == 'o' && strcmp(keys[i].name, "output") == 0
                : strlen(keys[i].name) == len && memcmp(keys[i].name, name, len) == 0) {
            return &s->settings[i];
        }
    }
    if (!letter && len == 6 && memcmp(name, "config", 6) == 0) {
        return &s->config;
    }
    return NULL;
}

/* One option at argv[*at]; moves on over a value that is a word of its own. */
static enum rc scan_option(struct scan *s, int argc, char *const *argv, int *at)
{
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t len = is_long ? strcspn(name, "=") : 1;
    const char *value = name[len] ? name + len + (name[len] == '=') : NULL;
    bool is_flag;
    const char **slot;

    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        s->action = CLI_HELP;
        return RC_OK;
    }
    if (strcmp(word, "--version") == 0) {
        s->action = CLI_VERSION;
        return RC_OK;
    }
    slot = find_slot(s, name, len, is_long ? 0 : name[0], &is_flag);
    if (!slot) {
        return err_field(s->err, RC_INVALID, word, "unknown_option",
                         "%s: no such option%s%s", word,
                         s->cli->command ? " of "
                                         : "; options of a command stand "
                                           "behind it",
                         s->cli->command ? s->cli->command->name : "");
    }
    if (*slot) {
        return err_field(s->err, RC_INVALID, word, "repeated_option", "%s: given twice",
                         word);
    }
    if (is_flag) {
        if (value) {
            return err_field(s->err, RC_INVALID, word, "option_value",
                             "%s: takes no value", word);
        }
        *slot = "";
        return RC_OK;
    }
    if (!value && ++*at < argc) {
        value = argv[*at];
    }
    if (!value) {
        return err_field(s->err, RC_INVALID, word, "option_value", "%s: needs a value",
                         word);
    }
    *slot = value;
    return RC_OK;
}

static enum rc scan_word(struct scan *s, const char *word)
{
    struct cli *cli = s->cli;

    if (!cli->command && !s->group && strcmp(word, "help") == 0) {
        s->action = CLI_HELP;
        return RC_OK;
    }
    if (!cli->command && s->group) {
        cli->command = find_command(s->group, word);
        return cli->command ? RC_OK : fail_group(s, word);
    }
    if (!cli->command && is_group(word)) {
        s->group = word;
        return RC_OK;
    }
    if (!cli->command) {
        cli->command = find_command(NULL, word);
        return cli->command
                   ? RC_OK
                   : err_field(s->err, RC_INVALID, "command", "unknown_command",
                               "'%s': no such command", word);
    }
    if (cli->arg_count == cli->command->max_args) {
        return err_field(s->err, RC_INVALID, "arguments", "argument_count",
                         "%s: '%s' is one argument too many", cli->command->name, word);
    }
    cli->args[cli->arg_count++] = word;
    return RC_OK;
}

static enum rc scan_all(struct scan *s, int argc, char *const *argv)
{
    bool is_literal = false;

    for (int i = 1; i < argc; i++) {
        bool is_option = !is_literal && argv[i][0] == '-' && argv[i][1] != '\0';
        enum rc rc = RC_OK;

        if (is_option && strcmp(argv[i], "--") == 0) {
            is_literal = true;
        } else {
            rc = is_option ? scan_option(s, argc, argv, &i) : scan_word(s, argv[i]);
        }
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

/* "token-file" → XGWCTL_TOKEN_FILE */
static const char *from_environment(const struct config_key *key, cli_getenv_fn *env)
{
    char name[64];
    size_t n = (size_t)snprintf(name, sizeof(name), "XGWCTL_%s", key->name);
    const char *value;

    for (size_t i = 0; i < n; i++) {
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    }
    value = env(name);
    return value && value[0] ? value : NULL;
}

/* The file that is read when none is named; "" if it is not there. */
static void default_config(cli_getenv_fn *env, char *to, size_t size)
{
    const char *xdg = env("XDG_CONFIG_HOME");
    const char *home = env("HOME");
    int n = -1;

    if (xdg && xdg[0]) {
        n = snprintf(to, size, "%s/xgwctl.conf", xdg);
    } else if (home && home[0]) {
        n = snprintf(to, size, "%s/.config/xgwctl.conf", home);
    }
    if (n < 0 || (size_t)n >= size || access(to, F_OK) != 0) {
        to[0] = '\0';
    }
}

static enum rc load_settings(const struct scan *s, cli_getenv_fn *env, struct err *err)
{
    char path[512];
    const char *config = s->config ? s->config : env("XGWCTL_CONFIG");
    char names[KEYS][32];
    char *argv[2 * KEYS + 3];
    int argc = 0;
    enum config_action action;

    if (!config || !config[0]) {
        default_config(env, path, sizeof(path));
        config = path;
    }
    argv[argc++] = (char *)"xgwctl";
    if (config[0]) {
        argv[argc++] = (char *)"--config";
        argv[argc++] = (char *)config;
    }
    for (unsigned i = 0; i < KEYS; i++) {
        const char *value =
            s->settings[i] ? s->settings[i] : from_environment(&keys[i], env);

        if (value) {
            snprintf(names[i], sizeof(names[i]), "--%s", keys[i].name);
            argv[argc++] = names[i];
            argv[argc++] = (char *)value;
        }
    }
    return config_load(&cli_settings_table, argc, argv, &s->cli->settings, &action,
                       err);
}

enum rc cli_parse(int argc, char *const *argv, cli_getenv_fn *env, struct cli *ret,
                  enum cli_action *ret_action, struct err *err)
{
    struct scan s = { .cli = ret, .action = CLI_RUN, .err = err };
    enum rc rc;

    memset(ret, 0, sizeof(*ret));
    rc = scan_all(&s, argc, argv);
    if (rc == RC_OK && s.action == CLI_RUN && !ret->command && s.group) {
        rc = fail_group(&s, NULL);
    }
    if (rc == RC_OK && s.action == CLI_RUN && !ret->command) {
        rc = err_field(err, RC_INVALID, "command", "unknown_command", "no command");
    }
    if (rc == RC_OK && s.action == CLI_RUN && ret->arg_count < ret->command->min_args) {
        rc = err_field(err, RC_INVALID, "arguments", "argument_count", "%s needs %s",
                       ret->command->name, ret->command->args);
    }
    if (rc == RC_OK && s.action == CLI_RUN) {
        rc = load_settings(&s, env, err);
    }
    if (rc == RC_OK) {
        *ret_action = s.action;
    }
    return rc;
}

/* ---- help ---- */

static void print_option(const char *name, char letter, const char *value,
                         const char *what, struct buf *to)
{
    char left[64];

    if (letter) {
        snprintf(left, sizeof(left), "-%c, --%s%s%s", letter, name, value ? " " : "",
                 value ? value : "");
    } else {
        snprintf(left, sizeof(left), "    --%s%s%s", name, value ? " " : "",
                 value ? value : "");
    }
    buf_printf(to, "  %-28s %s\n", left, what);
}

static void print_settings(struct buf *to)
{
    buf_text(to, "\nSettings (also in the environment, XGWCTL_SERVER and so on, and in "
                 "~/.config/xgwctl.conf as `server = …`):\n");
    for (unsigned i = 0; i < KEYS; i++) {
        char value[64] = "VALUE";
        char what[256];
        size_t n = 0;

        for (unsigned c = 0; keys[i].choices && keys[i].choices[c]; c++) {
            n += (size_t)snprintf(value + n, sizeof(value) - n, "%s%s", c ? "|" : "",
                                  keys[i].choices[c]);
        }
        snprintf(what, sizeof(what), "%s%s%s%s", keys[i].what,
                 keys[i].def[0] ? " [" : "", keys[i].def, keys[i].def[0] ? "]" : "");
        print_option(keys[i].name, strcmp(keys[i].name, "output") == 0 ? 'o' : 0, value,
                     what, to);
    }
    print_option("config", 0, "FILE", "Another settings file.", to);
}

static void print_program_help(struct buf *to)
{
    buf_text(to, "xgwctl - talks to the controller of a region\n\n"
                 "  xgwctl [SETTINGS] COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:\n");
    for (unsigned i = 0; i < cli_command_count; i++) {
        buf_printf(to, "  %-18s %s\n", cli_commands[i].name, cli_commands[i].summary);
    }
    print_settings(to);
    buf_text(to, "\nExit codes:\n"
                 "  0  done\n"
                 "  1  failed\n"
                 "  2  the command line makes no sense\n"
                 "  3  there is no such object\n"
                 "  4  durable, but not on all nodes within --wait-ms\n"
                 "  5  the controller does not answer\n"
                 "  6  denied: token, role, or --confirm missing\n"
                 "  7  the input breaks a rule, which the message names\n"
                 "  8  trace --live: a node does not as its entries say\n"
                 "\n`xgwctl COMMAND --help` says more, with examples.\n");
}

void cli_print_help(const struct cli_command *command, struct buf *to)
{
    if (!command) {
        print_program_help(to);
        return;
    }
    buf_printf(to, "%s\n\n  xgwctl %s %s%s\n", command->summary, command->name,
               command->args, command->options ? " [OPTIONS]" : "");
    if (command->options) {
        buf_text(to, "\nOptions:\n");
    }
    for (const struct cli_option *o = command->options; o && o->name; o++) {
        print_option(o->name, o->letter, o->value, o->what, to);
    }
    buf_printf(to, "\nExamples:\n%s", command->examples);
    print_settings(to);
}

/* ---- token ---- */

enum rc cli_read_token(const char *path, char *ret, size_t size, struct err *err)
{
    char line[CLI_TOKEN_SIZE + 2];
    struct stat st;
    size_t len;
    FILE *f;

    if (path[0] == '\0') {
        ret[0] = '\0';
        return RC_OK;
    }
    f = fopen(path, "re");
    if (!f) {
        return err_field(err, RC_INVALID, "token-file", "token_file", "%s: %s", path,
                         strerror(errno));
    }
    if (fstat(fileno(f), &st) != 0 || (st.st_mode & S_IRWXO) != 0) {
        fclose(f);
        return err_field(err, RC_INVALID, "token-file", "token_file_mode",
                         "%s: others may read it: chmod 0600", path);
    }
    if (!fgets(line, sizeof(line), f)) {
        line[0] = '\0';
    }
    fclose(f);
    len = strcspn(line, " \t\r\n");
    line[len] = '\0';
    if (len == 0 || len >= size) {
        return err_field(err, RC_INVALID, "token-file", "token_length",
                         "%s: its first line is no token of 1 to %zu characters", path,
                         size - 1);
    }
    memcpy(ret, line, len + 1);
    return RC_OK;
}
