/* Calls of every kind between our server and our client, over a real socket. */
#include "tests/unit/proto/rpc/rpc_fixture.h"

#include <unistd.h>

static struct fixture f;

START_TEST(a_unary_call_brings_the_bytes_back)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    for (int i = 0; i < 100; i++) {
        s = ask(&f, "ping", NULL);
        ck_assert_int_eq(s.code, RPC_OK);
        ck_assert_str_eq(s.last, "ping");
        ck_assert_uint_eq(s.messages, 1);
    }
    s = ask(&f, "", NULL);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(s.bytes, 0);
    ck_assert_uint_eq(f.echo.opened, 101);
    fixture_down(&f);
}
END_TEST

START_TEST(headers_reach_the_server)
{
    const struct rpc_header header = { "authorization", "Bearer sesame" };
    const struct rpc_call_options options = { .headers = &header, .header_count = 1 };

    fixture_up(&f, NULL, NULL);
    ck_assert_str_eq(ask(&f, "auth", &options).last, "Bearer sesame");
    ck_assert_str_eq(ask(&f, "auth", NULL).last, "(none)");
    ck_assert_str_eq(ask(&f, "who", NULL).last, ""); /* no certificate, no name */
    fixture_down(&f);
}
END_TEST

START_TEST(an_error_arrives_with_code_sentence_field_and_rule)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    s = ask(&f, "fail", NULL);
    ck_assert_int_eq(s.code, RPC_OUT_OF_RANGE);
    ck_assert_int_eq(s.err.code, RC_RANGE);
    ck_assert_str_eq(s.err.msg, "vni 0: below 1");
    ck_assert_str_eq(s.err.field, "routes[3].vni");
    ck_assert_str_eq(s.err.rule, "vni_range");
    fixture_down(&f);
}
END_TEST

START_TEST(an_unknown_method_is_unimplemented)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Nothing", NULL, &s);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_UNIMPLEMENTED);
    ck_assert_uint_eq(f.echo.opened, 0);
    fixture_down(&f);
}
END_TEST

START_TEST(a_deadline_ends_the_call_at_both_ends)
{
    const struct rpc_call_options options = { .deadline_ms = 200 };
    const struct rpc_call_options long_one = { .deadline_ms = 60000 };
    double begin;
    struct seen s;
    long left;

    fixture_up(&f, NULL, NULL);
    left = strtol(ask(&f, "left", &long_one).last, NULL, 10);
    ck_assert_int_gt(left, 50000);
    ck_assert_int_le(left, 61000); /* grpc-timeout on the wire is rounded up */
    ck_assert_str_eq(ask(&f, "left", NULL).last, "-1");
    begin = fixture_now();
    s = ask(&f, "hang", &options);
    ck_assert_int_eq(s.code, RPC_DEADLINE_EXCEEDED);
    ck_assert_int_eq(s.err.code, RC_TIMEOUT);
    ck_assert(fixture_now() - begin >= 0.19);
    RUN_UNTIL(&f, f.echo.cancelled == 1);
    fixture_down(&f);
}
END_TEST

START_TEST(a_client_that_cancels_is_told_and_so_is_the_server)
{
    const struct rpc_part part = { .data = "hang", .len = 4 };
    struct rpc_call *call = NULL;
    struct seen s = { 0 };

    fixture_up(&f, NULL, NULL);
    rpc_unary(f.channel, "/test.Echo/Unary", &part, 1, NULL, seen_done, &s, &call);
    RUN_UNTIL(&f, f.echo.opened == 1);
    rpc_call_cancel(call, RPC_CANCELLED, "changed my mind");
    ck_assert_uint_eq(s.closed, 0); /* never from inside a call */
    RUN_UNTIL(&f, s.closed && f.echo.closed);
    ck_assert_int_eq(s.code, RPC_CANCELLED);
    ck_assert_uint_eq(f.echo.cancelled, 1);
    fixture_down(&f);
}
END_TEST

