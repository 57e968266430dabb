/* The model against a worker that is followed packet by packet. */
#include "tests/unit/unit.h"

#include <math.h>

#include "controller/capacity/latency.h"

#define PACKETS 200000

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One core: packets come evenly, are served, wait in a batch that goes when it is full
 * or at the next tick of the flush timer. */
static double simulate(const struct latency_params *p, double core_pps, double q)
{
    double *latency = malloc(PACKETS * sizeof(*latency));
    double gap = 1e9 / core_pps;
    unsigned sent = 0;
    double result;

    ck_assert_ptr_nonnull(latency);
    for (unsigned first = 0; first < PACKETS; first = sent) {
        double full = (first + p->batch - 1) * gap;
        double flush = p->flush_ns > 0 ? first * gap + p->flush_ns : INFINITY;
        double at = fmin(full, flush);

        while (sent < PACKETS && sent * gap <= at) {
            latency[sent] = at - sent * gap + p->service_ns + p->fixed_ns;
            sent++;
        }
    }
    qsort(latency, PACKETS, sizeof(*latency), compare);
    result = latency[(unsigned)(q * PACKETS)];
    free(latency);
    return result;
}

static const double quantiles[] = { 0.1, 0.5, 0.9, 0.99 };

START_TEST(batches_and_flush_are_as_simulated)
{
    struct latency_params p = {
        .fixed_ns = 3000, .service_ns = 100, .batch = 32, .flush_ns = 100000
    };

    for (unsigned cores = 1; cores <= 8; cores++) {
        for (unsigned i = 0; i < ARRAY_LEN(quantiles); i++) {
            double got = latency_quantile(&p, 2e6, cores, quantiles[i]);
            double want = simulate(&p, 2e6 / cores, quantiles[i]);

            /* Packets come one by one; the model has no steps. */
            ck_assert_double_le(fabs(got - want), 0.01 * want + 1e9 * cores / 2e6);
        }
    }
}
END_TEST

START_TEST(the_median_grows_linearly_with_cores_at_a_fixed_rate)
{
    struct latency_params p = { .fixed_ns = 3000, .service_ns = 100, .batch = 32 };
    double two = latency_quantile(&p, 1e6, 2, 0.5);
    double step = latency_quantile(&p, 1e6, 3, 0.5) - two;

    /* Half of 31 packets at 1 a microsecond, for each core more. */
    ck_assert_double_eq_tol(step, 15500, 30);
    for (unsigned cores = 3; cores <= 16; cores++) {
        ck_assert_double_eq_tol(latency_quantile(&p, 1e6, cores, 0.5),
                                two + (cores - 2) * step, 60);
    }
}
END_TEST

START_TEST(a_timed_flush_makes_a_plateau)
{
    struct latency_params p = {
        .fixed_ns = 3000, .service_ns = 100, .batch = 32, .flush_ns = 100000
    };
    double at_8 = latency_quantile(&p, 1e5, 8, 0.99);

    /* 100 µs, as the paper saw, however slowly batches fill. */
    ck_assert_double_eq_tol(at_8, 103100, 1500);
    ck_assert_double_eq_tol(latency_quantile(&p, 1e5, 16, 0.99), at_8, 1);
}
END_TEST

START_TEST(interrupts_make_the_tail_and_leave_the_median)
{
    struct latency_params quiet = { .fixed_ns = 3000, .service_ns = 100, .batch = 1 };
    struct latency_params p = quiet;
    double far = latency_quantile(&quiet, 1e6, 1, 0.9999);
    double at_999;

    p.interrupts_hz = 250;
    p.interrupt_ns = 20000; /* away for half a percent of the time */
    ck_assert_double_eq_tol(latency_quantile(&p, 1e6, 1, 0.5),
                            latency_quantile(&quiet, 1e6, 1, 0.5), 1);
    ck_assert_double_eq_tol(far, 3100, 50);
    at_999 = latency_quantile(&p, 1e6, 1, 0.999);
    /* 0.005 x exp(-t / 20 µs) = 0.001 */
    ck_assert_double_eq_tol(at_999 - 3100, 20000 * log(5), 500);
    ck_assert_double_gt(latency_quantile(&p, 1e6, 1, 0.9999), at_999 + 40000);
}
END_TEST

START_TEST(a_core_that_is_full_has_no_latency)
{
    struct latency_params p = { .service_ns = 100, .batch = 1 };

    ck_assert(isinf(latency_quantile(&p, 1e7, 1, 0.5)));
    ck_assert(!isinf(latency_quantile(&p, 1e7, 2, 0.5)));
    /* Half the load: 0.5 / (2 x 0.5) of a service in the queue (M/D/1). */
    ck_assert_double_eq_tol(latency_quantile(&p, 1e7, 2, 0.5), 100 + 50, 1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("latency");

    tcase_add_test(tc, batches_and_flush_are_as_simulated);
    tcase_add_test(tc, the_median_grows_linearly_with_cores_at_a_fixed_rate);
    tcase_add_test(tc, a_timed_flush_makes_a_plateau);
    tcase_add_test(tc, interrupts_make_the_tail_and_leave_the_median);
    tcase_add_test(tc, a_core_that_is_full_has_no_latency);
    return unit_run("latency", tc);
}
