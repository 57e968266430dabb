/* Faults in the software switch: what is spoiled where packets look, or in what was
 * written, is seen by a read-back and put right by an ordinary write. */
#include "tests/unit/unit.h"

#include "agent/fwdh/switch.h"

#include <string.h>

static struct hswitch *s;

static void publish(void)
{
    bool changed;

    ck_assert_int_eq(hswitch_publish(s, &changed, NULL), RC_OK);
    hworker_quiescent(s, &s->workers[0]);
    (void)hswitch_reclaim(s);
}

/* One of each table that has two places: `e` as it should be, `stray` another one. */
static const struct {
    struct phys_entry e;
    struct phys_entry stray;
    uint8_t wrong[PHYS_DATA_MAX]; /* data that `e` could have instead */
} cases[] = {
    { { .table = PHYS_VNI,
        .action = PHYS_SET_VNI,
        .key = { 0, 0, 100 },
        .data = { 1, 0, 0, 7 } },
      { .table = PHYS_VNI, .action = PHYS_SET_VNI, .key = { 0, 0, 101 } },
      { 1, 1, 0, 7 } },
    { { .table = PHYS_VM_NC,
        .action = PHYS_SET_NC,
        .key = { 0, 0, 100, 0, 10, 0, 0, 1 },
        .data = { 0, 0, 20 } },
      { .table = PHYS_VM_NC,
        .action = PHYS_SET_NC,
        .key = { 0, 0, 100, 1, 10, 0, 0, 1 },
        .data = { 0, 0, 20 } },
      { 0, 0, 21 } },
    { { .table = PHYS_VM_NC_SPILL,
        .action = PHYS_SPILL_NC,
        .key = { 0, 0, 100, 0, 10, 0, 0, 2 },
        .data = { 0, 0, 20 } },
      { .table = PHYS_VM_NC_SPILL,
        .action = PHYS_SPILL_NC,
        .key = { 0, 0, 102, 0, 10, 0, 0, 2 },
        .data = { 0, 0, 20 } },
      { 1, 0, 20 } },
    { { .table = PHYS_VM_NC_CONFLICT,
        .action = PHYS_SET_NC,
        .key = { 0, 0, 100, 0x20, 1 },
        .data = { 0, 0, 20 } },
      { .table = PHYS_VM_NC_CONFLICT,
        .action = PHYS_SET_NC,
        .key = { 0, 0, 100, 0x20, 2 },
        .data = { 0, 0, 20 } },
      { 0, 0, 22 } },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 25,
        .key = { 0, 0, 100 },
        .mask = { 255, 255, 255 },
        .data = { 0, 3, 1, 0, 0, 100 } },
      { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 33,
        .key = { 0, 0, 100, 0x20 },
        .mask = { 255, 255, 255, 255 } },
      { 0, 4, 1, 0, 0, 100 } },
    { { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 1,
        .data = { 0, 3, 1, 0, 0, 100 } },
      { .table = PHYS_ROUTE_TCAM,
        .action = PHYS_SET_PART,
        .priority = 3,
        .key = { 0x40 },
        .mask = { 0xc0 } },
      { 0, 3, 0, 0, 0, 100 } },
    { { .table = PHYS_NC,
        .action = PHYS_NC4,
        .key = { 0, 0, 20 },
        .data = { 172, 16, 0, 1 } },
      { .table = PHYS_NC, .action = PHYS_NC6, .key = { 1, 0, 20 }, .data = { 0x20 } },
      { 172, 16, 0, 3 } },
    { { .table = PHYS_NEXT_HOP,
        .action = PHYS_OUT_PORT,
        .key = { 1, 7 },
        .data = { 0, 1 } },
      { .table = PHYS_NEXT_HOP, .action = PHYS_OUT_PORT, .key = { 0, 7 } },
      { 1, 1 } },
    { { .table = PHYS_FALLBACK,
        .action = PHYS_MEMBER,
        .key = { 1, 3, 7 },
        .data = { 0, 0, 20 } },
      { .table = PHYS_FALLBACK,
        .action = PHYS_MEMBER,
        .key = { 1, 3, 8 },
        .data = { 0, 0, 20 } },
      { 0, 0, 21 } },
    { { .table = PHYS_PORT_OUT,
        .action = PHYS_SRC4,
        .key = { 0, 1, 0, 1 },
        .data = { 10, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 } },
      { .table = PHYS_PORT_OUT, .action = PHYS_KEEP_SRC, .key = { 0, 1, 1, 1 } },
      { 10, 0, 0, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 } },
    { { .table = PHYS_ACL,
        .action = PHYS_DENY,
        .priority = 9,
        .key = { 0, 0, 100, [35] = 6, 0, 80, 1, 187, 1 },
        .mask = { 255, 255, 255, [35] = 255, 255, 255, 255, 255, 1 } },
      { .table = PHYS_ACL,
        .action = PHYS_PERMIT,
        .priority = 8,
        .key = { 0, 0, 100, [3] = 0x20, [19] = 0x30 },
        .mask = { 255, 255, 255, [3] = 255, [19] = 255 } },
      { 0 } },
};

