/* Clusters are built, drained and retired: by moves, step by step, and back. */
#include "tests/unit/controller/core/move_world.h"

#include "controller/lifecycle/build.h"

#define NAMED 12 /* tenants 1 and 11 to 21, at home on c1 */

static uint32_t named_vni(uint32_t index)
{
    return index == 0 ? 1 : 10 + index;
}

static void put_state(struct world *w, const char *cluster, unsigned state)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER };

    cmd.cluster = *core_cluster_find(w->rig->core, cluster);
    cmd.cluster.state = (uint8_t)state;
    ck_assert_int_eq(rig_command(w->rig, &cmd)->err.code, RC_OK);
}

static unsigned state_of(const struct world *w, const char *cluster)
{
    return core_cluster_find(w->rig->core, cluster)->state;
}

/* c2 is planned, and c1 has all tenants. */
static void begin_world(struct world *w)
{
    char lines[512];

    world_init(w);
    put_state(w, "c2", CLUSTER_PLANNED);
    for (uint32_t i = 1; i < NAMED; i++) {
        snprintf(lines, sizeof(lines),
                 "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":\"c1\"}\n"
                 "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"10.2.0.%u\",\"nc\":"
                 "\"172.16.1.1\"}\n",
                 named_vni(i), named_vni(i), i);
        rig_must(w->rig, lines);
    }
    devices_settle(w->at, 3);
}

static struct command build_command(const char *cluster, uint32_t count)
{
    struct command cmd = { .kind = COMMAND_BUILD, .who = "ann" };

    rig_copy(cmd.build.cluster, cluster);
    cmd.build.hold_ms = 60000;
    cmd.build.drain_ms = 1000;
    cmd.build.vni_count = count;
    cmd.build.vnis = blob_new(count * sizeof(uint32_t) + 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t vni = named_vni(i);

        memcpy(cmd.build.vnis->data + i * sizeof(vni), &vni, sizeof(vni));
    }
    return cmd;
}

static void begin_build(struct world *w)
{
    struct command cmd = build_command("c2", NAMED);
    const struct core_reply *p = rig_command(w->rig, &cmd);

    ck_assert_msg(p->err.code == RC_OK, "%s", p->err.msg);
    ck_assert_str_eq(p->operation, core_operation_at(w->rig->core, 0)->id);
    blob_unref(cmd.build.vnis);
}

static const struct operation *work(const struct world *w)
{
    const struct operation *o;

    for (uint32_t i = 0; (o = core_operation_at(w->rig->core, i)) != NULL; i++) {
        if (o->kind != OPERATION_MOVE) {
            return o;
        }
    }
    return NULL;
}

static const char *home_of(const struct world *w, uint32_t vni)
{
    static struct tenant_status t;

    ck_assert(!core_tenant(w->rig->core, vni, &t));
    return t.cluster;
}

static uint32_t count_at(const struct world *w, const char *cluster)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NAMED; i++) {
        count += strcmp(home_of(w, named_vni(i)), cluster) == 0;
    }
    return count;
}

/* Nobody is sent to a cluster that does not hold him, at any moment. */
static void check_whole(struct world *w)
{
    const unsigned state = state_of(w, "c2");

    world_check_whole(w);
    for (uint32_t i = 1; i < NAMED; i++) {
        uint32_t vni = named_vni(i);

        ck_assert_uint_eq(device_rows_of(world_home_of(w, vni), vni), 2);
    }
    ck_assert(cluster_is_announced(state) || count_at(w, "c2") == 0);
}

static void pass(struct world *w)
{
    devices_settle(w->at, 3);
    check_whole(w);
    rig_wait(w->rig, 500);
}

/* Lets time pass until the work is at the step (0: over), its stage at least that. */
static const struct operation *until(struct world *w, unsigned step, unsigned stage)
{
    for (unsigned i = 0; i < 2000; i++) {
        const struct operation *o = work(w);

        if (o->state != OPERATION_RUNNING ||
            (o->step == step &&
             (o->kind != OPERATION_BUILD || o->build.stage >= stage))) {
            break;
        }
        pass(w);
    }
    devices_settle(w->at, 3);
    return work(w);
}

static const struct core_reply *cancel(struct world *w)
{
    struct command cmd = { .kind = COMMAND_CANCEL, .who = "ann" };

    rig_copy(cmd.name, work(w)->id);
    return rig_command(w->rig, &cmd);
}

