/* What grew fastest, against plain arrays of what each tenant was sent. */
#include "tests/unit/unit.h"

#include "agent/driver/tenant_growth.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 500, ROUNDS = 30, SLICES = 5 };

static struct tenant_growth *growth_new(void)
{
    struct tenant_growth *g = tenant_growth_new(CELLS);

    ck_assert_ptr_nonnull(g);
    return g;
}

static void read_cell(struct tenant_growth *g, uint32_t vni, uint32_t cell,
                      uint64_t bytes, uint64_t now_ms)
{
    tenant_growth_expect(g, vni, cell);
    tenant_growth_count(g, cell, bytes / 3); /* one device, and the other */
    tenant_growth_count(g, cell, bytes - bytes / 3);
    tenant_growth_read(g, cell, true, now_ms);
}

static uint32_t vni_of(uint32_t cell)
{
    return cell == 0 ? 0 : 1000 + cell;
}

static uint32_t cell_of(uint32_t vni)
{
    return vni - 1000;
}

/* Bounds of a rate hold: bytes in `span` as so many in the interval. */
static void check_item(const struct top_item *x, uint64_t grown, uint64_t span,
                       uint32_t interval)
{
    double real = (double)grown * interval / (double)span;

    ck_assert_double_ge((double)x->bytes, real - 1e-6 * real);
    ck_assert_double_le((double)(x->bytes - x->error), real + 1e-6 * real);
    ck_assert_uint_le(x->error, 1);
}

START_TEST(every_tenant_is_listed_within_its_bounds_or_had_no_more_than_the_rest)
{
    struct tenant_growth *g = growth_new();
    static uint64_t total[CELLS];
    static uint64_t last[CELLS];
    static uint64_t at[CELLS];
    uint64_t now = 1000;

    memset(total, 0, sizeof(total));
    srand48(7 + _i);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t grown[CELLS];
        uint64_t span[CELLS];
        bool is_listed[CELLS] = { false };
        struct top_report r;
        uint64_t sum = 0;

        tenant_growth_begin(g, now);
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            /* Many of little and few of much, some of nothing. */
            total[cell] +=
                drand48() < 0.2 ? 0 : (uint64_t)(1e9 / (1 + lrand48() % 5000));
            now += cell % (CELLS / SLICES) == 0 ? (uint64_t)(lrand48() % 1500) : 0;
            grown[cell] = total[cell] - last[cell];
            span[cell] = now - at[cell];
            sum += grown[cell];
            read_cell(g, vni_of(cell), cell, total[cell], now);
            last[cell] = total[cell];
            at[cell] = now;
        }
        ck_assert_int_eq(tenant_growth_report(g, &r), round > 0);
        now += 3000;
        if (round == 0) {
            continue;
        }
        ck_assert_uint_eq(r.tenants.count, TOP_LIST_MAX);
        for (uint32_t i = 0; i < r.tenants.count; i++) {
            const struct top_item *x = &r.tenants.items[i];
            uint32_t cell = cell_of(x->vni);

            ck_assert_uint_lt(cell, CELLS);
            ck_assert(!is_listed[cell]);
            is_listed[cell] = true;
            check_item(x, grown[cell], span[cell], r.interval_ms);
            ck_assert(i == 0 || x->bytes <= r.tenants.items[i - 1].bytes);
        }
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            ck_assert(is_listed[cell] ||
                      (double)grown[cell] * r.interval_ms / (double)span[cell] <=
                          (double)r.tenants.rest);
        }
        /* Spans differ from the interval by the slices' jitter alone. */
        ck_assert_double_ge((double)r.bytes, 0.3 * (double)sum);
        ck_assert_double_le((double)r.bytes, 3.0 * (double)sum);
    }
    tenant_growth_free(g);
}
END_TEST

START_TEST(rates_are_those_of_each_tenant_s_own_span)
{
    struct tenant_growth *g = growth_new();
    struct top_report r;

    tenant_growth_begin(g, 1000);
    read_cell(g, 7, 1, 0, 1000);
    read_cell(g, 8, 2, 500, 3000);
    tenant_growth_begin(g, 11000);
    read_cell(g, 7, 1, 10000, 11000); /* 10 s */
    read_cell(g, 8, 2, 4500, 11000);  /* 8 s */
    ck_assert(tenant_growth_report(g, &r));
    ck_assert_uint_eq(r.interval_ms, 10000);
    ck_assert_uint_eq(r.tenants.count, 2);
    ck_assert_uint_eq(r.tenants.items[0].vni, 7);
    ck_assert_uint_eq(r.tenants.items[0].bytes, 10000);
    ck_assert_uint_eq(r.tenants.items[1].bytes, 5000);
    ck_assert_uint_eq(r.tenants.items[1].error, 0);
    ck_assert_uint_eq(r.bytes, 15000);
    ck_assert_uint_eq(r.tenants.rest, 0);
    tenant_growth_free(g);
}
END_TEST

