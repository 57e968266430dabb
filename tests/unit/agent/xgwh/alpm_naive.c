#include "tests/unit/agent/xgwh/alpm_naive.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 }; /* by VNI */

struct place {
    uint32_t *at; /* into `all` */
    size_t count, cap;
};

struct naive {
    struct place bucket[BUCKETS];
    struct alpm_route *all;
    size_t count, cap;
};

struct naive *naive_new(void)
{
    return calloc(1, sizeof(struct naive));
}

void naive_free(struct naive *n)
{
    for (unsigned i = 0; n && i < BUCKETS; i++) {
        free(n->bucket[i].at);
    }
    free(n ? n->all : NULL);
    free(n);
}

static bool matches(const struct alpm_route *r, const uint8_t addr[16])
{
    for (unsigned i = 0; i < r->len; i++) {
        if ((r->addr[i / 8] ^ addr[i / 8]) >> (7 - i % 8) & 1) {
            return false;
        }
    }
    return true;
}

static uint32_t *find(const struct naive *n, uint32_t vni, const uint8_t addr[16],
                      uint8_t len)
{
    const struct place *b = &n->bucket[vni % BUCKETS];

    for (size_t i = 0; i < b->count; i++) {
        const struct alpm_route *r = &n->all[b->at[i]];

        if (r->vni == vni && r->len == len && memcmp(r->addr, addr, 16) == 0) {
            return &b->at[i];
        }
    }
    return NULL;
}

static void add(struct naive *n, const struct alpm_route *r)
{
    struct place *b = &n->bucket[r->vni % BUCKETS];

    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 64;
        n->all = realloc(n->all, n->cap * sizeof *n->all);
    }
    if (b->count == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 8;
        b->at = realloc(b->at, b->cap * sizeof *b->at);
    }
    b->at[b->count++] = (uint32_t)n->count;
    n->all[n->count++] = *r;
}

static void drop(struct naive *n, uint32_t *at)
{
    uint32_t place = *at;
    struct place *b = &n->bucket[n->all[place].vni % BUCKETS];
    const struct alpm_route *last = &n->all[n->count - 1];
    uint32_t *last_at = find(n, last->vni, last->addr, last->len);

    *last_at = place;
    n->all[place] = *last;
    n->count--;
    *at = b->at[--b->count];
}

void naive_apply(struct naive *n, const struct alpm_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct alpm_route *r = &changes[i].route;
        uint32_t *at = find(n, r->vni, r->addr, r->len);

        if (changes[i].is_delete) {
            if (at) {
                drop(n, at);
            }
        } else if (at) {
            n->all[*at].result = r->result;
        } else {
            add(n, r);
        }
    }
}

void naive_lookup(const struct naive *n, uint32_t vni, const uint8_t addr[16],
                  struct alpm_result *ret)
{
    const struct place *b = &n->bucket[vni % BUCKETS];
    const struct alpm_route *best = NULL;

    for (size_t i = 0; i < b->count; i++) {
        const struct alpm_route *r = &n->all[b->at[i]];

        if (r->vni == vni && (!best || r->len > best->len) && matches(r, addr)) {
            best = r;
        }
    }
    *ret = best ? result_normal(best) : (struct alpm_result){ 0 };
}

const struct alpm_route *naive_get(const struct naive *n, uint32_t vni,
                                   const uint8_t addr[16], uint8_t len)
{
    const uint32_t *at = find(n, vni, addr, len);

    return at ? &n->all[*at] : NULL;
}

size_t naive_count(const struct naive *n)
{
    return n->count;
}

const struct alpm_route *naive_at(const struct naive *n, size_t place)
{
    return &n->all[place];
}

bool result_equal(const struct alpm_result *a, const struct alpm_result *b)
{
    return a->scope == b->scope && a->vni == b->vni && a->idx == b->idx;
}

struct alpm_result result_normal(const struct alpm_route *r)
{
    struct alpm_result n = r->result;

    if (n.scope == PHYS_SCOPE_LOCAL) {
        n.vni = r->vni;
        n.idx = 0;
    } else if (n.scope == PHYS_SCOPE_FALLBACK) {
        n.vni = 0;
    }
    return n;
}
