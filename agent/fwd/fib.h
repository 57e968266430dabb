/*
 * fib - the tables that the packet path reads: VNI, routes and VM-NC of a gateway, and
 * the clusters of VNIs of a load balancer.
 *
 * One writer thread changes them with fib_apply() while any number of workers call
 * fib_resolve_burst().  Workers never lock and never wait for the writer; of an entry
 * that changes they see the old or the new value, never a hole.  Nothing here knows
 * packets, DPDK, threads or the clock, and nothing logs.
 *
 * The nouns: a *query* is (VNI, inner destination) in and a verdict out; a *change* is
 * one (VNI, table) whose records moved from `before` to `after` (table_set.h); an
 * *exception* is a row that could not be placed; an *epoch* tells when memory that a
 * worker may still look at can be used again.
 *
 * Memory is reclaimed by quiescent states.  Each worker owns a `struct fib_reader`, and
 * the owner of the fib knows them all:
 *
 *   worker:  fib_reader_online(f, &r);
 *            for each burst: fib_resolve_burst(f, q, n); … ; fib_reader_quiescent(f,
 * &r); before it sleeps: fib_reader_offline(&r);     and online again after writer:
 * fib_apply(f, records, &changes, &exceptions); fib_reclaim(f,
 * fib_readers_oldest(readers, n)); after each apply, and now and then while
 * fib_stats().retired_bytes is not zero
 *
 * Mistakes people make: keeping an answer's service name across fib_reader_quiescent();
 * leaving a worker online while it blocks (memory grows until it moves); changing the
 * records without telling the fib of a refused row (see fib_exceptions_revert()).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/table_set.h"

struct fib; /* opaque: fib.c */

/* What may be placed.  Zero takes the default in brackets. */
struct fib_limits {
    uint64_t max_routes;   /* entries [2^22] */
    uint64_t max_vm_nc;    /* entries, both families together [2^22] */
    uint64_t max_vnis;     /* VNIs with a `vni` row or routes, and as many with a
                              `vni_cluster` row [2^20] */
    uint64_t memory_bytes; /* of lookup structures [128 a route and VM-NC entry]; only
                              address space until it is used */
    uint64_t seed;         /* of the hashes [drawn from the system] */
};

/* Gives an empty fib; null when memory is out.  `limits` may be null. */
struct fib *fib_new(const struct fib_limits *limits);
/* No worker may be inside.  Null is fine. */
void fib_free(struct fib *f);

/* ---- the writer's side: one thread ---- */

/* A row that could not be placed.  What stood there before still stands: the old value
 * of an update, nothing for a new row, the row itself for a refused delete. */
struct fib_exception {
    uint32_t vni;
    uint8_t table;   /* enum table_id */
    uint8_t op;      /* BATCH_PUT or BATCH_DELETE */
    uint8_t key_len; /* bytes of `key`, packed as entry.h says */
    uint8_t key[ENTRY_KEY_MAX];
    enum rc reason; /* RC_FULL: a limit; RC_NO_MEMORY: memory; RC_INVALID: bad row */
};
struct fib_exceptions {
    struct fib_exception *at;
    uint32_t count;
    uint32_t cap;
    uint32_t unlisted; /* further ones that memory did not suffice to list */
};
void fib_exceptions_fini(struct fib_exceptions *x);

/* Makes the structures follow `changes` (from table_set_apply() on `records`; `before`
 * must be what this fib holds).  Borrows both; keeps no reference to rows.  Tables but
 * vni, vxlan_route, vm_nc and vni_cluster are skipped.  New VM-NC entries come first,
 * then VNIs and routes (a VNI's before those of others that newly peer to it, and a VNI
 * that loses routes after those that turn away from it), then VM-NC deletes (deletes
 * first only where a limit leaves no other way).  Every single entry goes from old to
 * new in one step, and so do all routes of one VNI and family.  Rows that cannot be
 * placed are appended to `*exceptions` and the rest goes on; returns RC_OK or the first
 * reason. */
enum rc fib_apply(struct fib *f, const struct table_set *records,
                  const struct change_list *changes, struct fib_exceptions *exceptions);

/* Appends the batch that puts the records back to what the fib holds: for each
 * exception the row of `before`, or a delete.  The owner applies it to its table_set,
 * so that records and structures agree. */
void fib_exceptions_revert(const struct fib_exceptions *x,
                           const struct change_list *changes, struct batch_writer *to);

/* Makes the structures say of a key (of routes: of the whole VNI) what `records` say,
 * whatever they say now, copies and leftovers included.  For what an audit found;
 * fib_apply() trusts that structures follow records. */
enum rc fib_repair(struct fib *f, const struct table_set *records, enum table_id table,
                   uint32_t vni, const uint8_t *key, uint8_t key_len);
