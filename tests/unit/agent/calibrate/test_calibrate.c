#include "tests/unit/unit.h"

#include "agent/calibrate/calibrate.h"

static const struct {
    uint32_t entries;
    uint32_t hops;
    uint32_t burst;
} rigs[] = { { 64, 0, 1 }, { 64, 3, 64 }, { 10000, 1, 8 }, { 100000, 3, 32 } };

/* The run itself says so if one is not: every lookup has to hit. */
START_TEST(all_packets_of_a_rig_are_forwarded)
{
    struct calibrate_rig *r = NULL;
    struct err err = { 0 };
    double cycles = 0;

    ck_assert_int_eq(calibrate_rig_new(rigs[_i].entries, rigs[_i].hops, &r, &err),
                     RC_OK);
    ck_assert_int_eq(calibrate_rig_run(r, rigs[_i].burst, 20000, &cycles, &err), RC_OK);
    ck_assert_double_gt(cycles, 10);
    ck_assert_double_lt(cycles, 1e6);
    ck_assert_uint_gt(calibrate_rig_bytes(r), rigs[_i].entries * 8);
    calibrate_rig_free(r);
}
END_TEST

START_TEST(what_no_rig_can_be_is_refused)
{
    struct calibrate_rig *r = NULL;
    struct err err = { 0 };

    ck_assert_int_eq(calibrate_rig_new(1000, CALIBRATE_HOPS_MAX + 1, &r, &err),
                     RC_RANGE);
    ck_assert_str_eq(err.field, "hops");
    ck_assert_int_eq(calibrate_rig_new(CALIBRATE_ENTRIES_MIN - 1, 0, &r, &err),
                     RC_RANGE);
    ck_assert_str_eq(err.field, "entries");
    ck_assert_int_eq(calibrate_rig_new(CALIBRATE_ENTRIES_MAX + 1, 0, &r, &err),
                     RC_RANGE);
    ck_assert_ptr_null(r);
    calibrate_rig_free(NULL);
}
END_TEST

START_TEST(gaps_are_within_what_was_watched)
{
    struct calibrate_gaps g = { 0 };

    calibrate_gaps(20000000, 2000, &g);
    ck_assert_uint_ge(g.watched, 20000000);
    ck_assert_uint_le(g.cycles, g.watched);
    ck_assert_uint_le(g.longest, g.cycles);
    ck_assert_uint_le(g.count * 2000, g.cycles);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("calibrate");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, all_packets_of_a_rig_are_forwarded, 0, ARRAY_LEN(rigs));
    tcase_add_test(tc, what_no_rig_can_be_is_refused);
    tcase_add_test(tc, gaps_are_within_what_was_watched);
    return unit_run("calibrate", tc);
}
