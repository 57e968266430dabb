#include "agent/fwd/pool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "agent/fwd/lines.h"

/* Follows the value in its slot; only the writer looks at it. */
struct pool_tail {
    uint32_t refs;
    uint32_t next; /* hash chain, or spare slots */
};

enum { FIRST_HEADS = 64 };

static struct pool_tail *tail_of(const struct pool *p, uint32_t index)
{
    return (struct pool_tail *)(p->slots + (uint64_t)index * p->slot_len +
                                p->value_len);
}

int pool_init(struct pool *p, uint32_t value_len, uint32_t max, uint64_t seed)
{
    *p = (struct pool){
        .value_len = value_len,
        .slot_len = value_len + (uint32_t)sizeof(struct pool_tail),
        .max = max,
        .spare = POOL_NONE,
        .seed = seed,
    };
    p->slots = lines_reserve((uint64_t)max * p->slot_len);
    return p->slots ? 0 : -1;
}

void pool_fini(struct pool *p)
{
    lines_unreserve(p->slots, (uint64_t)p->max * p->slot_len);
    free(p->heads);
    *p = (struct pool){ 0 };
}

uint64_t pool_memory(const struct pool *p)
{
    return (uint64_t)p->top * p->slot_len + p->head_count * sizeof *p->heads;
}

static uint32_t *head_of(const struct pool *p, const void *value)
{
    uint64_t h = XXH3_64bits_withSeed(value, p->value_len, p->seed);

    return &p->heads[h & (p->head_count - 1)];
}

uint32_t pool_find(const struct pool *p, const void *value)
{
    uint32_t at = p->head_count ? *head_of(p, value) : POOL_NONE;

    while (at != POOL_NONE && memcmp(pool_value(p, at), value, p->value_len) != 0) {
        at = tail_of(p, at)->next;
    }
    return at;
}

/* Doubles the chains' heads; a failure only makes chains longer, unless there are
 * none yet. */
static bool heads_grow(struct pool *p)
{
    uint32_t count = p->head_count ? p->head_count * 2 : FIRST_HEADS;
    uint32_t *heads = malloc(count * sizeof *heads);
    uint32_t *old = p->heads;
    uint32_t old_count = p->head_count;

    if (!heads) {
        return old != NULL;
    }
    memset(heads, 0xff, count * sizeof *heads);
    p->heads = heads;
    p->head_count = count;
    for (uint32_t i = 0; i < old_count; i++) {
        uint32_t at = old[i];

        while (at != POOL_NONE) {
            uint32_t next = tail_of(p, at)->next;
            uint32_t *head = head_of(p, pool_value(p, at));

            tail_of(p, at)->next = *head;
            *head = at;
            at = next;
        }
    }
    free(old);
    return true;
}

uint32_t pool_acquire(struct pool *p, const void *value)
{
    uint32_t at = pool_find(p, value);
    uint32_t *head;

    if (at != POOL_NONE) {
        tail_of(p, at)->refs++;
        return at;
    }
    if (p->live >= p->head_count && !heads_grow(p)) {
        return POOL_NONE;
    }
    if (p->spare != POOL_NONE) {
        at = p->spare;
        p->spare = tail_of(p, at)->next;
    } else if (p->top < p->max) {
        at = p->top++;
    } else {
        return POOL_NONE;
    }
    memcpy(p->slots + (uint64_t)at * p->slot_len, value, p->value_len);
    head = head_of(p, value);
    *tail_of(p, at) = (struct pool_tail){ .refs = 1, .next = *head };
    *head = at;
    p->live++;
    return at;
}

_Bool pool_release(struct pool *p, uint32_t index)
{
    struct pool_tail *tail = tail_of(p, index);
    uint32_t *link;

    if (--tail->refs > 0) {
        return false;
    }
    link = head_of(p, pool_value(p, index));
    while (*link != index) {
        link = &tail_of(p, *link)->next;
    }
    *link = tail->next;
    p->live--;
    return true;
}

_Bool pool_recount(struct pool *p, uint32_t index, uint32_t refs)
{
    struct pool_tail *tail = tail_of(p, index);

    if (tail->refs == 0) {
        return false;
    }
    tail->refs = refs > 0 ? refs : 1;
    return refs == 0 && pool_release(p, index);
}

void pool_reuse(struct pool *p, uint32_t index)
{
    tail_of(p, index)->next = p->spare;
    p->spare = index;
}
