/*
 * exact - a bucketized cuckoo hash table that one thread writes and any number read.
 *
 * A bucket is one cache line with keys and values inline.  A key lies in its first or
 * its second bucket; the first one's header counts those of its keys that lie in the
 * second, so most lookups touch one line.  Three kinds differ in the slot alone:
 *
 *   EXACT_VNI  7 slots  u64: low 25 bits are the key, the rest the value
 *   EXACT_V4   5 slots  key u64, value u32
 *   EXACT_V6   2 slots  key u64 ×2 and u32, value u32
 *
 * A bit of a V4 or V6 key that its VNI leaves free may be a *mark*: one bit that the
 * owner changes in place and readers get with the key, at no cost (exact_use_marks()).
 *
 * The table is cut by hash into segments of a few thousand entries, behind a directory
 * (extendible hashing): a segment grows by a quarter, or splits, by being built anew
 * and published by one store.  So growth costs little memory at a time and no entry is
 * ever unreachable.
 *
 * How a reader stays right without locks.  A slot is filled value first, key last, and
 * the bucket's version (in its header) goes up before; a hit is valid when the header
 * did not change while the slot was read.  A key that moves is written to its new
 * bucket before it goes from the old one.  Only a move from second to first bucket can
 * slip past a reader that looks at first, then second; it changes the first's version,
 * so a miss is valid when the first header and the directory did not change.  A reader
 * repeats only when the writer made progress in the very bucket that it read.
 *
 * Atomic loads and stores order everything (no fences): TSan sees the whole protocol.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/fwd/lines.h"
#include "agent/fwd/retire.h"
#include "proto/base/err.h"

enum exact_kind { EXACT_VNI, EXACT_V4, EXACT_V6 };

#define EXACT_VNI_KEY UINT64_C(0x1ffffff)

/* `hdr` of each: version in the upper 24 bits, count of keys in their second bucket in
 * the lower 8 (255 stays). */
#define EXACT_OVERFLOW 0xffu

typedef _Atomic(uint64_t) exact_u64;
typedef _Atomic(uint32_t) exact_u32;

struct exact_bucket_vni {
    exact_u64 slot[7]; /* 0: free */
    exact_u32 hdr;
    uint32_t pad;
};
struct exact_bucket_v4 {
    exact_u64 key[5]; /* address in the upper half, VNI in the lower; 0: free */
    exact_u32 val[5];
    exact_u32 hdr;
};
struct exact_bucket_v6 {
    exact_u64 hi[2]; /* the address as two numbers */
    exact_u64 lo[2];
    exact_u32 vni[2]; /* 0: free */
    exact_u32 val[2];
    uint32_t pad[3];
    exact_u32 hdr;
};
_Static_assert(sizeof(struct exact_bucket_vni) == LINE_BYTES, "one line");
_Static_assert(sizeof(struct exact_bucket_v4) == LINE_BYTES, "one line");
_Static_assert(sizeof(struct exact_bucket_v6) == LINE_BYTES, "one line");

/* Segment word: line of the first bucket (32), local depth (8), buckets (24). */
struct exact_dir {
    uint32_t shift; /* 63 - depth */
    uint32_t lines; /* of this allocation */
    exact_u64 segment[];
};

struct exact {
    _Atomic(const struct exact_dir *) dir;
    const uint8_t *base; /* of the lines */
    uint64_t seed[3];
    /* the writer's */
    struct lines *lines;
    struct retire *retire;
    uint64_t count;
    uint64_t refused_at; /* lines->frees when memory was last refused, or UINT64_MAX */
    uint64_t stagger;
    uint32_t mark; /* the bit of the key, or 0 */
    uint8_t kind;
    uint8_t depth;
};

/* A key and its value.  VNI: `w0` is the whole slot.  V4: `w0`.  V6: w0, w1, vni. */
struct exact_entry {
    uint64_t w0;
    uint64_t w1;
    uint32_t vni;
    uint32_t val;
};

