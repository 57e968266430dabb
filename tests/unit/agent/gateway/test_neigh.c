/* Frames below were made by scapy 2.5.0 (ARP, ICMPv6ND_NS, ICMPv6ND_NA). */
#include "tests/unit/unit.h"

#include "agent/gateway/neigh.h"

#include <string.h>

#define ARP_REQUEST_TO_US                                                              \
    "ffffffffffff020000000099080600010800060400010200000000990a00000100000000"         \
    "00000a000002"
#define ARP_OUR_REPLY                                                                  \
    "020000000099020000000001080600010800060400020200000000010a00000202000000"         \
    "00990a000001"
#define ARP_OUR_REQUEST                                                                \
    "ffffffffffff020000000001080600010800060400010200000000010a00000200000000"         \
    "00000a000001"
#define ARP_HOP_ANSWERS                                                                \
    "020000000001020000000099080600010800060400020200000000990a00000102000000"         \
    "00010a000002"
#define NS_OURS                                                                        \
    "3333ff02000302000000000186dd6000000000203afffd00000000000000000000000000"         \
    "0002ff0200000000000000000001ff02000387007d8f00000000fd000000000000000000"         \
    "0001000200030101020000000001"
#define NA_HOP_ANSWERS                                                                 \
    "02000000000102000000009986dd6000000000203afffd00000000000000000000010002"         \
    "0003fd00000000000000000000000000000288009bf9e0000000fd000000000000000000"         \
    "0001000200030201020000000099"
#define NS_TO_US                                                                       \
    "3333ff00000202000000009986dd6000000000203afffd00000000000000000000010002"         \
    "0003ff0200000000000000000001ff00000287007cfa00000000fd000000000000000000"         \
    "0000000000020101020000000099"
#define NA_OURS                                                                        \
    "02000000009902000000000186dd6000000000203afffd00000000000000000000000000"         \
    "0002fd00000000000000000000010002000388001c9660000000fd000000000000000000"         \
    "0000000000020201020000000001"
#define NS_DUPLICATE_CHECK                                                             \
    "3333ff00000202000000009986dd6000000000183aff0000000000000000000000000000"         \
    "0000ff0200000000000000000001ff00000287007da300000000fd000000000000000000"         \
    "000000000002"
#define NA_DEFENDS                                                                     \
    "33330000000102000000000186dd6000000000203afffd00000000000000000000000000"         \
    "0002ff02000000000000000000000000000188005a9920000000fd000000000000000000"         \
    "0000000000020201020000000001"

static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t hop_mac[6] = { 2, 0, 0, 0, 0, 0x99 };

static size_t unhex(const char *hex, uint8_t *to)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
        to[i] = (uint8_t)byte;
    }
    return len;
}

static void assert_frame(const struct neigh_out *out, uint16_t port, const char *hex)
{
    uint8_t want[NEIGH_FRAME_MAX];
    size_t len = unhex(hex, want);

    ck_assert_uint_eq(out->len, len);
    ck_assert_uint_eq(out->port, port);
    ck_assert_mem_eq(out->frame, want, len);
}

static struct ip address(const char *text)
{
    struct ip ip;

    ck_assert_int_eq(ip_parse(text, strlen(text), &ip, NULL), RC_OK);
    return ip;
}

static struct fwd_uplink uplink(uint16_t port, const char *own, const char *hop)
{
    struct fwd_uplink u = { .port = port, .mtu = 1500, .seed = port + strlen(own) };

    u.address = address(own);
    u.next_hop = address(hop);
    u.family = u.address.family;
    memcpy(u.mac, our_mac, 6);
    return u;
}

/* Uplink 0 is v4, uplink 1 is v6, both on port 3. */
static struct fwd_config *config_new(void)
{
    struct fwd_config *c = aligned_alloc(64, sizeof(*c));

    memset(c, 0, sizeof(*c));
    c->uplink_count = 2;
    c->uplink[0] = uplink(3, "10.0.0.2", "10.0.0.1");
    c->uplink[1] = uplink(3, "fd00::2", "fd00::1:2:3");
    return c;
}

static bool is_resolved(const struct fwd_config *c, unsigned i)
{
    return (atomic_load(&c->next_hop_mac[i]) & FWD_MAC_KNOWN) != 0;
}

static void receive(struct neigh *n, uint16_t port, const char *hex, uint64_t now_ms,
                    struct neigh_out *out)
{
    uint8_t frame[128];
    size_t len = unhex(hex, frame);

    neigh_receive(n, port, frame, len, now_ms, out);
}

START_TEST(next_hops_are_asked_at_once_and_until_they_answer)
{
    struct fwd_config *c = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;

    neigh_configure(&n, c, 1000);
    ck_assert_uint_eq(neigh_next_wake(&n), 1000);
    ck_assert(neigh_ask(&n, 1000, &out));
    assert_frame(&out, 3, ARP_OUR_REQUEST);
    ck_assert(neigh_ask(&n, 1000, &out));
    assert_frame(&out, 3, NS_OURS);
    ck_assert(!neigh_ask(&n, 1000, &out));
    ck_assert(!neigh_ask(&n, 1000 + NEIGH_ASK_MS - 1, &out));
    ck_assert(neigh_ask(&n, 1000 + NEIGH_ASK_MS, &out));
    assert_frame(&out, 3, ARP_OUR_REQUEST);
    free(c);
}
END_TEST

