/* What the core does with commands, and what it refuses. */
#include "tests/unit/controller/core/rig.h"

#define TENANT(vni)    "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"c1\"}\n"
#define TENANT2(vni)   "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"c2\"}\n"
#define NO_TENANT(vni) "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":" #vni "}\n"
#define ROUTE(vni, p)                                                                  \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"local\"}\n"
#define PEER(vni, p, to)                                                               \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"peer\",\"peer_vni\":" #to "}\n"
#define NO_ROUTE(vni, p)                                                               \
    "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p    \
    "\"}\n"
#define VM(vni, a, nc)                                                                 \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" a "\",\"nc\":\"" nc "\"}\n"

static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    return r;
}

START_TEST(a_batch_is_committed_counted_and_read_back)
{
    struct rig *r = region();
    const struct core_reply *reply = rig_entries(
        r, TENANT(100) ROUTE(100, "10.0.0.0/24") VM(100, "10.0.0.5", "172.16.1.1"));
    struct tenant_status t;

    ck_assert_int_eq(reply->err.code, RC_OK);
    ck_assert_uint_eq(reply->counts.added, 3);
    ck_assert_uint_eq(reply->bad_index, UINT32_MAX);
    ck_assert_uint_eq(reply->revision, core_revision(r->core));
    ck_assert(!core_tenant(r->core, 100, &t));
    ck_assert_str_eq(t.cluster, "c1");
    ck_assert_uint_eq(t.route_count, 1);
    ck_assert_uint_eq(t.vm_nc_count, 1);
    ck_assert_uint_eq(t.mod_revision, reply->revision);
    ck_assert_uint_eq(core_count(r->core, TABLE_VM_NC), 1);
    ck_assert_uint_eq(core_tenant_next(r->core, 1), 100);
    ck_assert_uint_eq(core_tenant_next(r->core, 101), 0);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(a_repeated_put_changes_nothing_and_a_delete_of_nothing_succeeds)
{
    struct rig *r = region();
    const struct core_reply *reply;

    rig_must(r, TENANT(100) ROUTE(100, "10.0.0.0/24"));
    reply = rig_entries(r, TENANT(100) ROUTE(100, "10.0.0.0/24"));
    ck_assert_int_eq(reply->err.code, RC_OK);
    ck_assert_uint_eq(reply->counts.unchanged, 2);
    reply = rig_entries(r, NO_ROUTE(100, "10.9.0.0/24"));
    ck_assert_int_eq(reply->err.code, RC_OK);
    ck_assert_uint_eq(reply->counts.deleted, 0);
    reply = rig_entries(r, NO_ROUTE(999, "10.9.0.0/24"));
    ck_assert_int_eq(reply->err.code, RC_OK);
    rig_free(r);
}
END_TEST

START_TEST(refusals_name_the_rule_and_change_nothing)
{
    struct rig *r = region();

    rig_must(r, TENANT(100) TENANT(200) ROUTE(100, "10.0.0.0/24"));
    for (int again = 0; again < 2; again++) {
        uint64_t before = core_revision(r->core);

        RIG_REFUSES(r, ROUTE(300, "10.0.0.0/24"), RC_INVALID, "unknown_tenant");
        RIG_REFUSES(r, VM(300, "10.0.0.1", "172.16.1.1"), RC_INVALID, "unknown_tenant");
        RIG_REFUSES(r, "{\"table\":\"tenant\",\"vni\":300,\"cluster\":\"nowhere\"}",
                    RC_INVALID, "unknown_cluster");
        RIG_REFUSES(r, ROUTE(100, "10.1.0.0/24") ROUTE(100, "10.1.0.0/24"), RC_INVALID,
                    "duplicate_key");
        RIG_REFUSES(r, PEER(100, "10.2.0.0/16", 300), RC_INVALID, "peer_unknown");
        ck_assert_uint_eq(core_revision(r->core), before);
        ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), 2);
        ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 1);
    }
    rig_free(r);
}
END_TEST

START_TEST(the_offending_entry_is_told_by_its_index)
{
    struct rig *r = region();
    const struct core_reply *reply;

    rig_must(r, TENANT(100));
    reply = rig_entries(r, ROUTE(100, "10.0.0.0/24") ROUTE(100, "10.1.0.0/24")
                               ROUTE(7, "10.0.0.0/24"));
    ck_assert_uint_eq(reply->bad_index, 2);
    reply = rig_entries(r, ROUTE(100, "10.0.0.0/24") PEER(100, "10.5.0.0/16", 7));
    ck_assert_uint_eq(reply->bad_index, 1);
    ck_assert_str_eq(reply->err.field, "peer_vni");
    reply = rig_entries(r, ROUTE(100, "10.0.0.0/24") ROUTE(100, "10.5.0.0/16")
                               ROUTE(100, "10.0.0.0/24"));
    ck_assert_uint_eq(reply->bad_index, 2);
    rig_free(r);
}
END_TEST

