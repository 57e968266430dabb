#include "tests/unit/unit.h"

#include <string.h>
#include <unistd.h>

#include "proto/base/config.h"

struct settings {
    bool busy_poll;
    uint32_t workers;
    uint32_t grace_ms;
    uint32_t mode;
    char listen[32];
    char store[64];
    char id[16];
};

static const char *const modes[] = { "x86", "lb", NULL };

static const struct config_key keys[] = {
    { CONFIG_BOOL(struct settings, busy_poll), .name = "busy-poll", .def = "false",
      .what = "Poll without ever sleeping." },
    { CONFIG_U32(struct settings, workers), .name = "workers", .min = 1, .max = 64,
      .unit = "threads", .def = "2", .what = "Packet workers." },
    { CONFIG_DURATION(struct settings, grace_ms), .name = "grace", .min = 100,
      .max = 3600000, .def = "3s", .reloadable = true,
      .what = "Time before a silent peer is suspect." },
    { CONFIG_ENUM(struct settings, mode), .name = "mode", .choices = modes,
      .def = "x86", .what = "Pipeline." },
    { CONFIG_TEXT(struct settings, listen), .name = "listen", .def = "127.0.0.1:8443",
      .reloadable = true, .what = "Address to serve on." },
    { CONFIG_PATH(struct settings, store), .name = "store", .def = "",
      .what = "File to keep state in." },
    { CONFIG_TEXT(struct settings, id), .name = "id", .what = "Name of this device." },
};

static enum rc check_settings(const void *values, struct err *err)
{
    const struct settings *s = values;

    if (s->busy_poll && s->workers > 32) {
        return err_field(err, RC_CONFLICT, "busy-poll", "cores", "too many workers");
    }
    return RC_OK;
}

static const struct config_table table = {
    .program = "xgw-test",
    .summary = "A program for tests.",
    .keys = keys,
    .count = ARRAY_LEN(keys),
    .values_size = sizeof(struct settings),
    .check = check_settings,
};

START_TEST(the_table_is_sound)
{
    struct err err = { 0 };

    ck_assert_msg(config_table_check(&table, &err) == RC_OK, "%s", err.msg);
}
END_TEST

START_TEST(an_unsound_table_is_found)
{
    struct config_key bad[2] = { keys[1], keys[1] };
    struct config_table t = table;
    struct err err = { 0 };

    t.keys = bad;
    t.count = 2;
    ck_assert_int_eq(config_table_check(&t, &err), RC_BUG); /* named twice */
    t.count = 1;
    ck_assert_int_eq(config_table_check(&t, &err), RC_OK);
    bad[0].def = "65";
    ck_assert_int_ne(config_table_check(&t, &err), RC_OK);
    bad[0] = keys[1];
    bad[0].what = "No full stop";
    ck_assert_int_eq(config_table_check(&t, &err), RC_BUG);
    bad[0] = keys[1];
    bad[0].size = 2;
    ck_assert_int_eq(config_table_check(&t, &err), RC_BUG);
    bad[0] = keys[1];
    bad[0].name = "Workers";
    ck_assert_int_eq(config_table_check(&t, &err), RC_BUG);
}
END_TEST

