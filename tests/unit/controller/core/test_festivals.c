/* Festivals: checked ahead, in force while they last, gone by themselves. */
#include "tests/unit/controller/core/rig.h"

#include <stdlib.h>

#define FESTIVAL       "singles-day"
#define rig_unix_ms(r) (UINT64_C(1700000000000) + (r)->now_ms) /* as rig.c says */

static uint64_t now_s(const struct rig *r)
{
    return rig_unix_ms(r) / 1000;
}

static struct command put_of(const struct rig *r, uint64_t starts_in, uint64_t lasts)
{
    struct command cmd = { .kind = COMMAND_PUT_FESTIVAL, .who = "test" };

    festival_default(&cmd.festival);
    rig_copy(cmd.festival.name, FESTIVAL);
    cmd.festival.starts_s = now_s(r) + starts_in;
    cmd.festival.ends_s = cmd.festival.starts_s + lasts;
    return cmd;
}

static const struct festival *festival(const struct rig *r)
{
    return core_festival_find(r->core, FESTIVAL);
}

/* One node that says how full it is. */
static void report(struct rig *r, uint64_t percent)
{
    struct telemetry *t = calloc(1, sizeof(*t));
    struct agent_msg m = { .kind = AGENT_TELEMETRY, .telemetry = t };
    struct core_in in = { .kind = CORE_SESSION_OPEN };
    struct agent_msg hello = { .kind = AGENT_HELLO };
    static uint64_t last = 500;

    in.session.id = ++last;
    in.session.device_id = "gw-1";
    rig_input(r, &in);
    rig_copy(hello.hello.device_id, "gw-1");
    hello.hello.device_kind = DEVICE_X86;
    hello.hello.boot_id = 1;
    hello.hello.ready = true;
    hello.hello.hello_id = 1;
    in.kind = CORE_SESSION_MSG;
    in.session.msg = &hello;
    rig_input(r, &in);
    t->boot_id = 1;
    t->span_ms = 1000;
    t->reading_count = 1;
    t->readings[0] =
        (struct telemetry_reading){ "port/p",     "rx_bps",     READING_LOAD, 1000,
                                    percent * 10, percent * 10, percent * 10 };
    in.session.msg = &m;
    rig_input(r, &in);
    agent_msg_fini(&m);
    rig_run(r);
    rig_wait(r, 1000);
}

static enum water cluster_level(const struct rig *r)
{
    const struct level_subject *s =
        levels_find(health_levels(core_health(r->core)), "cluster/x86-1");

    return (enum water)level_of(s, "rx_bps")->water;
}

static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "x86-1", "172.16.255.1");
    rig_node(r, "gw-1", "x86-1", "172.16.0.1");
    return r;
}

START_TEST(its_levels_are_in_force_while_it_lasts_and_not_a_second_longer)
{
    struct rig *r = region();
    struct command put = put_of(r, 100, 100); /* 80, 90, 98 % */

    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_OK);
    report(r, 75);
    ck_assert_int_eq(cluster_level(r), WATER_SALE);
    rig_wait(r, 100000);
    report(r, 69); /* below its sale, less than 10 points below */
    report(r, 75);
    ck_assert_int_eq(cluster_level(r), WATER_CLEAR);
    rig_wait(r, 101000);
    report(r, 75);
    ck_assert_int_eq(cluster_level(r), WATER_SALE);
    ck_assert(festival(r)->is_over);
    rig_free(r);
}
END_TEST

START_TEST(its_tenants_end_with_it_and_others_stay)
{
    struct rig *r = region();
    struct command put = put_of(r, 10, 100);

    rig_must(
        r,
        "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"x86-1\"}\n"
        "{\"table\":\"tenant\",\"vni\":200,\"cluster\":\"x86-1\"}\n"
        "{\"table\":\"vm_nc\",\"vni\":200,\"vm\":\"10.0.0.1\",\"nc\":\"172.16.1.1\"}\n"
        "{\"table\":\"vm_nc\",\"vni\":200,\"vm\":\"10.0.0.2\",\"nc\":\"172.16.1.1\"}");
    put.festival.tenant_count = 2;
    put.festival.tenants[0] = 200;
    put.festival.tenants[1] = 300; /* never came to be */
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_OK);
    rig_wait(r, 109000);
    ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), 2);
    ck_assert(!festival(r)->is_over);
    rig_wait(r, 20000);
    ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), 1);
    ck_assert_uint_eq(core_count(r->core, TABLE_VM_NC), 0);
    ck_assert_uint_eq(core_tenant_next(r->core, 1), 100);
    ck_assert(festival(r)->is_over);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

