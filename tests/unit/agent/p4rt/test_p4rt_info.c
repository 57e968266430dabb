/* A p4info with one thing changed is another program, and the error names the thing. */
#include "agent/p4rt/p4rt_info.h"

#include <string.h>

#include "tests/unit/agent/p4rt/p4info_make.h"
#include "tests/unit/unit.h"

START_TEST(the_program_of_the_physical_tables_is_taken_with_its_meters_and_counters)
{
    struct buf b = BUF_INIT;
    struct p4rt_info info;
    struct err err = { 0 };

    p4info_make(&b, NULL, 0);
    ck_assert_msg(p4rt_info_read(b.data, b.len, phys_sizes_bench(), &info, &err) ==
                      RC_OK,
                  "%s", err.msg);
    ck_assert_str_eq(info.program, "xgw_h");
    for (unsigned i = 0; i < PHYS_TABLES; i++) {
        ck_assert_uint_eq(info.table_size[i], phys_sizes_bench()->table[i]);
    }
    for (unsigned i = 0; i < PHYS_METERS; i++) {
        ck_assert_uint_eq(info.meter_id[i], 0x14000000 + 7 * i + 3);
        ck_assert_uint_eq(info.meter_size[i], 4096);
    }
    for (unsigned i = 0; i < PHYS_COUNTERS; i++) {
        ck_assert_uint_eq(info.counter_id[i][0], 0x12000000 + 5 * i + 9);
        ck_assert_uint_eq(info.counter_id[i][1], 0);
        ck_assert_uint_eq(info.counter_size[i], 256);
    }
    ck_assert_uint_eq(info.packet_in_port, 1);
    ck_assert_uint_eq(info.packet_out_port, 1);
    ck_assert_uint_eq(info.packet_in_probe, 3);
    ck_assert_uint_eq(info.packet_out_probe, 3);
    ck_assert_uint_eq(info.packet_in_reason, 4);
    buf_fini(&b);
}
END_TEST

START_TEST(counters_of_one_name_are_parts_of_one_and_no_more_than_four)
{
    struct buf b = BUF_INIT;
    struct p4rt_info info = { 0 };
    struct err err = { 0 };

    p4info_make(&b, p4info_split_drops, 3);
    ck_assert_int_eq(p4rt_info_read(b.data, b.len, NULL, &info, &err), RC_OK);
    ck_assert_uint_eq(info.counter_id[PHYS_COUNTER_DROP][0], 0x12000009);
    ck_assert_uint_eq(info.counter_id[PHYS_COUNTER_DROP][1], P4INFO_DROP_PART(1));
    ck_assert_uint_eq(info.counter_id[PHYS_COUNTER_DROP][2], P4INFO_DROP_PART(2));
    ck_assert_uint_eq(info.counter_id[PHYS_COUNTER_DROP][3], 0);
    ck_assert_int_eq(p4rt_info_counter(&info, 0x12000009), PHYS_COUNTER_DROP);
    ck_assert_int_eq(p4rt_info_counter(&info, P4INFO_DROP_PART(2)), PHYS_COUNTER_DROP);
    ck_assert_int_eq(p4rt_info_counter(&info, 0x1200000e), PHYS_COUNTER_VNI);
    ck_assert_int_eq(p4rt_info_counter(&info, 0), -1);
    ck_assert_int_eq(p4rt_info_counter(&info, 0x12000111), -1);
    buf_reset(&b);
    p4info_make(&b, p4info_split_drops, 5);
    ck_assert_int_eq(p4rt_info_read(b.data, b.len, NULL, &info, &err), RC_CONFLICT);
    ck_assert_str_eq(err.field, "drop_reason");
    buf_fini(&b);
}
END_TEST

enum change {
    TABLE_GONE,
    TABLE_ADDED,
    TABLE_RENAMED,
    TABLE_SMALL,
    FIELD_GONE,
    FIELD_RENAMED,
    FIELD_WIDE,
    FIELD_KIND,
    FIELD_ADDED,
    REF_GONE,
    REF_ADDED,
    PROFILE,
    ACTION_RENAMED,
    PARAM_GONE,
    PARAM_WIDE,
    METER_GONE,
    COUNTER_GONE,
    PACKETS_GONE, /* changes nothing that must be there */
};

static void change(P4__Config__V1__P4Info *info, int what)
{
    P4__Config__V1__Table *t = info->tables[PHYS_ROUTE_TCAM];
    P4__Config__V1__Action *a = info->actions[PHYS_SET_PART];

    switch ((enum change)what) {
    case TABLE_GONE:
        info->tables[PHYS_ROUTE_TCAM] = info->tables[--info->n_tables];
        break;
    case TABLE_ADDED:
        t->preamble->id = 0x02000099;
        strcpy(t->preamble->name, "C.extra");
        break;
    case TABLE_RENAMED:
        strcpy(t->preamble->name, "C.route_tcam2");
        break;
    case TABLE_SMALL:
        t->size--;
        break;
    case FIELD_GONE:
        t->n_match_fields--;
        break;
    case FIELD_RENAMED:
        strcpy(t->match_fields[1]->name, "src");
        break;
    case FIELD_WIDE:
        t->match_fields[1]->bitwidth = 129;
        break;
    case FIELD_KIND:
        t->match_fields[1]->match_type = P4__CONFIG__V1__MATCH_FIELD__MATCH_TYPE__LPM;
        break;
    case FIELD_ADDED:
        t->match_fields[1]->id = 3;
        break;
    case REF_GONE:
        t->action_refs[0]->scope = 2;
        break;
    case REF_ADDED:
        t->action_refs[1]->id = 0x01000012;
        t->action_refs[1]->scope = 0;
        break;
    case PROFILE:
        t->implementation_id = 0x11000001;
        break;
    case ACTION_RENAMED:
        strcpy(a->preamble->name, "set_port");
        break;
    case PARAM_GONE:
        a->n_params--;
        break;
    case PARAM_WIDE:
        a->params[2]->bitwidth = 32;
        break;
    case METER_GONE:
        strcpy(info->meters[PHYS_METER_FB_MISS]->preamble->name, "fb_missed");
        break;
    case COUNTER_GONE:
        info->n_counters = 1;
        break;
    case PACKETS_GONE:
        info->n_controller_packet_metadata = 0;
        break;
    }
}

