/* ICMP errors: when one is sent, to whom, and every byte of it (RFC 792, 1122, 1812,
 * 4443; "ICMP errors" of tests/reference/README.md). */
#include <arpa/inet.h>
#include <string.h>

#include "tests/unit/agent/fwd/fixture.h"
#include "tests/unit/unit.h"

static void assert_ip(const uint8_t *bytes, const char *text)
{
    bool is_v6 = strchr(text, ':') != NULL;
    uint8_t expected[16];

    ck_assert_int_eq(inet_pton(is_v6 ? AF_INET6 : AF_INET, text, expected), 1);
    ck_assert_mem_eq(bytes, expected, is_v6 ? 16 : 4);
}

/* A packet that must be dropped for `reason`, with or without an answer. */
static void run(struct fixture *x, const struct frame *in, unsigned reason,
                bool answered, struct outcome *o, const char *what)
{
    fixture_run(x, in->b, in->n, FWD_HEADROOM, 0, o);
    ck_assert_msg(o->packet.verdict == FWD_DROP && o->packet.reason == reason,
                  "%s: verdict %u, %s", what, o->packet.verdict,
                  drop_reason_name(o->packet.reason));
    ck_assert_msg(o->has_answer == answered, "%s: answer %d", what, o->has_answer);
}

/* Outer headers of an answer to `in`. */
static void check_outer(const struct fixture *x, const struct frame *in,
                        const struct frame *out, const struct fwd_answer *a)
{
    const uint8_t *ip = out->b + out->l3;
    unsigned sport = 0xc000 | (get16(in->b + in->udp) & 0x3fff);

    ck_assert_uint_eq(out->is_v6, in->is_v6);
    ck_assert_uint_eq(x->config->uplink[a->uplink].family, in->is_v6 ? 6 : 4);
    ck_assert_mem_eq(out->b + 6, x->config->uplink[a->uplink].mac, 6);
    ck_assert_uint_eq(out->b[4], 1);
    ck_assert_uint_eq(out->b[5], a->uplink); /* the fixture's next hop MACs */
    ck_assert_uint_eq(get16(out->b + out->udp), sport);
    if (in->is_v6) {
        assert_ip(ip + 8, "2001:db8:f::100");
        ck_assert_mem_eq(ip + 24, in->b + in->l3 + 8, 16);
        ck_assert_uint_eq(get32(ip), 0x6c000000 | sport);
        ck_assert_uint_eq(ip[7], 64);
    } else {
        assert_ip(ip + 12, "192.0.2.100");
        ck_assert_mem_eq(ip + 16, in->b + in->l3 + 12, 4);
        ck_assert_uint_eq(ip[1], 0xc0);
        ck_assert_uint_eq(get32(ip + 4), 0x4000); /* id and offset 0, DF */
        ck_assert_uint_eq(ip[8], 64);
        ck_assert_uint_eq(get16(out->b + out->udp + 6), 0);
    }
    ck_assert_uint_eq(get32(out->b + out->vxlan + 4), get32(in->b + in->vxlan + 4));
}

/* Inner headers, checksum and quote. */
static void check_inner(const struct frame *in, const struct frame *out, unsigned type,
                        unsigned code, uint32_t word, unsigned quote)
{
    const uint8_t *from = in->b + in->inner_l3;
    const uint8_t *ip = out->b + out->inner_l3;
    const uint8_t *icmp = out->b + out->inner_l4;
    unsigned size = 8 + quote;
    uint32_t sum;

    ck_assert_mem_eq(out->b + out->inner_l2, in->b + in->inner_l2 + 6, 6);
    ck_assert_mem_eq(out->b + out->inner_l2 + 6, in->b + in->inner_l2, 6);
    ck_assert_uint_eq(out->inner_l3 - out->inner_l2, in->inner_l3 - in->inner_l2);
    ck_assert_mem_eq(out->b + out->inner_l2 + 12, in->b + in->inner_l2 + 12,
                     in->inner_l3 - in->inner_l2 - 12);
    ck_assert_uint_eq(out->n, out->inner_l4 + size);
    if (in->is_inner_v6) {
        assert_ip(ip + 8, "2001:db8:64::1");
        ck_assert_mem_eq(ip + 24, from + 8, 16);
        ck_assert_uint_eq(get32(ip), 0x6c000000);
        ck_assert_uint_eq(ip[6], 58);
        ck_assert_uint_eq(ip[7], 64);
        sum = plain_sum(0, ip + 8, 32);
        sum =
            plain_sum(sum, (const uint8_t[]){ (uint8_t)(size >> 8), (uint8_t)size }, 2);
        sum = plain_sum(sum, (const uint8_t[]){ 0, 58 }, 2);
    } else {
        assert_ip(ip + 12, "100.64.0.1");
        ck_assert_mem_eq(ip + 16, from + 12, 4);
        ck_assert_uint_eq(ip[1], 0xc0);
        ck_assert_uint_eq(get32(ip + 4), 0x4000);
        ck_assert_uint_eq(ip[8], 64);
        ck_assert_uint_eq(ip[9], 1);
        sum = 0;
    }
    ck_assert_uint_eq(plain_sum(sum, icmp, size), 0xffff);
    ck_assert_uint_eq(icmp[0], type);
    ck_assert_uint_eq(icmp[1], code);
    ck_assert_uint_eq(get32(icmp + 4), word);
    ck_assert_mem_eq(icmp + 8, from, quote);
}

