/* What a caller meets: routes that cannot be, tables that are full, memory that runs
 * out at every place, read-backs that are broken, and how few rows a build takes.  The
 * linker sends malloc, calloc and realloc through here (--wrap). */
#include <string.h>

#include "tests/bench/gen.h"
#include "tests/unit/agent/xgwh/alpm_model.h"
#include "tests/unit/agent/xgwh/alpm_naive.h"
#include "tests/unit/unit.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static long allocations_left = -1; /* -1: no limit */

static bool may_allocate(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

void *__wrap_malloc(size_t n)
{
    return may_allocate() ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return may_allocate() ? __real_realloc(p, n) : NULL;
}

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(gen_random(&seed) % n);
}

static struct phys_sizes sizes_of(uint32_t partitions, uint32_t b, uint32_t rows)
{
    struct phys_sizes s = { .partitions = partitions, .partition_slots = b };

    s.table[PHYS_ROUTE_TCAM] = rows;
    return s;
}

/* 10.x.y.z/len of `vni`, by tunnel. */
static struct alpm_change put(uint32_t vni, uint32_t host, unsigned len)
{
    struct alpm_change c = { .route = { .vni = vni, .len = (uint8_t)(96 + len) } };
    uint32_t addr = (0x0a000000u | host) & (len ? ~UINT32_C(0) << (32 - len) : 0);

    c.route.addr[10] = c.route.addr[11] = 0xff;
    for (unsigned i = 0; i < 4; i++) {
        c.route.addr[12 + i] = (uint8_t)(addr >> (24 - 8 * i));
    }
    c.route.result =
        (struct alpm_result){ PHYS_SCOPE_TUNNEL, vni ^ 0xabc, host & 0xffff };
    return c;
}

static struct alpm_change random_put(void)
{
    return put(1 + below(5), below(1 << 12) << 8, 12 + below(13));
}

static enum rc apply(struct alpm *a, const struct alpm_change *c, size_t n,
                     struct writes *w)
{
    struct alpm_cost cost = { 0 };
    struct err err = { 0 };
    enum rc rc = alpm_apply(a, c, n, writes_add, w, &cost, &err);

    ck_assert_int_eq(rc != RC_OK, err.msg[0] != '\0');
    ck_assert_uint_eq(cost.slot_writes + cost.move_writes + cost.cover_writes,
                      w->count);
    return rc;
}

/* ---- routes that cannot be ---- */

static const struct {
    uint32_t vni;
    uint8_t last; /* byte of the address */
    uint8_t len;
    struct alpm_result result;
    enum rc rc;
} forms[] = {
    { 0xffffff, 1, 128, { PHYS_SCOPE_LOCAL, 1u << 30, 1u << 30 }, RC_OK },
    { 1, 0, 0, { PHYS_SCOPE_TUNNEL, 0xffffff, (1 << 17) - 1 }, RC_OK },
    { 1, 0, 127, { PHYS_SCOPE_PEER, 0, 3 }, RC_OK },
    { 1, 0, 127, { PHYS_SCOPE_FALLBACK, 1u << 30, 1 }, RC_OK },
    { 0x1000000, 1, 128, { PHYS_SCOPE_LOCAL, 0, 0 }, RC_INVALID },
    { 1, 0, 129, { PHYS_SCOPE_LOCAL, 0, 0 }, RC_INVALID },
    { 1, 1, 127, { PHYS_SCOPE_LOCAL, 0, 0 }, RC_INVALID }, /* a bit behind the length */
    { 1, 1, 128, { PHYS_SCOPE_MISS, 0, 0 }, RC_INVALID },
    { 1, 1, 128, { 5, 0, 0 }, RC_INVALID },
    { 1, 1, 128, { PHYS_SCOPE_PEER, 0x1000000, 0 }, RC_INVALID },
    { 1, 1, 128, { PHYS_SCOPE_PEER, 1, 4 }, RC_INVALID },
    { 1, 1, 128, { PHYS_SCOPE_TUNNEL, 1, 1 << 17 }, RC_INVALID },
    { 1, 1, 128, { PHYS_SCOPE_FALLBACK, 0, 2 }, RC_INVALID },
};

