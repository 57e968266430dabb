/* Which VM-NC entries answer alone: those whose VNI has a row and whose route is local,
 * and never one longer than that (agent/fwd/fib_mark.c). */
#include "tests/unit/agent/fwd/region.h"

/* Is a VM's lookup plain after the probe?  Its answer is held against the scan. */
static bool is_probed(struct region *r, uint32_t vni, const char *vm)
{
    struct ip ip = ip_of(vm);
    struct fib_query q = query_of(vni, &ip);
    struct naive_answer a = naive_resolve(r, vni, &ip);
    unsigned probed;

    resolve_by_batch(r->fib, &q, 1, &probed);
    if (a.kind == FIB_LOCAL) {
        a.vni_flags = 0;
    }
    assert_answer(r, &q, &a);
    region_check(r, &vni, &ip, 1);
    return probed == 1;
}

static void commit(struct region *r)
{
    region_commit(r, UINT64_MAX);
    ck_assert_int_eq(r->rc, RC_OK);
    region_audit(r);
}

static void put(struct region *r, struct entry e)
{
    region_do(r, ENTRY_PUT, &e);
}

static void take(struct region *r, struct entry e)
{
    region_do(r, ENTRY_DELETE, &e);
}

static struct entry local(uint32_t vni, const char *prefix)
{
    return route_entry(vni, prefix, SCOPE_LOCAL, 0, NULL);
}

static struct entry tunnel(uint32_t vni, const char *prefix)
{
    return route_entry(vni, prefix, SCOPE_IDC, 9, "172.16.0.8");
}

static struct entry vm(uint32_t vni, const char *address)
{
    return vm_nc_entry(vni, address, "172.16.0.1", NULL);
}

/* What a VM's answer needs, in every order of coming and of going. */
static const struct {
    const char *vm;
    const char *cover;
    const char *inside; /* holds the VM */
    const char *beside;
} families[] = {
    { "10.0.0.1", "10.0.0.0/8", "10.0.0.0/24", "10.0.1.0/24" },
    { "fd00::1", "fd00::/8", "fd00::/64", "fd00:0:0:1::/64" },
    { "fd00::2", "fd00::/48", "fd00::2/127", "fd00::4/126" }, /* below a /64 */
};

static const uint8_t orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

START_TEST(a_vm_answers_alone_once_vni_route_and_entry_are_there_in_any_order)
{
    unsigned f = (unsigned)_i / ARRAY_LEN(orders);
    const uint8_t *order = orders[(unsigned)_i % ARRAY_LEN(orders)];
    struct entry part[] = { vni_entry(7, 0), local(7, families[f].cover),
                            vm(7, families[f].vm) };

    for (unsigned gone = 0; gone < 3; gone++) {
        struct region r;

        region_init(&r, NULL);
        for (unsigned i = 0; i < 3; i++) {
            ck_assert(!is_probed(&r, 7, families[f].vm));
            put(&r, part[order[i]]);
            commit(&r);
        }
        ck_assert(is_probed(&r, 7, families[f].vm));
        take(&r, part[gone]);
        commit(&r);
        ck_assert(!is_probed(&r, 7, families[f].vm));
        put(&r, part[gone]);
        commit(&r);
        ck_assert(is_probed(&r, 7, families[f].vm));
        region_fini(&r);
    }
}
END_TEST

START_TEST(all_in_one_batch_is_as_good)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, vm(7, families[_i].vm));
    put(&r, local(7, families[_i].cover));
    put(&r, vni_entry(7, 0));
    commit(&r);
    ck_assert(is_probed(&r, 7, families[_i].vm));
    take(&r, vm(7, families[_i].vm));
    take(&r, local(7, families[_i].cover));
    take(&r, vni_entry(7, 0));
    commit(&r);
    ck_assert(!is_probed(&r, 7, families[_i].vm));
    region_fini(&r);
}
END_TEST

START_TEST(a_longer_route_elsewhere_takes_the_mark_and_its_end_gives_it_back)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, vni_entry(7, 0));
    put(&r, local(7, families[_i].cover));
    put(&r, vm(7, families[_i].vm));
    commit(&r);
    put(&r, tunnel(7, families[_i].beside));
    commit(&r);
    ck_assert(is_probed(&r, 7, families[_i].vm));
    put(&r, tunnel(7, families[_i].inside));
    commit(&r);
    ck_assert(!is_probed(&r, 7, families[_i].vm));
    put(&r, local(7, families[_i].inside));
    commit(&r);
    ck_assert(is_probed(&r, 7, families[_i].vm));
    put(&r, tunnel(7, families[_i].cover));
    commit(&r);
    ck_assert(is_probed(&r, 7, families[_i].vm));
    take(&r, local(7, families[_i].inside));
    commit(&r);
    ck_assert(!is_probed(&r, 7, families[_i].vm));
    region_fini(&r);
}
END_TEST

