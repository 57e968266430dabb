#include "agent/xgwh/alpm.h"

#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/alpm_impl.h"

/* What changes leave for re-packing, of rows and partitions. */
enum { RESERVE = 32, RESERVE_SHARE = 64 };

/* Scratch of more changes than that is given back. */
enum { WORK_KEPT = 1 << 16 };

/* ---- life ---- */

static void work_fini(struct alpm_work *w)
{
    free(w->chgs);
    free(w->touched);
    free(w->rows);
    free(w->items);
    free(w->parts);
    free(w->regions);
    free(w->overlap);
    free(w->fill.at);
    free(w->swing.at);
    free(w->clear.at);
    *w = (struct alpm_work){ .dirty = ALPM_NONE };
}

/* Partitions are taken in the order of their numbers. */
static void parts_reset(struct alpm *a)
{
    a->part_free_count = 0;
    for (uint32_t p = a->parts_max; --p > 0;) {
        a->part_free[a->part_free_count++] = (uint16_t)p;
    }
}

void alpm_reset(struct alpm *a)
{
    memset(&a->row[0], 0, sizeof a->row[0]);
    a->node_top = 1;
    a->node_free_count = 0;
    a->rows = 0;
    a->routes = 0;
    a->cursor = (struct alpm_key){ 0 };
    a->gained = a->settled = false;
    parts_reset(a);
}

enum rc alpm_new(const struct phys_sizes *sizes, uint8_t half, struct alpm **ret)
{
    uint32_t parts = sizes->partitions < 65536 ? sizes->partitions : 65536;
    uint32_t rows = sizes->table[PHYS_ROUTE_TCAM];
    struct alpm *a;

    if (sizes->partition_slots < 4 || sizes->partition_slots > 64 || parts < 3 ||
        rows < 2) {
        return RC_RANGE;
    }
    a = calloc(1, sizeof *a);
    if (!a) {
        return RC_NO_MEMORY;
    }
    a->b = sizes->partition_slots;
    a->half = half;
    a->tcam_size = rows;
    a->parts_max = parts;
    alpm_limit(a, UINT32_MAX);
    a->work.dirty = ALPM_NONE;
    a->chunk = calloc(parts / ALPM_CHUNK + 1, sizeof *a->chunk);
    a->part_free = calloc(parts, sizeof *a->part_free);
    a->row = calloc(ALPM_CHUNK, sizeof *a->row);
    a->node_cap = ALPM_CHUNK;
    a->memory = sizeof *a + (parts / ALPM_CHUNK + 1) * sizeof *a->chunk +
                parts * sizeof *a->part_free + ALPM_CHUNK * sizeof *a->row;
    if (!a->chunk || !a->part_free || !a->row) {
        alpm_free(a);
        return RC_NO_MEMORY;
    }
    alpm_reset(a);
    if (alpm_reserve(a, 0, 1)) { /* the first chunk: "no partition" points into it */
        alpm_free(a);
        return RC_NO_MEMORY;
    }
    *ret = a;
    return RC_OK;
}

void alpm_limit(struct alpm *a, uint32_t rows)
{
    a->tcam_max = rows < a->tcam_size ? rows : a->tcam_size;
    a->rows_max = a->tcam_max < a->parts_max - 1 ? a->tcam_max : a->parts_max - 1;
    a->rows_max -=
        a->rows_max / RESERVE_SHARE < RESERVE ? a->rows_max / RESERVE_SHARE : RESERVE;
}

void alpm_free(struct alpm *a)
{
    if (!a) {
        return;
    }
    alpm_reading_free(a);
    work_fini(&a->work);
    for (uint32_t i = 0; a->chunk && i <= a->parts_max / ALPM_CHUNK; i++) {
        free(a->chunk[i]);
    }
    free(a->chunk);
    free(a->part_free);
    free(a->row);
    free(a);
}

/* ---- changes: what they are ---- */