START_TEST(create_only_refuses_what_exists_and_differs)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES };

    rig_must(r, TENANT(100) ROUTE(100, "10.0.0.0/24"));
    cmd.entries.create_only = true;
    cmd.entries.ops = rig_batch(TENANT(100) ROUTE(100, "10.0.0.0/24"));
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    blob_unref(cmd.entries.ops);
    cmd.entries.ops = rig_batch(TENANT(100) TENANT2(100));
    blob_unref(cmd.entries.ops);
    cmd.entries.ops = rig_batch(ROUTE(100, "10.7.0.0/24") TENANT2(100));
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_EXISTS);
    ck_assert_uint_eq(rig_reply(r, cmd.token)->bad_index, 1);
    blob_unref(cmd.entries.ops);
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 1);
    rig_free(r);
}
END_TEST

START_TEST(a_dry_run_checks_everything_and_changes_nothing)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES, .dry_run = true };
    uint64_t before = core_revision(r->core);

    cmd.entries.ops = rig_batch(TENANT(100) ROUTE(100, "10.0.0.0/24"));
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    ck_assert_uint_eq(rig_reply(r, cmd.token)->counts.added, 2);
    blob_unref(cmd.entries.ops);
    ck_assert_uint_eq(core_revision(r->core), before);
    ck_assert_uint_eq(core_tenant_next(r->core, 1), 0);
    RIG_REFUSES(r, ROUTE(100, "10.0.0.0/24"), RC_INVALID, "unknown_tenant");
    rig_free(r);
}
END_TEST

START_TEST(if_revision_holds_a_change_to_what_the_caller_read)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES };
    struct tenant_status t;

    rig_must(r, TENANT(100) TENANT(200));
    ck_assert(!core_tenant(r->core, 100, &t));
    rig_must(r, ROUTE(200, "10.0.0.0/24"));
    cmd.if_revision = t.mod_revision;
    cmd.entries.ops = rig_batch(ROUTE(100, "10.0.0.0/24"));
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    blob_unref(cmd.entries.ops);
    cmd.entries.ops = rig_batch(ROUTE(100, "10.1.0.0/24"));
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_STALE);
    blob_unref(cmd.entries.ops);
    rig_free(r);
}
END_TEST

START_TEST(a_request_id_returns_the_first_result_also_after_a_restart)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES, .request_id = "r-1" };
    uint64_t first;

    cmd.entries.ops = rig_batch(TENANT(100));
    first = rig_command(r, &cmd)->revision;
    ck_assert(!rig_reply(r, cmd.token)->repeated);
    for (int restarts = 0; restarts < 2; restarts++) {
        rig_must(r, TENANT(200));
        ck_assert_uint_eq(rig_command(r, &cmd)->revision, first);
        ck_assert(rig_reply(r, cmd.token)->repeated);
        ck_assert_uint_eq(rig_reply(r, cmd.token)->counts.added, 1);
        rig_restart(r);
    }
    rig_pass(r, 600001);
    rig_must(r, TENANT(300)); /* takes the expired one along */
    ck_assert(!rig_command(r, &cmd)->repeated);
    blob_unref(cmd.entries.ops);
    rig_free(r);
}
END_TEST

START_TEST(an_import_is_resumed_behind_its_last_batch)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES };

    memset(cmd.entries.import_digest, 7, 16);
    ck_assert_uint_eq(core_import_next_line(r->core, cmd.entries.import_digest), 0);
    cmd.entries.ops = rig_batch(TENANT(100));
    cmd.entries.import_first_line = 1;
    cmd.entries.import_next_line = 2;
    ck_assert(!rig_command(r, &cmd)->repeated);
    rig_restart(r);
    ck_assert_uint_eq(core_import_next_line(r->core, cmd.entries.import_digest), 2);
    ck_assert(rig_command(r, &cmd)->repeated);
    blob_unref(cmd.entries.ops);
    cmd.entries.ops = rig_batch(TENANT(200));
    cmd.entries.import_first_line = 2;
    cmd.entries.import_next_line = 3;
    ck_assert(!rig_command(r, &cmd)->repeated);
    blob_unref(cmd.entries.ops);
    ck_assert_uint_eq(core_import_next_line(r->core, cmd.entries.import_digest), 3);
    rig_free(r);
}
END_TEST

