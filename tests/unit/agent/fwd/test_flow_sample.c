#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "agent/fwd/flow_sample.h"
#include "tests/unit/agent/fwd/fixture.h"
#include "tests/unit/agent/fwd/flows.h"

static struct flow_key parsed_key(const struct fixture *x, struct frame *f)
{
    struct fwd_packet p = { .data = f->b, .length = f->n };
    struct flow_key key;
    struct layers l;

    ck_assert_uint_eq(parse_outer(x->config, &p, &l), 0);
    ck_assert_uint_eq(parse_inner(&p, &l), 0);
    memset(&key, 0xee, sizeof(key));
    flow_key_of(&p, &l, &key);
    return key;
}

START_TEST(a_key_is_the_vni_and_the_inner_five_tuple)
{
    static const struct {
        int inner;
        unsigned proto;
        unsigned frag;
        bool has_ports;
    } cases[] = {
        { 4, 17, 0, true },       { 4, 6, 0, true },   { 4, 1, 0, false },
        { 4, 17, 0x2000, false }, { 4, 17, 7, false }, { 6, 17, 0, true },
        { 6, 6, 0, true },        { 6, 17, 8, false },
    };
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame_spec spec = frame_spec(i % 2 ? 4 : 6, cases[i].inner);
        struct flow_key want = { .vni = 10 };
        struct flow_key got;
        struct frame f;
        unsigned size = cases[i].inner == 4 ? 4 : 16;

        spec.inner_proto = cases[i].proto;
        spec.inner_frag = cases[i].frag;
        frame_make(&spec, &f);
        memcpy(want.src, f.b + f.inner_l3 + (cases[i].inner == 4 ? 12 : 8), size);
        memcpy(want.dst, f.b + f.inner_l3 + (cases[i].inner == 4 ? 16 : 24), size);
        want.family = cases[i].inner == 4 ? IP_V4 : IP_V6;
        want.proto = (uint8_t)cases[i].proto;
        if (cases[i].has_ports) {
            want.sport = (uint16_t)get16(f.b + f.inner_l4);
            want.dport = (uint16_t)get16(f.b + f.inner_l4 + 2);
        }
        got = parsed_key(&x, &f);
        ck_assert_msg(memcmp(&got, &want, sizeof(want)) == 0, "case %u", i);
    }
    fixture_fini(&x);
}
END_TEST

/* ---- real flows, sampled ---- */

enum { FLOWS = 20000, VNIS = 40, TOP = 10, BURST_MAX = 128 };

/* A frame's first bytes; its length is the flow's own. */
struct traffic {
    uint8_t (*head)[160];
    struct fwd_packet *packet; /* by flow */
    uint64_t *had;
    double gap; /* no mean was longer */
    uint64_t tenant_had[VNIS];
    double tenant_squares[VNIS];
};

static void make_traffic(struct traffic *t, const struct flows *f)
{
    struct frame_spec spec = frame_spec(4, 4);
    struct frame frame;

    t->head = calloc(FLOWS, sizeof(*t->head));
    t->packet = calloc(FLOWS, sizeof(*t->packet));
    t->had = calloc(FLOWS, sizeof(*t->had));
    memset(t->tenant_had, 0, sizeof(t->tenant_had));
    memset(t->tenant_squares, 0, sizeof(t->tenant_squares));
    spec.payload = 20;
    for (uint32_t i = 0; i < FLOWS; i++) {
        char src[32];

        snprintf(src, sizeof(src), "10.%u.%u.1", i >> 8, i & 255);
        spec.inner_src = src;
        spec.vni = 100 + i % VNIS;
        frame_make(&spec, &frame);
        memcpy(t->head[i], frame.b, frame.n);
        t->packet[i].data = t->head[i];
        t->packet[i].length = frame.n;
        t->had[i] = (uint64_t)f->flow[i].packets * frame.n;
        t->tenant_had[i % VNIS] += t->had[i];
        t->tenant_squares[i % VNIS] += (double)t->had[i] * frame.n;
    }
}

static void send_all(struct flow_sample *s, const struct fwd_config *config,
                     const struct traffic *t, const struct flows *f, uint64_t *random)
{
    struct fwd_packet burst[BURST_MAX];
    uint32_t at = 0;

    while (at < f->packet_count) {
        uint32_t n = 1 + (uint32_t)(flows_random(random) % BURST_MAX);

        n = n < f->packet_count - at ? n : f->packet_count - at;
        for (uint32_t i = 0; i < n; i++) {
            burst[i] = t->packet[f->order[at + i]];
        }
        flow_sample_burst(s, config, burst, n);
        at += n;
    }
}

/* Six standard errors of a sum of samples, each with the chance 1 / gap (that is above
 * the truth: gaps between 1 and twice the mean vary less), and what the sketch itself
 * may miss. */
