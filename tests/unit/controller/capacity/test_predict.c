#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "controller/capacity/predict.h"
#include "proto/model/table_set.h"

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
    /* words, by the blocks that a whole table took: vni, meters with counters, rules,
     * NCs; rows' actions, slots, VMs, conflicts */
    ck_assert_double_eq_tol(u.sram_words,
                            15 * 103 / 256.0 + 6 * 50 / 24.0 + 4 * 1 +
                                10 * 158 / 128.0 + 9 * 10 / 9.0 + 9 * 16 * 3 +
                                1498 * 318 / 512.0 + 2 * 14 / 8.0,
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

/* --- counting --------------------------------------------------------------------- */

static void put(struct batch_writer *w, uint32_t vni, const char *dst)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.action.scope = SCOPE_LOCAL;
    ck_assert_int_eq(prefix_parse(dst, strlen(dst), &e.route.dst, NULL), RC_OK);
    ck_assert_int_eq(entry_check(&e, NULL), RC_OK);
    batch_add_entry(w, ENTRY_PUT, &e);
}

static void put_vm(struct batch_writer *w, uint32_t vni, struct ip vm)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni };

    e.vm_nc.vm = vm;
    e.vm_nc.nc = ip_v4(0xc6336401);
    batch_add_entry(w, ENTRY_PUT, &e);
}

/* Takes what was written into a table set of its own. */
static struct table_set *set_of(struct batch_writer *w)
{
    struct table_set *set = table_set_new();
    struct blob *batch = batch_writer_finish(w);
    struct change_list changes = { 0 };
    struct rows_change total;

    ck_assert_ptr_nonnull(batch);
    ck_assert_int_eq(
        table_set_apply(set, batch->data, batch->len, &changes, &total, NULL), RC_OK);
    change_list_fini(&changes);
    blob_unref(batch);
    batch_writer_fini(w);
    return set;
}

static bool count(struct half_counter *c, const struct table_set *set, uint32_t vni)
{
    return half_counter_vni(c, vni, table_set_rows(set, vni, TABLE_VXLAN_ROUTE),
                            table_set_rows(set, vni, TABLE_VM_NC));
}

/* Routes of one VNI, and how many slots they take: a guard is one more. */
static const struct {
    const char *routes[5];
    uint64_t slots;
} mixes[] = {
    { { NULL }, 0 },
    { { "10.0.0.0/8", "10.1.0.0/16" }, 2 },
    { { "2001:db8::/32", "10.0.0.0/8", "::1:0:0/96" }, 3 }, /* below and above IPv4 */
    { { "::/0", "10.0.0.0/8" }, 3 },
    { { "::/0" }, 2 },
    { { "::/8", "2001:db8::/32" }, 3 },
    { { "::/0", "0.0.0.0/0" }, 2 }, /* the default guards by itself */
    { { "::/0", "0.0.0.0/0", "10.0.0.0/8", "2001:db8::/32", "::1:0:0/96" }, 5 },
    { { "2000::/3" }, 1 }, /* does not lie over IPv4 */
};

START_TEST(any_mix_of_families_is_counted_with_its_guard)
{
    struct half_counter c;
    struct batch_writer w;
    struct table_set *set;

    batch_writer_init(&w);
    put_vm(&w, 9, ip_v4(0x0a000001)); /* of another VNI: a batch is not empty */
    for (unsigned i = 0; i < 5 && mixes[_i].routes[i]; i++) {
        put(&w, 7, mixes[_i].routes[i]);
    }
    set = set_of(&w);
    half_counter_init(&c, L);
    ck_assert(count(&c, set, 7));
    ck_assert_uint_eq(half_counter_sum(&c).routes, mixes[_i].slots);
    ck_assert_uint_eq(half_counter_sum(&c).route_rows, mixes[_i].slots > 0);
    table_set_free(set);
}
END_TEST

START_TEST(a_counter_sums_what_it_is_shown)
{
    struct half_counter c;
    struct half_counts sum;
    struct batch_writer w;
    struct table_set *set;

    batch_writer_init(&w);
    for (uint32_t vni = 1; vni <= 40; vni++) {
        put(&w, vni, "10.0.0.0/24");
        for (uint32_t i = 0; i < 5; i++) {
            put_vm(&w, vni, ip_v4(0x0a000001 + i));
        }
        for (uint8_t i = 0; i < 100; i++) {
            put_vm(&w, vni,
                   (struct ip){ IP_V6, { 0x20, 1, 0xd, 0xb8, [14] = 1, [15] = i } });
        }
    }
    set = set_of(&w);
    half_counter_init(&c, L);
    for (uint32_t vni = 1; vni <= 40; vni++) {
        ck_assert(count(&c, set, vni));
    }
    ck_assert(!count(&c, set, 40)); /* not in ascending order */
    sum = half_counter_sum(&c);
    ck_assert_uint_eq(sum.vnis, 40);
    ck_assert_uint_eq(sum.routes, 40);
    ck_assert_uint_eq(sum.vms, 40 * 105);
    ck_assert_double_eq_tol(sum.conflicts, 40 * 100 * 99 / 8589934592.0, 1e-9);
    ck_assert_uint_ge(sum.route_rows, 3); /* 16 a partition at most */
    ck_assert_uint_le(sum.route_rows, 5); /* more than 8 but for the last */
    table_set_free(set);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("predict");

    tcase_add_test(tc,
                   each_table_takes_its_entries_and_partitions_take_all_their_slots);
    tcase_add_test(tc, vm_nc_overflows_into_its_spill);
    tcase_add_loop_test(tc, any_mix_of_families_is_counted_with_its_guard, 0,
                        ARRAY_LEN(mixes));
    tcase_add_test(tc, a_counter_sums_what_it_is_shown);
    return unit_run("predict", tc);
}
