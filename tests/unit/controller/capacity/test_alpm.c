/*
 * The counter against a carve of a trie that is really built, node by node; the
 * estimate against that carve of random prefixes.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

#include "controller/capacity/alpm.h"
#include "tests/bench/gen.h"
#include "tests/bench/gen_prefixes.h"

struct route {
    uint32_t vni;
    struct prefix dst;
};

struct routes {
    struct route *at;
    size_t count;
    size_t cap;
};

static void add(struct routes *r, uint32_t vni, const struct prefix *dst)
{
    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 1024;
        r->at = realloc(r->at, r->cap * sizeof(*r->at));
        ck_assert_ptr_nonnull(r->at);
    }
    r->at[r->count++] = (struct route){ vni, *dst };
}

/* The string VNI ‖ address as text of '0' and '1', which sorts as the trie is walked.
 */
static void bits_of(const struct route *r, char to[153])
{
    uint8_t bytes[19] = { (uint8_t)(r->vni >> 16), (uint8_t)(r->vni >> 8),
                          (uint8_t)r->vni };
    unsigned len = 24u + r->dst.len;

    if (r->dst.addr.family == IP_V4) {
        bytes[13] = bytes[14] = 0xff;
        memcpy(bytes + 15, r->dst.addr.b, 4);
        len += 96;
    } else {
        memcpy(bytes + 3, r->dst.addr.b, 16);
    }
    for (unsigned i = 0; i < len; i++) {
        to[i] = bytes[i / 8] >> (7 - i % 8) & 1 ? '1' : '0';
    }
    to[len] = '\0';
}

static int compare(const void *a, const void *b)
{
    char x[153];
    char y[153];

    bits_of(a, x);
    bits_of(b, y);
    return strcmp(x, y);
}

/* --- the slow way: a node a bit ----------------------------------------------------
 */

struct node {
    uint32_t child[2]; /* 0: none */
    uint32_t own;
};

struct trie {
    struct node *at;
    size_t count;
    size_t cap;
};

static uint32_t new_node(struct trie *t)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->at = realloc(t->at, t->cap * sizeof(*t->at));
        ck_assert_ptr_nonnull(t->at);
    }
    t->at[t->count] = (struct node){ { 0, 0 }, 0 };
    return (uint32_t)t->count++;
}

static uint32_t carve(const struct trie *t, uint32_t n, unsigned bucket, uint64_t *rows)
{
    const struct node *node = &t->at[n];
    uint32_t a = node->child[0] ? carve(t, node->child[0], bucket, rows) : 0;
    uint32_t b = node->child[1] ? carve(t, node->child[1], bucket, rows) : 0;

    while (a + b + node->own > bucket) {
        ++*rows;
        *(a >= b ? &a : &b) = 0;
    }
    return a + b + node->own;
}

static uint64_t slow_rows(const struct routes *r, unsigned bucket)
{
    struct trie t = { 0 };
    uint64_t rows = 0;

    new_node(&t);
    for (size_t i = 0; i < r->count; i++) {
        char bits[153];
        uint32_t n = 0;

        bits_of(&r->at[i], bits);
        for (const char *b = bits; *b; b++) {
            if (!t.at[n].child[*b - '0']) {
                uint32_t child = new_node(&t);

                t.at[n].child[*b - '0'] = child;
            }
            n = t.at[n].child[*b - '0'];
        }
        t.at[n].own++;
    }
    rows += carve(&t, 0, bucket, &rows) > 0;
    free(t.at);
    return rows;
}

/* --- sets of routes ----------------------------------------------------------------
 */

static void add_generated(struct routes *r, uint32_t routes, uint64_t seed)
{
    struct gen_config config;
    struct gen *g;
    struct entry e;
    struct err err = { 0 };

    gen_config_init(&config);
    config.routes = routes;
    config.seed = seed;
    ck_assert_int_eq(gen_new(&config, &g, &err), RC_OK);
    while (gen_next(g, &e)) {
        if (e.table == TABLE_VXLAN_ROUTE) {
            add(r, e.vni, &e.route.dst);
        }
    }
    gen_free(g);
}

static void add_random_hosts(struct routes *r, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        struct prefix p = { ip_v4((uint32_t)gen_random(&seed)), 32 };

        add(r, 5, &p);
    }
}

/* Prefixes of all lengths inside each other. */
static void add_nested(struct routes *r, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        struct prefix p = { .len = (uint8_t)(gen_random(&seed) % 33) };

        p.addr = ip_v4((uint32_t)gen_random(&seed) & 0x0f0f0f0f);
        prefix_mask(&p);
        add(r, (uint32_t)(gen_random(&seed) % 3 + 1), &p);
    }
}

static void tidy(struct routes *r)
{
    size_t kept = 0;

    qsort(r->at, r->count, sizeof(*r->at), compare);
    for (size_t i = 0; i < r->count; i++) {
        if (kept == 0 || compare(&r->at[kept - 1], &r->at[i]) != 0) {
            r->at[kept++] = r->at[i];
        }
    }
    r->count = kept;
}

