/*
 * matrix_cell - the cells of the matrix of probes, in their order and by name.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a cell is about. */
enum matrix_kind {
    MATRIX_WAY,   /* an end of the way through the entries */
    MATRIX_ROUTE, /* which route is the longest */
    MATRIX_HALF,  /* of an XGW-H: where the VNI's entries are */
    MATRIX_RULE,  /* an access rule, or none of several */
    MATRIX_METER, /* a tenant with a meter */
    MATRIX_FIELD, /* something about the packet's fields */
    MATRIX_TWIST, /* something about its frame */
    MATRIX_KINDS
};

enum { CELL_ROUTE_NESTED, CELL_ROUTE_DEFAULT, CELL_ROUTE_HOST, MATRIX_ROUTES };
enum { CELL_HALF_0, CELL_HALF_1, CELL_HALF_EVEN, CELL_HALF_ODD, MATRIX_HALVES };
enum { CELL_RULE_PERMIT, CELL_RULE_DENY, CELL_RULE_NONE, MATRIX_RULES };
enum { CELL_PROTO_UDP, CELL_PROTO_TCP, CELL_PROTO_ICMP, MATRIX_PROTOS };

/* Fields that are not as usual. */
enum matrix_field {
    FIELD_TO_VIP,      /* the cluster's address instead of the node's */
    FIELD_TO_FALLBACK, /* of an x86 node: as XGW-H sends to it */
    FIELD_NOT_OURS,    /* an address that is no node's */
    FIELD_OUTER_TTL,   /* 1 */
    FIELD_NO_CHECKSUM, /* of the outer UDP over IPv6 */
    FIELD_CHECKSUM,    /* the same over IPv4, where there is one */
    FIELD_SOURCE,      /* an NC that is none */
    FIELD_UNKNOWN_VNI,
    FIELD_MULTICAST,    /* inside */
    FIELD_MAPPED,       /* ::ffff:0:0/96 inside, where XGW-H pools IPv4 */
    FIELD_TTL_LOCAL,    /* inside it is 1: within the VPC … */
    FIELD_TTL_PEER,     /* … to a peer … */
    FIELD_TTL_LEAVES,   /* … out of the region */
    FIELD_FITS,         /* as large as the link takes */
    FIELD_TOO_BIG,      /* one byte more */
    FIELD_TAG_ALLOWED,  /* an inner tag of a tenant that has such */
    FIELD_HIDDEN_PORTS, /* options where rules may name ports */
    MATRIX_FIELDS
};

struct matrix_cell {
    uint8_t kind;  /* enum matrix_kind */
    uint8_t what;  /* way_end, ROUTE_…, HALF_…, RULE_…, matrix_field or twist */
    uint8_t hops;  /* WAY: peers */
    uint8_t proto; /* RULE */
    uint8_t inner; /* IP_V4, IP_V6; IP_NONE: either */
    uint8_t underlay; /* the same */
    uint8_t out;      /* WAY that forwards: the NC's family; else IP_NONE */
};

#define MATRIX_CELLS_MAX 512

/* All of them, in their order; returns how many. */
uint16_t matrix_cells(struct matrix_cell ret[static MATRIX_CELLS_MAX]);

/* Why a cell has a probe or has none. */
enum matrix_reach {
    MATRIX_UNSEEN, /* not looked at yet */
    MATRIX_COVERED,
    MATRIX_NO_ENTRY,   /* no entry leads there */
    MATRIX_NOT_FOUND,  /* none that was looked at: not all could be */
    MATRIX_NO_ADDRESS, /* the node has none of that family */
    MATRIX_NO_SOURCE,  /* the region's underlay has none of that family … */
    MATRIX_ANY_SOURCE, /* … or takes every one */
    MATRIX_NOT_ITS_KIND,
    MATRIX_NO_SUCH_LINK, /* no uplink whose MTU a probe can reach */
    MATRIX_CHANGED,      /* its entries did, meanwhile */
    MATRIX_REACHES
};
const char *matrix_reach_text(unsigned reach); /* a sentence's end */

#define MATRIX_NAME_MAX 95
/* "local, 1 peer, IPv4 inside, over IPv4, to IPv6", cut at `size`. */
void matrix_cell_print(const struct matrix_cell *c, char *to, size_t size);
