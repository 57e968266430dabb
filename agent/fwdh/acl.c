#include "agent/fwdh/acl.h"

#include "agent/fwd/wire.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

static uint32_t hash_vni(uint32_t vni)
{
    return (uint32_t)((vni * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static const struct hacl_rule *rules_of(const struct hacl *a)
{
    return (const struct hacl_rule *)(const void *)((const uint8_t *)a + a->rules_at);
}

/* Key or mask from the bytes of a physical entry (phys.c says where fields lie). */
static struct hacl_key load_key(const uint8_t *b)
{
    return (struct hacl_key){
        .src = { load_be64(b + 3), load_be64(b + 11) },
        .dst = { load_be64(b + 19), load_be64(b + 27) },
        .rest = hacl_rest(b[35], load_be16(b + 36), load_be16(b + 38), b[40] & 1),
    };
}

static int by_vni_and_priority(const void *x, const void *y)
{
    const struct hacl_rule *a = x;
    const struct hacl_rule *b = y;

    if (a->vni != b->vni) {
        return a->vni < b->vni ? -1 : 1;
    }
    return a->priority > b->priority ? -1 : a->priority < b->priority;
}

static void add_slot(struct hacl *a, uint32_t vni, uint32_t first, uint32_t count)
{
    uint32_t i = hash_vni(vni) & a->mask;

    while (a->slot[i].vni != NOBODY) {
        i = (i + 1) & a->mask;
    }
    a->slot[i] = (struct hacl_slot){ vni, (uint16_t)first, (uint16_t)count };
}

static void collect(const struct hrecords *records, struct hacl_rule *to)
{
    struct phys_entry e;

    for (uint32_t row = 0; row < records->top; row++) {
        if (hrecords_get(records, row, &e)) {
            *to++ = (struct hacl_rule){ .key = load_key(e.key),
                                        .mask = load_key(e.mask),
                                        .vni = load_be24(e.key),
                                        .priority = e.priority,
                                        .denies = e.action == PHYS_DENY };
        }
    }
}

enum rc hacl_build(const struct hrecords *records, struct lines *lines, uint32_t *ret)
{
    uint32_t slots = 4;
    size_t bytes;
    uint32_t count;
    uint32_t line;
    struct hacl_rule *rules;
    struct hacl *a;

    if (records->count == 0) {
        *ret = 0;
        return RC_OK;
    }
    while (slots < 2 * records->count) {
        slots *= 2;
    }
    bytes = sizeof(*a) + slots * sizeof(a->slot[0]);
    count = (uint32_t)((bytes + records->count * sizeof(*rules) + LINE_BYTES - 1) /
                       LINE_BYTES);
    line = lines_alloc(lines, count);
    if (!line) {
        return RC_NO_MEMORY;
    }
    a = lines_at(lines, line);
    a->lines = count;
    a->mask = slots - 1;
    a->rule_count = records->count;
    a->rules_at = (uint32_t)bytes;
    for (uint32_t i = 0; i < slots; i++) {
        a->slot[i].vni = NOBODY;
    }
    rules = (struct hacl_rule *)(void *)((uint8_t *)a + bytes);
    collect(records, rules);
    qsort(rules, records->count, sizeof(*rules), by_vni_and_priority);
    for (uint32_t first = 0, i = 1; i <= records->count; i++) {
        if (i == records->count || rules[i].vni != rules[first].vni) {
            add_slot(a, rules[first].vni, first, i - first);
            first = i;
        }
    }
    *ret = line;
    return RC_OK;
}

const struct hacl_slot *hacl_find(const struct hacl *a, uint32_t vni)
{
    for (uint32_t i = hash_vni(vni) & a->mask;; i = (i + 1) & a->mask) {
        if (a->slot[i].vni == vni) {
            return &a->slot[i];
        }
        if (a->slot[i].vni == NOBODY) {
            return NULL;
        }
    }
}

static void store_key(const struct hacl_key *k, uint32_t vni, uint8_t *b)
{
    const uint64_t words[] = { k->src[0], k->src[1], k->dst[0], k->dst[1] };

    b[0] = (uint8_t)(vni >> 16);
    store_be16(b + 1, (uint16_t)vni);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t be = __builtin_bswap64(words[i]);

        memcpy(b + 3 + 8 * i, &be, sizeof(be));
    }
    b[35] = (uint8_t)(k->rest >> 40);
    store_be16(b + 36, (uint16_t)(k->rest >> 24));
    store_be16(b + 38, (uint16_t)(k->rest >> 8));
    b[40] = k->rest & 1;
}

void hacl_entry(const struct hacl *a, uint32_t i, struct phys_entry *ret)
{
    const struct hacl_rule *r = rules_of(a) + i;

    *ret = (struct phys_entry){ .table = PHYS_ACL,
                                .action = r->denies ? PHYS_DENY : PHYS_PERMIT,
                                .priority = r->priority };
    store_key(&r->key, r->vni, ret->key);
    store_key(&r->mask, 0xffffff, ret->mask);
}

uint32_t hacl_find_entry(const struct hacl *a, const struct phys_entry *e)
{
    const struct hacl_slot *slot = hacl_find(a, load_be24(e->key));

    for (uint32_t i = 0; slot && i < slot->count; i++) {
        struct phys_entry there;

        hacl_entry(a, slot->first + i, &there);
        if (there.priority == e->priority &&
            memcmp(there.key, e->key, sizeof(e->key)) == 0 &&
            memcmp(there.mask, e->mask, sizeof(e->mask)) == 0) {
            return slot->first + i;
        }
    }
    return HRECORDS_NONE;
}

static bool matches(const struct hacl_rule *r, const struct hacl_key *k)
{
    return (((r->key.src[0] ^ k->src[0]) & r->mask.src[0]) |
            ((r->key.src[1] ^ k->src[1]) & r->mask.src[1]) |
            ((r->key.dst[0] ^ k->dst[0]) & r->mask.dst[0]) |
            ((r->key.dst[1] ^ k->dst[1]) & r->mask.dst[1]) |
            ((r->key.rest ^ k->rest) & r->mask.rest)) == 0;
}

bool hacl_permits(const struct hacl *a, const struct hacl_slot *slot,
                  const struct hacl_key *key)
{
    const struct hacl_rule *rule = rules_of(a) + slot->first;

    for (unsigned i = 0; i < slot->count; i++) {
        if (matches(&rule[i], key)) {
            return !rule[i].denies;
        }
    }
    return true;
}
