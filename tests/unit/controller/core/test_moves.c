/* A tenant moves between clusters, and at every moment the one it is steered to is
 * whole. */
#include "tests/unit/controller/core/move_world.h"

#include "controller/lifecycle/move.h"

static const struct core_reply *cancel(struct world *w, const char *id)
{
    struct command cmd = { .kind = COMMAND_CANCEL, .who = "test" };

    rig_copy(cmd.name, id);
    return rig_command(w->rig, &cmd);
}

START_TEST(a_tenant_is_made_at_the_target_before_it_is_broken_at_the_source)
{
    struct world w;
    const struct operation *o;

    world_init(&w);
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    o = world_operation(&w);
    ck_assert_int_eq(o->state, OPERATION_RUNNING);
    ck_assert_str_eq(o->who, "test");
    devices_settle(w.at, 3);
    /* Applied, audited, steered; packets under way still find the source. */
    ck_assert_int_eq(world_operation(&w)->step, MOVE_DRAIN);
    ck_assert_uint_eq(w.at[1].audits, 1);
    ck_assert_uint_ge(w.at[1].probes, 3); /* a VM, none there, and no route */
    ck_assert_uint_eq(w.at[0].probes, 0);
    ck_assert_ptr_eq(world_home_of(&w, 1), &w.at[1]);
    ck_assert_ptr_eq(world_steered_to(&w), &w.at[1]);
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), WHOLE);
    rig_check_desired(w.rig);
    rig_wait(w.rig, 4900);
    devices_settle(w.at, 3);
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), WHOLE);
    ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
    ck_assert_uint_eq(device_rows_of(&w.at[0], 1), 0);
    ck_assert_uint_eq(device_rows_of(&w.at[1], 1), WHOLE);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(what_changes_during_a_move_changes_on_both_clusters)
{
    struct world w;

    world_init(&w);
    w.at[1].is_mute = true; /* the target takes it and says nothing */
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    devices_settle(w.at, 3);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_INSTALL);
    rig_must(w.rig, VM(1, "10.1.0.6") LOCAL(1, "10.9.0.0/16"));
    rig_check_desired(w.rig);
    ck_assert_uint_eq(rows_count(table_set_rows(core_group_desired(w.rig->core, "c1"),
                                                1, TABLE_VM_NC)),
                      2);
    ck_assert_uint_eq(rows_count(table_set_rows(core_group_desired(w.rig->core, "c2"),
                                                1, TABLE_VM_NC)),
                      2);
    world_fini(&w);
}
END_TEST

/* The controller dies after `_i` steps of its own work, and a new one goes on. */
START_TEST(a_move_whose_controller_died_at_any_moment_is_finished_by_the_next)
{
    for (uint32_t applied = 0; applied < 2; applied++) {
        struct command cmd = { .kind = COMMAND_MOVE, .who = "test" };
        struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };
        struct world w;

        world_init(&w);
        cmd.token = 99;
        cmd.move.vni = 1;
        cmd.move.drain_ms = 5000;
        rig_copy(cmd.move.cluster, "c2");
        rig_input(w.rig, &in);
        for (int i = 0; i < _i; i++) {
            if (!rig_step(w.rig)) {
                devices_settle(w.at, 3);
                rig_wait(w.rig, 500);
            }
        }
        rig_crash(w.rig, applied);
        rig_open(w.rig);
        rig_run(w.rig);
        ck_assert(core_is_ready(w.rig->core));
        rig_check_desired(w.rig);
        world_start_devices(&w);
        world_check_whole(&w);
        if (world_operation(&w)) {
            ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
            ck_assert_uint_eq(device_rows_of(&w.at[0], 1), 0);
            ck_assert_ptr_eq(world_home_of(&w, 1), &w.at[1]);
        } else {
            ck_assert_ptr_eq(world_home_of(&w, 1),
                             &w.at[0]); /* it was never asked for */
        }
        world_check_whole(&w);
        rig_check_desired(w.rig);
        world_fini(&w);
    }
}
END_TEST