/* `payload` makes the outer packet one byte longer than MTU 1500 allows. */
struct too_big_case {
    int outer, inner;
    const char *dst;
    uint32_t vni;
    unsigned tags;
    unsigned inner_max; /* the MTU told: 1500 - 50 or - 70, - 4 a tag */
};

static const struct too_big_case too_big[] = {
    { 4, 4, "10.0.0.4", 10, 0, 1450 },       { 4, 4, "10.0.0.6", 10, 0, 1430 },
    { 6, 4, "10.0.0.4", 10, 0, 1450 },       { 6, 4, "10.0.0.6", 10, 0, 1430 },
    { 4, 6, "2001:db8:10::4", 10, 0, 1450 }, { 4, 6, "2001:db8:10::6", 10, 0, 1430 },
    { 6, 6, "2001:db8:10::4", 10, 0, 1450 }, { 6, 6, "2001:db8:10::6", 10, 0, 1430 },
    { 4, 4, "10.0.0.4", 30, 1, 1446 },       { 6, 6, "2001:db8:10::6", 30, 2, 1422 },
};

START_TEST(a_packet_over_the_mtu_is_dropped_and_the_sender_told_the_size_that_fits)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(too_big); i++) {
        const struct too_big_case *c = &too_big[i];
        struct frame_spec s = frame_spec(c->outer, c->inner);
        struct frame in;
        struct frame out;
        struct outcome o;

        s.inner_dst = c->dst;
        s.inner_frag = c->inner == 4 ? 0x4000 : 0;
        s.vni = c->vni;
        s.inner_tags = c->tags;
        s.inner_ttl = 1; /* within a VPC nobody looks at it */
        s.payload = c->inner_max - (c->inner == 4 ? 20 : 40);
        frame_make(&s, &in);
        fixture_run(&x, in.b, in.n, FWD_HEADROOM, 0, &o);
        ck_assert_uint_eq(o.packet.verdict, FWD_FORWARD);
        ck_assert_uint_eq(o.packet.length, 14 + 1500);
        outcome_fini(&o);

        s.payload++;
        frame_make(&s, &in);
        run(&x, &in, DROP_MTU, true, &o, c->dst);
        frame_read(o.answer.data, o.answer.length, &out, !in.is_v6, false, "too big");
        check_outer(&x, &in, &out, &o.answer);
        if (c->inner == 4) {
            check_inner(&in, &out, 3, 4, c->inner_max, 576 - 28);
        } else {
            check_inner(&in, &out, 2, 0, c->inner_max, 1280 - 48);
        }
        outcome_fini(&o);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(without_df_a_v4_packet_over_the_mtu_is_dropped_in_silence)
{
    struct fixture x;
    struct frame_spec s = frame_spec(4, 4);
    struct frame in;
    struct outcome o;

    fixture_init(&x, NULL);
    s.payload = 1451 - 20;
    frame_make(&s, &in);
    run(&x, &in, DROP_MTU, false, &o, "no DF");
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

START_TEST(a_packet_of_9000_bytes_is_answered_and_never_fragmented)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct frame_spec s = frame_spec(kind & 1 ? 6 : 4, kind & 2 ? 6 : 4);
        struct frame in;
        struct outcome o;

        s.payload = 9000;
        s.inner_frag = s.inner == 4 ? 0x4000 : 0;
        frame_make(&s, &in);
        run(&x, &in, DROP_MTU, true, &o, "jumbo");
        outcome_fini(&o);
    }
    fixture_fini(&x);
}
END_TEST

