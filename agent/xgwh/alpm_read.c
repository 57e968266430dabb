#include "agent/xgwh/alpm_impl.h"

void alpm_lookup(const struct alpm *a, uint32_t vni, const uint8_t addr[16],
                 struct alpm_result *ret)
{
    struct alpm_key key = key_of(vni, addr, 128);
    const struct alpm_row *r = &a->row[alpm_row_of(a, &key)];
    const struct alpm_slot *s = alpm_slots(a, r->part);

    for (unsigned i = r->count; i-- > 0;) {
        if (key_covers(&s[i].key, &key)) {
            *ret = value_result(s[i].value);
            return;
        }
    }
    *ret = value_result(r->cover);
}

bool alpm_get(const struct alpm *a, uint32_t vni, const uint8_t addr[16], uint8_t len,
              struct alpm_result *ret)
{
    struct alpm_key key = key_of(vni, addr, len);
    uint32_t row = alpm_row_of(a, &key);
    unsigned at = alpm_slot_find(a, row, &key);
    const struct alpm_slot *s = alpm_slots(a, a->row[row].part) + at;

    if (at == a->row[row].count || !key_equal(&s->key, &key)) {
        return false;
    }
    *ret = value_result(s->value);
    return true;
}

/* ---- all of it ---- */

static bool each_of_row(const struct alpm *a, uint32_t row, uint32_t vni,
                        alpm_each_route *each, void *ctx)
{
    const struct alpm_slot *s = alpm_slots(a, a->row[row].part);

    for (unsigned i = 0; i < a->row[row].count; i++) {
        struct alpm_route route = { .vni = key_vni(&s[i].key),
                                    .len =
                                        (uint8_t)(key_len(&s[i].key) - ALPM_VNI_BITS),
                                    .result = value_result(s[i].value) };

        if (vni == ALPM_NONE || route.vni == vni) {
            key_addr(&s[i].key, route.addr);
            if (!each(ctx, &route)) {
                return false;
            }
        }
    }
    return true;
}

void alpm_routes(const struct alpm *a, alpm_each_route *each, void *ctx)
{
    const struct alpm_key first = { 0 };

    for (uint32_t n = alpm_row_from(a, &first); n != ALPM_NONE;
         n = alpm_row_next(a, n, false)) {
        if (!each_of_row(a, n, ALPM_NONE, each, ctx)) {
            return;
        }
    }
}

void alpm_routes_of(const struct alpm *a, uint32_t vni, alpm_each_route *each,
                    void *ctx)
{
    const struct alpm_key key = { .w0 = (uint64_t)vni << 40, .w2 = ALPM_VNI_BITS };
    uint32_t top = alpm_row_of(a, &key);

    if (!each_of_row(a, top, vni, each, ctx)) {
        return;
    }
    for (uint32_t n = alpm_row_from(a, &key);
         n != ALPM_NONE && key_covers(&key, &a->row[n].key);
         n = alpm_row_next(a, n, false)) {
        if (n != top && !each_of_row(a, n, vni, each, ctx)) {
            return;
        }
    }
}

void alpm_routes_behind(const struct alpm *a, const struct phys_entry *row,
                        alpm_each_route *each, void *ctx)
{
    unsigned len = row->priority - 1;
    uint32_t vni =
        (uint32_t)row->key[0] << 16 | (uint32_t)row->key[1] << 8 | row->key[2];
    struct alpm_key key = key_of(vni, row->key + 3, 0);
    uint32_t n;

    if (len > ALPM_BITS) {
        return;
    }
    key.w2 = (key.w2 & 0xffffff00u) | len;
    n = alpm_row_of(a, &key);
    if (!key_equal(&a->row[n].key, &key) || !each_of_row(a, n, ALPM_NONE, each, ctx)) {
        return;
    }
    for (unsigned up = len; up-- > ALPM_VNI_BITS;) {
        struct alpm_key cut = key_cut(&key, up);
        struct alpm_route route = { .vni = vni, .len = (uint8_t)(up - ALPM_VNI_BITS) };

        key_addr(&cut, route.addr);
        if (alpm_get(a, vni, route.addr, route.len, &route.result)) {
            (void)each(ctx, &route);
            return;
        }
    }
}

void alpm_entries(const struct alpm *a, alpm_each_entry *each, void *ctx)
{
    const struct alpm_key first = { 0 };
    struct phys_entry e;

    for (uint32_t n = alpm_row_from(a, &first); n != ALPM_NONE;
         n = alpm_row_next(a, n, false)) {
        const struct alpm_row *r = &a->row[n];

        alpm_encode_row(a, &r->key, r->part, r->cover, &e);
        if (!each(ctx, &e)) {
            return;
        }
        for (unsigned i = 0; i < r->count; i++) {
            alpm_encode_slot(a, r->part, &alpm_slots(a, r->part)[i], &e);
            if (!each(ctx, &e)) {
                return;
            }
        }
    }
}

struct alpm_stats alpm_stats(const struct alpm *a)
{
    const struct alpm_work *w = &a->work;

    return (struct alpm_stats){
        .rows = a->rows,
        .rows_max = a->rows_max,
        .slots = a->rows * a->b,
        .routes = a->routes,
        .memory_bytes =
            a->memory + w->chg_cap * sizeof *w->chgs +
            w->touched_cap * sizeof *w->touched + w->row_cap * sizeof *w->rows +
            w->item_cap * sizeof *w->items + w->part_cap * sizeof *w->parts +
            w->region_cap * sizeof *w->regions + w->overlap_cap +
            (w->fill.cap + w->swing.cap + w->clear.cap) * sizeof *w->fill.at,
    };
}
