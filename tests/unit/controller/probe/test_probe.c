/* Probes are made of a tenant's rows, and judged by what those say.  What must come of
 * a packet is held against the reference forwarder in tests/reference/test_probes.py;
 * here it is held against the device in memory, which looks up for itself. */
#include "controller/probe/probe.h"

#include <string.h>

#include "agent/driver/memory_probe.h"
#include "proto/model/entry_text.h"
#include "tests/unit/unit.h"

struct rig {
    struct table_set *tables;
    struct device_config config;
    struct probe_node node;
};

static struct ip v6(uint8_t last)
{
    uint8_t b[16] = { 0xfd, [15] = last };

    return ip_v6(b);
}

static void put(struct rig *r, const char *line)
{
    struct batch_writer w;
    struct entry e;
    enum entry_op op;
    struct blob *b;
    struct err err = { 0 };

    ck_assert_msg(!entry_parse_json(line, strlen(line), &op, &e, &err), "%s", err.msg);
    batch_writer_init(&w);
    batch_add_entry(&w, op, &e);
    b = batch_writer_finish(&w);
    ck_assert(!table_set_apply(r->tables, b->data, b->len, NULL, NULL, NULL));
    blob_unref(b);
    batch_writer_fini(&w);
}

static void rig_init(struct rig *r, uint8_t kind)
{
    static const char *const lines[] = {
        "{\"table\":\"vni\",\"vni\":1}",
        ("{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.1.0.0/16\","
         "\"scope\":\"local\"}"),
        "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.1.0.5\",\"nc\":\"172.16.1.1\"}",
        "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.1.0.6\",\"nc\":\"172.16.1.2\"}",
    };

    memset(r, 0, sizeof(*r));
    r->tables = table_set_new();
    r->config.kind = kind;
    r->config.vtep_v4 = ip_v4(0xac100001);
    r->config.vtep_v6 = v6(1);
    r->config.vip_v4 = ip_v4(0xac1000ff);
    r->config.vip_v6 = v6(0xff);
    r->config.underlay_source_count = 2;
    r->config.underlay_sources[0] = (struct prefix){ ip_v4(0xac100000), 12 };
    r->config.underlay_sources[1] = (struct prefix){ v6(0), 16 };
    r->config.fallback_member_count = 2;
    r->config.fallback_members[0].v4 = ip_v4(0xac100011);
    r->config.fallback_members[1].v4 = ip_v4(0xac100012);
    r->node = (struct probe_node){ r->tables, &r->config };
    for (unsigned i = 0; i < ARRAY_LEN(lines); i++) {
        put(r, lines[i]);
    }
}

static void rig_fini(struct rig *r)
{
    table_set_free(r->tables);
}

/* What the device in memory makes of it. */
static struct probe_result answer(const struct rig *r, const struct probe *p)
{
    struct memory_probe_view view = { r->tables, &r->config, true };
    struct probe_result result;
    uint8_t bytes[VXLAN_PACKET_MAX];
    struct blob *frame = blob_copy(bytes, vxlan_packet_build(&p->sent, bytes));

    memory_probe(&view, frame, &result);
    blob_unref(frame);
    return result;
}

static void must_agree(const struct rig *r, const struct probe *p)
{
    struct probe_result found = answer(r, p);
    char why[PROBE_WHY_MAX + 1];

    ck_assert_msg(probe_judge(p, &found, why) == PROBE_AGREES, "%s", why);
    ck_assert_str_eq(why, "");
    blob_unref(found.frame);
}

/* To the first VM. */
static void make(const struct rig *r, uint64_t number, struct probe *ret)
{
    const struct ip vm = { IP_V4, { 10, 1, 0, 5 } };

    probe_make_to(&r->node, 1, &vm, IP_V4, number, ret);
}