/* Behind the last of several: who refers to a pooled VM-NC value is counted anew, for
 * nobody knows what a fault did to it.  Walks all VM-NC entries, where a repair met
 * such a value (some 20 ms for a million); without memory the next one does it. */
void fib_repaired(struct fib *f);

/* For tests: turns the mark of a VM-NC entry over, as a flipped bit does. */
void fib_flip_mark(struct fib *f, uint32_t vni, const uint8_t *key, uint8_t key_len);

/* Reads back through the structures that the packet path uses: appends the canonical
 * packed value (entry.h) to `ret_value`.  RC_NOT_FOUND, and RC_INVALID for a key that
 * is none.  For vxlan_route this is the longest match of the prefix' first address,
 * which may be a longer prefix' value: use fib_audit() to compare whole tables.  From
 * the writer's thread, or a reader that is online. */
enum rc fib_get(const struct fib *f, enum table_id table, uint32_t vni,
                const uint8_t *key, uint8_t key_len, struct buf *ret_value);

/* Compares the structures with the records of one (VNI, table): every row must resolve
 * to its value, and for vxlan_route every address must resolve as the rows say, also
 * those that no row covers; a VM-NC entry must be marked where its route is local, and
 * not elsewhere (fib_mark.c).  Calls `mismatch` with the key of each row that does not
 * (key_len 0 for addresses that should be a miss); returns the number of them. */
typedef void fib_mismatch_fn(void *arg, enum table_id table, uint32_t vni,
                             const uint8_t *key, uint8_t key_len);
uint32_t fib_audit(const struct fib *f, enum table_id table, uint32_t vni,
                   const struct rows *rows, fib_mismatch_fn *mismatch, void *arg);

/* What packets get in the place of what `rows` say: prefixes of a VNI's addresses, and
 * the packed value of the route that they would make. */
typedef void fib_found_fn(void *arg, uint32_t vni, const uint8_t *key, uint8_t key_len,
                          const uint8_t *value, uint8_t value_len);

/* The same for the routes of one VNI a part at a time, some `max_rows` of them a call:
 * `*at` starts zero and moves on; true: there is more.  `rows` are those of the moment;
 * they may change between the calls. */
struct fib_audit_at {
    bool is_v6;
    uint8_t addr[16];    /* network order, IPv4 in [0..3] */
    uint32_t mismatches; /* so far */
};
bool fib_audit_routes(const struct fib *f, uint32_t vni, const struct rows *rows,
                      struct fib_audit_at *at, uint32_t max_rows,
                      fib_mismatch_fn *mismatch, fib_found_fn *found, void *arg);

/* Whether packets get exactly this row; of all but routes. */
bool fib_holds(const struct fib *f, enum table_id table, uint32_t vni,
               const struct row *row);

/* An entry as it stands in a slot of the structures, whether or not a record leads to
 * it. */
struct fib_slot {
    enum table_id
        table; /* vm_nc, vni_cluster, or vni: of one family, with its routes */
    uint32_t vni;
    uint32_t code;
    bool is_found;   /* a lookup of the key ends here */
    bool is_known;   /* vni: of a `vni` row */
    bool has_routes; /* vni */
    uint8_t key_len; /* vm_nc: packed as entry.h says */
    uint8_t key[ENTRY_KEY_MAX];
};
/* All slots in turn; `*at` starts zero.  Each takes one of `*budget`; false: that is
 * used up or, if it is not, all were seen.  From the writer's thread; entries that
 * writes move meanwhile may be passed over or met twice. */
struct fib_walk_at {
    unsigned table;
    uint64_t hash; /* as in struct exact_cursor */
    uint32_t bucket;
    uint32_t slot;
};
bool fib_walk(const struct fib *f, struct fib_walk_at *at, uint32_t *budget,
              struct fib_slot *ret);
/* Appends the slot's value, packed; RC_NOT_FOUND: it says nothing that can be said. */
enum rc fib_slot_value(const struct fib *f, const struct fib_slot *slot,
                       struct buf *ret_value);

struct fib_stats {
    uint64_t vnis; /* with a `vni` row */
    uint64_t routes;
    uint64_t vm_nc4;
    uint64_t vm_nc6;
    uint64_t tunnels;       /* distinct (scope, endpoint, VNI) */
    uint64_t ncs;           /* VM-NC values that are not a bare IPv4 address */
    uint64_t services;      /* distinct service names */
    uint64_t clusters;      /* names that rows or holders have */
    uint64_t memory_bytes;  /* held for structures, retired ones included */
    uint64_t retired_bytes; /* waits for workers */
};
struct fib_stats fib_stats(const struct fib *f);

