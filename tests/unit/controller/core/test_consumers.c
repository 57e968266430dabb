/* A move waits for who steers from outside, and no longer than it must. */
#include "tests/unit/controller/core/move_world.h"

#include "controller/lifecycle/move.h"

static void consumer_put(struct world *w, const char *name)
{
    struct command cmd = { .kind = COMMAND_PUT_CONSUMER, .who = "test" };

    rig_copy(cmd.consumer.name, name);
    ck_assert(!rig_command(w->rig, &cmd)->err.code);
}

static void consumer_delete(struct world *w, const char *name)
{
    struct command cmd = { .kind = COMMAND_DELETE_CONSUMER, .who = "test" };

    rig_copy(cmd.name, name);
    ck_assert(!rig_command(w->rig, &cmd)->err.code);
}

static const struct core_reply *acknowledge(struct world *w, const char *name,
                                            uint64_t revision)
{
    struct command cmd = { .kind = COMMAND_CONSUMER_ACK, .who = "test" };

    rig_copy(cmd.consumer_ack.name, name);
    cmd.consumer_ack.revision = revision;
    return rig_command(w->rig, &cmd);
}

/* What it reads, it acknowledges. */
static void follow(struct world *w, const char *name)
{
    ck_assert(!acknowledge(w, name, core_steering_revision(w->rig->core))->err.code);
}

static const struct core_reply *proceed(struct world *w, const char *why)
{
    struct command cmd = { .kind = COMMAND_PROCEED, .who = "ann" };

    rig_copy(cmd.proceed.id, world_operation(w)->id);
    rig_copy(cmd.proceed.why, why);
    return rig_command(w->rig, &cmd);
}

static void pass(struct world *w, uint64_t ms)
{
    for (uint64_t gone = 0; gone < ms; gone += 1000) {
        devices_settle(w->at, 3);
        world_check_whole(w);
        rig_wait(w->rig, 1000);
    }
    devices_settle(w->at, 3);
}

static const char *waits(const struct world *w)
{
    return core_operation_waits(w->rig->core, world_operation(w)->id);
}

/* A move to c2 that has steered, and for which the nodes are done. */
static void move_to_steered(struct world *w)
{
    ck_assert(!world_move(w, 1, "c2")->err.code);
    pass(w, 30000);
    ck_assert_int_eq(world_operation(w)->step, MOVE_STEER);
}

START_TEST(the_source_stays_until_every_consumer_acknowledged_and_then_for_the_drain)
{
    struct world w;
    uint64_t before;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    consumer_put(&w, "vsc-2");
    follow(&w, "vsc-1");
    follow(&w, "vsc-2");
    before = core_steering_revision(w.rig->core);
    ck_assert_str_eq(core_steering(w.rig->core, 1)->name, "c1");
    move_to_steered(&w);
    ck_assert_str_eq(core_steering(w.rig->core, 1)->name, "c2");
    ck_assert_ptr_nonnull(strstr(waits(&w), "vsc-1, vsc-2"));
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), WHOLE);
    /* What was read before it steered is said again: that is not enough. */
    ck_assert(!acknowledge(&w, "vsc-1", before)->err.code);
    follow(&w, "vsc-2");
    pass(&w, 10000);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_STEER);
    ck_assert_ptr_nonnull(strstr(waits(&w), "vsc-1"));
    ck_assert_ptr_null(strstr(waits(&w), "vsc-2"));
    follow(&w, "vsc-1");
    rig_run(w.rig);
    devices_settle(w.at, 3);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_DRAIN);
    rig_wait(w.rig, 4900);
    devices_settle(w.at, 3);
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), WHOLE);
    ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), 0);
    world_fini(&w);
}
END_TEST