/* A client that dies in the middle must not look like one that said all it had. */
START_TEST(a_cancelled_client_stream_is_never_a_half_close)
{
    fixture_up(&f, NULL, NULL);
    for (unsigned i = 0; i < 200; i++) {
        struct seen s;

        open_stream(&f, "/test.Echo/Collect", NULL, &s);
        for (unsigned n = 0; n <= i % 5; n++) {
            rpc_call_send_bytes(s.call, "part", 4);
        }
        RUN_UNTIL(&f, f.echo.opened == i + 1);
        rpc_call_cancel(s.call, RPC_CANCELLED, NULL);
        RUN_UNTIL(&f, s.closed && f.echo.closed == i + 1);
        ck_assert_int_eq(s.code, RPC_CANCELLED);
    }
    ck_assert_uint_eq(f.echo.half_closed, 0);
    ck_assert_uint_eq(f.echo.cancelled, 200);
    fixture_down(&f);
}
END_TEST

START_TEST(a_server_that_cancels_ends_the_client)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &s);
    RUN_UNTIL(&f, s.opened && f.echo.last);
    rpc_call_cancel(f.echo.last, RPC_ABORTED, "term 4 is over");
    RUN_UNTIL(&f, s.closed && f.echo.closed);
    ck_assert(s.code == RPC_ABORTED || s.code == RPC_CANCELLED);
    ck_assert_uint_eq(f.echo.cancelled, 1);
    fixture_down(&f);
}
END_TEST

START_TEST(a_server_can_finish_while_the_client_still_may_send)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &s);
    RUN_UNTIL(&f, s.opened && f.echo.last);
    rpc_call_send_bytes(f.echo.last, "bye", 3);
    rpc_call_finish(f.echo.last, RPC_FAILED_PRECONDITION, "not the leader", NULL, 0);
    RUN_UNTIL(&f, s.closed && f.echo.closed);
    ck_assert_int_eq(s.code, RPC_FAILED_PRECONDITION);
    ck_assert_str_eq(s.message, "not the leader");
    ck_assert_str_eq(s.last, "bye");
    ck_assert_uint_eq(f.echo.cancelled, 0);
    fixture_down(&f);
}
END_TEST

START_TEST(a_client_stream_is_answered_at_its_half_close)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Collect", NULL, &s);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(rpc_call_send_bytes(s.call, "0123456789", 10), RC_OK);
    }
    rpc_call_close_send(s.call);
    ck_assert_int_eq(rpc_call_send_bytes(s.call, "late", 4), RC_INVALID);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_str_eq(s.last, "1000 10000");
    fixture_down(&f);
}
END_TEST

START_TEST(a_server_stream_arrives_whole_and_in_order)
{
    struct seen s;
    uint32_t last;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Stream", NULL, &s);
    rpc_call_send_bytes(s.call, "2000 65536", 10);
    rpc_call_close_send(s.call);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(s.messages, 2000);
    ck_assert_uint_eq(s.bytes, 2000ul * 65536);
    memcpy(&last, s.last, sizeof(last));
    ck_assert_uint_eq(last, 1999);
    ck_assert(f.echo.max_queued <= (4u << 20));
    fixture_down(&f);
}
END_TEST

/* What a reader that stopped costs: its queue (1 MiB here) plus what HTTP/2's windows
 * and the sockets hold, some 4 MiB measured; 16 MiB is far from the 640 MiB to come. */
