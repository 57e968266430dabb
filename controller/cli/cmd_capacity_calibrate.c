/* xgwctl capacity calibrate: what a packet costs on this machine, fitted and tried. */
#include "controller/cli/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/capacity/latency.h"
#include "controller/cli/capacity_points.h"
#include "controller/cli/cli_number.h"
#include "controller/cli/cli_print.h"

#define GOAL_PCT 15  /* of a configuration that was not in the fit */
#define LEVEL    0.5 /* of a core, for which latency is given: the design water level */

/* Measured to fit: tables in each cache and beyond (two sizes, or the cache's size and
 * the line's cost could not be told apart), none to two peers, short and full bursts.
 */
static const struct points_config fitted[] = {
    { 1000, 0, 8 },    { 1000, 0, 64 },    { 1000, 1, 8 },    { 1000, 1, 64 },
    { 1000, 2, 8 },    { 1000, 2, 64 },    { 16000, 0, 8 },   { 16000, 0, 64 },
    { 16000, 1, 8 },   { 16000, 1, 64 },   { 16000, 2, 8 },   { 16000, 2, 64 },
    { 128000, 0, 8 },  { 128000, 0, 64 },  { 128000, 1, 8 },  { 128000, 1, 64 },
    { 128000, 2, 8 },  { 128000, 2, 64 },  { 400000, 0, 8 },  { 400000, 0, 64 },
    { 400000, 2, 8 },  { 400000, 2, 64 },  { 1000000, 0, 8 }, { 1000000, 0, 64 },
    { 1000000, 1, 8 }, { 1000000, 1, 64 }, { 2000000, 0, 8 }, { 2000000, 0, 64 },
};
/* Measured to try the fit: sizes, bursts and a chain that it has not seen. */
static const struct points_config unseen[] = { { 250000, 0, 32 },
                                               { 700000, 1, 32 },
                                               { 60000, 3, 64 } };
#define FITTED (sizeof(fitted) / sizeof(fitted[0]))
#define UNSEEN (sizeof(unseen) / sizeof(unseen[0]))

/* ---- measuring and fitting ---- */

static bool is_unseen(const struct points_config *c)
{
    for (unsigned i = 0; i < UNSEEN; i++) {
        if (memcmp(c, &unseen[i], sizeof(*c)) == 0) {
            return true;
        }
    }
    return false;
}

static enum rc load(const char *path, json_t **ret, struct err *err)
{
    json_error_t where;

    *ret = json_load_file(path, 0, &where);
    return *ret ? RC_OK
                : err_field(err, RC_INVALID, "points", "file", "%s: line %d: %s", path,
                            where.line, where.text);
}

static enum rc measure(const struct cli *cli, json_t **ret, struct err *err)
{
    struct points_config all[FITTED + UNSEEN];
    uint32_t runs = 5;
    enum rc rc = cli_option_whole(cli, "runs", 1, 25, &runs, err);

    if (rc != RC_OK) {
        return rc;
    }
    memcpy(all, fitted, sizeof(fitted));
    memcpy(all + FITTED, unseen, sizeof(unseen));
    fputs("xgwctl: measuring, half a minute\n", stderr);
    return points_measure(cli_option(cli, "program"), runs, all, FITTED + UNSEEN, ret,
                          err);
}

static enum rc fit(const struct points *points, double io, struct core_fit *ret,
                   struct err *err)
{
    struct core_point at[POINTS_MAX];
    struct core_params given = { .io = io,
                                 .l2_bytes = points->l2_bytes,
                                 .l3_bytes = points->l3_bytes,
                                 .entry_bytes = points->entry_bytes,
                                 .hz = points->tsc_hz };
    size_t count = 0;

    if (!(given.l2_bytes > 0) || !(given.l3_bytes > 0)) {
        given.l2_bytes = core_published.l2_bytes;
        given.l3_bytes = core_published.l3_bytes;
    }
    for (unsigned i = 0; i < points->count; i++) {
        if (!is_unseen(&points->at[i].config)) {
            at[count].config = points_core_config(&points->at[i].config);
            at[count++].cycles = points->at[i].cycles;
        }
    }
    return core_fit(at, count, &given, ret, err);
}

/* ---- results ---- */

