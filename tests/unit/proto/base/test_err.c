#include "tests/unit/unit.h"

#include "proto/base/err.h"

START_TEST(a_failure_is_one_line_and_says_field_and_rule)
{
    struct err err = { 0 };

    ck_assert_int_eq(err_field(&err, RC_RANGE, "vni", "vni_range", "vni %d: bad", 0),
                     RC_RANGE);
    ck_assert_str_eq(err.field, "vni");
    ck_assert_str_eq(err.rule, "vni_range");
    ck_assert_str_eq(err.msg, "vni 0: bad");
    ck_assert_int_eq(err_set(NULL, RC_FULL, "x"), RC_FULL);
}
END_TEST

START_TEST(wrapping_adds_the_outer_name_and_keeps_the_rest)
{
    struct err err = { 0 };

    err_field(&err, RC_FULL, "vm", "table_full", "no room");
    ck_assert_int_eq(err_wrap(&err, RC_BUG, "table %s", "vm_nc"), RC_FULL);
    ck_assert_int_eq(err_wrap(&err, RC_BUG, "cluster gw-7"), RC_FULL);
    ck_assert_str_eq(err.msg, "cluster gw-7: table vm_nc: no room");
    ck_assert_str_eq(err.field, "vm");
    ck_assert_int_eq(err_wrap(NULL, RC_BUG, "x"), RC_BUG);
}
END_TEST

START_TEST(every_code_has_a_name)
{
    for (int code = RC_OK; code <= RC_BUG; code++) {
        ck_assert_str_ne(rc_name((enum rc)code), "unknown");
    }
    ck_assert_str_eq(rc_name((enum rc)99), "unknown");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("err");

    tcase_add_test(tc, a_failure_is_one_line_and_says_field_and_rule);
    tcase_add_test(tc, wrapping_adds_the_outer_name_and_keeps_the_rest);
    tcase_add_test(tc, every_code_has_a_name);
    return unit_run("err", tc);
}
