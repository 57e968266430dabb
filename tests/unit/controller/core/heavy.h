/*
 * heavy - the largest things that are asked of a core, one after the other, with a
 * device of each cluster that takes what it is sent and answers what it is asked.
 *
 * A test counts what each step of the core does, a bench how long it takes.
 */
#pragma once

#include "tests/unit/controller/core/rig.h"

struct heavy_size {
    uint32_t rows; /* routes of the large tenant, and VM-NC entries */
    uint32_t vnis; /* small tenants */
    uint32_t nodes;
    uint32_t waits;
    uint32_t batch;      /* entries, up to BATCH_MAX_ENTRIES */
    uint32_t step_units; /* 0: the core's default */
};

struct heavy;

/* Watches the core's steps with `watch` (its `sent` is not asked). */
struct heavy *heavy_new(struct heavy_size size, const struct rig_watch *watch);
void heavy_free(struct heavy *h);

struct heavy_case {
    const char *name;
    void (*run)(struct heavy *h);
};
/* In the order in which they are to be run, for each builds on those before it. */
extern const struct heavy_case heavy_cases[];
extern const unsigned heavy_case_count;

/* Every device holds what is desired, and a core that starts anew desires the same. */
void heavy_check(struct heavy *h);
