/*
 * alpm - the two-level route table of one half of XGW-H: routes in, writes of
 * `route_tcam` and `route_part` out.
 *
 * VNI ‖ address is one string of 152 bits, IPv4 pooled at ::ffff:0:0/96, so routes of
 * all tenants and families form one trie.  It is carved into parts of at most B routes:
 * a *row* of route_tcam stands at the root of each and names its *partition*, which
 * holds the routes below it that no deeper row takes.  Every route has one slot.  The
 * row also carries the result of the longest route above it, its *cover*, which is what
 * a miss in the partition gets.  One row stands at the empty prefix, so every route has
 * a row above it; an empty table has no rows at all.
 *
 *      row 0/0 ─▶ partition 7: 10.0.0.0/8, 10.1.0.0/16, …
 *        └─ row 10.2.0.0/15 ─▶ partition 3: 10.2.3.0/24, …      cover: 10.0.0.0/8's
 *
 * What stands here is what the switch holds once all writes are done: there is no
 * second copy of the routes.
 *
 * **No hole.**  A packet that is looked up between any two writes, in any order that
 * the barriers allow, gets for its destination the answer of before the call or that of
 * after it.  So whoever sends the writes may stop behind any of them, and a covering
 * route's change, one write for each row it covers, may be sent in slices.  Logical
 * changes never move routes and moves never change an answer: a call first makes room
 * (fills a new partition, then writes rows, then clears what has moved), then changes
 * slots and covers in place, then joins rows that have become small.
 *
 * **Ids.**  Priority is 1 + length of the string, in both tables.  Partitions are
 * numbers from 1 to min(partitions, 65536) - 1: set_part has 16 bits for them.
 *
 * A call that fails has written and changed nothing.  Errors: RC_INVALID (a route that
 * cannot be), RC_FULL (no row or partition left for what is new), RC_NO_MEMORY.
 * Nothing here knows sockets, threads or the clock.  One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/xgwh/phys.h"
#include "proto/base/err.h"

struct alpm; /* opaque: alpm_impl.h */

/* What a route says, in the terms of set_part:
 *   PHYS_SCOPE_LOCAL     vni and idx are ignored, and read back as the route's VNI and
 * 0 PHYS_SCOPE_PEER      vni; idx: half, 0 to 3 PHYS_SCOPE_TUNNEL    vni; idx: NC index
 * below 2^17 PHYS_SCOPE_FALLBACK  idx: class, 0 or 1; vni is ignored, and read back as
 * 0 PHYS_SCOPE_MISS stands for "no route" in answers and is no result of a route. */
struct alpm_result {
    uint8_t scope; /* enum phys_scope */
    uint32_t vni;
    uint32_t idx;
};

struct alpm_route {
    uint32_t vni;     /* 24 bits */
    uint8_t addr[16]; /* pooled, network order; no bit set behind `len` */
    uint8_t len;      /* of the pooled address, 0 to 128: an IPv4 /p is 96 + p */
    struct alpm_result result;
};

struct alpm_change {
    struct alpm_route route; /* a delete looks at the key only */
    bool is_delete;
};

/* Takes the writes in order; must not call the alpm.  Borrows `w`.  It cannot fail: one
 * that runs out of memory remembers that, and its owner reads the switch back. */
typedef void alpm_sink(void *ctx, const struct phys_write *w);

/* What a call did; added to what is there. */
struct alpm_cost {
    uint64_t changes;      /* routes that were put, changed or deleted */
    uint64_t slot_writes;  /* route_part: for these changes */
    uint64_t move_writes;  /* both tables: to make room, join and re-pack */
    uint64_t cover_writes; /* route_tcam: covering results only */
    uint64_t barriers;     /* writes that carry one */
};

/* ---- life ---- */

/* An alpm that believes its half to be empty.  `half` goes into every entry.  RC_RANGE
 * unless B is 4 to 64 and there is room for two partitions and rows. */
enum rc alpm_new(const struct phys_sizes *sizes, uint8_t half, struct alpm **ret);
void alpm_free(struct alpm *a); /* null is fine */

/* The switch takes no more than so many rows, whatever its size; UINT32_MAX: by that.
 */
void alpm_limit(struct alpm *a, uint32_t rows);

/* ---- changes ---- */

