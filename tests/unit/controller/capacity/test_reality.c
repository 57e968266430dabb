/*
 * The model against reality: what capacity_predict() says a set of entries takes, and
 * what the mapping of agent/xgwh makes of the same entries.  Within 3 % on TCAM rows
 * and on SRAM words, both in total.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "agent/xgwh/xgwh.h"
#include "controller/capacity/predict.h"
#include "tests/bench/gen.h"
#include "tests/bench/gen_prefixes.h"

#define L         (&layout_xgw_h)
#define TOLERANCE 0.03
/* Rounds of background work that a build may take until nothing is left to gain. */
#define REPACK_ROUNDS 2000

/* One set of entries on its way to both sides. */
struct set {
    struct xgwh *real;
    struct table_set *rows;
    struct batch_writer batch;
    uint64_t refused;
    struct ip *ends; /* NCs and tunnel endpoints, as they come */
    size_t end_count;
    size_t end_cap;
};

static void ignore(void *ctx, const struct phys_write *w)
{
    (void)ctx;
    (void)w;
}

static void ignore_meter(void *ctx, const struct phys_meter_write *w)
{
    (void)ctx;
    (void)w;
}

static const struct xgwh_sink sink = { ignore, ignore_meter, NULL };

static void set_init(struct set *s)
{
    struct xgwh_options options = { .sizes = phys_sizes_tofino(),
                                    .halves = 2,
                                    .repack = 4096 };

    memset(s, 0, sizeof(*s));
    s->real = xgwh_new(&options);
    s->rows = table_set_new();
    batch_writer_init(&s->batch);
    ck_assert_ptr_nonnull(s->real);
    ck_assert_ptr_nonnull(s->rows);
}

static void flush(struct set *s)
{
    struct blob *batch = batch_writer_finish(&s->batch);
    struct xgwh_exceptions refused = { 0 };
    struct xgwh_cost cost = { 0 };
    struct change_list changes = { 0 };
    struct rows_change total;
    struct err err = { 0 };

    ck_assert_ptr_nonnull(batch);
    ck_assert_int_eq(
        xgwh_apply(s->real, batch->data, batch->len, &sink, &refused, &cost, &err),
        RC_OK);
    s->refused += refused.count + refused.unlisted;
    ck_assert_int_eq(
        table_set_apply(s->rows, batch->data, batch->len, &changes, &total, &err),
        RC_OK);
    xgwh_exceptions_fini(&refused);
    change_list_fini(&changes);
    blob_unref(batch);
}

static void add_end(struct set *s, struct ip end)
{
    if (s->end_count == s->end_cap) {
        s->end_cap = s->end_cap ? 2 * s->end_cap : 4096;
        s->ends = realloc(s->ends, s->end_cap * sizeof(*s->ends));
        ck_assert_ptr_nonnull(s->ends);
    }
    s->ends[s->end_count++] = end;
}

static void put(struct set *s, const struct entry *e)
{
    if (e->table == TABLE_VM_NC) {
        add_end(s, e->vm_nc.nc);
    } else if (e->table == TABLE_VXLAN_ROUTE &&
               e->route.action.endpoint.family != IP_NONE) {
        add_end(s, e->route.action.endpoint);
    }
    batch_add_entry(&s->batch, ENTRY_PUT, e);
    if (s->batch.entry_count >= BATCH_MAX_ENTRIES ||
        batch_writer_bytes(&s->batch) >= BATCH_SEND_BYTES) {
        flush(s);
    }
}

static void put_vni(struct set *s, uint32_t vni)
{
    struct entry e = { .table = TABLE_VNI, .vni = vni };

    e.vni_row.half = vni & 1;
    put(s, &e);
}

/* Background work goes on with each change, so one entry is changed to and fro. */
static void repack(struct set *s)
{
    for (unsigned i = 0; i < REPACK_ROUNDS; i++) {
        struct xgwh_status before = xgwh_status(s->real);
        struct xgwh_status after;

        for (unsigned flags = 0; flags < 2; flags++) {
            struct entry e = { .table = TABLE_VNI, .vni = 1 };

            e.vni_row.half = 1;
            e.vni_row.flags = flags ? VNI_INTERNET : 0;
            batch_add_entry(&s->batch, ENTRY_PUT, &e);
            flush(s);
        }
        after = xgwh_status(s->real);
        if (i > 8 && after.usage.partitions[0] == before.usage.partitions[0] &&
            after.usage.partitions[1] == before.usage.partitions[1]) {
            return;
        }
    }
}

