/*
 * u64map - a hash map from 64-bit keys to 32-bit values.
 *
 * Open addressing with linear probing, 12 bytes a place, at most 7/8 full; a delete
 * closes its gap, so there are no tombstones and a table that is emptied is as new.
 * Key U64MAP_NONE cannot be stored.  One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define U64MAP_NONE UINT64_MAX

struct u64map {
    uint64_t *keys; /* U64MAP_NONE: free */
    uint32_t *values;
    uint32_t mask; /* places - 1; 0: nothing allocated yet */
    uint32_t count;
};

/* A zeroed map is an empty one. */
void u64map_fini(struct u64map *m);

/* The value, to read or change; null when the key is not there.  Valid until the next
 * u64map_put() or u64map_delete(). */
uint32_t *u64map_find(const struct u64map *m, uint64_t key);

/* Asks for the memory where the key is, or would be. */
void u64map_prefetch(const struct u64map *m, uint64_t key);

/* Puts or overwrites; false when memory is out: as before. */
bool u64map_put(struct u64map *m, uint64_t key, uint32_t value);

bool u64map_delete(struct u64map *m, uint64_t key); /* false: was not there */

size_t u64map_memory(const struct u64map *m);

/* How many places there are, to go through all of them. */
static inline uint32_t u64map_places(const struct u64map *m)
{
    return m->keys ? m->mask + 1 : 0;
}
