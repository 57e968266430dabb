#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/alpm_impl.h"

/* ---- memory ---- */

static enum rc reserve_nodes(struct alpm *a, size_t nodes)
{
    size_t cap = a->node_cap;
    struct alpm_row *row;

    if (nodes <= a->node_free_count + (a->node_cap - a->node_top)) {
        return RC_OK;
    }
    cap += cap / 4 > nodes ? cap / 4 : nodes;
    row = realloc(a->row, cap * sizeof *row);
    if (!row) {
        return RC_NO_MEMORY;
    }
    a->memory += (cap - a->node_cap) * sizeof *row;
    a->row = row;
    a->node_cap = (uint32_t)cap;
    return RC_OK;
}

enum rc alpm_chunk_reserve(struct alpm *a, unsigned part)
{
    size_t size = (size_t)ALPM_CHUNK * a->b * sizeof(struct alpm_slot);
    struct alpm_slot **chunk = &a->chunk[part / ALPM_CHUNK];

    if (!*chunk) {
        *chunk = malloc(size);
        a->memory += *chunk ? size : 0;
    }
    return *chunk ? RC_OK : RC_NO_MEMORY;
}

enum rc alpm_reserve(struct alpm *a, size_t nodes, size_t parts)
{
    for (size_t i = 0; i < parts && i < a->part_free_count; i++) {
        if (alpm_chunk_reserve(a, a->part_free[a->part_free_count - 1 - i])) {
            return RC_NO_MEMORY;
        }
    }
    return reserve_nodes(a, nodes);
}

uint16_t alpm_part_take(struct alpm *a)
{
    return a->part_free[--a->part_free_count];
}

void alpm_part_give(struct alpm *a, uint16_t part)
{
    a->part_free[a->part_free_count++] = part;
}

/* ---- nodes ---- */

static uint32_t node_take(struct alpm *a, const struct alpm_key *key, uint32_t up)
{
    uint32_t n = a->node_free;

    if (a->node_free_count) {
        a->node_free = a->row[n].up;
        a->node_free_count--;
    } else {
        n = a->node_top++;
    }
    memset(&a->row[n], 0, sizeof a->row[n]);
    a->row[n].key = *key;
    a->row[n].up = up;
    return n;
}

static void node_give(struct alpm *a, uint32_t n)
{
    memset(&a->row[n], 0, sizeof a->row[n]);
    a->row[n].up = a->node_free;
    a->node_free = n;
    a->node_free_count++;
}

static void node_hang(struct alpm *a, uint32_t up, uint32_t n)
{
    a->row[up].child[key_bit(&a->row[n].key, key_len(&a->row[up].key))] = n;
    a->row[n].up = up;
}

uint32_t alpm_row_insert(struct alpm *a, const struct alpm_key *key)
{
    uint32_t up = 0;
    uint32_t c;
    uint32_t n;
    unsigned common;

    for (;;) {
        if (key_len(&a->row[up].key) == key_len(key)) {
            return up; /* was a fork */
        }
        c = a->row[up].child[key_bit(key, key_len(&a->row[up].key))];
        if (!c || !key_covers(&a->row[c].key, key)) {
            break;
        }
        up = c;
    }
    if (!c) {
        n = node_take(a, key, up);
        node_hang(a, up, n);
        return n;
    }
    common = key_common(&a->row[c].key, key);
    if (common < key_len(key)) {
        struct alpm_key fork = key_cut(key, common);

        n = node_take(a, &fork, up);
        node_hang(a, up, n);
        up = n;
    }
    n = node_take(a, key, up);
    node_hang(a, up, n);
    node_hang(a, common < key_len(key) ? up : n, c);
    return n;
}

/* A fork needs two children; node 0 stays. */
static void node_prune(struct alpm *a, uint32_t n)
{
    while (n && !a->row[n].part && !(a->row[n].child[0] && a->row[n].child[1])) {
        uint32_t only = a->row[n].child[0] | a->row[n].child[1];
        uint32_t up = a->row[n].up;

        if (only) {
            node_hang(a, up, only);
        } else {
            a->row[up].child[key_bit(&a->row[n].key, key_len(&a->row[up].key))] = 0;
        }
        node_give(a, n);
        n = up;
    }
}

