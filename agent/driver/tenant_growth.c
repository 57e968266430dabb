#include "agent/driver/tenant_growth.h"

#include <stdlib.h>
#include <string.h>

struct cell {
    uint64_t bytes; /* when it was last read … */
    uint64_t at_ms; /* … then; 0: never */
    uint64_t now;   /* being read */
    uint32_t vni;   /* whose it was */
};

struct tenant_growth {
    uint64_t began_ms;
    uint32_t interval_ms; /* since the round before; 0: there was none */
    bool is_spoilt;
    uint64_t bytes;
    struct top_list tenants;
    uint32_t cells;
    struct cell cell[];
};

struct tenant_growth *tenant_growth_new(uint32_t cells)
{
    struct tenant_growth *g = calloc(1, sizeof(*g) + cells * sizeof(g->cell[0]));

    if (g) {
        g->cells = cells;
    }
    return g;
}

void tenant_growth_free(struct tenant_growth *g)
{
    free(g);
}

uint32_t tenant_growth_cells(const struct tenant_growth *g)
{
    return g->cells;
}

void tenant_growth_begin(struct tenant_growth *g, uint64_t now_ms)
{
    uint64_t span_ms = now_ms - g->began_ms;

    g->interval_ms =
        g->began_ms && span_ms <= TENANT_GROWTH_MS_MAX ? (uint32_t)span_ms : 0;
    g->began_ms = now_ms;
    g->is_spoilt = false;
    g->bytes = 0;
    memset(&g->tenants, 0, sizeof(g->tenants));
}

void tenant_growth_expect(struct tenant_growth *g, uint32_t vni, uint32_t cell)
{
    struct cell *c = &g->cell[cell];

    if (c->vni != vni) {
        *c = (struct cell){ .vni = vni };
    }
    c->now = 0;
}

void tenant_growth_count(struct tenant_growth *g, uint64_t cell, uint64_t bytes)
{
    if (cell < g->cells) {
        g->cell[cell].now += bytes;
    }
}

uint64_t tenant_growth_stretch(uint64_t bytes, uint64_t from_ms, uint64_t to_ms,
                               bool is_up)
{
    return (uint64_t)(((unsigned __int128)bytes * to_ms + (is_up ? from_ms - 1 : 0)) /
                      from_ms);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Into its place; what falls off the end is at most the rest. */
static void list(struct top_list *l, const struct top_item *x)
{
    uint32_t at = l->count;

    while (at > 0 && l->items[at - 1].bytes < x->bytes) {
        at--;
    }
    if (l->count == TOP_LIST_MAX) {
        l->rest =
            larger(l->rest, at < l->count ? l->items[l->count - 1].bytes : x->bytes);
    } else {
        l->count++;
    }
    if (at < l->count) {
        memmove(&l->items[at + 1], &l->items[at],
                (l->count - 1 - at) * sizeof(l->items[0]));
        l->items[at] = *x;
    }
}

static void take_growth(struct tenant_growth *g, const struct cell *c, uint64_t now_ms)
{
    uint64_t grown = c->now - c->bytes;
    uint64_t span_ms = now_ms - c->at_ms;
    struct top_item x = { .vni = c->vni };
    uint64_t least;

    if (grown > TOP_BYTES_MAX / 2 || span_ms > 2 * TENANT_GROWTH_MS_MAX) {
        g->is_spoilt = true; /* no switch is as fast, or nobody looked for long */
        return;
    }
    least = tenant_growth_stretch(grown, span_ms, g->interval_ms, false);
    x.bytes = tenant_growth_stretch(grown, span_ms, g->interval_ms, true);
    x.error = x.bytes - least;
    g->bytes += least;
    if (c->vni == 0) {
        g->tenants.rest = larger(g->tenants.rest, x.bytes);
    } else if (grown > 0) {
        list(&g->tenants, &x);
    }
}

void tenant_growth_read(struct tenant_growth *g, uint32_t cell, bool is_sound,
                        uint64_t now_ms)
{
    struct cell *c = &g->cell[cell];

    if (!is_sound) {
        c->at_ms = 0;
        return;
    }
    /* One that went back was emptied meanwhile. */
    if (c->at_ms != 0 && c->at_ms < now_ms && g->interval_ms != 0 &&
        c->now >= c->bytes) {
        take_growth(g, c, now_ms);
    }
    c->bytes = c->now;
    c->at_ms = now_ms;
}

void tenant_growth_spoil(struct tenant_growth *g)
{
    g->is_spoilt = true;
}

bool tenant_growth_report(const struct tenant_growth *g, struct top_report *ret)
{
    if (g->interval_ms == 0 || g->is_spoilt) {
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    ret->interval_ms = g->interval_ms;
    ret->bytes = g->bytes;
    ret->tenants = g->tenants;
    return true;
}