/* Frees what was retired before `oldest_epoch`.  O(1) a thing freed. */
void fib_reclaim(struct fib *f, uint64_t oldest_epoch);

/* The name of a service that an answer gave; "" if there is none such.  Valid until the
 * caller's next quiescent state. */
const char *fib_service_name(const struct fib *f, uint32_t service);
/* The index of a service by name, or UINT32_MAX.  Writer's thread. */
uint32_t fib_service_find(const struct fib *f, const char *name);

/* Clusters by small numbers, which are below FIB_CLUSTERS_MAX: what a load balancer
 * knows of a cluster stands in an array by them.  A name keeps its number while a
 * `vni_cluster` row or a holder has it, and until the workers that may have read it
 * have passed a quiescent state. */
#define FIB_CLUSTERS_MAX 4096
#define FIB_CLUSTER_NONE UINT32_MAX

/* Writer's thread: the number of a name, held until it is dropped as often.
 * FIB_CLUSTER_NONE: no number is free, no memory, or no name. */
uint32_t fib_cluster_hold(struct fib *f, const char *name);
void fib_cluster_drop(struct fib *f, uint32_t cluster);
/* The name behind a number that somebody holds. */
const char *fib_cluster_name(const struct fib *f, uint32_t cluster);

/* ---- the workers' side: any thread that is online ---- */

/* The cluster that a VNI's packets go to; FIB_CLUSTER_NONE: it has no row.  The first
 * asks the memory for what the second reads. */
void fib_cluster_ask(const struct fib *f, uint32_t vni);
uint32_t fib_cluster_of(const struct fib *f, uint32_t vni);

#define FIB_BURST_MAX   64
#define FIB_LOOKUPS_MAX 4 /* 3 peers and a last one; then a counted drop */

enum fib_kind {
    FIB_DROP_VNI_UNKNOWN = 0,  /* no `vni` row for the arriving VNI */
    FIB_DROP_ROUTE_MISS,       /* no route covers the destination (in out_vni) */
    FIB_DROP_VM_NC_MISS,       /* the route says local, no such VM (in out_vni) */
    FIB_DROP_TOO_MANY_LOOKUPS, /* a peer chain of more than FIB_LOOKUPS_MAX lookups */
    FIB_LOCAL,                 /* to the NC `addr`; `mac` if has_mac */
    FIB_TUNNEL,                /* to the endpoint `addr` (scope idc, region, derived) */
    FIB_INTERNET,
    FIB_SERVICE, /* `service` */
    FIB_KIND_COUNT
};

/* One cache line.  The caller fills the first three; all others are the answer. */
struct fib_query {
    _Alignas(64) uint8_t dst[16]; /* inner destination, network order; IPv4 in [0..3],
                                     the rest is ignored */
    uint32_t vni;                 /* arriving; 0 to 2^24 - 1 */
    uint8_t family;               /* IP_V4 or IP_V6 */

    uint8_t kind;        /* enum fib_kind */
    uint8_t vni_flags;   /* of the arriving VNI (VNI_INTERNET, …); 0 if unknown */
    uint8_t lookups;     /* route lookups made, 1 to 4; 0 if the VNI is unknown */
    uint32_t out_vni;    /* current VNI at the end: after peers, or the tunnel's */
    uint32_t service;    /* FIB_SERVICE: index for fib_service_name() */
    uint8_t scope;       /* enum route_scope of the last route; 0 on a miss */
    uint8_t vni_changed; /* out_vni != vni */
    uint8_t addr_family; /* FIB_LOCAL, FIB_TUNNEL: IP_V4 or IP_V6 of `addr` */
    uint8_t has_mac;
    uint8_t mac[6];
    uint8_t reserved[2];
    uint8_t addr[16]; /* network order; IPv4 in [0..3], the rest zero */
};
_Static_assert(sizeof(struct fib_query) == 64, "a query is one cache line");

/* Answers q[0..n), n <= FIB_BURST_MAX.  Fields of the answer that the kind does not use
 * are unspecified, but out_vni, vni_flags, lookups, scope and vni_changed are always
 * set. */
void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n);

/* The same for a worker that spreads the work over time: four steps, each of which
 * touches what the one before asked the memory for.  Between them the worker does
 * something else, best a step of another batch; all of them lie within one online
 * period without a quiescent state between.
 *
 *   fib_batch_init(b);
 *   fib_batch_add4(b, tag, vni, address); …     at most FIB_BURST_MAX in all
 *   fib_batch_begin(f, b); … _probe(f, b); … _step(f, b); … _end(f, b);
 *
 * Each lookup comes back once, by its tag: as one of the *plain* answers, which nearly
 * all are, and nearly all of them after the probe; or as one of the *other* ones, with
 * a query, whose vni_flags are 0 where it is FIB_LOCAL in the arriving VNI. */

