#include "agent/fwd/lpm.h"

#include <assert.h>
#include <stdlib.h>

typedef unsigned __int128 u128;

/* From `start` up to the next range, `action` decides. */
struct range {
    u128 start;
    uint32_t action;
};

struct ranges {
    struct range *at;
    uint32_t count;
};

static void ranges_add(struct ranges *r, u128 start, uint32_t action)
{
    if (r->count && r->at[r->count - 1].start == start) {
        r->count--; /* a longer prefix that starts here decides */
    }
    if (r->count && r->at[r->count - 1].action == action) {
        return;
    }
    r->at[r->count++] = (struct range){ start, action };
}

static u128 last_of(const struct lpm_route *r)
{
    return r->len >= 128 ? r->addr : r->addr | (~(u128)0 >> r->len);
}

/* Cuts the address space (128 bits; IPv4 in the upper 32) into ranges.  Sorted input
 * visits a prefix before those inside it, so the open ones form a stack of at most 129.
 * `r->at` has room for 2 * count + 1. */
static void ranges_cut(const struct lpm_route *routes, uint32_t count, struct ranges *r)
{
    const struct lpm_route *open[130];
    unsigned depth = 0;

    r->count = 0;
    ranges_add(r, 0, ACTION_NONE);
    for (uint32_t i = 0; i <= count; i++) {
        while (depth && (i == count || last_of(open[depth - 1]) < routes[i].addr)) {
            u128 last = last_of(open[--depth]);

            if (last != ~(u128)0) {
                ranges_add(r, last + 1, depth ? open[depth - 1]->action : ACTION_NONE);
            }
        }
        if (i < count) {
            ranges_add(r, routes[i].addr, routes[i].action);
            open[depth++] = &routes[i];
        }
    }
}

/* ---- a line ---- */

/* Indexes of routes, longest first. */
static void by_length(const struct lpm_route *routes, uint32_t count, uint32_t *order)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = i;

        for (; k > 0 && routes[order[k - 1]].len < routes[i].len; k--) {
            order[k] = order[k - 1];
        }
        order[k] = i;
    }
}

static void line4_fill(struct lpm_line4 *l, const struct lpm_route *routes,
                       uint32_t count)
{
    uint32_t order[LINE_V4_ROUTES];

    by_length(routes, count, order);
    for (uint32_t i = 0; i < LINE_V4_ROUTES; i++) {
        const struct lpm_route *r = &routes[order[i < count ? i : 0]];

        l->addr[i] = (uint32_t)(r->addr >> 96);
        l->meta[i] = r->action << 6 | (32u - r->len);
    }
}

/* Without ::/0, which the caller took out. */
static void line6_fill(struct lpm_line6 *l, const struct lpm_route *routes,
                       uint32_t count, uint32_t fallback)
{
    uint32_t order[LINE_V6_ROUTES];

    by_length(routes, count, order);
    for (uint32_t i = 0; i < LINE_V6_ROUTES; i++) {
        /* With nothing else, a place that says of one address what ::/0 says. */
        struct lpm_route r = { .action = fallback, .len = 64 };

        if (count) {
            r = routes[order[i < count ? i : 0]];
        }
        l->addr[i] = (uint64_t)(r.addr >> 64);
        l->meta[i] = r.action << 6 | (64u - r.len);
    }
    l->fallback = fallback;
}

/* ---- a tree ---- */

struct shape {
    unsigned fanout;
    unsigned leaf;
};

static struct shape shape_of(unsigned kind, bool is_v6)
{
    if (!is_v6) {
        return (struct shape){ NODE4, LEAF4 };
    }
    return kind == LPM_TREE ? (struct shape){ NODE6, LEAF6 }
                            : (struct shape){ NODEW, LEAFW };
}

static void leaf_set(void *node, unsigned kind, bool is_v6, unsigned i,
                     const struct range *r)
{
    if (!is_v6) {
        struct lpm_leaf4 *leaf = node;

        leaf->key[i] = key4_of((uint32_t)(r->start >> 96));
        leaf->action[i] = r->action;
    } else if (kind == LPM_TREE) {
        struct lpm_leaf6 *leaf = node;

        leaf->key[i] = key6_of((uint64_t)(r->start >> 64));
        leaf->action[i] = r->action;
    } else {
        struct lpm_leafw *leaf = node;

        leaf->key[i][0] = (uint64_t)(r->start >> 64);
        leaf->key[i][1] = (uint64_t)r->start;
        leaf->action[i] = r->action;
    }
}

