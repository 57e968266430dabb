/*
 * Routes from their partitions into others, no answer changed on the way.
 *
 *   fill    partitions that no row names yet, and partitions of rows that go on: what
 *           comes in lies below deeper rows that still stand, so nobody sees it; but
 * for routes above the row itself, which come longest first: the longest says what the
 * cover says, and hides the others swing   rows, the deeper first; then rows that go,
 * the higher first.  At any time a destination's deepest row is that of before or that
 * of after clear   what was left: nobody looks at it; but for routes above the row,
 * which go shortest first, for the longest still says what the cover says
 */
#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/alpm_impl.h"

/* ---- scratch ---- */

bool alpm_grow(void **at, size_t *cap, size_t need, size_t size)
{
    size_t n = *cap ? *cap : 64;
    void *p;

    if (need <= *cap) {
        return true;
    }
    while (n < need) {
        n *= 2;
    }
    p = realloc(*at, n * size);
    if (!p) {
        return false;
    }
    *at = p;
    *cap = n;
    return true;
}

#define GROW(list, count_cap, need)                                                    \
    alpm_grow((void **)&(list), &(count_cap), (need), sizeof *(list))

/* Room for that much more.  A move writes an item at most twice, and a row and a part
 * once each. */
enum rc alpm_work_reserve(struct alpm_work *w, size_t items, size_t parts, size_t rows)
{
    if (!GROW(w->rows, w->row_cap, w->row_count + rows) ||
        !GROW(w->items, w->item_cap, w->item_count + items) ||
        !GROW(w->parts, w->part_cap, w->part_count + parts) ||
        !GROW(w->regions, w->region_cap, w->region_count + 1) ||
        !GROW(w->overlap, w->overlap_cap, parts * (rows ? rows : 1)) ||
        !GROW(w->fill.at, w->fill.cap, w->item_count + items) ||
        !GROW(w->clear.at, w->clear.cap, w->item_count + items) ||
        !GROW(w->swing.at, w->swing.cap, w->part_count + parts + w->row_count + rows)) {
        return RC_NO_MEMORY;
    }
    return RC_OK;
}

void alpm_work_clear(struct alpm_work *w)
{
    w->row_count = w->item_count = w->part_count = w->region_count = 0;
    w->fill.count = w->swing.count = w->clear.count = 0;
    w->fill.waves = w->swing.waves = w->clear.waves = 0;
}

static int item_compare(const void *x, const void *y)
{
    return key_compare(&((const struct alpm_item *)x)->key,
                       &((const struct alpm_item *)y)->key);
}

struct alpm_region *alpm_region_add(struct alpm *a, const uint32_t *rows, size_t count)
{
    struct alpm_work *w = &a->work;
    struct alpm_region *region = &w->regions[w->region_count++];

    *region = (struct alpm_region){ .row_first = (uint32_t)w->row_count,
                                    .row_count = (uint32_t)count,
                                    .item_first = (uint32_t)w->item_count };
    for (size_t i = 0; i < count; i++) {
        const struct alpm_row *r = &a->row[rows[i]];
        const struct alpm_slot *s = alpm_slots(a, r->part);

        w->rows[w->row_count++] = rows[i];
        for (unsigned k = 0; k < r->count; k++) {
            w->items[w->item_count++] = (struct alpm_item){ .key = s[k].key,
                                                            .value = s[k].value,
                                                            .chg = ALPM_NONE,
                                                            .from = (uint32_t)i };
        }
    }
    region->item_count = (uint32_t)w->item_count - region->item_first;
    if (count > 1) {
        qsort(&w->items[region->item_first], region->item_count, sizeof *w->items,
              item_compare);
    }
    return region;
}

/* ---- which part gets which row's partition ---- */

static bool may_keep(const struct alpm *a, const struct alpm_part *p,
                     const struct alpm_row *r, unsigned overlap)
{
    if (!r->part) {
        return false;
    }
    if (overlap == 0) {
        return r->count == 0 && key_equal(&p->root, &r->key);
    }
    return r->count + p->standing - overlap <= a->b;
}

/* One that keeps its root is better than one that does not. */
static unsigned worth(const struct alpm_part *p, const struct alpm_row *r,
                      unsigned overlap)
{
    return 2 * overlap + key_equal(&p->root, &r->key);
}

static void count_overlap(struct alpm *a, const struct alpm_region *region)
{
    struct alpm_work *w = &a->work;

    memset(w->overlap, 0, (size_t)region->part_count * region->row_count);
    for (uint32_t j = 0; j < region->part_count; j++) {
        const struct alpm_part *p = &w->parts[region->part_first + j];

        for (uint32_t i = p->head; i != ALPM_NONE; i = w->items[i].next) {
            if (w->items[i].from != ALPM_NONE) {
                w->overlap[j * region->row_count + w->items[i].from]++;
            }
        }
    }
}

