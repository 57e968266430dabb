#include "controller/core/map.h"

#include <stdlib.h>
#include <string.h>

/* splitmix64's finalizer: neighbouring VNIs land far apart. */
static uint32_t home_slot(const struct map *m, uint64_t key)
{
    key = (key ^ key >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ key >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(key ^ key >> 31) & (m->cap - 1);
}

void map_fini(struct map *m)
{
    free(m->slots);
    *m = (struct map){ 0 };
}

struct map_slot *map_find(const struct map *m, uint64_t key)
{
    if (m->count == 0) {
        return NULL;
    }
    for (uint32_t i = home_slot(m, key);; i = (i + 1) & (m->cap - 1)) {
        if (m->slots[i].key == key) {
            return &m->slots[i];
        }
        if (m->slots[i].key == 0) {
            return NULL;
        }
    }
}

static struct map_slot *free_slot(const struct map *m, uint64_t key)
{
    uint32_t i = home_slot(m, key);

    while (m->slots[i].key != 0) {
        i = (i + 1) & (m->cap - 1);
    }
    return &m->slots[i];
}

static bool map_grow(struct map *m)
{
    struct map grown = { .cap = m->cap ? 2 * m->cap : 16, .count = m->count };

    grown.slots = calloc(grown.cap, sizeof(*grown.slots));
    if (!grown.slots) {
        return false;
    }
    for (uint32_t i = 0; i < m->cap; i++) {
        if (m->slots[i].key != 0) {
            *free_slot(&grown, m->slots[i].key) = m->slots[i];
        }
    }
    free(m->slots);
    *m = grown;
    return true;
}

bool map_copy(const struct map *from, struct map *ret)
{
    struct map copy = *from;

    if (from->cap > 0) {
        copy.slots = malloc(from->cap * sizeof(*copy.slots));
        if (!copy.slots) {
            return false;
        }
        memcpy(copy.slots, from->slots, from->cap * sizeof(*copy.slots));
    }
    *ret = copy;
    return true;
}

struct map_slot *map_add(struct map *m, uint64_t key)
{
    struct map_slot *slot = map_find(m, key);

    if (slot) {
        return slot;
    }
    /* At most three quarters full. */
    if (m->count + 1 > m->cap / 4 * 3 && !map_grow(m)) {
        return NULL;
    }
    slot = free_slot(m, key);
    *slot = (struct map_slot){ .key = key };
    m->count++;
    return slot;
}

void map_remove(struct map *m, struct map_slot *slot)
{
    const uint32_t mask = m->cap - 1;
    uint32_t hole = (uint32_t)(slot - m->slots);

    /* Moves back what would no longer be found past the hole. */
    for (uint32_t i = (hole + 1) & mask; m->slots[i].key != 0; i = (i + 1) & mask) {
        uint32_t home = home_slot(m, m->slots[i].key);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct map_slot){ 0 };
    m->count--;
}

struct map_slot *map_each(const struct map *m, uint32_t *at)
{
    while (*at < m->cap) {
        struct map_slot *slot = &m->slots[(*at)++];

        if (slot->key != 0) {
            return slot;
        }
    }
    return NULL;
}
