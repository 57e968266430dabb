/*
 * bench_core_steps - how long the longest step of the core takes.
 *
 *   core_longest_step_ms           of all cases
 *   core_longest_step_ms_CASE      of one (tests/unit/controller/core/heavy.c)
 *   core_ms_CASE                   all steps of it together
 *
 * CPU time of the thread: on a shared host the wall clock measures the others.
 */
#include "tests/unit/controller/core/heavy.h"

#include <getopt.h>
#include <malloc.h>
#include <time.h>

/* As much as the four XGW-H clusters of heavy.c take below their critical level. */
static struct heavy_size size = { .rows = 60000,
                                  .vnis = 20000,
                                  .nodes = 1000,
                                  .waits = 2000,
                                  .batch = BATCH_MAX_ENTRIES };

struct clocked {
    double start_ms;
    double longest_ms;
    double sum_ms;
};

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void before(void *ctx)
{
    struct clocked *c = ctx;

    c->start_ms = cpu_ms();
}

static void after(void *ctx)
{
    struct clocked *c = ctx;
    double took = cpu_ms() - c->start_ms;

    c->sum_ms += took;
    c->longest_ms = took > c->longest_ms ? took : c->longest_ms;
}

/* What is built for tests runs as one. */
START_TEST(all_cases)
{
    struct clocked clocked = { 0 };
    const struct rig_watch watch = { .before = before,
                                     .after = after,
                                     .ctx = &clocked };
    struct heavy *h = heavy_new(size, &watch);
    double longest = 0;

    for (unsigned i = 0; i < heavy_case_count; i++) {
        clocked = (struct clocked){ 0 };
        heavy_cases[i].run(h);
        printf("core_longest_step_ms_%s %.2f ms\n", heavy_cases[i].name,
               clocked.longest_ms);
        printf("core_ms_%s %.1f ms\n", heavy_cases[i].name, clocked.sum_ms);
        fflush(stdout);
        longest = clocked.longest_ms > longest ? clocked.longest_ms : longest;
    }
    printf("core_longest_step_ms %.2f ms\n", longest);
    heavy_check(h);
    heavy_free(h);
}
END_TEST

static int run(void)
{
    TCase *tc = tcase_create("steps");
    Suite *suite = suite_create("core");
    SRunner *runner = srunner_create(suite);
    TestResult **results;
    int failed;

    tcase_add_test(tc, all_cases);
    suite_add_tcase(suite, tc);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    results = srunner_failures(runner);
    for (int i = 0; i < failed; i++) {
        fprintf(stderr, "%s:%d: %s\n", tr_lfile(results[i]), tr_lno(results[i]),
                tr_msg(results[i]));
    }
    free(results);
    srunner_free(runner);
    return failed;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "rows", required_argument, NULL, 'r' },
                                             { "vnis", required_argument, NULL, 'v' },
                                             { "nodes", required_argument, NULL, 'n' },
                                             { "data", required_argument, NULL, 'd' },
                                             { 0 } };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'r':
            size.rows = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'v':
            size.vnis = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            size.nodes = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'd': /* every bench is given it; nothing here is read */
            break;
        default:
            fprintf(stderr,
                    "usage: bench_core_steps [--rows N] [--vnis N] [--nodes N]\n");
            return 2;
        }
    }
    mallopt(M_MXFAST, 0); /* as controller/main.c */
    return run();
}