START_TEST(a_reader_that_stops_stops_the_sender)
{
    const struct rpc_server_options so = { .max_queue_bytes = 1 << 20 };
    const struct rpc_call_options paused = { .paused = true };
    uint32_t before;
    struct seen s;

    fixture_up(&f, &so, NULL);
    open_stream(&f, "/test.Echo/Stream", &paused, &s);
    rpc_call_send_bytes(s.call, "10000 65536", 11);
    do {
        before = f.echo.produced;
        fixture_run_ms(&f, 300);
    } while (f.echo.produced != before || before == 0);
    ck_assert_uint_eq(s.messages, 0);
    ck_assert_uint_lt(before, 256); /* 16 MiB */
    ck_assert(f.echo.max_queued <= (1u << 20));

    rpc_call_resume(s.call);
    RUN_UNTIL(&f, s.messages > 1000);
    rpc_call_pause(s.call);
    do {
        before = f.echo.produced;
        fixture_run_ms(&f, 300);
    } while (f.echo.produced != before);
    ck_assert_uint_lt(before - s.messages, 256);
    rpc_call_resume(s.call);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(s.messages, 10000);
    fixture_down(&f);
}
END_TEST

START_TEST(what_arrived_before_a_good_end_is_shown_before_the_end)
{
    const struct rpc_call_options paused = { .paused = true };
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Stream", &paused, &s);
    rpc_call_send_bytes(s.call, "3 16", 4);
    RUN_UNTIL(&f, f.echo.produced == 3);
    fixture_run_ms(&f, 100);
    ck_assert_uint_eq(s.messages, 0);
    ck_assert_uint_eq(s.closed, 0);
    rpc_call_resume(s.call);
    RUN_UNTIL(&f, s.closed);
    ck_assert_uint_eq(s.messages, 3);
    ck_assert_int_eq(s.code, RPC_OK);
    fixture_down(&f);
}
END_TEST

/* Both ends have sends pending all the time: the pattern that loses messages when one
 * tag serves both directions. */
START_TEST(ping_pong_with_full_queues_loses_nothing)
{
    enum { COUNT = 20000 };
    const struct rpc_server_options so = { .max_queue_bytes = 64 << 10 };
    const struct rpc_channel_options co = { .max_queue_bytes = 64 << 10 };
    char payload[500];
    unsigned sent = 0;
    unsigned full = 0;
    struct seen s;

    memset(payload, 'p', sizeof(payload));
    fixture_up(&f, &so, &co);
    open_stream(&f, "/test.Echo/Bidi", NULL, &s);
    while (sent < COUNT) {
        enum rc rc = rpc_call_send_bytes(s.call, payload, 1 + sent % sizeof(payload));

        if (rc == RC_OK) {
            sent++;
            continue;
        }
        ck_assert_int_eq(rc, RC_FULL);
        full++;
        RUN_UNTIL(&f, s.writable == full);
    }
    ck_assert_uint_gt(full, 0);
    rpc_call_close_send(s.call);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(s.messages, COUNT);
    ck_assert(f.echo.max_queued <= (64u << 10));
    fixture_down(&f);
}
END_TEST

START_TEST(a_message_above_the_limit_is_refused_in_both_directions)
{
    const struct rpc_server_options so = { .max_message_bytes = 100000 };
    const struct rpc_channel_options co = { .max_message_bytes = 50000 };
    static char big[100001];
    struct seen s;

    memset(big, 'b', 100000);
    fixture_up(&f, &so, &co);
    big[50000] = '\0';
    s = ask(&f, big, NULL);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(s.bytes, 50000);
    big[50000] = 'b';
    s = ask(&f, big, NULL); /* the server takes it, its echo is too big for us */
    ck_assert_int_eq(s.code, RPC_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(s.message, "50000"));
    open_stream(&f, "/test.Echo/Collect", NULL, &s);
    {
        struct blob *blob = blob_new(100001);
        const struct rpc_part part = { .blob = blob };

        memset(blob->data, 0, blob->len);
        rpc_call_send(s.call, &part, 1);
        blob_unref(blob);
    }
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_RESOURCE_EXHAUSTED);
    fixture_down(&f);
}
END_TEST

