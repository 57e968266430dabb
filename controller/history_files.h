/*
 * history_files - the history's files: read once at the start, written each minute.
 *
 *   DIR/seconds-UNIXTIME.xgwh    begun then; a new one every 10 minutes …
 *   DIR/minutes-…, hours-…       … every day, every 30 days
 *
 * A file goes once all that it can hold is older than its tier keeps, or, the oldest
 * first, when all together are more than twice what the history may take in memory.  A
 * damaged file is told in the log, with its name and place, and what is sound of it is
 * taken; nobody writes on behind it, for each process begins new ones.
 *
 * Reading and writing are done by a thread that owns nothing but the files; what it
 * read comes back to the loop.  Made and used on the loop's thread.
 */
#pragma once

#include "controller/shell.h"

struct event_base;
struct history_files;

struct history_files_config {
    struct event_base *base;
    struct shell *shell;
    const char *dir;  /* made if it is not there */
    size_t max_bytes; /* of the history in memory */
};

/* Begins to read; the shell is given the history when that is done.  RC_INVALID: the
 * folder cannot be made. */
enum rc history_files_new(const struct history_files_config *config,
                          struct history_files **ret, struct err *err);
/* Writes what is due, and waits for it. */
void history_files_free(struct history_files *f); /* null is fine */
