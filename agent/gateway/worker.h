/*
 * worker - one core's run to completion: receive, the pipeline's packet functions,
 * send.
 *
 * Nothing shared is written but the worker's own counters and its ring to the control
 * thread.  Tables come as pointers that the control thread published; the worker passes
 * a quiescent point after every turn and says so before it sleeps.
 *
 * Polling is adaptive: after WORKER_SPIN empty turns the worker sleeps, longer and
 * longer up to WORKER_SLEEP_US, so that several gateways share two cores.  With
 * `busy_poll` it never sleeps.
 */
#pragma once

#include "agent/fwd/flow_sample.h"
#include "agent/fwd/fwd.h"
#include "agent/gateway/device.h"
#include "agent/gateway/ports.h"
#include "agent/gateway/probe_port.h"

struct hswitch;
struct hworker;
struct worker;

#define WORKER_BURST    128 /* two of FWD_BURST: the second's loads overlap the first */
#define WORKER_ANSWERS  128 /* ICMP errors a burst: the rate limits them, not we */
#define WORKER_SPIN     64  /* empty turns before the first sleep */
#define WORKER_SLEEP_US 400 /* longest sleep; adds to latency when idle */

/* A port's queue that one worker polls. */
struct worker_queue {
    uint16_t port; /* index in ports */
    uint16_t queue;
};

struct worker_tx {
    uint16_t count;
    struct rte_mbuf *frames[WORKER_BURST + WORKER_ANSWERS];
};

/* What a worker does between receiving and sending, one of these a pipeline. */
struct worker_pipeline {
    /* Verdicts for packets[0..n); fills w->port_of for the uplinks they name.  x86
     * and lb count in `count`; XGW-H counts, as a chip does, where its tables say, and
     * probes like any packet. */
    void (*burst)(struct worker *w, struct fwd_worker *count,
                  struct fwd_packet packets[], unsigned n, struct fwd_answers *answers);
    bool (*is_ready)(const struct worker *w);
    /* Of the tables' reader: awake, after a turn, before a sleep. */
    void (*online)(struct worker *w);
    void (*quiescent)(struct worker *w);
    void (*offline)(struct worker *w);
};
/* Of pipelines over a device and its fib. */
bool worker_device_is_ready(const struct worker *w);
void worker_fib_online(struct worker *w);
void worker_fib_quiescent(struct worker *w);
void worker_fib_offline(struct worker *w);

extern const struct worker_pipeline worker_pipeline_x86;
extern const struct worker_pipeline worker_pipeline_h;
extern const struct worker_pipeline worker_pipeline_lb;

struct worker_config {
    const struct worker_pipeline *pipeline;
    const struct device *device;  /* x86, lb */
    const struct hswitch *tables; /* h */
    struct hworker *h_worker;     /* h: this worker's in tables->workers */
    struct ports *ports;
    struct probe_port *probes;   /* read as one more port; null: another worker does */
    struct rte_ring *to_control; /* frames that were LOCAL; port in mbuf->port */
    int wake_fd;                 /* eventfd: the ring is no longer empty */
    struct fib_reader
        *reader; /* x86, lb: one of an array that the control thread sums */
    struct flow_sample *sample; /* who is heavy; null: nobody asks */
    unsigned index;
    unsigned workers; /* in all */
    bool busy_poll;
    bool wait_ready;    /* do not receive before the device is ready */
    uint32_t icmp_rate; /* of all workers together, packets a second; 0 = no limit */
};

struct worker {
    /* what it was given */
    struct worker_config config;
    struct worker_queue queues[PORTS_MAX];
    unsigned queue_count;
    uint64_t tsc_hz;

    /* its own */
    struct rte_mbuf *answers[WORKER_ANSWERS];    /* blank buffers in stock */
    struct fwd_answer answer_at[WORKER_ANSWERS]; /* the same as fwd sees them */
    unsigned answer_stock;
    struct worker_tx tx[PORTS_MAX];
    uint16_t port_of[FWD_UPLINK_MAX]; /* by the uplink that a packet leaves by */
    unsigned idle_turns;
    struct fwd_worker probed; /* what probes counted: nobody reads it */

    /* read by others */
    struct fwd_worker fwd;
    _Alignas(64) _Atomic uint64_t turns; /* odd while awake, even while asleep */
    _Atomic uint64_t no_buffer;   /* received, but could not be made contiguous */
    _Atomic uint64_t local_lost;  /* the control thread's ring was full */
    _Atomic uint64_t busy_cycles; /* of turns that received something */
    atomic_bool stop;
};

/* Prepares one worker; it polls its share of the ports' queues.  Borrows everything. */
void worker_init(struct worker *w, const struct worker_config *config);

/* One turn over its queues; returns the packets received.  The fib reader is online. */
unsigned worker_turn(struct worker *w);

/* Turns until `stop` is set; `arg` is the worker.  For rte_eal_remote_launch(). */
int worker_main(void *arg);

/* The clock that packet functions get: monotonic, above 0. */
uint64_t worker_now_ns(const struct worker *w);

/* Time in turns that received something.  Any thread. */
uint64_t worker_busy_ns(const struct worker *w);

/* After the last turn: gives back buffers. */
void worker_fini(struct worker *w);

/* For the control thread: a ticket of this moment, and whether the worker has passed a
 * quiescent point since. */
uint64_t worker_ticket(const struct worker *w);
bool worker_has_passed(const struct worker *w, uint64_t ticket);
