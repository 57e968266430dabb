/*
 * fwd_impl - what the files of fwd share: fwd.c (the entry point, chunks, the common
 * packet's short way) and fwd_finish.c (where any other packet goes once the tables
 * have answered).  Nobody else includes it.
 */
#pragma once

#include "agent/fwd/fast.h"
#include "agent/fwd/parse.h"
#include "agent/fwd/uplink.h"

/* What one call of fwd_burst() carries through its stages. */
struct call {
    const struct fwd_config *config;
    const struct fib *fib;
    struct fwd_worker *worker;
    struct fwd_packet *packets;
    struct fwd_answers *answers;
    uint64_t now_ns;
    uint32_t n;
    uint32_t forwarded;
    uint32_t local;
    struct uplink_set uplinks4;
    struct uplink_set uplinks6;
    unsigned exit_count; /* ways out over IPv4; 0 without a VIP to come from */
    struct fast_exit exit[FWD_UPLINK_MAX];
};

/* Only the worker writes, so load and store need not be one step; the reader sees whole
 * words. */
static inline void count_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, v + n, memory_order_relaxed);
}

static inline uint32_t outcome_of(enum fwd_verdict verdict, unsigned reason,
                                  unsigned local, unsigned uplink)
{
    return (uint32_t)verdict | reason << 8 | local << 16 | uplink << 24;
}

static inline void settle(struct fwd_packet *p, enum fwd_verdict verdict,
                          unsigned reason, unsigned local, unsigned uplink)
{
    p->outcome = outcome_of(verdict, reason, local, uplink);
}

/* Drops it, and counts that. */
void fwd_drop(struct call *c, uint32_t index, unsigned reason);

/* Checks 22 to 43 of a packet whose query is answered, and out.  `inner` is what
 * parse_inner() said. */
void fwd_finish(struct call *c, uint32_t index, const struct layers *l,
                const struct fib_query *q, uint8_t inner);
