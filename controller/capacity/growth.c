#include "controller/capacity/growth.h"

#include <math.h>
#include <stdio.h>

#define LAST_DAY 2932896 /* 9999-12-31 */

bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret)
{
    double day = 0;
    double amount = 0;
    double xx = 0;
    double xy = 0;
    double yy = 0;
    double last = 0;

    for (size_t i = 0; i < count; i++) {
        day += points[i].day / (double)count;
        amount += points[i].amount / (double)count;
        last = i == 0 || points[i].day > last ? points[i].day : last;
    }
    for (size_t i = 0; i < count; i++) {
        double x = points[i].day - day;
        double y = points[i].amount - amount;

        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    if (count < 2 || xx <= 0) {
        return false;
    }
    *ret = (struct growth){ .per_day = xy / xx,
                            .at_last = amount + xy / xx * (last - day),
                            .last_day = last,
                            .r2 = yy > 0 ? xy * xy / (xx * yy) : 1,
                            .points = count };
    return true;
}

enum growth_when growth_crossing(const struct growth *g, double level, double reserved,
                                 double *ret_day)
{
    double room = level - reserved - g->at_last;
    double day;

    if (room <= 0) {
        return GROWTH_NOW;
    }
    if (g->per_day <= 0) {
        return GROWTH_NEVER;
    }
    day = g->last_day + room / g->per_day;
    if (day > LAST_DAY) {
        return GROWTH_NEVER;
    }
    *ret_day = day;
    return GROWTH_LATER;
}

/* --- dates ------------------------------------------------------------------------ */

/* Days before March 1 of a year: March comes first, so that a leap day is the last of
 * its year. */
static int64_t year_start(int64_t year)
{
    return year * 365 + year / 4 - year / 100 + year / 400;
}

/* Days from March 1 to the first of a month, March being 0. */
static int month_start(int month)
{
    return (153 * month + 2) / 5;
}

#define EPOCH 719468 /* 1970-01-01, in days since March 1 of year 0 */

static int64_t to_day(int year, int month, int mday)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int m = month <= 2 ? month + 9 : month - 3;

    return year_start(y) + month_start(m) + mday - 1 - EPOCH;
}

static void from_day(int64_t day, int *year, int *month, int *mday)
{
    int64_t n = day + EPOCH;
    int64_t y = n * 400 / 146097;
    int m = 11;

    while (year_start(y) > n) {
        y--;
    }
    while (year_start(y + 1) <= n) {
        y++;
    }
    n -= year_start(y);
    while (month_start(m) > n) {
        m--;
    }
    *mday = (int)n - month_start(m) + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = (int)(*month <= 2 ? y + 1 : y);
}

static int digits(const char *text, size_t count)
{
    int value = 0;

    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

bool growth_parse_date(const char *text, size_t len, double *ret_day)
{
    int year, month, mday, y, m, d;

    if (len != 10 || text[4] != '-' || text[7] != '-') {
        return false;
    }
    year = digits(text, 4);
    month = digits(text + 5, 2);
    mday = digits(text + 8, 2);
    if (year < 1970 || month < 1 || month > 12 || mday < 1) {
        return false;
    }
    /* A day that its month has not comes back as another one. */
    from_day(to_day(year, month, mday), &y, &m, &d);
    if (y != year || m != month || d != mday) {
        return false;
    }
    *ret_day = (double)to_day(year, month, mday);
    return true;
}

void growth_print_date(double day, char to[GROWTH_DATE_SIZE])
{
    int year, month, mday;
    double whole = fmin(fmax(floor(day), 0), LAST_DAY);

    from_day((int64_t)whole, &year, &month, &mday);
    snprintf(to, GROWTH_DATE_SIZE, "%04d-%02d-%02d", year, month, mday);
}
