/*
 * agent_msg - what a controller and an agent say to each other on a session, as plain
 * values.  The wire form is proto/api/agent.proto; proto/rpc/agent_codec turns one into
 * the other, so that the core, the session and the simulator never see protobuf.
 *
 *   agent                         controller
 *   HELLO ───────────────────────▶
 *        ◀─────────────────────── ASSIGN (term, group, device configuration)
 *        ◀─────────────────────── QUERY  (digests of tree nodes and buckets)
 *   DIGESTS ─────────────────────▶        … down to what differs
 *        ◀─────────────────────── BATCH  (only what differs, then changes as they
 * commit) ACK ─────────────────────────▶        (applied revision, exceptions)
 *
 * Both directions are ordered.  A DIGESTS answer describes the device after every
 * BATCH that was sent before its QUERY.  At most SESSION_WINDOW BATCHes are
 * unacknowledged.
 *
 * BEAT and TELEMETRY come in between, as often as ASSIGN said.
 *
 * An agent says HELLO again on the same stream when its data plane is gone (boot id 0)
 * and when there is a new one or its tables had to be read back.  Every HELLO is
 * answered with an ASSIGN that repeats its `hello_id`, and starts over: `seq` begins at
 * 1 again, and until that ASSIGN the agent ignores what was still under way.  A changed
 * configuration is one more ASSIGN with the last `hello_id`; it starts nothing over.
 */
#pragma once

#include "proto/base/blob.h"
#include "proto/model/batch.h"
#include "proto/model/object.h"
#include "proto/model/table_set.h"
#include "proto/model/telemetry.h"

#define DEVICE_ID_MAX  63
#define QUERY_MAX      64   /* items of one QUERY */
#define EXCEPTIONS_MAX 1000 /* listed in one ACK; the rest is only counted */
#define SESSION_WINDOW 64   /* batches; each at most BATCH_MAX_BYTES */
#define BATCH_SEND_BYTES                                                               \
    (256u << 10) /* a message; gRPC is quickest from 32 to 256 KiB */

enum agent_msg_kind {
    AGENT_HELLO = 1,
    AGENT_DIGESTS = 2,
    AGENT_ACK = 3,
    AGENT_BEAT = 4,
    AGENT_TELEMETRY = 7,
    AGENT_AUDIT = 20,    /* answers AUDIT */
    AGENT_COUNTERS = 24, /* answers COUNTERS */
    AGENT_PROBE = 28,    /* answers PROBE */
    AGENT_ROWS = 40      /* answers ROWS */
};

struct agent_hello {
    char device_id[DEVICE_ID_MAX + 1];
    uint8_t device_kind; /* enum device_kind of object.h */
    uint64_t term_seen;  /* the highest term the data plane accepted */
    uint64_t boot_id;    /* of the data plane process; 0 = no data plane now */
    uint64_t applied;    /* revision */
    bool ready;
    bool believed; /* roots are maintained, not read back since the agent started */
    uint64_t config_digest;
    struct digest root[TABLE_COUNT];
    char version[32];
    uint64_t hello_id; /* 1, 2, … */
};

#define TREE_DEPTH       4 /* of a node that is one VNI */
#define BUCKET_DEPTH_MAX 8

/* One node: of the VNI tree (bucket.depth 0 and node.depth < 4: its children are VNI
 * prefixes), or below a VNI (node.depth 4: 16 children of `bucket`). */
struct query_item {
    uint8_t table;
    struct tree_node node;
    struct bucket bucket;
};

/* Depths in range and no bits set below them. */
bool query_item_is_valid(const struct query_item *of);
bool query_item_equal(const struct query_item *a, const struct query_item *b);
uint32_t query_item_child_max(const struct query_item *of); /* 64 or 16 */

struct digests_item {
    struct query_item of;
    struct tree_child children[64]; /* the non-empty ones; index 0-63 or 0-15 */
    uint8_t child_count;
};

struct agent_digests {
    uint64_t query_id;
    struct digests_item *items; /* as asked, in order */
    uint32_t item_count;
};

enum exception_reason {
    EXCEPTION_FULL = 1,      /* no room in the table */
    EXCEPTION_NO_MEMORY = 2, /* the device ran out of memory */
    EXCEPTION_REFUSED = 3,   /* the device does not take such an entry */
    EXCEPTION_UNKNOWN = 4,   /* no answer in time: may or may not be there */
};

struct exception {
    uint8_t reason; /* enum exception_reason */
    uint8_t table;
    uint32_t vni;
    uint8_t key_len;
    uint8_t key[ENTRY_KEY_MAX];
};

struct agent_ack {
    uint64_t seq;     /* every batch up to this one is done */
    uint64_t applied; /* revision of the data plane */
    bool ready;
    uint32_t exception_count; /* all that stand now */
    /* At most EXCEPTIONS_MAX: those since the last ACK, then, where all that stand can
     * be named (exception_listed == exception_count), the `standing` older ones. */
    struct exception *exceptions;
    uint32_t exception_listed;
    uint32_t standing;
};

struct agent_beat {
    uint64_t applied;
    uint64_t boot_id;
    bool ready;
    struct {
        uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, drops;
    } totals;
};

/* What a read-back of the device's tables says of one VNI or of all.  By then it is
 * what QUERY and ROWS are answered from. */
struct agent_audit {
    uint64_t audit_id;
    enum rc rc; /* RC_OK, or why there is nothing to say */
    struct digest found[TABLE_COUNT];
};

