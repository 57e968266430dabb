#include "tests/unit/unit.h"

#include "controller/cli/cli_options.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *server_in_environment;
static const char *config_in_environment;

static const char *environment(const char *name)
{
    if (strcmp(name, "XGWCTL_SERVER") == 0) {
        return server_in_environment;
    }
    if (strcmp(name, "XGWCTL_CONFIG") == 0) {
        return config_in_environment;
    }
    return NULL;
}

/* `line` is cut at spaces. */
static enum rc parse(const char *line, struct cli *ret, enum cli_action *ret_action,
                     struct err *err)
{
    static char text[512]; /* cli points into it */
    char *argv[32] = { text };
    char *rest = text;
    int argc = 0;

    snprintf(text, sizeof(text), "%s", line);
    while ((argv[argc] = strsep(&rest, " ")) != NULL) {
        argc++;
    }
    return cli_parse(argc, argv, environment, ret, ret_action, err);
}

START_TEST(options_and_settings_stand_before_or_behind)
{
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_eq(parse("xgwctl --wait=applied --server http://127.0.0.1:1 apply -f "
                           "r.yaml --dry-run --wait-ms 5 -o json",
                           &cli, &action, &err),
                     RC_OK);
    ck_assert_int_eq(action, CLI_RUN);
    ck_assert_str_eq(cli.command->name, "apply");
    ck_assert_str_eq(cli_option(&cli, "file"), "r.yaml");
    ck_assert_str_eq(cli_option(&cli, "dry-run"), "");
    ck_assert_ptr_null(cli_option(&cli, "confirm"));
    ck_assert_str_eq(cli.settings.server, "http://127.0.0.1:1");
    ck_assert_uint_eq(cli.settings.wait, CLI_WAIT_APPLIED);
    ck_assert_uint_eq(cli.settings.wait_ms, 5);
    ck_assert_uint_eq(cli.settings.output, CLI_JSON);
}
END_TEST

