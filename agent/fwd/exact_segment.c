#include "agent/fwd/exact_segment.h"

#include <string.h>

enum {
    PATH_MAX = 128, /* buckets looked at for a way to a free slot */
};

static const uint8_t kind_slots[] = { 7, 5, 2 };
/* Percent of slots that a new segment fills. */
static const uint8_t kind_build[] = { 74, 74, 70 };

struct segment segment_of(const struct exact *e, uint64_t word)
{
    uint8_t *first = (uint8_t *)lines_at(e->lines, (uint32_t)(word >> 32));

    return (struct segment){
        .word = word,
        .buckets = first,
        .count = (uint32_t *)(first - LINE_BYTES),
        .nb = exact_buckets(word),
    };
}

unsigned segment_slots(const struct exact *e)
{
    return kind_slots[e->kind];
}

/* ---- slots ---- */

exact_u32 *segment_hdr(unsigned kind, void *bucket)
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
    return atomic_load_explicit(segment_hdr(kind, bucket), memory_order_relaxed);
}

static void version_up(unsigned kind, void *bucket)
{
    atomic_store_explicit(segment_hdr(kind, bucket), hdr_load(kind, bucket) + 256,
                          memory_order_release);
}

static void overflow_add(unsigned kind, void *bucket, int n)
{
    uint32_t hdr = hdr_load(kind, bucket);

    if ((hdr & EXACT_OVERFLOW) != EXACT_OVERFLOW) { /* 255 stays: the count is lost */
        atomic_store_explicit(segment_hdr(kind, bucket), hdr + (uint32_t)n,
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

static int slot_free(unsigned kind, const void *bucket)
{
    uint32_t free_slots;

    switch (kind) {
    case EXACT_VNI: /* no key is 0 */
        free_slots = exact_match_vni(bucket, 0);
        return free_slots ? (int)exact_vni_place(free_slots) : -1;
    case EXACT_V4:
        free_slots = exact_match_v4(bucket, 0, UINT64_MAX);
        return free_slots ? __builtin_ctz(free_slots) : -1;
    default:
        for (int i = 0; i < 2; i++) {
            const struct exact_bucket_v6 *b = bucket;

            if (atomic_load_explicit(&b->vni[i], memory_order_relaxed) == 0) {
                return i;
            }
        }
        return -1;
    }
}

uint64_t entry_hash(const struct exact *e, const struct exact_entry *x)
{
    switch (e->kind) {
    case EXACT_VNI:
        return exact_hash1(e, x->w0 & EXACT_VNI_KEY);
    case EXACT_V4:
        return exact_hash1(e, x->w0 & ~(uint64_t)e->mark);
    default:
        return exact_hash_v6(e, x->w0, x->w1, x->vni & ~e->mark);
    }
}

/* The slot of a bucket that holds a key, or -1. */
static int slot_of(const struct exact *e, const void *bucket,
                   const struct exact_entry *key)
{
    uint64_t bits = ~(uint64_t)e->mark;
    uint32_t same;

    switch (e->kind) {
    case EXACT_VNI:
        same = exact_match_vni(bucket, key->w0 & EXACT_VNI_KEY);
        return same ? (int)exact_vni_place(same) : -1;
    case EXACT_V4:
        same = exact_match_v4(bucket, key->w0 & bits, bits);
        break;
    default:
        same = exact_match_v6(bucket, key->w0, key->w1, key->vni & ~e->mark, ~e->mark);
        break;
    }
    return same ? __builtin_ctz(same) : -1;
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

bool segment_insert(const struct exact *e, const struct segment *s,
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

int segment_find(const struct exact *e, const struct segment *s,
                 const struct exact_entry *key, uint64_t hash, uint32_t *ret_bucket,
                 struct exact_entry *ret)
{
    uint32_t at[2] = { exact_first(hash, s->nb), exact_second(hash, s->nb) };

    for (unsigned k = 0; k < 2; k++) {
        void *bucket = bucket_at(s, at[k]);

        int slot = slot_of(e, bucket, key);

        if (slot >= 0) {
            (void)slot_get(e->kind, bucket, (unsigned)slot, ret);
            *ret_bucket = at[k];
            return slot;
        }
        if ((hdr_load(e->kind, bucket) & EXACT_OVERFLOW) == 0) {
            break;
        }
    }
    return -1;
}

void segment_update(const struct exact *e, const struct segment *s, uint32_t bucket,
                    unsigned slot, const struct exact_entry *x)
{
    slot_update(e->kind, bucket_at(s, bucket), slot, x);
}

void segment_rekey(const struct exact *e, const struct segment *s, uint32_t bucket,
                   unsigned slot, const struct exact_entry *x)
{
    void *at = bucket_at(s, bucket);

    if (e->kind == EXACT_V4) {
        atomic_store_explicit(&((struct exact_bucket_v4 *)at)->key[slot], x->w0,
                              memory_order_release);
    } else if (e->kind == EXACT_V6) {
        atomic_store_explicit(&((struct exact_bucket_v6 *)at)->vni[slot], x->vni,
                              memory_order_release);
    }
}

void segment_remove(const struct exact *e, const struct segment *s, uint32_t bucket,
                    unsigned slot, uint64_t hash)
{
    unplace(e, s, bucket, slot, exact_first(hash, s->nb));
    --*s->count;
}

static bool same_key(const struct exact *e, const struct exact_entry *a,
                     const struct exact_entry *b)
{
    switch (e->kind) {
    case EXACT_VNI:
        return ((a->w0 ^ b->w0) & EXACT_VNI_KEY) == 0;
    case EXACT_V4:
        return ((a->w0 ^ b->w0) & ~(uint64_t)e->mark) == 0;
    default:
        return a->w0 == b->w0 && a->w1 == b->w1 && ((a->vni ^ b->vni) & ~e->mark) == 0;
    }
}

uint32_t segment_purge(const struct exact *e, const struct segment *s,
                       const struct exact_entry *key, uint64_t hash, bool keeps_found)
{
    uint32_t at[2] = { exact_first(hash, s->nb), exact_second(hash, s->nb) };
    struct exact_entry x;
    uint32_t kept_bucket = 0;
    int kept = keeps_found ? segment_find(e, s, key, hash, &kept_bucket, &x) : -1;
    uint32_t count = 0;

    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < kind_slots[e->kind]; i++) {
            if ((kept == (int)i && kept_bucket == at[k]) ||
                !slot_get(e->kind, bucket_at(s, at[k]), i, &x) ||
                !same_key(e, &x, key)) {
                continue;
            }
            unplace(e, s, at[k], i, at[0]);
            *s->count -= *s->count > 0;
            count++;
        }
    }
    return count;
}

/* ---- segments ---- */

uint32_t segment_buckets_for(const struct exact *e, uint64_t entries)
{
    uint64_t per = (uint64_t)kind_slots[e->kind] * kind_build[e->kind];

    return (uint32_t)((entries * 100 + per - 1) / per) + 1;
}

bool segment_new(const struct exact *e, uint32_t nb, unsigned depth,
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

void segment_drop(const struct exact *e, const struct segment *s)
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

bool segment_build(const struct exact *e, const struct segment *from, unsigned depth,
                   uint32_t nb, int bit, unsigned side, struct segment *ret)
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
