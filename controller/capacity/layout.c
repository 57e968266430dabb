#include "controller/capacity/layout.h"

#include <string.h>

/* Sizes equal phys_sizes_tofino() of agent/xgwh, which a test holds.  Prices are the
 * fit's (p4/README.md, "Fit"): what the compiler took for the table, in blocks of 1,024
 * words. */
#define BLOCKS(blocks, entries) ((blocks)*1024.0 / (entries))

static const struct layout_table xgw_h_tables[] = {
    /* ingress and egress A */
    { "vtep", PIPE_A, MATCH_TERNARY, .key_bits = 161, .entries = 64,
      .source = "v4 flag, both addresses; no action data" },
    { "source", PIPE_A, MATCH_TERNARY, .key_bits = 161, .entries = 512, .words = 2,
      .source = "v4 flag, both addresses; no action data" },
    { "inner_dst", PIPE_A, MATCH_TERNARY, .key_bits = 129, .entries = 512, .words = 2,
      .source = "fixed rows; v6 flag, pooled address" },
    { "checks", PIPE_A, MATCH_TERNARY, .key_bits = 157, .entries = 512, .words = 2,
      .source = "fixed rows, one a check; 512 is the least" },
    { "vni", PIPE_A, MATCH_EXACT, .is_hash = true, .key_bits = 24, .entries = 262144,
      .words = BLOCKS(103, 262144), .resource = "vni",
      .source = "4 entries a word (86 blocks) and 26 bits of action" },
    { "acl", PIPE_A, MATCH_TERNARY, .key_bits = 194 + 128, .entries = 1024, .words = 1,
      .resource = "acl", .source = "VNI, both addresses, protocol, ports" },
    { "meter", PIPE_A, MATCH_INDEX, .entries = 24576, .reserved = 1,
      .words = BLOCKS(50, 24576), .resource = "meter",
      .source =
          "1 block per 1,024 meters and as many of counters, and a spare of each" },
    { "fallback_meters", PIPE_A, MATCH_INDEX, .entries = 8192,
      .words = BLOCKS(12, 8192),
      .source = "2 classes x 4,096 buckets, the classes themselves, a spare of each" },
    { "fallback_group", PIPE_A, MATCH_EXACT, .key_bits = 11, .entries = 2048,
      .words = 0.5, .source = "1 block" },
    { "vm_nc_spill", PIPE_A, MATCH_EXACT, .is_halved = true, .is_hash = true,
      .key_bits = 57, .entries = 393216, .words = BLOCKS(227, 393216),
      .resource = "vm_nc",
      .source = "2 entries a word and 17 bits of action, partly beside the key" },
    /* One table of the image; the index's highest bit says the family. */
    { "nc", PIPE_A, MATCH_INDEX, .entries = 65536, .reserved = 16,
      .words = BLOCKS(158, 131072), .resource = "nc_v4",
      .source = "158 blocks for 128 k x 128 bit; the half for IPv4" },
    { "nc", PIPE_A, MATCH_INDEX, .entries = 65536, .reserved = 16,
      .words = BLOCKS(158, 131072), .resource = "nc_v6",
      .source = "158 blocks for 128 k x 128 bit; the half for IPv6" },
    { "port_out", PIPE_A, MATCH_EXACT, .key_bits = 11, .entries = 1024, .words = 5,
      .source = "224 bits of action and the match" },
    { "drop_reason", PIPE_A, MATCH_INDEX, .entries = 512, .words = BLOCKS(4, 512),
      .source = "256 counters in either gress, and a spare of each" },
    { "port_rx", PIPE_A, MATCH_INDEX, .entries = 512, .words = BLOCKS(2, 512),
      .source = "512 counters, and a spare" },
    { "port_tx", PIPE_A, MATCH_INDEX, .entries = 512, .words = BLOCKS(2, 512),
      .source = "512 counters, and a spare" },

    /* egress and ingress B */
    { "route_tcam", PIPE_B, MATCH_TERNARY, .is_halved = true, .key_bits = 152,
      .entries = 9216, .reserved = 1, .words = BLOCKS(10, 9216), .resource = "route",
      .source = "72 bits of action: partition and covering result" },
    { "route_part", PIPE_B, MATCH_ATCAM, .is_halved = true, .key_bits = 152,
      .entries = 147456, .words = 3,
      .source =
          "2 entries in 5 blocks and half a word of action; a slot, used or not" },
    { "vm_nc_conflict", PIPE_B, MATCH_EXACT, .is_halved = true, .is_hash = true,
      .key_bits = 152, .entries = 8192, .words = BLOCKS(14, 8192),
      .resource = "conflict", .source = "1.5 words and 17 bits of action" },
    { "vm_nc", PIPE_B, MATCH_EXACT, .is_halved = true, .is_hash = true, .key_bits = 57,
      .entries = 524288, .words = BLOCKS(318, 524288), .resource = "vm_nc",
      .source = "2 entries a word and 17 bits of action, 8 a word" },
    { "outcome", PIPE_B, MATCH_TERNARY, .key_bits = 28, .entries = 512, .words = 2,
      .source = "fixed rows" },
    { "next_hop", PIPE_B, MATCH_EXACT, .key_bits = 9, .entries = 512, .words = 2,
      .source = "1 block" },
    { "drop_reason", PIPE_B, MATCH_INDEX, .entries = 256, .words = BLOCKS(2, 256),
      .source = "256 counters, and a spare" },
};
#undef BLOCKS

