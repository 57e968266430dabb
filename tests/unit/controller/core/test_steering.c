/* What load balancers are told: where each tenant is, and who carries what. */
#include "tests/unit/controller/core/fake_device.h"

#include "controller/lifecycle/move.h"

#define TENANT(vni, c) "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"" c "\"}\n"
#define VM(vni, a)                                                                     \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" a "\",\"nc\":\"172.16.1.1\"}\n"

enum { G1, G2, G3, LB, DEVICES };

/* c1 has g1 and g2, c2 has g3, before them lb with lb1.  VNI 1 is on c1. */
struct world {
    struct rig *rig;
    struct device at[DEVICES];
};

static void settle(struct world *w)
{
    devices_settle(w->at, DEVICES);
}

static void dial(struct world *w, unsigned i)
{
    device_dial(&w->at[i]);
    device_hello(&w->at[i]);
    settle(w);
}

static void dial_all(struct world *w)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        dial(w, i);
    }
}

static void world_init(struct world *w)
{
    static const char *const names[] = { "g1", "g2", "g3", "lb1" };

    w->rig = rig_new();
    rig_cluster(w->rig, "c1", "172.16.255.1");
    rig_cluster(w->rig, "c2", "172.16.255.2");
    rig_lb_cluster(w->rig, "lb", "172.16.255.9");
    rig_node(w->rig, "g1", "c1", "172.16.0.1");
    rig_node(w->rig, "g2", "c1", "172.16.0.2");
    rig_node(w->rig, "g3", "c2", "172.16.0.3");
    rig_node(w->rig, "lb1", "lb", "172.16.0.9");
    for (unsigned i = 0; i < DEVICES; i++) {
        device_init(&w->at[i], w->rig, names[i]);
    }
    w->at[LB].kind = DEVICE_LB;
    rig_must(w->rig, TENANT(1, "c1") VM(1, "10.1.0.5"));
}

static void world_fini(struct world *w)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        device_fini(&w->at[i]);
    }
    rig_free(w->rig);
}

/* Where the device sends a VNI; "" if it knows none. */
static const char *home_at(const struct device *d, uint32_t vni)
{
    struct rows *rows = table_set_rows(d->tables, vni, TABLE_VNI_CLUSTER);
    struct rows_iter it = rows_begin(rows, TABLE_VNI_CLUSTER);
    static struct entry e;
    struct row row;

    if (!rows || !rows_next(&it, &row)) {
        return "";
    }
    ck_assert(!entry_unpack(TABLE_VNI_CLUSTER, vni, &row, &e, NULL));
    return e.vni_cluster.cluster;
}

/* "c1/g1 c1/g2": what the load balancer was told last. */
static const char *members(const struct world *w)
{
    static struct device_config config;
    static char text[256];
    const struct blob *b = w->at[LB].assign.config;

    text[0] = '\0';
    ck_assert_ptr_nonnull(b);
    ck_assert(!device_config_unpack(b->data, b->len, &config, NULL));
    ck_assert_int_eq(config.kind, DEVICE_LB);
    for (unsigned i = 0; i < config.cluster_member_count; i++) {
        const struct cluster_member *m = &config.cluster_members[i];
        size_t len = strlen(text);

        snprintf(text + len, sizeof(text) - len, "%s%s/%s", len ? " " : "", m->cluster,
                 m->node);
        ck_assert_uint_eq(m->v4.b[3], (unsigned)(m->node[1] - '0')); /* its VTEP */
    }
    return text;
}

static const struct operation *only(const struct world *w)
{
    ck_assert_ptr_null(core_operation_at(w->rig->core, 1));
    return core_operation_at(w->rig->core, 0);
}

static const struct core_reply *move(struct world *w, uint32_t vni, const char *to)
{
    struct command cmd = { .kind = COMMAND_MOVE, .who = "test" };

    cmd.move.vni = vni;
    cmd.move.drain_ms = 5000;
    rig_copy(cmd.move.cluster, to);
    return rig_command(w->rig, &cmd);
}

static void silence(struct world *w, const char *id, bool is_silent)
{
    struct core_in in = { .kind = CORE_LIVENESS };

    in.liveness.device_id = id;
    in.liveness.is_silent = is_silent;
    rig_input(w->rig, &in);
    settle(w);
}

/* The data plane starts anew and is empty. */
static void reboot(struct world *w, unsigned i)
{
    struct device *d = &w->at[i];

    table_set_free(d->tables);
    d->tables = table_set_new();
    d->boot_id++;
    d->applied = 0;
    d->ready = false;
}