START_TEST(a_target_that_does_not_hold_what_it_should_takes_all_back)
{
    struct world w;
    const struct operation *o;

    world_init(&w);
    w.at[1].loses_table = TABLE_VM_NC; /* and knows nothing of it */
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    o = world_finish(&w);
    ck_assert_int_eq(o->state, OPERATION_UNDONE);
    ck_assert_ptr_nonnull(strstr(o->text, "g2"));
    ck_assert_ptr_nonnull(strstr(o->text, "vm_nc"));
    ck_assert_ptr_eq(world_home_of(&w, 1), &w.at[0]);
    ck_assert_uint_eq(device_rows_of(&w.at[1], 1), 0);
    world_check_whole(&w);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(a_target_whose_packets_are_other_ones_takes_all_back_and_the_probe_is_named)
{
    struct world w;
    const struct operation *o;

    world_init(&w);
    w.at[1].lies = true; /* its read-back is as it should be */
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    o = world_finish(&w);
    ck_assert_int_eq(o->state, OPERATION_UNDONE);
    ck_assert_int_eq(o->step, MOVE_PROBE);
    ck_assert_uint_eq(w.at[1].audits, 1);
    ck_assert_ptr_nonnull(strstr(o->text, "node g2: vni 1 to 10.1.0.5: "));
    ck_assert_ptr_nonnull(strstr(o->text, "VNI is 0, not 1"));
    ck_assert_ptr_eq(world_home_of(&w, 1), &w.at[0]);
    ck_assert_uint_eq(device_rows_of(&w.at[1], 1), 0);
    world_check_whole(&w);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(
    a_probe_goes_out_for_each_family_and_an_answer_that_says_nothing_is_asked_again)
{
    struct world w;

    world_init(&w);
    rig_must(
        w.rig,
        LOCAL(1,
              "2001:db8:1::/48") "{\"table\":\"vm_nc\",\"vni\":1,"
                                 "\"vm\":\"2001:db8:1::5\",\"nc\":\"172.16.1.1\"}\n");
    devices_settle(w.at, 3);
    w.at[1].probe_rc = RC_TIMEOUT;
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    for (unsigned i = 0; i < 10; i++) {
        devices_settle(w.at, 3);
        rig_wait(w.rig, 1000);
    }
    ck_assert_int_eq(world_operation(&w)->step, MOVE_PROBE);
    ck_assert_uint_ge(w.at[1].probes, 6); /* as often as it takes */
    ck_assert_ptr_nonnull(
        strstr(core_operation_waits(w.rig->core, world_operation(&w)->id), "node g2"));
    w.at[1].probe_rc = RC_OK;
    w.at[1].probes = 0;
    rig_wait(w.rig, 1000);
    devices_settle(w.at, 3);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_DRAIN);
    ck_assert_uint_ge(w.at[1].probes, 4); /* the same of IPv6 */
    world_fini(&w);
}
END_TEST

START_TEST(a_device_that_takes_no_probes_is_not_steered_to)
{
    struct world w;

    world_init(&w);
    w.at[1].probe_rc = RC_NOT_FOUND;
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    while (world_operation(&w)->state == OPERATION_RUNNING) {
        devices_settle(w.at, 3);
        rig_wait(w.rig, 1000);
    }
    ck_assert_int_eq(world_operation(&w)->state, OPERATION_UNDONE);
    ck_assert_int_eq(world_operation(&w)->step, MOVE_PROBE);
    world_fini(&w);
}
END_TEST

START_TEST(a_move_is_cancelled_up_to_its_steering_and_not_behind)
{
    struct world w;
    const struct core_reply *reply;
    char id[OPERATION_ID_MAX + 1];

    world_init(&w);
    w.at[1].is_mute = true;
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    devices_settle(w.at, 3);
    rig_copy(id, world_operation(&w)->id);
    ck_assert(!cancel(&w, id)->err.code);
    rig_run(w.rig);
    ck_assert_int_eq(world_operation(&w)->state, OPERATION_UNDONE);
    ck_assert_str_eq(world_operation(&w)->text, "cancelled");
    rig_check_desired(w.rig);
    reply = cancel(&w, id);
    ck_assert_int_eq(reply->err.code, RC_CONFLICT);
    ck_assert_str_eq(reply->err.rule, "operation_is_over");
    ck_assert_str_eq(cancel(&w, "op-0")->err.rule, "unknown_operation");

    w.at[1].is_mute = false;
    device_hang_up(&w.at[1]);
    device_dial(&w.at[1]);
    device_hello(&w.at[1]);
    devices_settle(w.at, 3);
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    devices_settle(w.at, 3);
    rig_copy(id, core_operation_at(w.rig->core, 1)->id);
    ck_assert_int_eq(core_operation_at(w.rig->core, 1)->step, MOVE_DRAIN);
    ck_assert_str_eq(cancel(&w, id)->err.rule, "irrevocable");
    world_fini(&w);
}
END_TEST

START_TEST(a_target_without_a_node_that_forwards_is_waited_for_and_then_given_up)
{
    struct world w;

    world_init(&w);
    rig_cluster(w.rig, "c4", "172.16.255.4");
    ck_assert(!world_move(&w, 1, "c4")->err.code);
    devices_settle(w.at, 3);
    rig_wait(w.rig, MOVE_TIMEOUT_MS - 1000);
    ck_assert_int_eq(world_operation(&w)->state, OPERATION_RUNNING);
    ck_assert_ptr_nonnull(
        strstr(core_operation_waits(w.rig->core, world_operation(&w)->id), "c4"));
    rig_wait(w.rig, 2000);
    rig_run(w.rig);
    ck_assert_int_eq(world_operation(&w)->state, OPERATION_UNDONE);
    ck_assert_ptr_nonnull(strstr(world_operation(&w)->text, "c4"));
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(a_node_that_may_still_forward_to_the_source_holds_the_move)
{
    struct world w;

    world_init(&w);
    device_hang_up(&w.at[2]); /* suspect: it forwards with the tables it has */
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    devices_settle(w.at, 3);
    for (unsigned i = 0; i < 100; i++) {
        rig_wait(w.rig, 1000);
        devices_settle(w.at, 3);
        world_check_whole(&w);
    }
    ck_assert_int_eq(world_operation(&w)->step, MOVE_STEER);
    ck_assert_ptr_nonnull(
        strstr(core_operation_waits(w.rig->core, world_operation(&w)->id), "g3"));
    ck_assert_ptr_eq(world_steered_to(&w), &w.at[0]);
    device_dial(&w.at[2]);
    device_hello(&w.at[2]);
    ck_assert_int_eq(world_finish(&w)->state, OPERATION_DONE);
    ck_assert_ptr_eq(world_steered_to(&w), &w.at[1]);
    world_fini(&w);
}
END_TEST

START_TEST(a_tenant_that_is_deleted_ends_its_move_and_leaves_nothing)
{
    struct world w;

    world_init(&w);
    w.at[1].is_mute = true;
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    devices_settle(w.at, 3);
    ck_assert(!rig_entries_confirmed(
                   w.rig, "{\"op\":\"delete\",\"table\":\"vxlan_route\","
                          "\"vni\":2,\"prefix\":\"10.1.0.0/16\"}\n"
                          "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":1}\n")
                   ->err.code);
    rig_run(w.rig);
    ck_assert_int_eq(world_operation(&w)->state, OPERATION_UNDONE);
    ck_assert_str_eq(world_operation(&w)->text, "the tenant was deleted");
    for (unsigned i = 0; i < 2; i++) {
        const char *cluster = i ? "c2" : "c1";

        ck_assert_uint_eq(table_set_vni_count(core_group_desired(w.rig->core, cluster)),
                          0);
    }
    world_fini(&w);
}
END_TEST

START_TEST(moves_that_make_no_sense_are_refused_with_field_and_rule)
{
    static const struct {
        uint32_t vni;
        const char *to;
        enum rc rc;
        const char *field, *rule;
    } cases[] = {
        { 1, "c9", RC_INVALID, "cluster", "unknown_cluster" },
        { 1, "", RC_INVALID, "cluster", "unknown_cluster" },
        { 1, "c1", RC_CONFLICT, "cluster", "already_home" },
        { 7, "c1", RC_NOT_FOUND, "vni", "unknown_tenant" },
    };
    struct world w;

    world_init(&w);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        const struct core_reply *r = world_move(&w, cases[i].vni, cases[i].to);

        ck_assert_msg(r->err.code == cases[i].rc, "%u: %s", i, r->err.msg);
        ck_assert_str_eq(r->err.field, cases[i].field);
        ck_assert_str_eq(r->err.rule, cases[i].rule);
    }
    w.at[1].is_mute = true;
    ck_assert(!world_move(&w, 1, "c2")->err.code);
    ck_assert_str_eq(world_move(&w, 1, "c3")->err.rule, "tenant_is_moving");
    RIG_REFUSES(w.rig, TENANT(1, "c3"), RC_CONFLICT, "tenant_is_moving");
    {
        struct command cmd = { .kind = COMMAND_DELETE_CLUSTER, .who = "test" };

        rig_cluster(w.rig, "c5", "172.16.255.5");
        ck_assert(!world_move(&w, 2, "c5")->err.code);
        rig_copy(cmd.name, "c5");
        ck_assert_str_eq(rig_command(w.rig, &cmd)->err.rule, "cluster_in_use");
    }
    world_fini(&w);
}
END_TEST

START_TEST(a_home_is_changed_by_a_move_alone)
{
    static const char h[] =
        "{\"table\":\"tenant\",\"vni\":1,\"cluster\":\"c1\",\"h_home\":\"h1\"}\n";
    struct world w;
    const struct core_reply *r;

    world_init(&w);
    rig_h_cluster(w.rig, "h1", "172.16.254.1", "c1");
    r = rig_entries(w.rig, TENANT(1, "c2"));
    ck_assert_int_eq(r->err.code, RC_CONFLICT);
    ck_assert_str_eq(r->err.field, "cluster");
    ck_assert_str_eq(r->err.rule, "home_needs_move");
    ck_assert_uint_eq(r->bad_index, 0);
    ck_assert_ptr_nonnull(strstr(r->err.msg, "xgwctl tenant move"));
    r = rig_entries(w.rig, h);
    ck_assert_str_eq(r->err.field, "h_home");
    ck_assert_str_eq(r->err.rule, "home_needs_move");
    rig_must(w.rig, TENANT(3, "c1")); /* it has no entries: the rule is the same */
    RIG_REFUSES(w.rig, TENANT(3, "c2"), RC_CONFLICT, "home_needs_move");
    rig_check_desired(w.rig);
    /* What stays where it is may be put again, and changed. */
    ck_assert_uint_eq(rig_entries(w.rig, TENANT(1, "c1"))->counts.unchanged, 1);
    rig_must(w.rig, "{\"table\":\"tenant\",\"vni\":1,\"cluster\":\"c1\","
                    "\"name\":\"acme\",\"reserved_vms\":5}\n");
    /* One that was deleted is another tenant. */
    rig_entries_confirmed(w.rig,
                          "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":3}\n");
    rig_must(w.rig, TENANT(3, "c2"));
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("moves");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc,
                   a_tenant_is_made_at_the_target_before_it_is_broken_at_the_source);
    tcase_add_test(tc, a_home_is_changed_by_a_move_alone);
    tcase_add_test(tc, what_changes_during_a_move_changes_on_both_clusters);
    tcase_add_loop_test(
        tc, a_move_whose_controller_died_at_any_moment_is_finished_by_the_next, 0, 80);
    tcase_add_test(
        tc,
        a_target_whose_packets_are_other_ones_takes_all_back_and_the_probe_is_named);
    tcase_add_test(
        tc,
        a_probe_goes_out_for_each_family_and_an_answer_that_says_nothing_is_asked_again);
    tcase_add_test(tc, a_device_that_takes_no_probes_is_not_steered_to);
    tcase_add_test(tc, a_target_that_does_not_hold_what_it_should_takes_all_back);
    tcase_add_test(tc, a_move_is_cancelled_up_to_its_steering_and_not_behind);
    tcase_add_test(
        tc, a_target_without_a_node_that_forwards_is_waited_for_and_then_given_up);
    tcase_add_test(tc, a_node_that_may_still_forward_to_the_source_holds_the_move);
    tcase_add_test(tc, a_tenant_that_is_deleted_ends_its_move_and_leaves_nothing);
    tcase_add_test(tc, moves_that_make_no_sense_are_refused_with_field_and_rule);
    return unit_run("moves", tc);
}
