/*
 * frames - the control thread's frames: those that workers handed to it, those that it
 * sends, and the tick on which it looks after its neighbours.  Both pipelines' controls
 * have one.  Control thread.
 */
#pragma once

#include "agent/gateway/ports.h"
#include "proto/base/err.h"

struct event;
struct event_base;
struct rte_ring;

struct frames_config {
    struct event_base *base;
    struct ports *ports;
    unsigned worker_count;
    struct rte_ring *from_workers;
    int wake_fd; /* eventfd: workers raise it when they handed a frame over */
    void (*on_frame)(void *arg, unsigned port, const uint8_t *frame, size_t len);
    void (*on_tick)(void *arg); /* calls frames_take() where its turn is */
    void *arg;
};

struct frames {
    struct frames_config config;
    struct event *tick;
    struct event *local;
};

/* Waits for frames and ticks from now on.  RC_NO_MEMORY leaves frames_stop() to do. */
enum rc frames_start(struct frames *f, const struct frames_config *config,
                     struct err *err);
/* Also after a failed start, or none. */
void frames_stop(struct frames *f);

/* Hands over some of what waits; what is left comes after other work. */
void frames_take(struct frames *f);
/* Ticks as soon as the loop comes round. */
void frames_tick_soon(struct frames *f);

/* Sends a copy.  False: no such port, too long, or no buffer. */
bool frames_send(struct frames *f, uint64_t port, const uint8_t *frame, size_t len);
