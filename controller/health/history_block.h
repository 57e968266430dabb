/*
 * history_block - points packed one behind the other.
 *
 * Each point is told by what changed since the last: a byte, then varints.
 *
 *   1nnnnnnn          the last point again, n + 1 times, at the same distance in time
 *   000000sd  d: distance in time   [s: mean - min, max - mean]   zigzag mean - last
 *
 * Distance and spread follow only where d and s say so; else the distance is the last
 * one and the spread is none.  Reading is strict: times grow, nothing wraps.  Values;
 * `buf` owns the bytes.
 */
#pragma once

#include "controller/health/history.h"

struct history_coder {
    struct history_point last;
    uint64_t step_s; /* between the last two points; 0: fewer than two */
    uint32_t count;  /* points; 0: none yet */
    uint32_t
        repeat_at; /* place of a repeat byte that can still count up, + 1; else 0 */
};

/* Appends `p`, which is newer than the last. */
void history_encode(struct history_coder *c, const struct history_point *p,
                    struct buf *to);

struct history_decoder {
    struct history_coder at;
    struct reader bytes;
    uint32_t repeats; /* of the last point, still to come */
};

struct history_decoder history_decode(const void *bytes, size_t len);
/* False: at the end, or, with `bytes.failed`, what follows is no point. */
bool history_decode_next(struct history_decoder *d, struct history_point *ret);
