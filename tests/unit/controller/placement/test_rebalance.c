#include "tests/unit/unit.h"

#include <string.h>

#include "controller/placement/placement.h"

static const struct resource_set set = {
    .at = { { "rows", "rows", "", 1, true, RESOURCE_COPIED },
            { "bps", "bit/s", "", 1, true, RESOURCE_SPLIT } },
    .capacity = { 1000, 1000 },
    .count = 2,
    .has_halves = true,
};

#define TENANTS_MAX 300

static struct placement *p;
static struct placement_tenant tenants[TENANTS_MAX];
static uint32_t tenant_count;

static void setup(void)
{
    p = placement_new();
    tenant_count = 0;
}

static void teardown(void)
{
    placement_free(p);
}

static uint32_t put(const char *name, bool is_open)
{
    struct placement_cluster c = { .name = name,
                                   .backing = PLACEMENT_NONE,
                                   .sale_bp = 7000,
                                   .is_open = is_open,
                                   .set = set };
    uint32_t id = PLACEMENT_NONE;

    ck_assert_int_eq(placement_put_cluster(p, &c, &id, NULL), RC_OK);
    return id;
}

static void add(uint32_t id, enum half half, uint64_t rows, uint64_t bps)
{
    struct placement_tenant *t = &tenants[tenant_count];

    *t = (struct placement_tenant){
        .id = 100 + tenant_count, .cluster = id, .half = half, .need = { { rows, bps } }
    };
    placement_add(p, id, half, &t->need);
    tenant_count++;
}

static uint32_t rebalance(uint32_t threshold_bp, struct placement_move *ret,
                          uint32_t cap)
{
    uint32_t count = 99;

    ck_assert_int_eq(placement_rebalance(p, 0, tenants, tenant_count, threshold_bp, ret,
                                         cap, &count),
                     RC_OK);
    ck_assert_uint_le(count, cap);
    return count;
}

START_TEST(one_large_tenant_moves_when_it_is_worth_it)
{
    uint32_t a = put("a", true);
    uint32_t b = put("b", true);
    struct placement_move m[8];

    add(a, HALF_0, 10, 400);
    add(a, HALF_0, 10, 300);
    add(b, HALF_1, 10, 100);
    ck_assert_uint_eq(rebalance(500, m, 8), 1);
    ck_assert_uint_eq(m[0].id, 101); /* 300: the other would make b fuller than a */
    ck_assert_uint_eq(m[0].from, a);
    ck_assert_uint_eq(m[0].to, b);
    ck_assert_int_eq(m[0].to_half, HALF_0);
    ck_assert_double_eq(m[0].from_before, 0.7);
    ck_assert_double_eq(m[0].from_after, 0.4);
    ck_assert_double_eq(m[0].to_before, 0.1);
    ck_assert_double_eq(m[0].to_after, 0.3);
    ck_assert_uint_eq(rebalance(3001, m, 8), 0); /* 30 points, no more */
    ck_assert_uint_eq(rebalance(3000, m, 8), 1);
}
END_TEST

START_TEST(both_halves_are_relieved_though_one_alone_changes_nothing)
{
    uint32_t a = put("a", true);
    struct placement_move m[64];
    uint32_t count;

    put("b", true);
    for (unsigned i = 0; i < 60; i++) {
        add(a, i % 2 ? HALF_1 : HALF_0, 20, 10);
    }
    count = rebalance(1000, m, 64);
    ck_assert_uint_eq(count, 30); /* 60 % in each half, 30 % in four of them */
    ck_assert_double_eq(m[count - 1].from_after, 0.3);
}
END_TEST

START_TEST(nothing_moves_to_where_it_does_not_fit_or_is_not_wanted)
{
    uint32_t a = put("a", true);
    uint32_t b = put("b", false);
    uint32_t c = put("c", true);
    struct placement_move m[8];

    add(a, HALF_0, 300, 0);
    add(a, HALF_0, 300, 0);
    ck_assert_uint_eq(rebalance(1, m, 8), 1);
    ck_assert_uint_eq(m[0].to, c);
    add(c, HALF_0, 0, 690);
    add(c, HALF_1, 0, 690);
    ck_assert_uint_eq(rebalance(1, m, 8), 0);
    (void)b;
}
END_TEST

START_TEST(the_plan_holds_when_it_is_carried_out_and_nothing_was_changed_before)
{
    uint64_t seed = 5;
    uint32_t ids[4];
    struct placement_move m[100];
    uint32_t count;

    for (unsigned i = 0; i < 4; i++) {
        char name[] = { (char)('a' + i), 0 };

        ids[i] = put(name, true);
    }
    for (unsigned i = 0; i < TENANTS_MAX; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        add(ids[seed >> 40 & 1], seed >> 50 & 1 ? HALF_1 : HALF_0, 1 + (seed >> 33) % 7,
            (seed >> 20) % 5);
    }
    count = rebalance(100, m, 100);
    ck_assert_uint_gt(count, 10);
    for (uint32_t i = 0; i < count; i++) {
        const struct placement_tenant *t = &tenants[m[i].id - 100];

        ck_assert_double_eq(placement_fullness(p, m[i].from), m[i].from_before);
        ck_assert_double_eq(placement_fullness(p, m[i].to), m[i].to_before);
        ck_assert_int_eq(t->half, m[i].from_half);
        placement_sub(p, m[i].from, m[i].from_half, &t->need);
        placement_add(p, m[i].to, m[i].to_half, &t->need);
        ck_assert_double_eq(placement_fullness(p, m[i].from), m[i].from_after);
        ck_assert_double_eq(placement_fullness(p, m[i].to), m[i].to_after);
        ck_assert_double_le(m[i].to_after, 0.7);
        ck_assert_double_le(m[i].to_after, m[i].from_before);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rebalance");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, one_large_tenant_moves_when_it_is_worth_it);
    tcase_add_test(tc, both_halves_are_relieved_though_one_alone_changes_nothing);
    tcase_add_test(tc, nothing_moves_to_where_it_does_not_fit_or_is_not_wanted);
    tcase_add_test(
        tc, the_plan_holds_when_it_is_carried_out_and_nothing_was_changed_before);
    return unit_run("rebalance", tc);
}
