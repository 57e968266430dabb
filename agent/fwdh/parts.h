/*
 * parts - route_part in software: partitions of a few rows each, prefixes of the
 * 152-bit string, answered by priority.
 *
 * A partition is one run of cache lines, its rows by falling priority, so the first
 * that matches is the answer.  What is compared lies together and apart from what is
 * answered: 16 rows of IPv4 are compared in four lines.  A change writes the partition
 * anew and publishes it by one store; the old run is retired.  One writer, any number
 * of readers.
 */
#pragma once

#include <stdatomic.h>

#include "agent/fwd/lines.h"
#include "agent/fwd/retire.h"
#include "agent/fwdh/key.h"
#include "proto/base/err.h"

#define HPARTS_SLOTS_MAX 64 /* that we make room for on the stack */

/* A row as it is written and read back. */
struct hpart_row {
    struct hkey key;
    uint32_t priority;
    uint8_t length;
    uint8_t action; /* enum phys_action */
    uint8_t half;   /* of a peer */
    uint8_t cls;    /* of a fallback */
    uint32_t vni;
    uint32_t nc;
};

/* What it answers, packed. */
struct hpart_result {
    uint32_t vni : 24;
    uint32_t action : 8;
    uint32_t nc : 24;
    uint32_t half : 4;
    uint32_t cls : 4;
};

/* Behind the heads, arrays of `cap` each: the addresses' low halves, the results, the
 * high halves, the priorities. */
struct hpart {
    uint16_t count;
    uint16_t cap; /* even */
    uint16_t lines;
    bool has_hi;     /* any high half is not 0, as IPv4's all are */
    uint32_t head[]; /* VNI << 8 | length */
};

struct hparts {
    _Atomic(struct hpart *) *at;
    const struct hmasks *masks;
    struct lines *lines;
    struct retire *retire;
    uint32_t partitions;
    uint32_t slots; /* of a partition */
};

/* Borrows masks, lines and retire.  Returns 0, or -1 without memory. */
int hparts_init(struct hparts *p, uint32_t partitions, uint32_t slots,
                const struct hmasks *masks, struct lines *lines, struct retire *retire);
void hparts_fini(struct hparts *p);

/* The place of the row with this key, length and priority; -1: there is none.  Writer's
 * thread; until the next change of the partition. */
int hparts_find(const struct hparts *p, uint32_t part, const struct hpart_row *row);

/* Row `i` of a partition. */
struct hpart_row hpart_row_of(const struct hpart *p, unsigned i);

/* The retire queue has room for one more.  RC_FULL: all slots are taken; RC_NO_MEMORY:
 * nothing changed. */
enum rc hparts_add(struct hparts *p, uint32_t part, const struct hpart_row *row);
/* The row is there, at `place`. */
enum rc hparts_set(struct hparts *p, uint32_t part, unsigned place,
                   const struct hpart_row *row);
enum rc hparts_del(struct hparts *p, uint32_t part, unsigned place);

static inline const struct hpart *hparts_at(const struct hparts *p, uint32_t part)
{
    return atomic_load_explicit(&p->at[part], memory_order_acquire);
}

static inline const uint64_t *hpart_lo(const struct hpart *p)
{
    return (const uint64_t *)(p->head + p->cap);
}

static inline const struct hpart_result *hpart_results(const struct hpart *p)
{
    return (const struct hpart_result *)(hpart_lo(p) + p->cap);
}

static inline const uint64_t *hpart_hi(const struct hpart *p)
{
    return (const uint64_t *)(hpart_results(p) + p->cap);
}

/* Readers: what the first row that matches says, or null. */
static inline const struct hpart_result *
hpart_match(const struct hpart *p, const struct hmasks *masks, const struct hkey *key)
{
    const uint64_t *lo = hpart_lo(p);
    const uint64_t *hi = hpart_hi(p);

    for (unsigned i = 0; i < p->count; i++) {
        const struct hkey *mask = &masks->at[p->head[i] & 0xff];

        if (((p->head[i] >> 8 ^ key->vni) & mask->vni) == 0 &&
            ((lo[i] ^ key->lo) & mask->lo) == 0 &&
            (((p->has_hi ? hi[i] : 0) ^ key->hi) & mask->hi) == 0) {
            return &hpart_results(p)[i];
        }
    }
    return NULL;
}

/* Asks for what a match of 16 rows looks at, before anything of it is known. */
static inline void hpart_prefetch(const struct hpart *p, const struct hkey *key)
{
    unsigned lines = key->hi == 0 ? 5 : 8;

    for (unsigned i = 0; p && i < lines; i++) {
        __builtin_prefetch((const uint8_t *)p + (size_t)i * LINE_BYTES);
    }
}
