/*
 * Meters of VNIs: an index of vni_meter each, which the VNI's entry names.
 *
 * The same index is that of the VNI's counter.  So a VNI without a meter gets one too,
 * whose meter lets everything pass, for as long as there are free ones: first come.  A
 * meter that finds none takes one back from such a VNI.
 */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

enum meter_use { METER_FREE, METER_USED, METER_LEAVES };
#define METER_USE 3 /* the bits of it */
#define METER_SET 4 /* its meter may not let everything pass */

bool meters_init(struct xgwh *x)
{
    x->meter_use = calloc(x->sizes.meters + 1u, 1);
    x->meters_free = x->sizes.meters > 0 ? x->sizes.meters - 1 : 0; /* 0 is none */
    return x->meter_use != NULL;
}

void meters_fini(struct xgwh *x)
{
    free(x->meter_use);
    x->meter_use = NULL;
    u64map_fini(&x->meters);
    u64map_fini(&x->counted);
    meter_cells_fini(&x->cells);
    free(x->taken_back.vnis);
    x->taken_back = (struct taken_back){ 0 };
}

bool meter_is_set(const struct xgwh *x, uint32_t vni)
{
    return u64map_find(&x->meters, vni) != NULL;
}

uint32_t meter_of(const struct xgwh *x, uint32_t vni)
{
    const uint32_t *meter = u64map_find(&x->meters, vni);

    meter = meter ? meter : u64map_find(&x->counted, vni);
    return meter ? *meter & METER_INDEX : 0;
}

/* ---- indexes ---- */

static void use(struct xgwh *x, uint32_t index, enum meter_use use)
{
    x->meter_use[index] = (uint8_t)((x->meter_use[index] & METER_SET) | use);
}

/* Index 0 means "none".  0: none is free. */
static uint32_t take_index(struct xgwh *x)
{
    for (uint32_t n = 0; x->meters_free > 0 && n < x->sizes.meters; n++) {
        uint32_t index = x->meter_next;

        x->meter_next = index + 1 < x->sizes.meters ? index + 1 : 0;
        if (index != 0 && (x->meter_use[index] & METER_USE) == METER_FREE) {
            use(x, index, METER_USED);
            x->meters_free--;
            return index;
        }
    }
    return 0;
}

/* An entry names it until the plan is flushed. */
static void leave_index(struct xgwh *x, uint32_t index)
{
    use(x, index, METER_LEAVES);
    x->has_leaving_meters = true;
}

void meters_settle(struct xgwh *x)
{
    for (uint32_t i = 0; x->has_leaving_meters && i < x->sizes.meters; i++) {
        if ((x->meter_use[i] & METER_USE) == METER_LEAVES) {
            use(x, i, METER_FREE);
            x->meters_free++;
        }
    }
    x->has_leaving_meters = false;
}

/* ---- what they are set to ---- */

static uint64_t bytes_of(uint64_t bits)
{
    return bits / 8 + (bits % 8 != 0);
}

static struct phys_meter_config config_of(const struct meter *m)
{
    return (struct phys_meter_config){ .cir = bytes_of(m->committed_bps),
                                       .cburst = m->committed_burst,
                                       .pir = bytes_of(m->peak_bps),
                                       .pburst = m->peak_burst };
}

/* What a read-back said of the cell, if all halves said it and nothing was written
 * since; else null. */
static const struct phys_meter_config *cell_of(const struct xgwh *x, uint32_t index)
{
    const uint32_t *place = u64map_find(&x->cells.places, index);
    const struct meter_cell *c = place ? &x->cells.at[*place] : NULL;

    return c && c->halves == (1u << x->halves) - 1 && !c->differs ? &c->config : NULL;
}

static bool stands(const struct xgwh *x, uint32_t index, const struct meter *m)
{
    const struct phys_meter_config *is = cell_of(x, index);
    struct phys_meter_config want = config_of(m);

    return is && meter_is_same(is, &want);
}

