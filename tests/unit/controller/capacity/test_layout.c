/* Figures of the open compiler's report (p4/README.md, "Fit"). */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "agent/xgwh/phys.h"
#include "controller/capacity/layout.h"

#define TOFINO (&chips[0])

START_TEST(the_pair_fits_as_the_compiler_says)
{
    struct layout_fit fit = layout_fit(&layout_xgw_h, TOFINO);

    ck_assert_double_le(fabs(100 * fit.sram_share - 70.3), 1);
    ck_assert_double_le(fabs(100 * fit.tcam_share - 18.4), 0.5);
    ck_assert_double_le(fabs(100 * fit.pipe[PIPE_A].tcam_share - 11.1), 0.5);
    ck_assert_double_le(fabs(100 * fit.pipe[PIPE_B].tcam_share - 25.7), 0.5);
    ck_assert_double_le(fabs(100 * fit.pipe[PIPE_A].sram_share - 59.5), 1);
    ck_assert_double_le(fabs(100 * fit.pipe[PIPE_B].sram_share - 81.0), 1);
}
END_TEST

static const struct {
    const char *table;
    enum phys_table phys;
} same[] = {
    { "vtep", PHYS_VTEP },
    { "source", PHYS_SOURCE },
    { "vni", PHYS_VNI },
    { "acl", PHYS_ACL },
    { "route_tcam", PHYS_ROUTE_TCAM },
    { "route_part", PHYS_ROUTE_PART },
    { "vm_nc_conflict", PHYS_VM_NC_CONFLICT },
    { "vm_nc", PHYS_VM_NC },
    { "vm_nc_spill", PHYS_VM_NC_SPILL },
    { "nc", PHYS_NC },
    { "next_hop", PHYS_NEXT_HOP },
    { "port_out", PHYS_PORT_OUT },
    { "fallback_group", PHYS_FALLBACK },
};

START_TEST(tables_are_as_large_as_in_the_image)
{
    const struct phys_sizes *sizes = phys_sizes_tofino();
    const struct phys_table_desc *desc = phys_table_desc(same[_i].phys);
    uint64_t entries = 0;
    bool halved = false;

    ck_assert_str_eq(desc->name, same[_i].table);
    for (unsigned i = 0; i < layout_xgw_h.table_count; i++) {
        if (strcmp(layout_xgw_h.tables[i].name, same[_i].table) == 0) {
            entries += layout_xgw_h.tables[i].entries;
            halved = layout_xgw_h.tables[i].is_halved;
        }
    }
    ck_assert_uint_eq(entries, sizes->table[same[_i].phys]);
    ck_assert_int_eq(halved, desc->halved);
}
END_TEST

START_TEST(every_table_of_the_image_is_in_the_layout)
{
    const struct phys_sizes *sizes = phys_sizes_tofino();

    for (unsigned p = 0; p < PHYS_TABLES; p++) {
        ck_assert_ptr_nonnull(
            layout_table(&layout_xgw_h, phys_table_desc((enum phys_table)p)->name));
    }
    ck_assert_uint_eq(ARRAY_LEN(same), PHYS_TABLES);
    ck_assert_uint_eq(layout_xgw_h.partitions, sizes->partitions);
    ck_assert_uint_eq(layout_xgw_h.partition_slots, sizes->partition_slots);
    ck_assert_uint_eq(layout_table(&layout_xgw_h, "meter")->entries, sizes->meters);
    ck_assert_uint_eq(layout_table(&layout_xgw_h, "fallback_meters")->entries,
                      2 * sizes->fallback_buckets);
    ck_assert_double_eq_tol(TOFINO->hash_load, sizes->hash_load / 1000.0, 1e-9);
    ck_assert_ptr_null(layout_table(&layout_xgw_h, "no_such"));
}
END_TEST

START_TEST(the_chip_holds_what_was_counted_for_it)
{
    const struct layout *l = &layout_xgw_h;
    double vms = 2 * (layout_table_usable(layout_table(l, "vm_nc"), TOFINO) +
                      layout_table_usable(layout_table(l, "vm_nc_spill"), TOFINO));
    double rows = 2 * layout_table_usable(layout_table(l, "route_tcam"), TOFINO);

    ck_assert_double_le(fabs(vms - 1.61e6), 0.005e6);
    ck_assert_double_le(
        fabs(layout_table_usable(layout_table(l, "vni"), TOFINO) - 229900), 10);
    /* 239,616 with 13 a row, but for the partition of each half that stays empty. */
    ck_assert_double_eq(rows * l->routes_per_row, 239616 - 2 * 13);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("layout");

    tcase_add_test(tc, the_pair_fits_as_the_compiler_says);
    tcase_add_loop_test(tc, tables_are_as_large_as_in_the_image, 0, ARRAY_LEN(same));
    tcase_add_test(tc, every_table_of_the_image_is_in_the_layout);
    tcase_add_test(tc, the_chip_holds_what_was_counted_for_it);
    return unit_run("layout", tc);
}
