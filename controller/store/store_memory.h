/*
 * store_memory - the store in memory, for tests and the simulator.
 *
 * A `memory_db` is the disk: it outlives the handles on it, as a database outlives a
 * process.  Nothing happens until store_memory_step() is called, so the caller decides
 * when a transaction takes effect, and what is lost in a crash.  One thread.
 */
#pragma once

#include "controller/store/store.h"

struct memory_db;

struct memory_db *memory_db_new(void); /* null: no memory */
void memory_db_free(struct memory_db *db);

/* Opens a handle and raises the term.  Several handles see each other's events. */
struct store *store_memory_open(struct memory_db *db, const struct store_events *events,
                                void *ctx);

/* Carries out the next step that is due for this handle: one queued transaction or
 * range, or one event of another handle.  False when there was nothing. */
bool store_memory_step(struct store *s);
bool store_memory_has_work(const struct store *s);

/* The next transaction answers `rc` instead.  With `applied` it takes effect all the
 * same: the answer was lost (RC_TIMEOUT). */
void store_memory_fail_next(struct store *s, enum rc rc, bool applied);

/* The process dies: the first `applied` queued transactions still took effect, the
 * rest never did; nothing is answered; the handle is freed. */
void store_memory_crash(struct store *s, uint32_t applied);
uint32_t store_memory_queued(const struct store *s);