/* Makes all `changes` as one: every destination sees the table of before or of after.
 * Any order; of two changes with one key the later counts; putting what is there and
 * deleting what is not costs nothing.  The first write carries a barrier.
 *
 * This is also the bulk build: many routes at once, into an empty table or not, are
 * carved with the fewest rows that can hold them.  Room that deletes of the same call
 * would give is not counted on: RC_FULL may be helped by deleting first, by fewer
 * changes a call, or by alpm_repack(). */
enum rc alpm_apply(struct alpm *a, const struct alpm_change *changes, size_t count,
                   alpm_sink *sink, void *ctx, struct alpm_cost *cost, struct err *err);

/* Re-packs in the background, from where the last call stopped: looks at neighbouring
 * rows and carves them anew where that saves rows.  Stops after the neighbourhood that
 * passes `budget` writes, or after looking at some 32 × `budget` routes.  `*ret_done`:
 * a whole round has passed without a gain, and nothing was changed since; calling again
 * then costs nothing.  Needs a few free rows and partitions, which RC_FULL leaves.
 * RC_NO_MEMORY: what was written so far stands, and is complete. */
enum rc alpm_repack(struct alpm *a, uint32_t budget, alpm_sink *sink, void *ctx,
                    struct alpm_cost *cost, bool *ret_done);

/* ---- questions ---- */

/* The answer for a destination; `*ret` is PHYS_SCOPE_MISS when no route covers it. */
void alpm_lookup(const struct alpm *a, uint32_t vni, const uint8_t addr[16],
                 struct alpm_result *ret);

/* The route of exactly this key; false when there is none. */
bool alpm_get(const struct alpm *a, uint32_t vni, const uint8_t addr[16], uint8_t len,
              struct alpm_result *ret);

/* Calls `each` with every route, or every route of one VNI; in the order of (VNI,
 * address, length) within a partition, partitions in any order.  `each` must not change
 * the alpm; returning false ends it. */
typedef bool alpm_each_route(void *ctx, const struct alpm_route *route);
void alpm_routes(const struct alpm *a, alpm_each_route *each, void *ctx);
void alpm_routes_of(const struct alpm *a, uint32_t vni, alpm_each_route *each,
                    void *ctx);

/* Calls `each` with the routes that a destination meets by this row of route_tcam:
 * those of its partition, and the one that covers its root.  No row is there: none. */
void alpm_routes_behind(const struct alpm *a, const struct phys_entry *row,
                        alpm_each_route *each, void *ctx);

/* Calls `each` with every entry that the switch should hold. */
typedef bool alpm_each_entry(void *ctx, const struct phys_entry *entry);
void alpm_entries(const struct alpm *a, alpm_each_entry *each, void *ctx);

struct alpm_stats {
    uint32_t rows;       /* of route_tcam; as many partitions are in use */
    uint32_t rows_max;   /* rows and partitions that changes may use */
    uint32_t slots;      /* rows × B: what the chip's memory is spent on */
    uint64_t routes;     /* each one slot */
    size_t memory_bytes; /* allocated */
};
struct alpm_stats alpm_stats(const struct alpm *a);

/* ---- reading back ---- */

/* Rebuilds all of it from what the switch holds, after a restart of the agent or a
 * write of unknown outcome: begin, every entry of route_tcam and route_part in any
 * order (`half` is not looked at), end.  Until then the old belief stands; `abort`
 * keeps it.
 *
 * A route is what lies in the partition of the deepest row above it.  `end` gives the
 * writes that put right the rest, such that every destination keeps its answer or gets
 * that of the routes that were found: entries of no form that we write, slots without a
 * row or in another row's partition (what an interrupted move leaves), two rows that
 * name one partition, covers that are not those of the routes, no row at the empty
 * prefix.  A row that cannot be put right because no partition is free goes, and its
 * routes with it. */
struct alpm_findings {
    uint64_t foreign; /* entries of no form that we write: deleted */
    uint64_t orphans; /* slots that no row looks at: deleted */
    uint64_t shared;  /* rows that named another row's partition */
    uint64_t covers;  /* covering results that were wrong */
    uint64_t lost;    /* routes that had no place: deleted */
};
enum rc alpm_read_begin(struct alpm *a);
enum rc alpm_read_entry(struct alpm *a, const struct phys_entry *e);
enum rc alpm_read_end(struct alpm *a, alpm_sink *sink, void *ctx,
                      struct alpm_cost *cost, struct alpm_findings *ret);
void alpm_read_abort(struct alpm *a);
