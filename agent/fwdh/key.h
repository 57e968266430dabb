/*
 * key - the 152-bit string VNI ‖ address that routes are prefixes of, as three numbers.
 *
 * IPv4 is the range ::ffff:0:0/96 of the address (FORWARDING, Pooling).  Values only;
 * any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/fwd/wire.h"

#define HKEY_BITS 152 /* 24 of the VNI, 128 of the address */

struct hkey {
    uint64_t hi; /* the address, host order */
    uint64_t lo;
    uint32_t vni;
};

/* Masks of all prefix lengths; made once, then read. */
struct hmasks {
    struct hkey at[HKEY_BITS + 1];
};

static inline uint64_t hkey_ones64(unsigned bits)
{
    return bits == 0 ? 0 : bits >= 64 ? UINT64_MAX : UINT64_MAX << (64 - bits);
}

static inline void hmasks_init(struct hmasks *m)
{
    for (unsigned n = 0; n <= HKEY_BITS; n++) {
        m->at[n].vni = n >= 24 ? 0xffffff : 0xffffff & ~(UINT32_C(0xffffff) >> n);
        m->at[n].hi = hkey_ones64(n <= 24 ? 0 : n - 24);
        m->at[n].lo = hkey_ones64(n <= 88 ? 0 : n - 88);
    }
}

/* From the bytes of a physical key or mask: 3 of VNI, 16 of address. */
static inline struct hkey hkey_load(const uint8_t bytes[19])
{
    return (struct hkey){ .vni = load_be24(bytes),
                          .hi = load_be64(bytes + 3),
                          .lo = load_be64(bytes + 11) };
}

static inline void hkey_store(struct hkey k, uint8_t bytes[19])
{
    uint64_t hi = __builtin_bswap64(k.hi);
    uint64_t lo = __builtin_bswap64(k.lo);

    bytes[0] = (uint8_t)(k.vni >> 16);
    bytes[1] = (uint8_t)(k.vni >> 8);
    bytes[2] = (uint8_t)k.vni;
    memcpy(bytes + 3, &hi, 8);
    memcpy(bytes + 11, &lo, 8);
}

static inline struct hkey hkey_v4(uint32_t vni, uint32_t address)
{
    return (struct hkey){ .vni = vni, .lo = UINT64_C(0xffff00000000) | address };
}

/* Of what `a` and `b` differ in, under a mask: 0 = the same. */
static inline uint64_t hkey_differs(const struct hkey *a, const struct hkey *b,
                                    const struct hkey *mask)
{
    return ((a->vni ^ b->vni) & mask->vni) | ((a->hi ^ b->hi) & mask->hi) |
           ((a->lo ^ b->lo) & mask->lo);
}

/* Bit `n`, counted from the front; any for n >= HKEY_BITS.  Without a branch: which
 * word a node asks for is nothing that a processor could foresee. */
static inline unsigned hkey_bit(const struct hkey *k, unsigned n)
{
    uint64_t word = n < 24 ? (uint64_t)k->vni << 40 : n < 88 ? k->hi : k->lo;
    unsigned at = n < 24 ? n : n < 88 ? n - 24 : n - 88;

    return (unsigned)(word >> (63 - at % 64)) & 1;
}

/* How many leading bits two keys share: 0 to HKEY_BITS. */
static inline unsigned hkey_common(const struct hkey *a, const struct hkey *b)
{
    if (a->vni != b->vni) {
        return (unsigned)__builtin_clz((a->vni ^ b->vni) << 8);
    }
    if (a->hi != b->hi) {
        return 24 + (unsigned)__builtin_clzll(a->hi ^ b->hi);
    }
    return a->lo != b->lo ? 88 + (unsigned)__builtin_clzll(a->lo ^ b->lo) : HKEY_BITS;
}

/* The length of a mask that is a prefix', or -1. */
static inline int hkey_prefix_length(const struct hkey *mask)
{
    int n = __builtin_popcount(mask->vni) + __builtin_popcountll(mask->hi) +
            __builtin_popcountll(mask->lo);
    unsigned u = (unsigned)n;
    uint32_t vni = u >= 24 ? 0xffffff : 0xffffff & ~(UINT32_C(0xffffff) >> u);

    return mask->vni == vni && mask->hi == hkey_ones64(u <= 24 ? 0 : u - 24) &&
                   mask->lo == hkey_ones64(u <= 88 ? 0 : u - 88)
               ? n
               : -1;
}