/* Where the inner TTL is decremented, one that is used up is an error to the sender. */
START_TEST(an_inner_ttl_that_ends_is_time_exceeded_with_the_packet_as_it_came)
{
    static const char *const dst[] = { "10.0.1.4",         "10.0.1.6",
                                       "10.0.2.1",         "10.0.3.1",
                                       "10.0.7.1",         "10.0.8.1",
                                       "2001:db8:10:1::4", "2001:db8:10:2::4",
                                       "2001:db8:10:3::4" };
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(dst) * 4; i++) {
        int inner = strchr(dst[i / 4], ':') != NULL ? 6 : 4;
        struct frame_spec s = frame_spec(i & 1 ? 6 : 4, inner);
        unsigned quote = 40 + (inner == 4 ? 20 : 40);
        struct frame in;
        struct frame out;
        struct outcome o;

        s.inner_dst = dst[i / 4];
        s.inner_ttl = i & 2 ? 1 : 0;
        s.inner_padding = 6; /* not quoted */
        frame_make(&s, &in);
        run(&x, &in, DROP_INNER_TTL, true, &o, s.inner_dst);
        frame_read(o.answer.data, o.answer.length, &out, !in.is_v6, false, s.inner_dst);
        check_outer(&x, &in, &out, &o.answer);
        check_inner(&in, &out, inner == 4 ? 11 : 3, 0, 0, quote);
        outcome_fini(&o);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(within_a_vpc_the_inner_ttl_is_nobodys_business)
{
    struct fixture x;
    struct frame_spec s = frame_spec(4, 4);
    struct frame in;
    struct outcome o;

    fixture_init(&x, NULL);
    s.inner_ttl = 0;
    frame_make(&s, &in);
    fixture_run(&x, in.b, in.n, FWD_HEADROOM, 0, &o);
    ck_assert_uint_eq(o.packet.verdict, FWD_FORWARD);
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

/* What no error is ever sent about; all else about the packet asks for one. */
struct silent_case {
    const char *name;
    int inner;
    unsigned proto;
    unsigned type; /* first payload byte; 256: the payload is empty */
    unsigned frag;
    const char *src;
    bool group_mac;
    bool answered;
};

static const struct silent_case silent[] = {
    { "echo", 4, 1, 8, 0, NULL, false, true },
    { "echo reply", 4, 1, 0, 0, NULL, false, true },
    { "unreachable", 4, 1, 3, 0, NULL, false, false },
    { "source quench", 4, 1, 4, 0, NULL, false, false },
    { "redirect", 4, 1, 5, 0, NULL, false, false },
    { "time exceeded", 4, 1, 11, 0, NULL, false, false },
    { "parameter problem", 4, 1, 12, 0, NULL, false, false },
    { "ICMP without a type", 4, 1, 256, 0, NULL, false, false },
    { "type 3 of UDP is no ICMP", 4, 17, 3, 0, NULL, false, true },
    { "first fragment", 4, 17, 1, 0x2000, NULL, false, true },
    { "later fragment", 4, 17, 1, 0x2001, NULL, false, false },
    { "last fragment", 4, 17, 1, 0x0010, NULL, false, false },
    { "group MAC", 4, 17, 1, 0, NULL, true, false },
    { "from 0.0.0.0", 4, 17, 1, 0, "0.0.0.0", false, false },
    { "from 127.0.0.1", 4, 17, 1, 0, "127.0.0.1", false, false },
    { "from 224.0.0.1", 4, 17, 1, 0, "224.0.0.1", false, false },
    { "from 255.255.255.255", 4, 17, 1, 0, "255.255.255.255", false, false },
    { "echo v6", 6, 58, 128, 0, NULL, false, true },
    { "too big v6", 6, 58, 2, 0, NULL, false, false },
    { "type 127", 6, 58, 127, 0, NULL, false, false },
    { "ICMPv6 without a type", 6, 58, 256, 0, NULL, false, false },
    { "first fragment v6", 6, 17, 1, 0x0001, NULL, false, true },
    { "later fragment v6", 6, 17, 1, 0x0008, NULL, false, false },
    { "error in a first fragment", 6, 58, 1, 0x0001, NULL, false, false },
    { "group MAC v6", 6, 17, 1, 0, NULL, true, false },
    { "from ::", 6, 17, 1, 0, "::", false, false },
    { "from ::1", 6, 17, 1, 0, "::1", false, false },
    { "from ff02::1", 6, 17, 1, 0, "ff02::1", false, false },
    { "from fe80::1", 6, 17, 1, 0, "fe80::1", false, false },
};

START_TEST(no_error_is_sent_about_errors_fragments_groups_and_senders_that_are_none)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(silent); i++) {
        const struct silent_case *c = &silent[i];
        struct frame_spec s = frame_spec(4, c->inner);
        struct frame in;
        struct outcome o;

        s.inner_proto = c->proto;
        s.inner_frag = c->frag;
        s.inner_dst = c->inner == 4 ? "10.0.1.4" : "2001:db8:10:1::4";
        s.inner_src = c->src != NULL ? c->src : s.inner_src;
        s.inner_ttl = 1;
        s.payload = c->type == 256 ? 0 : 40;
        s.seed = c->type << 24;
        frame_make(&s, &in);
        in.b[in.inner_l2] |= c->group_mac;
        run(&x, &in, DROP_INNER_TTL, c->answered, &o, c->name);
        outcome_fini(&o);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(a_forwarded_packet_is_never_answered)
{
    struct fixture x;
    struct frame_spec s = frame_spec(4, 4);
    struct frame in;
    struct outcome o;

    fixture_init(&x, NULL);
    frame_make(&s, &in);
    fixture_run(&x, in.b, in.n, FWD_HEADROOM, 0, &o);
    ck_assert(!o.has_answer);
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

static void no_icmp_source(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)uplinks;
    node->icmp_source4 = (struct ip){ 0 };
    node->icmp_source6 = (struct ip){ 0 };
}

static void v4_unresolved(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)node;
    uplinks[0].has_next_hop_mac = false;
    uplinks[1].has_next_hop_mac = false;
}

static void only_v6_vip(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    static struct ip vip;

    (void)uplinks;
    vip = node->vips[1];
    node->vips = &vip;
    node->vip_count = 1;
}

START_TEST(without_a_source_a_vip_or_a_way_back_the_drop_is_silent)
{
    static fixture_change_fn *const changes[] = { no_icmp_source, v4_unresolved,
                                                  only_v6_vip };

    for (unsigned i = 0; i < ARRAY_LEN(changes); i++) {
        struct frame_spec s = frame_spec(4, 4);
        struct fixture x;
        struct frame in;
        struct outcome o;

        fixture_init(&x, changes[i]);
        s.outer_dst = "192.0.2.1"; /* the VTEP */
        s.inner_dst = "10.0.1.6";
        s.inner_ttl = 1;
        frame_make(&s, &in);
        run(&x, &in, DROP_INNER_TTL, false, &o, "silent");
        ck_assert_uint_eq(fixture_totals(&x).icmp_sent, 0);
        outcome_fini(&o);
        fixture_fini(&x);
    }
}
END_TEST

static void mtu_1280(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    for (unsigned i = 0; i < node->uplink_count; i++) {
        uplinks[i].mtu = 1280;
    }
}

START_TEST(an_error_is_cut_to_fit_the_uplink_it_leaves_by)
{
    struct fixture x;
    struct frame_spec s = frame_spec(6, 6);
    struct frame in;
    struct frame out;
    struct outcome o;

    fixture_init(&x, mtu_1280);
    s.payload = 1300;
    frame_make(&s, &in);
    run(&x, &in, DROP_MTU, true, &o, "MTU 1280");
    frame_read(o.answer.data, o.answer.length, &out, false, false, "MTU 1280");
    check_outer(&x, &in, &out, &o.answer);
    ck_assert_uint_eq(o.answer.length, 14 + 1280);
    check_inner(&in, &out, 2, 0, 1230, 1280 - 40 - 16 - 14 - 48);
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("icmp");

    tcase_add_test(
        tc, a_packet_over_the_mtu_is_dropped_and_the_sender_told_the_size_that_fits);
    tcase_add_test(tc, without_df_a_v4_packet_over_the_mtu_is_dropped_in_silence);
    tcase_add_test(tc, a_packet_of_9000_bytes_is_answered_and_never_fragmented);
    tcase_add_test(tc,
                   an_inner_ttl_that_ends_is_time_exceeded_with_the_packet_as_it_came);
    tcase_add_test(tc, within_a_vpc_the_inner_ttl_is_nobodys_business);
    tcase_add_test(
        tc, no_error_is_sent_about_errors_fragments_groups_and_senders_that_are_none);
    tcase_add_test(tc, a_forwarded_packet_is_never_answered);
    tcase_add_test(tc, without_a_source_a_vip_or_a_way_back_the_drop_is_silent);
    tcase_add_test(tc, an_error_is_cut_to_fit_the_uplink_it_leaves_by);
    return unit_run("icmp", tc);
}
