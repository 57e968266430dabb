/* Random churn, IPv4 and IPv6 of many tenants, large and small: the table, a switch
 * that got its writes, and a plain list of routes agree; parts stay well filled; a
 * read-back in any order rebuilds the same. */
#include <string.h>

#include "tests/bench/gen.h"
#include "tests/unit/agent/xgwh/alpm_model.h"
#include "tests/unit/agent/xgwh/alpm_naive.h"
#include "tests/unit/unit.h"

enum { BATCH_MAX = 64, REPACK_BUDGET = 200 };

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(gen_random(&seed) % n);
}

static struct alpm_result random_result(void)
{
    struct alpm_result r = { .scope = (uint8_t)(1 + below(4)), .vni = below(1 << 24) };

    r.idx = below(r.scope == PHYS_SCOPE_TUNNEL     ? 1 << 17
                  : r.scope == PHYS_SCOPE_FALLBACK ? 2
                                                   : 4);
    return r;
}

/* Half of all are of three large tenants, the rest of `tenants` small ones.  Prefixes
 * cluster, as announced ones do, and nest. */
static struct alpm_route random_route(uint32_t tenants)
{
    struct alpm_route r = { .vni = below(2) ? 1 + below(3)
                                            : 1 + (below(tenants) * 2654435761u >> 8) };
    static const uint8_t v4_len[] = { 0,  8,  12, 16, 16, 20, 22,
                                      23, 24, 24, 24, 24, 28, 32 };
    static const uint8_t v6_len[] = { 0,  29, 32, 40, 44,  48, 48,
                                      48, 56, 64, 64, 127, 128 };
    bool is_v6 = below(4) == 0;
    uint64_t bits = gen_random(&seed);
    uint8_t addr[16] = { 0 };
    unsigned from = is_v6 ? 0 : 12;

    if (!is_v6) {
        addr[10] = addr[11] = 0xff;
    }
    for (unsigned i = 0; i < (is_v6 ? 8 : 4); i++) {
        addr[from + i] = (uint8_t)(bits >> 8 * i);
    }
    addr[from] = is_v6 ? 0x20 : 10;
    addr[from + 1] &= 0x0f;
    addr[15] |= (uint8_t)(is_v6 ? bits >> 60 : 0);
    r.len = is_v6 ? v6_len[below(ARRAY_LEN(v6_len))]
                  : (uint8_t)(96 + v4_len[below(ARRAY_LEN(v4_len))]);
    for (unsigned i = 0; i < r.len; i++) {
        r.addr[i / 8] |= (uint8_t)(addr[i / 8] & 0x80 >> i % 8);
    }
    r.result = random_result();
    return r;
}

/* A destination: mostly one inside of a route that is or was there. */
static void check_answers(const struct alpm *a, const struct model *m,
                          const struct naive *n, uint32_t tenants, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct alpm_route r = random_route(tenants);
        struct alpm_result want;
        struct alpm_result got;

        if (naive_count(n) && below(2)) {
            r = *naive_at(n, below((uint32_t)naive_count(n)));
        }
        for (unsigned bit = r.len; bit < 128; bit++) {
            r.addr[bit / 8] |= (uint8_t)(below(2) << (7 - bit % 8));
        }
        naive_lookup(n, r.vni, r.addr, &want);
        alpm_lookup(a, r.vni, r.addr, &got);
        ck_assert(result_equal(&got, &want));
        model_lookup(m, r.vni, r.addr, &got);
        ck_assert(result_equal(&got, &want));
    }
}

struct tally {
    const struct naive *n;
    uint32_t vni; /* 0: any */
    size_t count;
};

static bool tally_route(void *ctx, const struct alpm_route *r)
{
    struct tally *t = ctx;
    const struct alpm_route *is = naive_get(t->n, r->vni, r->addr, r->len);
    struct alpm_result want;

    ck_assert_ptr_nonnull(is);
    want = result_normal(is);
    ck_assert(result_equal(&r->result, &want) && (!t->vni || r->vni == t->vni));
    t->count++;
    return true;
}

static void check_routes(const struct alpm *a, const struct naive *n)
{
    struct tally all = { n, 0, 0 };
    struct tally some = { n, 0, 0 };

    alpm_routes(a, tally_route, &all);
    ck_assert_uint_eq(all.count, naive_count(n));
    for (some.vni = 1; some.vni <= 4; some.vni++) {
        size_t count = 0;

        some.count = 0;
        alpm_routes_of(a, some.vni, tally_route, &some);
        for (size_t i = 0; i < naive_count(n); i++) {
            count += naive_at(n, i)->vni == some.vni;
        }
        ck_assert_uint_eq(some.count, count);
    }
}

static const struct {
    uint32_t b;
    uint32_t tenants;
    uint32_t routes; /* about so many in balance */
    uint32_t changes;
} shapes[] = {
    { 16, 1000, 12000, 300000 },
    { 4, 300, 3000, 100000 },
    { 64, 3000, 20000, 100000 },
};

