/* Each group's desired set, kept by increments, is what one gets from scratch. */
#include "tests/unit/controller/core/rig.h"

#define VNIS 12

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % below;
}

static struct rows *desired(const struct rig *r, const char *cluster, uint32_t vni,
                            enum table_id table)
{
    return table_set_rows(core_group_desired(r->core, cluster), vni, table);
}

static struct entry only_route(const struct rig *r, const char *cluster, uint32_t vni)
{
    struct rows *rows = desired(r, cluster, vni, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(rows, TABLE_VXLAN_ROUTE);
    struct entry e;
    struct row row;

    ck_assert_uint_eq(rows_count(rows), 1);
    ck_assert(rows_next(&it, &row));
    ck_assert(!entry_unpack(TABLE_VXLAN_ROUTE, vni, &row, &e, NULL));
    return e;
}

/* Of those whose packets nodes take: of IPv4, or also of IPv6. */
static void put_sources(struct rig *r, uint16_t count)
{
    struct command cmd = { .kind = COMMAND_PUT_REGION };
    struct region region = { .name = "r", .underlay_source_count = count };

    ck_assert(!prefix_parse("172.16.0.0/12", 13, &region.underlay_sources[0], NULL));
    ck_assert(!prefix_parse("2001:db8::/32", 13, &region.underlay_sources[1], NULL));
    cmd.region = &region;
    ck_assert(!rig_command(r, &cmd)->err.code);
}

static void add_vip_v6(struct rig *r, const char *cluster, const char *vip)
{
    struct command cmd = { .kind = COMMAND_PUT_CLUSTER, .who = "test" };

    cmd.cluster = *core_cluster_find(r->core, cluster);
    ck_assert(!ip_parse(vip, strlen(vip), &cmd.cluster.vip_v6, NULL));
    ck_assert(!rig_command(r, &cmd)->err.code);
}

static struct rig *region(void)
{
    struct rig *r = rig_new();