/* Bit 24 of the VNI: where a key holds no more than a VNI's 24 bits there. */
#define EXACT_MARK (UINT32_C(1) << 24)

/* Returns 0, or -1 without memory. */
int exact_init(struct exact *e, enum exact_kind kind, struct lines *lines,
               struct retire *retire, uint64_t seed);

/* Of a new table: from here on keys may be marked.  All calls take keys without their
 * mark, but exact_put(), where it counts for a new key and not for one that stands. */
static inline void exact_use_marks(struct exact *e)
{
    e->mark = EXACT_MARK;
}

static inline void exact_entry_mark(const struct exact *e, struct exact_entry *x,
                                    bool marked)
{
    if (e->kind == EXACT_V4) {
        x->w0 = (x->w0 & ~(uint64_t)e->mark) | (marked ? e->mark : 0);
    } else {
        x->vni = (x->vni & ~e->mark) | (marked ? e->mark : 0);
    }
}

/* Inserts or overwrites in place (one store).  RC_OK, or RC_NO_MEMORY with the table
 * as it was; says whether the key stood there and what its value was (VNI: slot). */
enum rc exact_put(struct exact *e, const struct exact_entry *entry, bool *ret_existed,
                  uint64_t *ret_old);
/* False when the key was not there. */
bool exact_del(struct exact *e, const struct exact_entry *key, uint64_t *ret_old);
/* Any thread: the value (VNI: the slot) of a key. */
bool exact_find(const struct exact *e, const struct exact_entry *key, uint64_t *ret);

/* Takes out every copy of a key but, with `keeps_found`, the one that lookups find.
 * There is one at most, unless memory was corrupted.  Returns how many went. */
uint32_t exact_purge(struct exact *e, const struct exact_entry *key, bool keeps_found);

/* Asks the memory for the line that most likely holds a key. */
void exact_prefetch(const struct exact *e, const struct exact_entry *key);
/* Of a key that is there, else nothing; one store.  The writer. */
void exact_mark(struct exact *e, const struct exact_entry *key, bool marked);
bool exact_is_marked(const struct exact *e, const struct exact_entry *key);

/* ---- slot by slot, for audits (exact_read.c): the writer's thread ---- */

/* Where a walk is, in parts of the hash's space; starts zero.  Entries that move while
 * the walk pauses may be passed over or met twice. */
struct exact_cursor {
    uint64_t hash; /* of the segment: its first */
    uint32_t bucket;
    uint32_t slot;
    bool is_over;
};
/* The next entry that stands in a slot; `*ret_is_found`: a lookup of its key ends at
 * this very slot.  Each slot takes one of `*budget`.  False: the budget is used up, or
 * (`is_over`) there is none left. */
bool exact_next(const struct exact *e, struct exact_cursor *c, uint32_t *budget,
                struct exact_entry *ret, bool *ret_is_found);

/* ---- the hot path's pieces ---- */

static inline uint64_t exact_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)a * b;

    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t exact_hash1(const struct exact *e, uint64_t w0)
{
    return exact_mix(w0 ^ e->seed[0], e->seed[1]);
}

static inline uint64_t exact_hash_v6(const struct exact *e, uint64_t w0, uint64_t w1,
                                     uint32_t vni)
{
    uint64_t h = exact_mix(w0 ^ e->seed[0], w1 ^ e->seed[1]);

    return exact_mix(h ^ vni, e->seed[2]);
}

static inline uint64_t exact_segment(const struct exact_dir *dir, uint64_t hash)
{
    return atomic_load_explicit(&dir->segment[(hash >> 1) >> dir->shift],
                                memory_order_acquire);
}

static inline uint32_t exact_first(uint64_t hash, uint32_t buckets)
{
    return (uint32_t)(((hash & 0xffffffff) * buckets) >> 32);
}

