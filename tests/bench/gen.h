/*
 * gen - the one generator of all benches: a region's tenants, routes and VM-NC entries,
 * the same for the same seed on every machine.
 *
 * Shape of `routes` = n: n/4 VNIs at random 24-bit numbers; for every million routes 2
 * VNIs of 100,000, 1 of 30,000, 10 of 3,000, 100 of 400, 1,000 of 40, the rest 2 to 8
 * (a smaller n keeps each class's share of the routes); 75 % IPv4.  VNIs of more than 8
 * routes take announced prefixes, from the data directory's full table or made up with
 * its lengths; small ones take private ones.  One VM a route, at a random address
 * inside it, on one of 4,096 NCs of which every 20th is IPv6.
 *
 * Scopes: local, but for 1 % internet defaults (at most one a VNI and family), 0.5 %
 * idc and region, and 0.5 % peer.  Only VNIs at an odd place have peers, all at even
 * places, so that no chain is longer than one and none closes.
 *
 * Everything passes entry_check(), and no key comes twice.  One thread an object.
 */
#pragma once

#include "proto/model/entry.h"

struct gen_config {
    uint64_t seed;
    uint32_t routes;      /* n: as many VM-NC entries again; at least 8 */
    const char *data_dir; /* holds prefixes/…; null: made-up prefixes */
    const char *cluster;  /* of every tenant */
    bool has_macs;        /* give each VM a MAC address */
};

struct gen; /* opaque */

/* Defaults: seed 1, 1,000,000 routes, made-up prefixes, "x86-1", no MACs. */
void gen_config_init(struct gen_config *c);

/* Keeps `c->cluster`; RC_NOT_FOUND when the full table cannot be read. */
enum rc gen_new(const struct gen_config *c, struct gen **ret, struct err *err);
void gen_free(struct gen *g); /* null is fine */

uint32_t gen_vni_count(const struct gen *g);
/* The VNI at `place` (0 to gen_vni_count() - 1), and how many routes it has. */
uint32_t gen_vni(const struct gen *g, uint32_t place);
uint32_t gen_vni_routes(const struct gen *g, uint32_t place);

/* Writes the tenant at `place`. */
void gen_tenant(const struct gen *g, uint32_t place, struct entry *ret);

/* The next entry, false at the end: VNI by VNI its routes, then for each of them, in
 * the same order, its VM. */
bool gen_next(struct gen *g, struct entry *ret);
void gen_rewind(struct gen *g);

/* splitmix64, which all randomness here comes from. */
uint64_t gen_random(uint64_t *state);
