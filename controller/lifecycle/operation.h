/*
 * operation - work that takes longer than a request: what is stored of it.
 *
 * The record says what was asked for, by whom, and which step is being waited for; so
 * a controller that starts, or takes over, goes on where the last one stopped.  Each
 * step is one store transaction, which also carries what the step changes.  Kinds of
 * operation are rows of a table in operation.c.
 *
 *   move     a tenant goes to other clusters                        move.h
 *   build    a cluster is proven right and takes its tenants        build.h
 *   drain    all tenants of a cluster go elsewhere                  drain.h
 *   retire   an empty cluster leaves the region's service           drain.h
 *
 * The last three are made of moves: these name the operation as their parent.
 *
 * Values and counted references; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/blob.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/entry.h"

#define OPERATION_ID_MAX   31
#define OPERATION_TEXT_MAX 199
/* Finished ones that are kept to be looked at; the oldest go first. */
#define OPERATIONS_KEPT 1000
/* Unfinished ones; more are refused. */
#define OPERATIONS_OPEN_MAX 4096

enum operation_kind {
    OPERATION_MOVE = 1,
    OPERATION_BUILD,
    OPERATION_DRAIN,
    OPERATION_RETIRE,
    OPERATION_KINDS = OPERATION_RETIRE
};
const char *operation_kind_name(unsigned kind); /* "move", …; "unknown" */

enum operation_state {
    OPERATION_RUNNING = 1,
    OPERATION_DONE = 2,
    OPERATION_UNDONE = 3, /* over, but not done: `text` says why */
};
const char *operation_state_name(unsigned state); /* "running", "done", "undone" */

/* Where a tenant is at home: an x86 cluster and, or not (""), an XGW-H one. */
struct home {
    char x86[CLUSTER_NAME_MAX + 1];
    char h[CLUSTER_NAME_MAX + 1];
    uint8_t half; /* of the XGW-H: 1 + enum vni_half; 0: there is none */
};
/* The same clusters. */
bool home_equal(const struct home *a, const struct home *b);

/* A tenant goes to other clusters: move.h. */
struct move {
    uint32_t vni;
    struct home from;
    struct home to;
    uint32_t drain_ms;     /* the source is kept for so long after the steering */
    bool ignores_steering; /* an operator overrides: nobody who steers is waited for */
    bool is_held;          /* its parent says when it goes on behind MOVE_PROBE */
    /* Who said on the way that consumers are not waited for, and why; "": nobody. */
    char waived_by[64];
    char waived_why[OPERATION_TEXT_MAX + 1];
};

/* A cluster is built: build.h. */
#define BUILD_TENANTS_MAX 2048
#define BUILD_STAGES      5 /* of admission */
struct build {
    char cluster[CLUSTER_NAME_MAX + 1];
    uint32_t hold_ms;  /* how long each stage of admission is watched */
    uint32_t drain_ms; /* of each move */
    uint8_t stage;     /* of admission: the one that is let in, from 0 */
    /* How many of the named are in when a stage is, the first ones; [0] is 0 until
     * admission begins. */
    uint32_t cut[BUILD_STAGES];
    uint32_t vni_count;
    struct blob *vnis; /* owned; uint32_t each, in the order of admission */
};

/* A cluster gives its tenants away: drain.h. */
struct drain {
    char cluster[CLUSTER_NAME_MAX + 1];
    char to[CLUSTER_NAME_MAX + 1]; /* ""; each where placement finds room */
    uint32_t drain_ms;             /* of each move */
};

struct retire {
    char cluster[CLUSTER_NAME_MAX + 1];
};

struct operation {
    char id[OPERATION_ID_MAX + 1]; /* "op-0000000017": in order of their making */
    uint8_t kind;                  /* enum operation_kind */
    uint8_t state;                 /* enum operation_state */
    uint8_t step;                  /* of the kind: enum move_step, … */
    bool is_cancelled;             /* somebody asked for its end */
    char who[64];
    uint64_t created_ms; /* unix */
    uint64_t changed_ms; /* unix; its last step */
    /* Why it ended as it did; "" while it runs and where all went well. */
    char text[OPERATION_TEXT_MAX + 1];
    uint64_t parent; /* number of the operation that it is part of; 0: none */
    union {
        struct move move;
        struct build build;
        struct drain drain;
        struct retire retire;
    };
};

/* Another holder of what it refers to, after a copy of the struct. */
void operation_hold(const struct operation *o);
/* Drops what it refers to. */
void operation_fini(struct operation *o);

/* The cluster that a build, drain or retire is about; "" of a move. */
const char *operation_cluster(const struct operation *o);
uint32_t build_vni(const struct build *b, uint32_t index);

/* "op-" and ten digits at least, so that names sort by age. */
void operation_name(uint64_t number, char ret[OPERATION_ID_MAX + 1]);

uint64_t operation_number(const struct operation *o);

/* "install", "audit", "probe", …; "unknown". */
const char *operation_step_name(const struct operation *o);
uint32_t operation_step_count(const struct operation *o);

/* What is known of a check that takes a while. */
enum gate { GATE_OPEN_YET /* not known yet */, GATE_PASSED, GATE_FAILED };

/* What facts make of a running operation. */
enum verdict {
    VERDICT_STAYS,
    VERDICT_GOES_ON,  /* to the next step; behind the last one: done */
    VERDICT_GOES_BACK /* towards where it began; a sentence says why */
};
/* Whether it may still be taken back. */
bool operation_is_revocable(const struct operation *o);
/* Takes the verdict: its next step, or its end.  `why` of one that goes back. */
void operation_advance(struct operation *o, enum verdict v, const char *why);

/* It has a kind, a state and a step of that kind. */
bool operation_is_valid(const struct operation *o);

/* Append the canonical bytes. */
void operation_pack(const struct operation *o, struct buf *to);
/* RC_INVALID for bytes that packing could not have written, RC_NO_MEMORY; `*ret` is
 * then untouched.  The caller ends it with operation_fini(). */
enum rc operation_unpack(const void *bytes, size_t len, struct operation *ret,
                         struct err *err);
