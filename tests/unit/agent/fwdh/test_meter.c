/* Two-rate three-colour markers, colour-blind: RFC 2698, section 3. */
#include "tests/unit/unit.h"

#include "agent/fwdh/meter.h"

#include <pthread.h>

#define SECOND UINT64_C(1000000000)

/* Worked out by hand from the RFC, with CIR 1000, CBS 1000, PIR 2000, PBS 3000. */
static const struct {
    uint64_t at_ms; /* from the start */
    uint32_t bytes;
    enum hmeter_color color;
} steps[] = {
    { 0, 1000, HMETER_GREEN },     /* Tc 0, Tp 2000 */
    { 0, 1000, HMETER_YELLOW },    /* Tp 1000 */
    { 0, 1001, HMETER_RED },       /* nothing taken */
    { 0, 1000, HMETER_YELLOW },    /* Tp 0 */
    { 0, 1, HMETER_RED },          /* */
    { 500, 1001, HMETER_RED },     /* Tc 500, Tp 1000 */
    { 500, 501, HMETER_YELLOW },   /* Tp 499 */
    { 500, 499, HMETER_GREEN },    /* Tc 1, Tp 0 */
    { 1500, 1001, HMETER_YELLOW }, /* Tc 1000 (cut), Tp 2000 - 1001 */
    { 1500, 999, HMETER_GREEN },   /* Tc 1, Tp 0 */
    { 1501, 2, HMETER_GREEN },     /* Tc 2, Tp 2 */
    { 1501, 1, HMETER_RED },       /* */
    { 9000, 3001, HMETER_RED },    /* full: Tc 1000, Tp 3000 */
    { 9000, 3000, HMETER_YELLOW }, /* */
};

START_TEST(packets_get_the_colours_of_the_rfc)
{
    const struct phys_meter_config given = { 1000, 1000, 2000, 3000 };
    struct hmeter_config c;
    struct hmeter m = { .last_ns = 0 };

    hmeter_config_init(&c, &given);
    ck_assert_ptr_null(hmeter_set(&m, &c));
    for (unsigned i = 0; i < ARRAY_LEN(steps); i++) {
        ck_assert_msg(hmeter_run(&m, SECOND + steps[i].at_ms * 1000000,
                                 steps[i].bytes) == steps[i].color,
                      "step %u", i);
    }
}
END_TEST

START_TEST(without_a_configuration_everything_passes)
{
    struct hmeter m = { .last_ns = 0 };

    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(hmeter_run(&m, 1, 65535), HMETER_GREEN);
    }
}
END_TEST

START_TEST(the_largest_rates_do_not_overflow)
{
    const struct phys_meter_config given = { UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                             UINT64_MAX };
    struct hmeter_config c;
    struct hmeter m = { .last_ns = 0 };

    hmeter_config_init(&c, &given);
    (void)hmeter_set(&m, &c);
    for (unsigned i = 0; i < 60; i++) {
        ck_assert_int_eq(hmeter_run(&m, (UINT64_C(1) << i) + i, 65535), HMETER_GREEN);
    }
}
END_TEST

enum { THREADS = 4, TURNS = 100000, BYTES = 100 };

static struct hmeter shared;

static void *spend(void *arg)
{
    uint64_t *passed = arg;

    for (unsigned i = 0; i < TURNS; i++) {
        /* Each sees the same second go by. */
        uint64_t now = SECOND + i * (SECOND / TURNS);

        *passed += hmeter_run(&shared, now, BYTES) == HMETER_GREEN;
    }
    return NULL;
}

START_TEST(workers_together_get_the_rate_and_no_more)
{
    /* 1 MB/s for a second and 10 kB of burst, of 40 MB that want through. */
    const struct phys_meter_config given = { 1000000, 10000, 1000000, 10000 };
    struct hmeter_config c;
    pthread_t thread[THREADS];
    uint64_t passed[THREADS] = { 0 };
    uint64_t sum = 0;

    hmeter_config_init(&c, &given);
    (void)hmeter_set(&shared, &c);
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, spend, &passed[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        sum += passed[i] * BYTES;
    }
    ck_assert_uint_le(sum, 1010000 + THREADS * BYTES);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("meter");

    tcase_add_test(tc, packets_get_the_colours_of_the_rfc);
    tcase_add_test(tc, without_a_configuration_everything_passes);
    tcase_add_test(tc, the_largest_rates_do_not_overflow);
    tcase_add_test(tc, workers_together_get_the_rate_and_no_more);
    return unit_run("meter", tc);
}