/* A node's first key, copied to place `i` of its parent. */
static void inner_set(void *node, unsigned kind, bool is_v6, unsigned i,
                      const void *child)
{
    if (!is_v6) {
        ((int32_t *)node)[i] = *(const int32_t *)child;
    } else if (kind == LPM_TREE) {
        ((int64_t *)node)[i] = *(const int64_t *)child;
    } else {
        memcpy((uint8_t *)node + (size_t)i * 16, child, 16);
    }
}

/* Node counts from the root down; returns the number of levels. */
static unsigned tree_plan(struct shape shape, uint32_t ranges,
                          uint32_t nodes[TREE_LEVELS_MAX])
{
    uint32_t up[TREE_LEVELS_MAX];
    unsigned levels = 1;

    up[0] = (ranges + shape.leaf - 1) / shape.leaf;
    while (up[levels - 1] > 1) {
        /* 4 to the power of 14 leaves: past any table that fits into 32 bits of lines
         */
        assert(levels < TREE_LEVELS_MAX);
        up[levels] = (up[levels - 1] + shape.fanout - 1) / shape.fanout;
        levels++;
    }
    for (unsigned i = 0; i < levels; i++) {
        nodes[i] = up[levels - 1 - i];
    }
    return levels;
}

static enum rc tree_build(struct lines *lines, const struct ranges *r, unsigned kind,
                          bool is_v6, struct lpm_built *ret)
{
    struct shape shape = shape_of(kind, is_v6);
    uint32_t nodes[TREE_LEVELS_MAX];
    unsigned levels = tree_plan(shape, r->count, nodes);
    uint32_t total = 1;
    struct lpm_tree *t;
    uint32_t line;

    for (unsigned i = 0; i < levels; i++) {
        total += nodes[i];
    }
    line = lines_alloc(lines, total);
    if (!line) {
        return RC_NO_MEMORY;
    }
    t = lines_at(lines, line);
    *t = (struct lpm_tree){ .levels = levels, .first = { 1 } };
    for (unsigned i = 0; i < levels; i++) {
        t->first[i + 1] = t->first[i] + nodes[i];
    }
    for (uint32_t n = 0; n < nodes[levels - 1]; n++) {
        uint8_t *leaf = (uint8_t *)t + (size_t)(t->first[levels - 1] + n) * LINE_BYTES;

        memset(leaf, 0, LINE_BYTES);
        for (unsigned i = 0; i < shape.leaf; i++) {
            uint32_t at = n * shape.leaf + i;

            leaf_set(leaf, kind, is_v6, i, &r->at[at < r->count ? at : r->count - 1]);
        }
    }
    for (unsigned level = levels - 1; level-- > 0;) {
        for (uint32_t n = 0; n < nodes[level]; n++) {
            uint8_t *node = (uint8_t *)t + (size_t)(t->first[level] + n) * LINE_BYTES;

            for (unsigned i = 0; i < shape.fanout; i++) {
                uint32_t at = n * shape.fanout + i;
                uint32_t last = nodes[level + 1] - 1;

                at = t->first[level + 1] + (at < last ? at : last);
                inner_set(node, kind, is_v6, i, (uint8_t *)t + (size_t)at * LINE_BYTES);
            }
        }
    }
    *ret = (struct lpm_built){ .kind = (uint8_t)kind, .line = line, .count = total };
    return RC_OK;
}

static unsigned kind_for(const struct lpm_route *routes, uint32_t count, bool is_v6)
{
    bool has_default = routes[0].len == 0;

    if (!is_v6) {
        return count <= LINE_V4_ROUTES ? LPM_LINE : LPM_TREE;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (routes[i].len > 64) {
            return LPM_WIDE;
        }
    }
    return count - has_default <= LINE_V6_ROUTES ? LPM_LINE : LPM_TREE;
}

