/*
 * alpm_key - a prefix of the 152-bit string VNI ‖ address, in 20 bytes.
 *
 * Keys order by string, then length, so what lies below a prefix follows it at once.
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ALPM_BITS = 152, ALPM_VNI_BITS = 24 };

/* No bit is set behind `len`.  Aligned to 4, so that a slot has no holes. */
struct alpm_key {
    uint64_t w0; /* VNI (24), first 40 bits of the address */
    uint64_t w1; /* the next 64 */
    uint32_t w2; /* the last 24, then the length in bits (8) */
} __attribute__((packed, aligned(4)));

static inline unsigned key_len(const struct alpm_key *k)
{
    return k->w2 & 0xff;
}

/* The `n` leftmost bits of a word, 0 to 64. */
static inline uint64_t key_mask64(unsigned n)
{
    return n == 0 ? 0 : ~UINT64_C(0) << (64 - n);
}

static inline uint32_t key_mask24(unsigned n)
{
    return n == 0 ? 0 : ~UINT32_C(0) << (32 - n);
}

static inline int key_compare(const struct alpm_key *a, const struct alpm_key *b)
{
    if (a->w0 != b->w0) {
        return a->w0 < b->w0 ? -1 : 1;
    }
    if (a->w1 != b->w1) {
        return a->w1 < b->w1 ? -1 : 1;
    }
    return a->w2 < b->w2 ? -1 : a->w2 > b->w2;
}

static inline bool key_equal(const struct alpm_key *a, const struct alpm_key *b)
{
    return a->w0 == b->w0 && a->w1 == b->w1 && a->w2 == b->w2;
}

/* Length of the longest prefix of both. */
static inline unsigned key_common(const struct alpm_key *a, const struct alpm_key *b)
{
    unsigned shorter = key_len(a) < key_len(b) ? key_len(a) : key_len(b);
    uint32_t w2 = (a->w2 ^ b->w2) & 0xffffff00u;
    unsigned n = ALPM_BITS;

    if (a->w0 != b->w0) {
        n = (unsigned)__builtin_clzll(a->w0 ^ b->w0);
    } else if (a->w1 != b->w1) {
        n = 64 + (unsigned)__builtin_clzll(a->w1 ^ b->w1);
    } else if (w2) {
        n = 128 + (unsigned)__builtin_clz(w2);
    }
    return n < shorter ? n : shorter;
}

/* `p` is `k` or above it. */
static inline bool key_covers(const struct alpm_key *p, const struct alpm_key *k)
{
    unsigned len = key_len(p);

    if (len > key_len(k)) {
        return false;
    }
    if (len <= 64) {
        return ((p->w0 ^ k->w0) & key_mask64(len)) == 0;
    }
    if (len <= 128) {
        return p->w0 == k->w0 && ((p->w1 ^ k->w1) & key_mask64(len - 64)) == 0;
    }
    return p->w0 == k->w0 && p->w1 == k->w1 &&
           ((p->w2 ^ k->w2) & key_mask24(len - 128)) == 0;
}

static inline bool key_above(const struct alpm_key *p, const struct alpm_key *k)
{
    return key_len(p) < key_len(k) && key_covers(p, k);
}

/* Bit `i` from the left, 0 to 151. */
static inline unsigned key_bit(const struct alpm_key *k, unsigned i)
{
    return i < 64    ? (unsigned)(k->w0 >> (63 - i)) & 1
           : i < 128 ? (unsigned)(k->w1 >> (127 - i)) & 1
                     : (k->w2 >> (159 - i)) & 1;
}

/* The first `len` bits of `k`. */
static inline struct alpm_key key_cut(const struct alpm_key *k, unsigned len)
{
    struct alpm_key r;

    r.w0 = k->w0 & key_mask64(len < 64 ? len : 64);
    r.w1 = len <= 64 ? 0 : k->w1 & key_mask64(len < 128 ? len - 64 : 64);
    r.w2 = (len <= 128 ? 0 : k->w2 & key_mask24(len - 128)) | len;
    return r;
}

static inline struct alpm_key key_of(uint32_t vni, const uint8_t addr[16], unsigned len)
{
    struct alpm_key k = { .w0 = (uint64_t)vni << 40, .w1 = 0 };

    for (unsigned i = 0; i < 5; i++) {
        k.w0 |= (uint64_t)addr[i] << (32 - 8 * i);
    }
    for (unsigned i = 0; i < 8; i++) {
        k.w1 |= (uint64_t)addr[5 + i] << (56 - 8 * i);
    }
    k.w2 = (uint32_t)addr[13] << 24 | (uint32_t)addr[14] << 16 |
           (uint32_t)addr[15] << 8 | (ALPM_VNI_BITS + len);
    return k;
}

static inline uint32_t key_vni(const struct alpm_key *k)
{
    return (uint32_t)(k->w0 >> 40);
}

static inline void key_addr(const struct alpm_key *k, uint8_t addr[16])
{
    for (unsigned i = 0; i < 5; i++) {
        addr[i] = (uint8_t)(k->w0 >> (32 - 8 * i));
    }
    for (unsigned i = 0; i < 8; i++) {
        addr[5 + i] = (uint8_t)(k->w1 >> (56 - 8 * i));
    }
    addr[13] = (uint8_t)(k->w2 >> 24);
    addr[14] = (uint8_t)(k->w2 >> 16);
    addr[15] = (uint8_t)(k->w2 >> 8);
}
