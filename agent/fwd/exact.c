#include "agent/fwd/exact.h"

#include <assert.h>
#include <string.h>

enum {
    SEGMENT_MAX = 2048, /* entries; about there a segment splits (30 to 90 KiB) */
    DEPTH_MAX = 24,
    PATH_MAX = 128, /* buckets looked at for a way to a free slot */
    SLOTS_MAX = 7,
    SHRINK_MIN_BUCKETS = 8,
};

static const uint8_t kind_slots[] = { 7, 5, 2 };
/* Above `high` a segment grows to `build`, below `low` it shrinks to it; percent of
 * slots.  Two-slot cuckoo fills to 89.7 % (Dietzfelbinger and Weidling), the others to
 * 98 % and more. */
static const uint8_t kind_high[] = { 90, 90, 85 };
static const uint8_t kind_build[] = { 74, 74, 70 };
enum { LOW = 45 };

/* A segment as the writer handles it.  One line before the first bucket counts. */
struct segment {
    uint64_t word;
    uint8_t *buckets; /* lines */
    uint32_t *count;
    uint32_t nb;
};

static struct segment segment_of(const struct exact *e, uint64_t word)
{
    uint8_t *first = (uint8_t *)lines_at(e->lines, (uint32_t)(word >> 32));

    return (struct segment){
        .word = word,
        .buckets = first,
        .count = (uint32_t *)(first - LINE_BYTES),
        .nb = exact_buckets(word),
    };
}

static unsigned local_depth(uint64_t word)
{
    return (word >> 24) & 0xff;
}

/* ---- slots ---- */

static exact_u32 *hdr_of(unsigned kind, void *bucket)
{
    switch (kind) {
    case EXACT_VNI:
        return &((struct exact_bucket_vni *)bucket)->hdr;
    case EXACT_V4:
        return &((struct exact_bucket_v4 *)bucket)->hdr;
    default:
        return &((struct exact_bucket_v6 *)bucket)->hdr;
    }
}

static uint32_t hdr_load(unsigned kind, void *bucket)
{
    return atomic_load_explicit(hdr_of(kind, bucket), memory_order_relaxed);
}

static void version_up(unsigned kind, void *bucket)
{
    atomic_store_explicit(hdr_of(kind, bucket), hdr_load(kind, bucket) + 256,
                          memory_order_release);
}

static void overflow_add(unsigned kind, void *bucket, int n)
{
    uint32_t hdr = hdr_load(kind, bucket);

    if ((hdr & EXACT_OVERFLOW) != EXACT_OVERFLOW) { /* 255 stays: the count is lost */
        atomic_store_explicit(hdr_of(kind, bucket), hdr + (uint32_t)n,
                              memory_order_release);
    }
}

static bool slot_get(unsigned kind, void *bucket, unsigned i, struct exact_entry *ret)
{
    *ret = (struct exact_entry){ 0 };
    if (kind == EXACT_VNI) {
        struct exact_bucket_vni *b = bucket;

        ret->w0 = atomic_load_explicit(&b->slot[i], memory_order_relaxed);
        return ret->w0 != 0;
    }
    if (kind == EXACT_V4) {
        struct exact_bucket_v4 *b = bucket;

        ret->w0 = atomic_load_explicit(&b->key[i], memory_order_relaxed);
        ret->val = atomic_load_explicit(&b->val[i], memory_order_relaxed);
        return ret->w0 != 0;
    }
    struct exact_bucket_v6 *b = bucket;

    ret->w0 = atomic_load_explicit(&b->hi[i], memory_order_relaxed);
    ret->w1 = atomic_load_explicit(&b->lo[i], memory_order_relaxed);
    ret->vni = atomic_load_explicit(&b->vni[i], memory_order_relaxed);
    ret->val = atomic_load_explicit(&b->val[i], memory_order_relaxed);
    return ret->vni != 0;
}

/* Fills a free slot: version first, then the value, the key last. */
static void slot_fill(unsigned kind, void *bucket, unsigned i,
                      const struct exact_entry *in)
{
    version_up(kind, bucket);
    if (kind == EXACT_VNI) {
        struct exact_bucket_vni *b = bucket;

        atomic_store_explicit(&b->slot[i], in->w0, memory_order_release);
    } else if (kind == EXACT_V4) {
        struct exact_bucket_v4 *b = bucket;

        atomic_store_explicit(&b->val[i], in->val, memory_order_release);
        atomic_store_explicit(&b->key[i], in->w0, memory_order_release);
    } else {
        struct exact_bucket_v6 *b = bucket;

        atomic_store_explicit(&b->val[i], in->val, memory_order_release);
        atomic_store_explicit(&b->hi[i], in->w0, memory_order_release);
        atomic_store_explicit(&b->lo[i], in->w1, memory_order_release);
        atomic_store_explicit(&b->vni[i], in->vni, memory_order_release);
    }
}

