/* Costs that a mistake would multiply.  CPU time, bounds some ten times what a quiet
 * machine needs: figures are bench_fib's business, orders of magnitude this one's. */
#include <time.h>

#include "tests/unit/agent/fwd/region.h"

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum { LARGE = 50000, SMALL_VNIS = 1000 };

static struct entry large_route(uint32_t n)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = 5 };

    e.route.dst = (struct prefix){ ip_v4(n << 8), 24 };
    e.route.action.scope = n % 2 ? SCOPE_LOCAL : SCOPE_INTERNET;
    return e;
}

static struct entry small_route(uint32_t vni, uint32_t n, bool is_local)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = 100 + vni };

    e.route.dst = (struct prefix){ ip_v4(0x0a000000u + (n << 8)), 24 };
    e.route.action.scope = is_local ? SCOPE_LOCAL : SCOPE_INTERNET;
    return e;
}

static void fill(struct region *r)
{
    struct entry e = vni_entry(5, 0);

    region_queue(r, ENTRY_PUT, &e);
    for (uint32_t n = 0; n < LARGE; n++) {
        e = large_route(n);
        region_queue(r, ENTRY_PUT, &e);
    }
    for (uint32_t vni = 0; vni < SMALL_VNIS; vni++) {
        for (uint32_t n = 0; n < 4; n++) {
            e = small_route(vni, n, true);
            region_queue(r, ENTRY_PUT, &e);
        }
    }
    region_commit(r, UINT64_MAX);
    ck_assert_int_eq(r->rc, RC_OK);
}

START_TEST(one_route_of_a_small_vni_costs_microseconds_beside_a_large_one)
{
    struct region r;
    double s;

    region_init(&r, NULL);
    fill(&r);
    s = cpu_s();
    for (uint32_t i = 0; i < 10000; i++) {
        struct entry e = small_route(i % SMALL_VNIS, i % 4, i % 3);

        region_queue(&r, ENTRY_PUT, &e);
        region_commit(&r, UINT64_MAX);
    }
    s = cpu_s() - s;
    ck_assert_double_lt(s, 10000 * 100e-6);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

START_TEST(many_changes_of_a_large_vni_in_one_batch_cost_one_rebuild)
{
    struct region r;
    double s;

    region_init(&r, NULL);
    fill(&r);
    s = cpu_s();
    for (uint32_t n = 0; n < 10000; n++) {
        struct entry e = large_route(n * 5);

        e.route.action.scope = SCOPE_LOCAL;
        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    s = cpu_s() - s;
    ck_assert_double_lt(s, 1.0); /* 10,000 rebuilds would take half a minute */
    region_fini(&r);
}
END_TEST

START_TEST(a_lookup_costs_nanoseconds_at_any_table_size)
{
    struct fib_query q[FIB_BURST_MAX];
    struct region r;
    uint64_t seed = 1;
    double s;

    region_init(&r, NULL);
    fill(&r);
    s = cpu_s();
    for (unsigned round = 0; round < 10000; round++) {
        for (unsigned i = 0; i < FIB_BURST_MAX; i++) {
            struct ip ip = ip_v4(random_below(&seed, LARGE) << 8);

            q[i] = query_of(5, &ip);
        }
        fib_resolve_burst(r.fib, q, FIB_BURST_MAX);
    }
    s = cpu_s() - s;
    ck_assert_double_lt(s, 10000 * FIB_BURST_MAX * 2e-6);
    region_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib_speed");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, one_route_of_a_small_vni_costs_microseconds_beside_a_large_one);
    tcase_add_test(tc, many_changes_of_a_large_vni_in_one_batch_cost_one_rebuild);
    tcase_add_test(tc, a_lookup_costs_nanoseconds_at_any_table_size);
    return unit_run("fib_speed", tc);
}
