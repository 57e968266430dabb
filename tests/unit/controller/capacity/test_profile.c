#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "agent/xgwh/phys.h"
#include "controller/capacity/profile.h"

static struct profile h;

static void setup(void)
{
    profile_init_h(&h, &layout_xgw_h, &chips[0], 1500);
}

static uint64_t amount(const struct demand *d, const char *name)
{
    int i = resource_find(&h.set, name);

    ck_assert_int_ge(i, 0);
    return d->amount[i];
}

static double capacity(const char *name)
{
    int i = resource_find(&h.set, name);

    ck_assert_int_ge(i, 0);
    return (double)h.set.capacity[i] / h.set.at[i].scale;
}

START_TEST(every_dimension_of_the_chip_is_there_with_its_size)
{
    ck_assert_double_eq(capacity("vni"), 229900);
    ck_assert_double_eq(capacity("route"), 9215);
    ck_assert_double_eq_tol(capacity("vm_nc"), (524288 + 393216) * 0.877, 1);
    ck_assert_double_eq_tol(capacity("conflict"), 8192 * 0.877, 1);
    ck_assert_double_eq(capacity("nc_v4"), 65536 - 16);
    ck_assert_double_eq(capacity("nc_v6"), 65536 - 16);
    ck_assert_double_eq(capacity("meter"), 24575);
    ck_assert_double_eq(capacity("acl"), 1024);
    /* 3.2 Tbps over two halves; 1,500 B and 20 more on the wire. */
    ck_assert_double_eq_tol(capacity("bps"), 1.6e12, 10);
    ck_assert_double_eq_tol(capacity("pps"), 1.6e12 / 1520 / 8, 10);
    for (unsigned i = 0; i < h.set.count; i++) {
        ck_assert_uint_gt(h.set.capacity[i], 0);
        ck_assert_uint_ge(h.set.at[i].scale, 1);
        ck_assert_uint_gt(strlen(h.set.at[i].what), 4);
    }
}
END_TEST

/* The bench's switch: sizes of agent/xgwh, hash tables up to their load, and the one
 * row of each half that stays empty. */
START_TEST(a_switch_in_software_with_more_tables_has_room_for_more)
{
    const struct phys_sizes *sizes = phys_sizes_bench();
    double load = sizes->hash_load / 1000.0;
    struct profile bench;

    profile_init_h_bench(&bench, &layout_xgw_h, &chips[0], 1500);
    ck_assert_uint_eq(bench.set.count, h.set.count);
    for (unsigned i = 0; i < bench.set.count; i++) {
        const struct resource *r = &bench.set.at[i];
        double has = (double)bench.set.capacity[i] / r->scale;
        double vms = (double)sizes->table[PHYS_VM_NC] + sizes->table[PHYS_VM_NC_SPILL];
        double want = strcmp(r->name, "vni") == 0     ? load * sizes->table[PHYS_VNI]
                      : strcmp(r->name, "route") == 0 ? sizes->partitions - 1.0
                      : strcmp(r->name, "vm_nc") == 0 ? load * vms
                      : strcmp(r->name, "conflict") == 0
                          ? load * sizes->table[PHYS_VM_NC_CONFLICT]
                          : (double)h.set.capacity[i] / r->scale;

        ck_assert_double_eq_tol(has, want, 8);
    }
}
END_TEST

START_TEST(a_tenant_needs_what_its_counts_say)
{
    struct tenant_counts t = { .routes = 26,
                               .vms_v4 = 10,
                               .vms_v6 = 5,
                               .ncs_v4 = 3,
                               .ncs_v6 = 2,
                               .acl_rules = 4,
                               .is_metered = true,
                               .bps = 1000,
                               .pps = 7 };
    struct demand d;

    profile_demand(&h, &t, &d);
    ck_assert_uint_eq(amount(&d, "vni"), 1);
    ck_assert_uint_eq(amount(&d, "route"), 2000); /* 26 of 13 a row, thousandths */
    ck_assert_uint_eq(amount(&d, "vm_nc"), 15);
    ck_assert_uint_eq(amount(&d, "conflict"), 1);
    ck_assert_uint_eq(amount(&d, "nc_v4"), 3);
    ck_assert_uint_eq(amount(&d, "nc_v6"), 2);
    ck_assert_uint_eq(amount(&d, "acl"), 4);
    ck_assert_uint_eq(amount(&d, "meter"), 1);
    ck_assert_uint_eq(amount(&d, "bps"), 1000);
    ck_assert_uint_eq(amount(&d, "pps"), 7);
    t.route_millirows = 1900;
    profile_demand(&h, &t, &d);
    ck_assert_uint_eq(amount(&d, "route"), 1900);
}
END_TEST

/* A caller that knows no dimension fills a cluster until something is full. */
START_TEST(a_chip_fills_up_at_its_scarcest_table)
{
    struct tenant_counts t = { .routes = 4, .vms_v4 = 3, .vms_v6 = 1 };
    struct usage u = { 0 };
    struct demand d;
    struct demand room;
    unsigned which = 0;
    unsigned count = 0;

    profile_demand(&h, &t, &d);
    resource_room(&h.set, 10000, &room);
    while (usage_fits(&h.set, &u, &d, (enum half)(count % 2), &room, &which)) {
        usage_add(&h.set, &u, &d, (enum half)(count % 2));
        count++;
    }
    ck_assert_str_eq(h.set.at[which].name, "route");
    /* 239,590 routes of 4 a tenant, each rounded up to a thousandth of a row. */
    ck_assert_double_le(fabs(count - 239590 / 4.0), 0.002 * 239590);
}
END_TEST

START_TEST(software_is_full_by_memory_bits_or_packets)
{
    struct x86_node node = { .cores = 8,
                             .pps_per_core = 1e6,
                             .port_bps = 1e11,
                             .memory_bytes = 1e9,
                             .entry_bytes = 71 };
    struct tenant_counts t = { .routes = 4, .vms_v4 = 4, .bps = 10, .pps = 1 };
    struct profile x;
    struct demand d;

    profile_init_x86(&x, &node);
    ck_assert(!x.set.has_halves);
    profile_demand(&x, &t, &d);
    ck_assert_uint_eq(d.amount[resource_find(&x.set, "memory")], 9 * 71);
    ck_assert_uint_eq(d.amount[resource_find(&x.set, "bps")], 10);
    ck_assert_uint_eq(d.amount[resource_find(&x.set, "pps")], 1);
    ck_assert_uint_eq(x.set.capacity[resource_find(&x.set, "pps")], 8000000);
    ck_assert_uint_eq(x.set.capacity[resource_find(&x.set, "bps")], 100000000000);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("profile");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, every_dimension_of_the_chip_is_there_with_its_size);
    tcase_add_test(tc, a_switch_in_software_with_more_tables_has_room_for_more);
    tcase_add_test(tc, a_tenant_needs_what_its_counts_say);
    tcase_add_test(tc, a_chip_fills_up_at_its_scarcest_table);
    tcase_add_test(tc, software_is_full_by_memory_bits_or_packets);
    return unit_run("profile", tc);
}