static void slot_clear(unsigned kind, void *bucket, unsigned i)
{
    if (kind == EXACT_VNI) {
        atomic_store_explicit(&((struct exact_bucket_vni *)bucket)->slot[i], 0,
                              memory_order_release);
    } else if (kind == EXACT_V4) {
        atomic_store_explicit(&((struct exact_bucket_v4 *)bucket)->key[i], 0,
                              memory_order_release);
    } else {
        atomic_store_explicit(&((struct exact_bucket_v6 *)bucket)->vni[i], 0,
                              memory_order_release);
    }
}

static void slot_update(unsigned kind, void *bucket, unsigned i,
                        const struct exact_entry *in)
{
    if (kind == EXACT_VNI) {
        atomic_store_explicit(&((struct exact_bucket_vni *)bucket)->slot[i], in->w0,
                              memory_order_release);
    } else if (kind == EXACT_V4) {
        atomic_store_explicit(&((struct exact_bucket_v4 *)bucket)->val[i], in->val,
                              memory_order_release);
    } else {
        atomic_store_explicit(&((struct exact_bucket_v6 *)bucket)->val[i], in->val,
                              memory_order_release);
    }
}

static int slot_free(unsigned kind, void *bucket)
{
    const struct exact_bucket_v6 *v6 = bucket;
    const exact_u64 *key = bucket; /* VNI and IPv4 buckets begin with their keys */

    if (kind == EXACT_V6) {
        for (int i = 0; i < 2; i++) {
            if (atomic_load_explicit(&v6->vni[i], memory_order_relaxed) == 0) {
                return i;
            }
        }
        return -1;
    }
    for (int i = 0; i < kind_slots[kind]; i++) {
        if (atomic_load_explicit(&key[i], memory_order_relaxed) == 0) {
            return i;
        }
    }
    return -1;
}

static uint64_t entry_hash(const struct exact *e, const struct exact_entry *x)
{
    switch (e->kind) {
    case EXACT_VNI:
        return exact_hash1(e, x->w0 & EXACT_VNI_KEY);
    case EXACT_V4:
        return exact_hash1(e, x->w0);
    default:
        return exact_hash_v6(e, x->w0, x->w1, x->vni);
    }
}

static bool same_key(unsigned kind, const struct exact_entry *a,
                     const struct exact_entry *b)
{
    if (kind == EXACT_VNI) {
        return ((a->w0 ^ b->w0) & EXACT_VNI_KEY) == 0;
    }
    return a->w0 == b->w0 && a->w1 == b->w1 && a->vni == b->vni;
}

/* ---- placing in one segment ---- */

static void *bucket_at(const struct segment *s, uint32_t index)
{
    return s->buckets + (size_t)index * LINE_BYTES;
}

/* Writes an entry to a free slot of bucket `to`, one of its two. */
static void place(const struct exact *e, const struct segment *s, uint32_t to,
                  unsigned slot, const struct exact_entry *x, uint32_t first)
{
    if (to != first) {
        overflow_add(e->kind, bucket_at(s, first), 1);
    }
    slot_fill(e->kind, bucket_at(s, to), slot, x);
}

static void unplace(const struct exact *e, const struct segment *s, uint32_t from,
                    unsigned slot, uint32_t first)
{
    slot_clear(e->kind, bucket_at(s, from), slot);
    if (from != first) {
        overflow_add(e->kind, bucket_at(s, first), -1);
    }
}

struct step {
    uint32_t bucket;
    uint16_t parent; /* index of the step before; own index at a root */
    uint8_t slot;    /* of the parent's bucket: the entry that would move here */
};

/* Moves entry (from, slot) to a free slot of `to`, its other bucket. */
static void move(const struct exact *e, const struct segment *s, uint32_t from,
                 unsigned slot, uint32_t to, unsigned to_slot)
{
    struct exact_entry x;
    uint32_t first;

    (void)slot_get(e->kind, bucket_at(s, from), slot, &x);
    first = exact_first(entry_hash(e, &x), s->nb);
    place(e, s, to, to_slot, &x, first);
    unplace(e, s, from, slot, first);
}

