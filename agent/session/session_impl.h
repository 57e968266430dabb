/*
 * session_impl - what the files of agent/session share; nobody else includes it.
 *
 *   session.c            stepping, and the link: dialling, HELLO, beats
 *   session_msg.c        what the controller says, and the answers to it
 *   session_device.c     the device: up, down, reading back, configuration
 *   session_audit.c      reading back for the controller
 *   session_counters.c   counters of VNIs for the controller
 *   session_flight.c     batches turned into writes on their way
 *   session_answer.c     what came of those writes
 *   session_exception.c  what the device does not hold though it should
 *   session_telemetry.c  what the device counts, for the controller
 */
#pragma once

#include "agent/session/session.h"

#define INBOX_MAX         (2 * SESSION_WINDOW) /* messages that wait for the device */
#define PIECE_BYTES       (512u << 10) /* a device write is cut at about this size */
#define RETRY_ROWS        1000         /* of each table, tried again at once */
#define ASSIGN_TIMEOUT_MS 10000        /* guess: HELLO unanswered, then dial again */
#define REDIRECTS_MAX     3            /* followed at once; then with a pause */
#define ACK_EVERY         8            /* batches, while more are on their way */

enum link_state { LINK_IDLE, LINK_DIALING, LINK_UP, LINK_CLOSING };

/* A BATCH or a QUERY that waits its turn. */
struct inbox_item {
    struct inbox_item *next;
    struct ctl_msg msg;
};

/* One write to the device, or a BATCH that needed none.  A BATCH that is cut into
 * pieces has `seq`, `revision`, `ready` and `changes` in its last piece. */
struct flight {
    struct flight *next;
    uint64_t id;  /* the driver's; 0 = nothing to send */
    uint64_t seq; /* the BATCH's; 0 = not its last piece, or a retry */
    uint64_t revision;
    uint64_t deadline_ms;
    bool ready;
    bool is_sent;
    bool is_done;
    bool is_late; /* timed out: its rows are exceptions, its answer may yet come */
    bool is_retry;
    uint32_t retry_rows; /* exceptions still, until it is done */
    bool is_old;         /* of a conversation that is over: its wishes are void */
    bool has_deletes;
    struct blob *ops;
    struct change_list changes; /* of believed, as if all of it succeeded */
};

struct out_item {
    struct out_item *next;
    struct session_out out;
};

/* Rows that the device should hold and does not, or should not hold and does.  The
 * sum of the three is the exception count. */
enum exception_set {
    MISSING, /* to be tried again; the rows are what is wanted */
    REFUSED, /* the device does not take them: not tried again */
    EXTRA,   /* deletes that failed; to be tried again */
    EXCEPTION_SETS
};

/* The last row that a retry took out; VNI 0: none yet. */
struct retry_place {
    uint32_t vni;
    uint8_t key_len;
    uint8_t key[ENTRY_KEY_MAX];
};

struct session {
    struct session_config config;
    uint64_t now_ms;

    enum link_state link;
    uint64_t redial_at_ms;
    uint32_t attempt; /* dials since the last session that lasted redial_max_ms */
    uint64_t assigned_at_ms; /* when this session's first ASSIGN came */
    uint32_t dial_index;
    char redirect[128];
    uint32_t redirect_count;
    bool must_hello;
    uint64_t hello_id; /* of the last HELLO */
    bool awaits_assign;
    bool is_assigned;
    uint64_t assign_deadline_ms;
    char group[CLUSTER_NAME_MAX + 1];
    uint32_t beat_ms; /* 0 = not yet told */
    uint64_t next_beat_ms;
    uint64_t last_seq;  /* received */
    uint64_t done_seq;  /* every BATCH up to it is done */
    uint64_t acked_seq; /* last sent in an ACK */
    bool must_ack;

    struct inbox_item *inbox;
    struct inbox_item **inbox_end;
    uint32_t inbox_count;

