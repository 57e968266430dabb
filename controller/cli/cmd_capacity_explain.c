/* xgwctl capacity explain: how tables come to fit into a chip, and that they do. */
#include "controller/cli/cmd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/capacity/alpm.h"
#include "controller/capacity/conflict.h"
#include "controller/capacity/profile.h"
#include "controller/capacity/steps.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_print.h"

#define ENTRIES_MAX 1e9
/* For packets a second at line rate; resources that are not traffic do not ask. */
#define FRAME_BYTES 512
/* Chance that a conflict table turns out too small. */
#define RISK 1e-9

struct explain {
    const struct chip *chip;
    struct steps_input in;
};

static enum rc read_chip(const struct cli *cli, const struct chip **ret,
                         struct err *err)
{
    const char *name = cli_option(cli, "chip");
    char names[128] = "";
    size_t n = 0;

    *ret = name ? chip_find(name) : &chips[0];
    if (*ret) {
        return RC_OK;
    }
    for (unsigned i = 0; i < chip_count && n < sizeof(names); i++) {
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
                              chips[i].name);
    }
    return err_field(err, RC_INVALID, "chip", "unknown_chip",
                     "--chip '%s': no such chip; there are %s", name, names);
}

static enum rc read_input(const struct cli *cli, struct explain *ret, struct err *err)
{
    double share = steps_paper.v6_share * 100;
    double fill = steps_paper.fill * 100;
    enum rc rc = read_chip(cli, &ret->chip, err);

    ret->in = steps_paper;
    if (rc != RC_OK ||
        (rc = cli_option_percent(cli, "v6-share", 0, 100, &share, err)) != RC_OK ||
        (rc = cli_option_number(cli, "routes", 1, ENTRIES_MAX, &ret->in.routes, err)) !=
            RC_OK ||
        (rc = cli_option_number(cli, "vm-nc", 1, ENTRIES_MAX, &ret->in.vm_nc, err)) !=
            RC_OK ||
        (rc = cli_option_whole(cli, "bucket", ALPM_BUCKET_MIN, ALPM_BUCKET_MAX,
                               &ret->in.bucket, err)) != RC_OK ||
        (rc = cli_option_percent(cli, "fill", 1, 100, &fill, err)) != RC_OK) {
        return rc;
    }
    ret->in.v6_share = share / 100;
    ret->in.fill = fill / 100;
    return RC_OK;
}

/* ---- the steps ---- */

static json_t *steps_json(const struct step_row rows[STEPS])
{
    json_t *steps = json_array();

    for (unsigned i = 0; i < STEPS; i++) {
        json_array_append_new(steps,
                              json_pack("{s:s, s:f, s:f}", "step", rows[i].name,
                                        "sram_pct", cli_round(rows[i].sram_pct, 2),
                                        "tcam_pct", cli_round(rows[i].tcam_pct, 2)));
    }
    return json_pack("{s:o}", "steps", steps);
}

/* "58.0 (58)": worked out, and published where the input is the paper's. */
static void add_figure(json_t *row, const char *key, double pct, double published)
{
    char text[32];

    if (published > 0) {
        snprintf(text, sizeof(text), "%.1f (%g)", pct, published);
    } else {
        snprintf(text, sizeof(text), "%.1f", pct);
    }
    json_object_set_new(row, key, json_string(text));
}

static void print_steps(const struct explain *e, const struct step_row rows[STEPS],
                        struct buf *to)
{
    static const struct cli_column columns[] = { { "STEP", "step" },
                                                 { "SRAM %", "sram" },
                                                 { "TCAM %", "tcam" },
                                                 { "RULE", "rule" },
                                                 { NULL, NULL } };
    json_t *items = json_array();
    const struct step_row *end = &rows[STEP_ALPM];

    for (unsigned i = 0; i < STEPS; i++) {
        json_t *row =
            json_pack("{s:s, s:s}", "step", rows[i].name, "rule", rows[i].rule);

        add_figure(row, "sram", rows[i].sram_pct, rows[i].published_sram_pct);
        add_figure(row, "tcam", rows[i].tcam_pct, rows[i].published_tcam_pct);
        json_array_append_new(items, row);
    }
    buf_printf(to,
               "%s: %u pipes x %u stages x (%u SRAM blocks of %u x %u bit, %u TCAM "
               "blocks of %u x %u bit)\n",
               e->chip->name, e->chip->pipes, e->chip->stages, e->chip->sram_blocks,
               e->chip->sram_block_words, e->chip->sram_word_bits, e->chip->tcam_blocks,
               e->chip->tcam_block_rows, e->chip->tcam_block_bits);
    buf_printf(to,
               "Two tables, %.0f routes and %.0f VM-NC entries, percent of one pipe "
               "(%.0f words, %.0f blocks)%s\n\n",
               e->in.routes, e->in.vm_nc, chip_pipe_words(e->chip),
               chip_pipe_tcam_blocks(e->chip),
               rows[0].published_sram_pct > 0 ? "; in brackets what was published"
                                              : "");
    cli_table(items, columns, to);
    json_decref(items);
    for (unsigned i = STEP_NONE_V4; i <= STEP_NONE_MIX; i++) {
        buf_printf(to, "%s to %s: SRAM %+.0f %%, TCAM %+.0f %%\n", rows[i].name,
                   end->name, 100 * (end->sram_pct / rows[i].sram_pct - 1),
                   100 * (end->tcam_pct / rows[i].tcam_pct - 1));
    }
}

