/* Between any two writes, in every order that the barriers leave open (random ones are
 * tried), every destination gets the answer of before or of after.  The space is small
 * enough to look at every destination after every write. */
#include <string.h>

#include "tests/bench/gen.h"
#include "tests/unit/agent/xgwh/alpm_model.h"
#include "tests/unit/agent/xgwh/alpm_naive.h"
#include "tests/unit/unit.h"

enum {
    VNIS = 4,      /* 0x10 to 0x13: what they have in common can be a row's root */
    HOST_BITS = 5, /* of an address; all others are the family's */
    SPACE = VNIS * 2 << HOST_BITS,
    BATCH_MAX = 40,
};

static uint64_t seed;
/* Where changes fall: the first so many destinations; single ones and a VNI's default
 * alone. */
static uint32_t space = SPACE;
static bool is_sparse;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(gen_random(&seed) % n);
}

/* IPv4 10.0.0.x, pooled, or 2001:db8::x; `place` says VNI, family, x. */
static void destination(unsigned place, uint32_t *vni, uint8_t addr[16])
{
    unsigned x = place % (1u << HOST_BITS);
    bool is_v6 = place >> HOST_BITS & 1;

    *vni = 0x10 + (place >> (HOST_BITS + 1));
    memset(addr, 0, 16);
    memcpy(addr, is_v6 ? "\x20\x01\x0d\xb8" : "\0\0\0\0", 4);
    memcpy(addr + 10, is_v6 ? "\0\0\0\0\0" : "\xff\xff\x0a\0\0", 5);
    addr[15] = (uint8_t)(x << (8 - HOST_BITS));
}

static struct alpm_change random_change(unsigned deletes_percent)
{
    struct alpm_change c = { 0 };
    uint8_t addr[16];
    static const uint8_t short_len[] = { 0, 8, 32, 96, 104, 112, 118, 119 };

    destination(below(space), &c.route.vni, addr);
    c.route.len = short_len[is_sparse ? 0 : below(ARRAY_LEN(short_len))];
    if (below(10)) {
        c.route.len = (uint8_t)(120 + (is_sparse ? HOST_BITS : below(HOST_BITS + 1)));
    }
    for (unsigned i = 0; i < c.route.len; i++) {
        c.route.addr[i / 8] |= (uint8_t)(addr[i / 8] & 0x80 >> i % 8);
    }
    c.is_delete = below(100) < deletes_percent;
    c.route.result.scope = (uint8_t)(1 + below(4));
    c.route.result.vni = below(1 << 24);
    c.route.result.idx = below(c.route.result.scope == PHYS_SCOPE_TUNNEL     ? 1 << 17
                               : c.route.result.scope == PHYS_SCOPE_FALLBACK ? 2
                                                                             : 4);
    return c;
}

struct rig {
    struct phys_sizes sizes;
    struct alpm *a;
    struct model *m;
    struct naive *n;
    struct alpm_result before[SPACE];
    struct alpm_result after[SPACE];
    struct alpm_cost cost;
    uint64_t looked;
};

static void answers(const struct rig *r, struct alpm_result *to)
{
    for (unsigned i = 0; i < SPACE; i++) {
        uint32_t vni;
        uint8_t addr[16];

        destination(i, &vni, addr);
        naive_lookup(r->n, vni, addr, &to[i]);
    }
}

static void look_everywhere(struct rig *r, size_t at, size_t of)
{
    for (unsigned i = 0; i < SPACE; i++) {
        struct alpm_result got;
        uint32_t vni;
        uint8_t addr[16];

        destination(i, &vni, addr);
        model_lookup(r->m, vni, addr, &got);
        if (!result_equal(&got, &r->before[i]) && !result_equal(&got, &r->after[i])) {
            ck_abort_msg("behind write %zu of %zu destination %u gets %u/%u/%u, before "
                         "%u/%u/%u, after %u/%u/%u",
                         at, of, i, got.scope, got.vni, got.idx, r->before[i].scope,
                         r->before[i].vni, r->before[i].idx, r->after[i].scope,
                         r->after[i].vni, r->after[i].idx);
        }
    }
    r->looked++;
}

/* Writes between two barriers, in a random order; looks after each. */
static void replay(struct rig *r, struct writes *w)
{
    ck_assert(w->count == 0 || w->at[0].barrier);
    for (size_t from = 0; from < w->count;) {
        size_t to = from + 1;

        while (to < w->count && !w->at[to].barrier) {
            to++;
        }
        for (size_t i = to - from; i > 1; i--) {
            size_t k = below((uint32_t)i);
            struct phys_write swap = w->at[from + i - 1];

            w->at[from + i - 1] = w->at[from + k];
            w->at[from + k] = swap;
        }
        for (; from < to; from++) {
            model_write(r->m, &w->at[from]);
            look_everywhere(r, from, w->count);
        }
    }
}

