/*
 * pool - distinct values behind small numbers, counted: tunnel endpoints, VM-NC values
 * with a MAC or an IPv6 NC, service names.
 *
 * Many entries hold the same few values; they keep an index instead.  The slots lie in
 * one reservation, so an index is an address.  A value whose last reference goes is no
 * longer found, but its slot stays as it is until pool_reuse(), which the owner calls
 * when no reader can still hold the index.
 *
 * The writer's thread changes; any thread may read pool_value() of an index that it got
 * from a published entry.
 */
#pragma once

#include <stdint.h>

#define POOL_NONE UINT32_MAX

struct pool {
    uint8_t *slots;
    uint32_t *heads;     /* hash chains; power of two */
    uint32_t head_count; /* 0 until the first value */
    uint32_t value_len;
    uint32_t slot_len;
    uint32_t max;   /* slots reserved */
    uint32_t top;   /* slots from here on were never used */
    uint32_t spare; /* first reusable slot, POOL_NONE if none */
    uint32_t live;
    uint64_t seed;
};

/* Returns 0, or -1 when address space is refused.  `value_len` a multiple of 4. */
int pool_init(struct pool *p, uint32_t value_len, uint32_t max, uint64_t seed);
void pool_fini(struct pool *p);

/* The index of a value, or POOL_NONE. */
uint32_t pool_find(const struct pool *p, const void *value);
/* The same with one more reference; POOL_NONE when slots or memory are out. */
uint32_t pool_acquire(struct pool *p, const void *value);
/* One reference less.  True when it was the last: the caller passes the index to
 * pool_reuse() once no reader can hold it. */
_Bool pool_release(struct pool *p, uint32_t index);
void pool_reuse(struct pool *p, uint32_t index);
/* Of a live value: so many references it has, whatever was counted.  True when that is
 * none: then as pool_release().  Of any other index: nothing. */
_Bool pool_recount(struct pool *p, uint32_t index, uint32_t refs);

uint64_t pool_memory(const struct pool *p); /* bytes touched */

static inline const void *pool_value(const struct pool *p, uint32_t index)
{
    return p->slots + (uint64_t)index * p->slot_len;
}