/* --- both sides ------------------------------------------------------------------- */

static int compare_ends(const void *a, const void *b)
{
    return ip_compare(a, b);
}

static void count_ends(const struct set *s, struct node_counts *node)
{
    if (s->end_count > 0) {
        qsort(s->ends, s->end_count, sizeof(*s->ends), compare_ends);
    }
    for (size_t i = 0; i < s->end_count; i++) {
        if (i == 0 || ip_compare(&s->ends[i], &s->ends[i - 1]) != 0) {
            ++*(s->ends[i].family == IP_V4 ? &node->ncs_v4 : &node->ncs_v6);
        }
    }
}

static struct physical_use predict(const struct set *s)
{
    struct half_counter half[2];
    struct half_counts counts[2];
    struct node_counts node = { 0 };
    struct physical_use use;

    count_ends(s, &node);
    for (unsigned h = 0; h < 2; h++) {
        half_counter_init(&half[h], L);
    }
    for (uint32_t vni = 1; vni <= VNI_MAX; vni++) {
        if (table_set_rows(s->rows, vni, TABLE_VNI)) {
            ck_assert(half_counter_vni(&half[vni & 1], vni,
                                       table_set_rows(s->rows, vni, TABLE_VXLAN_ROUTE),
                                       table_set_rows(s->rows, vni, TABLE_VM_NC)));
            node.vnis++;
        }
    }
    for (unsigned h = 0; h < 2; h++) {
        counts[h] = half_counter_sum(&half[h]);
    }
    capacity_predict(L, &chips[0], counts, &node, &use);
    return use;
}

static void measure(const struct set *s, double *ret_rows, double *ret_words)
{
    struct xgwh_status status = xgwh_status(s->real);
    double rows = 0;
    double words = 0;

    for (unsigned p = 0; p < PHYS_TABLES; p++) {
        const struct phys_table_desc *desc = phys_table_desc((enum phys_table)p);
        const struct layout_table *t = layout_table(L, desc->name);

        for (unsigned h = 0; h < (desc->halved ? 2u : 1u); h++) {
            double used = status.usage.used[p][h];

            if (p == PHYS_ROUTE_PART) { /* all slots of a partition are paid for */
                used = (double)status.usage.partitions[h] * L->partition_slots;
            }
            rows += t->match == MATCH_TERNARY ? used : 0;
            words += used * t->words;
        }
    }
    *ret_rows = rows;
    *ret_words = words;
}

/* Totals are mostly partitions: the other tables have to agree by themselves. */
static void compare_tables(const struct physical_use *use,
                           const struct xgwh_status *status)
{
    static const enum phys_table tables[] = { PHYS_VNI, PHYS_VM_NC, PHYS_VM_NC_SPILL,
                                              PHYS_VM_NC_CONFLICT, PHYS_NC };

    for (unsigned i = 0; i < ARRAY_LEN(tables); i++) {
        for (unsigned h = 0; h < 2; h++) {
            double used = status->usage.used[tables[i]][h];
            double predicted = 0;

            for (unsigned t = 0; t < L->table_count; t++) {
                if (strcmp(L->tables[t].name, phys_table_desc(tables[i])->name) == 0) {
                    predicted += use->entries[h][t];
                }
            }
            ck_assert_double_le(fabs(predicted - used), TOLERANCE * used + 1);
        }
    }
}

static void compare(struct set *s, const char *what)
{
    struct physical_use use;
    struct xgwh_status status;
    double rows, words;

    flush(s);
    ck_assert_uint_eq(s->refused, 0);
    repack(s);
    status = xgwh_status(s->real);
    use = predict(s);
    measure(s, &rows, &words);
    printf("%s: rows %.0f predicted, %.0f allocated (%+.2f %%); words %.0f, %.0f "
           "(%+.2f %%); %.2f routes a row\n",
           what, use.tcam_rows, rows, 100 * (use.tcam_rows / rows - 1), use.sram_words,
           words, 100 * (use.sram_words / words - 1),
           (double)(status.usage.routes[0] + status.usage.routes[1]) / rows);
    ck_assert_double_gt(rows, 500); /* or 3 % say nothing */
    ck_assert_double_le(fabs(use.tcam_rows / rows - 1), TOLERANCE);
    ck_assert_double_le(fabs(use.sram_words / words - 1), TOLERANCE);
    ck_assert_double_le(use.fullest, 1);
    compare_tables(&use, &status);
    xgwh_free(s->real);
    table_set_free(s->rows);
    batch_writer_fini(&s->batch);
    free(s->ends);
}

