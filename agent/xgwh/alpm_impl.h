/*
 * alpm_impl - what the files of alpm share.
 *
 *   alpm.c        life, changes: sorts them, finds their rows, decides what has to move
 *   alpm_trie.c   rows as a path-compressed trie; slots, partitions, covers
 *   alpm_carve.c  routes into the fewest parts
 *   alpm_move.c   the same routes in other rows and partitions, and the writes for it
 *   alpm_repack.c joining small rows, re-packing
 *   alpm_emit.c   writes and their barriers
 *   alpm_read.c   questions
 *   alpm_adopt.c  read-backs
 *
 * Rows, slots and scratch live in arrays and refer to each other by index.
 */
#pragma once

#include "agent/xgwh/alpm.h"
#include "agent/xgwh/alpm_key.h"

#define ALPM_NONE UINT32_MAX

/* A result as it is kept; all zero: no route. */
struct alpm_value {
    uint32_t scope_vni; /* scope (8), vni (24) */
    uint32_t idx;
};

struct alpm_slot {
    struct alpm_key key;
    struct alpm_value value;
};
_Static_assert(sizeof(struct alpm_slot) == 28, "16 slots are 7 cache lines");

enum {
    ROW_DIRTY = 1, /* its cover has to be written */
    ROW_FINAL = 2, /* not written yet: will be, with the cover it has by then */
};

/* A node of the trie of rows: a row, or where two of them part.  Node 0 is the empty
 * prefix; it is always there, and is a row unless the table is empty. */
struct alpm_row {
    struct alpm_key key;
    uint32_t child[2]; /* 0: none */
    uint32_t up;       /* of a free node: the next free one */
    struct alpm_value cover;
    uint32_t link; /* during alpm_apply: 1 + index of its touched; the next dirty row */
    uint16_t part; /* 0: no row */
    uint8_t count; /* routes in the partition */
    uint8_t flags;
};
_Static_assert(sizeof(struct alpm_row) == 48, "some 8 bytes a route");

/* ---- scratch: what one call works on ---- */

enum alpm_op { ALPM_SAME, ALPM_INSERT, ALPM_MODIFY, ALPM_DELETE };

struct alpm_chg {
    struct alpm_key key;
    struct alpm_value value;
    uint32_t row;
    uint32_t next; /* of the same row */
    uint32_t seq;  /* the caller's order */
    uint16_t wave;
    uint8_t op; /* enum alpm_op */
};

/* A row with changes, in the order of keys. */
struct alpm_touched {
    uint32_t row;
    uint32_t head;
    uint32_t tail;
    uint32_t inserts;
    uint32_t modifies;
    uint32_t deletes;
};

/* A route that is carved: one that stands somewhere, one that is to come, or both (a
 * change of one that stands). */
struct alpm_item {
    struct alpm_key key;
    struct alpm_value value; /* what stands; else what is to come */
    uint32_t next;           /* of the same part */
    uint32_t chg;            /* or ALPM_NONE */
    uint32_t from;           /* place in the region of the row where it stands, or
                                ALPM_NONE */
    uint32_t part;           /* where it goes */
};

/* A part that the carving made. */
struct alpm_part {
    struct alpm_key root;
    uint32_t head; /* items, in the order of keys */
    uint32_t tail;
    uint32_t count;
    uint32_t standing; /* of them */
    uint32_t above;    /* item: the longest standing route above root, or ALPM_NONE */
    uint32_t src;      /* place in the region of the row whose partition it gets */
    uint32_t row;
    uint16_t part;
    uint16_t level; /* of swing: above that of parts below that must be there first */
};

/* Rows whose routes are carved anew.  The first is above all others, and between it and
 * any other there are only rows of the region. */
struct alpm_region {
    uint32_t row_first, row_count;   /* into rows */
    uint32_t item_first, item_count; /* sorted */
    uint32_t part_first, part_count; /* the last one is at the first row's root */
};

struct alpm_rec {
    struct alpm_key key;
    struct alpm_value value;
    uint32_t row; /* of ROW_FINAL ones: where the cover stands when it is written */
    uint16_t part;
    uint16_t wave;
    uint8_t op;
    bool is_slot;
    bool is_change; /* a change itself, not a move */
};

struct alpm_recs {
    struct alpm_rec *at;
    size_t count, cap;
    unsigned waves;
};

struct alpm_work {
    struct alpm_chg *chgs;
    size_t chg_count, chg_cap;
    struct alpm_touched *touched;
    size_t touched_count, touched_cap;
    uint32_t *rows;
    size_t row_count, row_cap;
    struct alpm_item *items;
    size_t item_count, item_cap;
    struct alpm_part *parts;
    size_t part_count, part_cap;
    struct alpm_region *regions;
    size_t region_count, region_cap;
    uint8_t *overlap; /* routes that a part has of a row */
    size_t overlap_cap;
    /* Writes of moves: what nobody looks at yet; rows; what nobody looks at any more.
     */
    struct alpm_recs fill, swing, clear;
    uint32_t dirty; /* first row with a new cover, or ALPM_NONE */
};

struct alpm_out {
    alpm_sink *sink;
    void *ctx;
    struct alpm_cost *cost;
    bool barrier; /* the next write carries one */
};

struct alpm_reading; /* alpm_adopt.c */

