/*
 * chip - what a switching ASIC has: memory in blocks, pipes, bits a second.
 *
 * One table of profiles; Tofino 6.4T is the first row.  Everything a model needs to
 * know of a chip is a number in its row, so another ASIC is another row.  The *layout*
 * (layout.h) says what our image does with it.
 *
 * Memory comes in *words* (of a row of an SRAM block) and *rows* (of a TCAM key, as
 * many blocks wide as the key needs).  Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum match_kind {
    MATCH_EXACT,   /* hash tables in SRAM */
    MATCH_TERNARY, /* TCAM */
    MATCH_ATCAM,   /* ternary within a partition, in SRAM (ALPM's second level) */
    MATCH_INDEX,   /* direct index, no key is stored: one SRAM entry a value */
    MATCH_KINDS
};

/* The general model, linear in key and action width: an entry of `k` key bits and `a`
 * action bits costs p·k + q + a·per_bit, in SRAM words, or in TCAM blocks a row for
 * MATCH_TERNARY (whose action data lies in SRAM). */
struct match_price {
    double p;       /* a key bit */
    double q;       /* an entry */
    double per_bit; /* an action bit */
};

struct chip {
    const char *name;
    const char *what;
    unsigned pipes;
    unsigned stages;           /* a pipe */
    unsigned sram_blocks;      /* a stage */
    unsigned sram_block_words; /* rows of a block */
    unsigned sram_word_bits;
    unsigned tcam_blocks; /* a stage */
    unsigned tcam_block_rows;
    unsigned tcam_block_bits;
    unsigned phv_containers; /* a pipe and gress direction */
    double hash_load;        /* share of a hash table's slots that fills in practice */
    struct match_price price[MATCH_KINDS];

    double flat_bps;      /* all pipes side by side */
    double flat_pps;      /* the same */
    double pass_ns;       /* one ingress and one egress, of a frame of no bytes */
    double ns_per_byte;   /* on top, for a whole packet, whatever its passes */
    unsigned frame_extra; /* bytes a frame takes on the wire besides: preamble, gap */
};

extern const struct chip chips[];
extern const unsigned chip_count;

/* By name; null if there is none. */
const struct chip *chip_find(const char *name);

/* Of one pipe. */
double chip_pipe_words(const struct chip *c);
double chip_pipe_tcam_blocks(const struct chip *c);

/* Blocks side by side for a TCAM key of so many bits; at least 1. */
unsigned chip_tcam_width(const struct chip *c, unsigned key_bits);
/* Rows of such a key that one pipe holds. */
double chip_pipe_tcam_rows(const struct chip *c, unsigned key_bits);

/* The general model: n entries, in SRAM words, or TCAM blocks for MATCH_TERNARY. */
double chip_cost(const struct chip *c, enum match_kind kind, double n,
                 unsigned key_bits, unsigned action_bits);

/* How a chip's pipes are joined and what packets go through. */
struct chip_path {
    unsigned passes;     /* 1 flat, 2 folded, 4 all pipes in one; divides throughput */
    double extra_passes; /* mean further loopback passes a packet: peer hops */
    unsigned bridge_bytes; /* carried between passes beyond what was stripped */
};

/* Bits a second of frames of `frame_bytes` (without preamble and gap, which count as
 * capacity) that come through; limited by packets a second for short ones.  Both as
 * they arrive from outside, all pipes together. */
double chip_bps(const struct chip *c, const struct chip_path *path, double frame_bytes);
double chip_pps(const struct chip *c, const struct chip_path *path, double frame_bytes);
/* The shortest frame that comes through at line rate. */
double chip_line_rate_bytes(const struct chip *c, const struct chip_path *path);
double chip_latency_ns(const struct chip *c, const struct chip_path *path,
                       double frame_bytes);
