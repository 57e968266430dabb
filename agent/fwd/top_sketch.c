#include "agent/fwd/top_sketch.h"

#include <stdlib.h>
#include <string.h>

#include "agent/fwd/mix.h"

struct counter {
    struct flow_key key;
    uint64_t bytes;
    uint64_t error;
    uint32_t hash;
    uint16_t heap_at;
};

#define NOBODY UINT16_MAX

struct top_sketch {
    uint32_t capacity;
    uint32_t count;
    uint32_t mask; /* of the slots */
    uint64_t total;
    struct counter *counters; /* all of these lie behind the struct */
    uint16_t *heap;           /* counters' numbers; the lightest on top */
    uint16_t *slots;          /* counters by hash, open addressing; at most half full */
};

_Static_assert(TOP_SKETCH_CAPACITY_MAX < NOBODY, "a counter's number fits");

struct top_sketch *top_sketch_new(uint32_t capacity)
{
    uint32_t slots = 4;
    struct top_sketch *s;
    uint8_t *at;
    size_t size;

    while (slots < 2 * capacity) {
        slots *= 2;
    }
    size = sizeof(*s) + capacity * (sizeof(struct counter) + sizeof(uint16_t)) +
           slots * sizeof(uint16_t);
    s = calloc(1, size);
    if (!s) {
        return NULL;
    }
    at = (uint8_t *)(s + 1);
    s->capacity = capacity;
    s->mask = slots - 1;
    s->counters = (struct counter *)at;
    s->heap = (uint16_t *)(at + capacity * sizeof(struct counter));
    s->slots = s->heap + capacity;
    top_sketch_clear(s);
    return s;
}

void top_sketch_free(struct top_sketch *s)
{
    free(s);
}

void top_sketch_clear(struct top_sketch *s)
{
    s->count = 0;
    s->total = 0;
    memset(s->slots, 0xff, (s->mask + 1) * sizeof(*s->slots));
}

static uint32_t hash_of(const struct flow_key *key)
{
    uint64_t w[sizeof(*key) / sizeof(uint64_t)];
    uint64_t hash;

    memcpy(w, key, sizeof(w));
    hash = mix(w[0] ^ MIX_SALT_0, w[1] ^ MIX_SALT_1) ^
           mix(w[2] ^ MIX_SALT_2, w[3] ^ MIX_SALT_3);
    hash ^= mix(w[4] ^ MIX_SALT_1, w[5] ^ MIX_SALT_2);
    return (uint32_t)(mix(hash ^ MIX_SALT_3, MIX_SALT_0) >> 32);
}

/* The slot that holds the key, or the empty one where it would go. */
static uint32_t find_slot(const struct top_sketch *s, const struct flow_key *key,
                          uint32_t hash)
{
    uint32_t at = hash & s->mask;

    while (s->slots[at] != NOBODY) {
        const struct counter *c = &s->counters[s->slots[at]];

        if (c->hash == hash && memcmp(&c->key, key, sizeof(*key)) == 0) {
            break;
        }
        at = (at + 1) & s->mask;
    }
    return at;
}

/* Empties a slot and closes the gap: whoever stands behind and could stand in it moves
 * up (Knuth, TAOCP 3, 6.4, algorithm R). */
static void empty_slot(struct top_sketch *s, uint32_t gap)
{
    uint32_t at = gap;

    for (;;) {
        uint32_t home;

        s->slots[gap] = NOBODY;
        do {
            at = (at + 1) & s->mask;
            if (s->slots[at] == NOBODY) {
                return;
            }
            home = s->counters[s->slots[at]].hash & s->mask;
        } while (((at - home) & s->mask) < ((at - gap) & s->mask));
        s->slots[gap] = s->slots[at];
        gap = at;
    }
}

static uint64_t weight_at(const struct top_sketch *s, uint32_t at)
{
    return s->counters[s->heap[at]].bytes;
}

static void heap_set(struct top_sketch *s, uint32_t at, uint16_t number)
{
    s->heap[at] = number;
    s->counters[number].heap_at = (uint16_t)at;
}

/* The counter at `at` became heavier. */
static void sink(struct top_sketch *s, uint32_t at)
{
    uint16_t number = s->heap[at];
    uint64_t bytes = s->counters[number].bytes;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= s->count) {
            break;
        }
        if (child + 1 < s->count && weight_at(s, child + 1) < weight_at(s, child)) {
            child++;
        }
        if (weight_at(s, child) >= bytes) {
            break;
        }
        heap_set(s, at, s->heap[child]);
        at = child;
    }
    heap_set(s, at, number);
}

