#include "tests/unit/unit.h"

#include <string.h>

#include "controller/placement/placement.h"

/* One dimension of each sort. */
static const struct resource_set set_h = {
    .at = { { "whole", "entries", "of the node", 1, false, 0 },
            { "split", "entries", "by parity", 1, true, RESOURCE_SPLIT },
            { "copied", "rows", "in both", 1, true, RESOURCE_COPIED } },
    .capacity = { 100, 100, 100 },
    .count = 3,
    .has_halves = true,
};
static const struct resource_set set_x = {
    .at = { { "memory", "bytes", "tables", 1, false, 0 } },
    .capacity = { 1000 },
    .count = 1,
};

enum { H, X };

static struct placement *p;

static void setup(void)
{
    p = placement_new();
    ck_assert_ptr_nonnull(p);
}

static void teardown(void)
{
    placement_free(p);
}

static uint32_t put(const char *name, unsigned pool, uint32_t backing, uint32_t sale_bp)
{
    struct placement_cluster c = { .name = name,
                                   .pool = pool,
                                   .backing = backing,
                                   .sale_bp = sale_bp,
                                   .is_open = true,
                                   .set = pool == H ? set_h : set_x };
    uint32_t id = PLACEMENT_NONE;

    ck_assert_int_eq(placement_put_cluster(p, &c, &id, NULL), RC_OK);
    return id;
}

static void set_open(uint32_t id, bool is_open)
{
    struct placement_cluster c = *placement_cluster_at(p, id);
    char name[64];

    strcpy(name, c.name);
    c.name = name;
    c.is_open = is_open;
    ck_assert_int_eq(placement_put_cluster(p, &c, &id, NULL), RC_OK);
}

static struct placement_ask ask_of(uint64_t whole, uint64_t split, uint64_t copied)
{
    return (struct placement_ask){ .pool = H,
                                   .need = { { whole, split, copied } },
                                   .except = PLACEMENT_NONE };
}

static struct placement_answer choose(uint64_t whole, uint64_t split, uint64_t copied)
{
    struct placement_ask ask = ask_of(whole, split, copied);

    return placement_choose(p, &ask);
}

static void add(uint32_t id, enum half half, uint64_t whole, uint64_t split,
                uint64_t copied)
{
    placement_add(p, id, half, &(struct demand){ { whole, split, copied } });
}

START_TEST(the_fullest_that_takes_it_below_the_sale_level_is_chosen)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);
    uint32_t b = put("b", H, PLACEMENT_NONE, 7000);

    add(a, HALF_0, 10, 0, 0);
    add(b, HALF_0, 60, 0, 0);
    ck_assert_uint_eq(choose(10, 0, 0).cluster, b); /* 70 of 100: at the level */
    ck_assert_uint_eq(choose(11, 0, 0).cluster, a);
    ck_assert_uint_eq(choose(61, 0, 0).cluster, PLACEMENT_NONE);
    ck_assert_uint_eq(choose(0, 1, 0).cluster, b); /* needs nothing of what is full */
}
END_TEST

START_TEST(equals_are_decided_by_name_not_by_when_they_came)
{
    uint32_t b = put("b", H, PLACEMENT_NONE, 7000);
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);

    ck_assert_uint_eq(choose(1, 1, 1).cluster, a);
    placement_remove_cluster(p, a);
    ck_assert_uint_eq(choose(1, 1, 1).cluster, b);
    a = put("a", H, PLACEMENT_NONE, 7000);
    ck_assert_uint_eq(choose(1, 1, 1).cluster, a);
}
END_TEST

START_TEST(a_closed_cluster_takes_none_and_opens_again)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);
    uint32_t b = put("b", H, PLACEMENT_NONE, 7000);

    set_open(a, false);
    ck_assert_uint_eq(choose(1, 1, 1).cluster, b);
    set_open(b, false);
    ck_assert_uint_eq(choose(1, 1, 1).cluster, PLACEMENT_NONE);
    set_open(a, true);
    ck_assert_uint_eq(choose(1, 1, 1).cluster, a);
}
END_TEST

START_TEST(the_half_that_is_less_full_with_it_is_taken_if_it_fits)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);

    ck_assert_int_eq(choose(1, 1, 1).half, HALF_0);
    add(a, HALF_0, 0, 30, 0);
    ck_assert_int_eq(choose(1, 1, 1).half, HALF_1);
    add(a, HALF_1, 0, 0, 20);
    ck_assert_int_eq(choose(0, 1, 1).half, HALF_1);  /* 31 against 21 */
    ck_assert_int_eq(choose(0, 1, 20).half, HALF_0); /* 31 against 40 */
    add(a, HALF_1, 0, 0, 45);
    ck_assert_int_eq(choose(0, 0, 10).half, HALF_0); /* 75 is too much for half 1 */
}
END_TEST