/* ---- our own layout ---- */

static const char *const pipe_names[LAYOUT_PIPES] = { "A (0/2)", "B (1/3)" };
static const char *const match_names[MATCH_KINDS] = { "exact", "ternary", "atcam",
                                                      "index" };

static json_t *tables_json(const struct layout *l, const struct chip *c)
{
    json_t *tables = json_array();

    for (unsigned i = 0; i < l->table_count; i++) {
        const struct layout_table *t = &l->tables[i];
        double words = layout_table_words(t);
        double blocks = layout_table_tcam_blocks(t, c);

        json_array_append_new(
            tables,
            json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:f, s:f, s:f, s:s}", "table",
                      t->name, "pipe", pipe_names[t->pipe], "match",
                      match_names[t->match], "halved", t->is_halved, "entries",
                      (json_int_t)t->entries, "usable",
                      (json_int_t)layout_table_usable(t, c), "words_each",
                      cli_round(t->words, 4), "sram_pct",
                      cli_round(100 * words / chip_pipe_words(c), 2), "tcam_pct",
                      cli_round(100 * blocks / chip_pipe_tcam_blocks(c), 2), "source",
                      t->source));
    }
    return tables;
}

/* What a node can run out of: whatever its profile lists. */
static json_t *resources_json(const struct layout *l, const struct chip *c)
{
    json_t *resources = json_array();
    struct profile p;

    profile_init_h(&p, l, c, FRAME_BYTES);
    for (unsigned i = 0; i < p.set.count; i++) {
        const struct resource *r = &p.set.at[i];
        double capacity = (double)p.set.capacity[i] / r->scale;

        json_array_append_new(resources, json_pack("{s:s, s:s, s:b, s:f, s:s}",
                                                   "resource", r->name, "unit", r->unit,
                                                   "per_half", r->per_half, "capacity",
                                                   floor(capacity), "what", r->what));
    }
    return resources;
}

static json_t *layout_json(const struct layout *l, const struct chip *c)
{
    struct layout_fit fit = layout_fit(l, c);
    json_t *pipes = json_array();

    for (unsigned p = 0; p < LAYOUT_PIPES; p++) {
        json_array_append_new(
            pipes,
            json_pack(
                "{s:s, s:f, s:f, s:f, s:f, s:f, s:i}", "pipe", pipe_names[p],
                "sram_pct", cli_round(100 * fit.pipe[p].sram_share, 2), "tcam_pct",
                cli_round(100 * fit.pipe[p].tcam_share, 2), "reported_sram_pct",
                cli_round(100 * l->reported[p].sram_share, 2), "reported_tcam_pct",
                cli_round(100 * l->reported[p].tcam_share, 2), "reported_phv_pct",
                cli_round(100 * l->reported[p].phv_share, 2), "reported_stages",
                (int)l->reported[p].stages));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:{s:f, s:f}}", "layout", l->name, "tables",
                     tables_json(l, c), "pipes", pipes, "resources",
                     resources_json(l, c), "pair", "sram_pct",
                     cli_round(100 * fit.sram_share, 2), "tcam_pct",
                     cli_round(100 * fit.tcam_share, 2));
}

