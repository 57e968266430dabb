/* The steps of a build, of a drain and of a retirement. */
#include "tests/unit/unit.h"

#include "controller/lifecycle/build.h"
#include "controller/lifecycle/drain.h"

#include <string.h>

static struct operation building(uint8_t step)
{
    struct operation o = { .kind = OPERATION_BUILD,
                           .state = OPERATION_RUNNING,
                           .step = step,
                           .build = { .cluster = "c2", .hold_ms = 60000 } };

    return o;
}

#define WHOLE .is_whole = true

static const struct {
    uint8_t step;
    struct build_facts facts;
    enum verdict want;
} cases[] = {
    /* Nothing is done in a state that is not stored. */
    { BUILD_JOIN, { .state = CLUSTER_FAILED, .nodes = 1, .nodes_ready = 1 }, 0 },
    { BUILD_JOIN, { .state = CLUSTER_PLANNED }, VERDICT_STAYS },
    { BUILD_JOIN,
      { .state = CLUSTER_PLANNED, .nodes = 2, .nodes_ready = 1 },
      VERDICT_STAYS },
    { BUILD_JOIN,
      { .state = CLUSTER_PLANNED, .nodes = 2, .nodes_ready = 2 },
      VERDICT_GOES_ON },
    { BUILD_LOAD, { .state = CLUSTER_LOADING }, VERDICT_STAYS },
    { BUILD_LOAD,
      { .state = CLUSTER_LOADING, .tally = { WHOLE, .named = 3, .held = 2 } },
      VERDICT_STAYS },
    { BUILD_LOAD,
      { .state = CLUSTER_LOADING, .tally = { .named = 3, .held = 3 } },
      VERDICT_STAYS },
    { BUILD_LOAD,
      { .state = CLUSTER_LOADING,
        .tally = { WHOLE, .named = 3, .held = 2, .there = 1 } },
      VERDICT_GOES_ON },
    { BUILD_LOAD,
      { .state = CLUSTER_LOADING, .tally = { .is_broken = true } },
      VERDICT_GOES_BACK },
    { BUILD_AUDIT, { .state = CLUSTER_CHECKING }, VERDICT_STAYS },
    { BUILD_AUDIT,
      { .state = CLUSTER_CHECKING, .gate = GATE_PASSED },
      VERDICT_GOES_ON },
    { BUILD_AUDIT,
      { .state = CLUSTER_CHECKING, .gate = GATE_FAILED },
      VERDICT_GOES_BACK },
    { BUILD_PROBE, { .state = CLUSTER_PROBING }, VERDICT_STAYS },
    { BUILD_PROBE, { .state = CLUSTER_PROBING, .gate = GATE_PASSED }, VERDICT_GOES_ON },
    { BUILD_PROBE,
      { .state = CLUSTER_PROBING, .gate = GATE_FAILED },
      VERDICT_GOES_BACK },
    { BUILD_ANNOUNCE, { .state = CLUSTER_ADMITTING }, VERDICT_STAYS },
    { BUILD_ANNOUNCE,
      { .state = CLUSTER_ADMITTING, .is_announced = true },
      VERDICT_GOES_ON },
    { BUILD_ADMIT, { .state = CLUSTER_ADMITTING }, VERDICT_STAYS },
    { BUILD_ADMIT,
      { .state = CLUSTER_ADMITTING,
        .tally = { WHOLE, .due = 2, .in = 1 },
        .stage_ms = 99999 },
      VERDICT_STAYS },
    { BUILD_ADMIT,
      { .state = CLUSTER_ADMITTING,
        .tally = { WHOLE, .due = 2, .in = 2 },
        .stage_ms = 59999 },
      VERDICT_STAYS },
    { BUILD_ADMIT,
      { .state = CLUSTER_ADMITTING,
        .tally = { WHOLE, .due = 2, .in = 2 },
        .stage_ms = 60000 },
      VERDICT_GOES_ON },
    { BUILD_ADMIT,
      { .state = CLUSTER_ADMITTING,
        .tally = { WHOLE, .due = 2, .in = 2 },
        .stage_ms = 60000,
        .has_breach = true },
      VERDICT_GOES_BACK },
    { BUILD_ADMIT,
      { .state = CLUSTER_ADMITTING, .tally = { .is_broken = true } },
      VERDICT_GOES_BACK },
    { BUILD_SERVE, { .state = CLUSTER_ADMITTING }, VERDICT_STAYS },
    { BUILD_SERVE, { .state = CLUSTER_SERVING }, VERDICT_GOES_ON },
    /* Back, however long it takes, and whatever was wrong. */
    { BUILD_BACK, { .state = CLUSTER_ADMITTING }, VERDICT_STAYS },
    { BUILD_BACK,
      { .state = CLUSTER_ADMITTING, .tally = { WHOLE, .there = 1, .is_broken = true } },
      VERDICT_STAYS },
    { BUILD_BACK,
      { .state = CLUSTER_ADMITTING, .tally = { WHOLE, .moving = 1 } },
      VERDICT_STAYS },
    { BUILD_BACK, { .state = CLUSTER_ADMITTING, .tally = { WHOLE } }, VERDICT_STAYS },
    { BUILD_BACK, { .state = CLUSTER_FAILED, .tally = { WHOLE } }, VERDICT_GOES_ON },
};

