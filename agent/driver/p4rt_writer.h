/*
 * p4rt_writer - physical writes packed into WriteRequests, and kept in order.
 *
 * Writes are added one by one; a *barrier* means that all before it have to be done
 * before anything behind it is sent.  Between barriers several requests are under way
 * at once, to both devices.  A *mark* stands behind a caller's writes: it is told, in
 * order, when all before it are done.
 *
 * The first failure stops it: nothing more is sent, and when the last answer has come
 * it tells `stopped` with the first failure and forgets all it had, marks included.
 * What is on the switch is then for a read-back to say.
 *
 * The loop's thread.  Events come from the loop, never from inside a call.
 */
#pragma once

#include "agent/driver/p4rt_requests.h"

/* What an update, or a request, came to. */
struct p4rt_outcome {
    struct err err; /* names the table and what the switch said */
    bool is_known;  /* each update was answered; else any may have been done */
    /* Refused for good (no room, not supported), not for what the tables held. */
    bool is_refusal;
    bool is_full;
    uint8_t table;       /* enum phys_table of the update; PHYS_TABLES: of none */
    uint8_t device;      /* that was asked */
    bool is_not_primary; /* by another controller */
    uint64_t mark;       /* the first mark behind it */
};

struct p4rt_writer_events {
    void (*reached)(void *ctx, uint64_t mark);
    void (*stopped)(void *ctx, const struct p4rt_outcome *first);
    /* Requests were sent or answered: p4rt_writer_flying() is another. */
    void (*moved)(void *ctx);
};

struct p4rt_writer_options {
    uint32_t request_bytes;   /* a request is closed at about this size; 0: 1 MiB */
    uint32_t request_updates; /* … or so many; 0: 8192 */
    uint32_t window;          /* requests under way to a device; 0: 4 */
    uint32_t deadline_ms;     /* for each; 0: 10000 */
};

struct p4rt_writer;

/* Keeps `sw`, which outlives it.  Null when memory is out. */
struct p4rt_writer *p4rt_writer_new(struct p4rt_switch *sw, struct rpc_loop *loop,
                                    const struct p4rt_writer_options *options,
                                    const struct p4rt_writer_events *events, void *ctx);

/* With one device, everything goes to it.  Memory that runs out is a failure like any
 * other: it stops. */
void p4rt_writer_entry(struct p4rt_writer *w, const struct phys_write *write);
void p4rt_writer_meter(struct p4rt_writer *w, const struct phys_meter_write *write);
void p4rt_writer_barrier(struct p4rt_writer *w);
/* How requests for this switch are packed by others, for p4rt_writer_take(). */
struct p4rt_requests_options p4rt_writer_packing(const struct p4rt_writer *w);
/* What somebody else packed, behind a barrier; `more` is empty then. */
void p4rt_writer_take(struct p4rt_writer *w, struct p4rt_requests *more);
/* Numbers ascend. */
void p4rt_writer_mark(struct p4rt_writer *w, uint64_t mark);

bool p4rt_writer_is_idle(const struct p4rt_writer *w);
/* Bytes not yet answered, and those of them that the switch has. */
size_t p4rt_writer_bytes(const struct p4rt_writer *w);
size_t p4rt_writer_flying(const struct p4rt_writer *w);

/* Forgets all; answers of requests under way are ignored.  For a lost connection. */
void p4rt_writer_drop(struct p4rt_writer *w);
/* Updates that were answered since the start. */
uint64_t p4rt_writer_updates(const struct p4rt_writer *w);

/* Frees it when the last answer has come; none is told. */
void p4rt_writer_free(struct p4rt_writer *w);