static const char *data_dir(void)
{
    return getenv("XGW_DATA") ? getenv("XGW_DATA") : "../shared/data";
}

/* --- sets ------------------------------------------------------------------------- */

/* The region of all benches; with announced prefixes where they are. */
static void put_region(struct set *s, uint32_t routes, const char *dir)
{
    struct gen_config config;
    struct gen *g;
    struct entry e;

    gen_config_init(&config);
    config.routes = routes;
    config.data_dir = dir;
    ck_assert_int_eq(gen_new(&config, &g, NULL), RC_OK);
    put_vni(s, 1);
    for (uint32_t i = 0; i < gen_vni_count(g); i++) {
        put_vni(s, gen_vni(g, i));
    }
    while (gen_next(g, &e)) {
        put(s, &e);
    }
    gen_free(g);
}

START_TEST(a_generated_region_takes_what_was_predicted)
{
    struct set s;

    set_init(&s);
    put_region(&s, 80000, NULL);
    compare(&s, "region of made-up prefixes");
}
END_TEST

START_TEST(a_region_of_announced_prefixes_takes_what_was_predicted)
{
    struct gen_prefixes there = { 0 };
    struct set s;

    if (gen_prefixes_read(data_dir(), &there, NULL) != RC_OK) {
        return; /* not a part of the repository */
    }
    gen_prefixes_fini(&there);
    set_init(&s);
    put_region(&s, 80000, data_dir());
    compare(&s, "region of announced prefixes");
}
END_TEST

static void put_list(struct set *s, uint32_t vni, const struct prefix_list *list,
                     uint32_t every)
{
    for (uint32_t i = 0; i < list->count; i += every) {
        struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

        e.route.dst = list->at[i];
        e.route.action.scope = SCOPE_LOCAL;
        put(s, &e);
    }
}

START_TEST(a_full_table_in_one_vni_takes_what_was_predicted)
{
    struct gen_prefixes announced = { 0 };
    struct set s;

    if (gen_prefixes_read(data_dir(), &announced, NULL) != RC_OK) {
        return; /* not a part of the repository */
    }
    set_init(&s);
    put_vni(&s, 1);
    put_vni(&s, 2);
    put_list(&s, 1, &announced.v4, 40);
    put_list(&s, 1, &announced.v6, 10);
    put_list(&s, 2, &announced.v6, 4);
    gen_prefixes_fini(&announced);
    compare(&s, "parts of a full table in two VNIs");
}
END_TEST

/* Neighbouring numbers, or spread over the space. */
static const uint32_t steps[] = { 1, 167 };

START_TEST(many_small_tenants_take_what_was_predicted)
{
    struct set s;
    uint64_t random = 5;

    set_init(&s);
    for (uint32_t i = 0; i < 24000; i++) {
        uint32_t vni = 1 + i * steps[_i];
        unsigned routes = 1 + (unsigned)(gen_random(&random) % 6);

        put_vni(&s, vni);
        for (unsigned k = 0; k < routes; k++) {
            struct entry e = { .table = TABLE_VXLAN_ROUTE, .vni = vni };

            e.route.dst = (struct prefix){ ip_v4(0x0a000000 | k << 16), 24 };
            e.route.action.scope = SCOPE_LOCAL;
            put(&s, &e);
            e = (struct entry){ .table = TABLE_VM_NC, .vni = vni };
            e.vm_nc.vm = ip_v4(0x0a000005 | k << 16);
            e.vm_nc.nc = ip_v4(0xc6330000 + (uint32_t)(gen_random(&random) % 4000));
            put(&s, &e);
        }
    }
    compare(&s, steps[_i] == 1 ? "small tenants, side by side"
                               : "small tenants, far apart");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("reality");

    tcase_set_timeout(tc, 280);
    tcase_add_test(tc, a_generated_region_takes_what_was_predicted);
    tcase_add_test(tc, a_region_of_announced_prefixes_takes_what_was_predicted);
    tcase_add_test(tc, a_full_table_in_one_vni_takes_what_was_predicted);
    tcase_add_loop_test(tc, many_small_tenants_take_what_was_predicted, 0,
                        ARRAY_LEN(steps));
    return unit_run("reality", tc);
}
