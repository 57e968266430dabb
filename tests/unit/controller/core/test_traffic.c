/* The traffic of services: asked of nodes, shared out, weighed, and what is advised. */
#include "controller/core/suggest.h"
#include "controller/core/traffic.h"
#include "tests/unit/controller/core/fake_device.h"

#define DAY_MS UINT64_C(86400000)

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

/* ---- a region of three tenants and two XGW-H nodes ---- */

struct bench {
    struct rig *rig;
    struct device nodes[2];
    uint64_t token;
};

#define TENANT(vni)                                                                    \
    "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"x1\",\"h_home\":\"h1\"}\n"
#define ROUTE(vni, prefix, rest)                                                       \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" prefix                 \
    "\",\"scope\":" rest "}\n"
#define LOCAL  "\"local\""
#define IDC    "\"idc\",\"endpoint\":\"172.16.0.9\",\"endpoint_vni\":5000"
#define REGION "\"region\",\"endpoint\":\"172.16.0.8\",\"endpoint_vni\":77"

/* VNI 1 uses `idc`, 2 `local`, 3 `local` and `region`; known for 8 days. */
static void bench_init(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    b->rig = rig_new();
    rig_cluster(b->rig, "x1", "172.16.255.1");
    rig_h_cluster(b->rig, "h1", "172.16.254.1", "x1");
    rig_node(b->rig, "h-a", "h1", "172.16.0.2");
    rig_node(b->rig, "h-b", "h1", "172.16.0.3");
    rig_must(b->rig, TENANT(1) TENANT(2) TENANT(3) ROUTE(1, "10.0.0.0/8", IDC)
                         ROUTE(2, "10.0.0.0/8", LOCAL) ROUTE(3, "10.0.0.0/8", LOCAL)
                             ROUTE(3, "11.0.0.0/8", REGION));
    rig_policy(b->rig, "idc", POLICY_XGW_X86);
    rig_pass(b->rig, 8 * DAY_MS);
    for (unsigned i = 0; i < 2; i++) {
        struct device *d = &b->nodes[i];

        device_init(d, b->rig, i ? "h-b" : "h-a");
        d->kind = DEVICE_SOFT_H;
        d->ready = true;
        for (uint32_t vni = 1; vni <= 3; vni++) {
            d->counters[d->counter_count++] =
                (struct vni_counter){ vni, 10 + vni, 1000, 1000000 };
        }
        device_dial(d);
        device_hello(d);
    }
    devices_settle(b->nodes, 2);
}

static void bench_fini(struct bench *b)
{
    device_fini(&b->nodes[0]);
    device_fini(&b->nodes[1]);
    rig_free(b->rig);
}

static void ask(struct bench *b, uint32_t seconds)
{
    struct core_in in = { .kind = CORE_COMMAND };
    struct command cmd = { .kind = COMMAND_SUGGEST, .token = 5000 + ++b->token };

    cmd.suggest.seconds = seconds;
    in.command = &cmd;
    rig_input(b->rig, &in);
    devices_settle(b->nodes, 2);
}

static const struct suggestion *answer(const struct bench *b)
{
    const struct core_reply *reply = rig_reply(b->rig, 5000 + b->token);

    ck_assert_msg(reply && !reply->err.code, "not answered");
    return core_suggestion(b->rig->core);
}

/* `bytes` of VNI 1, 2, … on a node from here on. */
static void send(struct device *d, uint64_t one, uint64_t two, uint64_t three)
{
    d->counters[0].bytes += one;
    d->counters[1].bytes += two;
    d->counters[2].bytes += three;
}

static const struct suggestion *measure(struct bench *b)
{
    rig_wait(b->rig, 5000);
    devices_settle(b->nodes, 2);
    return answer(b);
}

static const struct service_advice *of(const struct suggestion *s, const char *service)
{
    uint32_t i = 0;

    while (i < s->count && strcmp(s->services[i].figures.service, service) != 0) {
        i++;
    }
    ck_assert(i < s->count);
    return &s->services[i];
}

static void check(const struct suggestion *s, const char *service, uint64_t least,
                  uint64_t most, enum service_weight weight, enum policy_place place)
{
    const struct service_advice *a = of(s, service);

    ck_assert_uint_eq(a->figures.least_bps, least);
    ck_assert_uint_eq(a->figures.most_bps, most);
    ck_assert_msg(a->figures.weight == weight, "%s: weight %d, not %d: %s", service,
                  a->figures.weight, weight, a->reason);
    ck_assert_msg(a->place == place, "%s: %s", service, a->reason);
}

