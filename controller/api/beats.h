/*
 * beats - the liveness detector (controller/health) on a thread of its own.
 *
 * A message is noted when it arrives, on gRPC's thread, with that moment; the loop says
 * when it has taken it.  While a message waits for the loop nobody listens for the next
 * one, so that time is no silence.  The detector's thread checks ten times a second,
 * whatever the loop does, and the loop is told of transitions when it comes to it: a
 * stalled loop makes no live device silent, and a device that falls silent meanwhile is
 * found.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

struct event_base;
struct beats;
struct beats_line; /* one session's */

struct beats_config {
    struct event_base *base; /* the loop, where transitions are told */
    uint64_t (*now_ms)(void);
    bool has_thread; /* without it the caller checks: tests */
};

typedef void beats_transition_fn(void *arg, const char *device_id, bool is_silent);
enum rc beats_new(const struct beats_config *config, beats_transition_fn *on_transition,
                  void *arg, struct beats **ret, struct err *err);
void beats_free(struct beats *b); /* after all lines; null is fine */

/* Null: no memory. */
struct beats_line *beats_open(struct beats *b);
/* It belongs to this device, from its first HELLO on. */
void beats_name(struct beats_line *line, const char *device_id);
void beats_arrived(struct beats_line *line); /* any thread */
void beats_taken(struct beats_line *line);
/* With `is_forgotten` the device is not watched on. */
void beats_close(struct beats_line *line, bool is_forgotten);

/* What the thread does at each turn. */
void beats_check(struct beats *b);
