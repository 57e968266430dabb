#include "tests/unit/agent/fwd/region.h"

static void put(struct region *r, struct entry e)
{
    region_do(r, ENTRY_PUT, &e);
}

static void del(struct region *r, struct entry e)
{
    region_do(r, ENTRY_DELETE, &e);
}

static void commit(struct region *r)
{
    region_commit(r, UINT64_MAX);
    ck_assert_int_eq(r->rc, RC_OK);
    ck_assert_uint_eq(r->refused.count, 0);
}

static void check_one(struct region *r, uint32_t vni, const char *dst)
{
    struct ip ip = ip_of(dst);

    region_check(r, &vni, &ip, 1);
}

START_TEST(every_scope_resolves_to_its_verdict)
{
    struct region r;
    struct fib_query q;

    region_init(&r, NULL);
    put(&r, vni_entry(100, VNI_INTERNET));
    put(&r, vni_entry(7, VNI_ACL | VNI_INNER_VLAN));
    put(&r, route_entry(100, "10.0.0.0/24", SCOPE_LOCAL, 0, NULL));
    put(&r, route_entry(100, "10.1.0.0/16", SCOPE_PEER, 7, NULL));
    put(&r, route_entry(100, "0.0.0.0/0", SCOPE_INTERNET, 0, NULL));
    put(&r, route_entry(100, "192.168.0.0/16", SCOPE_IDC, 5000, "172.16.0.9"));
    put(&r, route_entry(100, "192.168.7.0/24", SCOPE_REGION, 6000, "2001:db8::9"));
    put(&r, route_entry(100, "192.168.8.0/24", SCOPE_DERIVED, 9, "172.16.0.10"));
    put(&r, route_entry(100, "100.64.0.0/10", SCOPE_SERVICE, 0, "dns"));
    put(&r, route_entry(7, "10.1.2.0/24", SCOPE_LOCAL, 0, NULL));
    put(&r, vm_nc_entry(100, "10.0.0.5", "172.16.1.1", "02:00:00:00:00:05"));
    put(&r, vm_nc_entry(100, "10.0.0.6", "172.16.1.2", NULL));
    put(&r, vm_nc_entry(7, "10.1.2.3", "2001:db8::7", NULL));
    commit(&r);

    q = region_ask(&r, 100, "10.0.0.5");
    ck_assert_uint_eq(q.kind, FIB_LOCAL);
    ck_assert_mem_eq(q.addr, ip_of("172.16.1.1").b, 16);
    ck_assert_uint_eq(q.has_mac, 1);
    ck_assert_uint_eq(q.mac[5], 5);
    ck_assert_uint_eq(q.vni_flags, VNI_INTERNET);
    ck_assert_uint_eq(q.lookups, 1);

    q = region_ask(&r, 100, "10.1.2.3"); /* through the peer, flags of the arriving */
    ck_assert_uint_eq(q.kind, FIB_LOCAL);
    ck_assert_uint_eq(q.addr_family, IP_V6);
    ck_assert_uint_eq(q.out_vni, 7);
    ck_assert_uint_eq(q.vni_changed, 1);
    ck_assert_uint_eq(q.lookups, 2);
    ck_assert_uint_eq(q.vni_flags, VNI_INTERNET);

    ck_assert_uint_eq(region_ask(&r, 100, "10.0.0.7").kind, FIB_DROP_VM_NC_MISS);
    ck_assert_uint_eq(region_ask(&r, 100, "10.1.9.9").kind, FIB_DROP_ROUTE_MISS);
    ck_assert_uint_eq(region_ask(&r, 100, "9.9.9.9").kind, FIB_INTERNET);
    ck_assert_uint_eq(region_ask(&r, 101, "10.0.0.5").kind, FIB_DROP_VNI_UNKNOWN);
    ck_assert_uint_eq(region_ask(&r, 0, "0.0.0.0").kind, FIB_DROP_VNI_UNKNOWN);
    ck_assert_uint_eq(region_ask(&r, 100, "2001:db8::1").kind, FIB_DROP_ROUTE_MISS);
    q = region_ask(&r, 100, "192.168.7.1");
    ck_assert_uint_eq(q.kind, FIB_TUNNEL);
    ck_assert_uint_eq(q.scope, SCOPE_REGION);
    ck_assert_uint_eq(q.out_vni, 6000);
    ck_assert_mem_eq(q.addr, ip_of("2001:db8::9").b, 16);
    q = region_ask(&r, 100, "100.64.0.1");
    ck_assert_uint_eq(q.kind, FIB_SERVICE);
    ck_assert_str_eq(fib_service_name(r.fib, q.service), "dns");
    ck_assert_uint_eq(fib_service_find(r.fib, "dns"), q.service);
    ck_assert_uint_eq(fib_service_find(r.fib, "ntp"), UINT32_MAX);

    for (uint32_t i = 0; i < r.count; i++) {
        struct ip ip =
            r.at[i].table == TABLE_VM_NC ? r.at[i].vm_nc.vm : r.at[i].route.dst.addr;

        if (r.at[i].table != TABLE_VNI) {
            region_check(&r, &r.at[i].vni, &ip, 1);
        }
    }
    region_audit(&r);
    region_fini(&r);
}
END_TEST