static uint64_t counted_bps(const struct bench *b, const char *cluster)
{
    uint32_t id = core_place_of(b->rig->core, cluster);
    const struct placement *p = core_placement(b->rig->core);
    int bps = resource_find(&placement_cluster_at(p, id)->set, "bps");
    struct usage u;

    ck_assert_int_ge(bps, 0);
    placement_usage(p, id, &u);
    return u.amount[0][bps] + u.amount[1][bps];
}

START_TEST(what_was_measured_of_tenants_counts_for_their_clusters)
{
    struct bench b;

    bench_init(&b);
    ck_assert_uint_eq(counted_bps(&b, "h1"), 0);
    ask(&b, 5);
    send(&b.nodes[0], 50000, 8000, 1000);
    send(&b.nodes[1], 10000, 30000, 1000);
    measure(&b);
    ck_assert_uint_eq(counted_bps(&b, "h1"), 160000); /* of both nodes */
    ck_assert_uint_eq(counted_bps(&b, "x1"), 0);      /* it arrives at XGW-H */
    ask(&b, 5); /* the last measurement is the one that counts */
    send(&b.nodes[0], 5000, 0, 0);
    measure(&b);
    ck_assert_uint_eq(counted_bps(&b, "h1"), 8000);
    bench_fini(&b);
}
END_TEST

/* Bytes of 5 s on both nodes together: 60, 38 and 2 % of 100 kB. */
START_TEST(known_traffic_of_three_tenants_leads_to_the_advice)
{
    struct bench b;
    const struct suggestion *s;

    bench_init(&b);
    ask(&b, 5);
    ck_assert(!core_has_work(b.rig->core)); /* it waits, and does not spin */
    send(&b.nodes[0], 50000, 8000, 1000);
    send(&b.nodes[1], 10000, 30000, 1000);
    s = measure(&b);
    ck_assert_uint_eq(s->traffic.seconds, 5);
    ck_assert_uint_eq(s->traffic.measured, 2);
    ck_assert_uint_eq(s->traffic.unmeasured_count, 0);
    ck_assert_uint_eq(s->traffic.total_bps, 160000);
    check(s, "idc", 96000, 96000, WEIGHT_HEAVY, POLICY_XGW_H);
    check(s, "local", 60800, 64000, WEIGHT_HEAVY, POLICY_XGW_H);
    check(s, "region", 0, 3200, WEIGHT_LIGHT, POLICY_XGW_X86);
    check(s, "peer", 0, 0, WEIGHT_LIGHT, POLICY_XGW_H); /* no entries */
    ck_assert_ptr_nonnull(strstr(of(s, "idc")->reason, "heavy: 60.0 to 60.0 %"));
    ck_assert_ptr_nonnull(strstr(of(s, "region")->reason, "light: 0.0 to 2.0 %"));
    bench_fini(&b);
}
END_TEST

START_TEST(no_traffic_or_no_look_calls_nothing_heavy_or_light)
{
    struct bench b;
    const struct suggestion *s;

    bench_init(&b);
    ask(&b, 5);
    s = measure(&b);
    ck_assert_uint_eq(s->traffic.total_bps, 0);
    check(s, "idc", 0, 0, WEIGHT_UNKNOWN, POLICY_XGW_X86);
    check(s, "local", 0, 0, WEIGHT_UNKNOWN, POLICY_XGW_H);
    b.nodes[0].counter_asks = 0;
    ask(&b, 0);
    s = answer(&b);
    ck_assert_uint_eq(b.nodes[0].counter_asks, 0);
    ck_assert_uint_eq(s->traffic.seconds, 0);
    check(s, "local", 0, 0, WEIGHT_UNKNOWN, POLICY_XGW_H);
    bench_fini(&b);
}
END_TEST

