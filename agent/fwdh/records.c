#include "agent/fwdh/records.h"

#include "agent/fwd/lines.h"

#include <string.h>

/* A row: action + 1 (0: free), priority where the table has one, key, mask where any
 * field is ternary, data.  A free one holds the next free row in bytes 1 to 4. */
enum { ACTION = 0, PRIORITY = 1, NEXT = 1, EXACT_KEY = 1, TERNARY_KEY = 5 };

static uint8_t *row_at(const struct hrecords *r, uint32_t row)
{
    return r->rows + (size_t)row * r->stride;
}

static unsigned key_at(const struct hrecords *r)
{
    return r->desc->has_priority ? TERNARY_KEY : EXACT_KEY;
}

/* Key, and mask behind it: what the index goes by. */
static unsigned name_len(const struct hrecords *r)
{
    return r->desc->key_len * (r->desc->has_priority ? 2u : 1u);
}

#define INDEX_MIN 1024u

static uint64_t index_bytes(uint32_t mask)
{
    return ((uint64_t)mask + 1) * sizeof(uint32_t);
}

int hrecords_init(struct hrecords *r, enum phys_table table, uint32_t limit)
{
    const struct phys_table_desc *d = phys_table_desc(table);

    *r = (struct hrecords){ .desc = d, .limit = limit, .table = (uint8_t)table };
    for (unsigned i = 0; i < d->action_count; i++) {
        uint8_t len = phys_action_desc((enum phys_action)d->actions[i])->data_len;

        r->data_len = len > r->data_len ? len : r->data_len;
    }
    r->stride = (uint16_t)(key_at(r) + name_len(r) + r->data_len);
    r->stride = r->stride < 5 ? 5 : r->stride; /* room for NEXT */
    r->index_mask = INDEX_MIN - 1;
    r->rows = lines_reserve((uint64_t)limit * r->stride);
    r->index = lines_reserve(index_bytes(INDEX_MIN - 1));
    if (!r->rows || !r->index) {
        hrecords_fini(r);
        return -1;
    }
    return 0;
}

void hrecords_fini(struct hrecords *r)
{
    lines_unreserve(r->rows, (uint64_t)r->limit * r->stride);
    lines_unreserve(r->index, index_bytes(r->index_mask));
    r->rows = NULL;
    r->index = NULL;
}

static uint32_t hash_bytes(const uint8_t *p, unsigned len)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) * (len + 1);

    while (len > 0) {
        uint64_t word = 0;
        unsigned n = len < 8 ? len : 8;
        unsigned __int128 m;

        memcpy(&word, p, n);
        m = (unsigned __int128)(h ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
        h = (uint64_t)m ^ (uint64_t)(m >> 64);
        p += n;
        len -= n;
    }
    return (uint32_t)(h ^ h >> 32);
}

/* The entry's name, as rows hold it. */
static unsigned name_of(const struct hrecords *r, const struct phys_entry *e,
                        uint8_t name[2 * PHYS_KEY_MAX])
{
    unsigned len = r->desc->key_len;

    memcpy(name, e->key, len);
    if (r->desc->has_priority) {
        memcpy(name + len, e->mask, len);
        len *= 2;
    }
    return len;
}

static uint32_t priority_at(const uint8_t *row)
{
    uint32_t v;

    memcpy(&v, row + PRIORITY, sizeof(v));
    return v;
}

uint32_t hrecords_find(const struct hrecords *r, const struct phys_entry *e)
{
    uint8_t name[2 * PHYS_KEY_MAX];
    unsigned len = name_of(r, e, name);

    for (uint32_t i = hash_bytes(name, len);; i++) {
        uint32_t slot = r->index[i & r->index_mask];
        const uint8_t *row;

        if (slot == 0) {
            return HRECORDS_NONE;
        }
        row = row_at(r, slot - 1);
        if (memcmp(row + key_at(r), name, len) == 0 &&
            (!r->desc->has_priority || priority_at(row) == e->priority)) {
            return slot - 1;
        }
    }
}

uint32_t hrecords_best(const struct hrecords *r, const struct phys_entry *e,
                       uint32_t but)
{
    uint8_t name[2 * PHYS_KEY_MAX];
    unsigned len = name_of(r, e, name);
    uint32_t best = HRECORDS_NONE;
    uint32_t slot;

    for (uint32_t i = hash_bytes(name, len); (slot = r->index[i & r->index_mask]) != 0;
         i++) {
        const uint8_t *row = row_at(r, slot - 1);

        if (slot - 1 != but && memcmp(row + key_at(r), name, len) == 0 &&
            (best == HRECORDS_NONE ||
             priority_at(row) > priority_at(row_at(r, best)))) {
            best = slot - 1;
        }
    }
    return best;
}