START_TEST(a_route_that_cannot_be_is_refused_and_its_call_changes_nothing)
{
    struct phys_sizes sizes = sizes_of(10, 16, 10);
    struct alpm_change c[2] = { put(1, 0, 8), put(forms[_i].vni, 0, 0) };
    struct writes w = { 0 };
    struct alpm_result got;
    struct alpm *a;

    memset(c[1].route.addr, 0, 16);
    c[1].route.addr[15] = forms[_i].last;
    c[1].route.len = forms[_i].len;
    c[1].route.result = forms[_i].result;
    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    ck_assert_int_eq(apply(a, c, 2, &w), forms[_i].rc);
    ck_assert_uint_eq(alpm_stats(a).routes, forms[_i].rc ? 0 : 2);
    if (forms[_i].rc) {
        ck_assert_uint_eq(w.count, 0);
    } else {
        struct alpm_result want = result_normal(&c[1].route);

        ck_assert(alpm_get(a, forms[_i].vni, c[1].route.addr, forms[_i].len, &got));
        ck_assert(result_equal(&got, &want));
    }
    writes_fini(&w);
    alpm_free(a);
}
END_TEST

START_TEST(sizes_that_no_table_has_are_refused)
{
    static const uint32_t bad[][3] = {
        { 10, 3, 10 }, { 10, 65, 10 }, { 2, 16, 10 }, { 10, 16, 1 }
    };
    struct alpm *a = NULL;

    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        struct phys_sizes sizes = sizes_of(bad[i][0], bad[i][1], bad[i][2]);

        ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_RANGE);
        ck_assert_ptr_null(a);
    }
}
END_TEST

START_TEST(what_is_there_costs_nothing_and_of_two_with_one_key_the_later_counts)
{
    struct phys_sizes sizes = sizes_of(10, 16, 10);
    struct alpm_change c[3] = { put(1, 0x100, 24), put(1, 0x100, 24), put(2, 0, 8) };
    struct writes w = { 0 };
    struct alpm_result got;
    struct alpm *a;

    c[1].route.result.idx = 77;
    c[2].is_delete = true;
    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    ck_assert_int_eq(apply(a, c, 3, &w), RC_OK);
    ck_assert_uint_eq(w.count, 2); /* a slot and the row at the empty prefix */
    ck_assert(alpm_get(a, 1, c[0].route.addr, c[0].route.len, &got));
    ck_assert_uint_eq(got.idx, 77);
    w.count = 0;
    ck_assert_int_eq(apply(a, c + 1, 2, &w), RC_OK);
    ck_assert_int_eq(apply(a, c, 0, &w), RC_OK);
    ck_assert_uint_eq(w.count, 0);
    c[1].is_delete = true;
    ck_assert_int_eq(apply(a, c, 2, &w), RC_OK);
    ck_assert_uint_eq(alpm_stats(a).rows, 0);
    ck_assert_uint_eq(alpm_stats(a).routes, 0);
    writes_fini(&w);
    alpm_free(a);
}
END_TEST

/* ---- full ---- */

START_TEST(a_full_table_refuses_before_the_first_write_and_keeps_what_it_has)
{
    struct phys_sizes sizes = sizes_of(40 - 10 * (uint32_t)_i, 4, 30);
    struct model *m = model_new(&sizes);
    struct writes w = { 0 };
    struct alpm_change c[8];
    struct alpm_cost cost = { 0 };
    bool done = false;
    unsigned refused = 0;
    struct alpm *a;

    seed = 3;
    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    for (unsigned n = 0; n < 3000; n++) {
        uint64_t routes = alpm_stats(a).routes;
        enum rc rc;

        for (unsigned i = 0; i < 8; i++) {
            c[i] = random_put();
            c[i].is_delete = refused && below(4) == 0;
        }
        rc = apply(a, c, 8, &w);
        ck_assert(rc == RC_OK || rc == RC_FULL);
        if (rc) {
            refused++;
            ck_assert_uint_eq(w.count, 0);
            ck_assert_uint_eq(alpm_stats(a).routes, routes);
            model_check_entries(m, a);
        }
        for (size_t i = 0; i < w.count; i++) {
            model_write(m, &w.at[i]);
        }
        w.count = 0;
    }
    ck_assert_uint_gt(refused, 100);
    ck_assert_uint_le(alpm_stats(a).rows, alpm_stats(a).rows_max);
    while (!done) {
        ck_assert_int_eq(alpm_repack(a, 100, model_sink, m, &cost, &done), RC_OK);
    }
    model_check_entries(m, a);
    writes_fini(&w);
    alpm_free(a);
    model_free(m);
}
END_TEST

