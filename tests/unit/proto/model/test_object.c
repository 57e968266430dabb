#include "tests/unit/unit.h"

#include <string.h>

#include "proto/model/object.h"
#include "tests/unit/proto/model/random_entry.h"

static struct ip ip(const char *text)
{
    struct ip ret;

    ck_assert_int_eq(ip_parse(text, strlen(text), &ret, NULL), RC_OK);
    return ret;
}

static struct prefix prefix(const char *text)
{
    struct prefix ret;

    ck_assert_int_eq(prefix_parse(text, strlen(text), &ret, NULL), RC_OK);
    return ret;
}

static void sample_region(struct region *r)
{
    memset(r, 0, sizeof(*r));
    strcpy(r->name, "hz");
    r->steering = STEERING_LB;
    r->icmp_source_v4 = ip("100.64.0.1");
    r->underlay_sources[0] = prefix("10.0.0.0/8");
    r->underlay_sources[1] = prefix("fd00::/8");
    r->underlay_source_count = 2;
    r->ecmp_limit = 16;
    r->admission_hold_ms = 90000;
}

static void sample_cluster(struct cluster *c)
{
    memset(c, 0, sizeof(*c));
    strcpy(c->name, "x86-1");
    c->kind = CLUSTER_X86;
    c->active_side = 'a';
    c->state = CLUSTER_DRAINING;
    c->udp6_zero_csum = true;
    c->vip_v4 = ip("172.16.9.1");
}

static void sample_node(struct node *n)
{
    memset(n, 0, sizeof(*n));
    strcpy(n->name, "gw-1");
    strcpy(n->cluster, "x86-1");
    n->kind = DEVICE_X86;
    n->side = 'b';
    n->vtep_v4 = ip("172.16.0.2");
    n->fallback_v4 = ip("172.16.0.3");
    n->uplink_count = 2;
    strcpy(n->uplinks[0].port, "net_af_packet0");
    n->uplinks[0].addr_v4 = ip("172.16.0.2");
    n->uplinks[0].next_hop_v4 = ip("172.16.0.1");
    n->uplinks[0].mtu = 1500;
    strcpy(n->uplinks[1].port, "0000:03:00.0");
    n->uplinks[1].addr_v6 = ip("fd00::2");
    n->uplinks[1].next_hop_v6 = ip("fd00::1");
    n->uplinks[1].has_mac = true;
    memcpy(n->uplinks[1].mac, "\x02\x00\x00\x00\x00\x01", 6);
    n->uplinks[1].mtu = 9000;
}

static void sample_h_cluster(struct cluster *c)
{
    memset(c, 0, sizeof(*c));
    strcpy(c->name, "h-1");
    c->kind = CLUSTER_XGW_H;
    c->active_side = 'b';
    c->vip_v4 = ip("172.16.9.2");
    c->profile = TABLES_BENCH;
    strcpy(c->backing, "x86-1");
    fallback_meter_default(&c->fallback_meter);
}

static void sample_h_node(struct node *n)
{
    memset(n, 0, sizeof(*n));
    strcpy(n->name, "hw-1");
    strcpy(n->cluster, "h-1");
    n->kind = DEVICE_TOFINO;
    n->side = 'a';
    n->vtep_v4 = ip("172.16.0.4");
}

/* What sample_h_node is told when sample_node is its only member. */
static void sample_h_device(struct device_config *d)
{
    struct region r;
    struct cluster c;
    struct node n;
    struct node x86;

    sample_region(&r);
    sample_h_cluster(&c);
    sample_h_node(&n);
    sample_node(&x86);
    device_config_of(&r, &c, &n, d);
    device_config_add_member(d, &x86);
}

/* What a load balancer is told when these two are all members. */
static void sample_lb_device(struct device_config *d)
{
    struct cluster c = { .name = "lb", .kind = CLUSTER_LB, .active_side = 'a' };
    struct node n = { .name = "lb-1", .cluster = "lb", .kind = DEVICE_LB, .side = 'a' };
    struct region r = { .name = "hz" };
    struct node member;

    c.vip_v4 = ip("172.16.9.9");
    n.vtep_v4 = ip("172.16.0.9");
    device_config_of(&r, &c, &n, d);
    sample_h_node(&member);
    device_config_add_cluster_member(d, &member);
    sample_node(&member);
    member.vtep_v6 = ip("fd00::2");
    device_config_add_cluster_member(d, &member);
}

/* Packed bytes, spelled by hand from object_pack.c. */
#define SOURCES                                                                        \
    "0002"                                                                             \
    "040a00000008"                                                                     \
    "06fd00000000000000000000000000000008"
