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
    free(p->meters);
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

void plan_add_write(struct plan *p, enum stage stage, const struct phys_write *w)
{
    struct plan_stage *s = &p->stage[stage];
    struct phys_write *at = more(s->at, s->count, &s->cap, sizeof(*s->at));

    if (!at) {
        p->failed = true;
        return;
    }
    s->at = at;
    s->at[s->count++] = *w;
}

void plan_add(struct plan *p, enum stage stage, enum phys_op op,
              const struct phys_entry *e)
{
    struct phys_write w = { .op = (uint8_t)op, .entry = *e };

    if (op == PHYS_DELETE) {
        w.entry.action = 0;
        memset(w.entry.data, 0, sizeof(w.entry.data));
    }
    plan_add_write(p, stage, &w);
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

void plan_flush(struct plan *p, const struct xgwh_sink *sink, struct xgwh_cost *cost)
{
    for (unsigned s = 0; s < STAGES; s++) {
        struct plan_stage *st = &p->stage[s];

        for (uint32_t i = 0; i < st->count; i++) {
            st->at[i].barrier |= i == 0;
            cost->writes++;
            cost->barriers += st->at[i].barrier;
            sink->write(sink->ctx, &st->at[i]);
        }
        for (uint32_t i = 0; s == STAGE_NC_ADD && i < p->meter_count; i++) {
            p->meters[i].barrier = i == 0 && st->count == 0;
            cost->writes++;
            cost->barriers += p->meters[i].barrier;
            sink->meter(sink->ctx, &p->meters[i]);
        }
    }
    plan_reset(p);
}
