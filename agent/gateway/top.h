/*
 * top - the heaviest flows and tenants of the last interval, over all workers.
 *
 * Each TOP_INTERVAL_MS the workers' sketches are swapped; once each worker has passed a
 * quiescent point, what they left is merged and kept until the next time.  Control
 * thread.
 */
#pragma once

#include "agent/gateway/worker.h"

#define TOP_INTERVAL_MS 10000
#define TOP_MAX         100

struct top {
    struct worker *workers;
    unsigned worker_count;
    uint64_t begun_ms;  /* of the interval that is being filled */
    bool is_swapped;    /* and not merged yet */
    uint64_t *tickets;  /* one a worker, of the swap */
    uint32_t swap_took; /* the length of the interval that was swapped out, in ms */
    struct flow_sample_pair **pairs;
    const struct top_sketch **sketches; /* room for one a worker */

    /* what was merged last; all zero before */
    uint64_t ended_ms;
    uint32_t interval_ms;
    uint64_t bytes; /* of all packets that are VXLAN to us, as estimated */
    uint32_t flow_count;
    uint32_t tenant_count;
    uint64_t flows_rest;             /* what one that is not listed had at most */
    uint64_t tenants_rest;           /* the same */
    struct top_entry flows[TOP_MAX]; /* the heaviest first */
    struct top_entry tenants[TOP_MAX];
};

/* Workers without samples are passed over. */
enum rc top_init(struct top *t, struct worker *workers, unsigned worker_count,
                 uint64_t now_ms, struct err *err);
void top_fini(struct top *t); /* zeroed is fine */

/* Now and then; finds out itself what is due. */
void top_tick(struct top *t, uint64_t now_ms);
