#include <stdlib.h>
#include <string.h>

#include "agent/xgwh/alpm_impl.h"

enum slot_fate {
    SLOT_STAYS,
    SLOT_MOVES,  /* its row gets a partition of its own */
    SLOT_HIDDEN, /* in a partition that no row names: goes first */
    SLOT_GOES    /* in a partition where it is another row's: goes last */
};

struct read_row {
    struct alpm_key key;
    struct alpm_value cover;
    uint32_t node;
    uint16_t part;  /* as it was read; 0: the row at the empty prefix was not there */
    uint16_t fresh; /* what it gets instead, or 0 */
    bool goes;
};

struct read_slot {
    struct alpm_key key;
    struct alpm_value value;
    uint32_t row; /* index of read_row, where it moves */
    uint16_t part;
    uint8_t wave;
    uint8_t fate; /* enum slot_fate */
};

struct alpm_reading {
    struct read_row *rows;
    size_t row_count, row_cap;
    struct read_slot *slots;
    size_t slot_count, slot_cap;
    struct phys_entry *foreign;
    size_t foreign_count, foreign_cap;
    uint32_t *named; /* by partition: 1 + index of the first row that names it */
};

/* ---- life ---- */

void alpm_reading_free(struct alpm *a)
{
    struct alpm_reading *r = a->reading;

    if (r) {
        free(r->rows);
        free(r->slots);
        free(r->foreign);
        free(r->named);
        free(r);
    }
    a->reading = NULL;
}

enum rc alpm_read_begin(struct alpm *a)
{
    alpm_reading_free(a);
    a->reading = calloc(1, sizeof *a->reading);
    if (a->reading) {
        a->reading->named = calloc(a->parts_max, sizeof *a->reading->named);
    }
    if (!a->reading || !a->reading->named) {
        alpm_reading_free(a);
        return RC_NO_MEMORY;
    }
    return RC_OK;
}

void alpm_read_abort(struct alpm *a)
{
    alpm_reading_free(a);
}

/* ---- entries ---- */

static uint32_t get24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* VNI ‖ address; false unless the mask is that of a prefix and the priority its
 * length's. */
static bool decode_key(const struct phys_entry *e, unsigned skip, struct alpm_key *ret)
{
    const uint8_t *key = e->key + skip;
    const uint8_t *mask = e->mask + skip;
    unsigned len = e->priority - 1;
    struct alpm_key cut;

    if (len > ALPM_BITS) {
        return false;
    }
    for (unsigned i = 0; i < ALPM_BITS; i++) {
        if ((mask[i / 8] >> (7 - i % 8) & 1) != (i < len)) {
            return false;
        }
    }
    *ret = key_of(get24(key), key + 3, 0);
    ret->w2 = (ret->w2 & 0xffffff00u) | len;
    cut = key_cut(ret, len);
    return key_equal(&cut, ret);
}

static bool decode_result(const struct phys_entry *e, uint32_t vni,
                          struct alpm_value *ret)
{
    const uint8_t *d = e->data;
    unsigned scope;

    *ret = (struct alpm_value){ 0 };
    switch (e->action) {
    case PHYS_LOCAL:
        scope = PHYS_SCOPE_LOCAL;
        break;
    case PHYS_PEER:
        scope = PHYS_SCOPE_PEER;
        vni = get24(d);
        ret->idx = d[3];
        break;
    case PHYS_TUNNEL:
        scope = PHYS_SCOPE_TUNNEL;
        vni = get24(d);
        ret->idx = get24(d + 3);
        break;
    case PHYS_TO_X86:
        scope = PHYS_SCOPE_FALLBACK;
        vni = 0;
        ret->idx = d[0];
        break;
    default:
        return false;
    }
    ret->scope_vni = scope << 24 | vni;
    return ret->idx <= (scope == PHYS_SCOPE_TUNNEL ? (1u << PHYS_NC_BITS) - 1
                        : scope == PHYS_SCOPE_PEER ? 3u
                                                   : 1u);
}