    put_sources(r, 1);
    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    rig_cluster(r, "c3", "2001:db8::3");
    return r;
}

#define TENANT(vni, c) "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"" c "\"}\n"
#define PEER                                                                           \
    "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.2.0.0/16\",\"scope\":"       \
    "\"peer\",\"peer_vni\":2}\n"

START_TEST(a_peer_at_home_elsewhere_is_derived_with_that_clusters_vip)
{
    struct rig *r = region();
    struct entry e;
    char text[IP_TEXT_MAX];

    rig_must(r, TENANT(1, "c1") TENANT(2, "c2") PEER);
    e = only_route(r, "c1", 1);
    ck_assert_int_eq(e.route.action.scope, SCOPE_DERIVED);
    ck_assert_uint_eq(e.route.action.vni, 2);
    ip_print(&e.route.action.endpoint, text);
    ck_assert_str_eq(text, "172.16.255.2");
    /* The intent keeps what the API put. */
    ck_assert_uint_eq(rows_count(core_rows(r->core, 1, TABLE_VXLAN_ROUTE)), 1);
    rig_free(r);

    r = region();
    rig_must(r, TENANT(1, "c1") TENANT(2, "c3") PEER); /* v6 VIP only */
    e = only_route(r, "c1", 1);
    ip_print(&e.route.action.endpoint, text);
    ck_assert_str_eq(text, "2001:db8::3");
    rig_free(r);

    r = region();
    rig_must(r, TENANT(1, "c1") TENANT(2, "c1") PEER); /* not elsewhere */
    e = only_route(r, "c1", 1);
    ck_assert_int_eq(e.route.action.scope, SCOPE_PEER);
    ck_assert_ptr_eq(desired(r, "c1", 1, TABLE_VXLAN_ROUTE),
                     core_rows(r->core, 1, TABLE_VXLAN_ROUTE)); /* shared, not copied */
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

START_TEST(a_new_vip_is_derived_again_wherever_it_is_used)
{
    struct rig *r = region();
    struct entry e;
    char text[IP_TEXT_MAX];

    rig_must(r, TENANT(1, "c1") TENANT(2, "c2") PEER);
    rig_cluster(r, "c2", "172.16.255.22");
    e = only_route(r, "c1", 1);
    ip_print(&e.route.action.endpoint, text);
    ck_assert_str_eq(text, "172.16.255.22");
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

/* ---- random edits ---- */

static void random_line(char *lines)
{
    static const char *const clusters[] = { "c1", "c2", "c3" };
    uint32_t vni = 1 + draw(VNIS);
    char *at = lines + strlen(lines);

    switch (draw(6)) {
    case 0:
        sprintf(at,
                "{\"table\":\"tenant\",\"vni\":%u,\"cluster\":\"%s\",\"flags\":[%s]}\n",
                vni, clusters[draw(3)], draw(2) ? "\"internet\"" : "");
        break;
    case 1:
        sprintf(at, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":%u}\n", vni);
        break;
    case 2:
        sprintf(at,
                "{\"table\":\"vm_nc\",\"vni\":%u,\"vm\":\"10.0.0.%u\","
                "\"nc\":\"172.16.1.1\"}\n",
                vni, draw(9));
        break;
    case 3:
        sprintf(at,
                "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"10.%u.0.0/16\","
                "\"scope\":\"peer\",\"peer_vni\":%u}\n",
                vni, draw(30), 1 + (vni + draw(VNIS - 1)) % VNIS);
        break;
    case 4:
        sprintf(at,
                "{\"table\":\"vxlan_route\",\"vni\":%u,\"prefix\":\"10.%u.0.0/16\","
                "\"scope\":\"local\"}\n",
                vni, draw(30));
        break;
    default:
        sprintf(at,
                "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":%u,"
                "\"prefix\":\"10.%u.0.0/16\"}\n",
                vni, draw(30));
        break;
    }
}

START_TEST(after_any_edits_incremental_equals_recomputed)
{
    struct rig *r = region();
    int accepted = 0;

    seed = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1);
    for (int step = 0; step < 800; step++) {
        char lines[2048] = "";
        char vip[32];

        for (uint32_t n = 1 + draw(6); n > 0; n--) {
            random_line(lines);
        }
        accepted += rig_entries_confirmed(r, lines)->err.code == RC_OK;
        if (draw(20) == 0) {
            snprintf(vip, sizeof(vip), "172.16.254.%u", draw(200));
            rig_cluster(r, "c2", vip);
        }
        if (draw(100) == 0) {
            rig_restart(r);
        }
        rig_check_desired(r);
    }
    ck_assert_int_gt(accepted, 100);
    rig_free(r);
}
END_TEST

/* ---- trace ---- */

static void check_trace_over(const struct rig *r, uint8_t underlay, uint32_t vni,
                             const char *dst, const char *want)
{
    static const char *const kinds[] = { "tenant",  "route", "vm_nc",
                                         "forward", "drop",  "fallback" };
    struct trace_hop hops[TRACE_HOPS_MAX];
    char got[1024] = "";
    struct ip ip;
    uint32_t count;

    ck_assert(!ip_parse(dst, strlen(dst), &ip, NULL));
    count = core_trace(r->core, vni, &ip, underlay, hops);
    for (uint32_t i = 0; i < count; i++) {
        char outer[IP_TEXT_MAX];

        ip_print(&hops[i].outer_dst, outer);
        sprintf(got + strlen(got), "%s%s:%u", i ? " " : "", kinds[hops[i].kind],
                hops[i].vni);
        if (hops[i].cluster[0]) {
            sprintf(got + strlen(got), "@%s", hops[i].cluster);
        }
        if (hops[i].kind == TRACE_FORWARD) {
            sprintf(got + strlen(got), ">%s", outer);
        }
        sprintf(got + strlen(got), "%s", hops[i].reason[0] ? "!" : "");
        sprintf(got + strlen(got), "%s", hops[i].reason);
        ck_assert_uint_gt(strlen(hops[i].note), 5);
    }
    ck_assert_str_eq(got, want);
}

static void check_trace(const struct rig *r, uint32_t vni, const char *dst,
                        const char *want)
{
    check_trace_over(r, IP_NONE, vni, dst, want);
}

START_TEST(a_trace_tells_each_hop_and_the_reason_of_a_drop)
{
    struct rig *r = region();

    rig_must(
        r, TENANT(1, "c1") TENANT(2, "c2") PEER
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.1.0.0/16\","
        "\"scope\":\"local\"}\n"
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.1.9.0/24\","
        "\"scope\":\"internet\"}\n"
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"192.168.0.0/16\","
        "\"scope\":\"idc\",\"endpoint\":\"172.16.0.9\",\"endpoint_vni\":5000}\n"
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"192.169.0.0/16\","
        "\"scope\":\"region\",\"endpoint\":\"2001:db8::9\",\"endpoint_vni\":5}\n"
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"100.64.0.0/10\","
        "\"scope\":\"service\",\"service\":\"dns\"}\n"
        "{\"table\":\"vxlan_route\",\"vni\":2,\"prefix\":\"10.2.0.0/17\","
        "\"scope\":\"local\"}\n"
        "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.1.0.5\",\"nc\":\"172.16.1.1\"}\n"
        "{\"table\":\"vm_nc\",\"vni\":2,\"vm\":\"10.2.0.7\",\"nc\":\"172.16.1.2\"}\n");
    check_trace(r, 1, "10.1.0.5",
                "tenant:1@c1 route:1@c1 vm_nc:1@c1 forward:1@c1>172.16.1.1");
    check_trace(r, 1, "10.2.0.7",
                "tenant:1@c1 route:1@c1 route:2@c2 vm_nc:2@c2 forward:2@c2>172.16.1.2");
    check_trace(r, 1, "192.168.3.4",
                "tenant:1@c1 route:1@c1 forward:5000@c1>172.16.0.9");
    check_trace(r, 1, "10.1.0.6", "tenant:1@c1 route:1@c1 drop:1@c1!vm_nc_miss");
    check_trace(r, 1, "10.1.9.6", "tenant:1@c1 route:1@c1 drop:1@c1!no_snat");
    check_trace(r, 1, "100.64.0.1", "tenant:1@c1 route:1@c1 drop:1@c1!service_unbound");
    check_trace(r, 1, "192.169.0.1", "tenant:1@c1 route:1@c1 drop:1@c1!no_vip");
    check_trace(r, 1, "8.8.8.8", "tenant:1@c1 drop:1@c1!route_miss");
    check_trace(r, 1, "2001:db8::1", "tenant:1@c1 drop:1@c1!route_miss");
    check_trace(r, 1, "10.2.200.1", "tenant:1@c1 route:1@c1 drop:2@c2!route_miss");
    check_trace(r, 1, "224.0.0.1", "tenant:1@c1 drop:1@c1!inner_not_unicast");
    check_trace(r, 3, "10.0.0.1", "drop:3!unknown_vni");
    rig_free(r);
}
END_TEST

START_TEST(what_xgw_h_cannot_send_over_the_other_family_falls_back)
{
    struct rig *r = region();

    rig_h_cluster(r, "h1", "172.16.253.1", "c1");
    rig_h_cluster(r, "h2", "2001:db8:16:253::1", "c2");
    rig_must(
        r,
        "{\"table\":\"tenant\",\"vni\":1,\"cluster\":\"c1\",\"h_home\":\"h1\"}\n"
        "{\"table\":\"tenant\",\"vni\":2,\"cluster\":\"c2\",\"h_home\":\"h2\"}\n"
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.1.0.0/16\","
        "\"scope\":\"local\"}\n"
        "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"192.168.0.0/16\","
        "\"scope\":\"idc\",\"endpoint\":\"172.16.0.9\",\"endpoint_vni\":5000}\n"
        "{\"table\":\"vm_nc\",\"vni\":1,\"vm\":\"10.1.0.5\",\"nc\":\"172.16.1.1\"}\n"
        "{\"table\":\"vxlan_route\",\"vni\":2,\"prefix\":\"10.2.0.0/16\","
        "\"scope\":\"local\"}\n"
        "{\"table\":\"vm_nc\",\"vni\":2,\"vm\":\"10.2.0.5\",\"nc\":\"172.16.1.2\"}\n");
    rig_must(r, "{\"table\":\"vxlan_route\",\"vni\":1,\"prefix\":\"10.2.0.0/16\","
                "\"scope\":\"peer\",\"peer_vni\":2}\n");
    /* By the VIP that h1 has. */
    check_trace(r, 1, "10.1.0.5",
                "tenant:1@h1 route:1@h1 vm_nc:1@h1 forward:1@h1>172.16.1.1");
    check_trace_over(r, IP_V4, 1, "10.1.0.5",
                     "tenant:1@h1 route:1@h1 vm_nc:1@h1 forward:1@h1>172.16.1.1");
    check_trace_over(r, IP_V6, 1, "10.1.0.5",
                     "tenant:1@h1 route:1@h1 vm_nc:1@h1 fallback:1@h1 route:1@c1 "
                     "vm_nc:1@c1 forward:1@c1>172.16.1.1");
    check_trace_over(r, IP_V6, 1, "192.168.0.1",
                     "tenant:1@h1 route:1@h1 fallback:1@h1 route:1@c1 "
                     "forward:5000@c1>172.16.0.9");
    /* h2's VIP is of IPv6, and c1 has none that it could send from. */
    check_trace(r, 1, "10.2.0.5",
                "tenant:1@h1 route:1@h1 fallback:1@h1 route:1@c1 drop:1@c1!no_vip");
    add_vip_v6(r, "c1", "2001:db8:16:255::1");
    /* Now the NC behind h2 is not of IPv6; and nodes take packets from those alone who
     * are known to send some. */
    check_trace(r, 1, "10.2.0.5",
                "tenant:1@h1 route:1@h1 fallback:1@h1 route:1@c1 "
                "drop:2@h2!source_check");
    put_sources(r, 2);
    check_trace(r, 1, "10.2.0.5",
                "tenant:1@h1 route:1@h1 fallback:1@h1 route:1@c1 route:2@h2 vm_nc:2@h2 "
                "fallback:2@h2 route:2@c2 vm_nc:2@c2 forward:2@c2>172.16.1.2");
    check_trace(r, 2, "10.2.0.5",
                "tenant:2@h2 route:2@h2 vm_nc:2@h2 fallback:2@h2 route:2@c2 vm_nc:2@c2 "
                "forward:2@c2>172.16.1.2");
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("project");

    tcase_add_test(tc, a_peer_at_home_elsewhere_is_derived_with_that_clusters_vip);
    tcase_add_test(tc, a_new_vip_is_derived_again_wherever_it_is_used);
    tcase_add_loop_test(tc, after_any_edits_incremental_equals_recomputed, 0, 8);
    tcase_add_test(tc, a_trace_tells_each_hop_and_the_reason_of_a_drop);
    tcase_add_test(tc, what_xgw_h_cannot_send_over_the_other_family_falls_back);
    tcase_set_timeout(tc, 60);
    return unit_run("project", tc);
}
