/*
 * session - the agent's side of the stream to the controller: a pure state machine.
 *
 * It keeps a device equal to what the controller says.  Inputs go in one at a time
 * with the time; what is to be done comes out of session_next_out().  It never reads a
 * clock, a socket or a thread, so the simulator runs the very same code.
 *
 * It holds `believed`, a table_set of what the device holds: read back when the agent
 * starts and when the device has a new boot id, then maintained from acknowledged
 * writes.  REPLACE runs are turned into the writes that are needed against it, so an
 * unchanged intent makes no device write at all.
 *
 * One owner, one thread.
 */
#pragma once

#include "agent/driver/driver.h"
#include "proto/model/agent_msg.h"

struct session;

struct session_config {
    char device_id[DEVICE_ID_MAX + 1];
    uint8_t device_kind;
    uint32_t redial_min_ms;    /* first pause after a lost link; doubles … */
    uint32_t redial_max_ms;    /* … up to this */
    uint32_t write_timeout_ms; /* then its rows are exceptions, reason unknown */
    uint32_t writes_in_flight; /* to the device at once */
    bool reads_alone;          /* the device writes nothing while it is read back */
    uint32_t controller_count; /* addresses the shell knows, dialled in turn */
};

enum session_in_kind {
    SESSION_TICK, /* also the first input */
    SESSION_LINK_UP,
    SESSION_LINK_DOWN, /* also: the dial failed */
    SESSION_LINK_MSG,  /* borrows `ctl`; keeps blobs by reference */
    SESSION_DEVICE_UP,
    SESSION_DEVICE_DOWN,
    SESSION_DEVICE_DONE,
    SESSION_DEVICE_ROWS,
    SESSION_DEVICE_READ_END,
    SESSION_DEVICE_TOTALS,
    SESSION_DEVICE_COUNTERS,
    SESSION_DEVICE_PROBE,
};

struct session_in {
    enum session_in_kind kind;
    union {
        const struct ctl_msg *ctl;
        const struct device_state *state;
        const struct driver_done *done;
        struct {
            uint64_t read_id;
            const uint8_t *batch;
            size_t len;
        } rows;
        struct {
            uint64_t read_id;
            enum rc rc;
        } read_end;
        const struct device_totals *totals;
        const struct device_counters *counters;
        const struct device_probe *probe;
        const struct err *cause; /* link or device down */
    };
};

enum session_out_kind {
    SESSION_DIAL,   /* controller number `dial_index` */
    SESSION_HANGUP, /* close the link; a LINK_DOWN follows */
    SESSION_SEND,
    SESSION_WRITE,
    SESSION_CONFIGURE,
    SESSION_READ,
    SESSION_POLL_TOTALS,
    SESSION_COUNTERS, /* answer with DEVICE_COUNTERS; RC_NOT_FOUND: no such call */
    SESSION_PROBE,    /* answer with DEVICE_PROBE; RC_NOT_FOUND: no such call */
    SESSION_LOG,      /* one line for the shell to log */
};

struct session_out {
    enum session_out_kind kind;
    union {
        struct {
            uint32_t index;
            char redirect[128]; /* "" or where a follower sent us */
        } dial;
        struct agent_msg send;
        struct driver_write write;
        struct {
            uint64_t id;
            uint64_t term;
            struct blob *config;
        } configure;
        struct {
            uint64_t id;
            uint32_t vni; /* 0: all */
        } read;
        struct {
            uint64_t id;
            uint32_t from_vni;
        } counters;
        struct {
            uint64_t id;
            struct blob *frame;
        } probe;
        struct {
            int level; /* enum log_level */
            char event[48];
            char text[200];
        } log;
    };
};

struct session *session_new(const struct session_config *config); /* null: no memory */
void session_free(struct session *s);

/* One input.  `now_ms` is monotonic and never goes back.  RC_NO_MEMORY and damaged
 * input end the link (a HANGUP comes out), never the process. */
void session_step(struct session *s, uint64_t now_ms, const struct session_in *in);

/* Takes the next thing to do; false when there is none.  The caller ends it with
 * session_out_fini(). */
bool session_next_out(struct session *s, struct session_out *ret);
void session_out_fini(struct session_out *out);

/* When to call again with SESSION_TICK at the latest; UINT64_MAX = never. */
uint64_t session_next_wake(const struct session *s);

/* For status pages and tests. */
struct session_status {
    bool link_is_up;
    bool device_is_up;
    bool is_assigned;
    bool ready;
    uint64_t term;
    uint64_t applied;
    uint64_t device_writes; /* writes sent to the device since the start */
    uint32_t exception_count;
};
struct session_status session_status(const struct session *s);
const struct table_set *session_believed(const struct session *s);
