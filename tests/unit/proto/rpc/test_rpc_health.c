/* The health service by its wire bytes: HealthCheckRequest { service = 1 },
 * HealthCheckResponse { status = 1 } with 1 serving, 2 not serving, 3 unknown. */
#include "tests/unit/proto/rpc/rpc_fixture.h"

static struct fixture f;

static struct seen check(const char *request, size_t len)
{
    const struct rpc_part part = { .data = request, .len = len };
    struct seen s = { 0 };

    rpc_unary(f.channel, "/grpc.health.v1.Health/Check", &part, 1, NULL, seen_done, &s,
              NULL);
    RUN_UNTIL(&f, s.closed);
    return s;
}

START_TEST(check_answers_what_was_set)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    s = check("", 0);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_str_eq(s.last, "\x08\x02");
    ck_assert_int_eq(rpc_health_set(f.health, "", true), RC_OK);
    ck_assert_str_eq(check("", 0).last, "\x08\x01");
    ck_assert_int_eq(check("\x0a\x03xgw", 5).code, RPC_NOT_FOUND);
    ck_assert_int_eq(rpc_health_set(f.health, "xgw", true), RC_OK);
    ck_assert_str_eq(check("\x0a\x03xgw", 5).last, "\x08\x01");
    fixture_down(&f);
}
END_TEST

START_TEST(garbage_is_an_invalid_argument)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    s = check("\xff\xff\xff", 3);
    ck_assert_int_eq(s.code, RPC_INVALID_ARGUMENT);
    ck_assert_int_eq(s.err.code, RC_INVALID);
    ck_assert_str_eq(s.err.rule, "protobuf");
    ck_assert_str_eq(check("", 0).last, "\x08\x02"); /* and the server lives on */
    fixture_down(&f);
}
END_TEST

START_TEST(watch_tells_each_change_once)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/grpc.health.v1.Health/Watch", NULL, &s);
    rpc_call_send_bytes(s.call, "\x0a\x03xgw", 5);
    rpc_call_close_send(s.call);
    RUN_UNTIL(&f, s.messages == 1);
    ck_assert_str_eq(s.last, "\x08\x03"); /* not known yet */
    rpc_health_set(f.health, "xgw", false);
    RUN_UNTIL(&f, s.messages == 2);
    ck_assert_str_eq(s.last, "\x08\x02");
    rpc_health_set(f.health, "xgw", false);
    rpc_health_set(f.health, "other", true);
    rpc_health_set(f.health, "xgw", true);
    RUN_UNTIL(&f, s.messages == 3);
    ck_assert_str_eq(s.last, "\x08\x01");
    fixture_run_ms(&f, 50);
    ck_assert_uint_eq(s.messages, 3);
    rpc_call_cancel(s.call, RPC_CANCELLED, NULL);
    RUN_UNTIL(&f, s.closed);
    fixture_down(&f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rpc_health");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, check_answers_what_was_set);
    tcase_add_test(tc, garbage_is_an_invalid_argument);
    tcase_add_test(tc, watch_tells_each_change_once);
    return unit_run("rpc_health", tc);
}
