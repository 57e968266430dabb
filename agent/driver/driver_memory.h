/*
 * driver_memory - a device that is a table_set in memory, and the driver to it.
 *
 * For tests and the simulator.  The device outlives its driver, as a data plane
 * outlives its agent: closing the driver loses what was not carried out yet, and
 * nothing else.  It behaves as a data plane must: refuses a lower term and a second
 * writer, advances `applied` at a write's end only, refuses single entries without
 * harm to the rest.  Time is an argument; nothing happens but in memory_device_step().
 *
 * The hooks below do to it what happens to real ones.
 */
#pragma once

#include "agent/driver/driver.h"

struct memory_device;

struct memory_device_config {
    uint64_t boot_id;               /* of its first start; later ones count up */
    uint64_t capacity[TABLE_COUNT]; /* entries; 0 = no bound */
    uint32_t work_ms;               /* from a call to its being carried out … */
    uint32_t answer_ms;             /* … and from there to its answer */
};

struct memory_device *memory_device_new(const struct memory_device_config *config);
void memory_device_free(struct memory_device *d); /* after its driver was closed */

/* It holds this, as if somebody had written it before: neither counted nor observed. */
enum rc memory_device_preset(struct memory_device *d, const struct blob *ops);
/* The same of one table of one VNI; shares `rows`. */
enum rc memory_device_preset_rows(struct memory_device *d, uint32_t vni,
                                  enum table_id table, struct rows *rows);

/* A driver for it; a driver that is open loses the device (`down`, for good).  Null:
 * no memory. */
struct driver *driver_memory_new(struct memory_device *d,
                                 const struct driver_events *events, void *ctx);

/* Carries out and answers what is due.  UINT64_MAX: nothing to wait for. */
void memory_device_step(struct memory_device *d, uint64_t now_ms);
uint64_t memory_device_next_wake(const struct memory_device *d);

/* ---- what it holds ---- */

const struct table_set *memory_device_tables(const struct memory_device *d);
struct device_state memory_device_state(const struct memory_device *d);

struct memory_device_counts {
    uint64_t writes; /* carried out, with entries in them */
    uint64_t puts;   /* rows in those */
    uint64_t deletes;
    uint64_t exceptions;
    uint64_t reads;
};
struct memory_device_counts memory_device_counts(const struct memory_device *d);

/* Called when a write was carried out, at its end, with its changes; for invariants. */
typedef void memory_device_observer(void *ctx, const struct driver_write *w,
                                    const struct change_list *changes);
void memory_device_observe(struct memory_device *d, memory_device_observer *f,
                           void *ctx);

/* What it says that it counted: numbers alone, it has no ports.  How full its tables
 * are it says by itself. */
void memory_device_set_totals(struct memory_device *d,
                              const struct device_totals *totals);

/* ---- faults ---- */

void memory_device_set_delay(struct memory_device *d, uint32_t work_ms,
                             uint32_t answer_ms);
/* The next write (or configuration) changes nothing and is answered with `rc`. */
void memory_device_fail_next(struct memory_device *d, enum rc rc);
/* Nothing is carried out or answered while stalled. */
void memory_device_stall(struct memory_device *d, bool is_stalled);
/* Entries for which it says yes become exceptions, EXCEPTION_REFUSED. */
typedef bool memory_device_refuser(void *ctx, enum table_id table, uint32_t vni,
                                   const struct row *row);
void memory_device_refuse(struct memory_device *d, memory_device_refuser *f, void *ctx);

void memory_device_crash(struct memory_device *d); /* gone: tables and all */
void memory_device_start(struct memory_device *d); /* back: new boot id, empty */
/* The connection breaks and comes back; calls that were not carried out are lost. */
void memory_device_disconnect(struct memory_device *d);

enum memory_corruption {
    CORRUPT_VALUE, /* another value under the key */
    CORRUPT_DROP,
    CORRUPT_DUPLICATE, /* its value under a key nobody wrote */
    CORRUPT_KEEP,      /* the next delete is not done */
    CORRUPT_LOSE,      /* the next batch is not done, and answered as done */
    CORRUPT_HALVE,     /* … the second half of it */
    CORRUPT_KINDS
};
/* Behind the agent's back, to an entry picked by `pick`.  False: there is none. */
bool memory_device_corrupt(struct memory_device *d, enum memory_corruption kind,
                           uint64_t pick);
/* Probes that are forwarded come out with another VNI, which no read-back shows. */
void memory_device_spoil_probes(struct memory_device *d, bool is_spoilt);
/* What was to happen to the next delete or batch, and did not come to pass, will not.
 */
void memory_device_forget_corruption(struct memory_device *d);
