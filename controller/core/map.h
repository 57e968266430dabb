/*
 * map - a hash table from a non-zero 64-bit key to two words.
 *
 * Extendible hashing: a directory of segments, each of open addressing without
 * tombstones.  A segment that is full is split in two and the others stay as they are,
 * so that no call takes longer as the map grows, but for the directory's doubling, a
 * copy of a pointer for some 300 keys.  The order of its slots depends on the keys and
 * their history alone, so the core stays deterministic.  One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct map_slot {
    uint64_t key; /* 0: empty */
    union {
        uint64_t a;
        void *p;
    };
    uint64_t b;
};

struct map_segment; /* opaque: map.c */

struct map {
    struct map_segment **directory; /* all zero is an empty map */
    uint32_t depth;                 /* the directory has 2^depth places */
    uint32_t count;
};

void map_fini(struct map *m); /* frees the slots, not what they refer to */

struct map_slot *map_find(const struct map *m, uint64_t key); /* null: not there */

/* False: no memory. */
bool map_copy(const struct map *from, struct map *ret);

/* Finds `key` or adds it with zero words.  Null: no memory.  Slots move. */
struct map_slot *map_add(struct map *m, uint64_t key);

/* Takes the slot out; other slots may move. */
void map_remove(struct map *m, struct map_slot *slot);

/* The first slot in use at or behind index `*at`, which is set behind it; null at the
 * end.  The map must not change between two calls. */
struct map_slot *map_each(const struct map *m, uint32_t *at);