START_TEST(what_a_vni_reaches_by_peers_may_be_any_of_their_services)
{
    struct bench b;
    const struct suggestion *s;

    bench_init(&b);
    rig_must(b.rig, ROUTE(1, "12.0.0.0/8", "\"peer\",\"peer_vni\":2")
                        ROUTE(2, "13.0.0.0/8", "\"peer\",\"peer_vni\":3"));
    ask(&b, 5);
    send(&b.nodes[0], 100000, 10000, 1000);
    s = measure(&b);
    check(s, "idc", 0, 160000, WEIGHT_EITHER, POLICY_XGW_X86); /* of VNI 1 alone */
    check(s, "peer", 0, 176000, WEIGHT_EITHER, POLICY_XGW_H);  /* new, but … */
    check(s, "region", 0, 177600, WEIGHT_EITHER, POLICY_XGW_H);
    check(s, "local", 0, 177600, WEIGHT_EITHER, POLICY_XGW_H);
    bench_fini(&b);
}
END_TEST

START_TEST(what_is_not_counted_one_by_one_may_be_anybodys)
{
    struct bench b;
    const struct suggestion *s;

    bench_init(&b);
    b.nodes[0].rest_bytes = 500;
    ask(&b, 5);
    send(&b.nodes[0], 60000, 38000, 2000);
    b.nodes[0].rest_bytes += 100000;
    s = measure(&b);
    ck_assert_uint_eq(s->traffic.uncounted_bps, 160000);
    ck_assert_uint_eq(s->traffic.total_bps, 320000);
    check(s, "idc", 96000, 256000, WEIGHT_HEAVY, POLICY_XGW_H);
    check(s, "region", 0, 163200, WEIGHT_EITHER, POLICY_XGW_H);
    bench_fini(&b);
}
END_TEST

START_TEST(a_counter_that_is_another_one_or_began_anew_says_nothing)
{
    struct bench b;
    const struct suggestion *s;

    bench_init(&b);
    b.nodes[0].counter_piece = 2; /* two answers each time */
    ask(&b, 5);
    send(&b.nodes[0], 60000, 38000, 2000);
    b.nodes[0].counters[0].cell = 99;
    b.nodes[0].counters[1].bytes = 5;
    s = measure(&b);
    ck_assert_uint_eq(b.nodes[0].counter_asks, 4);
    ck_assert_uint_eq(s->traffic.total_bps, 3200);
    check(s, "idc", 0, 0, WEIGHT_LIGHT, POLICY_XGW_X86);
    bench_fini(&b);
}
END_TEST

/* What may keep the second node from being measured. */
enum trouble { MUTE, LATER_MUTE, SAYS_NO, HAS_NONE, GONE, LATER_GONE, TROUBLES };

START_TEST(a_node_that_does_not_answer_is_named_and_the_others_count)
{
    static const char *const why[TROUBLES] = { "did not answer", "did not answer",
                                               "it answered",    "counts no VNIs",
                                               "has no session", "session was lost" };
    struct bench b;
    struct device *bad;
    const struct suggestion *s;

    bench_init(&b);
    bad = &b.nodes[1];
    bad->keeps_counters = _i == MUTE;
    bad->counters_rc = _i == SAYS_NO    ? RC_UNREACHABLE
                       : _i == HAS_NONE ? RC_NOT_FOUND
                                        : RC_OK;
    if (_i == GONE) {
        device_hang_up(bad);
    }
    ask(&b, 5);
    bad->keeps_counters |= _i == LATER_MUTE;
    send(&b.nodes[0], 60000, 38000, 2000);
    send(bad, 1000000, 0, 0);
    if (_i == MUTE) {
        rig_wait(b.rig, TRAFFIC_READ_MS); /* the first read is given up */
        devices_settle(b.nodes, 2);
    }
    if (_i == LATER_GONE) {
        device_hang_up(bad);
    }
    rig_wait(b.rig, 5000);
    devices_settle(b.nodes, 2);
    if (_i == LATER_MUTE) {
        ck_assert_ptr_null(rig_reply(b.rig, 5000 + b.token));
        rig_wait(b.rig, TRAFFIC_READ_MS);
        devices_settle(b.nodes, 2);
    }
    s = answer(&b);
    ck_assert_uint_eq(s->traffic.measured, 1);
    ck_assert_uint_eq(s->traffic.unmeasured_count, 1);
    ck_assert_str_eq(s->traffic.unmeasured[0].name, "h-b");
    ck_assert_msg(strstr(s->traffic.unmeasured[0].why, why[_i]), "%s",
                  s->traffic.unmeasured[0].why);
    ck_assert_uint_eq(of(s, "idc")->figures.most_bps, _i == MUTE ? 48000 : 96000);
    bench_fini(&b);
}
END_TEST