START_TEST(a_step_waits_for_its_facts_and_for_no_others)
{
    struct operation o = building(cases[_i].step);
    char why[OPERATION_TEXT_MAX + 1];

    ck_assert_int_eq(build_next(&o, &cases[_i].facts, why), cases[_i].want);
    ck_assert_int_eq(why[0] == '\0', cases[_i].want == VERDICT_GOES_ON);
}
END_TEST

START_TEST(it_can_be_cancelled_until_it_serves)
{
    for (uint8_t step = BUILD_JOIN; step <= BUILD_BACK; step++) {
        struct operation o = building(step);
        struct build_facts f = { .state = CLUSTER_ADMITTING };
        char why[OPERATION_TEXT_MAX + 1];
        bool may = step < BUILD_SERVE;

        o.is_cancelled = true;
        ck_assert_int_eq(operation_is_revocable(&o), may);
        ck_assert_int_eq(build_next(&o, &f, why) == VERDICT_GOES_BACK, may);
    }
}
END_TEST

/* A cluster is empty and its state says why before the operation is over. */
START_TEST(the_way_back_ends_in_a_state_that_says_why)
{
    struct operation o = building(BUILD_ADMIT);
    struct build_facts f = { .state = CLUSTER_ADMITTING,
                             .tally = { WHOLE, .there = 1 } };

    operation_advance(&o, VERDICT_GOES_BACK, "breach");
    ck_assert_int_eq(o.step, BUILD_BACK);
    ck_assert_int_eq(o.state, OPERATION_RUNNING);
    ck_assert_uint_eq(build_state(&o, &f), CLUSTER_ADMITTING);
    f.tally.there = 0;
    ck_assert_uint_eq(build_state(&o, &f), CLUSTER_FAILED);
    o.is_cancelled = true;
    ck_assert_uint_eq(build_state(&o, &f), CLUSTER_PLANNED);
    operation_advance(&o, VERDICT_GOES_ON, "");
    ck_assert_int_eq(o.state, OPERATION_UNDONE);
    ck_assert_str_eq(o.text, "breach");
}
END_TEST

START_TEST(a_stage_follows_a_stage_and_the_last_one_serves)
{
    struct operation o = building(BUILD_ADMIT);

    for (unsigned stage = 1; stage < BUILD_STAGES; stage++) {
        operation_advance(&o, VERDICT_GOES_ON, "");
        ck_assert_int_eq(o.step, BUILD_ADMIT);
        ck_assert_uint_eq(o.build.stage, stage);
    }
    ck_assert_uint_eq(build_stage_percent(o.build.stage), 100);
    operation_advance(&o, VERDICT_GOES_ON, "");
    ck_assert_int_eq(o.step, BUILD_SERVE);
    operation_advance(&o, VERDICT_GOES_ON, "");
    ck_assert_int_eq(o.state, OPERATION_DONE);
}
END_TEST

static void check_cuts(const uint64_t *bps, uint32_t count,
                       const uint32_t want[BUILD_STAGES])
{
    uint32_t got[BUILD_STAGES];

    build_cuts(bps, count, got);
    for (unsigned i = 0; i < BUILD_STAGES; i++) {
        ck_assert_msg(got[i] == want[i], "stage %u of %u tenants: %u, not %u", i, count,
                      got[i], want[i]);
    }
}

