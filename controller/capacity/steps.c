#include "controller/capacity/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VNI_BITS 24
#define V4_BITS  (VNI_BITS + 32)
#define V6_BITS  (VNI_BITS + 128)

/* SRAM words an entry (CAPACITY.md): two IPv4 entries a word, two words for an IPv6
 * one; P4.md: with 17 bits of action 0.625, a conflict entry 1.5. */
#define V4_WORDS       0.5
#define V6_WORDS       2.0
#define POOLED_WORDS   0.625
#define CONFLICT_WORDS 1.5
/* Key and mask of two slots in five words, and 16 bits of action: 3.0 words a route
 * with 14 of 16 slots used, as published. */
#define SLOT_WORDS 2.625

/* Folding spreads tables over two pipes, splitting halves what each of those holds. */
#define FOLDED 2
#define SPLIT  2

const struct steps_input steps_paper = {
    .routes = 229294,
    .vm_nc = 1e6,
    .v6_share = 0.25,
    .bucket = 16,
    .fill = 14.0 / 16,
    .conflict_slots = 8192,
};

static const struct {
    double sram_pct;
    double tcam_pct;
} published[STEPS] = {
    [STEP_NONE_V4] = { 58, 311 },   [STEP_NONE_V6] = { 233, 622 },
    [STEP_NONE_MIX] = { 102, 389 }, [STEP_FOLDING] = { 51, 194 },
    [STEP_SPLIT] = { 26, 97 },      [STEP_POOLING] = { 18, 156 },
    [STEP_ALPM] = { 36, 11 },
};

struct work {
    const struct chip *chip;
    const struct steps_input *in;
    struct step_row *rows;
    double words; /* of a pipe */
};

static bool is_paper(const struct work *w)
{
    const struct steps_input *a = w->in;
    const struct steps_input *b = &steps_paper;

    return w->chip == &chips[0] && a->routes == b->routes && a->vm_nc == b->vm_nc &&
           a->v6_share == b->v6_share && a->bucket == b->bucket && a->fill == b->fill &&
           a->conflict_slots == b->conflict_slots;
}

static void set(struct work *w, enum step step, const char *name, double sram_pct,
                double tcam_pct)
{
    struct step_row *row = &w->rows[step];

    snprintf(row->name, sizeof(row->name), "%s", name);
    row->sram_pct = sram_pct;
    row->tcam_pct = tcam_pct;
    if (is_paper(w)) {
        row->published_sram_pct = published[step].sram_pct;
        row->published_tcam_pct = published[step].tcam_pct;
    }
}

static void none(struct work *w, enum step step, const char *name, unsigned key_bits,
                 double entry_words)
{
    double rows = chip_pipe_tcam_rows(w->chip, key_bits);
    double load = w->chip->hash_load;

    set(w, step, name, 100 * w->in->vm_nc * entry_words / load / w->words,
        100 * w->in->routes / rows);
    snprintf(w->rows[step].rule, sizeof(w->rows[step].rule),
             "%.0f routes / %.0f rows of %u bit (%u blocks wide); %.0f VM-NC x %g word "
             "/ %g load",
             w->in->routes, rows, key_bits, chip_tcam_width(w->chip, key_bits),
             w->in->vm_nc, entry_words, load);
}

static void mix(struct work *w)
{
    double v6 = w->in->v6_share;
    const struct step_row *a = &w->rows[STEP_NONE_V4];
    const struct step_row *b = &w->rows[STEP_NONE_V6];
    char name[24];

    snprintf(name, sizeof(name), "none-%g-%g", 100 - round(1000 * v6) / 10,
             round(1000 * v6) / 10);
    set(w, STEP_NONE_MIX, name, (1 - v6) * a->sram_pct + v6 * b->sram_pct,
        (1 - v6) * a->tcam_pct + v6 * b->tcam_pct);
    snprintf(w->rows[STEP_NONE_MIX].rule, sizeof(w->rows[STEP_NONE_MIX].rule),
             "%g x none-v4 + %g x none-v6: a table a family", 1 - v6, v6);
}

static void divide(struct work *w, enum step step, const char *name, unsigned by,
                   const char *rule)
{
    const struct step_row *before = &w->rows[step - 1];

    set(w, step, name, before->sram_pct / by, before->tcam_pct / by);
    snprintf(w->rows[step].rule, sizeof(w->rows[step].rule), "/ %u: %s", by, rule);
}

static void pooling(struct work *w)
{
    struct step_row *row = &w->rows[STEP_POOLING];
    double rows = chip_pipe_tcam_rows(w->chip, V6_BITS);
    double vm_nc = w->in->vm_nc * POOLED_WORDS / w->chip->hash_load;
    double conflicts = SPLIT * w->in->conflict_slots * CONFLICT_WORDS;

    set(w, STEP_POOLING, "pooling",
        100 * (vm_nc + conflicts) / w->words / (FOLDED * SPLIT),
        100 * w->in->routes / rows / (FOLDED * SPLIT));
    snprintf(row->rule, sizeof(row->rule),
             "all routes %u bit; all VM-NC 32-bit keys at %g word (17 bits of action); "
             "%d conflict tables of %.0f x %g words",
             V6_BITS, POOLED_WORDS, SPLIT, w->in->conflict_slots, CONFLICT_WORDS);
}

static void alpm(struct work *w)
{
    struct step_row *row = &w->rows[STEP_ALPM];
    double each = w->in->bucket * w->in->fill; /* routes a row */
    double rows = w->in->routes / each;
    double words = rows * w->in->bucket * SLOT_WORDS;

    set(w, STEP_ALPM, "alpm",
        w->rows[STEP_POOLING].sram_pct + 100 * words / w->words / (FOLDED * SPLIT),
        100 * rows / chip_pipe_tcam_rows(w->chip, V6_BITS) / (FOLDED * SPLIT));
    snprintf(
        row->rule, sizeof(row->rule),
        "%.4g routes a row (%u slots, %.3g full); a slot %g words, so %.3g a route",
        each, w->in->bucket, w->in->fill, SLOT_WORDS, SLOT_WORDS / w->in->fill);
}

void steps_work_out(const struct chip *c, const struct steps_input *in,
                    struct step_row ret[STEPS])
{
    struct work w = { c, in, ret, chip_pipe_words(c) };

    memset(ret, 0, STEPS * sizeof(*ret));
    none(&w, STEP_NONE_V4, "none-v4", V4_BITS, V4_WORDS);
    none(&w, STEP_NONE_V6, "none-v6", V6_BITS, V6_WORDS);
    mix(&w);
    divide(&w, STEP_FOLDING, "folding", FOLDED,
           "tables lie in two pipes, one behind the other");
    divide(&w, STEP_SPLIT, "split", SPLIT,
           "each pipe of a pair holds half the entries");
    pooling(&w);
    alpm(&w);
}