START_TEST(both_halves_only_where_an_empty_half_would_not_do)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);

    ck_assert_int_eq(choose(0, 100, 70).half, HALF_BOTH);
    ck_assert_uint_eq(choose(0, 100, 71).cluster, PLACEMENT_NONE); /* copied */
    ck_assert_uint_eq(choose(0, 141, 0).cluster, PLACEMENT_NONE);
    add(a, HALF_BOTH, 0, 101, 7);
    ck_assert_uint_eq(choose(0, 40, 0).cluster, PLACEMENT_NONE); /* 51 in each */
    ck_assert_uint_eq(choose(0, 19, 0).cluster, a);
}
END_TEST

START_TEST(what_goes_gives_back_exactly_what_it_took)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);
    struct demand first = { { 3, 7, 11 } };
    struct demand then = { { 5, 90, 1 } };
    struct usage u;

    add(a, HALF_BOTH, 1, 7, 1);
    placement_add(p, a, HALF_1, &first);
    placement_change(p, a, HALF_1, &first, &then);
    placement_usage(p, a, &u);
    ck_assert_uint_eq(u.amount[0][0], 6);
    ck_assert_uint_eq(u.amount[1][1], 94);
    ck_assert_uint_eq(u.amount[0][2], 1);
    ck_assert_double_eq(placement_fullness(p, a), 0.94);
    placement_sub(p, a, HALF_1, &then);
    placement_sub(p, a, HALF_BOTH, &(struct demand){ { 1, 7, 1 } });
    placement_usage(p, a, &u);
    for (unsigned i = 0; i < set_h.count; i++) {
        ck_assert_uint_eq(u.amount[0][i] + u.amount[1][i], 0);
    }
    ck_assert_uint_eq(placement_tenants(p, a), 0);
    ck_assert_double_eq(placement_fullness(p, a), 0);
}
END_TEST

START_TEST(what_is_used_in_common_counts_once_and_for_everybody)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);

    placement_set_common(p, a, 0, 65);
    ck_assert_uint_eq(choose(6, 0, 0).cluster, PLACEMENT_NONE);
    ck_assert_uint_eq(choose(5, 0, 0).cluster, a);
    placement_set_common(p, a, 0, 64);
    ck_assert_uint_eq(choose(6, 0, 0).cluster, a);
    ck_assert_double_eq(placement_fullness(p, a), 0.64);
}
END_TEST

START_TEST(peers_are_near_each_other_where_they_fit)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);
    uint32_t b = put("b", H, PLACEMENT_NONE, 7000);
    uint32_t c = put("c", H, PLACEMENT_NONE, 7000);
    const uint32_t near[] = { b, c, c };
    struct placement_ask ask = ask_of(1, 1, 1);

    add(a, HALF_0, 50, 0, 0);
    add(b, HALF_0, 20, 0, 0);
    add(c, HALF_0, 10, 0, 0);
    ck_assert_uint_eq(placement_choose(p, &ask).cluster, a);
    ask.near = near;
    ask.near_count = 3;
    ck_assert_uint_eq(placement_choose(p, &ask).cluster, c); /* two of three */
    ask.need.amount[0] = 55;
    ck_assert_uint_eq(placement_choose(p, &ask).cluster, c);
    ask.need.amount[0] = 61;
    ck_assert_uint_eq(placement_choose(p, &ask).cluster, PLACEMENT_NONE);
    set_open(c, false);
    ask.need.amount[0] = 1;
    ck_assert_uint_eq(placement_choose(p, &ask).cluster, b);
}
END_TEST

START_TEST(the_cluster_behind_must_take_it_too)
{
    uint32_t x = put("x", X, PLACEMENT_NONE, 7000);
    uint32_t y = put("y", X, PLACEMENT_NONE, 7000);
    uint32_t a = put("a", H, x, 7000);
    uint32_t b = put("b", H, y, 7000);
    struct placement_ask ask = ask_of(1, 1, 1);
    struct placement_candidate got[2];

    ask.backing_need.amount[0] = 100;
    placement_add(p, x, HALF_0, &(struct demand){ { 650 } });
    ck_assert_uint_eq(placement_choose(p, &ask).cluster, b);
    ck_assert_uint_eq(placement_explain(p, &ask, got, 2), 2);
    ck_assert_uint_eq(got[0].cluster, a);
    ck_assert_int_eq(got[0].verdict, PLACEMENT_BACKING_NO_ROOM);
    ck_assert_uint_eq(got[0].backing, x);
    ck_assert_uint_eq(got[0].backing_at[0].used[0], 650);
    ck_assert_uint_eq(got[0].backing_at[0].room, 700);
    ck_assert_uint_eq(got[0].backing_at[0].need, 100);
    ck_assert(!got[0].backing_at[0].fits[0]);
    ck_assert_int_eq(got[1].verdict, PLACEMENT_CHOSEN);
}
END_TEST

