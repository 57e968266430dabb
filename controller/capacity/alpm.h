/*
 * alpm - how many TCAM rows a set of routes needs, when the trie of 152-bit strings
 * VNI ‖ address is carved into partitions of at most B routes (FORWARDING, ALPM).
 *
 * Two answers.  The *estimate* knows the number of routes alone: the mean fill of a
 * carve of random prefixes, worked out, not fitted.  Real prefixes nest and cluster,
 * and fill up to a tenth better.  The *counter* is shown the routes in order and counts
 * the partitions that a greedy carve makes of them, in one pass and constant memory;
 * routes of neighbouring VNIs share partitions, as they do on the chip.
 *
 * The carve, from the leaves up: where more than B routes meet, the side with more
 * becomes a partition; what is left goes on upwards.  So a partition holds more than
 * B/2 routes, but for the last.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/ip.h"

#define ALPM_BUCKET     16 /* B: routes a partition holds; FORWARDING's default */
#define ALPM_BUCKET_MIN 2
#define ALPM_BUCKET_MAX 64
#define ALPM_STRING     19  /* bytes of VNI ‖ address */
#define ALPM_DEPTH      154 /* nodes on a path of such strings, both ends included */

/* Mean share of a partition's slots that hold a route, after a greedy carve of many
 * random prefixes: 0.79 with B = 16.  `bucket` from ALPM_BUCKET_MIN to
 * ALPM_BUCKET_MAX. */
double alpm_random_fill(unsigned bucket);

/* Partitions (and TCAM rows) that so many routes take at that fill; a fraction, for
 * small tenants share partitions. */
double alpm_rows(double routes, unsigned bucket, double fill);

struct alpm_node {
    uint8_t depth; /* bits from the root */
    bool has_left; /* a subtree at a lower bit is done */
    uint32_t own;  /* routes that end here */
    uint32_t left; /* of them, what is not in a partition yet */
};

/* Open: keep it by value; give it to alpm_counter_init() first. */
struct alpm_counter {
    unsigned bucket;
    uint64_t routes;
    uint64_t partitions; /* that are closed; alpm_counter_rows() has the rest */
    unsigned depth;      /* of `path` */
    uint8_t last[ALPM_STRING];
    uint8_t last_bits;
    struct alpm_node path[ALPM_DEPTH]; /* open nodes, the root first */
};

void alpm_counter_init(struct alpm_counter *c, unsigned bucket);

/* The next route: in the order of the strings, a prefix before what it covers; an IPv4
 * prefix stands at ::ffff:0:0/96.  Returns false, and counts nothing, for one that is
 * out of order or repeated. */
bool alpm_counter_add(struct alpm_counter *c, uint32_t vni, const struct prefix *dst);

/* Rows that the routes so far need; more may follow. */
uint64_t alpm_counter_rows(const struct alpm_counter *c);
