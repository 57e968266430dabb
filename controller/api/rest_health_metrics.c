/* Alarms and water levels as metrics: ratios from 0 to 1, as Prometheus has them. */
#include "controller/api/rest_internal.h"

/* Of subjects "KIND/NAME[/PART]": one label each. */
static void print_labels(struct buf *to, const char *subject, const char *resource)
{
    buf_printf(to, "{subject=\"%s\",resource=\"%s\"}", subject, resource);
}

static void print_levels(const struct levels *levels, struct buf *to)
{
    const struct level_subject *s;

    rest_metric(to, "xgw_usage_ratio", "gauge",
                "Share of a resource that is used, where its capacity is known.");
    for (uint32_t i = 0; (s = levels_at(levels, i)) != NULL; i++) {
        for (uint32_t j = 0; j < s->count; j++) {
            const struct level *l = &s->levels[j];

            if (l->capacity > 0) {
                buf_text(to, "xgw_usage_ratio");
                print_labels(to, s->name, l->resource);
                buf_printf(to, " %.6f\n", (double)l->used / (double)l->capacity);
            }
        }
    }
    rest_metric(to, "xgw_water_level", "gauge",
                "0 clear, 1 sale, 2 safe, 3 critical; of what is not clear.");
    for (uint32_t i = 0; (s = levels_at(levels, i)) != NULL; i++) {
        for (uint32_t j = 0; j < s->count; j++) {
            if (s->levels[j].water != WATER_CLEAR) {
                buf_text(to, "xgw_water_level");
                print_labels(to, s->name, s->levels[j].resource);
                buf_printf(to, " %u\n", s->levels[j].water);
            }
        }
    }
}

static void print_alarms(const struct alarms *alarms, struct buf *to)
{
    struct alarms_stats s = alarms_stats(alarms);
    const struct alarm *a;

    rest_metric(to, "xgw_alarms", "gauge", "Alarms that stand and are not folded.");
    for (unsigned severity = ALARM_WARNING; severity <= ALARM_CRITICAL; severity++) {
        buf_printf(to, "xgw_alarms{severity=\"%s\"} %u\n",
                   alarm_severity_name(severity), s.standing[severity]);
    }
    rest_metric(to, "xgw_alarms_folded", "gauge", "Alarms that another explains.");
    buf_printf(to, "xgw_alarms_folded %u\n", s.folded);
    rest_metric(to, "xgw_alarms_raised_total", "counter", "Alarms raised.");
    buf_printf(to, "xgw_alarms_raised_total %llu\n", (unsigned long long)s.raised);
    rest_metric(to, "xgw_alarms_not_held_total", "counter",
                "Alarms for which there was no room.");
    buf_printf(to, "xgw_alarms_not_held_total %llu\n", (unsigned long long)s.overflow);
    rest_metric(to, "xgw_alarm_notes_total", "counter",
                "Times that an alarm's rise or end was told.");
    buf_printf(to, "xgw_alarm_notes_total %llu\n", (unsigned long long)s.notes);
    rest_metric(to, "xgw_alarm", "gauge", "An alarm that stands; folded ones too.");
    for (uint32_t i = 0; (a = alarms_at(alarms, i)) != NULL; i++) {
        if (a->cleared_s == 0) {
            buf_printf(to, "xgw_alarm{kind=\"%s\",subject=\"%s\",severity=\"%s\"} 1\n",
                       alarm_kind_name(a->kind), a->subject,
                       alarm_severity_name(a->severity));
        }
    }
}

void rest_print_health_metrics(const struct health *h, struct buf *to)
{
    struct history_stats history = health_history(h) ? history_stats(health_history(h))
                                                     : (struct history_stats){ 0 };

    print_alarms(health_alarms_of(h), to);
    print_levels(health_levels(h), to);
    rest_metric(to, "xgw_history_series", "gauge", "Series that the history keeps.");
    buf_printf(to, "xgw_history_series %u\n", history.series);
    rest_metric(to, "xgw_history_bytes", "gauge", "Bytes of the history's blocks.");
    buf_printf(to, "xgw_history_bytes %zu\n", history.bytes);
    rest_metric(to, "xgw_history_early_blocks_total", "counter",
                "Blocks dropped before their time, for want of room.");
    buf_printf(to, "xgw_history_early_blocks_total %llu\n",
               (unsigned long long)history.early_blocks);
}