/* Empties a slot of one of the two root buckets by moving entries along the shortest
 * path, last one first.  Breadth first, so no bucket occurs twice on it. */
static bool make_room(const struct exact *e, const struct segment *s, uint32_t first,
                      uint32_t second, uint32_t *ret_bucket, unsigned *ret_slot)
{
    struct step path[PATH_MAX];
    unsigned tail = 2;

    path[0] = (struct step){ .bucket = first, .parent = 0 };
    path[1] = (struct step){ .bucket = second, .parent = 1 };
    for (unsigned head = 0; head < tail; head++) {
        for (unsigned i = 0; i < kind_slots[e->kind]; i++) {
            struct exact_entry x;
            uint64_t hash;
            uint32_t other;
            int free_slot;

            (void)slot_get(e->kind, bucket_at(s, path[head].bucket), i, &x);
            hash = entry_hash(e, &x);
            other = exact_first(hash, s->nb);
            if (other == path[head].bucket) {
                other = exact_second(hash, s->nb);
            }
            free_slot = slot_free(e->kind, bucket_at(s, other));
            if (free_slot >= 0) {
                unsigned at = head;
                unsigned slot = i;
                uint32_t to = other;

                move(e, s, path[at].bucket, slot, to, (unsigned)free_slot);
                while (path[at].parent != at) {
                    unsigned up = path[at].parent;

                    move(e, s, path[up].bucket, path[at].slot, path[at].bucket, slot);
                    slot = path[at].slot;
                    at = up;
                }
                *ret_bucket = path[at].bucket;
                *ret_slot = slot;
                return true;
            }
            if (tail < PATH_MAX) {
                path[tail++] = (struct step){ .bucket = other,
                                              .parent = (uint16_t)head,
                                              .slot = (uint8_t)i };
            }
        }
    }
    return false;
}

static bool segment_insert(const struct exact *e, const struct segment *s,
                           const struct exact_entry *x, uint64_t hash)
{
    uint32_t first = exact_first(hash, s->nb);
    uint32_t second = exact_second(hash, s->nb);
    uint32_t to = first;
    int slot = slot_free(e->kind, bucket_at(s, first));
    unsigned made;

    if (slot < 0 && s->nb > 1) {
        to = second;
        slot = slot_free(e->kind, bucket_at(s, second));
    }
    if (slot < 0) {
        if (s->nb < 2 || !make_room(e, s, first, second, &to, &made)) {
            return false;
        }
        slot = (int)made;
    }
    place(e, s, to, (unsigned)slot, x, first);
    ++*s->count;
    return true;
}

/* Where a key stands: its bucket in `*ret_bucket`, the slot returned, or -1. */
static int segment_find(const struct exact *e, const struct segment *s,
                        const struct exact_entry *key, uint64_t hash,
                        uint32_t *ret_bucket, struct exact_entry *ret)
{
    uint32_t at[2] = { exact_first(hash, s->nb), exact_second(hash, s->nb) };

    for (unsigned k = 0; k < 2; k++) {
        void *bucket = bucket_at(s, at[k]);

        for (unsigned i = 0; i < kind_slots[e->kind]; i++) {
            if (slot_get(e->kind, bucket, i, ret) && same_key(e->kind, ret, key)) {
                *ret_bucket = at[k];
                return (int)i;
            }
        }
        if ((hdr_load(e->kind, bucket) & EXACT_OVERFLOW) == 0) {
            break;
        }
    }
    return -1;
}

/* ---- segments ---- */

static uint32_t buckets_for(const struct exact *e, uint64_t entries)
{
    uint64_t per = (uint64_t)kind_slots[e->kind] * kind_build[e->kind];

    return (uint32_t)((entries * 100 + per - 1) / per) + 1;
}

static bool segment_new(const struct exact *e, uint32_t nb, unsigned depth,
                        struct segment *ret)
{
    uint32_t line = lines_alloc(e->lines, nb + 1);

    if (!line) {
        return false;
    }
    memset(lines_at(e->lines, line), 0, ((size_t)nb + 1) * LINE_BYTES);
    *ret = segment_of(e, (uint64_t)(line + 1) << 32 | (uint64_t)depth << 24 | nb);
    return true;
}