/* A new counter of weight 0 comes to the top: nothing is lighter. */
static uint16_t add_counter(struct top_sketch *s)
{
    uint16_t number = (uint16_t)s->count;
    uint32_t at = s->count++;

    while (at > 0) {
        uint32_t parent = (at - 1) / 2;

        heap_set(s, at, s->heap[parent]);
        at = parent;
    }
    s->counters[number].bytes = 0;
    heap_set(s, 0, number);
    return number;
}

void top_sketch_add(struct top_sketch *s, const struct flow_key *key, uint64_t bytes)
{
    uint32_t hash = hash_of(key);
    uint32_t slot = find_slot(s, key, hash);
    uint16_t number = s->slots[slot];
    struct counter *c;

    s->total += bytes;
    if (number == NOBODY) {
        if (s->count < s->capacity) {
            number = add_counter(s);
        } else {
            number = s->heap[0];
            c = &s->counters[number];
            empty_slot(s, find_slot(s, &c->key, c->hash));
            slot = find_slot(s, key, hash); /* the gap may have moved it */
        }
        c = &s->counters[number];
        c->key = *key;
        c->hash = hash;
        c->error = c->bytes;
        s->slots[slot] = number;
    }
    s->counters[number].bytes += bytes;
    sink(s, s->counters[number].heap_at);
}

uint64_t top_sketch_total(const struct top_sketch *s)
{
    return s->total;
}

uint64_t top_sketch_missed(const struct top_sketch *s)
{
    return s->count < s->capacity ? 0 : weight_at(s, 0);
}

static int heavier(const void *a, const void *b)
{
    const struct top_entry *x = a;
    const struct top_entry *y = b;

    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return memcmp(&x->key, &y->key, sizeof(x->key)); /* the same list every time */
}

static int by_key(const void *a, const void *b)
{
    const struct top_entry *x = a;
    const struct top_entry *y = b;

    return memcmp(&x->key, &y->key, sizeof(x->key));
}

static uint32_t collect(const struct top_sketch *s, struct top_entry *to)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct counter *c = &s->counters[i];

        to[i] = (struct top_entry){ c->key, c->bytes, c->error };
    }
    return s->count;
}

/* Keys that stand there several times become one; what a sketch without the key may
 * have missed of it is added.  Returns how many are left. */
static uint32_t sum_up(struct top_entry *all, uint32_t n, uint64_t missed,
                       const struct top_sketch *const sketches[], uint32_t count)
{
    uint32_t kept = 0;

    qsort(all, n, sizeof(*all), by_key);
    for (uint32_t i = 0; i < n;) {
        struct top_entry sum = { .key = all[i].key, .bytes = missed, .error = missed };

        for (uint32_t k = 0; k < count; k++) {
            uint32_t hash = hash_of(&sum.key);
            uint16_t number =
                sketches[k]->slots[find_slot(sketches[k], &sum.key, hash)];

            if (number != NOBODY) {
                const struct counter *c = &sketches[k]->counters[number];

                sum.bytes += c->bytes - top_sketch_missed(sketches[k]);
                sum.error += c->error - top_sketch_missed(sketches[k]);
            }
        }
        while (i < n && memcmp(&all[i].key, &sum.key, sizeof(sum.key)) == 0) {
            i++;
        }
        all[kept++] = sum;
    }
    return kept;
}

enum rc top_sketch_merge(const struct top_sketch *const sketches[], uint32_t count,
                         struct top_entry ret[], uint32_t room, uint32_t *ret_count,
                         uint64_t *ret_rest)
{
    struct top_entry *all;
    uint64_t missed = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        n += sketches[i]->count;
    }
    all = malloc((n + 1) * sizeof(*all));
    if (!all) {
        return RC_NO_MEMORY;
    }
    n = 0;
    for (uint32_t i = 0; i < count; i++) {
        n += collect(sketches[i], all + n);
        missed += top_sketch_missed(sketches[i]);
    }
    n = sum_up(all, n, missed, sketches, count);
    qsort(all, n, sizeof(*all), heavier);
    *ret_count = n < room ? n : room;
    *ret_rest = n > room ? all[room].bytes : missed; /* never below `missed` */
    memcpy(ret, all, *ret_count * sizeof(*all));
    free(all);
    return RC_OK;
}