START_TEST(an_explanation_has_every_number_that_decided)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);
    uint32_t b = put("b", H, PLACEMENT_NONE, 7000);
    uint32_t c = put("c", H, PLACEMENT_NONE, 7000);
    uint32_t d = put("d", H, PLACEMENT_NONE, 7000);
    struct placement_ask ask = ask_of(5, 20, 6);
    struct placement_candidate got[4];

    add(a, HALF_0, 66, 0, 0);
    add(b, HALF_0, 65, 60, 0);
    add(b, HALF_1, 0, 30, 0);
    set_open(c, false);
    ck_assert_uint_eq(placement_explain(p, &ask, got, 4), 4);
    ck_assert_uint_eq(got[0].cluster, a); /* 66 % */
    ck_assert_int_eq(got[0].verdict, PLACEMENT_NO_ROOM);
    ck_assert(!got[0].at[0].fits[0] && !got[0].at[0].fits[1]);
    ck_assert_uint_eq(got[0].at[0].used[0], 66);
    ck_assert_uint_eq(got[0].at[0].room, 70);
    ck_assert_uint_eq(got[0].at[0].capacity, 100);
    ck_assert_uint_eq(got[1].cluster, b); /* 65 % */
    ck_assert_int_eq(got[1].verdict, PLACEMENT_CHOSEN);
    ck_assert_int_eq(got[1].half, HALF_1);
    ck_assert(!got[1].at[1].fits[0] && got[1].at[1].fits[1]);
    ck_assert_double_eq(got[1].before, 0.65);
    ck_assert_double_eq(got[1].after, 0.70);
    ck_assert_uint_eq(got[2].cluster, c);
    ck_assert_int_eq(got[2].verdict, PLACEMENT_CLOSED);
    ck_assert_uint_eq(got[3].cluster, d);
    ck_assert_int_eq(got[3].verdict, PLACEMENT_LESS_FULL);
    ck_assert(!got[3].is_too_big);
    ask.need.amount[2] = 71;
    ck_assert_uint_eq(placement_explain(p, &ask, got, 4), 4);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(got[i].is_too_big);
    }
}
END_TEST

START_TEST(another_size_or_level_of_a_cluster_keeps_its_tenants)
{
    uint32_t a = put("a", H, PLACEMENT_NONE, 7000);
    struct placement_cluster c = *placement_cluster_at(p, a);

    add(a, HALF_0, 60, 0, 0);
    c.name = "a";
    c.set.capacity[0] = 60;
    ck_assert_int_eq(placement_put_cluster(p, &c, &a, NULL), RC_OK);
    ck_assert_double_eq(placement_fullness(p, a), 1);
    ck_assert_uint_eq(choose(1, 0, 0).cluster, PLACEMENT_NONE);
    c.sale_bp = 15000;
    ck_assert_int_eq(placement_put_cluster(p, &c, &a, NULL), RC_OK);
    ck_assert_uint_eq(choose(30, 0, 0).cluster, a);
    ck_assert_uint_eq(choose(31, 0, 0).cluster, PLACEMENT_NONE);
    ck_assert_uint_eq(placement_tenants(p, a), 1);
}
END_TEST

START_TEST(clusters_of_one_pool_have_the_same_dimensions)
{
    struct placement_cluster c = { .name = "x", .pool = H, .set = set_x };
    uint32_t id = PLACEMENT_NONE;

    put("a", H, PLACEMENT_NONE, 7000);
    ck_assert_int_eq(placement_put_cluster(p, &c, &id, NULL), RC_INVALID);
    ck_assert_uint_eq(id, PLACEMENT_NONE);
}
END_TEST

START_TEST(what_there_is_none_of_takes_nothing)
{
    struct placement_cluster c = { .name = "a",
                                   .backing = PLACEMENT_NONE,
                                   .sale_bp = 7000,
                                   .is_open = true,
                                   .set = set_h };
    uint32_t id = PLACEMENT_NONE;

    c.set.capacity[2] = 0;
    ck_assert_int_eq(placement_put_cluster(p, &c, &id, NULL), RC_OK);
    ck_assert_uint_eq(choose(1, 1, 1).cluster, PLACEMENT_NONE);
    ck_assert_uint_eq(choose(1, 1, 0).cluster, id);
    ck_assert_double_eq(placement_fullness(p, id), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("placement");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_fullest_that_takes_it_below_the_sale_level_is_chosen);
    tcase_add_test(tc, equals_are_decided_by_name_not_by_when_they_came);
    tcase_add_test(tc, a_closed_cluster_takes_none_and_opens_again);
    tcase_add_test(tc, the_half_that_is_less_full_with_it_is_taken_if_it_fits);
    tcase_add_test(tc, both_halves_only_where_an_empty_half_would_not_do);
    tcase_add_test(tc, what_goes_gives_back_exactly_what_it_took);
    tcase_add_test(tc, what_is_used_in_common_counts_once_and_for_everybody);
    tcase_add_test(tc, peers_are_near_each_other_where_they_fit);
    tcase_add_test(tc, the_cluster_behind_must_take_it_too);
    tcase_add_test(tc, an_explanation_has_every_number_that_decided);
    tcase_add_test(tc, another_size_or_level_of_a_cluster_keeps_its_tenants);
    tcase_add_test(tc, clusters_of_one_pool_have_the_same_dimensions);
    tcase_add_test(tc, what_there_is_none_of_takes_nothing);
    return unit_run("placement", tc);
}
