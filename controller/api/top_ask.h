/*
 * top_ask - the heaviest flows and tenants, as both APIs are asked for them.
 *
 * The loop's thread.
 */
#pragma once

#include "controller/core/core.h"
#include "controller/health/health.h"

#define TOP_ROWS 10 /* unless it is said how many */

/* Of a node, of a cluster's nodes, or (both null) of all.  RC_NOT_FOUND: there is
 * no such one.  RC_CONFLICT, rule "not_on_this_kind": flows of nodes that all look at
 * none.  RC_NO_MEMORY. */
enum rc top_ask(const struct core *c, uint64_t now_s, const char *cluster,
                const char *node, enum top_kind kind, uint32_t room,
                struct top_sum *ret, struct err *err);