static const struct {
    const char *field; /* of the err */
    const char *word;  /* in its sentence */
} changes[] = {
    [TABLE_GONE] = { "route_tcam", "missing" },
    [TABLE_ADDED] = { "extra", "XGW-H has none" },
    [TABLE_RENAMED] = { "route_tcam", "called route_tcam2" },
    [TABLE_SMALL] = { "route_tcam", "rows" },
    [FIELD_GONE] = { "route_tcam", "dst is missing" },
    [FIELD_RENAMED] = { "route_tcam", "called src, not dst" },
    [FIELD_WIDE] = { "route_tcam", "129 bits" },
    [FIELD_KIND] = { "route_tcam", "not matched ternary" },
    [FIELD_ADDED] = { "route_tcam", "id 3" },
    [REF_GONE] = { "route_tcam", "set_part is missing" },
    [REF_ADDED] = { "route_tcam", "0x01000012" },
    [PROFILE] = { "route_tcam", "profile" },
    [ACTION_RENAMED] = { "set_part", "called set_port" },
    [PARAM_GONE] = { "set_part", "parameter is missing" },
    [PARAM_WIDE] = { "set_part", "32 bits" },
    [METER_GONE] = { "fb_miss", "meter fb_miss is missing" },
    [COUNTER_GONE] = { "vni_counter", "counter vni_counter is missing" },
};

START_TEST(one_thing_changed_is_another_program_and_is_named)
{
    struct buf b = BUF_INIT;
    struct p4rt_info info = { .program = "untouched" };
    struct err err = { 0 };

    p4info_make(&b, change, _i);
    ck_assert_int_eq(p4rt_info_read(b.data, b.len, phys_sizes_bench(), &info, &err),
                     RC_CONFLICT);
    ck_assert_str_eq(err.rule, "p4info");
    ck_assert_str_eq(err.field, changes[_i].field);
    ck_assert_msg(strstr(err.msg, changes[_i].word) != NULL, "%s", err.msg);
    ck_assert_str_eq(info.program, "untouched");
    buf_fini(&b);
}
END_TEST

static void set_part_bits(P4__Config__V1__P4Info *info, int bits)
{
    info->tables[PHYS_ROUTE_PART]->match_fields[0]->bitwidth = bits;
}

/* 9,216 partitions need 14 bits, and a chip pays for each. */
START_TEST(a_partition_number_is_as_wide_as_the_image_needs)
{
    static const struct {
        int bits;
        enum rc rc;
    } cases[] = {
        { 13, RC_CONFLICT }, { 14, RC_OK }, { 16, RC_OK }, { 17, RC_CONFLICT }
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf b = BUF_INIT;
        struct p4rt_info info;

        p4info_make(&b, set_part_bits, cases[i].bits);
        ck_assert_int_eq(p4rt_info_read(b.data, b.len, NULL, &info, NULL), cases[i].rc);
        buf_fini(&b);
    }
}
END_TEST

START_TEST(sizes_matter_only_where_they_are_asked_for)
{
    struct buf b = BUF_INIT;
    struct p4rt_info info;

    p4info_make(&b, change, TABLE_SMALL);
    ck_assert_int_eq(p4rt_info_read(b.data, b.len, NULL, &info, NULL), RC_OK);
    ck_assert_int_eq(p4rt_info_read(b.data, b.len, phys_sizes_tofino(), &info, NULL),
                     RC_OK);
    buf_fini(&b);
}
END_TEST

START_TEST(nothing_and_half_of_it_are_no_program)
{
    struct buf b = BUF_INIT;
    struct p4rt_info info;
    struct err err = { 0 };

    ck_assert_int_eq(p4rt_info_read("", 0, NULL, &info, &err), RC_CONFLICT);
    p4info_make(&b, change, PACKETS_GONE);
    ck_assert_int_eq(p4rt_info_read(b.data, b.len, NULL, &info, &err), RC_OK);
    ck_assert_uint_eq(info.packet_out_port, 0);
    for (size_t cut = 0; cut < b.len; cut++) {
        uint8_t *copy = malloc(cut + 1);

        memcpy(copy, b.data, cut);
        ck_assert_int_ne(p4rt_info_read(copy, cut, NULL, &info, &err), RC_OK);
        free(copy);
    }
    buf_fini(&b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("p4rt_info");

    tcase_add_test(
        tc, the_program_of_the_physical_tables_is_taken_with_its_meters_and_counters);
    tcase_add_test(tc, counters_of_one_name_are_parts_of_one_and_no_more_than_four);
    tcase_add_loop_test(tc, one_thing_changed_is_another_program_and_is_named, 0,
                        ARRAY_LEN(changes));
    tcase_add_test(tc, a_partition_number_is_as_wide_as_the_image_needs);
    tcase_add_test(tc, sizes_matter_only_where_they_are_asked_for);
    tcase_add_test(tc, nothing_and_half_of_it_are_no_program);
    return unit_run("p4rt_info", tc);
}
