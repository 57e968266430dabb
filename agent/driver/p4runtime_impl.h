/*
 * p4runtime_impl - what the files of driver_p4runtime share; nobody else includes it.
 *
 *   driver_p4runtime.c   the switch's events, up and down, life
 *   p4runtime_jobs.c     writes, configurations and reads, one after the other
 *   p4runtime_map.c      the mapping, on a thread of its own
 *   p4runtime_read.c     reading back, and what follows from it
 *   p4runtime_count.c    counters of VNIs
 *   p4runtime_totals.c   drops, ports, how full the tables are
 *   p4runtime_top.c      the heaviest tenants and flows
 *   p4runtime_soft.c     what only a switch in software tells
 *   p4runtime_probe.c    probes
 */
#pragma once

#include <event2/util.h>
#include <sys/queue.h>

#include "agent/driver/driver_p4runtime.h"
#include "agent/driver/gateway_words.h"
#include "agent/driver/p4rt_reader.h"
#include "agent/driver/p4rt_writer.h"
#include "agent/xgwh/xgwh.h"
#include "proto/rpc/rpc_pb.h"

enum job_kind { JOB_WRITE, JOB_CONFIGURE, JOB_READ };

struct job {
    TAILQ_ENTRY(job) next;
    enum job_kind kind;
    uint64_t id, term, revision;
    uint32_t vni; /* READ; 0: all */
    bool ready;
    struct blob *ops; /* or the configuration; null = none */
    uint64_t mark;    /* of the writer, once it is active */
    enum rc rc;       /* what it will be answered with */
    struct err err;
    struct xgwh_exceptions exceptions;
};

TAILQ_HEAD(jobs, job);

TAILQ_HEAD(probings, probing); /* p4runtime_probe.c */

/* Jobs whose writes were given to the writer. */
#define ACTIVE_MAX 16
/* Bytes there, beyond which no more is given. */
#define WRITER_BYTES (32u << 20)
/* What a read of all tables is for. */
enum read_purpose {
    READ_NONE,
    READ_TO_COME_UP,
    READ_FOR_SESSION,
    READ_AFTER_REFUSAL,
    READ_STATE, /* only the state rows, to see that nothing has changed */
};

#define SOFT_CORES_MAX 64

struct soft_call; /* p4runtime_soft.c */

struct p4runtime_soft {
    struct soft_call *counting, *topping;
    struct rpc_arena arena;
    bool is_absent;   /* on this connection: it is no switch in software */
    bool has_counted; /* its last GetCounters was answered: what follows is of it */
    uint64_t lost;    /* around its packet path */
    uint64_t missed;  /* by its ports */
    uint32_t link_count;
    uint64_t link_bps[XGWH_UPLINKS_MAX]; /* of its ports, by P4 number */
    uint32_t core_count;
    struct device_reading cores[SOFT_CORES_MAX];
    char core_names[SOFT_CORES_MAX][READING_PART_MAX + 1];
    struct top_report top; /* its last answer; interval_ms 0: none */
};

struct p4runtime {
    struct driver driver;
    struct p4rt_switch *sw;
    struct p4rt_writer *writer;
    struct p4runtime_map *map;
    struct xgwh *xgwh;       /* the mapping's while it is busy */
    struct phys_sizes sizes; /* of `xgwh` */
    struct event *kick;
    bool is_up; /* `up` was told, `down` not yet */
    bool is_found;
    bool is_void;       /* belief and switch may differ */
    bool is_fresh;      /* `xgwh` is what a read-back just said */
    bool must_sweep;    /* at the next write with a revision */
    bool lacks_config;  /* `up` says that there is none, to be told it again */
    bool no_program;    /* ours is to be pushed … */
    bool is_half_known; /* … but one of two devices has it, and entries */
    bool is_claiming;
    bool is_pushing;
    bool was_deposed;
    uint64_t boot_id;
    uint64_t highest_term; /* seen anywhere */
    uint64_t last_mark;
    struct jobs waiting;
    struct jobs active;
    unsigned active_count;
    struct p4rt_read *read;
    enum read_purpose purpose;
    /* What the session's read-back has to put right: kept back until the session
     * writes, for it may only want to know. */
    struct p4rt_requests repairs;
    bool has_repairs;
    bool is_reading_meters;  /* all entries came; now their meters' cells */
    enum rc read_rc;         /* of xgwh, while entries come */
    struct xgwh_state found; /* by READ_STATE */
    struct p4rt_outcome refusal;
    struct p4rt_read *totals_read;
    uint64_t drops[DROP_REASONS_MAX]; /* by enum drop_reason of agent/fwd */
    uint16_t ports[XGWH_UPLINKS_MAX]; /* whose counters are read */
    unsigned port_count;
    struct port_counts port_counts[XGWH_UPLINKS_MAX];
    struct p4runtime_soft soft;
    struct tops *tops;       /* null: nobody asked yet */
    struct count_job *count; /* null: nobody asked */
    struct p4rt_read *counters_read;
    struct driver_p4runtime_counters counters;
    struct probings probes; /* the first is under way … */
    enum rc probe_rc;       /* … or could not be sent */
    struct event *probe_turn;
    uint64_t read_backs;
    struct err trouble;
};

