#include "controller/core/map.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_SLOTS 512u /* 12 KiB: a split moves some 400 keys; a guess */

struct map_segment {
    uint32_t depth; /* so many leading bits of the hash are the same for all */
    uint32_t cap;   /* a power of two, up to SEGMENT_SLOTS */
    uint32_t count;
    struct map_slot slots[];
};

/* splitmix64's finalizer: neighbouring VNIs land far apart. */
static uint64_t hash_of(uint64_t key)
{
    key = (key ^ key >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ key >> 27) * UINT64_C(0x94d049bb133111eb);
    return key ^ key >> 31;
}

static uint32_t place_of(const struct map *m, uint64_t hash)
{
    return m->depth ? (uint32_t)(hash >> (64 - m->depth)) : 0;
}

static struct map_segment *segment_new(uint32_t depth, uint32_t cap)
{
    struct map_segment *s = calloc(1, sizeof(*s) + cap * sizeof(s->slots[0]));

    if (s) {
        s->depth = depth;
        s->cap = cap;
    }
    return s;
}

/* Of the places that lead to `s`, how many there are. */
static uint32_t alias_count(const struct map *m, const struct map_segment *s)
{
    return 1u << (m->depth - s->depth);
}

void map_fini(struct map *m)
{
    for (uint32_t i = 0; m->directory && i >> m->depth == 0;) {
        uint32_t aliases = alias_count(m, m->directory[i]);

        free(m->directory[i]);
        i += aliases;
    }
    free(m->directory);
    *m = (struct map){ 0 };
}

bool map_copy(const struct map *from, struct map *ret)
{
    struct map copy = { .depth = from->depth, .count = from->count };
    uint32_t size = from->directory ? 1u << from->depth : 0;

    if (size > 0) {
        copy.directory = calloc(size, sizeof(*copy.directory));
        if (!copy.directory) {
            return false;
        }
    }
    for (uint32_t i = 0; i < size;) {
        const struct map_segment *s = from->directory[i];
        struct map_segment *own = segment_new(s->depth, s->cap);

        if (!own) {
            for (uint32_t k = 0; k < i; k += alias_count(from, copy.directory[k])) {
                free(copy.directory[k]);
            }
            free(copy.directory);
            return false;
        }
        own->count = s->count;
        memcpy(own->slots, s->slots, s->cap * sizeof(s->slots[0]));
        for (uint32_t aliases = alias_count(from, s); aliases > 0; aliases--) {
            copy.directory[i++] = own;
        }
    }
    *ret = copy;
    return true;
}

/* The slot of `key`, or the empty one where it would stand. */
static struct map_slot *segment_slot(struct map_segment *s, uint64_t hash, uint64_t key)
{
    uint32_t i = (uint32_t)hash & (s->cap - 1);

    while (s->slots[i].key != key && s->slots[i].key != 0) {
        i = (i + 1) & (s->cap - 1);
    }
    return &s->slots[i];
}

struct map_slot *map_find(const struct map *m, uint64_t key)
{
    uint64_t hash = hash_of(key);
    struct map_slot *slot;

    if (m->count == 0) {
        return NULL;
    }
    slot = segment_slot(m->directory[place_of(m, hash)], hash, key);
    return slot->key ? slot : NULL;
}

static void segment_move(const struct map_slot *slot, struct map_segment *to)
{
    *segment_slot(to, hash_of(slot->key), slot->key) = *slot;
    to->count++;
}

static void set_places(struct map *m, uint32_t first, struct map_segment *s)
{
    for (uint32_t i = 0; i < alias_count(m, s); i++) {
        m->directory[first + i] = s;
    }
}

static bool segment_grow(struct map *m, uint32_t first, struct map_segment *s)
{
    struct map_segment *grown = segment_new(s->depth, 2 * s->cap);

    if (!grown) {
        return false;
    }
    for (uint32_t i = 0; i < s->cap; i++) {
        if (s->slots[i].key) {
            segment_move(&s->slots[i], grown);
        }
    }
    set_places(m, first, grown);
    free(s);
    return true;
}