/* Nothing is written where it was read to be so. */
static void write_meter(struct xgwh *x, uint32_t index, const struct meter *m)
{
    struct phys_meter_write w = { .meter = PHYS_METER_VNI,
                                  .half = PHYS_BOTH,
                                  .index = index,
                                  .config = config_of(m) };

    if (!stands(x, index, m)) {
        plan_add_meter(&x->plan, &w);
        (void)u64map_delete(&x->cells.places, index);
    }
    x->meter_use[index] |= METER_SET;
}

/* Lets everything pass. */
static void open_meter(struct xgwh *x, uint32_t index)
{
    static const struct meter none;

    if (x->meter_use[index] & METER_SET) {
        write_meter(x, index, &none);
        x->meter_use[index] &= (uint8_t)~METER_SET;
    }
}

/* ---- counted, not metered ---- */

enum rc meter_count(struct xgwh *x, uint32_t vni)
{
    uint32_t index = meter_of(x, vni) == 0 ? take_index(x) : 0;

    if (index == 0) {
        return RC_OK;
    }
    open_meter(x, index);
    return u64map_put(&x->counted, vni, index) ? RC_OK : RC_NO_MEMORY;
}

void meter_count_no_more(struct xgwh *x, uint32_t vni)
{
    const uint32_t *index = u64map_find(&x->counted, vni);

    if (index) {
        leave_index(x, *index);
        u64map_delete(&x->counted, vni);
    }
}

static uint64_t next_counted(struct xgwh *x)
{
    uint32_t places = u64map_places(&x->counted);
    uint64_t vni = U64MAP_NONE;

    for (uint32_t n = 0; vni == U64MAP_NONE && n < places; n++) {
        vni = x->counted.keys[x->counted_next++ % places];
    }
    return vni;
}

/* From a VNI that is only counted; its entry is turned with those of meters.  RC_FULL:
 * done, or there is none. */
static enum rc take_back(struct xgwh *x)
{
    struct taken_back *t = &x->taken_back;
    uint64_t vni = next_counted(x);

    if (vni == U64MAP_NONE) {
        return RC_FULL;
    }
    if (t->count == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 64;
        uint32_t *at = realloc(t->vnis, cap * sizeof(*at));

        if (!at) {
            return RC_NO_MEMORY;
        }
        t->vnis = at;
        t->cap = cap;
    }
    t->vnis[t->count++] = (uint32_t)vni;
    meter_count_no_more(x, (uint32_t)vni);
    return RC_FULL;
}

#define PLACES_A_WRITE 16 /* looked at */

enum rc meters_count_more(struct xgwh *x, uint32_t budget, uint64_t *io_writes)
{
    const struct u64map *vnis = &x->holds.vnis;
    uint32_t places = u64map_places(vnis);
    enum rc rc = RC_OK;

    if (places > budget * PLACES_A_WRITE) {
        places = budget * PLACES_A_WRITE;
    }
    for (uint32_t n = 0; rc == RC_OK && budget > 0 && x->meters_free > 0 &&
                         vnis->count > x->counted.count + x->meters.count && n < places;
         n++) {
        uint64_t vni = vnis->keys[x->count_next++ % u64map_places(vnis)];

        if (vni != U64MAP_NONE && meter_of(x, (uint32_t)vni) == 0) {
            rc = meter_count(x, (uint32_t)vni);
            vni_refresh(x, (uint32_t)vni);
            budget--;
            ++*io_writes;
        }
    }
    return rc;
}

uint32_t xgwh_counted_index(const struct xgwh *x, uint32_t vni)
{
    return u64map_find(&x->holds.vnis, vni) ? meter_of(x, vni) : 0;
}

uint32_t xgwh_counted_next(const struct xgwh *x, uint32_t from, uint32_t *ret_index)
{
    for (uint32_t vni = table_set_next(x->rows, from, 1u << TABLE_VNI); vni != 0;
         vni = vni == VNI_MAX ? 0 : table_set_next(x->rows, vni + 1, 1u << TABLE_VNI)) {
        *ret_index = xgwh_counted_index(x, vni);
        if (*ret_index != 0) {
            return vni;
        }
    }
    return 0;
}

/* ---- metered ---- */

enum rc meter_put(struct xgwh *x, uint32_t vni, const struct meter *m)
{
    uint32_t index = meter_of(x, vni);

