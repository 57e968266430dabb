/*
 * tenant_growth - which tenants carry most, by counters that are read round by round.
 *
 * A *round* reads each tenant's *cell* once, in as many slices as its owner likes.  A
 * tenant's bytes are what its cell grew by since the round before; each has its own
 * begin and end, about a round apart, so the growth is stretched to the length of the
 * round.  Cell 0 is of all that have none of their own, together: none of them, and
 * none that a report leaves out, had more than its `rest`.  A tenant that is read for
 * the first time shows in the next round.
 *
 * Pure: time is an argument, above 0.  One owner.
 */
#pragma once

#include "proto/model/telemetry.h"

struct tenant_growth;

struct tenant_growth *tenant_growth_new(uint32_t cells); /* null: no memory */
void tenant_growth_free(struct tenant_growth *g);        /* null is fine */
uint32_t tenant_growth_cells(const struct tenant_growth *g);

/* Begins a round.  The one before is compared with if it began at most
 * TENANT_GROWTH_MS_MAX ago. */
#define TENANT_GROWTH_MS_MAX 60000
void tenant_growth_begin(struct tenant_growth *g, uint64_t now_ms);

/* The cell of `vni` (0: of the rest, cell 0) is going to be read … */
void tenant_growth_expect(struct tenant_growth *g, uint32_t vni, uint32_t cell);
/* … in parts, whose sum is meant; a cell that is not there is passed over … */
void tenant_growth_count(struct tenant_growth *g, uint64_t cell, uint64_t bytes);
/* … and was read, at `now_ms`; or it was another's meanwhile (`is_sound` false). */
void tenant_growth_read(struct tenant_growth *g, uint32_t cell, bool is_sound,
                        uint64_t now_ms);

/* Something of the round could not be read: it makes no report. */
void tenant_growth_spoil(struct tenant_growth *g);

/* Of the round; fills all but the flows.  False: there is nothing to compare with. */
bool tenant_growth_report(const struct tenant_growth *g, struct top_report *ret);

/* Bytes of `from_ms` as of `to_ms`, rounded up or down. */
uint64_t tenant_growth_stretch(uint64_t bytes, uint64_t from_ms, uint64_t to_ms,
                               bool is_up);