#define UPLINKS                                                                        \
    "02"                                                                               \
    "0e6e65745f61665f7061636b657430"                                                   \
    "04ac100002"                                                                       \
    "00"                                                                               \
    "04ac100001"                                                                       \
    "00"                                                                               \
    "00"                                                                               \
    "05dc"                                                                             \
    "0c303030303a30333a30302e30"                                                       \
    "00"                                                                               \
    "06fd000000000000000000000000000002"                                               \
    "00"                                                                               \
    "06fd000000000000000000000000000001"                                               \
    "01"                                                                               \
    "020000000001"                                                                     \
    "2328"
#define REGION                                                                         \
    "5201"                                                                             \
    "02687a"                                                                           \
    "10"                                                                               \
    "00015f90"                                                                         \
    "0464400001"                                                                       \
    "00" SOURCES "01"
#define CLUSTER                                                                        \
    "4301"                                                                             \
    "057838362d31"                                                                     \
    "01"                                                                               \
    "06"                                                                               \
    "61"                                                                               \
    "01"                                                                               \
    "04ac100901"                                                                       \
    "00"                                                                               \
    "00" ZERO_METER "00"
#define NODE                                                                           \
    "4e01"                                                                             \
    "0467772d31"                                                                       \
    "057838362d31"                                                                     \
    "01"                                                                               \
    "62"                                                                               \
    "04ac100002"                                                                       \
    "00"                                                                               \
    "04ac100003"                                                                       \
    "00" UPLINKS
#define DEVICE                                                                         \
    "4401"                                                                             \
    "0467772d31"                                                                       \
    "057838362d31"                                                                     \
    "01"                                                                               \
    "01"                                                                               \
    "04ac100002"                                                                       \
    "00"                                                                               \
    "04ac100901"                                                                       \
    "00"                                                                               \
    "0464400001"                                                                       \
    "00" SOURCES UPLINKS "04ac100003"                                                  \
    "00"                                                                               \
    "00" ZERO_METER
#define ZERO_METER                                                                     \
    "000000000000000000000000000000000000000000000000"                                 \
    "000000000000000000000000000000000000000000000000"
/* Rates and bursts of the default: node.miss, node.service, tenant.miss, … */
#define DEFAULT_METER                                                                  \
    "00000000ee6b2800004c4b40"                                                         \
    "00000009502f900002faf080"                                                         \
    "0000000005f5e1000001e848"                                                         \
    "00000000ee6b2800004c4b40"
#define H_CLUSTER                                                                      \
    "4301"                                                                             \
    "03682d31"                                                                         \
    "02"                                                                               \
    "00"                                                                               \
    "62"                                                                               \
    "00"                                                                               \
    "04ac100902"                                                                       \
    "00"                                                                               \
    "057838362d31" DEFAULT_METER "01"
#define H_DEVICE                                                                       \
    "4401"                                                                             \
    "0468772d31"                                                                       \
    "03682d31"                                                                         \
    "03"                                                                               \
    "00"                                                                               \
    "04ac100004"                                                                       \
    "00"                                                                               \
    "04ac100902"                                                                       \
    "00"                                                                               \
    "0464400001"                                                                       \
    "00" SOURCES "00"                                                                  \
    "00"                                                                               \
    "00"                                                                               \
    "01"                                                                               \
    "04ac100003"                                                                       \
    "00" DEFAULT_METER
#define POLICY                                                                         \
    "5001"                                                                             \
    "0002"                                                                             \
    "03696463"                                                                         \
    "01"                                                                               \
    "0b736572766963653a646e73"                                                         \
    "01"

static void check_hex(const struct buf *b, const char *want)
{
    struct buf hex = BUF_INIT;

    for (size_t i = 0; i < b->len; i++) {
        buf_printf(&hex, "%02x", b->data[i]);
    }
    ck_assert_str_eq(buf_cstr(&hex), want);
    buf_fini(&hex);
}