static bool is_part(const struct alpm *a, const uint8_t *p, uint16_t *ret)
{
    *ret = (uint16_t)(p[0] << 8 | p[1]);
    return *ret != PHYS_PART_NONE && *ret < a->parts_max;
}

static bool decode_row(const struct alpm *a, const struct phys_entry *e,
                       struct read_row *ret)
{
    const uint8_t *d = e->data;

    memset(ret, 0, sizeof *ret);
    ret->cover =
        (struct alpm_value){ (uint32_t)d[2] << 24 | get24(d + 3), get24(d + 6) };
    return e->table == PHYS_ROUTE_TCAM && e->action == PHYS_SET_PART &&
           decode_key(e, 0, &ret->key) && is_part(a, d, &ret->part);
}

static bool decode_slot(const struct alpm *a, const struct phys_entry *e,
                        struct read_slot *ret)
{
    memset(ret, 0, sizeof *ret);
    return e->table == PHYS_ROUTE_PART && decode_key(e, 2, &ret->key) &&
           key_len(&ret->key) >= ALPM_VNI_BITS && is_part(a, e->key, &ret->part) &&
           decode_result(e, key_vni(&ret->key), &ret->value);
}

#define GROW(list, cap, need)                                                          \
    alpm_grow((void **)&(list), &(cap), (need), sizeof *(list))

enum rc alpm_read_entry(struct alpm *a, const struct phys_entry *e)
{
    struct alpm_reading *r = a->reading;

    if (e->table != PHYS_ROUTE_TCAM && e->table != PHYS_ROUTE_PART) {
        return RC_INVALID;
    }
    if (!GROW(r->rows, r->row_cap, r->row_count + 2) || /* one may be missing */
        !GROW(r->slots, r->slot_cap, r->slot_count + 1) ||
        !GROW(r->foreign, r->foreign_cap, r->foreign_count + 1)) {
        return RC_NO_MEMORY;
    }
    if (decode_row(a, e, &r->rows[r->row_count])) {
        r->row_count++;
    } else if (decode_slot(a, e, &r->slots[r->slot_count])) {
        r->slot_count++;
    } else {
        r->foreign[r->foreign_count++] = *e;
    }
    return RC_OK;
}

/* ---- rows ---- */

static int row_compare(const void *x, const void *y)
{
    return key_compare(&((const struct read_row *)x)->key,
                       &((const struct read_row *)y)->key);
}

static int slot_compare(const void *x, const void *y)
{
    const struct read_slot *a = x;
    const struct read_slot *b = y;

    return a->part != b->part ? (a->part < b->part ? -1 : 1)
                              : key_compare(&a->key, &b->key);
}

/* Sorts, and drops what was read twice. */
static void sort_all(struct alpm_reading *r)
{
    size_t kept = 0;

    if (r->row_count) {
        qsort(r->rows, r->row_count, sizeof *r->rows, row_compare);
    }
    for (size_t i = 0; i < r->row_count; i++) {
        if (kept == 0 || !key_equal(&r->rows[kept - 1].key, &r->rows[i].key)) {
            r->rows[kept++] = r->rows[i];
        }
    }
    r->row_count = kept;
    kept = 0;
    if (r->slot_count) {
        qsort(r->slots, r->slot_count, sizeof *r->slots, slot_compare);
    }
    for (size_t i = 0; i < r->slot_count; i++) {
        if (kept == 0 || slot_compare(&r->slots[kept - 1], &r->slots[i])) {
            r->slots[kept++] = r->slots[i];
        }
    }
    r->slot_count = kept;
}

/* The row at the empty prefix goes first; where no partition is free for it, the last
 * row gives its own. */
static void root_add(struct alpm *a, struct alpm_reading *r)
{
    if (r->row_count == 0 || key_len(&r->rows[0].key) == 0) {
        return;
    }
    memmove(r->rows + 1, r->rows, r->row_count * sizeof *r->rows);
    memset(&r->rows[0], 0, sizeof r->rows[0]);
    r->row_count++;
    if (r->row_count > a->parts_max - 1) {
        r->rows[r->row_count - 1].goes = true;
    }
}

