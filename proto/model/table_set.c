#include "proto/model/rows_impl.h"
#include "proto/model/table_set_impl.h"

#include <stdlib.h>

/* Twigs keep this much room that deletions left, besides an eighth of all, before it
 * is given back. */
#define SLACK_WORDS_MIN 4096

/* --- twigs ------------------------------------------------------------------------ */

static unsigned bits_below(uint64_t bitmap, unsigned index)
{
    return (unsigned)__builtin_popcountll(bitmap & ((UINT64_C(1) << index) - 1));
}

static unsigned bits(uint64_t bitmap)
{
    return (unsigned)__builtin_popcountll(bitmap);
}

/* Which of the twig's bitmaps is `table`'s, or would be. */
static unsigned twig_slot(const struct twig *t, enum table_id table)
{
    return bits_below(t->tables, table);
}

uint64_t twig_bitmap(const struct twig *t, enum table_id table)
{
    return t->tables >> table & 1 ? t->word[twig_slot(t, table)].bitmap : 0;
}

/* The word of (slot, index): behind the bitmaps and all sets that come before. */
static unsigned twig_at(const struct twig *t, unsigned slot, unsigned index)
{
    unsigned at = bits(t->tables);

    for (unsigned i = 0; i < slot; i++) {
        at += bits(t->word[i].bitmap);
    }
    return at + bits_below(t->word[slot].bitmap, index);
}

struct rows *twig_rows(const struct twig *t, enum table_id table, unsigned index)
{
    if (!(twig_bitmap(t, table) >> index & 1)) {
        return NULL;
    }
    return t->word[twig_at(t, twig_slot(t, table), index)].rows;
}

static size_t twig_size(unsigned words)
{
    return sizeof(struct twig) + words * sizeof(union twig_word);
}

static size_t twig_heap(const struct twig *t)
{
    return heap_bytes(twig_size(t->cap));
}

static bool twig_has(const struct twig *t, unsigned index)
{
    for (unsigned i = 0; i < bits(t->tables); i++) {
        if (t->word[i].bitmap >> index & 1) {
            return true;
        }
    }
    return false;
}

static void twig_open(struct twig *t, unsigned at, union twig_word word)
{
    memmove(t->word + at + 1, t->word + at, (t->used - at) * sizeof(t->word[0]));
    t->word[at] = word;
    t->used++;
}

static void twig_close(struct twig *t, unsigned at)
{
    t->used--;
    memmove(t->word + at, t->word + at + 1, (t->used - at) * sizeof(t->word[0]));
}

/* Needs room for one word, and one more if the table is new here. */
static void twig_insert(struct twig *t, enum table_id table, unsigned index,
                        struct rows *rows)
{
    unsigned slot = twig_slot(t, table);

    if (!(t->tables >> table & 1)) {
        twig_open(t, slot, (union twig_word){ .bitmap = 0 });
        t->tables |= (uint16_t)(1u << table);
    }
    twig_open(t, twig_at(t, slot, index), (union twig_word){ .rows = rows });
    t->word[slot].bitmap |= UINT64_C(1) << index;
}

static void twig_remove(struct twig *t, enum table_id table, unsigned index)
{
    unsigned slot = twig_slot(t, table);

    twig_close(t, twig_at(t, slot, index));
    t->word[slot].bitmap &= ~(UINT64_C(1) << index);
    if (t->word[slot].bitmap == 0) {
        twig_close(t, slot);
        t->tables &= (uint16_t) ~(1u << table);
    }
}

/* --- nodes ------------------------------------------------------------------------ */

static size_t node_size(unsigned cap)
{
    return sizeof(struct node) + cap * sizeof(void *);
}

static struct node *node_new(struct table_set *s)
{
    const unsigned cap = 4;
    struct node *node = calloc(1, node_size(cap));

    if (node) {
        node->cap = (uint16_t)cap;
        s->memory += heap_bytes(node_size(cap));
    }
    return node;
}

static void **node_slot(struct node *node, unsigned index)
{
    return &node->child[bits_below(node->bitmap, index)];
}

/* Room for one more child; the node may move. */
static bool node_reserve(struct table_set *s, struct node **node)
{
    unsigned cap = (*node)->cap;
    struct node *grown;

    if ((*node)->count < cap) {
        return true;
    }
    cap += cap / 4 + 3;
    cap = cap > 64 ? 64 : cap;
    grown = realloc(*node, node_size(cap));
    if (!grown) {
        return false;
    }
    s->memory += heap_bytes(node_size(cap)) - heap_bytes(node_size(grown->cap));
    grown->cap = (uint16_t)cap;
    *node = grown;
    return true;
}

