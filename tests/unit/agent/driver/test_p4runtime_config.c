/* A device's configuration as the physical tables take it. */
#include "agent/driver/p4runtime_config.h"

#include <string.h>

#include "tests/unit/unit.h"

static struct device_config *some_config(void)
{
    static struct device_config d;

    memset(&d, 0, sizeof(d));
    d.kind = DEVICE_TOFINO;
    d.vtep_v4 = ip_v4(0x0a000001);
    d.vip_v4 = ip_v4(0x0a0000fe);
    d.vip_v6 = ip_v6((const uint8_t[16]){ 0x20, 1, [15] = 9 });
    d.underlay_source_count = 1;
    d.underlay_sources[0] = (struct prefix){ ip_v4(0x0a000000), 8 };
    d.uplink_count = 2;
    strcpy(d.uplinks[0].port, "132");
    d.uplinks[0].addr_v4 = ip_v4(0x0a010001);
    d.uplinks[0].has_mac = true;
    memcpy(d.uplinks[0].mac, "\x02\0\0\0\0\x07", 6);
    strcpy(d.uplinks[1].port, "0");
    d.uplinks[1].addr_v6 = ip_v6((const uint8_t[16]){ 0x20, 1, [15] = 1 });
    d.fallback_member_count = 1;
    d.fallback_members[0].v4 = ip_v4(0x0a020001);
    d.fallback_meter.node[FALLBACK_SERVICE] = (struct policer){ 8000000, 1500 };
    d.fallback_meter.tenant[FALLBACK_MISS] = (struct policer){ 16, 64 };
    return &d;
}

START_TEST(everything_that_a_switch_is_told_of_itself_is_in_it)
{
    struct device_config *d = some_config();
    struct xgwh_config c;

    ck_assert_int_eq(p4runtime_config_of(d, 77, &c, NULL), RC_OK);
    ck_assert_uint_eq(c.digest, 77);
    ck_assert_uint_eq(c.own_count, 3); /* VTEP and VIPs; no v6 VTEP is none */
    ck_assert_int_eq(ip_compare(&c.own[0], &d->vtep_v4), 0);
    ck_assert_int_eq(ip_compare(&c.own[2], &d->vip_v6), 0);
    ck_assert_int_eq(ip_compare(&c.source_v4, &d->vip_v4), 0);
    ck_assert_int_eq(ip_compare(&c.source_v6, &d->vip_v6), 0);
    ck_assert_uint_eq(c.source_count, 1);
    ck_assert_int_eq(prefix_compare(&c.sources[0], &d->underlay_sources[0]), 0);
    ck_assert_uint_eq(c.uplink_count, 2);
    ck_assert_uint_eq(c.uplinks[0].port, 132);
    ck_assert(c.uplinks[0].has_v4 && !c.uplinks[0].has_v6 && c.uplinks[0].weight == 1);
    ck_assert_mem_eq(c.uplinks[0].dmac4, "\x02\0\0\0\0\x07", 6);
    ck_assert_uint_eq(c.uplinks[1].port, 0);
    ck_assert(!c.uplinks[1].has_v4 && c.uplinks[1].has_v6);
    ck_assert_mem_eq(c.uplinks[1].dmac6, "\0\0\0\0\0\0", 6);
    ck_assert_uint_eq(c.member_count, 1);
    ck_assert_int_eq(ip_compare(&c.members[0].v4, &d->fallback_members[0].v4), 0);
    ck_assert_uint_eq(c.fallback_class[PHYS_CLASS_SERVICE].cir, 1000000); /* bytes */
    ck_assert_uint_eq(c.fallback_class[PHYS_CLASS_SERVICE].pir, 1000000);
    ck_assert_uint_eq(c.fallback_class[PHYS_CLASS_SERVICE].pburst, 1500);
    ck_assert_uint_eq(c.fallback_tenant[PHYS_CLASS_MISS].cir, 2);
    ck_assert_uint_eq(c.fallback_class[PHYS_CLASS_MISS].cir, 0);
}
END_TEST

static const char *const bad_ports[] = { "up0", "512", "1000", "", "-1", "1 ", "0x1" };

START_TEST(a_port_that_is_no_number_of_the_switch_is_refused)
{
    struct device_config *d = some_config();
    struct xgwh_config c = { .digest = 5 };
    struct err err = { 0 };

    strcpy(d->uplinks[1].port, bad_ports[_i]);
    ck_assert_int_eq(p4runtime_config_of(d, 77, &c, &err), RC_INVALID);
    ck_assert_str_eq(err.field, "uplinks.port");
    ck_assert_str_eq(err.rule, "port_number");
    ck_assert_uint_eq(c.digest, 5);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("p4runtime_config");

    tcase_add_test(tc, everything_that_a_switch_is_told_of_itself_is_in_it);
    tcase_add_loop_test(tc, a_port_that_is_no_number_of_the_switch_is_refused, 0,
                        ARRAY_LEN(bad_ports));
    return unit_run("p4runtime_config", tc);
}
