#include "tests/unit/unit.h"

#include <string.h>

#include "controller/cli/cli_number.h"

static const struct {
    const char *text;
    double want;
} good[] = {
    { "0", 0 },        { "7", 7 },           { "007", 7 },     { "1.5", 1.5 },
    { "15T", 15e12 },  { "3.2T", 3.2e12 },   { "100G", 1e11 }, { "229294", 229294 },
    { "1.5M", 1.5e6 }, { "400k", 400000.0 }, { "0.02", 0.02 },
};

START_TEST(amounts_are_read_with_their_suffix)
{
    double got = -1;

    ck_assert_int_eq(cli_number("n", good[_i].text, 0, 1e18, &got, NULL), RC_OK);
    ck_assert_double_eq_tol(got, good[_i].want, good[_i].want * 1e-15 + 1e-12);
}
END_TEST

static const struct {
    const char *text;
    enum rc rc;
    const char *rule;
} bad[] = {
    { "", RC_INVALID, "amount_syntax" },     { "-1", RC_INVALID, "amount_syntax" },
    { "+1", RC_INVALID, "amount_syntax" },   { " 1", RC_INVALID, "amount_syntax" },
    { "1 ", RC_INVALID, "amount_syntax" },   { "1e3", RC_INVALID, "amount_syntax" },
    { "0x10", RC_INVALID, "amount_syntax" }, { "1.2.3", RC_INVALID, "amount_syntax" },
    { ".", RC_INVALID, "amount_syntax" },    { "1.", RC_INVALID, "amount_syntax" },
    { ".5", RC_INVALID, "amount_syntax" },   { "T", RC_INVALID, "amount_syntax" },
    { "1TT", RC_INVALID, "amount_syntax" },  { "1K", RC_INVALID, "amount_syntax" },
    { "nan", RC_INVALID, "amount_syntax" },  { "inf", RC_INVALID, "amount_syntax" },
    { "101", RC_RANGE, "amount_range" },     { "1T", RC_RANGE, "amount_range" },
    { "0.5", RC_RANGE, "amount_range" },
};

START_TEST(anything_else_names_option_and_rule)
{
    struct err err = { 0 };
    double got = 42;

    ck_assert_int_eq(cli_number("n", bad[_i].text, 1, 100, &got, &err), bad[_i].rc);
    ck_assert_str_eq(err.field, "n");
    ck_assert_str_eq(err.rule, bad[_i].rule);
    ck_assert_double_eq(got, 42);
}
END_TEST

START_TEST(numbers_of_any_length_are_out_of_range_and_no_more)
{
    char text[2000];
    double got = 42;

    memset(text, '9', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(cli_number("n", text, 0, 1e18, &got, NULL), RC_RANGE);
    text[1] = '.'; /* 9.99…: both parts pass all doubles, and nothing comes of it */
    ck_assert_int_ne(cli_number("n", text, 0, 1e18, &got, NULL), RC_OK);
    ck_assert_double_eq(got, 42);
}
END_TEST

START_TEST(rounding_keeps_so_many_decimals)
{
    ck_assert_double_eq(cli_round(57.98611, 2), 57.99);
    ck_assert_double_eq(cli_round(0.5, 0), 1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cli_number");

    tcase_add_loop_test(tc, amounts_are_read_with_their_suffix, 0, ARRAY_LEN(good));
    tcase_add_loop_test(tc, anything_else_names_option_and_rule, 0, ARRAY_LEN(bad));
    tcase_add_test(tc, numbers_of_any_length_are_out_of_range_and_no_more);
    tcase_add_test(tc, rounding_keeps_so_many_decimals);
    return unit_run("cli_number", tc);
}
