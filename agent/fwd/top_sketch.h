/*
 * top_sketch - the heaviest keys of a stream, in bounded memory.
 *
 * Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005) with weights: `capacity` keys
 * are counted; a new one takes the place of the lightest, and inherits its count as
 * what it may be wrong by.  With W added in all and m counters:
 *
 *   bytes - error <= what the key really had <= bytes,   error <= W / m,
 *   and every key that really had more than W / m is in the sketch.
 *
 * Nothing decays: it is cleared at the start of an interval, and its answer is about
 * that interval.  Sketches of several streams (workers) merge, and their bounds add
 * (Agarwal et al., Mergeable Summaries, PODS 2012).
 *
 * One owner.  An add allocates nothing and costs a hash lookup and a walk down a heap:
 * on a packet path it is for samples (flow_sample.h).
 */
#pragma once

#include "agent/fwd/flow_key.h"
#include "proto/base/err.h"

struct top_sketch; /* opaque: top_sketch.c */

struct top_entry {
    struct flow_key key;
    uint64_t bytes; /* at most; at least bytes - error */
    uint64_t error;
};

#define TOP_SKETCH_CAPACITY_MAX 32768u

/* `capacity` 1 to TOP_SKETCH_CAPACITY_MAX; some 100 bytes each.  Null: no memory. */
struct top_sketch *top_sketch_new(uint32_t capacity);
void top_sketch_free(struct top_sketch *s); /* null is fine */

void top_sketch_add(struct top_sketch *s, const struct flow_key *key, uint64_t bytes);
void top_sketch_clear(struct top_sketch *s);

uint64_t top_sketch_total(const struct top_sketch *s); /* W */
/* What a key that is not in the sketch had at most. */
uint64_t top_sketch_missed(const struct top_sketch *s);

/* The heaviest of all streams (or of one) together, up to `room`, the heaviest first.
 * Fills how many, and what a key that is not among them had at most; RC_NO_MEMORY. */
enum rc top_sketch_merge(const struct top_sketch *const sketches[], uint32_t count,
                         struct top_entry ret[], uint32_t room, uint32_t *ret_count,
                         uint64_t *ret_rest);
