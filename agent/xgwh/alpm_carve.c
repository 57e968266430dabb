/*
 * The fewest connected parts of at most `cap` routes of a tree: from the leaves up, cut
 * off the heaviest child as long as what hangs together is too heavy (S. Kundu,
 * J. Misra: A linear tree partitioning algorithm, SIAM J. Comput. 6(1), 1977).  The
 * tree is the trie of the sorted items, never built: the items below a node are a run.
 */
#include "agent/xgwh/alpm_impl.h"

/* Items that hang together and are in no part yet. */
struct chain {
    uint32_t head, tail;
    unsigned count, standing;
    unsigned
        level; /* of the part that they will be: above all that was cut off below */
};

struct carving {
    struct alpm_work *w;
    struct alpm_item *items;
    unsigned cap;
};

static struct chain chain_add(struct carving *c, struct chain x, struct chain y)
{
    unsigned level = x.level > y.level ? x.level : y.level;

    if (!x.count) {
        x = y;
    } else if (y.count) {
        c->items[x.tail].next = y.head;
        x.tail = y.tail;
        x.count += y.count;
        x.standing += y.standing;
    }
    x.level = level;
    return x;
}

static void chain_cut(struct carving *c, struct chain *x, struct alpm_key root,
                      uint32_t above)
{
    struct alpm_part *p = &c->w->parts[c->w->part_count++];

    *p = (struct alpm_part){ .root = root,
                             .head = x->head,
                             .tail = x->tail,
                             .count = x->count,
                             .standing = x->standing,
                             .level = (uint16_t)x->level,
                             .above = above,
                             .src = ALPM_NONE };
    *x = (struct chain){ .head = ALPM_NONE, .tail = ALPM_NONE, .level = x->level + 1 };
}

/* Carves items `lo` to `hi` - 1, of which there are some; gives what is left.  `above`
 * is the longest standing route above them. */
static struct chain carve(struct carving *c, uint32_t lo, uint32_t hi, uint32_t above)
{
    struct alpm_item *first = &c->items[lo];
    struct chain own = { .head = ALPM_NONE, .tail = ALPM_NONE };
    struct chain side[2] = { own, own };
    uint32_t start[2];
    unsigned len = key_common(&first->key, &c->items[hi - 1].key);

    if (key_len(&first->key) == len) {
        own = (struct chain){ lo, lo, 1, first->from != ALPM_NONE, 0 };
        first->next = ALPM_NONE;
        above = own.standing ? lo : above;
        lo++;
    }
    start[0] = start[1] = lo;
    for (uint32_t n = hi - lo; n;) {
        uint32_t half = n / 2;

        if (key_bit(&c->items[start[1] + half].key, len)) {
            n = half;
        } else {
            start[1] += half + 1;
            n -= half + 1;
        }
    }
    if (start[0] < start[1]) {
        side[0] = carve(c, start[0], start[1], above);
    }
    if (start[1] < hi) {
        side[1] = carve(c, start[1], hi, above);
    }
    while (own.count + side[0].count + side[1].count > c->cap) {
        unsigned heavy = side[1].count > side[0].count;

        /* The whole side, not just its items: what comes there later goes there. */
        chain_cut(c, &side[heavy], key_cut(&c->items[start[heavy]].key, len + 1),
                  above);
    }
    return chain_add(c, chain_add(c, own, side[0]), side[1]);
}

void alpm_carve(struct alpm *a, struct alpm_region *region, unsigned cap)
{
    struct alpm_work *w = &a->work;
    struct carving c = { .w = w, .items = w->items, .cap = cap };
    struct chain rest = { .head = ALPM_NONE, .tail = ALPM_NONE };

    region->part_first = (uint32_t)w->part_count;
    if (region->item_count) {
        rest = carve(&c, region->item_first, region->item_first + region->item_count,
                     ALPM_NONE);
    }
    if (!rest.count && w->part_count > region->part_first) {
        /* The last cut was at the top: no need of it. */
        struct alpm_part *last = &w->parts[--w->part_count];

        rest = (struct chain){ last->head, last->tail, last->count, last->standing,
                               rest.level };
    }
    chain_cut(&c, &rest, a->row[w->rows[region->row_first]].key, ALPM_NONE);
    region->part_count = (uint32_t)w->part_count - region->part_first;
}
