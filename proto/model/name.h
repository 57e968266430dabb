/*
 * name - the two kinds of names that people give: identifiers and display names.
 *
 * An identifier (clusters, nodes, services, ports) is letters, digits, '-', '.' and
 * '_' and starts with a letter.  A display name is printable UTF-8 (RFC 3629) without
 * control characters, and may be empty.  Values only; any thread.
 */
#pragma once

#include <stddef.h>

#include "proto/base/err.h"

/* `name` is a zero-terminated identifier of 1 to `max` characters; at most `max` + 1
 * bytes are read.  RC_INVALID with `field` and rule "name_syntax", or RC_RANGE with
 * rule "name_length". */
enum rc name_check(const char *name, size_t max, const char *field, struct err *err);

/* The same for a display name of 0 to `max` bytes; rules "name_text", "name_length". */
enum rc display_name_check(const char *name, size_t max, const char *field,
                           struct err *err);
