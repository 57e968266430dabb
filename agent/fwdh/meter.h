/*
 * meter - two-rate three-colour markers (RFC 2698, colour-blind), shared by all
 * workers.
 *
 * A cell's two buckets are token counts that workers add to and take from with single
 * atomic steps: nobody waits, no token is made or lost, and workers that run at the
 * same moment can overdraw a bucket by one packet each, which it pays back.  With one
 * worker the colours are exactly the RFC's.
 *
 * Tokens are bytes times 10^9, so that a rate in bytes a second fills them by whole
 * numbers each nanosecond.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/xgwh/phys.h"

enum hmeter_color { HMETER_GREEN, HMETER_YELLOW, HMETER_RED };

/* Bursts and rates are cut to this: 9 GB, and a terabyte a second. */
#define HMETER_BURST_MAX UINT64_C(9000000000)
#define HMETER_RATE_MAX  UINT64_C(1000000000000)

/* What a cell is set to; immutable once published. */
struct hmeter_config {
    struct phys_meter_config given; /* as it was written: for read-backs */
    uint64_t cir, pir;              /* tokens a nanosecond = bytes a second */
    int64_t cburst, pburst;         /* tokens */
};

struct hmeter {
    _Atomic(const struct hmeter_config *) config; /* null: lets everything pass */
    _Atomic(uint64_t) last_ns; /* up to when the buckets were filled; 0: never yet */
    _Atomic(int64_t) committed;
    _Atomic(int64_t) peak;
};

void hmeter_config_init(struct hmeter_config *c, const struct phys_meter_config *given);

/* Publishes `config` with full buckets; gives the one before, which readers may still
 * hold.  Null lets everything pass.  Writer's thread. */
const struct hmeter_config *hmeter_set(struct hmeter *m,
                                       const struct hmeter_config *config);

/* The colour of a packet of `bytes` at `now_ns` (any monotonic clock, above 0). */
enum hmeter_color hmeter_run(struct hmeter *m, uint64_t now_ns, uint32_t bytes);
