#include "tests/unit/unit.h"

#include "controller/health/forecast.h"

#include <math.h>

static double uniform(void)
{
    return ((double)rand() + 1) / ((double)RAND_MAX + 2);
}

/* Box-Muller. */
static double gauss(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

START_TEST(nineteen_of_twenty_intervals_hold_the_true_day)
{
    enum { RUNS = 4000, POINTS = 30 };
    unsigned hits = 0;
    unsigned early = 0;

    srand(7);
    for (int run = 0; run < RUNS; run++) {
        struct growth_point p[POINTS];
        struct forecast f;

        for (int i = 0; i < POINTS; i++) { /* 30 + 0.5 a day; 80 on day 100 */
            p[i] = (struct growth_point){ i, 30 + 0.5 * i + 2 * gauss() };
        }
        ck_assert(forecast_make(p, POINTS, 80, 0, &f));
        ck_assert(f.has_range && f.when == GROWTH_LATER);
        ck_assert_double_le(f.earliest, f.day);
        ck_assert_double_ge(f.latest, f.day);
        hits += f.earliest <= 100 && 100 <= f.latest;
        early += 100 < f.earliest;
    }
    /* 95 % with a deviation of sqrt(.95 * .05 / 4000) = 0.34 %; four of them. */
    ck_assert_double_gt((double)hits / RUNS, 0.936);
    ck_assert_double_lt((double)hits / RUNS, 0.964);
    /* What is missed is missed on both sides alike. */
    ck_assert_double_gt((double)early / (RUNS - hits), 0.3);
    ck_assert_double_lt((double)early / (RUNS - hits), 0.7);
}
END_TEST

START_TEST(a_line_without_scatter_is_sure_of_its_day)
{
    struct growth_point p[5];
    struct forecast f;

    for (int i = 0; i < 5; i++) {
        p[i] = (struct growth_point){ 100 + i, 10 * i };
    }
    ck_assert(forecast_make(p, 5, 80, 0, &f));
    ck_assert_int_eq(f.when, GROWTH_LATER);
    ck_assert_double_eq_tol(f.day, 108, 1e-6);
    ck_assert_double_eq_tol(f.earliest, 108, 1e-6);
    ck_assert_double_eq_tol(f.latest, 108, 1e-6);
    /* A reservation counts at once. */
    ck_assert(forecast_make(p, 5, 80, 20, &f));
    ck_assert_double_eq_tol(f.day, 106, 1e-6);
    ck_assert(forecast_make(p, 5, 30, 0, &f));
    ck_assert_int_eq(f.when, GROWTH_NOW);
    ck_assert_double_eq(f.day, 104);
}
END_TEST

START_TEST(growth_that_may_be_none_has_no_latest_day)
{
    struct growth_point p[20];
    struct forecast f;

    srand(3);
    for (int i = 0; i < 20; i++) {
        p[i] = (struct growth_point){ i, 50 + 0.001 * i + gauss() };
    }
    ck_assert(forecast_make(p, 20, 80, 0, &f));
    ck_assert(isinf(f.latest));
    ck_assert(isfinite(f.earliest));
    ck_assert_double_gt(f.earliest, 19);
    for (int i = 0; i < 20; i++) { /* surely falling: never, at no confidence */
        p[i].amount = 50 - i + 0.1 * gauss();
    }
    ck_assert(forecast_make(p, 20, 80, 0, &f));
    ck_assert_int_eq(f.when, GROWTH_NEVER);
    ck_assert(isinf(f.earliest) && isinf(f.latest));
}
END_TEST

START_TEST(two_points_make_a_line_and_no_range_and_one_makes_none)
{
    struct growth_point p[2] = { { 1, 10 }, { 2, 20 } };
    struct forecast f;

    ck_assert(!forecast_make(p, 1, 80, 0, &f));
    ck_assert(forecast_make(p, 2, 80, 0, &f));
    ck_assert(!f.has_range);
    ck_assert_double_eq_tol(f.day, 8, 1e-9);
}
END_TEST

START_TEST(a_series_is_forecast_from_its_hours)
{
    struct history *h = history_new(64u << 20);
    const uint64_t start = UINT64_C(20000) * 86400;
    struct forecast f;

    /* One a minute for three days, 1,000 a day. */
    for (uint64_t t = 0; t < UINT64_C(3) * 86400; t += 60) {
        uint64_t v = 5000 + t * 1000 / 86400;
        struct history_point p = { start + t, v, v, v };

        history_add(h, "cluster/a", "table.route", &p);
    }
    ck_assert(forecast_series(h, "cluster/a", "table.route", 0, 9000, 0, &f));
    ck_assert_uint_ge(f.line.points, 71);
    ck_assert_int_eq(f.when, GROWTH_LATER);
    /* An hour's mean stands for its begin: half an hour early. */
    ck_assert_double_eq_tol(f.day, 20004, 0.05);
    ck_assert(!forecast_series(h, "cluster/a", "nothing", 0, 9000, 0, &f));
    history_free(h);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("forecast");

    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, nineteen_of_twenty_intervals_hold_the_true_day);
    tcase_add_test(tc, a_line_without_scatter_is_sure_of_its_day);
    tcase_add_test(tc, growth_that_may_be_none_has_no_latest_day);
    tcase_add_test(tc, two_points_make_a_line_and_no_range_and_one_makes_none);
    tcase_add_test(tc, a_series_is_forecast_from_its_hours);
    return unit_run("forecast", tc);
}
