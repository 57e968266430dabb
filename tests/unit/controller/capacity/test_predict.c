#include "tests/unit/unit.h"

#include <math.h>

#include "controller/capacity/predict.h"

#define TOFINO (&chips[0])
#define L      (&layout_xgw_h)

static double entries(const struct physical_use *u, unsigned half, const char *name)
{
    return u->entries[half][layout_table(L, name) - L->tables];
}

START_TEST(each_table_takes_its_entries_and_partitions_take_all_their_slots)
{
    struct half_counts half[2] = {
        { .vnis = 10, .routes = 100, .route_rows = 8, .vms = 1000, .conflicts = 0 },
        { .vnis = 5, .routes = 13, .vms = 500, .conflicts = 2 },
    };
    struct node_counts node = {
        .vnis = 15, .ncs_v4 = 7, .ncs_v6 = 3, .acl_rules = 4, .meters = 6
    };
    struct physical_use u;

    capacity_predict(L, TOFINO, half, &node, &u);
    ck_assert_double_eq(entries(&u, 0, "route_tcam"), 8);
    ck_assert_double_eq(entries(&u, 0, "route_part"), 8 * 16);
    ck_assert_double_eq(entries(&u, 1, "route_tcam"), 1); /* 13 a row */
    ck_assert_double_eq(entries(&u, 0, "vm_nc"), 1000);
    ck_assert_double_eq(entries(&u, 1, "vm_nc"), 498);
    ck_assert_double_eq(entries(&u, 1, "vm_nc_conflict"), 2);
    ck_assert_double_eq(entries(&u, 1, "vm_nc_spill"), 0);
    /* rows: 8 + 1 of routes, 4 of rules */
    ck_assert_double_eq(u.tcam_rows, 13);
    /* words: vni, meters with counters, NCs; rows' actions, slots, VMs, conflicts */
    ck_assert_double_eq_tol(u.sram_words,
                            15 * 0.3125 + 6 * 2 + 10 * 155.0 / 128 + 9 + 9 * 16 * 3.0 +
                                1498 * 0.625 + 2 * 1.5,
                            1e-6);
}
END_TEST

START_TEST(vm_nc_overflows_into_its_spill)
{
    double room = floor(524288 * 0.877 * 1000) / 1000;
    struct half_counts half[2] = { { .vms = 600000 }, { .vms = 900000 } };
    struct node_counts node = { 0 };
    struct physical_use u;

    capacity_predict(L, TOFINO, half, &node, &u);
    ck_assert_double_eq_tol(entries(&u, 0, "vm_nc"), room, 1);
    ck_assert_double_eq_tol(entries(&u, 0, "vm_nc_spill"), 600000 - room, 1);
    /* 900,000 are more than the 804,650 of a half. */
    ck_assert_double_gt(u.fullest, 1);
    ck_assert_str_eq(L->tables[u.fullest_table].name, "vm_nc_spill");
}
END_TEST

START_TEST(a_counter_sums_what_it_is_shown)
{
    struct half_counter c;
    struct half_counts sum;
    struct prefix p = { ip_v4(0x0a000000), 24 };

    half_counter_init(&c, L);
    for (uint32_t vni = 1; vni <= 40; vni++) {
        half_counter_vni(&c, 3, 100000);
        ck_assert(half_counter_route(&c, vni, &p));
        ck_assert(!half_counter_route(&c, vni, &p));
    }
    sum = half_counter_sum(&c);
    ck_assert_uint_eq(sum.vnis, 40);
    ck_assert_uint_eq(sum.routes, 40);
    ck_assert_uint_eq(sum.vms, 40 * 100003);
    /* 40 x 1.16 */
    ck_assert_double_eq_tol(sum.conflicts, 40 * 1e5 * 99999 / 8589934592.0, 1e-3);
    ck_assert_uint_ge(sum.route_rows, 3); /* 16 a partition at most */
    ck_assert_uint_le(sum.route_rows, 5); /* more than 8 but for the last */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("predict");

    tcase_add_test(tc,
                   each_table_takes_its_entries_and_partitions_take_all_their_slots);
    tcase_add_test(tc, vm_nc_overflows_into_its_spill);
    tcase_add_test(tc, a_counter_sums_what_it_is_shown);
    return unit_run("predict", tc);
}
