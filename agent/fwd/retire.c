#include "agent/fwd/retire.h"

#include <assert.h>
#include <stdlib.h>

bool retire_reserve(struct retire *r, uint32_t n)
{
    uint32_t cap = r->cap ? r->cap : 64;
    struct retired *ring;

    if (r->cap - r->count >= n) {
        return true;
    }
    while (cap - r->count < n) {
        cap *= 2;
    }
    ring = malloc((size_t)cap * sizeof *ring);
    if (!ring) {
        return false;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        ring[i] = r->ring[(r->head + i) & (r->cap - 1)];
    }
    free(r->ring);
    r->ring = ring;
    r->cap = cap;
    r->head = 0;
    return true;
}

void retire_add(struct retire *r, enum retired_kind kind, uint32_t index,
                uint32_t count)
{
    assert(r->count < r->cap);
    r->ring[(r->head + r->count++) & (r->cap - 1)] = (struct retired){
        .epoch = atomic_load_explicit(&r->epoch, memory_order_relaxed),
        .kind = kind,
        .index = index,
        .count = count,
    };
    if (kind == RETIRED_LINES) {
        r->line_count += count;
    }
}

bool retire_next(struct retire *r, uint64_t oldest, struct retired *ret)
{
    if (r->count == 0 || r->ring[r->head].epoch >= oldest) {
        return false;
    }
    *ret = r->ring[r->head];
    r->head = (r->head + 1) & (r->cap - 1);
    r->count--;
    if (ret->kind == RETIRED_LINES) {
        r->line_count -= ret->count;
    }
    return true;
}

void retire_fini(struct retire *r)
{
    free(r->ring);
    r->ring = NULL;
    r->cap = r->count = 0;
}
