/*
 * probe_port - a port that leads nowhere: frames of the control thread go through a
 * worker's packet functions as if a real port had received them, and what comes out
 * comes back instead of being sent.
 *
 *   control ──▶ ring ──▶ worker 0, behind its other ports ──▶ ring ──▶ control
 *
 * So a probe meets the tables, the configuration and the code that packets meet, and
 * can leave by no port.  What it does to counters is the pipeline's affair (worker.h).
 */
#pragma once

#include "agent/gateway/ports.h"
#include "proto/base/err.h"

#define PROBE_PORT_MAX 64 /* frames under way */

struct event;
struct event_base;

/* One frame on its way.  Whoever holds it owns it. */
struct probe_frame {
    struct rte_mbuf *frame; /* as it came where it was not forwarded */
    uint16_t port;          /* that it came in by; then the one it would leave by */
    uint8_t verdict;        /* enum fwd_verdict */
    uint8_t reason;         /* enum drop_reason */
    void *tag;              /* the sender's */
};

struct probe_port {
    struct ports *ports;
    struct rte_ring *to_worker;
    struct rte_ring *from_worker;
    int wake_fd;
    /* control thread */
    struct event *woken;
    unsigned under_way;
    void (*on_done)(void *arg, const struct probe_frame *p);
    void *arg;
};

/* Before the workers start; borrows `ports`. */
enum rc probe_port_init(struct probe_port *p, struct ports *ports, struct err *err);
/* After they have stopped, and the control thread too; frames under way are dropped. */
void probe_port_fini(struct probe_port *p);

/* ---- control thread ---- */

/* What comes out is told from now on, from the loop of `base`; `on_done` borrows. */
enum rc probe_port_start(struct probe_port *p, struct event_base *base,
                         void (*on_done)(void *arg, const struct probe_frame *p),
                         void *arg, struct err *err);
void probe_port_stop(struct probe_port *p);

/* Copies a frame in, as if `port` had received it.  RC_FULL: too many are under way, or
 * there is no buffer for it. */
enum rc probe_port_send(struct probe_port *p, uint16_t port, const uint8_t *frame,
                        size_t len, void *tag);

/* ---- worker ---- */

/* Takes up to `room` frames. */
unsigned probe_port_take(struct probe_port *p, struct probe_frame *ret[],
                         unsigned room);
void probe_port_give(struct probe_port *p, struct probe_frame *f);
