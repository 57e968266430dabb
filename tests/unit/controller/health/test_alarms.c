#include "tests/unit/unit.h"

#include "controller/health/alarms.h"

#include <string.h>

static void raise_at(struct alarms *a, uint64_t t, enum alarm_kind kind,
                     const char *subject, enum alarm_severity severity, double value)
{
    alarms_raise(a, t,
                 &(struct alarm_report){ kind, severity, subject, value, 80, "text" });
}

/* All that is told up to `t`, as "+kind:subject -kind:subject". */
static const char *told(struct alarms *a, uint64_t t, char *text, size_t size)
{
    static const char signs[] = {
        [ALARM_RAISED] = '+', [ALARM_GRAVER] = '!', [ALARM_CLEARED] = '-'
    };
    enum alarm_news news;
    struct alarm x;

    text[0] = '\0';
    alarms_tick(a, t);
    while (alarms_next_note(a, t, &news, &x)) {
        size_t len = strlen(text);

        snprintf(text + len, size - len, "%s%c%s:%s", len ? " " : "", signs[news],
                 alarm_kind_name(x.kind), x.subject);
    }
    return text;
}

START_TEST(an_alarm_is_told_once_updated_in_silence_and_cleared_once)
{
    struct alarms *a = alarms_new();
    char text[512];

    raise_at(a, 1000, ALARM_LEVEL, "node/a/memory", ALARM_WARNING, 81);
    ck_assert_str_eq(told(a, 1000, text, sizeof(text)), "+water_level:node/a/memory");
    for (uint64_t t = 1001; t < 1100; t++) {
        raise_at(a, t, ALARM_LEVEL, "node/a/memory", ALARM_WARNING, (double)t);
        ck_assert_str_eq(told(a, t, text, sizeof(text)), "");
    }
    ck_assert_double_eq(alarms_at(a, 0)->value, 1099);
    ck_assert_uint_eq(alarms_at(a, 0)->first_s, 1000);
    ck_assert_uint_eq(alarms_at(a, 0)->last_s, 1099);
    ck_assert_uint_eq(alarms_at(a, 0)->count, 1);
    ck_assert_ptr_null(alarms_at(a, 1));
    alarms_clear(a, 1100, ALARM_LEVEL, "node/a/memory");
    ck_assert_str_eq(told(a, 1159, text, sizeof(text)), "");
    ck_assert_str_eq(told(a, 1160, text, sizeof(text)), "-water_level:node/a/memory");
    ck_assert_str_eq(told(a, 1161, text, sizeof(text)), "");
    alarms_free(a);
}
END_TEST

START_TEST(one_that_flaps_stays_one_and_counts)
{
    struct alarms *a = alarms_new();
    char text[512];

    for (uint64_t t = 1000; t < 2000; t += 10) {
        raise_at(a, t, ALARM_NODE_SILENT, "node/a", ALARM_WARNING, 0);
        ck_assert_str_eq(told(a, t, text, sizeof(text)),
                         t == 1000 ? "+node_silent:node/a" : "");
        alarms_clear(a, t + 5, ALARM_NODE_SILENT, "node/a");
        ck_assert_str_eq(told(a, t + 5, text, sizeof(text)), "");
    }
    ck_assert_uint_eq(alarms_at(a, 0)->count, 100);
    alarms_free(a);
}
END_TEST

