/*
 * lpm - the routes of one (VNI, family): immutable, built whole, published by one
 * store.
 *
 * Up to 8 IPv4 routes, or 5 IPv6 routes of /1 to /64 and a default, are one cache line
 * that is compared at once.  More, or longer IPv6 prefixes, become a B-tree over the
 * ranges that nested prefixes cut the address space into: a range's action is that of
 * the longest prefix over it, so a lookup needs no backtracking.  Keys are 32 bits
 * (IPv4) or the upper 64 (IPv6).  A /64 that longer prefixes lie in is a range of its
 * own and leads to a tree of the same form over the lower 64 bits.
 *
 *   tree := line 0       levels, first line of each level and of the end
 *           level 0      the root, one node … level n-1: the leaves
 *           then         the trees below
 *
 * The builder is the writer's; lookups are any thread's and read only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/fwd/lines.h"
#include "proto/base/err.h"

/* ---- actions: 26 bits, tag (2) and payload (24) ---- */

#define ACTION_PAYLOAD 0xffffffu
enum { ACTION_PLAIN = 0, ACTION_PEER = 1, ACTION_TUNNEL = 2, ACTION_SERVICE = 3 };
enum { ACTION_NONE = 0, ACTION_LOCAL = 1, ACTION_INTERNET = 2 }; /* of ACTION_PLAIN */

static inline uint32_t action_of(unsigned tag, uint32_t payload)
{
    return (uint32_t)tag << 24 | payload;
}

/* ---- slots of the VNI table (exact.h, EXACT_VNI): one word says all ---- */

/* vni (24), v6 (1), VNI_* flags (3), has `vni` row (1), kind (2), 0 (1), line (32) */
enum lpm_kind { LPM_NONE = 0, LPM_LINE = 1, LPM_TREE = 2 };

#define SLOT_V6          (UINT64_C(1) << 24)
#define SLOT_FLAGS_SHIFT 25
#define SLOT_KNOWN       (UINT64_C(1) << 28)
#define SLOT_KIND_SHIFT  29

static inline uint64_t slot_key(uint32_t vni, bool is_v6)
{
    return (uint64_t)vni | (is_v6 ? SLOT_V6 : 0);
}

static inline uint8_t slot_flags(uint64_t slot)
{
    return (slot >> SLOT_FLAGS_SHIFT) & 7;
}

static inline unsigned slot_kind(uint64_t slot)
{
    return (slot >> SLOT_KIND_SHIFT) & 3;
}

static inline unsigned slot_is_tree(uint64_t slot)
{
    _Static_assert(LPM_LINE == 1 && LPM_TREE == 2, "the upper bit");
    return (slot >> (SLOT_KIND_SHIFT + 1)) & 1;
}

static inline uint32_t slot_line(uint64_t slot)
{
    return (uint32_t)(slot >> 32);
}

/* ---- one line ---- */

enum { LINE_V4_ROUTES = 8, LINE_V6_ROUTES = 5 };

/* Longest prefix first; unused places repeat place 0.  meta: action (26), 32 - length
 * (6). */
struct lpm_line4 {
    uint32_t addr[LINE_V4_ROUTES]; /* host order */
    uint32_t meta[LINE_V4_ROUTES];
};

/* Lengths 1 to 64, upper half of the address in host order; meta: action (26),
 * 64 - length (6). */
struct lpm_line6 {
    uint64_t addr[LINE_V6_ROUTES];
    uint32_t meta[LINE_V6_ROUTES];
    uint32_t fallback; /* action of ::/0, or ACTION_NONE */
};

/* ---- trees ---- */

enum {
    TREE_LEVELS_MAX = 12,
    NODE4 = 16, /* keys of an inner node */
    NODE6 = 8,
    LEAF4 = 8, /* ranges of a leaf */
    LEAF6 = 5,
};

/* In place of a leaf's action: a tree over the lower half of the address decides, which
 * begins at this line of the tree (31 bits). */
#define TREE_BELOW UINT32_C(0x80000000)

struct lpm_tree {
    uint32_t levels;
    uint32_t lines;                      /* all, those of trees below included */
    uint32_t first[TREE_LEVELS_MAX + 1]; /* line of each level's first node; the end */
    uint32_t pad;
};

