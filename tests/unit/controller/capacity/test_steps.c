/* Published figures: Sailfish (SIGCOMM'21), figure 17, tables 2 and 3. */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "controller/capacity/steps.h"

static const struct {
    const char *step;
    double sram_pct;
    double tcam_pct;
    double sram_within;
} figures[] = {
    { "none-v4", 58, 311, 1.5 },     { "none-v6", 233, 622, 1.5 },
    { "none-75-25", 102, 389, 1.5 }, { "folding", 51, 194, 1.5 },
    { "split", 26, 97, 1.5 },        { "pooling", 18, 156, 3 },
    { "alpm", 36, 11, 3 },
};

START_TEST(each_published_step_comes_out_within_its_tolerance)
{
    struct step_row rows[STEPS];

    ck_assert_uint_eq(STEPS, ARRAY_LEN(figures));
    steps_work_out(&chips[0], &steps_paper, rows);
    ck_assert_str_eq(rows[_i].name, figures[_i].step);
    ck_assert_double_le(fabs(rows[_i].sram_pct - figures[_i].sram_pct),
                        figures[_i].sram_within);
    ck_assert_double_le(fabs(rows[_i].tcam_pct - figures[_i].tcam_pct), 1.5);
    ck_assert_double_eq(rows[_i].published_sram_pct, figures[_i].sram_pct);
    ck_assert_double_eq(rows[_i].published_tcam_pct, figures[_i].tcam_pct);
    ck_assert_uint_gt(strlen(rows[_i].rule), 10);
}
END_TEST

static double saved(double from, double to)
{
    return 100 * (from - to) / from;
}

START_TEST(savings_against_each_mix_are_the_published_ones)
{
    struct step_row r[STEPS];

    steps_work_out(&chips[0], &steps_paper, r);
    ck_assert_double_le(
        fabs(saved(r[STEP_NONE_V4].sram_pct, r[STEP_ALPM].sram_pct) - 38), 1.5);
    ck_assert_double_le(
        fabs(saved(r[STEP_NONE_V4].tcam_pct, r[STEP_ALPM].tcam_pct) - 96), 1.5);
    ck_assert_double_le(
        fabs(saved(r[STEP_NONE_MIX].sram_pct, r[STEP_ALPM].sram_pct) - 65), 1.5);
    ck_assert_double_le(
        fabs(saved(r[STEP_NONE_MIX].tcam_pct, r[STEP_ALPM].tcam_pct) - 97), 1.5);
    ck_assert_double_le(
        fabs(saved(r[STEP_NONE_V6].sram_pct, r[STEP_ALPM].sram_pct) - 85), 1.5);
    ck_assert_double_le(
        fabs(saved(r[STEP_NONE_V6].tcam_pct, r[STEP_ALPM].tcam_pct) - 98), 1.5);
}
END_TEST

START_TEST(the_end_is_the_same_for_any_mix_and_the_beginning_is_not)
{
    struct steps_input in = steps_paper;
    struct step_row a[STEPS];
    struct step_row b[STEPS];

    steps_work_out(&chips[0], &in, a);
    in.v6_share = 1;
    steps_work_out(&chips[0], &in, b);
    ck_assert_double_eq(a[STEP_ALPM].sram_pct, b[STEP_ALPM].sram_pct);
    ck_assert_double_eq(a[STEP_ALPM].tcam_pct, b[STEP_ALPM].tcam_pct);
    ck_assert_double_lt(a[STEP_NONE_MIX].tcam_pct, b[STEP_NONE_MIX].tcam_pct);
    ck_assert_str_eq(b[STEP_NONE_MIX].name, "none-0-100");
    ck_assert_double_eq(b[STEP_NONE_MIX].sram_pct, b[STEP_NONE_V6].sram_pct);
    ck_assert_double_eq(b[STEP_ALPM].published_sram_pct, 0);
}
END_TEST

START_TEST(fuller_partitions_take_less_and_larger_ones_fewer_rows)
{
    struct steps_input in = steps_paper;
    struct step_row a[STEPS];
    struct step_row fuller[STEPS];
    struct step_row larger[STEPS];

    steps_work_out(&chips[0], &in, a);
    in.fill = 1;
    steps_work_out(&chips[0], &in, fuller);
    ck_assert_double_lt(fuller[STEP_ALPM].sram_pct, a[STEP_ALPM].sram_pct);
    ck_assert_double_lt(fuller[STEP_ALPM].tcam_pct, a[STEP_ALPM].tcam_pct);
    in = steps_paper;
    in.bucket = 32;
    steps_work_out(&chips[0], &in, larger);
    ck_assert_double_eq_tol(larger[STEP_ALPM].tcam_pct, a[STEP_ALPM].tcam_pct / 2,
                            1e-9);
    ck_assert_double_eq_tol(larger[STEP_ALPM].sram_pct, a[STEP_ALPM].sram_pct, 1e-9);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("steps");

    tcase_add_loop_test(tc, each_published_step_comes_out_within_its_tolerance, 0,
                        ARRAY_LEN(figures));
    tcase_add_test(tc, savings_against_each_mix_are_the_published_ones);
    tcase_add_test(tc, the_end_is_the_same_for_any_mix_and_the_beginning_is_not);
    tcase_add_test(tc, fuller_partitions_take_less_and_larger_ones_fewer_rows);
    return unit_run("steps", tc);
}
