#include "tests/unit/unit.h"

#include <string.h>
#include <time.h>

#include "controller/capacity/growth.h"

START_TEST(a_line_is_found_again)
{
    struct growth_point p[30];
    struct growth g;

    for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
        p[i] = (struct growth_point){ 20000 + i * 7, 500 + 3.5 * (i * 7) };
    }
    ck_assert(growth_fit(p, ARRAY_LEN(p), &g));
    ck_assert_double_eq_tol(g.per_day, 3.5, 1e-9);
    ck_assert_double_eq_tol(g.at_last, 500 + 3.5 * 29 * 7, 1e-6);
    ck_assert_double_eq(g.last_day, 20000 + 29 * 7);
    ck_assert_double_eq_tol(g.r2, 1, 1e-9);
}
END_TEST

START_TEST(noise_that_cancels_does_not_bend_it)
{
    /* Residuals of +1, -1, -1, +1 sum to zero and are orthogonal to time. */
    const struct growth_point p[] = { { 0, 11 }, { 1, 19 }, { 2, 29 }, { 3, 41 } };
    struct growth g;

    ck_assert(growth_fit(p, ARRAY_LEN(p), &g));
    ck_assert_double_eq_tol(g.per_day, 10, 1e-9);
    ck_assert_double_eq_tol(g.at_last, 40, 1e-9);
    ck_assert_double_lt(g.r2, 1);
    ck_assert_double_gt(g.r2, 0.98);
}
END_TEST

START_TEST(no_line_goes_through_one_day)
{
    const struct growth_point p[] = { { 5, 1 }, { 5, 2 } };
    struct growth g = { .per_day = 42 };

    ck_assert(!growth_fit(p, 2, &g));
    ck_assert(!growth_fit(p, 1, &g));
    ck_assert(!growth_fit(p, 0, &g));
    ck_assert_double_eq(g.per_day, 42);
}
END_TEST

START_TEST(reservations_count_at_once)
{
    const struct growth g = { .per_day = 2, .at_last = 100, .last_day = 1000 };
    double day = -1;

    ck_assert_int_eq(growth_crossing(&g, 160, 0, &day), GROWTH_LATER);
    ck_assert_double_eq(day, 1030);
    ck_assert_int_eq(growth_crossing(&g, 160, 40, &day), GROWTH_LATER);
    ck_assert_double_eq(day, 1010);
    day = -1;
    ck_assert_int_eq(growth_crossing(&g, 160, 60, &day), GROWTH_NOW);
    ck_assert_double_eq(day, -1);
}
END_TEST

START_TEST(what_does_not_grow_never_crosses)
{
    struct growth g = { .per_day = 0, .at_last = 100, .last_day = 1000 };
    double day = -1;

    ck_assert_int_eq(growth_crossing(&g, 160, 0, &day), GROWTH_NEVER);
    g.per_day = -1;
    ck_assert_int_eq(growth_crossing(&g, 160, 0, &day), GROWTH_NEVER);
    g.per_day = 1e-9; /* some time after the year 9999 */
    ck_assert_int_eq(growth_crossing(&g, 160, 0, &day), GROWTH_NEVER);
    ck_assert_double_eq(day, -1);
}
END_TEST

START_TEST(every_date_is_the_c_librarys)
{
    char text[GROWTH_DATE_SIZE];
    char want[64];

    for (long day = 0; day < 2932897; day += day < 50000 ? 1 : 97) {
        time_t t = day * 86400;
        struct tm tm;
        double back = -1;

        gmtime_r(&t, &tm);
        strftime(want, sizeof(want), "%Y-%m-%d", &tm);
        growth_print_date((double)day + 0.9, text);
        ck_assert_str_eq(text, want);
        ck_assert(growth_parse_date(text, strlen(text), &back));
        ck_assert_double_eq(back, (double)day);
    }
}
END_TEST

static const char *const no_dates[] = { "",           "2026-02-29", "2026-13-01",
                                        "2026-00-10", "2026-04-31", "1969-12-31",
                                        "2026-1-01",  "2026/01/01", "2026-01-01 ",
                                        "2026-01-00", "x026-01-01" };

START_TEST(what_is_no_date_is_refused)
{
    double day = 42;

    ck_assert(!growth_parse_date(no_dates[_i], strlen(no_dates[_i]), &day));
    ck_assert_double_eq(day, 42);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("growth");

    tcase_add_test(tc, a_line_is_found_again);
    tcase_add_test(tc, noise_that_cancels_does_not_bend_it);
    tcase_add_test(tc, no_line_goes_through_one_day);
    tcase_add_test(tc, reservations_count_at_once);
    tcase_add_test(tc, what_does_not_grow_never_crosses);
    tcase_add_test(tc, every_date_is_the_c_librarys);
    tcase_add_loop_test(tc, what_is_no_date_is_refused, 0, ARRAY_LEN(no_dates));
    return unit_run("growth", tc);
}
