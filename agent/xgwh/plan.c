#include "agent/xgwh/plan.h"

#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/xgwh.h"

#define KEEP_WRITES 4096 /* memory for more goes back after a flush */

void plan_fini(struct plan *p)
{
    for (unsigned s = 0; s < STAGES; s++) {
        free(p->stage[s].at);
    }
    free(p->waves);
    free(p->meters);
    free(p->doubts);
    memset(p, 0, sizeof(*p));
}

void plan_reset(struct plan *p)
{
    for (unsigned s = 0; s < STAGES; s++) {
        struct plan_stage *st = &p->stage[s];

        st->count = 0;
        if (st->cap > KEEP_WRITES) {
            free(st->at);
            st->at = NULL;
            st->cap = 0;
        }
    }
    if (p->waves_cap > KEEP_WRITES) {
        free(p->waves);
        p->waves = NULL;
        p->waves_cap = 0;
    }
    p->wave_first = p->wave_end = 0;
    memset(p->wave_of, 0, sizeof(p->wave_of));
    p->meter_count = 0;
    p->failed = false;
}

/* Room for one more; null when memory is out. */
static void *more(void *at, uint32_t count, uint32_t *cap, size_t size)
{
    uint32_t wider = *cap ? 2 * *cap : 64;

    if (count < *cap) {
        return at;
    }
    at = realloc(at, wider * size);
    if (at) {
        *cap = wider;
    }
    return at;
}

static bool add_write(struct plan *p, enum stage stage, const struct phys_write *w)
{
    struct plan_stage *s = &p->stage[stage];
    struct phys_write *at = more(s->at, s->count, &s->cap, sizeof(*s->at));

    if (!at) {
        p->failed = true;
        return false;
    }
    s->at = at;
    s->at[s->count++] = *w;
    return true;
}

void plan_add(struct plan *p, enum stage stage, enum phys_op op,
              const struct phys_entry *e)
{
    struct phys_write w = { .op = (uint8_t)op, .entry = *e };

    if (op == PHYS_DELETE) {
        w.entry.action = 0;
        memset(w.entry.data, 0, sizeof(w.entry.data));
    }
    (void)add_write(p, stage, &w);
}

void plan_add_strand(struct plan *p, enum plan_strand strand,
                     const struct phys_write *w)
{
    uint32_t last = p->wave_of[strand];
    uint32_t wave = last == 0 ? p->wave_first : last - 1 + w->barrier;
    uint32_t *at =
        more(p->waves, p->stage[STAGE_ROUTE].count, &p->waves_cap, sizeof(*p->waves));

    if (!at) {
        p->failed = true;
        return;
    }
    p->waves = at;
    if (add_write(p, STAGE_ROUTE, w)) {
        p->waves[p->stage[STAGE_ROUTE].count - 1] = wave;
        p->wave_of[strand] = wave + 1;
        p->wave_end = p->wave_end > wave ? p->wave_end : wave + 1;
    }
}

void plan_join(struct plan *p)
{
    p->wave_first = p->wave_end;
    memset(p->wave_of, 0, sizeof(p->wave_of));
}

void plan_add_meter(struct plan *p, const struct phys_meter_write *w)
{
    struct phys_meter_write *at =
        more(p->meters, p->meter_count, &p->meter_cap, sizeof(*p->meters));

    if (!at) {
        p->failed = true;
        return;
    }
    p->meters = at;
    p->meters[p->meter_count++] = *w;
}

/* ---- doubts ---- */

bool plan_doubt(struct plan *p, const struct phys_entry *e)
{
    struct phys_entry *at =
        more(p->doubts, p->doubt_count, &p->doubt_cap, sizeof(*p->doubts));

    if (!at) {
        return false;
    }
    p->doubts = at;
    p->doubts[p->doubt_count++] = *e;
    return true;
}

void plan_doubts_clear(struct plan *p)
{
    p->doubt_count = 0;
}

static bool is_write_of(const struct phys_entry *w, const struct phys_entry *e)
{
    return w->table == e->table && w->priority == e->priority &&
           (w->half == PHYS_BOTH || w->half == e->half) &&
           memcmp(w->key, e->key, sizeof(w->key)) == 0 &&
           memcmp(w->mask, e->mask, sizeof(w->mask)) == 0;
}

bool plan_writes(const struct plan *p, const struct phys_entry *e)
{
    for (unsigned s = 0; s < STAGES; s++) {
        for (uint32_t i = 0; i < p->stage[s].count; i++) {
            if (is_write_of(&p->stage[s].at[i].entry, e)) {
                return true;
            }
        }
    }
    return false;
}

static void end_doubts(struct plan *p, const struct phys_write *w)
{
    for (uint32_t i = 0; i < p->doubt_count;) {
        if (is_write_of(&w->entry, &p->doubts[i])) {
            p->doubts[i] = p->doubts[--p->doubt_count];
        } else {
            i++;
        }
    }
}

/* ---- giving it out ---- */

/* The writes of STAGE_ROUTE by waves, as indexes; null when memory is out. */
static uint32_t *in_waves(const struct plan *p)
{
    uint32_t count = p->stage[STAGE_ROUTE].count;
    uint32_t *order = malloc((count + 1) * sizeof(*order));
    uint32_t *next = calloc(p->wave_end + 1, sizeof(*next)); /* place of each wave */

    for (uint32_t i = 0; order && next && i < count; i++) {
        next[p->waves[i] + 1]++;
    }
    for (uint32_t wave = 0; next && wave < p->wave_end; wave++) {
        next[wave + 1] += next[wave];
    }
    for (uint32_t i = 0; order && next && i < count; i++) {
        order[next[p->waves[i]]++] = i;
    }
    if (!next) {
        free(order);
        order = NULL;
    }
    free(next);
    return order;
}

static void give(struct phys_write *w, bool is_first, const struct xgwh_sink *sink,
                 struct xgwh_cost *cost)
{
    w->barrier = is_first;
    cost->writes++;
    cost->barriers += is_first;
    sink->write(sink->ctx, w);
}

static void give_routes(struct plan *p, const uint32_t *order,
                        const struct xgwh_sink *sink, struct xgwh_cost *cost)
{
    const struct plan_stage *st = &p->stage[STAGE_ROUTE];

    for (uint32_t i = 0; i < st->count; i++) {
        bool is_first = i == 0 || p->waves[order[i]] != p->waves[order[i - 1]];

        end_doubts(p, &st->at[order[i]]);
        give(&st->at[order[i]], is_first, sink, cost);
    }
}

bool plan_flush(struct plan *p, const struct xgwh_sink *sink, struct xgwh_cost *cost)
{
    uint32_t *order = in_waves(p);

    for (unsigned s = 0; order && s < STAGES; s++) {
        const struct plan_stage *st = &p->stage[s];

        if (s == STAGE_ROUTE) {
            give_routes(p, order, sink, cost);
            continue;
        }
        for (uint32_t i = 0; i < st->count; i++) {
            end_doubts(p, &st->at[i]);
            give(&st->at[i], i == 0, sink, cost);
        }
        for (uint32_t i = 0; s == STAGE_NC_ADD && i < p->meter_count; i++) {
            p->meters[i].barrier = i == 0 && st->count == 0;
            cost->writes++;
            cost->barriers += p->meters[i].barrier;
            sink->meter(sink->ctx, &p->meters[i]);
        }
    }
    free(order);
    plan_reset(p);
    return order != NULL;
}
