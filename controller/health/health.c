#include "controller/health/health.h"

#include "controller/health/loss.h"
#include "controller/health/outlook.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PPB 1000000000u
#define EVENTS_MAX                                                                     \
    1024 /* transitions that nobody took yet; what is beyond is dropped */

struct watched {
    char name[NODE_NAME_MAX + 1];
    char cluster[CLUSTER_NAME_MAX + 1];
    uint8_t kind; /* of its cluster */
    bool is_active;
    uint8_t state;    /* enum health_state */
    uint64_t state_s; /* not well since; 0: well */
    char cause[80];
    uint64_t unsync_s; /* out of sync since; 0: in sync */
    uint64_t window_s; /* of the loss: since */
    uint64_t received, lost;
    bool is_losing;
    struct top_report *top; /* the last one; null: none yet */
    uint64_t top_s;         /* it came then */
};

struct event {
    struct event *next;
    struct health_event event;
};

struct health {
    struct level_settings settings;
    struct level_marks raised;
    bool has_raised;
    struct levels *levels;
    struct alarms *alarms;
    struct history *history;
    struct watched *nodes; /* by name */
    uint32_t count;
    uint64_t ticked_s;
    bool has_news; /* telemetry since the last tick */
    struct event *events;
    struct event **events_end;
    uint32_t event_count;
};

struct health *health_new(void)
{
    struct health *h = calloc(1, sizeof(*h));

    if (!h) {
        return NULL;
    }
    level_settings_default(&h->settings);
    h->events_end = &h->events;
    h->levels = levels_new();
    h->alarms = alarms_new();
    if (!h->levels || !h->alarms) {
        health_free(h);
        return NULL;
    }
    return h;
}

void health_free(struct health *h)
{
    if (!h) {
        return;
    }
    while (h->events) {
        struct event *e = h->events;

        h->events = e->next;
        free(e);
    }
    levels_free(h->levels);
    alarms_free(h->alarms);
    history_free(h->history);
    for (uint32_t i = 0; i < h->count; i++) {
        free(h->nodes[i].top);
    }
    free(h->nodes);
    free(h);
}

void health_set_history(struct health *h, struct history *history)
{
    history_free(h->history);
    h->history = history;
}

void health_set_levels(struct health *h, const struct level_settings *s)
{
    h->settings = *s;
}

void health_raise_marks(struct health *h, const struct level_marks *marks)
{
    h->has_raised = marks != NULL;
    if (marks) {
        h->raised = *marks;
    }
}

static uint16_t higher(uint16_t a, uint16_t b)
{
    return a > b ? a : b;
}

struct level_marks health_marks(const struct health *h, unsigned cluster_kind)
{
    struct level_marks m =
        h->settings.of[cluster_kind < LEVEL_KINDS ? cluster_kind : CLUSTER_X86].marks;

    if (h->has_raised) {
        m.sale_bp = higher(m.sale_bp, h->raised.sale_bp);
        m.safe_bp = higher(m.safe_bp, h->raised.safe_bp);
        m.critical_bp = higher(m.critical_bp, h->raised.critical_bp);
    }
    return m;
}

/* ---- nodes ---- */

