/* Random instances against the naive placement, and tiny ones against the optimum. */
#include "tests/unit/unit.h"

#include <string.h>

#include "tests/unit/controller/placement/naive.h"

#define INSTANCES 3000
#define LIVE_MAX  64

static uint64_t state;

static uint64_t draw(void)
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(draw() % n);
}

struct world {
    struct placement *p;
    struct naive n;
    struct resource_set shape[2]; /* of the pools */
    struct {
        uint32_t cluster;
        enum half half;
        struct demand d;
    } live[LIVE_MAX];
    uint32_t live_count;
};

static void draw_shape(struct resource_set *set)
{
    memset(set, 0, sizeof(*set));
    set->count = 1 + below(RESOURCES_MAX);
    set->has_halves = below(3) > 0;
    for (unsigned i = 0; i < set->count; i++) {
        set->at[i] = (struct resource){
            "d", "u", "w", 1, below(2) == 0, below(2) ? RESOURCE_SPLIT : RESOURCE_COPIED
        };
    }
}

/* Few values, so that ties and exact fits are common. */
static void put_cluster(struct world *w, uint32_t id, unsigned pool)
{
    struct naive_cluster *c = &w->n.at[id];
    uint32_t got = id < w->n.count ? id : PLACEMENT_NONE;

    if (got == PLACEMENT_NONE) {
        memset(c, 0, sizeof(*c));
        snprintf(c->name, sizeof(c->name), "%c%u", 'a' + (char)below(26), id);
        w->n.count++;
    }
    c->is = (struct placement_cluster){ .name = c->name,
                                        .pool = pool,
                                        .backing = PLACEMENT_NONE,
                                        .sale_bp = 5000 + 1000 * below(6),
                                        .is_open = below(8) > 0,
                                        .set = w->shape[pool] };
    for (unsigned i = 0; i < c->is.set.count; i++) {
        c->is.set.capacity[i] = below(20) ? 20 * (1 + below(4)) : 0;
    }
    if (pool == 0 && below(2) && w->n.at[0].is.pool == 1) {
        c->is.backing = 0;
    }
    ck_assert_int_eq(placement_put_cluster(w->p, &c->is, &got, NULL), RC_OK);
    ck_assert_uint_eq(got, id);
}

static void draw_need(const struct world *w, unsigned pool, struct demand *ret)
{
    uint32_t most = below(4) ? 6 : 40;

    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < w->shape[pool].count; i++) {
        ret->amount[i] = below(3) ? below(most) : 0;
    }
}

static void check_usage(const struct world *w)
{
    for (uint32_t id = 0; id < w->n.count; id++) {
        const struct naive_cluster *c = &w->n.at[id];
        struct usage u;

        placement_usage(w->p, id, &u);
        ck_assert_uint_eq(placement_tenants(w->p, id), c->tenants);
        for (unsigned i = 0; i < c->is.set.count; i++) {
            bool has_two = c->is.set.has_halves && c->is.set.at[i].per_half;

            ck_assert_uint_eq(u.amount[0][i], c->used[0][i]);
            ck_assert_uint_eq(u.amount[1][i], has_two ? c->used[1][i] : 0);
        }
    }
}

static void come(struct world *w)
{
    struct placement_ask ask = { .pool = 0, .except = PLACEMENT_NONE };
    struct placement_answer got;
    struct placement_answer want;
    uint32_t near[5];

    draw_need(w, 0, &ask.need);
    draw_need(w, 1, &ask.backing_need);
    for (uint32_t i = 0; i < 5; i++) {
        near[i] = below(w->n.count);
    }
    ask.near = near;
    ask.near_count = below(2) ? below(5) : 0;
    ask.except = below(8) ? PLACEMENT_NONE : below(w->n.count);
    got = placement_choose(w->p, &ask);
    want = naive_choose(&w->n, &ask);
    ck_assert_uint_eq(got.cluster, want.cluster);
    if (got.cluster == PLACEMENT_NONE) {
        return;
    }
    ck_assert_int_eq(got.half, want.half);
    placement_add(w->p, got.cluster, got.half, &ask.need);
    naive_load(&w->n, got.cluster, got.half, &ask.need, 1);
    if (w->n.at[got.cluster].is.backing != PLACEMENT_NONE) {
        placement_add(w->p, 0, HALF_0, &ask.backing_need);
        naive_load(&w->n, 0, HALF_0, &ask.backing_need, 1);
    }
    if (w->live_count < LIVE_MAX) {
        w->live[w->live_count].cluster = got.cluster;
        w->live[w->live_count].half = got.half;
        w->live[w->live_count++].d = ask.need;
    }
}