START_TEST(without_any_node_the_advice_comes_at_once_and_the_next_can_be_asked_for)
{
    struct bench b;
    const struct suggestion *s;

    bench_init(&b);
    device_hang_up(&b.nodes[0]);
    device_hang_up(&b.nodes[1]);
    for (unsigned i = 0; i < 2; i++) {
        ask(&b, 5);
        s = answer(&b);
        ck_assert_uint_eq(s->traffic.unmeasured_count, 2);
        check(s, "local", 0, 0, WEIGHT_UNKNOWN, POLICY_XGW_H);
    }
    bench_fini(&b);
}
END_TEST

/* ---- weights ---- */

enum { SERVICES = 6, DRAWS = 300 };

/* Whether the largest services that together have 80 % include this one, of values that
 * are all known. */
static bool is_heavy(const uint64_t value[SERVICES], unsigned i, uint64_t total)
{
    uint64_t before = 0;

    for (unsigned k = 0; k < SERVICES; k++) {
        before += value[k] > value[i] ? value[k] : 0;
    }
    return value[i] > 0 && before * 10 < total * 8;
}

/* Values within the intervals, their sum what is left to them: from the least upwards,
 * in a random order, as much as there is room for or a random part of it. */
static void draw_values(const struct service_advice *s, uint64_t total,
                        uint64_t value[SERVICES])
{
    uint64_t left = total;
    unsigned first = draw(SERVICES);

    for (unsigned i = 0; i < SERVICES; i++) {
        value[i] = s[i].figures.least_bps;
        left -= value[i];
    }
    for (unsigned n = 0; n < SERVICES; n++) {
        unsigned i = (first + n) % SERVICES;
        uint64_t more = s[i].figures.most_bps - value[i];

        more = more < left ? more : left;
        more = draw(2) ? more : draw((uint32_t)more + 1);
        value[i] += more;
        left -= more;
    }
}

START_TEST(what_is_called_heavy_or_light_is_so_wherever_the_services_are)
{
    unsigned said[4] = { 0 };

    seed = 77;
    for (unsigned round = 0; round < 2000; round++) {
        struct service_advice s[SERVICES] = { 0 };
        uint64_t total = 0;
        bool is_so = true;

        for (unsigned i = 0; i < SERVICES; i++) {
            s[i].figures.least_bps = draw(4) ? draw(1u << draw(10)) : 0;
            s[i].figures.most_bps =
                s[i].figures.least_bps + (draw(2) ? draw(1u << draw(8)) : 0);
            total += s[i].figures.least_bps;
        }
        total += draw(60);
        suggest_weigh(s, SERVICES, total);
        for (unsigned i = 0; i < SERVICES; i++) {
            said[s[i].figures.weight]++;
        }
        for (unsigned n = 0; n < DRAWS && total > 0; n++) {
            uint64_t value[SERVICES];

            draw_values(s, total, value);
            for (unsigned i = 0; i < SERVICES; i++) {
                enum service_weight w = s[i].figures.weight;

                is_so &= w != WEIGHT_HEAVY || is_heavy(value, i, total);
                is_so &= w != WEIGHT_LIGHT || !is_heavy(value, i, total);
            }
        }
        ck_assert(is_so);
    }
    ck_assert_uint_gt(said[WEIGHT_HEAVY], 500); /* it does say something */
    ck_assert_uint_gt(said[WEIGHT_LIGHT], 500);
    ck_assert_uint_gt(said[WEIGHT_EITHER], 500);
}
END_TEST

START_TEST(known_values_are_weighed_as_the_rule_says)
{
    seed = 78;
    for (unsigned round = 0; round < 2000; round++) {
        struct service_advice s[SERVICES] = { 0 };
        uint64_t value[SERVICES];
        uint64_t total = 0;

        for (unsigned i = 0; i < SERVICES; i++) {
            value[i] = draw(1u << draw(12));
            s[i].figures.least_bps = s[i].figures.most_bps = value[i];
            total += value[i];
        }
        suggest_weigh(s, SERVICES, total);
        for (unsigned i = 0; i < SERVICES && total > 0; i++) {
            ck_assert_int_eq(s[i].figures.weight,
                             is_heavy(value, i, total) ? WEIGHT_HEAVY : WEIGHT_LIGHT);
        }
    }
}
END_TEST