static uint32_t search(const struct health *h, const char *node, bool *ret_found)
{
    uint32_t low = 0;
    uint32_t high = h->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (strcmp(h->nodes[mid].name, node) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    *ret_found = low < h->count && strcmp(h->nodes[low].name, node) == 0;
    return low;
}

static struct watched *find(const struct health *h, const char *node)
{
    bool found;
    uint32_t at = search(h, node, &found);

    return found ? &h->nodes[at] : NULL;
}

void health_node(struct health *h, const char *node, const char *cluster,
                 unsigned cluster_kind, bool is_active)
{
    bool found;
    uint32_t at = search(h, node, &found);
    struct watched *more;

    if (!found) {
        more = realloc(h->nodes, (h->count + 1) * sizeof(*more));
        if (!more) {
            return; /* not watched */
        }
        h->nodes = more;
        memmove(&more[at + 1], &more[at], (h->count - at) * sizeof(*more));
        h->count++;
        memset(&more[at], 0, sizeof(*more));
        snprintf(more[at].name, sizeof(more[at].name), "%s", node);
    }
    snprintf(h->nodes[at].cluster, sizeof(h->nodes[at].cluster), "%s", cluster);
    h->nodes[at].kind = (uint8_t)cluster_kind;
    h->nodes[at].is_active = is_active;
}

static void node_subject(char ret[SUBJECT_MAX + 1], const char *node)
{
    snprintf(ret, SUBJECT_MAX + 1, "node/%s", node);
}

void health_node_gone(struct health *h, uint64_t now_s, const char *node)
{
    char subject[SUBJECT_MAX + 1];
    bool found;
    uint32_t at = search(h, node, &found);

    if (found) {
        h->count--;
        free(h->nodes[at].top);
        memmove(&h->nodes[at], &h->nodes[at + 1], (h->count - at) * sizeof(*h->nodes));
    }
    node_subject(subject, node);
    levels_forget(h->levels, subject);
    alarms_forget(h->alarms, now_s, subject);
}

/* ---- alarms ---- */

static void raise(struct health *h, uint64_t now_s, struct alarm_report r,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void raise(struct health *h, uint64_t now_s, struct alarm_report r,
                  const char *fmt, ...)
{
    char text[ALARM_TEXT_MAX + 1];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    r.text = text;
    alarms_raise(h->alarms, now_s, &r);
}

void health_node_state(struct health *h, uint64_t now_s, const char *node,
                       enum health_state state, const char *cause)
{
    struct watched *w = find(h, node);
    char subject[SUBJECT_MAX + 1];

    if (!w) {
        return;
    }
    w->state = (uint8_t)state;
    w->state_s = state == HEALTH_WELL ? 0 : w->state_s ? w->state_s : now_s;
    snprintf(w->cause, sizeof(w->cause), "%s", cause);
    node_subject(subject, node);
    if (state != HEALTH_SILENT) {
        alarms_clear(h->alarms, now_s, ALARM_NODE_SILENT, subject);
    }
    if (state == HEALTH_WELL) {
        alarms_clear(h->alarms, now_s, ALARM_NODE_DOWN, subject);
    }
}

/* What has not been well for a while is an alarm. */
static void judge_state(struct health *h, uint64_t now_s, const struct watched *w)
{
    char subject[SUBJECT_MAX + 1];

    if (w->state_s == 0 || w->state_s + HEALTH_STATE_S > now_s) {
        return;
    }
    node_subject(subject, w->name);
    if (w->state == HEALTH_DOWN) {
        raise(h, now_s,
              (struct alarm_report){ ALARM_NODE_DOWN, ALARM_CRITICAL, subject, 0, 0,
                                     NULL },
              "node %s does not forward: %s", w->name, w->cause);
    } else {
        raise(h, now_s,
              (struct alarm_report){ ALARM_NODE_SILENT, ALARM_WARNING, subject, 0, 0,
                                     NULL },
              "node %s is suspect: %s; it forwards with the tables it has", w->name,
              w->cause);
    }
}

void health_node_refused(struct health *h, uint64_t now_s, const char *node,
                         uint32_t exceptions)
{
    char subject[SUBJECT_MAX + 1];

    node_subject(subject, node);
    if (exceptions == 0) {
        alarms_clear(h->alarms, now_s, ALARM_REFUSED, subject);
        return;
    }
    raise(
        h, now_s,
        (struct alarm_report){ ALARM_REFUSED, ALARM_WARNING, subject, exceptions, 0,
                               NULL },
        "node %s does not hold %u entries that it should, or holds some that it should "
        "not",
        node, exceptions);
}

void health_node_sync(struct health *h, uint64_t now_s, const char *node, bool in_sync)
{
    struct watched *w = find(h, node);
    char subject[SUBJECT_MAX + 1];

    if (!w) {
        return;
    }
    w->unsync_s = in_sync ? 0 : w->unsync_s ? w->unsync_s : now_s;
    node_subject(subject, node);
    if (w->unsync_s && w->unsync_s + HEALTH_OUT_OF_SYNC_S <= now_s) {
        raise(h, now_s,
              (struct alarm_report){ ALARM_OUT_OF_SYNC, ALARM_WARNING, subject,
                                     (double)(now_s - w->unsync_s),
                                     HEALTH_OUT_OF_SYNC_S, NULL },
              "node %s has been out of sync for %llu s", node,
              (unsigned long long)(now_s - w->unsync_s));
    } else if (in_sync) {
        alarms_clear(h->alarms, now_s, ALARM_OUT_OF_SYNC, subject);
    }
}

void health_blind(struct health *h, uint64_t now_s, bool is_blind, uint32_t lost,
                  uint32_t known)
{
    if (!is_blind) {
        alarms_clear(h->alarms, now_s, ALARM_BLIND, HEALTH_REGION);
        return;
    }
    raise(h, now_s,
          (struct alarm_report){ ALARM_BLIND, ALARM_CRITICAL, HEALTH_REGION, lost,
                                 known, NULL },
          "%u of %u nodes are out of sight at once: the controller suspects itself and "
          "changes no routes",
          lost, known);
}

void health_audit(struct health *h, uint64_t now_s, const char *node, uint64_t total,
                  uint64_t missing, uint64_t extra, uint64_t different, uint64_t number,
                  bool is_repaired)
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "node/%s", node);
    raise(h, now_s,
          (struct alarm_report){ ALARM_AUDIT,
                                 is_repaired ? ALARM_WARNING : ALARM_CRITICAL, subject,
                                 (double)total, 0, NULL },
          "node %s differed from what it should hold by %llu rows (%llu missing, %llu "
          "extra, %llu different): audit %llu%s",
          node, (unsigned long long)total, (unsigned long long)missing,
          (unsigned long long)extra, (unsigned long long)different,
          (unsigned long long)number, is_repaired ? "; repaired" : "");
}