static uint64_t fast_rows(const struct routes *r, unsigned bucket)
{
    struct alpm_counter c;

    alpm_counter_init(&c, bucket);
    for (size_t i = 0; i < r->count; i++) {
        ck_assert(alpm_counter_add(&c, r->at[i].vni, &r->at[i].dst));
    }
    ck_assert_uint_eq(c.routes, r->count);
    return alpm_counter_rows(&c);
}

static const unsigned buckets[] = { 2, 3, 8, 16, 28, 64 };

static void assert_same(struct routes *r)
{
    tidy(r);
    for (unsigned i = 0; i < ARRAY_LEN(buckets); i++) {
        ck_assert_uint_eq(fast_rows(r, buckets[i]), slow_rows(r, buckets[i]));
    }
    free(r->at);
}

START_TEST(the_counter_counts_what_a_carve_of_the_trie_makes)
{
    struct routes generated = { 0 };
    struct routes hosts = { 0 };

    add_generated(&generated, 20000, 1);
    assert_same(&generated);
    add_random_hosts(&hosts, 5000, 2);
    assert_same(&hosts);
}
END_TEST

START_TEST(the_counter_is_right_for_any_nesting)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct routes nested = { 0 };

        add_nested(&nested, 1 + (uint32_t)(seed * 7), seed);
        assert_same(&nested);
    }
}
END_TEST

/* Third-party prefixes, where they are. */
START_TEST(announced_prefixes_take_at_least_twelve_a_row)
{
    const char *dir = getenv("XGW_DATA") ? getenv("XGW_DATA") : "../shared/data";
    struct gen_prefixes announced = { 0 };
    struct routes r = { 0 };
    struct err err = { 0 };
    uint64_t rows;

    if (gen_prefixes_read(dir, &announced, &err) != RC_OK) {
        return; /* not a part of the repository */
    }
    for (uint32_t i = 0; i < announced.v4.count; i++) {
        add(&r, 7, &announced.v4.at[i]);
    }
    for (uint32_t i = 0; i < announced.v6.count; i++) {
        add(&r, 7, &announced.v6.at[i]);
    }
    gen_prefixes_fini(&announced);
    tidy(&r);
    rows = fast_rows(&r, ALPM_BUCKET);
    ck_assert_double_ge((double)r.count / (double)rows, 12);
    /* Real prefixes nest: fewer rows than random ones, and at most a tenth fewer. */
    ck_assert_double_ge((double)rows, 0.9 * alpm_rows((double)r.count, ALPM_BUCKET,
                                                      alpm_random_fill(ALPM_BUCKET)));
    ck_assert_double_le((double)rows, 1.02 * alpm_rows((double)r.count, ALPM_BUCKET,
                                                       alpm_random_fill(ALPM_BUCKET)));
    free(r.at);
}
END_TEST

static const unsigned filled[] = { 4, 8, 16, 32 };

START_TEST(random_prefixes_fill_partitions_as_worked_out)
{
    unsigned bucket = filled[_i];
    double fill = 0;
    unsigned sizes = 0;

    /* The mean over an octave, for the fill goes up and down with the size. */
    for (double n = 8000; n < 16000; n *= 1.0443) {
        struct routes r = { 0 };

        add_random_hosts(&r, (uint32_t)n, (uint64_t)n);
        tidy(&r);
        fill += (double)r.count / (double)(fast_rows(&r, bucket) * bucket);
        sizes++;
        free(r.at);
    }
    ck_assert_double_eq_tol(alpm_random_fill(bucket), fill / sizes, 0.01);
}
END_TEST

START_TEST(rows_follow_from_fill)
{
    ck_assert_double_eq(alpm_rows(140, 16, 14.0 / 16), 10);
    ck_assert_double_eq_tol(alpm_random_fill(16), 0.79, 0.01);
}
END_TEST

START_TEST(what_is_out_of_order_or_repeated_is_not_counted)
{
    struct prefix a = { ip_v4(0x0a000000), 8 };
    struct prefix inside = { ip_v4(0x0a000000), 16 };
    struct alpm_counter c;

    alpm_counter_init(&c, 16);
    ck_assert_uint_eq(alpm_counter_rows(&c), 0);
    ck_assert(alpm_counter_add(&c, 7, &inside));
    ck_assert(!alpm_counter_add(&c, 7, &inside));
    ck_assert(!alpm_counter_add(&c, 7, &a));
    ck_assert(!alpm_counter_add(&c, 6, &inside));
    ck_assert(alpm_counter_add(&c, 8, &a));
    ck_assert_uint_eq(c.routes, 2);
    ck_assert_uint_eq(alpm_counter_rows(&c), 1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("alpm");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, the_counter_counts_what_a_carve_of_the_trie_makes);
    tcase_add_test(tc, the_counter_is_right_for_any_nesting);
    tcase_add_test(tc, announced_prefixes_take_at_least_twelve_a_row);
    tcase_add_loop_test(tc, random_prefixes_fill_partitions_as_worked_out, 0,
                        ARRAY_LEN(filled));
    tcase_add_test(tc, rows_follow_from_fill);
    tcase_add_test(tc, what_is_out_of_order_or_repeated_is_not_counted);
    return unit_run("alpm", tc);
}
