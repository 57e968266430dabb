/* fwd_burst() as its caller sees it: verdicts of the tables, bursts, counters, limits,
 * uplinks, several workers. */
#include <pthread.h>
#include <string.h>

#include "tests/unit/agent/fwd/fixture.h"
#include "tests/unit/unit.h"

static void no_vip6(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)uplinks;
    node->vip_count = 1;
}

static void no_uplink6(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)uplinks;
    node->uplink_count = 2;
}

static void unresolved6(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)node;
    uplinks[2].has_next_hop_mac = false;
    uplinks[3].has_next_hop_mac = false;
}

static void small_mtu6(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)node;
    uplinks[2].mtu = 1280;
    uplinks[3].mtu = 1280;
}

struct table_case {
    const char *dst;
    unsigned ttl, payload;
    fixture_change_fn *change;
    unsigned reason;
};

static const struct table_case table_cases[] = {
    { "172.16.0.1", 64, 40, NULL, DROP_ROUTE_MISS },
    { "10.0.0.99", 64, 40, NULL, DROP_VM_NC_MISS },
    { "10.0.1.99", 64, 40, NULL, DROP_VM_NC_MISS }, /* in the peer */
    { "10.0.4.1", 64, 40, NULL, DROP_NO_SNAT },
    { "10.0.5.1", 64, 40, NULL, DROP_SERVICE_UNBOUND },
    { "10.0.6.1", 64, 40, NULL, DROP_PEER_LIMIT },
    { "10.0.1.99", 1, 40, NULL, DROP_VM_NC_MISS },  /* before the inner TTL */
    { "10.0.1.6", 1, 40, no_vip6, DROP_INNER_TTL }, /* before the VIP */
    { "10.0.0.6", 64, 40, no_vip6, DROP_NO_VIP },
    { "10.0.0.6", 64, 40, no_uplink6, DROP_NO_UPLINK },
    { "10.0.0.6", 64, 40, unresolved6, DROP_NEXT_HOP_UNRESOLVED },
    { "10.0.0.6", 64, 1400, unresolved6, DROP_NEXT_HOP_UNRESOLVED }, /* before MTU */
    { "10.0.0.6", 64, 1400, small_mtu6, DROP_MTU },
    { "10.0.0.6", 64, 1400, NULL, DROP_NONE },
};

START_TEST(what_the_tables_and_uplinks_refuse_has_its_reason_and_its_order)
{
    for (unsigned i = 0; i < ARRAY_LEN(table_cases); i++) {
        const struct table_case *c = &table_cases[i];
        struct frame_spec s = frame_spec(4, 4);
        struct fixture x;
        struct frame f;
        struct outcome o;

        fixture_init(&x, c->change);
        s.inner_dst = c->dst;
        s.inner_ttl = c->ttl;
        s.payload = c->payload;
        frame_make(&s, &f);
        fixture_run(&x, f.b, f.n, FWD_HEADROOM, 0, &o);
        ck_assert_msg(o.packet.reason == c->reason, "%s (%u): %s", c->dst, i,
                      drop_reason_name(o.packet.reason));
        outcome_fini(&o);
        fixture_fini(&x);
    }
}
END_TEST

START_TEST(a_gateway_that_is_not_ready_drops_everything_and_reads_no_table)
{
    struct fixture x;
    struct frame_spec s = frame_spec(4, 4);
    struct frame f;
    struct outcome o;

    fixture_init(&x, NULL);
    x.view = (struct fwd_view){ NULL, NULL, false };
    frame_make(&s, &f);
    for (unsigned n = 0; n < 3; n++) {
        f.b[12] = n == 1 ? 0xff : 0x08; /* what it is does not matter, ARP neither */
        f.b[13] = n == 2 ? 0x06 : 0x00;
        fixture_run(&x, f.b, n == 0 ? 0 : f.n, 0, 0, &o);
        ck_assert_uint_eq(o.packet.verdict, FWD_DROP);
        ck_assert_uint_eq(o.packet.reason, DROP_NOT_READY);
        outcome_fini(&o);
    }
    ck_assert_uint_eq(fixture_totals(&x).drops[DROP_NOT_READY], 3);
    fixture_fini(&x);
}
END_TEST

