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
    struct table_set *kept[2]; /* for tests: rows whose delete gets lost; null: none */
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
 * last.  A row that the records hold already, or a delete of what they do not hold,
 * makes the structures say so too, whatever they said.  A device without a
 * configuration does not become ready: RC_CONFLICT. */
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

/* A row that packets get, though no record says so. */
struct found_row {
    uint8_t key_len;
    uint8_t value_len;
    uint8_t key[ENTRY_KEY_MAX];
    uint8_t value[ENTRY_VALUE_MAX];
};

/* A read-back on its way: of one table or all (0), of one VNI or all (0). */
struct device_reading {
    uint8_t table;
    uint32_t vni;

    /* where it is: first along the records, then along the structures' slots */
    bool has_begun;
    uint32_t at_vni; /* 0: through with the records */
    uint8_t at_table;
    bool is_audited;              /* the routes of (at_vni, at_table) */
    struct fib_audit_at audit_at; /* how far, if not */
    struct refusals wrong;        /* routes whose structures say otherwise; by key */
    struct found_row *found;      /* … and what they say */
    uint32_t found_count, found_cap;
    bool is_memory_out; /* to list those: none of this VNI's is vouched for */
    uint8_t key_len;    /* goes on at this key */
    uint8_t key[ENTRY_KEY_MAX];

    enum reading_step { READ_RECORDS, READ_COUNT, READ_SLOTS, READ_DONE } step;
    struct fib_walk_at walk;
    uint64_t expected; /* slots, by the records that were read */
    uint64_t counted;
    bool is_odd;     /* the two differ somewhere: all slots have to be looked at */
    uint64_t writes; /* of the device when it began */
};
void device_reading_init(struct device_reading *r, uint8_t table, uint32_t vni);
void device_reading_fini(struct device_reading *r);

/* Goes on with a read-back: appends PUT runs of what packets get, until some
 * `max_bytes` lie in `to` or `max_rows` rows of work are done (a call may append
 * nothing).  True: there is more.  Writes may come between the calls: each row is then
 * told as it was at some moment in between.
 *
 * Rows that records and structures agree on come in (VNI, table, key) order.  A row
 * that packets get and its record does not say (another value, no record, two copies in
 * the structure) is told as packets get it, and behind it is a DELETE of its key: who
 * expects just that value must know that it is not sound.  A row that packets do not
 * get, or not for all addresses of a route, is left out. */
bool device_read(const struct device *d, struct device_reading *r, uint32_t max_rows,
                 size_t max_bytes, struct batch_writer *to);

/* ---- for tests ---- */

enum tamper_place { TAMPER_RECORDS = 1, TAMPER_STRUCTURES = 2, TAMPER_MARKS = 3 };
/* Does to one of the two what a fault does: the rows of `ops` are put or deleted there
 * alone, unseen by the writer; or, of VMs, their marks (agent/fwd/fib_mark.c) are
 * turned over.  With `keeps`, nothing happens now, but the next delete of these rows
 * does not reach that place. */
struct device_tamper {
    enum tamper_place place;
    bool keeps;
    const uint8_t *ops; /* PUT and DELETE runs */
    size_t len;
};
enum rc device_tamper(struct device *d, const struct device_tamper *t, struct err *err);
