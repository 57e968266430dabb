#include "agent/fwdh/trie.h"

#include <stdlib.h>

/* Rows shorter than this do not fit under a slot of the index. */
#define SHORT HTRIE_INDEX_BITS

static struct htrie_node *load(const htrie_link *link)
{
    return atomic_load_explicit(link, memory_order_acquire);
}

static void publish(htrie_link *link, struct htrie_node *node)
{
    atomic_store_explicit(link, node, memory_order_release);
}

int htrie_init(struct htrie *t, const struct hmasks *masks, struct lines *lines,
               struct retire *retire)
{
    for (unsigned i = 0; i < HTRIE_SLOTS; i++) {
        atomic_init(&t->root[i], NULL);
        atomic_init(&t->best_short[i], NULL);
    }
    t->masks = masks;
    t->lines = lines;
    t->retire = retire;
    t->shorts = calloc(HTRIE_SLOTS, sizeof(*t->shorts));
    return t->shorts ? 0 : -1;
}

void htrie_fini(struct htrie *t)
{
    free(t->shorts);
    t->shorts = NULL;
}

/* ---- nodes ---- */

static uint32_t line_of(const struct htrie *t, const struct htrie_node *n)
{
    return (uint32_t)((size_t)((const uint8_t *)n - t->lines->base) / LINE_BYTES);
}

/* A node without children; `row` null: a place where ways part. */
static struct htrie_node *node_new(struct htrie *t, const struct hkey *key,
                                   unsigned length, const struct htrie_row *row)
{
    uint32_t line = lines_alloc(t->lines, 1);
    struct htrie_node *n;

    if (!line) {
        return NULL;
    }
    n = lines_at(t->lines, line);
    n->key.vni = key->vni & t->masks->at[length].vni;
    n->key.hi = key->hi & t->masks->at[length].hi;
    n->key.lo = key->lo & t->masks->at[length].lo;
    n->length = (uint8_t)length;
    n->has_row = row != NULL;
    n->row = row ? *row : (struct htrie_row){ 0 };
    atomic_init(&n->child[0], NULL);
    atomic_init(&n->child[1], NULL);
    return n;
}

static void node_retire(struct htrie *t, const struct htrie_node *n)
{
    retire_add(t->retire, RETIRED_LINES, line_of(t, n), 1);
}

/* A copy with another row and the same children. */
static struct htrie_node *node_copy(struct htrie *t, const struct htrie_node *from,
                                    const struct htrie_row *row)
{
    struct htrie_node *n = node_new(t, &from->key, from->length, row);

    for (unsigned i = 0; n && i < 2; i++) {
        atomic_init(&n->child[i], load(&from->child[i]));
    }
    return n;
}

/* ---- short rows ---- */

static unsigned short_place(const struct hkey *key, unsigned length)
{
    return 1u << length | (length ? key->vni >> (24 - length) : 0);
}

/* What covers a slot best, of rows with 0 to SHORT - 1 bits. */
static struct htrie_node *short_best(const struct htrie *t, unsigned slot)
{
    struct htrie_node *best = NULL;

    for (unsigned length = 0; length < SHORT; length++) {
        struct htrie_node *n =
            load(&t->shorts[1u << length | slot >> (HTRIE_INDEX_BITS - length)]);

        if (n && (!best || n->row.priority >= best->row.priority)) {
            best = n;
        }
    }
    return best;
}

static void short_publish(struct htrie *t, const struct hkey *key, unsigned length)
{
    unsigned count = HTRIE_SLOTS >> length;
    unsigned first = key->vni >> HTRIE_INDEX_BITS & ~(count - 1);

    for (unsigned i = first; i < first + count; i++) {
        publish(&t->best_short[i], short_best(t, i));
    }
}

static enum rc short_put(struct htrie *t, const struct hkey *key, unsigned length,
                         const struct htrie_row *row)
{
    htrie_link *place = &t->shorts[short_place(key, length)];
    struct htrie_node *old = load(place);
    struct htrie_node *n = NULL;

    if (row && !(n = node_new(t, key, length, row))) {
        return RC_NO_MEMORY;
    }
    publish(place, n);
    short_publish(t, key, length);
    if (old) {
        node_retire(t, old);
    }
    return RC_OK;
}

/* ---- the writer ---- */

static unsigned common(const struct htrie_node *n, const struct hkey *key,
                       unsigned length)
{
    unsigned c = hkey_common(&n->key, key);

    c = c < length ? c : length;
    return c < n->length ? c : n->length;
}

/* Puts a new leaf above or beside `below`, which shares `shared` bits with it. */
static enum rc insert_above(struct htrie *t, htrie_link *link, struct htrie_node *below,
                            struct htrie_node *leaf, unsigned shared)
{
    struct htrie_node *top = leaf;

    if (shared < leaf->length) {
        top = node_new(t, &leaf->key, shared, NULL);
        if (!top) {
            lines_free(t->lines, line_of(t, leaf), 1);
            return RC_NO_MEMORY;
        }
        atomic_init(&top->child[hkey_bit(&leaf->key, shared)], leaf);
    }
    atomic_init(&top->child[hkey_bit(&below->key, shared)], below);
    publish(link, top);
    return RC_OK;
}

