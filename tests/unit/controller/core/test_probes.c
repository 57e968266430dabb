/* Nodes are asked what they make of packets, in batches, until each said what its
 * entries say, or did not. */
#include "tests/unit/controller/core/move_world.h"

#include "controller/core/probes.h"
#include "controller/probe/course.h"

#define OF(vni, p, scope)                                                              \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"" scope "\"}\n"

/* Asks after the rows of VNI 1, which is at home on c1; returns the number. */
static uint64_t ask(struct world *w)
{
    struct command cmd = { .kind = COMMAND_PROBE, .who = "test" };
    const struct core_reply *reply;

    cmd.probe.vni = 1;
    reply = rig_command(w->rig, &cmd);
    ck_assert(!reply->err.code);
    ck_assert_uint_eq(reply->probes_count, 1);
    return reply->probes_first;
}

static struct probes_status status_of(const struct world *w, uint64_t number)
{
    struct probes_status s;

    ck_assert(probes_status(w->rig->core, number, &s));
    return s;
}

static struct probes_status finish(struct world *w, uint64_t number)
{
    devices_settle(w->at, 3);
    for (unsigned i = 0; i < 200 && status_of(w, number).result == PROBES_OPEN; i++) {
        rig_wait(w->rig, 1000);
        devices_settle(w->at, 3);
    }
    return status_of(w, number);
}

START_TEST(a_node_that_does_as_its_entries_say_passes_and_is_remembered)
{
    struct probes_record *record = malloc(sizeof(*record));
    struct probes_status s;
    struct world w;
    uint64_t number;

    world_init(&w);
    number = ask(&w);
    s = finish(&w, number);
    ck_assert_msg(s.result == PROBES_PASSED, "%s", s.why);
    ck_assert_uint_gt(s.probes, 2);
    ck_assert_uint_eq(s.agreed, s.probes);
    ck_assert_str_eq(s.why, "");
    ck_assert_uint_eq(w.at[0].probes, s.probes);
    ck_assert_uint_eq(w.at[1].probes + w.at[2].probes, 0);
    rig_restart(w.rig);
    ck_assert(!core_probes(w.rig->core, number, record));
    ck_assert_str_eq(record->node, "g1");
    ck_assert_str_eq(record->who, "test");
    ck_assert_int_eq(record->result, PROBES_PASSED);
    ck_assert_uint_eq(record->agreed, s.agreed);
    ck_assert_uint_eq(core_probes_next(w.rig->core, 1), number);
    ck_assert_uint_eq(core_probes_next(w.rig->core, number + 1), 0);
    world_fini(&w);
    free(record);
}
END_TEST

START_TEST(a_packet_that_comes_out_otherwise_fails_in_the_third_try_and_is_named)
{
    struct probes_status s;
    struct world w;
    uint64_t number;

    world_init(&w);
    w.at[0].lies = true;
    number = ask(&w);
    devices_settle(w.at, 3);
    ck_assert_int_eq(status_of(&w, number).result, PROBES_OPEN);
    s = finish(&w, number);
    ck_assert_int_eq(s.result, PROBES_FAILED);
    ck_assert_uint_eq(s.differed, 1); /* the only one that is forwarded */
    ck_assert_uint_eq(s.agreed, s.probes - 1);
    ck_assert_uint_eq(w.at[0].probes, s.probes + COURSE_TRIES - 1);
    ck_assert_ptr_nonnull(strstr(s.why, "probe 1 (local, IPv4 inside, over IPv4, to "
                                        "IPv4): vni 1 to 10.1.0.5: expected a packet "
                                        "to 172.16.1.1, found VNI is 0, not 1"));
    world_fini(&w);
}
END_TEST

