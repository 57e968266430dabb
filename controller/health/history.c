#include "controller/health/history_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const struct {
    const char *name;
    uint32_t step_s;
    uint32_t span_s;
    uint32_t keep_s;
} tiers[HISTORY_TIERS] = {
    { "seconds", 1, 60, 3600 },
    { "minutes", 60, 3600, 7 * 86400 },
    { "hours", 3600, 86400, 365 * 86400 },
};

const char *history_tier_name(unsigned tier)
{
    return tier < HISTORY_TIERS ? tiers[tier].name : "unknown";
}

uint32_t history_keep_s(unsigned tier)
{
    return tiers[tier].keep_s;
}

uint32_t history_step_s(unsigned tier)
{
    return tiers[tier].step_s;
}

uint32_t history_span_s(unsigned tier)
{
    return tiers[tier].span_s;
}

enum history_tier history_tier_for(uint64_t from_s, uint64_t now_s)
{
    unsigned tier = HISTORY_SECONDS;

    while (tier < HISTORY_HOURS && from_s + tiers[tier].keep_s < now_s) {
        tier++;
    }
    return (enum history_tier)tier;
}

/* ---- life ---- */

struct history *history_new(size_t max_bytes)
{
    struct history *h = calloc(1, sizeof(*h));

    if (h) {
        h->max_bytes = max_bytes;
    }
    return h;
}

static size_t block_size(const struct block *b)
{
    return sizeof(*b) + b->len;
}

static void drop_oldest(struct history *h, struct tier *t)
{
    struct block *b = t->oldest;

    t->oldest = b->next;
    if (!t->oldest) {
        t->newest = NULL;
    }
    h->bytes -= block_size(b);
    free(b);
}

static void series_free(struct history *h, struct series *s)
{
    for (unsigned i = 0; i < HISTORY_TIERS; i++) {
        while (s->tiers[i].oldest) {
            drop_oldest(h, &s->tiers[i]);
        }
        buf_fini(&s->tiers[i].open);
    }
    free(s);
}

void history_free(struct history *h)
{
    if (!h) {
        return;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        series_free(h, h->at[i]);
    }
    free(h->at);
    free(h->hash);
    free(h);
}

struct history_stats history_stats(const struct history *h)
{
    return (struct history_stats){ h->count, h->bytes, h->early_blocks };
}

/* ---- series by name ---- */

static uint64_t name_hash(const char *subject, const char *resource)
{
    return XXH3_64bits_withSeed(resource, strlen(resource),
                                XXH3_64bits(subject, strlen(subject)));
}

static struct series *series_find(const struct history *h, const char *subject,
                                  const char *resource)
{
    struct series *s = h->hash_size
                           ? h->hash[name_hash(subject, resource) & (h->hash_size - 1)]
                           : NULL;

    while (s &&
           (strcmp(s->resource, resource) != 0 || strcmp(s->subject, subject) != 0)) {
        s = s->same;
    }
    return s;
}

static bool grow(struct history *h)
{
    uint32_t size = h->hash_size ? h->hash_size * 2 : 256;
    struct series **hash = calloc(size, sizeof(*hash));
    struct series **at = realloc(h->at, size * sizeof(*at));

    h->at = at ? at : h->at;
    if (!hash || !at) {
        free(hash);
        return false;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        struct series **slot =
            &hash[name_hash(at[i]->subject, at[i]->resource) & (size - 1)];

        at[i]->same = *slot;
        *slot = at[i];
    }
    free(h->hash);
    h->hash = hash;
    h->hash_size = size;
    h->cap = size;
    return true;
}

struct series *series_need(struct history *h, const char *subject, const char *resource)
{
    struct series *s = series_find(h, subject, resource);
    size_t subject_size = strlen(subject) + 1;
    size_t resource_size = strlen(resource) + 1;
    struct series **slot;

    if (s || h->count == HISTORY_SERIES_MAX || subject_size > SUBJECT_MAX + 1 ||
        resource_size > RESOURCE_MAX + 1 || (h->count == h->cap && !grow(h))) {
        return s;
    }
    s = calloc(1, sizeof(*s) + subject_size + resource_size);
    if (!s) {
        return NULL;
    }
    memcpy(s->subject, subject, subject_size);
    s->resource = s->subject + subject_size;
    memcpy(s->resource, resource, resource_size);
    slot = &h->hash[name_hash(subject, resource) & (h->hash_size - 1)];
    s->same = *slot;
    *slot = s;
    h->at[h->count++] = s;
    return s;
}

/* ---- points ---- */

/* Makes room for `size` bytes at the cost of this series alone, its finest points
 * first. */