START_TEST(a_controller_that_restarts_goes_on_waiting_and_is_told_anew)
{
    struct world w;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    consumer_put(&w, "vsc-2");
    move_to_steered(&w);
    follow(&w, "vsc-1");
    rig_restart(w.rig);
    world_start_devices(&w);
    ck_assert_ptr_nonnull(core_consumer_find(w.rig->core, "vsc-1"));
    ck_assert_ptr_nonnull(core_consumer_find(w.rig->core, "vsc-2"));
    pass(&w, 20000);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_STEER);
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), WHOLE);
    ck_assert_ptr_nonnull(strstr(waits(&w), "vsc-1, vsc-2"));
    follow(&w, "vsc-1");
    follow(&w, "vsc-2");
    ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
    world_fini(&w);
}
END_TEST

/* Behind the restart other things change; the revision that steered is still the one.
 */
START_TEST(what_steered_before_a_restart_is_enough_to_acknowledge_behind_it)
{
    struct world w;
    uint64_t steered;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    move_to_steered(&w);
    steered = core_steering_revision(w.rig->core);
    rig_restart(w.rig);
    world_start_devices(&w);
    rig_must(w.rig, TENANT(7, "c3"));
    ck_assert_uint_gt(core_steering_revision(w.rig->core), steered);
    ck_assert(!acknowledge(&w, "vsc-1", steered)->err.code);
    ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
    world_fini(&w);
}
END_TEST

START_TEST(an_operator_has_a_move_go_on_without_consumers_and_it_is_recorded)
{
    struct world w;
    const struct operation *o;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    move_to_steered(&w);
    ck_assert_str_eq(proceed(&w, "")->err.rule, "required");
    ck_assert(!proceed(&w, "vsc-1 burnt down")->err.code);
    ck_assert_str_eq(proceed(&w, "again")->err.rule, "waits_for_no_consumer");
    rig_run(w.rig);
    devices_settle(w.at, 3);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_DRAIN);
    rig_restart(w.rig);
    world_start_devices(&w);
    o = world_finish(&w);
    ck_assert_int_eq(o->state, OPERATION_DONE);
    ck_assert_str_eq(o->who, "test");
    ck_assert_str_eq(o->move.waived_by, "ann");
    ck_assert_str_eq(o->move.waived_why, "vsc-1 burnt down");
    ck_assert_str_eq(proceed(&w, "late")->err.rule, "operation_is_over");
    world_fini(&w);
}
END_TEST

/* It overrides the consumers, and no node that may still forward to the source. */
START_TEST(without_consumers_a_move_still_waits_for_nodes)
{
    struct world w;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    device_hang_up(&w.at[2]);
    move_to_steered(&w);
    ck_assert(!proceed(&w, "test")->err.code);
    pass(&w, 20000);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_STEER);
    ck_assert_ptr_nonnull(strstr(waits(&w), "g3"));
    world_fini(&w);
}
END_TEST

START_TEST(a_consumer_that_is_deleted_is_not_waited_for_and_one_that_comes_is)
{
    struct world w;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    move_to_steered(&w);
    consumer_put(&w, "vsc-2");
    consumer_delete(&w, "vsc-1");
    pass(&w, 5000);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_STEER);
    ck_assert_ptr_nonnull(strstr(waits(&w), "vsc-2"));
    ck_assert_ptr_null(strstr(waits(&w), "vsc-1"));
    consumer_delete(&w, "vsc-2");
    ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
    /* Who comes back under the name has acknowledged nothing. */
    consumer_put(&w, "vsc-1");
    follow(&w, "vsc-1");
    consumer_delete(&w, "vsc-1");
    consumer_put(&w, "vsc-1");
    {
        struct consumer_status s;

        core_consumer_status(w.rig->core, core_consumer_find(w.rig->core, "vsc-1"), &s);
        ck_assert_uint_eq(s.acked, 0);
        ck_assert_uint_eq(s.seen_ms, 0);
    }
    world_fini(&w);
}
END_TEST

