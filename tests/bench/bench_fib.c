/*
 * bench_fib - what the lookups cost a packet, what placing entries costs, and what they
 * weigh, over the generator's region.  Prints `name value unit` lines.
 *
 *   bench_fib [--data DIR] [--macs] [ROUTES…]    default 1000 100000 1000000
 *
 * ROUTES routes and as many VM-NC entries.  A query is uniform over the VM-NC entries
 * whose route says local, so both lookups hit; queries come from a shuffled array, in
 * bursts of 32.  cycles = CPU time of this thread × TSC Hz ÷ queries, median of 5;
 * *_bare is the same loop without the lookups and is not subtracted.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <x86intrin.h>

#include "agent/fwd/fib.h"
#include "tests/bench/gen.h"

enum { BURST = 32, RUNS = 5, QUERIES = 4 << 20 };

/* One packet's key, as a parser leaves it. */
struct key {
    uint8_t dst[16];
    uint32_t vni;
    uint8_t family;
};

struct keys {
    struct key *at;
    uint32_t count;
    uint32_t cap;
};

struct world {
    struct table_set *set;
    struct fib *fib;
    struct keys keys;
    double set_s; /* CPU time of table_set_apply() and fib_apply() */
    double fib_s;
    uint64_t entries;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_fib: %s\n", what);
    exit(1);
}

static double clock_s(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_s(void)
{
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

static double tsc_hz(void)
{
    double t0 = clock_s(CLOCK_MONOTONIC);
    uint64_t c0 = __rdtsc();

    while (clock_s(CLOCK_MONOTONIC) - t0 < 0.2) {
    }
    return (double)(__rdtsc() - c0) / (clock_s(CLOCK_MONOTONIC) - t0);
}

static void apply(struct world *w, struct batch_writer *batch)
{
    uint32_t count = batch->entry_count;
    struct blob *blob = batch_writer_finish(batch);
    struct change_list changes = { 0 };
    struct fib_exceptions x = { 0 };
    struct rows_change total;
    struct err err = { 0 };
    double t0 = cpu_s();
    double t1;

    if (!blob ||
        table_set_apply(w->set, blob->data, blob->len, &changes, &total, &err)) {
        die(blob ? err.msg : "out of memory");
    }
    t1 = cpu_s();
    if (fib_apply(w->fib, w->set, &changes, &x)) {
        die("an entry was refused");
    }
    fib_reclaim(w->fib, UINT64_MAX);
    w->fib_s += cpu_s() - t1;
    w->set_s += t1 - t0;
    w->entries += count;
    change_list_fini(&changes);
    blob_unref(blob);
}

static void queue(struct world *w, struct batch_writer *batch, const struct entry *e)
{
    batch_add_entry(batch, ENTRY_PUT, e);
    if (batch->entry_count == BATCH_MAX_ENTRIES || batch_writer_bytes(batch) > 900000) {
        apply(w, batch);
    }
}

static void key_add(struct keys *keys, const struct entry *vm)
{
    struct key *k;

    if (keys->count == keys->cap) {
        keys->cap = keys->cap ? keys->cap * 2 : 1024;
        keys->at = realloc(keys->at, keys->cap * sizeof *keys->at);
        if (!keys->at) {
            die("out of memory");
        }
    }
    k = &keys->at[keys->count++];
    memset(k, 0, sizeof *k);
    memcpy(k->dst, vm->vm_nc.vm.b, sizeof k->dst);
    k->vni = vm->vni;
    k->family = vm->vm_nc.vm.family;
}

static void load(struct world *w, struct gen *g)
{
    struct batch_writer batch;
    struct entry e;

    batch_writer_init(&batch);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        e = (struct entry){ .table = TABLE_VNI, .vni = gen_vni(g, i) };
        queue(w, &batch, &e);
    }
    apply(w, &batch);
    w->set_s = w->fib_s = 0; /* VNIs exist before: tenants come first */
    w->entries = 0;
    while (gen_next(g, &e)) {
        queue(w, &batch, &e);
        if (e.table == TABLE_VM_NC) {
            key_add(&w->keys, &e);
        }
    }
    apply(w, &batch);
    batch_writer_fini(&batch);
}

static struct fib_query query_of(const struct key *k)
{
    struct fib_query q;

    memcpy(q.dst, k->dst, sizeof q.dst);
    q.vni = k->vni;
    q.family = k->family;
    return q;
}

/* Keeps the keys whose one lookup ends at an NC, in random order. */
static void keys_choose(struct world *w)
{
    uint64_t seed = 99;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < w->keys.count; i++) {
        struct fib_query q = query_of(&w->keys.at[i]);

        fib_resolve_burst(w->fib, &q, 1);
        if (q.kind == FIB_LOCAL && q.lookups == 1) {
            w->keys.at[kept++] = w->keys.at[i];
        }
    }
    w->keys.count = kept;
    for (uint32_t i = kept; i > 1; i--) {
        uint32_t k = (uint32_t)(gen_random(&seed) % i);
        struct key swap = w->keys.at[i - 1];

        w->keys.at[i - 1] = w->keys.at[k];
        w->keys.at[k] = swap;
    }
}

