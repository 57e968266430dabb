/* Where tenants go, what they take of their clusters, and what is refused. */
#include "tests/unit/controller/core/rig.h"

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

#define NEW(vni)    "{\"table\":\"tenant\",\"vni\":" #vni "}\n"
#define AT(vni, at) "{\"table\":\"tenant\",\"vni\":" #vni "," at "}\n"
#define H1          "\"cluster\":\"x1\",\"h_home\":\"h1\""
#define ROUTE(vni, prefix)                                                             \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" prefix                 \
    "\",\"scope\":\"local\"}\n"
#define PEER(vni, prefix, peer)                                                        \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" prefix                 \
    "\",\"scope\":\"peer\",\"peer_vni\":" #peer "}\n"
#define VM(vni, vm, nc)                                                                \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" vm "\",\"nc\":\"" nc "\"}\n"

/* Two XGW-H clusters behind which stand two x86 ones. */
static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "x1", "172.16.255.1");
    rig_cluster(r, "x2", "172.16.255.2");
    rig_h_cluster(r, "h1", "172.16.254.1", "x1");
    rig_h_cluster(r, "h2", "172.16.254.2", "x2");
    return r;
}

static struct tenant_status tenant(const struct rig *r, uint32_t vni)
{
    struct tenant_status t;

    ck_assert_int_eq(core_tenant(r->core, vni, &t), RC_OK);
    return t;
}

static const struct core_reply *put_state(struct rig *r, const char *cluster,
                                          enum cluster_state state)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER };

    cmd.cluster = *core_cluster_find(r->core, cluster);
    cmd.cluster.state = (uint8_t)state;
    return rig_command(r, &cmd);
}

static void set_state(struct rig *r, const char *cluster, enum cluster_state state)
{
    ck_assert_int_eq(put_state(r, cluster, state)->err.code, RC_OK);
}

static struct usage usage_of(const struct rig *r, const char *cluster)
{
    struct usage u;

    placement_usage(core_placement(r->core), core_place_of(r->core, cluster), &u);
    return u;
}

static uint64_t used(const struct rig *r, const char *cluster, const char *what,
                     enum half half)
{
    uint32_t id = core_place_of(r->core, cluster);
    int i =
        resource_find(&placement_cluster_at(core_placement(r->core), id)->set, what);

    ck_assert_int_ge(i, 0);
    return usage_of(r, cluster).amount[half][i];
}