/* Who names which partition. */
static void rows_name(struct alpm_reading *r)
{
    for (size_t i = 0; i < r->row_count; i++) {
        const struct read_row *row = &r->rows[i];

        if (row->part && !row->goes && !r->named[row->part]) {
            r->named[row->part] = (uint32_t)i + 1;
        }
    }
}

/* Memory for the rows, and for the partitions that they name or will take. */
static enum rc rows_reserve(struct alpm *a, const struct alpm_reading *r)
{
    size_t fresh = 0;

    for (size_t i = 0; i < r->row_count; i++) {
        const struct read_row *row = &r->rows[i];

        fresh += !row->goes && r->named[row->part] != i + 1;
    }
    for (uint32_t p = 1; p < a->parts_max; p++) {
        if (r->named[p] || fresh) {
            fresh -= !r->named[p];
            if (alpm_chunk_reserve(a, p)) {
                return RC_NO_MEMORY;
            }
        }
    }
    return alpm_reserve(a, 2 * r->row_count + 2, 0);
}

/* Partitions that no row names are free. */
static void parts_free(struct alpm *a, const struct alpm_reading *r)
{
    a->part_free_count = 0;
    for (uint32_t p = a->parts_max; --p > 0;) {
        if (!r->named[p]) {
            alpm_part_give(a, (uint16_t)p);
        }
    }
}

/* Places the rows.  Of two that name one partition the deeper goes, if it lies right
 * below: the other one looks at the same routes; else it gets a partition of its own.
 */
static void rows_place(struct alpm *a, struct alpm_reading *r,
                       struct alpm_findings *found)
{
    for (size_t i = 0; i < r->row_count; i++) {
        struct read_row *row = &r->rows[i];
        bool shares = row->part && r->named[row->part] != i + 1;
        uint32_t above = alpm_row_of(a, &row->key);

        if (shares && !row->goes) {
            found->shared++;
            row->goes =
                (i > 0 && a->row[above].part == row->part) || a->part_free_count == 0;
        }
        if (row->goes) {
            continue;
        }
        if (shares || !row->part) {
            row->fresh = alpm_part_take(a);
        }
        row->node = alpm_row_insert(a, &row->key);
        a->row[row->node].part = row->fresh ? row->fresh : row->part;
        a->row[row->node].link = (uint32_t)i;
        a->rows++;
    }
}

/* ---- slots ---- */

static void slot_place(struct alpm *a, struct alpm_reading *r, struct read_slot *s,
                       struct alpm_findings *found)
{
    uint32_t node = alpm_row_of(a, &s->key);
    struct alpm_row *row = &a->row[node];
    const struct read_row *owner = &r->rows[row->link];
    bool is_seen = a->rows && (owner->part == s->part);

    if (!r->named[s->part]) {
        s->fate = SLOT_HIDDEN;
        found->orphans++;
    } else if (!is_seen) {
        s->fate = SLOT_GOES;
        found->orphans++;
    } else if (row->count == a->b) {
        s->fate = SLOT_GOES;
        found->lost++;
    } else {
        s->fate = owner->fresh ? SLOT_MOVES : SLOT_STAYS;
        s->row = row->link;
        alpm_slots(a, row->part)[row->count++] = (struct alpm_slot){ s->key, s->value };
        a->routes++;
    }
}

/* Routes above the row that looks at them hide its cover: shortest first. */
static void slots_order(struct alpm_reading *r)
{
    unsigned above = 0;

    for (size_t i = 0; i < r->slot_count; i++) {
        struct read_slot *s = &r->slots[i];

        above = i && r->slots[i - 1].part == s->part ? above : 0;
        if (s->fate == SLOT_GOES &&
            key_above(&s->key, &r->rows[r->named[s->part] - 1].key)) {
            s->wave = (uint8_t)above++;
        }
    }
}

/* ---- writes ---- */

