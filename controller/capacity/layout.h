/*
 * layout - what our image does with a chip: its tables, where they lie, what an entry
 * costs there.
 *
 * A layout is a table of tables.  From it follow the fit (share of SRAM and TCAM of
 * each pipe), what the node can hold (a resource set, by adding up tables of the same
 * resource), and what a set of entries takes (predict.h).
 *
 * Pipes come in pairs: packets enter by A (0 and 2), go on through B (1 and 3) and come
 * back.  Tables of B, and the spill in A, differ between the two pairs: the halves.
 *
 * Values only; any thread.
 */
#pragma once

#include "controller/capacity/chip.h"
#include "controller/capacity/resource.h"

enum layout_pipe { PIPE_A, PIPE_B, LAYOUT_PIPES };

struct layout_table {
    const char *name; /* as in the P4 image */
    uint8_t pipe;     /* enum layout_pipe */
    uint8_t match;    /* enum match_kind */
    bool is_halved;   /* the pairs hold different entries */
    bool is_hash;     /* usable up to the chip's hash load */
    uint16_t key_bits;
    uint32_t entries;     /* slots, in one pipe; 0: no match table (counters, meters) */
    uint32_t reserved;    /* of them, what no tenant can have */
    double words;         /* SRAM words an entry, key, mask and action */
    const char *resource; /* the dimension it is part of; null: none */
    const char *source;   /* where `words` is from */
};

struct layout {
    const char *name;
    const struct layout_table *tables;
    unsigned table_count;
    unsigned partitions;      /* of route_part */
    unsigned partition_slots; /* B */
    double routes_per_row;    /* what a build is counted to reach (P4.md) */
    struct chip_path path;

    /* What the compiler reports for this image on the chip it was fitted to.  PHV is
     * scarce and follows from the program, not from table sizes: it is not modelled. */
    struct {
        double sram_share;
        double tcam_share;
        double phv_share;
        unsigned stages; /* of the chip's; the larger of ingress and egress */
    } reported[LAYOUT_PIPES];
};

/* Our image for the Tofino family. */
extern const struct layout layout_xgw_h;

struct layout_fit {
    struct {
        double words;
        double tcam_blocks;
        double sram_share; /* of the pipe: 0 to 1, above: does not fit */
        double tcam_share;
    } pipe[LAYOUT_PIPES];
    double sram_share; /* of the pair */
    double tcam_share;
};

struct layout_fit layout_fit(const struct layout *l, const struct chip *c);

/* By name; null if there is none. */
const struct layout_table *layout_table(const struct layout *l, const char *name);

/* Of one pipe: SRAM words and TCAM blocks of all of a table's slots. */
double layout_table_words(const struct layout_table *t);
double layout_table_tcam_blocks(const struct layout_table *t, const struct chip *c);

/* Entries of a table that can be used, in one pipe. */
double layout_table_usable(const struct layout_table *t, const struct chip *c);