    bool is_device_up;
    struct device_state device;
    struct device_totals totals;
    struct session_gather *gather; /* null before the first totals */
    uint32_t telemetry_ms;         /* 0: none is wanted */
    uint64_t next_poll_ms;
    uint64_t term; /* the highest seen anywhere */
    struct table_set *believed;
    bool is_believed_valid;
    bool is_fresh; /* read back, and no HELLO has said so yet */
    bool is_reading;
    bool was_read;       /* at least once */
    uint64_t read_at_ms; /* a failed read-back is tried again then */
    uint32_t read_attempt;
    uint64_t read_id;
    struct table_set *reading;
    /* Counters that the controller asked for.  Id 0: none. */
    struct {
        uint64_t id; /* the driver's */
        uint64_t ask_id;
        uint64_t deadline_ms;
    } counters;
    /* Probes under way, in no order.  Id 0: a free place. */
    struct session_probe {
        uint64_t id; /* the driver's */
        uint64_t probe_id;
        uint64_t deadline_ms;
    } probes[PROBES_MAX];
    /* A read-back that the controller asked for, of one VNI or (0) all.  Id 0: none. */
    struct {
        uint64_t read_id;
        uint64_t audit_id;
        uint32_t vni;
        uint64_t deadline_ms;
        struct table_set *found;
        struct table_set *unsound;  /* those of them that stand there unsoundly */
        struct change_list touched; /* what was written meanwhile */
    } audit;
    /* Rows that are believed because an audit found them, though the device was never
     * told to hold them so; null: none. */
    struct table_set *unsound;

    struct blob *device_config; /* as assigned; null = none */
    uint64_t config_digest;
    uint64_t config_id; /* under way; 0 = none */
    uint64_t config_deadline_ms;
    uint64_t config_at_ms; /* a failed one is tried again then */
    bool has_config_failed;

    struct flight *flights;
    struct flight **flights_end;
    uint32_t sent_count;
    uint64_t last_id;
    uint64_t want_applied; /* of the last BATCH that named one; 0 = none yet */
    bool want_ready;
    uint64_t device_writes;

    struct table_set *exceptions[EXCEPTION_SETS];
    struct exception *new_exceptions; /* since the last ACK */
    uint32_t new_exception_count;
    struct exception *listed; /* what ACKs named, as far as it may still stand */
    uint32_t listed_count;
    bool must_list; /* some of it is gone, or a new session knows none of it */
    uint64_t retry_at_ms;
    uint32_t retry_attempt;
    struct retry_place retried[EXCEPTION_SETS][TABLE_COUNT]; /* the last row of each */

    struct out_item *outs;
    struct out_item **outs_end;
    bool is_out_of_memory;
};

/* ---- session.c ---- */