START_TEST(nothing_behind_a_refused_batch_of_an_import_is_applied)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES };
    const struct core_reply *reply;
    struct tenant_status t;

    memset(cmd.entries.import_digest, 7, 16);
    cmd.entries.ops = rig_batch(ROUTE(101, "10.0.0.0/24")); /* no such tenant */
    cmd.entries.import_first_line = 1;
    cmd.entries.import_next_line = 2;
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_INVALID);
    blob_unref(cmd.entries.ops);
    cmd.entries.ops = rig_batch(TENANT(200)); /* sound, but sent ahead */
    cmd.entries.import_first_line = 2;
    cmd.entries.import_next_line = 3;
    reply = rig_command(r, &cmd);
    ck_assert_int_eq(reply->err.code, RC_CONFLICT);
    ck_assert_str_eq(reply->err.rule, "import_gap");
    ck_assert_int_eq(core_tenant(r->core, 200, &t), RC_NOT_FOUND);
    ck_assert_uint_eq(core_import_next_line(r->core, cmd.entries.import_digest), 0);
    blob_unref(cmd.entries.ops);
    rig_free(r);
}
END_TEST

START_TEST(commands_in_flight_are_checked_against_each_other_and_unseen_by_readers)
{
    struct rig *r = region();
    uint64_t a = rig_queue(r, rig_batch(TENANT(100)));
    uint64_t b = rig_queue(r, rig_batch(ROUTE(100, "10.0.0.0/24")));
    uint64_t bad = rig_queue(r, rig_batch(ROUTE(101, "10.0.0.0/24")));
    struct tenant_status t;

    ck_assert_int_eq(core_tenant(r->core, 100, &t), RC_NOT_FOUND);
    ck_assert_uint_eq(core_tenant_next(r->core, 1), 0);
    ck_assert_ptr_null(core_rows(r->core, 100, TABLE_VXLAN_ROUTE));
    ck_assert_ptr_null(rig_reply(r, bad)); /* it waits for what it was judged on */
    rig_run(r);
    ck_assert_int_eq(rig_reply(r, a)->err.code, RC_OK);
    ck_assert_int_eq(rig_reply(r, b)->err.code, RC_OK);
    ck_assert_uint_eq(rig_reply(r, b)->revision, rig_reply(r, a)->revision + 1);
    ck_assert_str_eq(rig_reply(r, bad)->err.rule, "unknown_tenant");
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 1);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(a_tenant_deleted_in_flight_is_there_for_readers_until_it_is_committed)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_ENTRIES, .confirm = true, .token = 9999 };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };
    struct tenant_status t;

    rig_must(r, TENANT(100) TENANT(200) ROUTE(100, "10.0.0.0/24"));
    cmd.entries.ops = rig_batch(NO_TENANT(100));
    rig_input(r, &in);
    blob_unref(cmd.entries.ops);
    ck_assert_uint_eq(core_tenant_next(r->core, 1), 100);
    ck_assert(!core_tenant(r->core, 100, &t));
    ck_assert_uint_eq(t.route_count, 1);
    rig_run(r);
    ck_assert_uint_eq(core_tenant_next(r->core, 1), 200);
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 0);
    rig_free(r);
}
END_TEST

static const struct {
    enum rc rc;
    bool applied;
    enum rc want;      /* of the command whose answer was lost or failed */
    enum rc want_next; /* of the one that needs it */
} failures[] = {
    { RC_FULL, false, RC_FULL, RC_INVALID },
    { RC_UNREACHABLE, false, RC_UNREACHABLE, RC_INVALID },
    { RC_TIMEOUT, true, RC_OK, RC_OK },
    { RC_TIMEOUT, false, RC_UNREACHABLE, RC_INVALID },
};

START_TEST(a_failed_transaction_takes_back_what_was_built_on_it)
{
    struct rig *r = region();
    uint64_t a, b, other;
    struct tenant_status t;

    store_memory_fail_next(r->store, failures[_i].rc, failures[_i].applied);
    a = rig_queue(r, rig_batch(TENANT(100)));
    b = rig_queue(r, rig_batch(ROUTE(100, "10.0.0.0/24")));
    other = rig_queue(r, rig_batch(TENANT(200)));
    rig_run(r);
    ck_assert_int_eq(rig_reply(r, a)->err.code, failures[_i].want);
    ck_assert_int_eq(rig_reply(r, b)->err.code, failures[_i].want_next);
    ck_assert_int_eq(rig_reply(r, other)->err.code, RC_OK);
    ck_assert_int_eq(core_tenant(r->core, 100, &t) == RC_OK,
                     failures[_i].want == RC_OK);
    rig_check_desired(r);
    rig_must(r, TENANT(100) ROUTE(100, "10.0.0.0/24")); /* it goes on */
    rig_restart(r);
    ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), 2);
    rig_free(r);
}
END_TEST