enum rc htrie_put(struct htrie *t, const struct hkey *key, unsigned length,
                  const struct htrie_row *row)
{
    htrie_link *link = &t->root[key->vni >> (24 - HTRIE_INDEX_BITS)];
    struct htrie_node *n;
    struct htrie_node *fresh;
    unsigned shared = 0;

    if (length < SHORT) {
        return short_put(t, key, length, row);
    }
    while ((n = load(link)) != NULL) {
        shared = common(n, key, length);
        if (shared < n->length || n->length == length) {
            break;
        }
        link = &n->child[hkey_bit(key, n->length)];
    }
    if (n && shared == n->length) { /* the same prefix */
        fresh = node_copy(t, n, row);
        if (!fresh) {
            return RC_NO_MEMORY;
        }
        publish(link, fresh);
        node_retire(t, n);
        return RC_OK;
    }
    fresh = node_new(t, key, length, row);
    if (!fresh) {
        return RC_NO_MEMORY;
    }
    if (!n) {
        publish(link, fresh);
        return RC_OK;
    }
    return insert_above(t, link, n, fresh, shared);
}

/* A place where ways parted and only one is left goes, too. */
static void drop_fork(struct htrie *t, htrie_link *link)
{
    struct htrie_node *n = load(link);
    struct htrie_node *left = load(&n->child[0]);
    struct htrie_node *right = load(&n->child[1]);

    if (!n->has_row && (!left || !right)) {
        publish(link, left ? left : right);
        node_retire(t, n);
    }
}

enum rc htrie_del(struct htrie *t, const struct hkey *key, unsigned length)
{
    htrie_link *link = &t->root[key->vni >> (24 - HTRIE_INDEX_BITS)];
    htrie_link *above = NULL;
    struct htrie_node *n;
    struct htrie_node *left;
    struct htrie_node *right;

    if (length < SHORT) {
        return short_put(t, key, length, NULL);
    }
    while ((n = load(link))->length < length) {
        above = link;
        link = &n->child[hkey_bit(key, n->length)];
    }
    left = load(&n->child[0]);
    right = load(&n->child[1]);
    if (left && right) {
        struct htrie_node *fork = node_copy(t, n, NULL);

        if (!fork) {
            return RC_NO_MEMORY;
        }
        publish(link, fork);
    } else {
        publish(link, left ? left : right);
        if (!left && !right && above) {
            drop_fork(t, above);
        }
    }
    node_retire(t, n);
    return RC_OK;
}

/* ---- read-backs ---- */

const struct htrie_row *htrie_find(const struct htrie *t, const struct hkey *key,
                                   unsigned length)
{
    const struct htrie_node *n = length < SHORT
                                     ? load(&t->shorts[short_place(key, length)])
                                     : load(&t->root[key->vni >> (24 - SHORT)]);

    while (n && n->length < length) {
        n = load(&n->child[hkey_bit(key, n->length)]);
    }
    return n && n->has_row && n->length == length && common(n, key, length) == length
               ? &n->row
               : NULL;
}

/* The first node behind (key, length) in the order of keys, shorter ones first. */
static const struct htrie_node *behind(const struct htrie_node *n,
                                       const struct hkey *key, unsigned length)
{
    const struct htrie_node *best = NULL;

    while (n) {
        unsigned shared = common(n, key, length);
        const struct htrie_node *left = load(&n->child[0]);
        const struct htrie_node *right = load(&n->child[1]);

        if (shared < n->length) { /* all of it is behind, or nothing */
            return shared == length || hkey_bit(&n->key, shared) ? n : best;
        }
        if (n->length == length) {
            return left ? left : right ? right : best;
        }
        best = !hkey_bit(key, n->length) && right ? right : best;
        n = hkey_bit(key, n->length) ? right : left;
    }
    return best;
}

bool htrie_next(const struct htrie *t, struct htrie_cursor *c,
                const struct htrie_node **ret)
{
    const struct htrie_node *n;

    if (c->slot >= 2 * HTRIE_SLOTS) {
        return false;
    }
    if (c->slot < HTRIE_SLOTS) { /* short rows first */
        n = load(&t->shorts[c->slot++]);
    } else {
        n = load(&t->root[c->slot - HTRIE_SLOTS]);
        n = c->is_inside ? behind(n, &c->key, c->length) : n;
        c->is_inside = n != NULL;
        c->slot += n == NULL;
        if (n) {
            c->key = n->key;
            c->length = n->length;
        }
    }
    *ret = n && n->has_row ? n : NULL;
    return true;
}

/* ---- readers ---- */

void htrie_start(const struct htrie *t, struct htrie_query *q)
{
    unsigned slot = q->key.vni >> (24 - HTRIE_INDEX_BITS);

    q->best = load(&t->best_short[slot]);
    q->priority = q->best ? q->best->row.priority : 0;
    q->at = load(&t->root[slot]);
    __builtin_prefetch(q->at);
}

/* One node further down; free of branches, which would be missed half of the time. */
static inline void step(const struct hmasks *masks, struct htrie_query *q)
{
    const struct htrie_node *n = q->at;
    const struct htrie_node *next = load(&n->child[hkey_bit(&q->key, n->length)]);
    bool is_on_way = hkey_differs(&n->key, &q->key, &masks->at[n->length]) == 0;
    bool wins = is_on_way & n->has_row & (n->row.priority >= q->priority);

    q->best = wins ? n : q->best;
    q->priority = wins ? n->row.priority : q->priority;
    q->at = is_on_way ? next : NULL; /* nothing hangs below a whole key */
    __builtin_prefetch(q->at);
}

void htrie_walk(const struct hmasks *masks, struct htrie_query *const q[],
                unsigned count)
{
    struct htrie_query *live[HTRIE_BURST];
    unsigned left = 0;

    for (unsigned i = 0; i < count; i++) {
        live[left] = q[i];
        left += q[i]->at != NULL;
    }
    while (left > 0) {
        unsigned kept = 0;

        for (unsigned i = 0; i < left; i++) {
            step(masks, live[i]);
            live[kept] = live[i];
            kept += live[i]->at != NULL;
        }
        left = kept;
    }
}