/* ---- rows ---- */

START_TEST(load_balancers_know_every_tenants_cluster)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    ck_assert_str_eq(home_at(&w.at[LB], 1), "c1");
    ck_assert_uint_eq(table_set_count(w.at[LB].tables, TABLE_VM_NC), 0);
    rig_must(w.rig, TENANT(2, "c2") TENANT(16777215, "c1"));
    settle(&w);
    ck_assert_str_eq(home_at(&w.at[LB], 2), "c2");
    ck_assert_str_eq(home_at(&w.at[LB], 16777215), "c1");
    ck_assert(!rig_entries_confirmed(w.rig, "{\"op\":\"delete\",\"table\":\"tenant\","
                                            "\"vni\":2}\n")
                   ->err.code);
    settle(&w);
    ck_assert_str_eq(home_at(&w.at[LB], 2), "");
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(an_xgw_h_home_is_steered_to_before_the_x86_one_behind_it)
{
    struct world w;

    world_init(&w);
    rig_h_cluster(w.rig, "h1", "172.16.255.3", "c1");
    rig_must(w.rig, "{\"table\":\"tenant\",\"vni\":3,\"cluster\":\"c1\",\"h_home\":"
                    "\"h1\"}\n");
    dial_all(&w);
    ck_assert_str_eq(home_at(&w.at[LB], 3), "h1");
    ck_assert_str_eq(home_at(&w.at[LB], 1), "c1");
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

/* More tenants than a slice holds, and some that change meanwhile. */
START_TEST(load_balancers_that_come_later_are_filled)
{
    enum { TENANTS = 9000 };
    struct rig *r = rig_new();
    struct batch_writer w;
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };
    unsigned slices = 0;

    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    batch_writer_init(&w);
    for (uint32_t vni = 1; vni <= TENANTS; vni++) {
        struct entry e = { .table = TABLE_TENANT, .vni = vni * 3 };

        rig_copy(e.tenant.cluster, vni % 2 ? "c1" : "c2");
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    rig_queue(r, batch_writer_finish(&w));
    rig_run(r);
    batch_writer_fini(&w);
    rig_copy(cmd.cluster.name, "lb");
    cmd.cluster.kind = CLUSTER_LB;
    cmd.cluster.active_side = 'a';
    cmd.cluster.vip_v4 = ip_v4(0xac10ff09);
    rig_input(r, &in);
    while (rig_step(r)) {
        const struct table_set *t = core_group_desired(r->core, "lb");

        slices += t && table_set_count(t, TABLE_VNI_CLUSTER) % TENANTS != 0;
        if (slices == 2) { /* behind the walk, and in front of it */
            rig_must(r, TENANT(1, "c1") TENANT(16777215, "c2"));
            break;
        }
    }
    ck_assert_uint_eq(slices, 2); /* it was not one step */
    rig_check_desired(r);
    rig_restart(r);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(a_trace_says_how_packets_find_the_cluster)
{
    struct region region = { .name = "r" };
    struct command cmd = { .kind = COMMAND_PUT_REGION, .who = "test" };
    struct trace_hop hops[TRACE_HOPS_MAX];
    struct ip dst = ip_v4(0x0a010005);
    struct world w;

    world_init(&w);
    for (region.steering = STEERING_VIP; region.steering <= STEERING_LB;
         region.steering++) {
        cmd.region = &region;
        ck_assert(!rig_command(w.rig, &cmd)->err.code);
        ck_assert_uint_gt(core_trace(w.rig->core, 1, &dst, IP_NONE, hops), 0);
        ck_assert_int_eq(strstr(hops[0].note, "behind load balancers") != NULL,
                         region.steering == STEERING_LB);
    }
    world_fini(&w);
}
END_TEST

START_TEST(nobody_is_at_home_on_load_balancers)
{
    struct world w;

    world_init(&w);
    RIG_REFUSES(w.rig, TENANT(5, "lb"), RC_INVALID, "home_kind");
    ck_assert_int_eq(move(&w, 1, "lb")->err.code, RC_INVALID);
    world_fini(&w);
}
END_TEST

/* ---- members ---- */

START_TEST(a_node_is_a_member_once_it_forwards_with_its_tables)
{
    struct world w;

    world_init(&w);
    dial(&w, LB);
    ck_assert_str_eq(members(&w), "");
    dial(&w, G1);
    ck_assert_str_eq(members(&w), "c1/g1");
    w.at[G2].is_mute = true; /* it takes its tables, and nobody knows how far */
    dial(&w, G2);
    ck_assert_str_eq(members(&w), "c1/g1");
    w.at[G2].is_mute = false;
    dial(&w, G2);
    dial(&w, G3);
    ck_assert_str_eq(members(&w), "c1/g1 c1/g2 c2/g3");
    world_fini(&w);
}
END_TEST

/* It forwards with what it had, and the session is on its way to what it lacks. */
START_TEST(a_node_with_old_tables_is_no_member_until_it_has_the_new_ones)
{
    struct world w;

    world_init(&w);
    dial(&w, LB);
    w.at[G1].ready = true;
    w.at[G1].is_mute = true;
    dial(&w, G1);
    ck_assert_str_eq(members(&w), "");
    w.at[G1].is_mute = false;
    dial(&w, G1);
    ck_assert_str_eq(members(&w), "c1/g1");
    world_fini(&w);
}
END_TEST

START_TEST(silence_takes_nobody_out_and_a_new_data_plane_does)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    silence(&w, "g1", true);
    ck_assert_str_eq(members(&w), "c1/g1 c1/g2 c2/g3");
    device_hang_up(&w.at[G1]);
    settle(&w);
    ck_assert_str_eq(members(&w), "c1/g1 c1/g2 c2/g3");
    reboot(&w, G1);
    w.at[G1].is_mute = true;
    dial(&w, G1);
    ck_assert_str_eq(members(&w), "c1/g2 c2/g3");
    w.at[G1].is_mute = false;
    dial(&w, G1);
    ck_assert_str_eq(members(&w), "c1/g1 c1/g2 c2/g3");
    world_fini(&w);
}
END_TEST

START_TEST(the_last_member_stays_until_another_one_is_there)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    for (unsigned i = G1; i <= G2; i++) {
        reboot(&w, i);
        w.at[i].is_mute = true;
        dial(&w, i);
    }
    ck_assert_str_eq(members(&w), "c1/g2 c2/g3");
    ck_assert_ptr_nonnull(strstr(w.rig->logs, "last member stays"));
    w.at[G1].is_mute = false;
    dial(&w, G1);
    ck_assert_str_eq(members(&w), "c1/g1 c2/g3");
    world_fini(&w);
}
END_TEST

