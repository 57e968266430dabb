/*
 * The model against reality, routes: rows that capacity predicts, and rows that the
 * two-level table of agent/xgwh takes for the same routes, built at once or in batches
 * and re-packed.  Within 3 %.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "agent/xgwh/alpm.h"
#include "controller/capacity/predict.h"
#include "proto/model/table_set.h"
#include "tests/bench/gen.h"
#include "tests/bench/gen_prefixes.h"

#define TOLERANCE 0.03
#define BATCH     5000 /* routes, of those that do not come at once */

struct routes {
    struct alpm_change *at;
    size_t count;
    size_t cap;
    struct table_set *rows;
    struct batch_writer batch;
};

static void flush(struct routes *r)
{
    struct blob *batch = batch_writer_finish(&r->batch);
    struct change_list changes = { 0 };
    struct rows_change total;

    ck_assert_ptr_nonnull(batch);
    ck_assert_int_eq(
        table_set_apply(r->rows, batch->data, batch->len, &changes, &total, NULL),
        RC_OK);
    change_list_fini(&changes);
    blob_unref(batch);
}

static void add(struct routes *r, uint32_t vni, const struct prefix *dst)
{
    struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };
    struct alpm_route *route;

    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 4096;
        r->at = realloc(r->at, r->cap * sizeof(*r->at));
        ck_assert_ptr_nonnull(r->at);
    }
    memset(&r->at[r->count], 0, sizeof(r->at[0]));
    route = &r->at[r->count++].route;
    route->vni = vni;
    route->result.scope = PHYS_SCOPE_LOCAL;
    route->len = dst->len;
    if (dst->addr.family == IP_V4) {
        route->addr[10] = route->addr[11] = 0xff;
        memcpy(route->addr + 12, dst->addr.b, 4);
        route->len = (uint8_t)(dst->len + 96);
    } else {
        memcpy(route->addr, dst->addr.b, 16);
    }
    e.route.dst = *dst;
    e.route.action.scope = SCOPE_LOCAL;
    batch_add_entry(&r->batch, ENTRY_PUT, &e);
    if (r->batch.entry_count >= BATCH_MAX_ENTRIES) {
        flush(r);
    }
}

static void ignore(void *ctx, const struct phys_write *w)
{
    (void)ctx;
    (void)w;
}

/* Rows after `per` routes a call, in the order in which they came, and re-packing. */
static struct alpm_stats build(const struct routes *r, size_t per)
{
    struct alpm_cost cost = { 0 };
    struct alpm_stats stats;
    struct alpm *a;
    bool done = false;

    ck_assert_int_eq(alpm_new(phys_sizes_bench(), 0, &a), RC_OK);
    for (size_t i = 0; i < r->count; i += per) {
        size_t n = r->count - i < per ? r->count - i : per;

        ck_assert_int_eq(alpm_apply(a, r->at + i, n, ignore, NULL, &cost, NULL), RC_OK);
    }
    for (unsigned i = 0; !done; i++) {
        ck_assert_uint_lt(i, 100000);
        ck_assert_int_eq(alpm_repack(a, 10000, ignore, NULL, &cost, &done), RC_OK);
    }
    stats = alpm_stats(a);
    ck_assert_uint_eq(stats.routes, r->count);
    alpm_free(a);
    return stats;
}

static struct half_counts predict(struct routes *r)
{
    struct half_counter c;

    flush(r);
    half_counter_init(&c, &layout_xgw_h);
    for (uint32_t vni = 1; vni <= VNI_MAX; vni++) {
        const struct rows *rows = table_set_rows(r->rows, vni, TABLE_VXLAN_ROUTE);

        if (rows) {
            ck_assert(half_counter_vni(&c, vni, rows, NULL));
        }
    }
    return half_counter_sum(&c);
}