START_TEST(a_dead_node_silences_its_parts_until_it_is_back)
{
    struct alarms *a = alarms_new();
    char text[512];

    raise_at(a, 1000, ALARM_LEVEL, "node/a/port/p/rx_bps", ALARM_WARNING, 1);
    told(a, 1000, text, sizeof(text));
    raise_at(a, 1001, ALARM_NODE_SILENT, "node/a", ALARM_WARNING, 0);
    raise_at(a, 1002, ALARM_LOSS, "node/a", ALARM_CRITICAL, 1);
    raise_at(a, 1002, ALARM_LEVEL, "node/a/port/q/rx_bps", ALARM_CRITICAL, 1);
    raise_at(a, 1002, ALARM_LEVEL, "node/ab/port/q/rx_bps", ALARM_WARNING, 1);
    ck_assert_str_eq(told(a, 1002, text, sizeof(text)),
                     "+node_silent:node/a +water_level:node/ab/port/q/rx_bps");
    ck_assert_uint_eq(alarms_find(a, ALARM_NODE_SILENT, "node/a")->folded, 3);
    ck_assert_uint_eq(alarms_stats(a).folded, 3);
    /* Graver: the session is gone because the data plane is.  One of the two is told.
     */
    raise_at(a, 1003, ALARM_NODE_DOWN, "node/a", ALARM_CRITICAL, 0);
    ck_assert_str_eq(told(a, 1003, text, sizeof(text)), "");
    alarms_clear(a, 1004, ALARM_NODE_SILENT, "node/a");
    alarms_clear(a, 1004, ALARM_NODE_DOWN, "node/a");
    alarms_clear(a, 1004, ALARM_LOSS, "node/a");
    ck_assert_str_eq(told(a, 1064, text, sizeof(text)),
                     "+water_level:node/a/port/q/rx_bps -node_silent:node/a");
    alarms_free(a);
}
END_TEST

START_TEST(when_most_nodes_are_gone_one_alarm_speaks_for_all)
{
    struct alarms *a = alarms_new();
    char subject[32];
    char text[512];

    raise_at(a, 999, ALARM_BLIND, "region", ALARM_CRITICAL, 0);
    for (int i = 0; i < 200; i++) {
        snprintf(subject, sizeof(subject), "node/n%d", i);
        raise_at(a, 1000, ALARM_NODE_SILENT, subject, ALARM_WARNING, 0);
        strcat(subject, "/disk");
        raise_at(a, 1000, ALARM_LEVEL, subject, ALARM_WARNING, 0);
    }
    ck_assert_str_eq(told(a, 1000, text, sizeof(text)), "+blind:region");
    alarms_free(a);
}
END_TEST

START_TEST(ten_thousand_crossings_in_a_minute_make_few_notes_and_stay_in_bounds)
{
    struct alarms *a = alarms_new();
    enum alarm_news news;
    struct alarm x;
    unsigned notes = 0;
    bool has_storm = false;
    bool has_grave = false;

    srand(5);
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t t = 1000 + i * 60 / 10000;
        char subject[64];

        snprintf(subject, sizeof(subject), "node/n%u/port/p/rx_bps",
                 _i == 0 ? i : (unsigned)rand() % 50);
        if (rand() % 2 || _i == 0) {
            raise_at(a, t, ALARM_LEVEL, subject, ALARM_WARNING, i);
        } else {
            alarms_clear(a, t, ALARM_LEVEL, subject);
        }
        if (i == 9000) { /* what is grave does not wait behind what is not */
            raise_at(a, t, ALARM_LOSS, "node/n1", ALARM_CRITICAL, 1);
        }
        alarms_tick(a, t);
        while (alarms_next_note(a, t, &news, &x)) {
            notes++;
            has_storm = has_storm || x.kind == ALARM_STORM;
            has_grave = has_grave || x.kind == ALARM_LOSS;
        }
    }
    ck_assert_uint_le(notes, ALARM_NOTE_BURST + 60 / ALARM_NOTE_EVERY_S);
    ck_assert_uint_ge(notes, ALARM_NOTE_BURST);
    ck_assert(has_storm);
    ck_assert(has_grave || _i == 0); /* of 10,000 subjects more than fit are held */
    if (_i == 0) {
        ck_assert_ptr_nonnull(alarms_at(a, ALARMS_MAX - 1));
        ck_assert_ptr_null(alarms_at(a, ALARMS_MAX));
        ck_assert_uint_ge(alarms_stats(a).overflow, 10000 - ALARMS_MAX);
    }
    alarms_free(a);
}
END_TEST