static struct phys_entry exact_masked(struct phys_entry e)
{
    phys_mask_exact((enum phys_table)e.table, e.mask);
    return e;
}

static struct phys_entry good(int i)
{
    return exact_masked(cases[i].e);
}

static struct phys_entry stray(int i)
{
    return exact_masked(cases[i].stray);
}

/* The same entry with another action or data. */
static struct phys_entry wrong(int i)
{
    struct phys_entry e = good(i);

    if (e.table == PHYS_ACL) {
        e.action = PHYS_PERMIT;
    } else {
        memcpy(e.data, cases[i].wrong, sizeof(e.data));
    }
    return e;
}

static void setup(void)
{
    struct hswitch_options o = {
        .sizes = phys_sizes_tofino(), .workers = 1, .port_count = 1, .seed = 3
    };

    ck_assert_int_eq(hswitch_new(&o, &s, NULL), RC_OK);
    hworker_online(s, &s->workers[0]);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct phys_entry e = good((int)i);

        ck_assert_int_eq(hswitch_write(s, 0, PHYS_INSERT, &e, NULL), RC_OK);
    }
    publish();
}

static void teardown(void)
{
    hswitch_free(s);
}

static void write(enum phys_op op, struct phys_entry e, enum rc want)
{
    ck_assert_int_eq(hswitch_write(s, 0, op, &e, NULL), want);
    publish();
}

static void tamper(enum htamper_place place, enum phys_op op, struct phys_entry e)
{
    ck_assert_int_eq(hswitch_tamper(s, 0, place, op, &e, NULL), RC_OK);
}

static bool is_same(const struct phys_entry *a, const struct phys_entry *b)
{
    return a->table == b->table && a->action == b->action &&
           a->priority == b->priority && memcmp(a->key, b->key, sizeof(a->key)) == 0 &&
           memcmp(a->mask, b->mask, sizeof(a->mask)) == 0 &&
           memcmp(a->data, b->data, sizeof(a->data)) == 0;
}

/* How often a read-back of all tables tells `e`, and how many entries it tells; each is
 * found by its key just so. */
static unsigned told(struct phys_entry e, unsigned *ret_sound, unsigned *ret_all)
{
    unsigned count = 0;

    *ret_sound = *ret_all = 0;
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        struct hcursor c = { .at = 0 };
        struct phys_entry got;
        struct phys_entry found;
        bool is_sound;
        bool is_found_sound;
        uint32_t budget;

        do {
            budget = 3;
            while (
                hswitch_next(s, 0, (enum phys_table)t, &c, &budget, &got, &is_sound)) {
                ck_assert(hswitch_find(s, 0, &got, &found, &is_found_sound));
                ck_assert(is_same(&found, &got));
                ck_assert_int_eq(is_found_sound, is_sound);
                count += is_same(&got, &e);
                *ret_sound += is_same(&got, &e) && is_sound;
                *ret_all += 1;
            }
        } while (budget == 0);
    }
    return count;
}

static void assert_told(struct phys_entry e, bool is_there, bool is_sound, int all)
{
    unsigned sound;
    unsigned count;

    ck_assert_uint_eq(told(e, &sound, &count), is_there);
    ck_assert_uint_eq(sound, is_sound);
    ck_assert_int_eq((int)count, (int)ARRAY_LEN(cases) + all);
}

static void assert_whole(int i)
{
    struct phys_entry was;
    struct phys_entry e = stray(i);

    assert_told(good(i), true, true, 0);
    ck_assert(!hswitch_find(s, 0, &e, &was, NULL));
}

START_TEST(what_is_lost_where_packets_look_is_gone_and_comes_back_by_an_insert)
{
    tamper(HTAMPER_STRUCTURES, PHYS_DELETE, good(_i));
    assert_told(good(_i), false, false, -1);
    write(PHYS_MODIFY, good(_i), RC_NOT_FOUND);
    write(PHYS_INSERT, good(_i), RC_OK);
    assert_whole(_i);
}
END_TEST

START_TEST(a_wrong_value_where_packets_look_is_told_as_they_get_it_and_unsound)
{
    tamper(HTAMPER_STRUCTURES, PHYS_MODIFY, wrong(_i));
    assert_told(wrong(_i), true, false, 0);
    write(PHYS_MODIFY, good(_i), RC_OK);
    assert_whole(_i);
}
END_TEST

START_TEST(what_packets_get_and_nobody_wrote_is_told_and_goes_by_a_delete)
{
    tamper(HTAMPER_STRUCTURES, PHYS_INSERT, stray(_i));
    assert_told(stray(_i), true, false, 1);
    write(PHYS_INSERT, stray(_i), RC_EXISTS);
    write(PHYS_DELETE, stray(_i), RC_OK);
    assert_whole(_i);
}
END_TEST

