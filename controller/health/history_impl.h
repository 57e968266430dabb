/* history_impl - what history.c and history_store.c share; nobody else includes it. */
#pragma once

#include "controller/health/history_block.h"

struct block {
    struct block *next; /* newer */
    uint64_t first_s;
    uint64_t last_s;
    uint32_t count;
    uint32_t len;
    bool is_stored; /* in a file, all of it */
    uint8_t data[];
};

/* Points on their way to one of the next tier. */
struct rollup {
    uint64_t period_s; /* where it begins */
    uint64_t min, max;
    unsigned __int128 sum;
    uint32_t count; /* 0: none */
};

struct tier {
    struct block *oldest;
    struct block *newest;
    struct buf open; /* the block that grows */
    struct history_coder coder;
    uint64_t first_s; /* of the open block */
    uint64_t last_s;  /* of all */
    bool has_last;
    bool is_open_stored;
    struct rollup next;
};

struct series {
    struct series *same; /* of the same hash */
    struct tier tiers[HISTORY_TIERS];
    char *resource; /* behind the subject, in one piece of memory */
    char subject[];
};

struct history {
    struct series **at; /* in order of their making */
    uint32_t count;
    uint32_t cap;
    struct series **hash;
    uint32_t hash_size; /* a power of two */
    size_t bytes;
    size_t max_bytes;
    uint64_t early_blocks;
    uint32_t flush_at;
};

uint32_t history_step_s(unsigned tier); /* of its points, at the least */
uint32_t history_span_s(unsigned tier); /* of its blocks */

/* The series, made if need be; null: no room. */
struct series *series_need(struct history *h, const char *subject,
                           const char *resource);
/* `is_stored`: it comes from a file. */
bool tier_add(struct history *h, struct series *s, unsigned tier,
              const struct history_point *p, bool is_stored);
/* Finishes the block that grows. */
void tier_close(struct history *h, struct series *s, unsigned tier);
void tier_expire(struct history *h, struct tier *t, unsigned tier, uint64_t now_s);
/* Hands a full period on to the next tier. */
void rollup_close(struct history *h, struct series *s, unsigned tier);