START_TEST(an_acknowledgement_goes_neither_back_nor_ahead)
{
    struct world w;
    const struct core_reply *r;
    uint64_t now;

    world_init(&w);
    r = acknowledge(&w, "vsc-1", 1);
    ck_assert_int_eq(r->err.code, RC_NOT_FOUND);
    ck_assert_str_eq(r->err.rule, "unknown_consumer");
    consumer_put(&w, "vsc-1");
    now = core_revision(w.rig->core);
    r = acknowledge(&w, "vsc-1", now + 1);
    ck_assert_int_eq(r->err.code, RC_RANGE);
    ck_assert_str_eq(r->err.rule, "revision_ahead");
    ck_assert_str_eq(r->err.field, "acknowledged_revision");
    ck_assert(!acknowledge(&w, "vsc-1", now)->err.code);
    ck_assert(!acknowledge(&w, "vsc-1", now)->err.code); /* it is there still */
    r = acknowledge(&w, "vsc-1", now - 1);
    ck_assert_int_eq(r->err.code, RC_RANGE);
    ck_assert_str_eq(r->err.rule, "revision_backwards");
    ck_assert_str_eq(r->err.field, "acknowledged_revision");
    ck_assert_uint_eq(core_revision(w.rig->core), now); /* none of it is a change */
    world_fini(&w);
}
END_TEST

START_TEST(so_many_consumers_are_registered_and_no_more)
{
    struct command cmd = { .kind = COMMAND_PUT_CONSUMER, .who = "test" };
    struct world w;

    world_init(&w);
    for (int i = 0; i < 64; i++) {
        char name[16];

        snprintf(name, sizeof(name), "vsc-%d", i);
        consumer_put(&w, name);
    }
    rig_copy(cmd.consumer.name, "vsc-64");
    ck_assert_int_eq(rig_command(w.rig, &cmd)->err.code, RC_FULL);
    consumer_put(&w, "vsc-0"); /* it is there already */
    move_to_steered(&w);
    ck_assert_uint_lt(strlen(waits(&w)), OPERATION_TEXT_MAX + 1);
    ck_assert_ptr_nonnull(strstr(waits(&w), "…"));
    world_fini(&w);
}
END_TEST

START_TEST(a_consumer_that_is_awaited_for_a_minute_is_an_alarm_until_it_acknowledges)
{
    struct world w;
    const struct alarms *alarms;

    world_init(&w);
    consumer_put(&w, "vsc-1");
    move_to_steered(&w);
    alarms = health_alarms_of(core_health(w.rig->core));
    ck_assert_ptr_null(alarms_find(alarms, ALARM_STEERING, "consumer/vsc-1"));
    pass(&w, 40000);
    ck_assert_ptr_nonnull(alarms_find(alarms, ALARM_STEERING, "consumer/vsc-1"));
    follow(&w, "vsc-1");
    pass(&w, 1000 * (ALARM_CLEAR_S + 5));
    ck_assert_ptr_null(alarms_find(alarms, ALARM_STEERING, "consumer/vsc-1"));
    world_fini(&w);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("consumers");

    tcase_set_timeout(tc, 120);
    tcase_add_test(
        tc, the_source_stays_until_every_consumer_acknowledged_and_then_for_the_drain);
    tcase_add_test(tc, a_controller_that_restarts_goes_on_waiting_and_is_told_anew);
    tcase_add_test(tc,
                   what_steered_before_a_restart_is_enough_to_acknowledge_behind_it);
    tcase_add_test(tc,
                   an_operator_has_a_move_go_on_without_consumers_and_it_is_recorded);
    tcase_add_test(tc, without_consumers_a_move_still_waits_for_nodes);
    tcase_add_test(tc,
                   a_consumer_that_is_deleted_is_not_waited_for_and_one_that_comes_is);
    tcase_add_test(tc, an_acknowledgement_goes_neither_back_nor_ahead);
    tcase_add_test(tc, so_many_consumers_are_registered_and_no_more);
    tcase_add_test(
        tc, a_consumer_that_is_awaited_for_a_minute_is_an_alarm_until_it_acknowledges);
    return unit_run("consumers", tc);
}
