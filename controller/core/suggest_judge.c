/* suggest_judge: one service, by its figures; and which of them are heavy. */
#include "controller/core/core_internal.h"

#include <stdio.h>

double suggest_changes_per_hour(const struct service_figures *f)
{
    return f->window_ms ? (double)f->changes * 3600000 / (double)f->window_ms : 0;
}

static bool is_stable(const struct service_figures *f)
{
    double rate = suggest_changes_per_hour(f);

    return rate <= SUGGEST_STABLE_PER_HOUR ||
           rate <= (double)f->entries / SUGGEST_STABLE_PER_ENTRIES;
}

/* ---- words ---- */

struct text {
    char at[48];
};

/* "3 d", "5 h", "12 min". */
static struct text span(uint64_t ms)
{
    unsigned long long minutes = ms / 60000;
    struct text t;

    if (minutes >= 2 * 24 * 60) {
        snprintf(t.at, sizeof(t.at), "%llu d", minutes / (24 * 60));
    } else if (minutes >= 120) {
        snprintf(t.at, sizeof(t.at), "%llu h", minutes / 60);
    } else {
        snprintf(t.at, sizeof(t.at), "%llu min", minutes);
    }
    return t;
}

static double percent(const struct service_figures *f, uint64_t bps)
{
    return f->total_bps ? 100 * (double)bps / (double)f->total_bps : 0;
}

static struct text share(const struct service_figures *f)
{
    struct text t;

    snprintf(t.at, sizeof(t.at), "%.1f to %.1f %% of the traffic",
             percent(f, f->least_bps), percent(f, f->most_bps));
    return t;
}

#define SAY(reason, ...) snprintf((reason), SUGGEST_REASON_MAX + 1, __VA_ARGS__)

/* ---- judging ---- */

static enum policy_place judge_internet(const struct service_figures *f, char *reason)
{
    SAY(reason,
        f->place == POLICY_XGW_H && f->entries > 0
            ? "XGW-H hands these packets to XGW-x86 anyway, and a miss goes there too: "
              "%llu entries that only take room"
            : "XGW-H hands these packets to XGW-x86 anyway (%llu entries)",
        (unsigned long long)f->entries);
    return POLICY_XGW_X86;
}

/* Not XGW-H's for its changes or its youth; but XGW-x86 has to carry it. */
static enum policy_place judge_restless(const struct suggest_limits *l,
                                        const struct service_figures *f, char *reason)
{
    bool on_h = f->place == POLICY_XGW_H;
    bool is_too_much = on_h && f->weight != WEIGHT_UNKNOWN && f->weight != WEIGHT_LIGHT;
    char why[120];
    char load[120] = "";

    if (!is_stable(f)) {
        snprintf(why, sizeof(why),
                 "volatile: %.0f changes/h of %llu entries; stable is up to %d/h, or a "
                 "%dth of them",
                 suggest_changes_per_hour(f), (unsigned long long)f->entries,
                 SUGGEST_STABLE_PER_HOUR, SUGGEST_STABLE_PER_ENTRIES);
    } else {
        snprintf(why, sizeof(why),
                 "new: its first entry came %s ago; mature is from %s",
                 span(f->age_ms).at, span(l->mature_ms).at);
    }
    if (is_too_much) {
        snprintf(load, sizeof(load), "; carries %s, not known to be light: stays",
                 share(f).at);
    } else if (f->weight != WEIGHT_UNKNOWN) {
        snprintf(load, sizeof(load), "; carries %s", share(f).at);
    } else if (on_h) {
        snprintf(load, sizeof(load),
                 "; its traffic is unknown: see first that XGW-x86 can carry it");
    }
    SAY(reason, "%s%s", why, load);
    return is_too_much ? POLICY_XGW_H : POLICY_XGW_X86;
}