void health_audit_clean(struct health *h, uint64_t now_s, const char *node)
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "node/%s", node);
    alarms_clear(h->alarms, now_s, ALARM_AUDIT, subject);
}

void health_trace(struct health *h, uint64_t now_s, const char *node, const char *what)
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "node/%s", node);
    if (!what) {
        alarms_clear(h->alarms, now_s, ALARM_TRACE, subject);
        return;
    }
    raise(h, now_s,
          (struct alarm_report){ ALARM_TRACE, ALARM_CRITICAL, subject, 0, 0, NULL },
          "live trace at node %s: %s", node, what);
}

void health_contradiction(struct health *h, uint64_t now_s, const char *cluster,
                          const char *node, const char *other)
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "cluster/%s", cluster);
    if (!other) {
        alarms_clear(h->alarms, now_s, ALARM_NODES_DIFFER, subject);
        return;
    }
    raise(h, now_s,
          (struct alarm_report){ ALARM_NODES_DIFFER, ALARM_CRITICAL, subject, 0, 0,
                                 NULL },
          "nodes %s and %s of cluster %s were read at the same revision and hold "
          "different rows",
          node, other, cluster);
}

void health_festival(struct health *h, uint64_t now_s, const char *festival,
                     uint32_t critical_bp, const struct outlook *o)
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "festival/%s", festival);
    if (o->fits) {
        alarms_clear(h->alarms, now_s, ALARM_FESTIVAL, subject);
        return;
    }
    raise(h, now_s,
          (struct alarm_report){ ALARM_FESTIVAL, ALARM_WARNING, subject, o->percent,
                                 critical_bp / 100.0, NULL },
          "festival %s does not fit: %s of %s would be at %.1f %%", festival,
          o->resource, o->subject, o->percent);
}

void health_consumer(struct health *h, uint64_t now_s, const char *consumer,
                     uint32_t awaited_s)
{
    char subject[SUBJECT_MAX + 1];

    snprintf(subject, sizeof(subject), "consumer/%s", consumer);
    if (awaited_s < CONSUMER_LATE_S) {
        alarms_clear(h->alarms, now_s, ALARM_STEERING, subject);
        return;
    }
    raise(h, now_s,
          (struct alarm_report){ ALARM_STEERING, ALARM_WARNING, subject, awaited_s,
                                 CONSUMER_LATE_S, NULL },
          "consumer %s has not acknowledged steering for %u s: a move waits for it",
          consumer, awaited_s);
}

/* ---- levels ---- */

static void push(struct health *h, const struct health_event *event)
{
    struct event *e = h->event_count < EVENTS_MAX ? calloc(1, sizeof(*e)) : NULL;

    if (e) {
        e->event = *event;
        *h->events_end = e;
        h->events_end = &e->next;
        h->event_count++;
    }
}

static void level_alarm(struct health *h, uint64_t now_s, const char *subject,
                        const struct level *l, const struct level_marks *marks)
{
    char full[ALARM_SUBJECT_MAX + 1];
    uint32_t mark = l->water == WATER_CRITICAL ? marks->critical_bp : marks->safe_bp;

    snprintf(full, sizeof(full), "%s/%s", subject, l->resource);
    if (l->water < WATER_SAFE) {
        alarms_clear(h->alarms, now_s, ALARM_LEVEL, full);
        return;
    }
    raise(h, now_s,
          (struct alarm_report){
              ALARM_LEVEL, l->water == WATER_CRITICAL ? ALARM_CRITICAL : ALARM_WARNING,
              full, l->bp / 100.0, mark / 100.0, NULL },
          "%s of %s is %s: %.2f %%, %llu of %llu", l->resource, subject,
          water_name(l->water), l->bp / 100.0, (unsigned long long)l->used,
          (unsigned long long)l->capacity);
}