static inline uint32_t exact_second(uint64_t hash, uint32_t buckets)
{
    uint64_t h2 = (hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    uint32_t second = (uint32_t)((h2 * buckets) >> 32);

    if (second == exact_first(hash, buckets)) {
        second = second + 1 < buckets ? second + 1 : 0;
    }
    return second;
}

static inline uint32_t exact_buckets(uint64_t segment)
{
    return (uint32_t)segment & 0xffffff;
}

static inline const uint8_t *exact_bucket(const struct exact *e, uint64_t segment,
                                          uint32_t index)
{
    return e->base + ((segment >> 32) + index) * LINE_BYTES;
}

/* The first bucket of a hash, by a directory that was loaded before. */
static inline const void *exact_home_in(const struct exact *e,
                                        const struct exact_dir *dir, uint64_t hash)
{
    uint64_t segment = exact_segment(dir, hash);

    return exact_bucket(e, segment, exact_first(hash, exact_buckets(segment)));
}

static inline const void *exact_away(const struct exact *e, uint64_t hash)
{
    const struct exact_dir *dir = atomic_load_explicit(&e->dir, memory_order_acquire);
    uint64_t segment = exact_segment(dir, hash);

    return exact_bucket(e, segment, exact_second(hash, exact_buckets(segment)));
}

/* Which slots of a bucket hold a key, as a bit mask; the compilers' own vector code for
 * a loop with an exit is a chain of unpredictable branches.  The vector loads are not
 * atomic in C's terms; on x86 each 8-byte lane of an aligned one is read at once, and
 * loads stay in order.  TSan gets the plain loops. */
#if defined(__AVX2__) && !defined(__SANITIZE_THREAD__)
#define EXACT_VECTOR 1
#include <immintrin.h>
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef EXACT_VECTOR
#endif
#endif
#endif

#ifdef EXACT_VECTOR
static inline __m256i exact_load4(const exact_u64 *at)
{
    __m256i v = _mm256_load_si256((const __m256i *)(const void *)at);

    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order, too */
    return v;
}

static inline uint32_t exact_mask4(__m256i same)
{
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(same));
}

/* The lower halves of all slots at once, in an order that exact_vni_place() undoes; the
 * last is none. */
static inline uint32_t exact_match_vni(const struct exact_bucket_vni *b, uint64_t key)
{
    __m256 low = _mm256_castsi256_ps(exact_load4(b->slot));
    __m256 high = _mm256_castsi256_ps(exact_load4(b->slot + 4));
    __m256i keys =
        _mm256_and_si256(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)),
                         _mm256_set1_epi32((int)EXACT_VNI_KEY));
    __m256i same = _mm256_cmpeq_epi32(keys, _mm256_set1_epi32((int)key));

    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same)) & 0x7f;
}

static inline unsigned exact_vni_place(uint32_t mask)
{
    static const uint8_t place[7] = { 0, 1, 4, 5, 2, 3, 6 };

    return place[__builtin_ctz(mask)];
}

static inline uint32_t exact_match_v4(const struct exact_bucket_v4 *b, uint64_t key,
                                      uint64_t mask)
{
    __m256i want = _mm256_set1_epi64x((int64_t)key);
    __m256i four =
        _mm256_and_si256(exact_load4(b->key), _mm256_set1_epi64x((int64_t)mask));
    uint32_t low = exact_mask4(_mm256_cmpeq_epi64(four, want));
    uint32_t last =
        (atomic_load_explicit(&b->key[4], memory_order_acquire) & mask) == key;

    __asm__("" : "+r"(last)); /* no branch: it is random */
    return low | last << 4;
}
#else
static inline uint32_t exact_match_vni(const struct exact_bucket_vni *b, uint64_t key)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < 7; i++) {
        uint64_t slot = atomic_load_explicit(&b->slot[i], memory_order_acquire);

        mask |= (uint32_t)((slot & EXACT_VNI_KEY) == key) << i;
    }
    return mask;
}

