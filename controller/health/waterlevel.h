/*
 * waterlevel - how full each resource of each subject is, and when that crosses a mark.
 *
 * A *subject* is "cluster/NAME", "node/NAME" or a part of a node,
 * "node/NAME/port/PORT", "node/NAME/core/CORE"; a *resource* is what can be full there.
 * A measure goes in with the marks that are in force, a transition comes out, or none.
 * Pure: told the time.  One owner, one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/model/levels.h"

#define SUBJECT_MAX  (NODE_NAME_MAX + PORT_NAME_MAX + 11) /* "node/N/port/P" */
#define RESOURCE_MAX 47

enum water { WATER_CLEAR, WATER_SALE, WATER_SAFE, WATER_CRITICAL };
const char *water_name(unsigned water); /* "clear", "sale", "safe", "critical" */

/* The level after `now` when `bp` is measured: up as soon as a mark is reached, down
 * once it is `clear_bp` below the mark.  A value. */
enum water water_next(const struct level_marks *m, enum water now, uint32_t bp);

/* Basis points of the capacity, rounded down, at most UINT32_MAX; 0 of no capacity:
 * what cannot be known is not full. */
uint32_t water_bp(uint64_t used, uint64_t capacity);

/* What acts when it is critical. */
enum water_cause {
    WATER_TABLE, /* the tables, equal on all nodes: of the cluster */
    WATER_LOAD,  /* load of one node */
    WATER_MODEL  /* nothing: what its tenants should take of a cluster's tables */
};

struct level {
    char resource[RESOURCE_MAX + 1];
    uint8_t cause; /* enum water_cause */
    uint8_t water; /* enum water */
    uint32_t bp;
    uint64_t used;
    uint64_t capacity;
    uint64_t since_s; /* of its water */
    uint64_t seen_s;  /* last measured */
};

struct level_subject {
    char name[SUBJECT_MAX + 1];
    struct level *levels; /* by resource */
    uint32_t count;
};

struct levels;

struct levels *levels_new(void); /* null: no memory */
void levels_free(struct levels *l);

struct level_measure {
    const char *subject;
    const char *resource; /* both are cut to their bounds */
    enum water_cause cause;
    uint64_t used;
    uint64_t capacity; /* 0: not known, no level */
};

struct level_change {
    enum water from;
    enum water to;
    struct level level; /* a copy */
};

/* True with `*ret` when the level crossed a mark; without marks none is crossed.  What
 * memory does not suffice for is not watched. */
bool levels_measure(struct levels *l, const struct level_measure *m,
                    const struct level_marks *marks, uint64_t now_s,
                    struct level_change *ret);

/* The subject and all its parts ("node/a" takes "node/a/port/p" along). */
void levels_forget(struct levels *l, const char *subject);
/* Levels that were not measured since `before_s`. */
void levels_expire(struct levels *l, uint64_t before_s);

/* In order of their names; null behind the last. */
const struct level_subject *levels_at(const struct levels *l, uint32_t index);
const struct level_subject *levels_find(const struct levels *l, const char *subject);
const struct level *level_of(const struct level_subject *s, const char *resource);
/* Index of the first subject whose name is not below `name`. */
uint32_t levels_search(const struct levels *l, const char *name);
/* Whether `name` is `subject` or a part of it. */
bool subject_is_within(const char *name, const char *subject);

/* The fullest of a subject and its parts, and the highest level that any of them has;
 * null: nothing measured. */
const struct level *levels_fullest(const struct levels *l, const char *subject,
                                   const struct level_subject **ret_subject,
                                   unsigned *ret_highest);