/* `node`: whose load it is; null: a cluster's. */
static void measure(struct health *h, uint64_t now_s, const struct level_measure *m,
                    unsigned kind, const char *node)
{
    struct level_marks marks = health_marks(h, kind);
    struct health_event e = { .kind = HEALTH_LEVEL };
    bool has_changed = levels_measure(h->levels, m, &marks, now_s, &e.change);
    const struct level_subject *s = levels_find(h->levels, m->subject);
    const struct level *l = s ? level_of(s, m->resource) : NULL;

    if (l && (has_changed || l->water >= WATER_SAFE)) {
        level_alarm(h, now_s, m->subject, l, &marks);
    }
    if (!has_changed) {
        return;
    }
    snprintf(e.subject, sizeof(e.subject), "%s", m->subject);
    push(h, &e);
    if (node && e.change.to == WATER_CRITICAL) {
        e.kind = HEALTH_CRITICAL;
        snprintf(e.node, sizeof(e.node), "%s", node);
        push(h, &e);
    }
}

static void keep(struct health *h, uint64_t now_s, const char *subject,
                 const char *resource, uint64_t min, uint64_t mean, uint64_t max)
{
    const struct history_point p = { now_s, min, mean, max };

    if (h->history) {
        history_add(h->history, subject, resource, &p);
    }
}

static void take_reading(struct health *h, uint64_t now_s, const struct watched *w,
                         const struct telemetry_reading *r)
{
    char subject[SUBJECT_MAX + 1];
    struct level_measure m = { subject, r->resource, WATER_LOAD, r->mean, r->capacity };

    snprintf(subject, sizeof(subject), "node/%s%s%s", w->name, r->part[0] ? "/" : "",
             r->part);
    keep(h, now_s, subject, r->resource, r->min, r->mean, r->max);
    if (r->kind == READING_LOAD) {
        measure(h, now_s, &m, w->kind, w->name);
    } else {
        struct level_change ignored;

        m.cause = WATER_TABLE;
        levels_measure(h->levels, &m, NULL, now_s, &ignored);
    }
}

/* Shares are told from a whole window, and only where enough was lost to tell. */
static void judge_loss(struct health *h, uint64_t now_s, struct watched *w)
{
    uint32_t allowed = h->settings.of[w->kind < LEVEL_KINDS ? w->kind : 1].drop_ppb;
    uint64_t all = w->received > w->lost ? w->received : w->lost;
    uint64_t ppb = all ? (uint64_t)((unsigned __int128)w->lost * PPB / all) : 0;
    char subject[SUBJECT_MAX + 1];

    node_subject(subject, w->name);
    keep(h, now_s, subject, "loss_ppb", ppb, ppb, ppb);
    if (ppb > allowed && w->lost >= HEALTH_LOSS_LEAST) {
        w->is_losing = true;
        raise(h, now_s,
              (struct alarm_report){ ALARM_LOSS, ALARM_WARNING, subject,
                                     (double)ppb / PPB, (double)allowed / PPB, NULL },
              "node %s lost %llu of %llu packets within %u s", w->name,
              (unsigned long long)w->lost, (unsigned long long)all,
              HEALTH_LOSS_WINDOW_S);
    } else if (w->is_losing && ppb <= allowed / 2) {
        w->is_losing = false;
        alarms_clear(h->alarms, now_s, ALARM_LOSS, subject);
    }
    w->received = 0;
    w->lost = 0;
    w->window_s = now_s;
}

static void take_drops(struct health *h, uint64_t now_s, struct watched *w,
                       const struct telemetry *t)
{
    char subject[SUBJECT_MAX + 1];

    node_subject(subject, w->name);
    for (uint32_t i = 0; i < t->drop_count; i++) {
        const struct drop_count *d = &t->drops[i];
        char resource[RESOURCE_MAX + 1];
        uint64_t pps = (d->packets * 1000 + t->span_ms - 1) / t->span_ms;

        w->lost += loss_counts(d->reason) ? d->packets : 0;
        snprintf(resource, sizeof(resource), "drop.%s", d->reason);
        keep(h, now_s, subject, resource, pps, pps, pps);
    }
    w->received += t->received;
    if (w->window_s == 0) {
        w->window_s = now_s;
    } else if (w->window_s + HEALTH_LOSS_WINDOW_S <= now_s) {
        judge_loss(h, now_s, w);
    }
}

