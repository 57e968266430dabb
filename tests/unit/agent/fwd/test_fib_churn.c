/* The fib against linear scans while entries come and go at random. */
#include "tests/unit/agent/fwd/region.h"

enum { VNIS = 5 };

/* A random prefix in a space so small that prefixes nest deeply and addresses hit. */
static struct prefix random_prefix(uint64_t *seed, unsigned v6_max)
{
    static const uint8_t bits4[] = { 0, 1, 8, 15, 16, 23, 24, 25, 28, 30, 31, 32 };
    static const uint8_t bits6[] = { 0,  1,  7,  32, 47, 48,  56,  60,
                                     63, 64, 65, 96, 97, 120, 127, 128 };
    struct prefix p = { 0 };

    if (random_below(seed, 2)) {
        p.addr = ip_v4(0x0a000000u | random_below(seed, 4) << 16 |
                       random_below(seed, 4) << 8 | random_below(seed, 256));
        if (random_below(seed, 8) == 0) {
            p.addr = ip_v4(random_below(seed, 2) ? 0xffffffffu : 0);
        }
        p.len = bits4[random_below(seed, ARRAY_LEN(bits4))];
    } else {
        uint8_t b[16] = { 0xfd };

        b[5] = (uint8_t)random_below(seed, 3);
        b[7] = (uint8_t)random_below(seed, 16);
        b[8] = (uint8_t)(random_below(seed, 2) * 0x80);
        b[15] = (uint8_t)random_below(seed, 4);
        if (random_below(seed, 8) == 0) {
            memset(b, random_below(seed, 2) ? 0xff : 0, sizeof b);
        }
        p.addr = ip_v6(b);
        do {
            p.len = bits6[random_below(seed, ARRAY_LEN(bits6))];
        } while (p.len > v6_max);
    }
    prefix_mask(&p);
    return p;
}

static struct entry random_route(uint64_t *seed, uint32_t vni, unsigned v6_max)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };
    struct route_action *a = &e.route.action;

    e.route.dst = random_prefix(seed, v6_max);
    switch (random_below(seed, 6)) {
    case 0:
        a->scope = SCOPE_INTERNET;
        break;
    case 1:
        a->scope = (uint8_t)(random_below(seed, 2) ? SCOPE_IDC : SCOPE_REGION);
        a->vni = 1 + random_below(seed, 3);
        a->endpoint = ip_v4(0xac100001u + random_below(seed, 3));
        break;
    case 2:
        a->scope = SCOPE_SERVICE;
        snprintf(a->service, sizeof a->service, "s%u", random_below(seed, 5));
        break;
    case 3:
        a->scope = SCOPE_PEER;
        a->vni = 1 + vni % (VNIS + 1); /* the last one is never known */
        break;
    default:
        a->scope = SCOPE_LOCAL;
    }
    return e;
}

static struct entry random_vm(uint64_t *seed, uint32_t vni)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = vni };
    struct prefix p = random_prefix(seed, 128);
    uint8_t nc6[16] = { 0x20, 1, [15] = (uint8_t)random_below(seed, 4) };

    e.vm_nc.vm = p.addr;
    e.vm_nc.nc =
        random_below(seed, 3) ? ip_v4(0xac100001u + random_below(seed, 9)) : ip_v6(nc6);
    if (random_below(seed, 3) == 0) {
        e.vm_nc.has_mac = true;
        e.vm_nc.mac[0] = 2;
        e.vm_nc.mac[5] = (uint8_t)random_below(seed, 9);
    }
    return e;
}

/* Addresses at and beside the ends of what stands, where mistakes live. */
static struct ip random_address(struct region *r, uint64_t *seed, unsigned i)
{
    struct prefix p = random_prefix(seed, 128);
    struct ip ip = p.addr;
    unsigned size;

