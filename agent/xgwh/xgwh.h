/*
 * xgwh - the logical tables of one XGW-H on its physical tables, and back.
 *
 * It holds what it believes the switch holds: a `table_set` of logical rows, and beside
 * it the physical side (phys.h): ALPM's partitions (alpm.h), 32-bit keys, NC indexes,
 * buckets.  A batch of rows goes in; physical writes come out of the *sink*, in an
 * order in which no lookup between any two of them gets an answer that is neither the
 * old nor the new one.  Nothing here knows P4Runtime, sockets, threads or the clock.
 *
 *   driver.write     ──▶ xgwh_apply()      ──▶ sink ──▶ WriteRequests
 *   driver.configure ──▶ xgwh_configure()  ──▶ sink
 *   driver.read      ──▶ xgwh_read_begin(), each entry read from the switch through
 *                        xgwh_read_entry(), xgwh_read_end() ──▶ sink (repairs), then
 *                        xgwh_rows() ──▶ driver_events.rows
 *
 * **A read-back is the one way to learn what the switch holds**: at the agent's start,
 * after a write whose outcome is unknown, after any refused update.  It throws the
 * physical side away and builds it anew from the entries alone.  What the entries
 * cannot say is taken from the logical rows held before, where they *verify*, i.e. map
 * to exactly what was read; never otherwise:
 *   - a v6 VM-NC entry holds CRC32 of the address, not the address;
 *   - a tunnel does not say whether its route was idc, region or derived, nor
 *     `to_x86` whether internet, fallback or which service;
 *   - an access rule is spread over entries;
 *   - what a meter is set to is a cell of its own (xgwh_read_meter()), and of bits a
 *     second it says bytes.
 * What stays is *unnamed*: it forwards as before, and is in no row of
 * xgwh_rows().  The controller then finds those rows missing and sends them; a PUT that
 * maps to what stands there *claims* it and costs no write.  When all has been
 * compared, xgwh_sweep() deletes what nobody claimed.
 *
 * A configuration is no row and not read back as one: a new agent's driver tells
 * `config_digest` 0, so that it is sent, and only what differs is written.
 *
 * What a driver has to do for that: after a read-back with xgwh_status().unnamed > 0
 * (always, when the agent has just started) it tells `applied` 0 in `up`.  So the last
 * BATCH of the comparison comes as a write with a revision, and at that write, after
 * its rows, it calls xgwh_sweep().
 *
 * **Failures.**  xgwh believes every write that it gave out.  A switch that refused one
 * or did not answer has to be read back.  RC_NO_MEMORY from any call leaves the belief
 * void: until the next read-back every change is RC_STALE.
 *
 * One owner, one thread.
 */
#pragma once

#include "agent/xgwh/phys.h"
#include "proto/model/agent_msg.h"
#include "proto/model/batch.h"

struct xgwh; /* opaque: xgwh_impl.h */

/* Takes what is to be written, in order; called from inside xgwh's calls and must not
 * call it.  Borrows the write until it returns.  It cannot fail: a sink that runs out
 * of memory remembers it and its owner reads back.
 *
 * In `entry.half` stands which device is meant: PHYS_BOTH is every device. */
struct xgwh_sink {
    void (*write)(void *ctx, const struct phys_write *w);
    void (*meter)(void *ctx, const struct phys_meter_write *w);
    void *ctx;
};

/* ---- life ---- */

/* The half of a VNI whose `vni` row is not known yet: its parity.  The row says which
 * it is (enum phys_half); one that says another than before moves all of the VNI. */
uint8_t xgwh_half(uint32_t vni);

struct xgwh_options {
    const struct phys_sizes *sizes; /* copied; of one half */
    uint8_t halves;                 /* 1 or 2; with 1 everything is in half 0 */
    /* Writes that one xgwh_apply() may give, beyond what its rows need, to move entries
     * from spill to vm_nc, to re-pack routes and to count VNIs that are not counted
     * yet. An apply of no rows does only that. */
    uint32_t repack;
};

/* An xgwh that believes the switch to be empty.  Null when memory is out. */
struct xgwh *xgwh_new(const struct xgwh_options *options);
void xgwh_free(struct xgwh *x); /* null is fine */

/* ---- rows ---- */

/* Rows that the switch does not take, with the reasons of driver_done: EXCEPTION_FULL
 * (which table: xgwh_status()), EXCEPTION_REFUSED (a VM's MAC, a VNI that passes inner
 * VLAN tags: the chip cannot do it).  A row that is listed wrote nothing, and what
 * stood under its key still stands. */
struct xgwh_exceptions {
    struct exception *at;
    uint32_t count;
    uint32_t cap;
    uint32_t unlisted; /* further ones that memory did not suffice to list */
};
void xgwh_exceptions_fini(struct xgwh_exceptions *e);

