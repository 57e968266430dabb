/*
 * apply_plan - what a region file asks for, as a list of objects in the order of
 * applying: region, clusters, nodes, tenants, routes, VMs.
 *
 * A document is a mapping with any of the keys region, clusters, nodes, tenants,
 * routes, vms; a tenant may hold its own routes and vms.  Unknown keys, an object twice
 * and entries that break a rule are errors with file and line, before anything is sent.
 * Values only.
 */
#pragma once

#include "controller/cli/cli.h"
#include "controller/cli/cli_kind.h"
#include "controller/cli/cli_yaml.h"

#define APPLY_LABEL_MAX 200

struct apply_item {
    const struct cli_kind *kind;
    json_t *body; /* of the PUT; one reference */
    int line;
    char label[APPLY_LABEL_MAX];    /* "route 100 10.0.0.0/24" */
    char keys[2][160];              /* words of the path */
    char needs[2][APPLY_LABEL_MAX]; /* labels of what must be there first, or "" */
};

struct apply_plan {
    struct apply_item *items;
    size_t count;
    size_t room;
};

/* Gives `*ret`.  RC_INVALID or RC_RANGE with "NAME:LINE: " in front. */
enum rc apply_plan_make(const char *name, const struct cli_yaml *yaml,
                        struct apply_plan *ret, struct err *err);
void apply_plan_fini(struct apply_plan *p);

/* ---- cmd_apply.c ---- */

/* A file's YAML; "-" is stdin, `name` what errors call it.  Gives `*ret`. */
enum rc cli_read_yaml(const char *path, const char *name, struct cli_yaml *ret,
                      struct err *err);
/* Puts one object after the other and tells of each; with --dry-run only checks. */
enum cli_exit cli_apply_plan(const struct cli *cli, const char *name,
                             const struct apply_plan *plan);
