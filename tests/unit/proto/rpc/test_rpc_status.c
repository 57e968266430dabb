#include "tests/unit/unit.h"

#include <string.h>

#include "proto/rpc/rpc_status.h"

static const struct {
    enum rc rc;
    enum rpc_code code;
} pairs[] = {
    { RC_OK, RPC_OK },
    { RC_INVALID, RPC_INVALID_ARGUMENT },
    { RC_RANGE, RPC_OUT_OF_RANGE },
    { RC_NOT_FOUND, RPC_NOT_FOUND },
    { RC_EXISTS, RPC_ALREADY_EXISTS },
    { RC_CONFLICT, RPC_FAILED_PRECONDITION },
    { RC_DENIED, RPC_PERMISSION_DENIED },
    { RC_FULL, RPC_RESOURCE_EXHAUSTED },
    { RC_STALE, RPC_ABORTED },
    { RC_UNREACHABLE, RPC_UNAVAILABLE },
    { RC_TIMEOUT, RPC_DEADLINE_EXCEEDED },
    { RC_BUG, RPC_INTERNAL },
};

START_TEST(codes_map_there_and_back)
{
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        ck_assert_int_eq(rpc_code_of_rc(pairs[i].rc), pairs[i].code);
        ck_assert_int_eq(rpc_rc_of_code(pairs[i].code), pairs[i].rc);
    }
    for (int code = RPC_CANCELLED; code <= RPC_UNAUTHENTICATED; code++) {
        ck_assert_int_ne(rpc_rc_of_code((enum rpc_code)code), RC_OK);
    }
    ck_assert_str_eq(rpc_code_name(RPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    ck_assert_str_eq(rpc_code_name((enum rpc_code)17), "UNKNOWN");
}
END_TEST

START_TEST(an_error_survives_the_trip_whatever_its_code)
{
    for (int rc = RC_INVALID; rc <= RC_BUG; rc++) {
        uint8_t details[RPC_DETAILS_MAX];
        struct err sent = { 0 };
        struct err got = { 0 };
        struct rpc_status status = { .message = "no room" };

        err_field(&sent, (enum rc)rc, "tables[1]", "table_full", "no room");
        status.code = rpc_code_of_rc(sent.code);
        status.details = details;
        status.details_len = rpc_details_encode(&sent, details, sizeof(details));
        ck_assert_uint_gt(status.details_len, 0);
        ck_assert_int_eq(rpc_status_to_err(&status, &got), rc);
        ck_assert_str_eq(got.msg, sent.msg);
        ck_assert_str_eq(got.field, sent.field);
        ck_assert_str_eq(got.rule, sent.rule);
    }
}
END_TEST

START_TEST(the_longest_error_fits_the_promised_size)
{
    uint8_t details[RPC_DETAILS_MAX];
    struct err err = { .code = RC_INVALID };

    memset(err.field, 'f', sizeof(err.field) - 1);
    memset(err.rule, 'r', sizeof(err.rule) - 1);
    memset(err.msg, 'm', sizeof(err.msg) - 1);
    ck_assert_uint_gt(rpc_details_encode(&err, details, sizeof(details)), 0);
    ck_assert_uint_eq(rpc_details_encode(&err, details, 100), 0);
    err.code = RC_OK;
    ck_assert_uint_eq(rpc_details_encode(&err, details, sizeof(details)), 0);
}
END_TEST

START_TEST(details_that_do_not_parse_are_ignored)
{
    static const uint8_t garbage[] = { 0xff, 0xff, 0xff, 0xff, 1, 2, 3 };
    const struct rpc_status status = { RPC_NOT_FOUND, "gone", garbage,
                                       sizeof(garbage) };
    struct err err = { 0 };

    ck_assert_int_eq(rpc_status_to_err(&status, &err), RC_NOT_FOUND);
    ck_assert_str_eq(err.msg, "gone");
    ck_assert_str_eq(err.field, "");
    ck_assert_int_eq(rpc_status_to_err(&status, NULL), RC_NOT_FOUND);
}
END_TEST

START_TEST(a_status_without_a_sentence_gets_the_name_of_its_code)
{
    const struct rpc_status status = { .code = RPC_UNAVAILABLE, .message = "" };
    struct err err = { 0 };

    ck_assert_int_eq(rpc_status_to_err(&status, &err), RC_UNREACHABLE);
    ck_assert_str_eq(err.msg, "UNAVAILABLE");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rpc_status");

    tcase_add_test(tc, codes_map_there_and_back);
    tcase_add_test(tc, an_error_survives_the_trip_whatever_its_code);
    tcase_add_test(tc, the_longest_error_fits_the_promised_size);
    tcase_add_test(tc, details_that_do_not_parse_are_ignored);
    tcase_add_test(tc, a_status_without_a_sentence_gets_the_name_of_its_code);
    return unit_run("rpc_status", tc);
}
