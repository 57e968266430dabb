/*
 * fwd_tables - the lookup tables of a gateway from a file of entries (NDJSON).
 */
#pragma once

#include "agent/fwd/fib.h"

struct fwd_tables; /* opaque: fwd_tables.c */

/* Gives tables that hold all entries of the file, to be freed with fwd_tables_free().
 * RC_INVALID with the line's number when one is refused. */
enum rc fwd_tables_load(const char *path, struct fwd_tables **ret, struct err *err);
void fwd_tables_free(struct fwd_tables *t); /* null is fine */

/* Borrowed.  The calling thread is online at it until fwd_tables_free(). */
struct fib *fwd_tables_fib(struct fwd_tables *t);
