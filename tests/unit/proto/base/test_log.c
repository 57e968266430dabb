#include "tests/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/log.h"

/* What `say` wrote to stderr. */
static void capture(void (*say)(void), char *to, size_t size)
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t len;

    dup2(fileno(file), STDERR_FILENO);
    say();
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    len = fread(to, 1, size - 1, file);
    to[len] = '\0';
    fclose(file);
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;

    for (; *text; text++) {
        n += *text == '\n';
    }
    return n;
}

static void say_one(void)
{
    log_warn("session lost", "agent=%s cause=\"%s\"", "gw-7a", "line\nbreak");
    log_debug("hidden", "n=%d", 1);
}

START_TEST(a_line_is_logfmt_with_time_level_and_pairs)
{
    char got[8192];

    capture(say_one, got, sizeof(got));
    ck_assert_uint_eq(count_lines(got), 1);
    ck_assert_int_eq(strncmp(got, "ts=20", 5), 0);
    ck_assert_ptr_nonnull(strstr(got, "Z level=warn msg=\"session lost\" agent=gw-7a "
                                      "cause=\"line break\"\n"));
}
END_TEST

static void say_many(void)
{
    for (int i = 0; i < 1000; i++) {
        log_info("flood", "i=%d", i);
    }
}

START_TEST(a_call_site_is_limited_to_ten_lines_a_second)
{
    static char got[1 << 20];

    capture(say_many, got, sizeof(got));
    ck_assert_uint_ge(count_lines(got), 10);
    ck_assert_uint_le(count_lines(got), 20); /* the loop may cross a second once */
}
END_TEST

static void say_long(void)
{
    static char value[100000];

    memset(value, 'x', sizeof(value) - 1);
    log_error("long", "v=%s", value);
}

START_TEST(a_long_line_is_cut_and_still_one_line)
{
    static char got[1 << 20];

    capture(say_long, got, sizeof(got));
    ck_assert_uint_eq(count_lines(got), 1);
    ck_assert_uint_le(strlen(got), 4096);
}
END_TEST

static void *say_thread(void *arg)
{
    for (int i = 0; i < 200; i++) {
        log_info("shared", "thread=%d end=yes", *(int *)arg);
    }
    return NULL;
}

static void say_threads(void)
{
    pthread_t threads[4];
    int ids[4] = { 0, 1, 2, 3 };

    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, say_thread, &ids[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
}

START_TEST(threads_share_a_call_site_and_never_mix_lines)
{
    static char got[1 << 20];
    unsigned count = 0;

    capture(say_threads, got, sizeof(got));
    for (char *line = strtok(got, "\n"); line; line = strtok(NULL, "\n")) {
        ck_assert_int_eq(strncmp(line, "ts=20", 5), 0);
        ck_assert_ptr_nonnull(strstr(line, " end=yes"));
        count++;
    }
    ck_assert_uint_ge(count, 10);
    ck_assert_uint_le(count, 40); /* a second boundary may let some more through */
}
END_TEST

START_TEST(a_settings_choice_is_the_level_of_its_place)
{
    ck_assert_str_eq(log_level_names[LOG_DEBUG], "debug");
    ck_assert_str_eq(log_level_names[LOG_INFO], "info");
    ck_assert_str_eq(log_level_names[LOG_WARN], "warn");
    ck_assert_str_eq(log_level_names[LOG_ERROR], "error");
    ck_assert_ptr_null(log_level_names[LOG_ERROR + 1]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("log");

    tcase_add_test(tc, a_line_is_logfmt_with_time_level_and_pairs);
    tcase_add_test(tc, a_call_site_is_limited_to_ten_lines_a_second);
    tcase_add_test(tc, a_long_line_is_cut_and_still_one_line);
    tcase_add_test(tc, threads_share_a_call_site_and_never_mix_lines);
    tcase_add_test(tc, a_settings_choice_is_the_level_of_its_place);
    return unit_run("log", tc);
}
