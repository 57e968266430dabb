/*
 * p4rt_reader - what a switch's tables and counters hold, as streams.
 *
 * One ReadRequest a device, all tables in it, answered as a stream; entries are told as
 * they come, nothing is kept.  The loop's thread; events come from the loop.
 */
#pragma once

#include "agent/driver/p4rt_switch.h"

struct p4rt_read;

struct p4rt_read_events {
    /* An entry; `half` is the device that it came from. */
    void (*entry)(void *ctx, const struct phys_entry *e);
    /* A counter's cell, once for each device and each part of it (p4rt_info.h): their
     * sum is meant. */
    void (*counter)(void *ctx, enum phys_counter counter, uint8_t device,
                    uint64_t index, uint64_t packets, uint64_t bytes);
    /* A meter's cell, once for each device. */
    void (*meter)(void *ctx, enum phys_meter meter, uint8_t device, uint64_t index,
                  const struct phys_meter_config *config);
    /* All of it was told (RC_OK), or not.  The read is freed when it returns. */
    void (*end)(void *ctx, enum rc rc, const struct err *err);
};

/* Every entry of every table of every device.  Null when memory is out. */
struct p4rt_read *p4rt_read_tables(struct p4rt_switch *sw,
                                   const struct p4rt_read_events *events, void *ctx);

/* The rows of the state (PHYS_NC_STATE_*) alone. */
struct p4rt_read *p4rt_read_state(struct p4rt_switch *sw,
                                  const struct p4rt_read_events *events, void *ctx);

/* Every cell of one counter of every device. */
struct p4rt_read *p4rt_read_counter(struct p4rt_switch *sw, enum phys_counter counter,
                                    const struct p4rt_read_events *events, void *ctx);

/* Which cells of which counter; no indexes: all. */
struct p4rt_cells {
    enum phys_counter counter;
    const uint32_t *index;
    uint32_t count;
};

/* These of several counters, in one read; borrowed while this is called. */
struct p4rt_read *p4rt_read_cells(struct p4rt_switch *sw,
                                  const struct p4rt_cells cells[], unsigned count,
                                  const struct p4rt_read_events *events, void *ctx);

/* Those of vni_meter of `index`, and every cell of all other meters. */
struct p4rt_read *p4rt_read_meters(struct p4rt_switch *sw, const uint32_t index[],
                                   uint32_t count,
                                   const struct p4rt_read_events *events, void *ctx);

/* No event comes any more; it frees itself. */
void p4rt_read_cancel(struct p4rt_read *r); /* null is fine */