static void compare(struct routes *r, const char *what)
{
    struct half_counts sum = predict(r);
    const struct alpm_stats stats[] = { build(r, r->count), build(r, BATCH) };

    for (unsigned i = 0; i < ARRAY_LEN(stats); i++) {
        double off = (double)sum.route_rows / stats[i].rows - 1;

        printf("%s, %s: %zu routes, %llu rows predicted, %u taken (%+.2f %%)\n", what,
               i ? "re-packed" : "at once", r->count,
               (unsigned long long)sum.route_rows, stats[i].rows, 100 * off);
        ck_assert_uint_gt(stats[i].rows, 500); /* or 3 % say nothing */
        ck_assert_double_le(fabs(off), TOLERANCE);
        ck_assert_uint_eq(stats[i].slots, stats[i].rows * layout_xgw_h.partition_slots);
    }
    free(r->at);
    table_set_free(r->rows);
    batch_writer_fini(&r->batch);
}

static struct routes routes_new(void)
{
    struct routes r = { .rows = table_set_new() };

    ck_assert_ptr_nonnull(r.rows);
    batch_writer_init(&r.batch);
    return r;
}

static const char *data_dir(void)
{
    return getenv("XGW_DATA") ? getenv("XGW_DATA") : "../shared/data";
}

/* Guards are the mapping's, not the route table's: no route here lies over IPv4. */
static bool is_plain(const struct prefix *p)
{
    return p->addr.family == IP_V4 || p->len > 8;
}

static void compare_region(const char *dir, const char *what)
{
    struct routes r = routes_new();
    struct gen_config config;
    struct gen *g;
    struct entry e;

    gen_config_init(&config);
    config.routes = 100000;
    config.data_dir = dir;
    ck_assert_int_eq(gen_new(&config, &g, NULL), RC_OK);
    while (gen_next(g, &e)) {
        if (e.table == TABLE_VXLAN_ROUTE && is_plain(&e.route.dst)) {
            add(&r, e.vni, &e.route.dst);
        }
    }
    gen_free(g);
    compare(&r, what);
}

START_TEST(a_region_of_made_up_prefixes_takes_the_rows_predicted)
{
    compare_region(NULL, "made-up region");
}
END_TEST

START_TEST(a_region_of_announced_prefixes_takes_the_rows_predicted)
{
    struct gen_prefixes there = { 0 };

    if (gen_prefixes_read(data_dir(), &there, NULL) != RC_OK) {
        return; /* not a part of the repository */
    }
    gen_prefixes_fini(&there);
    compare_region(data_dir(), "region of announced prefixes");
}
END_TEST

START_TEST(a_full_table_in_one_vni_takes_the_rows_predicted)
{
    struct gen_prefixes announced = { 0 };
    struct routes r = routes_new();

    if (gen_prefixes_read(data_dir(), &announced, NULL) == RC_OK) {
        for (uint32_t i = 0; i < announced.v4.count; i += 6) {
            add(&r, 7, &announced.v4.at[i]);
        }
        for (uint32_t i = 0; i < announced.v6.count; i += 4) {
            add(&r, 7, &announced.v6.at[i]);
        }
        compare(&r, "a sixth of a full table");
        r = routes_new();
    }
    gen_prefixes_fini(&announced);
    table_set_free(r.rows);
    batch_writer_fini(&r.batch);
}
END_TEST

/* Neighbouring numbers, or spread over the space. */
static const uint32_t steps[] = { 1, 167 };

START_TEST(many_small_tenants_take_the_rows_predicted)
{
    struct routes r = routes_new();
    uint64_t random = 5;

    for (uint32_t i = 0; i < 30000; i++) {
        unsigned n = 1 + (unsigned)(gen_random(&random) % 6);

        for (unsigned k = 0; k < n; k++) {
            struct prefix p = { ip_v4(0x0a000000 | k << 16), 24 };

            add(&r, 1 + i * steps[_i], &p);
        }
    }
    compare(&r, steps[_i] == 1 ? "small tenants side by side" : "small tenants apart");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("reality_routes");

    tcase_set_timeout(tc, 280);
    tcase_add_test(tc, a_region_of_made_up_prefixes_takes_the_rows_predicted);
    tcase_add_test(tc, a_region_of_announced_prefixes_takes_the_rows_predicted);
    tcase_add_test(tc, a_full_table_in_one_vni_takes_the_rows_predicted);
    tcase_add_loop_test(tc, many_small_tenants_take_the_rows_predicted, 0,
                        ARRAY_LEN(steps));
    return unit_run("reality_routes", tc);
}
