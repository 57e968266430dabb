/*
 * plan - the writes of one call, by stages, so that a batch of many rows has few
 * barriers.
 *
 * Within a stage no write needs another one done before it and no entry is written
 * twice; between stages there is a barrier, and one before the first write.  Who adds a
 * write picks the stage by what packets may look up meanwhile: what is pointed to comes
 * before what points to it, and goes after it.
 *
 * STAGE_ROUTE alone has an order inside, and that by *strands*: the routes of each half
 * and the access rules know nothing of each other, so the first writes of all strands
 * go together, then the second ones, and a batch has as many barriers as its longest
 * strand.
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
    STAGE_ROUTE,  /* routes and access rules: see plan_strand */
    STAGE_ADMIT,  /* VNIs, once all of theirs is there; buckets; own addresses */
    STAGE_DEL,    /* VM-NC entries */
    STAGE_LATE,   /* NC addresses, and what another entry has taken over */
    STAGES
};

enum plan_strand { STRAND_ROUTES_0, STRAND_ROUTES_1, STRAND_ACL, STRANDS };

struct plan {
    struct plan_stage {
        struct phys_write *at;
        uint32_t count;
        uint32_t cap;
    } stage[STAGES];
    uint32_t *waves; /* of each write of STAGE_ROUTE: what it goes together with */
    uint32_t waves_cap;
    uint32_t wave_first;       /* of what comes behind the last plan_join() */
    uint32_t wave_end;         /* above all there */
    uint32_t wave_of[STRANDS]; /* 1 + that of the strand's last write; 0: none yet */
    struct phys_meter_write *meters; /* written after STAGE_NC_ADD */
    uint32_t meter_count;
    uint32_t meter_cap;
    bool failed; /* memory ran out: what is here is not all */
    /* Entries of which a device's own places contradict each other: until they are
     * written, whatever for.  They outlive a flush. */
    struct phys_entry *doubts;
    uint32_t doubt_count, doubt_cap;
};

/* A zeroed plan is an empty one. */
void plan_fini(struct plan *p);
void plan_reset(struct plan *p); /* forgets the writes */

void plan_add(struct plan *p, enum stage stage, enum phys_op op,
              const struct phys_entry *e);
/* To STAGE_ROUTE; its barrier is one to what the strand has, no more. */
void plan_add_strand(struct plan *p, enum plan_strand strand,
                     const struct phys_write *w);
/* What any strand gets from here on comes after all that is there. */
void plan_join(struct plan *p);
void plan_add_meter(struct plan *p, const struct phys_meter_write *w);

/* Remembers a doubted entry; false: memory is out. */
bool plan_doubt(struct plan *p, const struct phys_entry *e);
void plan_doubts_clear(struct plan *p);
/* Is there a write of this entry, in its half? */
bool plan_writes(const struct plan *p, const struct phys_entry *e);

/* Gives all to the sink and forgets it; false: memory is out, and nothing was given. */
bool plan_flush(struct plan *p, const struct xgwh_sink *sink, struct xgwh_cost *cost);