START_TEST(a_peer_chain_ends_after_four_lookups)
{
    struct region r;
    struct fib_query q;

    region_init(&r, NULL);
    for (uint32_t vni = 1; vni <= 5; vni++) {
        put(&r, vni_entry(vni, 0));
        put(&r, route_entry(vni, "10.0.0.0/8", SCOPE_PEER, vni + 1, NULL));
    }
    del(&r, route_entry(5, "10.0.0.0/8", SCOPE_PEER, 6, NULL));
    put(&r, route_entry(5, "10.0.0.0/8", SCOPE_LOCAL, 0, NULL));
    put(&r, vm_nc_entry(5, "10.0.0.1", "172.16.0.1", NULL));
    /* Mutual peering of two VPCs: each packet comes to an end. */
    put(&r, route_entry(1, "10.9.0.0/16", SCOPE_PEER, 2, NULL));
    put(&r, route_entry(2, "10.9.0.0/16", SCOPE_PEER, 1, NULL));
    commit(&r);

    q = region_ask(&r, 2, "10.0.0.1");
    ck_assert_uint_eq(q.kind, FIB_LOCAL);
    ck_assert_uint_eq(q.lookups, 4);
    ck_assert_uint_eq(q.out_vni, 5);
    q = region_ask(&r, 1, "10.0.0.1");
    ck_assert_uint_eq(q.kind, FIB_DROP_TOO_MANY_LOOKUPS);
    ck_assert_uint_eq(q.lookups, 4);
    q = region_ask(&r, 1, "10.9.0.1");
    ck_assert_uint_eq(q.kind, FIB_DROP_TOO_MANY_LOOKUPS);
    ck_assert_uint_eq(q.lookups, 4);
    check_one(&r, 2, "10.0.0.1");
    region_fini(&r);
}
END_TEST

START_TEST(a_vni_is_known_by_its_row_and_not_by_its_routes)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, route_entry(5, "fd00::/64", SCOPE_INTERNET, 0, NULL));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 5, "fd00::1").kind, FIB_DROP_VNI_UNKNOWN);
    put(&r, vni_entry(5, VNI_ACL));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 5, "fd00::1").kind, FIB_INTERNET);
    ck_assert_uint_eq(region_ask(&r, 5, "fd00::1").vni_flags, VNI_ACL);
    ck_assert_uint_eq(region_ask(&r, 5, "10.0.0.1").kind, FIB_DROP_ROUTE_MISS);
    put(&r, vni_entry(5, VNI_INTERNET));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 5, "fd00::1").vni_flags, VNI_INTERNET);
    ck_assert_uint_eq(region_ask(&r, 5, "10.0.0.1").vni_flags, VNI_INTERNET);
    del(&r, vni_entry(5, 0));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 5, "fd00::1").kind, FIB_DROP_VNI_UNKNOWN);
    put(&r, vni_entry(5, 0));
    del(&r, route_entry(5, "fd00::/64", SCOPE_INTERNET, 0, NULL));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 5, "fd00::1").kind, FIB_DROP_ROUTE_MISS);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

/* OpenFastPath #115, #116, #118 and VPP-1459: deletes that lost or revived a cover. */
static const char *const nested[] = { "10.0.0.0/8", "10.0.0.0/16", "10.0.1.0/24" };
static const unsigned orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                       { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

static void check_nested(struct region *r)
{
    static const char *const dst[] = { "10.0.1.1",  "10.0.1.0", "10.0.1.255",
                                       "10.0.2.1",  "10.1.1.1", "10.255.255.255",
                                       "9.255.9.9", "11.0.0.0", "10.0.0.0" };

    for (unsigned i = 0; i < ARRAY_LEN(dst); i++) {
        check_one(r, 1, dst[i]);
    }
    region_audit(r);
}

START_TEST(nested_prefixes_answer_as_a_scan_in_every_order_of_add_and_delete)
{
    const unsigned *add = orders[_i / 6];
    const unsigned *remove = orders[_i % 6];
    struct region r;

    region_init(&r, NULL);
    put(&r, vni_entry(1, 0));
    for (unsigned i = 0; i < 3; i++) {
        put(&r, route_entry(1, nested[add[i]], SCOPE_IDC, 100 + add[i], "172.16.0.1"));
        commit(&r);
        check_nested(&r);
    }
    for (unsigned i = 0; i < 3; i++) {
        del(&r, route_entry(1, nested[remove[i]], SCOPE_IDC, 100, "172.16.0.1"));
        commit(&r);
        check_nested(&r);
    }
    region_fini(&r);
}
END_TEST

/* VPP-1459's literals: 10.0.1.2/24's network goes, 10.0.0.0/8 comes. */
START_TEST(a_cover_added_after_its_child_went_is_seen_everywhere)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, vni_entry(1, 0));
    put(&r, route_entry(1, "10.0.1.0/24", SCOPE_INTERNET, 0, NULL));
    commit(&r);
    del(&r, route_entry(1, "10.0.1.0/24", SCOPE_INTERNET, 0, NULL));
    put(&r, route_entry(1, "10.0.0.0/8", SCOPE_INTERNET, 0, NULL));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 1, "10.1.1.1").kind, FIB_INTERNET);
    ck_assert_uint_eq(region_ask(&r, 1, "10.0.1.1").kind, FIB_INTERNET);
    region_fini(&r);
}
END_TEST