START_TEST(an_answer_resolves_its_next_hop_and_only_it)
{
    struct fwd_config *c = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;

    neigh_configure(&n, c, 0);
    receive(&n, 3, ARP_HOP_ANSWERS, 10, &out);
    ck_assert_uint_eq(out.len, 0);
    ck_assert(is_resolved(c, 0));
    ck_assert(!is_resolved(c, 1));
    receive(&n, 3, NA_HOP_ANSWERS, 10, &out);
    ck_assert(is_resolved(c, 1));
    ck_assert_mem_eq(n.entry[1].mac, hop_mac, 6);
    free(c);
}
END_TEST

START_TEST(an_answer_on_another_port_is_nobodys)
{
    struct fwd_config *c = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;

    neigh_configure(&n, c, 0);
    receive(&n, 2, ARP_HOP_ANSWERS, 10, &out);
    receive(&n, 2, NA_HOP_ANSWERS, 10, &out);
    receive(&n, 2, ARP_REQUEST_TO_US, 10, &out);
    ck_assert_uint_eq(out.len, 0);
    ck_assert(!is_resolved(c, 0));
    ck_assert(!is_resolved(c, 1));
    free(c);
}
END_TEST

START_TEST(who_asks_for_our_address_is_answered)
{
    struct fwd_config *c = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;

    neigh_configure(&n, c, 0);
    receive(&n, 3, ARP_REQUEST_TO_US, 10, &out);
    assert_frame(&out, 3, ARP_OUR_REPLY);
    ck_assert(is_resolved(c, 0)); /* the next hop asked: it told us its MAC */
    receive(&n, 3, NS_TO_US, 10, &out);
    assert_frame(&out, 3, NA_OURS);
    receive(&n, 3, NS_DUPLICATE_CHECK, 10, &out);
    assert_frame(&out, 3, NA_DEFENDS);
    free(c);
}
END_TEST

START_TEST(a_next_hop_that_falls_silent_is_unresolved_after_its_probes)
{
    struct fwd_config *c = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;
    uint64_t now = NEIGH_REFRESH_MS + 10;

    neigh_configure(&n, c, 0);
    c->uplink_count = 1;
    receive(&n, 3, ARP_HOP_ANSWERS, 10, &out);
    ck_assert_uint_eq(neigh_next_wake(&n), now);
    for (int probe = 0; probe < NEIGH_PROBES; probe++) {
        ck_assert(neigh_ask(&n, now, &out));
        ck_assert_mem_eq(out.frame, hop_mac, 6); /* unicast: its peers are left alone */
        ck_assert(is_resolved(c, 0));
        now += NEIGH_ASK_MS;
    }
    ck_assert(neigh_ask(&n, now, &out));
    ck_assert(!is_resolved(c, 0));
    assert_frame(&out, 3, ARP_OUR_REQUEST);
    receive(&n, 3, ARP_HOP_ANSWERS, now + 1, &out);
    ck_assert(is_resolved(c, 0));
    free(c);
}
END_TEST

START_TEST(damaged_frames_do_nothing)
{
    static const char *const frames[] = { ARP_HOP_ANSWERS, ARP_REQUEST_TO_US,
                                          NA_HOP_ANSWERS, NS_TO_US };
    struct fwd_config *c = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;

    neigh_configure(&n, c, 0);
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        uint8_t whole[128];
        size_t len = unhex(frames[i], whole);

        for (size_t cut = 0; cut < len; cut++) {
            uint8_t *exact = malloc(cut ? cut : 1); /* for ASan */

            memcpy(exact, whole, cut);
            neigh_receive(&n, 3, exact, cut, 10, &out);
            ck_assert_uint_eq(out.len, 0);
            free(exact);
        }
    }
    /* One wrong bit of an ND message fails its checksum (RFC 4861, 7.1). */
    for (size_t at = 14 + 8; at < 86; at++) {
        uint8_t frame[128];
        size_t len = unhex(NA_HOP_ANSWERS, frame);

        frame[at] ^= 1;
        neigh_receive(&n, 3, frame, len, 10, &out);
    }
    ck_assert(!is_resolved(c, 0));
    ck_assert(!is_resolved(c, 1));
    free(c);
}
END_TEST

START_TEST(what_is_known_survives_a_new_configuration)
{
    struct fwd_config *old = config_new();
    struct fwd_config *now = config_new();
    struct neigh n = { 0 };
    struct neigh_out out;

    neigh_configure(&n, old, 0);
    receive(&n, 3, ARP_HOP_ANSWERS, 10, &out);
    fwd_config_inherit_macs(now, old);
    neigh_configure(&n, now, 20);
    ck_assert(is_resolved(now, 0));
    ck_assert(neigh_ask(&n, 20, &out));
    assert_frame(&out, 3, NS_OURS); /* only the one that is not known */
    ck_assert(!neigh_ask(&n, 20, &out));
    free(old);
    free(now);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("neigh");

    tcase_add_test(tc, next_hops_are_asked_at_once_and_until_they_answer);
    tcase_add_test(tc, an_answer_resolves_its_next_hop_and_only_it);
    tcase_add_test(tc, an_answer_on_another_port_is_nobodys);
    tcase_add_test(tc, who_asks_for_our_address_is_answered);
    tcase_add_test(tc, a_next_hop_that_falls_silent_is_unresolved_after_its_probes);
    tcase_add_test(tc, damaged_frames_do_nothing);
    tcase_add_test(tc, what_is_known_survives_a_new_configuration);
    return unit_run("neigh", tc);
}
