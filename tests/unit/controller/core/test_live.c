/* A live trace asks the nodes on the way, says what each made of the packet, and is
 * over in time. */
#include "tests/unit/controller/core/fake_device.h"

#include "controller/core/live.h"

#define LOCAL(vni, p)                                                                  \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"local\"}\n"
#define VM(vni, a, nc)                                                                 \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" a "\",\"nc\":\"" nc "\"}\n"
#define ROUTE(vni, p, more)                                                            \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p "\"," more "}\n"

enum { S1, A1, A2, A3, B1, DEVICES };

/* VNI 100 is at home on h1 (s1), behind it x1 (a1, a2 and on the other side a3); VNI
 * 200 on x2 (b1) and peers with it. */
struct world {
    struct rig *rig;
    struct device at[DEVICES];
};

static struct ip address(const char *text)
{
    struct ip ip;

    ck_assert(!ip_parse(text, strlen(text), &ip, NULL));
    return ip;
}

/* Nodes take packets from there, and over IPv6. */
static void put_region(struct rig *r, const char *source, uint8_t len)
{
    struct command cmd = { .kind = COMMAND_PUT_REGION };
    struct region *region = calloc(1, sizeof(*region));

    rig_copy(region->name, "lab");
    region->underlay_source_count = 2;
    region->underlay_sources[0] = (struct prefix){ address(source), len };
    region->underlay_sources[1] = (struct prefix){ address("fd00::"), 16 };
    cmd.region = region;
    ck_assert(!rig_command(r, &cmd)->err.code);
    free(region);
}

static void put_cluster(struct rig *r, const char *name, const char *vip,
                        const char *vip6, const char *backing)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };

    rig_copy(cmd.cluster.name, name);
    rig_copy(cmd.cluster.backing, backing);
    cmd.cluster.kind = backing[0] ? CLUSTER_XGW_H : CLUSTER_X86;
    cmd.cluster.active_side = 'a';
    cmd.cluster.vip_v4 = address(vip);
    cmd.cluster.vip_v6 = address(vip6);
    if (backing[0]) {
        fallback_meter_default(&cmd.cluster.fallback_meter);
    }
    ck_assert(!rig_command(r, &cmd)->err.code);
}

static void put_node(struct world *w, unsigned i, const char *name, const char *cluster,
                     char side, uint8_t kind)
{
    struct command cmd = { .kind = COMMAND_PUT_NODE, .who = "test" };
    struct node *n = &cmd.node;
    char text[64];

    rig_copy(n->name, name);
    rig_copy(n->cluster, cluster);
    n->side = side;
    n->kind = kind;
    snprintf(text, sizeof(text), "172.17.0.%u", i + 1);
    n->vtep_v4 = address(text);
    snprintf(text, sizeof(text), "fd00:17::%u", i + 1);
    n->vtep_v6 = address(text);
    if (kind == DEVICE_X86) {
        snprintf(text, sizeof(text), "172.18.0.%u", i + 1);
        n->fallback_v4 = address(text);
        snprintf(text, sizeof(text), "fd00:18::%u", i + 1);
        n->fallback_v6 = address(text);
    }
    ck_assert(!rig_command(w->rig, &cmd)->err.code);
    device_init(&w->at[i], w->rig, name);
    w->at[i].kind = kind;
}

static void world_init(struct world *w)
{
    w->rig = rig_new();
    put_region(w->rig, "172.16.0.0", 12);
    put_cluster(w->rig, "x1", "172.16.255.1", "fd00:ff::1", "");
    put_cluster(w->rig, "h1", "172.16.255.2", "fd00:ff::2", "x1");
    put_cluster(w->rig, "x2", "172.16.255.3", "fd00:ff::3", "");
    put_node(w, S1, "s1", "h1", 'a', DEVICE_SOFT_H);
    put_node(w, A1, "a1", "x1", 'a', DEVICE_X86);
    put_node(w, A2, "a2", "x1", 'a', DEVICE_X86);
    put_node(w, A3, "a3", "x1", 'b', DEVICE_X86);
    put_node(w, B1, "b1", "x2", 'a', DEVICE_X86);
    rig_must(w->rig,
             "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"x1\",\"h_home\":\"h1\"}\n"
             "{\"table\":\"tenant\",\"vni\":200,\"cluster\":\"x2\"}\n"
             "{\"table\":\"tenant\",\"vni\":300,\"cluster\":\"x2\"}\n");
    rig_must(w->rig,
             LOCAL(100, "10.1.0.0/16") LOCAL(100, "2001:db8:1::/48")
                 VM(100, "10.1.0.5", "172.19.0.1") VM(100, "10.1.0.6", "fd00:19::6")
                     VM(100, "2001:db8:1::5", "172.19.0.1")
                         ROUTE(100, "10.9.0.0/16",
                               "\"scope\":\"idc\",\"endpoint\":\"172.19.0.9\","
                               "\"endpoint_vni\":5000")
                             ROUTE(100, "0.0.0.0/0", "\"scope\":\"internet\"")
                                 ROUTE(200, "10.1.0.0/16",
                                       "\"scope\":\"peer\",\"peer_vni\":100")
                                     ROUTE(300, "10.1.0.0/16",
                                           "\"scope\":\"peer\",\"peer_vni\":200"));
    for (unsigned i = 0; i < DEVICES; i++) {
        device_dial(&w->at[i]);
        device_hello(&w->at[i]);
        devices_settle(w->at, DEVICES);
    }
}

