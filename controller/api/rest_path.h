/*
 * rest_path - paths of requests against the templates of the API's table.
 *
 * Values only: no sockets, no memory.  Any thread.
 */
#pragma once

#include <stdbool.h>

#define REST_PARAMS     2
#define REST_PARAM_SIZE 160 /* the longest is the key of an IPv6 rule */

/* Whether `path` (as it came, percent-encoded) has the form of `template`
 * ("/v1/tenants/{vni}/routes/{prefix}").  Each {…} takes one whole segment, which is
 * decoded into params in order.  A segment that is empty, too long, badly encoded, not
 * UTF-8 or has control characters (zero above all) matches nothing.  Fixed segments are
 * compared as they came.  `params` is written even when false is returned. */
bool rest_path_match(const char *template, const char *path,
                     char params[REST_PARAMS][REST_PARAM_SIZE]);