void p4runtime_kick(struct p4runtime *p);
struct xgwh_sink p4runtime_sink(struct p4runtime *p);

/* Tells `down` if it is up, and drops every job and write. */
void p4runtime_go_down(struct p4runtime *p, const struct err *cause);
/* Tells `up` with what xgwh holds. */
void p4runtime_come_up(struct p4runtime *p);
/* Both, with a read-back between. */
void p4runtime_bounce(struct p4runtime *p, const struct err *cause);
/* A switch that holds nothing of ours: an empty xgwh, a new boot id. */
enum rc p4runtime_start_empty(struct p4runtime *p);
enum rc p4runtime_put_state(struct p4runtime *p, const struct xgwh_state *s);

/* p4runtime_jobs.c */
void p4runtime_pump(struct p4runtime *p);
void p4runtime_reached(struct p4runtime *p, uint64_t mark);
void p4runtime_stopped(struct p4runtime *p, const struct p4rt_outcome *first);
/* Ends the jobs under way and waiting (but reads) with `rc`. */
void p4runtime_end_jobs(struct p4runtime *p, enum rc rc, const struct err *err);
void p4runtime_drop_jobs(struct p4runtime *p); /* without a word */
/* The write that was refused is over: what is missing of it are its exceptions. */
void p4runtime_settle_refusal(struct p4runtime *p);
/* All of xgwh to the session, as far as the read at the head asked for it. */
enum rc p4runtime_tell_rows(struct p4runtime *p);
void p4runtime_end_read(struct p4runtime *p, enum rc rc, const struct err *err);

/* The mapping is done with it, or failed: its writes are the writer's. */
void p4runtime_mapped(struct p4runtime *p, struct job *j);

/* p4runtime_map.c */
/* Null: no memory, no thread. */
struct p4runtime_map *p4runtime_map_new(struct p4runtime *p, struct event_base *base);
void p4runtime_map_free(struct p4runtime_map *m); /* idle; null is fine */
bool p4runtime_map_is_busy(const struct p4runtime *p);
/* A write or a configuration, while it is not busy; p4runtime_mapped() follows. */
void p4runtime_map_give(struct p4runtime *p, struct job *j);
/* xgwh, once the mapping is not at it: how anything on the loop looks at it.  Null: no
 * switch was found yet. */
struct xgwh *p4runtime_belief(const struct p4runtime *p);
/* What was given is the writer's: for who writes behind it. */
void p4runtime_settle(struct p4runtime *p);
/* The same, and nothing of it is written: belief and switch differ from here on. */
void p4runtime_map_drop(struct p4runtime *p);

/* p4runtime_read.c */
void p4runtime_start_read(struct p4runtime *p, enum read_purpose purpose);
void p4runtime_stop_read(struct p4runtime *p);
/* Before what the session writes: what its read-back has to put right. */
void p4runtime_give_repairs(struct p4runtime *p);
/* They will not be written: the switch is not as believed. */
void p4runtime_drop_repairs(struct p4runtime *p);

/* p4runtime_probe.c */
void p4runtime_probe(struct driver *d, uint64_t id, struct blob *frame);
void p4runtime_take_packet(struct p4runtime *p, const struct p4rt_packet *packet);
/* The first one is late, or could not be sent. */
void p4runtime_probe_turn(evutil_socket_t fd, short what, void *arg);
void p4runtime_drop_probes(struct p4runtime *p); /* without a word */

/* p4runtime_totals.c */
void p4runtime_poll_totals(struct driver *d);
void p4runtime_read_totals(struct p4runtime *p); /* the second half of it */

/* p4runtime_top.c */
/* With every poll: reads on, some VNIs of a round. */
void p4runtime_top_poll(struct p4runtime *p);
/* The flows are there, or there are none: the round is over. */
void p4runtime_top_flows(struct p4runtime *p);
/* The report of the last round, once; false: none. */
bool p4runtime_top_take(struct p4runtime *p, struct top_report *ret);
void p4runtime_top_drop(struct p4runtime *p);

/* p4runtime_soft.c */
/* Asks; false: there is nobody to ask.  Else p4runtime_read_totals() or
 * p4runtime_top_flows() follows, answered or not. */
bool p4runtime_soft_cores(struct p4runtime *p);
bool p4runtime_soft_flows(struct p4runtime *p);
void p4runtime_soft_drop(struct p4runtime *p);

/* p4runtime_count.c */
void p4runtime_count(struct p4runtime *p, uint64_t id, uint32_t from_vni);
void p4runtime_count_turn(struct p4runtime *p); /* answers what needs no read */
void p4runtime_count_drop(struct p4runtime *p);
