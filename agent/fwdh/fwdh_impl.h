/* fwdh_impl - shared by the files of fwdh: fwdh.c (parse, classify, send) and
 * fwdh_lookup.c (the lookups behind the choice of the half). */
#pragma once

#include "agent/fwdh/fwdh.h"

#define LOOKUPS_MAX 4 /* 3 peers and a last one */

enum outcome { TO_NC, TO_X86, TO_DROP };

/* A packet between the stages. */
struct flow {
    struct htrie_query route;
    struct layers layers;
    uint64_t to[2]; /* outer destination, as in memory */
    uint32_t index; /* into the caller's packets */
    uint32_t vni;   /* the current one */
    uint32_t nc;
    uint32_t key32; /* of vm_nc */
    uint32_t hash;
    uint16_t meter;   /* and counter, of the arriving VNI */
    uint8_t ingress;  /* half of the port */
    uint8_t vni_half; /* as `vni` says it */
    uint8_t half;     /* the current one */
    uint8_t flags;    /* of the arriving VNI */
    uint8_t inner;    /* what parse_inner() said */
    uint8_t outcome;  /* of the lookups */
    uint8_t cls;      /* of TO_X86 */
    uint8_t reason;   /* of TO_DROP */
    bool is_known;    /* the arriving VNI is */
    bool is_fast;     /* of the shape that fast.h knows */
    bool is_tunnel;
    bool is_v6;
};

struct call {
    const struct hswitch *s;
    struct hworker *w;
    struct fwd_packet *packets;
    uint64_t now_ns;
    const struct fwd_config *config[HSWITCH_HALVES];
    uint32_t forwarded;
    uint32_t fallback;
    uint32_t local;
};

/* Up to FWD_BURST packets, and lists of those that a stage has work for. */
struct chunk {
    struct flow flow[FWD_BURST];
    struct flow *routed[FWD_BURST]; /* passed vni, acl and meter */
    struct flow *live[FWD_BURST];   /* look for a route */
    struct flow *local[FWD_BURST];  /* look for a VM */
    struct flow *found[FWD_BURST];  /* have an NC */
    unsigned count, routed_count, live_count, local_count, found_count;
};

/* Which half answers: `half` as vni or a peer route says it. */
static inline void choose_half(struct flow *f, uint8_t half)
{
    f->half = half == PHYS_HALF_BY_DST ? (uint8_t)(f->route.key.lo & 1) : half;
}

/* All lookups of a chunk's `routed` flows; fills their outcome. */
void fwdh_look_up(const struct call *c, struct chunk *ch);
