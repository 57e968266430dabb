#include "controller/audit/plan.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void audit_plan_fini(struct audit_plan *p)
{
    free(p->at);
    *p = (struct audit_plan){ 0 };
}

/* Index of the first whose name is not below `name`. */
static uint32_t place_of(const struct audit_plan *p, const char *name)
{
    uint32_t i = 0;

    while (i < p->count && strcmp(p->at[i].name, name) < 0) {
        i++;
    }
    return i;
}

struct audit_node *audit_plan_find(const struct audit_plan *p, const char *name)
{
    uint32_t i = place_of(p, name);

    return i < p->count && strcmp(p->at[i].name, name) == 0 ? &p->at[i] : NULL;
}

static bool is_side_of(const struct audit_node *a, const struct audit_node *b)
{
    return a->side == b->side && strcmp(a->cluster, b->cluster) == 0;
}

static uint64_t interval_of(const struct audit_plan *p, const struct audit_node *n)
{
    uint64_t nodes = 0;
    uint64_t read_ms = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        if (is_side_of(&p->at[i], n)) {
            nodes++;
            read_ms = p->at[i].read_ms > read_ms ? p->at[i].read_ms : read_ms;
        }
    }
    return 2 * nodes * read_ms > p->interval_ms ? 2 * nodes * read_ms : p->interval_ms;
}

/* The same for a node each time, and spread over the interval. */
static uint64_t offset_of(const struct audit_plan *p, const char *name)
{
    return p->interval_ms ? XXH3_64bits(name, strlen(name)) % p->interval_ms : 0;
}

bool audit_plan_put(struct audit_plan *p, uint64_t now_ms, const char *name,
                    const char *cluster, uint8_t side)
{
    struct audit_node *n = audit_plan_find(p, name);
    uint32_t at = place_of(p, name);
    struct audit_node *more;

    if (!n) {
        more = realloc(p->at, (p->count + 1) * sizeof(*more));
        if (!more) {
            return false;
        }
        p->at = more;
        memmove(&more[at + 1], &more[at], (p->count - at) * sizeof(*more));
        p->count++;
        n = &more[at];
        *n = (struct audit_node){ .due_ms = now_ms + offset_of(p, name) };
        strncpy(n->name, name, sizeof(n->name) - 1);
    }
    if (strcmp(n->cluster, cluster) != 0) {
        n->seen = (struct audit_seen){ 0 }; /* of another set */
    }
    memset(n->cluster, 0, sizeof(n->cluster));
    strncpy(n->cluster, cluster, sizeof(n->cluster) - 1);
    n->side = side;
    return true;
}

void audit_plan_drop(struct audit_plan *p, const char *name)
{
    uint32_t at = place_of(p, name);

    if (audit_plan_find(p, name)) {
        p->count--;
        memmove(&p->at[at], &p->at[at + 1], (p->count - at) * sizeof(*p->at));
    }
}

bool audit_plan_may_run(const struct audit_plan *p, const struct audit_node *n)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i].is_running && is_side_of(&p->at[i], n)) {
            return false;
        }
    }
    return true;
}

struct audit_node *audit_plan_next(const struct audit_plan *p, uint64_t now_ms)
{
    struct audit_node *best = NULL;

    for (uint32_t i = 0; p->interval_ms && i < p->count; i++) {
        struct audit_node *n = &p->at[i];

        if (n->due_ms <= now_ms && (!best || n->due_ms < best->due_ms) &&
            audit_plan_may_run(p, n)) {
            best = n;
        }
    }
    return best;
}

uint64_t audit_plan_wake(const struct audit_plan *p)
{
    uint64_t wake = UINT64_MAX;

    for (uint32_t i = 0; p->interval_ms && i < p->count; i++) {
        const struct audit_node *n = &p->at[i];

        if (!n->is_running && n->due_ms < wake && audit_plan_may_run(p, n)) {
            wake = n->due_ms;
        }
    }
    return wake;
}

void audit_plan_ended(struct audit_plan *p, struct audit_node *n, uint64_t now_ms)
{
    n->is_running = false;
    n->due_ms = now_ms + interval_of(p, n);
}

const struct audit_node *audit_plan_contradicts(const struct audit_plan *p,
                                                const struct audit_node *n)
{
    for (uint32_t i = 0; n->seen.revision && i < p->count; i++) {
        const struct audit_node *o = &p->at[i];

        if (o != n && strcmp(o->cluster, n->cluster) == 0 &&
            o->seen.revision == n->seen.revision &&
            memcmp(o->seen.root, n->seen.root, sizeof(n->seen.root)) != 0) {
            return o;
        }
    }
    return NULL;
}