/* What the layout holds, in numbers that an operator asks for. */
static void print_holds(const struct layout *l, const struct chip *c, struct buf *to)
{
    const struct layout_table *conflict = layout_table(l, "vm_nc_conflict");
    double rows = 2 * layout_table_usable(layout_table(l, "route_tcam"), c);
    double half = layout_table_usable(layout_table(l, "vm_nc"), c) +
                  layout_table_usable(layout_table(l, "vm_nc_spill"), c);
    double room = layout_table_usable(conflict, c);

    buf_printf(to,
               "Holds %.0f routes (%.0f rows x %g; random prefixes %.0f, for they fill "
               "partitions to %.2f), %.0f VM-NC, %.0f VNIs.\n",
               rows * l->routes_per_row, rows, l->routes_per_row,
               rows * l->partition_slots * alpm_random_fill(l->partition_slots),
               alpm_random_fill(l->partition_slots), 2 * half,
               layout_table_usable(layout_table(l, "vni"), c));
    buf_printf(
        to,
        "Conflicts: a half full of one VNI's random v6 addresses (%.0f) has %.0f, "
        "at most %llu but for a chance of %g; the table's %.0f would do for %.1f "
        "million.\n",
        half, conflict_expected(half),
        (unsigned long long)conflict_bound(conflict_expected(half), RISK), RISK, room,
        conflict_addresses((uint64_t)room, RISK) / 1e6);
    buf_printf(to,
               "Carries %.1f Tbit/s and %.1f Gpps folded; line rate from %.0f B; %.2f "
               "µs at 128 B, %.2f µs at 1,024 B; a peer hop %.2f µs more.\n",
               chip_bps(c, &l->path, 1500) / 1e12, chip_pps(c, &l->path, 64) / 1e9,
               chip_line_rate_bytes(c, &l->path),
               chip_latency_ns(c, &l->path, 128) / 1e3,
               chip_latency_ns(c, &l->path, 1024) / 1e3, c->pass_ns / 1e3);
}

static void print_layout(const struct layout *l, const struct chip *c, struct buf *to)
{
    static const struct cli_column tables[] = { { "TABLE", "table" },
                                                { "PIPE", "pipe" },
                                                { "MATCH", "match" },
                                                { "ENTRIES", "entries" },
                                                { "WORDS EACH", "words_each" },
                                                { "SRAM %", "sram_pct" },
                                                { "TCAM %", "tcam_pct" },
                                                { "WHY", "source" },
                                                { NULL, NULL } };
    static const struct cli_column pipes[] = { { "PIPE", "pipe" },
                                               { "SRAM %", "sram_pct" },
                                               { "TCAM %", "tcam_pct" },
                                               { "COMPILER: SRAM %",
                                                 "reported_sram_pct" },
                                               { "TCAM %", "reported_tcam_pct" },
                                               { "PHV %", "reported_phv_pct" },
                                               { "STAGES", "reported_stages" },
                                               { NULL, NULL } };
    static const struct cli_column resources[] = {
        { "RESOURCE", "resource" }, { "UNIT", "unit" }, { "PER HALF", "per_half" },
        { "CAPACITY", "capacity" }, { "WHAT", "what" }, { NULL, NULL }
    };
    json_t *json = layout_json(l, c);
    json_t *pair = json_object_get(json, "pair");

    buf_printf(to, "\nOur image, %s, percent of a pipe\n\n", l->name);
    cli_table(json_object_get(json, "tables"), tables, to);
    buf_text(to, "\n");
    cli_table(json_object_get(json, "pipes"), pipes, to);
    buf_text(to, "Over the pair: SRAM ");
    cli_cell(json_object_get(pair, "sram_pct"), to);
    buf_text(to, " %, TCAM ");
    cli_cell(json_object_get(pair, "tcam_pct"), to);
    buf_printf(
        to,
        " %% (compiler: %.1f and %.1f; Sailfish with its production tables, which "
        "it does not size: 69 and 32).\n",
        50 * (l->reported[PIPE_A].sram_share + l->reported[PIPE_B].sram_share),
        50 * (l->reported[PIPE_A].tcam_share + l->reported[PIPE_B].tcam_share));
    print_holds(l, c, to);
    buf_text(to, "\nWhat a node can run out of\n\n");
    cli_table(json_object_get(json, "resources"), resources, to);
    json_decref(json);
}

enum cli_exit cmd_capacity_explain(struct cli *cli)
{
    struct explain e;
    struct step_row rows[STEPS];
    struct err err = { 0 };
    struct buf text = BUF_INIT;
    json_t *json;

    if (read_input(cli, &e, &err) != RC_OK) {
        return cli_fail(&err);
    }
    steps_work_out(e.chip, &e.in, rows);
    if (cli->settings.output == CLI_TABLE) {
        if (!cli_option(cli, "layout")) {
            print_steps(&e, rows, &text);
        }
        print_layout(&layout_xgw_h, e.chip, &text);
        cli_print_buf(&text);
        return CLI_OK;
    }
    json = cli_option(cli, "layout") ? layout_json(&layout_xgw_h, e.chip)
                                     : steps_json(rows);
    cli_print_json(json, (enum cli_output)cli->settings.output);
    json_decref(json);
    return CLI_OK;
}
