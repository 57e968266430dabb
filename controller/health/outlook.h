/*
 * outlook - whether a festival's load will fit, worked out ahead.
 *
 * Of each cluster and resource that is measured: load is the greatest of the last seven
 * days times the festival's growth; tables are what the line through the last thirty
 * days says for the festival's end, but not less than now.  It does not fit where that
 * is above the festival's `critical`.  Pure.
 */
#pragma once

#include "controller/health/health.h"
#include "proto/model/festival.h"

struct outlook {
    char subject[SUBJECT_MAX + 1]; /* the fullest then; "": nothing is measured */
    char resource[RESOURCE_MAX + 1];
    double percent; /* expected then */
    bool fits;
};

void outlook_make(const struct health *h, uint64_t now_s, const struct festival *f,
                  struct outlook *ret);