    if (r->count && i % 4) {
        const struct entry *e = &r->at[random_below(seed, r->count)];

        if (e->table == TABLE_VM_NC) {
            return e->vm_nc.vm;
        }
        if (e->table == TABLE_VXLAN_ROUTE) {
            ip = e->route.dst.addr;
            size = ip_size(&ip);
            if (i % 4 == 1) { /* last address */
                for (unsigned bit = e->route.dst.len; bit < size * 8; bit++) {
                    ip.b[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
                }
            }
            if (i % 8 >= 4) { /* one further, or one before */
                int step = i % 4 == 1 ? 1 : -1;

                for (unsigned k = size; k-- > 0;) {
                    ip.b[k] = (uint8_t)(ip.b[k] + step);
                    if (ip.b[k] != (step > 0 ? 0 : 0xff)) {
                        break;
                    }
                }
            }
        }
    }
    return ip;
}

static void check_burst(struct region *r, uint64_t *seed, unsigned n)
{
    uint32_t vni[FIB_BURST_MAX];
    struct ip dst[FIB_BURST_MAX];

    for (unsigned i = 0; i < n; i++) {
        vni[i] = 1 + random_below(seed, VNIS + 1);
        dst[i] = random_address(r, seed, i);
    }
    region_check(r, vni, dst, n);
}

/* `target`: entries around which the number floats, so that VNIs go back and forth
 * between a line and a tree; `v6_max`: whether trees have 64- or 128-bit keys. */
static const struct {
    unsigned target;
    unsigned v6_max;
    unsigned rounds;
} churns[] = { { 20, 64, 1500 }, { 60, 64, 1500 },   { 60, 128, 1500 },
               { 400, 64, 400 }, { 1500, 128, 150 }, { 1500, 64, 150 } };

START_TEST(random_churn_answers_as_a_linear_scan)
{
    const struct fib_stats nothing = { 0 };
    uint64_t seed = 7 + (uint64_t)_i;
    struct fib_stats stats;
    struct region r;

    region_init(&r, NULL);
    for (unsigned round = 0; round < churns[_i].rounds; round++) {
        unsigned steps = 1 + random_below(&seed, 1 + churns[_i].target / 10);

        for (unsigned i = 0; i < steps; i++) {
            uint32_t vni = 1 + random_below(&seed, VNIS);
            unsigned what = random_below(&seed, 20);
            struct entry e = what == 0 ? vni_entry(vni, (uint8_t)random_below(&seed, 8))
                             : what < 8 ? random_vm(&seed, vni)
                                        : random_route(&seed, vni, churns[_i].v6_max);
            bool is_delete = random_below(&seed, 2 * churns[_i].target) < r.count;

            if (is_delete && random_below(&seed, 8)) { /* else: of what is not there */
                e = r.at[random_below(&seed, r.count)];
            }
            region_do(&r, is_delete ? ENTRY_DELETE : ENTRY_PUT, &e);
        }
        region_commit(&r, UINT64_MAX);
        ck_assert_int_eq(r.rc, RC_OK);
        check_burst(&r, &seed, 1 + round % FIB_BURST_MAX);
    }
    region_audit(&r);

    /* Add and delete leave nothing. */
    while (r.count) {
        region_do(&r, ENTRY_DELETE, &r.at[0]);
        if (random_below(&seed, 100) == 0) {
            region_commit(&r, UINT64_MAX);
        }
    }
    region_commit(&r, UINT64_MAX);
    stats = fib_stats(r.fib);
    ck_assert_mem_eq(&stats, &nothing, offsetof(struct fib_stats, memory_bytes));
    region_fini(&r);
}
END_TEST

/* Batches that replace, delete and add in one VNI keep to the records even where the
 * same key goes and comes back within a batch. */
START_TEST(a_key_that_goes_and_comes_in_one_batch_stands)
{
    struct region r;
    struct entry e = vm_nc_entry(3, "10.0.0.1", "172.16.0.1", NULL);
    struct entry route = route_entry(3, "10.0.0.0/8", SCOPE_LOCAL, 0, NULL);
    struct entry vni = vni_entry(3, 0);

    region_init(&r, NULL);
    region_do(&r, ENTRY_PUT, &vni);
    region_do(&r, ENTRY_PUT, &route);
    region_do(&r, ENTRY_PUT, &e);
    region_commit(&r, UINT64_MAX);
    for (unsigned i = 0; i < 3; i++) {
        region_do(&r, ENTRY_DELETE, &e);
        region_do(&r, ENTRY_DELETE, &route);
        region_do(&r, ENTRY_DELETE, &vni);
        region_do(&r, ENTRY_PUT, &vni);
        region_do(&r, ENTRY_PUT, &route);
        region_do(&r, ENTRY_PUT, &e);
        region_commit(&r, UINT64_MAX);
        ck_assert_uint_eq(region_ask(&r, 3, "10.0.0.1").kind, FIB_LOCAL);
    }
    region_fini(&r);
}
END_TEST

/* A million adds and deletes at a constant live set: memory stays (kube-ovn #172,
 * gobgp #2187). */
START_TEST(churn_of_a_constant_set_does_not_grow_memory)
{
    struct region r;
    uint64_t seed = 3;
    uint64_t start = 0;

    region_init(&r, NULL);
    for (unsigned round = 0; round < 120; round++) {
        for (unsigned i = 0; i < 4000; i++) {
            uint32_t n = round * 4000 + i;
            struct entry e = { .table = TABLE_VM_NC, .vni = 1 + n % 977 };

            e.vm_nc.vm = ip_v4(0x0a000000u + n);
            e.vm_nc.nc = ip_v4(0xac100001u + random_below(&seed, 9));
            region_queue(&r, ENTRY_PUT, &e);
            if (round >= 10) {
                n -= 10 * 4000;
                e.vni = 1 + n % 977;
                e.vm_nc.vm = ip_v4(0x0a000000u + n);
                region_queue(&r, ENTRY_DELETE, &e);
            }
        }
        region_commit(&r, UINT64_MAX);
        ck_assert_int_eq(r.rc, RC_OK);
        start = round == 15 ? fib_stats(r.fib).memory_bytes : start;
    }
    ck_assert_uint_eq(fib_stats(r.fib).vm_nc4, 40000);
    ck_assert_uint_le(fib_stats(r.fib).memory_bytes, start + start / 5);
    region_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib_churn");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, random_churn_answers_as_a_linear_scan, 0,
                        ARRAY_LEN(churns));
    tcase_add_test(tc, a_key_that_goes_and_comes_in_one_batch_stands);
    tcase_add_test(tc, churn_of_a_constant_set_does_not_grow_memory);
    return unit_run("fib_churn", tc);
}