/* ---- bursts ---- */

#define MANY 150

/* A mix of everything: forwarded both ways, dropped early and late, answered, local. */
static void make_mixed(unsigned i, struct frame *f)
{
    static const char *const dst[] = { "10.0.0.4", "10.0.0.6", "10.0.1.4", "10.0.0.99",
                                       "10.0.9.9" };
    struct frame_spec s = frame_spec(i % 3 == 0 ? 6 : 4, 4);

    s.inner_dst = dst[i % 5];
    s.inner_ttl = i % 7 == 0 ? 1 : 64;
    s.seed = i * 2654435761u;
    frame_make(&s, f);
    if (i % 11 == 0) {
        f->b[f->vxlan] = 0;
    } else if (i % 13 == 0) {
        f->b[12] = 0x08;
        f->b[13] = 0x06;
    }
}

static struct fwd_answers answers_new(unsigned room)
{
    struct fwd_answers a = { .at = calloc(room + 1, sizeof(*a.at)), .room = room };

    ck_assert_ptr_nonnull(a.at);
    for (unsigned i = 0; i < room; i++) {
        a.at[i].data = malloc(FWD_ANSWER_SIZE);
        ck_assert_ptr_nonnull(a.at[i].data);
    }
    return a;
}

static void answers_free(struct fwd_answers *a)
{
    for (unsigned i = 0; i < a->room; i++) {
        free(a->at[i].data);
    }
    free(a->at);
}

static void packet_of(const struct frame *f, struct fwd_packet *p)
{
    uint8_t *buffer = malloc(FWD_HEADROOM + f->n);

    ck_assert_ptr_nonnull(buffer);
    memcpy(buffer + FWD_HEADROOM, f->b, f->n);
    *p = (struct fwd_packet){ .data = buffer + FWD_HEADROOM,
                              .length = f->n,
                              .headroom = FWD_HEADROOM };
}

static void packet_free(struct fwd_packet *p)
{
    free(p->data - p->headroom);
}

START_TEST(a_burst_of_any_length_gives_each_packet_what_it_gets_alone)
{
    struct fixture alone;
    struct fixture many;
    struct fwd_packet packets[MANY];
    struct frame f;

    fixture_init(&alone, NULL);
    fixture_init(&many, NULL);
    for (unsigned n = 0; n <= MANY; n += n < 70 ? 1 : 40) {
        struct fwd_answers answers = answers_new(MANY);
        unsigned next = 0;

        for (unsigned i = 0; i < n; i++) {
            make_mixed(i, &f);
            packet_of(&f, &packets[i]);
        }
        fwd_burst(&many.view, many.worker, 0, packets, n, &answers);
        for (unsigned i = 0; i < n; i++) {
            struct outcome o;

            make_mixed(i, &f);
            fixture_run(&alone, f.b, f.n, FWD_HEADROOM, 0, &o);
            ck_assert_uint_eq(packets[i].verdict, o.packet.verdict);
            ck_assert_uint_eq(packets[i].reason, o.packet.reason);
            ck_assert_uint_eq(packets[i].local, o.packet.local);
            ck_assert_uint_eq(packets[i].uplink, o.packet.uplink);
            ck_assert_uint_eq(packets[i].length, o.packet.length);
            ck_assert_mem_eq(packets[i].data, o.packet.data, o.packet.length);
            if (o.has_answer) {
                ck_assert_uint_lt(next, answers.count);
                ck_assert_uint_eq(answers.at[next].about, i);
                ck_assert_uint_eq(answers.at[next].length, o.answer.length);
                ck_assert_mem_eq(answers.at[next].data, o.answer.data, o.answer.length);
                next++;
            }
            outcome_fini(&o);
            packet_free(&packets[i]);
        }
        ck_assert_uint_eq(next, answers.count);
        answers_free(&answers);
        fixture_check_counters(&many);
    }
    ck_assert_uint_gt(fixture_totals(&many).forwarded, 0);
    ck_assert_uint_gt(fixture_totals(&many).local, 0);
    ck_assert_uint_gt(fixture_totals(&many).icmp_sent, 0);
    ck_assert_uint_gt(fixture_totals(&many).drops[DROP_VXLAN_I_FLAG], 0);
    fixture_fini(&many);
    fixture_fini(&alone);
}
END_TEST

