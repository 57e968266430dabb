/*
 * liveness - beats in, transitions out: which devices are silent.
 *
 * Pure: told the time, never asks.  A device that was heard once is watched until it is
 * forgotten; it is silent when nothing came for `beat_ms` × `missed`, and alive again
 * with the next beat.  Our own stall never looks like a dead peer: when
 * liveness_check() comes late, every deadline moves by that lateness.  One owner,
 * one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LIVENESS_BEAT_MS  1000 /* what agents are asked for */
#define LIVENESS_MISSED   3
#define LIVENESS_CHECK_MS 100 /* how often check is due */

struct liveness;

struct liveness *liveness_new(uint32_t beat_ms, uint32_t missed, uint64_t now_ms);
void liveness_free(struct liveness *l); /* null is fine */

/* Anything that came from the device.  Memory that runs out leaves it unwatched. */
void liveness_beat(struct liveness *l, const char *device_id, uint64_t now_ms);
/* So many messages of the device wait to be taken.  While any do, nobody listens for
 * the next one, and it cannot be silent; the silence begins when they are taken. */
void liveness_hold(struct liveness *l, const char *device_id, uint32_t count);
void liveness_release(struct liveness *l, const char *device_id, uint32_t count,
                      uint64_t now_ms);
void liveness_forget(struct liveness *l, const char *device_id);

/* Calls `on_transition` for each device that changed since the last check. */
void liveness_check(struct liveness *l, uint64_t now_ms,
                    void (*on_transition)(void *arg, const char *device_id,
                                          bool is_silent),
                    void *arg);
