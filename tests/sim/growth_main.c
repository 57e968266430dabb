/* xgw-growth: see README.md beside it. */
#include "tests/sim/growth.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void usage(FILE *to)
{
    fputs("xgw-growth - a region that grows for years, from a seed\n"
          "  --seed S      (1)\n"
          "  --years Y     (1)\n"
          "  --from N      tenants in the first week (1000)\n"
          "  --to N        tenants in the last one (4000)\n"
          "  --full        6 years from 10,000 to 1,000,000 tenants\n"
          "  --twice       again, and the traces must be the same\n"
          "  --verbose     the course of things on stdout\n",
          to);
}

static bool run(const struct growth_config *config, uint64_t *ret_hash)
{
    struct growth *g = malloc(sizeof(*g));
    clock_t from = clock();
    const struct growth_counts *c;
    bool ok;

    if (!g) {
        return false;
    }
    ok = growth_run(g, config);
    c = &g->counts;
    printf("seed %llu: %.1f years, %u tenants (%llu came, %llu left), %u clusters "
           "(%llu times built), %.1f s of CPU, trace %016llx\n",
           (unsigned long long)config->seed, (double)g->week / 52, g->alive,
           (unsigned long long)g->tenant_count, (unsigned long long)c->deleted,
           g->cluster_count, (unsigned long long)c->built,
           (double)(clock() - from) / CLOCKS_PER_SEC, (unsigned long long)g->hash);
    printf("  %llu commands, %llu entries put; top customers %llu, too large %llu, "
           "attacks %llu, refused at critical %llu, of which room was made %llu; moves "
           "%llu, done %llu, without room %llu; "
           "festivals %llu, restarts %llu, full checks %llu\n",
           (unsigned long long)c->commands, (unsigned long long)c->entries,
           (unsigned long long)c->bursts, (unsigned long long)c->too_big,
           (unsigned long long)c->attacks, (unsigned long long)c->critical,
           (unsigned long long)c->critical_ended, (unsigned long long)c->moves,
           (unsigned long long)c->moved, (unsigned long long)c->move_refused,
           (unsigned long long)c->festivals, (unsigned long long)c->restarts,
           (unsigned long long)c->checks);
    if (!ok) {
        printf("FAILED %s\n  replay: xgw-growth --seed %llu --years %g --from %u --to "
               "%u --verbose\n",
               g->failure, (unsigned long long)config->seed, config->weeks / 52.0,
               config->from, config->to);
    }
    *ret_hash = g->hash;
    growth_fini(g);
    free(g);
    fflush(stdout);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' },
        { "years", required_argument, NULL, 'y' },
        { "from", required_argument, NULL, 'f' },
        { "to", required_argument, NULL, 't' },
        { "full", no_argument, NULL, 'F' },
        { "twice", no_argument, NULL, '2' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, '?' },
        { 0 },
    };
    struct growth_config config = { .seed = 1, .weeks = 52, .from = 1000, .to = 4000 };
    bool is_twice = false;
    uint64_t first = 0;
    uint64_t second = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 's':
            config.seed = strtoull(optarg, NULL, 10);
            break;
        case 'y':
            config.weeks = (unsigned)(strtod(optarg, NULL) * 52);
            break;
        case 'f':
            config.from = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            config.to = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'F':
            config.weeks = 6 * 52;
            config.from = 10000;
            config.to = 1000000;
            break;
        case '2':
            is_twice = true;
            break;
        case 'v':
            config.is_verbose = true;
            break;
        default:
            usage(c == '?' && !optopt ? stdout : stderr);
            return c == '?' && !optopt ? 0 : 2;
        }
    }
    if (config.weeks == 0 || config.from == 0 || config.to < config.from) {
        usage(stderr);
        return 2;
    }
    if (!run(&config, &first) || (is_twice && !run(&config, &second))) {
        return 1;
    }
    if (is_twice && first != second) {
        printf("FAILED the same seed made another trace\n");
        return 1;
    }
    return 0;
}