/* ---- the judgement with traffic ---- */

#define SETTLED(place_, weight_, least, most)                                          \
    .service = "idc", .place = (place_), .entries = 1000, .window_ms = DAY_MS,         \
    .age_ms = 8 * DAY_MS, .weight = (weight_), .least_bps = (least),                   \
    .most_bps = (most), .total_bps = 100

static const struct {
    struct service_figures f;
    enum policy_place want;
    const char *words;
} cases[] = {
    { { SETTLED(POLICY_XGW_X86, WEIGHT_HEAVY, 50, 60) }, POLICY_XGW_H, "50.0 to 60.0" },
    { { SETTLED(POLICY_XGW_H, WEIGHT_HEAVY, 50, 60) }, POLICY_XGW_H, "stays" },
    { { SETTLED(POLICY_XGW_H, WEIGHT_LIGHT, 1, 2) }, POLICY_XGW_X86, "light: 1.0 to" },
    { { SETTLED(POLICY_XGW_X86, WEIGHT_LIGHT, 1, 2) }, POLICY_XGW_X86, "stays" },
    { { SETTLED(POLICY_XGW_H, WEIGHT_EITHER, 1, 90) },
      POLICY_XGW_H,
      "or light: stays" },
    { { SETTLED(POLICY_XGW_X86, WEIGHT_EITHER, 1, 90) },
      POLICY_XGW_X86,
      "or light: stays" },
    /* Volatile. */
    { { SETTLED(POLICY_XGW_H, WEIGHT_HEAVY, 50, 60), .changes = 90000 },
      POLICY_XGW_H,
      "not known to be light: stays" },
    { { SETTLED(POLICY_XGW_H, WEIGHT_EITHER, 0, 60), .changes = 90000 },
      POLICY_XGW_H,
      "not known to be light: stays" },
    { { SETTLED(POLICY_XGW_H, WEIGHT_LIGHT, 0, 1), .changes = 90000 },
      POLICY_XGW_X86,
      "volatile" },
    { { SETTLED(POLICY_XGW_X86, WEIGHT_HEAVY, 50, 60), .changes = 90000 },
      POLICY_XGW_X86,
      "volatile" },
    /* Its age is not known. */
    { { .service = "idc",
        .place = POLICY_XGW_X86,
        .entries = 10,
        .window_ms = DAY_MS,
        .age_ms = DAY_MS,
        .is_older = true,
        .weight = WEIGHT_HEAVY,
        .least_bps = 50,
        .most_bps = 50,
        .total_bps = 100 },
      POLICY_XGW_X86,
      "only known to be 24 h old" },
};

START_TEST(traffic_decides_where_nothing_else_does)
{
    const struct suggest_limits limits = { SUGGEST_WATCH_MS, SUGGEST_MATURE_MS };
    char reason[SUGGEST_REASON_MAX + 1] = "";

    ck_assert_int_eq(suggest_judge(&limits, &cases[_i].f, reason), cases[_i].want);
    ck_assert_msg(strstr(reason, cases[_i].words), "%s", reason);
    ck_assert_uint_lt(strlen(reason), SUGGEST_REASON_MAX);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("traffic");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, what_was_measured_of_tenants_counts_for_their_clusters);
    tcase_add_test(tc, known_traffic_of_three_tenants_leads_to_the_advice);
    tcase_add_test(tc, no_traffic_or_no_look_calls_nothing_heavy_or_light);
    tcase_add_test(tc, what_a_vni_reaches_by_peers_may_be_any_of_their_services);
    tcase_add_test(tc, what_is_not_counted_one_by_one_may_be_anybodys);
    tcase_add_test(tc, a_counter_that_is_another_one_or_began_anew_says_nothing);
    tcase_add_loop_test(tc, a_node_that_does_not_answer_is_named_and_the_others_count,
                        0, TROUBLES);
    tcase_add_test(
        tc, without_any_node_the_advice_comes_at_once_and_the_next_can_be_asked_for);
    tcase_add_test(tc, what_is_called_heavy_or_light_is_so_wherever_the_services_are);
    tcase_add_test(tc, known_values_are_weighed_as_the_rule_says);
    tcase_add_loop_test(tc, traffic_decides_where_nothing_else_does, 0,
                        ARRAY_LEN(cases));
    return unit_run("traffic", tc);
}
