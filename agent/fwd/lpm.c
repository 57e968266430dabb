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

static struct shape shape_of(bool is_v6)
{
    return is_v6 ? (struct shape){ NODE6, LEAF6 } : (struct shape){ NODE4, LEAF4 };
}

static void leaf_set(void *node, bool is_v6, unsigned i, const struct range *r)
{
    int64_t key = tree_key(is_v6, (uint64_t)(r->start >> 64));

    if (is_v6) {
        ((struct lpm_leaf6 *)node)->key[i] = key;
        ((struct lpm_leaf6 *)node)->action[i] = r->action;
    } else {
        ((struct lpm_leaf4 *)node)->key[i] = (int32_t)key;
        ((struct lpm_leaf4 *)node)->action[i] = r->action;
    }
}

/* A node's first key, copied to place `i` of its parent. */
static void inner_set(void *node, bool is_v6, unsigned i, const void *child)
{
    if (is_v6) {
        ((int64_t *)node)[i] = *(const int64_t *)child;
    } else {
        ((int32_t *)node)[i] = *(const int32_t *)child;
    }
}

/* The head of a tree over that many ranges. */
static struct lpm_tree tree_plan(bool is_v6, uint32_t ranges)
{
    struct shape shape = shape_of(is_v6);
    struct lpm_tree t = { .levels = 1, .first = { 1 } };
    uint32_t up[TREE_LEVELS_MAX];

    up[0] = (ranges + shape.leaf - 1) / shape.leaf;
    while (up[t.levels - 1] > 1) {
        /* 8 to the power of 11 leaves: past any table that fits into 32 bits of lines
         */
        assert(t.levels < TREE_LEVELS_MAX);
        up[t.levels] = (up[t.levels - 1] + shape.fanout - 1) / shape.fanout;
        t.levels++;
    }
    for (unsigned i = 0; i < t.levels; i++) {
        t.first[i + 1] = t.first[i] + up[t.levels - 1 - i];
    }
    t.lines = t.first[t.levels];
    return t;
}

/* The nodes behind the head at `t`. */
static void tree_fill(struct lpm_tree *t, bool is_v6, const struct range *ranges,
                      uint32_t count)
{
    struct shape shape = shape_of(is_v6);
    uint32_t leaves = t->first[t->levels - 1];

    for (uint32_t line = leaves; line < t->first[t->levels]; line++) {
        uint8_t *leaf = (uint8_t *)t + (size_t)line * LINE_BYTES;

        memset(leaf, 0, LINE_BYTES);
        for (unsigned i = 0; i < shape.leaf; i++) {
            uint32_t at = (line - leaves) * shape.leaf + i;

            leaf_set(leaf, is_v6, i, &ranges[at < count ? at : count - 1]);
        }
    }
    for (unsigned level = t->levels - 1; level-- > 0;) {
        for (uint32_t line = t->first[level]; line < t->first[level + 1]; line++) {
            uint8_t *node = (uint8_t *)t + (size_t)line * LINE_BYTES;

            for (unsigned i = 0; i < shape.fanout; i++) {
                uint32_t at = tree_child(t, level, line, shape.fanout, i);

                inner_set(node, is_v6, i, (uint8_t *)t + (size_t)at * LINE_BYTES);
            }
        }
    }
}

/* Ranges of IPv6 addresses, cut into a tree over upper halves and those below it. */
struct halves {
    struct range *upper;
    struct range
        *lower;    /* of all trees below; `start` is the lower half, in the upper */
    uint32_t *end; /* of each tree's in `lower` */
    uint32_t uppers;
    uint32_t lowers;
    uint32_t trees;
};

static uint64_t upper_half(const struct range *r)
{
    return (uint64_t)(r->start >> 64);
}

/* Where the ranges end that begin in the same upper half as range `i`. */
static uint32_t upper_end(const struct ranges *r, uint32_t i)
{
    uint64_t upper = upper_half(&r->at[i]);

    do {
        i++;
    } while (i < r->count && upper_half(&r->at[i]) == upper);
    return i;
}

/* Do these ranges, all that begin in one upper half, need a tree below? */
static bool is_cut_below(const struct range *ranges, uint32_t count)
{
    return count > 1 || (uint64_t)ranges[0].start != 0;
}

/* One upper half: ranges[0..count) begin within it; `before` is the action up to there.
 */