    if (index == 0) {
        index = take_index(x);
    }
    if (index == 0) {
        return take_back(x);
    }
    u64map_delete(&x->counted, vni);
    write_meter(x, index, m);
    return u64map_put(&x->meters, vni, index | METER_NAMED) ? RC_OK : RC_NO_MEMORY;
}

/* A VNI that stays keeps the index, to be counted. */
void meter_delete(struct xgwh *x, uint32_t vni)
{
    uint32_t index = meter_is_set(x, vni) ? meter_of(x, vni) : 0;

    if (index == 0) {
        return;
    }
    u64map_delete(&x->meters, vni);
    if (u64map_find(&x->holds.vnis, vni) && u64map_put(&x->counted, vni, index)) {
        open_meter(x, index);
    } else {
        leave_index(x, index);
    }
}

/* ---- reading back ---- */

void meter_cells_fini(struct meter_cells *c)
{
    u64map_fini(&c->places);
    free(c->at);
    *c = (struct meter_cells){ 0 };
}

static struct meter_cell *add_cell(struct meter_cells *c, uint32_t index)
{
    if (c->count == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 64;
        struct meter_cell *at = realloc(c->at, cap * sizeof(*at));

        if (!at) {
            return NULL;
        }
        c->at = at;
        c->cap = cap;
    }
    c->at[c->count] = (struct meter_cell){ 0 };
    return u64map_put(&c->places, index, c->count) ? &c->at[c->count++] : NULL;
}

enum rc xgwh_read_wants_meters(struct xgwh *x, uint32_t **ret, uint32_t *ret_count)
{
    struct reading *r = x->reading;
    uint32_t *index;
    uint32_t count = 0;

    if (!r || !(index = malloc((r->holds.vnis.count + 1) * sizeof(*index)))) {
        return r ? RC_NO_MEMORY : RC_INVALID;
    }
    for (uint32_t i = 0; i < u64map_places(&r->holds.vnis); i++) {
        uint32_t value = r->holds.vnis.values[i];
        uint32_t meter = value & METER_INDEX;

        if (r->holds.vnis.keys[i] != U64MAP_NONE && meter != 0 &&
            meter < x->sizes.meters && value >> 18 & PHYS_VNI_METERED &&
            !u64map_find(&r->meters.places, meter)) {
            if (!add_cell(&r->meters, meter)) {
                free(index);
                return RC_NO_MEMORY;
            }
            index[count++] = meter;
        }
    }
    *ret = index;
    *ret_count = count;
    return RC_OK;
}

static void read_vni_cell(struct meter_cells *cells, unsigned half, uint64_t index,
                          const struct phys_meter_config *config)
{
    const uint32_t *place = u64map_find(&cells->places, index);
    struct meter_cell *c = place ? &cells->at[*place] : NULL;

    if (!c) {
        return; /* nobody asked */
    }
    if (c->halves == 0) {
        c->config = *config;
    }
    c->differs |= !meter_is_same(&c->config, config);
    c->halves |= (uint8_t)(1u << half);
}

/* One more cell of those that should all be the same. */
static void read_same(struct phys_meter_config *io, uint32_t *io_count,
                      bool *io_differs, const struct phys_meter_config *config)
{
    if ((*io_count)++ == 0) {
        *io = *config;
    }
    *io_differs |= !meter_is_same(io, config);
}

void xgwh_read_meter(struct xgwh *x, enum phys_meter meter, unsigned half,
                     uint64_t index, const struct phys_meter_config *config)
{
    struct fallback_cells *f = &x->reading->fallback;
    unsigned class =
        meter == PHYS_METER_FB_SERVICE ? PHYS_CLASS_SERVICE : PHYS_CLASS_MISS;

    if (half >= x->halves) {
        return;
    }
    if (meter == PHYS_METER_VNI) {
        read_vni_cell(&x->reading->meters, half, index, config);
    } else if (meter != PHYS_METER_FB_CLASS) {
        if (index < x->sizes.fallback_buckets) {
            read_same(&f->tenant[class], &f->tenant_count[class],
                      &f->tenant_differs[class], config);
        }
    } else if (index < 2) {
        read_same(&f->class[index], &f -> class_count[index],
                  &f -> class_differs[index], config);
    }
}

