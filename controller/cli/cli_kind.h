/* cli_kind - the kinds of objects that the REST API has, as data: names, keys, columns.
 * Values only. */
#pragma once

#include "controller/cli/cli.h"
#include "controller/cli/cli_print.h"

struct cli_kind {
    const char *singular;  /* "route" */
    const char *plural;    /* "routes"; also the key in region.yaml */
    unsigned key_count;    /* words that name one */
    unsigned parent_count; /* of them, words that a list needs already */
    const char *keys;      /* "VNI [PREFIX]" */
    /* That apply takes, then null; fields[0..] name it.  Null: apply does not take it.
     */
    const char *const *fields;
    const char *const *answers; /* that only answers have, and apply drops */
    const struct cli_column *columns;
    const char *related[3]; /* kinds that describe shows below, or null */
};

enum { CLI_KINDS = 17 };
extern const struct cli_kind cli_kinds[CLI_KINDS]; /* in the order of applying */

const struct cli_kind *
cli_kind_find(const char *name); /* singular or plural; or null */

/* Appends the path of one (all keys) or of the list (the parents' keys). */
void cli_kind_path(const struct cli_kind *kind, const char *const *keys, unsigned count,
                   struct buf *path);