START_TEST(what_says_nothing_is_asked_again_and_never_called_wrong)
{
    struct probes_status s;
    struct world w;
    uint64_t number;

    world_init(&w);
    w.at[0].probe_rc = RC_TIMEOUT;
    number = ask(&w);
    for (unsigned i = 0; i < 5; i++) {
        devices_settle(w.at, 3);
        rig_wait(w.rig, 1000);
    }
    ck_assert_int_eq(status_of(&w, number).result, PROBES_OPEN);
    w.at[0].probe_rc = RC_OK;
    ck_assert_int_eq(finish(&w, number).result, PROBES_PASSED);

    w.at[0].probe_rc = RC_TIMEOUT;
    w.at[0].probes = 0;
    s = finish(&w, ask(&w));
    ck_assert_int_eq(s.result, PROBES_CANNOT_SAY);
    ck_assert_uint_eq(s.unsaid, s.probes);
    ck_assert_uint_eq(w.at[0].probes, s.probes * COURSE_NOT_NOW);
    ck_assert_ptr_nonnull(strstr(s.why, "probe 1 ("));
    world_fini(&w);
}
END_TEST

START_TEST(a_device_that_takes_no_probes_cannot_say)
{
    struct probes_status s;
    struct world w;

    world_init(&w);
    w.at[0].probe_rc = RC_NOT_FOUND;
    s = finish(&w, ask(&w));
    ck_assert_int_eq(s.result, PROBES_CANNOT_SAY);
    ck_assert_uint_eq(s.agreed + s.differed, 0);
    ck_assert_uint_le(w.at[0].probes, COURSE_IN_FLIGHT);
    world_fini(&w);
}
END_TEST

/* What was asked on a session that is gone is asked on the next one. */
START_TEST(answers_that_are_lost_with_a_session_are_asked_again)
{
    struct probes_status s;
    struct world w;
    uint64_t number;

    world_init(&w);
    w.at[0].is_mute = true;
    number = ask(&w);
    devices_settle(w.at, 3);
    ck_assert_int_eq(status_of(&w, number).result, PROBES_OPEN);
    w.at[0].is_mute = false;
    device_hang_up(&w.at[0]);
    devices_settle(w.at, 3);
    ck_assert_int_eq(status_of(&w, number).result, PROBES_OPEN);
    device_dial(&w.at[0]);
    device_hello(&w.at[0]);
    s = finish(&w, number);
    ck_assert_msg(s.result == PROBES_PASSED, "%s", s.why);
    ck_assert_uint_eq(w.at[0].probes, s.probes);
    world_fini(&w);
}
END_TEST

START_TEST(a_node_without_a_session_cannot_say_in_the_end)
{
    struct probes_status s;
    struct world w;

    world_init(&w);
    device_hang_up(&w.at[0]);
    s = finish(&w, ask(&w));
    ck_assert_int_eq(s.result, PROBES_CANNOT_SAY);
    ck_assert_str_eq(s.why, "the node has no session");
    world_fini(&w);
}
END_TEST

/* Counts the probes that go out, and their messages. */
struct counter {
    struct world *w;
    uint32_t messages;
    uint32_t probes;
};

static void on_sent(void *ctx, uint64_t session, const struct ctl_msg *msg)
{
    struct counter *n = ctx;

    (void)session;
    if (msg->kind == CTL_PROBES) {
        n->messages++;
        n->probes += msg->probes.count;
    }
}

START_TEST(probes_go_out_together_and_no_more_than_may_be_under_way)
{
    struct world w;
    struct counter n = { .w = &w };

    world_init(&w);
    rig_must(w.rig, LOCAL(1, "2001:db8:1::/48") OF(1, "10.7.0.0/16", "internet")
                        OF(1, "2001:db8:7::/48", "internet")
                            OF(1, "10.8.0.0/16", "service\",\"service\":\"dns")
                                OF(1, "0.0.0.0/0", "internet"));
    devices_settle(w.at, 3);
    w.rig->watch.sent = on_sent;
    w.rig->watch.ctx = &n;
    (void)ask(&w); /* and nobody answers */
    for (unsigned i = 0; i < 20; i++) {
        rig_wait(w.rig, 1000);
    }
    ck_assert_uint_eq(n.probes, COURSE_IN_FLIGHT);
    ck_assert_uint_lt(n.messages, n.probes);
    w.rig->watch.sent = NULL;
    world_fini(&w);
}
END_TEST

