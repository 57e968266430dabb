/*
 * capacity_history - clusters' histories from a file, and when each crosses its safe
 * level.
 *
 * CSV, a line a measurement, in any order; `#` begins a comment:
 *
 *     cluster,date,amount,capacity          gw-7,2026-11-30,412000,588000
 *     cluster,reserved,amount               gw-7,reserved,50000
 *
 * The latest line's capacity counts.  A reservation (announced growth of a customer)
 * counts at once; several add up.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "controller/cli/cli.h"

/* Reads to the end of `f` and works out each cluster's line; gives an array of objects,
 * in order of names.  RC_INVALID or RC_RANGE names the line, field and rule. */
enum rc capacity_history_read(FILE *f, double safe_pct, json_t **ret, struct err *err);

/* The command's --history and --safe. */
enum cli_exit capacity_history_print(const struct cli *cli);