static void world_fini(struct world *w)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        device_fini(&w->at[i]);
    }
    rig_free(w->rig);
}

static uint64_t begin(struct world *w, uint32_t vni, const char *dst, uint8_t underlay)
{
    struct command cmd = { .kind = COMMAND_TRACE, .token = ++w->rig->next_token };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    cmd.trace.vni = vni;
    cmd.trace.dst = address(dst);
    cmd.trace.underlay = underlay;
    rig_input(w->rig, &in);
    return cmd.token;
}

/* Lets time pass until it is answered; what it said stays in the rig. */
static const struct live_trace *await(struct world *w, uint64_t token)
{
    uint64_t begun = w->rig->now_ms;

    devices_settle(w->at, DEVICES);
    while (!rig_reply(w->rig, token)) {
        rig_wait(w->rig, 20);
        devices_settle(w->at, DEVICES);
        ck_assert_uint_le(w->rig->now_ms, begun + LIVE_MS + 20);
    }
    ck_assert(!rig_reply(w->rig, token)->err.code);
    return w->rig->live;
}

static const struct live_trace *trace(struct world *w, uint32_t vni, const char *dst,
                                      uint8_t underlay)
{
    return await(w, begin(w, vni, dst, underlay));
}

/* "s1 agrees: fallback; a1 …" in the order of hops. */
static void check(const struct live_trace *t, const char *want)
{
    char got[1024] = "";

    for (uint32_t i = 0; i < t->answer_count; i++) {
        const struct live_answer *a = &t->answers[i];

        ck_assert(t->hops[a->hop].is_verdict);
        sprintf(got + strlen(got), "%s%s %s: %s", i ? "; " : "", a->node,
                live_verdict_name(a->verdict), a->found);
    }
    ck_assert_str_eq(got, want);
}

static const struct alarm *alarm_of(const struct world *w, const char *subject)
{
    return alarms_find(health_alarms_of(core_health(w->rig->core)), ALARM_TRACE,
                       subject);
}

/* What is written beside the wanted answers follows from the region alone. */
START_TEST(each_node_that_a_packet_may_meet_is_asked_and_sound_ones_agree)
{
    static const struct {
        uint32_t vni;
        uint8_t underlay;
        const char *dst;
        const char *want;
    } cases[] = {
        { 100, IP_NONE, "10.1.0.5", "s1 agrees: a packet to 172.19.0.1" },
        { 100, IP_V4, "10.9.0.5", "s1 agrees: a packet to 172.19.0.9" },
        /* H changes no family, and does not answer for the internet. */
        { 100, IP_V6, "10.1.0.5",
          "s1 agrees: fallback to fd00:18::2; a1 agrees: a packet to 172.19.0.1; "
          "a2 agrees: a packet to 172.19.0.1" },
        { 100, IP_V6, "10.1.0.6", "s1 agrees: a packet to fd00:19::6" },
        { 100, IP_V4, "8.8.8.8",
          "s1 agrees: fallback to 172.18.0.2; a1 agrees: drop no_snat; "
          "a2 agrees: drop no_snat" },
        { 100, IP_V6, "2001:db8:1::7",
          "s1 agrees: fallback to fd00:18::2; a1 agrees: drop vm_nc_miss; "
          "a2 agrees: drop vm_nc_miss" },
        /* From another cluster. */
        { 200, IP_V4, "10.1.0.5",
          "b1 agrees: a packet to 172.16.255.2; s1 agrees: a packet to 172.19.0.1" },
        { 300, IP_V4, "10.1.0.6",
          "b1 agrees: a packet to 172.16.255.2; s1 agrees: fallback to 172.18.0.2; "
          "a1 agrees: a packet to fd00:19::6; a2 agrees: a packet to fd00:19::6" },
        { 200, IP_V6, "10.7.0.5", "b1 agrees: drop route_miss" },
        { 400, IP_V4, "10.1.0.5", "" },
    };
    struct world w;

    world_init(&w);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        const struct live_trace *t =
            trace(&w, cases[i].vni, cases[i].dst, cases[i].underlay);

        check(t, cases[i].want);
        ck_assert_uint_eq(t->count[LIVE_AGREES], t->answer_count);
    }
    ck_assert_uint_eq(w.at[A3].probes, 0); /* of the side that gets nothing */
    ck_assert_ptr_null(alarm_of(&w, "node/s1"));
    world_fini(&w);
}
END_TEST