/* Files; `wrong` is the start of the message, null where the file is taken. */
static const struct {
    const char *text;
    const char *wrong;
    const char *field;
    const char *rule;
} file_cases[] = {
    { "id = gw-1", NULL, "", "" },
    { "# a comment\n\n  id=gw-1  \r\n\tworkers =\t64\nbusy-poll = false\n", NULL, "",
      "" },
    { "id = a = b # c\n", NULL, "", "" },
    { "id = x\nstore =\n", NULL, "", "" },
    { "", "id: must be given", "id", "required" },
    { "id = x\nworkrs = 3\n", "f:2: workrs: no such setting", "workrs", "unknown_key" },
    { "id = x\n\nid = y\n", "f:3: id: given twice", "id", "repeated_key" },
    { "id = x\nworkers = 65\n", "f:2: workers: not a number from 1 to 64 (threads)",
      "workers", "bounds" },
    { "id = x\nworkers = 0\n", "f:2: workers: ", "workers", "bounds" },
    { "id = x\nworkers = 4294967298\n", "f:2: workers: ", "workers", "bounds" },
    { "id = x\nworkers = 02\n", "f:2: workers: ", "workers", "number" },
    { "id = x\nworkers = -2\n", "f:2: workers: ", "workers", "number" },
    { "id = x\nworkers = 2x\n", "f:2: workers: ", "workers", "number" },
    { "id = x\nworkers =\n", "f:2: workers: ", "workers", "number" },
    { "id = x\nbusy-poll = yes\n", "f:2: busy-poll: not true or false", "busy-poll",
      "bool" },
    { "id = x\ngrace = 3\n",
      "f:2: grace: not a duration (ms, s, m, h) from 100ms to 1h", "grace",
      "duration" },
    { "id = x\ngrace = 99ms\n", "f:2: grace: ", "grace", "bounds" },
    { "id = x\ngrace = 2h\n", "f:2: grace: ", "grace", "bounds" },
    { "id = x\ngrace = 3 s\n", "f:2: grace: ", "grace", "duration" },
    { "id = x\nmode = h\n", "f:2: mode: not one of x86, lb", "mode", "choice" },
    { "id =\n", "f:1: id: empty", "id", "text_empty" },
    { "id = 1234567890123456\n", "f:1: id: longer than 15 bytes", "id", "text_length" },
    { "id = a\x01z\n", "f:1: id: has a control character", "id", "text_printable" },
    { "id\n", "f:1: not `key = value`", "", "line_syntax" },
    { "= x\n", "f:1: ", "", "unknown_key" },
    { "[section]\n", "f:1: ", "", "line_syntax" },
    { "id = x\nworkers = 33\nbusy-poll = true\n", "too many workers", "busy-poll",
      "cores" },
};

START_TEST(a_file_is_taken_whole_or_refused_with_file_line_and_key)
{
    const char *text = file_cases[_i].text;
    struct settings s;
    struct settings before;
    struct err err = { 0 };
    enum rc rc;

    memset(&s, 0x5a, sizeof(s));
    before = s;
    rc = config_parse(&table, "f", text, strlen(text), &s, &err);
    ck_assert_str_eq(err.field, file_cases[_i].field);
    ck_assert_str_eq(err.rule, file_cases[_i].rule);
    if (!file_cases[_i].wrong) {
        ck_assert_msg(rc == RC_OK, "%s", err.msg);
        return;
    }
    ck_assert_int_ne(rc, RC_OK);
    ck_assert_msg(
        strncmp(err.msg, file_cases[_i].wrong, strlen(file_cases[_i].wrong)) == 0, "%s",
        err.msg);
    ck_assert_mem_eq(&s, &before, sizeof(s));
}
END_TEST

START_TEST(values_arrive_in_the_struct_with_defaults_for_the_rest)
{
    static const char text[] =
        "id = gw-1\ngrace = 250ms\nmode = lb\nstore = /var/x y\n";
    struct settings s;
    struct err err = { 0 };

    ck_assert_int_eq(config_parse(&table, "f", text, sizeof(text) - 1, &s, &err),
                     RC_OK);
    ck_assert_str_eq(s.id, "gw-1");
    ck_assert_uint_eq(s.grace_ms, 250);
    ck_assert_uint_eq(s.mode, 1);
    ck_assert_str_eq(s.store, "/var/x y");
    ck_assert_uint_eq(s.workers, 2);
    ck_assert(!s.busy_poll);
    ck_assert_str_eq(s.listen, "127.0.0.1:8443");
}
END_TEST

static const struct {
    const char *args[6];
    const char *rule; /* "" where it is taken */
    uint32_t workers;
    bool busy_poll;
} line_cases[] = {
    { { "--id", "a" }, "", 2, false },
    { { "--id=a", "--busy-poll", "--workers", "7" }, "", 7, true },
    { { "--id=a", "--busy-poll=false", "--workers=7" }, "", 7, false },
    { { "--workers=7" }, "required", 0, false },
    { { "--id" }, "argument", 0, false },
    { { "--id", "--busy-poll" }, "argument", 0, false },
    { { "--id=a", "--busy-poll", "true" }, "argument", 0, false },
    { { "--id=a", "--id=b" }, "repeated_key", 0, false },
    { { "--id=a", "workers=7" }, "argument", 0, false },
    { { "-w" }, "argument", 0, false },
    { { "--" }, "argument", 0, false },
    { { "" }, "argument", 0, false },
    { { "--id=a", "--threads=7" }, "unknown_key", 0, false },
    { { "--id=a", "--workers=99" }, "bounds", 0, false },
    { { "--id=a", "--config" }, "argument", 0, false },
    { { "--id=a", "--config", "/nowhere/at/all" }, "file", 0, false },
};

