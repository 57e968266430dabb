#include "tests/unit/unit.h"

#include "controller/health/waterlevel.h"

#include <string.h>

static const struct level_marks marks = { 7000, 8000, 9000, 1000 };

/* CONTROL.md: three switches, each on at its mark and off 10 points below it. */
struct naive {
    bool is_on[3];
};

static enum water naive_next(struct naive *n, double percent)
{
    static const double on[3] = { 70, 80, 90 };
    unsigned count = 0;

    for (unsigned i = 0; i < 3; i++) {
        if (percent >= on[i]) {
            n->is_on[i] = true;
        } else if (percent < on[i] - 10) {
            n->is_on[i] = false;
        }
        count += n->is_on[i];
    }
    return (enum water)count;
}

START_TEST(any_walk_of_a_level_is_that_of_three_independent_switches)
{
    struct naive naive = { 0 };
    enum water water = WATER_CLEAR;

    srand((unsigned)_i + 1);
    for (int step = 0, at = 0; step < 20000; step++) {
        /* Small steps linger at the marks, big ones jump over several. */
        at = step % 7 == 0 ? rand() % 12000 : at + rand() % 401 - 200;
        at = at < 0 ? 0 : at;
        water = water_next(&marks, water, (uint32_t)at);
        ck_assert_int_eq(water, naive_next(&naive, at / 100.0));
    }
}
END_TEST

static bool measure(struct levels *l, const char *subject, const char *resource,
                    uint64_t used, uint64_t now_s, struct level_change *ret)
{
    const struct level_measure m = { subject, resource, WATER_LOAD, used, 1000 };

    return levels_measure(l, &m, &marks, now_s, ret);
}

START_TEST(an_excursion_is_told_once_up_and_once_down)
{
    struct levels *l = levels_new();
    struct level_change ch;

    ck_assert(!measure(l, "node/a", "memory", 699, 1, &ch));
    ck_assert(measure(l, "node/a", "memory", 700, 2, &ch));
    ck_assert_int_eq(ch.from, WATER_CLEAR);
    ck_assert_int_eq(ch.to, WATER_SALE);
    ck_assert_uint_eq(ch.level.since_s, 2);
    for (uint64_t t = 3; t < 100; t++) { /* at the mark, up and down */
        ck_assert(!measure(l, "node/a", "memory", t % 2 ? 690 : 710, t, &ch));
    }
    ck_assert(measure(l, "node/a", "memory", 950, 100, &ch));
    ck_assert_int_eq(ch.to, WATER_CRITICAL);
    ck_assert(!measure(l, "node/a", "memory", 800, 101, &ch));
    ck_assert(measure(l, "node/a", "memory", 599, 102, &ch));
    ck_assert_int_eq(ch.from, WATER_CRITICAL);
    ck_assert_int_eq(ch.to, WATER_CLEAR);
    levels_free(l);
}
END_TEST

START_TEST(what_has_no_capacity_has_no_level_and_huge_numbers_do_not_wrap)
{
    ck_assert_uint_eq(water_bp(5, 0), 0);
    ck_assert_uint_eq(water_bp(0, 10), 0);
    ck_assert_uint_eq(water_bp(10, 10), 10000);
    ck_assert_uint_eq(water_bp(UINT64_MAX, UINT64_MAX), 10000);
    ck_assert_int_eq(water_next(&marks, WATER_CLEAR, water_bp(UINT64_MAX, 1)),
                     WATER_CRITICAL);
    ck_assert_int_eq(water_next(&marks, WATER_CRITICAL, water_bp(UINT64_MAX, 1)),
                     WATER_CRITICAL);
}
END_TEST

