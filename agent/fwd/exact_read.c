/* The slots of an exact table one by one, as they stand, whatever lookups find. */
#include "agent/fwd/exact.h"

enum { SPACE_BITS = 63 }; /* of the hash, that choose a segment: the upper ones */

static unsigned slots_of(unsigned kind)
{
    return kind == EXACT_VNI ? 7 : kind == EXACT_V4 ? 5 : 2;
}

static bool slot_read(unsigned kind, const void *bucket, unsigned i,
                      struct exact_entry *ret)
{
    const struct exact_bucket_vni *vni = bucket;
    const struct exact_bucket_v4 *v4 = bucket;
    const struct exact_bucket_v6 *v6 = bucket;

    *ret = (struct exact_entry){ 0 };
    switch (kind) {
    case EXACT_VNI:
        ret->w0 = atomic_load_explicit(&vni->slot[i], memory_order_relaxed);
        return ret->w0 != 0;
    case EXACT_V4:
        ret->w0 = atomic_load_explicit(&v4->key[i], memory_order_relaxed);
        ret->val = atomic_load_explicit(&v4->val[i], memory_order_relaxed);
        return ret->w0 != 0;
    default:
        ret->w0 = atomic_load_explicit(&v6->hi[i], memory_order_relaxed);
        ret->w1 = atomic_load_explicit(&v6->lo[i], memory_order_relaxed);
        ret->vni = atomic_load_explicit(&v6->vni[i], memory_order_relaxed);
        ret->val = atomic_load_explicit(&v6->val[i], memory_order_relaxed);
        return ret->vni != 0;
    }
}

static bool is_same(unsigned kind, const struct exact_entry *a,
                    const struct exact_entry *b)
{
    uint64_t differs = a->w0 ^ b->w0;

    return kind == EXACT_VNI ? (differs & EXACT_VNI_KEY) == 0
                             : differs == 0 && a->w1 == b->w1 && a->vni == b->vni;
}

static uint64_t hash_of(const struct exact *e, const struct exact_entry *x)
{
    return e->kind == EXACT_V6    ? exact_hash_v6(e, x->w0, x->w1, x->vni)
           : e->kind == EXACT_VNI ? exact_hash1(e, x->w0 & EXACT_VNI_KEY)
                                  : exact_hash1(e, x->w0);
}

/* The same without a key's mark. */
static bool slot_read_key(const struct exact *e, const void *bucket, unsigned i,
                          struct exact_entry *ret)
{
    bool is_there = slot_read(e->kind, bucket, i, ret);

    if (is_there && e->kind != EXACT_VNI) {
        exact_entry_mark(e, ret, false);
    }
    return is_there;
}

static uint32_t overflow_of(unsigned kind, const void *bucket)
{
    const struct exact_bucket_vni *vni = bucket;
    const struct exact_bucket_v4 *v4 = bucket;
    const struct exact_bucket_v6 *v6 = bucket;
    const exact_u32 *hdr = kind == EXACT_VNI  ? &vni->hdr
                           : kind == EXACT_V4 ? &v4->hdr
                                              : &v6->hdr;

    return atomic_load_explicit(hdr, memory_order_relaxed) & EXACT_OVERFLOW;
}

/* Whether a lookup of `x` ends at (bucket, slot): the order is exact_find()'s. */
static bool is_found_at(const struct exact *e, uint64_t word,
                        const struct exact_entry *x, uint32_t bucket, unsigned slot)
{
    uint64_t hash = hash_of(e, x);
    uint32_t nb = exact_buckets(word);
    uint32_t at[2] = { exact_first(hash, nb), exact_second(hash, nb) };

    if (exact_segment(atomic_load_explicit(&e->dir, memory_order_relaxed), hash) !=
        word) {
        return false; /* it stands in another key's segment */
    }
    for (unsigned k = 0; k < 2; k++) {
        const void *b = exact_bucket(e, word, at[k]);

        for (unsigned i = 0; i < slots_of(e->kind); i++) {
            struct exact_entry there;

            if (at[k] == bucket && i == slot) {
                return true;
            }
            if (slot_read_key(e, b, i, &there) && is_same(e->kind, &there, x)) {
                return false;
            }
        }
        if (overflow_of(e->kind, b) == 0) {
            return false;
        }
    }
    return false;
}

/* To the next segment. */
static void leave_segment(struct exact_cursor *c, uint64_t word)
{
    uint64_t span = UINT64_C(1) << (SPACE_BITS - ((word >> 24) & 0xff));

    c->hash = (c->hash & ~(span - 1)) + span;
    c->is_over = c->hash >> SPACE_BITS != 0;
    c->bucket = 0;
    c->slot = 0;
}

bool exact_next(const struct exact *e, struct exact_cursor *c, uint32_t *budget,
                struct exact_entry *ret, bool *ret_is_found)
{
    const struct exact_dir *dir = atomic_load_explicit(&e->dir, memory_order_relaxed);

    while (!c->is_over && *budget > 0) {
        uint64_t word = atomic_load_explicit(&dir->segment[c->hash >> dir->shift],
                                             memory_order_relaxed);
        uint32_t bucket = c->bucket;
        unsigned slot = c->slot++;

        if (bucket >= exact_buckets(word)) {
            leave_segment(c, word);
            continue;
        }
        if (slot >= slots_of(e->kind)) {
            c->bucket++;
            c->slot = 0;
            continue;
        }
        --*budget;
        if (slot_read_key(e, exact_bucket(e, word, bucket), slot, ret)) {
            *ret_is_found = is_found_at(e, word, ret, bucket, slot);
            return true;
        }
    }
    return false;
}