static enum rc load(const char *const *args, struct settings *s,
                    enum config_action *action, struct err *err)
{
    char *argv[8] = { "xgw-test" };
    int argc = 1;

    while (argc < 7 && args[argc - 1]) {
        argv[argc] = (char *)args[argc - 1];
        argc++;
    }
    return config_load(&table, argc, argv, s, action, err);
}

START_TEST(a_command_line_takes_key_value_and_bare_booleans)
{
    struct settings s = { .workers = 77 };
    enum config_action action = (enum config_action)99;
    struct err err = { 0 };
    enum rc rc = load(line_cases[_i].args, &s, &action, &err);

    ck_assert_str_eq(err.rule, line_cases[_i].rule);
    if (line_cases[_i].rule[0]) {
        ck_assert_int_ne(rc, RC_OK);
        ck_assert_uint_eq(s.workers, 77);
        ck_assert_int_eq((int)action, 99);
    } else {
        ck_assert_int_eq(rc, RC_OK);
        ck_assert_int_eq(action, CONFIG_RUN);
        ck_assert_uint_eq(s.workers, line_cases[_i].workers);
        ck_assert_int_eq(s.busy_poll, line_cases[_i].busy_poll);
    }
}
END_TEST

START_TEST(the_command_line_wins_over_the_file_wherever_it_stands)
{
    char path[] = "/tmp/xgw-test-config-XXXXXX";
    int fd = mkstemp(path);
    const char *args[6] = { "--workers=5", "--config", path };
    struct settings s;
    enum config_action action;
    struct err err = { 0 };

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dprintf(fd, "id = file\nworkers = 9\ngrace = 1m\n"), 33);
    ck_assert_msg(load(args, &s, &action, &err) == RC_OK, "%s", err.msg);
    ck_assert_uint_eq(s.workers, 5);
    ck_assert_uint_eq(s.grace_ms, 60000);
    ck_assert_str_eq(s.id, "file");
    ck_assert_int_eq(dprintf(fd, "nonsense = 1\n"), 13);
    ck_assert_int_eq(load(args, &s, &action, &err), RC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    ck_assert_ptr_nonnull(strstr(err.msg, ":4: nonsense"));
    close(fd);
    unlink(path);
}
END_TEST

START_TEST(help_and_its_like_need_no_complete_settings)
{
    static const struct {
        const char *arg;
        enum config_action action;
    } cases[] = {
        { "--help", CONFIG_HELP },
        { "-h", CONFIG_HELP },
        { "--version", CONFIG_VERSION },
        { "--print-sample", CONFIG_SAMPLE },
        { "--print-reference", CONFIG_REFERENCE },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *args[6] = { cases[i].arg };
        struct settings s;
        enum config_action action = CONFIG_RUN;

        ck_assert_int_eq(load(args, &s, &action, NULL), RC_OK);
        ck_assert_int_eq(action, cases[i].action);
    }
}
END_TEST

START_TEST(printed_values_read_back_the_same)
{
    static const char text[] = "busy-poll = true\nworkers = 3\ngrace = 90s\nmode = lb\n"
                               "listen = [::1]:1\nstore = \nid = gw-1\n";
    struct settings s;
    struct settings again;
    struct buf b = BUF_INIT;
    struct err err = { 0 };

    ck_assert_msg(config_parse(&table, "f", text, strlen(text), &s, &err) == RC_OK,
                  "%s", err.msg);
    config_print_values(&table, &s, &b);
    ck_assert_str_eq(buf_cstr(&b), text);
    ck_assert_int_eq(config_parse(&table, "g", text, strlen(text), &again, &err),
                     RC_OK);
    ck_assert_mem_eq(&s, &again, sizeof(s));
    buf_fini(&b);
}
END_TEST

