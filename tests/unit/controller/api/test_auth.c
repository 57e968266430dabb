#include "tests/unit/unit.h"

#include "controller/api/auth.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of that content and mode; the caller unlinks it. */
static void write_file(char path[32], const char *text, mode_t mode)
{
    int fd;

    strcpy(path, "/tmp/xgw-auth-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static const char good[] = "# operators\n"
                           "\n"
                           "viewer-token-000 viewer vera\n"
                           "\toperator-token-0  operator\totto # night shift\r\n"
                           "admin-token-00000 admin ada";

static const struct {
    const char *header;
    enum role role;
    const char *who;
} checks[] = {
    { "Bearer viewer-token-000", ROLE_VIEWER, "vera" },
    { "bearer operator-token-0", ROLE_OPERATOR, "otto" },
    { "Bearer admin-token-00000", ROLE_ADMIN, "ada" },
    { "Bearer admin-token-0000", ROLE_NONE, "anonymous" },
    { "Bearer admin-token-000000", ROLE_NONE, "anonymous" },
    { "Bearer Admin-token-00000", ROLE_NONE, "anonymous" },
    { "Bearer ", ROLE_NONE, "anonymous" },
    { "Bearer", ROLE_NONE, "anonymous" },
    { "Basic admin-token-00000", ROLE_NONE, "anonymous" },
    { "admin-token-00000", ROLE_NONE, "anonymous" },
    { "", ROLE_NONE, "anonymous" },
    { NULL, ROLE_NONE, "anonymous" },
};

START_TEST(only_the_whole_token_gives_its_role)
{
    char path[32];
    char who[AUTH_NAME_MAX + 1];
    struct auth *a = NULL;
    struct err err = { 0 };

    write_file(path, good, 0600);
    ck_assert_int_eq(auth_load(path, &a, &err), RC_OK);
    ck_assert(!auth_is_open(a));
    ck_assert_int_eq(auth_check(a, checks[_i].header, who), checks[_i].role);
    ck_assert_str_eq(who, checks[_i].who);
    auth_free(a);
    unlink(path);
}
END_TEST

START_TEST(a_token_longer_than_any_is_none)
{
    char path[32];
    char header[1024] = "Bearer ";
    char who[AUTH_NAME_MAX + 1];
    struct auth *a = NULL;

    memset(header + 7, 'x', sizeof(header) - 8);
    write_file(path, good, 0640);
    ck_assert_int_eq(auth_load(path, &a, NULL), RC_OK);
    ck_assert_int_eq(auth_check(a, header, who), ROLE_NONE);
    auth_free(a);
    unlink(path);
}
END_TEST

START_TEST(without_a_file_everybody_is_admin)
{
    char who[AUTH_NAME_MAX + 1];
    struct auth *a = NULL;

    ck_assert_int_eq(auth_load("", &a, NULL), RC_OK);
    ck_assert(auth_is_open(a));
    ck_assert_int_eq(auth_check(a, NULL, who), ROLE_ADMIN);
    ck_assert_str_eq(who, "anonymous");
    auth_free(a);
}
END_TEST

static const struct {
    const char *text;
    mode_t mode;
    enum rc rc;
    const char *place; /* in the message */
} bad_files[] = {
    { good, 0644, RC_DENIED, "chmod" },
    { good, 0660, RC_DENIED, "chmod" },
    { "viewer-token-000 viewer\n", 0600, RC_INVALID, ":1:" },
    { "# x\nviewer-token-000 viewer a b\n", 0600, RC_INVALID, ":2:" },
    { "viewer-token-000 boss vera\n", 0600, RC_INVALID, ":1:" },
    { "viewer-token-000 none vera\n", 0600, RC_INVALID, ":1:" },
    { "short viewer vera\n", 0600, RC_RANGE, ":1:" },
    { "viewer-token-000 viewer a\nviewer-token-000 admin b\n", 0600, RC_INVALID,
      ":2:" },
};

START_TEST(a_bad_file_is_refused_with_its_line)
{
    char path[32];
    struct auth *a = NULL;
    struct err err = { 0 };

    write_file(path, bad_files[_i].text, bad_files[_i].mode);
    ck_assert_int_eq(auth_load(path, &a, &err), bad_files[_i].rc);
    ck_assert_ptr_null(a);
    ck_assert_ptr_nonnull(strstr(err.msg, bad_files[_i].place));
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    unlink(path);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_not_read_as_two)
{
    char path[32];
    char text[700];
    struct auth *a = NULL;
    struct err err = { 0 };

    memset(text, ' ', sizeof(text) - 1);
    strcpy(text + 520, "viewer-token-000 admin eve\n");
    write_file(path, text, 0600);
    ck_assert_int_eq(auth_load(path, &a, &err), RC_INVALID);
    ck_assert_int_eq(auth_load("/nowhere/tokens", &a, &err), RC_NOT_FOUND);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("auth");

    tcase_add_loop_test(tc, only_the_whole_token_gives_its_role, 0, ARRAY_LEN(checks));
    tcase_add_test(tc, a_token_longer_than_any_is_none);
    tcase_add_test(tc, without_a_file_everybody_is_admin);
    tcase_add_loop_test(tc, a_bad_file_is_refused_with_its_line, 0,
                        ARRAY_LEN(bad_files));
    tcase_add_test(tc, a_line_that_is_too_long_is_not_read_as_two);
    return unit_run("auth", tc);
}
