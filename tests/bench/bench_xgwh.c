/*
 * bench_xgwh - the two-level route table of XGW-H (agent/xgwh/alpm) over the
 * generator's region, its VNIs on two halves by parity, sizes of the bench profile.
 * Prints `name value unit` lines.
 *
 *   bench_xgwh [--data DIR] [--routes N]    default 1000000
 *
 * Times are CPU time of this thread; the sink counts and drops.
 *   alpm_build_seconds_1m     all routes, in the generator's order, into both halves
 *   alpm_routes_per_tcam_row  behind it; *_churned after as many random changes as
 *                             there are routes; *_repacked after re-packing
 *   alpm_sram_words_per_route 3.0 words a slot (P4.md) of every partition in use
 *   alpm_changes_per_s        one change a call: a delete of a random route, or its
 *                             coming back, half of them away at any time
 *   writes_per_change_*       of those, without covering results, which stand beside;
 *                             most routes here say `local`, so a covering route's
 * change often changes no result: *_distinct is where each route has one of its own
 * Then the mapping's figures (bench_xgwh_map.h).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/xgwh/alpm.h"
#include "tests/bench/bench_xgwh_map.h"
#include "tests/bench/gen.h"

#define HALVES        2
#define WORDS_A_SLOT  3.0 /* P4.md, Tables */
#define WRITES_BOUND  4096
#define REPACK_BUDGET 1000

struct list {
    struct alpm_change *at;
    size_t count, cap;
};

struct world {
    struct alpm *half[HALVES];
    struct list routes[HALVES];
    struct alpm_cost cost;
    uint64_t writes;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_xgwh: %s\n", what);
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

static void count(void *ctx, const struct phys_write *w)
{
    struct world *world = ctx;

    world->writes += w->op;
}

/* ---- routes ---- */

/* What a mapping would make of the scope; NC indexes stand for endpoints. */
static struct alpm_result result_of(const struct route_action *action)
{
    struct alpm_result r = { 0 };

    r.vni = action->vni;
    switch (action->scope) {
    case SCOPE_LOCAL:
        r.scope = PHYS_SCOPE_LOCAL;
        break;
    case SCOPE_PEER:
        r.scope = PHYS_SCOPE_PEER;
        r.idx = action->vni & 1;
        break;
    case SCOPE_INTERNET:
    case SCOPE_SERVICE:
        r.scope = PHYS_SCOPE_FALLBACK;
        break;
    default:
        r.scope = PHYS_SCOPE_TUNNEL;
        r.idx = PHYS_NC_RESERVED + action->endpoint.b[3];
        break;
    }
    return r;
}

static void list_add(struct list *l, const struct entry *e)
{
    const struct prefix *dst = &e->route.dst;
    struct alpm_change *c;

    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->at = realloc(l->at, l->cap * sizeof *l->at);
        if (!l->at) {
            die("out of memory");
        }
    }
    c = &l->at[l->count++];
    memset(c, 0, sizeof *c);
    c->route.vni = e->vni;
    c->route.result = result_of(&e->route.action);
    if (dst->addr.family == IP_V4) {
        c->route.addr[10] = c->route.addr[11] = 0xff;
        memcpy(c->route.addr + 12, dst->addr.b, 4);
        c->route.len = (uint8_t)(96 + dst->len);
    } else {
        memcpy(c->route.addr, dst->addr.b, 16);
        c->route.len = dst->len;
    }
}

static void load(struct world *w, uint32_t routes, const char *data)
{
    struct gen_config config;
    struct err err = { 0 };
    struct entry e;
    struct gen *g;

    gen_config_init(&config);
    config.routes = routes;
    config.data_dir = data;
    if (gen_new(&config, &g, &err)) {
        die(err.msg);
    }
    while (gen_next(g, &e)) {
        if (e.table == TABLE_VXLAN_ROUTE) {
            list_add(&w->routes[e.vni % HALVES], &e);
        }
    }
    gen_free(g);
}

/* ---- figures ---- */

static void print_fill(const struct world *w, const char *suffix)
{
    uint64_t rows = 0;
    uint64_t slots = 0;
    uint64_t routes = 0;
    char name[64];

    for (unsigned i = 0; i < HALVES; i++) {
        struct alpm_stats s = alpm_stats(w->half[i]);

        rows += s.rows;
        slots += s.slots;
        routes += s.routes;
    }
    snprintf(name, sizeof name, "alpm_routes_per_tcam_row%s", suffix);
    print(name, (double)routes / (double)rows, "routes");
    snprintf(name, sizeof name, "alpm_sram_words_per_route%s", suffix);
    print(name, WORDS_A_SLOT * (double)slots / (double)routes, "words");
}

static void apply(struct world *w, unsigned half, const struct alpm_change *changes,
                  size_t n)
{
    struct err err = { 0 };

    if (alpm_apply(w->half[half], changes, n, count, w, &w->cost, &err)) {
        die(err.msg);
    }
}