static enum rc result_check(const struct alpm_result *r, uint32_t vni,
                            struct alpm_value *ret)
{
    uint32_t idx_max = r->scope == PHYS_SCOPE_PEER     ? 3
                       : r->scope == PHYS_SCOPE_TUNNEL ? (1u << PHYS_NC_BITS) - 1
                                                       : 1;

    switch (r->scope) {
    case PHYS_SCOPE_LOCAL:
        *ret = (struct alpm_value){ (uint32_t)r->scope << 24 | vni, 0 };
        return RC_OK;
    case PHYS_SCOPE_FALLBACK:
        vni = 0;
        break;
    case PHYS_SCOPE_PEER:
    case PHYS_SCOPE_TUNNEL:
        vni = r->vni;
        break;
    default:
        return RC_INVALID;
    }
    *ret = (struct alpm_value){ (uint32_t)r->scope << 24 | vni, r->idx };
    return vni >> 24 || r->idx > idx_max ? RC_INVALID : RC_OK;
}

static enum rc load_one(const struct alpm_change *change, struct alpm_chg *ret)
{
    const struct alpm_route *r = &change->route;
    struct alpm_key cut;

    memset(ret, 0, sizeof *ret);
    if (r->vni >> 24 || r->len > 128) {
        return RC_INVALID;
    }
    ret->key = key_of(r->vni, r->addr, r->len);
    cut = key_cut(&ret->key, key_len(&ret->key));
    ret->op = change->is_delete ? ALPM_DELETE : ALPM_INSERT;
    if (!key_equal(&cut, &ret->key)) {
        return RC_INVALID;
    }
    return change->is_delete ? RC_OK : result_check(&r->result, r->vni, &ret->value);
}

static int chg_compare(const void *x, const void *y)
{
    const struct alpm_chg *a = x;
    const struct alpm_chg *b = y;
    int order = key_compare(&a->key, &b->key);

    return order ? order : a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Sorted by key, of equal keys the last alone. */
static enum rc load(struct alpm *a, const struct alpm_change *changes, size_t count,
                    struct err *err)
{
    struct alpm_work *w = &a->work;
    bool is_sorted = true;
    size_t kept = 0;

    if (count >= ALPM_NONE ||
        !alpm_grow((void **)&w->chgs, &w->chg_cap, count, sizeof *w->chgs)) {
        return err_set(err, RC_NO_MEMORY, "no memory for %zu route changes", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (load_one(&changes[i], &w->chgs[i])) {
            return err_set(err, RC_INVALID,
                           "route %zu of the change: not a pooled prefix with a result",
                           i);
        }
        w->chgs[i].seq = (uint32_t)i;
        is_sorted &= i == 0 || key_compare(&w->chgs[i - 1].key, &w->chgs[i].key) < 0;
    }
    if (!is_sorted) {
        qsort(w->chgs, count, sizeof *w->chgs, chg_compare);
    }
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count || !key_equal(&w->chgs[i].key, &w->chgs[i + 1].key)) {
            w->chgs[kept++] = w->chgs[i];
        }
    }
    w->chg_count = kept;
    return RC_OK;
}

/* Says what each change does to what stands, and drops those that do nothing. */
static void classify(struct alpm *a)
{
    struct alpm_work *w = &a->work;
    size_t kept = 0;

    for (size_t i = 0; i < w->chg_count; i++) {
        struct alpm_chg *c = &w->chgs[i];
        const struct alpm_row *r;
        const struct alpm_slot *s;
        bool stands;

        c->row = alpm_row_of(a, &c->key);
        r = &a->row[c->row];
        s = alpm_slots(a, r->part) + alpm_slot_find(a, c->row, &c->key);
        stands = s < alpm_slots(a, r->part) + r->count && key_equal(&s->key, &c->key);
        if (c->op == ALPM_INSERT && stands) {
            c->op = value_equal(s->value, c->value) ? ALPM_SAME : ALPM_MODIFY;
        } else if (c->op == ALPM_DELETE && !stands) {
            c->op = ALPM_SAME;
        }
        if (c->op != ALPM_SAME) {
            w->chgs[kept++] = *c;
        }
    }
    w->chg_count = kept;
}

/* ---- changes: their rows ---- */

