/*
 * alpm_naive - the definition of a route table: a list of routes for each VNI, and the
 * longest that matches.  Shares nothing with agent/xgwh/alpm but the type of a route.
 */
#pragma once

#include "agent/xgwh/alpm.h"

struct naive; /* opaque */

struct naive *naive_new(void);
void naive_free(struct naive *n);
void naive_apply(struct naive *n, const struct alpm_change *changes, size_t count);
/* As alpm_lookup. */
void naive_lookup(const struct naive *n, uint32_t vni, const uint8_t addr[16],
                  struct alpm_result *ret);
/* The route of this key, null if there is none. */
const struct alpm_route *naive_get(const struct naive *n, uint32_t vni,
                                   const uint8_t addr[16], uint8_t len);
size_t naive_count(const struct naive *n);
/* The route at a place below naive_count(). */
const struct alpm_route *naive_at(const struct naive *n, size_t place);

bool result_equal(const struct alpm_result *a, const struct alpm_result *b);
/* As the table reads it back. */
struct alpm_result result_normal(const struct alpm_route *r);