/* Two explanations of one packet, core_trace()'s and the probe's, by different code. */
START_TEST(what_is_expected_of_a_node_is_what_the_trace_says_of_it)
{
    static const char *const addresses[] = {
        "10.1.0.5", "10.1.0.6", "10.1.0.7",  "10.9.0.1",  "2001:db8:1::5",
        "8.8.8.8",  "fd00::1",  "127.0.0.1", "172.16.0.1"
    };
    struct world w;
    unsigned seen = 0;

    world_init(&w);
    for (unsigned i = 0; i < ARRAY_LEN(addresses) * 6; i++) {
        const struct live_trace *t =
            trace(&w, 100 * (1 + i / 2 % 3), addresses[i / 6], i % 2 ? IP_V4 : IP_V6);

        for (uint32_t a = 0; a < t->answer_count; a++) {
            const struct trace_hop *hop = &t->hops[t->answers[a].hop];
            char want[PROBE_TEXT_MAX + 1] = "fallback";
            struct ip to = hop->kind == TRACE_FORWARD
                               ? hop->outer_dst
                               : hop->entry.route.action.endpoint;

            if (hop->kind == TRACE_DROP) {
                snprintf(want, sizeof(want), "drop %s", hop->reason);
            } else if (hop->kind != TRACE_FALLBACK) {
                char text[IP_TEXT_MAX];

                ip_print(&to, text);
                snprintf(want, sizeof(want), "a packet to %s", text);
            }
            ck_assert_str_eq(t->answers[a].expected, want);
            seen++;
        }
    }
    ck_assert_uint_gt(seen, ARRAY_LEN(addresses) * 6);
    world_fini(&w);
}
END_TEST

START_TEST(a_node_that_differs_is_named_at_its_hop_and_is_an_alarm_until_it_agrees)
{
    const struct live_trace *t;
    struct world w;

    world_init(&w);
    w.at[A2].lies = true;
    t = trace(&w, 100, "10.1.0.6", IP_V4);
    check(t, "s1 agrees: fallback to 172.18.0.2; a1 agrees: a packet to fd00:19::6; "
             "a2 differs: VNI is 101, not 100");
    ck_assert_int_eq(live_trace_verdict(t), LIVE_DIFFERS);
    ck_assert_str_eq(t->hops[t->answers[2].hop].cluster, "x1");
    ck_assert_uint_eq(w.at[A2].probes, 3); /* it is not taken at its first word */
    ck_assert_ptr_nonnull(alarm_of(&w, "node/a2"));
    ck_assert_ptr_nonnull(strstr(alarm_of(&w, "node/a2")->text,
                                 "vni 100 to 10.1.0.6: expected a packet to "
                                 "fd00:19::6, found VNI is 101, not 100"));
    ck_assert_ptr_null(alarm_of(&w, "node/a1"));

    w.at[A2].lies = false;
    trace(&w, 100, "10.1.0.5", IP_V6); /* another destination says nothing of it */
    rig_wait(w.rig, 1000 * (ALARM_CLEAR_S + 2));
    ck_assert_ptr_nonnull(alarm_of(&w, "node/a2"));
    w.at[A2].probe_rc = RC_TIMEOUT; /* nor does one that has no answer */
    trace(&w, 100, "10.1.0.6", IP_V4);
    rig_wait(w.rig, 1000 * (ALARM_CLEAR_S + 2));
    ck_assert_ptr_nonnull(alarm_of(&w, "node/a2"));
    w.at[A2].probe_rc = RC_OK;
    trace(&w, 100, "10.1.0.6", IP_V4);
    rig_wait(w.rig, 1000 * (ALARM_CLEAR_S + 2));
    ck_assert_ptr_null(alarm_of(&w, "node/a2"));
    world_fini(&w);
}
END_TEST

