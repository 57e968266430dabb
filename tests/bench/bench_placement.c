/*
 * bench_placement - a million tenants of the generator's sizes onto XGW-H clusters.
 * Prints `name value unit` lines.
 *
 *   bench_placement [--data DIR] [--tenants N]    default 1000000
 *
 * A tenant's vector is what the XGW-H profile makes of its routes and VMs, each
 * dimension at most 30 % of a half at the sale level.  NCs are not in it: tenants share
 * them, and a cluster counts each once.  Traffic is drawn: bits a second from a Pareto
 * distribution (shape 1.2) times the root of the tenant's size, packets by a mean frame
 * between 220 and 1,400 bytes, scaled so that both come to some 52 clusters.
 *
 *   seconds_1m_tenants         CPU time of placing them all, sorting included
 *   clusters_over_lower_bound  clusters used ÷ the largest over the dimensions of
 *                              ⌈Σ demand ÷ (capacity × sale)⌉
 *   single_us                  one tenant more, chosen and added: median of 10,000
 *   online_over_lower_bound    the same tenants one by one as they come, unsorted
 * A run that leaves a tenant out or goes above the sale level anywhere fails.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/capacity/profile.h"
#include "controller/placement/placement.h"
#include "tests/bench/gen.h"

#define SALE_BP       7000
#define CLIP_PERCENT  30
#define SINGLES       10000
#define CLUSTERS      128
#define WANT_CLUSTERS 52.0
#define FRAME_BYTES   500

struct world {
    struct profile profile;
    struct tenant_counts *counts;
    struct demand *needs;
    double *weight; /* of its traffic */
    uint32_t count;
    uint64_t random;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_placement: %s\n", what);
    exit(1);
}

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print(const char *name, double value, const char *unit)
{
    printf("%s %.3f %s\n", name, value, unit);
    fflush(stdout);
}

static double draw(struct world *w)
{
    return ((double)(gen_random(&w->random) >> 11) + 0.5) * 0x1p-53;
}

/* ---- the tenants ---- */

static void count_entries(struct world *w, const char *data_dir)
{
    struct gen_config config;
    struct gen *gen = NULL;
    struct err err = { 0 };
    struct entry e;
    uint32_t place = 0;

    gen_config_init(&config);
    config.routes = w->count * 4;
    config.data_dir = data_dir;
    if (gen_new(&config, &gen, &err)) {
        die(err.msg);
    }
    w->count = gen_vni_count(gen);
    w->counts = calloc(w->count, sizeof(*w->counts));
    w->needs = calloc(w->count + SINGLES, sizeof(*w->needs));
    w->weight = calloc(w->count, sizeof(*w->weight));
    if (!w->counts || !w->needs || !w->weight) {
        die("out of memory");
    }
    while (gen_next(gen, &e)) {
        while (gen_vni(gen, place) != e.vni) {
            place++;
        }
        if (e.table == TABLE_VXLAN_ROUTE) {
            w->counts[place].routes++;
        } else if (e.vm_nc.vm.family == IP_V6) {
            w->counts[place].vms_v6++;
        } else {
            w->counts[place].vms_v4++;
        }
    }
    gen_free(gen);
}

static void clip(const struct world *w, struct demand *d)
{
    for (unsigned i = 0; i < w->profile.set.count; i++) {
        uint64_t most =
            w->profile.set.capacity[i] * SALE_BP / 10000 * CLIP_PERCENT / 100;

        d->amount[i] = d->amount[i] > most ? most : d->amount[i];
    }
}

/* Clusters that all needs together take at least; the largest of all dimensions. */
static double bound(const struct world *w)
{
    double most = 0;

    for (unsigned i = 0; i < w->profile.set.count; i++) {
        double room = (double)(w->profile.set.capacity[i] * SALE_BP / 10000);
        double sum = 0;

        for (uint32_t t = 0; t < w->count; t++) {
            sum += (double)w->needs[t].amount[i];
        }
        room *= w->profile.set.at[i].per_half ? 2 : 1;
        most = fmax(most, ceil(sum / room));
    }
    return most;
}

