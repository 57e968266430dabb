#include "tests/unit/controller/placement/naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_per_half(const struct naive_cluster *c, unsigned i)
{
    return c->is.set.has_halves && c->is.set.at[i].per_half;
}

/* What a tenant in `half` takes of dimension `i` in half `in`. */
static uint64_t takes(const struct naive_cluster *c, const struct demand *d, unsigned i,
                      enum half half, unsigned in)
{
    if (!is_per_half(c, i)) {
        return d->amount[i];
    }
    if (half == HALF_BOTH) {
        return c->is.set.at[i].on_both == RESOURCE_COPIED ? d->amount[i]
                                                          : (d->amount[i] + 1) / 2;
    }
    return (unsigned)half == in ? d->amount[i] : 0;
}

static uint64_t sale(const struct naive_cluster *c, unsigned i)
{
    return c->is.set.capacity[i] * c->is.sale_bp / 10000;
}

static bool fits(const struct naive_cluster *c, const struct demand *d, enum half half)
{
    for (unsigned i = 0; i < c->is.set.count; i++) {
        for (unsigned in = 0; in < 2; in++) {
            uint64_t more = takes(c, d, i, half, in);

            if (more > 0 && c->used[in][i] + more > sale(c, i)) {
                return false;
            }
        }
    }
    return true;
}

/* Exact fractions; anything of nothing is more than everything. */
struct level {
    uint64_t used, capacity;
};

static bool is_above(struct level a, struct level b)
{
    unsigned __int128 left = (unsigned __int128)a.used * (b.capacity ? b.capacity : 1);
    unsigned __int128 right = (unsigned __int128)b.used * (a.capacity ? a.capacity : 1);

    if (a.used == 0 || b.used == 0) {
        return a.used > 0 && b.used == 0;
    }
    if ((a.capacity == 0) != (b.capacity == 0)) {
        return a.capacity == 0;
    }
    return left > right;
}

static struct level fullest(const struct naive_cluster *c, unsigned in,
                            const struct demand *d, bool halves_only)
{
    struct level most = { 0, 1 };

    for (unsigned i = 0; i < c->is.set.count; i++) {
        struct level l = { c->used[in][i] + (d ? d->amount[i] : 0),
                           c->is.set.capacity[i] };

        if ((!halves_only || is_per_half(c, i)) && is_above(l, most)) {
            most = l;
        }
    }
    return most;
}

static struct level fullness(const struct naive_cluster *c)
{
    struct level a = fullest(c, 0, NULL, false);
    struct level b = fullest(c, 1, NULL, false);

    return is_above(b, a) ? b : a;
}

static bool find_half(const struct naive_cluster *c, const struct demand *d,
                      enum half *ret)
{
    bool has_halves = c->is.set.has_halves;
    bool fits_0 = fits(c, d, HALF_0);
    bool fits_1 = has_halves && fits(c, d, HALF_1);
    struct naive_cluster empty = *c;

    if (fits_0 && fits_1) {
        *ret =
            is_above(fullest(c, 0, d, true), fullest(c, 1, d, true)) ? HALF_1 : HALF_0;
        return true;
    }
    if (fits_0 || fits_1) {
        *ret = fits_1 ? HALF_1 : HALF_0;
        return true;
    }
    for (unsigned i = 0; i < c->is.set.count; i++) { /* of halves alone */
        empty.used[0][i] = empty.used[1][i] = 0;
        if (!is_per_half(c, i)) {
            empty.is.set.capacity[i] = UINT64_C(1) << 40;
        }
    }
    if (has_halves && !fits(&empty, d, HALF_0) && fits(c, d, HALF_BOTH)) {
        *ret = HALF_BOTH;
        return true;
    }
    return false;
}

static uint32_t near_at(const struct placement_ask *ask, uint32_t id)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ask->near_count; i++) {
        count += ask->near[i] == id;
    }
    return count;
}

/* Nearer, else fuller, else the first by name. */
static bool is_better(const struct naive *n, const struct placement_ask *ask,
                      uint32_t id, uint32_t than)
{
    const struct naive_cluster *a = &n->at[id];
    const struct naive_cluster *b = &n->at[than];
    uint32_t near_a = near_at(ask, id);
    uint32_t near_b = near_at(ask, than);

    if (near_a != near_b) {
        return near_a > near_b;
    }
    if (is_above(fullness(a), fullness(b)) || is_above(fullness(b), fullness(a))) {
        return is_above(fullness(a), fullness(b));
    }
    return strcmp(a->name, b->name) < 0;
}

struct placement_answer naive_choose(const struct naive *n,
                                     const struct placement_ask *ask)
{
    struct placement_answer best = { PLACEMENT_NONE, HALF_0 };

    for (uint32_t id = 0; id < n->count; id++) {
        const struct naive_cluster *c = &n->at[id];
        uint32_t backing = c->is.backing;
        enum half half;

        if (c->is.pool == ask->pool && c->is.is_open && id != ask->except &&
            find_half(c, &ask->need, &half) &&
            (backing == PLACEMENT_NONE ||
             fits(&n->at[backing], &ask->backing_need, HALF_0)) &&
            (best.cluster == PLACEMENT_NONE || is_better(n, ask, id, best.cluster))) {
            best = (struct placement_answer){ id, half };
        }
    }
    return best;
}

void naive_load(struct naive *n, uint32_t id, enum half half, const struct demand *d,
                int sign)
{
    struct naive_cluster *c = &n->at[id];

    for (unsigned i = 0; i < c->is.set.count; i++) {
        for (unsigned in = 0; in < 2; in++) {
            uint64_t amount = takes(c, d, i, half, in);

            c->used[in][i] += sign > 0 ? amount : -amount;
        }
    }
    c->tenants += (uint32_t)sign;
}

/* In 1/2^22 of what the largest has to sell; not large: 0. */
static uint32_t size_of(const struct naive *n, unsigned pool, const struct demand *d)
{
    double size = 0;

    for (unsigned i = 0; i < RESOURCES_MAX; i++) {
        uint64_t room = 0;

        for (uint32_t id = 0; id < n->count; id++) {
            const struct naive_cluster *c = &n->at[id];

            if (c->is.pool == pool && i < c->is.set.count && sale(c, i) > room) {
                room = sale(c, i);
            }
        }
        if (d->amount[i] > 0) {
            size = fmax(size, room ? (double)d->amount[i] / (double)room : 1);
        }
    }
    return size < 1.0 / 64 ? 0 : (uint32_t)fmin(size * 4194304, 4194303);
}

void naive_fill(struct naive *n, unsigned pool, const struct demand *needs,
                uint32_t count, struct placement_answer *ret)
{
    bool *is_done = calloc(count + 1, sizeof(*is_done));

    for (uint32_t turn = 0; turn < count; turn++) {
        struct placement_ask ask = { .pool = pool, .except = PLACEMENT_NONE };
        uint32_t next = count;

        for (uint32_t i = 0; i < count; i++) {
            if (!is_done[i] && (next == count || size_of(n, pool, &needs[i]) >
                                                     size_of(n, pool, &needs[next]))) {
                next = i;
            }
        }
        is_done[next] = true;
        ask.need = needs[next];
        ret[next] = naive_choose(n, &ask);
        if (ret[next].cluster != PLACEMENT_NONE) {
            naive_load(n, ret[next].cluster, ret[next].half, &needs[next], 1);
        }
    }
    free(is_done);
}
