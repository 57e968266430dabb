/* Kinds of trouble that operators of such systems have reported: they must not exist.
 */
#include "tests/unit/controller/core/rig.h"

#include <malloc.h>

#define TENANT(vni, c) "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"" c "\"}\n"
#define LOCAL(vni, p)                                                                  \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"local\"}\n"
#define NO_ROUTE(vni, p)                                                               \
    "{\"op\":\"delete\",\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p    \
    "\"}\n"
#define VM(vni, a, nc)                                                                 \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" a "\",\"nc\":\"" nc "\"}\n"
#define NO_VM(vni, a)                                                                  \
    "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" a "\"}\n"

static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    rig_must(r, TENANT(100, "c1") TENANT(200, "c2"));
    return r;
}

static const struct {
    const char *put, *delete;
} pairs[] = {
    { LOCAL(100, "10.0.0.0/8"), NO_ROUTE(100, "10.0.0.0/8") },
    { LOCAL(100, "2001:db8::/48"), NO_ROUTE(100, "2001:db8::/48") },
    { LOCAL(100, "0.0.0.0/0"), NO_ROUTE(100, "0.0.0.0/0") },
    { "{\"table\":\"vxlan_route\",\"vni\":100,\"prefix\":\"10.0.0.0/8\",\"scope\":"
      "\"idc\",\"endpoint\":\"2001:db8::9\",\"endpoint_vni\":5}\n", /* v4 over v6 */
      NO_ROUTE(100, "10.0.0.0/8") },
    { VM(100, "192.168.1.20", "2001:db8::9"), NO_VM(100, "192.168.1.20") },
    { VM(100, "2001:db8::20", "172.16.1.1"), NO_VM(100, "2001:db8::20") },
};

/* FRR#21473, #20977: a delete that built another key than the add. */
START_TEST(add_then_delete_leaves_nothing_behind)
{
    struct rig *r = region();
    struct digest before = core_group_digest(r->core, "c1", TABLE_VXLAN_ROUTE);
    struct digest vms = core_group_digest(r->core, "c1", TABLE_VM_NC);

    rig_must(r, pairs[_i].put);
    rig_must(r, pairs[_i].delete);
    ck_assert_uint_eq(core_group_digest(r->core, "c1", TABLE_VXLAN_ROUTE).sum,
                      before.sum);
    ck_assert_uint_eq(core_group_digest(r->core, "c1", TABLE_VM_NC).sum, vms.sum);
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 0);
    ck_assert_uint_eq(core_count(r->core, TABLE_VM_NC), 0);
    rig_free(r);
}
END_TEST

/* FRR#21473: one of about twenty moves left the old entry. */
START_TEST(a_vm_that_moves_a_thousand_times_is_where_it_went_last)
{
    struct rig *r = region();
    struct rows_iter it;
    struct entry e;
    struct row row;

    for (int i = 0; i < 1000; i++) {
        rig_must(r, i % 2 ? VM(100, "192.168.1.20", "172.16.1.2")
                          : VM(100, "192.168.1.20", "172.16.1.1"));
        if (i % 3 == 0) {
            rig_must(r, NO_VM(100, "192.168.1.20"));
            rig_must(r, VM(100, "192.168.1.20", "172.16.1.2"));
        }
    }
    it = rows_begin(core_rows(r->core, 100, TABLE_VM_NC), TABLE_VM_NC);
    ck_assert(rows_next(&it, &row));
    ck_assert(!entry_unpack(TABLE_VM_NC, 100, &row, &e, NULL));
    ck_assert_uint_eq(e.vm_nc.nc.b[3], 2);
    ck_assert(!rows_next(&it, &row));
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

/* sonic-swss#2576: the same thing twice, then a change. */
START_TEST(put_twice_then_change_equals_change)
{
    struct rig *r = region();
    struct digest once;

    rig_must(r, VM(100, "10.0.0.1", "172.16.1.1"));
    rig_must(r, VM(100, "10.0.0.1", "172.16.1.2"));
    once = core_digest(r->core, TABLE_VM_NC);
    rig_must(r, NO_VM(100, "10.0.0.1"));
    rig_must(r, VM(100, "10.0.0.1", "172.16.1.1"));
    rig_must(r, VM(100, "10.0.0.1", "172.16.1.1"));
    rig_must(r, VM(100, "10.0.0.1", "172.16.1.2"));
    ck_assert_uint_eq(core_digest(r->core, TABLE_VM_NC).sum, once.sum);
    rig_free(r);
}
END_TEST

/* dhcpcd#52: /48 and /64 of one address are two keys. */
START_TEST(two_lengths_of_one_address_live_side_by_side)
{
    struct rig *r = region();

    rig_must(r, LOCAL(100, "2001:db8::/48") LOCAL(100, "2001:db8::/64"));
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 2);
    rig_must(r, NO_ROUTE(100, "2001:db8::/64"));
    ck_assert_uint_eq(core_count(r->core, TABLE_VXLAN_ROUTE), 1);
    rig_free(r);
}
END_TEST

