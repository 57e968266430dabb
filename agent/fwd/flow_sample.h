/*
 * flow_sample - which flows and tenants a worker's packets are of, by samples.
 *
 * Now and then a packet is looked at, as it arrived, and counted for all that passed
 * since the last one, in two sketches (top_sketch.h): one of flows, one of tenants.
 * Gaps are drawn at random, so that no period in the traffic hides from them; between
 * samples a burst costs one comparison.  Packets that are not VXLAN to us with an inner
 * IP packet are passed over.
 *
 * A sample costs some 640 cycles where each is of another flow (bench_lookup,
 * 2026-12-01), so their number is bounded and not their share: at most one a burst, and
 * after each FLOW_SAMPLE_BUDGET of them in an interval the mean gap doubles.  A worker
 * at rest looks at every packet, one at its limit at one in 128 and ever fewer.
 *
 * What it is wrong by: a flow of n samples has a standard error of at most 1 / sqrt(n)
 * of its bytes (packets of one size), besides the sketch's own bound, which is known.
 *
 * Threads: the worker fills the pair of sketches that `filling` names.  The reader
 * swaps them, waits until the worker has passed a quiescent point, and owns the other
 * pair until it swaps again; it clears the pair before that.
 */
#pragma once

#include <stdatomic.h>

#include "agent/fwd/top_sketch.h"

#define FLOW_SAMPLE_BUDGET  16384u
#define FLOW_SAMPLE_FLOWS   1024u
#define FLOW_SAMPLE_TENANTS 512u

struct flow_sample_pair {
    struct top_sketch *flows;
    struct top_sketch *tenants;
};

struct flow_sample {
    uint64_t random; /* xorshift64, never 0 */
    uint32_t skip;   /* packets until the next sample */
    uint32_t counts; /* for how many packets it counts: the mean of the gap before it */
    uint32_t gap;    /* least mean of the next ones */
    uint32_t left;   /* samples until that doubles */
    uint32_t filled; /* the pair that the last one went to */
    _Atomic uint32_t filling;
    struct flow_sample_pair pair[2];
};

/* `seed` is any number.  RC_NO_MEMORY: nothing is held. */
enum rc flow_sample_init(struct flow_sample *s, uint64_t seed);
void flow_sample_fini(struct flow_sample *s); /* zeroed is fine */

/* The worker: packets[0..n) as they arrived. */
void flow_sample_packets(struct flow_sample *s, const struct fwd_config *config,
                         const struct fwd_packet packets[], uint32_t n);

static inline void flow_sample_burst(struct flow_sample *s,
                                     const struct fwd_config *config,
                                     const struct fwd_packet packets[], uint32_t n)
{
    if (s->skip >= n) {
        s->skip -= n;
    } else {
        flow_sample_packets(s, config, packets, n);
    }
}

/* The reader: the worker fills the other pair from its next burst on; gives the one
 * that it leaves once it has passed a quiescent point. */
struct flow_sample_pair *flow_sample_swap(struct flow_sample *s);
