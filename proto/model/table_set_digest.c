#include "proto/model/table_set_impl.h"

#include <string.h>

static struct digest digest_of(const struct rows *rows)
{
    return (struct digest){ rows_digest(rows), rows_count(rows) };
}

static struct digest twig_digest(const struct twig *t, enum table_id table)
{
    struct digest all = { 0 };

    for (uint64_t left = twig_bitmap(t, table); left; left &= left - 1) {
        struct digest one =
            digest_of(twig_rows(t, table, (unsigned)__builtin_ctzll(left)));

        all.sum += one.sum;
        all.count += one.count;
    }
    return all;
}

struct digest table_set_digest(const struct table_set *s, enum table_id table,
                               struct tree_node node)
{
    if (node.depth < SET_NODE_DEPTHS) {
        const struct node *n = set_find_node(s, node.vni, node.depth);

        return n ? n->digest[table] : (struct digest){ 0 };
    }
    if (node.depth == SET_NODE_DEPTHS) {
        const struct twig *t = set_find_twig(s, node.vni);

        return t ? twig_digest(t, table) : (struct digest){ 0 };
    }
    return digest_of(table_set_rows(s, node.vni, table));
}

unsigned table_set_children(const struct table_set *s, enum table_id table,
                            struct tree_node node, struct tree_child ret[64])
{
    const bool of_twig = node.depth == SET_NODE_DEPTHS;
    const struct twig *t = of_twig ? set_find_twig(s, node.vni) : NULL;
    const struct node *n = of_twig ? NULL : set_find_node(s, node.vni, node.depth);
    uint64_t left = t ? twig_bitmap(t, table) : n ? n->bitmap : 0;
    unsigned count = 0;

    for (; left; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        struct digest digest;

        if (t) {
            digest = digest_of(twig_rows(t, table, index));
        } else if (node.depth + 1 == SET_NODE_DEPTHS) {
            digest = twig_digest(node_child(n, index), table);
        } else {
            digest = ((const struct node *)node_child(n, index))->digest[table];
        }
        if (digest.count > 0) {
            ret[count++] = (struct tree_child){ (uint8_t)index, digest };
        }
    }
    return count;
}

/* The bits of a bitmap from `index` on. */
static uint64_t from_index(uint64_t bitmap, unsigned index)
{
    return bitmap & ~((UINT64_C(1) << index) - 1);
}

static uint32_t twig_next(const struct twig *t, uint32_t from, uint32_t table_mask)
{
    uint64_t bitmap = 0;

    for (unsigned table = 0; table < TABLE_COUNT; table++) {
        if (table_mask >> table & 1) {
            bitmap |= twig_bitmap(t, table);
        }
    }
    bitmap = from_index(bitmap, from & 63);
    return bitmap ? (from & ~63u) | (unsigned)__builtin_ctzll(bitmap) : 0;
}

/* Whether the node holds any row of these tables. */
static bool node_holds(const struct node *node, uint32_t table_mask)
{
    for (unsigned table = 0; table < TABLE_COUNT; table++) {
        if (table_mask >> table & 1 && node->digest[table].count > 0) {
            return true;
        }
    }
    return false;
}

static uint32_t node_next(const struct node *node, unsigned depth, uint32_t from,
                          uint32_t table_mask)
{
    const unsigned shift = 18 - 6 * depth;
    const uint32_t above = depth ? from >> (shift + 6) << (shift + 6) : 0;
    uint64_t left;

    if (!node_holds(node, table_mask)) {
        return 0;
    }
    left = from_index(node->bitmap, from >> shift & 63);
    for (; left; left &= left - 1) {
        unsigned index = (unsigned)__builtin_ctzll(left);
        uint32_t start = above | index << shift;
        const void *child = node_child(node, index);
        uint32_t found;

        start = from > start ? from : start;
        found = depth + 1 < SET_NODE_DEPTHS
                    ? node_next(child, depth + 1, start, table_mask)
                    : twig_next(child, start, table_mask);
        if (found) {
            return found;
        }
    }
    return 0;
}

uint32_t table_set_next(const struct table_set *s, uint32_t from, uint32_t table_mask)
{
    if (from > VNI_MAX) {
        return 0;
    }
    return node_next(s->root, 0, from, table_mask);
}
