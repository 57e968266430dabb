/*
 * way - which way a destination takes through the entries of a set, and its end.
 *
 *   (VNI, destination) ─▶ routes, from peer to peer ─▶ an NC, a tunnel's end, or
 * neither
 *
 * Of rows alone: what a node makes of it is its configuration's affair (expect.c).
 * Values only; any thread.
 */
#pragma once

#include "proto/model/table_set.h"

enum way_end {
    WAY_LOCAL,     /* a VM-NC entry says which NC … */
    WAY_LOCAL_MAC, /* … and sets the inner destination MAC */
    WAY_IDC,
    WAY_REGION,
    WAY_DERIVED,
    WAY_FORWARDS, /* those before have `to`, those behind have not */
    WAY_VM_MISS = WAY_FORWARDS,
    WAY_ROUTE_MISS,
    WAY_INTERNET,
    WAY_SERVICE,
    WAY_FALLBACK,   /* a route says so: XGW-H alone has such */
    WAY_PEER_LIMIT, /* one peer too many */
    WAY_ENDS
};
const char *way_end_name(unsigned end); /* "local", "local with a MAC", … */

#define WAY_HOPS_MAX 3 /* peers: 4 lookups */

struct probe_way {
    uint8_t end;         /* enum way_end */
    uint8_t hops;        /* peers that it went through; of PEER_LIMIT one more */
    uint32_t vni;        /* in the end */
    struct ip to;        /* NC or tunnel's end */
    uint8_t mac[6];      /* of LOCAL_MAC */
    struct prefix route; /* the last one that was found */
};

void way_find(const struct table_set *s, uint32_t vni, const struct ip *dst,
              struct probe_way *ret);
