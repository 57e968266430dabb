/* Meters of VNIs: an index of vni_meter each, which the VNI's entry names. */
#include "agent/xgwh/xgwh_impl.h"

#include <stdlib.h>
#include <string.h>

enum meter_use { METER_FREE, METER_USED, METER_LEAVES };

bool meters_init(struct xgwh *x)
{
    x->meter_use = calloc(x->sizes.meters + 1u, 1);
    return x->meter_use != NULL;
}

void meters_fini(struct xgwh *x)
{
    free(x->meter_use);
    x->meter_use = NULL;
    u64map_fini(&x->meters);
}

uint32_t meter_of(const struct xgwh *x, uint32_t vni)
{
    const uint32_t *meter = u64map_find(&x->meters, vni);

    return meter ? *meter & METER_INDEX : 0;
}

/* Index 0 means "not metered".  0: none is free. */
static uint32_t take_index(struct xgwh *x)
{
    for (uint32_t n = 0; n < x->sizes.meters; n++) {
        uint32_t index = x->meter_next;

        x->meter_next = index + 1 < x->sizes.meters ? index + 1 : 0;
        if (index != 0 && x->meter_use[index] == METER_FREE) {
            x->meter_use[index] = METER_USED;
            return index;
        }
    }
    return 0;
}

static uint64_t bytes_of(uint64_t bits)
{
    return bits / 8 + (bits % 8 != 0);
}

static void write_meter(struct xgwh *x, uint32_t index, const struct meter *m)
{
    struct phys_meter_write w = {
        .meter = PHYS_METER_VNI,
        .half = PHYS_BOTH,
        .index = index,
        .config = { .cir = bytes_of(m->committed_bps),
                    .cburst = m->committed_burst,
                    .pir = bytes_of(m->peak_bps),
                    .pburst = m->peak_burst },
    };

    plan_add_meter(&x->plan, &w);
}

enum rc meter_put(struct xgwh *x, uint32_t vni, const struct meter *m)
{
    uint32_t index = meter_of(x, vni);

    if (index == 0) {
        if (x->meters.count >= x->sizes.meters - 1) {
            return RC_FULL;
        }
        index = take_index(x);
        if (index == 0) {
            return RC_FULL;
        }
    }
    write_meter(x, index, m);
    return u64map_put(&x->meters, vni, index | METER_NAMED) ? RC_OK : RC_NO_MEMORY;
}

void meter_delete(struct xgwh *x, uint32_t vni)
{
    uint32_t index = meter_of(x, vni);

    if (index != 0) {
        x->meter_use[index] = METER_LEAVES; /* its VNI's entry names it still */
        u64map_delete(&x->meters, vni);
        x->has_leaving_meters = true;
    }
}

void meters_settle(struct xgwh *x)
{
    for (uint32_t i = 0; x->has_leaving_meters && i < x->sizes.meters; i++) {
        if (x->meter_use[i] == METER_LEAVES) {
            x->meter_use[i] = METER_FREE;
        }
    }
    x->has_leaving_meters = false;
}

/* ---- after a read-back ---- */

/* An index that two name goes to one of them; the other's entry is written anew. */
static enum rc adopt(struct xgwh *x, uint32_t vni, uint32_t index)
{
    if (index == 0 || index >= x->sizes.meters || x->meter_use[index] != METER_FREE) {
        return RC_OK;
    }
    x->meter_use[index] = METER_USED;
    return u64map_put(&x->meters, vni, index) ? RC_OK : RC_NO_MEMORY;
}

enum rc meters_adopt(struct xgwh *x, const struct table_set *old,
                     struct table_set *rows)
{
    const struct u64map *vnis = &x->holds.vnis;
    enum rc rc = RC_OK;

    u64map_fini(&x->meters);
    memset(x->meter_use, 0, x->sizes.meters);
    for (uint32_t i = 0; rc == RC_OK && i < u64map_places(vnis); i++) {
        uint32_t vni = (uint32_t)vnis->keys[i];
        struct rows *row = NULL;
        struct entry e;
        struct row r;

        if (vnis->keys[i] == U64MAP_NONE) {
            continue;
        }
        rc = adopt(x, vni, vnis->values[i] & METER_INDEX);
        if (rc != RC_OK || meter_of(x, vni) == 0) {
            continue;
        }
        row = table_set_rows(old, vni, TABLE_METER);
        if (row && rows_find(row, TABLE_METER, NULL, 0, &r) &&
            entry_unpack(TABLE_METER, vni, &r, &e, NULL) == RC_OK) {
            /* What the meter says was not read; it is what we write now. */
            rc = meter_put(x, vni, &e.meter);
            if (rc == RC_OK) {
                rc = table_set_put(rows, vni, TABLE_METER, rows_ref(row));
            }
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
}