static void node_insert(struct node *node, unsigned index, void *child)
{
    void **slot = node_slot(node, index);

    memmove(slot + 1, slot, (size_t)(node->child + node->count - slot) * sizeof(*slot));
    *slot = child;
    node->count++;
    node->bitmap |= UINT64_C(1) << index;
}

static void node_remove(struct node *node, unsigned index)
{
    void **slot = node_slot(node, index);

    node->count--;
    memmove(slot, slot + 1, (size_t)(node->child + node->count - slot) * sizeof(*slot));
    node->bitmap &= ~(UINT64_C(1) << index);
}

const struct node *set_find_node(const struct table_set *s, uint32_t vni,
                                 unsigned depth)
{
    const struct node *node = s->root;

    for (unsigned d = 0; d < depth && node; d++) {
        node = node_child(node, set_index(vni, d));
    }
    return node;
}

const struct twig *set_find_twig(const struct table_set *s, uint32_t vni)
{
    const struct node *node = set_find_node(s, vni, SET_NODE_DEPTHS - 1);

    return node ? node_child(node, set_index(vni, SET_NODE_DEPTHS - 1)) : NULL;
}

/* --- the set ---------------------------------------------------------------------- */

struct table_set *table_set_new(void)
{
    struct table_set *s = calloc(1, sizeof(*s));

    if (!s) {
        return NULL;
    }
    s->memory = heap_bytes(sizeof(*s));
    s->root = node_new(s);
    if (!s->root) {
        free(s);
        return NULL;
    }
    return s;
}

static void twig_free(struct twig *t)
{
    for (unsigned i = bits(t->tables); i < t->used; i++) {
        rows_unref(t->word[i].rows);
    }
    free(t);
}

static void node_free(struct node *node, unsigned depth)
{
    for (unsigned i = 0; i < node->count; i++) {
        if (depth + 1 < SET_NODE_DEPTHS) {
            node_free(node->child[i], depth + 1);
        } else {
            twig_free(node->child[i]);
        }
    }
    free(node);
}

void table_set_free(struct table_set *s)
{
    if (s) {
        node_free(s->root, 0);
        free(s);
    }
}

struct rows *table_set_rows(const struct table_set *s, uint32_t vni,
                            enum table_id table)
{
    const struct twig *t = set_find_twig(s, vni);

    return t ? twig_rows(t, table, vni & 63) : NULL;
}

uint64_t table_set_count(const struct table_set *s, enum table_id table)
{
    return s->root->digest[table].count;
}

uint32_t table_set_vni_count(const struct table_set *s)
{
    return s->vni_count;
}

size_t table_set_memory(const struct table_set *s)
{
    return s->memory;
}

/* Words that malloc's 16-byte steps would leave unused anyway count as used. */
static unsigned twig_slack(const struct twig *t)
{
    return t->cap - ((t->used + 1u) & ~1u);
}

/* Room for `need` words behind those in use; the twig (null: a new one) may move. */
static bool twig_reserve(struct table_set *s, struct twig **t, unsigned need)
{
    unsigned old_cap = *t ? (*t)->cap : 0;
    unsigned old_slack = *t ? twig_slack(*t) : 0;
    unsigned cap = (*t ? (*t)->used : 0) + need;
    struct twig *grown;

    if (cap <= old_cap) {
        return true;
    }
    cap = (cap + 1) & ~1u;
    grown = realloc(*t, twig_size(cap));
    if (!grown) {
        return false;
    }
    if (!*t) {
        memset(grown, 0, sizeof(*grown));
        s->memory += heap_bytes(twig_size(cap));
    } else {
        s->memory += heap_bytes(twig_size(cap)) - heap_bytes(twig_size(old_cap));
    }
    grown->cap = (uint16_t)cap;
    s->twig_words += cap - old_cap;
    s->slack_words += twig_slack(grown) - old_slack;
    *t = grown;
    return true;
}

/* The way to `vni`'s twig, made where it is missing; what was made stays, empty, when
 * memory runs out.  `path` gets the nodes, which may have moved. */
static struct twig *make_path(struct table_set *s, uint32_t vni, enum table_id table,
                              struct node *path[SET_NODE_DEPTHS])
{
    struct node **link = &s->root;

    for (unsigned d = 0;; d++) {
        unsigned index = set_index(vni, d);
        void *child = node_child(*link, index);

        if (!child && !node_reserve(s, link)) {
            return NULL;
        }
        path[d] = *link;
        if (d == SET_NODE_DEPTHS - 1) {
            struct twig *t = child;
            bool is_new_table = !t || !(t->tables >> table & 1);

            if (!twig_reserve(s, &t, 1 + is_new_table)) {
                return NULL;
            }
            if (!child) {
                node_insert(*link, index, t);
            }
            *node_slot(*link, index) = t;
            return t;
        }
        if (!child) {
            child = node_new(s);
            if (!child) {
                return NULL;
            }
            node_insert(*link, index, child);
        }
        link = (struct node **)node_slot(*link, index);
    }
}