static void draw_traffic(struct world *w)
{
    double room = 0;
    double scale = 1;

    for (uint32_t t = 0; t < w->count; t++) {
        w->weight[t] = sqrt((double)w->counts[t].routes) * pow(draw(w), -1 / 1.2);
    }
    for (unsigned i = 0; i < w->profile.set.count; i++) {
        if (strcmp(w->profile.set.at[i].name, "bps") == 0) {
            room = (double)w->profile.set.capacity[i] * SALE_BP / 10000;
        }
    }
    /* What is clipped is missing, so the scale is sought. */
    for (unsigned turn = 0; turn < 20; turn++) {
        double sum = 0;

        for (uint32_t t = 0; t < w->count; t++) {
            sum += fmin(w->weight[t] * scale, room * CLIP_PERCENT / 100);
        }
        scale *= WANT_CLUSTERS * 2 * room / sum;
    }
    for (uint32_t t = 0; t < w->count; t++) {
        double frame = 220 * pow(1400.0 / 220, draw(w));

        w->counts[t].bps = (uint64_t)(w->weight[t] * scale);
        w->counts[t].pps = (uint64_t)(w->weight[t] * scale / 8 / frame);
        profile_demand(&w->profile, &w->counts[t], &w->needs[t]);
        clip(w, &w->needs[t]);
    }
    for (uint32_t k = 0; k < SINGLES; k++) {
        w->needs[w->count + k] = w->needs[gen_random(&w->random) % w->count];
    }
}

/* ---- the clusters ---- */

static struct placement *make_clusters(const struct world *w)
{
    struct placement *p = placement_new();
    struct err err = { 0 };

    for (unsigned i = 0; p && i < CLUSTERS; i++) {
        struct placement_cluster c = { .backing = PLACEMENT_NONE,
                                       .sale_bp = SALE_BP,
                                       .is_open = true,
                                       .set = w->profile.set };
        uint32_t id = PLACEMENT_NONE;
        char name[16];

        snprintf(name, sizeof(name), "h-%03u", i);
        c.name = name;
        if (placement_put_cluster(p, &c, &id, &err)) {
            die(err.msg);
        }
    }
    if (!p) {
        die("out of memory");
    }
    return p;
}

/* Clusters in use; ends the run if one is above its sale level. */
static uint32_t check(const struct world *w, const struct placement *p)
{
    uint32_t used = 0;

    for (uint32_t id = 0; id < placement_cluster_end(p); id++) {
        struct usage u;

        placement_usage(p, id, &u);
        used += placement_tenants(p, id) > 0;
        for (unsigned i = 0; i < w->profile.set.count; i++) {
            uint64_t room = w->profile.set.capacity[i] * SALE_BP / 10000;

            if (u.amount[0][i] > room || u.amount[1][i] > room) {
                die("above the sale level");
            }
        }
    }
    return used;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void one(struct placement *p, const struct demand *need)
{
    struct placement_ask ask = { .need = *need, .except = PLACEMENT_NONE };
    struct placement_answer a = placement_choose(p, &ask);

    if (a.cluster == PLACEMENT_NONE) {
        die("a tenant found no place");
    }
    placement_add(p, a.cluster, a.half, need);
}

static void bench_single(const struct world *w, struct placement *p)
{
    static double took[SINGLES];

    for (uint32_t k = 0; k < SINGLES; k++) {
        double start = cpu_s();

        one(p, &w->needs[w->count + k]);
        took[k] = (cpu_s() - start) * 1e6;
    }
    qsort(took, SINGLES, sizeof(took[0]), compare_doubles);
    print("single_us", took[SINGLES / 2], "us");
    print("single_p99_us", took[SINGLES * 99 / 100], "us");
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "data", required_argument, NULL, 'd' },
                                             { "tenants", required_argument, NULL,
                                               't' },
                                             { 0 } };
    struct world w = { .count = 1000000, .random = 1 };
    const char *data_dir = NULL;
    struct placement_answer *answers;
    struct placement *p;
    uint32_t refused = 0;
    double least;
    double start;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'd') {
            data_dir = optarg;
        } else if (c == 't') {
            w.count = (uint32_t)strtoul(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    profile_init_h(&w.profile, &layout_xgw_h, &chips[0], FRAME_BYTES);
    count_entries(&w, data_dir);
    draw_traffic(&w);
    least = bound(&w);
    answers = calloc(w.count, sizeof(*answers));

    p = make_clusters(&w);
    start = cpu_s();
    if (!answers || placement_fill(p, 0, w.needs, w.count, answers, &refused)) {
        die("out of memory");
    }
    print("seconds_1m_tenants", (cpu_s() - start) * 1e6 / w.count, "s");
    if (refused > 0) {
        die("tenants found no place");
    }
    print("clusters_lower_bound", least, "clusters");
    print("clusters_used", check(&w, p), "clusters");
    print("clusters_over_lower_bound", check(&w, p) / least, "ratio");
    bench_single(&w, p);
    placement_free(p);

    p = make_clusters(&w);
    start = cpu_s();
    for (uint32_t t = 0; t < w.count; t++) {
        one(p, &w.needs[t]);
    }
    print("online_seconds_1m_tenants", (cpu_s() - start) * 1e6 / w.count, "s");
    print("online_over_lower_bound", check(&w, p) / least, "ratio");
    placement_free(p);
    free(answers);
    free(w.counts);
    free(w.needs);
    free(w.weight);
    return 0;
}