START_TEST(the_sample_without_its_comment_marks_is_a_file_of_defaults)
{
    struct buf sample = BUF_INIT;
    struct buf text = BUF_INIT;
    struct settings s;
    struct settings want;
    struct err err = { 0 };
    unsigned count = 0;

    config_print_sample(&table, &sample);
    for (char *line = strtok((char *)buf_cstr(&sample), "\n"); line;
         line = strtok(NULL, "\n")) {
        ck_assert_int_eq(line[0], '#'); /* as shipped it changes nothing */
        if (line[1] != ' ') {
            count++;
            buf_printf(&text, "%s%s\n", line + 1, strcmp(line, "#id = ") ? "" : "gw-1");
        }
    }
    ck_assert_uint_eq(count, ARRAY_LEN(keys));
    ck_assert_msg(config_parse(&table, "s", buf_cstr(&text), text.len, &s, &err) ==
                      RC_OK,
                  "%s", err.msg);
    ck_assert_int_eq(config_parse(&table, "f", "id = gw-1", 9, &want, &err), RC_OK);
    ck_assert_mem_eq(&s, &want, sizeof(s));
    buf_fini(&sample);
    buf_fini(&text);
}
END_TEST

START_TEST(help_and_reference_name_every_key_its_bounds_and_default)
{
    struct buf help = BUF_INIT;
    struct buf page = BUF_INIT;

    config_print_help(&table, &help);
    config_print_reference(&table, &page);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        ck_assert_ptr_nonnull(strstr(buf_cstr(&help), keys[i].name));
        ck_assert_ptr_nonnull(strstr(buf_cstr(&help), keys[i].what));
        ck_assert_ptr_nonnull(strstr(buf_cstr(&page), keys[i].what));
    }
    ck_assert_ptr_nonnull(
        strstr(buf_cstr(&help), "a number from 1 to 64 (threads); default 2\n"));
    ck_assert_ptr_nonnull(
        strstr(buf_cstr(&page), "| `grace` | a duration (ms, s, m, h) from 100ms to 1h "
                                "| `3s` | yes | Time before"));
    buf_fini(&help);
    buf_fini(&page);
}
END_TEST

START_TEST(a_reload_lists_changes_and_refuses_those_that_need_a_restart)
{
    struct settings before;
    struct settings after;
    struct buf changes = BUF_INIT;
    struct err err = { 0 };

    ck_assert_int_eq(config_parse(&table, "f", "id = a", 6, &before, &err), RC_OK);
    after = before;
    ck_assert_int_eq(config_check_reload(&table, &before, &after, &changes, &err),
                     RC_OK);
    ck_assert_str_eq(buf_cstr(&changes), "");
    after.grace_ms = 1000;
    ck_assert_int_eq(config_check_reload(&table, &before, &after, &changes, &err),
                     RC_OK);
    ck_assert_str_eq(buf_cstr(&changes), "grace: 3s -> 1s\n");
    after.workers = 3;
    buf_reset(&changes);
    ck_assert_int_eq(config_check_reload(&table, &before, &after, &changes, &err),
                     RC_CONFLICT);
    ck_assert_str_eq(err.field, "workers");
    ck_assert_str_eq(buf_cstr(&changes), "workers: 2 -> 3\ngrace: 3s -> 1s\n");
    buf_fini(&changes);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("config");

    tcase_add_test(tc, the_table_is_sound);
    tcase_add_test(tc, an_unsound_table_is_found);
    tcase_add_loop_test(tc, a_file_is_taken_whole_or_refused_with_file_line_and_key, 0,
                        ARRAY_LEN(file_cases));
    tcase_add_test(tc, values_arrive_in_the_struct_with_defaults_for_the_rest);
    tcase_add_loop_test(tc, a_command_line_takes_key_value_and_bare_booleans, 0,
                        ARRAY_LEN(line_cases));
    tcase_add_test(tc, the_command_line_wins_over_the_file_wherever_it_stands);
    tcase_add_test(tc, help_and_its_like_need_no_complete_settings);
    tcase_add_test(tc, printed_values_read_back_the_same);
    tcase_add_test(tc, the_sample_without_its_comment_marks_is_a_file_of_defaults);
    tcase_add_test(tc, help_and_reference_name_every_key_its_bounds_and_default);
    tcase_add_test(tc, a_reload_lists_changes_and_refuses_those_that_need_a_restart);
    return unit_run("config", tc);
}