/* A switch had no room for more entries in the table of that half, 0 or 1, than the
 * read-back behind it found: until some have gone, rows that need more are
 * EXCEPTION_FULL without a write.  Not of `nc` and `route_part`, whose places are given
 * by index and partition: what they refuse is no matter of how many there are.
 * xgwh_forget_full() says that it may be another switch. */
void xgwh_note_full(struct xgwh *x, enum phys_table table, unsigned half);
void xgwh_forget_full(struct xgwh *x);

/* What a call cost; added to what is there. */
struct xgwh_cost {
    uint64_t rows;     /* logical rows that changed */
    uint64_t writes;   /* physical writes; PHYS_BOTH counts once */
    uint64_t barriers; /* of them with a barrier */
    uint64_t covering; /* of them rewrites of a covering result in route_tcam */
    uint64_t moves;    /* of them to make room, join and re-pack */
};

/* Makes the switch follow a checked batch (batch_check()) of PUT and DELETE runs, as
 * driver.write carries it (REPLACE is RC_INVALID, and so is a table that devices do not
 * hold).  Of two rows
 * with one key the later counts.  RC_OK also when rows were refused.
 *
 * Order: NCs; VM-NC entries and routes that are new; changed ones; VNIs; then what goes
 * away, NCs last.  Barriers stand between these, not between rows.  A row that finds
 * its table full is tried once more after the batch's deletes. */
enum rc xgwh_apply(struct xgwh *x, const uint8_t *ops, size_t len,
                   const struct xgwh_sink *sink, struct xgwh_exceptions *exceptions,
                   struct xgwh_cost *cost, struct err *err);

/* ---- configuration ---- */

struct xgwh_uplink {
    uint16_t port;       /* of the switch, 9 bits */
    uint16_t weight;     /* share of the flows; 0: takes none, but can be a port_out */
    bool has_v4, has_v6; /* families that may leave by it */
    uint8_t smac[6];
    uint8_t dmac4[6], dmac6[6]; /* next hop's.  All zero: not static; the software
                                   switch resolves it, a chip needs it given */
};

struct xgwh_member {  /* of the x86 cluster: its fallback addresses */
    struct ip v4, v6; /* either may be none */
    uint16_t weight;  /* 0: takes none */
};

#define XGWH_UPLINKS_MAX 16
#define XGWH_MEMBERS_MAX 64
#define XGWH_OWN_MAX     16

/* What a device is told of itself, as the driver reads it from a packed device_config.
 */
struct xgwh_config {
    uint64_t digest;
    uint8_t own_count; /* VTEPs and VIPs: addresses it accepts */
    struct ip own[XGWH_OWN_MAX];
    struct ip source_v4, source_v6; /* outer source: the VIPs */
    uint16_t source_count;
    const struct prefix *sources; /* who may send; borrowed */
    uint8_t uplink_count;
    struct xgwh_uplink uplinks[XGWH_UPLINKS_MAX];
    uint8_t member_count;
    struct xgwh_member members[XGWH_MEMBERS_MAX];
    struct phys_meter_config fallback_class[2];  /* by enum phys_class; of all halves */
    struct phys_meter_config fallback_tenant[2]; /* of each tenant bucket */
};

/* Makes the switch follow `c`; only what differs is written.  Buckets of `next_hop` and
 * `fallback_group` stay where they are as far as the weights allow: an uplink or member
 * that goes away moves its own flows only.  RC_FULL (too many sources, no NC index
 * left): nothing was changed.  `vtep` is written only once the switch is ready. */
enum rc xgwh_configure(struct xgwh *x, const struct xgwh_config *c,
                       const struct xgwh_sink *sink, struct xgwh_cost *cost,
                       struct err *err);

/* The switch may forward from here on: writes `vtep`, without which every packet is a
 * counted drop.  RC_CONFLICT before a configuration. */
enum rc xgwh_set_ready(struct xgwh *x, const struct xgwh_sink *sink,
                       struct xgwh_cost *cost, struct err *err);
bool xgwh_is_ready(const struct xgwh *x); /* `vtep` is not empty */
/* The ports that packets may leave by, ascending; how many, at most XGWH_UPLINKS_MAX.
 */
unsigned xgwh_ports(const struct xgwh *x, uint16_t ret[XGWH_UPLINKS_MAX]);

/* ---- what the switch remembers for the driver ---- */

struct xgwh_state {
    uint64_t boot_id; /* 0: none there, i.e. the switch has lost its tables */
    uint64_t term;
    uint64_t applied;
    uint64_t config_digest;
};

/* Writes the rows of it that differ from what is there. */
enum rc xgwh_put_state(struct xgwh *x, const struct xgwh_state *s,
                       const struct xgwh_sink *sink, struct err *err);
struct xgwh_state xgwh_state(const struct xgwh *x);
/* If `e` is a row of the state: fills its part of `*ret` and says true.  For a driver
 * that reads these two rows (PHYS_NC_STATE_*) before anything else. */