START_TEST(objects_pack_to_the_named_bytes_and_back)
{
    struct region r, r2;
    struct cluster c, c2;
    struct node n, n2;
    struct device_config d, d2;
    struct buf b = BUF_INIT;
    struct err err = { 0 };

    sample_region(&r);
    region_pack(&r, &b);
    check_hex(&b, REGION);
    ck_assert_int_eq(region_unpack(b.data, b.len, &r2, &err), RC_OK);
    ck_assert_mem_eq(&r, &r2, sizeof(r));

    buf_reset(&b);
    sample_cluster(&c);
    cluster_pack(&c, &b);
    check_hex(&b, CLUSTER);
    ck_assert_int_eq(cluster_unpack(b.data, b.len, &c2, &err), RC_OK);
    ck_assert_mem_eq(&c, &c2, sizeof(c));

    buf_reset(&b);
    sample_node(&n);
    node_pack(&n, &b);
    check_hex(&b, NODE);
    ck_assert_int_eq(node_unpack(b.data, b.len, &n2, &err), RC_OK);
    ck_assert_mem_eq(&n, &n2, sizeof(n));

    buf_reset(&b);
    device_config_of(&r, &c, &n, &d);
    ck_assert_int_eq(device_config_check(&d, &err), RC_OK);
    device_config_pack(&d, &b);
    check_hex(&b, DEVICE);
    ck_assert_int_eq(device_config_unpack(b.data, b.len, &d2, &err), RC_OK);
    ck_assert_mem_eq(&d, &d2, sizeof(d));
    /* xxhsum -H3 of DEVICE */
    ck_assert_uint_eq(device_config_digest(&d), UINT64_C(0x643a046b2b19ea31));
    ck_assert_uint_eq(device_config_bytes_digest(b.data, b.len),
                      UINT64_C(0x643a046b2b19ea31));
    buf_fini(&b);
}
END_TEST

START_TEST(objects_of_xgw_h_pack_to_the_named_bytes_and_back)
{
    struct cluster c, c2;
    struct device_config d, d2;
    static struct policy p, p2;
    struct node bare;
    struct buf b = BUF_INIT;
    struct err err = { 0 };

    sample_h_cluster(&c);
    ck_assert_msg(cluster_check(&c, &err) == RC_OK, "%s", err.msg);
    cluster_pack(&c, &b);
    check_hex(&b, H_CLUSTER);
    ck_assert_int_eq(cluster_unpack(b.data, b.len, &c2, &err), RC_OK);
    ck_assert_mem_eq(&c, &c2, sizeof(c));

    buf_reset(&b);
    sample_h_device(&d);
    sample_node(&bare);
    bare.fallback_v4 = (struct ip){ 0 };
    device_config_add_member(&d, &bare); /* has no fallback address: is none */
    ck_assert_msg(device_config_check(&d, &err) == RC_OK, "%s", err.msg);
    device_config_pack(&d, &b);
    check_hex(&b, H_DEVICE);
    ck_assert_int_eq(device_config_unpack(b.data, b.len, &d2, &err), RC_OK);
    ck_assert_mem_eq(&d, &d2, sizeof(d));

    buf_reset(&b);
    ck_assert_int_eq(policy_set(&p, "service:dns", POLICY_XGW_X86, &err), RC_OK);
    ck_assert_int_eq(policy_set(&p, "idc", POLICY_XGW_X86, &err), RC_OK);
    policy_pack(&p, &b);
    check_hex(&b, POLICY);
    ck_assert_int_eq(policy_unpack(b.data, b.len, &p2, &err), RC_OK);
    ck_assert_mem_eq(&p, &p2, sizeof(p));
    buf_fini(&b);
}
END_TEST

#define LB_DEVICE                                                                      \
    "4401"                                                                             \
    "046c622d31"                                                                       \
    "026c62"                                                                           \
    "05"                                                                               \
    "00"                                                                               \
    "04ac100009"                                                                       \
    "00"                                                                               \
    "04ac100909"                                                                       \
    "00"                                                                               \
    "00"                                                                               \
    "00"                                                                               \
    "0000"                                                                             \
    "00"                                                                               \
    "00"                                                                               \
    "00"                                                                               \
    "00" ZERO_METER "0002"                                                             \
    "03682d31"                                                                         \
    "0468772d31"                                                                       \
    "04ac100004"                                                                       \
    "00"                                                                               \
    "057838362d31"                                                                     \
    "0467772d31"                                                                       \
    "04ac100002"                                                                       \
    "06fd000000000000000000000000000002"