static void go_or_change(struct world *w)
{
    uint32_t at = below(w->live_count);
    uint32_t cluster = w->live[at].cluster;
    struct demand now;

    if (below(2)) {
        draw_need(w, 0, &now);
        placement_change(w->p, cluster, w->live[at].half, &w->live[at].d, &now);
        naive_load(&w->n, cluster, w->live[at].half, &w->live[at].d, -1);
        naive_load(&w->n, cluster, w->live[at].half, &now, 1);
        w->live[at].d = now;
        return;
    }
    placement_sub(w->p, cluster, w->live[at].half, &w->live[at].d);
    naive_load(&w->n, cluster, w->live[at].half, &w->live[at].d, -1);
    w->live[at] = w->live[--w->live_count];
}

static void begin(struct world *w, uint64_t seed)
{
    uint32_t clusters = 2 + below(NAIVE_MAX - 2);

    state = seed;
    memset(w, 0, sizeof(*w));
    w->p = placement_new();
    ck_assert_ptr_nonnull(w->p);
    draw_shape(&w->shape[0]);
    draw_shape(&w->shape[1]);
    put_cluster(w, 0, below(2));
    for (uint32_t id = 1; id < clusters; id++) {
        put_cluster(w, id, 0);
    }
}

START_TEST(every_choice_is_that_of_the_naive_placement)
{
    for (uint64_t seed = 1; seed <= INSTANCES; seed++) {
        struct world w;

        begin(&w, seed);
        for (unsigned step = 0; step < 60; step++) {
            uint32_t what = below(20);

            if (what == 0) {
                uint32_t id = below(w.n.count);

                put_cluster(&w, id, w.n.at[id].is.pool);
            } else if (what < 6 && w.live_count > 0) {
                go_or_change(&w);
            } else {
                come(&w);
            }
        }
        check_usage(&w);
        placement_free(w.p);
    }
}
END_TEST

START_TEST(many_at_once_go_where_the_naive_placement_puts_them)
{
    for (uint64_t seed = 1; seed <= INSTANCES / 10; seed++) {
        struct world w;
        struct demand needs[80];
        struct placement_answer got[80];
        struct placement_answer want[80];
        uint32_t count = 1 + below(80);
        uint32_t refused = 0;
        uint32_t missing = 0;

        begin(&w, seed);
        for (uint32_t id = 0; id < w.n.count; id++) {
            for (unsigned i = 0; i < RESOURCES_MAX; i++) { /* so that some are small */
                w.n.at[id].is.set.capacity[i] *= 10;
            }
            ck_assert_int_eq(
                placement_put_cluster(w.p, &w.n.at[id].is, &(uint32_t){ id }, NULL),
                RC_OK);
        }
        for (uint32_t i = 0; i < count; i++) {
            draw_need(&w, 0, &needs[i]);
        }
        naive_fill(&w.n, 0, needs, count, want);
        ck_assert_int_eq(placement_fill(w.p, 0, needs, count, got, &refused), RC_OK);
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_uint_eq(got[i].cluster, want[i].cluster);
            if (got[i].cluster != PLACEMENT_NONE) {
                ck_assert_int_eq(got[i].half, want[i].half);
            }
            missing += got[i].cluster == PLACEMENT_NONE;
        }
        ck_assert_uint_eq(refused, missing);
        check_usage(&w);
        placement_free(w.p);
    }
}
END_TEST

/* The explanation and the choice say the same, and the lines add up to the verdict. */
START_TEST(an_explanation_agrees_with_the_choice)
{
    static struct placement_candidate got[NAIVE_MAX];

    for (uint64_t seed = 1; seed <= INSTANCES / 5; seed++) {
        struct placement_ask ask = { .pool = 0, .except = PLACEMENT_NONE };
        struct placement_answer want;
        struct world w;
        uint32_t count;
        uint32_t chosen = 0;

        begin(&w, seed);
        for (unsigned step = 0; step < 20; step++) {
            come(&w);
        }
        draw_need(&w, 0, &ask.need);
        draw_need(&w, 1, &ask.backing_need);
        want = naive_choose(&w.n, &ask);
        count = placement_explain(w.p, &ask, got, NAIVE_MAX);
        for (uint32_t i = 0; i < count; i++) {
            const struct placement_candidate *k = &got[i];
            bool fits = true;

            for (unsigned d = 0; d < k->count; d++) {
                const struct placement_line *l = &k->at[d];
                bool both = k->half == HALF_BOTH;

                fits = fits && l->fits[both ? 0 : k->half] && (!both || l->fits[1]);
                ck_assert_int_eq(l->fits[0],
                                 l->need == 0 || l->used[0] + l->need <= l->room);
            }
            if (k->verdict == PLACEMENT_CHOSEN) {
                chosen++;
                ck_assert_uint_eq(k->cluster, want.cluster);
            }
            ck_assert(k->verdict == PLACEMENT_CLOSED ||
                      fits == (k->verdict != PLACEMENT_NO_ROOM));
        }
        ck_assert_uint_eq(chosen, want.cluster != PLACEMENT_NONE);
        placement_free(w.p);
    }
}
END_TEST

