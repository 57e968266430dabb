/*
 * naive - placement as its rules say it, for comparison: no order is kept, nothing is
 * prepared, levels are compared as fractions.  Shares no code with the module.
 */
#pragma once

#include "controller/placement/placement.h"

#define NAIVE_MAX 24

struct naive_cluster {
    struct placement_cluster is;
    char name[16];
    uint64_t used[2][RESOURCES_MAX]; /* not per half: in both */
    uint32_t tenants;
};

struct naive {
    struct naive_cluster at[NAIVE_MAX]; /* by the module's id */
    uint32_t count;
};

struct placement_answer naive_choose(const struct naive *n,
                                     const struct placement_ask *ask);
void naive_load(struct naive *n, uint32_t id, enum half half, const struct demand *d,
                int sign);
void naive_fill(struct naive *n, unsigned pool, const struct demand *needs,
                uint32_t count, struct placement_answer *ret);
