/* Limits and memory: what does not fit is named, and nothing else suffers. */
#include "tests/unit/agent/fwd/region.h"

static struct entry numbered_vm(uint32_t n)
{
    struct entry e = { .table = TABLE_VM_NC, .vni = 1 + n % 7 };
    uint8_t b[16] = {
        0xfd, [13] = (uint8_t)(n >> 16), [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n
    };

    e.vm_nc.vm = n % 4 ? ip_v4(0x0a000000u + n) : ip_v6(b);
    e.vm_nc.nc = ip_v4(0xac100001u + n % 100);
    return e;
}

static struct entry numbered_route(uint32_t vni, uint32_t n, uint32_t to)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

    e.route.dst = (struct prefix){ ip_v4(0x0a000000u + (n << 8)), 24 };
    e.route.action.scope = SCOPE_IDC;
    e.route.action.endpoint = ip_v4(0xac100001u);
    e.route.action.vni = to;
    return e;
}

/* How many of entries [0, n) resolve in the structures. */
static uint32_t count_placed(struct region *r, struct entry (*make)(uint32_t),
                             uint32_t n)
{
    struct buf got = BUF_INIT;
    uint32_t placed = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct entry e = make(i);
        struct naive_row row = naive_row_of(&e);

        buf_reset(&got);
        if (fib_get(r->fib, e.table, e.vni, row.key, row.key_len, &got) == RC_OK) {
            ck_assert_uint_eq(got.len, row.value_len);
            ck_assert_mem_eq(got.data, row.value, row.value_len);
            placed++;
        }
    }
    buf_fini(&got);
    return placed;
}

/* ironcore dpservice #573 and others: capacity + 1. */
START_TEST(the_entry_over_capacity_is_named_and_the_others_stand)
{
    struct fib_limits limits = { .max_vm_nc = 100 };
    struct region r;
    struct entry e;
    struct naive_row row;

    region_init(&r, &limits);
    for (uint32_t i = 0; i < 100; i++) {
        e = numbered_vm(i);
        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_OK);
    e = numbered_vm(100);
    row = naive_row_of(&e);
    region_queue(&r, ENTRY_PUT, &e);
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_FULL);
    ck_assert_uint_eq(r.refused.count, 1);
    ck_assert_int_eq(r.refused.at[0].reason, RC_FULL);
    ck_assert_int_eq(r.refused.at[0].op, BATCH_PUT);
    ck_assert_uint_eq(r.refused.at[0].table, TABLE_VM_NC);
    ck_assert_uint_eq(r.refused.at[0].vni, e.vni);
    ck_assert_uint_eq(r.refused.at[0].key_len, row.key_len);
    ck_assert_mem_eq(r.refused.at[0].key, row.key, row.key_len);
    ck_assert_uint_eq(count_placed(&r, numbered_vm, 101), 100);
    region_audit(&r); /* the records were put back */

    /* sonic-mgmt #25811: an update of an existing entry needs no room. */
    e = numbered_vm(5);
    e.vm_nc.nc = ip_of("172.31.0.1");
    region_queue(&r, ENTRY_PUT, &e);
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_OK);

    /* A full table takes a swap within one batch. */
    e = numbered_vm(100);
    region_queue(&r, ENTRY_PUT, &e);
    e = numbered_vm(7);
    region_queue(&r, ENTRY_DELETE, &e);
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_OK);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

START_TEST(routes_over_capacity_are_named_and_their_vni_keeps_the_rest)
{
    struct fib_limits limits = { .max_routes = 50, .max_vnis = 3 };
    struct region r;
    struct entry e;

    region_init(&r, &limits);
    for (uint32_t i = 0; i < 60; i++) {
        e = numbered_route(9, i, 1);
        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_FULL);
    ck_assert_uint_eq(r.refused.count, 10);
    ck_assert_uint_eq(fib_stats(r.fib).routes, 50);
    region_audit(&r);

    e = numbered_route(9, 3, 77); /* an update, and one more that does not fit */
    region_queue(&r, ENTRY_PUT, &e);
    e = numbered_route(9, 1000, 77);
    region_queue(&r, ENTRY_PUT, &e);
    region_commit(&r, UINT64_MAX);
    ck_assert_uint_eq(r.refused.count, 1);
    region_audit(&r);

    /* Another VNI's deletes make room within the batch. */
    e = numbered_route(8, 1, 1);
    region_queue(&r, ENTRY_PUT, &e);
    e = numbered_route(9, 4, 1);
    region_queue(&r, ENTRY_DELETE, &e);
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_OK);
    region_audit(&r);

    for (uint32_t vni = 20; vni < 25; vni++) { /* 8 and 9 are there: one fits */
        e = vni_entry(vni, 0);
        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_FULL);
    ck_assert_uint_eq(r.refused.count, 4);
    ck_assert_uint_eq(r.refused.at[0].table, TABLE_VNI);
    ck_assert_uint_eq(r.refused.at[0].key_len, 0);
    ck_assert_uint_eq(fib_stats(r.fib).vnis, 1);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

