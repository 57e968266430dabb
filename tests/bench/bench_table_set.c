/*
 * bench_table_set - what the generator's region costs in a table_set, how fast batches
 * go in, and what one change in a large VNI costs.  Prints `name value unit` lines.
 *
 *   bench_table_set [--data DIR] [ROUTES]     default 1,000,000 and as many VM-NC
 *
 * bytes_per_entry is the growth of the resident set over routes and VM-NC entries; the
 * tenants' rows are in it.
 */
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/model/table_set.h"
#include "tests/bench/gen.h"

struct batches {
    struct blob **at;
    uint32_t count;
    uint32_t cap;
    uint64_t entries;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_table_set: %s\n", what);
    exit(1);
}

/* This thread's time on a core, not the shared host's wall clock. */
static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (!f || fscanf(f, "%*s %lu", &pages) != 1) {
        die("/proc/self/statm");
    }
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void close_batch(struct batches *b, struct batch_writer *w)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 256;
        b->at = realloc(b->at, b->cap * sizeof(struct blob *));
        if (!b->at) {
            die("out of memory");
        }
    }
    b->entries += w->entry_count;
    b->at[b->count] = batch_writer_finish(w);
    if (!b->at[b->count++]) {
        die("out of memory");
    }
}

static void add(struct batches *b, struct batch_writer *w, const struct entry *e)
{
    batch_add_entry(w, ENTRY_PUT, e);
    if (w->entry_count == BATCH_MAX_ENTRIES || batch_writer_bytes(w) > 900000) {
        close_batch(b, w);
    }
}

static void make_batches(struct gen *g, struct batches *tenants,
                         struct batches *entries)
{
    struct batch_writer w;
    struct entry e;

    batch_writer_init(&w);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        gen_tenant(g, i, &e);
        add(tenants, &w, &e);
    }
    close_batch(tenants, &w);
    while (gen_next(g, &e)) {
        add(entries, &w, &e);
    }
    close_batch(entries, &w);
    batch_writer_fini(&w);
}

static double apply_all(struct table_set *s, const struct batches *b)
{
    double start = cpu_s();

    for (uint32_t i = 0; i < b->count; i++) {
        struct change_list changes = { 0 };

        if (table_set_apply(s, b->at[i]->data, b->at[i]->len, &changes, NULL, NULL)) {
            die("apply failed");
        }
        change_list_fini(&changes);
    }
    return cpu_s() - start;
}

static void free_batches(struct batches *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        blob_unref(b->at[i]);
    }
    free(b->at);
}

/* One row in or out of the largest VNI at a time, as the API does it: a batch of one
 * change, its rows kept until the next. */
static double single_edits(struct table_set *s, uint32_t vni, enum table_id table,
                           uint32_t count)
{
    struct rows *rows = rows_ref(table_set_rows(s, vni, table));
    uint32_t total = rows_count(rows);
    struct blob **batches = calloc(count, sizeof(struct blob *));
    struct batch_writer w;
    uint64_t random = 7;
    double start;

    if (!batches) {
        die("out of memory");
    }
    batch_writer_init(&w);
    for (uint32_t i = 0; i < count; i += 2) { /* a row out, the same row in */
        struct rows_iter it = rows_begin(rows, table);
        uint32_t pages = rows_page_count(rows);
        struct rows_page page = rows_page_at(rows, gen_random(&random) % pages);
        uint32_t skip = (uint32_t)(gen_random(&random) % page.count);
        struct row row;
        struct row gone;

        it.p = page.data;
        it.end = page.data + page.bytes;
        do {
            rows_next(&it, &row);
        } while (skip-- > 0);
        gone = (struct row){ .key = row.key, .key_len = row.key_len };
        batch_add_row(&w, BATCH_DELETE, table, vni, &gone);
        batches[i] = batch_writer_finish(&w);
        batch_add_row(&w, BATCH_PUT, table, vni, &row);
        batches[i + 1] = batch_writer_finish(&w);
    }
    rows_unref(rows);
    start = cpu_s();
    for (uint32_t i = 0; i < count; i++) {
        if (table_set_apply(s, batches[i]->data, batches[i]->len, NULL, NULL, NULL)) {
            die("apply failed");
        }
    }
    start = cpu_s() - start;
    if (rows_count(table_set_rows(s, vni, table)) != total) {
        die("rows were lost");
    }
    for (uint32_t i = 0; i < count; i++) {
        blob_unref(batches[i]);
    }
    free(batches);
    batch_writer_fini(&w);
    return start / count;
}

static uint32_t largest_vni(const struct gen *g)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        best = gen_vni_routes(g, i) > gen_vni_routes(g, best) ? i : best;
    }
    return gen_vni(g, best);
}

int main(int argc, char **argv)
{
    static const struct option names[] = { { "data", required_argument, NULL, 'd' },
                                           { 0 } };
    const uint32_t edits = 100000;
    struct gen_config config;
    struct batches tenants = { 0 };
    struct batches entries = { 0 };
    struct err err = { 0 };
    struct table_set *s;
    struct gen *g = NULL;
    uint32_t vni;
    size_t before;
    double tenant_s;
    double entry_s;
    double edit_s;
    int c;

    gen_config_init(&config);
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c != 'd') {
            return 2;
        }
        config.data_dir = optarg;
    }
    if (optind < argc) {
        config.routes = (uint32_t)strtoul(argv[optind], NULL, 10);
    }
    if (gen_new(&config, &g, &err)) {
        die(err.msg);
    }
    make_batches(g, &tenants, &entries);
    vni = largest_vni(g);
    gen_free(g);
    s = table_set_new();
    if (!s) {
        die("out of memory");
    }
    malloc_trim(0);
    before = resident_bytes();
    tenant_s = apply_all(s, &tenants);
    entry_s = apply_all(s, &entries);
    printf("bytes_per_entry %.1f B\n",
           (double)(resident_bytes() - before) / (double)entries.entries);
    printf("counted_bytes_per_entry %.1f B\n",
           (double)table_set_memory(s) / (double)entries.entries);
    printf("apply_entries_per_s %.0f /s\n", (double)entries.entries / entry_s);
    printf("apply_tenants_per_s %.0f /s\n", (double)tenants.entries / tenant_s);
    edit_s = single_edits(s, vni, TABLE_VM_NC, edits);
    printf("single_edit_ns %.0f ns\n", edit_s * 1e9);
    printf("single_edit_rows %u rows\n",
           rows_count(table_set_rows(s, vni, TABLE_VM_NC)));
    table_set_free(s);
    free_batches(&tenants);
    free_batches(&entries);
    return 0;
}