/* Keys are a child's or range's first address; those past the last repeat it, so that
 * the largest address needs no special case.  IPv4 and IPv6 keys have the top bit
 * flipped, because the CPU compares signed. */
struct lpm_leaf4 {
    int32_t key[LEAF4];
    uint32_t action[LEAF4];
};
struct lpm_leaf6 {
    int64_t key[LEAF6];
    uint32_t action[LEAF6];
    uint32_t pad;
};
_Static_assert(sizeof(struct lpm_line4) == LINE_BYTES, "one line");
_Static_assert(sizeof(struct lpm_line6) == LINE_BYTES, "one line");
_Static_assert(sizeof(struct lpm_tree) == LINE_BYTES, "one line");
_Static_assert(sizeof(struct lpm_leaf4) == LINE_BYTES, "one line");
_Static_assert(sizeof(struct lpm_leaf6) == LINE_BYTES, "one line");

/* ---- building: the writer ---- */

/* Sorted by (addr, len); no two equal. */
struct lpm_route {
    unsigned __int128 addr; /* leftmost bits; host bits zero */
    uint32_t action;
    uint8_t len; /* 0-32, 0-128 */
};

struct lpm_built {
    uint8_t kind; /* enum lpm_kind */
    uint32_t line;
    uint32_t count; /* lines */
};

/* RC_OK, or RC_NO_MEMORY with nothing kept.  No routes give LPM_NONE. */
enum rc lpm_build(struct lines *lines, const struct lpm_route *routes, uint32_t count,
                  bool is_v6, struct lpm_built *ret);

/* For audits: the addresses (leftmost bits) of [from, to] at which a lookup through the
 * structure behind `slot` can change its answer, unsorted, some more than once.  Writes
 * them to `at`, which may be null, and returns how many. */
uint32_t lpm_boundaries(const struct lines *lines, uint64_t slot,
                        unsigned __int128 from, unsigned __int128 to,
                        unsigned __int128 *at);

/* Lines that the structure behind a slot takes. */
uint32_t lpm_lines(const struct lines *lines, uint64_t slot);

/* ---- lookups ---- */

/* An address as the lookups want it: host order, IPv4 in the upper 32 bits of `hi`. */
struct lpm_addr {
    uint64_t hi;
    uint64_t lo;
};

/* The action of the longest match, ACTION_NONE if there is none. */
uint32_t lpm_lookup(const uint8_t *base, uint64_t slot, struct lpm_addr addr);

#ifdef __AVX2__
#include <immintrin.h>

static inline uint32_t lpm_line4_find(const struct lpm_line4 *l, uint32_t addr)
{
    __m256i a = _mm256_load_si256((const __m256i *)l->addr);
    __m256i meta = _mm256_load_si256((const __m256i *)l->meta);
    __m256i differs =
        _mm256_srlv_epi32(_mm256_xor_si256(a, _mm256_set1_epi32((int)addr)),
                          _mm256_and_si256(meta, _mm256_set1_epi32(63)));
    __m256i same = _mm256_cmpeq_epi32(differs, _mm256_setzero_si256());
    uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same));

    return mask ? l->meta[__builtin_ctz(mask)] >> 6 : ACTION_NONE;
}

static inline uint32_t lpm_line6_find(const struct lpm_line6 *l, uint64_t addr)
{
    __m256i meta =
        _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(const void *)l->meta));
    __m256i differs =
        _mm256_srlv_epi64(_mm256_xor_si256(_mm256_load_si256((const __m256i *)l->addr),
                                           _mm256_set1_epi64x((int64_t)addr)),
                          _mm256_and_si256(meta, _mm256_set1_epi64x(63)));
    __m256i same = _mm256_cmpeq_epi64(differs, _mm256_setzero_si256());
    uint32_t mask = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(same));
    uint32_t last = ((l->addr[4] ^ addr) >> (l->meta[4] & 63)) == 0;

    mask |= last << 4;
    return mask ? l->meta[__builtin_ctz(mask)] >> 6 : l->fallback;
}

/* Index of the last key <= x among `n` sorted keys that start at or below x. */
static inline unsigned keys4_rank(const int32_t *key, unsigned n, int32_t x)
{
    __m256i v = _mm256_set1_epi32(x);
    uint32_t above = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(
        _mm256_cmpgt_epi32(_mm256_load_si256((const __m256i *)key), v)));

    if (n == NODE4) {
        above |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(
                     _mm256_load_si256((const __m256i *)(key + 8)), v)))
                 << 8;
    }
    return n - 1 - (unsigned)__builtin_popcount(above);
}

