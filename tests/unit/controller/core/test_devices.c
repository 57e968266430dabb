/* Sessions with devices: who is let in, what he is told, and what is known of him. */
#include "tests/unit/controller/core/fake_device.h"

static struct node_status status(const struct rig *r, const char *node)
{
    struct node_status s;

    ck_assert(!core_node_status(r->core, node, &s));
    return s;
}

static void check_equal(const struct device *d, const char *cluster)
{
    const struct tree_node root = { 0 };

    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        struct digest want = core_group_digest(d->rig->core, cluster, (enum table_id)t);
        struct digest have = table_set_digest(d->tables, (enum table_id)t, root);

        ck_assert_msg(want.sum == have.sum && want.count == have.count, "table %s",
                      table_name((enum table_id)t));
    }
}

#define TENANT "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"c1\"}\n"
#define VM                                                                             \
    "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.1.1\"}\n"
#define VM2                                                                            \
    "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.6\",\"nc\":\"172.16.1.1\"}\n"
#define OTHER "{\"table\":\"tenant\",\"vni\":200,\"cluster\":\"c2\"}\n"

static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    rig_node(r, "gw-1", "c1", "172.16.0.1");
    rig_node(r, "gw-2", "c1", "172.16.0.2");
    rig_must(r, TENANT VM OTHER);
    return r;
}