static double allowed(double gap, double squares, uint64_t error)
{
    return 6 * sqrt(gap * squares) + (double)error;
}

static void check_list(const struct top_sketch *s, const struct traffic *t,
                       bool is_flow)
{
    const struct top_sketch *all[] = { s };
    struct top_entry list[TOP];
    uint64_t rest = 0;
    uint32_t n = 0;

    ck_assert_int_eq(top_sketch_merge(all, 1, list, TOP, &n, &rest), RC_OK);
    ck_assert_uint_eq(n, TOP);
    for (uint32_t i = 0; i < n; i++) {
        const struct flow_key *key = &list[i].key;
        uint32_t flow = (uint32_t)key->src[1] << 8 | key->src[2];
        uint32_t tenant = key->vni - 100;
        double had = (double)(is_flow ? t->had[flow] : t->tenant_had[tenant]);
        double squares =
            is_flow ? had * t->packet[flow].length : t->tenant_squares[tenant];
        double off = fabs((double)list[i].bytes - had);

        ck_assert_msg(off <= allowed(t->gap, squares, list[i].error),
                      "%s %u: %.0f, not %.0f", is_flow ? "flow" : "tenant", i,
                      (double)list[i].bytes, had);
        if (i < 3) {
            printf("  %s %u: %.0f bytes, by samples %lu (%+.1f %%)\n",
                   is_flow ? "flow" : "tenant", i, had, (unsigned long)list[i].bytes,
                   100 * ((double)list[i].bytes - had) / had);
        }
    }
}

/* A flow that is above the last one listed by more than six standard errors is listed;
 * at least one is. */
static void check_heaviest(const struct top_sketch *s, const struct traffic *t)
{
    const struct top_sketch *all[] = { s };
    struct top_entry list[TOP];
    unsigned clear = 0;
    uint64_t rest = 0;
    uint32_t n = 0;

    ck_assert_int_eq(top_sketch_merge(all, 1, list, TOP, &n, &rest), RC_OK);
    for (uint32_t i = 0; i < FLOWS; i++) {
        double had = (double)t->had[i];
        bool is_listed = false;

        if (had - allowed(t->gap, had * t->packet[i].length, 0) <=
            (double)list[n - 1].bytes) {
            continue;
        }
        clear++;
        for (uint32_t k = 0; k < n; k++) {
            const struct flow_key *key = &list[k].key;

            is_listed = is_listed || ((uint32_t)key->src[1] << 8 | key->src[2]) == i;
        }
        ck_assert_msg(is_listed, "flow %u of %.0f bytes lacks", i, had);
    }
    ck_assert_uint_ge(clear, 1);
}

START_TEST(samples_tell_the_heaviest_of_real_flows_within_six_standard_errors)
{
    struct flow_sample s;
    struct flow_sample_pair *pair;
    uint64_t random = (uint64_t)_i + 1;
    struct traffic t;
    struct flows f;
    struct fixture x;

    fixture_init(&x, NULL);
    flows_make(&f, FLOWS, (uint64_t)_i + 3);
    make_traffic(&t, &f);
    ck_assert_int_eq(flow_sample_init(&s, random), RC_OK);
    send_all(&s, x.config, &t, &f, &random);
    pair = flow_sample_swap(&s);
    t.gap = s.gap > BURST_MAX ? s.gap : BURST_MAX;
    printf("%s flows, %u packets:\n", f.is_real ? "real" : "invented", f.packet_count);
    check_list(pair->flows, &t, true);
    check_list(pair->tenants, &t, false);
    check_heaviest(pair->flows, &t);
    /* The other pair has seen nothing, and fills from now on. */
    ck_assert_uint_eq(top_sketch_total(s.pair[1].flows), 0);
    send_all(&s, x.config, &t, &f, &random);
    ck_assert_ptr_eq(flow_sample_swap(&s), &s.pair[1]);
    check_list(s.pair[1].flows, &t, true);
    flow_sample_fini(&s);
    flows_fini(&f);
    free(t.head);
    free(t.packet);
    free(t.had);
    fixture_fini(&x);
}
END_TEST

/* Every 64th packet is of another flow: whoever looks at each 64th sees it always, or
 * never. */