/* Lists the changes that are still to be made by the row that they change. */
static enum rc touch(struct alpm *a)
{
    struct alpm_work *w = &a->work;

    w->touched_count = 0;
    /* As many as there are changes at most, and the one that is being added. */
    if (!alpm_grow((void **)&w->touched, &w->touched_cap, w->chg_count,
                   sizeof *w->touched)) {
        return RC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < w->chg_count; i++) {
        struct alpm_chg *c = &w->chgs[i];
        struct alpm_row *r = &a->row[c->row];
        struct alpm_touched *t;

        if (c->op == ALPM_SAME) {
            continue;
        }
        c->next = ALPM_NONE;
        if (r->link == 0) {
            w->touched[w->touched_count++] =
                (struct alpm_touched){ .row = c->row, .head = i, .tail = i };
            r->link = (uint32_t)w->touched_count;
            t = &w->touched[r->link - 1];
        } else {
            t = &w->touched[r->link - 1];
            w->chgs[t->tail].next = i;
            t->tail = i;
        }
        t->inserts += c->op == ALPM_INSERT;
        t->modifies += c->op == ALPM_MODIFY;
        t->deletes += c->op == ALPM_DELETE;
    }
    for (size_t i = 0; i < w->touched_count; i++) {
        a->row[w->touched[i].row].link = 0;
    }
    return RC_OK;
}

/* Merges the row's changes into the items of its region. */
static void region_merge(struct alpm *a, struct alpm_region *region,
                         const struct alpm_touched *t)
{
    struct alpm_work *w = &a->work;
    struct alpm_item *item = &w->items[region->item_first];
    uint32_t standing = region->item_count;
    uint32_t total = standing + t->inserts;
    uint32_t from = 0;
    uint32_t to = 0;

    /* What stands moves to the end of the room, then both are merged to its front. */
    memmove(item + t->inserts, item, standing * sizeof *item);
    for (uint32_t i = t->head; i != ALPM_NONE; i = w->chgs[i].next) {
        const struct alpm_chg *c = &w->chgs[i];

        while (from < standing &&
               key_compare(&item[t->inserts + from].key, &c->key) < 0) {
            item[to++] = item[t->inserts + from++];
        }
        if (c->op == ALPM_INSERT) {
            item[to++] = (struct alpm_item){
                .key = c->key, .value = c->value, .chg = i, .from = ALPM_NONE
            };
        } else {
            item[t->inserts + from].chg = i;
        }
    }
    region->item_count = total;
    w->item_count = region->item_first + total;
}

/* How full the parts of a row that overflows may become: few changes come again at
 * random places, so both halves get room; many are a load. */
static unsigned carve_cap(const struct alpm *a, const struct alpm_touched *t,
                          uint32_t total)
{
    unsigned balanced = (2 * total + 2) / 3;

    return t->inserts >= a->b / 2 || balanced > a->b ? a->b : balanced;
}

static bool needs_room(const struct alpm *a, const struct alpm_touched *t)
{
    return a->row[t->row].count + t->inserts > a->b || a->row[t->row].part == 0;
}

/* Carves every row that its changes overflow; says how many partitions that takes. */
static enum rc make_room(struct alpm *a, size_t *ret_fresh)
{
    struct alpm_work *w = &a->work;

    *ret_fresh = 0;
    for (size_t i = 0; i < w->touched_count; i++) {
        const struct alpm_touched *t = &w->touched[i];
        uint32_t total = a->row[t->row].count + t->inserts;
        struct alpm_region *region;

        if (!needs_room(a, t)) {
            continue;
        }
        /* A part more than items: the carving cuts, and takes the last cut back. */
        if (alpm_work_reserve(w, total, total + 1, 1)) {
            return RC_NO_MEMORY;
        }
        region = alpm_region_add(a, &t->row, 1);
        region_merge(a, region, t);
        alpm_carve(a, region, carve_cap(a, t, total));
        *ret_fresh += alpm_move_match(a, region);
    }
    return RC_OK;
}

/* ---- changes: what stands then ---- */

