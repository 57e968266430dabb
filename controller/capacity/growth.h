/*
 * growth - the line through a cluster's history, and when it crosses a level.
 *
 * Growth of a region is near linear (CAPACITY.md), so a least-squares line is fitted;
 * announced growth of a customer is a reservation and counts at once.  Time is days
 * since 1970-01-01 UTC, told by the caller.
 *
 * Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct growth_point {
    double day;
    double amount;
};

struct growth {
    double per_day;
    double at_last;  /* the line at the last point's day */
    double last_day; /* the latest point's */
    double r2;       /* share of the variation that the line explains, 0 to 1 */
    size_t points;
};

/* Fits the line.  False, and `*ret` untouched, with fewer than two different days. */
bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret);

enum growth_when {
    GROWTH_NEVER, /* flat or falling, and below: or later than the year 9999 */
    GROWTH_NOW,   /* at or above already, on the last point's day */
    GROWTH_LATER  /* on `*ret_day` */
};

/* When the line plus `reserved` reaches `level`. */
enum growth_when growth_crossing(const struct growth *g, double level, double reserved,
                                 double *ret_day);

/* "2026-11-30" (proleptic Gregorian, years 1970 to 9999) to days, and back; `to` has
 * GROWTH_DATE_SIZE bytes.  False if it is no date. */
#define GROWTH_DATE_SIZE 11
bool growth_parse_date(const char *text, size_t len, double *ret_day);
void growth_print_date(double day, char to[GROWTH_DATE_SIZE]);