static json_t *prediction_json(const struct core_params *p,
                               const struct points_config *c, double measured)
{
    struct core_config config = points_core_config(c);
    double cycles = core_cycles(p, &config) - p->io;
    json_t *json =
        json_pack("{s:i, s:i, s:i, s:f, s:f}", "entries", (int)c->entries, "hops",
                  (int)c->hops, "burst", (int)c->burst, "cycles", cli_round(cycles, 1),
                  "mpps_a_core", cli_round(core_pps(p, &config) / 1e6, 3));

    if (measured > 0) {
        json_object_set_new(json, "measured", json_real(cli_round(measured, 1)));
        json_object_set_new(json, "error_pct",
                            json_real(cli_round(100 * (cycles / measured - 1), 2)));
    }
    return json;
}

/* What the fit says of what it has not seen; `*ret_worst` in percent. */
static json_t *predictions_json(const struct points *points,
                                const struct core_params *p, double *ret_worst)
{
    json_t *array = json_array();

    *ret_worst = 0;
    for (unsigned i = 0; i < points->count; i++) {
        if (is_unseen(&points->at[i].config)) {
            json_t *one =
                prediction_json(p, &points->at[i].config, points->at[i].cycles);

            *ret_worst = fmax(*ret_worst,
                              fabs(json_real_value(json_object_get(one, "error_pct"))));
            json_array_append_new(array, one);
        }
    }
    return array;
}

/* A core at half its load, 1 M entries: our worker sends what it has. */
static json_t *latency_json(const struct points *points, const struct core_params *p)
{
    struct core_config config = { 1e6, 2, false, 32 };
    double pps = core_pps(p, &config);
    struct latency_params l = { .service_ns = 1e9 / pps,
                                .batch = 1,
                                .interrupts_hz = points->gaps_per_s,
                                .interrupt_ns = points->gap_ns };

    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f}", "interrupts_per_s",
        cli_round(points->gaps_per_s, 1), "interrupt_us",
        cli_round(points->gap_ns / 1e3, 2), "longest_us",
        cli_round(points->gap_max_ns / 1e3, 1), "p50_us",
        cli_round(latency_quantile(&l, LEVEL * pps, 1, 0.5) / 1e3, 3), "p99_us",
        cli_round(latency_quantile(&l, LEVEL * pps, 1, 0.99) / 1e3, 3), "p999_us",
        cli_round(latency_quantile(&l, LEVEL * pps, 1, 0.999) / 1e3, 3));
}

static void print_table(json_t *json)
{
    static const struct cli_column columns[] = { { "ENTRIES", "entries" },
                                                 { "PEERS", "hops" },
                                                 { "BURST", "burst" },
                                                 { "CYCLES", "cycles" },
                                                 { "MEASURED", "measured" },
                                                 { "ERROR %", "error_pct" },
                                                 { "MPPS A CORE", "mpps_a_core" },
                                                 { NULL, NULL } };
    struct buf text = BUF_INIT;
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(json, "parameters"), key, value)
    {
        buf_printf(&text, "%-16s ", key);
        cli_cell(value, &text);
        buf_text(&text, "\n");
    }
    if (json_object_get(json, "fit")) {
        buf_text(&text, "\nfit over ");
        cli_cell(json_object_get(json_object_get(json, "fit"), "points"), &text);
        buf_text(&text, " points: root mean square error ");
        cli_cell(json_object_get(json_object_get(json, "fit"), "rms_pct"), &text);
        buf_text(&text, " %, worst ");
        cli_cell(json_object_get(json_object_get(json, "fit"), "worst_pct"), &text);
        buf_text(&text, " %\n");
    }
    buf_text(&text, "\nconfigurations that were not in it, cycles without I/O:\n");
    cli_table(json_object_get(json, "predictions"), columns, &text);
    json_object_foreach(json_object_get(json, "latency"), key, value)
    {
        buf_printf(&text, "%s%s ", key[0] == 'i' && key[9] == 's' ? "\n" : "  ", key);
        cli_cell(value, &text);
    }
    buf_text(&text, "\n");
    cli_print_buf(&text);
}

static void print(const struct cli *cli, json_t *json)
{
    if (cli->settings.output == CLI_TABLE) {
        print_table(json);
    } else {
        cli_print_json(json, (enum cli_output)cli->settings.output);
    }
}

/* ---- the command ---- */