START_TEST(a_tenant_that_names_no_cluster_is_placed_and_stays)
{
    struct rig *r = region();
    struct tenant_status t;

    rig_must(r, AT(1, "\"cluster\":\"x2\",\"h_home\":\"h2\""));
    rig_must(r, NEW(2)); /* to the fuller one, and its emptier half */
    t = tenant(r, 2);
    ck_assert_str_eq(t.h_home, "h2");
    ck_assert_str_eq(t.cluster, "x2");
    ck_assert_uint_eq(tenant(r, 1).half, 1 + VNI_HALF_0);
    ck_assert_uint_eq(t.half, 1 + VNI_HALF_1);
    rig_check_desired(r);
    rig_must(r, AT(2, "\"name\":\"acme\"")); /* again, and again without a cluster */
    ck_assert_str_eq(tenant(r, 2).h_home, "h2");
    ck_assert_uint_eq(tenant(r, 2).half, 1 + VNI_HALF_1);
    ck_assert_str_eq(tenant(r, 2).name, "acme");
    ck_assert_uint_eq(rig_entries(r, AT(2, "\"name\":\"acme\""))->counts.unchanged, 1);
    rig_restart(r);
    ck_assert_uint_eq(tenant(r, 2).half, 1 + VNI_HALF_1);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(without_xgw_h_a_tenant_goes_to_x86)
{
    struct rig *r = rig_new();

    RIG_REFUSES(r, NEW(1), RC_CONFLICT, "no_cluster_fits");
    rig_cluster(r, "x2", "172.16.255.2");
    rig_cluster(r, "x1", "172.16.255.1");
    rig_must(r, NEW(1));
    ck_assert_str_eq(tenant(r, 1).cluster, "x1");
    ck_assert_str_eq(tenant(r, 1).h_home, "");
    ck_assert_uint_eq(tenant(r, 1).half, 0);
    rig_free(r);
}
END_TEST

START_TEST(many_of_one_batch_are_spread_over_both_halves)
{
    struct rig *r = region();
    uint32_t in[2] = { 0, 0 };

    rig_must(r, NEW(1) ROUTE(1, "10.0.0.0/8") NEW(2) NEW(3)
                    VM(3, "10.0.0.1", "172.16.1.1") NEW(4) NEW(5) NEW(6));
    for (uint32_t vni = 1; vni <= 6; vni++) {
        struct tenant_status t = tenant(r, vni);

        ck_assert_str_eq(t.h_home, "h1");
        in[t.half - 1]++;
    }
    ck_assert_uint_eq(in[0], 3);
    ck_assert_uint_eq(in[1], 3);
    ck_assert_uint_eq(
        placement_tenants(core_placement(r->core), core_place_of(r->core, "h1")), 6);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(peers_come_to_each_other)
{
    struct rig *r = region();

    rig_must(r, AT(1, H1) AT(2, H1) AT(3, "\"cluster\":\"x2\",\"h_home\":\"h2\""));
    rig_must(r, NEW(4) PEER(4, "10.3.0.0/16", 3));
    ck_assert_str_eq(tenant(r, 4).h_home, "h2");
    rig_must(r, NEW(5));
    ck_assert_str_eq(tenant(r, 5).h_home, "h1");
    rig_free(r);
}
END_TEST

START_TEST(only_a_cluster_that_serves_takes_new_tenants)
{
    struct rig *r = region();

    rig_must(r, AT(1, H1));
    set_state(r, "h1", CLUSTER_DRAINING);
    rig_must(r, NEW(2));
    ck_assert_str_eq(tenant(r, 2).h_home, "h2");
    RIG_REFUSES(r, AT(3, H1), RC_CONFLICT, "cluster_not_serving");
    rig_must(r, AT(1, H1 ",\"name\":\"stays\""));
    set_state(r, "h2", CLUSTER_DRAINING);
    RIG_REFUSES(r, NEW(4), RC_CONFLICT, "no_cluster_fits");
    set_state(r, "h1", CLUSTER_SERVING);
    rig_must(r, NEW(4));
    ck_assert_str_eq(tenant(r, 4).h_home, "h1");
    rig_free(r);
}
END_TEST

/* A state in which nobody sends to a cluster would cut off those at home there. */
START_TEST(a_home_of_tenants_stays_in_reach)
{
    static const enum cluster_state out_of_reach[] = {
        CLUSTER_PLANNED, CLUSTER_LOADING, CLUSTER_CHECKING,
        CLUSTER_PROBING, CLUSTER_RETIRED, CLUSTER_FAILED,
    };
    struct rig *r = region();

    rig_must(r, AT(1, H1));
    for (unsigned i = 0; i < ARRAY_LEN(out_of_reach); i++) {
        const struct core_reply *p = put_state(r, "h1", out_of_reach[i]);

        ck_assert_int_eq(p->err.code, RC_CONFLICT);
        ck_assert_str_eq(p->err.rule, "cluster_in_use");
        ck_assert_str_eq(p->err.field, "state");
        set_state(r, "h2", out_of_reach[i]);
    }
    rig_free(r);
}
END_TEST

START_TEST(a_reservation_counts_at_once_and_what_does_not_fit_is_refused_with_numbers)
{
    struct rig *r = region();
    const struct core_reply *p;

    rig_must(r, AT(1, "\"reserved_routes\":65000")); /* 5,000 rows of 6,450 at 70 % */
    ck_assert_uint_eq(used(r, "h1", "route", HALF_0), 5000000);
    rig_must(r, AT(2, "\"reserved_routes\":65000"));
    rig_must(r, AT(3, "\"reserved_routes\":65000"));
    rig_must(r, AT(4, "\"reserved_routes\":65000"));
    ck_assert_str_eq(tenant(r, 4).h_home, "h2");
    p = rig_entries(r, AT(5, "\"reserved_routes\":65000"));
    ck_assert_int_eq(p->err.code, RC_CONFLICT);
    ck_assert_str_eq(p->err.rule, "no_cluster_fits");
    ck_assert_ptr_nonnull(strstr(p->err.msg, "build a cluster"));
    ck_assert_ptr_nonnull(strstr(p->err.msg, "h1: route needs 5000 and has 1450 rows"));
    ck_assert_ptr_nonnull(strstr(p->err.msg, "h2: route needs 5000 and has 1450 rows"));
    rig_must(r, AT(1, "\"reserved_routes\":0"));
    ck_assert_uint_lt(used(r, "h1", "route", HALF_0), 1000);
    rig_must(r, AT(5, "\"reserved_routes\":65000"));
    ck_assert_str_eq(tenant(r, 5).h_home, "h1");
    /* Refused and never committed, it leaves nothing behind. */
    RIG_REFUSES(r, NEW(6) PEER(6, "10.0.0.0/8", 99), RC_INVALID, "peer_unknown");
    ck_assert_uint_eq(used(r, "h1", "vni", HALF_0), 3);
    rig_free(r);
}
END_TEST

START_TEST(a_cluster_that_is_named_must_have_room_as_one_that_is_chosen)
{
    struct rig *r = region();
    const struct core_reply *p;

    /* 5,000 TCAM rows each, of 6,450 at 70 % in a half. */
    rig_must(r, AT(1, H1 ",\"reserved_routes\":65000"));
    rig_must(r, AT(2, H1 ",\"reserved_routes\":65000"));
    ck_assert_uint_eq(tenant(r, 2).half, 1 + VNI_HALF_1);
    p = rig_entries(r, NEW(9) AT(3, H1 ",\"reserved_routes\":65000"));
    ck_assert_int_eq(p->err.code, RC_CONFLICT);
    ck_assert_str_eq(p->err.field, "h_home");
    ck_assert_str_eq(p->err.rule, "no_room");
    ck_assert_uint_eq(p->bad_index, 1);
    ck_assert_ptr_nonnull(
        strstr(p->err.msg, "cluster h1: route needs 5000 and has 1450 rows left below "
                           "its sale level (70 %)"));
    /* So it is in the half that was named, where the other one has room. */
    rig_entries_confirmed(r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":2}\n");
    RIG_REFUSES(r, AT(3, H1 ",\"half\":\"0\",\"reserved_routes\":65000"), RC_CONFLICT,
                "no_room");
    RIG_REFUSES(r, AT(3, H1 ",\"half\":\"by_dst\",\"reserved_routes\":65000"),
                RC_CONFLICT, "no_room");
    rig_must(r, AT(3, H1 ",\"half\":\"1\",\"reserved_routes\":65000"));
    /* Both of one batch count. */
    RIG_REFUSES(r,
                AT(4, "\"cluster\":\"x2\",\"h_home\":\"h2\",\"reserved_vms\":500000")
                    AT(5, "\"cluster\":\"x2\",\"h_home\":\"h2\",\"half\":\"0\","
                          "\"reserved_vms\":500000"),
                RC_CONFLICT, "no_room");
    /* The x86 cluster behind it, and one by itself: no node, so no traffic. */
    p = rig_entries(r, AT(6, "\"cluster\":\"x1\",\"reserved_bps\":1000"));
    ck_assert_str_eq(p->err.rule, "no_room");
    ck_assert_str_eq(p->err.field, "cluster");
    ck_assert_ptr_nonnull(strstr(p->err.msg, "bps needs 1000 and has 0 bit/s left"));
    ck_assert_uint_eq(used(r, "h1", "vni", HALF_0), 2);
    ck_assert_uint_eq(used(r, "h2", "vni", HALF_0), 0); /* nothing is left behind */
    rig_must(r, AT(1, H1 ",\"reserved_routes\":0"));    /* who is there may stay */
    rig_free(r);
}
END_TEST

START_TEST(a_tenant_moves_only_to_where_there_is_room)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_MOVE, .who = "test" };
    const struct core_reply *p;

    rig_must(r, AT(1, "\"cluster\":\"x2\",\"h_home\":\"h2\",\"half\":\"0\","
                      "\"reserved_routes\":65000"));
    rig_must(r, AT(2, "\"cluster\":\"x2\",\"h_home\":\"h2\",\"half\":\"1\","
                      "\"reserved_routes\":39000"));
    rig_must(r, AT(3, H1 ",\"reserved_routes\":65000"));
    rig_must(r, AT(4, H1 ",\"reserved_routes\":26000"));
    cmd.move.vni = 3;
    rig_copy(cmd.move.cluster, "h2");
    p = rig_command(r, &cmd);
    ck_assert_int_eq(p->err.code, RC_CONFLICT);
    ck_assert_str_eq(p->err.field, "cluster");
    ck_assert_str_eq(p->err.rule, "no_room");
    ck_assert_ptr_nonnull(strstr(p->err.msg, "cluster h2: route needs 5000 and has"));
    ck_assert_uint_eq(used(r, "h2", "vni", HALF_0), 2);
    cmd.move.vni = 4; /* 2,000 rows to half 1, where 3,450 are left */
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    ck_assert_uint_eq(core_operation_at(r->core, 0)->move.to.half, 1 + VNI_HALF_1);
    ck_assert_uint_eq(used(r, "h2", "vni", HALF_0), 3); /* both hold it on its way */
    ck_assert_uint_eq(used(r, "h2", "route", HALF_1), 5000000);
    ck_assert_uint_eq(used(r, "h1", "vni", HALF_0), 2);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

/* An x86 node with room for 100 entries of 71 bytes: 90 up to the critical level. */
static struct rig *small_region(void)
{
    struct core_config config;
    struct rig *r;

    core_config_default(&config);
    config.x86_node.memory_bytes = 100 * config.x86_node.entry_bytes;
    r = rig_new_with(&config);
    rig_cluster(r, "x1", "172.16.255.1");
    return r;
}

/* VMs `first` to `last` of VNI 1, to one NC. */
static struct blob *vms(unsigned first, unsigned last, unsigned nc)
{
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    for (unsigned i = first; i <= last; i++) {
        struct entry e = { .table = TABLE_VM_NC, .vni = 1 };

        e.vm_nc.vm = ip_v4(0x0a000000 + i);
        e.vm_nc.nc = ip_v4(0xac100100 + nc);
        batch_add_entry(&w, ENTRY_PUT, &e);
    }
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

static const struct core_reply *put_vms(struct rig *r, unsigned first, unsigned last,
                                        unsigned nc)
{
    uint64_t token = rig_queue(r, vms(first, last, nc));

    rig_run(r);
    return rig_reply(r, token);
}

START_TEST(up_to_the_critical_level_a_cluster_takes_entries_of_its_tenants_and_no_more)
{
    struct rig *r = small_region();
    const struct core_reply *p;
    uint64_t first;
    uint64_t second;

    rig_must(r, AT(1, "\"cluster\":\"x1\"")); /* counts 5: itself, 2 routes, 2 VMs */
    ck_assert_int_eq(put_vms(r, 1, 80, 1)->err.code, RC_OK);
    RIG_REFUSES(r, AT(2, "\"cluster\":\"x1\""), RC_CONFLICT, "no_room");
    /* What is in flight counts: each of them would fit. */
    first = rig_queue(r, vms(81, 85, 1));
    second = rig_queue(r, vms(86, 89, 1));
    rig_run(r);
    ck_assert_int_eq(rig_reply(r, first)->err.code, RC_OK);
    p = rig_reply(r, second);
    ck_assert_int_eq(p->err.code, RC_FULL);
    ck_assert_str_eq(p->err.rule, "critical_level");
    ck_assert_uint_eq(p->bad_index, 0);
    ck_assert_ptr_nonnull(strstr(p->err.msg, "vni 1: cluster x1 takes no more entries: "
                                             "memory needs 284 and has 6248 of 7100 "
                                             "bytes, critical at 90 %"));
    ck_assert_int_eq(put_vms(r, 86, 87, 1)->err.code, RC_OK); /* 90 */
    ck_assert_int_eq(put_vms(r, 88, 88, 1)->err.code, RC_FULL);
    /* Routes that the tenant is counted with are no more. */
    rig_must(r, ROUTE(1, "10.0.0.0/8") ROUTE(1, "10.1.0.0/16"));
    RIG_REFUSES(r, ROUTE(1, "10.2.0.0/16"), RC_FULL, "critical_level");
    RIG_REFUSES(r, AT(1, "\"cluster\":\"x1\",\"reserved_vms\":88"), RC_FULL,
                "critical_level");
    rig_must(r, AT(1, "\"cluster\":\"x1\",\"reserved_vms\":87"));
    /* What is changed, deleted or put in the place of another passes. */
    ck_assert_int_eq(put_vms(r, 1, 87, 2)->err.code, RC_OK);
    rig_must(
        r, "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.0.0.1\"}\n" VM(
               1, "10.0.0.88", "172.16.1.1"));
    rig_must(r,
             "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.0.0.2\"}\n");
    rig_must(r, VM(1, "10.0.0.2", "172.16.1.1")); /* as was announced */
    RIG_REFUSES(r, VM(1, "10.0.0.1", "172.16.1.1"), RC_FULL, "critical_level");
    ck_assert_uint_eq(used(r, "x1", "memory", HALF_0), 90 * 71);
    rig_free(r);
}
END_TEST

START_TEST(of_xgw_h_the_half_counts_that_the_tenant_is_in)
{
    struct rig *r = region();
    const struct core_reply *p;

    rig_must(r, AT(1, H1 ",\"half\":\"0\",\"reserved_routes\":65000"));
    rig_must(r, AT(2, H1 ",\"half\":\"0\""));
    rig_must(r, AT(3, H1 ",\"half\":\"1\""));
    /* 5,000 rows and 3,000: above sale, below 8,293 of 9,215. */
    rig_must(r, AT(2, "\"reserved_routes\":39000"));
    p = rig_entries(r, AT(2, "\"reserved_routes\":45500"));
    ck_assert_int_eq(p->err.code, RC_FULL);
    ck_assert_ptr_nonnull(strstr(p->err.msg, "vni 2: cluster h1 takes no more entries: "
                                             "route needs 500 and has 8000 of 9215 "
                                             "rows, critical at 90 %"));
    rig_must(r, AT(3, "\"reserved_routes\":45500"));
    rig_free(r);
}
END_TEST

START_TEST(too_much_for_one_half_stands_in_both)
{
    struct rig *r = region();

    rig_must(r, AT(1, "\"reserved_vms\":900000")); /* a half sells 563,276 */
    ck_assert_uint_eq(tenant(r, 1).half, 1 + VNI_HALF_BY_DST);
    ck_assert_uint_eq(used(r, "h1", "vm_nc", HALF_0), 450000);
    ck_assert_uint_eq(used(r, "h1", "vm_nc", HALF_1), 450000);
    rig_check_desired(r);
    RIG_REFUSES(r, AT(2, "\"reserved_vms\":1200000"), RC_CONFLICT, "no_cluster_fits");
    rig_free(r);
}
END_TEST

START_TEST(traffic_counts_where_it_arrives_and_needs_nodes)
{
    struct rig *r = region();

    rig_must(r, AT(1, H1) AT(2, "\"cluster\":\"x1\""));
    RIG_REFUSES(r, AT(3, "\"reserved_bps\":1000000"), RC_CONFLICT, "no_cluster_fits");
    rig_node(r, "n1", "h1", "172.16.0.1");
    rig_must(r, AT(3, "\"reserved_bps\":1000000"));
    rig_must(r, AT(1, H1 ",\"reserved_bps\":9000"));
    ck_assert_uint_eq(used(r, "h1", "bps", HALF_0), 9000); /* the larger */
    rig_entries_confirmed(r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":1}\n");
    ck_assert_uint_eq(used(r, "h1", "bps", HALF_0), 0);
    rig_free(r);
}
END_TEST

START_TEST(an_nc_counts_once_however_many_tenants_name_it)
{
    struct rig *r = region();

    rig_must(r,
             AT(1, H1) VM(1, "10.0.0.1", "172.16.1.1") VM(1, "10.0.0.2", "172.16.1.1")
                 VM(1, "10.0.0.3", "172.16.1.2") VM(1, "10.0.0.4", "fd00::1"));
    rig_must(r, AT(2, H1) VM(2, "10.0.0.1", "172.16.1.1"));
    ck_assert_uint_eq(used(r, "h1", "nc_v4", HALF_0), 2);
    ck_assert_uint_eq(used(r, "h1", "nc_v6", HALF_0), 1);
    rig_entries_confirmed(r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":1}\n");
    ck_assert_uint_eq(used(r, "h1", "nc_v4", HALF_0), 1);
    ck_assert_uint_eq(used(r, "h1", "nc_v6", HALF_0), 0);
    rig_free(r);
}
END_TEST

static const struct core_reply *put_node(struct rig *r, const char *name, char side,
                                         unsigned number)
{
    struct command cmd = { .kind = COMMAND_PUT_NODE };

    rig_copy(cmd.node.name, name);
    rig_copy(cmd.node.cluster, "x1");
    cmd.node.kind = DEVICE_X86;
    cmd.node.side = side;
    cmd.node.vtep_v4 = ip_v4(0xac100a00u + number);
    return rig_command(r, &cmd);
}

static const struct core_reply *put_limit(struct rig *r, uint8_t limit)
{
    struct region x = { .name = "hz", .ecmp_limit = limit };
    struct command cmd = { .kind = COMMAND_PUT_REGION, .region = &x };

    return rig_command(r, &cmd);
}

START_TEST(a_side_has_no_more_nodes_than_routers_take_next_hops)
{
    struct rig *r = region();
    const struct core_reply *p;

    ck_assert_int_eq(put_limit(r, 2)->err.code, RC_OK);
    ck_assert_int_eq(put_node(r, "n1", 'a', 1)->err.code, RC_OK);
    ck_assert_int_eq(put_node(r, "n2", 'a', 2)->err.code, RC_OK);
    p = put_node(r, "n3", 'a', 3);
    ck_assert_int_eq(p->err.code, RC_CONFLICT);
    ck_assert_str_eq(p->err.rule, "ecmp_limit");
    ck_assert_ptr_nonnull(strstr(p->err.msg, "has 2 nodes, and routers take 2"));
    ck_assert_int_eq(put_node(r, "n3", 'b', 3)->err.code, RC_OK);
    ck_assert_int_eq(put_node(r, "n2", 'a', 4)->err.code, RC_OK); /* is there already */
    p = put_limit(r, 1);
    ck_assert_int_eq(p->err.code, RC_CONFLICT);
    ck_assert_str_eq(p->err.rule, "ecmp_limit");
    ck_assert_int_eq(put_limit(r, 3)->err.code, RC_OK);
    ck_assert_int_eq(put_node(r, "n4", 'a', 5)->err.code, RC_OK);
    rig_free(r);
}
END_TEST

START_TEST(the_sale_level_is_the_one_that_is_set_also_after_a_restart)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_PUT_LEVELS };

    level_settings_default(&cmd.levels);
    cmd.levels.of[CLUSTER_XGW_H].marks.sale_bp = 6000; /* 5,529 rows of a half */
    cmd.levels.of[CLUSTER_XGW_H].marks.clear_bp = 500;
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    RIG_REFUSES(r, AT(1, "\"reserved_routes\":80000"), RC_CONFLICT, "no_cluster_fits");
    rig_must(r, AT(1, "\"reserved_routes\":65000"));
    rig_restart(r);
    RIG_REFUSES(r, AT(2, "\"reserved_routes\":80000"), RC_CONFLICT, "no_cluster_fits");
    level_settings_default(&cmd.levels);
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    rig_must(r, AT(2, "\"reserved_routes\":80000")); /* 6,154 of 6,450 */
    ck_assert_uint_eq(tenant(r, 2).half, 1 + VNI_HALF_1);
    rig_free(r);
}
END_TEST

