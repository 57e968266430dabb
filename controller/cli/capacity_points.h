/*
 * capacity_points - what xgw-calibrate measured, and the core model's parameters as a
 * file.
 *
 * xgw-calibrate is a program of its own beside xgw-gateway, since it is made of the
 * packet core; here only its JSON is known.
 */
#pragma once

#include <jansson.h>

#include "controller/capacity/core_model.h"
#include "controller/cli/cli.h"

/* A configuration as xgw-calibrate names it. */
struct points_config {
    uint32_t entries;
    uint32_t hops; /* peer routes that are followed */
    uint32_t burst;
};

/* "ENTRIES:HOPS:BURST", RC_INVALID (config_syntax) otherwise. */
enum rc points_config_parse(const char *text, struct points_config *ret,
                            struct err *err);
struct core_config points_core_config(const struct points_config *c);

#define POINTS_MAX 64

struct points {
    double tsc_hz;
    double l2_bytes;
    double l3_bytes;
    double gaps_per_s; /* times the core was away */
    double gap_ns;     /* mean */
    double gap_max_ns;
    double entry_bytes; /* of the largest tables */
    unsigned count;
    struct {
        struct points_config config;
        double cycles; /* median of the runs */
    } at[POINTS_MAX];
};

/* Runs `program` with the configurations (and "--runs N") and gives its output as JSON.
 * RC_NOT_FOUND if there is no such program; RC_INVALID with what it said if it failed.
 * Null `program`: the xgw-calibrate beside this program, else the one on PATH. */
enum rc points_measure(const char *program, unsigned runs,
                       const struct points_config *configs, unsigned count,
                       json_t **ret, struct err *err);

/* RC_INVALID (points_form) if it is not what xgw-calibrate prints. */
enum rc points_read(const json_t *json, struct points *ret, struct err *err);

json_t *points_params_json(const struct core_params *p);
enum rc points_params_read(const json_t *json, struct core_params *ret,
                           struct err *err);
