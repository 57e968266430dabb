/*
 * rig - an xgwh, a dumb switch and a naive model of the logical rows, side by side.
 *
 * A change goes into all three: rig_apply() collects the writes, sorts out from the
 * exceptions what the model has to hold afterwards, and lets the switch follow write by
 * write, in a random order between barriers.  After every single one the probes must
 * get the answer of before or that of after.
 */
#pragma once

#include "agent/xgwh/xgwh.h"
#include "proto/model/entry.h"
#include "tests/unit/agent/xgwh/soft.h"
#include "tests/unit/unit.h"

struct model {
    struct entry *at;
    unsigned count;
    unsigned cap;
};

struct writes {
    struct phys_write *at;
    unsigned count;
    unsigned cap;
    struct phys_meter_write *meters;
    unsigned *before; /* of each of them: so many of `at` were told before it */
    unsigned meter_count;
    unsigned meter_cap;
};

struct rig {
    struct phys_sizes sizes;
    unsigned halves;
    uint8_t places[64];      /* of each VNI of the test, as its last `vni` row said */
    uint8_t next_places[64]; /* after the change under way */
    struct xgwh *x;
    struct soft *soft;
    struct model model;
    struct model probes;  /* rows whose addresses are looked up */
    struct writes writes; /* of the last call */
    struct xgwh_cost cost;
    struct xgwh_exceptions exceptions;   /* of the last call */
    struct phys_meter_config meters[64]; /* of VNIs, by index, as written */
    uint64_t seed;
    uint64_t lookups;
    uint64_t strangers; /* an address without a row that got another's NC */
    bool names_all;     /* reads are the session's: xgwh_read_name_all() */
    bool is_unordered;  /* shuffles what has no barrier between */
    bool is_disturbed;  /* somebody else wrote: what VNIs name is put right first */
};

uint32_t rig_random(struct rig *r, uint32_t below);

void rig_init(struct rig *r, const struct phys_sizes *sizes, unsigned halves);
/* An xgwh that knows nothing, of the same make. */
struct xgwh *rig_new(const struct rig *r);
void rig_fini(struct rig *r);
struct xgwh_sink rig_sink(struct rig *r); /* into r->writes, which it empties */

/* `ops[i]` says BATCH_PUT or BATCH_DELETE of rows[i]. */
void rig_apply(struct rig *r, const struct entry *rows, const uint8_t *ops,
               unsigned count);
void rig_put(struct rig *r, const struct entry *e);
void rig_delete(struct rig *r, const struct entry *e);

/* Into xgwh alone; r->writes and r->exceptions are left to the caller. */
void rig_batch(struct rig *r, const struct entry *rows, const uint8_t *ops,
               unsigned count);
void rig_change(struct rig *r, const struct entry *e, uint8_t op);
/* xgwh_rows() tells what xgwh_tables() holds, in order. */
void rig_check_rows_told(struct rig *r);
/* Does what is told (rows that are not sound left out) equal the model? */
bool rig_tells_the_model(struct rig *r);
/* The switch gives the model's answer to every row of it. */
void rig_check_answers(struct rig *r);

/* Carries out r->writes; the model must not change with it. */
void rig_follow(struct rig *r);

/* Everything that there is: the switch against the model, xgwh's rows against the
 * model. */
void rig_check(struct rig *r);
/* Reads the switch back, in random order, into `x`. */
void rig_read(struct rig *r, struct xgwh *x, struct xgwh_findings *ret);

const struct entry *model_find(const struct model *m, const struct entry *key);
void model_put(struct model *m, const struct entry *e);

/* Rows from text: addresses as ip.h reads them. */
struct entry row_vm(uint32_t vni, const char *vm, const char *nc);
struct entry row_local(uint32_t vni, const char *prefix);
struct entry row_scope(uint32_t vni, const char *prefix, enum route_scope scope,
                       uint32_t to, const char *endpoint);
struct entry row_vni(uint32_t vni, uint8_t flags, uint8_t half);

/* The `n`-th address whose CRC32 is that of `base`; they differ in the last 8 bytes.
 * n 0 is `base` itself. */
struct ip collide(const struct ip *base, unsigned n);
