/* xgw-sim: see README.md beside it. */
#include "tests/sim/sim.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void usage(FILE *to)
{
    fputs("xgw-sim - a region simulated from a seed\n"
          "  --seed S       first seed (1)\n"
          "  --seeds N      so many seeds from there (1)\n"
          "  --hours H      simulated hours of each (10)\n"
          "  --nodes N      gateways, 2 to 64 (8)\n"
          "  --tenants N    VNIs that tenants use (100)\n"
          "  --twice        run each seed twice and compare the traces\n"
          "  --verbose      every event on stdout\n",
          to);
}

static void print_counts(const struct sim *s, double seconds)
{
    const struct sim_counts *c = &s->counts;
    uint64_t faults = c->link_cuts + c->partitions + c->agent_crashes +
                      c->device_crashes + c->disconnects + c->controller_crashes +
                      c->store_errors + c->write_errors + c->corruptions + c->stalls +
                      c->lies;

    printf("seed %llu: %.1f region-hours, %llu steps, %llu faults in %.1f s, "
           "trace %016llx\n",
           (unsigned long long)s->config.seed, (double)s->now_ms / 3.6e6,
           (unsigned long long)c->steps, (unsigned long long)faults, seconds,
           (unsigned long long)s->hash);
    printf("  writes: %llu sent, %llu acknowledged, %llu refused, %llu unknown; "
           "device writes %llu\n",
           (unsigned long long)c->commands, (unsigned long long)c->acknowledged,
           (unsigned long long)c->refused, (unsigned long long)c->unknown,
           (unsigned long long)c->device_writes);
    printf(
        "  faults: links %llu, partitions %llu, agents %llu, devices %llu, "
        "sockets %llu, controllers %llu, store %llu, device writes %llu, "
        "corruptions %llu, stalls %llu, lies %llu; moves %llu, of which steered %llu, "
        "refuted by probes %llu, rows of load balancers turned %llu; "
        "consumers followed %llu times, not waited for %llu\n",
        (unsigned long long)c->link_cuts, (unsigned long long)c->partitions,
        (unsigned long long)c->agent_crashes, (unsigned long long)c->device_crashes,
        (unsigned long long)c->disconnects, (unsigned long long)c->controller_crashes,
        (unsigned long long)c->store_errors, (unsigned long long)c->write_errors,
        (unsigned long long)c->corruptions, (unsigned long long)c->stalls,
        (unsigned long long)c->lies, (unsigned long long)c->moves,
        (unsigned long long)c->moved, (unsigned long long)c->refuted,
        (unsigned long long)c->turned, (unsigned long long)c->followings,
        (unsigned long long)c->waived);
    printf("  clusters: built %llu of %llu times, drained %llu of %llu, cancels %llu\n",
           (unsigned long long)c->built, (unsigned long long)c->builds,
           (unsigned long long)c->drained, (unsigned long long)c->drains,
           (unsigned long long)c->cancels);
    printf("  checks: %llu full, %llu of `applied`\n", (unsigned long long)c->checks,
           (unsigned long long)c->applied_checks);
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* One seed.  Adds its hours to `*hours`. */
static bool run_seed(const struct sim_config *config, uint64_t *ret_hash, double *hours)
{
    struct sim *s = malloc(sizeof(*s));
    double from = cpu_seconds();
    bool ok;

    if (!s) {
        return false;
    }
    ok = sim_run(s, config);
    print_counts(s, cpu_seconds() - from);
    if (!ok) {
        printf("FAILED seed %llu %s\n  replay: xgw-sim --seed %llu --hours %g "
               "--nodes %u --tenants %u --verbose\n",
               (unsigned long long)config->seed, s->failure,
               (unsigned long long)config->seed, config->hours, config->nodes,
               config->tenants);
    }
    *ret_hash = s->hash;
    *hours += (double)s->now_ms / 3.6e6;
    sim_fini(s);
    free(s);
    fflush(stdout);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' },
        { "seeds", required_argument, NULL, 'n' },
        { "hours", required_argument, NULL, 'h' },
        { "nodes", required_argument, NULL, 'N' },
        { "tenants", required_argument, NULL, 't' },
        { "twice", no_argument, NULL, '2' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, '?' },
        { 0 },
    };
    struct sim_config config = { .seed = 1, .hours = 10, .nodes = 8, .tenants = 100 };
    unsigned long seeds = 1;
    bool is_twice = false;
    double hours = 0;
    int failed = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 's':
            config.seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            seeds = strtoul(optarg, NULL, 10);
            break;
        case 'h':
            config.hours = strtod(optarg, NULL);
            break;
        case 'N':
            config.nodes = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            config.tenants = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case '2':
            is_twice = true;
            break;
        case 'v':
            config.is_verbose = true;
            break;
        default:
            usage(optopt ? stderr : stdout);
            return optopt ? 2 : 0;
        }
    }
    if (config.nodes < 2 || config.nodes > SIM_NODES_MAX || config.tenants < 2 ||
        config.tenants > 100000 || !(config.hours > 0) || optind != argc) {
        usage(stderr);
        return 2;
    }
    for (unsigned long i = 0; i < seeds; i++, config.seed++) {
        uint64_t hash = 0;
        uint64_t again = 0;

        failed += !run_seed(&config, &hash, &hours);
        if (is_twice) {
            run_seed(&config, &again, &hours);
            if (again != hash) {
                printf("FAILED seed %llu does not replay\n",
                       (unsigned long long)config.seed);
                failed++;
            }
        }
    }
    printf("%.1f region-hours of %u nodes and %u tenants, %d failures\n", hours,
           config.nodes, config.tenants, failed);
    return failed ? 1 : 0;
}