/* Stable and not known to be new: traffic decides. */
static enum policy_place judge_settled(const struct suggest_limits *l,
                                       const struct service_figures *f, char *reason)
{
    bool is_mature = f->age_ms >= l->mature_ms;
    double rate = suggest_changes_per_hour(f);
    const char *how = f->is_older ? "at least" : "mature,";

    if (strncmp(f->service, "service:", 8) == 0) {
        SAY(reason,
            "stable (%.0f changes/h); XGW-H hands its packets to XGW-x86 wherever its "
            "%llu entries are: stays",
            rate, (unsigned long long)f->entries);
        return f->place;
    }
    switch (f->weight) {
    case WEIGHT_HEAVY:
        if (f->place == POLICY_XGW_X86 && !is_mature) {
            SAY(reason,
                "heavy (%s) and stable, but only known to be %s old; mature is from "
                "%s: stays",
                share(f).at, span(f->age_ms).at, span(l->mature_ms).at);
            return f->place;
        }
        SAY(reason, "heavy: %s; stable (%.0f changes/h), %s %s old%s", share(f).at,
            rate, how, span(f->age_ms).at, f->place == POLICY_XGW_H ? ": stays" : "");
        return POLICY_XGW_H;
    case WEIGHT_LIGHT:
        SAY(reason, "light: %s; its %llu entries %s", share(f).at,
            (unsigned long long)f->entries,
            f->place == POLICY_XGW_H ? "take room that heavy ones need"
                                     : "are where they belong: stays");
        return POLICY_XGW_X86;
    case WEIGHT_EITHER:
        SAY(reason,
            "stable (%.0f changes/h), %s %s old; carries %s, which may be heavy or "
            "light: stays",
            rate, how, span(f->age_ms).at, share(f).at);
        return f->place;
    default:
        SAY(reason,
            "stable (%.0f changes/h), %s %s old; whether it is heavy is not known, for "
            "its traffic was not measured: stays",
            rate, how, span(f->age_ms).at);
        return f->place;
    }
}

enum policy_place suggest_judge(const struct suggest_limits *limits,
                                const struct service_figures *f,
                                char ret_reason[SUGGEST_REASON_MAX + 1])
{
    if (strcmp(f->service, "internet") == 0) {
        return judge_internet(f, ret_reason);
    }
    if (f->entries == 0) {
        SAY(ret_reason, "no entries: stays");
        return f->place;
    }
    if (f->is_rest) {
        SAY(ret_reason,
            "%llu entries of services beyond the %d names that are counted one by one: "
            "not judged",
            (unsigned long long)f->entries, ACTIVITY_NAMES_MAX);
        return f->place;
    }
    if (f->window_ms < limits->watch_ms) {
        SAY(ret_reason, "watched for %s only; an update rate needs %s: stays",
            span(f->window_ms).at, span(limits->watch_ms).at);
        return f->place;
    }
    if (!is_stable(f) || (!f->is_older && f->age_ms < limits->mature_ms)) {
        return judge_restless(limits, f, ret_reason);
    }
    return judge_settled(limits, f, ret_reason);
}

/* ---- 80/20 ---- */

/* Less than 80 % of the whole. */
static bool is_below(uint64_t bps, uint64_t total)
{
    return (double)bps * 100 < (double)total * SUGGEST_HEAVY_PERCENT;
}

/* The largest services that together have 80 % are the heavy ones: one is among them if
 * those before it have less.  In the worst case for it, it has the least that it can,
 * and everything else is with services that may have more; in the best case it has the
 * most, and only those are before it that surely have more. */
static enum service_weight weight_of(const struct service_advice *services,
                                     uint32_t count, uint32_t i, uint64_t total)
{
    const struct service_figures *f = &services[i].figures;
    uint64_t may = 0;
    uint64_t must = 0;

    for (uint32_t k = 0; k < count; k++) {
        const struct service_figures *other = &services[k].figures;

        if (k != i) {
            may += other->most_bps > f->least_bps ? other->most_bps : 0;
            must += other->least_bps > f->most_bps ? other->least_bps : 0;
        }
    }
    may = may < total - f->least_bps ? may : total - f->least_bps;
    if (f->least_bps > 0 && is_below(may, total)) {
        return WEIGHT_HEAVY;
    }
    return is_below(must, total) && f->most_bps > 0 ? WEIGHT_EITHER : WEIGHT_LIGHT;
}

void suggest_weigh(struct service_advice *services, uint32_t count, uint64_t total_bps)
{
    for (uint32_t i = 0; i < count; i++) {
        services[i].figures.total_bps = total_bps;
        services[i].figures.weight =
            total_bps > 0 ? weight_of(services, count, i, total_bps) : WEIGHT_UNKNOWN;
    }
}