START_TEST(stages_let_in_those_whose_traffic_first_reaches_their_share)
{
    static const uint64_t mixed[] = { 5, 3, 2, 40, 0, 50 }; /* of 100 */
    static const uint64_t heavy[] = { 100, 0, 0 };
    static const uint64_t alike[200];
    uint64_t light[100];

    check_cuts(mixed, 6, (uint32_t[]){ 1, 2, 4, 5, 6 });
    check_cuts(heavy, 3, (uint32_t[]){ 1, 2, 3, 3, 3 });
    check_cuts(alike, 200, (uint32_t[]){ 2, 10, 50, 100, 200 }); /* nothing measured */
    check_cuts(alike, 1, (uint32_t[]){ 1, 1, 1, 1, 1 });
    for (unsigned i = 0; i < 100; i++) {
        light[i] = 7;
    }
    check_cuts(light, 100, (uint32_t[]){ 1, 5, 25, 50, 100 });
}
END_TEST

START_TEST(a_drain_ends_when_nobody_is_left_or_can_be_moved)
{
    struct operation o = { .kind = OPERATION_DRAIN,
                           .state = OPERATION_RUNNING,
                           .step = DRAIN_MOVE };
    struct drain_facts f = { .state = CLUSTER_DRAINING, .is_whole = true };
    char why[OPERATION_TEXT_MAX + 1];

    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_GOES_ON);
    f.is_whole = false;
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_STAYS);
    f = (struct drain_facts){ .state = CLUSTER_DRAINING, .is_whole = true, .left = 3 };
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_STAYS);
    f.stuck = 3;
    f.moving = 1;
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_STAYS);
    f.moving = 0;
    f.why = "vni 7: no room";
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_GOES_BACK);
    ck_assert_str_eq(why, "3 tenants could not be moved: vni 7: no room");
}
END_TEST

START_TEST(a_drain_that_is_cancelled_waits_for_what_is_under_way_and_serves_again)
{
    struct operation o = { .kind = OPERATION_DRAIN,
                           .state = OPERATION_RUNNING,
                           .step = DRAIN_MOVE,
                           .is_cancelled = true };
    struct drain_facts f = {
        .state = CLUSTER_DRAINING, .is_whole = true, .left = 3, .moving = 1
    };
    char why[OPERATION_TEXT_MAX + 1];

    ck_assert_uint_eq(drain_state(&o), CLUSTER_SERVING);
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_STAYS);
    f.state = CLUSTER_SERVING;
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_STAYS);
    f.moving = 0;
    ck_assert_int_eq(drain_next(&o, &f, why), VERDICT_GOES_BACK);
}
END_TEST

START_TEST(a_cluster_is_retired_when_nobody_sends_to_it)
{
    struct retire_facts f = { .state = CLUSTER_DRAINING, .is_withdrawn = true };
    char why[OPERATION_TEXT_MAX + 1];

    ck_assert_int_eq(retire_next(&f, why), VERDICT_STAYS);
    f.state = CLUSTER_RETIRED;
    ck_assert_int_eq(retire_next(&f, why), VERDICT_GOES_ON);
    f.is_withdrawn = false;
    ck_assert_int_eq(retire_next(&f, why), VERDICT_STAYS);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("build");

    tcase_add_loop_test(tc, a_step_waits_for_its_facts_and_for_no_others, 0,
                        ARRAY_LEN(cases));
    tcase_add_test(tc, it_can_be_cancelled_until_it_serves);
    tcase_add_test(tc, the_way_back_ends_in_a_state_that_says_why);
    tcase_add_test(tc, a_stage_follows_a_stage_and_the_last_one_serves);
    tcase_add_test(tc, stages_let_in_those_whose_traffic_first_reaches_their_share);
    tcase_add_test(tc, a_drain_ends_when_nobody_is_left_or_can_be_moved);
    tcase_add_test(
        tc, a_drain_that_is_cancelled_waits_for_what_is_under_way_and_serves_again);
    tcase_add_test(tc, a_cluster_is_retired_when_nobody_sends_to_it);
    return unit_run("build", tc);
}