START_TEST(after_a_restart_all_are_members_until_they_say_otherwise)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    rig_restart(w.rig);
    dial(&w, LB);
    ck_assert_str_eq(members(&w), "c1/g1 c1/g2 c2/g3");
    reboot(&w, G2);
    w.at[G2].is_mute = true;
    dial(&w, G2);
    ck_assert_str_eq(members(&w), "c1/g1 c2/g3");
    dial(&w, G1);
    dial(&w, G3);
    ck_assert_str_eq(members(&w), "c1/g1 c2/g3");
    world_fini(&w);
}
END_TEST

static void put_node(struct world *w, const char *name, const char *cluster, char side)
{
    struct command cmd = { .kind = COMMAND_PUT_NODE, .who = "test" };

    cmd.node = *core_node_find(w->rig->core, name);
    rig_copy(cmd.node.cluster, cluster);
    cmd.node.side = side;
    ck_assert(!rig_command(w->rig, &cmd)->err.code);
    settle(w);
}

START_TEST(members_are_of_the_active_side)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };
    struct world w;

    world_init(&w);
    dial_all(&w);
    put_node(&w, "g2", "c1", 'b');
    ck_assert_str_eq(members(&w), "c1/g1 c2/g3");
    cmd.cluster = *core_cluster_find(w.rig->core, "c1");
    cmd.cluster.active_side = 'b';
    ck_assert(!rig_command(w.rig, &cmd)->err.code);
    settle(&w);
    ck_assert_str_eq(members(&w), "c1/g2 c2/g3");
    world_fini(&w);
}
END_TEST

START_TEST(a_node_that_goes_to_another_cluster_is_no_member_before_it_has_its_tables)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    put_node(&w, "g2", "c2", 'a');
    ck_assert_str_eq(members(&w), "c1/g1 c2/g3");
    dial(&w, G2);
    ck_assert_str_eq(members(&w), "c1/g1 c2/g2 c2/g3");
    world_fini(&w);
}
END_TEST

START_TEST(a_node_that_is_deleted_is_no_member)
{
    struct command cmd = { .kind = COMMAND_DELETE_NODE, .who = "test" };
    struct world w;

    world_init(&w);
    dial_all(&w);
    rig_copy(cmd.name, "g3");
    ck_assert(!rig_command(w.rig, &cmd)->err.code);
    settle(&w);
    ck_assert_str_eq(members(&w), "c1/g1 c1/g2");
    world_fini(&w);
}
END_TEST