/* frr#21758, fabric#656: nothing of such a batch is left behind. */
START_TEST(two_tenants_swap_their_entries_in_one_batch_and_not_their_homes)
{
    struct rig *r = region();

    rig_must(r, VM(100, "10.0.0.1", "172.16.1.1") VM(200, "10.0.0.1", "172.16.1.2"));
    RIG_REFUSES(r,
                TENANT(100, "c2") TENANT(200, "c1") VM(100, "10.0.0.1", "172.16.1.2")
                    VM(200, "10.0.0.1", "172.16.1.1"),
                RC_CONFLICT, "home_needs_move");
    rig_check_desired(r);
    ck_assert_uint_eq(rig_entries(r, VM(100, "10.0.0.1", "172.16.1.2")
                                         VM(200, "10.0.0.1", "172.16.1.1"))
                          ->counts.changed,
                      2);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

/* ironcore-dev/dpservice: a VNI that is used again finds nothing of its former owner.
 */
START_TEST(a_vni_that_is_used_again_begins_empty)
{
    struct rig *r = region();
    struct tenant_status t;

    rig_must(r, VM(100, "10.0.0.1", "172.16.1.1") LOCAL(100, "10.0.0.0/8"));
    ck_assert_int_eq(
        rig_entries_confirmed(r, "{\"op\":\"delete\",\"table\":\"tenant\",\"vni\":100}")
            ->err.code,
        RC_OK);
    rig_must(r, TENANT(100, "c2"));
    ck_assert(!core_tenant(r->core, 100, &t));
    ck_assert_uint_eq(t.route_count + t.vm_nc_count, 0);
    rig_restart(r);
    ck_assert(!core_tenant(r->core, 100, &t));
    ck_assert_uint_eq(t.route_count + t.vm_nc_count, 0);
    rig_check_desired(r);
    rig_free(r);
}
END_TEST

/* ovn#267: a change that touches k clusters makes work on k only. */
START_TEST(a_change_leaves_other_groups_alone)
{
    struct rig *r = region();
    struct digest c2[TABLE_COUNT];
    const struct rows *rows =
        table_set_rows(core_group_desired(r->core, "c2"), 200, TABLE_VNI);

    for (int t = 0; t < TABLE_COUNT; t++) {
        c2[t] = core_group_digest(r->core, "c2", (enum table_id)t);
    }
    rig_must(r, LOCAL(100, "10.0.0.0/8"));
    for (int t = 0; t < TABLE_COUNT; t++) {
        ck_assert_uint_eq(core_group_digest(r->core, "c2", (enum table_id)t).sum,
                          c2[t].sum);
    }
    ck_assert_ptr_eq(table_set_rows(core_group_desired(r->core, "c2"), 200, TABLE_VNI),
                     rows);
    rig_free(r);
}
END_TEST

/* kube-ovn#172, gobgp#2187: churn with a constant live set costs no memory. */
START_TEST(churn_with_a_constant_live_set_keeps_memory)
{
    struct rig *r = region();
    size_t before = 0;
    char many[100000] = "";
    size_t len = 0;

    for (int i = 0; i < 1200; i++) {
        len += (size_t)sprintf(many + len,
                               "{\"table\":\"vm_nc\",\"vni\":200,\"vm\":"
                               "\"10.1.%d.%d\",\"nc\":\"172.16.1.1\"}\n",
                               i / 200, i % 200);
    }
    rig_must(r, many);
    for (int round = 0; round < 60; round++) {
        char lines[16384] = "";

        for (int i = 0; i < 100; i++) {
            sprintf(lines + strlen(lines),
                    "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.%d.0.%d\","
                    "\"nc\":\"172.16.1.1\"}\n",
                    round % 2, i);
        }
        rig_must(r, lines);
        lines[0] = '\0';
        for (int i = 0; i < 100; i++) {
            sprintf(lines + strlen(lines),
                    "{\"op\":\"delete\",\"table\":\"vm_nc\",\"vni\":100,"
                    "\"vm\":\"10.%d.0.%d\"}\n",
                    1 - round % 2, i);
        }
        ck_assert_int_eq(rig_entries_confirmed(r, lines)->err.code, RC_OK);
        rig_pass(r, 5001); /* folds */
        if (round == 20) {
            before = mallinfo2().uordblks;
        }
    }
    ck_assert_uint_eq(core_count(r->core, TABLE_VM_NC), 1300);
    /* The audit log in the store grows with each change; the rest does not. */
    ck_assert_uint_lt(mallinfo2().uordblks, before + before / 5 + (size_t)80 * 512);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("reports");

    tcase_add_loop_test(tc, add_then_delete_leaves_nothing_behind, 0, ARRAY_LEN(pairs));
    tcase_add_test(tc, a_vm_that_moves_a_thousand_times_is_where_it_went_last);
    tcase_add_test(tc, put_twice_then_change_equals_change);
    tcase_add_test(tc, two_lengths_of_one_address_live_side_by_side);
    tcase_add_test(tc, two_tenants_swap_their_entries_in_one_batch_and_not_their_homes);
    tcase_add_test(tc, a_vni_that_is_used_again_begins_empty);
    tcase_add_test(tc, a_change_leaves_other_groups_alone);
    tcase_add_test(tc, churn_with_a_constant_live_set_keeps_memory);
    return unit_run("reports", tc);
}
