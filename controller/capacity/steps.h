/*
 * steps - how the paper's two big tables come to fit into a pipe, step by step
 * (Sailfish, figure 17 and table 2; CAPACITY.md).
 *
 * VXLAN routes and VM-NC entries, first each family in tables of its own and all of it
 * in every pipe; then folded, split, pooled, and with ALPM.  Percent of one pipe.
 *
 * Values only; any thread.
 */
#pragma once

#include "controller/capacity/chip.h"

struct steps_input {
    double routes;         /* 229,294 in the paper: what 311 % of TCAM are */
    double vm_nc;          /* 1,000,000 */
    double v6_share;       /* of both; 0.25 */
    unsigned bucket;       /* ALPM's B: slots of a partition; 16 */
    double fill;           /* share of slots that hold a route; 14 of 16 */
    double conflict_slots; /* of vm_nc_conflict, a half; 8,192 */
};

/* The paper's. */
extern const struct steps_input steps_paper;

enum step {
    STEP_NONE_V4,
    STEP_NONE_V6,
    STEP_NONE_MIX,
    STEP_FOLDING, /* this and the next: of the mix */
    STEP_SPLIT,
    STEP_POOLING,
    STEP_ALPM,
    STEPS
};

struct step_row {
    char name[24];  /* "none-v4", …, "none-75-25", "folding", … */
    char rule[200]; /* how the figures come about, with numbers */
    double sram_pct;
    double tcam_pct;
    double published_sram_pct; /* of the paper's input; 0 for another */
    double published_tcam_pct;
};

/* Works the table out.  `in` holds: routes and vm_nc at least 1, v6_share 0 to 1,
 * bucket 2 to 64, fill above 0 and at most 1. */
void steps_work_out(const struct chip *c, const struct steps_input *in,
                    struct step_row ret[STEPS]);