START_TEST(what_waited_is_told_in_the_end)
{
    struct alarms *a = alarms_new();
    unsigned raised = 0;
    enum alarm_news news;
    struct alarm x;

    for (unsigned i = 0; i < 200; i++) {
        char subject[32];

        snprintf(subject, sizeof(subject), "node/n%u/disk", i);
        raise_at(a, 1000, ALARM_LEVEL, subject, ALARM_WARNING, 1);
    }
    for (uint64_t t = 1000; t < 1000 + 250 * ALARM_NOTE_EVERY_S; t++) {
        alarms_tick(a, t);
        while (alarms_next_note(a, t, &news, &x)) {
            raised += x.kind == ALARM_LEVEL && news == ALARM_RAISED;
        }
        ck_assert(alarms_stats(a).waiting == 0 || alarms_next_s(a, t) == t + 1);
    }
    ck_assert_uint_eq(raised, 200);
    ck_assert_uint_eq(alarms_stats(a).waiting, 0);
    alarms_free(a);
}
END_TEST

/* What the core does with it, stored at once. */
static enum rc ack(struct alarms *a, uint64_t now_s, uint64_t id, const char *who)
{
    struct alarm_ack made;
    struct err err = { 0 };
    enum rc rc = alarms_make_ack(a, now_s, id, who, &made, &err);

    ck_assert_int_eq(err.code, rc);
    return rc ? rc : alarms_ack(a, now_s, &made);
}

START_TEST(an_acknowledgement_holds_until_it_is_graver_or_over)
{
    struct alarms *a = alarms_new();
    char text[256];
    char name[24];
    uint64_t id;

    raise_at(a, 1000, ALARM_LEVEL, "node/a/disk", ALARM_WARNING, 80);
    told(a, 1000, text, sizeof(text));
    id = alarms_at(a, 0)->id;
    snprintf(name, sizeof(name), "%llu", (unsigned long long)id);
    ck_assert_int_eq(ack(a, 1001, id + 1, "ann"), RC_NOT_FOUND);
    ck_assert_int_eq(ack(a, 1001, id, "ann"), RC_OK);
    ck_assert_int_eq(ack(a, 1002, id, "bob"), RC_OK);
    raise_at(a, 1003, ALARM_LEVEL, "node/a/disk", ALARM_WARNING, 85);
    ck_assert_str_eq(alarms_at(a, 0)->acked_by, "ann");
    ck_assert_uint_eq(alarms_at(a, 0)->acked_s, 1001);
    ck_assert_ptr_null(alarms_next_spent_ack(a, 1003));
    raise_at(a, 1004, ALARM_LEVEL, "node/a/disk", ALARM_CRITICAL, 90);
    ck_assert_uint_eq(alarms_at(a, 0)->acked_s, 0);
    ck_assert_str_eq(told(a, 1004, text, sizeof(text)), "!water_level:node/a/disk");
    ck_assert_str_eq(alarms_next_spent_ack(a, 1004), name);
    /* Of the graver one, before the first is deleted: it takes its place. */
    ck_assert_int_eq(ack(a, 1004, id, "eve"), RC_OK);
    ck_assert_str_eq(alarms_at(a, 0)->acked_by, "eve");
    ck_assert(!alarms_ack_is_spent(a, 1004, name));
    alarms_clear(a, 1005, ALARM_LEVEL, "node/a/disk");
    told(a, 1065, text, sizeof(text));
    ck_assert_int_eq(ack(a, 1066, id, "ann"), RC_CONFLICT);
    ck_assert(alarms_ack_is_spent(a, 1066, name));
    /* It comes again: a new alarm, that nobody has acknowledged. */
    raise_at(a, 1100, ALARM_LEVEL, "node/a/disk", ALARM_WARNING, 80);
    ck_assert_uint_gt(alarms_find(a, ALARM_LEVEL, "node/a/disk")->id, id);
    ck_assert_uint_eq(alarms_find(a, ALARM_LEVEL, "node/a/disk")->acked_s, 0);
    alarms_drop_ack(a, name);
    ck_assert_ptr_null(alarms_next_spent_ack(a, 1100));
    /* A cleared one is shown for an hour. */
    alarms_tick(a, 1065 + ALARM_KEEP_S);
    ck_assert_ptr_null(alarms_at(a, 1));
    alarms_free(a);
}
END_TEST

