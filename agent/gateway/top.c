#include "agent/gateway/top.h"

#include <stdlib.h>
#include <string.h>

enum rc top_init(struct top *t, struct worker *workers, unsigned worker_count,
                 uint64_t now_ms, struct err *err)
{
    memset(t, 0, sizeof(*t));
    t->workers = workers;
    t->begun_ms = now_ms;
    t->tickets = calloc(worker_count, sizeof(*t->tickets));
    t->pairs = calloc(worker_count, sizeof(*t->pairs));
    t->sketches = calloc(worker_count, sizeof(*t->sketches));
    if (!t->tickets || !t->pairs || !t->sketches) {
        top_fini(t);
        return err_set(err, RC_NO_MEMORY, "no memory for the heaviest flows");
    }
    t->worker_count = worker_count;
    return RC_OK;
}

void top_fini(struct top *t)
{
    free(t->tickets);
    free(t->pairs);
    free(t->sketches);
    memset(t, 0, sizeof(*t));
}

static void swap(struct top *t, uint64_t now_ms)
{
    for (unsigned i = 0; i < t->worker_count; i++) {
        struct flow_sample *s = t->workers[i].config.sample;

        t->pairs[i] = s ? flow_sample_swap(s) : NULL;
    }
    for (unsigned i = 0; i < t->worker_count; i++) {
        t->tickets[i] = worker_ticket(&t->workers[i]);
    }
    t->swap_took = (uint32_t)(now_ms - t->begun_ms);
    t->begun_ms = now_ms;
    t->is_swapped = true;
}

static bool all_passed(const struct top *t)
{
    for (unsigned i = 0; i < t->worker_count; i++) {
        if (!worker_has_passed(&t->workers[i], t->tickets[i])) {
            return false;
        }
    }
    return true;
}

/* Short of memory an interval is left out. */
static bool merge(struct top *t)
{
    unsigned count = 0;

    for (unsigned i = 0; i < t->worker_count; i++) {
        if (t->pairs[i]) {
            t->sketches[count++] = t->pairs[i]->flows;
        }
    }
    if (top_sketch_merge(t->sketches, count, t->flows, TOP_MAX, &t->flow_count,
                         &t->flows_rest) != RC_OK) {
        return false;
    }
    count = 0;
    t->bytes = 0;
    for (unsigned i = 0; i < t->worker_count; i++) {
        if (t->pairs[i]) {
            t->bytes += top_sketch_total(t->pairs[i]->tenants);
            t->sketches[count++] = t->pairs[i]->tenants;
        }
    }
    return top_sketch_merge(t->sketches, count, t->tenants, TOP_MAX, &t->tenant_count,
                            &t->tenants_rest) == RC_OK;
}

static void clear(struct top *t)
{
    for (unsigned i = 0; i < t->worker_count; i++) {
        if (t->pairs[i]) {
            top_sketch_clear(t->pairs[i]->flows);
            top_sketch_clear(t->pairs[i]->tenants);
        }
    }
    t->is_swapped = false;
}

void top_tick(struct top *t, uint64_t now_ms)
{
    if (t->is_swapped && all_passed(t)) {
        if (merge(t)) {
            t->ended_ms = t->begun_ms;
            t->interval_ms = t->swap_took;
        }
        clear(t);
    }
    if (!t->is_swapped && now_ms - t->begun_ms >= TOP_INTERVAL_MS) {
        swap(t, now_ms);
    }
}