/* dhcpcd #52: one address with two lengths is two routes, and each can go alone. */
START_TEST(lengths_48_and_64_of_one_address_live_side_by_side)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, vni_entry(1, 0));
    put(&r, route_entry(1, "2001:db8::/48", SCOPE_IDC, 48, "172.16.0.1"));
    put(&r, route_entry(1, "2001:db8::/64", SCOPE_IDC, 64, "172.16.0.1"));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 1, "2001:db8::1").out_vni, 64);
    ck_assert_uint_eq(region_ask(&r, 1, "2001:db8:0:1::1").out_vni, 48);
    del(&r, route_entry(1, "2001:db8::/64", SCOPE_IDC, 64, "172.16.0.1"));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 1, "2001:db8::1").out_vni, 48);
    put(&r, route_entry(1, "2001:db8::/64", SCOPE_IDC, 64, "172.16.0.1"));
    del(&r, route_entry(1, "2001:db8::/48", SCOPE_IDC, 48, "172.16.0.1"));
    commit(&r);
    ck_assert_uint_eq(region_ask(&r, 1, "2001:db8::1").out_vni, 64);
    ck_assert_uint_eq(region_ask(&r, 1, "2001:db8:0:1::1").kind, FIB_DROP_ROUTE_MISS);
    region_fini(&r);
}
END_TEST

/* FRR #21473 and #20977: an IPv4 VM behind an IPv6 NC; moves; nothing stays. */
START_TEST(a_vm_that_moves_a_thousand_times_leaves_nothing)
{
    struct region r;
    struct fib_stats stats;

    region_init(&r, NULL);
    put(&r, vni_entry(100, 0));
    put(&r, route_entry(100, "192.168.0.0/16", SCOPE_LOCAL, 0, NULL));
    for (unsigned i = 0; i < 1000; i++) {
        const char *nc = i % 2 ? "2001:db8::9" : "172.16.0.9";

        put(&r,
            vm_nc_entry(100, "192.168.1.20", nc, i % 3 ? NULL : "02:00:00:00:00:01"));
        commit(&r);
        check_one(&r, 100, "192.168.1.20");
        if (i % 5 == 4) {
            del(&r, vm_nc_entry(100, "192.168.1.20", nc, NULL));
            commit(&r);
            check_one(&r, 100, "192.168.1.20");
        }
    }
    stats = fib_stats(r.fib);
    ck_assert_uint_eq(stats.vm_nc4 + stats.vm_nc6, 0);
    ck_assert_uint_eq(stats.ncs, 0);
    region_fini(&r);
}
END_TEST

/* SONiC swss #2576, #2508: the same put twice, then a change. */
START_TEST(the_same_endpoint_twice_and_then_a_new_one_counts_once)
{
    struct region r;
    const char *prefix = "150.0.5.1/32";

    region_init(&r, NULL);
    put(&r, vni_entry(10000, 0));
    for (unsigned i = 0; i < 2; i++) {
        put(&r, route_entry(10000, prefix, SCOPE_IDC, 10000, "100.0.0.1"));
        commit(&r);
    }
    put(&r, route_entry(10000, prefix, SCOPE_IDC, 10000, "100.0.0.2"));
    commit(&r);
    check_one(&r, 10000, "150.0.5.1");
    ck_assert_uint_eq(fib_stats(r.fib).tunnels, 1);
    del(&r, route_entry(10000, prefix, SCOPE_IDC, 10000, "100.0.0.2"));
    commit(&r);
    ck_assert_uint_eq(fib_stats(r.fib).tunnels, 0);
    region_fini(&r);
}
END_TEST

