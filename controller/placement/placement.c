#include "controller/placement/placement_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_BP 10000
/* One unit used of nothing is fuller than anything else can be: 2^53 used of 1. */
#define NO_CAPACITY 0x1p-60

struct placement *placement_new(void)
{
    return calloc(1, sizeof(struct placement));
}

void placement_free(struct placement *p)
{
    if (!p) {
        return;
    }
    for (unsigned i = 0; i < PLACEMENT_POOLS; i++) {
        free(p->pools[i].order);
    }
    free(p->slots);
    free(p->left);
    free(p);
}

static void *copy_of(const void *from, size_t size)
{
    void *to = aligned_alloc(64, (size + 63) / 64 * 64);

    if (to && size > 0) {
        memcpy(to, from, size);
    }
    return to;
}

struct placement *placement_copy(const struct placement *p)
{
    struct placement *copy = malloc(sizeof(*copy));
    bool ok = copy != NULL;

    if (!copy) {
        return NULL;
    }
    *copy = *p;
    copy->cap = p->end;
    copy->slots = copy_of(p->slots, p->end * sizeof(*p->slots));
    copy->left = copy_of(p->left, p->end * sizeof(*p->left));
    ok = copy->slots && copy->left;
    for (uint32_t i = 0; copy->slots && i < p->end; i++) {
        copy->slots[i].is.name = copy->slots[i].name;
    }
    for (unsigned i = 0; i < PLACEMENT_POOLS; i++) {
        const struct pool *pool = &p->pools[i];

        copy->pools[i].order =
            copy_of(pool->order, pool->order_count * sizeof(*pool->order));
        ok = ok && copy->pools[i].order;
    }
    if (!ok) {
        placement_free(copy);
        return NULL;
    }
    return copy;
}

/* ---- vectors ---- */

double row_level(const struct row *used, const struct row *more,
                 const struct row *capacity, unsigned count, uint8_t *ret_which)
{
    double level = 0;
    unsigned which = 0;

    for (unsigned i = 0; i < count; i++) {
        double have = used->at[i] + (more ? more->at[i] : 0);
        double share = have / capacity->at[i];

        which = share > level ? i : which;
        level = share > level ? share : level;
    }
    if (ret_which) {
        *ret_which = (uint8_t)which;
    }
    return level;
}

struct need need_of(const struct pool *pool, const struct demand *d)
{
    struct need n;

    memset(&n, 0, sizeof(n));
    for (unsigned i = 0; i < pool->count; i++) {
        uint64_t amount = d->amount[i];
        bool is_split = pool->per_half[i] && !pool->is_copied[i];

        n.one.at[i] = (double)amount;
        n.other.at[i] = pool->per_half[i] ? 0 : (double)amount;
        n.both.at[i] = (double)(is_split ? (amount + 1) / 2 : amount);
        n.may_be_both =
            n.may_be_both || (pool->per_half[i] && n.one.at[i] > pool->half_room.at[i]);
    }
    return n;
}

/* ---- the order of a pool ---- */

static bool comes_before(const struct place *a, const struct place *b)
{
    return a->fullness > b->fullness ||
           (a->fullness == b->fullness && a->rank < b->rank);
}

