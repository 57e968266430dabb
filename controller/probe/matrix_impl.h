/* What the files of the matrix share. */
#pragma once

#include "controller/probe/matrix.h"

/* An address whose way is of one kind. */
struct pick {
    uint32_t vni; /* that the packet arrives with; 0: there is none */
    struct ip dst;
    struct ip src;  /* of a rule; else IP_NONE: any */
    uint16_t sport; /* of a rule */
    uint16_t dport;
};

#define MATRIX_HOPS (WAY_HOPS_MAX + 2) /* 0 to 4 */

/* By index of the inner family: 0 IPv4, 1 IPv6; so the NC's, 0 where there is none. */
struct picks {
    struct pick ways[WAY_ENDS][MATRIX_HOPS][2][2];
    struct pick routes[MATRIX_ROUTES][2];
    struct pick halves[MATRIX_HALVES][2];
    struct pick rules[MATRIX_RULES][MATRIX_PROTOS][2];
    struct pick meters[2];
    struct pick tags[2];     /* of a tenant that has inner tags */
    struct pick ports[2];    /* of one that has rules */
    struct pick untagged[2]; /* of one that has no inner tags … */
    struct pick unruled[2];  /* … and of one without rules */
};

static inline unsigned matrix_index(uint8_t family)
{
    return family == IP_V6;
}

const struct picks *matrix_picks(const struct matrix *m);
bool matrix_is_h(const struct matrix *m);
bool matrix_is_of_one(const struct matrix *m); /* of one VNI alone */
bool matrix_was_cut(const struct matrix *m);   /* not all could be followed */

/* What a packet of the protocol is as a twist. */
unsigned matrix_twist_of(unsigned proto);
