#include "controller/health/waterlevel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct levels {
    struct level_subject **at; /* by name */
    uint32_t count;
    uint32_t cap;
};

const char *water_name(unsigned water)
{
    static const char *const names[] = { "clear", "sale", "safe", "critical" };

    return water <= WATER_CRITICAL ? names[water] : "unknown";
}

static uint32_t mark_of(const struct level_marks *m, enum water water)
{
    return water == WATER_SALE   ? m->sale_bp
           : water == WATER_SAFE ? m->safe_bp
                                 : m->critical_bp;
}

enum water water_next(const struct level_marks *m, enum water now, uint32_t bp)
{
    while (now < WATER_CRITICAL && bp >= mark_of(m, now + 1)) {
        now++;
    }
    while (now > WATER_CLEAR && bp + m->clear_bp < mark_of(m, now)) {
        now--;
    }
    return now;
}

uint32_t water_bp(uint64_t used, uint64_t capacity)
{
    unsigned __int128 bp = (unsigned __int128)used * LEVEL_FULL_BP;

    if (capacity == 0) {
        return 0;
    }
    bp /= capacity;
    /* Room for clear_bp on top. */
    return bp > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)bp;
}

struct levels *levels_new(void)
{
    return calloc(1, sizeof(struct levels));
}

static void subject_free(struct level_subject *s)
{
    free(s->levels);
    free(s);
}

void levels_free(struct levels *l)
{
    if (!l) {
        return;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        subject_free(l->at[i]);
    }
    free(l->at);
    free(l);
}

uint32_t levels_search(const struct levels *l, const char *name)
{
    uint32_t low = 0;
    uint32_t high = l->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (strcmp(l->at[mid]->name, name) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

const struct level_subject *levels_at(const struct levels *l, uint32_t index)
{
    return index < l->count ? l->at[index] : NULL;
}

const struct level_subject *levels_find(const struct levels *l, const char *subject)
{
    const struct level_subject *s = levels_at(l, levels_search(l, subject));

    return s && strcmp(s->name, subject) == 0 ? s : NULL;
}

static struct level_subject *subject_need(struct levels *l, const char *name)
{
    uint32_t at = levels_search(l, name);
    struct level_subject *s = at < l->count ? l->at[at] : NULL;

    if (s && strcmp(s->name, name) == 0) {
        return s;
    }
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 64;
        struct level_subject **more = realloc(l->at, cap * sizeof(*more));

        if (!more) {
            return NULL;
        }
        l->at = more;
        l->cap = cap;
    }
    s = calloc(1, sizeof(*s));
    if (s) {
        snprintf(s->name, sizeof(s->name), "%s", name);
        memmove(&l->at[at + 1], &l->at[at], (l->count - at) * sizeof(*l->at));
        l->at[at] = s;
        l->count++;
    }
    return s;
}

static struct level *find(const struct level_subject *s, const char *resource,
                          uint32_t *ret_at)
{
    uint32_t at = 0;
    int order = 1;

    while (at < s->count && (order = strcmp(s->levels[at].resource, resource)) < 0) {
        at++;
    }
    *ret_at = at;
    return at < s->count && order == 0 ? &s->levels[at] : NULL;
}

const struct level *level_of(const struct level_subject *s, const char *resource)
{
    uint32_t at;

    return find(s, resource, &at);
}

static struct level *level_need(struct level_subject *s, const char *resource,
                                uint64_t now_s)
{
    uint32_t at;
    struct level *l = find(s, resource, &at);
    struct level *more;

    if (l) {
        return l;
    }
    more = realloc(s->levels, (s->count + 1) * sizeof(*more));
    if (!more) {
        return NULL;
    }
    s->levels = more;
    memmove(&more[at + 1], &more[at], (s->count - at) * sizeof(*more));
    s->count++;
    more[at] = (struct level){ .since_s = now_s };
    snprintf(more[at].resource, sizeof(more[at].resource), "%s", resource);
    return &more[at];
}

bool levels_measure(struct levels *l, const struct level_measure *m,
                    const struct level_marks *marks, uint64_t now_s,
                    struct level_change *ret)
{
    char subject[SUBJECT_MAX + 1];
    char resource[RESOURCE_MAX + 1];
    struct level_subject *s;
    struct level *level;
    enum water from;

    snprintf(subject, sizeof(subject), "%s", m->subject);
    snprintf(resource, sizeof(resource), "%s", m->resource);
    s = subject_need(l, subject);
    level = s ? level_need(s, resource, now_s) : NULL;
    if (!level) {
        return false;
    }
    from = (enum water)level->water;
    level->cause = (uint8_t)m->cause;
    level->used = m->used;
    level->capacity = m->capacity;
    level->bp = water_bp(m->used, m->capacity);
    level->seen_s = now_s;
    level->water = marks ? (uint8_t)water_next(marks, from, level->bp) : WATER_CLEAR;
    if (level->water == from) {
        return false;
    }
    level->since_s = now_s;
    *ret = (struct level_change){ from, (enum water)level->water, *level };
    return true;
}

bool subject_is_within(const char *name, const char *subject)
{
    size_t len = strlen(subject);

    return strncmp(name, subject, len) == 0 && (name[len] == '\0' || name[len] == '/');
}

/* Takes out the subjects that have no levels left. */
static void sweep(struct levels *l)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < l->count; i++) {
        if (l->at[i]->count > 0) {
            l->at[kept++] = l->at[i];
        } else {
            subject_free(l->at[i]);
        }
    }
    l->count = kept;
}

void levels_forget(struct levels *l, const char *subject)
{
    for (uint32_t i = levels_search(l, subject); i < l->count; i++) {
        if (strncmp(l->at[i]->name, subject, strlen(subject)) != 0) {
            break; /* names with this beginning stand together */
        }
        if (subject_is_within(l->at[i]->name, subject)) {
            l->at[i]->count = 0;
        }
    }
    sweep(l);
}

void levels_expire(struct levels *l, uint64_t before_s)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct level_subject *s = l->at[i];
        uint32_t kept = 0;

        for (uint32_t j = 0; j < s->count; j++) {
            if (s->levels[j].seen_s >= before_s) {
                s->levels[kept++] = s->levels[j];
            }
        }
        s->count = kept;
    }
    sweep(l);
}

const struct level *levels_fullest(const struct levels *l, const char *subject,
                                   const struct level_subject **ret_subject,
                                   unsigned *ret_highest)
{
    const struct level *best = NULL;

    *ret_highest = WATER_CLEAR;

    for (uint32_t i = levels_search(l, subject); i < l->count; i++) {
        const struct level_subject *s = l->at[i];

        if (strncmp(s->name, subject, strlen(subject)) != 0) {
            break;
        }
        for (uint32_t j = 0; j < s->count && subject_is_within(s->name, subject); j++) {
            if (s->levels[j].water > *ret_highest) {
                *ret_highest = s->levels[j].water;
            }
            if (!best || s->levels[j].bp > best->bp) {
                best = &s->levels[j];
                *ret_subject = s;
            }
        }
    }
    return best;
}
