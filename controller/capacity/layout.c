#include "controller/capacity/layout.h"

#include <string.h>

/* Sizes and prices of the study that the image was designed by (P4.md: bf-p4c 9.13.4,
 * tofino); sizes equal phys_sizes_tofino() of agent/xgwh, which a test holds. */
static const struct layout_table xgw_h_tables[] = {
    /* ingress and egress A */
    { "vtep", PIPE_A, MATCH_TERNARY, .key_bits = 161, .entries = 64,
      .source = "v4 flag, both addresses; no action data" },
    { "source", PIPE_A, MATCH_TERNARY, .key_bits = 161, .entries = 512,
      .source = "v4 flag, both addresses; no action data" },
    { "vni", PIPE_A, MATCH_EXACT, .is_hash = true, .key_bits = 24, .entries = 262144,
      .words = 0.3125, .resource = "vni",
      .source = "4 entries a word and 26 bits of action, packed; the rest of pipe A's "
                "fitted report" },
    { "acl", PIPE_A, MATCH_TERNARY, .key_bits = 200, .entries = 1024, .resource = "acl",
      .source = "VNI, destination, protocols, ports" },
    { "meter", PIPE_A, MATCH_INDEX, .entries = 24576, .reserved = 1, .words = 2,
      .resource = "meter", .source = "1 RAM per 1,024 meters and one of counters" },
    { "fallback_meters", PIPE_A, MATCH_INDEX, .entries = 8192, .words = 1,
      .source = "2 classes x 4,096 buckets, 1 RAM per 1,024" },
    { "fallback_group", PIPE_A, MATCH_EXACT, .key_bits = 11, .entries = 2048,
      .words = 1, .source = "2 RAMs" },
    { "vm_nc_spill", PIPE_A, MATCH_EXACT, .is_halved = true, .is_hash = true,
      .key_bits = 57, .entries = 393216, .words = 0.625, .resource = "vm_nc",
      .source = "2 entries a word and 17 bits of action, 8 a word" },
    /* One table of the image; the index's highest bit says the family. */
    { "nc", PIPE_A, MATCH_INDEX, .entries = 65536, .reserved = 16, .words = 155.0 / 128,
      .resource = "nc_v4",
      .source = "155 RAMs for 128 k x 128 bit; the half for IPv4" },
    { "nc", PIPE_A, MATCH_INDEX, .entries = 65536, .reserved = 16, .words = 155.0 / 128,
      .resource = "nc_v6",
      .source = "155 RAMs for 128 k x 128 bit; the half for IPv6" },
    { "port_out", PIPE_A, MATCH_EXACT, .key_bits = 11, .entries = 1024, .words = 3,
      .source = "224 bits of action and the match" },

    /* egress and ingress B */
    { "route_tcam", PIPE_B, MATCH_TERNARY, .is_halved = true, .key_bits = 152,
      .entries = 9216, .reserved = 1, .words = 1, .resource = "route",
      .source = "72 bits of action: partition and covering result" },
    { "route_part", PIPE_B, MATCH_ATCAM, .is_halved = true, .key_bits = 152,
      .entries = 147456, .words = 3,
      .source = "2 entries in 5 RAMs and half a word of action; a slot, used or not" },
    { "vm_nc_conflict", PIPE_B, MATCH_EXACT, .is_halved = true, .is_hash = true,
      .key_bits = 152, .entries = 8192, .words = 1.5, .resource = "conflict",
      .source = "1.5 words an entry" },
    { "vm_nc", PIPE_B, MATCH_EXACT, .is_halved = true, .is_hash = true, .key_bits = 57,
      .entries = 524288, .words = 0.625, .resource = "vm_nc",
      .source = "2 entries a word and 17 bits of action, 8 a word" },
    { "next_hop", PIPE_B, MATCH_EXACT, .key_bits = 9, .entries = 512, .words = 1,
      .source = "1 RAM at least" },
};

const struct layout layout_xgw_h = {
    .name = "xgw-h",
    .tables = xgw_h_tables,
    .table_count = sizeof(xgw_h_tables) / sizeof(xgw_h_tables[0]),
    .partitions = 9216,
    .partition_slots = 16,
    .routes_per_row = 13,
    /* The 12-byte bridge replaces the 14 bytes of the outer Ethernet header. */
    .path = { .passes = 2 },
    .reported = { { 0.561, 0.062, 0.44, 12 }, { 0.773, 0.250, 0.21, 12 } },
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