/* ---- limits ---- */

/* Sends `n` packets, each of which asks for an answer. */
static void send_expired(struct fixture *x, uint64_t now_ns, unsigned n,
                         struct fwd_answers *answers)
{
    struct frame_spec s = frame_spec(4, 4);
    struct fwd_packet packets[200];
    struct frame f;

    s.inner_dst = "10.0.1.4";
    s.inner_ttl = 1;
    frame_make(&s, &f);
    ck_assert_uint_le(n, ARRAY_LEN(packets));
    for (unsigned i = 0; i < n; i++) {
        packet_of(&f, &packets[i]);
    }
    fwd_burst(&x->view, x->worker, now_ns, packets, n, answers);
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_eq(packets[i].reason, DROP_INNER_TTL);
        packet_free(&packets[i]);
    }
    fixture_check_counters(x);
}

START_TEST(answers_are_limited_to_the_burst_and_then_to_the_rate)
{
    const uint64_t second = UINT64_C(1000000000);
    struct fwd_answers answers = answers_new(200);
    struct fixture x;
    uint64_t now = 5 * second;

    fixture_init(&x, NULL);
    fwd_worker_init(x.worker, 100, 20); /* one in 10 ms */
    send_expired(&x, now, 50, &answers);
    ck_assert_uint_eq(answers.count, 20);
    send_expired(&x, now, 50, &answers);
    ck_assert_uint_eq(answers.count, 0);
    now += second / 1000 * 9;
    send_expired(&x, now, 1, &answers);
    ck_assert_uint_eq(answers.count, 0);
    now += second / 1000;
    send_expired(&x, now, 5, &answers);
    ck_assert_uint_eq(answers.count, 1);
    now += second / 10;
    send_expired(&x, now, 50, &answers);
    ck_assert_uint_eq(answers.count, 10);
    now += 3600 * second;
    send_expired(&x, now, 200, &answers);
    ck_assert_uint_eq(answers.count, 20);
    ck_assert_uint_eq(fixture_totals(&x).icmp_sent, 20 + 1 + 10 + 20);
    ck_assert_uint_eq(fixture_totals(&x).icmp_limited, 30 + 50 + 1 + 4 + 40 + 180);
    fixture_fini(&x);
    answers_free(&answers);
}
END_TEST

START_TEST(an_answer_without_a_buffer_is_counted_and_costs_no_token)
{
    struct fwd_answers answers = answers_new(3);
    struct fixture x;

    fixture_init(&x, NULL);
    fwd_worker_init(x.worker, 1, 4);
    send_expired(&x, 0, 10, &answers);
    ck_assert_uint_eq(answers.count, 3);
    ck_assert_uint_eq(fixture_totals(&x).icmp_no_buffer, 7);
    send_expired(&x, 0, 1, NULL);
    ck_assert_uint_eq(fixture_totals(&x).icmp_no_buffer, 8);
    send_expired(&x, 0, 2, &answers);
    ck_assert_uint_eq(answers.count, 1); /* the fourth token */
    ck_assert_uint_eq(fixture_totals(&x).icmp_limited, 1);
    ck_assert_uint_eq(fixture_totals(&x).drops[DROP_INNER_TTL], 13);
    fixture_fini(&x);
    answers_free(&answers);
}
END_TEST

/* ---- uplinks ---- */

static void four_v4(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    uplinks[2] = uplinks[0];
    uplinks[3] = uplinks[1];
    for (unsigned i = 0; i < node->uplink_count; i++) {
        uplinks[i].port = (uint16_t)i;
        uplinks[i].has_next_hop_mac = false;
    }
}

