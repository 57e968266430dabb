/*
 * xgw-calibrate - measures the packet core on this machine and prints what it saw as
 * one line of JSON; `xgwctl capacity calibrate` runs it and fits the core model.
 *
 *   xgw-calibrate [--runs N] [--packets N] ENTRIES:HOPS:BURST…
 *
 * All tables are built first.  A run is SLICES rounds over all configurations, so that
 * what else the machine does meets each of them alike, and of a configuration's slices
 * the third fastest is the run's figure: a busy neighbour on the core's other thread
 * slows everything by half for seconds, which is no property of the tables.  Start it
 * on the core that is meant (taskset).  Exit code 1 with a sentence on stderr when
 * something failed, 2 for bad arguments.
 */
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "agent/calibrate/calibrate.h"

#define POINTS_MAX  64
#define RUNS_MAX    25
#define PACKETS_MAX 100000000ul
#define SLICES      8
#define QUICK       2   /* of the slices in order of speed: the one that counts */
#define GAP_US      1   /* what a loop of a few instructions does not take by itself */
#define WATCH_MS    200 /* how long for gaps */

struct point {
    uint32_t entries;
    uint32_t hops;
    uint32_t burst;
    struct calibrate_rig *rig; /* shared by points with the same tables */
    double cycles[RUNS_MAX];
};

static int fail(const struct err *err)
{
    fprintf(stderr, "xgw-calibrate: %s\n", err->msg);
    return 1;
}

static int usage(const char *what)
{
    fprintf(stderr,
            "xgw-calibrate: %s\n"
            "usage: xgw-calibrate [--runs 1-%d] [--packets 1000-%lu] "
            "ENTRIES:HOPS:BURST... (at most %d)\n",
            what, RUNS_MAX, PACKETS_MAX, POINTS_MAX);
    return 2;
}

/* A decimal number from `min` to `max`, up to `end`, which is not taken. */
static bool read_number(const char **at, char end, unsigned long min, unsigned long max,
                        unsigned long *ret)
{
    char *stop;
    unsigned long value = strtoul(*at, &stop, 10);

    if (**at < '0' || **at > '9' || *stop != end || value < min || value > max) {
        return false;
    }
    *at = stop + (end != '\0');
    *ret = value;
    return true;
}

static bool read_point(const char *text, struct point *ret)
{
    unsigned long entries, hops, burst;

    if (!read_number(&text, ':', CALIBRATE_ENTRIES_MIN, CALIBRATE_ENTRIES_MAX,
                     &entries) ||
        !read_number(&text, ':', 0, CALIBRATE_HOPS_MAX, &hops) ||
        !read_number(&text, '\0', 1, CALIBRATE_BURST_MAX, &burst)) {
        return false;
    }
    *ret = (struct point){ .entries = (uint32_t)entries,
                           .hops = (uint32_t)hops,
                           .burst = (uint32_t)burst };
    return true;
}

static double tsc_hz(void)
{
    struct timespec a, b;
    uint64_t start, end;

    clock_gettime(CLOCK_MONOTONIC, &a);
    start = __rdtsc();
    do {
        clock_gettime(CLOCK_MONOTONIC, &b);
        end = __rdtsc();
    } while ((b.tv_sec - a.tv_sec) * 1000000000l + b.tv_nsec - a.tv_nsec < 50000000l);
    return (double)(end - start) /
           ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
}

/* Bytes of this core's cache of a level, 0 if the system does not say. */
static unsigned long cache_bytes(unsigned level)
{
    unsigned long bytes = 0;

    for (unsigned i = 0; i < 8 && bytes == 0; i++) {
        char path[128];
        unsigned is = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%u/level",
                 i);
        f = fopen(path, "re");
        if (!f) {
            return 0;
        }
        if (fscanf(f, "%u", &is) != 1) {
            is = 0;
        }
        fclose(f);
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%u/size",
                 i);
        f = is == level ? fopen(path, "re") : NULL;
        if (f) {
            bytes = fscanf(f, "%luK", &bytes) == 1 ? bytes << 10 : 0;
            fclose(f);
        }
    }
    return bytes;
}

