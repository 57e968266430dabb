/*
 * cli_print - results as tables, JSON and YAML.
 *
 * The YAML that is printed is YAML that cli_yaml.h reads back to the same JSON; the
 * buffer forms are for tests and for callers that add to them.
 */
#pragma once

#include <jansson.h>

#include "controller/cli/cli.h"
#include "proto/base/buf.h"

struct cli_column {
    const char *title; /* null ends a list */
    const char *path;  /* member, or member of a member: "status.state" */
};

/* One line an item, columns padded to the widest; absent values are "-".  Arrays show
 * their elements with commas, or, of objects, how many there are; objects their numbers
 * above zero.  Characters that
 * could steer a terminal are shown as '?'. */
void cli_table(const json_t *items, const struct cli_column *columns, struct buf *to);

/* The same value as text of one line, as a cell shows it. */
void cli_cell(const json_t *value, struct buf *to);

void cli_yaml_print(const json_t *json, struct buf *to);

/* To stdout, as JSON with line breaks or as YAML (CLI_TABLE: as YAML). */
/* "12.3 G", of powers of a thousand; the reference is the caller's. */
json_t *cli_amount(double value);
void cli_print_json(const json_t *json, enum cli_output output);

/* Prints and empties `text`. */
void cli_print_buf(struct buf *text);