/* Lookups of one family.  The caller adds; all behind `vni` is between the steps. */
struct fib_lanes {
    unsigned count;
    uint8_t tag[FIB_BURST_MAX + 1]; /* any number of the caller's */
    uint64_t hi[FIB_BURST_MAX + 1]; /* IPv6: upper half; IPv4: address, then the VNI */
    uint64_t lo[FIB_BURST_MAX + 1]; /* IPv6 only, as is: */
    uint32_t vni[FIB_BURST_MAX + 1];

    unsigned begun;                    /* lanes that were asked for */
    const void *bucket[FIB_BURST_MAX]; /* of VM-NC; null: there is no second one */

    /* Of those that VM-NC alone does not answer: */
    unsigned slow_count;
    unsigned line_count;
    unsigned tree_count;
    unsigned vni_second_count;
    unsigned odd_count;
    uint8_t slow[FIB_BURST_MAX];       /* all of them */
    uint8_t line[FIB_BURST_MAX + 1];   /* those that wait for a line of routes */
    uint8_t tree[FIB_BURST_MAX + 1];   /* for a tree of them */
    uint8_t vni_second[FIB_BURST_MAX]; /* for a second VNI bucket */
    uint8_t odd[FIB_BURST_MAX];        /* no routes, or no row of the VNI */
    uint64_t slot[FIB_BURST_MAX];
    const void *vni_bucket[FIB_BURST_MAX];
};

struct fib_batch {
    struct fib_lanes v4;
    struct fib_lanes v6;
    uint64_t seen; /* how many changes there were at the step */

    /* FIB_LOCAL in the VNI that was asked for, to an IPv4 NC, without a MAC. */
    unsigned plain_count;
    uint8_t plain[FIB_BURST_MAX];     /* tags */
    uint32_t plain_nc[FIB_BURST_MAX]; /* as it lies in a packet */
    /* All others. */
    unsigned other_count;
    uint8_t other[FIB_BURST_MAX]; /* tags */
    struct fib_query query[FIB_BURST_MAX];
};

static inline void fib_batch_init(struct fib_batch *b)
{
    b->v4.count = b->v4.begun = 0;
    b->v6.count = b->v6.begun = 0;
}

/* Adds a lookup if `is_good`, without a branch: a place past the end is always written
 * and counts only then. `address` is in host order; `vni` is at most 2^24 - 1. */
static inline void fib_batch_add4(struct fib_batch *b, uint8_t tag, uint32_t vni,
                                  uint32_t address, bool is_good)
{
    struct fib_lanes *l = &b->v4;

    l->tag[l->count] = tag;
    l->hi[l->count] = (uint64_t)address << 32 | vni;
    l->count += is_good;
}

static inline void fib_batch_add6(struct fib_batch *b, uint8_t tag, uint32_t vni,
                                  uint64_t hi, uint64_t lo, bool is_good)
{
    struct fib_lanes *l = &b->v6;

    l->tag[l->count] = tag;
    l->hi[l->count] = hi;
    l->lo[l->count] = lo;
    l->vni[l->count] = vni;
    l->count += is_good;
}

/* Asks for VM-NC, on the guess that the route will say local, of the lookups that were
 * added since the last call. */
void fib_batch_begin(const struct fib *f, struct fib_batch *b);
/* Answers what VM-NC alone can; of the others it asks for the VNI.  From here on
 * answers stand in the lists, and only get more. */
void fib_batch_probe(const struct fib *f, struct fib_batch *b);
/* Reads the VNIs; asks for the routes. */
void fib_batch_step(const struct fib *f, struct fib_batch *b);
/* Reads the routes, and answers the rest. */
void fib_batch_end(const struct fib *f, struct fib_batch *b);

/* ---- reclamation ---- */

/* One a worker, on its own line; the worker writes, the owner reads. */
struct fib_reader {
    _Alignas(64) atomic_uint_least64_t epoch; /* UINT64_MAX: offline */
};
#define FIB_READER_INIT                                                                \
    {                                                                                  \
        UINT64_MAX                                                                     \
    }

/* From here on the worker may resolve. */
void fib_reader_online(const struct fib *f, struct fib_reader *r);
/* The worker holds nothing that it learned before.  Two plain moves: do it per burst.
 */
void fib_reader_quiescent(const struct fib *f, struct fib_reader *r);
/* The worker holds nothing and will not resolve before it is online again. */
void fib_reader_offline(struct fib_reader *r);
/* The smallest epoch of `n` readers, for fib_reclaim(). */
uint64_t fib_readers_oldest(const struct fib_reader *readers, unsigned n);