void alpm_row_remove(struct alpm *a, uint32_t row)
{
    a->row[row].part = 0;
    a->row[row].count = 0;
    a->row[row].flags = 0;
    node_prune(a, row);
}

uint32_t alpm_row_of(const struct alpm *a, const struct alpm_key *key)
{
    uint32_t found = 0;
    uint32_t n = 0;

    for (;;) {
        const struct alpm_row *r = &a->row[n];

        if (r->part) {
            found = n;
        }
        if (key_len(&r->key) >= key_len(key)) {
            return found;
        }
        n = r->child[key_bit(key, key_len(&r->key))];
        if (!n || !key_covers(&a->row[n].key, key)) {
            return found;
        }
    }
}

uint32_t alpm_row_above(const struct alpm *a, uint32_t row)
{
    do {
        row = a->row[row].up;
    } while (row && !a->row[row].part);
    return row;
}

/* The node behind `n` in the order of keys. */
static uint32_t node_next(const struct alpm *a, uint32_t n, bool skip)
{
    const struct alpm_row *r = &a->row[n];

    if (!skip && (r->child[0] || r->child[1])) {
        return r->child[0] ? r->child[0] : r->child[1];
    }
    while (n) {
        uint32_t up = a->row[n].up;

        if (a->row[up].child[0] == n && a->row[up].child[1]) {
            return a->row[up].child[1];
        }
        n = up;
    }
    return ALPM_NONE;
}

uint32_t alpm_row_next(const struct alpm *a, uint32_t row, bool skip)
{
    do {
        row = node_next(a, row, skip);
        skip = false;
    } while (row != ALPM_NONE && !a->row[row].part);
    return row;
}

uint32_t alpm_row_from(const struct alpm *a, const struct alpm_key *key)
{
    uint32_t n = 0;

    while (n != ALPM_NONE && key_compare(&a->row[n].key, key) < 0) {
        /* What lies below a node that ends before the key lies before it, too. */
        n = node_next(a, n, !key_covers(&a->row[n].key, key));
    }
    return n != ALPM_NONE && !a->row[n].part ? alpm_row_next(a, n, false) : n;
}

/* ---- slots and covers ---- */

unsigned alpm_slot_find(const struct alpm *a, uint32_t row, const struct alpm_key *key)
{
    const struct alpm_slot *s = alpm_slots(a, a->row[row].part);
    unsigned first = 0;
    unsigned count = a->row[row].count;

    while (count) {
        unsigned half = count / 2;

        if (key_compare(&s[first + half].key, key) < 0) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

struct alpm_value alpm_cover_of(const struct alpm *a, uint32_t row,
                                const struct alpm_key *key)
{
    const struct alpm_slot *s = alpm_slots(a, a->row[row].part);

    /* Of two routes above one key the longer comes later. */
    for (unsigned i = a->row[row].count; i-- > 0;) {
        if (key_above(&s[i].key, key)) {
            return s[i].value;
        }
    }
    return a->row[row].cover;
}

/* Covers at and below node `n`; `row` is the deepest row above it. */
static void covers_walk(struct alpm *a, uint32_t n, uint32_t row)
{
    struct alpm_row *r = &a->row[n];

    if (r->part) {
        struct alpm_value cover = alpm_cover_of(a, row, &r->key);

        if (value_equal(cover, r->cover)) {
            return; /* and so is all that is taken from it */
        }
        r->cover = cover;
        if (!(r->flags & (ROW_DIRTY | ROW_FINAL))) {
            r->flags |= ROW_DIRTY;
            r->link = a->work.dirty;
            a->work.dirty = n;
        }
        row = n;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (r->child[i]) {
            covers_walk(a, r->child[i], row);
        }
    }
}

void alpm_covers_update(struct alpm *a, uint32_t row, const struct alpm_key *key)
{
    uint32_t n = row;

    while (key_len(&a->row[n].key) < key_len(key)) {
        n = a->row[n].child[key_bit(key, key_len(&a->row[n].key))];
        if (!n) {
            return;
        }
        if (key_covers(key, &a->row[n].key)) {
            covers_walk(a, n, row);
            return;
        }
        if (!key_covers(&a->row[n].key, key)) {
            return;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (a->row[n].child[i]) {
            covers_walk(a, a->row[n].child[i], row);
        }
    }
}
