/* placement_internal - what the files of controller/placement share and nobody else
 * includes. */
#pragma once

#include <stdalign.h>
#include <stddef.h>

#include "controller/placement/placement.h"

#define NAME_MAX_BYTES 63

/* A vector over the dimensions of a pool, of one half: dimensions without halves stand
 * in both rows alike.  Loops go by fours, which is what AVX2 compares at once. */
typedef double four __attribute__((vector_size(32)));
typedef int64_t four_mask __attribute__((vector_size(32)));

struct row {
    alignas(64) double at[RESOURCES_MAX];
};

struct slot {
    struct row used[2];
    struct row capacity; /* none: a trifle, so that anything used of it is too much */
    struct row room;     /* capacity at the sale level */
    uint64_t common[RESOURCES_MAX];
    struct placement_cluster is;
    char name[NAME_MAX_BYTES + 1];
    bool is_taken;
    uint32_t tenants;
    uint32_t rank; /* by name, among all */
    double fullness;
};

/* One pool's clusters, the fullest first.  Most that are looked at are full: what is
 * left of the fullest dimension of each half stands here, so that they are passed over
 * without reading their rows. */
struct place {
    double fullness;
    uint32_t rank;
    uint32_t id;
    double left[2];
    uint8_t tight[2];
};

struct pool {
    unsigned count; /* dimensions */
    unsigned fours; /* of them, rounded up */
    bool has_halves;
    bool per_half[RESOURCES_MAX];
    bool is_copied[RESOURCES_MAX];
    struct row half_room; /* the least that a half of any cluster has to sell */
    struct place *order;
    uint32_t order_count;
};

struct placement {
    struct slot *slots;
    /* What is left below the sale level, never negative: [id][half].  Apart from the
     * slots, since looking for a place reads nothing else. */
    struct row (*left)[2];
    uint32_t end;
    uint32_t cap;
    struct pool pools[PLACEMENT_POOLS];
};

/* A demand as rows. */
struct need {
    struct row one;   /* in the half it is in */
    struct row other; /* in the other half: what has no halves */
    struct row both;  /* in each, if it is in both */
    bool may_be_both; /* too large for a half of some cluster */
};

struct need need_of(const struct pool *pool, const struct demand *d);

static inline bool row_fits(const struct row *left, const struct row *need,
                            unsigned fours)
{
    const four *have = (const four *)left->at;
    const four *want = (const four *)need->at;
    four_mask lacks = { 0 };

    for (unsigned i = 0; i < fours; i++) {
        lacks |= have[i] < want[i];
    }
    return (lacks[0] | lacks[1] | lacks[2] | lacks[3]) == 0;
}

/* False: the cluster takes it in neither half, as one dimension shows. */
static inline bool place_may_take(const struct place *place, const struct need *need)
{
    return need->one.at[place->tight[0]] <= place->left[0] ||
           need->one.at[place->tight[1]] <= place->left[1] || need->may_be_both;
}

/* The largest used / capacity, with `more` on top (may be null), and which it is. */
double row_level(const struct row *used, const struct row *more,
                 const struct row *capacity, unsigned count, uint8_t *ret_which);

/* Whether it fits cluster `id`, and where; the half is set only if so. */
bool slot_takes(const struct placement *p, uint32_t id, const struct need *need,
                enum half *ret_half);
/* The level of the half it would go to, or the larger of both. */
double level_with(const struct placement *p, uint32_t id, const struct need *need,
                  enum half half);
/* The half that is less full with it, of those allowed. */
enum half slot_half(const struct placement *p, uint32_t id, const struct need *need,
                    bool may_0, bool may_1);
/* An empty half would not do for it. */
bool slot_needs_both(const struct placement *p, uint32_t id, const struct need *need);

/* Adds (+1) or takes off (-1), without the tenants' count. */
void slot_load(struct placement *p, uint32_t id, enum half half,
               const struct need *need, double sign);
/* After it: fullness, and the place in the order. */
void slot_settle(struct placement *p, uint32_t id);

/* Gives a copy to try things on; null: no memory. */
struct placement *placement_copy(const struct placement *p);
