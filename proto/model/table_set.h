/*
 * table_set - the tables of one group, by VNI, with their digest tree.
 *
 * A 64-ary trie on the VNI (bits 23-18, 17-12, 11-6, 5-0) whose nodes carry, for each
 * table, the sum of the digests below: one structure is map, order and tree.  Leaves
 * hold one `struct rows` a table.  Nodes are compact (bitmap and packed children).
 * Measured by bench_table_set with 1 M routes and 1 M VM-NC entries over 250,000 VNIs
 * and their tenants: 34 bytes a route or VM-NC entry, 30 an entry with the tenants
 * counted as such, everything included.
 *
 * The controller keeps its intent and each group's desired set in one, an agent what it
 * believes its device holds, the gateway its records.  One owner, one thread; the rows
 * it hands out may be shared.
 */
#pragma once

#include "proto/model/rows.h"

struct table_set; /* opaque: table_set.c */

struct table_set *table_set_new(void);
void table_set_free(struct table_set *s); /* null is fine */

/* Borrowed until the next change of this VNI; null when empty. */
struct rows *table_set_rows(const struct table_set *s, uint32_t vni,
                            enum table_id table);

/* Replaces the rows of (vni, table).  Takes `rows` (null empties).  O(depth).
 * RC_NO_MEMORY changes nothing and leaves `rows` with the caller. */
enum rc table_set_put(struct table_set *s, uint32_t vni, enum table_id table,
                      struct rows *rows);

/* Smallest VNI >= `from` that holds rows in any table of `table_mask` (1 << table);
 * 0 when there is none. */
uint32_t table_set_next(const struct table_set *s, uint32_t from, uint32_t table_mask);

uint64_t table_set_count(const struct table_set *s, enum table_id table);
uint32_t table_set_vni_count(const struct table_set *s);
size_t table_set_memory(const struct table_set *s); /* heap bytes of nodes and rows */

/* A node of the digest tree: depth 0 is the root, 1-3 inner, 4 one VNI.  `vni` has the
 * node's leading 6·depth bits; the rest zero. */
struct tree_node {
    uint8_t depth;
    uint32_t vni;
};
struct tree_child {
    uint8_t index; /* 0-63 */
    struct digest digest;
};
struct digest table_set_digest(const struct table_set *s, enum table_id table,
                               struct tree_node node);
/* The non-empty children of a node of depth 0-3, by index; returns how many. */
unsigned table_set_children(const struct table_set *s, enum table_id table,
                            struct tree_node node, struct tree_child ret[64]);

/* One (VNI, table) that a batch changed; holds a reference to both. */
struct table_change {
    uint32_t vni;
    uint8_t table;
    struct rows *before;
    struct rows *after;
    struct rows_change counts;
};
struct change_list {
    struct table_change *at;
    uint32_t count;
    uint32_t cap;
};
/* Appends a change and takes its references; false when memory is out: nothing done. */
bool change_list_push(struct change_list *l, const struct table_change *change);
void change_list_cut(struct change_list *l, uint32_t n); /* the last `n` go */
void change_list_fini(struct change_list *l);            /* drops the references */

/* Applies a checked batch, all or nothing.  Each (VNI, table) appears at most once in
 * `*changes` (appended; may be null), with `before` as it was before the batch and only
 * where something changed.  REPLACE runs are honoured.  RC_NO_MEMORY: as before. */
enum rc table_set_apply(struct table_set *s, const void *batch, size_t len,
                        struct change_list *changes, struct rows_change *ret_total,
                        struct err *err);

/* Puts `before` back for every change, last first. */
void table_set_undo(struct table_set *s, const struct change_list *changes);
