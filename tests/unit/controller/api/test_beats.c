#include "tests/unit/unit.h"

#include "controller/api/beats.h"
#include "controller/health/liveness.h"
#include "proto/rpc/program.h"

#include <event2/event.h>
#include <pthread.h>
#include <string.h>

#define SILENCE_MS (LIVENESS_BEAT_MS * LIVENESS_MISSED)

static uint64_t clock_ms;

static uint64_t fake_now(void)
{
    return clock_ms;
}

struct heard {
    struct event_base *base;
    unsigned count;
    char device_id[64];
    bool is_silent;
};

static void on_transition(void *arg, const char *device_id, bool is_silent)
{
    struct heard *h = arg;

    h->count++;
    snprintf(h->device_id, sizeof(h->device_id), "%s", device_id);
    h->is_silent = is_silent;
    event_base_loopbreak(h->base);
}

static struct beats *make(struct heard *h, bool has_thread)
{
    struct beats_config config = { event_base_new(),
                                   has_thread ? program_now_ms : fake_now, has_thread };
    struct beats *b = NULL;

    clock_ms = 1000;
    h->base = config.base;
    ck_assert_int_eq(beats_new(&config, on_transition, h, &b, NULL), RC_OK);
    return b;
}

static struct beats_line *line_of(struct beats *b, const char *device_id)
{
    struct beats_line *line = beats_open(b);

    beats_name(line, device_id);
    return line;
}

/* The detector's thread goes on; the loop does nothing. */
static void stall(struct beats *b, uint64_t ms)
{
    for (uint64_t end = clock_ms + ms; clock_ms < end;) {
        clock_ms += LIVENESS_CHECK_MS;
        beats_check(b);
    }
}

static void turn(struct heard *h)
{
    event_base_loop(h->base, EVLOOP_NONBLOCK);
}

START_TEST(a_loop_that_stalls_makes_no_live_device_silent)
{
    struct heard h = { 0 };
    struct beats *b = make(&h, false);
    struct beats_line *line = line_of(b, "gw-1");

    /* The first beat of the stall waits for the loop, and with it all that follow. */
    stall(b, LIVENESS_BEAT_MS);
    beats_arrived(line);
    stall(b, 5 * LIVENESS_BEAT_MS);
    turn(&h);
    ck_assert_uint_eq(h.count, 0);
    /* It is heard as soon as it is listened to again. */
    beats_taken(line);
    stall(b, LIVENESS_BEAT_MS);
    beats_arrived(line);
    beats_taken(line);
    stall(b, SILENCE_MS - 2 * LIVENESS_CHECK_MS);
    turn(&h);
    ck_assert_uint_eq(h.count, 0);
    beats_close(line, true);
    beats_free(b);
    event_base_free(h.base);
}
END_TEST

START_TEST(a_device_that_falls_silent_while_the_loop_stalls_is_found)
{
    struct heard h = { 0 };
    struct beats *b = make(&h, false);
    struct beats_line *quiet = line_of(b, "gw-1");
    struct beats_line *alive = line_of(b, "gw-2");

    beats_arrived(quiet);
    beats_taken(quiet);
    beats_arrived(alive);
    stall(b, SILENCE_MS + LIVENESS_CHECK_MS);
    ck_assert_uint_eq(h.count, 0); /* only the loop is told */
    turn(&h);
    ck_assert_uint_eq(h.count, 1);
    ck_assert_str_eq(h.device_id, "gw-1");
    ck_assert(h.is_silent);
    beats_arrived(quiet);
    stall(b, LIVENESS_CHECK_MS);
    turn(&h);
    ck_assert_uint_eq(h.count, 2);
    ck_assert_str_eq(h.device_id, "gw-1");
    ck_assert(!h.is_silent);
    beats_close(quiet, false);
    beats_close(alive, false);
    beats_free(b);
    event_base_free(h.base);
}
END_TEST

START_TEST(what_arrived_and_was_never_taken_ends_with_its_session)
{
    struct heard h = { 0 };
    struct beats *b = make(&h, false);
    struct beats_line *line = beats_open(b);

    beats_arrived(line); /* its HELLO, before it is known whose it is */
    beats_name(line, "gw-1");
    beats_arrived(line);
    beats_close(line, false);
    stall(b, SILENCE_MS + LIVENESS_CHECK_MS);
    turn(&h);
    ck_assert_uint_eq(h.count, 1);
    ck_assert(h.is_silent);
    beats_free(b);
    event_base_free(h.base);
}
END_TEST

static void *arrive(void *line)
{
    for (int i = 0; i < 1000; i++) {
        beats_arrived(line);
    }
    return NULL;
}

START_TEST(the_thread_finds_a_silent_device_by_itself)
{
    struct heard h = { 0 };
    struct beats *b = make(&h, true);
    struct beats_line *quiet = line_of(b, "gw-1");
    struct beats_line *held = line_of(b, "gw-2");
    pthread_t other;

    ck_assert_int_eq(pthread_create(&other, NULL, arrive, held), 0);
    pthread_join(other, NULL);
    event_base_dispatch(h.base); /* until it is told */
    ck_assert_uint_eq(h.count, 1);
    ck_assert_str_eq(h.device_id, "gw-1");
    ck_assert(h.is_silent);
    beats_close(quiet, true);
    beats_close(held, true);
    beats_free(b);
    event_base_free(h.base);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("beats");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_loop_that_stalls_makes_no_live_device_silent);
    tcase_add_test(tc, a_device_that_falls_silent_while_the_loop_stalls_is_found);
    tcase_add_test(tc, what_arrived_and_was_never_taken_ends_with_its_session);
    tcase_add_test(tc, the_thread_finds_a_silent_device_by_itself);
    return unit_run("beats", tc);
}
