/* The estimate against simulation with zlib's CRC32, which is not ours. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "controller/capacity/conflict.h"

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Addresses of a /64 whose host parts are drawn at random, or count up. */
static unsigned conflicts(uint32_t *keys, unsigned n, uint64_t *random, bool count_up)
{
    uint8_t address[16] = { 0x20, 1, 0xd, 0xb8 };
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++) {
        uint64_t host = count_up ? *random + i : next(random);

        memcpy(address + 8, &host, 8);
        keys[i] = (uint32_t)crc32(0, address, sizeof(address));
    }
    qsort(keys, n, sizeof(*keys), compare);
    for (unsigned i = 1; i < n; i++) {
        found += keys[i] == keys[i - 1];
    }
    return found;
}

/* n addresses, `runs` times: the sum is Poisson, so within 5 sigma. */
static const struct {
    unsigned n;
    unsigned runs;
} sizes[] = { { 1000, 4000 }, { 20000, 100 }, { 100000, 40 }, { 1000000, 3 } };

START_TEST(random_addresses_conflict_as_often_as_expected)
{
    unsigned n = sizes[_i].n;
    uint32_t *keys = malloc(n * sizeof(*keys));
    double expected = conflict_expected(n) * sizes[_i].runs;
    uint64_t random = 1;
    double sum = 0;

    ck_assert_ptr_nonnull(keys);
    for (unsigned run = 0; run < sizes[_i].runs; run++) {
        sum += conflicts(keys, n, &random, false);
    }
    ck_assert_double_le(fabs(sum - expected), 5 * sqrt(expected) + 1);
    free(keys);
}
END_TEST

START_TEST(addresses_that_count_up_never_conflict)
{
    unsigned n = 1000000;
    uint32_t *keys = malloc(n * sizeof(*keys));
    uint64_t first = 12345;

    ck_assert_ptr_nonnull(keys);
    ck_assert_uint_eq(conflicts(keys, n, &first, true), 0);
    free(keys);
}
END_TEST

START_TEST(the_expectation_has_no_seam)
{
    ck_assert_double_eq(conflict_expected(0), 0);
    ck_assert_double_eq(conflict_expected(1), 0);
    ck_assert_double_eq_tol(conflict_expected(2), 1 / 4294967296.0, 1e-18);
    for (double n = 2; n < 1e10; n *= 1.1) {
        double a = conflict_expected(n);
        double b = conflict_expected(n * 1.001);

        ck_assert_double_lt(a, b);
        ck_assert_double_lt(b, a * 1.01);
        ck_assert_double_lt(a, n);
    }
    /* Where the birthday sum is exact to a part in a million. */
    ck_assert_double_eq_tol(conflict_expected(1e6), 1e6 * (1e6 - 1) / 8589934592.0,
                            0.02);
}
END_TEST

START_TEST(somebody_who_chooses_can_make_all_but_one_conflict)
{
    ck_assert_uint_eq(conflict_worst(0), 0);
    ck_assert_uint_eq(conflict_worst(1), 0);
    ck_assert_uint_eq(conflict_worst(1000), 999);
}
END_TEST

/* Chance of more than c, added up from the top: no cancellation. */
static double above(double lambda, uint64_t c)
{
    double sum = 0;

    for (uint64_t k = c + 400 + (uint64_t)(10 * sqrt(lambda)); k > c; k--) {
        sum += exp((double)k * log(lambda) - lambda - lgamma((double)k + 1));
    }
    return sum;
}

START_TEST(the_bound_is_the_fewest_that_hold_them)
{
    static const double lambdas[] = { 0.001, 0.5, 1, 3, 20, 100, 550 };
    static const double risks[] = { 1e-3, 1e-6, 1e-9 };

    for (unsigned l = 0; l < ARRAY_LEN(lambdas); l++) {
        for (unsigned r = 0; r < ARRAY_LEN(risks); r++) {
            uint64_t c = conflict_bound(lambdas[l], risks[r]);

            ck_assert_double_le(above(lambdas[l], c), risks[r] * 1.01);
            if (c > 0) {
                ck_assert_double_ge(above(lambdas[l], c - 1), risks[r] * 0.99);
            }
        }
    }
    ck_assert_uint_eq(conflict_bound(0, 1e-9), 0);
}
END_TEST

START_TEST(the_bound_stays_near_where_the_normal_takes_over)
{
    for (double lambda = 601; lambda < 7000; lambda += 499) {
        uint64_t c = conflict_bound(lambda, 1e-6);

        ck_assert_double_le(above(lambda, c), 1.2e-6);
        ck_assert_double_ge(above(lambda, c - 5), 0.8e-6);
    }
}
END_TEST

START_TEST(the_conflict_table_holds_more_than_the_chip_has_room_for)
{
    /* 8,192 slots at 0.877, against 804,650 VM-NC entries of a half. */
    double n = conflict_addresses(7184, 1e-9);

    ck_assert_double_gt(n, 7e6);
    ck_assert_double_lt(n, 8e6);
    ck_assert_uint_le(conflict_bound(conflict_expected(n), 1e-9), 7184);
    ck_assert_uint_lt(conflict_bound(conflict_expected(804650), 1e-9), 200);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("conflict");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, random_addresses_conflict_as_often_as_expected, 0,
                        ARRAY_LEN(sizes));
    tcase_add_test(tc, addresses_that_count_up_never_conflict);
    tcase_add_test(tc, the_expectation_has_no_seam);
    tcase_add_test(tc, somebody_who_chooses_can_make_all_but_one_conflict);
    tcase_add_test(tc, the_bound_is_the_fewest_that_hold_them);
    tcase_add_test(tc, the_bound_stays_near_where_the_normal_takes_over);
    tcase_add_test(tc, the_conflict_table_holds_more_than_the_chip_has_room_for);
    return unit_run("conflict", tc);
}