START_TEST(an_acknowledgement_from_before_a_restart_waits_for_its_alarm)
{
    static const struct {
        const char *subject;
        uint64_t at_s;
        enum alarm_severity severity;
        bool is_acked;
    } cases[] = {
        { "node/a/disk", 5000, ALARM_WARNING, true },
        { "node/a/disk", 5000 + ALARM_ACK_WAIT_S - 1, ALARM_WARNING, true },
        { "node/a/disk", 5000 + ALARM_ACK_WAIT_S, ALARM_WARNING, false },
        { "node/a/disk", 5000, ALARM_CRITICAL, false },
        { "node/b/disk", 5000, ALARM_WARNING, false },
    };
    const struct alarm_ack stored = { "1000000",     ALARM_LEVEL, ALARM_WARNING,
                                      "node/a/disk", "ann",       1001 };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct alarms *a = alarms_new();
        const struct alarm *x;
        struct alarm_ack again;

        ck_assert_int_eq(alarms_ack(a, 5000, &stored), RC_OK);
        ck_assert_ptr_null(alarms_next_spent_ack(a, 5000));
        raise_at(a, cases[i].at_s, ALARM_LEVEL, cases[i].subject, cases[i].severity,
                 80);
        x = alarms_find(a, ALARM_LEVEL, cases[i].subject);
        ck_assert_int_eq(x->acked_s != 0, cases[i].is_acked);
        ck_assert_str_eq(x->acked_by, cases[i].is_acked ? "ann" : "");
        ck_assert_int_eq(alarms_make_ack(a, 6000, x->id, "bob", &again, NULL), RC_OK);
        ck_assert_str_eq(again.who, cases[i].is_acked ? "ann" : "bob");
        ck_assert_int_eq(alarms_ack_is_spent(a, 5000 + ALARM_ACK_WAIT_S, "1000000"),
                         !cases[i].is_acked);
        alarms_free(a);
    }
}
END_TEST

START_TEST(acknowledgements_are_as_many_as_alarms_at_most)
{
    struct alarms *a = alarms_new();
    struct alarm_ack x = { "1", ALARM_LEVEL, ALARM_WARNING, "node/x/disk", "ann", 1 };
    struct err err = { 0 };

    for (int i = 0; i < ALARMS_MAX; i++) {
        snprintf(x.name, sizeof(x.name), "%d", i);
        ck_assert_int_eq(alarms_ack(a, 1000, &x), RC_OK);
        ck_assert_int_eq(alarms_ack(a, 1000, &x), RC_OK); /* the same one */
    }
    raise_at(a, 1000, ALARM_LEVEL, "node/a/disk", ALARM_WARNING, 80);
    ck_assert_int_eq(alarms_make_ack(a, 1000, alarms_at(a, 0)->id, "ann", &x, &err),
                     RC_FULL);
    alarms_free(a);
}
END_TEST

START_TEST(a_node_that_is_deleted_takes_its_alarms_along)
{
    struct alarms *a = alarms_new();
    char text[256];

    raise_at(a, 1000, ALARM_NODE_SILENT, "node/a", ALARM_WARNING, 0);
    raise_at(a, 1000, ALARM_LEVEL, "node/a/disk", ALARM_WARNING, 0);
    told(a, 1000, text, sizeof(text));
    alarms_forget(a, 1001, "node/a");
    ck_assert_str_eq(told(a, 1001, text, sizeof(text)), "-node_silent:node/a");
    ck_assert_uint_eq(alarms_stats(a).standing[ALARM_WARNING], 0);
    alarms_free(a);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("alarms");

    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, an_alarm_is_told_once_updated_in_silence_and_cleared_once);
    tcase_add_test(tc, one_that_flaps_stays_one_and_counts);
    tcase_add_test(tc, a_dead_node_silences_its_parts_until_it_is_back);
    tcase_add_test(tc, when_most_nodes_are_gone_one_alarm_speaks_for_all);
    tcase_add_loop_test(
        tc, ten_thousand_crossings_in_a_minute_make_few_notes_and_stay_in_bounds, 0, 2);
    tcase_add_test(tc, what_waited_is_told_in_the_end);
    tcase_add_test(tc, an_acknowledgement_holds_until_it_is_graver_or_over);
    tcase_add_test(tc, an_acknowledgement_from_before_a_restart_waits_for_its_alarm);
    tcase_add_test(tc, acknowledgements_are_as_many_as_alarms_at_most);
    tcase_add_test(tc, a_node_that_is_deleted_takes_its_alarms_along);
    return unit_run("alarms", tc);
}