const struct layout layout_xgw_h = {
    .name = "xgw-h",
    .tables = xgw_h_tables,
    .table_count = sizeof(xgw_h_tables) / sizeof(xgw_h_tables[0]),
    .partitions = 9216,
    .partition_slots = 16,
    .routes_per_row = 13,
    /* The 14-byte bridge replaces the 14 bytes of the outer Ethernet header. */
    .path = { .passes = 2 },
    .reported = { { 0.595, 0.111, 0.50, 11 }, { 0.810, 0.257, 0.21, 12 } },
};

const struct layout_table *layout_table(const struct layout *l, const char *name)
{
    for (unsigned i = 0; i < l->table_count; i++) {
        if (strcmp(l->tables[i].name, name) == 0) {
            return &l->tables[i];
        }
    }
    return NULL;
}

double layout_table_words(const struct layout_table *t)
{
    return t->entries * t->words;
}

double layout_table_tcam_blocks(const struct layout_table *t, const struct chip *c)
{
    unsigned deep = (t->entries + c->tcam_block_rows - 1) / c->tcam_block_rows;

    return t->match == MATCH_TERNARY ? deep * chip_tcam_width(c, t->key_bits) : 0;
}

double layout_table_usable(const struct layout_table *t, const struct chip *c)
{
    double usable = t->is_hash ? t->entries * c->hash_load : t->entries;

    return usable - t->reserved;
}

struct layout_fit layout_fit(const struct layout *l, const struct chip *c)
{
    struct layout_fit fit = { 0 };

    for (unsigned i = 0; i < l->table_count; i++) {
        const struct layout_table *t = &l->tables[i];

        fit.pipe[t->pipe].words += layout_table_words(t);
        fit.pipe[t->pipe].tcam_blocks += layout_table_tcam_blocks(t, c);
    }
    for (unsigned p = 0; p < LAYOUT_PIPES; p++) {
        fit.pipe[p].sram_share = fit.pipe[p].words / chip_pipe_words(c);
        fit.pipe[p].tcam_share = fit.pipe[p].tcam_blocks / chip_pipe_tcam_blocks(c);
        fit.sram_share += fit.pipe[p].sram_share / LAYOUT_PIPES;
        fit.tcam_share += fit.pipe[p].tcam_share / LAYOUT_PIPES;
    }
    return fit;
}