static bool directory_double(struct map *m)
{
    const uint32_t size = 1u << m->depth;
    struct map_segment **doubled = malloc(2 * (size_t)size * sizeof(*doubled));

    if (!doubled) {
        return false;
    }
    for (uint32_t i = 0; i < size; i++) {
        doubled[2 * i] = m->directory[i];
        doubled[2 * i + 1] = m->directory[i];
    }
    free(m->directory);
    m->directory = doubled;
    m->depth++;
    return true;
}

static bool segment_split(struct map *m, uint32_t first, struct map_segment *s)
{
    struct map_segment *low = segment_new(s->depth + 1, SEGMENT_SLOTS);
    struct map_segment *high = segment_new(s->depth + 1, SEGMENT_SLOTS);

    if (!low || !high) {
        free(low);
        free(high);
        return false;
    }
    for (uint32_t i = 0; i < s->cap; i++) {
        if (s->slots[i].key) {
            bool is_high = hash_of(s->slots[i].key) >> (63 - s->depth) & 1;

            segment_move(&s->slots[i], is_high ? high : low);
        }
    }
    set_places(m, first, low);
    set_places(m, first + alias_count(m, low), high);
    free(s);
    return true;
}

/* Room for one more in the segment of `hash`. */
static bool make_room(struct map *m, uint64_t hash)
{
    struct map_segment *s = m->directory[place_of(m, hash)];
    uint32_t first;

    if (s->cap == SEGMENT_SLOTS && s->depth == m->depth && !directory_double(m)) {
        return false;
    }
    first = place_of(m, hash) & ~(alias_count(m, s) - 1);
    return s->cap < SEGMENT_SLOTS ? segment_grow(m, first, s)
                                  : segment_split(m, first, s);
}

static bool map_begin(struct map *m)
{
    struct map_segment *s = segment_new(0, 16);
    struct map_segment **directory = malloc(sizeof(*directory));

    if (!s || !directory) {
        free(s);
        free(directory);
        return false;
    }
    directory[0] = s;
    m->directory = directory;
    return true;
}

struct map_slot *map_add(struct map *m, uint64_t key)
{
    uint64_t hash = hash_of(key);
    struct map_slot *slot = map_find(m, key);
    struct map_segment *s;

    if (slot) {
        return slot;
    }
    if (!m->directory && !map_begin(m)) {
        return NULL;
    }
    /* At most three quarters full. */
    while (s = m->directory[place_of(m, hash)], s->count + 1 > s->cap / 4 * 3) {
        if (!make_room(m, hash)) {
            return NULL;
        }
    }
    slot = segment_slot(s, hash, key);
    *slot = (struct map_slot){ .key = key };
    s->count++;
    m->count++;
    return slot;
}

void map_remove(struct map *m, struct map_slot *slot)
{
    struct map_segment *s = m->directory[place_of(m, hash_of(slot->key))];
    const uint32_t mask = s->cap - 1;
    uint32_t hole = (uint32_t)(slot - s->slots);

    /* Moves back what would no longer be found past the hole. */
    for (uint32_t i = (hole + 1) & mask; s->slots[i].key != 0; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)hash_of(s->slots[i].key) & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            s->slots[hole] = s->slots[i];
            hole = i;
        }
    }
    s->slots[hole] = (struct map_slot){ 0 };
    s->count--;
    m->count--;
}

struct map_slot *map_each(const struct map *m, uint32_t *at)
{
    while (m->directory && *at / SEGMENT_SLOTS >> m->depth == 0) {
        uint32_t place = *at / SEGMENT_SLOTS;
        struct map_segment *s = m->directory[place];
        uint32_t behind = (place + alias_count(m, s)) * SEGMENT_SLOTS;

        for (uint32_t i = *at % SEGMENT_SLOTS; i < s->cap; i++) {
            if (s->slots[i].key != 0) {
                *at = i + 1 < s->cap ? place * SEGMENT_SLOTS + i + 1 : behind;
                return &s->slots[i];
            }
        }
        *at = behind;
    }
    return NULL;
}
