#include "controller/capacity/chip.h"

#include <string.h>

/* Prices of the Tofino family, from its packing: two entries of a 56-bit key in a word
 * and two words for one of 152 bits (Sailfish, table 2: 58 % and 233 %) give p and q of
 * exact match; a TCAM block is 44 bits wide, and half a block is lost to rounding on
 * the average; an algorithmic TCAM takes two words a slot for key and mask of 152 bits
 * and half a word to pack them (bf-p4c: 2 entries in 5 RAMs); action data is packed by
 * the bit. */
#define TOFINO_PRICES                                                                  \
    {                                                                                  \
        [MATCH_EXACT] = { 1.5 / 96, -0.375, 1.0 / 128 },                               \
        [MATCH_TERNARY] = { 1.0 / 44, 0.5, 0 },                                        \
        [MATCH_ATCAM] = { 2.0 / 128, 0.125, 1.0 / 128 },                               \
        [MATCH_INDEX] = { 0, 0, 1.0 / 128 },                                           \
    }

const struct chip chips[] = {
    {
        .name = "tofino-6.4t",
        .what = "Tofino, 64 ports of 100G",
        .pipes = 4,
        .stages = 12,
        .sram_blocks = 80,
        .sram_block_words = 1024,
        .sram_word_bits = 128,
        .tcam_blocks = 24,
        .tcam_block_rows = 512,
        .tcam_block_bits = 44,
        .phv_containers = 224, /* 64 of 8 bits, 96 of 16, 64 of 32 (open p4c) */
        .hash_load = 0.877,
        .price = TOFINO_PRICES,
        .flat_bps = 6.4e12,
        .flat_pps = 3.6e9, /* Sailfish measured 1.8 Gpps folded */
        /* Sailfish, figure 18: 2.173 µs at 128 B, 2.303 µs at 1,024 B, folded. */
        .pass_ns = 1077.2,
        .ns_per_byte = 0.1451,
        .frame_extra = 20,
    },
    {
        .name = "tofino2-12.8t",
        .what = "Tofino 2, 32 ports of 400G; throughput by its ports, not measured",
        .pipes = 4,
        .stages =
            20, /* as the open p4c's device table says; the rest of a stage alike */
        .sram_blocks = 80,
        .sram_block_words = 1024,
        .sram_word_bits = 128,
        .tcam_blocks = 24,
        .tcam_block_rows = 512,
        .tcam_block_bits = 44,
        .phv_containers = 224,
        .hash_load = 0.877,
        .price = TOFINO_PRICES,
        .flat_bps = 12.8e12,
        .flat_pps = 6.0e9,
        .pass_ns = 1077.2, /* guess: as its predecessor's; latency only */
        .ns_per_byte = 0.1451,
        .frame_extra = 20,
    },
};

const unsigned chip_count = sizeof(chips) / sizeof(chips[0]);

const struct chip *chip_find(const char *name)
{
    for (unsigned i = 0; i < chip_count; i++) {
        if (strcmp(chips[i].name, name) == 0) {
            return &chips[i];
        }
    }
    return NULL;
}

double chip_pipe_words(const struct chip *c)
{
    return (double)c->stages * c->sram_blocks * c->sram_block_words;
}

double chip_pipe_tcam_blocks(const struct chip *c)
{
    return (double)c->stages * c->tcam_blocks;
}

unsigned chip_tcam_width(const struct chip *c, unsigned key_bits)
{
    unsigned width = (key_bits + c->tcam_block_bits - 1) / c->tcam_block_bits;

    return width ? width : 1;
}

double chip_pipe_tcam_rows(const struct chip *c, unsigned key_bits)
{
    return chip_pipe_tcam_blocks(c) / chip_tcam_width(c, key_bits) * c->tcam_block_rows;
}

double chip_cost(const struct chip *c, enum match_kind kind, double n,
                 unsigned key_bits, unsigned action_bits)
{
    const struct match_price *price = &c->price[kind];
    double entry = price->p * key_bits + price->q + price->per_bit * action_bits;

    return kind == MATCH_TERNARY ? n / c->tcam_block_rows * entry : n * entry;
}

/* A packet's share of the chip: its passes, and the bridge it carries in each. */
static double passes(const struct chip_path *path)
{
    return path->passes + path->extra_passes;
}

static double bridge_share(const struct chip *c, const struct chip_path *path,
                           double frame_bytes)
{
    double b = path->bridge_bytes;

    return 1 - b / (frame_bytes + c->frame_extra + b);
}

double chip_pps(const struct chip *c, const struct chip_path *path, double frame_bytes)
{
    double wire_bits = (frame_bytes + c->frame_extra) * 8;
    double by_bits =
        c->flat_bps / passes(path) * bridge_share(c, path, frame_bytes) / wire_bits;
    double by_packets = c->flat_pps / passes(path);

    return by_bits < by_packets ? by_bits : by_packets;
}

double chip_bps(const struct chip *c, const struct chip_path *path, double frame_bytes)
{
    return chip_pps(c, path, frame_bytes) * (frame_bytes + c->frame_extra) * 8;
}

double chip_line_rate_bytes(const struct chip *c, const struct chip_path *path)
{
    double bytes = c->flat_bps / c->flat_pps / 8 - c->frame_extra - path->bridge_bytes;

    return bytes > 0 ? bytes : 0;
}

double chip_latency_ns(const struct chip *c, const struct chip_path *path,
                       double frame_bytes)
{
    return passes(path) * c->pass_ns + frame_bytes * c->ns_per_byte;
}