static void fill_batch(struct alpm_change *c, size_t count, const struct naive *n,
                       uint32_t tenants, uint32_t routes)
{
    memset(c, 0, count * sizeof *c);
    for (size_t i = 0; i < count; i++) {
        uint32_t what = below(10);

        c[i].route = random_route(tenants);
        if (naive_count(n) && (what < 1 || (what < 6 && naive_count(n) > routes))) {
            c[i].route = *naive_at(n, below((uint32_t)naive_count(n)));
            c[i].is_delete = what > 0;
            c[i].route.result = random_result();
        }
    }
}

START_TEST(table_switch_and_plain_list_agree_under_churn)
{
    struct phys_sizes sizes = { .partitions = 20000,
                                .partition_slots = shapes[_i].b,
                                .table = { [PHYS_ROUTE_TCAM] = 20000 } };
    struct alpm_cost cost = { 0 };
    struct alpm_findings found;
    struct writes repairs = { 0 };
    struct model *m = model_new(&sizes);
    struct naive *n = naive_new();
    struct err err = { 0 };
    struct alpm *a;
    struct alpm *b;
    bool done = false;
    double fill;

    seed = 21 + (uint64_t)_i;
    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    for (uint32_t changes = 0, round = 0; changes < shapes[_i].changes; round++) {
        struct alpm_change c[BATCH_MAX];
        size_t count = 1 + below(below(2) ? 1 : BATCH_MAX);

        fill_batch(c, count, n, shapes[_i].tenants, shapes[_i].routes);
        naive_apply(n, c, count);
        ck_assert_int_eq(alpm_apply(a, c, count, model_sink, m, &cost, &err), RC_OK);
        changes += (uint32_t)count;
        if (round % 64 == 0) {
            alpm_repack(a, REPACK_BUDGET, model_sink, m, &cost, &done);
            check_answers(a, m, n, shapes[_i].tenants, 10);
        }
    }
    model_check_entries(m, a);
    ck_assert_uint_eq(model_rows(m), alpm_stats(a).rows);
    check_routes(a, n);
    check_answers(a, m, n, shapes[_i].tenants, 1000);
    fill = (double)naive_count(n) / model_rows(m);
    ck_assert_msg(fill >= 10.0 / 16 * shapes[_i].b, "%.2f routes a row under churn",
                  fill);
    for (done = false; !done;) {
        alpm_repack(a, REPACK_BUDGET, model_sink, m, &cost, &done);
    }
    fill = (double)naive_count(n) / model_rows(m);
    ck_assert_msg(fill >= 12.0 / 16 * shapes[_i].b, "%.2f routes a row re-packed",
                  fill);
    model_check_entries(m, a);
    check_answers(a, m, n, shapes[_i].tenants, 1000);
    /* A new agent reads the same. */
    ck_assert_int_eq(alpm_new(&sizes, 0, &b), RC_OK);
    model_read_back(m, b, &seed, &repairs, &found);
    ck_assert_uint_eq(repairs.count, 0);
    ck_assert_uint_eq(
        found.foreign + found.orphans + found.shared + found.covers + found.lost, 0);
    model_check_entries(m, b);
    ck_assert_uint_eq(alpm_stats(b).rows, alpm_stats(a).rows);
    check_routes(b, n);
    /* Down to nothing. */
    while (naive_count(n)) {
        struct alpm_change c = { .route = *naive_at(n, below((uint32_t)naive_count(n))),
                                 .is_delete = true };

        naive_apply(n, &c, 1);
        ck_assert_int_eq(alpm_apply(b, &c, 1, model_sink, m, &cost, &err), RC_OK);
    }
    ck_assert_uint_eq(model_rows(m), 0);
    ck_assert_uint_eq(alpm_stats(b).rows, 0);
    writes_fini(&repairs);
    alpm_free(a);
    alpm_free(b);
    model_free(m);
    naive_free(n);
}
END_TEST

static void drop(void *ctx, const struct phys_write *w)
{
    *(uint64_t *)ctx += w->op;
}

START_TEST(many_small_tenants_fill_a_row_with_twelve_routes)
{
    enum { TENANTS = 20000 };
    struct alpm_change *c = calloc((size_t)TENANTS * 8, sizeof *c);
    struct alpm_cost cost = { 0 };
    struct alpm_stats stats;
    uint64_t writes = 0;
    size_t count = 0;
    struct alpm *a;

    seed = 31;
    for (unsigned t = 0; t < TENANTS; t++) {
        uint32_t vni = 1 + below((1 << 24) - 1);

        for (unsigned i = 2 + below(7); i > 0; i--) {
            c[count].route = random_route(1);
            c[count++].route.vni = vni;
        }
    }
    ck_assert_int_eq(alpm_new(phys_sizes_bench(), 0, &a), RC_OK);
    ck_assert_int_eq(alpm_apply(a, c, count, drop, &writes, &cost, NULL), RC_OK);
    stats = alpm_stats(a);
    ck_assert_uint_gt(stats.routes, 90000);
    ck_assert_uint_ge(stats.routes, 12 * (uint64_t)stats.rows);
    ck_assert_uint_le(stats.memory_bytes, 60 * stats.routes);
    free(c);
    alpm_free(a);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("alpm_churn");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, table_switch_and_plain_list_agree_under_churn, 0,
                        ARRAY_LEN(shapes));
    tcase_add_test(tc, many_small_tenants_fill_a_row_with_twelve_routes);
    return unit_run("alpm_churn", tc);
}
