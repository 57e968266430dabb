/*
 * naive_fib - the lookups of fib.h over a plain list of entries: slow, obvious, for
 * tests of the packet functions.  Defines fib_resolve_burst() and fib_batch_*(), so
 * link either this or the real ones.
 */
#pragma once

#include "agent/fwd/fib.h"

/* Keeps `entries`. */
struct fib *naive_fib_new(const struct entry *entries, unsigned count);
void naive_fib_free(struct fib *f);