/* A crash at any of the steps of its end: the next start goes on from there. */
START_TEST(it_ends_also_when_the_controller_was_away_at_the_time)
{
    struct rig *r = region();
    struct command put = put_of(r, 10, 100);

    rig_must(r, "{\"table\":\"tenant\",\"vni\":200,\"cluster\":\"x86-1\"}");
    put.festival.tenant_count = 1;
    put.festival.tenants[0] = 200;
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_OK);
    rig_restart(r);
    ck_assert_uint_eq(festival(r)->ends_s, put.festival.ends_s);
    rig_pass(r, 115000 + (uint64_t)_i * 1000);
    rig_crash(r, (uint32_t)_i); /* that many of its transactions took effect */
    rig_open(r);
    rig_run(r);
    rig_wait(r, 30000);
    ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), 0);
    ck_assert(festival(r)->is_over);
    rig_free(r);
}
END_TEST

START_TEST(one_whose_load_would_not_fit_is_refused_unless_confirmed_and_is_an_alarm)
{
    struct rig *r = region();
    struct command put = put_of(r, 100, 100);
    const struct alarms *alarms;

    report(r, 50);
    put.festival.growth_percent = 190; /* 95 % of 98 */
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_OK);
    put.festival.growth_percent = 200;
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_CONFLICT);
    ck_assert_str_eq(rig_command(r, &put)->err.rule, "festival_does_not_fit");
    put.confirm = true;
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_OK);
    rig_wait(r, 2000);
    alarms = health_alarms_of(core_health(r->core));
    ck_assert_double_eq(
        alarms_find(alarms, ALARM_FESTIVAL, "festival/" FESTIVAL)->value, 100);
    rig_free(r);
}
END_TEST

START_TEST(windows_that_are_none_are_refused)
{
    struct rig *r = region();
    struct command put = put_of(r, 10, 100);

    put.festival.ends_s = put.festival.starts_s;
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_RANGE);
    put.festival.starts_s = now_s(r) - 200;
    put.festival.ends_s = now_s(r) - 100;
    ck_assert_int_eq(rig_command(r, &put)->err.code, RC_RANGE);
    put = put_of(r, 10, 100);
    put.festival.tenant_count = 2;
    put.festival.tenants[0] = put.festival.tenants[1] = 5;
    ck_assert_str_eq(rig_command(r, &put)->err.rule, "ascending");
    ck_assert_ptr_null(festival(r));
    rig_free(r);
}
END_TEST

START_TEST(a_festival_packs_to_itself_and_half_of_one_is_none)
{
    struct festival f, back;
    struct buf packed = BUF_INIT;
    struct err err = { 0 };

    festival_default(&f);
    rig_copy(f.name, FESTIVAL);
    f.starts_s = 1000;
    f.ends_s = 2000;
    f.tenant_count = 2;
    f.tenants[0] = 7;
    f.tenants[1] = VNI_MAX;
    f.is_over = true;
    festival_pack(&f, &packed);
    ck_assert_int_eq(festival_unpack(packed.data, packed.len, &back, &err), RC_OK);
    ck_assert_mem_eq(&f, &back, sizeof(f));
    for (size_t cut = 0; cut < packed.len; cut++) {
        ck_assert_int_eq(festival_unpack(packed.data, cut, &back, &err), RC_INVALID);
    }
    buf_fini(&packed);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("festivals");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, its_levels_are_in_force_while_it_lasts_and_not_a_second_longer);
    tcase_add_test(tc, its_tenants_end_with_it_and_others_stay);
    tcase_add_loop_test(tc, it_ends_also_when_the_controller_was_away_at_the_time, 0,
                        4);
    tcase_add_test(
        tc, one_whose_load_would_not_fit_is_refused_unless_confirmed_and_is_an_alarm);
    tcase_add_test(tc, windows_that_are_none_are_refused);
    tcase_add_test(tc, a_festival_packs_to_itself_and_half_of_one_is_none);
    return unit_run("festivals", tc);
}
