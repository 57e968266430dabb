#include "agent/fwd/exact.h"

#include <assert.h>

#include "agent/fwd/exact_segment.h"

enum {
    SEGMENT_MAX = 2048, /* entries; about there a segment splits (30 to 90 KiB) */
    DEPTH_MAX = 24,
    SHRINK_MIN_BUCKETS = 8,
};

/* Above `high` a segment grows, below `low` it shrinks; percent of slots.  Two-slot
 * cuckoo fills to 89.7 % (Dietzfelbinger and Weidling), the others to 98 % and more. */
static const uint8_t kind_high[] = { 90, 90, 85 };
enum { LOW = 45 };

static unsigned local_depth(uint64_t word)
{
    return (word >> 24) & 0xff;
}

static struct exact_dir *dir_of(const struct exact *e)
{
    return (struct exact_dir *)atomic_load_explicit(&e->dir, memory_order_relaxed);
}

static struct exact_dir *dir_new(struct exact *e, unsigned depth)
{
    size_t bytes = sizeof(struct exact_dir) + (sizeof(exact_u64) << depth);
    uint32_t count = (uint32_t)((bytes + LINE_BYTES - 1) / LINE_BYTES);
    uint32_t line = lines_alloc(e->lines, count);
    struct exact_dir *dir;

    if (!line) {
        return NULL;
    }
    dir = lines_at(e->lines, line);
    dir->shift = 63 - depth;
    dir->lines = count;
    return dir;
}

static uint32_t line_of(const struct exact *e, const void *at)
{
    return (uint32_t)((size_t)((const uint8_t *)at - e->lines->base) / LINE_BYTES);
}

/* Publishes `word` in all directory slots from `at` on, `count` of them. */
static void dir_set(struct exact_dir *dir, uint32_t at, uint32_t count, uint64_t word)
{
    for (uint32_t i = 0; i < count; i++) {
        atomic_store_explicit(&dir->segment[at + i], word, memory_order_release);
    }
}

static bool dir_double(struct exact *e)
{
    struct exact_dir *old = dir_of(e);
    struct exact_dir *dir = e->depth < DEPTH_MAX ? dir_new(e, e->depth + 1u) : NULL;

    if (!dir) {
        return false;
    }
    for (uint32_t i = 0; i < 1u << e->depth; i++) {
        uint64_t word = atomic_load_explicit(&old->segment[i], memory_order_relaxed);

        dir_set(dir, 2 * i, 2, word);
    }
    e->depth++;
    atomic_store_explicit(&e->dir, dir, memory_order_release);
    retire_add(e->retire, RETIRED_LINES, line_of(e, old), old->lines);
    return true;
}

static void segment_retire(struct exact *e, const struct segment *s)
{
    retire_add(e->retire, RETIRED_LINES, (uint32_t)(s->word >> 32) - 1, s->nb + 1);
}

/* Replaces a segment by one of `nb` buckets. */
static bool segment_resize(struct exact *e, uint64_t hash, uint32_t nb)
{
    struct exact_dir *dir = dir_of(e);
    struct segment old = segment_of(e, exact_segment(dir, hash));
    unsigned depth = local_depth(old.word);
    uint32_t span = 1u << (e->depth - depth);
    uint32_t at = (uint32_t)((hash >> 1) >> dir->shift) & ~(span - 1);
    struct segment s;

    if (!retire_reserve(e->retire, 1) ||
        !segment_build(e, &old, depth, nb, -1, 0, &s)) {
        return false;
    }
    dir_set(dir, at, span, s.word);
    segment_retire(e, &old);
    return true;
}

static bool segment_split(struct exact *e, uint64_t hash)
{
    struct segment old = segment_of(e, exact_segment(dir_of(e), hash));
    unsigned depth = local_depth(old.word);
    uint32_t nb = segment_buckets_for(e, *old.count / 2 + *old.count / 64);
    struct exact_dir *dir;
    struct segment half[2];
    uint32_t span;
    uint32_t at;

    if (!retire_reserve(e->retire, 2) || (depth == e->depth && !dir_double(e))) {
        return false;
    }
    if (!segment_build(e, &old, depth + 1, nb, (int)depth, 0, &half[0])) {
        return false;
    }
    if (!segment_build(e, &old, depth + 1, nb, (int)depth, 1, &half[1])) {
        segment_drop(e, &half[0]);
        return false;
    }
    dir = dir_of(e);
    span = 1u << (e->depth - depth);
    at = (uint32_t)((hash >> 1) >> dir->shift) & ~(span - 1);
    dir_set(dir, at, span / 2, half[0].word);
    dir_set(dir, at + span / 2, span / 2, half[1].word);
    segment_retire(e, &old);
    return true;
}