/* Of a segment that was never published. */
static void segment_drop(const struct exact *e, const struct segment *s)
{
    lines_free(e->lines, (uint32_t)(s->word >> 32) - 1, s->nb + 1);
}

/* Copies every entry whose hash has `bit` (from the top, 0-based; -1: all) equal to
 * `side`. */
static bool segment_copy(const struct exact *e, const struct segment *from,
                         const struct segment *to, int bit, unsigned side)
{
    for (uint32_t b = 0; b < from->nb; b++) {
        for (unsigned i = 0; i < kind_slots[e->kind]; i++) {
            struct exact_entry x;
            uint64_t hash;

            if (!slot_get(e->kind, bucket_at(from, b), i, &x)) {
                continue;
            }
            hash = entry_hash(e, &x);
            if (bit >= 0 && ((hash >> (63 - bit)) & 1) != side) {
                continue;
            }
            if (!segment_insert(e, to, &x, hash)) {
                return false;
            }
        }
    }
    return true;
}

/* Builds what `from` holds anew, or one half of it; more room after a bad draw. */
static bool segment_build(const struct exact *e, const struct segment *from,
                          unsigned depth, uint32_t nb, int bit, unsigned side,
                          struct segment *ret)
{
    for (unsigned tries = 0; tries < 8; tries++) {
        if (!segment_new(e, nb, depth, ret)) {
            return false;
        }
        if (segment_copy(e, from, ret, bit, side)) {
            return true;
        }
        segment_drop(e, ret);
        nb += nb / 8 + 1;
    }
    return false;
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
    uint32_t nb = buckets_for(e, *old.count / 2 + *old.count / 64);
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
    nb = buckets_for(e, *s.count + *s.count * (e->stagger >> 40 & 0xff) / 2048 + 1);
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
        slot_update(e->kind, bucket_at(&s, bucket), (unsigned)slot, entry);
        *ret_existed = true;
        *ret_old = value_of(e, &old);
        return RC_OK;
    }
    for (unsigned tries = 0; tries < 4; tries++) {
        uint64_t high = (uint64_t)s.nb * kind_slots[e->kind] * kind_high[e->kind];

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
    unplace(e, &s, bucket, (unsigned)slot, exact_first(hash, s.nb));
    e->count--;
    --*s.count;
    *ret_old = value_of(e, &old);
    if (s.nb >= SHRINK_MIN_BUCKETS &&
        (uint64_t)*s.count * 100 < (uint64_t)s.nb * kind_slots[e->kind] * LOW) {
        (void)segment_resize(e, hash, buckets_for(e, *s.count));
    }
    return true;
}

uint32_t exact_purge(struct exact *e, const struct exact_entry *key, bool keeps_found)
{
    uint64_t hash = entry_hash(e, key);
    struct segment s = segment_of(e, exact_segment(dir_of(e), hash));
    uint32_t at[2] = { exact_first(hash, s.nb), exact_second(hash, s.nb) };
    struct exact_entry x;
    uint32_t kept_bucket = 0;
    int kept = keeps_found ? segment_find(e, &s, key, hash, &kept_bucket, &x) : -1;
    uint32_t count = 0;

    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < kind_slots[e->kind]; i++) {
            if ((kept == (int)i && kept_bucket == at[k]) ||
                !slot_get(e->kind, bucket_at(&s, at[k]), i, &x) ||
                !same_key(e->kind, &x, key)) {
                continue;
            }
            unplace(e, &s, at[k], i, at[0]);
            e->count -= e->count > 0;
            *s.count -= *s.count > 0;
            count++;
        }
    }
    return count;
}

static int scan(const struct exact *e, const void *bucket,
                const struct exact_entry *key, uint32_t *hdr, uint64_t *ret)
{
    switch (e->kind) {
    case EXACT_VNI:
        return exact_scan_vni(bucket, key->w0 & EXACT_VNI_KEY, hdr, ret);
    case EXACT_V4:
        return exact_scan_v4(bucket, key->w0, hdr, ret);
    default:
        return exact_scan_v6(bucket, key->w0, key->w1, key->vni, hdr, ret);
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
            atomic_load_explicit(hdr_of(e->kind, first), memory_order_acquire) == hdr &&
            atomic_load_explicit(&e->dir, memory_order_acquire) == dir &&
            exact_segment(dir, hash) == word) {
            return false;
        }
    }
}
