/*
 * table_set_impl - what the table_set*.c files share and nobody else includes.
 *
 *   node (depth 0, VNI bits 23-18) → node (1) → node (2) → twig (3, VNI bits 5-0) →
 * rows
 *
 * A node keeps for each table the digest of all below it.  A twig keeps none: its at
 * most 64 sets know theirs, and there are two twigs for every three VNIs where VNIs
 * are random.
 */
#pragma once

#include "proto/model/table_set.h"

#define SET_NODE_DEPTHS 3 /* depths 0-2 are nodes, 3 is a twig */

struct node {
    uint64_t bitmap; /* of children */
    struct digest digest[TABLE_COUNT];
    uint16_t count;
    uint16_t cap;
    void *child[]; /* `count` in use: nodes, or twigs at depth 2 */
};

union twig_word {
    uint64_t bitmap;
    struct rows *rows;
};

/* The sets of 64 neighbouring VNIs: one bitmap of VNIs for each table in `tables`, in
 * order, then the sets by table and VNI.  Nothing is stored for what is not there. */
struct twig {
    uint16_t tables; /* 1 << table */
    uint16_t used;   /* words in use; 0 when nothing is left */
    uint16_t cap;    /* words */
    union twig_word word[];
};

struct table_set {
    struct node *root;
    uint32_t vni_count;
    size_t memory;     /* heap bytes of nodes, twigs and rows */
    size_t twig_words; /* words of all twigs, and those that trimming would give back */
    size_t slack_words;
    uint32_t trim_at; /* VNI where the next trimming starts */
};

/* The six bits that choose a child of a node or twig of `depth`. */
static inline unsigned set_index(uint32_t vni, unsigned depth)
{
    return vni >> (18 - 6 * depth) & 63;
}

/* Child of `node` under `index`, null when there is none. */
static inline void *node_child(const struct node *node, unsigned index)
{
    if (!(node->bitmap >> index & 1)) {
        return NULL;
    }
    return node
        ->child[__builtin_popcountll(node->bitmap & ((UINT64_C(1) << index) - 1))];
}

/* The bitmap of `table`'s VNIs, 0 when it has none. */
uint64_t twig_bitmap(const struct twig *t, enum table_id table);
struct rows *twig_rows(const struct twig *t, enum table_id table, unsigned index);

/* The node above `depth` levels on the way to `vni`; depth 0-2; null if none. */
const struct node *set_find_node(const struct table_set *s, uint32_t vni,
                                 unsigned depth);
const struct twig *set_find_twig(const struct table_set *s, uint32_t vni);

/* As table_set_put, without giving memory back: so that taking back the last changes
 * finds the room that they left, and cannot fail. */
enum rc set_put(struct table_set *s, uint32_t vni, enum table_id table,
                struct rows *rows);

/* Gives back a little of the memory that deletions left, when there is much of it. */
void set_trim(struct table_set *s);