START_TEST(the_rest_bounds_whoever_has_no_cell_of_his_own)
{
    struct tenant_growth *g = growth_new();
    struct top_report r;

    for (unsigned round = 0; round < 2; round++) {
        tenant_growth_begin(g, 1000 + 10000 * round);
        read_cell(g, 7, 1, 90 * round, 1000 + 10000 * round);
        read_cell(g, 0, 0, 40 * round, 1000 + 10000 * round);
    }
    ck_assert(tenant_growth_report(g, &r));
    ck_assert_uint_eq(r.tenants.count, 1);
    ck_assert_uint_eq(r.tenants.rest, 40);
    ck_assert_uint_eq(r.bytes, 130);
    tenant_growth_free(g);
}
END_TEST

/* What a cell of somebody else, or an emptied one, had is nobody's growth. */
START_TEST(a_cell_that_changed_hands_or_went_back_counts_from_there_on)
{
    struct tenant_growth *g = growth_new();
    struct top_report r;

    tenant_growth_begin(g, 1000);
    read_cell(g, 7, 1, 1000000, 1000);
    read_cell(g, 8, 2, 1000000, 1000);
    read_cell(g, 9, 3, 1000000, 1000);
    tenant_growth_begin(g, 11000);
    read_cell(g, 17, 1, 5000000, 11000); /* another's */
    read_cell(g, 8, 2, 30, 11000);       /* emptied */
    tenant_growth_expect(g, 9, 3);       /* another's by the time it was read */
    tenant_growth_count(g, 3, 9000000);
    tenant_growth_read(g, 3, false, 11000);
    ck_assert(tenant_growth_report(g, &r));
    ck_assert_uint_eq(r.tenants.count, 0);
    tenant_growth_begin(g, 21000);
    read_cell(g, 17, 1, 5000100, 21000);
    read_cell(g, 8, 2, 80, 21000);
    read_cell(g, 9, 3, 9000001, 21000);
    ck_assert(tenant_growth_report(g, &r));
    ck_assert_uint_eq(r.tenants.count, 2);
    ck_assert_uint_eq(r.tenants.items[0].vni, 17);
    ck_assert_uint_eq(r.tenants.items[0].bytes, 100);
    ck_assert_uint_eq(r.tenants.items[1].vni, 8);
    ck_assert_uint_eq(r.tenants.items[1].bytes, 50);
    tenant_growth_free(g);
}
END_TEST

START_TEST(a_round_that_is_late_or_lacks_something_makes_no_report)
{
    struct tenant_growth *g = growth_new();
    struct top_report r;

    tenant_growth_begin(g, 1000);
    read_cell(g, 7, 1, 10, 1000);
    ck_assert(!tenant_growth_report(g, &r));
    tenant_growth_begin(g, 1001 + TENANT_GROWTH_MS_MAX);
    read_cell(g, 7, 1, 20, 1001 + TENANT_GROWTH_MS_MAX);
    ck_assert(!tenant_growth_report(g, &r));
    tenant_growth_begin(g, 80000);
    tenant_growth_spoil(g);
    ck_assert(!tenant_growth_report(g, &r));
    tenant_growth_begin(g, 90000);
    read_cell(g, 7, 1, UINT64_MAX / 2, 90000); /* no port is as fast */
    ck_assert(!tenant_growth_report(g, &r));
    tenant_growth_begin(g, 100000);
    tenant_growth_count(g, CELLS, 1); /* there is no such cell */
    read_cell(g, 7, 1, UINT64_MAX / 2 + 6, 100000);
    ck_assert(tenant_growth_report(g, &r));
    ck_assert_uint_eq(r.tenants.items[0].bytes, 6);
    tenant_growth_free(g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("tenant_growth");

    tcase_add_loop_test(
        tc, every_tenant_is_listed_within_its_bounds_or_had_no_more_than_the_rest, 0,
        4);
    tcase_add_test(tc, rates_are_those_of_each_tenant_s_own_span);
    tcase_add_test(tc, the_rest_bounds_whoever_has_no_cell_of_his_own);
    tcase_add_test(tc, a_cell_that_changed_hands_or_went_back_counts_from_there_on);
    tcase_add_test(tc, a_round_that_is_late_or_lacks_something_makes_no_report);
    return unit_run("tenant_growth", tc);
}
