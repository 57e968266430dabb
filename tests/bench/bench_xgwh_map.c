#include "tests/bench/bench_xgwh_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/xgwh/xgwh_impl.h"
#include "tests/bench/gen.h"

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

static void drop_write(void *ctx, const struct phys_write *w)
{
    (void)ctx;
    (void)w;
}

static void drop_meter(void *ctx, const struct phys_meter_write *w)
{
    (void)ctx;
    (void)w;
}

static const struct xgwh_sink sink = { drop_write, drop_meter, NULL };

static struct xgwh *make(void)
{
    struct xgwh_options o = { .sizes = phys_sizes_bench(), .halves = 2 };
    struct xgwh *x = xgwh_new(&o);

    if (!x) {
        die("out of memory");
    }
    return x;
}

/* ---- in ---- */

struct install {
    struct xgwh *x;
    struct batch_writer w;
    struct xgwh_cost cost;
    uint64_t batches;
    uint64_t refused;
    double seconds;
};

static void apply(struct install *in)
{
    struct blob *b = batch_writer_finish(&in->w);
    struct xgwh_exceptions refused = { 0 };
    struct err err = { 0 };
    double t0 = cpu_s();

    if (!b || xgwh_apply(in->x, b->data, b->len, &sink, &refused, &in->cost, &err)) {
        die(err.msg);
    }
    in->seconds += cpu_s() - t0;
    in->batches++;
    in->refused += refused.count;
    xgwh_exceptions_fini(&refused);
    blob_unref(b);
}

static void add(struct install *in, const struct entry *e)
{
    batch_add_entry(&in->w, ENTRY_PUT, e);
    if (in->w.entry_count == BATCH_MAX_ENTRIES) {
        apply(in);
    }
}

static uint64_t install(struct xgwh *x, uint32_t routes, const char *data)
{
    struct install in = { .x = x };
    struct gen_config config;
    struct err err = { 0 };
    struct entry e;
    struct gen *g;
    uint32_t last = 0;

    gen_config_init(&config);
    config.routes = routes;
    config.data_dir = data;
    if (gen_new(&config, &g, &err)) {
        die(err.msg);
    }
    batch_writer_init(&in.w);
    while (gen_next(g, &e)) {
        if (e.vni != last) {
            struct entry vni = { .table = TABLE_VNI,
                                 .vni = e.vni,
                                 .vni_row.half = e.vni & 1 };

            add(&in, &vni);
            last = e.vni;
        }
        add(&in, &e);
    }
    apply(&in);
    batch_writer_fini(&in.w);
    gen_free(g);
    if (in.refused > 0) {
        die("rows were refused");
    }
    print("map_rows_per_s", (double)in.cost.rows / in.seconds, "rows/s");
    print("map_writes_per_row", (double)in.cost.writes / (double)in.cost.rows,
          "writes");
    print("map_barriers_per_batch", (double)in.cost.barriers / (double)in.batches,
          "barriers");
    print("map_bytes_per_row",
          (double)xgwh_status(x).memory_bytes / (double)in.cost.rows, "B");
    return in.cost.rows;
}

/* ---- out again ---- */

static bool read_entry(void *ctx, const struct phys_entry *e)
{
    if (xgwh_read_entry(ctx, e) != RC_OK) {
        die("an entry was not read");
    }
    return true;
}

/* Both devices hold it. */
static void read_both(struct xgwh *to, struct phys_entry *e)
{
    for (e->half = 0; e->half < 2; e->half++) {
        read_entry(to, e);
    }
}

/* Everything that the switch behind `from` holds, table by table. */
static void read_all(const struct xgwh *from, struct xgwh *to)
{
    const struct holds *h = &from->holds;
    struct phys_entry e;

    for (uint32_t i = 0; i < UINT32_C(1) << PHYS_NC_BITS; i++) {
        const struct nc *nc = &h->ncs.at[i];

        if (nc->family != IP_NONE) {
            e = phys_make(PHYS_NC, 0, 0);
            phys_set_key(&e, 0, i);
            phys_set_action(&e, nc->family == IP_V4 ? PHYS_NC4 : PHYS_NC6);
            phys_set_param_bytes(&e, 0, nc->addr);
            read_both(to, &e);
        }
    }
    for (uint32_t i = 0; i < u64map_places(&h->vnis); i++) {
        if (h->vnis.keys[i] != U64MAP_NONE) {
            vni_entry((uint32_t)h->vnis.keys[i], h->vnis.values[i], &e);
            read_both(to, &e);
        }
    }
    for (unsigned half = 0; half < 2; half++) {
        alpm_entries(from->alpm[half], read_entry, to);
    }
    for (uint32_t i = 0; i < u64map_places(&h->vm.slots); i++) {
        if (h->vm.slots.keys[i] != U64MAP_NONE) {
            vm_slot_entry(from, h->vm.slots.keys[i], h->vm.slots.values[i],
                          h->vm.slots.values[i] & SLOT_SPILL, &e);
            read_entry(to, &e);
        }
    }
    for (uint32_t i = 1; i <= h->vm.conflict_end; i++) {
        const struct conflict *c = &h->vm.conflicts[i];

        if (vm_find_conflict(&h->vm, c->slot, c->addr) == i) {
            vm_conflict_entry(from, c, &e);
            read_entry(to, &e);
        }
    }
}

static void take_rows(void *ctx, const uint8_t *batch, size_t len)
{
    (void)batch;
    *(size_t *)ctx += len;
}

static uint64_t readback(const struct xgwh *from, struct xgwh *to, uint64_t rows,
                         const char *name)
{
    struct xgwh_findings f;
    struct err err = { 0 };
    size_t bytes = 0;
    double t0 = cpu_s();

    if (xgwh_read_begin(to)) {
        die("out of memory");
    }
    read_all(from, to);
    if (xgwh_read_end(to, &sink, &f, &err) || xgwh_rows(to, take_rows, &bytes)) {
        die(err.msg);
    }
    print(name, (cpu_s() - t0) * 2e6 / (double)rows, "s");
    if (f.foreign + f.dangling + f.orphans + f.duplicate + f.split > 0 || bytes == 0) {
        die("a healthy switch was put right");
    }
    return f.unnamed;
}

void bench_map(uint32_t routes, const char *data)
{
    struct xgwh *x = make();
    struct xgwh *anew = make();
    uint64_t rows = install(x, routes, data);

    if (readback(x, x, rows, "readback_seconds_2m") != 0) {
        die("rows of before were not recognised");
    }
    print("map_unnamed_share",
          (double)readback(x, anew, rows, "readback_seconds_2m_anew") / (double)rows,
          "rows");
    xgwh_free(x);
    xgwh_free(anew);
}