START_TEST(a_lost_answer_of_the_last_transaction_is_asked_after)
{
    for (int applied = 0; applied < 2; applied++) {
        struct rig *r = region();
        uint64_t token;

        store_memory_fail_next(r->store, RC_TIMEOUT, applied);
        token = rig_queue(r, rig_batch(TENANT(100)));
        rig_run(r);
        ck_assert_ptr_nonnull(rig_reply(r, token));
        ck_assert_int_eq(rig_reply(r, token)->err.code,
                         applied ? RC_OK : RC_UNREACHABLE);
        ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), (unsigned)applied);
        rig_free(r);
    }
}
END_TEST

START_TEST(a_second_controller_deposes_the_first)
{
    struct rig *r = region();
    struct rig *second = calloc(1, sizeof(*second));
    uint64_t token;

    rig_must(r, TENANT(100));
    second->db = r->db;
    second->config = r->config;
    second->now_ms = 1;
    rig_open(second);
    rig_run(second);
    ck_assert(core_is_ready(second->core));
    /* It has not heard yet, and cannot write all the same. */
    token = rig_queue(r, rig_batch(TENANT(200)));
    rig_run(r);
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_UNREACHABLE);
    ck_assert_ptr_nonnull(core_failure(r->core));
    ck_assert_uint_eq(core_count(second->core, TABLE_TENANT), 1);
    rig_crash(second, 0);
    free(second);
    rig_free(r);
}
END_TEST

START_TEST(mass_deletes_need_a_confirmation)
{
    struct rig *r = region();
    char lines[8192] = "";
    size_t len = 0;

    rig_must(r, TENANT(100) TENANT(200));
    for (int i = 0; i < 50; i++) {
        len += (size_t)snprintf(lines + len, sizeof(lines) - len,
                                "{\"table\":\"vxlan_route\",\"vni\":200,\"prefix\":"
                                "\"10.%d.0.0/16\",\"scope\":\"local\"}\n",
                                i);
    }
    rig_must(r, lines);
    rig_must(r, ROUTE(100, "10.0.0.0/24") ROUTE(100, "10.1.0.0/24")
                    ROUTE(100, "10.2.0.0/24") ROUTE(100, "10.3.0.0/24"));
    /* 3 of 4 entries of the tenant, 5 % of the region. */
    RIG_REFUSES(r,
                NO_ROUTE(100, "10.0.0.0/24") NO_ROUTE(100, "10.1.0.0/24")
                    NO_ROUTE(100, "10.2.0.0/24"),
                RC_DENIED, "mass_delete");
    rig_must(r, NO_ROUTE(100, "10.0.0.0/24") NO_ROUTE(100, "10.1.0.0/24"));
    /* 6 of 56 entries of the region, 6 of 50 of the tenant. */
    RIG_REFUSES(r,
                NO_ROUTE(200, "10.0.0.0/16") NO_ROUTE(200, "10.1.0.0/16")
                    NO_ROUTE(200, "10.2.0.0/16") NO_ROUTE(200, "10.3.0.0/16")
                        NO_ROUTE(200, "10.4.0.0/16") NO_ROUTE(200, "10.5.0.0/16"),
                RC_DENIED, "mass_delete");
    /* A tenant with entries takes them along. */
    RIG_REFUSES(r, NO_TENANT(100), RC_DENIED, "mass_delete");
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 52);
    ck_assert_int_eq(rig_entries_confirmed(r, NO_TENANT(100))->err.code, RC_OK);
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 50);
    rig_check_desired(r);
    rig_restart(r);
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 50);
    rig_free(r);
}
END_TEST

START_TEST(a_tenant_that_others_peer_to_stays_until_they_let_go)
{
    struct rig *r = region();

    rig_must(r, TENANT(100) TENANT(200) PEER(100, "10.0.0.0/8", 200));
    RIG_REFUSES(r, NO_TENANT(200), RC_CONFLICT, "inbound_peers");
    ck_assert_int_eq(
        rig_entries_confirmed(r, NO_TENANT(200) NO_ROUTE(100, "10.0.0.0/8"))->err.code,
        RC_OK);
    ck_assert_uint_eq(core_count(r->core, TABLE_TENANT), 1);
    rig_free(r);
}
END_TEST

