#include "controller/core/sources.h"

#include "controller/core/core_internal.h"

#define SMALL_MAX 256 /* VNIs of a set that is one array */
#define LEAF_MAX  512

struct source {
    uint32_t vni;
    uint32_t times;
};

struct leaf {
    uint32_t count, cap;
    struct source at[];
};

/* With up to SMALL_MAX VNIs `at`, of `cap`; else this is the start of a `large`. */
struct sources {
    uint32_t count;
    uint32_t cap;
    struct source at[];
};

struct large {
    uint32_t count;
    uint32_t cap; /* of `leaves` */
    uint32_t leaf_count;
    struct leaf *leaves[]; /* none is empty */
};

static bool is_large(const struct sources *s)
{
    return s && s->count > SMALL_MAX;
}

/* Index of the first of `count` that is not below `vni`. */
static uint32_t search(const struct source *at, uint32_t count, uint32_t vni)
{
    uint32_t low = 0;
    uint32_t high = count;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (at[mid].vni < vni) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static void insert(struct source *at, uint32_t *count, uint32_t i, uint32_t vni)
{
    memmove(&at[i + 1], &at[i], (*count - i) * sizeof(*at));
    at[i] = (struct source){ .vni = vni, .times = 1 };
    ++*count;
}

static void take_out(struct source *at, uint32_t *count, uint32_t i)
{
    --*count;
    memmove(&at[i], &at[i + 1], (*count - i) * sizeof(*at));
}

/* ---- leaves ---- */

/* The leaf that has `vni`, or would. */
static uint32_t leaf_of(const struct large *l, uint32_t vni)
{
    uint32_t low = 0;
    uint32_t high = l->leaf_count;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;

        if (l->leaves[mid]->at[0].vni <= vni) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

static struct leaf *leaf_new(const struct source *at, uint32_t count)
{
    struct leaf *f = core_need(malloc(sizeof(*f) + LEAF_MAX * sizeof(*at)));

    f->count = count;
    f->cap = LEAF_MAX;
    memcpy(f->at, at, count * sizeof(*at));
    return f;
}

static struct large *large_of(struct sources *s)
{
    struct large *l = core_need(malloc(sizeof(*l) + 8 * sizeof(l->leaves[0])));

    *l = (struct large){ .count = s->count, .cap = 8, .leaf_count = 1 };
    l->leaves[0] = leaf_new(s->at, s->count);
    free(s);
    return l;
}

/* Its upper half becomes the next leaf. */
static struct large *split(struct large *l, uint32_t i)
{
    struct leaf *full = l->leaves[i];
    uint32_t half = full->count / 2;

    if (l->leaf_count == l->cap) {
        l->cap *= 2;
        l = core_need(realloc(l, sizeof(*l) + l->cap * sizeof(l->leaves[0])));
    }
    memmove(&l->leaves[i + 2], &l->leaves[i + 1],
            (l->leaf_count - i - 1) * sizeof(l->leaves[0]));
    l->leaves[i + 1] = leaf_new(full->at + half, full->count - half);
    full->count = half;
    l->leaf_count++;
    return l;
}

static struct large *large_add(struct large *l, uint32_t vni)
{
    uint32_t i = leaf_of(l, vni);
    struct leaf *f = l->leaves[i];
    uint32_t k = search(f->at, f->count, vni);

    if (k < f->count && f->at[k].vni == vni) {
        f->at[k].times++;
        return l;
    }
    if (f->count == f->cap) {
        return large_add(split(l, i), vni);
    }
    insert(f->at, &f->count, k, vni);
    l->count++;
    return l;
}

static struct sources *small_of(struct large *l)
{
    struct sources *s =
        core_need(malloc(sizeof(*s) + (SMALL_MAX + 1) * sizeof(s->at[0])));

    s->count = 0;
    s->cap = SMALL_MAX + 1;
    for (uint32_t i = 0; i < l->leaf_count; i++) {
        struct leaf *f = l->leaves[i];

        memcpy(&s->at[s->count], f->at, f->count * sizeof(f->at[0]));
        s->count += f->count;
        free(f);
    }
    free(l);
    return s;
}

static struct sources *large_drop(struct large *l, uint32_t vni)
{
    uint32_t i = leaf_of(l, vni);
    struct leaf *f = l->leaves[i];
    uint32_t k = search(f->at, f->count, vni);

    assert(k < f->count && f->at[k].vni == vni);
    if (--f->at[k].times > 0) {
        return (struct sources *)l;
    }
    take_out(f->at, &f->count, k);
    if (f->count == 0) {
        free(f);
        l->leaf_count--;
        memmove(&l->leaves[i], &l->leaves[i + 1],
                (l->leaf_count - i) * sizeof(l->leaves[0]));
    }
    return --l->count > SMALL_MAX ? (struct sources *)l : small_of(l);
}

/* ---- all of them ---- */

static struct sources *small_add(struct sources *s, uint32_t vni)
{
    uint32_t i = s ? search(s->at, s->count, vni) : 0;

    if (s && i < s->count && s->at[i].vni == vni) {
        s->at[i].times++;
        return s;
    }
    if (!s || s->count == s->cap) {
        uint32_t cap = s ? 2 * s->cap : 2;
        struct sources *grown =
            core_need(realloc(s, sizeof(*s) + cap * sizeof(s->at[0])));

        grown->count = s ? grown->count : 0;
        grown->cap = cap;
        s = grown;
    }
    insert(s->at, &s->count, i, vni);
    return is_large(s) ? (struct sources *)large_of(s) : s;
}

void sources_add(struct sources **s, uint32_t vni)
{
    *s = is_large(*s) ? (struct sources *)large_add((struct large *)*s, vni)
                      : small_add(*s, vni);
}

void sources_drop(struct sources **s, uint32_t vni)
{
    uint32_t i;

    if (is_large(*s)) {
        *s = large_drop((struct large *)*s, vni);
        return;
    }
    i = *s ? search((*s)->at, (*s)->count, vni) : 0;
    assert(*s && i < (*s)->count && (*s)->at[i].vni == vni);
    if (--(*s)->at[i].times > 0) {
        return;
    }
    take_out((*s)->at, &(*s)->count, i);
    if ((*s)->count == 0) {
        free(*s);
        *s = NULL;
    }
}

void sources_free(struct sources *s)
{
    const struct large *l = (const struct large *)s;

    for (uint32_t i = 0; is_large(s) && i < l->leaf_count; i++) {
        free(l->leaves[i]);
    }
    free(s);
}

uint32_t sources_count(const struct sources *s)
{
    return s ? s->count : 0;
}

uint32_t sources_next(const struct sources *s, uint32_t from)
{
    const struct large *l = (const struct large *)s;
    uint32_t leaf;
    uint32_t i;

    if (!is_large(s)) {
        i = s ? search(s->at, s->count, from) : 0;
        return s && i < s->count ? s->at[i].vni : 0;
    }
    leaf = leaf_of(l, from);
    i = search(l->leaves[leaf]->at, l->leaves[leaf]->count, from);
    if (i < l->leaves[leaf]->count) {
        return l->leaves[leaf]->at[i].vni;
    }
    return leaf + 1 < l->leaf_count ? l->leaves[leaf + 1]->at[0].vni : 0;
}
