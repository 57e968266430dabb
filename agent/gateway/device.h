/*
 * device - what a gateway holds and what it promises its writer: tables, term, applied
 * revision, readiness, configuration.  No DPDK, no sockets, no clock.
 *
 * Records (a table_set) are what was written; the fib is what packets see.  They are
 * kept equal: a row that the fib cannot place is taken out of the records again and
 * reported, so a read-back never shows what packets do not get.
 *
 * It is of a kind that xgw-agent's own protocol drives: XGW-x86, or a load balancer.
 * The kinds differ in the tables that they take; a load balancer has members, too.
 *
 * The control thread owns it.  Workers see four things, each published with release
 * order: the fib and the members (whose pointers never change), the compiled
 * configuration, and `is_ready`.
 */
#pragma once

#include "agent/fwd/fib.h"
#include "agent/fwd/fwd_config.h"
#include "agent/fwd/steer.h"
#include "proto/model/agent_msg.h"
#include "proto/model/object.h"

#include <stdatomic.h>

struct device {
    uint8_t kind;             /* enum device_kind: DEVICE_X86, DEVICE_LB */
    uint32_t table_mask;      /* 1 << table of those that it takes */
    struct fib_limits limits; /* as it was made with */
    struct table_set *records;
    struct fib *fib;
    struct steer *steer; /* of a load balancer, else null */
    uint64_t boot_id;    /* random, new for each process, never 0 */
    uint64_t term;       /* the highest that a writer showed */
    uint64_t applied;
    uint64_t writes;                  /* batches with rows that were applied */
    uint64_t config_digest;           /* 0: none yet */
    _Atomic(struct fwd_config *) fwd; /* null before the first configuration */
    atomic_bool is_ready;
};

/* `boot_id` comes from the caller, who has the random source. */
enum rc device_init(struct device *d, uint8_t kind, const struct fib_limits *limits,
                    uint64_t boot_id, struct err *err);
/* No worker may run any more. */
void device_fini(struct device *d);

/* What a table may hold at most; 0: nothing, or no bound. */
uint64_t device_capacity(const struct device *d, enum table_id table);

/* As many as one batch may have rows at most. */
struct refusals {
    struct exception *at;
    uint32_t count;
    uint32_t cap;
    uint32_t unlisted; /* further ones that memory did not suffice to list */
};
void refusals_fini(struct refusals *r);

struct device_write {
    uint64_t term;
    uint64_t revision; /* `applied` afterwards; 0 = leave it */
    bool ready;
    const uint8_t *ops; /* PUT and DELETE runs; may be empty */
    size_t len;
};

/* Applies one batch.  RC_STALE: a lower term than was seen; RC_INVALID: not a batch of
 * device rows; RC_RANGE: more than BATCH_MAX_BYTES; RC_NO_MEMORY: nothing was
 * applied.  With RC_OK, rows that found no place
 * are in `*ret` (appended) and everything else is applied; `applied` and `ready` move
 * last.  A device without a configuration does not become ready: RC_CONFLICT. */
enum rc device_write(struct device *d, const struct device_write *w,
                     struct refusals *ret, struct err *err);

/* Says what only the shell knows: ports[i] is the port that config->uplinks[i] names.
 * Refuses a port that it does not have. */
typedef enum rc device_bind_fn(void *arg, const struct device_config *config,
                               struct fwd_port ports[UPLINKS_MAX], struct err *err);

/* What workers may still read of a configuration that was replaced. */
struct device_old {
    struct fwd_config *fwd;
    struct steer_cluster *clusters;
};
void device_old_fini(struct device_old *old); /* all of them passed a quiescent point */

/* Compiles and publishes a packed device_config, which is for a device of this kind.
 * Gives in `*ret_old` what it replaced. */
enum rc device_configure(struct device *d, uint64_t term, const uint8_t *packed,
                         size_t len, device_bind_fn *bind, void *arg,
                         struct device_old *ret_old, struct err *err);

/* A read-back on its way: of one table or all (0), of one VNI or all (0). */
struct device_reading {
    uint8_t table;
    uint32_t vni;

    /* where it is */
    bool has_begun;
    uint32_t at_vni; /* 0: through */
    uint8_t at_table;
    bool is_audited;              /* the routes of (at_vni, at_table) */
    struct fib_audit_at audit_at; /* how far, if not */
    struct refusals wrong;        /* rows whose structures say otherwise; by key */
    uint8_t key_len;              /* goes on at this key */
    uint8_t key[ENTRY_KEY_MAX];
};
void device_reading_init(struct device_reading *r, uint8_t table, uint32_t vni);
void device_reading_fini(struct device_reading *r);

/* Goes on with a read-back: appends PUT runs of what the packet path's structures hold,
 * in (VNI, table, key) order, until some `max_bytes` lie in `to` or `max_rows` rows of
 * work are done (a call may append nothing: routes are audited before they are told).
 * True: there is more.  A row whose structures resolve to something else is told with
 * that value, or left out where they hold none; so is a route that only some of its
 * addresses contradict.  Writes may come between the calls: each row is then told as it
 * was at some moment in between. */
bool device_read(const struct device *d, struct device_reading *r, uint32_t max_rows,
                 size_t max_bytes, struct batch_writer *to);