/* ---- incremental equals full ---- */

static void random_change(struct rig *r)
{
    static const char *const services[] = { "local", "idc", "internet" };
    unsigned vni = 1 + draw(12);
    char line[256];

    switch (draw(9)) {
    case 0:
        snprintf(line, sizeof(line), "{\"table\":\"tenant\",\"vni\":%u}\n", vni);
        break;
    case 1:
        snprintf(line, sizeof(line),
                 "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":\"x%u\"%s}\n", vni,
                 1 + draw(2), draw(2) ? ",\"reserved_vms\":9,\"reserved_bps\":5" : "");
        break;
    case 2:
        snprintf(
            line, sizeof(line),
            "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":\"x1\",\"h_home\":\"h1\","
            "\"half\":\"%s\"}\n",
            vni, draw(2) ? "1" : "by_dst");
        break;
    case 3:
        snprintf(line, sizeof(line),
                 "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":%u}\n", vni);
        break;
    case 4:
        rig_policy(r, services[draw(3)], draw(2) ? POLICY_XGW_H : POLICY_XGW_X86);
        return;
    case 5:
        snprintf(line, sizeof(line),
                 "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"10.%u.0.0/16\","
                 "\"scope\":\"idc\",\"endpoint\":\"172.16.0.%u\",\"endpoint_vni\":7}\n",
                 vni, draw(9), 1 + draw(5));
        break;
    case 6:
        snprintf(
            line, sizeof(line),
            "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"10.0.0.%u\"}\n",
            vni, 1 + draw(5));
        break;
    case 7:
        snprintf(line, sizeof(line),
                 "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"fd00::%u\",\"nc\":\"172.16."
                 "1.%u\"%s"
                 "}\n",
                 vni, 1 + draw(5), 1 + draw(5),
                 draw(3) ? "" : ",\"mac\":\"02:00:00:00:00:05\"");
        break;
    default:
        snprintf(line, sizeof(line),
                 "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"10.0.0.%u\",\"nc\":\"fd01::%"
                 "u\"}\n",
                 vni, 1 + draw(5), 1 + draw(5));
        break;
    }
    rig_entries_confirmed(r, line);
}