static void rig_init(struct rig *r, unsigned b)
{
    memset(r, 0, sizeof *r);
    r->sizes.partitions = 400;
    r->sizes.partition_slots = b;
    r->sizes.table[PHYS_ROUTE_TCAM] = 400;
    ck_assert_int_eq(alpm_new(&r->sizes, PHYS_HALF_1, &r->a), RC_OK);
    r->m = model_new(&r->sizes);
    r->n = naive_new();
}

static void rig_fini(struct rig *r)
{
    alpm_free(r->a);
    model_free(r->m);
    naive_free(r->n);
}

static void step(struct rig *r, unsigned batch_max, unsigned deletes_percent)
{
    struct alpm_change changes[BATCH_MAX];
    struct writes w = { 0 };
    struct err err = { 0 };
    size_t count = 1 + below(batch_max);

    for (size_t i = 0; i < count; i++) {
        changes[i] = random_change(deletes_percent);
    }
    naive_apply(r->n, changes, count);
    answers(r, r->after);
    ck_assert_int_eq(alpm_apply(r->a, changes, count, writes_add, &w, &r->cost, &err),
                     RC_OK);
    replay(r, &w);
    memcpy(r->before, r->after, sizeof r->before);
    look_everywhere(r, w.count, w.count);
    model_check_entries(r->m, r->a);
    ck_assert_uint_eq(alpm_stats(r->a).routes, naive_count(r->n));
    writes_fini(&w);
}

static void repack(struct rig *r)
{
    bool done = false;

    for (unsigned i = 0; !done; i++) {
        struct writes w = { 0 };

        ck_assert_uint_lt(i, 10000);
        ck_assert_int_eq(alpm_repack(r->a, 10, writes_add, &w, &r->cost, &done), RC_OK);
        replay(r, &w);
        model_check_entries(r->m, r->a);
        writes_fini(&w);
    }
}

static const struct {
    unsigned b;
    unsigned batch_max;
    unsigned rounds;
} shapes[] = { { 4, 1, 600 },  { 4, BATCH_MAX, 90 },  { 6, 8, 120 },
               { 16, 1, 600 }, { 16, BATCH_MAX, 90 }, { 64, BATCH_MAX, 90 } };

START_TEST(every_destination_sees_old_or_new_between_any_two_writes)
{
    struct rig r;

    seed = 7 + (uint64_t)_i;
    rig_init(&r, shapes[_i].b);
    for (unsigned i = 0; i < shapes[_i].rounds; i++) {
        /* It grows, and shrinks to nothing, in turns. */
        step(&r, shapes[_i].batch_max, 6 * i / shapes[_i].rounds % 3 == 2 ? 85 : 25);
        if (i % 40 == 39) {
            repack(&r);
        }
    }
    ck_assert_uint_gt(r.cost.move_writes, 0);
    ck_assert_uint_gt(r.cost.cover_writes, 0);
    rig_fini(&r);
}
END_TEST

/* Rows of new routes alone come together as far as they do not lie under each other. */
START_TEST(a_load_into_an_empty_table_shows_old_or_new_too)
{
    seed = 7000 + (uint64_t)_i;
    for (unsigned i = 0; i < 150; i++) {
        struct rig r;

        rig_init(&r, shapes[_i].b);
        for (unsigned batch = 0; batch < 3; batch++) {
            step(&r, BATCH_MAX, 10);
        }
        rig_fini(&r);
    }
}
END_TEST

/* The same below rows of one VNI, whose covers change meanwhile. */
START_TEST(a_load_into_one_vni_shows_old_or_new_too)
{
    seed = 7100 + (uint64_t)_i;
    for (unsigned i = 0; i < 150; i++) {
        struct rig r;

        rig_init(&r, shapes[_i].b);
        is_sparse = true;
        step(&r, 12, 0);
        space = 1u << HOST_BITS;
        step(&r, BATCH_MAX, 5);
        step(&r, BATCH_MAX, 50);
        space = SPACE;
        is_sparse = false;
        rig_fini(&r);
    }
}
END_TEST

/* ---- an agent that dies on the way ---- */

static bool collect(void *ctx, const struct alpm_route *route)
{
    struct alpm_change c = { .route = *route };

    naive_apply(ctx, &c, 1);
    return true;
}

