#include "tests/unit/agent/fwd/frame.h"

#include <arpa/inet.h>
#include <string.h>

#include "tests/unit/unit.h"

unsigned get16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

uint32_t plain_sum(uint32_t sum, const uint8_t *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

static void add(struct frame *f, const void *bytes, unsigned n)
{
    ck_assert_uint_le(f->n + n, sizeof(f->b));
    memcpy(f->b + f->n, bytes, n);
    f->n += n;
}

static void add8(struct frame *f, unsigned v)
{
    uint8_t b = (uint8_t)v;

    add(f, &b, 1);
}

static void add16(struct frame *f, unsigned v)
{
    uint8_t b[2];

    put16(b, v);
    add(f, b, 2);
}

static void add32(struct frame *f, uint32_t v)
{
    add16(f, v >> 16);
    add16(f, v & 0xffff);
}

static void add_ip(struct frame *f, int family, const char *text)
{
    uint8_t b[16];

    ck_assert_int_eq(inet_pton(family == 4 ? AF_INET : AF_INET6, text, b), 1);
    add(f, b, family == 4 ? 4 : 16);
}

static void add_ethernet(struct frame *f, const char *dst, const char *src,
                         unsigned tags, int family)
{
    add(f, dst, 6);
    add(f, src, 6);
    for (unsigned i = 0; i < tags; i++) {
        add16(f, tags - i == 2 ? 0x88a8 : 0x8100);
        add16(f, 0x2000 + 5 + i);
    }
    add16(f, family == 4 ? 0x0800 : 0x86dd);
}

static void add_ip4(struct frame *f, const struct frame_spec *s, bool is_inner,
                    unsigned total)
{
    unsigned at = f->n;

    add8(f, 0x45);
    add8(f, is_inner ? 0x00 : s->tos);
    add16(f, total);
    add16(f, is_inner ? 0x4242 : s->ip_id);
    add16(f, is_inner ? s->inner_frag : 0);
    add8(f, is_inner ? s->inner_ttl : s->ttl);
    add8(f, is_inner ? s->inner_proto : 17);
    add16(f, 0);
    add_ip(f, 4, is_inner ? s->inner_src : s->outer_src);
    add_ip(f, 4, is_inner ? s->inner_dst : s->outer_dst);
    put16(f->b + at + 10, ~plain_sum(0, f->b + at, 20) & 0xffff);
}

static void add_ip6(struct frame *f, const struct frame_spec *s, bool is_inner,
                    unsigned payload)
{
    bool has_fragment = is_inner && s->inner_frag != 0;
    unsigned next = is_inner ? s->inner_proto : 17;

    add32(f, UINT32_C(6) << 28 | (is_inner ? 0 : s->tos << 20 | s->flow_label));
    add16(f, payload + (has_fragment ? 8 : 0));
    add8(f, has_fragment ? 44 : next);
    add8(f, is_inner ? s->inner_ttl : s->ttl);
    add_ip(f, 6, is_inner ? s->inner_src : s->outer_src);
    add_ip(f, 6, is_inner ? s->inner_dst : s->outer_dst);
    if (has_fragment) {
        add8(f, next);
        add8(f, 0);
        add16(f, s->inner_frag);
        add32(f, 0x11223344);
    }
}

struct frame_spec frame_spec(int outer, int inner)
{
    return (struct frame_spec){
        .outer = outer,
        .outer_src = outer == 4 ? "198.51.100.1" : "2001:db8:a::1",
        .outer_dst = outer == 4 ? "192.0.2.100" : "2001:db8:f::100",
        .tos = 0xb9, /* EF and ECT(1) */
        .flow_label = outer == 6 ? 0x54321 : 0,
        .ttl = 17,
        .ip_id = 0x7777,
        .sport = 51234,
        .csum = outer == 4 ? CSUM_ZERO : CSUM_RIGHT,
        .vni = 10,
        .inner = inner,
        .inner_src = inner == 4 ? "10.0.0.1" : "2001:db8:10::1",
        .inner_dst = inner == 4 ? "10.0.0.4" : "2001:db8:10::4",
        .inner_ttl = 64,
        .inner_proto = 17,
        .payload = 40,
        .seed = 1,
    };
}

static unsigned inner_ip_size(const struct frame_spec *s)
{
    unsigned header = s->inner == 4 ? 20 : s->inner_frag != 0 ? 48 : 40;

    return header + s->payload;
}

void frame_make(const struct frame_spec *s, struct frame *f)
{
    unsigned inner = 14 + 4 * s->inner_tags + inner_ip_size(s) + s->inner_padding;
    unsigned udp = 16 + inner;

    f->n = 0;
    f->is_v6 = s->outer == 6;
    f->is_inner_v6 = s->inner == 6;
    add_ethernet(f, "\x02\x00\x00\x00\x00\x10", "\x02\x00\x00\x00\x00\x99",
                 s->outer_tags, s->outer);
    f->l3 = f->n;
    if (s->outer == 4) {
        add_ip4(f, s, false, 20 + udp);
    } else {
        add_ip6(f, s, false, udp);
    }
    f->udp = f->n;
    add16(f, s->sport);
    add16(f, 4789);
    add16(f, udp);
    add16(f, 0);
    f->vxlan = f->n;
    add32(f, UINT32_C(0x08000000));
    add32(f, s->vni << 8);
    f->inner_l2 = f->n;
    add_ethernet(f, "\x02\xee\x00\x00\x00\x01", "\x02\xaa\x00\x00\x00\x02",
                 s->inner_tags, s->inner);
    f->inner_l3 = f->n;
    if (s->inner == 4) {
        add_ip4(f, s, true, inner_ip_size(s));
    } else {
        add_ip6(f, s, true, s->payload);
    }
    f->inner_l4 = f->n;
    for (unsigned i = 0; i < s->payload; i++) {
        add8(f, i < 4 ? s->seed >> (8 * (3 - i)) : i * 31 + s->seed);
    }
    for (unsigned i = 0; i < s->inner_padding; i++) {
        add8(f, 0xdd);
    }
    if (s->csum != CSUM_ZERO) {
        put16(f->b + f->udp + 6,
              frame_udp_sum(f) ^ (s->csum == CSUM_WRONG ? 0x0420 : 0));
    }
    for (unsigned i = 0; i < s->outer_padding; i++) {
        add8(f, 0xee);
    }
}

unsigned frame_udp_sum(const struct frame *f)
{
    const uint8_t *ip = f->b + f->l3;
    const uint8_t *udp = f->b + f->udp;
    unsigned size = get16(udp + 4);
    uint32_t sum = f->is_v6 ? plain_sum(0, ip + 8, 32) : plain_sum(0, ip + 12, 8);

    sum = plain_sum(sum, (const uint8_t[]){ 0, 17 }, 2);
    sum = plain_sum(sum, udp + 4, 2);
    sum = plain_sum(sum, udp, 6);
    sum = plain_sum(sum, udp + 8, size - 8);
    sum = ~sum & 0xffff;
    return sum == 0 ? 0xffff : sum;
}

void frame_fix_outer(struct frame *f)
{
    uint8_t *ip = f->b + f->l3;

    if (!f->is_v6) {
        put16(ip + 10, 0);
        put16(ip + 10, ~plain_sum(0, ip, (ip[0] & 15u) * 4) & 0xffff);
    }
}

void frame_fix_inner(struct frame *f)
{
    uint8_t *ip = f->b + f->inner_l3;

    if (!f->is_inner_v6) {
        put16(ip + 10, 0);
        put16(ip + 10, ~plain_sum(0, ip, (ip[0] & 15u) * 4) & 0xffff);
    }
}

void frame_fix_udp(struct frame *f)
{
    uint8_t *udp = f->b + f->udp;

    if (get16(udp + 6) != 0) {
        put16(udp + 6, frame_udp_sum(f));
    }
}

static void read_outer(struct frame *f, const char *what)
{
    const uint8_t *ip = f->b + 14;

    f->l3 = 14;
    f->is_v6 = get16(f->b + 12) == 0x86dd;
    if (f->is_v6) {
        ck_assert_msg(ip[0] >> 4 == 6, "%s: version", what);
        ck_assert_msg(40 + get16(ip + 4) == f->n - 14, "%s: payload length", what);
        ck_assert_msg(ip[6] == 17, "%s: next header", what);
        f->udp = 14 + 40;
    } else {
        ck_assert_msg(get16(f->b + 12) == 0x0800, "%s: ethertype", what);
        ck_assert_msg(ip[0] == 0x45, "%s: version and IHL", what);
        ck_assert_msg(get16(ip + 2) == f->n - 14, "%s: total length", what);
        ck_assert_msg(plain_sum(0, ip, 20) == 0xffff, "%s: outer checksum", what);
        ck_assert_msg(ip[9] == 17, "%s: protocol", what);
        f->udp = 14 + 20;
    }
    ck_assert_msg(get16(f->b + f->udp + 2) == 4789, "%s: UDP port", what);
    ck_assert_msg(get16(f->b + f->udp + 4) == f->n - f->udp, "%s: UDP length", what);
}

static void read_inner(struct frame *f, const char *what)
{
    unsigned at = f->inner_l2 + 12;

    while (get16(f->b + at) == 0x8100 || get16(f->b + at) == 0x88a8) {
        at += 4;
    }
    f->is_inner_v6 = get16(f->b + at) == 0x86dd;
    f->inner_l3 = at + 2;
    if (f->is_inner_v6) {
        ck_assert_msg(f->inner_l3 + 40 + get16(f->b + at + 6) <= f->n,
                      "%s: inner payload length", what);
        f->inner_l4 = f->inner_l3 + 40;
        return;
    }
    f->inner_l4 = f->inner_l3 + (f->b[at + 2] & 15u) * 4;
    ck_assert_msg(plain_sum(0, f->b + f->inner_l3, f->inner_l4 - f->inner_l3) == 0xffff,
                  "%s: inner checksum", what);
    ck_assert_msg(f->inner_l3 + get16(f->b + at + 4) <= f->n, "%s: inner total length",
                  what);
}

void frame_read(const uint8_t *data, unsigned n, struct frame *f, bool zero_ok,
                bool udp_wrong, const char *what)
{
    unsigned sum;

    f->n = 0;
    ck_assert_msg(n >= 14 + 20 + 16 + 14 + 20 && n <= sizeof(f->b), "%s: %u bytes",
                  what, n);
    add(f, data, n);
    read_outer(f, what);
    f->vxlan = f->udp + 8;
    f->inner_l2 = f->vxlan + 8;
    read_inner(f, what);
    sum = get16(f->b + f->udp + 6);
    ck_assert_msg(sum != 0 || zero_ok, "%s: UDP checksum is zero", what);
    if (sum != 0 && !udp_wrong) {
        ck_assert_msg(sum == frame_udp_sum(f), "%s: UDP checksum", what);
    }
    ck_assert_msg(get32(f->b + f->vxlan) == 0x08000000, "%s: VXLAN flags", what);
    ck_assert_msg(f->b[f->vxlan + 7] == 0, "%s: VXLAN reserved byte", what);
}