START_TEST(a_probe_goes_to_a_vm_of_the_tenant_and_is_marked)
{
    struct rig r;
    struct probe p;

    rig_init(&r, DEVICE_X86);
    make(&r, 0x1122334455667788, &p);
    ck_assert_uint_eq(p.sent.vni, 1);
    ck_assert(ip_compare(&p.sent.outer_dst, &r.config.vtep_v4) == 0);
    ck_assert(prefix_contains(&r.config.underlay_sources[0], &p.sent.outer_src));
    ck_assert(ip_compare(&p.sent.dst, &(struct ip){ IP_V4, { 10, 1, 0, 5 } }) == 0);
    ck_assert(ip_compare(&p.sent.src, &(struct ip){ IP_V4, { 10, 1, 0, 6 } }) == 0);
    ck_assert_uint_eq(p.sent.dport, 9);
    ck_assert_mem_eq(p.sent.payload, "xgw probe \x11\x22\x33\x44\x55\x66\x77\x88", 18);
    ck_assert_uint_eq(p.want.outcome, PROBE_FORWARDED);
    ck_assert(ip_compare(&p.want.packet.outer_dst,
                         &(struct ip){ IP_V4, { 172, 16, 1, 1 } }) == 0);
    ck_assert(ip_compare(&p.want.packet.outer_src, &r.config.vip_v4) == 0);
    ck_assert_uint_eq(p.want.packet.outer_ttl, p.sent.outer_ttl - 1);
    ck_assert_uint_eq(p.want.packet.ttl, p.sent.ttl);
    must_agree(&r, &p);
    rig_fini(&r);
}
END_TEST

START_TEST(what_no_entry_says_is_a_miss)
{
    const uint8_t outside[16] = { 0x20, 0x01, [15] = 1 };
    const struct ip dst = ip_v6(outside);
    struct rig r;
    struct probe p;

    rig_init(&r, DEVICE_X86);
    probe_make_to(&r.node, 1, &dst, IP_V4, 1, &p);
    ck_assert_str_eq(p.want.reason, "route_miss");
    must_agree(&r, &p);
    put(&r, "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"::/0\",\"scope\":"
            "\"internet\"}");
    probe_make_to(&r.node, 1, &dst, IP_V4, 1, &p);
    ck_assert_str_eq(p.want.reason, "no_snat");
    must_agree(&r, &p);
    probe_make_to(&r.node, 3, &dst, IP_V6, 1, &p);
    ck_assert_str_eq(p.want.reason, "unknown_vni");
    must_agree(&r, &p);
    rig_fini(&r);
}
END_TEST

START_TEST(xgw_h_hands_on_what_it_lacks_to_any_member)
{
    struct rig r;
    struct probe p;
    struct probe_result found;
    char why[PROBE_WHY_MAX + 1];

    rig_init(&r, DEVICE_SOFT_H);
    put(&r, "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.1.0.5\"}");
    probe_make_to(&r.node, 1, &(struct ip){ IP_V4, { 10, 1, 0, 5 } }, IP_V4, 1, &p);
    ck_assert(p.want.is_fallback);
    ck_assert_uint_eq(p.want.member_count, 2);
    must_agree(&r, &p);
    r.config.fallback_member_count = 1; /* the device knows the other one alone */
    r.config.fallback_members[0] = r.config.fallback_members[1];
    must_agree(&r, &p);
    r.config.fallback_members[0].v4 = ip_v4(0xac100013);
    found = answer(&r, &p);
    ck_assert_int_eq(probe_judge(&p, &found, why), PROBE_DIFFERS);
    ck_assert_str_eq(why, "vni 1 to 10.1.0.5: expected fallback, found outer "
                          "destination is 172.16.0.19, not 172.16.0.17");
    blob_unref(found.frame);
    rig_fini(&r);
}
END_TEST