/* Writes up to some write, those behind the last barrier in a random order. */
static void replay_part(struct rig *r, struct writes *w)
{
    size_t count = below((uint32_t)w->count + 1);
    size_t group = count;

    while (group > 0 && (group == w->count || !w->at[group].barrier)) {
        group--;
    }
    for (size_t i = 0; i < count; i++) {
        size_t last = i;

        while (i >= group && last + 1 < w->count && !w->at[last + 1].barrier) {
            last++;
        }
        if (last > i) {
            size_t k = i + below((uint32_t)(last - i + 1));
            struct phys_write swap = w->at[i];

            w->at[i] = w->at[k];
            w->at[k] = swap;
        }
        model_write(r->m, &w->at[i]);
    }
}

/* What was in the table before the changes and is after them. */
static void check_untouched(const struct naive *old, const struct naive *new,
                            const struct alpm *a)
{
    for (size_t i = 0; i < naive_count(old); i++) {
        const struct alpm_route *r = naive_at(old, i);
        const struct alpm_route *is = naive_get(new, r->vni, r->addr, r->len);
        struct alpm_result want = result_normal(r);
        struct alpm_result got;

        if (is && result_equal(&is->result, &r->result)) {
            ck_assert(alpm_get(a, r->vni, r->addr, r->len, &got));
            ck_assert(result_equal(&got, &want));
        }
    }
}

static void cut_off(struct rig *r, unsigned batch_max, unsigned deletes_percent,
                    struct alpm_findings *sum)
{
    struct alpm_change changes[BATCH_MAX];
    struct writes w = { 0 };
    struct writes repairs = { 0 };
    struct alpm_findings found;
    struct err err = { 0 };
    struct naive *old = naive_new();
    bool done;
    size_t count = 1 + below(batch_max);

    alpm_routes(r->a, collect, old);
    for (size_t i = 0; i < count; i++) {
        changes[i] = random_change(deletes_percent);
    }
    naive_apply(r->n, changes, count);
    ck_assert_int_eq(alpm_apply(r->a, changes, count, writes_add, &w, &r->cost, &err),
                     RC_OK);
    alpm_repack(r->a, 20, writes_add, &w, &r->cost, &done);
    replay_part(r, &w);
    for (unsigned i = 0; i < SPACE; i++) {
        uint32_t vni;
        uint8_t addr[16];

        destination(i, &vni, addr);
        model_lookup(r->m, vni, addr, &r->before[i]);
    }
    alpm_free(r->a);
    ck_assert_int_eq(alpm_new(&r->sizes, PHYS_HALF_1, &r->a), RC_OK);
    model_read_back(r->m, r->a, &seed, &repairs, &found);
    ck_assert_uint_eq(found.foreign + found.lost, 0);
    check_untouched(old, r->n, r->a);
    naive_free(old);
    naive_free(r->n);
    r->n = naive_new();
    alpm_routes(r->a, collect, r->n);
    answers(r, r->after);
    replay(r, &repairs);
    memcpy(r->before, r->after, sizeof r->before);
    look_everywhere(r, repairs.count, repairs.count);
    model_check_entries(r->m, r->a);
    sum->orphans += found.orphans;
    sum->shared += found.shared;
    sum->covers += found.covers;
    writes_fini(&w);
    writes_fini(&repairs);
}

START_TEST(an_agent_that_dies_anywhere_finds_its_routes_and_repairs_without_a_hole)
{
    struct alpm_findings sum = { 0 };
    struct rig r;

    seed = 77 + (uint64_t)_i;
    rig_init(&r, shapes[_i].b);
    for (unsigned i = 0; i < 3 * shapes[_i].rounds; i++) {
        unsigned percent = 6 * i / shapes[_i].rounds % 3 == 2 ? 70 : 25;

        cut_off(&r, shapes[_i].batch_max, percent, &sum);
    }
    ck_assert_uint_gt(sum.orphans, 0);
    ck_assert_uint_gt(sum.covers, 0);
    ck_assert(sum.shared > 0 || shapes[_i].b == 64);
    rig_fini(&r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("alpm_order");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, every_destination_sees_old_or_new_between_any_two_writes, 0,
                        ARRAY_LEN(shapes));
    tcase_add_loop_test(tc, a_load_into_an_empty_table_shows_old_or_new_too, 0, 3);
    tcase_add_loop_test(tc, a_load_into_one_vni_shows_old_or_new_too, 0, 3);
    tcase_add_loop_test(
        tc, an_agent_that_dies_anywhere_finds_its_routes_and_repairs_without_a_hole, 0,
        ARRAY_LEN(shapes));
    return unit_run("alpm_order", tc);
}