static bool make_room(struct history *h, struct series *s, size_t size)
{
    for (unsigned i = 0; h->bytes + size > h->max_bytes && i < HISTORY_TIERS;) {
        if (s->tiers[i].oldest) {
            drop_oldest(h, &s->tiers[i]);
            h->early_blocks++;
        } else {
            i++;
        }
    }
    return h->bytes + size <= h->max_bytes;
}

void tier_close(struct history *h, struct series *s, unsigned tier)
{
    struct tier *t = &s->tiers[tier];
    struct block *b = NULL;

    if (t->coder.count == 0) {
        return;
    }
    if (!buf_failed(&t->open) && make_room(h, s, sizeof(*b) + t->open.len)) {
        b = malloc(sizeof(*b) + t->open.len);
    }
    if (b) {
        *b = (struct block){ NULL,
                             t->first_s,
                             t->last_s,
                             t->coder.count,
                             (uint32_t)t->open.len,
                             t->is_open_stored };
        memcpy(b->data, t->open.data, t->open.len);
        *(t->newest ? &t->newest->next : &t->oldest) = b;
        t->newest = b;
        h->bytes += block_size(b);
    } else {
        h->early_blocks++;
    }
    buf_reset(&t->open);
    t->coder = (struct history_coder){ 0 };
}

void tier_expire(struct history *h, struct tier *t, unsigned tier, uint64_t now_s)
{
    while (t->oldest && t->oldest->last_s + tiers[tier].keep_s < now_s) {
        drop_oldest(h, t);
    }
}

void rollup_close(struct history *h, struct series *s, unsigned tier)
{
    struct rollup *r = &s->tiers[tier].next;
    struct history_point p;

    if (r->count > 0) {
        p = (struct history_point){ r->period_s, r->min, (uint64_t)(r->sum / r->count),
                                    r->max };
        r->count = 0;
        tier_add(h, s, tier + 1, &p, false);
    }
}

static void rollup_add(struct history *h, struct series *s, unsigned tier,
                       const struct history_point *p)
{
    const struct tier *above = &s->tiers[tier + 1];
    struct rollup *r = &s->tiers[tier].next;
    uint64_t period = p->t_s - p->t_s % tiers[tier + 1].step_s;

    if (r->count > 0 && r->period_s != period) {
        rollup_close(h, s, tier);
    }
    if (above->has_last && period <= above->last_s) {
        return; /* it is there already */
    }
    if (r->count == 0) {
        *r = (struct rollup){ .period_s = period, .min = p->min, .max = p->max };
    }
    r->min = p->min < r->min ? p->min : r->min;
    r->max = p->max > r->max ? p->max : r->max;
    r->sum += p->mean;
    r->count++;
}

bool tier_add(struct history *h, struct series *s, unsigned tier,
              const struct history_point *p, bool is_stored)
{
    struct tier *t = &s->tiers[tier];

    if (t->has_last && p->t_s <= t->last_s) {
        return false;
    }
    if (t->coder.count > 0 &&
        p->t_s / tiers[tier].span_s != t->first_s / tiers[tier].span_s) {
        tier_close(h, s, tier);
        tier_expire(h, t, tier, p->t_s);
    }
    if (t->coder.count == 0) {
        t->first_s = p->t_s;
        t->is_open_stored = true;
    }
    t->is_open_stored = t->is_open_stored && is_stored;
    history_encode(&t->coder, p, &t->open);
    t->last_s = p->t_s;
    t->has_last = true;
    if (tier + 1 < HISTORY_TIERS) {
        rollup_add(h, s, tier, p);
    }
    return true;
}

bool history_add(struct history *h, const char *subject, const char *resource,
                 const struct history_point *p)
{
    struct series *s = series_need(h, subject, resource);

    return s && p->min <= p->mean && p->mean <= p->max &&
           tier_add(h, s, HISTORY_SECONDS, p, false);
}

/* ---- reading ---- */

/* False: `each` wants no more, or what follows is too new. */
static bool read_block(const void *bytes, size_t len, uint64_t from_s, uint64_t to_s,
                       history_each_fn *each, void *arg)
{
    struct history_decoder d = history_decode(bytes, len);
    struct history_point p;

    while (history_decode_next(&d, &p)) {
        if (p.t_s >= to_s || (p.t_s >= from_s && !each(arg, &p))) {
            return false;
        }
    }
    return true;
}

void history_read(const struct history *h, const char *subject, const char *resource,
                  enum history_tier tier, uint64_t from_s, uint64_t to_s,
                  history_each_fn *each, void *arg)
{
    const struct series *s = series_find(h, subject, resource);
    const struct tier *t = s ? &s->tiers[tier] : NULL;

    for (const struct block *b = t ? t->oldest : NULL; b; b = b->next) {
        if (b->last_s >= from_s &&
            !read_block(b->data, b->len, from_s, to_s, each, arg)) {
            return;
        }
    }
    if (t) {
        read_block(t->open.data, t->open.len, from_s, to_s, each, arg);
    }
}
