#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "controller/capacity/core_model.h"

/* Figures of the performance models paper that CAPACITY.md takes over. */
START_TEST(the_published_core_costs_84_and_146_and_57_a_table)
{
    struct core_config bare = { 1, 0, false, 32 };
    struct core_config tables = { 1, 3, false, 32 };
    struct core_config large = { 1e9, 1, false, 32 };
    struct core_config one = { 1, 1, false, 32 };

    ck_assert_double_eq(core_published.io, 84);
    ck_assert_double_eq(core_cycles(&core_published, &bare), 146);
    ck_assert_double_eq(core_cycles(&core_published, &tables), 146 + 3 * 57);
    /* The rate halves once an exact-match table outgrows L3. */
    ck_assert_double_eq_tol(
        core_pps(&core_published, &large) / core_pps(&core_published, &one), 0.5, 0.01);
    ck_assert_double_eq_tol(core_pps(&core_published, &bare), 2e9 / 146, 1);
}
END_TEST

static const struct core_params machine = {
    .io = 60,
    .base = 30,
    .table = 45,
    .rewrite = 60,
    .call = 140,
    .l3 = 12,
    .dram = 80,
    .wait = 200,
    .l2_bytes = 512 << 10,
    .l3_bytes = 8 << 20,
    .entry_bytes = 21,
    .hz = 2.4e9,
};

static const double entries[] = { 1000, 16000, 64000, 256000, 1e6, 4e6 };
static const double bursts[] = { 4, 16, 64 };

/* Every combination, as `p` says, each off by up to `noise` of itself. */
static size_t make_points(const struct core_params *p, double noise,
                          struct core_point *to)
{
    size_t n = 0;

    for (unsigned e = 0; e < ARRAY_LEN(entries); e++) {
        for (unsigned b = 0; b < ARRAY_LEN(bursts); b++) {
            for (unsigned hops = 0; hops < 3; hops++) {
                struct core_config c = { entries[e], hops + 2, hops > 0, bursts[b] };

                to[n].config = c;
                to[n].cycles = core_cycles(p, &c) - p->io;
                to[n].cycles *= 1 + noise * sin((double)n * 2.3);
                n++;
            }
        }
    }
    return n;
}

static struct core_params given(void)
{
    return (struct core_params){ .io = 60,
                                 .l2_bytes = 1 << 20,
                                 .l3_bytes = 64 << 20,
                                 .entry_bytes = 21,
                                 .hz = 2.4e9 };
}

START_TEST(a_fit_finds_the_machine_and_its_caches_again)
{
    struct core_point points[64];
    struct core_params from = given();
    size_t n = make_points(&machine, 0, points);
    struct core_fit f;

    ck_assert_int_eq(core_fit(points, n, &from, &f, NULL), RC_OK);
    ck_assert_double_lt(f.worst_error, 1e-6);
    ck_assert_double_eq(f.params.l2_bytes, machine.l2_bytes);
    ck_assert_double_eq(f.params.l3_bytes, machine.l3_bytes);
    ck_assert_double_eq_tol(f.params.base, machine.base, 0.01);
    ck_assert_double_eq_tol(f.params.table, machine.table, 0.01);
    ck_assert_double_eq_tol(f.params.rewrite, machine.rewrite, 0.01);
    ck_assert_double_eq_tol(f.params.call, machine.call, 0.1);
    ck_assert_double_eq_tol(f.params.dram, machine.dram, 0.1);
    ck_assert_double_eq_tol(f.params.wait, machine.wait, 0.5);
    ck_assert_double_eq(f.params.io, 60);
}
END_TEST

START_TEST(what_was_not_in_a_noisy_fit_is_predicted)
{
    struct core_point points[64];
    struct core_params from = given();
    size_t n = make_points(&machine, 0.05, points);
    struct core_config unseen[] = { { 130000, 2, false, 32 },
                                    { 600000, 3, true, 8 },
                                    { 30000, 5, true, 64 } };
    struct core_fit f;

    ck_assert_int_eq(core_fit(points, n, &from, &f, NULL), RC_OK);
    ck_assert_double_gt(f.rms_error, 0.01);
    ck_assert_double_le(f.rms_error, 0.05);
    for (unsigned i = 0; i < ARRAY_LEN(unseen); i++) {
        double want = core_cycles(&machine, &unseen[i]);

        ck_assert_double_le(fabs(core_cycles(&f.params, &unseen[i]) / want - 1), 0.07);
    }
}
END_TEST

START_TEST(no_parameter_is_negative)
{
    struct core_point points[64];
    struct core_params odd = machine;
    struct core_params from = given();
    size_t n;
    struct core_fit f;

    odd.base = -20; /* as noise makes it look */
    odd.l3 = -5;
    n = make_points(&odd, 0.02, points);
    ck_assert_int_eq(core_fit(points, n, &from, &f, NULL), RC_OK);
    ck_assert_double_ge(f.params.base, 0);
    ck_assert_double_ge(f.params.table, 0);
    ck_assert_double_ge(f.params.rewrite, 0);
    ck_assert_double_ge(f.params.call, 0);
    ck_assert_double_ge(f.params.l3, 0);
    ck_assert_double_ge(f.params.dram, 0);
    ck_assert_double_ge(f.params.wait, 0);
    ck_assert_double_le(f.worst_error, 0.2);
}
END_TEST

START_TEST(points_that_say_too_little_are_refused)
{
    struct core_point points[64];
    struct core_params from = given();
    size_t n = make_points(&machine, 0, points);
    struct core_fit f = { .rms_error = 42 };
    struct err err = { 0 };

    ck_assert_int_eq(core_fit(points, CORE_POINTS_MIN - 1, &from, &f, &err),
                     RC_INVALID);
    ck_assert_str_eq(err.rule, "point_count");
    for (size_t i = 0; i < n; i++) {
        points[i].config.burst = 64;
    }
    ck_assert_int_eq(core_fit(points, n, &from, &f, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "point_variety");
    points[3].cycles = 0;
    ck_assert_int_eq(core_fit(points, n, &from, &f, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "point_range");
    make_points(&machine, 0, points);
    from.l3_bytes = from.l2_bytes / 32;
    ck_assert_int_eq(core_fit(points, n, &from, &f, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "cache_range");
    ck_assert_double_eq(f.rms_error, 42);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_model");

    tcase_add_test(tc, the_published_core_costs_84_and_146_and_57_a_table);
    tcase_add_test(tc, a_fit_finds_the_machine_and_its_caches_again);
    tcase_add_test(tc, what_was_not_in_a_noisy_fit_is_predicted);
    tcase_add_test(tc, no_parameter_is_negative);
    tcase_add_test(tc, points_that_say_too_little_are_refused);
    return unit_run("core_model", tc);
}