/* Null when memory is out: remembered, and the link is ended at the step's end. */
struct session_out *session_out_add(struct session *s, enum session_out_kind kind);
void session_log(struct session *s, int level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void session_hangup(struct session *s);
/* Everything under way between us and the controller is void; say HELLO again. */
void session_start_over(struct session *s);
/* Deterministic: from the device id and the attempt. */
uint64_t session_pause_ms(const struct session *s, uint32_t attempt);

void session_refuse(struct session *s, const char *why); /* logs and hangs up */
void session_clear_inbox(struct session *s);

/* ---- session_msg.c ---- */

void session_take_message(struct session *s, const struct ctl_msg *m);
void session_work_inbox(struct session *s);
void session_send_acks(struct session *s);

/* ---- session_device.c ---- */

void device_up(struct session *s, const struct device_state *state);
void device_down(struct session *s, const struct err *cause);
void device_rows(struct session *s, uint64_t read_id, const uint8_t *batch, size_t len);
void device_read_end(struct session *s, uint64_t read_id, enum rc rc);
void device_tick(struct session *s);
void device_read_again(struct session *s); /* believed is no longer to be trusted */
/* Tries again, configures, writes: whatever can go to the device now. */
void device_pump(struct session *s);
void device_config_done(struct session *s, const struct driver_done *done);
uint64_t device_next_wake(const struct session *s);

/* ---- session_counters.c ---- */

void counters_ask(struct session *s, const struct ctl_counters *c);
void counters_answer(struct session *s, const struct device_counters *c);
void counters_drop(struct session *s); /* without a word */
void counters_tick(struct session *s);
uint64_t counters_wake(const struct session *s);

/* ---- session_probe.c ---- */

void probes_ask(struct session *s, const struct ctl_probe *p);
void probes_answer(struct session *s, const struct device_probe *p);
void probes_drop(struct session *s); /* without a word */
void probes_tick(struct session *s);
uint64_t probes_wake(const struct session *s);

/* ---- session_audit.c ---- */

#define AUDIT_ALL_MS 120000 /* a read-back of all may take as long */

bool audit_is_under_way(const struct session *s);
/* Nothing is written until the audit's end: of one VNI, and where the device does one
 * thing at a time. */
bool audit_holds(const struct session *s);
void audit_begin(struct session *s, const struct ctl_audit *a);
/* The controller wishes something of these rows: what was found of them is past. */
enum rc audit_wished(struct session *s, const struct blob *ops);
/* Believed changed; RC_NO_MEMORY: the audit is over. */
void audit_touch(struct session *s, const struct change_list *changes);
void audit_rows(struct session *s, const uint8_t *batch, size_t len);
/* Answers the controller; RC_OK: with what was found. */
void audit_end(struct session *s, enum rc rc);
void audit_drop(struct session *s); /* without a word */
void audit_tick(struct session *s);

/* ---- session_telemetry.c ---- */

#define TELEMETRY_POLL_MS 1000 /* the device is asked as often */

struct session_gather;
/* The device's answer; keeps its totals for beats. */
void telemetry_take(struct session *s, const struct device_totals *totals);
void telemetry_poll(struct session *s);
uint64_t telemetry_next_wake(const struct session *s);

/* ---- session_flight.c ---- */

/* Whether a BATCH may be taken now, and whether all before a QUERY is done. */
bool device_has_room(const struct session *s);
bool device_is_quiet(const struct session *s);
/* Turns it into writes.  RC_NO_MEMORY: believed is void. */
enum rc device_take_batch(struct session *s, const struct ctl_batch *b);
void device_forget_flights(struct session *s);
/* `applied` or `ready` of the device are not what the last BATCHes said. */
bool device_lacks_state(const struct session *s);
void flights_drop_unsent(struct session *s); /* when believed is void */
void flights_send(struct session *s);
void flights_retry(struct session *s); /* what failed, once all else is done */
void flight_free(struct flight *f);

/* ---- session_answer.c ---- */

void device_done(struct session *s, const struct driver_done *done);
/* All rows of `f` were not done; EXCEPTION_UNKNOWN: perhaps not. */
enum rc flight_rows_failed(struct session *s, struct flight *f, uint8_t reason);
void flights_retire(struct session *s); /* frees what is done, advances done_seq */

/* ---- session_exception.c ---- */

enum rc exceptions_init(struct session *s);
void exceptions_fini(struct session *s);
enum rc exceptions_clear(struct session *s);
uint32_t exceptions_count(const struct session *s);
bool exceptions_can_retry(const struct session *s);
/* The newer wish of a BATCH supersedes what stood for its keys. */
enum rc exceptions_supersede(struct session *s, const struct blob *ops);
/* The key's row is not as wanted: `want` (null = should be gone). */
enum rc exceptions_add(struct session *s, uint8_t reason, enum table_id table,
                       uint32_t vni, const struct row *key, const struct row *want);
/* Takes up to RETRY_ROWS of each table out, as a batch; the next call goes on behind.
 */
struct blob *exceptions_take_retry(struct session *s);
/* Moves what there is to say into `a`, its exception_count set. */
void exceptions_list(struct session *s, struct agent_ack *a);
