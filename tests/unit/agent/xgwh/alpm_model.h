/*
 * alpm_model - a switch that is nothing but route_tcam and route_part, as P4 describes
 * them: of the rows that match, the one of the highest priority; of its partition's
 * slots that match, the one of the highest priority, else the row's result.
 *
 * Reads entries by phys_table_desc(), field by field.  A write that a switch would
 * refuse (an insert of what is there, a change of what is not, a full partition or
 * TCAM, a partition number out of range, a form that the tables have not) fails the
 * running check.
 */
#pragma once

#include "agent/xgwh/alpm.h"

/* A sequence of writes. */
struct writes {
    struct phys_write *at;
    size_t count, cap;
};
void writes_fini(struct writes *w);
/* An alpm_sink; `ctx` is a struct writes. */
void writes_add(void *ctx, const struct phys_write *w);
/* An alpm_sink; `ctx` is a struct model. */
void model_sink(void *ctx, const struct phys_write *w);

struct model; /* opaque */

struct model *model_new(const struct phys_sizes *sizes);
void model_free(struct model *m);
void model_write(struct model *m, const struct phys_write *w);
void model_lookup(const struct model *m, uint32_t vni, const uint8_t addr[16],
                  struct alpm_result *ret);

/* Checks that the switch holds exactly what alpm_entries() says. */
void model_check_entries(const struct model *m, const struct alpm *a);
uint32_t model_rows(const struct model *m);

/* All entries; the caller frees them. */
size_t model_entries(const struct model *m, struct phys_entry **ret);
/* Puts an entry there that no check has seen, unless its key is taken. */
void model_put_raw(struct model *m, const struct phys_entry *e);
/* Reads all of it into `a`, shuffled by `seed`; the repairs go to `repairs`. */
void model_read_back(const struct model *m, struct alpm *a, uint64_t *seed,
                     struct writes *repairs, struct alpm_findings *ret);