struct alpm {
    unsigned b; /* slots of a partition */
    uint8_t half;
    uint32_t tcam_size; /* rows of route_tcam */
    uint32_t tcam_max;  /* of them, as the switch takes them */
    uint32_t parts_max; /* partitions, number 0 included */
    uint32_t rows_max;  /* what changes may use; re-packing has the rest as well */

    struct alpm_row *row;
    uint32_t node_top, node_cap, node_free, node_free_count;
    struct alpm_slot **chunk; /* ALPM_CHUNK partitions each */
    uint16_t *part_free;      /* a stack */
    uint32_t part_free_count;

    uint32_t rows;
    uint64_t routes;

    struct alpm_key cursor; /* of re-packing */
    bool gained;            /* since its round began, or something changed */
    bool settled;

    struct alpm_work work;
    struct alpm_reading *reading;
    size_t memory; /* of rows and slots */
};

#define ALPM_CHUNK 64

/* The most rows that re-packing looks at together. */
#define ALPM_REGION_ROWS 24

/* alpm_emit.c */
static inline bool value_equal(struct alpm_value a, struct alpm_value b)
{
    return a.scope_vni == b.scope_vni && a.idx == b.idx;
}
struct alpm_result value_result(struct alpm_value v);
void alpm_encode_row(const struct alpm *a, const struct alpm_key *key, uint16_t part,
                     struct alpm_value cover, struct phys_entry *ret);
void alpm_encode_slot(const struct alpm *a, uint16_t part, const struct alpm_slot *slot,
                      struct phys_entry *ret);
void alpm_emit_write(struct phys_write *w, struct alpm_out *out);
/* What follows waits for what went before. */
void alpm_emit_barrier(struct alpm_out *out);
void alpm_emit_row(const struct alpm *a, enum phys_op op, const struct alpm_key *key,
                   uint16_t part, struct alpm_value cover, struct alpm_out *out);
void alpm_emit_slot(const struct alpm *a, enum phys_op op, uint16_t part,
                    struct alpm_slot slot, struct alpm_out *out);
void alpm_emit_moves(struct alpm *a, struct alpm_out *out);
void alpm_emit_changes(struct alpm *a, struct alpm_out *out);

/* alpm_trie.c */
static inline struct alpm_slot *alpm_slots(const struct alpm *a, unsigned part)
{
    return a->chunk[part / ALPM_CHUNK] + (size_t)(part % ALPM_CHUNK) * a->b;
}
/* The deepest row at or above `key`; node 0 even when it is no row. */
uint32_t alpm_row_of(const struct alpm *a, const struct alpm_key *key);
uint32_t alpm_row_above(const struct alpm *a, uint32_t row); /* not of node 0 */
/* The next row in the order of keys, ALPM_NONE at the end; past all below with `skip`.
 */
uint32_t alpm_row_next(const struct alpm *a, uint32_t row, bool skip);
/* The first row at or behind `key`. */
uint32_t alpm_row_from(const struct alpm *a, const struct alpm_key *key);
/* Memory of a partition's slots. */
enum rc alpm_chunk_reserve(struct alpm *a, unsigned part);
/* Room for so many more nodes and partitions; then taking them cannot fail. */
enum rc alpm_reserve(struct alpm *a, size_t nodes, size_t parts);
uint32_t alpm_row_insert(struct alpm *a, const struct alpm_key *key);
void alpm_row_remove(struct alpm *a, uint32_t row);
uint16_t alpm_part_take(struct alpm *a);
void alpm_part_give(struct alpm *a, uint16_t part);
/* Place of the first slot that is not below `key` in order. */
unsigned alpm_slot_find(const struct alpm *a, uint32_t row, const struct alpm_key *key);
/* The result of the longest route of the row's partition above `key`, else its cover.
 */
struct alpm_value alpm_cover_of(const struct alpm *a, uint32_t row,
                                const struct alpm_key *key);
/* The route at `key`, which is `row`'s, has changed: covers below follow. */
void alpm_covers_update(struct alpm *a, uint32_t row, const struct alpm_key *key);

/* alpm_carve.c */
/* Carves the region's items; what is left is the last part, at the root of the first
 * row.  Room for all parts is there. */
void alpm_carve(struct alpm *a, struct alpm_region *region, unsigned cap);

/* alpm_move.c */
bool alpm_grow(void **at, size_t *cap, size_t need, size_t size);
enum rc alpm_work_reserve(struct alpm_work *w, size_t items, size_t parts, size_t rows);
void alpm_work_clear(struct alpm_work *w);
/* Appends a region of `count` rows with what stands in them; room is there. */
struct alpm_region *alpm_region_add(struct alpm *a, const uint32_t *rows, size_t count);
/* Partitions that a move into the carved parts takes beyond those there. */
uint32_t alpm_move_match(struct alpm *a, const struct alpm_region *region);
/* Moves; the writes are in work.fill, .swing and .clear. */
void alpm_move(struct alpm *a, const struct alpm_region *region);

/* alpm_repack.c */
/* Joins rows that deletes have left small. */
void alpm_join(struct alpm *a, struct alpm_out *out);

/* alpm_adopt.c */
void alpm_reading_free(struct alpm *a);
/* alpm.c */
void alpm_reset(struct alpm *a);