enum rc lpm_build(struct lines *lines, const struct lpm_route *routes, uint32_t count,
                  bool is_v6, struct lpm_built *ret)
{
    struct ranges r = { 0 };
    unsigned kind;
    uint32_t line;
    enum rc rc;

    if (count == 0) {
        *ret = (struct lpm_built){ .kind = LPM_NONE };
        return RC_OK;
    }
    kind = kind_for(routes, count, is_v6);
    if (kind == LPM_LINE) {
        bool has_default = is_v6 && routes[0].len == 0;

        line = lines_alloc(lines, 1);
        if (!line) {
            return RC_NO_MEMORY;
        }
        if (is_v6) {
            line6_fill(lines_at(lines, line), routes + has_default, count - has_default,
                       has_default ? routes[0].action : ACTION_NONE);
        } else {
            line4_fill(lines_at(lines, line), routes, count);
        }
        *ret = (struct lpm_built){ .kind = LPM_LINE, .line = line, .count = 1 };
        return RC_OK;
    }
    r.at = malloc((2 * (size_t)count + 1) * sizeof *r.at);
    if (!r.at) {
        return RC_NO_MEMORY;
    }
    ranges_cut(routes, count, &r);
    rc = tree_build(lines, &r, kind, is_v6, ret);
    free(r.at);
    return rc;
}

uint32_t lpm_lines(const struct lines *lines, uint64_t slot)
{
    const struct lpm_tree *t = lines_at(lines, slot_line(slot));

    switch (slot_kind(slot)) {
    case LPM_NONE:
        return 0;
    case LPM_LINE:
        return 1;
    default:
        return t->first[t->levels];
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

/* Keys of `n` places in a node. */
static void node_boundaries(const void *node, unsigned kind, bool is_v6, unsigned n,
                            struct boundary_list *to)
{
    for (unsigned i = 0; i < n; i++) {
        if (!is_v6) {
            boundary_add(to, (u128)((uint32_t)((const int32_t *)node)[i] ^ 0x80000000u)
                                 << 96);
        } else if (kind == LPM_TREE) {
            boundary_add(
                to, (u128)((uint64_t)((const int64_t *)node)[i] ^ (UINT64_C(1) << 63))
                        << 64);
        } else {
            const uint64_t *key = (const uint64_t *)node + (size_t)i * 2;

            boundary_add(to, (u128)key[0] << 64 | key[1]);
        }
    }
}

uint32_t lpm_boundaries(const struct lines *lines, uint64_t slot, u128 from, u128 to,
                        u128 *at)
{
    const uint8_t *base = lines_at(lines, slot_line(slot));
    const struct lpm_tree *t = (const void *)base;
    bool is_v6 = (slot & SLOT_V6) != 0;
    unsigned kind = slot_kind(slot);
    struct shape shape = shape_of(kind, is_v6);
    struct boundary_list list = { from, to, at, 0 };

    if (kind == LPM_LINE) {
        line_boundaries(base, is_v6, &list);
    } else if (kind != LPM_NONE) {
        for (uint32_t line = 1; line < t->first[t->levels]; line++) {
            bool is_leaf = line >= t->first[t->levels - 1];

            node_boundaries(base + (size_t)line * LINE_BYTES, kind, is_v6,
                            is_leaf ? shape.leaf : shape.fanout, &list);
        }
    }
    return list.count;
}

uint32_t lpm_lookup(const uint8_t *base, uint64_t slot, struct lpm_addr addr)
{
    const void *at = base + (uint64_t)slot_line(slot) * LINE_BYTES;
    bool is_v6 = (slot & SLOT_V6) != 0;
    unsigned kind = slot_kind(slot);
    const struct lpm_tree *t = at;
    uint32_t node = 1;

    if (kind == LPM_NONE) {
        return ACTION_NONE;
    }
    if (kind == LPM_LINE) {
        return is_v6 ? lpm_line6_find(at, addr.hi)
                     : lpm_line4_find(at, (uint32_t)(addr.hi >> 32));
    }
    for (unsigned level = 0; level + 1 < t->levels; level++) {
        node = tree_step(t, kind, is_v6, level, node, addr);
    }
    return tree_leaf(t, kind, is_v6, node, addr);
}
