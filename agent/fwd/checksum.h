/*
 * checksum - the Internet checksum (RFC 1071) and its incremental update (RFC 1624).
 *
 * Sums are kept unfolded in 64 bits and in memory order: a one's complement sum does
 * not mind the byte order as long as the result is stored the way the words were loaded
 * (RFC 1071, section 2 B).  So a checksum here is the field's two bytes as they lie in
 * memory, not a number: load it with csum_load(), never with load_be16().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t csum_load(const uint8_t *field)
{
    uint16_t v;

    memcpy(&v, field, sizeof(v));
    return v;
}

static inline void csum_store(uint8_t *field, uint16_t v)
{
    memcpy(field, &v, sizeof(v));
}

static inline uint16_t csum_fold(uint64_t sum)
{
    uint32_t half;

    /* Both halves added to both: the upper one gets the lower one's carry. */
    sum += sum << 32 | sum >> 32;
    half = (uint32_t)(sum >> 32);
    half += half << 16 | half >> 16;
    return (uint16_t)(half >> 16);
}

/* Adds `len` bytes to `sum`.  The first byte stands at an even place of whatever is
 * summed; an odd last byte is padded with zero.  `len` below 2^31 cannot overflow. */
static inline uint64_t csum_add(uint64_t sum, const uint8_t *p, size_t len)
{
    uint32_t word;

    while (len >= 4) {
        memcpy(&word, p, 4);
        sum += word;
        p += 4;
        len -= 4;
    }
    if (len > 0) {
        word = 0;
        memcpy(&word, p, len);
        sum += word;
    }
    return sum;
}

/* Adds one 16-bit word given in host order. */
static inline uint64_t csum_add_be16(uint64_t sum, uint16_t host_order)
{
    return sum + __builtin_bswap16(host_order);
}

/* The change in the sum when `len` bytes (a multiple of 2) turn from `old` to `now`:
 * ~m + m' of RFC 1624. */
static inline uint64_t csum_change(uint64_t delta, const uint8_t *old,
                                   const uint8_t *now, size_t len)
{
    uint32_t m;
    uint32_t n;

    for (; len >= 4; old += 4, now += 4, len -= 4) {
        memcpy(&m, old, 4);
        memcpy(&n, now, 4);
        delta += (uint64_t)~m + n;
    }
    if (len == 2) {
        delta += (uint16_t)~csum_load(old);
        delta += csum_load(now);
    }
    return delta;
}

/* HC' = ~(~HC + ~m + m'), equation 3 of RFC 1624. */
static inline uint16_t csum_update(uint16_t hc, uint64_t delta)
{
    return (uint16_t)~csum_fold((uint16_t)~hc + delta);
}

/* The same for UDP, where 0 says "no checksum" and stays, and a sum of 0 is sent as all
 * ones (RFC 768). */
static inline uint16_t csum_update_udp(uint16_t hc, uint64_t delta)
{
    uint16_t now;

    if (hc == 0) {
        return 0;
    }
    now = csum_update(hc, delta);
    return now == 0 ? 0xffff : now;
}