/* Without memory for it the node counts as one that told none. */
static void take_top(struct watched *w, uint64_t now_s, const struct top_report *top)
{
    if (top->interval_ms == 0) {
        return;
    }
    w->top = w->top ? w->top : malloc(sizeof(*w->top));
    if (w->top) {
        *w->top = *top;
        w->top_s = now_s;
    }
}

void health_telemetry(struct health *h, uint64_t now_s, const char *node,
                      const struct telemetry *t)
{
    struct watched *w = find(h, node);

    if (!w || t->span_ms == 0) {
        return;
    }
    for (uint32_t i = 0; i < t->reading_count; i++) {
        take_reading(h, now_s, w, &t->readings[i]);
    }
    take_drops(h, now_s, w, t);
    take_top(w, now_s, &t->top);
    h->has_news = true;
}

enum rc health_top(const struct health *h, uint64_t now_s, const char *cluster,
                   const char *node, enum top_kind kind, uint32_t room,
                   struct top_sum *ret)
{
    const struct top_report **reports = malloc((h->count + 1) * sizeof(*reports));
    uint32_t without = 0;
    uint32_t unable = 0;
    uint32_t count = 0;
    enum rc rc;

    if (!reports) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        const struct watched *w = &h->nodes[i];

        if ((cluster && strcmp(w->cluster, cluster) != 0) ||
            (node && strcmp(w->name, node) != 0)) {
            continue;
        }
        if (!w->top || now_s > w->top_s + HEALTH_TOP_STALE_S) {
            without++;
        } else if (kind == TOP_FLOWS && w->top->no_flows) {
            unable++;
        } else {
            reports[count++] = w->top;
        }
    }
    rc = tops_merge(reports, count, kind, room, ret);
    if (rc == RC_OK) {
        ret->without = without;
        ret->unable = unable;
    }
    free(reports);
    return rc;
}

/* ---- clusters ---- */

struct cluster_use {
    char resource[RESOURCE_MAX + 1];
    enum water_cause cause;
    uint64_t used, capacity;
};

#define CLUSTER_USES_MAX 96

struct cluster_uses {
    struct cluster_use at[CLUSTER_USES_MAX];
    unsigned count;
};

static struct cluster_use *use_of(struct cluster_uses *u, const struct level *l)
{
    for (unsigned i = 0; i < u->count; i++) {
        if (strcmp(u->at[i].resource, l->resource) == 0) {
            return &u->at[i];
        }
    }
    if (u->count == CLUSTER_USES_MAX) {
        return NULL;
    }
    memcpy(u->at[u->count].resource, l->resource, sizeof(l->resource));
    u->at[u->count].cause = (enum water_cause)l->cause;
    u->at[u->count].used = 0;
    u->at[u->count].capacity = 0;
    return &u->at[u->count++];
}

/* Tables: the fullest node's.  Load of ports and cores: all of the active side's. */
static void add_levels(struct cluster_uses *u, const struct level_subject *s,
                       bool is_part, bool is_active)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct level *l = &s->levels[i];
        bool is_table = l->cause == WATER_TABLE;
        struct cluster_use *use;

        if (l->capacity == 0 || (is_table ? is_part : !is_part || !is_active)) {
            continue;
        }
        use = use_of(u, l);
        if (use && is_table &&
            (use->capacity == 0 || l->bp > water_bp(use->used, use->capacity))) {
            use->used = l->used;
            use->capacity = l->capacity;
        } else if (use && !is_table) {
            use->used += l->used;
            use->capacity += l->capacity;
        }
    }
}

static void add_node(const struct health *h, const struct watched *w,
                     struct cluster_uses *u)
{
    char subject[SUBJECT_MAX + 1];
    const struct level_subject *s;

    node_subject(subject, w->name);
    for (uint32_t i = levels_search(h->levels, subject);
         (s = levels_at(h->levels, i)) != NULL &&
         strncmp(s->name, subject, strlen(subject)) == 0;
         i++) {
        if (subject_is_within(s->name, subject)) {
            add_levels(u, s, strcmp(s->name, subject) != 0, w->is_active);
        }
    }
}