START_TEST(what_was_wrong_of_a_way_that_is_no_more_is_an_alarm_no_more)
{
    struct world w;

    world_init(&w);
    w.at[B1].lies = true;
    trace(&w, 200, "10.1.0.5", IP_V4);
    ck_assert_ptr_nonnull(alarm_of(&w, "node/b1"));
    ck_assert(!rig_entries_confirmed(
                   w.rig, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":300}\n")
                   ->err.code);
    ck_assert(!rig_entries_confirmed(
                   w.rig, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":200}\n")
                   ->err.code);
    check(trace(&w, 200, "10.1.0.5", IP_NONE), "");
    rig_wait(w.rig, 1000 * (ALARM_CLEAR_S + 2));
    ck_assert_ptr_null(alarm_of(&w, "node/b1"));
    world_fini(&w);
}
END_TEST

START_TEST(a_node_that_can_say_nothing_now_says_so_in_time_and_is_no_alarm)
{
    const struct live_trace *t;
    struct world w;
    uint64_t begun;

    world_init(&w);
    device_hang_up(&w.at[A1]);
    t = trace(&w, 100, "10.1.0.6", IP_V4);
    check(t, "s1 agrees: fallback to 172.18.0.2; a1 says_nothing: it has no session; "
             "a2 agrees: a packet to fd00:19::6");
    ck_assert_str_eq(t->answers[1].expected, "a packet to fd00:19::6");
    ck_assert_int_eq(live_trace_verdict(t), LIVE_AGREES);

    begun = w.rig->now_ms;
    w.at[S1].is_mute = true;
    w.at[A2].probe_rc = RC_UNREACHABLE;
    t = trace(&w, 100, "10.1.0.6", IP_V4);
    ck_assert_uint_eq(t->count[LIVE_SAYS_NOTHING], 3);
    ck_assert_str_eq(t->answers[0].found, "no answer in time");
    ck_assert_int_eq(live_trace_verdict(t), LIVE_SAYS_NOTHING);
    ck_assert_uint_ge(w.rig->now_ms, begun + LIVE_MS);
    ck_assert_uint_gt(w.at[A2].probes, 5); /* asked again meanwhile */

    w.at[A2].probe_rc = RC_NOT_FOUND; /* such a device takes none: no reason to wait */
    w.at[S1].is_mute = false;
    begun = w.rig->now_ms;
    t = trace(&w, 100, "10.1.0.6", IP_V4);
    ck_assert_int_eq(t->answers[2].verdict, LIVE_SAYS_NOTHING);
    ck_assert_uint_eq(w.rig->now_ms, begun);
    ck_assert_ptr_null(alarm_of(&w, "node/a1"));
    ck_assert_ptr_null(alarm_of(&w, "node/a2"));
    ck_assert_ptr_null(alarm_of(&w, "node/s1"));
    world_fini(&w);
}
END_TEST

START_TEST(a_node_that_comes_back_or_dials_anew_is_asked_again)
{
    struct world w;
    uint64_t token;

    world_init(&w);
    w.at[S1].is_mute = true;
    token = begin(&w, 100, "10.1.0.5", IP_V4);
    devices_settle(w.at, DEVICES);
    ck_assert_ptr_null(rig_reply(w.rig, token));
    w.at[S1].is_mute = false;
    device_dial(&w.at[S1]); /* a second session takes over */
    device_hello(&w.at[S1]);
    check(await(&w, token), "s1 agrees: a packet to 172.19.0.1");

    w.at[S1].is_mute = true;
    token = begin(&w, 100, "10.1.0.5", IP_V4);
    devices_settle(w.at, DEVICES);
    w.at[S1].is_mute = false;
    device_hello(&w.at[S1]); /* on the same one */
    check(await(&w, token), "s1 agrees: a packet to 172.19.0.1");
    world_fini(&w);
}
END_TEST

START_TEST(a_change_while_a_node_is_asked_is_no_difference)
{
    struct world w;
    uint64_t token;

    world_init(&w);
    w.at[S1].is_mute = true;
    token = begin(&w, 100, "10.1.0.5", IP_V4);
    devices_settle(w.at, DEVICES); /* the probe is on its way, and lost … */
    rig_must(w.rig, VM(100, "10.1.0.5", "172.19.0.2"));
    devices_settle(w.at, DEVICES);
    w.at[S1].is_mute = false;
    device_hello(&w.at[S1]); /* … and made anew, by the entry of now */
    check(await(&w, token), "s1 agrees: a packet to 172.19.0.2");
    world_fini(&w);
}
END_TEST