static inline unsigned exact_vni_place(uint32_t mask)
{
    return (unsigned)__builtin_ctz(mask);
}

static inline uint32_t exact_match_v4(const struct exact_bucket_v4 *b, uint64_t key,
                                      uint64_t mask)
{
    uint32_t same = 0;

    for (unsigned i = 0; i < 5; i++) {
        uint64_t stands = atomic_load_explicit(&b->key[i], memory_order_acquire);

        same |= (uint32_t)((stands & mask) == key) << i;
    }
    return same;
}
#endif

static inline uint32_t exact_match_v6(const struct exact_bucket_v6 *b, uint64_t hi,
                                      uint64_t lo, uint32_t vni, uint32_t mask)
{
    uint32_t same = 0;

    for (unsigned i = 0; i < 2; i++) {
        uint64_t differs =
            ((atomic_load_explicit(&b->vni[i], memory_order_acquire) & mask) ^ vni) |
            (atomic_load_explicit(&b->hi[i], memory_order_acquire) ^ hi) |
            (atomic_load_explicit(&b->lo[i], memory_order_acquire) ^ lo);

        same |= (uint32_t)(differs == 0) << i;
    }
    return same;
}

/* Scans of one bucket: 1 hit, 0 not here, -1 the bucket changed meanwhile.  `*hdr` is
 * the header before the scan.  `bits` are those of the key that are compared. */
static inline int exact_scan_vni(const struct exact_bucket_vni *b, uint64_t key,
                                 uint32_t *hdr, uint64_t *ret)
{
    uint32_t mask;
    uint64_t slot;

    *hdr = atomic_load_explicit(&b->hdr, memory_order_acquire);
    mask = exact_match_vni(b, key);
    if (!mask) {
        return 0;
    }
    /* The slot may have been given to another key since. */
    slot = atomic_load_explicit(&b->slot[exact_vni_place(mask)], memory_order_acquire);
    *ret = slot;
    return (slot & EXACT_VNI_KEY) == key ? slot != 0 : -1;
}

/* The same of a VNI bucket, where a miss and a change are one: look again elsewhere. */
static inline bool exact_scan_slot(const struct exact_bucket_vni *b, uint64_t key,
                                   uint64_t *ret)
{
    uint32_t mask = exact_match_vni(b, key);

    if (!mask) {
        return false;
    }
    *ret = atomic_load_explicit(&b->slot[exact_vni_place(mask)], memory_order_acquire);
    return (*ret & EXACT_VNI_KEY) == key; /* of VNI 0, which has none, a free one: 0 */
}

static inline int exact_scan_v4(const struct exact_bucket_v4 *b, uint64_t key,
                                uint64_t bits, uint32_t *hdr, uint64_t *ret)
{
    uint32_t mask;

    *hdr = atomic_load_explicit(&b->hdr, memory_order_acquire);
    mask = exact_match_v4(b, key, bits);
    if (!mask) {
        return 0;
    }
    *ret = atomic_load_explicit(&b->val[__builtin_ctz(mask)], memory_order_acquire);
    return *hdr == atomic_load_explicit(&b->hdr, memory_order_acquire) ? 1 : -1;
}

static inline int exact_scan_v6(const struct exact_bucket_v6 *b, uint64_t hi,
                                uint64_t lo, uint32_t vni, uint32_t bits, uint32_t *hdr,
                                uint64_t *ret)
{
    uint32_t mask;

    *hdr = atomic_load_explicit(&b->hdr, memory_order_acquire);
    mask = exact_match_v6(b, hi, lo, vni, bits);
    if (!mask) {
        return 0;
    }
    *ret = atomic_load_explicit(&b->val[__builtin_ctz(mask)], memory_order_acquire);
    return *hdr == atomic_load_explicit(&b->hdr, memory_order_acquire) ? 1 : -1;
}
