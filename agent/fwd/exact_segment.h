/*
 * exact_segment - one segment of an exact table, as its writer handles it: slots filled
 * and emptied in the order that readers rely on (exact.h), entries moved to make room,
 * whole segments built anew.  exact.c decides when; nobody else includes it.
 */
#pragma once

#include "agent/fwd/exact.h"

/* One line before the first bucket counts. */
struct segment {
    uint64_t word;    /* as in the directory */
    uint8_t *buckets; /* lines */
    uint32_t *count;
    uint32_t nb;
};

struct segment segment_of(const struct exact *e, uint64_t word);

/* How many entries a bucket of the table holds. */
unsigned segment_slots(const struct exact *e);
/* The header of a bucket. */
exact_u32 *segment_hdr(unsigned kind, void *bucket);

uint64_t entry_hash(const struct exact *e, const struct exact_entry *x);

/* Where a key stands, marked or not: its bucket in `*ret_bucket`, the entry in `*ret`;
 * the slot is returned, or -1. */
int segment_find(const struct exact *e, const struct segment *s,
                 const struct exact_entry *key, uint64_t hash, uint32_t *ret_bucket,
                 struct exact_entry *ret);
/* Places a key that is not there; false: no way to a free slot was found. */
bool segment_insert(const struct exact *e, const struct segment *s,
                    const struct exact_entry *x, uint64_t hash);
/* The value of the key that stands there; one store. */
void segment_update(const struct exact *e, const struct segment *s, uint32_t bucket,
                    unsigned slot, const struct exact_entry *x);
/* The key that stands there, with its mark or without; one store. */
void segment_rekey(const struct exact *e, const struct segment *s, uint32_t bucket,
                   unsigned slot, const struct exact_entry *x);
void segment_remove(const struct exact *e, const struct segment *s, uint32_t bucket,
                    unsigned slot, uint64_t hash);

/* Takes out every copy of a key, but for that which segment_find() finds if it is to be
 * kept.  Returns how many went. */
uint32_t segment_purge(const struct exact *e, const struct segment *s,
                       const struct exact_entry *key, uint64_t hash, bool keeps_found);

/* Buckets that a new segment gets for so many entries. */
uint32_t segment_buckets_for(const struct exact *e, uint64_t entries);
bool segment_new(const struct exact *e, uint32_t nb, unsigned depth,
                 struct segment *ret);
/* Of a segment that was never published. */
void segment_drop(const struct exact *e, const struct segment *s);
/* Builds what `from` holds anew, or the half of it whose hash has `bit` (from the top,
 * 0-based; -1: all) equal to `side`; more room after a bad draw. */
bool segment_build(const struct exact *e, const struct segment *from, unsigned depth,
                   uint32_t nb, int bit, unsigned side, struct segment *ret);