START_TEST(a_device_is_assigned_downloads_its_groups_set_and_is_online)
{
    struct rig *r = region();
    struct device d;
    struct device_config config;

    device_init(&d, r, "gw-1");
    ck_assert_int_eq(status(r, "gw-1").state, NODE_JOINING);
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    ck_assert_uint_eq(d.assign.hello_id, 1);
    ck_assert_uint_eq(d.assign.term, r->config.term);
    ck_assert_str_eq(d.assign.group, "c1");
    ck_assert(!device_config_unpack(d.assign.config->data, d.assign.config->len,
                                    &config, NULL));
    ck_assert_str_eq(config.node, "gw-1");
    ck_assert_uint_eq(config.vip_v4.b[3], 1);
    check_equal(&d, "c1");
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    ck_assert(status(r, "gw-1").in_sync);
    ck_assert_ptr_nonnull(strstr(r->logs, "to=online"));
    /* Changes follow; what belongs to another cluster does not. */
    rig_must(r, VM2);
    rig_must(r, "{\"table\":\"tenant\",\"vni\":201,\"cluster\":\"c2\"}");
    devices_settle(&d, 1);
    check_equal(&d, "c1");
    ck_assert_uint_eq(d.applied, core_revision(r->core) - 1);
    ck_assert(status(r, "gw-1").in_sync);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(who_does_not_belong_here_is_turned_away_with_the_reason)
{
    static const struct {
        const char *id, *says;
        uint8_t kind;
        uint64_t term;
        enum rc rc;
    } guests[] = {
        { "gw-9", "gw-9", DEVICE_X86, 0, RC_NOT_FOUND },
        { "gw-1", "gw-2", DEVICE_X86, 0, RC_DENIED },
        { "gw-1", "gw-1", 77, 0, RC_CONFLICT },
        { "gw-1", "gw-1", DEVICE_X86, 99, RC_STALE },
    };
    struct rig *r = region();

    for (unsigned i = 0; i < ARRAY_LEN(guests); i++) {
        struct device d;
        struct agent_msg m;

        device_init(&d, r, guests[i].id);
        device_dial(&d);
        m = device_hello_of(&d);
        rig_copy(m.hello.device_id, guests[i].says);
        m.hello.device_kind = guests[i].kind;
        m.hello.term_seen = guests[i].term;
        device_say(&d, &m);
        ck_assert_uint_eq(r->closed_count, i + 1);
        ck_assert_uint_eq(r->closed[i], d.session);
        ck_assert_int_eq(r->closed_why[i].code, guests[i].rc);
        ck_assert_uint_gt(strlen(r->closed_why[i].msg), 10);
        device_fini(&d);
    }
    ck_assert_int_eq(status(r, "gw-1").state, NODE_JOINING);
    rig_free(r);
}
END_TEST

START_TEST(a_session_that_does_not_begin_with_hello_ends)
{
    struct rig *r = region();
    struct agent_msg ack = { .kind = AGENT_ACK };
    struct device d;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_say(&d, &ack);
    ck_assert_uint_eq(r->closed_count, 1);
    ck_assert_int_eq(r->closed_why[0].code, RC_INVALID);
    device_dial(&d);
    rig_wait(r, r->config.session_timeout_ms - 1);
    ck_assert_uint_eq(r->closed_count, 1);
    rig_wait(r, 1);
    ck_assert_uint_eq(r->closed_count, 2);
    ck_assert_int_eq(r->closed_why[1].code, RC_TIMEOUT);
    /* An answer to nothing that was asked. */
    device_dial(&d);
    device_hello(&d);
    ack.ack.seq = 1000;
    device_say(&d, &ack);
    ck_assert_uint_eq(r->closed_count, 3);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_lost_session_makes_suspect_and_a_reconnect_heals_without_a_write)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    device_hang_up(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_SUSPECT);
    ck_assert(!status(r, "gw-1").in_sync);
    ck_assert_ptr_nonnull(strstr(r->logs, "to=suspect"));
    device_dial(&d);
    device_hello(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    rig_run(r);
    ck_assert_uint_eq(r->sent_count, 1); /* the ASSIGN; nothing differs */
    ck_assert(status(r, "gw-1").in_sync);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(silence_makes_suspect_and_a_word_heals)
{
    struct rig *r = region();
    struct core_in in = { .kind = CORE_LIVENESS,
                          .liveness = { .device_id = "gw-1", .is_silent = true } };
    struct device d;

    device_init(&d, r, "gw-1");
    rig_input(r, &in); /* of one that never joined: nothing */
    ck_assert_int_eq(status(r, "gw-1").state, NODE_JOINING);
    in.liveness.is_silent = false;
    rig_input(r, &in);
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    in.liveness.is_silent = true;
    rig_input(r, &in);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_SUSPECT);
    ck_assert(status(r, "gw-1").has_session);
    in.liveness.is_silent = false;
    rig_input(r, &in);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    device_fini(&d);
    rig_free(r);
}
END_TEST

static unsigned occurrences(const char *text, const char *what)
{
    unsigned count = 0;

    for (; (text = strstr(text, what)); text++) {
        count++;
    }
    return count;
}

START_TEST(losing_most_nodes_at_once_is_one_alarm_about_the_controller)
{
    struct rig *r = region();
    struct device d[4];
    static const char *const names[] = { "gw-1", "gw-2", "gw-3", "gw-4" };

    rig_node(r, "gw-3", "c2", "172.16.0.3");
    rig_node(r, "gw-4", "c2", "172.16.0.4");
    for (int i = 0; i < 4; i++) {
        device_init(&d[i], r, names[i]);
        device_dial(&d[i]);
        device_hello(&d[i]);
        devices_settle(&d[i], 1);
    }
    for (int i = 0; i < 4; i++) {
        device_hang_up(&d[i]);
    }
    ck_assert_uint_eq(occurrences(r->logs, "to=suspect"), 2);
    ck_assert_uint_eq(occurrences(r->logs, "suspects itself"), 1);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(status(r, names[i]).state, NODE_SUSPECT);
    }
    for (int i = 0; i < 4; i++) {
        device_dial(&d[i]);
        device_hello(&d[i]);
        devices_settle(&d[i], 1);
        device_fini(&d[i]);
    }
    ck_assert_uint_eq(occurrences(r->logs, "sees its nodes again"), 1);
    rig_free(r);
}
END_TEST

