/*
 * placement - which cluster, and which half of it, a tenant goes to.
 *
 * A *cluster* has a resource set (capacity/resource.h) and what its tenants use of it.
 * Clusters of one *pool* have the same dimensions and are compared with each other; a
 * cluster may stand before another, its *backing*, which every tenant needs too.
 *
 *   choose   one tenant: the fullest cluster that takes it below its sale level
 *   explain  the same, with every number that decided
 *   fill     many at once, the largest first
 *
 * Which dimensions there are is not known here.  Tenants are not kept: who adds one
 * remembers where it went, and says the same demand when it goes.
 *
 * Fullness is the largest quotient used / capacity of any dimension and half.  Amounts
 * are held as doubles, exact below 2^53, so that what is added and taken off again
 * leaves nothing behind and quotients compare the same on every machine.
 *
 * One owner, one thread.  No clock, no memory but its own.
 */
#pragma once

#include "controller/capacity/resource.h"
#include "proto/base/err.h"

#define PLACEMENT_NONE  UINT32_MAX
#define PLACEMENT_POOLS 4

struct placement; /* opaque */

struct placement *placement_new(void); /* null: no memory */
void placement_free(struct placement *p);

/* ---- clusters ---- */

struct placement_cluster {
    const char *name; /* decides between equals; copied, at most 63 bytes */
    unsigned pool;    /* below PLACEMENT_POOLS */
    uint32_t backing; /* another cluster's id, or PLACEMENT_NONE */
    uint32_t sale_bp; /* takes no tenant that would lift it above; basis points */
    bool is_open;     /* takes new tenants at all */
    struct resource_set set;
};

/* Adds a cluster, or changes `*io_id` where that is not PLACEMENT_NONE: its tenants
 * stay.  RC_INVALID: other dimensions than its pool's; RC_NO_MEMORY. */
enum rc placement_put_cluster(struct placement *p, const struct placement_cluster *c,
                              uint32_t *io_id, struct err *err);
/* Forgets it with all that was added to it; who it backs is open without it. */
void placement_remove_cluster(struct placement *p, uint32_t id);

uint32_t
placement_cluster_end(const struct placement *p); /* ids are below; some free */
/* Null: no such cluster.  Borrowed until the next change of clusters. */
const struct placement_cluster *placement_cluster_at(const struct placement *p,
                                                     uint32_t id);

/* ---- what is on them ---- */

/* A tenant comes to a cluster, goes, or needs something else now.  Growth is not
 * refused here: what is above the sale level takes no more tenants, that is all. */
void placement_add(struct placement *p, uint32_t id, enum half half,
                   const struct demand *d);
void placement_sub(struct placement *p, uint32_t id, enum half half,
                   const struct demand *d);
void placement_change(struct placement *p, uint32_t id, enum half half,
                      const struct demand *from, const struct demand *to);
/* What of a dimension is used by no tenant alone (an NC that several name); replaces
 * what was said before. */
void placement_set_common(struct placement *p, uint32_t id, unsigned which,
                          uint64_t amount);

uint32_t placement_tenants(const struct placement *p, uint32_t id);
void placement_usage(const struct placement *p, uint32_t id, struct usage *ret);
double placement_fullness(const struct placement *p, uint32_t id);

/* ---- where to ---- */

struct placement_ask {
    unsigned pool;
    struct demand need;
    struct demand backing_need; /* of the cluster behind, where there is one */
    /* Clusters of the tenants it peers with, one a peer.  They come first, the one with
     * the most peers before others, if it fits there: such a cluster is in use anyway,
     * so this never takes one cluster more. */
    const uint32_t *near;
    uint32_t near_count;
    uint32_t except; /* a cluster that does not count, or PLACEMENT_NONE */
};

struct placement_answer {
    uint32_t cluster; /* PLACEMENT_NONE: none takes it */
    enum half half;
};