/* Gives the best pair its partition, if there is one left. */
static bool match_best(struct alpm *a, const struct alpm_region *region, uint64_t *used)
{
    struct alpm_work *w = &a->work;
    struct alpm_part *best = NULL;
    uint32_t best_row = 0;
    unsigned most = 0;

    for (uint32_t j = 0; j < region->part_count; j++) {
        struct alpm_part *p = &w->parts[region->part_first + j];

        for (uint32_t i = 0; p->src == ALPM_NONE && i < region->row_count; i++) {
            const struct alpm_row *r = &a->row[w->rows[region->row_first + i]];
            unsigned overlap = w->overlap[j * region->row_count + i];

            if (!(*used >> i & 1) && worth(p, r, overlap) > most &&
                may_keep(a, p, r, overlap)) {
                most = worth(p, r, overlap);
                best = p;
                best_row = i;
            }
        }
    }
    if (!best) {
        return false;
    }
    best->src = best_row;
    *used |= UINT64_C(1) << best_row;
    return true;
}

uint32_t alpm_move_match(struct alpm *a, const struct alpm_region *region)
{
    uint64_t used = 0;
    uint32_t fresh = region->part_count;

    count_overlap(a, region);
    while (fresh && match_best(a, region, &used)) {
        fresh--;
    }
    return fresh;
}

/* ---- writes ---- */

static struct alpm_rec *rec_add(struct alpm_recs *recs, unsigned wave)
{
    struct alpm_rec *r = &recs->at[recs->count++];

    memset(r, 0, sizeof *r);
    r->wave = (uint16_t)wave;
    r->row = ALPM_NONE;
    if (wave >= recs->waves) {
        recs->waves = wave + 1;
    }
    return r;
}

static void rec_slot(struct alpm_recs *recs, unsigned wave, enum phys_op op,
                     uint16_t part, const struct alpm_item *item)
{
    struct alpm_rec *r = rec_add(recs, wave);

    r->key = item->key;
    r->value = item->value;
    r->part = part;
    r->op = (uint8_t)op;
    r->is_slot = true;
    r->is_change = item->from == ALPM_NONE;
}

/* A part of new routes alone, in a partition of its own, is complete before its row
 * shows it; other new routes come when all has moved. */
static bool is_filled(const struct alpm_part *p)
{
    return p->standing == 0 && p->src == ALPM_NONE;
}

/* What a part with a partition of its own gets: all of it.  Of one that is kept: what
 * comes from elsewhere. */
static void write_fill(struct alpm *a, const struct alpm_region *region,
                       const struct alpm_part *p)
{
    struct alpm_work *w = &a->work;
    const struct alpm_key *root =
        p->src == ALPM_NONE ? NULL : &a->row[w->rows[region->row_first + p->src]].key;
    unsigned above = 0;

    for (uint32_t i = p->head; root && i != ALPM_NONE; i = w->items[i].next) {
        above += w->items[i].from != ALPM_NONE && key_above(&w->items[i].key, root);
    }
    for (uint32_t i = p->head; i != ALPM_NONE; i = w->items[i].next) {
        const struct alpm_item *item = &w->items[i];
        bool is_above = root && above && key_above(&item->key, root);

        if (item->from == ALPM_NONE ? !is_filled(p) : item->from == p->src) {
            continue;
        }
        above -= is_above;
        rec_slot(&w->fill, is_above ? above : 0, PHYS_INSERT, p->part, item);
    }
}

/* What a row's partition loses: all of it, or what the part that keeps it has not. */
static void write_clear(struct alpm *a, const struct alpm_region *region,
                        const uint32_t kept_by[])
{
    struct alpm_work *w = &a->work;
    unsigned above[ALPM_REGION_ROWS] = { 0 };

    for (uint32_t j = 0; j < region->part_count; j++) {
        const struct alpm_part *p = &w->parts[region->part_first + j];

        for (uint32_t i = p->head; i != ALPM_NONE; i = w->items[i].next) {
            w->items[i].part = region->part_first + j;
        }
    }
    for (uint32_t i = region->item_first; i < region->item_first + region->item_count;
         i++) {
        const struct alpm_item *item = &w->items[i];
        uint32_t keeper = item->from == ALPM_NONE ? ALPM_NONE : kept_by[item->from];
        unsigned wave = 0;

        if (item->from == ALPM_NONE || keeper == item->part) {
            continue;
        }
        if (keeper != ALPM_NONE && key_above(&item->key, &w->parts[keeper].root)) {
            wave = above[item->from]++;
        }
        rec_slot(&w->clear, wave, PHYS_DELETE,
                 a->row[w->rows[region->row_first + item->from]].part, item);
    }
}

/* ---- rows ---- */

/* The place in the region of the row at the part's root, or ALPM_NONE. */
static uint32_t row_at(const struct alpm *a, const struct alpm_region *region,
                       const struct alpm_part *p)
{
    for (uint32_t i = 0; i < region->row_count; i++) {
        if (key_equal(&a->row[a->work.rows[region->row_first + i]].key, &p->root)) {
            return i;
        }
    }
    return ALPM_NONE;
}

