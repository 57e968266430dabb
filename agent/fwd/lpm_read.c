/* Reading what lpm.c built, one address or one boundary at a time: for audits and
 * read-back, and what the workers' batches leave over. */
#include "agent/fwd/lpm.h"

typedef unsigned __int128 u128;

uint32_t lpm_lines(const struct lines *lines, uint64_t slot)
{
    const struct lpm_tree *t = lines_at(lines, slot_line(slot));

    switch (slot_kind(slot)) {
    case LPM_NONE:
        return 0;
    case LPM_LINE:
        return 1;
    default:
        return t->lines;
    }
}

/* Boundaries on their way out: those of [from, to], counted, and written where there is
 * room to. */
struct boundary_list {
    u128 from;
    u128 to;
    u128 *at; /* null: only count */
    uint32_t count;
};

static void boundary_add(struct boundary_list *l, u128 addr)
{
    if (addr >= l->from && addr <= l->to) {
        if (l->at) {
            l->at[l->count] = addr;
        }
        l->count++;
    }
}

/* First address of a route in a line and the one behind its last. */
static void route_ends(u128 addr, unsigned len, struct boundary_list *to)
{
    u128 host = len ? ~(u128)0 >> len : ~(u128)0;

    boundary_add(to, addr & ~host);
    boundary_add(to, (addr | host) + 1); /* 0 after the last: a boundary anyway */
}

static void line_boundaries(const void *line, bool is_v6, struct boundary_list *to)
{
    const struct lpm_line4 *l4 = line;
    const struct lpm_line6 *l6 = line;

    for (unsigned i = 0; !is_v6 && i < LINE_V4_ROUTES; i++) {
        route_ends((u128)l4->addr[i] << 96, 32 - (l4->meta[i] & 63), to);
    }
    for (unsigned i = 0; is_v6 && i < LINE_V6_ROUTES; i++) {
        route_ends((u128)l6->addr[i] << 64, 64 - (l6->meta[i] & 63), to);
    }
}

/* Keys of a tree; `upper` is the address up to it. */
static void tree_boundaries(const struct lpm_tree *t, bool is_v6, u128 upper,
                            unsigned shift, struct boundary_list *to)
{
    unsigned fanout = is_v6 ? NODE6 : NODE4;
    unsigned ranges = is_v6 ? LEAF6 : LEAF4;

    for (uint32_t line = 1; line < t->first[t->levels]; line++) {
        const void *node = (const uint8_t *)t + (size_t)line * LINE_BYTES;
        const struct lpm_leaf6 *leaf = node;
        bool is_leaf = line >= t->first[t->levels - 1];

        for (unsigned i = 0; i < (is_leaf ? ranges : fanout); i++) {
            u128 key = is_v6
                           ? (uint64_t)((const int64_t *)node)[i] ^ (UINT64_C(1) << 63)
                           : (uint32_t)((const int32_t *)node)[i] ^ 0x80000000u;

            boundary_add(to, upper | key << shift);
            if (is_leaf && is_v6 && leaf->action[i] & TREE_BELOW) {
                tree_boundaries(tree_below(t, leaf->action[i]), true, key << shift, 0,
                                to);
            }
        }
    }
}

uint32_t lpm_boundaries(const struct lines *lines, uint64_t slot, u128 from, u128 to,
                        u128 *at)
{
    const void *base = lines_at(lines, slot_line(slot));
    bool is_v6 = (slot & SLOT_V6) != 0;
    unsigned kind = slot_kind(slot);
    struct boundary_list list = { from, to, at, 0 };

    if (kind == LPM_LINE) {
        line_boundaries(base, is_v6, &list);
    } else if (kind != LPM_NONE) {
        tree_boundaries(base, is_v6, 0, is_v6 ? 64 : 96, &list);
    }
    return list.count;
}

static uint32_t tree_find(const struct lpm_tree *t, bool is_v6, int64_t key)
{
    uint32_t node = 1;

    for (unsigned level = 0; level + 1 < t->levels; level++) {
        node = tree_step(t, is_v6, level, node, key);
    }
    return tree_leaf(t, is_v6, node, key);
}

uint32_t lpm_lookup(const uint8_t *base, uint64_t slot, struct lpm_addr addr)
{
    const void *at = base + (uint64_t)slot_line(slot) * LINE_BYTES;
    bool is_v6 = (slot & SLOT_V6) != 0;
    uint32_t action;

    switch (slot_kind(slot)) {
    case LPM_NONE:
        return ACTION_NONE;
    case LPM_LINE:
        return is_v6 ? lpm_line6_find(at, addr.hi)
                     : lpm_line4_find(at, (uint32_t)(addr.hi >> 32));
    default:
        action = tree_find(at, is_v6, tree_key(is_v6, addr.hi));
        return action & TREE_BELOW
                   ? tree_find(tree_below(at, action), true, key6_of(addr.lo))
                   : action;
    }
}
