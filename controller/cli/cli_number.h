/*
 * cli_number - numbers on the command line: "15T", "3.2T", "94%", "2026-11-30".
 *
 * Decimal, with a suffix of powers of 1,000 where one makes sense (k, M, G, T).  What
 * fails names the option as field and the rule.  Nothing here prints.
 */
#pragma once

#include "controller/cli/cli.h"

/* A number from `min` to `max`; suffixes are taken.  RC_INVALID (amount_syntax) or
 * RC_RANGE (amount_range). */
enum rc cli_number(const char *option, const char *text, double min, double max,
                   double *ret, struct err *err);

/* The option's number, if it was given; else `*ret` stays. */
enum rc cli_option_number(const struct cli *cli, const char *option, double min,
                          double max, double *ret, struct err *err);

/* The same for a whole number, of at most 2^32 - 1; RC_INVALID (whole_number) too. */
enum rc cli_option_whole(const struct cli *cli, const char *option, uint32_t min,
                         uint32_t max, uint32_t *ret, struct err *err);

/* The same for percent: "50" or "50%", `min` to `max` percent. */
enum rc cli_option_percent(const struct cli *cli, const char *option, double min,
                           double max, double *ret, struct err *err);

/* Rounded to so many decimals, so that JSON and tables show no noise. */
double cli_round(double value, unsigned decimals);