START_TEST(a_new_data_plane_is_offline_until_it_holds_everything)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    /* It died: the agent says so on the same session, and again when one is back. */
    d.boot_id = 0;
    d.ready = false;
    device_hello(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_OFFLINE);
    table_set_free(d.tables);
    d.tables = table_set_new();
    d.boot_id = 0xb002;
    d.applied = 0;
    device_hello(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_OFFLINE);
    devices_settle(&d, 1);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    ck_assert_uint_eq(status(r, "gw-1").boot_id, 0xb002);
    check_equal(&d, "c1");
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_second_session_of_one_device_takes_the_place_of_the_first)
{
    struct rig *r = region();
    struct device d;
    uint64_t first;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    first = d.session;
    device_dial(&d);
    ck_assert_uint_eq(r->closed_count, 0); /* not before it has shown who it is */
    device_hello(&d);
    ck_assert_uint_eq(r->closed_count, 1);
    ck_assert_uint_eq(r->closed[0], first);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    devices_settle(&d, 1);
    ck_assert(status(r, "gw-1").in_sync);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_changed_configuration_is_pushed_and_only_where_it_changed)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_PUT_REGION };
    struct region *reg = calloc(1, sizeof(*reg));
    struct device_config config;
    struct device d;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    rig_cluster(r, "c2", "172.16.255.3");
    rig_node(r, "gw-2", "c1", "172.16.0.22");
    devices_settle(&d, 1);
    ck_assert_uint_eq(d.assigns, 1);
    rig_cluster(r, "c1", "172.16.255.9");
    devices_settle(&d, 1);
    ck_assert_uint_eq(d.assigns, 2);
    ck_assert_uint_eq(d.assign.hello_id, 1);
    rig_copy(reg->name, "lab");
    reg->icmp_source_v4 = ip_v4(0xac10fffe);
    cmd.region = reg;
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    devices_settle(&d, 1);
    ck_assert_uint_eq(d.assigns, 3);
    ck_assert(!device_config_unpack(d.assign.config->data, d.assign.config->len,
                                    &config, NULL));
    ck_assert_uint_eq(config.vip_v4.b[3], 9);
    ck_assert_uint_eq(config.icmp_source_v4.b[3], 0xfe);
    /* Another cluster is another set: it dials again. */
    rig_node(r, "gw-1", "c2", "172.16.0.1");
    ck_assert_uint_eq(r->closed_count, 1);
    device_fini(&d);
    free(reg);
    rig_free(r);
}
END_TEST

static uint64_t wait_for(struct rig *r, uint64_t revision, uint64_t ms)
{
    struct command cmd = { .kind = COMMAND_WAIT, .token = ++r->next_token };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    cmd.wait.revision = revision;
    cmd.wait.deadline_ms = r->now_ms + ms;
    rig_input(r, &in);
    return cmd.token;
}

START_TEST(a_wait_ends_when_all_online_nodes_have_it)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    token = wait_for(r, core_revision(r->core), 5000);
    ck_assert_ptr_null(rig_reply(r, token)); /* nobody has it: none is online */
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    ck_assert_ptr_nonnull(rig_reply(r, token));
    ck_assert(rig_reply(r, token)->applied);
    rig_must(r, VM2);
    token = wait_for(r, core_revision(r->core), 5000);
    ck_assert_ptr_null(rig_reply(r, token));
    devices_settle(&d, 1);
    ck_assert(rig_reply(r, token)->applied);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_wait_at_its_deadline_names_who_is_missing)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    token = wait_for(r, core_revision(r->core), 500);
    rig_pass(r, 500);
    ck_assert(!rig_reply(r, token)->applied);
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_OK);
    ck_assert_str_eq(rig_reply(r, token)->missing, "gw-1,gw-2");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    d.is_mute = true;
    rig_must(r, VM2);
    token = wait_for(r, core_revision(r->core), 500);
    devices_settle(&d, 1);
    rig_pass(r, 500);
    ck_assert_str_eq(rig_reply(r, token)->missing, "gw-1");
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_wait_fails_with_the_exception_that_its_change_met)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    d.exceptions = 1;
    rig_must(r, VM2);
    token = wait_for(r, core_revision(r->core), 5000);
    devices_settle(&d, 1);
    ck_assert_ptr_nonnull(rig_reply(r, token));
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_FULL);
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "gw-1"));
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "vm_nc"));
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "10.0.0.0 "));
    ck_assert(!status(r, "gw-1").in_sync);
    ck_assert_uint_eq(status(r, "gw-1").exception_count, 1);
    device_fini(&d);
    rig_free(r);
}
END_TEST