START_TEST(a_default_limit_takes_16_mib)
{
    struct blob *blob = blob_new(16u << 20);
    const struct rpc_part part = { .blob = blob };
    struct seen s;

    memset(blob->data, 7, blob->len);
    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &s);
    ck_assert_int_eq(rpc_call_send(s.call, &part, 1), RC_OK);
    ck_assert_int_eq(rpc_call_send(s.call, &part, 1), RC_FULL);
    rpc_call_close_send(s.call);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_eq(s.code, RPC_OK);
    ck_assert_uint_eq(s.bytes, 16u << 20);
    fixture_down(&f);
    ck_assert_uint_eq(atomic_load(&blob->refs), 1); /* every reference came back */
    blob_unref(blob);
}
END_TEST

START_TEST(a_server_that_dies_is_noticed)
{
    struct seen s;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &s);
    RUN_UNTIL(&f, s.opened && f.echo.opened);
    fixture_kill_server(&f);
    RUN_UNTIL(&f, s.closed);
    ck_assert_int_ne(s.code, RPC_OK);
    s = ask(&f, "anybody there?", NULL);
    ck_assert_int_eq(s.code, RPC_UNAVAILABLE);
    ck_assert_int_eq(s.err.code, RC_UNREACHABLE);
    fixture_down(&f);
}
END_TEST

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

START_TEST(a_stopping_server_lets_calls_finish_within_its_grace)
{
    bool is_stopped = false;
    struct seen patient;
    struct seen hanging = { 0 };
    const struct rpc_part part = { .data = "hang", .len = 4 };

    fixture_up(&f, NULL, NULL);
    rpc_unary(f.channel, "/test.Echo/Unary", &part, 1, NULL, seen_done, &hanging, NULL);
    open_stream(&f, "/test.Echo/Collect", NULL, &patient);
    RUN_UNTIL(&f, f.echo.opened == 2);
    rpc_server_stop(f.server, 500, on_stopped, &is_stopped);
    rpc_call_send_bytes(patient.call, "last", 4);
    rpc_call_close_send(patient.call);
    RUN_UNTIL(&f, patient.closed);
    ck_assert_int_eq(patient.code, RPC_OK);
    ck_assert_str_eq(patient.last, "1 4");
    ck_assert(!is_stopped);
    RUN_UNTIL(&f, is_stopped && hanging.closed);
    ck_assert_int_ne(hanging.code, RPC_OK);
    fixture_down(&f);
}
END_TEST

START_TEST(freeing_the_loops_closes_every_call_once)
{
    static struct seen s[50];
    struct echo *echo = &f.echo;

    fixture_up(&f, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(s); i++) {
        open_stream(&f, i % 2 ? "/test.Echo/Bidi" : "/test.Echo/Stream", NULL, &s[i]);
        rpc_call_send_bytes(s[i].call, "100000 65536", 12);
    }
    RUN_UNTIL(&f, echo->opened == ARRAY_LEN(s));
    fixture_down(&f);
    for (size_t i = 0; i < ARRAY_LEN(s); i++) {
        ck_assert_uint_eq(s[i].closed, 1);
    }
}
END_TEST

START_TEST(a_channel_freed_with_calls_ends_them)
{
    const struct rpc_call_options paused = { .paused = true };
    struct seen open;
    struct seen waiting;

    fixture_up(&f, NULL, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &open);
    open_stream(&f, "/test.Echo/Stream", &paused, &waiting);
    rpc_call_send_bytes(waiting.call, "1 16", 4);
    RUN_UNTIL(&f, f.echo.produced == 1 && f.echo.opened == 2);
    fixture_run_ms(&f, 100); /* so that `waiting` has its message and its status */
    rpc_channel_free(f.channel);
    RUN_UNTIL(&f, open.closed && waiting.closed);
    ck_assert_int_eq(open.code, RPC_CANCELLED);
    ck_assert_uint_eq(waiting.messages, 0);
    fixture_down(&f);
}
END_TEST