START_TEST(arguments_are_words_and_a_dash)
{
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_eq(parse("xgwctl get route 100 10.0.0.0/8", &cli, &action, &err),
                     RC_OK);
    ck_assert_uint_eq(cli.arg_count, 3);
    ck_assert_str_eq(cli.args[2], "10.0.0.0/8");
    ck_assert_int_eq(parse("xgwctl import -", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.args[0], "-");
    ck_assert_int_eq(parse("xgwctl import -- --format", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.args[0], "--format");
}
END_TEST

START_TEST(a_command_of_a_group_has_two_words)
{
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_eq(
        parse("xgwctl capacity -o json explain --fill 80", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.command->name, "capacity explain");
    ck_assert_str_eq(cli_option(&cli, "fill"), "80");
    ck_assert_uint_eq(cli.settings.output, CLI_JSON);
    ck_assert_int_eq(parse("xgwctl help capacity plan", &cli, &action, &err), RC_OK);
    ck_assert_int_eq(action, CLI_HELP);
    ck_assert_str_eq(cli.command->name, "capacity plan");
    ck_assert_int_eq(parse("xgwctl capacity --help", &cli, &action, &err), RC_OK);
    ck_assert_int_eq(action, CLI_HELP);
    ck_assert_ptr_null(cli.command);
}
END_TEST

static const struct {
    const char *line;
    const char *rule;
} bad_cases[] = {
    { "xgwctl", "unknown_command" },
    { "xgwctl frobnicate", "unknown_command" },
    { "xgwctl capacity", "unknown_command" },
    { "xgwctl capacity frobnicate", "unknown_command" },
    { "xgwctl capacity help", "unknown_command" },
    { "xgwctl explain", "unknown_command" },
    { "xgwctl capacity explain now", "argument_count" },
    { "xgwctl capacity plan --fill 5", "unknown_option" },
    { "xgwctl get", "argument_count" },
    { "xgwctl status now", "argument_count" },
    { "xgwctl import a b", "argument_count" },
    { "xgwctl apply -f", "option_value" },
    { "xgwctl apply --dry-run=yes", "option_value" },
    { "xgwctl apply -f a -f b", "repeated_option" },
    { "xgwctl apply --format csv", "unknown_option" },
    { "xgwctl --dry-run apply", "unknown_option" },
    { "xgwctl status --server ftp://x", "url" },
    { "xgwctl status --server http://192.0.2.1:7080 --token-file t", "tls_required" },
};

START_TEST(a_misuse_names_the_rule)
{
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_eq(parse(bad_cases[_i].line, &cli, &action, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, bad_cases[_i].rule);
}
END_TEST

START_TEST(bad_values_of_settings_are_refused)
{
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_ne(parse("xgwctl status -o xml", &cli, &action, &err), RC_OK);
    ck_assert_int_ne(parse("xgwctl status --wait-ms 0", &cli, &action, &err), RC_OK);
    ck_assert_int_ne(parse("xgwctl status --wait soon", &cli, &action, &err), RC_OK);
}
END_TEST

START_TEST(the_command_line_wins_over_environment_over_file_over_default)
{
    char path[] = "/tmp/xgwctl-test-XXXXXX";
    static const char text[] = "server = http://127.0.0.1:3\ngrpc = 127.0.0.1:4\n";
    int fd = mkstemp(path);
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
    ck_assert_int_eq(parse("xgwctl status", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.settings.server, "http://127.0.0.1:7080");

    config_in_environment = path;
    ck_assert_int_eq(parse("xgwctl status", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.settings.server, "http://127.0.0.1:3");
    ck_assert_str_eq(cli.settings.grpc, "127.0.0.1:4");

    server_in_environment = "http://127.0.0.1:2";
    ck_assert_int_eq(parse("xgwctl status", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.settings.server, "http://127.0.0.1:2");

    ck_assert_int_eq(
        parse("xgwctl status --server http://127.0.0.1:1", &cli, &action, &err), RC_OK);
    ck_assert_str_eq(cli.settings.server, "http://127.0.0.1:1");
    unlink(path);
}
END_TEST

START_TEST(help_needs_neither_arguments_nor_a_sound_configuration)
{
    struct cli cli;
    enum cli_action action;
    struct err err = { 0 };

    ck_assert_int_eq(parse("xgwctl get --help", &cli, &action, &err), RC_OK);
    ck_assert_int_eq(action, CLI_HELP);
    ck_assert_str_eq(cli.command->name, "get");
    ck_assert_int_eq(parse("xgwctl help import", &cli, &action, &err), RC_OK);
    ck_assert_int_eq(action, CLI_HELP);
    ck_assert_str_eq(cli.command->name, "import");
    ck_assert_int_eq(parse("xgwctl -h", &cli, &action, &err), RC_OK);
    ck_assert_ptr_null(cli.command);
}
END_TEST

START_TEST(every_command_has_help_with_examples)
{
    ck_assert_int_eq(config_table_check(&cli_settings_table, NULL), RC_OK);
    for (unsigned i = 0; i < cli_command_count; i++) {
        struct buf text = BUF_INIT;
        char example[64];

        cli_print_help(&cli_commands[i], &text);
        snprintf(example, sizeof(example), "xgwctl %s", cli_commands[i].name);
        ck_assert_ptr_nonnull(strstr(buf_cstr(&text), example));
        ck_assert_ptr_nonnull(strstr(buf_cstr(&text), "Examples:"));
        buf_fini(&text);
    }
}
END_TEST

START_TEST(a_token_file_that_others_can_read_is_refused)
{
    char path[] = "/tmp/xgwctl-test-XXXXXX";
    char token[CLI_TOKEN_SIZE];
    int fd = mkstemp(path);
    struct err err = { 0 };

    ck_assert_int_eq((int)write(fd, "0123456789abcdef\r\nx", 19), 19);
    close(fd);
    ck_assert_int_eq(cli_read_token(path, token, sizeof(token), &err), RC_OK);
    ck_assert_str_eq(token, "0123456789abcdef");
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(cli_read_token(path, token, sizeof(token), &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "token_file_mode");
    unlink(path);
    ck_assert_int_eq(cli_read_token("", token, sizeof(token), &err), RC_OK);
    ck_assert_str_eq(token, "");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cli_options");

    tcase_add_test(tc, options_and_settings_stand_before_or_behind);
    tcase_add_test(tc, arguments_are_words_and_a_dash);
    tcase_add_test(tc, a_command_of_a_group_has_two_words);
    tcase_add_loop_test(tc, a_misuse_names_the_rule, 0, ARRAY_LEN(bad_cases));
    tcase_add_test(tc, bad_values_of_settings_are_refused);
    tcase_add_test(tc, the_command_line_wins_over_environment_over_file_over_default);
    tcase_add_test(tc, help_needs_neither_arguments_nor_a_sound_configuration);
    tcase_add_test(tc, every_command_has_help_with_examples);
    tcase_add_test(tc, a_token_file_that_others_can_read_is_refused);
    return unit_run("cli_options", tc);
}
