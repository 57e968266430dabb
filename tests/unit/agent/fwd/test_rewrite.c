/* The packet that goes out.  Every frame that leaves is read back by frame_read(),
 * which recomputes all sums; what must be kept is compared with the frame that came. */
#include <arpa/inet.h>
#include <string.h>

#include "tests/unit/agent/fwd/fixture.h"
#include "tests/unit/unit.h"

/* One packet through the plain gateway. */
struct way {
    struct frame in;
    struct frame out;
    struct outcome o;
};

static void run(struct fixture *x, const struct frame_spec *s, struct way *w,
                const char *what)
{
    frame_make(s, &w->in);
    fixture_run(x, w->in.b, w->in.n, FWD_HEADROOM, 0, &w->o);
    ck_assert_msg(w->o.packet.verdict == FWD_FORWARD, "%s: %s", what,
                  drop_reason_name(w->o.packet.reason));
    frame_read(w->o.packet.data, w->o.packet.length, &w->out, true,
               s->csum == CSUM_WRONG, what);
}

static void assert_ip(const uint8_t *bytes, const char *text, const char *what)
{
    bool is_v6 = strchr(text, ':') != NULL;
    uint8_t expected[16];

    ck_assert_int_eq(inet_pton(is_v6 ? AF_INET6 : AF_INET, text, expected), 1);
    ck_assert_msg(memcmp(bytes, expected, is_v6 ? 16 : 4) == 0, "%s: not %s", what,
                  text);
}

static void assert_outer(const struct frame *f, const char *src, const char *dst,
                         const char *what)
{
    assert_ip(f->b + f->l3 + (f->is_v6 ? 8 : 12), src, what);
    assert_ip(f->b + f->l3 + (f->is_v6 ? 24 : 16), dst, what);
}

static unsigned tos(const struct frame *f)
{
    return f->is_v6 ? get16(f->b + f->l3) >> 4 & 0xff : f->b[f->l3 + 1];
}

static unsigned ttl(const struct frame *f)
{
    return f->b[f->l3 + (f->is_v6 ? 7 : 8)];
}

static uint32_t vni(const struct frame *f)
{
    return get32(f->b + f->vxlan + 4) >> 8;
}

static unsigned udp_sum(const struct frame *f)
{
    return get16(f->b + f->udp + 6);
}

/* Where the packets of each table row go, by destination. */
struct dst_case {
    const char *dst4, *dst6; /* null: not in that family */
    int out;                 /* outer family towards it */
    const char *endpoint;
    uint32_t vni;
    const uint8_t *mac; /* null: the inner MAC stays */
    bool decrements;
};

static const struct dst_case dsts[] = {
    { "10.0.0.4", "2001:db8:10::4", 4, "198.51.100.4", 10, fixture_nc4_mac, false },
    { "10.0.0.5", "2001:db8:10::5", 4, "198.51.100.5", 10, NULL, false },
    { "10.0.0.6", "2001:db8:10::6", 6, "2001:db8:a::6", 10, fixture_nc6_mac, false },
    { "10.0.1.4", "2001:db8:10:1::4", 4, "198.51.100.4", 20, fixture_nc4_mac, true },
    { "10.0.1.6", "2001:db8:10:1::6", 6, "2001:db8:a::6", 20, fixture_nc6_mac, true },
    { "10.0.2.9", "2001:db8:10:2::9", 4, "198.51.100.77", 5000, NULL, true },
    { "10.0.3.9", "2001:db8:10:3::9", 6, "2001:db8:a::88", 6000, NULL, true },
    { "10.0.7.9", NULL, 4, "198.51.100.99", 700, NULL, true },
    { "10.0.8.9", NULL, 4, "198.51.100.77", 10, NULL, true },
};