static void bench_build(struct world *w)
{
    double bytes = 0;
    double routes = 0;
    double t0 = cpu_s();

    for (unsigned i = 0; i < HALVES; i++) {
        apply(w, i, w->routes[i].at, w->routes[i].count);
    }
    t0 = cpu_s() - t0;
    for (unsigned i = 0; i < HALVES; i++) {
        bytes += (double)alpm_stats(w->half[i]).memory_bytes;
        routes += (double)alpm_stats(w->half[i]).routes;
    }
    print("alpm_build_seconds_1m", t0 * 1e6 / routes, "s");
    print("alpm_bytes_per_route", bytes / routes, "B");
    print_fill(w, "");
}

static void bench_repack(struct world *w)
{
    struct alpm_cost cost = { 0 };
    double t0 = cpu_s();
    double routes = 0;

    for (unsigned i = 0; i < HALVES; i++) {
        for (bool done = false; !done;) {
            if (alpm_repack(w->half[i], REPACK_BUDGET, count, w, &cost, &done)) {
                die("re-packing failed");
            }
        }
        routes += (double)alpm_stats(w->half[i]).routes;
    }
    print("alpm_repack_seconds", cpu_s() - t0, "s");
    print("alpm_repack_writes_per_route", (double)cost.move_writes / routes, "writes");
    print_fill(w, "_repacked");
}

/* A random route goes, or comes again with another result: first until half of them
 * are away, then in balance. */
static void churn(struct world *w, size_t changes, uint64_t *seed, uint32_t histogram[])
{
    for (size_t n = 0; n < changes; n++) {
        unsigned half = n % HALVES;
        struct list *l = &w->routes[half];
        struct alpm_change *c = &l->at[gen_random(seed) % l->count];
        uint64_t before = w->cost.slot_writes + w->cost.move_writes;
        uint64_t cost;

        c->is_delete = !c->is_delete;
        apply(w, half, c, 1);
        cost = w->cost.slot_writes + w->cost.move_writes - before;
        histogram[cost < WRITES_BOUND ? cost : WRITES_BOUND - 1]++;
    }
}

static void bench_churn(struct world *w, size_t changes)
{
    static uint32_t histogram[WRITES_BOUND];
    uint64_t seed = 11;
    uint64_t seen = 0;
    unsigned p99 = 0;
    double t0;

    churn(w, changes, &seed, histogram); /* to the balance */
    memset(histogram, 0, sizeof histogram);
    w->cost = (struct alpm_cost){ 0 };
    t0 = cpu_s();
    churn(w, changes, &seed, histogram);
    t0 = cpu_s() - t0;
    for (seen = histogram[0]; seen < changes - changes / 100;
         seen += histogram[++p99]) {
    }
    print("alpm_changes_per_s", (double)changes / t0, "changes/s");
    print("writes_per_change_mean",
          (double)(w->cost.slot_writes + w->cost.move_writes) / (double)changes,
          "writes");
    print("writes_per_change_p99", p99, "writes");
    print("cover_writes_per_change_mean",
          (double)w->cost.cover_writes / (double)changes, "writes");
    print_fill(w, "_churned");
}

static void make(struct world *w)
{
    for (unsigned i = 0; i < HALVES; i++) {
        alpm_free(w->half[i]);
        if (alpm_new(phys_sizes_bench(), (uint8_t)i, &w->half[i])) {
            die("out of memory");
        }
    }
}

/* The same again, each route to a tunnel of its own. */
static void bench_distinct(struct world *w, size_t changes)
{
    static uint32_t histogram[WRITES_BOUND];
    uint64_t seed = 12;

    make(w);
    for (unsigned i = 0; i < HALVES; i++) {
        for (size_t k = 0; k < w->routes[i].count; k++) {
            struct alpm_change *c = &w->routes[i].at[k];

            c->is_delete = false;
            c->route.result = (struct alpm_result){ PHYS_SCOPE_TUNNEL, (uint32_t)k,
                                                    (uint32_t)k % 100000 };
        }
        apply(w, i, w->routes[i].at, w->routes[i].count);
    }
    w->cost = (struct alpm_cost){ 0 };
    churn(w, changes, &seed, histogram);
    print("cover_writes_per_change_mean_distinct",
          (double)w->cost.cover_writes / (double)changes, "writes");
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "data", required_argument, NULL, 'd' },
                                             { "routes", required_argument, NULL, 'r' },
                                             { 0 } };
    uint32_t routes = 1000000;
    const char *data = NULL;
    struct world w = { 0 };
    int c;

    while ((c = getopt_long(argc, argv, "d:r:", options, NULL)) != -1) {
        if (c == 'd') {
            data = optarg;
        } else if (c == 'r') {
            routes = (uint32_t)strtoul(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    make(&w);
    load(&w, routes, data);
    bench_build(&w);
    bench_churn(&w, routes);
    bench_repack(&w);
    bench_distinct(&w, routes / 4);
    for (unsigned i = 0; i < HALVES; i++) {
        alpm_free(w.half[i]);
        free(w.routes[i].at);
    }
    bench_map(routes, data);
    return 0;
}
