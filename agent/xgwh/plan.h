/*
 * plan - the writes of one call, by stages, so that a batch of many rows has few
 * barriers.
 *
 * Within a stage no write needs another one done before it and no entry is written
 * twice; between stages there is a barrier, and one before the first write.  Who adds a
 * write picks the stage by what packets may look up meanwhile: what is pointed to comes
 * before what points to it, and goes after it.
 *
 * One owner, one thread.
 */
#pragma once

#include "agent/xgwh/phys.h"

struct xgwh_sink;
struct xgwh_cost;

enum stage {
    STAGE_NC_ADD, /* NC addresses: entries will point to them */
    STAGE_ADD,    /* VM-NC entries; VNIs that go; ports before buckets name them */
    STAGE_ROUTE,  /* alpm's, with barriers of their own */
    STAGE_ADMIT,  /* VNIs, once all of theirs is there; buckets; own addresses */
    STAGE_DEL,    /* VM-NC entries */
    STAGE_LATE,   /* NC addresses, and what another entry has taken over */
    STAGES
};

struct plan {
    struct plan_stage {
        struct phys_write *at;
        uint32_t count;
        uint32_t cap;
    } stage[STAGES];
    struct phys_meter_write *meters; /* written after STAGE_NC_ADD */
    uint32_t meter_count;
    uint32_t meter_cap;
    bool failed; /* memory ran out: what is here is not all */
};

/* A zeroed plan is an empty one. */
void plan_fini(struct plan *p);
void plan_reset(struct plan *p); /* forgets the writes */

void plan_add(struct plan *p, enum stage stage, enum phys_op op,
              const struct phys_entry *e);
/* As it is, with its barrier. */
void plan_add_write(struct plan *p, enum stage stage, const struct phys_write *w);
void plan_add_meter(struct plan *p, const struct phys_meter_write *w);

/* Gives all to the sink and forgets it. */
void plan_flush(struct plan *p, const struct xgwh_sink *sink, struct xgwh_cost *cost);
