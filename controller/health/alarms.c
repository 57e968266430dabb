#include "controller/health/alarms_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool silences_parts;
    uint8_t silences_kind; /* everywhere; 0: none */
} kinds[ALARM_KINDS] = {
    [ALARM_BLIND] = { "blind", false, ALARM_NODE_SILENT },
    [ALARM_NODE_SILENT] = { "node_silent", true, 0 },
    [ALARM_NODE_DOWN] = { "node_down", true, 0 },
    [ALARM_REFUSED] = { "entries_refused", false, 0 },
    [ALARM_OUT_OF_SYNC] = { "out_of_sync", false, 0 },
    [ALARM_LEVEL] = { "water_level", false, 0 },
    [ALARM_LOSS] = { "packet_loss", false, 0 },
    [ALARM_FESTIVAL] = { "festival_does_not_fit", false, 0 },
    [ALARM_AUDIT] = { "audit_differs", false, 0 },
    [ALARM_NODES_DIFFER] = { "nodes_differ", false, 0 },
    [ALARM_STORM] = { "alarm_storm", false, 0 },
    [ALARM_STEERING] = { "steering_unacknowledged", false, 0 },
    [ALARM_TRACE] = { "trace_differs", false, 0 },
};

const char *alarm_kind_name(unsigned kind)
{
    return kind > 0 && kind < ALARM_KINDS ? kinds[kind].name : "unknown";
}

const char *alarm_severity_name(unsigned severity)
{
    return severity == ALARM_CRITICAL ? "critical" : "warning";
}

struct alarms *alarms_new(void)
{
    struct alarms *a = calloc(1, sizeof(*a));

    if (a) {
        a->at = calloc(ALARMS_MAX, sizeof(*a->at));
    }
    if (a && !a->at) {
        free(a);
        return NULL;
    }
    return a;
}

void alarms_free(struct alarms *a)
{
    if (a) {
        free(a->at);
        free(a->acks);
        free(a);
    }
}

/* ---- finding and folding ---- */

static struct alarm *find(const struct alarms *a, enum alarm_kind kind,
                          const char *subject)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->at[i].kind == kind && a->at[i].cleared_s == 0 &&
            strcmp(a->at[i].subject, subject) == 0) {
            return &a->at[i];
        }
    }
    return NULL;
}

const struct alarm *alarms_find(const struct alarms *a, enum alarm_kind kind,
                                const char *subject)
{
    return find(a, kind, subject);
}

static bool is_silencing(const struct alarm *a)
{
    return a->cleared_s == 0 &&
           (kinds[a->kind].silences_parts || kinds[a->kind].silences_kind);
}

static bool silences(const struct alarm *parent, const struct alarm *child)
{
    if (parent == child || !is_silencing(parent)) {
        return false;
    }
    /* Of two that silence parts of one subject, the first kind counts. */
    return kinds[parent->kind].silences_kind == child->kind ||
           (kinds[parent->kind].silences_parts &&
            !(kinds[child->kind].silences_parts && child->kind <= parent->kind) &&
            !kinds[child->kind].silences_kind &&
            subject_is_within(child->subject, parent->subject));
}

static void fold(struct alarm *child, struct alarm *parent)
{
    child->parent = parent->id;
    parent->folded++;
}

/* A new alarm: below whom it is, and who is below it. */
static void fold_new(struct alarms *a, struct alarm *x)
{
    for (uint32_t i = 0; i < a->count && !x->parent; i++) {
        if (silences(&a->at[i], x)) {
            fold(x, &a->at[i]);
        }
    }
    for (uint32_t i = 0; i < a->count && is_silencing(x); i++) {
        struct alarm *child = &a->at[i];

        if (!child->parent && child->cleared_s == 0 && silences(x, child)) {
            fold(child, x);
        }
    }
}

/* One that silenced others is gone: all anew. */
static void fold_all(struct alarms *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        a->at[i].folded = 0;
        a->at[i].parent = 0;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t j = 0; j < a->count && is_silencing(&a->at[i]); j++) {
            struct alarm *child = &a->at[j];

            if (!child->parent && child->cleared_s == 0 && silences(&a->at[i], child)) {
                fold(child, &a->at[i]);
            }
        }
    }
}

/* ---- life of an alarm ---- */

static void take_out(struct alarms *a, uint32_t at)
{
    memmove(&a->at[at], &a->at[at + 1], (a->count - at - 1) * sizeof(*a->at));
    a->count--;
}

/* The oldest cleared one gives way to one that stands. */
static bool make_room(struct alarms *a)
{
    for (uint32_t i = 0; i < a->count && a->count == ALARMS_MAX; i++) {
        if (a->at[i].cleared_s) {
            take_out(a, i);
        }
    }
    return a->count < ALARMS_MAX;
}

static struct alarm *add(struct alarms *a, uint64_t now_s, const struct alarm_report *r)
{
    struct alarm *x;

    if (!make_room(a)) {
        a->overflow++;
        return NULL;
    }
    /* A thousand a second, and after a restart they go on behind the last. */
    a->last_id = now_s * 1000 > a->last_id ? now_s * 1000 : a->last_id + 1;
    a->raised++;
    x = &a->at[a->count++];
    *x = (struct alarm){ .id = a->last_id, .kind = (uint8_t)r->kind, .first_s = now_s };
    snprintf(x->subject, sizeof(x->subject), "%s", r->subject);
    return x;
}