/* How many of `count` places come before `what`. */
static uint32_t order_search(const struct place *order, uint32_t count,
                             const struct place *what)
{
    uint32_t low = 0;

    while (count > 0) {
        uint32_t half = count / 2;

        if (comes_before(&order[low + half], what)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* Its key alone. */
static struct place key_of(const struct placement *p, uint32_t id)
{
    const struct slot *s = &p->slots[id];

    return (struct place){ .fullness = s->fullness, .rank = s->rank, .id = id };
}

/* Works out the fullness of cluster `id`, and its place. */
static struct place place_of(struct placement *p, uint32_t id)
{
    struct slot *s = &p->slots[id];
    struct place place = { .rank = s->rank, .id = id };

    for (unsigned in = 0; in < 2; in++) {
        unsigned from = s->is.set.has_halves ? in : 0;
        double level = row_level(&s->used[from], NULL, &s->capacity, s->is.set.count,
                                 &place.tight[in]);

        place.left[in] = p->left[id][from].at[place.tight[in]];
        place.fullness = level > place.fullness ? level : place.fullness;
    }
    s->fullness = place.fullness;
    return place;
}

/* The place at `at` has got another key: where it belongs now. */
static void order_move(struct pool *pool, uint32_t at, const struct place *now)
{
    struct place *order = pool->order;
    uint32_t to;

    if (at > 0 && comes_before(now, &order[at - 1])) {
        to = order_search(order, at, now);
        memmove(&order[to + 1], &order[to], (at - to) * sizeof(*order));
    } else {
        to = at + order_search(&order[at + 1], pool->order_count - at - 1, now);
        memmove(&order[at], &order[at + 1], (to - at) * sizeof(*order));
    }
    order[to] = *now;
}

static int compare_places(const void *a, const void *b)
{
    return comes_before(a, b) ? -1 : comes_before(b, a);
}

static void order_sort(struct placement *p, struct pool *pool)
{
    for (uint32_t i = 0; i < pool->order_count; i++) {
        pool->order[i] = place_of(p, pool->order[i].id);
    }
    if (pool->order_count > 1) {
        qsort(pool->order, pool->order_count, sizeof(*pool->order), compare_places);
    }
}

/* ---- what a cluster has ---- */

static void slot_left(struct placement *p, uint32_t id, unsigned in)
{
    const struct slot *s = &p->slots[id];

    for (unsigned i = 0; i < RESOURCES_MAX; i++) {
        double left = s->room.at[i] - s->used[in].at[i];

        p->left[id][in].at[i] = left > 0 ? left : 0;
    }
}

void slot_settle(struct placement *p, uint32_t id)
{
    struct pool *pool = &p->pools[p->slots[id].is.pool];
    struct place was = key_of(p, id);
    uint32_t at = order_search(pool->order, pool->order_count, &was);
    struct place now = place_of(p, id);

    order_move(pool, at, &now);
}

static void row_load(struct row *used, struct row *left, const struct row *room,
                     const struct row *need, double sign, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        double rest;

        used->at[i] += sign * need->at[i];
        assert(used->at[i] >= 0);
        rest = room->at[i] - used->at[i];
        left->at[i] = rest > 0 ? rest : 0;
    }
}

void slot_load(struct placement *p, uint32_t id, enum half half,
               const struct need *need, double sign)
{
    struct slot *s = &p->slots[id];
    unsigned count = s->is.set.count;
    unsigned in = s->is.set.has_halves && half == HALF_1;

    if (s->is.set.has_halves && half == HALF_BOTH) {
        row_load(&s->used[0], &p->left[id][0], &s->room, &need->both, sign, count);
        row_load(&s->used[1], &p->left[id][1], &s->room, &need->both, sign, count);
        return;
    }
    row_load(&s->used[in], &p->left[id][in], &s->room, &need->one, sign, count);
    if (s->is.set.has_halves) {
        row_load(&s->used[!in], &p->left[id][!in], &s->room, &need->other, sign, count);
    }
}

/* ---- clusters ---- */

static bool pool_grow(struct placement *p, struct pool *pool)
{
    struct place *order =
        realloc(pool->order, (pool->order_count + 1) * sizeof(*pool->order));
    uint32_t cap = p->cap ? 2 * p->cap : 8;
    struct slot *slots;
    struct row(*left)[2];

    if (!order) {
        return false;
    }
    pool->order = order;
    if (p->end < p->cap) {
        return true;
    }
    slots = aligned_alloc(64, cap * sizeof(*slots));
    left = aligned_alloc(64, cap * sizeof(*left));
    if (!slots || !left) {
        free(slots);
        free(left);
        return false;
    }
    if (p->end > 0) {
        memcpy(slots, p->slots, p->end * sizeof(*slots));
        memcpy(left, p->left, p->end * sizeof(*left));
    }
    for (uint32_t i = 0; i < p->end; i++) {
        slots[i].is.name = slots[i].name;
    }
    free(p->slots);
    free(p->left);
    p->slots = slots;
    p->left = left;
    p->cap = cap;
    return true;
}

static bool same_dimensions(const struct pool *pool, const struct resource_set *set)
{
    bool same = pool->count == set->count && pool->has_halves == set->has_halves;

    for (unsigned i = 0; same && i < set->count; i++) {
        same = pool->per_half[i] == (set->has_halves && set->at[i].per_half) &&
               pool->is_copied[i] == (set->at[i].on_both == RESOURCE_COPIED);
    }
    return same;
}

static void pool_shape(struct pool *pool, const struct resource_set *set)
{
    pool->count = set->count;
    pool->fours = (set->count + 3) / 4;
    pool->has_halves = set->has_halves;
    for (unsigned i = 0; i < set->count; i++) {
        pool->per_half[i] = set->has_halves && set->at[i].per_half;
        pool->is_copied[i] = set->at[i].on_both == RESOURCE_COPIED;
    }
}

static void slot_fill(struct placement *p, uint32_t id,
                      const struct placement_cluster *c)
{
    struct slot *s = &p->slots[id];
    size_t len = strnlen(c->name, NAME_MAX_BYTES);

    s->is = *c;
    memset(s->name, 0, sizeof(s->name));
    memcpy(s->name, c->name, len);
    s->is.name = s->name;
    for (unsigned i = 0; i < c->set.count; i++) {
        uint64_t capacity = c->set.capacity[i];

        s->capacity.at[i] = capacity > 0 ? (double)capacity : NO_CAPACITY;
        s->room.at[i] = (double)(capacity * c->sale_bp / WHOLE_BP);
    }
    slot_left(p, id, 0);
    slot_left(p, id, 1);
}

/* Ranks follow names, so a new name moves those behind it. */
static void rank_all(struct placement *p)
{
    for (uint32_t i = 0; i < p->end; i++) {
        p->slots[i].rank = 0;
        for (uint32_t k = 0; p->slots[i].is_taken && k < p->end; k++) {
            p->slots[i].rank +=
                p->slots[k].is_taken && strcmp(p->slots[k].name, p->slots[i].name) < 0;
        }
    }
    for (unsigned i = 0; i < PLACEMENT_POOLS; i++) {
        order_sort(p, &p->pools[i]);
    }
}

/* Which tenants might need both halves of some cluster. */
static void pool_half_room(struct placement *p, struct pool *pool)
{
    for (uint32_t k = 0; k < pool->order_count; k++) {
        const struct row *room = &p->slots[pool->order[k].id].room;

        for (unsigned i = 0; i < pool->count; i++) {
            double least = pool->half_room.at[i];

            pool->half_room.at[i] = k == 0 || room->at[i] < least ? room->at[i] : least;
        }
    }
}

static uint32_t free_id(const struct placement *p)
{
    uint32_t id = 0;

    while (id < p->end && p->slots[id].is_taken) {
        id++;
    }
    return id;
}

enum rc placement_put_cluster(struct placement *p, const struct placement_cluster *c,
                              uint32_t *io_id, struct err *err)
{
    struct pool *pool = &p->pools[c->pool];
    uint32_t id = *io_id;

    if (pool->order_count > 0 && !same_dimensions(pool, &c->set)) {
        return err_set(err, RC_INVALID, "cluster %s: other dimensions than its pool's",
                       c->name);
    }
    if (id != PLACEMENT_NONE) {
        slot_fill(p, id, c);
        slot_settle(p, id);
        pool_half_room(p, pool);
        return RC_OK;
    }
    if (!pool_grow(p, pool)) {
        return err_set(err, RC_NO_MEMORY, "cluster %s: out of memory", c->name);
    }
    if (pool->order_count == 0) {
        pool_shape(pool, &c->set);
    }
    id = free_id(p);
    p->end += id == p->end;
    memset(&p->slots[id], 0, sizeof(p->slots[id]));
    p->slots[id].is_taken = true;
    slot_fill(p, id, c);
    pool->order[pool->order_count++].id = id;
    rank_all(p);
    pool_half_room(p, pool);
    *io_id = id;
    return RC_OK;
}

void placement_remove_cluster(struct placement *p, uint32_t id)
{
    struct pool *pool = &p->pools[p->slots[id].is.pool];
    struct place was = key_of(p, id);
    uint32_t at = order_search(pool->order, pool->order_count, &was);

    memmove(&pool->order[at], &pool->order[at + 1],
            (pool->order_count - at - 1) * sizeof(*pool->order));
    pool->order_count--;
    p->slots[id].is_taken = false;
    for (uint32_t i = 0; i < p->end; i++) {
        if (p->slots[i].is_taken && p->slots[i].is.backing == id) {
            p->slots[i].is.backing = PLACEMENT_NONE;
        }
    }
}

uint32_t placement_cluster_end(const struct placement *p)
{
    return p->end;
}

const struct placement_cluster *placement_cluster_at(const struct placement *p,
                                                     uint32_t id)
{
    return id < p->end && p->slots[id].is_taken ? &p->slots[id].is : NULL;
}

/* ---- tenants ---- */

void placement_add(struct placement *p, uint32_t id, enum half half,
                   const struct demand *d)
{
    struct need need = need_of(&p->pools[p->slots[id].is.pool], d);

    slot_load(p, id, half, &need, 1);
    p->slots[id].tenants++;
    slot_settle(p, id);
}

void placement_sub(struct placement *p, uint32_t id, enum half half,
                   const struct demand *d)
{
    struct need need = need_of(&p->pools[p->slots[id].is.pool], d);

    assert(p->slots[id].tenants > 0);
    slot_load(p, id, half, &need, -1);
    p->slots[id].tenants--;
    slot_settle(p, id);
}

void placement_change(struct placement *p, uint32_t id, enum half half,
                      const struct demand *from, const struct demand *to)
{
    const struct pool *pool = &p->pools[p->slots[id].is.pool];
    struct need less = need_of(pool, from);
    struct need more = need_of(pool, to);

    slot_load(p, id, half, &less, -1);
    slot_load(p, id, half, &more, 1);
    slot_settle(p, id);
}

void placement_set_common(struct placement *p, uint32_t id, unsigned which,
                          uint64_t amount)
{
    struct slot *s = &p->slots[id];

    for (unsigned in = 0; in < 2; in++) {
        s->used[in].at[which] += (double)amount - (double)s->common[which];
        slot_left(p, id, in);
    }
    s->common[which] = amount;
    slot_settle(p, id);
}

uint32_t placement_tenants(const struct placement *p, uint32_t id)
{
    return p->slots[id].tenants;
}

void placement_usage(const struct placement *p, uint32_t id, struct usage *ret)
{
    const struct slot *s = &p->slots[id];
    const struct pool *pool = &p->pools[s->is.pool];

    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < pool->count; i++) {
        ret->amount[0][i] = (uint64_t)s->used[0].at[i];
        ret->amount[1][i] = pool->per_half[i] ? (uint64_t)s->used[1].at[i] : 0;
    }
}

double placement_fullness(const struct placement *p, uint32_t id)
{
    return p->slots[id].fullness;
}