static void halves_add(struct halves *h, const struct range *ranges, uint32_t count,
                       uint32_t before)
{
    u128 start = ranges[0].start >> 64 << 64;

    if (!is_cut_below(ranges, count)) {
        h->upper[h->uppers++] = ranges[0];
        return;
    }
    h->upper[h->uppers++] = (struct range){ start, TREE_BELOW | h->trees };
    if (ranges[0].start != start) {
        h->lower[h->lowers++] = (struct range){ 0, before };
    }
    for (uint32_t i = 0; i < count; i++) {
        h->lower[h->lowers++] =
            (struct range){ ranges[i].start << 64, ranges[i].action };
    }
    h->end[h->trees++] = h->lowers;
}

static void halves_cut(struct halves *h, const struct ranges *r)
{
    uint32_t before = ACTION_NONE;
    uint32_t end;

    for (uint32_t i = 0; i < r->count; i = end) {
        uint64_t upper = upper_half(&r->at[i]);
        bool is_next;

        end = upper_end(r, i);
        halves_add(h, &r->at[i], end - i, before);
        before = r->at[end - 1].action;
        /* Behind a /64 with a tree of its own the last action goes on. */
        is_next = end < r->count && r->at[end].start == (u128)(upper + 1) << 64;
        if (h->upper[h->uppers - 1].action & TREE_BELOW && upper != UINT64_MAX &&
            !is_next) {
            h->upper[h->uppers++] = (struct range){ (u128)(upper + 1) << 64, before };
        }
    }
}

/* Room for what halves_cut() makes of the ranges. */
static bool halves_init(struct halves *h, const struct ranges *r)
{
    uint32_t trees = 0;
    uint32_t lowers = 0;
    uint32_t end;

    for (uint32_t i = 0; i < r->count; i = end) {
        end = upper_end(r, i);
        if (is_cut_below(&r->at[i], end - i)) {
            trees++;
            lowers += 1 + end - i;
        }
    }
    *h = (struct halves){ .upper =
                              malloc(((size_t)r->count + trees) * sizeof(*h->upper)),
                          .lower = malloc((lowers + 1u) * sizeof(*h->lower)),
                          .end = malloc((trees + 1u) * sizeof(*h->end)) };
    return h->upper && h->lower && h->end;
}

static void halves_fini(struct halves *h)
{
    free(h->upper);
    free(h->lower);
    free(h->end);
}

/* Places the trees below behind a tree of `t->lines` lines: its ranges then say where.
 */
static void halves_place(struct halves *h, struct lpm_tree *t)
{
    for (uint32_t i = 0, from = 0; i < h->uppers; i++) {
        uint32_t action = h->upper[i].action;

        if (action & TREE_BELOW) {
            uint32_t end = h->end[action & ~TREE_BELOW];

            h->upper[i].action = TREE_BELOW | t->lines;
            t->lines += tree_plan(true, end - from).lines;
            from = end;
        }
    }
}

static void halves_fill(const struct halves *h, struct lpm_tree *t)
{
    struct lpm_tree *below =
        (void *)((uint8_t *)t + (size_t)t->first[t->levels] * LINE_BYTES);

    tree_fill(t, true, h->upper, h->uppers);
    for (uint32_t i = 0, from = 0; i < h->trees; from = h->end[i++]) {
        uint32_t count = h->end[i] - from;

        *below = tree_plan(true, count);
        tree_fill(below, true, h->lower + from, count);
        below = (void *)((uint8_t *)below + (size_t)below->lines * LINE_BYTES);
    }
}

static enum rc tree_build(struct lines *lines, const struct ranges *r, bool is_v6,
                          struct lpm_built *ret)
{
    struct halves halves = { 0 };
    struct lpm_tree head;
    uint32_t line;

    if (is_v6) {
        if (!halves_init(&halves, r)) {
            halves_fini(&halves);
            return RC_NO_MEMORY;
        }
        halves_cut(&halves, r);
    }
    head = tree_plan(is_v6, is_v6 ? halves.uppers : r->count);
    halves_place(&halves, &head);
    line = lines_alloc(lines, head.lines);
    if (line) {
        struct lpm_tree *t = lines_at(lines, line);

        *t = head;
        if (is_v6) {
            halves_fill(&halves, t);
        } else {
            tree_fill(t, false, r->at, r->count);
        }
        *ret =
            (struct lpm_built){ .kind = LPM_TREE, .line = line, .count = head.lines };
    }
    halves_fini(&halves);
    return line ? RC_OK : RC_NO_MEMORY;
}

static unsigned kind_for(const struct lpm_route *routes, uint32_t count, bool is_v6)
{
    bool has_default = routes[0].len == 0;

    if (!is_v6) {
        return count <= LINE_V4_ROUTES ? LPM_LINE : LPM_TREE;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (routes[i].len > 64) {
            return LPM_TREE;
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
    rc = tree_build(lines, &r, is_v6, ret);
    free(r.at);
    return rc;
}
