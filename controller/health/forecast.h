/*
 * forecast - when a level will be reached, and how sure that is.
 *
 * The line is that of controller/capacity/growth.  Its uncertainty is that of a
 * least-squares line whose points scatter independently around it: the days between
 * which the line crosses the level with 95 % confidence (Fieller's interval).  Pure;
 * time is days since 1970-01-01 UTC.
 */
#pragma once

#include "controller/capacity/growth.h"
#include "controller/health/history.h"

struct forecast {
    struct growth line;
    enum growth_when when;
    double day; /* of LATER */
    /* 95 %; earliest is not before the last point.  Infinite where the growth may as
     * well be none. */
    bool has_range;  /* three points at least */
    double earliest; /* may be finite although `when` is NEVER */
    double latest;
};

/* False: fewer than two different days. */
bool forecast_make(const struct growth_point *points, size_t count, double level,
                   double reserved, struct forecast *ret);

/* Of the means of a series' hours since `from_s`; of its minutes where there are fewer
 * than FORECAST_HOURS of them.  At most FORECAST_POINTS of the newest points are taken.
 */
#define FORECAST_HOURS  24
#define FORECAST_POINTS 8784
bool forecast_series(const struct history *h, const char *subject, const char *resource,
                     uint64_t from_s, double level, double reserved,
                     struct forecast *ret);
