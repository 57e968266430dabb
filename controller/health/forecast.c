#include "controller/health/forecast.h"

#include <math.h>
#include <stdlib.h>

#define DAY_S 86400.0

/* Student's t, two-sided 95 %, for 1 to 30 degrees of freedom (NIST/SEMATECH
 * e-Handbook, 1.3.6.7.2). */
static double student(size_t freedom)
{
    static const double t[] = { 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                2.060,  2.056, 2.052, 2.048, 2.045, 2.042 };
    enum { COUNT = sizeof(t) / sizeof(t[0]) };

    /* Beyond: the first term of its expansion around the normal's 1.960. */
    return freedom <= COUNT ? t[freedom - 1] : 1.960 + 2.37 / (double)freedom;
}

struct sums {
    double day;    /* mean */
    double amount; /* mean */
    double xx;
    double residual; /* sum of squares around the line */
};

static struct sums sum(const struct growth_point *points, size_t count,
                       const struct growth *line)
{
    struct sums s = { 0 };

    for (size_t i = 0; i < count; i++) {
        s.day += points[i].day / (double)count;
        s.amount += points[i].amount / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        double x = points[i].day - s.day;
        double off = points[i].amount - s.amount - line->per_day * x;

        s.xx += x * x;
        s.residual += off * off;
    }
    return s;
}

/* The days u from the mean at which a line through the mean, no further from the fitted
 * one than its uncertainty, reaches what lacks at the mean:
 *   (lack - slope u)^2 <= t^2 s^2 (1/n + u^2/xx)
 */
static void find_range(const struct sums *s, size_t count, double lack,
                       struct forecast *f)
{
    double t = student(count - 2);
    double noise = t * t * s->residual / (double)(count - 2);
    double slope = f->line.per_day;
    double a = slope * slope - noise / s->xx;
    double b = slope * lack;
    double c = lack * lack - noise / (double)count;
    double root = sqrt(fmax(b * b - a * c, 0));

    f->has_range = true;
    f->earliest = INFINITY;
    f->latest = INFINITY;
    if (c <= 0) {
        f->earliest = f->line.last_day; /* it may be reached already */
    }
    if (a > 0 && slope > 0) {
        f->earliest = fmin(f->earliest, s->day + (b - root) / a);
        f->latest = s->day + (b + root) / a;
    } else if (a < 0 && c > 0) {
        f->earliest = s->day + (b - root) / a; /* the root that lies ahead */
    }
    f->earliest = fmax(f->earliest, f->line.last_day);
    f->latest = fmax(f->latest, f->earliest);
}

bool forecast_make(const struct growth_point *points, size_t count, double level,
                   double reserved, struct forecast *ret)
{
    struct forecast f = { 0 };
    struct sums s;

    if (!growth_fit(points, count, &f.line)) {
        return false;
    }
    f.when = growth_crossing(&f.line, level, reserved, &f.day);
    if (f.when == GROWTH_NOW) {
        f.day = f.line.last_day;
    }
    if (count > 2) {
        s = sum(points, count, &f.line);
        find_range(&s, count, level - reserved - s.amount, &f);
        if (f.when == GROWTH_NOW) {
            f.earliest = f.line.last_day;
        }
    }
    *ret = f;
    return true;
}

/* The line does not ask for the points' order, so that the oldest can be overwritten.
 */
struct collected {
    struct growth_point *at;
    size_t seen;
};

static bool collect(void *arg, const struct history_point *p)
{
    struct collected *c = arg;

    c->at[c->seen++ % FORECAST_POINTS] =
        (struct growth_point){ (double)p->t_s / DAY_S, (double)p->mean };
    return true;
}

bool forecast_series(const struct history *h, const char *subject, const char *resource,
                     uint64_t from_s, double level, double reserved,
                     struct forecast *ret)
{
    struct collected c = { malloc(FORECAST_POINTS * sizeof(*c.at)), 0 };
    bool done = false;

    if (!c.at) {
        return false;
    }
    history_read(h, subject, resource, HISTORY_HOURS, from_s, UINT64_MAX, collect, &c);
    if (c.seen < FORECAST_HOURS) {
        c.seen = 0;
        history_read(h, subject, resource, HISTORY_MINUTES, from_s, UINT64_MAX, collect,
                     &c);
    }
    done = forecast_make(c.at, c.seen < FORECAST_POINTS ? c.seen : FORECAST_POINTS,
                         level, reserved, ret);
    free(c.at);
    return done;
}
