/*
 * trie - route_tcam in software: rows that are prefixes of the 152-bit string, answered
 * by priority as a TCAM does.
 *
 * A path-compressed binary trie below an index by the first 12 bits of the VNI.  All
 * rows that match a key lie on its way down, and the one of the highest priority wins,
 * whatever its length; rows shorter than the index lie apart and each slot of the index
 * knows the best that covers it.  A TCAM row costs one or two nodes of a cache line.
 *
 * One writer, any number of readers.  A node's row never changes: a new node takes its
 * place by one store, and what was taken out is retired (agent/fwd/retire.h), so a
 * reader sees each row's old or new state.
 */
#pragma once

#include <stdatomic.h>

#include "agent/fwd/lines.h"
#include "agent/fwd/retire.h"
#include "agent/fwdh/key.h"
#include "proto/base/err.h"

#define HTRIE_INDEX_BITS 12
#define HTRIE_SLOTS      (1u << HTRIE_INDEX_BITS)

/* What set_part carries. */
struct htrie_row {
    uint32_t priority;
    uint32_t vni;
    uint32_t idx;
    uint16_t part;
    uint8_t scope;
};

struct htrie_node {
    struct hkey key; /* zero behind `length` bits */
    uint8_t length;
    bool has_row; /* false: only a place where ways part */
    struct htrie_row row;
    _Atomic(struct htrie_node *) child[2];
};
_Static_assert(sizeof(struct htrie_node) <= LINE_BYTES, "a line a node");

typedef _Atomic(struct htrie_node *) htrie_link;

struct htrie {
    htrie_link root[HTRIE_SLOTS];
    htrie_link best_short[HTRIE_SLOTS]; /* the best short row that covers the slot */
    const struct hmasks *masks;
    /* the writer's */
    struct lines *lines;
    struct retire *retire;
    htrie_link *shorts; /* by 1 << length | prefix; HTRIE_SLOTS of them */
};

/* Borrows all three.  Returns 0, or -1 without memory. */
int htrie_init(struct htrie *t, const struct hmasks *masks, struct lines *lines,
               struct retire *retire);
void htrie_fini(struct htrie *t); /* the nodes go with `lines` */

/* Puts the row of a prefix, in place of the one that stands there.  The retire queue
 * has room for 4.  RC_NO_MEMORY: nothing changed. */
enum rc htrie_put(struct htrie *t, const struct hkey *key, unsigned length,
                  const struct htrie_row *row);
/* Takes it out; it is there.  RC_NO_MEMORY as above. */
enum rc htrie_del(struct htrie *t, const struct hkey *key, unsigned length);

/* ---- for read-backs: the writer's thread ---- */

/* The row of exactly this prefix; null: there is none. */
const struct htrie_row *htrie_find(const struct htrie *t, const struct hkey *key,
                                   unsigned length);

/* Where a walk along all prefixes is; starts zero. */
struct htrie_cursor {
    struct hkey key;
    uint32_t slot;
    uint8_t length;
    bool is_inside; /* behind `key` and `length`, of the slot */
};
/* The next node or place of a short row, after looking at one; `*ret` null: no row is
 * there.  False: the end.  Rows that stand throughout are met once, whatever else
 * comes and goes between the calls. */
bool htrie_next(const struct htrie *t, struct htrie_cursor *c,
                const struct htrie_node **ret);

/* ---- readers ---- */

#define HTRIE_BURST 64

struct htrie_query {
    struct hkey key;
    const struct htrie_node *at;   /* where it is; null at the end */
    const struct htrie_node *best; /* the answer; null: no row matches */
    uint32_t priority;             /* of it; 0: none */
};

/* Starts one query (asks for its first node) and, after all were started, walks all of
 * them down together, so that they wait for memory at the same time. */
void htrie_start(const struct htrie *t, struct htrie_query *q);
void htrie_walk(const struct hmasks *masks, struct htrie_query *const q[],
                unsigned count);
