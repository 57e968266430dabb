/*
 * cli_yaml - YAML as JSON, strictly, with the line of everything.
 *
 * Scalars follow YAML 1.2's core schema as far as our objects need it: null, true,
 * false and decimal integers are what they look like, everything else and everything in
 * quotes is text (so `no`, `010`, `1.5` and `12:30` are text).  Refused: a key twice,
 * keys that are no text, tags, and more than the limits below allow, aliases' copies
 * included, so that a small file cannot unfold into a large one.  Values only.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "proto/base/err.h"

#define CLI_YAML_TEXT_MAX  (16u << 20) /* bytes of input */
#define CLI_YAML_NODES_MAX 1000000u    /* values of all documents, with copies */
#define CLI_YAML_COPY_MAX  (1u << 20)  /* bytes that aliases may copy in total */
#define CLI_YAML_DEPTH_MAX 16
#define CLI_YAML_ANCHORS   64
#define CLI_YAML_PATH      256

struct cli_yaml {
    json_t *documents; /* array, one value a document */
    json_t *lines;     /* "[0].nodes[1].side" → line, counted from 1 */
};

/* Gives `*ret`.  RC_INVALID with "NAME:LINE: " in front of the message and the path as
 * field; rules yaml_syntax, yaml_duplicate, yaml_tag, yaml_key, yaml_limit, yaml_alias.
 */
enum rc cli_yaml_read(const char *name, const char *text, size_t len,
                      struct cli_yaml *ret, struct err *err);
void cli_yaml_fini(struct cli_yaml *y);

/* The line of what is at `path`, or of the nearest thing around it. */
int cli_yaml_line(const struct cli_yaml *y, const char *path);