static void write_row(const struct hrecords *r, uint8_t *row,
                      const struct phys_entry *e)
{
    row[ACTION] = (uint8_t)(e->action + 1);
    memcpy(row + key_at(r) + name_len(r), e->data, r->data_len);
}

static uint32_t home_of(const struct hrecords *r, uint32_t row)
{
    return hash_bytes(row_at(r, row) + key_at(r), name_len(r)) & r->index_mask;
}

/* Two thirds of the index are used at most. */
bool hrecords_reserve(struct hrecords *r)
{
    struct hrecords wider = *r;

    if ((uint64_t)(r->count + 1) * 3 <= ((uint64_t)r->index_mask + 1) * 2) {
        return true;
    }
    wider.index_mask = 2 * r->index_mask + 1;
    wider.index = lines_reserve(index_bytes(wider.index_mask));
    if (!wider.index) {
        return false;
    }
    for (uint32_t row = 0; row < r->top; row++) {
        uint32_t i = home_of(&wider, row);

        if (row_at(r, row)[ACTION] == 0) {
            continue;
        }
        while (wider.index[i & wider.index_mask] != 0) {
            i++;
        }
        wider.index[i & wider.index_mask] = row + 1;
    }
    lines_unreserve(r->index, index_bytes(r->index_mask));
    *r = wider;
    return true;
}

void hrecords_prefetch(const struct hrecords *r, const struct phys_entry *e)
{
    uint8_t name[2 * PHYS_KEY_MAX];
    unsigned len = name_of(r, e, name);

    __builtin_prefetch(&r->index[hash_bytes(name, len) & r->index_mask], 1);
}

uint32_t hrecords_add(struct hrecords *r, const struct phys_entry *e)
{
    uint8_t name[2 * PHYS_KEY_MAX];
    unsigned len = name_of(r, e, name);
    uint32_t i = hash_bytes(name, len);
    uint32_t place = r->top;
    uint8_t *row;

    if (r->free) {
        place = r->free - 1;
        memcpy(&r->free, row_at(r, place) + NEXT, sizeof(r->free));
    } else {
        r->top++;
    }
    row = row_at(r, place);
    if (r->desc->has_priority) {
        memcpy(row + PRIORITY, &e->priority, sizeof(e->priority));
    }
    memcpy(row + key_at(r), name, len);
    write_row(r, row, e);
    while (r->index[i & r->index_mask] != 0) {
        i++;
    }
    r->index[i & r->index_mask] = place + 1;
    r->count++;
    return place;
}

void hrecords_set(struct hrecords *r, uint32_t row, const struct phys_entry *e)
{
    write_row(r, row_at(r, row), e);
}

void hrecords_remove(struct hrecords *r, uint32_t row)
{
    uint32_t mask = r->index_mask;
    uint32_t hole = home_of(r, row);
    uint8_t *at = row_at(r, row);

    while (r->index[hole] != row + 1) {
        hole = (hole + 1) & mask;
    }
    /* Those behind move up, unless that would put them in front of their home. */
    for (uint32_t i = (hole + 1) & mask; r->index[i] != 0; i = (i + 1) & mask) {
        uint32_t home = home_of(r, r->index[i] - 1);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            r->index[hole] = r->index[i];
            hole = i;
        }
    }
    r->index[hole] = 0;
    at[ACTION] = 0;
    memcpy(at + NEXT, &r->free, sizeof(r->free));
    r->free = row + 1;
    r->count--;
}

bool hrecords_get(const struct hrecords *r, uint32_t row, struct phys_entry *ret)
{
    const uint8_t *at = row_at(r, row);
    unsigned len = r->desc->key_len;

    if (row >= r->top || at[ACTION] == 0) {
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    ret->table = r->table;
    ret->action = (uint8_t)(at[ACTION] - 1);
    memcpy(ret->key, at + key_at(r), len);
    if (r->desc->has_priority) {
        ret->priority = priority_at(at);
        memcpy(ret->mask, at + key_at(r) + len, len);
    } else {
        phys_mask_exact((enum phys_table)r->table, ret->mask);
    }
    memcpy(ret->data, at + key_at(r) + name_len(r), r->data_len);
    return true;
}
