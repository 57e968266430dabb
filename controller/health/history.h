/*
 * history - what each resource of each subject was, at falling resolution.
 *
 *   seconds   points as they come (1 s, or 10 s from large regions), for an hour
 *   minutes   for a week
 *   hours     for a year
 *
 * A point has the least, mean and greatest of its time; minutes are made of the points,
 * hours of the minutes.  Points are kept in blocks of a minute, an hour, a day, packed
 * to some 3 to 8 bytes a point, fewer while nothing changes.  All finished blocks
 * together never exceed `max_bytes`: a series that would add to a full history loses
 * its own oldest block instead.
 *
 * Pure.  What is to be stored is made here as bytes and read back from them; who writes
 * them to files is the shell (controller/history_files.c).  Time is seconds since 1970,
 * told by the caller; points that are not newer than the last are left out.  One owner,
 * one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/health/waterlevel.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum history_tier { HISTORY_SECONDS, HISTORY_MINUTES, HISTORY_HOURS, HISTORY_TIERS };
const char *history_tier_name(unsigned tier); /* "seconds", "minutes", "hours" */
uint32_t history_keep_s(unsigned tier);       /* 3,600; 604,800; 31,536,000 */

struct history_point {
    uint64_t t_s; /* begin of what it stands for */
    uint64_t min, mean, max;
};

struct history;

struct history *history_new(size_t max_bytes); /* of blocks; null: no memory */
void history_free(struct history *h);

/* Appends to the series, which is made if need be.  False: it is not newer than the
 * last one, or there is no memory (or no room: HISTORY_SERIES_MAX) for it. */
#define HISTORY_SERIES_MAX 200000
bool history_add(struct history *h, const char *subject, const char *resource,
                 const struct history_point *p);

/* Calls `each` for the points of a tier from `from_s` up to, and without, `to_s`, in
 * order, until it says false.  No such series: nothing. */
typedef bool history_each_fn(void *arg, const struct history_point *p);
void history_read(const struct history *h, const char *subject, const char *resource,
                  enum history_tier tier, uint64_t from_s, uint64_t to_s,
                  history_each_fn *each, void *arg);

/* The finest tier that still has all of the time since `from_s`. */
enum history_tier history_tier_for(uint64_t from_s, uint64_t now_s);

struct history_stats {
    uint32_t series;
    size_t bytes;          /* of blocks; at most the bound */
    uint64_t early_blocks; /* dropped before their time, for want of room */
};
struct history_stats history_stats(const struct history *h);

/* ---- stored form ---- */

/* Every file begins with these bytes. */
#define HISTORY_MAGIC      "xgwhist1"
#define HISTORY_MAGIC_SIZE 8

/* One slice of a flush: appends to `to[tier]` a chunk with the blocks of that tier that
 * were finished since the last flush, and drops what is too old.  At most `max_series`
 * are looked at; false: there is more, call again.  Begins a new round when the last
 * one was over. */
bool history_flush(struct history *h, uint64_t now_s, uint32_t max_series,
                   struct buf to[HISTORY_TIERS]);

/* Takes in a whole file.  Files of a coarser tier first, of one tier in order of their
 * age.  What is too old, or not newer than what is there, is left out.  RC_INVALID: it
 * is damaged or ends in the middle; the sentence says where, and what came before that
 * has been taken. */
enum rc history_load(struct history *h, const void *bytes, size_t len, uint64_t now_s,
                     struct err *err);