static void check_outer(const struct dst_case *d, const struct way *w, const char *what)
{
    const uint8_t *from = w->in.b + w->in.l3;
    const uint8_t *to = w->out.b + w->out.l3;

    assert_outer(&w->out, d->out == 4 ? "192.0.2.100" : "2001:db8:f::100", d->endpoint,
                 what);
    ck_assert_msg(tos(&w->out) == tos(&w->in), "%s: DSCP and ECN are kept", what);
    ck_assert_msg(ttl(&w->out) == ttl(&w->in) - 1, "%s: outer TTL", what);
    ck_assert_msg(get16(w->out.b + w->out.udp) == get16(w->in.b + w->in.udp),
                  "%s: source port", what);
    if (w->out.is_v6) {
        uint32_t label =
            w->in.is_v6 ? get32(from) & 0xfffff : get16(w->in.b + w->in.udp);

        ck_assert_msg((get32(to) & 0xfffff) == label, "%s: flow label", what);
    } else if (w->in.is_v6) {
        ck_assert_msg(get32(to + 4) == 0x4000, "%s: no identification, DF", what);
    } else {
        ck_assert_msg(get32(to + 4) == get32(from + 4), "%s: identification", what);
    }
}

static void check_inner(const struct dst_case *d, const struct way *w, const char *what)
{
    struct frame expected = w->in; /* of the inner frame, as it should look */

    ck_assert_msg(vni(&w->out) == d->vni, "%s: VNI %u", what, vni(&w->out));
    if (d->mac != NULL) {
        memcpy(expected.b + expected.inner_l2, d->mac, 6);
    }
    if (d->decrements) {
        expected.b[expected.inner_l3 + (expected.is_inner_v6 ? 7 : 8)]--;
        frame_fix_inner(&expected);
    }
    ck_assert_uint_eq(w->out.n - w->out.inner_l2, w->in.n - w->in.inner_l2);
    ck_assert_msg(memcmp(w->out.b + w->out.inner_l2, expected.b + expected.inner_l2,
                         w->out.n - w->out.inner_l2) == 0,
                  "%s: the inner frame", what);
}

static void check_udp_sum(const struct frame_spec *s, const struct way *w,
                          const char *what)
{
    if (w->in.is_v6 != w->out.is_v6) {
        ck_assert_msg((udp_sum(&w->out) != 0) == w->out.is_v6,
                      "%s: computed on v6, 0 on v4", what);
        if (w->out.is_v6) {
            ck_assert_uint_eq(udp_sum(&w->out), frame_udp_sum(&w->out));
        }
        return;
    }
    ck_assert_msg((udp_sum(&w->out) == 0) == (s->csum == CSUM_ZERO),
                  "%s: zero stays, non-zero stays non-zero", what);
    if (s->csum == CSUM_WRONG) {
        /* As wrong as before: the same distance from the right sum, modulo 65,535. */
        unsigned before = (udp_sum(&w->in) + 65535 - frame_udp_sum(&w->in)) % 65535;
        unsigned after = (udp_sum(&w->out) + 65535 - frame_udp_sum(&w->out)) % 65535;

        ck_assert_uint_ne(before, 0);
        ck_assert_msg(before == after, "%s: wrong by %u, was %u", what, after, before);
    }
}