/* The uplink of a flow to 10.0.0.4; 255 when it is dropped. */
static unsigned uplink_of(struct fixture *x, const struct frame_spec *s)
{
    struct frame f;
    struct outcome o;
    unsigned uplink;

    frame_make(s, &f);
    fixture_run(x, f.b, f.n, FWD_HEADROOM, 0, &o);
    uplink = o.packet.verdict == FWD_FORWARD ? o.packet.uplink : 255;
    outcome_fini(&o);
    return uplink;
}

static struct frame_spec flow(unsigned i)
{
    struct frame_spec s = frame_spec(4, 4);

    s.seed = 0x04d20000 + i; /* ports 1234 and i */
    return s;
}

#define FLOWS 2000

START_TEST(flows_spread_evenly_and_a_lost_uplink_moves_its_own_flows_only)
{
    static const uint8_t mac[6] = { 2, 9, 9, 9, 9, 9 };
    static uint8_t before[FLOWS];
    unsigned per_uplink[4] = { 0 };
    unsigned moved[4] = { 0 };
    struct fixture x;

    fixture_init(&x, four_v4);
    for (unsigned i = 0; i < 4; i++) {
        fwd_config_set_mac(x.config, i, mac);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        struct frame_spec s = flow(i);

        before[i] = (uint8_t)uplink_of(&x, &s);
        ck_assert_uint_lt(before[i], 4);
        per_uplink[before[i]]++;
    }
    for (unsigned i = 0; i < 4; i++) { /* 4 standard deviations of 2,000 draws */
        ck_assert_uint_ge(per_uplink[i], FLOWS / 4 - 78);
        ck_assert_uint_le(per_uplink[i], FLOWS / 4 + 78);
    }
    fwd_config_clear_mac(x.config, 2);
    for (unsigned i = 0; i < FLOWS; i++) {
        struct frame_spec s = flow(i);
        unsigned now = uplink_of(&x, &s);

        ck_assert_uint_ne(now, 2);
        if (before[i] != 2) {
            ck_assert_uint_eq(now, before[i]);
        } else {
            moved[now]++;
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(i == 2 || moved[i] > per_uplink[2] / 4);
    }
    fwd_config_set_mac(x.config, 2, mac);
    for (unsigned i = 0; i < FLOWS; i += 17) {
        struct frame_spec s = flow(i);

        ck_assert_uint_eq(uplink_of(&x, &s), before[i]);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(all_fragments_of_a_datagram_take_one_uplink_whatever_its_ports)
{
    static const uint8_t mac[6] = { 2, 9, 9, 9, 9, 9 };
    struct fixture x;
    unsigned seen = 0;

    fixture_init(&x, four_v4);
    for (unsigned i = 0; i < 4; i++) {
        fwd_config_set_mac(x.config, i, mac);
    }
    for (unsigned i = 0; i < 400; i++) {
        struct frame_spec s = flow(i * 7919);
        char src[32];
        unsigned first;

        snprintf(src, sizeof(src), i % 2 ? "10.0.0.%u" : "2001:db8:10::%x",
                 i % 200 + 7);
        if (i % 2 == 0) {
            s = frame_spec(4, 6);
        }
        s.inner_src = src;
        s.sport = 40000 + i;
        s.inner_frag = i % 2 ? 0x2000 : 0x0001;
        first = uplink_of(&x, &s);
        ck_assert_uint_lt(first, 4);
        seen |= 1u << first;
        s.seed = 0x77777777;
        s.inner_frag = i % 2 ? 0x20b9 : 0x05c9;
        ck_assert_uint_eq(uplink_of(&x, &s), first);
        s.seed = 0x12345678;
        s.inner_frag = i % 2 ? 0x0172 : 0x0b90;
        ck_assert_uint_eq(uplink_of(&x, &s), first);
    }
    ck_assert_uint_eq(seen, 15);
    fixture_fini(&x);
}
END_TEST

START_TEST(next_hops_are_unresolved_until_the_resolver_says_otherwise)
{
    static const uint8_t mac[6] = { 2, 9, 8, 7, 6, 5 };
    struct frame_spec s = frame_spec(4, 4);
    struct fixture x;
    struct frame f;
    struct outcome o;

    fixture_init(&x, four_v4);
    frame_make(&s, &f);
    fixture_run(&x, f.b, f.n, FWD_HEADROOM, 0, &o);
    ck_assert_uint_eq(o.packet.reason, DROP_NEXT_HOP_UNRESOLVED);
    outcome_fini(&o);
    fwd_config_set_mac(x.config, 1, mac);
    fixture_run(&x, f.b, f.n, FWD_HEADROOM, 0, &o);
    ck_assert_uint_eq(o.packet.verdict, FWD_FORWARD);
    ck_assert_uint_eq(o.packet.uplink, 1);
    ck_assert_mem_eq(o.packet.data, mac, 6);
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

/* ---- several threads ---- */

struct runner {
    struct fixture *x;
    struct fwd_worker *worker;
    uint64_t forwarded;
    uint64_t dropped;
};

#define ROUNDS UINT64_C(60)

static void *run_worker(void *arg)
{
    struct runner *r = arg;
    struct frame f;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct fwd_packet packets[64];

        for (unsigned i = 0; i < 64; i++) {
            struct frame_spec s = flow(i * 31 + round);

            frame_make(&s, &f);
            packet_of(&f, &packets[i]);
        }
        fwd_burst(&r->x->view, r->worker, 0, packets, 64, NULL);
        for (unsigned i = 0; i < 64; i++) {
            r->forwarded += packets[i].verdict == FWD_FORWARD;
            r->dropped += packets[i].reason == DROP_NEXT_HOP_UNRESOLVED;
            packet_free(&packets[i]);
        }
    }
    return NULL;
}

START_TEST(workers_share_a_view_while_next_hops_change_and_counters_are_read)
{
    static const uint8_t mac[6] = { 2, 9, 9, 9, 9, 9 };
    struct fixture x;
    struct runner r[2] = { 0 };
    pthread_t thread[2];

    fixture_init(&x, four_v4);
    for (unsigned i = 0; i < 2; i++) {
        r[i].x = &x;
        r[i].worker = aligned_alloc(_Alignof(struct fwd_worker), sizeof(*r[i].worker));
        ck_assert_ptr_nonnull(r[i].worker);
        fwd_worker_init(r[i].worker, 0, 0);
        ck_assert_int_eq(pthread_create(&thread[i], NULL, run_worker, &r[i]), 0);
    }
    for (unsigned i = 0; i < 5000; i++) {
        struct fwd_totals t = { 0 };

        fwd_config_set_mac(x.config, i % 4, mac);
        fwd_config_clear_mac(x.config, (i + 1) % 4);
        fwd_worker_sum(r[i % 2].worker, &t);
        ck_assert_uint_le(t.received, 64 * ROUNDS);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct fwd_totals t = { 0 };

        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
        fwd_worker_sum(r[i].worker, &t);
        ck_assert_uint_eq(t.received, 64 * ROUNDS);
        ck_assert_uint_eq(t.forwarded, r[i].forwarded);
        ck_assert_uint_eq(t.drops[DROP_NEXT_HOP_UNRESOLVED], r[i].dropped);
        ck_assert_uint_eq(t.forwarded + r[i].dropped, t.received);
        free(r[i].worker);
    }
    fixture_fini(&x);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fwd");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, what_the_tables_and_uplinks_refuse_has_its_reason_and_its_order);
    tcase_add_test(tc, a_gateway_that_is_not_ready_drops_everything_and_reads_no_table);
    tcase_add_test(tc, a_burst_of_any_length_gives_each_packet_what_it_gets_alone);
    tcase_add_test(tc, answers_are_limited_to_the_burst_and_then_to_the_rate);
    tcase_add_test(tc, an_answer_without_a_buffer_is_counted_and_costs_no_token);
    tcase_add_test(tc, flows_spread_evenly_and_a_lost_uplink_moves_its_own_flows_only);
    tcase_add_test(tc, all_fragments_of_a_datagram_take_one_uplink_whatever_its_ports);
    tcase_add_test(tc, next_hops_are_unresolved_until_the_resolver_says_otherwise);
    tcase_add_test(tc,
                   workers_share_a_view_while_next_hops_change_and_counters_are_read);
    return unit_run("fwd", tc);
}