START_TEST(what_is_counted_as_it_changes_is_what_a_restart_counts_anew)
{
    static const char *const clusters[] = { "x1", "x2", "h1", "h2" };
    struct rig *r = region();

    seed = 0x9e3779b97f4a7c15;
    for (unsigned round = 0; round < 20; round++) {
        struct usage before[4];
        uint32_t tenants[4];
        uint64_t all = 0;

        for (unsigned i = 0; i < 40; i++) {
            random_change(r);
        }
        for (unsigned i = 0; i < 4; i++) {
            before[i] = usage_of(r, clusters[i]);
            tenants[i] = placement_tenants(core_placement(r->core),
                                           core_place_of(r->core, clusters[i]));
            all += before[i].amount[0][0];
        }
        ck_assert_uint_gt(all, 0);
        rig_check_desired(r);
        rig_restart(r);
        for (unsigned i = 0; i < 4; i++) {
            struct usage after = usage_of(r, clusters[i]);

            ck_assert_mem_eq(&before[i], &after, sizeof(after));
            ck_assert_uint_eq(tenants[i],
                              placement_tenants(core_placement(r->core),
                                                core_place_of(r->core, clusters[i])));
        }
    }
    rig_free(r);
}
END_TEST

START_TEST(a_question_gets_the_place_that_a_tenant_would_get)
{
    struct rig *r = region();
    const uint32_t peers[] = { 3 };
    struct core_place_ask ask = { .counts = { .routes = 4, .vms_v4 = 4 } };
    struct placement_candidate got[4];

    rig_must(r, AT(1, H1) AT(2, H1) AT(3, "\"cluster\":\"x2\",\"h_home\":\"h2\""));
    ck_assert_uint_eq(core_place(r->core, &ask, got, 4), 2);
    ck_assert_uint_eq(got[0].cluster, core_place_of(r->core, "h1"));
    ck_assert_int_eq(got[0].verdict, PLACEMENT_CHOSEN);
    ck_assert_uint_eq(got[0].backing, core_place_of(r->core, "x1"));
    ask.peers = peers;
    ask.peer_count = 1;
    core_place(r->core, &ask, got, 4);
    ck_assert_int_eq(got[0].verdict, PLACEMENT_LESS_FULL);
    ck_assert_int_eq(got[1].verdict, PLACEMENT_CHOSEN);
    ck_assert_uint_eq(got[1].peers, 1);
    ask.kind = CLUSTER_X86;
    ck_assert_uint_eq(core_place(r->core, &ask, got, 4), 2);
    ck_assert_uint_eq(got[0].cluster, core_place_of(r->core, "x1"));
    rig_free(r);
}
END_TEST

