/*
 * store_sqlite - the embedded store: one SQLite file, WAL, synchronous=FULL.
 *
 * A worker thread owns the connection and takes everything that is queued as one SQLite
 * transaction (group commit): each of ours is a savepoint with an outcome of its own,
 * and all become durable with one flush.  Answers and events come on the loop of
 * `base`, in order.  The file is locked: a second process is refused at open.
 */
#pragma once

#include "controller/store/store.h"

struct event_base;

/* Opens or makes the file and raises the term.  RC_EXISTS when another process has it
 * open; RC_INVALID when it is no store of ours or damaged; RC_FULL, RC_UNREACHABLE from
 * the disk.  Gives `*ret`, to be ended with store_close(). */
enum rc store_sqlite_open(const char *path, struct event_base *base,
                          const struct store_events *events, void *ctx,
                          struct store **ret, struct err *err);
