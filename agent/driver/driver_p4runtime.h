/*
 * driver_p4runtime - the driver of an XGW-H over P4Runtime: a Tofino with our program,
 * `xgw-gateway --pipeline h`, or BMv2.
 *
 *   rows ─▶ agent/xgwh ─▶ physical writes ─▶ p4rt_writer ─▶ WriteRequests ─▶ switch
 *   rows ◀─ agent/xgwh ◀─ entries ◀───────── p4rt_reader ◀─ ReadResponses ◀─┘
 *
 * **Who writes.**  The election id is the controller's term; the driver claims to be
 * primary when the first write names a term, and again with every higher one.  Until
 * then it only reads.  A controller with a higher election id that takes over is told
 * as `down` (rule "mastership"), then `up` with its term, so that ours hears that it
 * was deposed; every write of a term that is not higher is RC_STALE and never sent.
 * With a higher term it is primary again, reads back, and tells `up` anew.
 *
 * **The program.**  One that is ours by its p4info is never pushed again.  None: ours
 * is pushed with the first write.  Another: an error that names what differs, and
 * nothing is done, unless `replaces_other_program`.
 *
 * **What the switch is believed to hold** is agent/xgwh's; it is read back before the
 * first `up`, and whenever belief and switch may differ:
 *   - an update that the switch refuses for good (no room): it reads back itself, and
 *     the write ends with its rows that are not there as exceptions;
 *   - an update that contradicts the belief (ALREADY_EXISTS, NOT_FOUND: somebody else
 *     wrote), or an answer that does not come: the writes under way end with
 * RC_TIMEOUT, at which the session reads back and compares all with the controller;
 *   - tables whose state rows are gone: a new boot id.
 * After a read-back that leaves unnamed entries (xgwh.h) `up` says `applied` 0, so that
 * everything is compared, and the write that ends the comparison sweeps.
 *
 * The loop's thread.
 */
#pragma once

#include "agent/driver/driver.h"
#include "agent/driver/p4rt_switch.h"

struct driver_p4runtime_options {
    struct p4rt_switch_options sw;
    uint32_t request_bytes;     /* 0: 1 MiB */
    uint32_t window;            /* requests under way to a device; 0: 4 */
    uint32_t write_deadline_ms; /* of a request; 0: 10000 */
};

/* `options` is copied, but for what is said in p4rt_switch.h.  Gives `*ret`, to be
 * ended with cls->close(). */
enum rc driver_p4runtime_new(struct rpc_loop *loop,
                             const struct driver_p4runtime_options *options,
                             const struct driver_events *events, void *ctx,
                             struct driver **ret, struct err *err);

/* Of a driver made by driver_p4runtime_new(). */

struct driver_p4runtime_status {
    bool is_up;
    bool is_primary;
    uint64_t term;       /* claimed */
    uint64_t updates;    /* that the switch answered */
    uint64_t read_backs; /* of all tables */
    struct err trouble;  /* why it is not up, or not primary; RC_OK: nothing */
};
struct driver_p4runtime_status driver_p4runtime_status(const struct driver *d);

/* Each cell of a counter, of every device and part of it, then `end`; RC_UNREACHABLE
 * while not up, RC_CONFLICT while another such read is under way. */
struct driver_p4runtime_counters {
    void (*cell)(void *ctx, uint64_t index, uint64_t packets, uint64_t bytes);
    void (*end)(void *ctx, enum rc rc, const struct err *err);
    void *ctx;
};
enum rc driver_p4runtime_counters(struct driver *d, enum phys_counter counter,
                                  const struct driver_p4runtime_counters *to);