void alarms_raise(struct alarms *a, uint64_t now_s, const struct alarm_report *r)
{
    struct alarm *x = find(a, r->kind, r->subject);
    bool is_new = !x;

    x = x ? x : add(a, now_s, r);
    if (!x) {
        return;
    }
    x->count += is_new || x->gone_s != 0;
    x->gone_s = 0;
    x->last_s = now_s;
    x->value = r->value;
    x->threshold = r->threshold;
    if (r->severity > x->severity) {
        x->acked_s = 0; /* nobody has acknowledged this much */
        x->acked_by[0] = '\0';
    }
    x->severity = (uint8_t)r->severity;
    snprintf(x->text, sizeof(x->text), "%s", r->text);
    if (is_new) {
        alarms_find_ack(a, x);
        fold_new(a, x);
    }
}

void alarms_clear(struct alarms *a, uint64_t now_s, enum alarm_kind kind,
                  const char *subject)
{
    struct alarm *x = find(a, kind, subject);

    if (x && x->gone_s == 0) {
        x->gone_s = now_s;
    }
}

void alarms_forget(struct alarms *a, uint64_t now_s, const char *subject)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->at[i].cleared_s == 0 && subject_is_within(a->at[i].subject, subject)) {
            a->at[i].gone_s = now_s;
            a->at[i].cleared_s = now_s;
        }
    }
    fold_all(a);
}

/* ---- telling ---- */

/* What is to be said of it; false: nothing. */
static bool news_of(const struct alarm *x, enum alarm_news *ret)
{
    if (x->cleared_s) {
        *ret = ALARM_CLEARED;
        return x->is_told && !x->is_clear_told;
    }
    *ret = x->is_told ? ALARM_GRAVER : ALARM_RAISED;
    return x->parent == 0 && x->gone_s == 0 &&
           (!x->is_told || x->severity > x->told_severity);
}

static uint32_t waiting(const struct alarms *a)
{
    enum alarm_news news;
    uint32_t count = 0;

    for (uint32_t i = 0; i < a->count; i++) {
        count += a->at[i].kind != ALARM_STORM && news_of(&a->at[i], &news);
    }
    return count;
}

/* One place of the bucket is the storm's own. */
static bool has_token(const struct alarms *a, uint64_t now_s, bool is_storm)
{
    uint64_t spare = is_storm ? 0 : ALARM_NOTE_EVERY_S;

    return a->full_s <=
           now_s + (uint64_t)(ALARM_NOTE_BURST - 1) * ALARM_NOTE_EVERY_S - spare;
}

static void note_storm(struct alarms *a, uint64_t now_s)
{
    uint32_t count = waiting(a);
    char text[ALARM_TEXT_MAX + 1];

    if (count == 0 || has_token(a, now_s, false)) {
        if (count == 0) {
            alarms_clear(a, now_s, ALARM_STORM, "region");
        }
        return;
    }
    snprintf(text, sizeof(text),
             "%u alarms wait to be told, %llu were not held: see the list of alarms",
             count, (unsigned long long)a->overflow);
    alarms_raise(a, now_s,
                 &(struct alarm_report){ ALARM_STORM, ALARM_CRITICAL, "region", count,
                                         ALARM_NOTE_BURST, text });
}

void alarms_tick(struct alarms *a, uint64_t now_s)
{
    bool must_fold = false;

    for (uint32_t i = 0; i < a->count;) {
        struct alarm *x = &a->at[i];

        if (x->cleared_s && x->cleared_s + ALARM_KEEP_S <= now_s) {
            take_out(a, i);
            continue;
        }
        if (x->gone_s && !x->cleared_s && x->gone_s + ALARM_CLEAR_S <= now_s) {
            must_fold = must_fold || is_silencing(x) || x->parent;
            x->cleared_s = now_s;
        }
        i++;
    }
    if (must_fold) {
        fold_all(a);
    }
    note_storm(a, now_s);
}

uint64_t alarms_next_s(const struct alarms *a, uint64_t now_s)
{
    uint64_t next = waiting(a) > 0 ? now_s + 1 : UINT64_MAX;

    for (uint32_t i = 0; i < a->count; i++) {
        const struct alarm *x = &a->at[i];
        uint64_t at = x->cleared_s ? x->cleared_s + ALARM_KEEP_S
                      : x->gone_s  ? x->gone_s + ALARM_CLEAR_S
                                   : UINT64_MAX;

        next = at < next ? at : next;
    }
    return next;
}

bool alarms_next_note(struct alarms *a, uint64_t now_s, enum alarm_news *ret_news,
                      struct alarm *ret)
{
    struct alarm *best = NULL;
    enum alarm_news news;

    for (uint32_t i = 0; i < a->count; i++) {
        struct alarm *x = &a->at[i];

        if (news_of(x, &news) && has_token(a, now_s, x->kind == ALARM_STORM) &&
            (!best || x->kind == ALARM_STORM || x->severity > best->severity)) {
            best = x;
            *ret_news = news;
        }
    }
    if (!best) {
        return false;
    }
    a->full_s = (a->full_s > now_s ? a->full_s : now_s) + ALARM_NOTE_EVERY_S;
    a->notes++;
    best->is_told = true;
    best->told_severity = best->severity;
    best->is_clear_told = best->cleared_s != 0;
    *ret = *best;
    return true;
}

/* ---- looking ---- */

const struct alarm *alarms_at(const struct alarms *a, uint32_t index)
{
    return index < a->count ? &a->at[index] : NULL;
}

struct alarms_stats alarms_stats(const struct alarms *a)
{
    struct alarms_stats s = {
        .raised = a->raised,
        .notes = a->notes,
        .overflow = a->overflow,
        .waiting = waiting(a),
    };

    for (uint32_t i = 0; i < a->count; i++) {
        const struct alarm *x = &a->at[i];

        if (x->cleared_s == 0 && x->parent) {
            s.folded++;
        } else if (x->cleared_s == 0) {
            s.standing[x->severity]++;
        }
    }
    return s;
}