bool xgwh_state_of_entry(const struct phys_entry *e, struct xgwh_state *ret);

/* ---- reading back ---- */

/* What a read-back found and put right, by kind; the writes went to the sink. */
struct xgwh_findings {
    uint64_t entries;  /* read */
    uint64_t unnamed;  /* see above */
    uint64_t foreign;  /* of no form that xgwh writes, or where it would not: deleted */
    uint64_t dangling; /* point to an NC index that is not there: deleted */
    uint64_t orphans;  /* NC indexes that nothing points to: deleted */
    uint64_t duplicate; /* the same thing twice; the one that is looked up stays */
    uint64_t split;     /* tables that are equal in both halves were not: the entry that
                           was believed counts, or the first half's */
    uint64_t changed;   /* rows held before that do not verify */
    uint64_t lost;      /* rows held before of which nothing was read */
};

/* Begins; what an unfinished one collected is dropped. */
enum rc xgwh_read_begin(struct xgwh *x);
/* One entry as it was read, in any order.  `half` says from which device, 0 or 1, for
 * all tables.  The same entry twice in a row: packets get it, but what the device holds
 * of it elsewhere says otherwise, so rows that stand on it are not sound.  RC_NO_MEMORY
 * ends the read-back. */
enum rc xgwh_read_entry(struct xgwh *x, const struct phys_entry *e);
/* Behind the begin, where the rows held before are to be compared with what somebody
 * wants: an entry that none of them verifies gets a name all the same, as packets get
 * it: another NC behind an address, another end of a tunnel; an IPv6 address that has
 * the key, of those that nobody held; of what goes to XGW-x86 `internet`.  Only where
 * the rows held before named everything; else it is as if it was not called. */
void xgwh_read_name_all(struct xgwh *x);
/* When all entries were read: the cells of vni_meter that metered VNIs name.  What is
 * told of them by xgwh_read_meter(), and of all cells of the other meters, is believed,
 * and written no more where it is as it should be; what was not told nobody knows, so
 * it is written.  Gives `*ret`, to be freed with free(). */
enum rc xgwh_read_wants_meters(struct xgwh *x, uint32_t **ret, uint32_t *ret_count);
/* One cell, as a device says it; each once. */
void xgwh_read_meter(struct xgwh *x, enum phys_meter meter, unsigned half,
                     uint64_t index, const struct phys_meter_config *config);
/* All was read (from every device).  Believes it, and gives the writes that put right
 * what is inconsistent in itself; rows that they are about are not sound. */
enum rc xgwh_read_end(struct xgwh *x, const struct xgwh_sink *sink,
                      struct xgwh_findings *ret, struct err *err);
void xgwh_read_abort(struct xgwh *x); /* the belief of before stands */

/* Deletes what is unnamed still. */
enum rc xgwh_sweep(struct xgwh *x, const struct xgwh_sink *sink, struct xgwh_cost *cost,
                   struct err *err);

/* The rows, as PUT runs of some 128 KiB in (VNI, table, key) order: what
 * driver_events.rows takes.  Behind them, DELETE runs of those that are not sound,
 * until they are written: a PUT that changes nothing then has the entry written. */
typedef void xgwh_rows_fn(void *ctx, const uint8_t *batch, size_t len);
enum rc xgwh_rows(const struct xgwh *x, xgwh_rows_fn *rows, void *ctx);

/* The same to look into; borrowed until the next change. */
const struct table_set *xgwh_tables(const struct xgwh *x);

/* ---- what is counted ---- */

/* The first VNI from `from` on that has a cell of vni_counter of its own, and its index
 * there; 0: there is none.  A metered VNI has one; others have one for as long as there
 * are enough.  The rest is counted together, at index 0. */
uint32_t xgwh_counted_next(const struct xgwh *x, uint32_t from, uint32_t *ret_index);
/* Its index now; 0: none of its own. */
uint32_t xgwh_counted_index(const struct xgwh *x, uint32_t vni);

/* ---- how full it is ---- */

struct xgwh_usage {
    /* Entries of each physical table in each half; of one that both halves hold alike,
     * the same number twice. */
    uint32_t used[PHYS_TABLES][2];
    uint32_t partitions[2]; /* of route_part, in use */
    uint32_t meters;
    uint64_t routes[2]; /* logical ones, guards included */
};

struct xgwh_status {
    bool is_void;     /* must be read back */
    uint64_t unnamed; /* entries */
    uint64_t guards;  /* v4 guards (README) */
    struct xgwh_usage usage;
    size_t memory_bytes; /* of all of it */
};
struct xgwh_status xgwh_status(const struct xgwh *x);

/* Entries that a table takes in one half; of a hash table what its ways can be filled
 * to. */
uint32_t xgwh_limit(const struct xgwh *x, enum phys_table table);