START_TEST(read_back_gives_the_packed_value)
{
    struct region r;
    struct buf got = BUF_INIT;

    region_init(&r, NULL);
    put(&r, vni_entry(5, VNI_ACL));
    put(&r, route_entry(5, "0.0.0.0/0", SCOPE_SERVICE, 0, "nat64"));
    put(&r, route_entry(5, "fc00::/7", SCOPE_REGION, 77, "172.16.0.4"));
    put(&r, route_entry(5, "fd00:1::1/128", SCOPE_PEER, 9, NULL));
    put(&r, vm_nc_entry(5, "fd00::9", "2001:db8::1", "02:00:00:00:00:09"));
    commit(&r);
    for (uint32_t i = 0; i < r.count; i++) {
        struct naive_row want = naive_row_of(&r.at[i]);

        buf_reset(&got);
        ck_assert_int_eq(fib_get(r.fib, r.at[i].table, 5, want.key, want.key_len, &got),
                         RC_OK);
        ck_assert_uint_eq(got.len, want.value_len);
        ck_assert_mem_eq(got.data, want.value, want.value_len);
        ck_assert_int_eq(fib_get(r.fib, r.at[i].table, 6, want.key, want.key_len, &got),
                         RC_NOT_FOUND);
    }
    ck_assert_int_eq(fib_get(r.fib, TABLE_VM_NC, 5, (const uint8_t *)"\5abc", 4, &got),
                     RC_INVALID);
    ck_assert_int_eq(
        fib_get(r.fib, TABLE_VXLAN_ROUTE, 5, (const uint8_t *)"\4abcd\x21", 6, &got),
        RC_INVALID);
    buf_fini(&got);
    region_fini(&r);
}
END_TEST

static void count_mismatch(void *arg, enum table_id table, uint32_t vni,
                           const uint8_t *key, uint8_t key_len)
{
    (void)table;
    (void)vni;
    (void)key;
    ++((unsigned *)arg)[key_len == 0];
}

START_TEST(an_audit_finds_one_wrong_row)
{
    struct region r;
    struct region other;
    unsigned seen[2] = { 0 };

    region_init(&r, NULL);
    region_init(&other, NULL);
    for (unsigned i = 0; i < 200; i++) {
        char prefix[32];

        snprintf(prefix, sizeof prefix, "10.%u.0.0/16", i);
        put(&r, route_entry(5, prefix, SCOPE_PEER, 1000 + i, NULL));
        put(&other, route_entry(5, prefix, SCOPE_PEER, 1000 + i + (i == 77), NULL));
    }
    put(&r, route_entry(5, "10.77.8.0/21", SCOPE_LOCAL, 0, NULL));
    put(&other, route_entry(5, "10.77.8.0/21", SCOPE_LOCAL, 0, NULL));
    put(&r, vm_nc_entry(5, "10.0.0.1", "172.16.0.1", NULL));
    put(&other, vm_nc_entry(5, "10.0.0.1", "172.16.0.2", NULL));
    commit(&r);
    commit(&other);
    ck_assert_uint_ge(fib_audit(r.fib, TABLE_VXLAN_ROUTE, 5,
                                table_set_rows(other.set, 5, TABLE_VXLAN_ROUTE),
                                count_mismatch, seen),
                      1);
    ck_assert_uint_ge(seen[0], 1);
    ck_assert_uint_eq(seen[1], 0);
    for (uint32_t rows = 1; rows < 90; rows++) {
        struct fib_audit_at at = { 0 };

        while (fib_audit_routes(r.fib, 5,
                                table_set_rows(other.set, 5, TABLE_VXLAN_ROUTE), &at,
                                rows, count_mismatch, NULL, seen)) {
        }
        ck_assert_uint_ge(at.mismatches, 1);
    }
    ck_assert_uint_eq(fib_audit(r.fib, TABLE_VM_NC, 5,
                                table_set_rows(other.set, 5, TABLE_VM_NC), NULL, NULL),
                      1);
    ck_assert_uint_ge(fib_audit(r.fib, TABLE_VXLAN_ROUTE, 5, NULL, NULL, NULL), 1);
    region_audit(&r);
    region_fini(&other);
    region_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_scope_resolves_to_its_verdict);
    tcase_add_test(tc, a_peer_chain_ends_after_four_lookups);
    tcase_add_test(tc, a_vni_is_known_by_its_row_and_not_by_its_routes);
    tcase_add_loop_test(
        tc, nested_prefixes_answer_as_a_scan_in_every_order_of_add_and_delete, 0, 36);
    tcase_add_test(tc, a_cover_added_after_its_child_went_is_seen_everywhere);
    tcase_add_test(tc, lengths_48_and_64_of_one_address_live_side_by_side);
    tcase_add_test(tc, a_vm_that_moves_a_thousand_times_leaves_nothing);
    tcase_add_test(tc, the_same_endpoint_twice_and_then_a_new_one_counts_once);
    tcase_add_test(tc, read_back_gives_the_packed_value);
    tcase_add_test(tc, an_audit_finds_one_wrong_row);
    return unit_run("fib", tc);
}