static inline unsigned keys6_rank(const int64_t *key, unsigned n, int64_t x)
{
    __m256i v = _mm256_set1_epi64x(x);
    uint32_t above = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(
        _mm256_cmpgt_epi64(_mm256_load_si256((const __m256i *)key), v)));

    if (n == NODE6) {
        above |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(
                     _mm256_load_si256((const __m256i *)(key + 4)), v)))
                 << 4;
    } else {
        above |= (uint32_t)(key[4] > x) << 4;
    }
    return n - 1 - (unsigned)__builtin_popcount(above);
}
#else
static inline uint32_t lpm_line4_find(const struct lpm_line4 *l, uint32_t addr)
{
    for (unsigned i = 0; i < LINE_V4_ROUTES; i++) {
        if (((uint64_t)(l->addr[i] ^ addr) >> (l->meta[i] & 63)) == 0) {
            return l->meta[i] >> 6;
        }
    }
    return ACTION_NONE;
}

static inline uint32_t lpm_line6_find(const struct lpm_line6 *l, uint64_t addr)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < LINE_V6_ROUTES; i++) {
        mask |= (uint32_t)(((l->addr[i] ^ addr) >> (l->meta[i] & 63)) == 0) << i;
    }
    return mask ? l->meta[__builtin_ctz(mask)] >> 6 : l->fallback;
}

static inline unsigned keys4_rank(const int32_t *key, unsigned n, int32_t x)
{
    unsigned rank = 0;

    for (unsigned i = 1; i < n; i++) {
        rank += key[i] <= x;
    }
    return rank;
}

static inline unsigned keys6_rank(const int64_t *key, unsigned n, int64_t x)
{
    unsigned rank = 0;

    for (unsigned i = 1; i < n; i++) {
        rank += key[i] <= x;
    }
    return rank;
}
#endif

static inline int32_t key4_of(uint32_t addr)
{
    return (int32_t)(addr ^ 0x80000000u);
}

static inline int64_t key6_of(uint64_t hi)
{
    return (int64_t)(hi ^ UINT64_C(0x8000000000000000));
}

/* The node of level + 1 (its line within the tree) that node `at` of `level` leads
 * to. */
static inline uint32_t tree_child(const struct lpm_tree *t, unsigned level, uint32_t at,
                                  unsigned fanout, unsigned rank)
{
    uint32_t child = t->first[level + 1] + (at - t->first[level]) * fanout + rank;
    uint32_t last = t->first[level + 2] - 1;

    return child < last ? child : last;
}

/* An address, or half of one, as a tree's keys are compared. */
static inline int64_t tree_key(bool is_v6, uint64_t half)
{
    return is_v6 ? key6_of(half) : key4_of((uint32_t)(half >> 32));
}

/* One step down from the inner node at line `at` of the tree. */
static inline uint32_t tree_step(const struct lpm_tree *t, bool is_v6, unsigned level,
                                 uint32_t at, int64_t key)
{
    const void *node = (const uint8_t *)t + (uint64_t)at * LINE_BYTES;

    if (!is_v6) {
        return tree_child(t, level, at, NODE4, keys4_rank(node, NODE4, (int32_t)key));
    }
    return tree_child(t, level, at, NODE6, keys6_rank(node, NODE6, key));
}

/* The action in a leaf, or TREE_BELOW. */
static inline uint32_t tree_leaf(const struct lpm_tree *t, bool is_v6, uint32_t at,
                                 int64_t key)
{
    const void *node = (const uint8_t *)t + (uint64_t)at * LINE_BYTES;

    if (!is_v6) {
        const struct lpm_leaf4 *leaf = node;

        return leaf->action[keys4_rank(leaf->key, LEAF4, (int32_t)key)];
    }
    const struct lpm_leaf6 *leaf = node;

    return leaf->action[keys6_rank(leaf->key, LEAF6, key)];
}

static inline const struct lpm_tree *tree_below(const struct lpm_tree *t,
                                                uint32_t action)
{
    return (const void *)((const uint8_t *)t +
                          (uint64_t)(action & ~TREE_BELOW) * LINE_BYTES);
}