/* The same way when it is there already. */
static struct twig *find_path(struct table_set *s, uint32_t vni,
                              struct node *path[SET_NODE_DEPTHS])
{
    void *at = s->root;

    for (unsigned d = 0; d < SET_NODE_DEPTHS && at; d++) {
        path[d] = at;
        at = node_child(path[d], set_index(vni, d));
    }
    return at;
}

enum rc set_put(struct table_set *s, uint32_t vni, enum table_id table,
                struct rows *rows)
{
    const unsigned index = vni & 63;
    struct node *path[SET_NODE_DEPTHS];
    struct twig *t = find_path(s, vni, path);
    struct rows *old = t ? twig_rows(t, table, index) : NULL;
    bool was_there;
    unsigned slack;

    if (!old && !rows) {
        return RC_OK;
    }
    if (!old) {
        t = make_path(s, vni, table, path);
        if (!t) {
            return RC_NO_MEMORY;
        }
    }
    was_there = twig_has(t, index);
    slack = twig_slack(t);
    if (!old) {
        twig_insert(t, table, index, rows);
    } else if (!rows) {
        twig_remove(t, table, index);
    } else {
        t->word[twig_at(t, twig_slot(t, table), index)].rows = rows;
    }
    s->slack_words += twig_slack(t);
    s->slack_words -= slack;
    s->vni_count += (uint32_t)twig_has(t, index);
    s->vni_count -= (uint32_t)was_there;
    for (unsigned d = 0; d < SET_NODE_DEPTHS; d++) {
        struct digest *digest = &path[d]->digest[table];

        digest->sum += rows_digest(rows) - rows_digest(old);
        digest->count += rows_count(rows);
        digest->count -= rows_count(old);
    }
    s->memory += rows_memory(rows);
    s->memory -= rows_memory(old);
    rows_unref(old);
    return RC_OK;
}

enum rc table_set_put(struct table_set *s, uint32_t vni, enum table_id table,
                      struct rows *rows)
{
    set_trim(s);
    return set_put(s, vni, table, rows);
}

/* --- giving memory back ----------------------------------------------------------- */

static void trim_twig(struct table_set *s, struct twig **t)
{
    size_t before = twig_heap(*t);
    unsigned words = twig_slack(*t);
    unsigned cap = (*t)->cap - words;
    struct twig *smaller;

    if (words == 0) {
        return;
    }
    smaller = realloc(*t, twig_size(cap));
    if (!smaller) {
        return; /* it stays as large as it is */
    }
    smaller->cap = (uint16_t)cap;
    s->memory -= before - heap_bytes(twig_size(cap));
    s->twig_words -= words;
    s->slack_words -= words;
    *t = smaller;
}

/* Trims the twigs of a node of depth 2, and frees empty ones. */
static void trim_node(struct table_set *s, struct node *node)
{
    for (unsigned index = 0; index < 64; index++) {
        struct twig *t = node_child(node, index);

        if (t && t->used == 0) {
            s->memory -= twig_heap(t);
            s->twig_words -= t->cap;
            s->slack_words -= t->cap;
            node_remove(node, index);
            free(t);
        } else if (t) {
            trim_twig(s, &t);
            *node_slot(node, index) = t;
        }
    }
}

static void free_empty_node(struct table_set *s, struct node *above, unsigned index)
{
    struct node *node = node_child(above, index);

    if (node && node->count == 0) {
        s->memory -= heap_bytes(node_size(node->cap));
        node_remove(above, index);
        free(node);
    }
}

void set_trim(struct table_set *s)
{
    const uint32_t vni = s->trim_at;
    struct node *path[SET_NODE_DEPTHS];
    void *at = s->root;

    if (s->slack_words < SLACK_WORDS_MIN + s->twig_words / 8) {
        return;
    }
    for (unsigned d = 0; d < SET_NODE_DEPTHS; d++) {
        path[d] = at;
        at = at ? node_child(at, set_index(vni, d)) : NULL;
    }
    if (!path[1]) {
        s->trim_at = (vni + (1u << 18)) & (VNI_MAX << 18 & VNI_MAX);
        return;
    }
    if (path[2]) {
        trim_node(s, path[2]);
        free_empty_node(s, path[1], set_index(vni, 1));
    }
    free_empty_node(s, path[0], set_index(vni, 0));
    s->trim_at = (vni + (1u << 12)) & (VNI_MAX << 12 & VNI_MAX);
}
