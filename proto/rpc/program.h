/*
 * program - what each of our daemons stands on: one event loop with gRPC on it, the
 * signals that end it, and the loop's clock.
 *
 * Decides nothing else.  The main thread, which runs the loop.
 */
#pragma once

#include <stdint.h>

#include "proto/rpc/rpc_loop.h"

struct event;

#define PROGRAM_SIGNALS 3

struct program {
    struct event_base *base;
    struct rpc_loop *rpc; /* its owner frees it, before program_fini() */
    struct event *signals[PROGRAM_SIGNALS];
    void (*on_hangup)(void *arg);
    void *arg;
};

/* Makes the loop.  SIGTERM and SIGINT end it, SIGHUP calls `on_hangup` from it (null:
 * the program dies of it), SIGPIPE is ignored.  On failure fini the program all the
 * same. */
enum rc program_init(struct program *p, void (*on_hangup)(void *arg), void *arg,
                     struct err *err);

/* Runs the loop until a signal or program_stop() ends it. */
void program_run(struct program *p);
void program_stop(struct program *p);

/* The loop and the signals; zeroed or half made is fine. */
void program_fini(struct program *p);

/* Milliseconds of the monotonic clock: the time that pure modules are told. */
uint64_t program_now_ms(void);