/* ---- memory ---- */

START_TEST(memory_that_runs_out_anywhere_changes_nothing)
{
    struct phys_sizes sizes = sizes_of(2000, 4, 2000);
    struct model *m = model_new(&sizes);
    struct writes w = { 0 };
    unsigned failed = 0;
    struct alpm *a = NULL;

    seed = 5;
    for (long n = 0; !a; n++) {
        allocations_left = n;
        failed += alpm_new(&sizes, 0, &a) == RC_NO_MEMORY;
        allocations_left = -1;
    }
    ck_assert_uint_gt(failed, 3);
    for (unsigned round = 0; round < 12; round++) {
        struct alpm_change c[512];
        struct alpm_cost cost = { 0 };
        size_t count = 1u << (round < 9 ? round : 9);
        enum rc rc = RC_NO_MEMORY;

        for (size_t i = 0; i < count; i++) {
            c[i] = random_put();
            c[i].is_delete = below(5) == 0;
        }
        writes_fini(&w);
        w.at = malloc(20000 * sizeof *w.at);
        w.cap = 20000;
        for (long n = 0; rc; n++) {
            allocations_left = n;
            rc = alpm_apply(a, c, count, writes_add, &w, &cost, NULL);
            allocations_left = -1;
            failed += rc == RC_NO_MEMORY;
            ck_assert(rc == RC_OK || (rc == RC_NO_MEMORY && w.count == 0));
            if (rc) {
                model_check_entries(m, a);
            }
        }
        for (size_t i = 0; i < w.count; i++) {
            model_write(m, &w.at[i]);
        }
        model_check_entries(m, a);
        w.count = 0;
        for (bool done = false; !done;) {
            allocations_left = round % 3;
            rc = alpm_repack(a, 50, writes_add, &w, &cost, &done);
            allocations_left = -1;
            ck_assert(rc == RC_OK || rc == RC_NO_MEMORY);
            failed += rc == RC_NO_MEMORY;
            done |= rc == RC_NO_MEMORY;
        }
        for (size_t i = 0; i < w.count; i++) {
            model_write(m, &w.at[i]);
        }
        model_check_entries(m, a);
    }
    ck_assert_uint_gt(failed, 20);
    writes_fini(&w);
    alpm_free(a);
    model_free(m);
}
END_TEST

START_TEST(a_read_back_without_memory_leaves_the_old_belief)
{
    struct phys_sizes sizes = sizes_of(2000, 4, 2000);
    struct model *m = model_new(&sizes);
    struct writes w = { 0 };
    struct alpm_change c[600];
    struct alpm_findings found;
    struct alpm_cost cost = { 0 };
    struct phys_entry *e;
    enum rc rc = RC_NO_MEMORY;
    size_t count;
    struct alpm *a;
    struct alpm *b;

    seed = 6;
    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    ck_assert_int_eq(alpm_new(&sizes, 0, &b), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        c[i] = random_put();
    }
    ck_assert_int_eq(alpm_apply(a, c, ARRAY_LEN(c), model_sink, m, &cost, NULL), RC_OK);
    ck_assert_int_eq(apply(b, c, 5, &w), RC_OK);
    w.count = 0;
    count = model_entries(m, &e);
    for (long n = 0; rc; n++) {
        ck_assert_int_lt(n, 10000);
        allocations_left = n;
        rc = alpm_read_begin(b);
        for (size_t i = 0; !rc && i < count; i++) {
            rc = alpm_read_entry(b, &e[i]);
        }
        rc = rc ? rc : alpm_read_end(b, writes_add, &w, &cost, &found);
        allocations_left = -1;
        alpm_read_abort(b);
        if (rc) {
            ck_assert_uint_eq(alpm_stats(b).routes, 5);
        }
    }
    ck_assert_uint_eq(w.count, 0);
    model_check_entries(m, b);
    writes_fini(&w);
    free(e);
    alpm_free(a);
    alpm_free(b);
    model_free(m);
}
END_TEST

/* ---- broken read-backs ---- */