START_TEST(a_load_balancer_is_told_members_in_order_and_at_most_64_a_cluster)
{
    static struct device_config d, d2;
    struct node member;
    struct buf b = BUF_INIT;
    struct err err = { 0 };

    sample_lb_device(&d);
    ck_assert_msg(device_config_check(&d, &err) == RC_OK, "%s", err.msg);
    device_config_pack(&d, &b);
    check_hex(&b, LB_DEVICE);
    ck_assert_int_eq(device_config_unpack(b.data, b.len, &d2, &err), RC_OK);
    ck_assert_mem_eq(&d, &d2, sizeof(d));
    buf_fini(&b);

    device_config_add_cluster_member(&d, &(struct node){ 0 }); /* nobody */
    ck_assert_int_eq(device_config_check(&d, &err), RC_RANGE);
    ck_assert_str_eq(err.field, "cluster_members[2].cluster");
    sample_lb_device(&d);
    d.cluster_members[1].v4 = d.cluster_members[1].v6 = (struct ip){ 0 };
    ck_assert_int_eq(device_config_check(&d, &err), RC_INVALID);
    ck_assert_str_eq(err.field, "cluster_members[1].vtep_v4");
    sample_lb_device(&d);
    d.cluster_members[1] = d.cluster_members[0];
    ck_assert_int_eq(device_config_check(&d, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "ascending");
    sample_lb_device(&d);
    d.kind = DEVICE_X86;
    ck_assert_int_eq(device_config_check(&d, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "lb_only");

    sample_lb_device(&d);
    d.cluster_member_count = 0;
    sample_node(&member);
    for (unsigned i = 0; i < 600; i++) {
        snprintf(member.cluster, sizeof(member.cluster), "c%03u", i / CLUSTER_SIDE_MAX);
        snprintf(member.name, sizeof(member.name), "gw-%03u", i);
        device_config_add_cluster_member(&d, &member);
    }
    ck_assert_uint_eq(d.cluster_member_count, CLUSTER_MEMBERS_MAX);
    ck_assert_msg(device_config_check(&d, &err) == RC_OK, "%s", err.msg);
    strcpy(d.cluster_members[CLUSTER_SIDE_MAX].cluster, "c000");
    ck_assert_int_eq(device_config_check(&d, &err), RC_RANGE);
    ck_assert_str_eq(err.rule, "list_length");
}
END_TEST

START_TEST(a_device_has_at_most_64_fallback_members)
{
    struct device_config d;
    struct node x86;
    struct err err = { 0 };

    sample_h_device(&d);
    sample_node(&x86);
    for (unsigned i = 0; i < 100; i++) {
        device_config_add_member(&d, &x86);
    }
    ck_assert_uint_eq(d.fallback_member_count, FALLBACK_MEMBERS_MAX);
    ck_assert_int_eq(device_config_check(&d, &err), RC_OK);
    d.fallback_member_count++;
    ck_assert_int_eq(device_config_check(&d, &err), RC_RANGE);
    ck_assert_str_eq(err.field, "fallback_members");
    d.fallback_member_count = 1;
    d.fallback_members[0].v4 = (struct ip){ 0 };
    ck_assert_int_eq(device_config_check(&d, &err), RC_INVALID);
    ck_assert_str_eq(err.field, "fallback_members[0].v4");
    sample_h_device(&d);
    d.kind = DEVICE_X86;
    ck_assert_int_eq(device_config_check(&d, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "xgw_h_only");
}
END_TEST

static const struct {
    const char *service;
    enum policy_place set; /* 0: not set */
    enum policy_place want;
    struct route_action route; /* one of that service */
} policy_cases[] = {
    { "local", 0, POLICY_XGW_H, { .scope = SCOPE_LOCAL } },
    { "internet", 0, POLICY_XGW_X86, { .scope = SCOPE_INTERNET } },
    { "internet", POLICY_XGW_H, POLICY_XGW_H, { .scope = SCOPE_INTERNET } },
    { "peer", POLICY_XGW_X86, POLICY_XGW_X86, { .scope = SCOPE_PEER } },
    { "region", POLICY_XGW_H, POLICY_XGW_H, { .scope = SCOPE_REGION } },
    { "service",
      POLICY_XGW_X86,
      POLICY_XGW_X86,
      { .scope = SCOPE_SERVICE, .service = "dns" } },
    { "service:dns",
      POLICY_XGW_X86,
      POLICY_XGW_X86,
      { .scope = SCOPE_SERVICE, .service = "dns" } },
    { "service:dns",
      POLICY_XGW_X86,
      POLICY_XGW_H,
      { .scope = SCOPE_SERVICE, .service = "ntp" } },
};

START_TEST(policy_says_where_a_route_is_by_its_service)
{
    static struct policy p;
    struct err err = { 0 };

    memset(&p, 0, sizeof(p));
    if (policy_cases[_i].set) {
        ck_assert_int_eq(
            policy_set(&p, policy_cases[_i].service, policy_cases[_i].set, &err),
            RC_OK);
    }
    ck_assert_int_eq(policy_of_route(&p, &policy_cases[_i].route),
                     policy_cases[_i].want);
    ck_assert_int_eq(policy_check(&p, &err), RC_OK);
    /* What says the default is no rule. */
    ck_assert_uint_eq(p.rule_count,
                      policy_cases[_i].set &&
                          strcmp(policy_cases[_i].service, "region") != 0);
}
END_TEST

START_TEST(policy_keeps_its_rules_sorted_and_refuses_what_is_no_service)
{
    static struct policy p;
    struct err err = { 0 };
    char name[48];

    memset(&p, 0, sizeof(p));
    for (unsigned i = 0; i < POLICY_RULES_MAX; i++) {
        snprintf(name, sizeof(name), "service:s%u", (i * 37) % POLICY_RULES_MAX);
        ck_assert_int_eq(policy_set(&p, name, POLICY_XGW_X86, &err), RC_OK);
        ck_assert_msg(policy_check(&p, &err) == RC_OK, "%s", err.msg);
    }
    ck_assert_uint_eq(p.rule_count, POLICY_RULES_MAX);
    ck_assert_int_eq(policy_set(&p, "idc", POLICY_XGW_X86, &err), RC_FULL);
    ck_assert_int_eq(policy_set(&p, "service:s7", POLICY_XGW_H, &err), RC_OK);
    ck_assert_int_eq(policy_set(&p, "idc", POLICY_XGW_X86, &err), RC_OK);
    ck_assert_int_eq(policy_check(&p, &err), RC_OK);
    ck_assert_int_eq(policy_set(&p, "derived", POLICY_XGW_H, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "service_known");
    ck_assert_int_eq(policy_set(&p, "service:", POLICY_XGW_H, &err), RC_RANGE);
    ck_assert_int_eq(policy_set(&p, "service:a b", POLICY_XGW_H, &err), RC_INVALID);
    ck_assert_int_eq(policy_set(&p, "peer", (enum policy_place)9, &err), RC_INVALID);
    ck_assert_str_eq(err.rule, "place_known");
    p.rules[1] = p.rules[0];
    ck_assert_int_eq(policy_check(&p, &err), RC_INVALID);
    ck_assert_str_eq(err.field, "rules[1].service");
    ck_assert_str_eq(err.rule, "ascending");
}
END_TEST

START_TEST(a_device_is_told_nothing_of_sides_so_a_switchover_changes_no_device)
{
    struct region r;
    struct cluster c;
    struct node n;
    struct device_config d;
    uint64_t digest;

    sample_region(&r);
    sample_cluster(&c);
    sample_node(&n);
    device_config_of(&r, &c, &n, &d);
    digest = device_config_digest(&d);
    c.active_side = 'b';
    device_config_of(&r, &c, &n, &d);
    ck_assert_uint_eq(device_config_digest(&d), digest);
    r.underlay_source_count = 1;
    device_config_of(&r, &c, &n, &d);
    ck_assert_uint_ne(device_config_digest(&d), digest);
}
END_TEST

START_TEST(sorting_makes_sources_ascending_and_unique)
{
    struct region r;
    struct err err = { 0 };

    sample_region(&r);
    r.underlay_sources[0] = prefix("fd00::/8");
    r.underlay_sources[1] = prefix("10.1.0.0/16");
    r.underlay_sources[2] = prefix("10.0.0.0/8");
    r.underlay_sources[3] = prefix("10.1.0.0/16");
    r.underlay_source_count = 4;
    ck_assert_int_eq(region_check(&r, &err), RC_INVALID);
    ck_assert_str_eq(err.field, "underlay_sources[1]");
    ck_assert_str_eq(err.rule, "ascending");
    region_sort(&r);
    ck_assert_uint_eq(r.underlay_source_count, 3);
    ck_assert_int_eq(region_check(&r, &err), RC_OK);
    ck_assert_int_eq(prefix_compare(&r.underlay_sources[2],
                                    &(struct prefix){ .addr = ip("fd00::"), .len = 8 }),
                     0);
}
END_TEST

START_TEST(packets_are_taken_from_what_lies_in_an_underlay_source_and_no_others)
{
    struct region r;
    struct cluster c;
    struct node n;
    struct device_config *d = malloc(sizeof(*d));
    static const struct {
        const char *from;
        bool is_taken;
    } cases[] = { { "10.255.255.255", true }, { "11.0.0.0", false },
                  { "9.255.255.255", false }, { "fdff::1", true },
                  { "fc00::1", false },       { "a00::", false } };

    sample_region(&r);
    sample_cluster(&c);
    sample_node(&n);
    device_config_of(&r, &c, &n, d);
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct ip from = ip(cases[i].from);

        ck_assert_int_eq(device_config_takes_from(d, &from), cases[i].is_taken);
        ck_assert_int_eq(region_takes_from(&r, &from), cases[i].is_taken);
    }
    free(d);
}
END_TEST

START_TEST(a_region_of_1024_sources_goes_round)
{
    static struct region r;
    static struct region got;
    struct buf b = BUF_INIT;
    struct err err = { 0 };

    sample_region(&r);
    for (unsigned i = 0; i < UNDERLAY_SOURCES_MAX; i++) {
        r.underlay_sources[i] = (struct prefix){ ip_v4(0x0a000000u + (i << 8)), 24 };
    }
    r.underlay_source_count = UNDERLAY_SOURCES_MAX;
    ck_assert_int_eq(region_check(&r, &err), RC_OK);
    region_pack(&r, &b);
    ck_assert_int_eq(region_unpack(b.data, b.len, &got, &err), RC_OK);
    ck_assert_mem_eq(&got, &r, sizeof(r));
    r.underlay_source_count++;
    ck_assert_int_eq(region_check(&r, &err), RC_RANGE);
    ck_assert_str_eq(err.rule, "list_length");
    buf_fini(&b);
}
END_TEST

/* Each makes one thing wrong in sound objects. */
static void bad_region_name(struct region *r, struct cluster *c, struct node *n)
{
    (void)c, (void)n;
    r->name[0] = '\0';
}

static void bad_icmp_family(struct region *r, struct cluster *c, struct node *n)
{
    (void)c, (void)n;
    r->icmp_source_v4 = ip("fd00::1");
}

static void bad_icmp_multicast(struct region *r, struct cluster *c, struct node *n)
{
    (void)c, (void)n;
    r->icmp_source_v6 = ip("ff02::1");
}

static void bad_source_host_bits(struct region *r, struct cluster *c, struct node *n)
{
    (void)c, (void)n;
    r->underlay_sources[0].addr.b[3] = 1;
}

static void bad_source_length(struct region *r, struct cluster *c, struct node *n)
{
    (void)c, (void)n;
    r->underlay_sources[0].len = 33;
}

static void bad_cluster_name(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    strcpy(c->name, "x 1");
}

static void bad_kind(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    c->kind = 9;
}

static void bad_active_side(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    c->active_side = 'c';
}

static void bad_no_vip(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    memset(&c->vip_v4, 0, sizeof(c->vip_v4));
}

static void bad_vip_family(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    c->vip_v6 = ip("10.0.0.1");
}

static void bad_node_name(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    memset(n->name, 'x', sizeof(n->name)); /* no zero at the end */
}

static void bad_side(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->side = 'A';
}

static void bad_no_vtep(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    memset(&n->vtep_v4, 0, sizeof(n->vtep_v4));
}

static void bad_uplink_count(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->uplink_count = 9;
}

static void bad_port(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    strcpy(n->uplinks[1].port, "eth0,foo=1");
}

static void bad_port_twice(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    memcpy(n->uplinks[1].port, n->uplinks[0].port, sizeof(n->uplinks[1].port));
}

static void bad_hop_missing(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    memset(&n->uplinks[0].next_hop_v4, 0, sizeof(struct ip));
    n->uplinks[0].next_hop_v6 = ip("fd00::1");
}

static void bad_hop_self(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->uplinks[1].next_hop_v6 = n->uplinks[1].addr_v6;
}

static void bad_hop_none(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    memset(&n->uplinks[0].next_hop_v4, 0, sizeof(struct ip));
}

static void bad_mac(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->uplinks[1].mac[0] = 0xff;
}

static void bad_mtu_small(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->uplinks[0].mtu = 1279;
}

static void bad_mtu_large(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->uplinks[1].mtu = 9217;
}

static void bad_backing_of_x86(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    strcpy(c->backing, "x86-2");
}

static void bad_meter_of_x86(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    fallback_meter_default(&c->fallback_meter);
}

static void bad_profile_of_x86(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    c->profile = TABLES_BENCH;
}

static void bad_profile(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    sample_h_cluster(c);
    c->profile = TABLES_BENCH + 1;
}

static void bad_no_backing(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    sample_h_cluster(c);
    c->backing[0] = '\0';
}

static void bad_backing_self(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    sample_h_cluster(c);
    strcpy(c->backing, "h-1");
}

static void bad_meter_rate(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    sample_h_cluster(c);
    c->fallback_meter.tenant[FALLBACK_MISS].rate_bps = 0;
}

static void bad_meter_burst(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)n;
    sample_h_cluster(c);
    c->fallback_meter.node[FALLBACK_SERVICE].burst_bytes = METER_BURST_MIN - 1;
}

static void bad_node_kind(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->kind = 0;
}

static void bad_fallback_of_h(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    sample_h_node(n);
    n->fallback_v6 = ip("fd00::9");
}

static void bad_fallback_vtep(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->fallback_v4 = n->vtep_v4;
}

static void bad_fallback_family(struct region *r, struct cluster *c, struct node *n)
{
    (void)r, (void)c;
    n->fallback_v6 = ip("10.0.0.9");
}

static const struct {
    void (*spoil)(struct region *, struct cluster *, struct node *);
    const char *field;
    const char *rule;
} bad_cases[] = {
    { bad_region_name, "name", "name_length" },
    { bad_icmp_family, "icmp_source_v4", "family_mismatch" },
    { bad_icmp_multicast, "icmp_source_v6", "unicast_address" },
    { bad_source_host_bits, "underlay_sources[0]", "host_bits" },
    { bad_source_length, "underlay_sources[0]", "prefix_length" },
    { bad_cluster_name, "name", "name_syntax" },
    { bad_kind, "kind", "kind_known" },
    { bad_active_side, "active_side", "side" },
    { bad_no_vip, "vip_v4", "address_needed" },
    { bad_vip_family, "vip_v6", "family_mismatch" },
    { bad_node_name, "name", "name_length" },
    { bad_side, "side", "side" },
    { bad_no_vtep, "vtep_v4", "address_needed" },
    { bad_uplink_count, "uplinks", "list_length" },
    { bad_port, "uplinks[1].port", "name_syntax" },
    { bad_port_twice, "uplinks[1].port", "port_once" },
    { bad_hop_missing, "uplinks[0].next_hop_v4", "next_hop_pair" },
    { bad_hop_self, "uplinks[1].next_hop_v6", "next_hop_self" },
    { bad_hop_none, "uplinks[0].next_hop_v4", "address_needed" },
    { bad_mac, "uplinks[1].mac", "mac_unicast" },
    { bad_mtu_small, "uplinks[0].mtu", "mtu_range" },
    { bad_mtu_large, "uplinks[1].mtu", "mtu_range" },
    { bad_backing_of_x86, "backing", "xgw_h_only" },
    { bad_meter_of_x86, "fallback_meter", "xgw_h_only" },
    { bad_profile_of_x86, "profile", "xgw_h_only" },
    { bad_profile, "profile", "profile_known" },
    { bad_no_backing, "backing", "name_length" },
    { bad_backing_self, "backing", "backing_self" },
    { bad_meter_rate, "fallback_meter.tenant.miss.rate_bps", "meter_rate" },
    { bad_meter_burst, "fallback_meter.node.service.burst_bytes", "meter_burst" },
    { bad_node_kind, "kind", "kind_known" },
    { bad_fallback_of_h, "fallback_v6", "x86_only" },
    { bad_fallback_vtep, "fallback_v4", "address_in_use" },
    { bad_fallback_family, "fallback_v6", "family_mismatch" },
};

START_TEST(a_bad_object_is_refused_with_its_field_and_rule)
{
    struct region r;
    struct cluster c;
    struct node n;
    struct err err = { 0 };
    enum rc rc;

    sample_region(&r);
    sample_cluster(&c);
    sample_node(&n);
    bad_cases[_i].spoil(&r, &c, &n);
    rc = region_check(&r, &err);
    rc = rc ? rc : cluster_check(&c, &err);
    rc = rc ? rc : node_check(&n, &err);
    ck_assert_int_ne(rc, RC_OK);
    ck_assert_str_eq(err.field, bad_cases[_i].field);
    ck_assert_str_eq(err.rule, bad_cases[_i].rule);
    ck_assert(err.msg[0]);
}
END_TEST

/* Unpacks as whatever it is and packs again. */
static bool repack(const uint8_t *bytes, size_t len, struct buf *to)
{
    static struct region r;
    static struct cluster c;
    static struct node n;
    static struct device_config d;
    static struct policy p;

    buf_reset(to);
    if (region_unpack(bytes, len, &r, NULL) == RC_OK) {
        region_pack(&r, to);
    } else if (cluster_unpack(bytes, len, &c, NULL) == RC_OK) {
        cluster_pack(&c, to);
    } else if (node_unpack(bytes, len, &n, NULL) == RC_OK) {
        node_pack(&n, to);
    } else if (device_config_unpack(bytes, len, &d, NULL) == RC_OK) {
        device_config_pack(&d, to);
    } else if (policy_unpack(bytes, len, &p, NULL) == RC_OK) {
        policy_pack(&p, to);
    } else {
        return false;
    }
    return true;
}

static const char *const packed[] = { REGION,    CLUSTER,  NODE,   DEVICE,
                                      H_CLUSTER, H_DEVICE, POLICY, LB_DEVICE };

START_TEST(every_cut_is_refused_and_every_changed_byte_refused_or_canonical)
{
    const char *hex = packed[_i];
    size_t len = strlen(hex) / 2;
    uint8_t *bytes = calloc(1, len);
    struct buf again = BUF_INIT;

    for (size_t i = 0; i < len; i++) {
        unsigned v = 0;

        ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &v), 1);
        bytes[i] = (uint8_t)v;
    }
    ck_assert(repack(bytes, len, &again));
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *exact = malloc(cut + 1);

        memcpy(exact + 1, bytes, cut);
        ck_assert(!repack(exact + 1, cut, &again));
        free(exact);
    }
    for (size_t at = 0; at < len; at++) {
        uint8_t was = bytes[at];

        for (int change = 1; change < 256; change++) {
            bytes[at] = was ^ (uint8_t)change;
            if (repack(bytes, len, &again)) {
                ck_assert_uint_eq(again.len, len);
                ck_assert_mem_eq(again.data, bytes, len);
            }
        }
        bytes[at] = was;
    }
    buf_fini(&again);
    free(bytes);
}
END_TEST