/* ---- against the optimum ---- */

#define TINY_ITEMS 7
#define TINY_DIMS  3

static uint32_t best_found;

/* Puts item `at` into each bin in use and one new one. */
static void try_all(const struct demand *d, uint32_t count, uint32_t at,
                    uint64_t bins[][TINY_DIMS], uint32_t used)
{
    if (used >= best_found) {
        return;
    }
    if (at == count) {
        best_found = used;
        return;
    }
    for (uint32_t b = 0; b <= used; b++) {
        bool fits = true;

        for (unsigned i = 0; i < TINY_DIMS; i++) {
            fits = fits && bins[b][i] + d[at].amount[i] <= 70;
        }
        if (fits) {
            for (unsigned i = 0; i < TINY_DIMS; i++) {
                bins[b][i] += d[at].amount[i];
            }
            try_all(d, count, at + 1, bins, b == used ? used + 1 : used);
            for (unsigned i = 0; i < TINY_DIMS; i++) {
                bins[b][i] -= d[at].amount[i];
            }
        }
    }
}

static uint32_t clusters_filled(const struct demand *needs, uint32_t count)
{
    struct placement *p = placement_new();
    struct placement_answer got[TINY_ITEMS];
    uint32_t refused;
    uint32_t used = 0;

    for (unsigned k = 0; k < TINY_ITEMS; k++) {
        char name[] = { (char)('a' + k), 0 };
        struct placement_cluster c = { .name = name,
                                       .backing = PLACEMENT_NONE,
                                       .sale_bp = 7000,
                                       .is_open = true,
                                       .set = { .count = TINY_DIMS,
                                                .capacity = { 100, 100, 100 } } };
        uint32_t id = PLACEMENT_NONE;

        ck_assert_int_eq(placement_put_cluster(p, &c, &id, NULL), RC_OK);
    }
    ck_assert_int_eq(placement_fill(p, 0, needs, count, got, &refused), RC_OK);
    ck_assert_uint_eq(refused, 0);
    for (uint32_t id = 0; id < TINY_ITEMS; id++) {
        used += placement_tenants(p, id) > 0;
    }
    placement_free(p);
    return used;
}

START_TEST(tiny_instances_take_at_most_one_cluster_more_than_the_best)
{
    uint32_t ours = 0;
    uint32_t best = 0;

    state = 7;
    for (unsigned round = 0; round < 4000; round++) {
        struct demand needs[TINY_ITEMS] = { 0 };
        uint64_t bins[TINY_ITEMS + 1][TINY_DIMS] = { 0 };
        uint32_t count = 1 + below(TINY_ITEMS);
        uint32_t used;

        for (uint32_t k = 0; k < count; k++) {
            for (unsigned i = 0; i < TINY_DIMS; i++) {
                needs[k].amount[i] = below(61);
            }
        }
        best_found = count + 1;
        try_all(needs, count, 0, bins, 0);
        used = clusters_filled(needs, count);
        ck_assert_uint_ge(used, best_found);
        ck_assert_uint_le(used, best_found + 1);
        ours += used;
        best += best_found;
    }
    /* 1.7 % seen; an item here is up to 6/7 of a cluster. */
    ck_assert_uint_le((ours - best) * 100, best * 5);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("placement_random");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_choice_is_that_of_the_naive_placement);
    tcase_add_test(tc, many_at_once_go_where_the_naive_placement_puts_them);
    tcase_add_test(tc, an_explanation_agrees_with_the_choice);
    tcase_add_test(tc, tiny_instances_take_at_most_one_cluster_more_than_the_best);
    return unit_run("placement_random", tc);
}