static bool collect(void *ctx, const struct alpm_route *route)
{
    struct alpm_change c = { .route = *route };

    naive_apply(ctx, &c, 1);
    return true;
}

static void check_answers(const struct alpm *a, const struct model *m)
{
    struct naive *n = naive_new();

    alpm_routes(a, collect, n);
    ck_assert_uint_eq(naive_count(n), alpm_stats(a).routes);
    for (unsigned i = 0; i < 300; i++) {
        struct alpm_change at = put(1 + below(5), below(1 << 20), 32);
        struct alpm_result want;
        struct alpm_result got;

        naive_lookup(n, at.route.vni, at.route.addr, &want);
        alpm_lookup(a, at.route.vni, at.route.addr, &got);
        ck_assert(result_equal(&got, &want));
        model_lookup(m, at.route.vni, at.route.addr, &got);
        ck_assert(result_equal(&got, &want));
    }
    naive_free(n);
}

/* Breaks one entry in one of the ways that bits can. */
static void break_entry(struct phys_entry *e)
{
    unsigned bit = below(8);

    switch (below(6)) {
    case 0:
        e->key[below(phys_table_desc(e->table)->key_len)] ^= (uint8_t)(1 << bit);
        break;
    case 1:
        e->mask[2 + below(phys_table_desc(e->table)->key_len - 2)] ^=
            (uint8_t)(1 << bit);
        break;
    case 2:
        e->priority += below(3) ? 1 : (uint32_t) - (int)e->priority;
        break;
    case 3:
        e->data[below(9)] ^= (uint8_t)(1 << bit);
        break;
    case 4:
        e->action = (uint8_t)below(PHYS_ACTIONS);
        break;
    default:
        e->key[1] ^= (uint8_t)(1 << bit); /* another partition, or another VNI */
        break;
    }
}

START_TEST(a_broken_read_back_ends_in_a_table_that_answers_by_its_routes)
{
    struct phys_sizes sizes =
        sizes_of(_i % 2 ? 300 : 120, 4 + 4 * (uint32_t)(_i % 4), _i % 2 ? 300 : 120);
    struct model *m = model_new(&sizes);
    struct model *broken = model_new(&sizes);
    struct alpm_cost cost = { 0 };
    struct alpm_findings found;
    struct writes repairs = { 0 };
    struct alpm_change c[400];
    struct phys_entry *e;
    struct alpm *a;
    size_t count;

    seed = 100 + (uint64_t)_i;
    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        c[i] = random_put();
    }
    ck_assert_int_eq(alpm_apply(a, c, ARRAY_LEN(c), model_sink, m, &cost, NULL), RC_OK);
    count = model_entries(m, &e);
    for (size_t i = 0; i < count; i++) {
        unsigned what = below(12);

        if (what == 0) {
            continue; /* lost */
        }
        model_put_raw(broken, &e[i]);
        if (what == 1) {
            break_entry(&e[i]); /* one too many */
            model_put_raw(broken, &e[i]);
        }
    }
    model_read_back(broken, a, &seed, &repairs, &found);
    ck_assert_uint_gt(found.foreign, 0);
    ck_assert_uint_gt(found.orphans, 0);
    for (size_t i = 0; i < repairs.count; i++) {
        model_write(broken, &repairs.at[i]);
    }
    model_check_entries(broken, a);
    check_answers(a, broken);
    /* And it works on. */
    repairs.count = 0;
    ck_assert_int_eq(alpm_apply(a, c, 50, model_sink, broken, &cost, NULL), RC_OK);
    model_check_entries(broken, a);
    check_answers(a, broken);
    model_read_back(broken, a, &seed, &repairs, &found);
    ck_assert_uint_eq(repairs.count, 0);
    writes_fini(&repairs);
    free(e);
    alpm_free(a);
    model_free(m);
    model_free(broken);
}
END_TEST

START_TEST(a_read_back_takes_no_entries_of_other_tables)
{
    struct phys_sizes sizes = sizes_of(10, 16, 10);
    struct phys_entry e = { .table = PHYS_VM_NC };
    struct alpm *a;

    ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
    ck_assert_int_eq(alpm_read_begin(a), RC_OK);
    ck_assert_int_eq(alpm_read_entry(a, &e), RC_INVALID);
    alpm_read_abort(a);
    alpm_free(a);
}
END_TEST

