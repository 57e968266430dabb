/* The worked examples of CAPACITY.md (Sailfish, section 2.3). */
#include "tests/unit/unit.h"

#include <math.h>

#include "controller/capacity/region.h"

#define TBPS 1e12
#define GBPS 1e9

static const struct tier_input base = {
    .name = "t",
    .traffic_bps = 15 * TBPS,
    .node_bps = 100 * GBPS,
    .level_bp = 10000,
    .sides = 1,
    .ecmp_max = 1024,
    .side_min = 1,
    .node_cost_usd = 10000,
};

static const struct {
    double node_bps;
    uint32_t level_bp;
    uint32_t sides;
    uint32_t nodes;
    uint32_t level_after_bp;
} examples[] = {
    { 100 * GBPS, 10000, 1, 150, 10000 },
    { 100 * GBPS, 5000, 1, 300, 5000 },
    { 100 * GBPS, 5000, 2, 600, 5000 },
    { 3.2 * TBPS, 9400, 2, 10, 9375 }, /* 5 x 2 at 94 % */
    { 3.2 * TBPS, 5000, 2, 20, 4688 }, /* 10 x 2 at 50 % */
};

START_TEST(the_worked_examples_come_out)
{
    struct tier_input in = base;
    struct tier_plan p;
    struct err err = { 0 };

    in.node_bps = examples[_i].node_bps;
    in.level_bp = examples[_i].level_bp;
    in.sides = examples[_i].sides;
    ck_assert_int_eq(tier_plan_make(&in, &p, &err), RC_OK);
    ck_assert_uint_eq(p.nodes, examples[_i].nodes);
    ck_assert_uint_eq(p.level_bp, examples[_i].level_after_bp);
    ck_assert_uint_eq(p.clusters, 1);
    ck_assert_double_eq(p.cost_usd, 10000.0 * examples[_i].nodes);
}
END_TEST

START_TEST(a_little_traffic_still_takes_two_nodes_a_side)
{
    struct tier_input in = base;
    struct tier_plan p;

    /* 0.2 per mille of 15 Tbps: the four XGW-x86 beside the XGW-H. */
    in.traffic_bps = 0.0002 * 15 * TBPS;
    in.level_bp = 5000;
    in.sides = 2;
    in.side_min = 2;
    ck_assert_int_eq(tier_plan_make(&in, &p, NULL), RC_OK);
    ck_assert_uint_eq(p.nodes, 4);
    in.traffic_bps = 0;
    ck_assert_int_eq(tier_plan_make(&in, &p, NULL), RC_OK);
    ck_assert_uint_eq(p.nodes, 0);
    ck_assert_uint_eq(p.clusters, 0);
}
END_TEST

START_TEST(no_side_passes_the_ecmp_limit_and_none_is_too_small)
{
    struct tier_input in = base;
    struct tier_plan p;

    for (uint32_t ecmp = 2; ecmp <= 64; ecmp++) {
        for (uint32_t n = 1; n <= 200; n++) {
            in.ecmp_max = ecmp;
            in.side_min = 2;
            in.traffic_bps = n * in.node_bps;
            ck_assert_int_eq(tier_plan_make(&in, &p, NULL), RC_OK);
            ck_assert_uint_le(p.side, ecmp);
            ck_assert_uint_ge(p.side_sum, n);
            ck_assert_uint_ge(p.side_sum / p.clusters, 2);
            ck_assert_uint_le(p.side_sum, n + 2);
            ck_assert_uint_le(p.side_sum, p.side * p.clusters);
        }
    }
    /* 300 nodes a side and 64 next hops: 5 clusters of 60. */
    in = base;
    in.level_bp = 5000;
    in.ecmp_max = 64;
    ck_assert_int_eq(tier_plan_make(&in, &p, NULL), RC_OK);
    ck_assert_uint_eq(p.clusters, 5);
    ck_assert_uint_eq(p.side, 60);
}
END_TEST

START_TEST(quotients_that_are_whole_are_not_rounded_up)
{
    struct tier_input in = base;
    struct tier_plan p;

    in.traffic_bps = 0.3 * TBPS; /* 0.3 / 0.1 is a little above 3 in doubles */
    in.node_bps = 0.1 * TBPS;
    ck_assert_int_eq(tier_plan_make(&in, &p, NULL), RC_OK);
    ck_assert_uint_eq(p.side_sum, 3);
}
END_TEST

static const struct {
    const char *field;
    struct tier_input in;
} bad[] = {
    { "traffic", { "t", -1, 1, 5000, 2, 64, 2, 0 } },
    { "traffic", { "t", INFINITY, 1, 5000, 2, 64, 2, 0 } },
    { "traffic", { "t", NAN, 1, 5000, 2, 64, 2, 0 } },
    { "traffic", { "t", 1e12, 1, 5000, 2, 64, 2, 0 } }, /* 2e12 nodes */
    { "node", { "t", 1, 0, 5000, 2, 64, 2, 0 } },
    { "node", { "t", 1, NAN, 5000, 2, 64, 2, 0 } },
    { "level", { "t", 1, 1, 0, 2, 64, 2, 0 } },
    { "level", { "t", 1, 1, 10001, 2, 64, 2, 0 } },
    { "sides", { "t", 1, 1, 5000, 0, 64, 2, 0 } },
    { "sides", { "t", 1, 1, 5000, 3, 64, 2, 0 } },
    { "ecmp", { "t", 1, 1, 5000, 2, 0, 1, 0 } },
    { "ecmp", { "t", 1, 1, 5000, 2, 1025, 2, 0 } },
    { "side-min", { "t", 1, 1, 5000, 2, 64, 0, 0 } },
    { "side-min", { "t", 1, 1, 5000, 2, 4, 5, 0 } },
    { "node-cost", { "t", 1, 1, 5000, 2, 64, 2, -1 } },
};

START_TEST(bad_input_is_refused_by_field_and_rule)
{
    struct tier_plan p = { .nodes = 77 };
    struct err err = { 0 };

    ck_assert_int_eq(tier_plan_make(&bad[_i].in, &p, &err), RC_RANGE);
    ck_assert_str_eq(err.field, bad[_i].field);
    ck_assert_int_ne(err.rule[0], '\0');
    ck_assert_uint_eq(p.nodes, 77);
}
END_TEST

START_TEST(savings_are_a_share_of_the_old_cost)
{
    ck_assert_double_eq(region_saved(100, 10), 0.9);
    ck_assert_double_eq(region_saved(10, 100), 0);
    ck_assert_double_eq(region_saved(0, 0), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("region");

    tcase_add_loop_test(tc, the_worked_examples_come_out, 0, ARRAY_LEN(examples));
    tcase_add_test(tc, a_little_traffic_still_takes_two_nodes_a_side);
    tcase_add_test(tc, no_side_passes_the_ecmp_limit_and_none_is_too_small);
    tcase_add_test(tc, quotients_that_are_whole_are_not_rounded_up);
    tcase_add_loop_test(tc, bad_input_is_refused_by_field_and_rule, 0, ARRAY_LEN(bad));
    tcase_add_test(tc, savings_are_a_share_of_the_old_cost);
    return unit_run("region", tc);
}