/* The fullest open cluster where every dimension stays at or below the sale level, of
 * equally full ones the first by name; of its halves the one that is less full with the
 * tenant, of equals the first.  Both halves only where an empty half would not do. */
struct placement_answer placement_choose(const struct placement *p,
                                         const struct placement_ask *ask);
/* Whether it fits this cluster, and in which half; open or not. */
bool placement_fits(const struct placement *p, const struct placement_ask *ask,
                    uint32_t id, enum half *ret_half);

/* The half of this cluster that is less full with it, of those where it fits; where it
 * fits nowhere, of both. */
enum half placement_half(const struct placement *p, const struct placement_ask *ask,
                         uint32_t id);

enum placement_verdict {
    PLACEMENT_CHOSEN,
    PLACEMENT_LESS_FULL, /* fits; another is fuller, or nearer */
    PLACEMENT_CLOSED,    /* takes no new tenants */
    PLACEMENT_NO_ROOM,
    PLACEMENT_BACKING_NO_ROOM, /* the cluster behind it has none */
    PLACEMENT_VERDICTS
};
const char *placement_verdict_name(enum placement_verdict v); /* "chosen", … */

/* One dimension of a candidate, in amounts. */
struct placement_line {
    uint64_t used[2]; /* by half; not per half: both the same */
    uint64_t need;    /* in the half it would go to, or in each of both */
    uint64_t room;    /* capacity up to the sale level, of a half where it has halves */
    uint64_t capacity;
    bool fits[2]; /* by half */
};

struct placement_candidate {
    uint32_t cluster;
    enum placement_verdict verdict;
    enum half half;       /* where it fits; else the less full one */
    bool is_too_big;      /* it would not fit if the cluster were empty */
    uint32_t peers;       /* of its `near` that are here */
    double before, after; /* fullness; after: of the half it would go to */
    unsigned count;       /* lines of its own dimensions … */
    struct placement_line at[RESOURCES_MAX];
    uint32_t backing; /* … and of the cluster behind; PLACEMENT_NONE: none */
    unsigned backing_count;
    struct placement_line backing_at[RESOURCES_MAX];
};

/* Every cluster of the pool, in the order in which placement_choose() looks at them;
 * at most `cap`.  Returns how many there are. */
uint32_t placement_explain(const struct placement *p, const struct placement_ask *ask,
                           struct placement_candidate *ret, uint32_t cap);

/* ---- many ---- */

/* Places `count` tenants in one pool without backing and adds them, each as
 * placement_choose() would: the large ones first, the largest before others, then the
 * rest in the order of the list.  Size is the largest share of any dimension of what
 * the pool's largest cluster has to sell, in 1/2^22, and large is 1/64 of it; of equals
 * the first in the list.  Gives the answers in the order of the list, and how many
 * found no place. */
enum rc placement_fill(struct placement *p, unsigned pool, const struct demand *needs,
                       uint32_t count, struct placement_answer *ret,
                       uint32_t *ret_refused);

/* ---- moving ---- */

/* A tenant that may be moved. */
struct placement_tenant {
    uint32_t id; /* the caller's */
    uint32_t cluster;
    enum half half;
    struct demand need;
    struct demand backing_need;
};

struct placement_move {
    uint32_t id;
    uint32_t from, to;
    enum half from_half, to_half;
    double from_before, from_after; /* fullness of the cluster it leaves */
    double to_before, to_after;     /* and of the one it comes to */
};

/* Moves that bring down the fullest clusters, in order: from each cluster, the fullest
 * first, the fewest tenants that help most, to where they fit.  A cluster's moves are
 * proposed only if together they bring it down by `threshold_bp`, and none of them
 * makes another as full as it leaves the first.  Changes nothing; `*ret_count` at most
 * `cap`.  Only the `tenants` given are considered. */
enum rc placement_rebalance(const struct placement *p, unsigned pool,
                            const struct placement_tenant *tenants, uint32_t count,
                            uint32_t threshold_bp, struct placement_move *ret,
                            uint32_t cap, uint32_t *ret_count);