START_TEST(records_that_say_otherwise_make_an_entry_unsound_until_it_is_written)
{
    tamper(HTAMPER_RECORDS, PHYS_MODIFY, wrong(_i));
    assert_told(good(_i), true, false, 0);
    write(PHYS_MODIFY, good(_i), RC_OK);
    assert_whole(_i);
    tamper(HTAMPER_RECORDS, PHYS_DELETE, good(_i));
    assert_told(good(_i), true, false, 0);
    write(PHYS_MODIFY, good(_i), RC_OK);
    assert_whole(_i);
    tamper(HTAMPER_RECORDS, PHYS_INSERT, stray(_i)); /* no packet gets it */
    assert_whole(_i);
    write(PHYS_INSERT, stray(_i), RC_OK);
    write(PHYS_DELETE, stray(_i), RC_OK);
    assert_whole(_i);
}
END_TEST

START_TEST(a_delete_gets_lost_once_in_the_place_that_keeps_it)
{
    struct phys_entry e = stray(_i);

    write(PHYS_INSERT, e, RC_OK);
    ck_assert_int_eq(hswitch_tamper_keep(s, 0, HTAMPER_STRUCTURES, &e, NULL), RC_OK);
    write(PHYS_DELETE, e, RC_OK);
    assert_told(e, true, false, 1);
    write(PHYS_DELETE, e, RC_OK);
    assert_whole(_i);
    write(PHYS_INSERT, e, RC_OK);
    if (e.table == PHYS_ACL) { /* packets see a snapshot of the records: it stays */
        return;
    }
    ck_assert_int_eq(hswitch_tamper_keep(s, 0, HTAMPER_RECORDS, &e, NULL), RC_OK);
    write(PHYS_DELETE, e, RC_OK);
    assert_whole(_i);
}
END_TEST

START_TEST(an_empty_half_holds_no_trace_of_a_fault)
{
    for (int i = 0; i < (int)ARRAY_LEN(cases); i++) {
        tamper(HTAMPER_STRUCTURES, PHYS_INSERT, stray(i));
        tamper(i % 2 ? HTAMPER_STRUCTURES : HTAMPER_RECORDS, PHYS_DELETE, good(i));
    }
    ck_assert_int_eq(hswitch_clear(s, 0, NULL), RC_OK);
    publish();
    assert_told(good(0), false, false, -(int)ARRAY_LEN(cases));
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        ck_assert_uint_eq(hswitch_count(s, 0, (enum phys_table)t), 0);
    }
    for (int i = 0; i < (int)ARRAY_LEN(cases); i++) {
        write(PHYS_INSERT, good(i), RC_OK);
    }
    for (int i = 0; i < (int)ARRAY_LEN(cases); i++) {
        assert_whole(i);
    }
}
END_TEST

START_TEST(what_is_one_place_cannot_be_spoiled_in_another)
{
    struct phys_entry e = { .table = PHYS_ROUTE_PART,
                            .action = PHYS_LOCAL,
                            .priority = 25,
                            .key = { 0, 3, 0, 0, 100 },
                            .mask = { 255, 255, 255, 255, 255 } };
    struct phys_entry vtep = { .table = PHYS_VTEP,
                               .action = PHYS_IS_VTEP,
                               .priority = 1,
                               .key = { 1, 10, 0, 0, 1 },
                               .mask = { 1, 255, 255, 255, 255 } };

    tamper(HTAMPER_STRUCTURES, PHYS_INSERT, e);
    assert_told(e, true, true, 1);
    ck_assert_int_eq(hswitch_tamper_keep(s, 0, HTAMPER_RECORDS, &e, NULL), RC_OK);
    write(PHYS_DELETE, e, RC_OK);
    assert_told(e, true, true, 1);
    write(PHYS_DELETE, e, RC_OK);
    assert_told(e, false, false, 0);
    ck_assert_int_eq(hswitch_tamper(s, 0, HTAMPER_STRUCTURES, PHYS_INSERT, &vtep, NULL),
                     RC_INVALID);
}
END_TEST

int main(void)
{
    const int n = (int)ARRAY_LEN(cases);
    TCase *tc = tcase_create("switch_tamper");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(
        tc, what_is_lost_where_packets_look_is_gone_and_comes_back_by_an_insert, 0, n);
    tcase_add_loop_test(
        tc, a_wrong_value_where_packets_look_is_told_as_they_get_it_and_unsound, 0, n);
    tcase_add_loop_test(
        tc, what_packets_get_and_nobody_wrote_is_told_and_goes_by_a_delete, 0, n);
    tcase_add_loop_test(
        tc, records_that_say_otherwise_make_an_entry_unsound_until_it_is_written, 0, n);
    tcase_add_loop_test(tc, a_delete_gets_lost_once_in_the_place_that_keeps_it, 0, n);
    tcase_add_test(tc, an_empty_half_holds_no_trace_of_a_fault);
    tcase_add_test(tc, what_is_one_place_cannot_be_spoiled_in_another);
    return unit_run("switch_tamper", tc);
}
