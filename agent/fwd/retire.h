/*
 * retire - what the writer has taken out of the structures and workers may still read.
 *
 * A thing retired in epoch e is free once every worker has passed a quiescent state in
 * an epoch later than e.  The queue only remembers; its owner frees.  Writer's thread,
 * except that workers read `epoch`.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum retired_kind {
    RETIRED_LINES,
    RETIRED_TUNNEL,
    RETIRED_NC,
    RETIRED_SERVICE,
    RETIRED_CLUSTER
};

struct retired {
    uint64_t epoch;
    uint32_t kind;
    uint32_t index;
    uint32_t count; /* lines */
};

struct retire {
    atomic_uint_least64_t epoch; /* starts at 1, grows with each apply */
    struct retired *ring;
    uint32_t head;
    uint32_t count;
    uint32_t cap; /* 0 or a power of two */
    uint64_t line_count;
};

/* Makes room for `n` more, so that adding them cannot fail; false without memory. */
bool retire_reserve(struct retire *r, uint32_t n);
/* Room must have been reserved. */
void retire_add(struct retire *r, enum retired_kind kind, uint32_t index,
                uint32_t count);
/* Takes out the next thing retired before `oldest`; false when there is none. */
bool retire_next(struct retire *r, uint64_t oldest, struct retired *ret);
void retire_fini(struct retire *r);