/* HTTP/2's own limit holds back a third stream of one connection; ours is for all. */
START_TEST(too_many_calls_are_refused)
{
    const struct rpc_server_options so = { .max_calls = 1 };
    struct rpc_channel *first;
    struct seen a;
    struct seen b;

    fixture_up(&f, &so, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &a);
    RUN_UNTIL(&f, a.opened);
    first = f.channel;
    fixture_dial(&f, NULL);
    open_stream(&f, "/test.Echo/Bidi", NULL, &b);
    RUN_UNTIL(&f, b.closed);
    ck_assert_int_eq(b.code, RPC_RESOURCE_EXHAUSTED);
    ck_assert_uint_eq(a.closed, 0);
    rpc_channel_free(first);
    RUN_UNTIL(&f, a.closed && f.echo.closed == 1);
    open_stream(&f, "/test.Echo/Bidi", NULL, &b); /* ended ones do not count any more */
    RUN_UNTIL(&f, b.opened);
    ck_assert_uint_eq(b.closed, 0);
    fixture_down(&f);
}
END_TEST

START_TEST(two_servers_cannot_share_an_address)
{
    char path[] = "/tmp/xgw-rpc-XXXXXX";
    char address[64];
    struct rpc_server *second = NULL;
    struct err err = { 0 };

    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(address, sizeof(address), "unix:%s/s", path);
    fixture_init(&f);
    fixture_serve(&f, NULL, NULL, address);
    fixture_dial(&f, NULL);
    ck_assert_str_eq(ask(&f, "over unix", NULL).last, "over unix");
    ck_assert_int_eq(rpc_server_new(f.client_loop, NULL, &second, &err), RC_OK);
    ck_assert_int_eq(rpc_server_listen(second, address, NULL, NULL, &err), RC_EXISTS);
    ck_assert_str_eq(err.field, "address");
    ck_assert_str_eq(ask(&f, "still", NULL).last, "still");
    fixture_down(&f);

    fixture_up(&f, NULL, NULL);
    ck_assert_int_eq(rpc_server_new(f.client_loop, NULL, &second, &err), RC_OK);
    ck_assert_int_eq(rpc_server_listen(second, f.address, NULL, NULL, &err), RC_EXISTS);
    fixture_down(&f);
    unlink(address + 5);
    rmdir(path);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rpc_call");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_unary_call_brings_the_bytes_back);
    tcase_add_test(tc, headers_reach_the_server);
    tcase_add_test(tc, an_error_arrives_with_code_sentence_field_and_rule);
    tcase_add_test(tc, an_unknown_method_is_unimplemented);
    tcase_add_test(tc, a_deadline_ends_the_call_at_both_ends);
    tcase_add_test(tc, a_client_that_cancels_is_told_and_so_is_the_server);
    tcase_add_test(tc, a_cancelled_client_stream_is_never_a_half_close);
    tcase_add_test(tc, a_server_that_cancels_ends_the_client);
    tcase_add_test(tc, a_server_can_finish_while_the_client_still_may_send);
    tcase_add_test(tc, a_client_stream_is_answered_at_its_half_close);
    tcase_add_test(tc, a_server_stream_arrives_whole_and_in_order);
    tcase_add_test(tc, a_reader_that_stops_stops_the_sender);
    tcase_add_test(tc, what_arrived_before_a_good_end_is_shown_before_the_end);
    tcase_add_test(tc, ping_pong_with_full_queues_loses_nothing);
    tcase_add_test(tc, a_message_above_the_limit_is_refused_in_both_directions);
    tcase_add_test(tc, a_default_limit_takes_16_mib);
    tcase_add_test(tc, a_server_that_dies_is_noticed);
    tcase_add_test(tc, a_stopping_server_lets_calls_finish_within_its_grace);
    tcase_add_test(tc, freeing_the_loops_closes_every_call_once);
    tcase_add_test(tc, a_channel_freed_with_calls_ends_them);
    tcase_add_test(tc, too_many_calls_are_refused);
    tcase_add_test(tc, two_servers_cannot_share_an_address);
    return unit_run("rpc_call", tc);
}