static void covers_check(struct alpm *a, struct alpm_reading *r,
                         struct alpm_findings *found, struct alpm_out *out)
{
    for (size_t i = 0; i < r->row_count; i++) {
        const struct read_row *row = &r->rows[i];
        struct alpm_row *node = &a->row[row->node];
        enum phys_op op = row->part ? PHYS_MODIFY : PHYS_INSERT;
        bool is_wrong;

        if (row->goes) {
            continue;
        }
        node->link = 0;
        node->cover = row->node
                          ? alpm_cover_of(a, alpm_row_above(a, row->node), &row->key)
                          : (struct alpm_value){ 0 };
        is_wrong = row->part && !value_equal(node->cover, row->cover);
        found->covers += is_wrong;
        if (row->fresh || is_wrong) {
            *(row->fresh ? &out->cost->move_writes : &out->cost->cover_writes) += 1;
            alpm_emit_row(a, op, &row->key, node->part, node->cover, out);
        }
    }
}

static void emit_rows_gone(struct alpm *a, const struct alpm_reading *r,
                           struct alpm_out *out)
{
    for (size_t i = 0; i < r->row_count; i++) {
        if (r->rows[i].goes) {
            out->cost->move_writes++;
            alpm_emit_row(a, PHYS_DELETE, &r->rows[i].key, PHYS_PART_NONE,
                          (struct alpm_value){ 0 }, out);
        }
    }
}

static unsigned emit_slots(const struct alpm *a, const struct alpm_reading *r,
                           enum slot_fate fate, enum phys_op op, unsigned wave,
                           struct alpm_out *out)
{
    unsigned more = 0;

    for (size_t i = 0; i < r->slot_count; i++) {
        const struct read_slot *s = &r->slots[i];
        struct alpm_slot slot = { s->key, s->value };

        if (s->fate == fate && s->wave == wave) {
            out->cost->move_writes++;
            alpm_emit_slot(a, op, op == PHYS_INSERT ? r->rows[s->row].fresh : s->part,
                           slot, out);
        }
        more += s->fate == fate && s->wave > wave;
    }
    alpm_emit_barrier(out);
    return more;
}

static void emit_foreign(const struct alpm *a, const struct alpm_reading *r,
                         struct alpm_out *out)
{
    for (size_t i = 0; i < r->foreign_count; i++) {
        struct phys_write w = { .op = PHYS_DELETE, .entry = r->foreign[i] };

        w.entry.half = a->half;
        w.entry.action = PHYS_NO_ACTION;
        memset(w.entry.data, 0, sizeof w.entry.data);
        out->cost->move_writes++;
        alpm_emit_write(&w, out);
    }
}

/* What nobody looks at, then what replaces it, then rows, then what they look at no
 * more. */
static void emit_all(struct alpm *a, struct alpm_reading *r,
                     struct alpm_findings *found, struct alpm_out *out)
{
    unsigned wave = 0;

    emit_foreign(a, r, out);
    emit_slots(a, r, SLOT_HIDDEN, PHYS_DELETE, 0, out);
    emit_slots(a, r, SLOT_MOVES, PHYS_INSERT, 0, out);
    covers_check(a, r, found, out);
    alpm_emit_barrier(out);
    emit_rows_gone(a, r, out);
    alpm_emit_barrier(out);
    emit_slots(a, r, SLOT_MOVES, PHYS_DELETE, 0, out);
    while (emit_slots(a, r, SLOT_GOES, PHYS_DELETE, wave, out)) {
        wave++;
    }
}

enum rc alpm_read_end(struct alpm *a, alpm_sink *sink, void *ctx,
                      struct alpm_cost *cost, struct alpm_findings *ret)
{
    struct alpm_out out = { sink, ctx, cost, true };
    struct alpm_reading *r = a->reading;

    memset(ret, 0, sizeof *ret);
    sort_all(r);
    root_add(a, r);
    rows_name(r);
    if (rows_reserve(a, r)) {
        alpm_reading_free(a);
        return RC_NO_MEMORY;
    }
    alpm_reset(a);
    parts_free(a, r);
    rows_place(a, r, ret);
    for (size_t i = 0; i < r->slot_count; i++) {
        slot_place(a, r, &r->slots[i], ret);
    }
    slots_order(r);
    ret->foreign = r->foreign_count;
    emit_all(a, r, ret, &out);
    alpm_reading_free(a);
    return RC_OK;
}