enum mode { MODE_BARE, MODE_BURST, MODE_HELD_BACK, MODES };

static inline void fill(struct fib_query q[], const struct keys *keys, uint32_t *at)
{
    for (unsigned i = 0; i < BURST; i++) {
        memcpy(q[i].dst, keys->at[*at].dst, sizeof q[i].dst);
        q[i].vni = keys->at[*at].vni;
        q[i].family = keys->at[*at].family;
        *at = *at + 1 < keys->count ? *at + 1 : 0;
    }
}

static uint64_t sum_of(const struct fib_query q[])
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < BURST; i++) {
        sum += q[i].kind + q[i].addr[2] + q[i].addr[3];
    }
    return sum;
}

static uint64_t load_be64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return __builtin_bswap64(v);
}

static void batch_fill(struct fib_batch *b, const struct fib_query q[])
{
    fib_batch_init(b);
    for (unsigned i = 0; i < BURST; i++) {
        uint64_t hi = load_be64(q[i].dst);
        bool is_v6 = q[i].family == IP_V6;

        fib_batch_add4(b, (uint8_t)i, q[i].vni, (uint32_t)(hi >> 32), !is_v6);
        fib_batch_add6(b, (uint8_t)i, q[i].vni, hi, load_be64(q[i].dst + 8), is_v6);
    }
}

static uint64_t batch_sum(const struct fib_batch *b)
{
    uint64_t sum = b->other_count;

    for (unsigned i = 0; i < b->plain_count; i++) {
        sum += b->plain_nc[i] >> 16;
    }
    return sum;
}

/* CPU seconds of QUERIES queries; held back: four batches are under way. */
static double run(const struct world *w, enum mode mode, struct fib_reader *reader,
                  uint64_t *sum)
{
    static struct fib_query q[BURST];
    static struct fib_batch batch[4];
    uint32_t at = 0;
    double t0 = cpu_s();

    for (unsigned n = 0; n < QUERIES / BURST; n++) {
        fill(q, &w->keys, &at);
        if (mode == MODE_BURST) {
            fib_resolve_burst(w->fib, q, BURST);
        } else if (mode == MODE_HELD_BACK) {
            batch_fill(&batch[n % 4], q);
            fib_batch_begin(w->fib, &batch[n % 4]);
            if (n >= 1) {
                fib_batch_probe(w->fib, &batch[(n - 1) % 4]);
            }
            if (n >= 2) {
                fib_batch_step(w->fib, &batch[(n - 2) % 4]);
            }
            if (n >= 3) {
                fib_batch_end(w->fib, &batch[(n - 3) % 4]);
                *sum += batch_sum(&batch[(n - 3) % 4]);
            }
            continue;
        }
        *sum += sum_of(q);
        fib_reader_quiescent(w->fib, reader);
    }
    return cpu_s() - t0;
}

/* Cycles of one random line in bursts of 32 prefetches over 256 MiB: what
 * targets are set against on another machine. */
