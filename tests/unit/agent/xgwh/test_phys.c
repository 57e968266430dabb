/* The descriptions fit together: offsets are gapless, lengths are the sums, ids are
 * unique and of the right kind (P4Runtime: 0x01 action, 0x02 table). */
#include <string.h>

#include "agent/xgwh/phys.h"
#include "tests/unit/unit.h"

static size_t bytes_of(const struct phys_field *fields, unsigned count)
{
    size_t at = 0;

    for (unsigned i = 0; i < count; i++) {
        ck_assert_uint_eq(fields[i].id, i + 1);
        ck_assert_uint_eq(fields[i].offset, at);
        at += (fields[i].bits + 7u) / 8u;
    }
    return at;
}

START_TEST(tables_have_gapless_fields_and_own_ids)
{
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        const struct phys_table_desc *d = phys_table_desc(t);
        bool ternary = false;

        ck_assert_uint_eq(bytes_of(d->fields, d->field_count), d->key_len);
        ck_assert_uint_le(d->key_len, PHYS_KEY_MAX);
        ck_assert_uint_eq(d->id >> 24, 2);
        ck_assert_int_eq(phys_table_of_id(d->id), (int)t);
        for (unsigned i = 0; i < d->field_count; i++) {
            ternary |= d->fields[i].match == PHYS_TERNARY;
        }
        ck_assert_int_eq(ternary, d->has_priority);
        ck_assert_uint_gt(d->action_count, 0);
        ck_assert_uint_gt(phys_sizes_tofino()->table[t], 0);
    }
    ck_assert_int_eq(phys_table_of_id(0x02ffffff), -1);
}
END_TEST

START_TEST(actions_have_gapless_parameters_and_own_ids)
{
    for (unsigned a = 0; a < PHYS_ACTIONS; a++) {
        const struct phys_action_desc *d = phys_action_desc(a);

        ck_assert_uint_eq(bytes_of(d->params, d->param_count), d->data_len);
        ck_assert_uint_le(d->data_len, PHYS_DATA_MAX);
        ck_assert(d->id >> 24 == 1 || a == PHYS_NO_ACTION);
        ck_assert_int_eq(phys_action_of_id(d->id), (int)a);
    }
    ck_assert_int_eq(phys_action_of_id(0x01ffffff), -1);
}
END_TEST

START_TEST(partitions_times_slots_are_the_table)
{
    const struct phys_sizes *sizes[] = { phys_sizes_tofino(), phys_sizes_bench() };

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        ck_assert_uint_eq(sizes[i]->partitions * sizes[i]->partition_slots,
                          sizes[i]->table[PHYS_ROUTE_PART]);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("phys");

    tcase_add_test(tc, tables_have_gapless_fields_and_own_ids);
    tcase_add_test(tc, actions_have_gapless_parameters_and_own_ids);
    tcase_add_test(tc, partitions_times_slots_are_the_table);
    return unit_run("phys", tc);
}
