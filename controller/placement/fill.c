/* fill: many tenants at once, the largest first, so that small ones fill what is left.
 */
#include "controller/placement/placement_internal.h"

#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)
#define KEY_MAX    ((1u << 2 * DIGIT_BITS) - 1)
/* What counts as large: this share of what the pool's largest cluster has to sell. */
#define LARGE (1.0 / 64)
/* Demands lie where they lie: the next ones are fetched while one is placed. */
#define AHEAD 8

/* The most of each dimension that any cluster of the pool has to sell. */
static void largest_room(const struct placement *p, const struct pool *pool,
                         struct row *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (uint32_t k = 0; k < pool->order_count; k++) {
        const struct row *room = &p->slots[pool->order[k].id].room;

        for (unsigned i = 0; i < pool->count; i++) {
            ret->at[i] = room->at[i] > ret->at[i] ? room->at[i] : ret->at[i];
        }
    }
}

/* Small for what is large; all that are not large are equal. */
static uint32_t key_of(const struct demand *d, const struct row *room, unsigned count)
{
    double share = 0;
    uint32_t size;

    for (unsigned i = 0; i < count; i++) {
        double one = room->at[i] > 0 ? (double)d->amount[i] / room->at[i]
                                     : (double)(d->amount[i] > 0);

        share = one > share ? one : share;
    }
    if (share < LARGE) {
        return KEY_MAX;
    }
    size = share < 1 ? (uint32_t)(share * (KEY_MAX + 1.0)) : KEY_MAX;
    return KEY_MAX - size;
}

struct keyed {
    uint32_t key;
    uint32_t index;
};

/* One stable pass of counting by the digit at `shift`. */
static void sort_pass(const struct keyed *from, struct keyed *to, uint32_t count,
                      unsigned shift)
{
    uint32_t start[DIGITS + 1] = { 0 };

    for (uint32_t i = 0; i < count; i++) {
        start[(from[i].key >> shift) % DIGITS + 1]++;
    }
    for (unsigned d = 0; d < DIGITS; d++) {
        start[d + 1] += start[d];
    }
    for (uint32_t i = 0; i < count; i++) {
        to[start[(from[i].key >> shift) % DIGITS]++] = from[i];
    }
}

static struct placement_answer place_one(struct placement *p, const struct pool *pool,
                                         const struct demand *d)
{
    struct placement_answer a = { PLACEMENT_NONE, HALF_0 };
    struct need need = need_of(pool, d);

    for (uint32_t i = 0; i < pool->order_count; i++) {
        uint32_t id = pool->order[i].id;

        if (place_may_take(&pool->order[i], &need) && p->slots[id].is.is_open &&
            slot_takes(p, id, &need, &a.half)) {
            a.cluster = id;
            slot_load(p, id, a.half, &need, 1);
            p->slots[id].tenants++;
            slot_settle(p, id);
            break;
        }
    }
    return a;
}

enum rc placement_fill(struct placement *p, unsigned pool_index,
                       const struct demand *needs, uint32_t count,
                       struct placement_answer *ret, uint32_t *ret_refused)
{
    const struct pool *pool = &p->pools[pool_index];
    struct keyed *list = calloc(count + 1, sizeof(*list));
    struct keyed *other = calloc(count + 1, sizeof(*other));
    struct row room;
    uint32_t refused = 0;

    if (!list || !other) {
        free(list);
        free(other);
        return RC_NO_MEMORY;
    }
    largest_room(p, pool, &room);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct keyed){ key_of(&needs[i], &room, pool->count), i };
    }
    sort_pass(list, other, count, 0);
    sort_pass(other, list, count, DIGIT_BITS);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = list[i].index;

        if (i + AHEAD < count) {
            const char *next = (const char *)&needs[list[i + AHEAD].index];

            __builtin_prefetch(next);
            __builtin_prefetch(next + 64);
        }
        ret[at] = place_one(p, pool, &needs[at]);
        refused += ret[at].cluster == PLACEMENT_NONE;
    }
    free(list);
    free(other);
    *ret_refused = refused;
    return RC_OK;
}