static double line_cycles(double hz)
{
    const size_t lines = (256u << 20) / 64;
    uint64_t *at = aligned_alloc(2 << 20, lines * 64);
    uint64_t seed = 5;
    uint64_t sum = 0;
    double best = 1e9;

    if (!at) {
        die("out of memory");
    }
    madvise(at, lines * 64, MADV_HUGEPAGE);
    memset(at, 1, lines * 64);
    for (unsigned r = 0; r < RUNS; r++) {
        double t0 = cpu_s();

        for (unsigned n = 0; n < QUERIES / BURST; n++) {
            size_t place[BURST];

            for (unsigned i = 0; i < BURST; i++) {
                seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
                place[i] = (seed >> 40) % lines * 8;
                __builtin_prefetch(&at[place[i]]);
            }
            for (unsigned i = 0; i < BURST; i++) {
                sum += at[place[i]];
            }
        }
        t0 = cpu_s() - t0;
        best = t0 < best ? t0 : best;
    }
    free(at);
    return sum ? best * hz / QUERIES : 0;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void print(const char *name, uint32_t routes, double value, const char *unit)
{
    const char *suffix = routes >= 1000000 ? "m" : routes >= 1000 ? "k" : "";
    uint32_t n = routes >= 1000000 ? routes / 1000000
                 : routes >= 1000  ? routes / 1000
                                   : routes;

    printf("%s_%u%s %.1f %s\n", name, n, suffix, value, unit);
    fflush(stdout);
}

static void measure_lookups(const struct world *w, uint32_t routes, double hz)
{
    static const char *const names[MODES] = { "fib_bare", "fib_burst",
                                              "fib_held_back" };
    struct fib_reader reader = FIB_READER_INIT;
    double s[MODES][RUNS];
    uint64_t sum = 0;

    fib_reader_online(w->fib, &reader);
    for (unsigned r = 0; r < RUNS; r++) {
        for (unsigned mode = 0; mode < MODES; mode++) {
            s[mode][r] = run(w, mode, &reader, &sum);
        }
    }
    fib_reader_offline(&reader);
    for (unsigned mode = 0; mode < MODES; mode++) {
        qsort(s[mode], RUNS, sizeof(double), compare_double);
        print(names[mode], routes, s[mode][RUNS / 2] * hz / QUERIES, "cycles");
    }
    fprintf(stderr, "(checksum %llx)\n", (unsigned long long)sum);
}

/* One changed entry a batch, at random places. */
static void measure_single(struct world *w, struct gen *g, enum table_id table,
                           const char *name, uint32_t routes)
{
    struct batch_writer batch;
    struct entry e;
    uint32_t n = 0;

    batch_writer_init(&batch);
    w->fib_s = w->set_s = 0;
    gen_rewind(g);
    for (uint32_t i = 0; gen_next(g, &e) && n < 20000; i++) {
        if (e.table != table || (uint32_t)gen_vni_count(g) == 0 || i % 7) {
            continue;
        }
        if (table == TABLE_VM_NC) {
            e.vm_nc.nc = ip_v4(0xac1f0000u + n % 1000);
            e.vm_nc.has_mac = false;
        } else {
            e.route.action = (struct route_action){ .scope = SCOPE_IDC,
                                                    .endpoint = ip_v4(0xac1f0001u),
                                                    .vni = 1 + n % 100 };
        }
        batch_add_entry(&batch, ENTRY_PUT, &e);
        apply(w, &batch);
        n++;
    }
    batch_writer_fini(&batch);
    print(name, routes, w->fib_s / n * 1e6, "us");
}

static void bench(uint32_t routes, const char *data, bool has_macs, double hz)
{
    struct fib_limits limits = { .seed = 1 };
    struct world w = { 0 };
    struct gen_config config;
    struct fib_stats stats;
    struct err err = { 0 };
    struct gen *g;

    gen_config_init(&config);
    config.routes = routes;
    config.data_dir = data;
    config.has_macs = has_macs;
    if (gen_new(&config, &g, &err)) {
        die(err.msg);
    }
    w.set = table_set_new();
    w.fib = fib_new(&limits);
    if (!w.set || !w.fib) {
        die("out of memory");
    }
    load(&w, g);
    stats = fib_stats(w.fib);
    print("fib_install", routes, w.fib_s * 1e3, "ms");
    print("fib_records", routes, w.set_s * 1e3, "ms");
    print("fib_bytes_per_entry", routes, (double)stats.memory_bytes / (double)w.entries,
          "B");
    print("fib_records_bytes_per_entry", routes,
          (double)table_set_memory(w.set) / (double)w.entries, "B");
    keys_choose(&w);
    measure_lookups(&w, routes, hz);
    measure_single(&w, g, TABLE_VM_NC, "fib_update_vm", routes);
    measure_single(&w, g, TABLE_VXLAN_ROUTE, "fib_update_route", routes);
    free(w.keys.at);
    fib_free(w.fib);
    table_set_free(w.set);
    gen_free(g);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "data", required_argument, NULL, 'd' },
                                             { "macs", no_argument, NULL, 'm' },
                                             { 0 } };
    static const uint32_t sizes[] = { 1000, 100000, 1000000 };
    const char *data = NULL;
    bool has_macs = false;
    double hz = tsc_hz();
    int c;

    printf("line %.1f cycles\n", line_cycles(hz));
    while ((c = getopt_long(argc, argv, "d:m", options, NULL)) != -1) {
        if (c == 'd') {
            data = optarg;
        } else if (c == 'm') {
            has_macs = true;
        } else {
            return 2;
        }
    }
    for (int i = optind; i < argc; i++) {
        bench((uint32_t)strtoul(argv[i], NULL, 10), data, has_macs, hz);
    }
    for (unsigned i = 0; optind == argc && i < sizeof sizes / sizeof *sizes; i++) {
        bench(sizes[i], data, has_macs, hz);
    }
    return 0;
}
