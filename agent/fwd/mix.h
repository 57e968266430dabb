/*
 * mix - how flows, uplinks and members are hashed: every execution that is to pick the
 * same member must do exactly this (tests/reference/README.md, "Which member").
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/fwd/wire.h"

/* Odd 64-bit numbers with about half of the bits set; nothing depends on which. */
#define MIX_SALT_0 UINT64_C(0x9e3779b97f4a7c15)
#define MIX_SALT_1 UINT64_C(0xbf58476d1ce4e5b9)
#define MIX_SALT_2 UINT64_C(0x94d049bb133111eb)
#define MIX_SALT_3 UINT64_C(0xd6e8feb86659fd93)

/* Both halves of the 128-bit product, so that every input bit reaches every output bit.
 */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Of a packet's two addresses; `ip` is its IP header. */
static inline uint64_t mix_addresses(const uint8_t *ip, bool is_v4)
{
    if (is_v4) {
        return load_be64(ip + 12);
    }
    return mix(load_be64(ip + 8) ^ MIX_SALT_0, load_be64(ip + 16) ^ MIX_SALT_1) ^
           mix(load_be64(ip + 24) ^ MIX_SALT_2, load_be64(ip + 32) ^ MIX_SALT_3);
}