/* All nodes of the cluster of node `first`, which is the first of it. */
static void measure_cluster(struct health *h, uint64_t now_s, uint32_t first)
{
    const struct watched *w = &h->nodes[first];
    struct cluster_uses *u = calloc(1, sizeof(*u));
    char subject[SUBJECT_MAX + 1];

    if (!u) {
        return;
    }
    for (uint32_t i = first; i < h->count; i++) {
        if (strcmp(h->nodes[i].cluster, w->cluster) == 0) {
            add_node(h, &h->nodes[i], u);
        }
    }
    snprintf(subject, sizeof(subject), "cluster/%s", w->cluster);
    for (unsigned i = 0; i < u->count; i++) {
        const struct cluster_use *x = &u->at[i];
        const struct level_measure m = { subject, x->resource, x->cause, x->used,
                                         x->capacity };

        keep(h, now_s, subject, x->resource, x->used, x->used, x->used);
        measure(h, now_s, &m, w->kind, NULL);
    }
    free(u);
}

void health_model(struct health *h, uint64_t now_s, const char *cluster,
                  unsigned cluster_kind, const char *name, uint64_t used,
                  uint64_t capacity)
{
    char subject[SUBJECT_MAX + 1];
    char resource[RESOURCE_MAX + 1];
    const struct level_measure m = { subject, resource, WATER_MODEL, used, capacity };

    snprintf(subject, sizeof(subject), "cluster/%s", cluster);
    snprintf(resource, sizeof(resource), "model.%s", name);
    keep(h, now_s, subject, resource, used, used, used);
    measure(h, now_s, &m, cluster_kind, NULL);
}

static bool is_first_of_cluster(const struct health *h, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (strcmp(h->nodes[i].cluster, h->nodes[at].cluster) == 0) {
            return false;
        }
    }
    return true;
}

/* ---- time ---- */

void health_tick(struct health *h, uint64_t now_s)
{
    if (now_s != h->ticked_s) {
        h->ticked_s = now_s;
        for (uint32_t i = 0; i < h->count; i++) {
            judge_state(h, now_s, &h->nodes[i]);
        }
        for (uint32_t i = 0; h->has_news && i < h->count; i++) {
            if (is_first_of_cluster(h, i)) {
                measure_cluster(h, now_s, i);
            }
        }
        h->has_news = false;
        levels_expire(h->levels, now_s > HEALTH_STALE_S ? now_s - HEALTH_STALE_S : 0);
        alarms_tick(h->alarms, now_s);
    }
}

uint64_t health_next_s(const struct health *h, uint64_t now_s)
{
    uint64_t next = alarms_next_s(h->alarms, now_s);
    uint64_t soon = levels_at(h->levels, 0) ? now_s + 1 : UINT64_MAX;

    return next < soon ? next : soon;
}

bool health_next_event(struct health *h, uint64_t now_s, struct health_event *ret)
{
    struct event *e = h->events;

    if (e) {
        *ret = e->event;
        h->events = e->next;
        if (!h->events) {
            h->events_end = &h->events;
        }
        h->event_count--;
        free(e);
        return true;
    }
    memset(ret, 0, sizeof(*ret));
    ret->kind = HEALTH_ALARM;
    return alarms_next_note(h->alarms, now_s, &ret->news, &ret->alarm);
}

/* ---- looking ---- */

const struct levels *health_levels(const struct health *h)
{
    return h->levels;
}

struct alarms *health_alarms(struct health *h)
{
    return h->alarms;
}

const struct alarms *health_alarms_of(const struct health *h)
{
    return h->alarms;
}

struct history *health_history(const struct health *h)
{
    return h->history;
}

const struct level *health_cluster_at(const struct health *h, const char *cluster,
                                      enum water water, bool of_tables)
{
    char subject[SUBJECT_MAX + 1];
    const struct level_subject *s;
    const struct level *fullest = NULL;

    snprintf(subject, sizeof(subject), "cluster/%s", cluster);
    s = levels_find(h->levels, subject);
    for (uint32_t i = 0; s && i < s->count; i++) {
        const struct level *l = &s->levels[i];

        if (l->water >= water && (l->cause == WATER_TABLE || !of_tables) &&
            (!fullest || l->bp > fullest->bp)) {
            fullest = l;
        }
    }
    return fullest;
}

bool health_is_on_sale(const struct health *h, const char *cluster)
{
    return !health_cluster_at(h, cluster, WATER_SALE, false);
}
