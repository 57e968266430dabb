/*
 * fib_lanes - lookups of one family side by side, from key to where the answer lies:
 * what the steps of fib_batch.c share.  Each function asks the memory for what the next
 * one reads.  Nobody else includes it.
 *
 * A lane is *marked* if VM-NC alone answered it (fib_mark.c); all others are *slow* and
 * go by their VNI's routes.
 */
#pragma once

#include "agent/fwd/fib_impl.h"

/* What is inlined with `is_v6` a constant. */
#define STAGE static inline __attribute__((always_inline))

static inline void prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

STAGE uint32_t lane_vni(const struct fib_lanes *l, unsigned k, const bool is_v6)
{
    return is_v6 ? l->vni[k] : (uint32_t)l->hi[k];
}

STAGE const struct exact *vm_table(const struct fib *f, const bool is_v6)
{
    return is_v6 ? &f->v6 : &f->v4;
}

static inline const uint8_t *slot_at(const struct fib *f, uint64_t slot)
{
    return f->lines.base + (uint64_t)slot_line(slot) * LINE_BYTES;
}

/* Looks for the marked entry of lane `k` in its bucket: > 0 if it is there. */
STAGE int lane_scan(const struct fib_lanes *l, unsigned k, const bool is_v6,
                    uint32_t *ret_hdr, uint64_t *ret_code)
{
    return is_v6 ? exact_scan_v6(l->bucket[k], l->hi[k], l->lo[k],
                                 l->vni[k] | EXACT_MARK, UINT32_MAX, ret_hdr, ret_code)
                 : exact_scan_v4(l->bucket[k], l->hi[k] | EXACT_MARK, UINT64_MAX,
                                 ret_hdr, ret_code);
}

/* What VM-NC says of a lane, marked or not; false: nothing. */
bool lane_find_vm(const struct fib *f, const struct fib_lanes *l, unsigned k,
                  bool is_v6, uint32_t *ret_code);

/* Asks for the VM-NC buckets of the lanes that were added since the last call. */
void lanes_begin(const struct fib *f, struct fib_lanes *l, bool is_v6);

/* Makes lane `k` a slow one: asks for its VNI's bucket.  And where `hdr` of its first
 * VM-NC bucket says so for the second one, else l->bucket[k] becomes null. */
void lane_is_slow(const struct fib *f, struct fib_lanes *l, unsigned k, uint32_t hdr,
                  bool is_v6);

/* Reads the slots of the slow lanes; asks for the routes. */
void lanes_step(const struct fib *f, struct fib_lanes *l, bool is_v6);

/* Reads what lanes_step() left to a second bucket, and sorts the slow lanes by what
 * their slots lead to.  `is_first`: a VNI without a row is odd. */
void lanes_sort(const struct fib *f, struct fib_lanes *l, bool is_v6, bool is_first);