START_TEST(a_new_nc_keeps_the_mark)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, vni_entry(7, 0));
    put(&r, local(7, "10.0.0.0/8"));
    put(&r, vm(7, "10.0.0.1"));
    commit(&r);
    put(&r, vm_nc_entry(7, "10.0.0.1", "172.16.0.2", NULL));
    commit(&r);
    ck_assert(is_probed(&r, 7, "10.0.0.1"));
    /* With a MAC it is no plain answer; without one again it is. */
    put(&r, vm_nc_entry(7, "10.0.0.1", "172.16.0.2", "02:00:00:00:00:01"));
    commit(&r);
    ck_assert(!is_probed(&r, 7, "10.0.0.1"));
    put(&r, vm(7, "10.0.0.1"));
    commit(&r);
    ck_assert(is_probed(&r, 7, "10.0.0.1"));
    region_fini(&r);
}
END_TEST

/* So many that the table grows and splits, and rows are skipped and sought. */
START_TEST(a_thousand_vms_are_marked_but_for_those_that_a_tunnel_takes)
{
    enum { VMS = 4096 };
    struct region r;
    unsigned probed = 0;

    region_init(&r, NULL);
    put(&r, vni_entry(7, 0));
    put(&r, local(7, "10.0.0.0/8"));
    for (unsigned i = 0; i < VMS; i++) {
        struct entry e = vm(7, "10.0.0.0");

        e.vm_nc.vm = ip_v4(0x0a000000u + i);
        region_queue(&r, ENTRY_PUT, &e);
    }
    commit(&r);
    put(&r, tunnel(7, "10.0.2.0/24"));
    put(&r, tunnel(7, "10.0.2.8/32")); /* nested */
    put(&r, tunnel(7, "10.0.12.0/25"));
    put(&r, tunnel(7, "10.0.16.0/20")); /* nobody */
    commit(&r);
    for (unsigned i = 0; i < VMS; i += FIB_BURST_MAX) {
        struct fib_query q[FIB_BURST_MAX];
        unsigned n;

        for (unsigned k = 0; k < FIB_BURST_MAX; k++) {
            struct ip ip = ip_v4(0x0a000000u + i + k);

            q[k] = query_of(7, &ip);
        }
        resolve_by_batch(r.fib, q, FIB_BURST_MAX, &n);
        probed += n;
        for (unsigned k = 0; k < FIB_BURST_MAX; k++) {
            bool is_tunnel = (i + k) >> 8 == 2 || (i + k) >> 7 == 24;

            ck_assert_uint_eq(q[k].kind, is_tunnel ? FIB_TUNNEL : FIB_LOCAL);
        }
    }
    ck_assert_uint_eq(probed, VMS - 384);
    region_fini(&r);
}
END_TEST

START_TEST(a_vm_of_a_peer_is_found_with_its_mark)
{
    struct region r;

    region_init(&r, NULL);
    put(&r, vni_entry(7, 0));
    put(&r, vni_entry(8, 0));
    put(&r, route_entry(7, "10.0.0.0/8", SCOPE_PEER, 8, NULL));
    put(&r, local(8, "10.0.0.0/8"));
    put(&r, vm(8, "10.0.0.1"));
    /* An entry of the asking VNI's own, which its route does not lead to. */
    put(&r, vm_nc_entry(7, "10.0.0.1", "172.16.0.66", NULL));
    commit(&r);
    ck_assert(!is_probed(&r, 7, "10.0.0.1"));
    ck_assert(is_probed(&r, 8, "10.0.0.1"));
    region_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib_mark");

    tcase_add_loop_test(
        tc, a_vm_answers_alone_once_vni_route_and_entry_are_there_in_any_order, 0,
        (int)(ARRAY_LEN(families) * ARRAY_LEN(orders)));
    tcase_add_loop_test(tc, all_in_one_batch_is_as_good, 0, ARRAY_LEN(families));
    tcase_add_loop_test(
        tc, a_longer_route_elsewhere_takes_the_mark_and_its_end_gives_it_back, 0,
        ARRAY_LEN(families));
    tcase_add_test(tc, a_new_nc_keeps_the_mark);
    tcase_add_test(tc, a_thousand_vms_are_marked_but_for_those_that_a_tunnel_takes);
    tcase_add_test(tc, a_vm_of_a_peer_is_found_with_its_mark);
    return unit_run("fib_mark", tc);
}
