/*
 * operation - work that takes longer than a request: what is stored of it.
 *
 * The record says what was asked for, by whom, and which step is being waited for; so
 * a controller that starts, or takes over, goes on where the last one stopped.  Each
 * step is one store transaction, which also carries what the step changes.  Kinds of
 * operation are rows of a table in operation.c: `move` is the first.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/model/entry.h"

#define OPERATION_ID_MAX   31
#define OPERATION_TEXT_MAX 199
/* Finished ones that are kept to be looked at; the oldest go first. */
#define OPERATIONS_KEPT 1000
/* Unfinished ones; more are refused. */
#define OPERATIONS_OPEN_MAX 4096

enum operation_kind { OPERATION_MOVE = 1 };
const char *operation_kind_name(unsigned kind); /* "move"; "unknown" */

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
    /* Who said on the way that consumers are not waited for, and why; "": nobody. */
    char waived_by[64];
    char waived_why[OPERATION_TEXT_MAX + 1];
};

struct operation {
    char id[OPERATION_ID_MAX + 1]; /* "op-0000000017": in order of their making */
    uint8_t kind;                  /* enum operation_kind */
    uint8_t state;                 /* enum operation_state */
    uint8_t step;                  /* of the kind: enum move_step */
    bool is_cancelled;             /* somebody asked for its end */
    char who[64];
    uint64_t created_ms; /* unix */
    uint64_t changed_ms; /* unix; its last step */
    /* Why it ended as it did; "" while it runs and where all went well. */
    char text[OPERATION_TEXT_MAX + 1];
    struct move move;
};

/* "op-" and ten digits at least, so that names sort by age. */
void operation_name(uint64_t number, char ret[OPERATION_ID_MAX + 1]);

/* "install", "audit", "probe", …; "unknown". */
const char *operation_step_name(const struct operation *o);
uint32_t operation_step_count(const struct operation *o);

/* Append the canonical bytes. */
void operation_pack(const struct operation *o, struct buf *to);
/* RC_INVALID for bytes that packing could not have written; `*ret` is then untouched.
 */
enum rc operation_unpack(const void *bytes, size_t len, struct operation *ret,
                         struct err *err);