START_TEST(a_rule_of_the_tenant_decides_on_xgw_h)
{
    static const struct {
        const char *rule;
        bool denied;
    } cases[] = {
        { "\"priority\":5,\"action\":\"deny\",\"src\":\"10.1.0.0/16\",\"dst\":"
          "\"10.1.0.0/16\"",
          true },
        { "\"priority\":6,\"action\":\"permit\",\"src\":\"10.1.0.0/16\",\"dst\":"
          "\"10.1.0.0/16\"",
          false },
        { "\"priority\":6,\"action\":\"deny\",\"src\":\"10.1.0.0/16\",\"dst\":"
          "\"10.1.0.5/32\"",
          true },
        { "\"priority\":7,\"action\":\"permit\",\"src\":\"10.0.0.0/8\",\"dst\":"
          "\"10.1.0.0/16\",\"proto\":\"tcp\"",
          true },
        { "\"priority\":7,\"action\":\"permit\",\"src\":\"10.0.0.0/8\",\"dst\":"
          "\"10.1.0.0/16\",\"proto\":\"udp\",\"dport\":\"9-10\"",
          false },
    };
    struct rig r;
    struct probe p;

    rig_init(&r, DEVICE_SOFT_H);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        char line[256];

        snprintf(line, sizeof(line), "{\"table\":\"acl\",\"vni\":1,%s}", cases[i].rule);
        put(&r, line);
        make(&r, 1, &p);
        ck_assert_str_eq(p.want.reason, cases[i].denied ? "acl_deny" : "");
        must_agree(&r, &p);
    }
    rig_fini(&r);
}
END_TEST

/* Over IPv6 to a node of both, for the NC is there; XGW-H cannot change the family. */
START_TEST(each_way_to_be_wrong_is_told_and_not_now_is_not_wrong)
{
    static const struct {
        struct probe_result found;
        enum probe_verdict want;
        const char *why;
    } cases[] = {
        { { .outcome = PROBE_DROPPED, .reason = "vm_nc_miss" },
          PROBE_DIFFERS,
          "vni 1 to 10.1.0.5: expected a packet to 172.16.1.1, found drop vm_nc_miss" },
        { { .outcome = PROBE_KEPT },
          PROBE_DIFFERS,
          "vni 1 to 10.1.0.5: expected a packet to 172.16.1.1, found kept by the "
          "node's control" },
        { { .outcome = PROBE_DROPPED, .reason = "next_hop_unresolved" },
          PROBE_SAYS_NOTHING,
          NULL },
        { { .outcome = PROBE_DROPPED, .reason = "meter_red" },
          PROBE_SAYS_NOTHING,
          NULL },
        { { .rc = RC_TIMEOUT, .error = "no answer" },
          PROBE_SAYS_NOTHING,
          "vni 1 to 10.1.0.5: no answer" },
        { { .rc = RC_NOT_FOUND, .error = "takes no probes" },
          PROBE_DIFFERS,
          "vni 1 to 10.1.0.5: takes no probes" },
    };
    struct rig r;
    struct probe p;
    struct probe_result found;
    char why[PROBE_WHY_MAX + 1];

    rig_init(&r, DEVICE_X86);
    make(&r, 1, &p);
    ck_assert_int_eq(probe_judge(&p, &cases[_i].found, why), cases[_i].want);
    ck_assert_str_ne(why, "");
    if (cases[_i].why) {
        ck_assert_str_eq(why, cases[_i].why);
    }
    /* A packet where a drop was expected, and one byte off where it was not. */
    found = answer(&r, &p);
    found.frame->data[found.frame->len - 1] ^= 1;
    ck_assert_int_eq(probe_judge(&p, &found, why), PROBE_DIFFERS);
    found.frame->data[found.frame->len - 1] ^= 1;
    p.want.outcome = PROBE_DROPPED;
    strcpy(p.want.reason, "mtu");
    ck_assert_int_eq(probe_judge(&p, &found, why), PROBE_DIFFERS);
    ck_assert_str_eq(why, "vni 1 to 10.1.0.5: expected drop mtu, found a packet");
    blob_unref(found.frame);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("probe");

    tcase_add_test(tc, a_probe_goes_to_a_vm_of_the_tenant_and_is_marked);
    tcase_add_test(tc, what_no_entry_says_is_a_miss);
    tcase_add_test(tc, xgw_h_hands_on_what_it_lacks_to_any_member);
    tcase_add_test(tc, a_rule_of_the_tenant_decides_on_xgw_h);
    tcase_add_loop_test(tc, each_way_to_be_wrong_is_told_and_not_now_is_not_wrong, 0,
                        6);
    return unit_run("probe", tc);
}