START_TEST(moves_are_proposed_above_the_threshold_alone)
{
    struct rig *r = region();
    struct placement_move m[8];
    uint32_t count = 99;

    rig_must(r, AT(1, H1 ",\"reserved_routes\":26000")); /* 2,000 of 9,215 rows */
    rig_must(r, AT(2, H1 ",\"reserved_routes\":26000"));
    rig_must(r, AT(3, H1 ",\"reserved_routes\":26000"));
    ck_assert_int_eq(core_rebalance(r->core, CLUSTER_XGW_H, 2000, m, 8, &count), RC_OK);
    ck_assert_uint_eq(count, 1); /* 43.4 % to 21.7 % */
    ck_assert_uint_eq(m[0].from, core_place_of(r->core, "h1"));
    ck_assert_uint_eq(m[0].to, core_place_of(r->core, "h2"));
    ck_assert_int_eq(core_rebalance(r->core, CLUSTER_XGW_H, 2300, m, 8, &count), RC_OK);
    ck_assert_uint_eq(count, 0);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("place");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_tenant_that_names_no_cluster_is_placed_and_stays);
    tcase_add_test(tc, without_xgw_h_a_tenant_goes_to_x86);
    tcase_add_test(tc, many_of_one_batch_are_spread_over_both_halves);
    tcase_add_test(tc, peers_come_to_each_other);
    tcase_add_test(tc, only_a_cluster_that_serves_takes_new_tenants);
    tcase_add_test(tc, a_home_of_tenants_stays_in_reach);
    tcase_add_test(
        tc, a_reservation_counts_at_once_and_what_does_not_fit_is_refused_with_numbers);
    tcase_add_test(tc, a_cluster_that_is_named_must_have_room_as_one_that_is_chosen);
    tcase_add_test(tc, a_tenant_moves_only_to_where_there_is_room);
    tcase_add_test(
        tc,
        up_to_the_critical_level_a_cluster_takes_entries_of_its_tenants_and_no_more);
    tcase_add_test(tc, of_xgw_h_the_half_counts_that_the_tenant_is_in);
    tcase_add_test(tc, too_much_for_one_half_stands_in_both);
    tcase_add_test(tc, traffic_counts_where_it_arrives_and_needs_nodes);
    tcase_add_test(tc, an_nc_counts_once_however_many_tenants_name_it);
    tcase_add_test(tc, a_side_has_no_more_nodes_than_routers_take_next_hops);
    tcase_add_test(tc, the_sale_level_is_the_one_that_is_set_also_after_a_restart);
    tcase_add_test(tc, what_is_counted_as_it_changes_is_what_a_restart_counts_anew);
    tcase_add_test(tc, a_question_gets_the_place_that_a_tenant_would_get);
    tcase_add_test(tc, moves_are_proposed_above_the_threshold_alone);
    return unit_run("place", tc);
}
