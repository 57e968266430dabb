/*
 * parts - route_part in software: partitions of a few rows each, prefixes of the
 * 152-bit string, answered by priority.
 *
 * A partition is one run of cache lines, its rows by falling priority, so the first
 * that matches is the answer.  A change writes the partition anew and publishes it by
 * one store; the old run is retired.  One writer, any number of readers.
 */
#pragma once

#include <stdatomic.h>

#include "agent/fwd/lines.h"
#include "agent/fwd/retire.h"
#include "agent/fwdh/key.h"
#include "proto/base/err.h"

#define HPARTS_SLOTS_MAX 64 /* that we make room for on the stack */

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

struct hpart {
    uint16_t count;
    uint16_t lines;
    struct hpart_row row[];
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

/* The row with this key, length and priority; null if there is none.  Writer's thread;
 * until the next change of the partition. */
const struct hpart_row *hparts_find(const struct hparts *p, uint32_t part,
                                    const struct hpart_row *row);

/* The retire queue has room for one more.  RC_FULL: all slots are taken; RC_NO_MEMORY:
 * nothing changed. */
enum rc hparts_add(struct hparts *p, uint32_t part, const struct hpart_row *row);
/* The row is there. */
enum rc hparts_set(struct hparts *p, uint32_t part, const struct hpart_row *row);
enum rc hparts_del(struct hparts *p, uint32_t part, const struct hpart_row *row);

static inline const struct hpart *hparts_at(const struct hparts *p, uint32_t part)
{
    return atomic_load_explicit(&p->at[part], memory_order_acquire);
}

/* Readers: the first row that matches, or null. */
static inline const struct hpart_row *
hpart_match(const struct hpart *p, const struct hmasks *masks, const struct hkey *key)
{
    for (unsigned i = 0; i < p->count; i++) {
        const struct hpart_row *r = &p->row[i];

        if (hkey_differs(&r->key, key, &masks->at[r->length]) == 0) {
            return r;
        }
    }
    return NULL;
}
