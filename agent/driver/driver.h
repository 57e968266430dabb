/*
 * driver - the one interface to a device.
 *
 * Asynchronous: calls return at once and are answered through `struct driver_events`
 * on the loop thread, never from inside the call.  Writes are done in order; each is
 * answered once.  Back ends: driver_memory (tests, simulator), driver_gateway
 * (xgw-gateway over its Unix socket), later p4runtime and bgp.  One suite
 * (tests/unit/agent/driver) runs against each.
 *
 * The session (agent/session) decides; a driver only carries out and reports.
 */
#pragma once

#include "proto/base/blob.h"
#include "proto/model/agent_msg.h"
#include "proto/model/telemetry.h"

/* What the data plane says of itself. */
struct device_state {
    uint64_t boot_id; /* new for each data plane process; never 0 */
    uint64_t term;    /* the highest it accepted */
    uint64_t applied; /* revision */
    bool ready;
    uint64_t config_digest; /* 0 = none yet */
};

struct driver_write {
    uint64_t id;
    uint64_t term;     /* the device refuses a lower one than it saw: RC_STALE */
    uint64_t revision; /* `applied` after this write; 0 = leave it */
    bool ready;        /* may forward from here on */
    struct blob *ops;  /* PUT and DELETE runs; null = none */
};

struct driver_done {
    uint64_t id;
    enum rc rc; /* RC_OK even with exceptions; anything else: nothing was applied */
    struct err err;
    const struct exception *exceptions; /* borrowed */
    uint32_t exception_count;
};

/* One figure of what the device uses or does: what it is called is said in
 * proto/model/telemetry.h. */
struct device_reading {
    const char *part; /* "" = the device itself */
    const char *resource;
    uint8_t kind;    /* enum reading_kind */
    bool is_counter; /* `value` only grows, and what counts is how fast, a second */
    uint64_t value;
    uint64_t capacity; /* 0 = not known; of a counter: in a second */
};

struct device_drop {
    const char *reason;
    uint64_t packets; /* since the device's start */
};

/* What it counted since its start, and what it uses now.  A driver gives what its
 * device has; lists are borrowed. */
struct device_totals {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, drops;
    const struct device_reading *readings;
    uint32_t reading_count;
    const struct device_drop *drop_list;
    uint32_t drop_count;
    const struct top_report *top; /* of the last interval; null: none, or not now */
};

/* An answer to vni_counters(); see agent_msg.h. */
struct device_counters {
    uint64_t id;
    enum rc rc; /* RC_NOT_FOUND: such a device counts no VNIs */
    uint32_t next_vni;
    const struct vni_counter *items; /* borrowed; at most COUNTERS_MAX */
    uint32_t count;
    uint64_t rest_packets, rest_bytes;
};

/* An answer to probe(). */
struct device_probe {
    uint64_t id;
    const struct probe_result *result; /* borrowed; its frame may be referenced */
};

struct driver_events {
    void (*up)(void *ctx, const struct device_state *state);
    void (*down)(void *ctx, const struct err *cause); /* it redials by itself */
    void (*done)(void *ctx, const struct driver_done *done);
    /* A read-back: runs of PUT rows, then the end.  `read_id` is the read's.  A DELETE
     * behind a PUT of its key: the row answers packets, but the device's own records
     * say otherwise, or it stands there twice: it is not sound. */
    void (*rows)(void *ctx, uint64_t read_id, const uint8_t *batch, size_t len);
    void (*read_end)(void *ctx, uint64_t read_id, enum rc rc, const struct err *err);
    void (*totals)(void *ctx, const struct device_totals *totals);
    void (*counters)(void *ctx, const struct device_counters *counters);
    void (*probe)(void *ctx, const struct device_probe *probe);
};

struct driver;

struct driver_class {
    const char *name;
    void (*open)(struct driver *d);
    void (*write)(struct driver *d, const struct driver_write *w); /* refs the blob */
    void (*configure)(struct driver *d, uint64_t id, uint64_t term,
                      struct blob *config);
    /* What the device's tables hold, of one VNI or (0) of all.  Not answered when the
     * device goes down meanwhile, or only then; so a new one gets a new id. */
    void (*read)(struct driver *d, uint64_t read_id, uint32_t vni);
    void (*poll_totals)(struct driver *d);
    /* The counters of VNIs from `from_vni` on, some of them; null: such a device counts
     * no VNIs.  A new call voids the one before, and so does the device's going down.
     */
    void (*vni_counters)(struct driver *d, uint64_t id, uint32_t from_vni);
    /* Takes a frame through the device's pipeline as if its first port had received it;
     * what comes out is answered and leaves by no port.  `frame` is at least
     * PROBE_FRAME_MIN and at most PROBE_FRAME_MAX bytes; referenced.  Null: such a
     * device takes no probes.  Not answered when the device goes down meanwhile; its
     * caller bounds how many are under way. */
    void (*probe)(struct driver *d, uint64_t id, struct blob *frame);
    void (*close)(struct driver *d);
};

struct driver {
    const struct driver_class *cls;
    const struct driver_events *events;
    void *ctx;
};