static bool is_sent(const struct world *w, enum ctl_msg_kind kind)
{
    return w->rig->sent_count > 0 && w->rig->sent[0].kind == kind;
}

/* A probe waits for no batch: one that came later may be applied before it. */
START_TEST(a_node_that_is_ahead_of_its_probe_does_not_differ)
{
    struct world w;
    uint64_t token;

    world_init(&w);
    token = begin(&w, 100, "10.1.0.5", IP_V4);
    for (unsigned i = 0; i < 4; i++) {
        char line[128];
        struct ctl_msg probe;

        ck_assert(is_sent(&w, CTL_PROBE));
        snprintf(line, sizeof(line), VM(100, "10.1.0.5", "172.19.1.%u"), i);
        rig_must(w.rig, line);
        ck_assert_uint_ge(w.rig->sent_count, 2);
        probe = w.rig->sent[0];
        for (uint32_t k = 1; k < w.rig->sent_count; k++) {
            w.rig->sent[k - 1] = w.rig->sent[k];
            w.rig->sent_to[k - 1] = w.rig->sent_to[k];
        }
        w.rig->sent[w.rig->sent_count - 1] = probe;
        w.rig->sent_to[w.rig->sent_count - 1] = w.at[S1].session;
        devices_settle(w.at, DEVICES); /* it comes out by the entry of now */
        ck_assert_uint_eq(w.at[S1].probes, i + 1);
        ck_assert_ptr_null(rig_reply(w.rig, token));
        rig_wait(w.rig, 300);
    }
    check(await(&w, token), "s1 agrees: a packet to 172.19.1.3");
    world_fini(&w);
}
END_TEST

START_TEST(a_probe_comes_from_where_the_packet_would)
{
    struct world w;

    world_init(&w);
    put_region(w.rig, "172.17.0.0", 16); /* no cluster's VIP is in there */
    devices_settle(w.at, DEVICES);
    check(trace(&w, 100, "10.1.0.5", IP_V4), "s1 agrees: a packet to 172.19.0.1");
    check(trace(&w, 200, "10.1.0.5", IP_V4),
          "b1 agrees: a packet to 172.16.255.2; s1 agrees: drop source_check");
    world_fini(&w);
}
END_TEST

START_TEST(only_so_many_are_under_way_and_all_are_answered_when_the_core_ends)
{
    uint64_t tokens[LIVES_MAX + 1];
    struct world w;

    world_init(&w);
    w.at[S1].is_mute = true;
    for (unsigned i = 0; i <= LIVES_MAX; i++) {
        tokens[i] = begin(&w, 100, "10.1.0.5", IP_V4);
        devices_settle(w.at, DEVICES);
    }
    ck_assert_int_eq(rig_reply(w.rig, tokens[LIVES_MAX])->err.code, RC_FULL);
    ck_assert_str_eq(rig_reply(w.rig, tokens[LIVES_MAX])->err.rule, "live_traces");
    rig_wait(w.rig, LIVE_MS);
    for (unsigned i = 0; i < LIVES_MAX; i++) {
        ck_assert(!rig_reply(w.rig, tokens[i])->err.code);
    }
    w.at[S1].is_mute = false;
    check(trace(&w, 100, "10.1.0.5", IP_V4), "s1 agrees: a packet to 172.19.0.1");
    world_fini(&w);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("live");

    tcase_add_test(tc, each_node_that_a_packet_may_meet_is_asked_and_sound_ones_agree);
    tcase_add_test(tc, what_is_expected_of_a_node_is_what_the_trace_says_of_it);
    tcase_add_test(
        tc, a_node_that_differs_is_named_at_its_hop_and_is_an_alarm_until_it_agrees);
    tcase_add_test(tc, what_was_wrong_of_a_way_that_is_no_more_is_an_alarm_no_more);
    tcase_add_test(tc, a_node_that_can_say_nothing_now_says_so_in_time_and_is_no_alarm);
    tcase_add_test(tc, a_node_that_comes_back_or_dials_anew_is_asked_again);
    tcase_add_test(tc, a_change_while_a_node_is_asked_is_no_difference);
    tcase_add_test(tc, a_node_that_is_ahead_of_its_probe_does_not_differ);
    tcase_add_test(tc, a_probe_comes_from_where_the_packet_would);
    tcase_add_test(tc,
                   only_so_many_are_under_way_and_all_are_answered_when_the_core_ends);
    return unit_run("live", tc);
}
