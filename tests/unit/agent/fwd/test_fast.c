/* The short way against the general one: the same packets, the same bytes. */
#include "agent/fwd/fast.h"

#include "agent/fwd/rewrite.h"
#include "tests/unit/agent/fwd/fixture.h"
#include "tests/unit/unit.h"

#define FRAMES   3000u
#define VARIANTS 20u /* of each */

static uint64_t random_state = 20261130;

/* xorshift64 (Marsaglia 2003); the seed makes a failure repeat. */
static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static bool is_taken(const struct fwd_config *c, const struct fwd_packet *p,
                     uint8_t *ret_family)
{
    uint64_t known = 0;

    *ret_family = fast_outer(c, p, &known);
    return *ret_family == IP_V4   ? fast_inner4(p)
           : *ret_family == IP_V6 ? fast_inner6(p)
                                  : false;
}

static void check_layers(const struct layers *a, const struct layers *b)
{
    ck_assert_uint_eq(a->outer_size, b->outer_size);
    ck_assert_uint_eq(a->inner_size, b->inner_size);
    ck_assert_uint_eq(a->vni, b->vni);
    ck_assert_uint_eq(a->outer_l3, b->outer_l3);
    ck_assert_uint_eq(a->udp, b->udp);
    ck_assert_uint_eq(a->inner_l2, b->inner_l2);
    ck_assert_uint_eq(a->inner_l3, b->inner_l3);
    ck_assert_uint_eq(a->inner_l4, b->inner_l4);
    ck_assert_uint_eq(a->outer_family, b->outer_family);
    ck_assert_uint_eq(a->inner_family, b->inner_family);
    ck_assert_uint_eq(a->inner_tags, b->inner_tags);
    ck_assert_uint_eq(a->inner_proto, b->inner_proto);
    ck_assert_int_eq(a->is_fragment, b->is_fragment);
    ck_assert_int_eq(a->is_later_fragment, b->is_later_fragment);
}

/* Both rewrites of one packet to one NC. */
static void check_rewrite(const struct fwd_config *c, const struct fwd_packet *packet,
                          const struct layers *l)
{
    static const uint8_t macs[12] = { 2, 9, 8, 7, 6, 5, 2, 1, 2, 3, 4, 5 };
    struct fast_exit exit;
    uint8_t nc[4];
    uint32_t to;
    const uint8_t *mac = random_below(2) ? (const uint8_t *)"BBBBBB" : NULL;
    struct fwd_packet ours = *packet;
    struct fwd_packet general = *packet;
    uint8_t bytes[2][2048];
    struct egress e = { .source = c->vip4,
                        .destination = nc,
                        .port_mac = macs + 6,
                        .next_hop_mac = macs,
                        .inner_mac = mac,
                        .vni = l->vni,
                        .family = IP_V4 };

    for (unsigned i = 0; i < 4; i++) {
        nc[i] = (uint8_t)random_below(256);
    }
    memcpy(&to, nc, sizeof(to));
    fast_exit_init(&exit, macs, macs + 6, c->vip4);
    memcpy(bytes[0], packet->data, packet->length);
    memcpy(bytes[1], packet->data, packet->length);
    ours.data = bytes[0];
    general.data = bytes[1];
    fast_rewrite(&ours, &exit, to, mac);
    rewrite_packet(&general, l, &e);
    ck_assert_ptr_eq(ours.data, bytes[0]);
    ck_assert_ptr_eq(general.data, bytes[1]);
    ck_assert_uint_eq(ours.length, general.length);
    ck_assert_uint_eq(ours.headroom, general.headroom);
    ck_assert_mem_eq(bytes[0], bytes[1], packet->length);
}

/* True if the short way takes it; then the general one must agree in all. */
static bool check_packet(const struct fwd_config *c, const struct fwd_packet *p)
{
    struct layers general;
    struct layers ours;
    uint8_t family;

    if (!is_taken(c, p, &family)) {
        return false;
    }
    ck_assert_uint_eq(parse_outer(c, p, &general), 0);
    ck_assert_uint_eq(parse_inner(p, &general), 0);
    ck_assert_uint_eq(fast_family(p->data), family);
    fast_layers(p, family, &ours);
    check_layers(&ours, &general);
    if (fast_has_no_udp_checksum(p->data)) {
        check_rewrite(c, p, &ours);
    }
    return true;
}

static void frame_draw(struct frame *ret)
{
    struct frame_spec s = frame_spec(random_below(8) ? 4 : 6, random_below(2) ? 4 : 6);

    s.csum = random_below(2) ? CSUM_ZERO : CSUM_RIGHT;
    s.outer_tags = random_below(16) == 0;
    s.inner_tags = random_below(16) == 0;
    s.outer_padding = random_below(4) ? 0 : random_below(20);
    s.inner_padding = random_below(4) ? 0 : random_below(20);
    s.inner_frag = random_below(8) ? 0 : random_below(0x4000);
    s.inner_proto = random_below(2) ? 6 : random_below(256);
    s.ttl = random_below(8) ? 64 : random_below(4);
    frame_make(&s, ret);
}

/* Some bytes of the headers, the length or the NIC's flags changed.  True: taken. */
static bool check_variant(const struct fwd_config *c, const struct frame *f)
{
    struct fwd_packet p = { 0 };
    uint8_t *exact;
    bool taken;

    p.length = random_below(4) ? f->n : random_below(f->n + 1);
    p.rx_flags = random_below(4) ? FWD_RX_IP_CSUM_GOOD : (uint8_t)random_below(8);
    exact = malloc(p.length + 1); /* exactly the bytes: ASan sees what is read */
    ck_assert_ptr_nonnull(exact);
    p.data = exact + 1;
    memcpy(p.data, f->b, p.length);
    for (unsigned n = random_below(4); n > 0 && p.length > 0; n--) {
        p.data[random_below(p.length < 120 ? p.length : 120)] =
            (uint8_t)random_below(256);
    }
    taken = check_packet(c, &p);
    free(exact);
    return taken;
}

START_TEST(what_the_short_way_takes_the_general_one_takes_with_the_same_result)
{
    struct fixture x;
    struct frame f;
    uint32_t taken = 0;

    fixture_init(&x, NULL);
    for (unsigned n = 0; n < FRAMES; n++) {
        frame_draw(&f);
        for (unsigned i = 0; i < VARIANTS; i++) {
            taken += check_variant(x.config, &f);
        }
    }
    ck_assert_uint_gt(taken, FRAMES * VARIANTS / 10);
    fixture_fini(&x);
}
END_TEST

/* Or the short way would be there for nothing. */
START_TEST(plain_packets_of_either_inner_family_take_the_short_way)
{
    struct fixture x;
    struct frame f;

    fixture_init(&x, NULL);
    for (int inner = 4; inner <= 6; inner += 2) {
        struct frame_spec s = frame_spec(4, inner);
        struct fwd_packet p = { .data = f.b };

        frame_make(&s, &f);
        p.length = f.n;
        ck_assert(check_packet(x.config, &p));
    }
    fixture_fini(&x);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fast");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc,
                   what_the_short_way_takes_the_general_one_takes_with_the_same_result);
    tcase_add_test(tc, plain_packets_of_either_inner_family_take_the_short_way);
    return unit_run("fast", tc);
}