START_TEST(all_of_a_cluster_are_asked_and_can_be_stopped)
{
    struct world w;
    uint64_t first;

    world_init(&w);
    w.at[0].is_mute = true;
    ck_assert_uint_eq(probes_ask_cluster(w.rig->core, "none", "test", &first), 0);
    ck_assert_uint_eq(probes_ask_cluster(w.rig->core, "c1", "test", &first), 1);
    devices_settle(w.at, 3);
    ck_assert_int_eq(status_of(&w, first).result, PROBES_OPEN);
    probes_stop_asked(w.rig->core, first, 1);
    rig_wait(w.rig, 1000);
    ck_assert_int_eq(status_of(&w, first).result, PROBES_CANNOT_SAY);
    ck_assert_str_eq(status_of(&w, first).why, "it was stopped");
    world_fini(&w);
}
END_TEST

/* Also what is wrong with frames, which the rows of one VNI do not ask after. */
START_TEST(a_whole_node_is_sent_all_that_can_be_wrong_with_a_packet)
{
    struct probes_record *record = malloc(sizeof(*record));
    struct probes_status s;
    struct world w;
    unsigned dropped = 0;
    uint64_t first;

    world_init(&w);
    ck_assert_uint_eq(probes_ask_cluster(w.rig->core, "c1", "test", &first), 1);
    s = finish(&w, first);
    ck_assert_msg(s.result == PROBES_PASSED, "%s", s.why);
    ck_assert(!core_probes(w.rig->core, first, record));
    for (uint16_t i = 0; i < record->cell_count; i++) {
        const struct probes_cell *c = &record->cells[i];

        ck_assert(c->reach != MATRIX_UNSEEN);
        ck_assert((c->reach == MATRIX_COVERED) == (c->verdict == VERDICT_AGREED));
        dropped += strncmp(c->want, "outer_", 6) == 0;
    }
    ck_assert_uint_gt(dropped, 5);
    world_fini(&w);
    free(record);
}
END_TEST

START_TEST(who_is_not_there_is_not_probed)
{
    static const struct {
        const char *node;
        const char *cluster;
        uint32_t vni;
        const char *rule;
    } asks[] = { { "g9", "", 0, "unknown_node" },
                 { "", "c9", 0, "unknown_cluster" },
                 { "", "", 9, "unknown_tenant" },
                 { "", "lb", 0, "load_balancer" } };
    struct world w;

    world_init(&w);
    rig_lb_cluster(w.rig, "lb", "172.16.255.9");
    for (unsigned i = 0; i < ARRAY_LEN(asks); i++) {
        struct command cmd = { .kind = COMMAND_PROBE, .who = "test" };
        const struct core_reply *reply;

        rig_copy(cmd.probe.node, asks[i].node);
        rig_copy(cmd.probe.cluster, asks[i].cluster);
        cmd.probe.vni = asks[i].vni;
        reply = rig_command(w.rig, &cmd);
        ck_assert_str_eq(reply->err.rule, asks[i].rule);
    }
    ck_assert_uint_eq(core_probes_next(w.rig->core, 1), 0);
    world_fini(&w);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("probes");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_node_that_does_as_its_entries_say_passes_and_is_remembered);
    tcase_add_test(
        tc, a_packet_that_comes_out_otherwise_fails_in_the_third_try_and_is_named);
    tcase_add_test(tc, what_says_nothing_is_asked_again_and_never_called_wrong);
    tcase_add_test(tc, a_device_that_takes_no_probes_cannot_say);
    tcase_add_test(tc, answers_that_are_lost_with_a_session_are_asked_again);
    tcase_add_test(tc, a_node_without_a_session_cannot_say_in_the_end);
    tcase_add_test(tc, probes_go_out_together_and_no_more_than_may_be_under_way);
    tcase_add_test(tc, all_of_a_cluster_are_asked_and_can_be_stopped);
    tcase_add_test(tc, a_whole_node_is_sent_all_that_can_be_wrong_with_a_packet);
    tcase_add_test(tc, who_is_not_there_is_not_probed);
    return unit_run("core_probes", tc);
}
