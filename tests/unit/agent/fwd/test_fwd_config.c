/* A node compiled: what is ours, who may send, what is refused. */
#include <string.h>

#include "agent/fwd/fwd_config.h"
#include "proto/model/object.h"
#include "tests/unit/unit.h"

static struct ip ip_of(const char *text)
{
    struct ip ip;

    ck_assert_int_eq(ip_parse(text, strlen(text), &ip, NULL), RC_OK);
    return ip;
}

static struct fwd_config *compile(const struct fwd_node *node)
{
    struct fwd_config *c = NULL;
    struct err err = { 0 };

    ck_assert_msg(fwd_config_new(node, &c, &err) == RC_OK, "%s", err.msg);
    return c;
}

static bool may_send(const struct fwd_config *c, const struct ip *ip)
{
    return ip->family == IP_V4 ? fwd_config_source4(c, ip->b)
                               : fwd_config_source6(c, ip->b);
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* Few distinct bits, so that prefixes nest, repeat and adjoin, and addresses hit. */
static struct ip random_ip(uint64_t *x)
{
    uint64_t r = next_random(x);
    struct ip ip = { .family = r & 1 ? IP_V4 : IP_V6 };

    for (unsigned i = 0; i < ip_size(&ip); i++) {
        static const uint8_t bytes[] = { 0x00, 0xff, 0x80, 0x0a };

        ip.b[i] = bytes[next_random(x) % 4];
    }
    return ip;
}

START_TEST(an_address_may_send_exactly_when_a_prefix_contains_it)
{
    uint64_t x = 20261130;

    for (unsigned round = 0; round < 300; round++) {
        struct prefix sources[40];
        struct fwd_node node = { .underlay_sources = sources,
                                 .underlay_source_count = round % 41 };
        struct fwd_config *c;

        for (unsigned i = 0; i < node.underlay_source_count; i++) {
            sources[i].addr = random_ip(&x);
            sources[i].len = (uint8_t)(next_random(&x) %
                                       (sources[i].addr.family == IP_V4 ? 33 : 129));
            if (round % 3 != 0 && sources[i].len < 6) {
                sources[i].len = 6; /* or nearly everything may send */
            }
            prefix_mask(&sources[i]);
        }
        c = compile(&node);
        for (unsigned k = 0; k < 200; k++) {
            struct ip ip = random_ip(&x);
            bool expected = false;

            for (unsigned i = 0; i < node.underlay_source_count; i++) {
                expected |= prefix_contains(&sources[i], &ip);
            }
            ck_assert_int_eq(may_send(c, &ip), expected);
        }
        fwd_config_free(c);
    }
}
END_TEST

START_TEST(both_ends_of_every_prefix_length_may_send_and_their_neighbours_not)
{
    for (unsigned len = 1; len <= 128; len++) {
        struct prefix p = { ip_of("aaaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa"),
                            (uint8_t)len };
        struct fwd_node node = { .underlay_sources = &p, .underlay_source_count = 1 };
        struct fwd_config *c;
        struct ip last;

        prefix_mask(&p);
        c = compile(&node);
        last = p.addr;
        for (unsigned bit = len; bit < 128; bit++) {
            last.b[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
        }
        ck_assert(fwd_config_source6(c, p.addr.b));
        ck_assert(fwd_config_source6(c, last.b));
        last.b[(len - 1) / 8] ^= (uint8_t)(0x80 >> (len - 1) % 8);
        ck_assert(!fwd_config_source6(c, last.b));
        fwd_config_free(c);
    }
}
END_TEST

START_TEST(an_address_of_ours_is_what_it_was_given_as)
{
    struct ip vteps[300];
    struct ip vips[] = { ip_of("192.0.2.9"), ip_of("2001:db8::9"),
                         ip_of("192.0.2.10") };
    struct fwd_uplink_spec uplink = { .mtu = 1500,
                                      .address = ip_of("10.9.0.7"),
                                      .next_hop = ip_of("10.9.0.1") };
    struct fwd_node node = { .vteps = vteps,
                             .vtep_count = 300,
                             .vips = vips,
                             .vip_count = 3,
                             .uplinks = &uplink,
                             .uplink_count = 1 };
    struct fwd_config *c;

    for (unsigned i = 0; i < 300; i++) {
        vteps[i] = i % 2 ? ip_of("10.9.0.0") : ip_of("2001:db8:9::");
        vteps[i].b[i % 2 ? 3 : 15] = (uint8_t)(i / 2);
    }
    c = compile(&node);
    for (unsigned i = 0; i < 256; i++) {
        uint8_t v4[4] = { 10, 9, 0, (uint8_t)i };
        struct ip v6 = ip_of("2001:db8:9::");
        unsigned expected = i < 150 ? ADDRESS_TUNNEL : 0;

        v6.b[15] = (uint8_t)i;
        ck_assert_uint_eq(fwd_config_local4(c, v4),
                          expected | (i == 7 ? ADDRESS_PORT : 0));
        ck_assert_uint_eq(fwd_config_local6(c, v6.b), expected);
    }
    ck_assert_uint_eq(fwd_config_local4(c, vips[2].b), ADDRESS_TUNNEL);
    ck_assert_mem_eq(c->vip4, vips[0].b, 4); /* the first of its family */
    ck_assert_mem_eq(c->vip6, vips[1].b, 16);
    fwd_config_free(c);
}
END_TEST

START_TEST(an_empty_node_accepts_nothing)
{
    struct fwd_node node = { 0 };
    struct fwd_config *c = compile(&node);
    static const uint8_t zero[16];

    ck_assert_uint_eq(fwd_config_local4(c, zero), 0);
    ck_assert_uint_eq(fwd_config_local6(c, zero), 0);
    ck_assert(!fwd_config_source4(c, zero) && !fwd_config_source6(c, zero));
    fwd_config_free(c);
    fwd_config_free(NULL);
}
END_TEST

START_TEST(what_cannot_be_compiled_is_refused_with_its_field_and_changes_nothing)
{
    struct fwd_uplink_spec good = { .mtu = 1500,
                                    .address = ip_of("10.9.0.7"),
                                    .next_hop = ip_of("10.9.0.1") };
    struct fwd_uplink_spec uplinks[FWD_UPLINK_MAX + 1];
    struct fwd_node node = { .uplinks = uplinks, .uplink_count = FWD_UPLINK_MAX + 1 };
    struct fwd_config *const untouched = (struct fwd_config *)&node;
    struct fwd_config *c = untouched;
    struct err err = { 0 };

    for (unsigned i = 0; i <= FWD_UPLINK_MAX; i++) {
        uplinks[i] = good;
    }
    ck_assert_int_eq(fwd_config_new(&node, &c, &err), RC_RANGE);
    ck_assert_str_eq(err.rule, "uplink_count");
    node.uplink_count = 2;
    uplinks[1].next_hop = ip_of("2001:db8::1");
    ck_assert_int_eq(fwd_config_new(&node, &c, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "next_hop_family");
    uplinks[1] = good;
    uplinks[1].mtu = 1279;
    ck_assert_int_eq(fwd_config_new(&node, &c, &err), RC_RANGE);
    ck_assert_str_eq(err.rule, "mtu");
    uplinks[1].mtu = 65536;
    ck_assert_int_eq(fwd_config_new(&node, &c, &err), RC_RANGE);
    uplinks[1] = good;
    uplinks[1].address = (struct ip){ 0 };
    ck_assert_int_eq(fwd_config_new(&node, &c, &err), RC_INVALID);
    uplinks[1] = good;
    node.icmp_source4 = ip_of("2001:db8::1");
    ck_assert_int_eq(fwd_config_new(&node, &c, &err), RC_INVALID);
    ck_assert_str_eq(err.field, "icmp_source");
    ck_assert_ptr_eq(c, untouched);
}
END_TEST

START_TEST(a_new_configuration_inherits_next_hops_by_port_and_address)
{
    static const uint8_t mac[6] = { 2, 1, 2, 3, 4, 5 };
    struct fwd_uplink_spec uplinks[3] = {
        { .port = 0,
          .mtu = 1500,
          .address = ip_of("10.9.0.7"),
          .next_hop = ip_of("10.9.0.1") },
        { .port = 1,
          .mtu = 1500,
          .address = ip_of("10.9.1.7"),
          .next_hop = ip_of("10.9.1.1") },
        { .port = 2,
          .mtu = 1500,
          .address = ip_of("10.9.2.7"),
          .next_hop = ip_of("10.9.2.1"),
          .has_next_hop_mac = true,
          .next_hop_mac = { 2, 7, 7, 7, 7, 7 } },
    };
    struct fwd_node node = { .uplinks = uplinks, .uplink_count = 3 };
    struct fwd_config *before = compile(&node);
    struct fwd_config *now;
    struct fwd_uplink_spec first = uplinks[0];
    uint64_t static_mac = before->next_hop_mac[2];

    fwd_config_set_mac(before, 0, mac);
    fwd_config_set_mac(before, 1, mac);
    fwd_config_set_mac(before, 2, mac); /* static: stays */
    fwd_config_clear_mac(before, 2);
    ck_assert_uint_eq(before->next_hop_mac[2], static_mac);
    uplinks[0] = uplinks[1]; /* another order, */
    uplinks[1] = first;
    uplinks[1].next_hop = ip_of("10.9.0.2"); /* another router */
    now = compile(&node);
    fwd_config_inherit_macs(now, before);
    ck_assert_uint_eq(now->next_hop_mac[0], FWD_MAC_KNOWN | 0x020102030405);
    ck_assert_uint_eq(now->next_hop_mac[1], 0);
    ck_assert_uint_eq(now->next_hop_mac[2], static_mac);
    fwd_config_free(now);
    fwd_config_free(before);
}
END_TEST

START_TEST(a_devices_configuration_becomes_one_uplink_a_family)
{
    struct device_config *d = calloc(1, sizeof(*d));
    struct fwd_port ports[2] = { { 7, { 2, 0, 0, 0, 0, 7 } },
                                 { 3, { 2, 0, 0, 0, 0, 3 } } };
    struct fwd_config *c;

    ck_assert_ptr_nonnull(d);
    d->vtep_v4 = ip_of("192.0.2.1");
    d->fallback_v4 = ip_of("192.0.2.9");
    d->fallback_v6 = ip_of("2001:db8::9");
    d->vip_v4 = ip_of("192.0.2.2");
    d->vip_v6 = ip_of("2001:db8::2");
    d->icmp_source_v6 = ip_of("2001:db8:64::1");
    d->udp6_zero_csum = true;
    d->underlay_source_count = 1;
    d->underlay_sources[0] = (struct prefix){ ip_of("198.51.100.0"), 24 };
    d->uplink_count = 2;
    d->uplinks[0] = (struct uplink){ .addr_v4 = ip_of("10.9.0.7"),
                                     .next_hop_v4 = ip_of("10.9.0.1"),
                                     .addr_v6 = ip_of("2001:db8:9::7"),
                                     .next_hop_v6 = ip_of("2001:db8:9::1"),
                                     .mtu = 9000 };
    d->uplinks[1] = (struct uplink){ .addr_v6 = ip_of("2001:db8:8::7"),
                                     .next_hop_v6 = ip_of("2001:db8:8::1"),
                                     .has_mac = true,
                                     .mac = { 2, 1, 1, 1, 1, 1 },
                                     .mtu = 1500 };
    ck_assert_int_eq(fwd_config_of_device(d, ports, &c, NULL), RC_OK);
    ck_assert_uint_eq(c->uplink_count, 3);
    ck_assert_uint_eq(c->uplink[0].port, 7);
    ck_assert_uint_eq(c->uplink[0].family, IP_V4);
    ck_assert_uint_eq(c->uplink[0].mtu, 9000);
    ck_assert_mem_eq(c->uplink[0].mac, ports[0].mac, 6);
    ck_assert_uint_eq(c->uplink[1].port, 7);
    ck_assert_uint_eq(c->uplink[1].family, IP_V6);
    ck_assert_uint_eq(c->next_hop_mac[1], 0);
    ck_assert_uint_eq(c->uplink[2].port, 3);
    ck_assert_uint_eq(c->next_hop_mac[2], FWD_MAC_KNOWN | 0x020101010101);
    ck_assert_uint_eq(fwd_config_local4(c, d->vtep_v4.b), ADDRESS_TUNNEL);
    ck_assert_uint_eq(fwd_config_local4(c, d->fallback_v4.b), ADDRESS_TUNNEL);
    ck_assert_uint_eq(fwd_config_local6(c, d->fallback_v6.b), ADDRESS_TUNNEL);
    ck_assert_uint_eq(fwd_config_local6(c, d->uplinks[1].addr_v6.b), ADDRESS_PORT);
    ck_assert(c->has_vip4 && c->has_vip6 && !c->has_icmp4 && c->has_icmp6);
    ck_assert(c->udp6_zero_csum);
    fwd_config_free(c);
    free(d);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fwd_config");

    tcase_add_test(tc, an_address_may_send_exactly_when_a_prefix_contains_it);
    tcase_add_test(tc,
                   both_ends_of_every_prefix_length_may_send_and_their_neighbours_not);
    tcase_add_test(tc, an_address_of_ours_is_what_it_was_given_as);
    tcase_add_test(tc, an_empty_node_accepts_nothing);
    tcase_add_test(
        tc, what_cannot_be_compiled_is_refused_with_its_field_and_changes_nothing);
    tcase_add_test(tc, a_new_configuration_inherits_next_hops_by_port_and_address);
    tcase_add_test(tc, a_devices_configuration_becomes_one_uplink_a_family);
    return unit_run("fwd_config", tc);
}
