#include "agent/xgwh/u64map.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_MIN 64

void u64map_fini(struct u64map *m)
{
    free(m->keys);
    free(m->values);
    memset(m, 0, sizeof(*m));
}

/* MurmurHash3's 64-bit finalizer: every bit of the key reaches the low bits. */
static uint32_t place_of(const struct u64map *m, uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(key ^ key >> 33) & m->mask;
}

/* The key's place, or the free one where it would go. */
static uint32_t probe(const struct u64map *m, uint64_t key)
{
    uint32_t at = place_of(m, key);

    while (m->keys[at] != key && m->keys[at] != U64MAP_NONE) {
        at = (at + 1) & m->mask;
    }
    return at;
}

uint32_t *u64map_find(const struct u64map *m, uint64_t key)
{
    uint32_t at;

    if (!m->keys) {
        return NULL;
    }
    at = probe(m, key);
    return m->keys[at] == key ? &m->values[at] : NULL;
}

void u64map_prefetch(const struct u64map *m, uint64_t key)
{
    if (m->keys) {
        uint32_t at = place_of(m, key);

        __builtin_prefetch(&m->keys[at]);
        __builtin_prefetch(&m->values[at]);
    }
}

static bool grow(struct u64map *m)
{
    struct u64map wider = { .count = m->count };
    uint32_t places = m->keys ? 2 * (m->mask + 1) : PLACES_MIN;

    wider.mask = places - 1;
    wider.keys = malloc(places * sizeof(*wider.keys));
    wider.values = malloc(places * sizeof(*wider.values));
    if (!wider.keys || !wider.values) {
        u64map_fini(&wider);
        return false;
    }
    memset(wider.keys, 0xff, places * sizeof(*wider.keys));
    for (uint32_t i = 0; i < u64map_places(m); i++) {
        if (m->keys[i] != U64MAP_NONE) {
            uint32_t at = probe(&wider, m->keys[i]);

            wider.keys[at] = m->keys[i];
            wider.values[at] = m->values[i];
        }
    }
    u64map_fini(m);
    *m = wider;
    return true;
}

bool u64map_put(struct u64map *m, uint64_t key, uint32_t value)
{
    uint32_t *old = u64map_find(m, key);
    uint32_t at;

    if (old) {
        *old = value;
        return true;
    }
    if ((uint64_t)(m->count + 1) * 8 > (uint64_t)u64map_places(m) * 7 && !grow(m)) {
        return false;
    }
    at = probe(m, key);
    m->keys[at] = key;
    m->values[at] = value;
    m->count++;
    return true;
}

bool u64map_delete(struct u64map *m, uint64_t key)
{
    uint32_t gap;
    uint32_t at;

    if (!m->keys) {
        return false;
    }
    gap = probe(m, key);
    if (m->keys[gap] == U64MAP_NONE) {
        return false;
    }
    /* What lies behind and began at or before the gap moves into it. */
    for (at = (gap + 1) & m->mask; m->keys[at] != U64MAP_NONE;
         at = (at + 1) & m->mask) {
        uint32_t home = place_of(m, m->keys[at]);

        if (((at - home) & m->mask) >= ((at - gap) & m->mask)) {
            m->keys[gap] = m->keys[at];
            m->values[gap] = m->values[at];
            gap = at;
        }
    }
    m->keys[gap] = U64MAP_NONE;
    m->count--;
    return true;
}

size_t u64map_memory(const struct u64map *m)
{
    return (size_t)u64map_places(m) * (sizeof(*m->keys) + sizeof(*m->values));
}
