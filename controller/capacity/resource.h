/*
 * resource - what a gateway can run out of, as a vector that callers need not know.
 *
 * A *resource* is one dimension: a name, a unit, whether each half of the chip has its
 * own.  A *profile's* resource set lists its dimensions with their capacities; a
 * *demand* is what one tenant needs of each, a *usage* what a cluster's tenants need
 * together.  Placement, water levels and admission loop over `set->count` and print
 * `set->at[i].name`; which dimensions there are is known only where a set is made
 * (profile.h).
 *
 * Amounts are integers, so that sums do not depend on their order: `amount / scale` is
 * in `unit`.  Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RESOURCES_MAX 16

/* What a tenant that stands in both halves needs in each of them. */
enum resource_on_both {
    RESOURCE_SPLIT, /* half of it, rounded up: VM-NC by the address' parity, traffic */
    RESOURCE_COPIED /* all of it: its routes stand in both */
};

struct resource {
    const char *name; /* "vm_nc" */
    const char *unit; /* "entries", "rows", "bit/s", "packets/s" */
    const char *what; /* one sentence */
    uint32_t scale;   /* amounts are in unit / scale; at least 1 */
    bool per_half;    /* each half has `capacity` of it; else the node as a whole */
    uint8_t on_both;  /* enum resource_on_both; of those per half */
};

struct resource_set {
    struct resource at[RESOURCES_MAX];
    uint64_t capacity[RESOURCES_MAX]; /* amounts below 2^48; zero: nothing fits */
    /* Shared out among the nodes of a side (traffic); else each node needs all of it.
     */
    bool is_shared_out[RESOURCES_MAX];
    unsigned count;
    bool has_halves;
};

struct demand {
    uint64_t amount[RESOURCES_MAX]; /* below 2^48 each */
};

/* Where a tenant's entries are; a set without halves knows HALF_0 alone. */
enum half { HALF_0 = 0, HALF_1 = 1, HALF_BOTH = 2 };

struct usage {
    uint64_t amount[2][RESOURCES_MAX]; /* by half; not per half: in [0] alone */
};

/* The place of a resource, or -1. */
int resource_find(const struct resource_set *set, const char *name);

void usage_add(const struct resource_set *set, struct usage *u, const struct demand *d,
               enum half half);
/* Takes off what usage_add() put on; nothing goes below zero. */
void usage_sub(const struct resource_set *set, struct usage *u, const struct demand *d,
               enum half half);

/* How much of each resource there is at a level, in basis points of its capacity; of a
 * half where it has halves.  Once for many usage_fits(). */
void resource_room(const struct resource_set *set, uint32_t level_bp,
                   struct demand *ret);

/* Whether `d` fits on top of `u` within `room`; what needs nothing of a resource fits
 * there, however full it is.  If not, `*ret_which` is the first that does not; it may
 * be null.  Some ten nanoseconds: placement asks this for each tenant and cluster. */
bool usage_fits(const struct resource_set *set, const struct usage *u,
                const struct demand *d, enum half half, const struct demand *room,
                unsigned *ret_which);

/* Fullness in basis points of the capacity, rounded up, at most UINT32_MAX; a resource
 * without capacity is full once anything is used.  `half` is HALF_0 or HALF_1, and does
 * not matter where a resource has no halves. */
uint32_t usage_level_bp(const struct resource_set *set, const struct usage *u,
                        enum half half, unsigned which);

/* The fullest of all resources and halves, and which it is (may be null). */
uint32_t usage_fullest_bp(const struct resource_set *set, const struct usage *u,
                          unsigned *ret_which);
