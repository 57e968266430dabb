#include "controller/health/outlook.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/health/forecast.h"

#define DAY_S   86400u
#define PEAK_S  (7u * DAY_S)
#define TREND_S (30u * DAY_S)

static bool find_peak(void *arg, const struct history_point *p)
{
    uint64_t *peak = arg;

    *peak = p->max > *peak ? p->max : *peak;
    return true;
}

/* Hours for the days, minutes for what is not an hour yet. */
static double peak_of(const struct history *h, const char *subject,
                      const struct level *l, uint64_t now_s)
{
    uint64_t from = now_s > PEAK_S ? now_s - PEAK_S : 0;
    uint64_t peak = l->used;

    if (h) {
        history_read(h, subject, l->resource, HISTORY_HOURS, from, UINT64_MAX,
                     find_peak, &peak);
        history_read(h, subject, l->resource, HISTORY_MINUTES,
                     now_s > 2 * 3600 ? now_s - 2 * 3600 : 0, UINT64_MAX, find_peak,
                     &peak);
    }
    return (double)peak;
}

/* What the line says for that day, but not less than now. */
static double trend_of(const struct history *h, const char *subject,
                       const struct level *l, uint64_t now_s, double day)
{
    struct forecast f;
    double then = (double)l->used;

    if (h && forecast_series(h, subject, l->resource,
                             now_s > TREND_S ? now_s - TREND_S : 0, INFINITY, 0, &f)) {
        double line = f.line.at_last + f.line.per_day * (day - f.line.last_day);

        then = line > then ? line : then;
    }
    return then;
}

void outlook_make(const struct health *h, uint64_t now_s, const struct festival *f,
                  struct outlook *ret)
{
    const struct levels *levels = health_levels(h);
    const struct level_subject *s;

    *ret = (struct outlook){ .fits = true };
    for (uint32_t i = levels_search(levels, "cluster/");
         (s = levels_at(levels, i)) != NULL && strncmp(s->name, "cluster/", 8) == 0;
         i++) {
        for (uint32_t j = 0; j < s->count; j++) {
            const struct level *l = &s->levels[j];
            double then = l->cause != WATER_LOAD
                              ? trend_of(health_history(h), s->name, l, now_s,
                                         (double)f->ends_s / DAY_S)
                              : peak_of(health_history(h), s->name, l, now_s) *
                                    f->growth_percent / 100;
            double percent = l->capacity ? then * 100 / (double)l->capacity : 0;

            if (percent > ret->percent) {
                ret->percent = percent;
                snprintf(ret->subject, sizeof(ret->subject), "%s", s->name);
                snprintf(ret->resource, sizeof(ret->resource), "%s", l->resource);
            }
        }
    }
    ret->fits = ret->percent <= f->marks.critical_bp / 100.0;
}