/* ---- fewest rows ---- */

enum { CAP = 4, MANY = 1000 };

/* Parts closed below the node of `depth` bits above routes lo to hi, for each number of
 * routes that the open part at the node has: every way tried. */
static void fewest(const struct alpm_change *c, unsigned lo, unsigned hi,
                   unsigned depth, unsigned ret[CAP + 1])
{
    unsigned own = 0;
    unsigned mid;
    unsigned side[2][CAP + 1];

    for (unsigned i = 0; i <= CAP; i++) {
        ret[i] = MANY;
    }
    if (lo == hi) {
        ret[0] = 0;
        return;
    }
    own = c[lo].route.len == depth;
    for (mid = lo + own;
         mid < hi && !(c[mid].route.addr[depth / 8] >> (7 - depth % 8) & 1); mid++) {
    }
    if (lo + own == hi) {
        ret[1] = 0;
        return;
    }
    fewest(c, lo + own, mid, depth + 1, side[0]);
    fewest(c, mid, hi, depth + 1, side[1]);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 1; k <= CAP; k++) { /* closed at its root */
            if (side[i][k] + 1 < side[i][0]) {
                side[i][0] = side[i][k] + 1;
            }
        }
    }
    for (unsigned i = 0; i + own <= CAP; i++) {
        for (unsigned k = 0; i + k + own <= CAP; k++) {
            if (side[0][i] + side[1][k] < ret[i + k + own]) {
                ret[i + k + own] = side[0][i] + side[1][k];
            }
        }
    }
}

static int compare_route(const void *x, const void *y)
{
    const struct alpm_change *a = x;
    const struct alpm_change *b = y;
    int order = memcmp(a->route.addr, b->route.addr, 16);

    return order ? order : a->route.len - b->route.len;
}

START_TEST(a_bulk_build_takes_the_fewest_rows_there_can_be)
{
    struct phys_sizes sizes = sizes_of(100, CAP, 100);

    seed = 9;
    for (unsigned round = 0; round < 2000; round++) {
        struct alpm_change c[60];
        unsigned count = 0;
        unsigned best = MANY;
        unsigned ways[CAP + 1];
        struct writes w = { 0 };
        struct alpm *a;

        for (unsigned i = 1 + below(60); i > 0; i--) {
            c[count] = put(1, below(256) << 16, 8 + below(9));
            count++;
        }
        qsort(c, count, sizeof *c, compare_route);
        for (unsigned i = 0, n = count, kept = 0; i < n; i++) {
            if (kept == 0 || compare_route(&c[kept - 1], &c[i])) {
                c[kept++] = c[i];
            }
            count = kept;
        }
        fewest(c, 0, count, 0, ways);
        for (unsigned k = 0; k <= CAP; k++) {
            /* Without an open part the last that was closed is the one at the top. */
            unsigned n = ways[k] + (k > 0);

            best = n < best ? n : best;
        }
        ck_assert_int_eq(alpm_new(&sizes, 0, &a), RC_OK);
        ck_assert_int_eq(apply(a, c, count, &w), RC_OK);
        ck_assert_uint_eq(alpm_stats(a).rows, best);
        writes_fini(&w);
        alpm_free(a);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("alpm");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc,
                        a_route_that_cannot_be_is_refused_and_its_call_changes_nothing,
                        0, ARRAY_LEN(forms));
    tcase_add_test(tc, sizes_that_no_table_has_are_refused);
    tcase_add_test(
        tc, what_is_there_costs_nothing_and_of_two_with_one_key_the_later_counts);
    tcase_add_loop_test(
        tc, a_full_table_refuses_before_the_first_write_and_keeps_what_it_has, 0, 3);
    tcase_add_test(tc, memory_that_runs_out_anywhere_changes_nothing);
    tcase_add_test(tc, a_read_back_without_memory_leaves_the_old_belief);
    tcase_add_loop_test(
        tc, a_broken_read_back_ends_in_a_table_that_answers_by_its_routes, 0, 40);
    tcase_add_test(tc, a_read_back_takes_no_entries_of_other_tables);
    tcase_add_test(tc, a_bulk_build_takes_the_fewest_rows_there_can_be);
    return unit_run("alpm", tc);
}
