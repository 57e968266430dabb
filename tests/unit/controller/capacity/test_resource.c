#include "tests/unit/unit.h"

#include <string.h>

#include "controller/capacity/resource.h"

/* One dimension of each sort. */
static const struct resource_set set = {
    .at = { { "whole", "entries", "of the node", 1, false, 0 },
            { "split", "entries", "by parity", 1, true, RESOURCE_SPLIT },
            { "copied", "rows", "in both", 1000, true, RESOURCE_COPIED } },
    .capacity = { 100, 50, 30000 },
    .count = 3,
    .has_halves = true,
};
static const struct demand tenant = { { 1, 7, 4000 } };

static bool fits(const struct resource_set *of, const struct usage *u,
                 const struct demand *d, enum half half, uint32_t level_bp,
                 unsigned *ret_which)
{
    struct demand room;

    resource_room(of, level_bp, &room);
    return usage_fits(of, u, d, half, &room, ret_which);
}

START_TEST(a_half_takes_what_is_per_half_and_the_node_the_rest)
{
    struct usage u = { 0 };

    usage_add(&set, &u, &tenant, HALF_1);
    ck_assert_uint_eq(u.amount[0][0], 1);
    ck_assert_uint_eq(u.amount[1][0], 0);
    ck_assert_uint_eq(u.amount[0][1], 0);
    ck_assert_uint_eq(u.amount[1][1], 7);
    ck_assert_uint_eq(u.amount[1][2], 4000);
}
END_TEST

START_TEST(in_both_halves_routes_are_copied_and_vms_split)
{
    struct usage u = { 0 };

    usage_add(&set, &u, &tenant, HALF_BOTH);
    for (unsigned h = 0; h < 2; h++) {
        ck_assert_uint_eq(u.amount[h][1], 4); /* 7, rounded up */
        ck_assert_uint_eq(u.amount[h][2], 4000);
    }
    ck_assert_uint_eq(u.amount[0][0], 1);
    usage_sub(&set, &u, &tenant, HALF_BOTH);
    for (unsigned i = 0; i < set.count; i++) {
        ck_assert_uint_eq(u.amount[0][i] + u.amount[1][i], 0);
    }
    usage_sub(&set, &u, &tenant, HALF_0); /* never below zero */
    ck_assert_uint_eq(u.amount[0][1], 0);
}
END_TEST

START_TEST(what_fits_is_what_stays_at_or_below_the_level_everywhere)
{
    struct usage u = { 0 };
    unsigned which = 9;
    unsigned count = 0;

    /* 70 % of 30 rows are 21: five tenants of 4 in one half. */
    while (fits(&set, &u, &tenant, HALF_0, 7000, &which)) {
        usage_add(&set, &u, &tenant, HALF_0);
        count++;
    }
    /* 70 % of 50 are 35 = 5 x 7, exactly. */
    ck_assert_uint_eq(count, 5);
    ck_assert_uint_eq(which, 1);
    ck_assert(fits(&set, &u, &tenant, HALF_1, 7000, NULL));
    ck_assert(!fits(&set, &u, &tenant, HALF_BOTH, 7000, NULL));
    ck_assert_uint_eq(usage_level_bp(&set, &u, HALF_0, 1), 7000);
    ck_assert_uint_eq(usage_level_bp(&set, &u, HALF_1, 1), 0);
    ck_assert_uint_eq(usage_fullest_bp(&set, &u, &which), 7000);
    ck_assert_uint_eq(which, 1);
}
END_TEST

START_TEST(what_needs_nothing_of_a_full_resource_fits)
{
    struct usage u = { .amount = { { 0, 50, 0 } } };
    struct demand none = { { 1, 0, 1 } };

    ck_assert(fits(&set, &u, &none, HALF_0, 7000, NULL));
}
END_TEST

START_TEST(without_capacity_anything_is_too_much)
{
    struct resource_set empty = set;
    struct usage u = { 0 };
    unsigned which = 9;

    empty.capacity[0] = 0;
    ck_assert_uint_eq(usage_level_bp(&empty, &u, HALF_0, 0), 0);
    ck_assert(!fits(&empty, &u, &tenant, HALF_0, 10000, &which));
    ck_assert_uint_eq(which, 0);
    usage_add(&empty, &u, &tenant, HALF_0);
    ck_assert_uint_eq(usage_level_bp(&empty, &u, HALF_0, 0), UINT32_MAX);
}
END_TEST

START_TEST(without_halves_all_lies_in_the_first)
{
    struct resource_set one = set;
    struct usage u = { 0 };

    one.has_halves = false;
    usage_add(&one, &u, &tenant, HALF_0);
    ck_assert_uint_eq(u.amount[0][1], 7);
    ck_assert_uint_eq(u.amount[1][1], 0);
    ck_assert_uint_eq(usage_level_bp(&one, &u, HALF_1, 1), 1400);
}
END_TEST

START_TEST(resources_are_found_by_name)
{
    ck_assert_int_eq(resource_find(&set, "copied"), 2);
    ck_assert_int_eq(resource_find(&set, "copie"), -1);
}
END_TEST

/* Room is what adding up to it shows, for every half and any demand. */
START_TEST(what_fits_can_be_added_and_stays_within_the_level)
{
    uint64_t random = 1;
    unsigned fitted = 0;

    for (unsigned i = 0; i < 20000; i++) {
        struct usage u = { 0 };
        struct demand d = { 0 };
        enum half half = (enum half)(i % 3);
        bool is_within = true;

        for (unsigned r = 0; r < set.count; r++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            u.amount[0][r] = (random >> 33) % (set.capacity[r] + 1);
            u.amount[1][r] = set.at[r].per_half ? (random >> 11) % set.capacity[r] : 0;
            d.amount[r] = (random >> 48) % (set.capacity[r] / 2);
        }
        for (unsigned h = 0; h < 2; h++) {
            for (unsigned r = 0; r < set.count; r++) {
                struct usage after = u;

                usage_add(&set, &after, &d, half);
                is_within &= after.amount[h][r] == u.amount[h][r] ||
                             after.amount[h][r] * 10 <= set.capacity[r] * 8;
            }
        }
        ck_assert_int_eq(fits(&set, &u, &d, half, 8000, NULL), is_within);
        fitted += is_within;
    }
    ck_assert_uint_gt(fitted, 1000);
    ck_assert_uint_lt(fitted, 19000);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("resource");

    tcase_add_test(tc, a_half_takes_what_is_per_half_and_the_node_the_rest);
    tcase_add_test(tc, in_both_halves_routes_are_copied_and_vms_split);
    tcase_add_test(tc, what_fits_is_what_stays_at_or_below_the_level_everywhere);
    tcase_add_test(tc, what_needs_nothing_of_a_full_resource_fits);
    tcase_add_test(tc, without_capacity_anything_is_too_much);
    tcase_add_test(tc, without_halves_all_lies_in_the_first);
    tcase_add_test(tc, resources_are_found_by_name);
    tcase_add_test(tc, what_fits_can_be_added_and_stays_within_the_level);
    return unit_run("resource", tc);
}