static void slot_change(struct alpm *a, const struct alpm_chg *c)
{
    struct alpm_row *r = &a->row[c->row];
    unsigned at = alpm_slot_find(a, c->row, &c->key);
    struct alpm_slot *s = alpm_slots(a, r->part) + at;

    if (c->op == ALPM_INSERT) {
        memmove(s + 1, s, (r->count - at) * sizeof *s);
        r->count++;
        a->routes++;
        s->key = c->key;
        s->value = c->value;
    } else if (c->op == ALPM_MODIFY) {
        s->value = c->value;
    } else {
        r->count--;
        a->routes--;
        memmove(s, s + 1, (r->count - at) * sizeof *s);
    }
}

/* The wave of each change of a row: after those that have to come before it. */
static void set_waves(struct alpm_work *w, const struct alpm_touched *t)
{
    for (uint32_t i = t->head; i != ALPM_NONE; i = w->chgs[i].next) {
        struct alpm_chg *c = &w->chgs[i];

        c->wave = 0;
        for (uint32_t k = c->next;
             k != ALPM_NONE && key_above(&c->key, &w->chgs[k].key);
             k = w->chgs[k].next) {
            if (c->op != ALPM_DELETE && w->chgs[k].op != ALPM_DELETE) {
                c->wave++;
            }
        }
        for (uint32_t k = t->head; k != i && c->op == ALPM_DELETE;
             k = w->chgs[k].next) {
            if (w->chgs[k].op == ALPM_DELETE && key_above(&w->chgs[k].key, &c->key)) {
                c->wave++;
            }
        }
    }
}

/* Everything that can fail is behind us. */
static void change_all(struct alpm *a)
{
    struct alpm_work *w = &a->work;

    for (size_t i = 0; i < w->touched_count; i++) {
        set_waves(w, &w->touched[i]);
    }
    for (size_t i = 0; i < w->chg_count; i++) {
        if (w->chgs[i].op != ALPM_SAME) {
            slot_change(a, &w->chgs[i]);
        }
    }
    /* In the order of keys: a row's own cover is right before it is taken on. */
    for (size_t i = 0; i < w->chg_count; i++) {
        alpm_covers_update(a, w->chgs[i].row, &w->chgs[i].key);
    }
}

static enum rc prepare(struct alpm *a, struct err *err)
{
    struct alpm_work *w = &a->work;
    size_t fresh;

    if (touch(a) || make_room(a, &fresh)) {
        return err_set(err, RC_NO_MEMORY, "no memory for %zu route changes",
                       w->chg_count);
    }
    if (fresh > 0 && a->rows + fresh > a->rows_max) {
        return err_set(err, RC_FULL,
                       "route_tcam: %zu rows more than %u of %u do not fit", fresh,
                       a->rows, a->rows_max);
    }
    if (alpm_reserve(a, 2 * fresh, fresh)) {
        return err_set(err, RC_NO_MEMORY, "no memory for %zu rows", fresh);
    }
    return RC_OK;
}

enum rc alpm_apply(struct alpm *a, const struct alpm_change *changes, size_t count,
                   alpm_sink *sink, void *ctx, struct alpm_cost *cost, struct err *err)
{
    struct alpm_out out = { sink, ctx, cost, true };
    struct alpm_work *w = &a->work;
    enum rc rc;

    alpm_work_clear(w);
    rc = load(a, changes, count, err);
    if (!rc) {
        classify(a);
        rc = w->chg_count ? prepare(a, err) : RC_OK;
    }
    if (!rc && w->chg_count) {
        for (size_t i = 0; i < w->region_count; i++) {
            alpm_move(a, &w->regions[i]);
        }
        if (w->region_count) {
            (void)touch(a); /* rows have changed; no more than before */
        }
        change_all(a);
        alpm_emit_moves(a, &out);
        alpm_emit_changes(a, &out);
        alpm_join(a, &out);
        cost->changes += w->chg_count;
        a->settled = false;
        a->gained = true;
    }
    if (count > WORK_KEPT) {
        work_fini(w);
    }
    return rc;
}