/* What the routes that stand say above the part. */
static struct alpm_value cover_at(const struct alpm *a,
                                  const struct alpm_region *region,
                                  const struct alpm_part *p, uint32_t place)
{
    if (place == ALPM_NONE && p->above != ALPM_NONE) {
        return a->work.items[p->above].value;
    }
    place = place == ALPM_NONE ? 0 : place;
    return a->row[a->work.rows[region->row_first + place]].cover;
}

static void swing_part(struct alpm *a, const struct alpm_region *region,
                       struct alpm_part *p)
{
    struct alpm_work *w = &a->work;
    uint32_t place = row_at(a, region, p);
    struct alpm_value cover = cover_at(a, region, p, place);
    struct alpm_row *r;
    struct alpm_rec *rec;
    bool is_new;

    p->row = place == ALPM_NONE ? alpm_row_insert(a, &p->root)
                                : w->rows[region->row_first + place];
    r = &a->row[p->row];
    is_new = r->part == 0;
    a->rows += is_new;
    if (r->part == p->part) {
        return;
    }
    r->part = p->part;
    r->cover = cover;
    rec = rec_add(&w->swing, p->level);
    rec->op = is_new ? PHYS_INSERT : PHYS_MODIFY;
    rec->key = p->root;
    rec->value = cover;
    rec->part = p->part;
    if (is_filled(p)) {
        /* It shows new routes only, so it may show their new cover, too. */
        r->flags |= ROW_FINAL;
        rec->row = p->row;
    }
}

static void swing_out(struct alpm *a, const struct alpm_region *region,
                      unsigned first_wave)
{
    struct alpm_work *w = &a->work;
    const uint32_t *rows = &w->rows[region->row_first];
    bool goes[ALPM_REGION_ROWS];

    for (uint32_t i = 0; i < region->row_count; i++) {
        goes[i] = true;
        for (uint32_t j = 0; goes[i] && j < region->part_count; j++) {
            goes[i] = w->parts[region->part_first + j].row != rows[i];
        }
    }
    for (uint32_t i = 0; i < region->row_count; i++) {
        unsigned wave = first_wave;
        struct alpm_rec *rec;

        if (!goes[i]) {
            continue;
        }
        for (uint32_t k = 0; k < region->row_count; k++) {
            wave += goes[k] && key_above(&a->row[rows[k]].key, &a->row[rows[i]].key);
        }
        rec = rec_add(&w->swing, wave);
        rec->op = PHYS_DELETE;
        rec->key = a->row[rows[i]].key;
    }
    for (uint32_t i = 0; i < region->row_count; i++) {
        if (goes[i]) {
            alpm_row_remove(a, rows[i]);
            a->rows--;
        }
    }
}

/* ---- what stands then ---- */

static void settle(struct alpm *a, struct alpm_part *p)
{
    struct alpm_work *w = &a->work;
    struct alpm_slot *s = alpm_slots(a, p->part);
    unsigned count = 0;

    for (uint32_t i = p->head; i != ALPM_NONE; i = w->items[i].next) {
        const struct alpm_item *item = &w->items[i];

        if (item->from != ALPM_NONE || is_filled(p)) {
            s[count].key = item->key;
            s[count++].value = item->value;
        }
        if (item->chg != ALPM_NONE) {
            w->chgs[item->chg].row = p->row;
            if (is_filled(p)) {
                w->chgs[item->chg].op = ALPM_SAME;
                a->routes++;
            }
        }
    }
    a->row[p->row].count = (uint8_t)count;
}

void alpm_move(struct alpm *a, const struct alpm_region *region)
{
    struct alpm_work *w = &a->work;
    uint32_t kept_by[ALPM_REGION_ROWS];
    uint16_t part[ALPM_REGION_ROWS];
    unsigned levels = 0;

    for (uint32_t i = 0; i < region->row_count; i++) {
        kept_by[i] = ALPM_NONE;
        part[i] = a->row[w->rows[region->row_first + i]].part;
    }
    for (uint32_t j = 0; j < region->part_count; j++) {
        struct alpm_part *p = &w->parts[region->part_first + j];

        if (p->src != ALPM_NONE) {
            kept_by[p->src] = region->part_first + j;
        }
        p->part = p->src == ALPM_NONE ? alpm_part_take(a) : part[p->src];
        levels = p->level >= levels ? p->level + 1u : levels;
        write_fill(a, region, p);
    }
    write_clear(a, region, kept_by);
    for (uint32_t j = 0; j < region->part_count; j++) {
        swing_part(a, region, &w->parts[region->part_first + j]);
    }
    swing_out(a, region, levels);
    for (uint32_t j = 0; j < region->part_count; j++) {
        settle(a, &w->parts[region->part_first + j]);
    }
    for (uint32_t i = 0; i < region->row_count; i++) {
        if (part[i] && kept_by[i] == ALPM_NONE) {
            alpm_part_give(a, part[i]);
        }
    }
}