START_TEST(cluster_kinds_are_read_by_name)
{
    ck_assert_int_eq(cluster_kind_parse("x86", 3), CLUSTER_X86);
    ck_assert_str_eq(cluster_kind_name(CLUSTER_X86), "x86");
    ck_assert_int_eq(cluster_kind_parse("xgw-h", 5), CLUSTER_XGW_H);
    ck_assert_int_eq(device_kind_parse("soft-h", 6), DEVICE_SOFT_H);
    ck_assert_int_eq(device_kind_parse("soft", 4), -1);
    ck_assert_str_eq(device_kind_name(DEVICE_TOFINO), "tofino");
    ck_assert_str_eq(device_kind_name(0), "unknown");
    ck_assert_uint_eq(device_kind_cluster(DEVICE_X86), CLUSTER_X86);
    ck_assert_uint_eq(device_kind_cluster(DEVICE_BMV2), CLUSTER_XGW_H);
    ck_assert_uint_eq(device_kind_cluster(99), 0);
    ck_assert_int_eq(cluster_kind_parse("lb", 2), CLUSTER_LB);
    ck_assert_int_eq(device_kind_parse("lb", 2), DEVICE_LB);
    ck_assert_uint_eq(device_kind_cluster(DEVICE_LB), CLUSTER_LB);
    ck_assert_int_eq(steering_parse("lb", 2), STEERING_LB);
    ck_assert_int_eq(steering_parse("vips", 4), -1);
    ck_assert_str_eq(steering_name(STEERING_VIP), "vip");
    ck_assert_int_eq(cluster_kind_parse("", 0), -1);
    ck_assert_int_eq(cluster_kind_parse("unknown", 7), -1);
    ck_assert_str_eq(cluster_kind_name(0), "unknown");
    ck_assert_str_eq(cluster_kind_name(200), "unknown");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("object");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, objects_pack_to_the_named_bytes_and_back);
    tcase_add_test(tc, objects_of_xgw_h_pack_to_the_named_bytes_and_back);
    tcase_add_test(tc, a_device_has_at_most_64_fallback_members);
    tcase_add_test(tc,
                   a_load_balancer_is_told_members_in_order_and_at_most_64_a_cluster);
    tcase_add_loop_test(tc, policy_says_where_a_route_is_by_its_service, 0,
                        ARRAY_LEN(policy_cases));
    tcase_add_test(tc, policy_keeps_its_rules_sorted_and_refuses_what_is_no_service);
    tcase_add_test(tc,
                   a_device_is_told_nothing_of_sides_so_a_switchover_changes_no_device);
    tcase_add_test(tc, sorting_makes_sources_ascending_and_unique);
    tcase_add_test(
        tc, packets_are_taken_from_what_lies_in_an_underlay_source_and_no_others);
    tcase_add_test(tc, a_region_of_1024_sources_goes_round);
    tcase_add_loop_test(tc, a_bad_object_is_refused_with_its_field_and_rule, 0,
                        ARRAY_LEN(bad_cases));
    tcase_add_loop_test(
        tc, every_cut_is_refused_and_every_changed_byte_refused_or_canonical, 0,
        ARRAY_LEN(packed));
    tcase_add_test(tc, cluster_kinds_are_read_by_name);
    return unit_run("object", tc);
}