/* What the device holds in one bucket; describes it as DIGESTS does. */
struct agent_rows {
    uint64_t ask_id;
    enum rc rc;        /* RC_OK, or why there are none; RC_RANGE: too many */
    struct blob *rows; /* a batch of PUT runs; null: none */
};

#define COUNTERS_MAX 1024 /* VNIs of one answer */

/* What one VNI sent through the device since the device began to count it. */
struct vni_counter {
    uint32_t vni;
    uint32_t cell; /* what counts it; another one counts from another value */
    uint64_t packets;
    uint64_t bytes; /* of frames as they arrived */
};

/* VNIs that the device counts one by one, in ascending order. */
struct agent_counters {
    uint64_t ask_id;
    enum rc rc; /* RC_NOT_FOUND: such a device counts no VNIs; else why not now */
    struct vni_counter *items;
    uint32_t item_count;
    uint32_t next_vni;                 /* to ask for next; 0: that was all … */
    uint64_t rest_packets, rest_bytes; /* … and all other VNIs together */
};

#define PROBE_FRAME_MIN  14   /* bytes: an Ethernet header */
#define PROBE_FRAME_MAX  2000 /* what fits a gateway's buffers when it has grown */
#define PROBES_MAX       16   /* under way on a session */
#define PROBES_BATCH_MAX 8    /* of one PROBES */
#define PROBE_ERROR_MAX  127

enum probe_outcome {
    PROBE_FORWARDED = 1, /* `frame` would have left by `port` */
    PROBE_DROPPED = 2,   /* for `reason` */
    PROBE_KEPT = 3       /* by the node's own control: ARP, BFD, … */
};

/* What a device's pipeline made of one frame. */
struct probe_result {
    enum rc rc; /* RC_NOT_FOUND: such a device takes no probes; else why there is no
                   outcome now, in `error` */
    char error[PROBE_ERROR_MAX + 1];
    uint8_t outcome;                  /* enum probe_outcome; 0 with an error */
    char reason[DROP_REASON_MAX + 1]; /* as tests/reference names it; else "" */
    char port[PORT_NAME_MAX + 1];     /* "" where the device does not tell */
    struct blob *frame;               /* of a forwarded one; else null */
};

struct agent_probe {
    uint64_t probe_id;
    struct probe_result result;
};

struct agent_msg {
    enum agent_msg_kind kind;
    union {
        struct agent_hello hello;
        struct agent_digests digests;
        struct agent_ack ack;
        struct agent_beat beat;
        struct agent_audit audit;
        struct telemetry *telemetry;
        struct agent_counters counters;
        struct agent_probe probe;
        struct agent_rows rows;
    };
};

enum ctl_msg_kind {
    CTL_ASSIGN = 1,
    CTL_QUERY = 2,
    CTL_BATCH = 3,
    CTL_REDIRECT = 4,
    CTL_AUDIT = 20,
    CTL_COUNTERS = 24,
    CTL_PROBE = 28,
    CTL_ROWS = 40,
    CTL_PROBES = 70
};

struct ctl_assign {
    uint64_t term;
    char group[CLUSTER_NAME_MAX + 1];
    uint32_t beat_ms;      /* how often the agent sends BEAT … */
    uint32_t telemetry_ms; /* … and TELEMETRY; 0: never */
    struct blob *config;   /* packed device_config (proto/model/object.h) */
    uint64_t hello_id;     /* of the HELLO that this answers */
};

struct ctl_query {
    uint64_t query_id;
    struct query_item items[QUERY_MAX];
    uint32_t item_count;
};

struct ctl_batch {
    uint64_t seq;      /* 1, 2, … within the session */
    uint64_t revision; /* `applied` after this batch; 0 = leave it */
    bool ready;        /* the device holds all it should: it may forward from here on */
    struct blob *ops;  /* a batch (REPLACE allowed); null or empty is fine */
};

/* Read rows back from the device, behind every BATCH that was sent before.  Of one VNI:
 * no BATCH behind it is begun before the answer.  Of all: changes go on meanwhile, and
 * rows that these touch are taken as they were written. */
struct ctl_audit {
    uint64_t audit_id;
    uint32_t vni; /* 0: all */
};

/* Tell the rows of a bucket (node.depth 4), behind every BATCH that was sent before. */
struct ctl_rows {
    uint64_t ask_id;
    struct query_item of;
};

/* Tell the counters of the VNIs from this one on.  One such question at a time: a new
 * one voids the one before.  It waits for no BATCH and no BATCH for it. */
struct ctl_counters {
    uint64_t ask_id;
    uint32_t from_vni;
};

/* Take this frame through the pipeline as if a port of the device had received it, and
 * tell what comes out; that does not leave the device (controller/probe/README.md, "The
 * mark").  It waits for no BATCH.  More than PROBES_MAX at a time are answered with
 * RC_FULL. */
struct ctl_probe {
    uint64_t probe_id;
    struct blob *frame; /* from the outer Ethernet header on */
};

/* Several at once, each as a PROBE and answered as one. */
struct ctl_probes {
    uint32_t count; /* 1 to PROBES_BATCH_MAX */
    struct ctl_probe at[PROBES_BATCH_MAX];
};

struct ctl_msg {
    enum ctl_msg_kind kind;
    union {
        struct ctl_assign assign;
        struct ctl_query query;
        struct ctl_batch batch;
        struct ctl_audit audit;
        struct ctl_counters counters;
        struct ctl_probe probe;
        struct ctl_rows rows;
        struct ctl_probes probes;
        char redirect[128]; /* address of the leader */
    };
};

/* Free what a message holds (not the struct itself). */
void agent_msg_fini(struct agent_msg *m);
void ctl_msg_fini(struct ctl_msg *m);