START_TEST(traffic_with_the_period_of_the_gap_is_seen_as_it_is)
{
    enum { PERIOD = 64, PACKETS = 1 << 19 }; /* the gap stays that of the burst */
    struct frame_spec spec = frame_spec(4, 4);
    struct frame frames[2];
    struct fwd_packet packets[PERIOD];
    struct flow_sample s;
    struct top_entry list[3];
    struct fixture x;
    double want;
    uint64_t rest = 0;
    uint32_t n = 0;

    fixture_init(&x, NULL);
    frame_make(&spec, &frames[0]);
    spec.inner_src = "10.0.0.9";
    frame_make(&spec, &frames[1]);
    for (unsigned i = 0; i < PERIOD; i++) {
        packets[i] =
            (struct fwd_packet){ .data = frames[i == 5].b, .length = frames[i == 5].n };
    }
    ck_assert_int_eq(flow_sample_init(&s, 1), RC_OK);
    for (unsigned at = 0; at < PACKETS; at += PERIOD) {
        flow_sample_burst(&s, x.config, packets, PERIOD);
    }
    ck_assert_int_eq(
        top_sketch_merge((const struct top_sketch *const[]){ s.pair[0].flows }, 1, list,
                         3, &n, &rest),
        RC_OK);
    ck_assert_uint_eq(n, 2);
    want = (double)PACKETS / PERIOD * frames[1].n;
    ck_assert_uint_eq(list[1].key.src[3], 9);
    ck_assert_double_le(fabs((double)list[1].bytes - want),
                        allowed(PERIOD, want * frames[1].n, 0));
    flow_sample_fini(&s);
    fixture_fini(&x);
}
END_TEST

/* What a sample costs is bounded by their number. */
START_TEST(a_worker_at_rest_looks_at_every_packet_and_a_busy_one_at_ever_fewer)
{
    enum { BURSTS = 200000, BURST = 128 };
    struct frame_spec spec = frame_spec(4, 4);
    const struct top_sketch *all[1];
    struct fwd_packet packets[BURST];
    struct flow_sample s;
    struct top_entry first;
    struct frame frame;
    struct fixture x;
    uint64_t rest = 0;
    uint32_t n = 0;

    fixture_init(&x, NULL);
    frame_make(&spec, &frame);
    for (unsigned i = 0; i < BURST; i++) {
        packets[i] = (struct fwd_packet){ .data = frame.b, .length = frame.n };
    }
    ck_assert_int_eq(flow_sample_init(&s, 3), RC_OK);
    for (unsigned i = 0; i < 1000; i++) { /* one by one: exact */
        flow_sample_burst(&s, x.config, packets, 1);
    }
    all[0] = s.pair[0].flows;
    ck_assert_int_eq(top_sketch_merge(all, 1, &first, 1, &n, &rest), RC_OK);
    ck_assert_uint_eq(first.bytes, 1000u * frame.n);
    for (unsigned i = 0; i < BURSTS; i++) {
        flow_sample_burst(&s, x.config, packets, BURST);
    }
    /* 25.6 M packets: a budget of gaps of 128 is 2.1 M, of 256 4.2 M, of 512 8.4 M. */
    ck_assert_uint_ge(s.gap, 1024);
    ck_assert_uint_le(s.gap, 2048);
    ck_assert_int_eq(top_sketch_merge(all, 1, &first, 1, &n, &rest), RC_OK);
    ck_assert_double_eq_tol((double)first.bytes, (double)BURSTS * BURST * frame.n,
                            0.03 * BURSTS * BURST * frame.n);
    flow_sample_fini(&s);
    fixture_fini(&x);
}
END_TEST

START_TEST(what_is_no_vxlan_to_us_is_passed_over)
{
    struct frame_spec spec = frame_spec(4, 4);
    struct fwd_packet packets[3];
    struct frame frames[3];
    struct flow_sample s;
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < 3; i++) {
        frame_make(&spec, &frames[i]);
        packets[i] = (struct fwd_packet){ .data = frames[i].b, .length = frames[i].n };
    }
    put16(frames[0].b + frames[0].udp + 2, 53);
    frames[1].b[frames[1].inner_l3] = 0x35;
    packets[2].length = 20;
    ck_assert_int_eq(flow_sample_init(&s, 5), RC_OK);
    for (unsigned i = 0; i < 10000; i++) {
        flow_sample_burst(&s, x.config, packets, 3);
    }
    ck_assert_uint_eq(top_sketch_total(s.pair[0].flows), 0);
    ck_assert_uint_eq(top_sketch_total(s.pair[0].tenants), 0);
    flow_sample_fini(&s);
    fixture_fini(&x);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("flow_sample");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_key_is_the_vni_and_the_inner_five_tuple);
    tcase_add_loop_test(
        tc, samples_tell_the_heaviest_of_real_flows_within_six_standard_errors, 0, 3);
    tcase_add_test(tc, traffic_with_the_period_of_the_gap_is_seen_as_it_is);
    tcase_add_test(tc,
                   a_worker_at_rest_looks_at_every_packet_and_a_busy_one_at_ever_fewer);
    tcase_add_test(tc, what_is_no_vxlan_to_us_is_passed_over);
    return unit_run("flow_sample", tc);
}