/* By a quarter, a little more or less each time: segments of one table fill alike, and
 * if all grew at once, none would fit where another one was. */
static bool segment_grow(struct exact *e, uint64_t hash)
{
    struct segment s = segment_of(e, exact_segment(dir_of(e), hash));
    uint32_t nb;

    if (e->refused_at == e->lines->frees) {
        return false; /* it would only build one half to throw it away */
    }
    e->stagger = e->stagger * UINT64_C(6364136223846793005) + 1;
    nb = segment_buckets_for(e, *s.count + *s.count * (e->stagger >> 40 & 0xff) / 2048 +
                                    1);
    if (*s.count >= SEGMENT_MAX - (e->stagger >> 48 & (SEGMENT_MAX / 4 - 1)) &&
        segment_split(e, hash)) {
        return true;
    }
    if (segment_resize(e, hash, nb > s.nb ? nb : s.nb + s.nb / 8 + 1)) {
        return true;
    }
    e->refused_at = e->lines->frees;
    return false;
}

int exact_init(struct exact *e, enum exact_kind kind, struct lines *lines,
               struct retire *retire, uint64_t seed)
{
    struct exact_dir *dir;
    struct segment s;

    *e = (struct exact){ .kind = (uint8_t)kind, .lines = lines, .retire = retire };
    e->base = lines->base;
    e->refused_at = UINT64_MAX;
    e->stagger = seed;
    for (unsigned i = 0; i < 3; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
        e->seed[i] = exact_mix(seed, UINT64_C(0xbf58476d1ce4e5b9)) | 1;
    }
    dir = dir_new(e, 0);
    if (!dir || !segment_new(e, 1, 0, &s)) {
        return -1; /* the lines go with their owner */
    }
    dir_set(dir, 0, 1, s.word);
    atomic_store_explicit(&e->dir, dir, memory_order_release);
    return 0;
}

static uint64_t value_of(const struct exact *e, const struct exact_entry *x)
{
    return e->kind == EXACT_VNI ? x->w0 : x->val;
}

enum rc exact_put(struct exact *e, const struct exact_entry *entry, bool *ret_existed,
                  uint64_t *ret_old)
{
    uint64_t hash = entry_hash(e, entry);
    struct segment s = segment_of(e, exact_segment(dir_of(e), hash));
    struct exact_entry old;
    uint32_t bucket;
    int slot = segment_find(e, &s, entry, hash, &bucket, &old);

    if (slot >= 0) {
        segment_update(e, &s, bucket, (unsigned)slot, entry);
        *ret_existed = true;
        *ret_old = value_of(e, &old);
        return RC_OK;
    }
    for (unsigned tries = 0; tries < 4; tries++) {
        uint64_t high = (uint64_t)s.nb * segment_slots(e) * kind_high[e->kind];

        /* Without memory a segment fills beyond its mark before it refuses. */
        if (((uint64_t)(*s.count + 1) * 100 <= high || !segment_grow(e, hash)) &&
            segment_insert(e, &s, entry, hash)) {
            e->count++;
            *ret_existed = false;
            return RC_OK;
        }
        if (exact_segment(dir_of(e), hash) == s.word && !segment_grow(e, hash)) {
            return RC_NO_MEMORY;
        }
        s = segment_of(e, exact_segment(dir_of(e), hash));
    }
    return RC_NO_MEMORY;
}