static enum rc save(const char *path, const json_t *json, struct err *err)
{
    return json_dump_file(json, path, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) == 0
               ? RC_OK
               : err_field(err, RC_INVALID, "save", "file", "%s: %s", path,
                           strerror(errno));
}

/* Adds what --predict asks for. */
static enum rc add_asked(const struct cli *cli, const struct core_params *p,
                         json_t *predictions, struct err *err)
{
    const char *text = cli_option(cli, "predict");
    struct points_config c;

    if (!text) {
        return RC_OK;
    }
    if (points_config_parse(text, &c, err) != RC_OK) {
        return err->code;
    }
    json_array_append_new(predictions, prediction_json(p, &c, 0));
    return RC_OK;
}

/* With --params: nothing is measured. */
static enum rc from_params(const struct cli *cli, json_t **ret, struct err *err)
{
    struct core_params p;
    json_t *predictions = json_array();
    json_t *json = NULL;
    enum rc rc = load(cli_option(cli, "params"), &json, err);

    rc = rc == RC_OK ? points_params_read(json, &p, err) : rc;
    json_decref(json);
    rc = rc == RC_OK ? add_asked(cli, &p, predictions, err) : rc;
    if (rc != RC_OK) {
        json_decref(predictions);
        return rc;
    }
    *ret = json_pack("{s:o, s:o}", "parameters", points_params_json(&p), "predictions",
                     predictions);
    return RC_OK;
}

static json_t *result_json(const struct points *points, const struct core_fit *f)
{
    double worst;
    json_t *predictions = predictions_json(points, &f->params, &worst);
    json_t *json = json_object();

    json_object_set_new(json, "parameters", points_params_json(&f->params));
    json_object_set_new(json, "fit",
                        json_pack("{s:i, s:f, s:f}", "points",
                                  (int)(points->count - json_array_size(predictions)),
                                  "rms_pct", cli_round(100 * f->rms_error, 2),
                                  "worst_pct", cli_round(100 * f->worst_error, 2)));
    json_object_set_new(json, "predictions", predictions);
    json_object_set_new(json, "worst_prediction_pct", json_real(cli_round(worst, 2)));
    json_object_set_new(json, "is_within_goal", json_boolean(worst <= GOAL_PCT));
    json_object_set_new(json, "latency", latency_json(points, &f->params));
    return json;
}

static enum rc from_points(const struct cli *cli, json_t **ret, struct err *err)
{
    const char *path = cli_option(cli, "points");
    double io = core_published.io;
    json_t *measured = NULL;
    struct points points;
    struct core_fit f;
    json_t *json;
    enum rc rc = cli_option_number(cli, "io", 0, 1e6, &io, err);

    rc = rc != RC_OK ? rc
         : path      ? load(path, &measured, err)
                     : measure(cli, &measured, err);
    rc = rc == RC_OK ? points_read(measured, &points, err) : rc;
    rc = rc == RC_OK ? fit(&points, io, &f, err) : rc;
    if (rc == RC_OK && cli_option(cli, "save-points")) {
        rc = save(cli_option(cli, "save-points"), measured, err);
    }
    json_decref(measured);
    if (rc != RC_OK) {
        return rc;
    }
    json = result_json(&points, &f);
    rc = add_asked(cli, &f.params, json_object_get(json, "predictions"), err);
    if (rc == RC_OK && cli_option(cli, "save")) {
        rc = save(cli_option(cli, "save"), json_object_get(json, "parameters"), err);
    }
    if (rc != RC_OK) {
        json_decref(json);
        return rc;
    }
    *ret = json;
    return RC_OK;
}

enum cli_exit cmd_capacity_calibrate(struct cli *cli)
{
    json_t *json = NULL;
    struct err err = { 0 };
    bool is_over;

    if (cli_option(cli, "params") && !cli_option(cli, "predict")) {
        return cli_usage(cli, "--params says nothing without --predict");
    }
    if ((cli_option(cli, "params") ? from_params(cli, &json, &err)
                                   : from_points(cli, &json, &err)) != RC_OK) {
        return cli_fail(&err);
    }
    print(cli, json);
    is_over = json_is_false(json_object_get(json, "is_within_goal"));
    json_decref(json);
    if (is_over) {
        fprintf(stderr, "xgwctl: a prediction is off by more than %d %%\n", GOAL_PCT);
        return CLI_FAILED;
    }
    return CLI_OK;
}
