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
        above_old; /* above the level of each part below that has standing routes */
    unsigned above_new; /* … of each that has none */
    bool covers_new;    /* one of them is above such a part */
};

struct carving {
    struct alpm_work *w;
    struct alpm_item *items;
    unsigned cap;
};

/* What is above some items. */
struct over {
    uint32_t standing; /* the longest route that stands, or ALPM_NONE */
    bool is_changing;  /* some route comes, changes or goes */
};

static unsigned max(unsigned x, unsigned y)
{
    return x > y ? x : y;
}

static struct chain chain_add(struct carving *c, struct chain x, struct chain y)
{
    struct chain sum = x.count ? x : y;

    if (x.count && y.count) {
        c->items[x.tail].next = y.head;
        sum.tail = y.tail;
        sum.count += y.count;
        sum.standing += y.standing;
    }
    sum.above_old = max(x.above_old, y.above_old);
    sum.above_new = max(x.above_new, y.above_new);
    sum.covers_new = x.covers_new || y.covers_new;
    return sum;
}

/* Its row comes after those of parts below whose routes stand, which it would hide.
 * Parts below of new routes alone matter only if it shows new ones itself, or a new
 * cover: then what they have is the longer answer.  `is_changing`: there is a change
 * above it. */
static unsigned level_of(const struct chain *x, bool is_changing)
{
    return x->standing == 0 && (x->covers_new || is_changing)
               ? max(x->above_old, x->above_new)
               : x->above_old;
}

static void chain_cut(struct carving *c, struct chain *x, struct alpm_key root,
                      struct over over)
{
    struct alpm_part *p = &c->w->parts[c->w->part_count++];
    unsigned level = level_of(x, over.is_changing);
    unsigned *below = x->standing > 0 ? &x->above_old : &x->above_new;

    *p = (struct alpm_part){ .root = root,
                             .head = x->head,
                             .tail = x->tail,
                             .count = x->count,
                             .standing = x->standing,
                             .level = (uint16_t)level,
                             .above = over.standing,
                             .src = ALPM_NONE };
    *below = max(*below, level + 1);
    *x = (struct chain){ .head = ALPM_NONE,
                         .tail = ALPM_NONE,
                         .above_old = x->above_old,
                         .above_new = x->above_new };
}

/* Carves items `lo` to `hi` - 1, of which there are some; gives what is left. */
static struct chain carve(struct carving *c, uint32_t lo, uint32_t hi, struct over over)
{
    struct alpm_item *first = &c->items[lo];
    struct chain own = { .head = ALPM_NONE, .tail = ALPM_NONE };
    struct chain side[2] = { own, own };
    uint32_t start[2];
    unsigned len = key_common(&first->key, &c->items[hi - 1].key);

    if (key_len(&first->key) == len) {
        own = (struct chain){
            .head = lo, .tail = lo, .count = 1, .standing = first->from != ALPM_NONE
        };
        first->next = ALPM_NONE;
        over.standing = own.standing ? lo : over.standing;
        over.is_changing |= first->chg != ALPM_NONE;
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
        side[0] = carve(c, start[0], start[1], over);
    }
    if (start[1] < hi) {
        side[1] = carve(c, start[1], hi, over);
    }
    while (own.count + side[0].count + side[1].count > c->cap) {
        unsigned heavy = side[1].count > side[0].count;

        /* The whole side, not just its items: what comes there later goes there. */
        chain_cut(c, &side[heavy], key_cut(&c->items[start[heavy]].key, len + 1), over);
    }
    own.covers_new = own.count && max(side[0].above_new, side[1].above_new) > 0;
    return chain_add(c, chain_add(c, own, side[0]), side[1]);
}

void alpm_carve(struct alpm *a, struct alpm_region *region, unsigned cap)
{
    struct alpm_work *w = &a->work;
    struct carving c = { .w = w, .items = w->items, .cap = cap };
    struct chain rest = { .head = ALPM_NONE, .tail = ALPM_NONE };
    struct alpm_key root = a->row[w->rows[region->row_first]].key;
    /* Routes above it are in other rows, of the same VNI if it is of one. */
    struct over over = { .standing = ALPM_NONE, .is_changing = key_len(&root) >= 24 };

    region->part_first = (uint32_t)w->part_count;
    if (region->item_count) {
        rest = carve(&c, region->item_first, region->item_first + region->item_count,
                     over);
    }
    if (!rest.count && w->part_count > region->part_first) {
        /* The last cut was at the top: no need of it. */
        struct alpm_part *last = &w->parts[--w->part_count];

        rest.head = last->head;
        rest.tail = last->tail;
        rest.count = last->count;
        rest.standing = last->standing;
        rest.covers_new = true; /* perhaps */
    }
    chain_cut(&c, &rest, root, over);
    region->part_count = (uint32_t)w->part_count - region->part_first;
}