/* Stays on the core it began on: a move would be measured as memory. */
static void stay(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();

    if (cpu >= 0) {
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
}

static enum rc build(struct point *points, unsigned count, struct err *err)
{
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < i && !points[i].rig; k++) {
            if (points[k].entries == points[i].entries &&
                points[k].hops == points[i].hops) {
                points[i].rig = points[k].rig;
            }
        }
        if (!points[i].rig && calibrate_rig_new(points[i].entries, points[i].hops,
                                                &points[i].rig, err) != RC_OK) {
            return err->code;
        }
    }
    return RC_OK;
}

static void release(struct point *points, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = i + 1; k < count; k++) {
            if (points[k].rig == points[i].rig) {
                points[k].rig = NULL;
            }
        }
        calibrate_rig_free(points[i].rig);
    }
}

static void print(const struct point *points, unsigned count, unsigned runs, double hz)
{
    struct calibrate_gaps gaps;

    calibrate_gaps((uint64_t)(hz * WATCH_MS / 1000), (uint64_t)(hz * GAP_US / 1e6),
                   &gaps);
    printf("{\"tsc_hz\": %.0f, \"l2_bytes\": %lu, \"l3_bytes\": %lu, \"gaps\": "
           "{\"per_s\": %.3f, \"mean_ns\": %.1f, \"longest_ns\": %.1f}, \"points\": [",
           hz, cache_bytes(2), cache_bytes(3),
           (double)gaps.count / ((double)gaps.watched / hz),
           gaps.count ? (double)gaps.cycles / (double)gaps.count / hz * 1e9 : 0,
           (double)gaps.longest / hz * 1e9);
    for (unsigned i = 0; i < count; i++) {
        printf("%s{\"entries\": %u, \"hops\": %u, \"burst\": %u, \"bytes\": %llu, "
               "\"cycles\": [",
               i ? ", " : "", points[i].entries, points[i].hops, points[i].burst,
               (unsigned long long)calibrate_rig_bytes(points[i].rig));
        for (unsigned r = 0; r < runs; r++) {
            printf("%s%.2f", r ? ", " : "", points[i].cycles[r]);
        }
        printf("]}");
    }
    printf("]}\n");
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static enum rc run_once(struct point *points, unsigned count, unsigned run,
                        uint32_t packets, struct err *err)
{
    static double slices[POINTS_MAX][SLICES];
    enum rc rc = RC_OK;

    for (unsigned s = 0; rc == RC_OK && s < SLICES; s++) {
        for (unsigned i = 0; rc == RC_OK && i < count; i++) {
            rc = calibrate_rig_run(points[i].rig, points[i].burst, packets / SLICES,
                                   &slices[i][s], err);
        }
    }
    for (unsigned i = 0; rc == RC_OK && i < count; i++) {
        qsort(slices[i], SLICES, sizeof(slices[i][0]), compare);
        points[i].cycles[run] = slices[i][QUICK];
    }
    return rc;
}

static int run(struct point *points, unsigned count, unsigned runs, uint32_t packets)
{
    struct err err = { 0 };
    enum rc rc = build(points, count, &err);

    for (unsigned r = 0; rc == RC_OK && r < runs; r++) {
        rc = run_once(points, count, r, packets, &err);
    }
    if (rc == RC_OK) {
        print(points, count, runs, tsc_hz());
    }
    release(points, count);
    return rc == RC_OK ? 0 : fail(&err);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "runs", required_argument, NULL, 'r' },
                                             { "packets", required_argument, NULL,
                                               'p' },
                                             { NULL, 0, NULL, 0 } };
    static struct point points[POINTS_MAX];
    unsigned long runs = 5;
    unsigned long packets = 200000; /* a run and configuration */
    unsigned count = 0;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        const char *text = optarg;

        if (option == 'r' && !read_number(&text, '\0', 1, RUNS_MAX, &runs)) {
            return usage("--runs is out of range");
        }
        if (option == 'p' && !read_number(&text, '\0', 1000, PACKETS_MAX, &packets)) {
            return usage("--packets is out of range");
        }
        if (option == '?') {
            return usage("unknown option");
        }
    }
    if (optind == argc || argc - optind > POINTS_MAX) {
        return usage("how many configurations?");
    }
    for (int i = optind; i < argc; i++) {
        if (!read_point(argv[i], &points[count++])) {
            return usage(argv[i]);
        }
    }
    stay();
    return run(points, count, (unsigned)runs, (uint32_t)packets);
}