bool exact_del(struct exact *e, const struct exact_entry *key, uint64_t *ret_old)
{
    uint64_t hash = entry_hash(e, key);
    struct segment s = segment_of(e, exact_segment(dir_of(e), hash));
    struct exact_entry old;
    uint32_t bucket;
    int slot = segment_find(e, &s, key, hash, &bucket, &old);

    if (slot < 0) {
        return false;
    }
    segment_remove(e, &s, bucket, (unsigned)slot, hash);
    e->count--;
    *ret_old = value_of(e, &old);
    if (s.nb >= SHRINK_MIN_BUCKETS &&
        (uint64_t)*s.count * 100 < (uint64_t)s.nb * segment_slots(e) * LOW) {
        (void)segment_resize(e, hash, segment_buckets_for(e, *s.count));
    }
    return true;
}

uint32_t exact_purge(struct exact *e, const struct exact_entry *key, bool keeps_found)
{
    uint64_t hash = entry_hash(e, key);
    struct segment s = segment_of(e, exact_segment(dir_of(e), hash));
    uint32_t count = segment_purge(e, &s, key, hash, keeps_found);

    e->count -= e->count < count ? e->count : count;
    return count;
}

/* The entry of a key as it stands, and where. */
static int locate(const struct exact *e, const struct exact_entry *key,
                  struct segment *ret_segment, uint32_t *ret_bucket,
                  struct exact_entry *ret)
{
    uint64_t hash = entry_hash(e, key);

    *ret_segment = segment_of(e, exact_segment(dir_of(e), hash));
    return segment_find(e, ret_segment, key, hash, ret_bucket, ret);
}

static bool is_marked(const struct exact *e, const struct exact_entry *x)
{
    return ((e->kind == EXACT_V4 ? x->w0 : x->vni) & e->mark) != 0;
}

void exact_prefetch(const struct exact *e, const struct exact_entry *key)
{
    __builtin_prefetch(exact_home_in(e, dir_of(e), entry_hash(e, key)), 1);
}

void exact_mark(struct exact *e, const struct exact_entry *key, bool marked)
{
    struct segment s;
    struct exact_entry x;
    uint32_t bucket;
    int slot = locate(e, key, &s, &bucket, &x);

    if (slot < 0 || is_marked(e, &x) == marked) {
        return;
    }
    exact_entry_mark(e, &x, marked);
    segment_rekey(e, &s, bucket, (unsigned)slot, &x);
}

bool exact_is_marked(const struct exact *e, const struct exact_entry *key)
{
    struct segment s;
    struct exact_entry x;
    uint32_t bucket;

    return locate(e, key, &s, &bucket, &x) >= 0 && is_marked(e, &x);
}

static int scan(const struct exact *e, const void *bucket,
                const struct exact_entry *key, uint32_t *hdr, uint64_t *ret)
{
    switch (e->kind) {
    case EXACT_VNI:
        return exact_scan_vni(bucket, key->w0 & EXACT_VNI_KEY, hdr, ret);
    case EXACT_V4:
        return exact_scan_v4(bucket, key->w0, ~(uint64_t)e->mark, hdr, ret);
    default:
        return exact_scan_v6(bucket, key->w0, key->w1, key->vni, ~e->mark, hdr, ret);
    }
}

bool exact_find(const struct exact *e, const struct exact_entry *key, uint64_t *ret)
{
    uint64_t hash = entry_hash(e, key);

    /* Ends: each turn past the first means that the writer filled a slot of this very
     * bucket, moved one of its keys or replaced its segment meanwhile. */
    for (;;) {
        const struct exact_dir *dir =
            atomic_load_explicit(&e->dir, memory_order_acquire);
        uint64_t word = exact_segment(dir, hash);
        uint32_t nb = exact_buckets(word);
        void *first = (void *)exact_bucket(e, word, exact_first(hash, nb));
        uint32_t hdr;
        uint32_t hdr2;
        uint64_t got;
        int hit = scan(e, first, key, &hdr, &got);

        if (hit == 0 && (hdr & EXACT_OVERFLOW) != 0) {
            hit = scan(e, exact_bucket(e, word, exact_second(hash, nb)), key, &hdr2,
                       &got);
        }
        if (hit > 0) {
            *ret = got;
            return true;
        }
        if (hit == 0 &&
            atomic_load_explicit(segment_hdr(e->kind, first), memory_order_acquire) ==
                hdr &&
            atomic_load_explicit(&e->dir, memory_order_acquire) == dir &&
            exact_segment(dir, hash) == word) {
            return false;
        }
    }
}