START_TEST(a_freed_vni_is_quarantined_also_across_a_restart)
{
    struct core_config config;
    struct rig *r;

    core_config_default(&config);
    config.vni_quarantine_ms = 60000;
    r = rig_new_with(&config);
    rig_cluster(r, "c1", "172.16.255.1");
    rig_must(r, TENANT(100) TENANT(200));
    ck_assert_int_eq(rig_entries_confirmed(r, NO_TENANT(100))->err.code, RC_OK);
    RIG_REFUSES(r, TENANT(100), RC_CONFLICT, "vni_quarantine");
    rig_pass(r, 30000);
    rig_restart(r);
    RIG_REFUSES(r, TENANT(100), RC_CONFLICT, "vni_quarantine");
    rig_pass(r, 30001);
    rig_must(r, TENANT(100));
    rig_free(r);
}
END_TEST

START_TEST(objects_that_others_name_are_kept)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_DELETE_CLUSTER, .name = "c1" };

    rig_node(r, "gw-1", "c1", "172.16.0.1");
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_CONFLICT);
    cmd.kind = COMMAND_DELETE_NODE;
    rig_copy(cmd.name, "gw-1");
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    rig_must(r, TENANT(100));
    cmd.kind = COMMAND_DELETE_CLUSTER;
    rig_copy(cmd.name, "c1");
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_CONFLICT);
    ck_assert_str_eq(rig_reply(r, cmd.token)->err.rule, "cluster_in_use");
    ck_assert_int_eq(rig_entries_confirmed(r, NO_TENANT(100))->err.code, RC_OK);
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    ck_assert_ptr_null(core_cluster_find(r->core, "c1"));
    rig_restart(r);
    ck_assert_ptr_null(core_cluster_find(r->core, "c1"));
    ck_assert_ptr_nonnull(core_cluster_find(r->core, "c2"));
    rig_free(r);
}
END_TEST

START_TEST(one_address_is_not_given_twice)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_PUT_NODE };

    rig_copy(cmd.node.name, "gw-1");
    rig_copy(cmd.node.cluster, "c1");
    cmd.node.side = 'a';
    cmd.node.kind = DEVICE_X86;
    cmd.node.vtep_v4 = ip_v4(0xac10ff02); /* 172.16.255.2, c2's VIP */
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_CONFLICT);
    ck_assert_str_eq(rig_reply(r, cmd.token)->err.rule, "address_in_use");
    cmd.node.vtep_v4 = ip_v4(0xac100001);
    rig_copy(cmd.node.cluster, "c9");
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_INVALID);
    ck_assert_str_eq(rig_reply(r, cmd.token)->err.rule, "unknown_cluster");
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("commands");

    tcase_add_test(tc, a_batch_is_committed_counted_and_read_back);
    tcase_add_test(tc, a_repeated_put_changes_nothing_and_a_delete_of_nothing_succeeds);
    tcase_add_test(tc, refusals_name_the_rule_and_change_nothing);
    tcase_add_test(tc, the_offending_entry_is_told_by_its_index);
    tcase_add_test(tc, create_only_refuses_what_exists_and_differs);
    tcase_add_test(tc, a_dry_run_checks_everything_and_changes_nothing);
    tcase_add_test(tc, if_revision_holds_a_change_to_what_the_caller_read);
    tcase_add_test(tc, a_request_id_returns_the_first_result_also_after_a_restart);
    tcase_add_test(tc, an_import_is_resumed_behind_its_last_batch);
    tcase_add_test(tc, nothing_behind_a_refused_batch_of_an_import_is_applied);
    tcase_add_test(
        tc, commands_in_flight_are_checked_against_each_other_and_unseen_by_readers);
    tcase_add_test(
        tc, a_tenant_deleted_in_flight_is_there_for_readers_until_it_is_committed);
    tcase_add_loop_test(tc, a_failed_transaction_takes_back_what_was_built_on_it, 0,
                        ARRAY_LEN(failures));
    tcase_add_test(tc, a_lost_answer_of_the_last_transaction_is_asked_after);
    tcase_add_test(tc, a_second_controller_deposes_the_first);
    tcase_add_test(tc, mass_deletes_need_a_confirmation);
    tcase_add_test(tc, a_tenant_that_others_peer_to_stays_until_they_let_go);
    tcase_add_test(tc, a_freed_vni_is_quarantined_also_across_a_restart);
    tcase_add_test(tc, objects_that_others_name_are_kept);
    tcase_add_test(tc, one_address_is_not_given_twice);
    return unit_run("commands", tc);
}