START_TEST(a_subject_that_is_forgotten_takes_its_parts_and_nobody_elses)
{
    struct levels *l = levels_new();
    const struct level_subject *s;
    struct level_change ch;
    unsigned highest;

    measure(l, "node/a", "memory", 1, 1, &ch);
    measure(l, "node/a/port/up0", "rx_bps", 990, 1, &ch);
    measure(l, "node/a-2", "memory", 2, 1, &ch);
    measure(l, "node/ab/port/up0", "rx_bps", 3, 1, &ch);
    ck_assert_str_eq(levels_fullest(l, "node/a", &s, &highest)->resource, "rx_bps");
    ck_assert_str_eq(s->name, "node/a/port/up0");
    ck_assert_uint_eq(highest, WATER_CRITICAL);
    levels_forget(l, "node/a");
    ck_assert_ptr_null(levels_fullest(l, "node/a", &s, &highest));
    ck_assert_str_eq(levels_at(l, 0)->name, "node/a-2");
    ck_assert_str_eq(levels_at(l, 1)->name, "node/ab/port/up0");
    ck_assert_ptr_null(levels_at(l, 2));
    levels_free(l);
}
END_TEST

START_TEST(levels_that_nobody_measures_any_more_go)
{
    struct levels *l = levels_new();
    struct level_change ch;

    measure(l, "node/a", "disk", 1, 10, &ch);
    measure(l, "node/a", "memory", 1, 20, &ch);
    measure(l, "node/b", "memory", 1, 10, &ch);
    levels_expire(l, 15);
    ck_assert_uint_eq(levels_find(l, "node/a")->count, 1);
    ck_assert_ptr_nonnull(level_of(levels_find(l, "node/a"), "memory"));
    ck_assert_ptr_null(levels_find(l, "node/b"));
    levels_free(l);
}
END_TEST

START_TEST(settings_pack_to_themselves_and_bad_ones_are_refused_by_name)
{
    static const struct {
        struct level_marks marks;
        const char *field;
    } bad[] = {
        { { 0, 8000, 9000, 1000 }, "x86.sale" },
        { { 8000, 8000, 9000, 1000 }, "x86.safe" },
        { { 7000, 8000, 10001, 1000 }, "x86.critical" },
        { { 7000, 8000, 7500, 1000 }, "x86.critical" },
        { { 7000, 8000, 9000, 7000 }, "x86.clear" },
    };
    struct level_settings s, back;
    struct buf packed = BUF_INIT;
    struct err err = { 0 };

    level_settings_default(&s);
    ck_assert_uint_eq(s.of[CLUSTER_XGW_H].drop_ppb, 1);   /* 1e-9, CONTROL.md */
    ck_assert_uint_eq(s.of[CLUSTER_X86].drop_ppb, 10000); /* 1e-5 */
    level_settings_pack(&s, &packed);
    ck_assert_int_eq(level_settings_unpack(packed.data, packed.len, &back, &err),
                     RC_OK);
    ck_assert_mem_eq(&s, &back, sizeof(s));
    for (size_t cut = 0; cut < packed.len; cut++) {
        ck_assert_int_eq(level_settings_unpack(packed.data, cut, &back, &err),
                         RC_INVALID);
    }
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        s.of[CLUSTER_X86].marks = bad[i].marks;
        ck_assert_int_eq(level_settings_check(&s, &err), RC_RANGE);
        ck_assert_str_eq(err.field, bad[i].field);
    }
    buf_fini(&packed);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("waterlevel");

    tcase_add_loop_test(tc, any_walk_of_a_level_is_that_of_three_independent_switches,
                        0, 20);
    tcase_add_test(tc, an_excursion_is_told_once_up_and_once_down);
    tcase_add_test(tc, what_has_no_capacity_has_no_level_and_huge_numbers_do_not_wrap);
    tcase_add_test(tc, a_subject_that_is_forgotten_takes_its_parts_and_nobody_elses);
    tcase_add_test(tc, levels_that_nobody_measures_any_more_go);
    tcase_add_test(tc, settings_pack_to_themselves_and_bad_ones_are_refused_by_name);
    return unit_run("waterlevel", tc);
}
