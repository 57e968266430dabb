#include "tests/unit/unit.h"

#include "controller/options.h"

static enum rc load(struct options *o, struct err *err, int argc, char **argv)
{
    enum config_action action;

    return config_load(&options_table, argc, argv, o, &action, err);
}

START_TEST(the_table_is_sound)
{
    struct err err = { 0 };

    ck_assert_msg(config_table_check(&options_table, &err) == RC_OK, "%s", err.msg);
}
END_TEST

static const struct {
    const char *listen;
    bool is_here; /* no other machine reaches it */
} addresses[] = {
    { "127.0.0.1:1", true },
    { "127.255.0.9:1", true }, /* RFC 6890: 127/8 */
    { "[::1]:1", true },
    { "localhost:1", true },
    { "0.0.0.0:1", false },
    { "[::]:1", false },
    { "10.0.0.1:1", false },
    { "127.evil.example:1", false },
    { "127.0.0.1.example:1", false },
    { "localhost.example:1", false },
    { "[::ffff:127.0.0.1]:1", false },
    { ":1", false },
    { "127.0.0.1", false },
};

START_TEST(plain_text_and_no_tokens_are_for_loopback_addresses)
{
    char *plain[] = { (char *)"x", (char *)"--plain-text", (char *)"--rest-listen",
                      (char *)(uintptr_t)addresses[_i].listen };
    char *open[] = { (char *)"x",
                     (char *)"--tls-ca=a",
                     (char *)"--tls-cert=b",
                     (char *)"--tls-key=c",
                     (char *)"--grpc-listen",
                     (char *)(uintptr_t)addresses[_i].listen };
    struct options o;
    struct err err = { 0 };

    ck_assert_int_eq(load(&o, &err, 4, plain) == RC_OK, addresses[_i].is_here);
    if (!addresses[_i].is_here) {
        ck_assert_str_eq(err.rule, "tls_required");
    }
    ck_assert_int_eq(load(&o, &err, 6, open) == RC_OK, addresses[_i].is_here);
    if (!addresses[_i].is_here) {
        ck_assert_str_eq(err.rule, "tokens_required");
    }
}
END_TEST

START_TEST(tls_needs_its_three_files)
{
    char *argv[] = { (char *)"x", (char *)"--tls-ca=a", (char *)"--tls-cert=b" };
    struct options o;
    struct err err = { 0 };

    ck_assert_int_eq(load(&o, &err, 3, argv), RC_INVALID);
    ck_assert_str_eq(err.rule, "tls_required");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("options");

    tcase_add_test(tc, the_table_is_sound);
    tcase_add_loop_test(tc, plain_text_and_no_tokens_are_for_loopback_addresses, 0,
                        ARRAY_LEN(addresses));
    tcase_add_test(tc, tls_needs_its_three_files);
    return unit_run("options", tc);
}