/* A list once full, of entries that stood for long, must not make a wait succeed for
 * what the device has just refused. */
START_TEST(a_wait_fails_also_where_more_exceptions_stand_than_are_listed)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    d.exceptions = EXCEPTIONS_MAX;
    d.more_exceptions = 500;
    rig_must(r, VM2);
    devices_settle(&d, 1);
    ck_assert_uint_eq(status(r, "gw-1").exception_count, EXCEPTIONS_MAX + 500);
    d.exceptions = 1;
    d.more_exceptions = EXCEPTIONS_MAX + 500;
    d.exception_from = 7;
    rig_must(r, "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.7.0.0\","
                "\"nc\":\"10.1.0.9\"}");
    token = wait_for(r, core_revision(r->core), 5000);
    devices_settle(&d, 1);
    ck_assert_ptr_nonnull(rig_reply(r, token));
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_FULL);
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "10.7.0.0 "));
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(exceptions_that_healed_are_shown_no_longer)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    d.exceptions = 5;
    rig_must(r, VM2);
    devices_settle(&d, 1);
    ck_assert_uint_eq(status(r, "gw-1").exception_listed, 5);
    d.exceptions = 2;
    d.standing = 2;
    rig_must(r, "{\"table\":\"tenant\",\"vni\":300,\"cluster\":\"c1\"}");
    devices_settle(&d, 1);
    ck_assert_uint_eq(status(r, "gw-1").exception_count, 2);
    ck_assert_uint_eq(status(r, "gw-1").exception_listed, 2);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_device_that_does_not_answer_loses_its_session_but_not_for_our_own_lateness)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    d.is_mute = true;
    device_dial(&d);
    device_hello(&d);
    devices_settle(&d, 1);
    rig_pass(r, r->config.session_timeout_ms + 10000); /* we slept for 10 s */
    ck_assert_uint_eq(r->closed_count, 0);
    rig_wait(r, r->config.session_timeout_ms);
    ck_assert_uint_eq(r->closed_count, 1);
    ck_assert_int_eq(r->closed_why[0].code, RC_TIMEOUT);
    device_fini(&d);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("devices");

    tcase_add_test(tc, a_device_is_assigned_downloads_its_groups_set_and_is_online);
    tcase_add_test(tc, who_does_not_belong_here_is_turned_away_with_the_reason);
    tcase_add_test(tc, a_session_that_does_not_begin_with_hello_ends);
    tcase_add_test(tc,
                   a_lost_session_makes_suspect_and_a_reconnect_heals_without_a_write);
    tcase_add_test(tc, silence_makes_suspect_and_a_word_heals);
    tcase_add_test(tc, losing_most_nodes_at_once_is_one_alarm_about_the_controller);
    tcase_add_test(tc, a_new_data_plane_is_offline_until_it_holds_everything);
    tcase_add_test(tc, a_second_session_of_one_device_takes_the_place_of_the_first);
    tcase_add_test(tc, a_changed_configuration_is_pushed_and_only_where_it_changed);
    tcase_add_test(tc, a_wait_ends_when_all_online_nodes_have_it);
    tcase_add_test(tc, a_wait_at_its_deadline_names_who_is_missing);
    tcase_add_test(tc, a_wait_fails_with_the_exception_that_its_change_met);
    tcase_add_test(tc, a_wait_fails_also_where_more_exceptions_stand_than_are_listed);
    tcase_add_test(tc, exceptions_that_healed_are_shown_no_longer);
    tcase_add_test(
        tc,
        a_device_that_does_not_answer_loses_its_session_but_not_for_our_own_lateness);
    return unit_run("devices", tc);
}