/* All of it: outer families, inner families, destinations, checksums. */
START_TEST(every_kind_of_packet_leaves_as_the_rules_say)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(dsts) * 12; i++) {
        const struct dst_case *d = &dsts[i / 12];
        struct frame_spec s = frame_spec(i & 1 ? 6 : 4, i & 2 ? 6 : 4);
        struct way w;
        char what[80];

        s.csum = (enum udp_csum)(i % 12 / 4);
        s.inner_dst = s.inner == 4 ? d->dst4 : d->dst6;
        s.payload = 40 + i % 3; /* odd lengths too */
        s.ip_id = i % 2 == 0 ? 0x7777 : 0;
        if (s.inner_dst == NULL || (s.outer == 6 && s.csum == CSUM_ZERO)) {
            continue;
        }
        snprintf(what, sizeof(what), "v%d over v%d, checksum %d, to %s", s.inner,
                 s.outer, s.csum, s.inner_dst);
        run(&x, &s, &w, what);
        check_outer(d, &w, what);
        check_inner(d, &w, what);
        check_udp_sum(&s, &w, what);
        outcome_fini(&w.o);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(ethernet_is_the_ports_and_its_next_hops)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (int out = 4; out <= 6; out += 2) {
        struct frame_spec s = frame_spec(4, 4);
        const struct fwd_uplink *u;
        uint8_t next_hop[6] = { 2, 0, 0, 0, 1, 0 };
        struct way w;

        s.inner_dst = out == 4 ? "10.0.0.4" : "10.0.0.6";
        run(&x, &s, &w, "ethernet");
        u = &x.config->uplink[w.o.packet.uplink];
        next_hop[5] = w.o.packet.uplink; /* the fixture's numbering */
        ck_assert_uint_eq(u->family, (unsigned)out);
        ck_assert_mem_eq(w.out.b, next_hop, 6);
        ck_assert_mem_eq(w.out.b + 6, u->mac, 6);
        outcome_fini(&w.o);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(outer_tags_and_padding_do_not_leave)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned tags = 0; tags <= 2; tags++) {
        for (unsigned kind = 0; kind < 4; kind++) {
            struct frame_spec s = frame_spec(kind & 1 ? 6 : 4, 4);
            struct way w;

            s.outer_tags = tags;
            s.outer_padding = 7;
            s.inner_dst = kind & 2 ? "10.0.0.6" : "10.0.0.4";
            run(&x, &s, &w, "outer tags");
            ck_assert_uint_eq(w.out.n - w.out.udp, w.in.n - 7 - w.in.udp);
            outcome_fini(&w.o);
        }
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(inner_tags_and_padding_leave_as_they_came)
{
    struct fixture x;
    struct frame_spec s = frame_spec(6, 4);
    struct way w;

    fixture_init(&x, NULL);
    s.vni = 30;
    s.inner_tags = 2;
    s.inner_padding = 9;
    run(&x, &s, &w, "inner tags");
    ck_assert_uint_eq(w.out.n - w.out.inner_l2, w.in.n - w.in.inner_l2);
    ck_assert_mem_eq(w.out.b + w.out.inner_l2 + 6, w.in.b + w.in.inner_l2 + 6,
                     w.in.n - w.in.inner_l2 - 6);
    outcome_fini(&w.o);
    fixture_fini(&x);
}
END_TEST

START_TEST(reserved_vxlan_bits_leave_as_zero_and_the_sum_follows)
{
    struct fixture x;
    struct frame_spec s = frame_spec(6, 4);
    struct frame in;
    struct frame out;
    struct outcome o;

    fixture_init(&x, NULL);
    s.inner_dst = "10.0.0.6";
    frame_make(&s, &in);
    memcpy(in.b + in.vxlan, "\xfb\xff\x12\x34", 4);
    in.b[in.vxlan + 7] = 0x99;
    frame_fix_udp(&in);
    fixture_run(&x, in.b, in.n, FWD_HEADROOM, 0, &o);
    ck_assert_uint_eq(o.packet.verdict, FWD_FORWARD);
    frame_read(o.packet.data, o.packet.length, &out, false, false, "reserved bits");
    outcome_fini(&o);
    fixture_fini(&x);
}
END_TEST

static void zero_csum(struct fwd_node *node, struct fwd_uplink_spec *uplinks)
{
    (void)uplinks;
    node->udp6_zero_csum = true;
}

START_TEST(with_udp6_zero_csum_a_changed_family_gets_zero_and_others_keep_theirs)
{
    struct fixture x;

    fixture_init(&x, zero_csum);
    for (unsigned i = 0; i < 6; i++) {
        struct frame_spec s = frame_spec(i & 1 ? 6 : 4, 4);
        struct way w;

        s.csum = i & 2 ? CSUM_RIGHT : CSUM_ZERO;
        s.inner_dst = "10.0.0.6";
        run(&x, &s, &w, "udp6_zero_csum");
        ck_assert_uint_eq(udp_sum(&w.out) != 0, s.outer == 6 && s.csum == CSUM_RIGHT);
        outcome_fini(&w.o);
    }
    fixture_fini(&x);
}
END_TEST

/* A sum of 0 means "none" in UDP (RFC 768), so it is sent as all ones.  The source port
 * is one word of the sum: what port 0 leaves with is the port that makes the sum 0. */
START_TEST(a_udp_sum_of_zero_leaves_as_all_ones)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned kind = 0; kind < 3; kind++) { /* 4 to 4, 6 to 6, 4 to 6 */
        struct frame_spec s = frame_spec(kind == 1 ? 6 : 4, 4);
        struct way w;

        s.csum = CSUM_RIGHT;
        s.inner_dst = kind == 0 ? "10.0.1.4" : "10.0.1.6";
        s.sport = 0;
        run(&x, &s, &w, "port 0");
        s.sport = udp_sum(&w.out);
        outcome_fini(&w.o);
        run(&x, &s, &w, "all ones");
        ck_assert_uint_eq(udp_sum(&w.out), 0xffff);
        outcome_fini(&w.o);
    }
    fixture_fini(&x);
}
END_TEST