START_TEST(a_build_proves_the_cluster_and_lets_tenants_in_by_stages)
{
    static const uint32_t in[BUILD_STAGES] = { 1, 2, 3, 6, 12 }; /* nothing measured */
    struct world w;
    const struct operation *o;

    begin_world(&w);
    begin_build(&w);
    ck_assert_str_eq(work(&w)->who, "ann");
    for (unsigned stage = 0; stage < BUILD_STAGES; stage++) {
        o = until(&w, BUILD_ADMIT, stage);
        ck_assert_int_eq(o->step, BUILD_ADMIT);
        ck_assert_uint_eq(o->build.stage, stage);
        ck_assert_uint_eq(o->build.cut[stage], in[stage]);
        ck_assert_uint_eq(state_of(&w, "c2"), CLUSTER_ADMITTING);
        for (unsigned i = 0; i < 50; i++) {
            pass(&w); /* half of the time for which it is watched, at least */
        }
        ck_assert_uint_eq(work(&w)->build.stage, stage);
        ck_assert_uint_eq(count_at(&w, "c2"), in[stage]);
    }
    o = until(&w, 0, 0);
    ck_assert_int_eq(o->state, OPERATION_DONE);
    ck_assert_str_eq(o->text, "");
    ck_assert_uint_eq(state_of(&w, "c2"), CLUSTER_SERVING);
    ck_assert_uint_eq(count_at(&w, "c2"), NAMED);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(nobody_is_placed_on_a_cluster_that_is_built)
{
    struct world w;

    begin_world(&w);
    begin_build(&w);
    until(&w, BUILD_ADMIT, 2);
    RIG_REFUSES(w.rig, TENANT(99, "c2"), RC_CONFLICT, "cluster_not_serving");
    ck_assert_int_eq(world_move(&w, 2, "c2")->err.code, RC_CONFLICT);
    ck_assert_str_eq(world_move(&w, 2, "c2")->err.rule, "cluster_not_serving");
    world_fini(&w);
}
END_TEST

/* The controller dies after `_i` × 37 steps, and a new one goes on. */
START_TEST(a_build_whose_controller_died_at_any_moment_is_finished_by_the_next)
{
    struct world w;

    begin_world(&w);
    begin_build(&w);
    for (int i = 0; i < 37 * _i && work(&w)->state == OPERATION_RUNNING; i++) {
        if (!rig_step(w.rig)) {
            devices_settle(w.at, 3);
            rig_wait(w.rig, 500);
        }
    }
    rig_crash(w.rig, (uint32_t)_i % 3);
    rig_open(w.rig);
    rig_run(w.rig);
    ck_assert(core_is_ready(w.rig->core));
    rig_check_desired(w.rig);
    world_start_devices(&w);
    check_whole(&w);
    ck_assert_int_eq(until(&w, 0, 0)->state, OPERATION_DONE);
    ck_assert_uint_eq(count_at(&w, "c2"), NAMED);
    ck_assert_uint_eq(state_of(&w, "c2"), CLUSTER_SERVING);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

static void check_back(struct world *w, unsigned state)
{
    ck_assert_int_eq(work(w)->state, OPERATION_UNDONE);
    ck_assert_uint_eq(state_of(w, "c2"), state);
    ck_assert_uint_eq(count_at(w, "c1"), NAMED);
    for (uint32_t i = 0; i < NAMED; i++) {
        ck_assert_uint_eq(device_rows_of(&w->at[1], named_vni(i)), 0);
    }
    check_whole(w);
    rig_check_desired(w->rig);
}

START_TEST(what_a_node_lost_stops_the_build_and_is_named)
{
    struct world w;
    const struct operation *o;

    begin_world(&w);
    begin_build(&w);
    w.at[1].forgets_vni = 13;
    o = until(&w, 0, 0);
    ck_assert_int_eq(o->step, BUILD_BACK);
    ck_assert_ptr_nonnull(strstr(o->text, "node g2"));
    ck_assert_ptr_nonnull(strstr(o->text, "vm_nc"));
    ck_assert_ptr_nonnull(strstr(o->text, "vni 13"));
    check_back(&w, CLUSTER_FAILED);
    world_fini(&w);
}
END_TEST

START_TEST(a_tenant_that_its_move_does_not_prove_stops_the_build)
{
    struct world w;
    const struct operation *o;

    begin_world(&w);
    w.at[1].lies = true;
    begin_build(&w);
    o = until(&w, 0, 0);
    ck_assert_ptr_nonnull(strstr(o->text, "a tenant cannot be loaded: vni "));
    ck_assert_ptr_nonnull(strstr(o->text, "a probe says otherwise"));
    check_back(&w, CLUSTER_FAILED);
    world_fini(&w);
}
END_TEST

START_TEST(a_probe_of_the_whole_cluster_that_differs_stops_the_build)
{
    struct world w;
    const struct operation *o;

    begin_world(&w);
    w.at[1].turns_liar = true; /* behind what each tenant's move has proven */
    begin_build(&w);
    o = until(&w, 0, 0);
    ck_assert_ptr_nonnull(strstr(o->text, "a probe says otherwise than the entries: "));
    ck_assert_ptr_nonnull(strstr(o->text, "expected a packet to"));
    check_back(&w, CLUSTER_FAILED);
    world_fini(&w);
}
END_TEST

/* The breach comes in the `_i`-th stage. */
START_TEST(a_breach_takes_everybody_home_again)
{
    struct world w;
    const struct operation *o;

    begin_world(&w);
    begin_build(&w);
    until(&w, BUILD_ADMIT, (unsigned)_i);
    for (unsigned i = 0; i < 20; i++) {
        pass(&w);
    }
    w.at[1].exceptions =
        1; /* it says that it cannot hold something, once it is asked */
    rig_must(w.rig, VM(1, "10.1.0.9"));
    devices_settle(w.at, 3);
    w.at[1].exceptions = 0;
    for (unsigned i = 0; i < 2000 && work(&w)->state == OPERATION_RUNNING; i++) {
        devices_settle(w.at, 3);
        rig_wait(w.rig, 500);
    }
    o = work(&w);
    ck_assert_ptr_nonnull(strstr(o->text, "breach at"));
    ck_assert_ptr_nonnull(strstr(o->text, "g2"));
    ck_assert_uint_eq(state_of(&w, "c2"), CLUSTER_FAILED);
    ck_assert_uint_eq(count_at(&w, "c1"), NAMED);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

/* What g2 says of a second: how full its port is of 1000, what it lost of 1000. */
static void say_load(struct world *w, uint64_t used, uint64_t lost, const char *reason)
{
    struct telemetry *t = calloc(1, sizeof(*t));
    struct agent_msg m = { .kind = AGENT_TELEMETRY, .telemetry = t };

    t->boot_id = w->at[1].boot_id;
    t->span_ms = 1000;
    t->received = 1000;
    t->reading_count = 1;
    t->readings[0] =
        (struct telemetry_reading){ "port/up0", "rx_bps", READING_LOAD, 1000,
                                    used,       used,     used };
    t->drop_count = lost > 0;
    strcpy(t->drops[0].reason, reason);
    t->drops[0].packets = lost;
    device_say(&w->at[1], &m);
    agent_msg_fini(&m);
}

/* Traffic alone shows it, while a stage is watched; what a tenant's own rules hold back
 * is no loss. */
START_TEST(loss_and_a_water_level_are_breaches_and_what_rules_hold_back_is_not)
{
    static const struct {
        uint64_t used, lost;
        const char *reason;
        const char *says;
    } cases[] = {
        { 850, 0, "", "rx_bps" },
        { 100, 20, "no_uplink", "loses packets" },
        { 100, 20, "acl_deny", NULL },
        { 790, 0, "", NULL },
    };
    struct world w;

    begin_world(&w);
    begin_build(&w);
    until(&w, BUILD_ADMIT, 1);
    for (unsigned i = 0; i < 700 && work(&w)->state == OPERATION_RUNNING; i++) {
        if (i % 2 == 0) {
            say_load(&w, cases[_i].used, cases[_i].lost, cases[_i].reason);
        }
        pass(&w);
    }
    if (cases[_i].says) {
        ck_assert_ptr_nonnull(strstr(work(&w)->text, "breach at "));
        ck_assert_ptr_nonnull(strstr(work(&w)->text, cases[_i].says));
        check_back(&w, CLUSTER_FAILED);
    } else {
        ck_assert_int_eq(work(&w)->state, OPERATION_DONE);
    }
    world_fini(&w);
}
END_TEST

START_TEST(a_build_that_is_cancelled_leaves_nothing_behind_and_may_be_repeated)
{
    static const struct {
        unsigned step, stage;
    } at[] = { { BUILD_LOAD, 0 }, { BUILD_ADMIT, 0 }, { BUILD_ADMIT, 3 } };
    struct world w;
    struct command again;

    begin_world(&w);
    w.at[1].is_mute = at[_i].step == BUILD_LOAD;
    begin_build(&w);
    ck_assert_int_eq(until(&w, at[_i].step, at[_i].stage)->step, at[_i].step);
    if (at[_i].step == BUILD_ADMIT) {
        for (unsigned i = 0; i < 10; i++) {
            pass(&w);
        }
    }
    ck_assert_int_eq(cancel(&w)->err.code, RC_OK);
    w.at[1].is_mute = false;
    until(&w, 0, 0);
    ck_assert_str_eq(work(&w)->text, "cancelled");
    check_back(&w, CLUSTER_PLANNED);
    again = build_command("c2", NAMED);
    ck_assert_int_eq(rig_command(w.rig, &again)->err.code, RC_OK);
    blob_unref(again.build.vnis);
    for (unsigned i = 0; i < 2000 && state_of(&w, "c2") != CLUSTER_SERVING; i++) {
        pass(&w);
    }
    ck_assert_uint_eq(count_at(&w, "c2"), NAMED);
    world_fini(&w);
}
END_TEST

static void refuses(struct world *w, struct command *cmd, enum rc rc, const char *rule)
{
    const struct core_reply *p = rig_command(w->rig, cmd);

    ck_assert_msg(p->err.code == rc, "%s: %s", rule, p->err.msg);
    ck_assert_str_eq(p->err.rule, rule);
    if (cmd->kind == COMMAND_BUILD) {
        blob_unref(cmd->build.vnis);
    }
}

START_TEST(what_cannot_be_built_is_refused_and_nothing_is_begun)
{
    struct command cmd = build_command("c9", 1);
    struct world w;
    uint32_t vni = 1;

    begin_world(&w);
    refuses(&w, &cmd, RC_NOT_FOUND, "unknown_cluster");
    cmd = build_command("c1", 1);
    refuses(&w, &cmd, RC_CONFLICT, "cluster_state");
    cmd = build_command("c2", 0);
    refuses(&w, &cmd, RC_RANGE, "range");
    cmd = build_command("c2", BUILD_TENANTS_MAX + 1);
    refuses(&w, &cmd, RC_RANGE, "range");
    cmd = build_command("c2", NAMED + 1);
    refuses(&w, &cmd, RC_NOT_FOUND, "unknown_tenant");
    cmd = build_command("c2", NAMED);
    cmd.build.hold_ms = ADMISSION_HOLD_MS_MAX + 1;
    refuses(&w, &cmd, RC_RANGE, "range");
    cmd = build_command("c2", NAMED);
    memcpy(cmd.build.vnis->data + 4, &vni, 4);
    refuses(&w, &cmd, RC_INVALID, "duplicate_key");
    ck_assert_ptr_null(work(&w));
    begin_build(&w);
    cmd = build_command("c2", NAMED);
    refuses(&w, &cmd, RC_CONFLICT, "cluster_in_work");
    cmd = (struct command){ .kind = COMMAND_DELETE_CLUSTER, .name = "c2" };
    refuses(&w, &cmd, RC_CONFLICT, "cluster_in_work");
    cmd = (struct command){ .kind = COMMAND_PUT_CLUSTER };
    cmd.cluster = *core_cluster_find(w.rig->core, "c2");
    cmd.cluster.state = CLUSTER_SERVING;
    refuses(&w, &cmd, RC_CONFLICT, "cluster_in_work");
    world_fini(&w);
}
END_TEST

/* ---- draining and retiring ---- */

static const struct core_reply *drain(struct world *w, const char *cluster,
                                      const char *to)
{
    struct command cmd = { .kind = COMMAND_DRAIN, .who = "ann" };

    rig_copy(cmd.drain.cluster, cluster);
    rig_copy(cmd.drain.to, to);
    cmd.drain.drain_ms = 1000;
    return rig_command(w->rig, &cmd);
}

static const struct core_reply *retire(struct world *w, const char *cluster)
{
    struct command cmd = { .kind = COMMAND_RETIRE, .who = "ann" };

    rig_copy(cmd.retire.cluster, cluster);
    return rig_command(w->rig, &cmd);
}

START_TEST(a_drained_cluster_is_empty_and_can_be_retired_and_deleted)
{
    struct command cmd = { .kind = COMMAND_DELETE_NODE, .name = "g1" };
    struct world w;

    begin_world(&w);
    put_state(&w, "c2", CLUSTER_SERVING);
    put_state(&w, "c3", CLUSTER_DRAINING);
    ck_assert_str_eq(retire(&w, "c1")->err.rule, "cluster_in_use");
    ck_assert_int_eq(drain(&w, "c1", _i ? "c2" : "")->err.code, RC_OK);
    ck_assert_int_eq(until(&w, 0, 0)->state, OPERATION_DONE);
    ck_assert_uint_eq(state_of(&w, "c1"), CLUSTER_DRAINING);
    ck_assert_uint_eq(count_at(&w, "c1"), 0);
    ck_assert_uint_eq(count_at(&w, "c2"), NAMED);
    for (uint32_t i = 0; i < NAMED; i++) {
        ck_assert_uint_eq(device_rows_of(&w.at[0], named_vni(i)), 0);
    }
    ck_assert_int_eq(retire(&w, "c1")->err.code, RC_OK);
    devices_settle(w.at, 3);
    rig_wait(w.rig, 1000);
    ck_assert_uint_eq(state_of(&w, "c1"), CLUSTER_RETIRED);
    ck_assert_int_eq(rig_command(w.rig, &cmd)->err.code, RC_OK);
    cmd = (struct command){ .kind = COMMAND_DELETE_CLUSTER, .name = "c1" };
    ck_assert_int_eq(rig_command(w.rig, &cmd)->err.code, RC_OK);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(a_drain_is_not_over_before_its_nodes_have_forgotten_everybody)
{
    struct world w;

    begin_world(&w);
    put_state(&w, "c2", CLUSTER_SERVING);
    ck_assert_int_eq(drain(&w, "c1", "c2")->err.code, RC_OK);
    for (unsigned i = 0; i < 200 && count_at(&w, "c1") > 0; i++) {
        pass(&w);
    }
    w.at[0].is_mute = true; /* it forgets, and does not say so */
    for (unsigned i = 0; i < 100; i++) {
        devices_settle(w.at, 3);
        rig_wait(w.rig, 500);
    }
    ck_assert_int_eq(work(&w)->state, OPERATION_RUNNING);
    device_hang_up(&w.at[0]);
    w.at[0].is_mute = false;
    world_start_devices(&w);
    ck_assert_int_eq(until(&w, 0, 0)->state, OPERATION_DONE);
    ck_assert_int_eq(retire(&w, "c1")->err.code, RC_OK);
    world_fini(&w);
}
END_TEST

START_TEST(a_drain_that_steers_all_in_no_time_waits_for_packets_under_way)
{
    struct world w;

    world_init(&w); /* VNI 1 alone is on c1 */
    ck_assert_int_eq(drain(&w, "c1", "c2")->err.code, RC_OK);
    devices_settle(w.at, 3);
    ck_assert_str_eq(home_of(&w, 1), "c2");
    ck_assert_int_eq(work(&w)->state, OPERATION_RUNNING);
    rig_wait(w.rig, 900);
    devices_settle(w.at, 3);
    ck_assert_int_eq(work(&w)->state, OPERATION_RUNNING);
    rig_wait(w.rig, 1000);
    devices_settle(w.at, 3);
    rig_wait(w.rig, 1000);
    ck_assert_int_eq(work(&w)->state, OPERATION_DONE);
    world_fini(&w);
}
END_TEST

START_TEST(tenants_that_cannot_go_are_told_and_a_drain_may_be_repeated)
{
    struct world w;
    const struct operation *o;

    begin_world(&w);
    put_state(&w, "c3", CLUSTER_DRAINING); /* c2 is planned: nobody takes them */
    ck_assert_int_eq(drain(&w, "c1", "")->err.code, RC_OK);
    o = until(&w, 0, 0);
    ck_assert_int_eq(o->state, OPERATION_UNDONE);
    ck_assert_ptr_nonnull(strstr(o->text, "12 tenants could not be moved: vni "));
    ck_assert_uint_eq(state_of(&w, "c1"), CLUSTER_DRAINING);
    ck_assert_uint_eq(count_at(&w, "c1"), NAMED);
    put_state(&w, "c2", CLUSTER_SERVING);
    ck_assert_int_eq(drain(&w, "c1", "")->err.code, RC_OK);
    for (unsigned i = 0; i < 200 && count_at(&w, "c2") < NAMED; i++) {
        pass(&w);
    }
    ck_assert_uint_eq(count_at(&w, "c2"), NAMED);
    world_fini(&w);
}
END_TEST

START_TEST(a_drain_that_is_cancelled_lets_the_cluster_serve_again)
{
    struct world w;

    begin_world(&w);
    put_state(&w, "c2", CLUSTER_SERVING);
    ck_assert_int_eq(drain(&w, "c1", "c2")->err.code, RC_OK);
    w.at[1].is_mute = true; /* so 8 wait, and 4 have not begun */
    devices_settle(w.at, 3);
    ck_assert_int_eq(cancel(&w)->err.code, RC_OK);
    w.at[1].is_mute = false;
    device_hang_up(&w.at[1]);
    world_start_devices(&w);
    ck_assert_int_eq(until(&w, 0, 0)->state, OPERATION_UNDONE);
    ck_assert_str_eq(work(&w)->text, "cancelled");
    ck_assert_uint_eq(state_of(&w, "c1"), CLUSTER_SERVING);
    ck_assert_uint_eq(count_at(&w, "c1"), NAMED - 8);
    ck_assert_uint_eq(count_at(&w, "c2"), 8);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(a_drain_whose_controller_died_is_finished_by_the_next)
{
    struct world w;

    begin_world(&w);
    put_state(&w, "c2", CLUSTER_SERVING);
    ck_assert_int_eq(drain(&w, "c1", "c2")->err.code, RC_OK);
    for (int i = 0; i < 29 * _i && work(&w)->state == OPERATION_RUNNING; i++) {
        if (!rig_step(w.rig)) {
            devices_settle(w.at, 3);
            rig_wait(w.rig, 500);
        }
    }
    rig_crash(w.rig, (uint32_t)_i % 3);
    rig_open(w.rig);
    rig_run(w.rig);
    world_start_devices(&w);
    ck_assert_int_eq(until(&w, 0, 0)->state, OPERATION_DONE);
    ck_assert_uint_eq(count_at(&w, "c2"), NAMED);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("works");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_build_proves_the_cluster_and_lets_tenants_in_by_stages);
    tcase_add_test(tc, nobody_is_placed_on_a_cluster_that_is_built);
    tcase_add_loop_test(
        tc, a_build_whose_controller_died_at_any_moment_is_finished_by_the_next, 0, 40);
    tcase_add_test(tc, what_a_node_lost_stops_the_build_and_is_named);
    tcase_add_test(tc, a_tenant_that_its_move_does_not_prove_stops_the_build);
    tcase_add_test(tc, a_probe_of_the_whole_cluster_that_differs_stops_the_build);
    tcase_add_loop_test(tc, a_breach_takes_everybody_home_again, 0, BUILD_STAGES);
    tcase_add_loop_test(
        tc, loss_and_a_water_level_are_breaches_and_what_rules_hold_back_is_not, 0, 4);
    tcase_add_loop_test(
        tc, a_build_that_is_cancelled_leaves_nothing_behind_and_may_be_repeated, 0, 3);
    tcase_add_test(tc, what_cannot_be_built_is_refused_and_nothing_is_begun);
    tcase_add_loop_test(tc, a_drained_cluster_is_empty_and_can_be_retired_and_deleted,
                        0, 2);
    tcase_add_test(tc, a_drain_is_not_over_before_its_nodes_have_forgotten_everybody);
    tcase_add_test(tc, a_drain_that_steers_all_in_no_time_waits_for_packets_under_way);
    tcase_add_test(tc, tenants_that_cannot_go_are_told_and_a_drain_may_be_repeated);
    tcase_add_test(tc, a_drain_that_is_cancelled_lets_the_cluster_serve_again);
    tcase_add_loop_test(tc, a_drain_whose_controller_died_is_finished_by_the_next, 0,
                        20);
    return unit_run("works", tc);
}