/* Far beyond what the memory can hold: every refused row is named, every other one
 * resolves, and room that is given back is used again. */
START_TEST(memory_that_runs_out_refuses_rows_and_keeps_the_rest)
{
    struct fib_limits limits = { .memory_bytes = 4 << 20 };
    struct region r;
    uint32_t refused = 0;
    const uint32_t many = 200000;

    region_init(&r, &limits);
    for (uint32_t i = 0; i < many; i += 8000) {
        for (uint32_t k = i; k < i + 8000; k++) {
            struct entry e = numbered_vm(k);

            region_queue(&r, ENTRY_PUT, &e);
        }
        region_commit(&r, UINT64_MAX);
        refused += r.refused.count;
    }
    ck_assert_int_eq(r.rc, RC_NO_MEMORY);
    ck_assert_uint_eq(r.refused.unlisted, 0);
    ck_assert_uint_gt(refused, 10000);
    ck_assert_uint_lt(refused, many - 50000);
    ck_assert_uint_eq(count_placed(&r, numbered_vm, many), many - refused);
    region_audit(&r);

    /* A large route table does not fit either; the small one before it stays. */
    for (uint32_t n = 0; n < 5; n++) {
        struct entry e = numbered_route(9, n, 1);

        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    refused = r.refused.count; /* 0, or all 5 */
    ck_assert(refused == 0 || refused == 5);
    for (uint32_t n = 0; n < 9000; n++) {
        struct entry e = numbered_route(9, n, 2 + n % 2);

        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_NO_MEMORY);
    ck_assert_uint_eq(r.refused.count, 9000);
    ck_assert_uint_eq(fib_stats(r.fib).routes, 5 - refused);
    ck_assert_uint_eq(fib_stats(r.fib).tunnels, refused ? 0 : 1);
    region_audit(&r);

    for (uint32_t i = 0; i < many; i++) {
        struct entry e = numbered_vm(i);

        region_queue(&r, ENTRY_DELETE, &e);
        if (i % 8000 == 7999) {
            region_commit(&r, UINT64_MAX);
        }
    }
    region_commit(&r, UINT64_MAX);
    ck_assert_uint_eq(fib_stats(r.fib).vm_nc4 + fib_stats(r.fib).vm_nc6, 0);
    for (uint32_t n = 0; n < 9000; n++) {
        struct entry e = numbered_route(9, n, 2 + n % 2);

        region_queue(&r, ENTRY_PUT, &e);
    }
    region_commit(&r, UINT64_MAX);
    ck_assert_int_eq(r.rc, RC_OK);
    region_audit(&r);
    region_fini(&r);
}
END_TEST

/* The gateway's budget is 96 bytes an entry, some 32 of them for records: what is left
 * must do at every size, the hash tables' worst load included. */
START_TEST(structures_stay_below_sixty_bytes_an_entry_at_every_size)
{
    struct region r;
    uint32_t n = 0;

    region_init(&r, NULL);
    while (n < 400000) {
        for (uint32_t i = 0; i < 8000; i++, n++) {
            struct entry e = numbered_vm(n);

            region_queue(&r, ENTRY_PUT, &e);
        }
        region_commit(&r, UINT64_MAX);
        ck_assert_int_eq(r.rc, RC_OK);
        if (n >= 80000) { /* below, slabs and pages count for more */
            ck_assert_uint_le(fib_stats(r.fib).memory_bytes, n * 60ull);
        }
    }
    region_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fib_full");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, the_entry_over_capacity_is_named_and_the_others_stand);
    tcase_add_test(tc, routes_over_capacity_are_named_and_their_vni_keeps_the_rest);
    tcase_add_test(tc, memory_that_runs_out_refuses_rows_and_keeps_the_rest);
    tcase_add_test(tc, structures_stay_below_sixty_bytes_an_entry_at_every_size);
    return unit_run("fib_full", tc);
}
