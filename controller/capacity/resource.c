#include "controller/capacity/resource.h"

#include <string.h>

#define WHOLE_BP 10000

int resource_find(const struct resource_set *set, const char *name)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (strcmp(set->at[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* What `d` needs of resource `i` in half `in`, standing in `half`. */
static uint64_t part(const struct resource_set *set, const struct demand *d, unsigned i,
                     enum half half, unsigned in)
{
    uint64_t amount = d->amount[i];

    if (!set->has_halves || !set->at[i].per_half) {
        return in == 0 ? amount : 0;
    }
    if (half != HALF_BOTH) {
        return in == (unsigned)half ? amount : 0;
    }
    return set->at[i].on_both == RESOURCE_COPIED ? amount : (amount + 1) / 2;
}

void usage_add(const struct resource_set *set, struct usage *u, const struct demand *d,
               enum half half)
{
    for (unsigned in = 0; in < 2; in++) {
        for (unsigned i = 0; i < set->count; i++) {
            u->amount[in][i] += part(set, d, i, half, in);
        }
    }
}

void usage_sub(const struct resource_set *set, struct usage *u, const struct demand *d,
               enum half half)
{
    for (unsigned in = 0; in < 2; in++) {
        for (unsigned i = 0; i < set->count; i++) {
            uint64_t amount = part(set, d, i, half, in);

            u->amount[in][i] -= amount < u->amount[in][i] ? amount : u->amount[in][i];
        }
    }
}

void resource_room(const struct resource_set *set, uint32_t level_bp,
                   struct demand *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < set->count; i++) {
        ret->amount[i] = set->capacity[i] * level_bp / WHOLE_BP;
    }
}

static bool fits(uint64_t used, uint64_t more, uint64_t room)
{
    return more == 0 || used + more <= room;
}

bool usage_fits(const struct resource_set *set, const struct usage *u,
                const struct demand *d, enum half half, const struct demand *room,
                unsigned *ret_which)
{
    bool is_in_both = set->has_halves && half == HALF_BOTH;
    unsigned in = set->has_halves && half == HALF_1;

    for (unsigned i = 0; i < set->count; i++) {
        uint64_t more = d->amount[i];
        bool ok;

        if (!set->at[i].per_half) {
            ok = fits(u->amount[0][i], more, room->amount[i]);
        } else if (!is_in_both) {
            ok = fits(u->amount[in][i], more, room->amount[i]);
        } else {
            more = part(set, d, i, half, 0);
            ok = fits(u->amount[0][i], more, room->amount[i]) &&
                 fits(u->amount[1][i], more, room->amount[i]);
        }
        if (!ok) {
            if (ret_which) {
                *ret_which = i;
            }
            return false;
        }
    }
    return true;
}

uint32_t usage_level_bp(const struct resource_set *set, const struct usage *u,
                        enum half half, unsigned which)
{
    bool has_two = set->has_halves && set->at[which].per_half;
    uint64_t used = u->amount[has_two && half == HALF_1][which];
    uint64_t capacity = set->capacity[which];
    uint64_t level;

    if (used == 0) {
        return 0;
    }
    if (capacity == 0) {
        return UINT32_MAX;
    }
    level = (used * WHOLE_BP + capacity - 1) / capacity;
    return level < UINT32_MAX ? (uint32_t)level : UINT32_MAX;
}

uint32_t usage_fullest_bp(const struct resource_set *set, const struct usage *u,
                          unsigned *ret_which)
{
    uint32_t fullest = 0;
    unsigned which = 0;

    for (unsigned i = 0; i < set->count; i++) {
        for (enum half half = HALF_0; half <= HALF_1; half++) {
            uint32_t level = usage_level_bp(set, u, half, i);

            if (level > fullest) {
                fullest = level;
                which = i;
            }
        }
    }
    if (ret_which) {
        *ret_which = which;
    }
    return fullest;
}