/* ---- after a read-back ---- */

/* An index that two name goes to one of them; the other's entry is written anew. */
static enum rc adopt(struct xgwh *x, uint32_t vni, uint32_t value)
{
    uint32_t index = value & METER_INDEX;
    bool is_metered = value >> 18 & PHYS_VNI_METERED;

    if (index == 0 || index >= x->sizes.meters ||
        (x->meter_use[index] & METER_USE) != METER_FREE) {
        return RC_OK;
    }
    use(x, index, METER_USED);
    x->meters_free--;
    if (is_metered) {
        x->meter_use[index] |= METER_SET;
    } else {
        open_meter(x, index);
    }
    return u64map_put(is_metered ? &x->meters : &x->counted, vni, index) ? RC_OK
                                                                         : RC_NO_MEMORY;
}

/* A row of before that is not what was read waits until the controller sends it; where
 * the cell was not read it is written. */
static enum rc name_meter(struct xgwh *x, uint32_t vni, struct rows *old,
                          struct table_set *rows)
{
    uint32_t index = meter_of(x, vni);
    struct entry e;
    struct row r;
    enum rc rc;

    if (!old || !rows_find(old, TABLE_METER, NULL, 0, &r) ||
        entry_unpack(TABLE_METER, vni, &r, &e, NULL) != RC_OK ||
        (cell_of(x, index) && !stands(x, index, &e.meter))) {
        return RC_OK;
    }
    rc = meter_put(x, vni, &e.meter);
    return rc == RC_OK ? table_set_put(rows, vni, TABLE_METER, rows_ref(old)) : rc;
}

enum rc meters_adopt(struct xgwh *x, const struct table_set *old,
                     struct table_set *rows)
{
    const struct u64map *vnis = &x->holds.vnis;
    bool is_new = table_set_count(old, TABLE_VNI) == 0;
    enum rc rc = RC_OK;

    meter_cells_fini(&x->cells);
    x->cells = x->reading->meters;
    x->reading->meters = (struct meter_cells){ 0 };
    x->fallback = x->reading->fallback;
    u64map_fini(&x->meters);
    u64map_fini(&x->counted);
    for (uint32_t i = 0; i < x->sizes.meters; i++) {
        use(x, i, METER_FREE);
    }
    x->meters_free = x->sizes.meters > 0 ? x->sizes.meters - 1 : 0;
    x->has_leaving_meters = false;
    for (uint32_t i = 0; rc == RC_OK && i < u64map_places(vnis); i++) {
        if (vnis->keys[i] != U64MAP_NONE) {
            uint32_t vni = (uint32_t)vnis->keys[i];

            rc = adopt(x, vni, vnis->values[i]);
            if (rc == RC_OK && meter_is_set(x, vni)) {
                rc = name_meter(x, vni, table_set_rows(old, vni, TABLE_METER), rows);
            }
        }
    }
    /* Nobody knows any more what those are set to that have no owner; of those that
     * have one its entry says it. */
    for (uint32_t i = 0; is_new && i < x->sizes.meters; i++) {
        if ((x->meter_use[i] & METER_USE) == METER_FREE) {
            x->meter_use[i] |= METER_SET;
        }
    }
    return rc;
}

uint32_t meters_unnamed(const struct xgwh *x)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < u64map_places(&x->meters); i++) {
        n += x->meters.keys[i] != U64MAP_NONE && !(x->meters.values[i] & METER_NAMED);
    }
    return n;
}

void meters_sweep(struct xgwh *x)
{
    for (uint32_t i = 0; i < u64map_places(&x->meters);) {
        uint64_t vni = x->meters.keys[i];

        if (vni == U64MAP_NONE || x->meters.values[i] & METER_NAMED) {
            i++;
            continue;
        }
        meter_delete(x, (uint32_t)vni); /* another may move to this place */
        vni_refresh(x, (uint32_t)vni);
    }
    meter_cells_fini(&x->cells); /* each was claimed or is open now */
}