START_TEST(headroom_of_the_growth_suffices_and_one_byte_less_is_no_buffer)
{
    struct fixture x;

    fixture_init(&x, NULL);
    for (unsigned tags = 0; tags <= 2; tags++) {
        struct frame_spec s = frame_spec(4, 4);
        uint16_t need = (uint16_t)(20 - 4 * tags);
        struct frame in;
        struct outcome o;

        s.outer_tags = tags;
        s.inner_dst = "10.0.0.6";
        frame_make(&s, &in);
        fixture_run(&x, in.b, in.n, need, 0, &o);
        ck_assert_uint_eq(o.packet.verdict, FWD_FORWARD);
        ck_assert_uint_eq(o.packet.headroom, 0);
        outcome_fini(&o);
        fixture_run(&x, in.b, in.n, (uint16_t)(need - 1), 0, &o);
        ck_assert_uint_eq(o.packet.verdict, FWD_DROP);
        ck_assert_uint_eq(o.packet.reason, DROP_NO_BUFFER);
        outcome_fini(&o);
    }
    fixture_fini(&x);
}
END_TEST

/* A flow that goes back and forth between two gateways ends: the outer TTL is never
 * reset. */
START_TEST(a_loop_between_gateways_ends_when_the_outer_ttl_does)
{
    struct fixture x;
    struct frame_spec s = frame_spec(4, 4);
    struct frame f;
    unsigned hops = 0;

    fixture_init(&x, NULL);
    s.ttl = 9;
    frame_make(&s, &f);
    for (;;) {
        struct outcome o;

        fixture_run(&x, f.b, f.n, 0, 0, &o);
        if (o.packet.verdict != FWD_FORWARD) {
            ck_assert_uint_eq(o.packet.reason, DROP_OUTER_TTL);
            outcome_fini(&o);
            break;
        }
        hops++;
        frame_read(o.packet.data, o.packet.length, &f, true, false, "loop");
        outcome_fini(&o);
        memcpy(f.b + f.l3 + 12, "\xc6\x33\x64\x04", 4); /* comes back from the NC */
        memcpy(f.b + f.l3 + 16, "\xc0\x00\x02\x64", 4);
        frame_fix_outer(&f);
    }
    ck_assert_uint_eq(hops, 8);
    fixture_fini(&x);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rewrite");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_kind_of_packet_leaves_as_the_rules_say);
    tcase_add_test(tc, ethernet_is_the_ports_and_its_next_hops);
    tcase_add_test(tc, outer_tags_and_padding_do_not_leave);
    tcase_add_test(tc, inner_tags_and_padding_leave_as_they_came);
    tcase_add_test(tc, reserved_vxlan_bits_leave_as_zero_and_the_sum_follows);
    tcase_add_test(
        tc, with_udp6_zero_csum_a_changed_family_gets_zero_and_others_keep_theirs);
    tcase_add_test(tc, a_udp_sum_of_zero_leaves_as_all_ones);
    tcase_add_test(tc, headroom_of_the_growth_suffices_and_one_byte_less_is_no_buffer);
    tcase_add_test(tc, a_loop_between_gateways_ends_when_the_outer_ttl_does);
    return unit_run("rewrite", tc);
}
