/*
 * cli_http - calls of the REST API, one at a time, over one kept connection.
 *
 * A problem answer (RFC 9457) becomes an `err` with its code, field and rule; what
 * travelled wrongly is RC_UNREACHABLE.  Strings for paths are encoded by
 * cli_http_path().  One thread.
 */
#pragma once

#include <jansson.h>

#include "controller/cli/cli.h"
#include "proto/base/buf.h"

struct cli_http;

/* Reads the token file; does not connect yet.  Gives `*ret`. */
enum rc cli_http_new(const struct cli_settings *settings, struct cli_http **ret,
                     struct err *err);
void cli_http_free(struct cli_http *h); /* null is fine */

/* Appends "/" and `segment`, percent-encoded, so that "10.0.0.0/8" is one segment. */
void cli_http_path(struct buf *path, const char *segment);
/* Appends "?name=value" or "&name=value", encoded. */
void cli_http_query(struct buf *path, const char *name, const char *value);
/* Appends the parameters that a change takes: dryRun, confirm, and wait as set. */
void cli_http_change_query(const struct cli *cli, struct buf *path);

struct cli_answer {
    long status;
    json_t *json;   /* null when the body is not JSON */
    char text[256]; /* the body's start, when it is not JSON */
};

/* Gives `ret->json`.  `body` may be null; it is borrowed.  Any answer of 2xx is RC_OK.
 */
enum rc cli_http_call(struct cli_http *h, const char *method, const char *path,
                      const json_t *body, struct cli_answer *ret, struct err *err);

/* All pages of a list: gives an array of the items, at most `limit` (0: all). */
enum rc cli_http_list(struct cli_http *h, const char *path, size_t limit,
                      json_t **ret_items, struct err *err);