/* ---- moves ---- */

START_TEST(a_move_steers_load_balancers_and_waits_for_all_of_them)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    w.at[LB].is_mute = true;
    ck_assert(!move(&w, 1, "c2")->err.code);
    settle(&w);
    for (unsigned i = 0; i < 20; i++) {
        rig_wait(w.rig, 5000);
        settle(&w);
    }
    /* It did not say that it has it: the source keeps the tenant. */
    ck_assert_int_eq(only(&w)->step, MOVE_STEER);
    ck_assert_uint_eq(table_set_count(w.at[G1].tables, TABLE_VM_NC), 1);
    ck_assert_str_eq(home_at(&w.at[LB], 1), "c1");
    w.at[LB].is_mute = false;
    dial(&w, LB);
    rig_wait(w.rig, 600);
    settle(&w);
    ck_assert_str_eq(home_at(&w.at[LB], 1), "c2");
    ck_assert_int_eq(only(&w)->step, MOVE_DRAIN);
    ck_assert_uint_eq(table_set_count(w.at[G1].tables, TABLE_VM_NC), 1);
    rig_check_desired(w.rig);
    for (unsigned i = 0; i < 20; i++) {
        rig_wait(w.rig, 600);
        settle(&w);
    }
    ck_assert_int_eq(only(&w)->state, OPERATION_DONE);
    ck_assert_uint_eq(table_set_count(w.at[G1].tables, TABLE_VM_NC), 0);
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

START_TEST(load_balancers_are_not_steered_before_the_target_has_the_tenant)
{
    struct world w;

    world_init(&w);
    dial_all(&w);
    w.at[G3].is_mute = true;
    ck_assert(!move(&w, 1, "c2")->err.code);
    for (unsigned i = 0; i < 10; i++) {
        settle(&w);
        rig_wait(w.rig, 1000);
    }
    ck_assert_int_eq(only(&w)->step, MOVE_INSTALL);
    ck_assert_str_eq(home_at(&w.at[LB], 1), "c1");
    rig_check_desired(w.rig);
    world_fini(&w);
}
END_TEST

/* Its old row stands, and leads to the source. */
START_TEST(a_load_balancer_without_room_for_the_row_holds_the_move)
{
    struct world w;

    world_init(&w);
    rig_must(w.rig, TENANT(100, "c1"));
    dial_all(&w);
    w.at[LB].exceptions = 1; /* of VNI 100 */
    ck_assert(!move(&w, 100, "c2")->err.code);
    for (unsigned i = 0; i < 20; i++) {
        settle(&w);
        rig_wait(w.rig, 1000);
    }
    ck_assert_int_eq(only(&w)->step, MOVE_STEER);
    w.at[LB].exceptions = 0;
    dial(&w, LB);
    for (unsigned i = 0; i < 20; i++) {
        rig_wait(w.rig, 1000);
        settle(&w);
    }
    ck_assert_int_eq(only(&w)->state, OPERATION_DONE);
    world_fini(&w);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("steering");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, load_balancers_know_every_tenants_cluster);
    tcase_add_test(tc, an_xgw_h_home_is_steered_to_before_the_x86_one_behind_it);
    tcase_add_test(tc, load_balancers_that_come_later_are_filled);
    tcase_add_test(tc, a_trace_says_how_packets_find_the_cluster);
    tcase_add_test(tc, nobody_is_at_home_on_load_balancers);
    tcase_add_test(tc, a_node_is_a_member_once_it_forwards_with_its_tables);
    tcase_add_test(tc, a_node_with_old_tables_is_no_member_until_it_has_the_new_ones);
    tcase_add_test(tc, silence_takes_nobody_out_and_a_new_data_plane_does);
    tcase_add_test(tc, the_last_member_stays_until_another_one_is_there);
    tcase_add_test(tc, after_a_restart_all_are_members_until_they_say_otherwise);
    tcase_add_test(tc, members_are_of_the_active_side);
    tcase_add_test(
        tc, a_node_that_goes_to_another_cluster_is_no_member_before_it_has_its_tables);
    tcase_add_test(tc, a_node_that_is_deleted_is_no_member);
    tcase_add_test(tc, a_move_steers_load_balancers_and_waits_for_all_of_them);
    tcase_add_test(tc, load_balancers_are_not_steered_before_the_target_has_the_tenant);
    tcase_add_test(tc, a_load_balancer_without_room_for_the_row_holds_the_move);
    return unit_run("steering", tc);
}
