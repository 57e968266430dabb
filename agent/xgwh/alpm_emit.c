#include <string.h>

#include "agent/xgwh/alpm_impl.h"

/* ---- entries ---- */

static void put24(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 16);
    to[1] = (uint8_t)(v >> 8);
    to[2] = (uint8_t)v;
}

struct alpm_result value_result(struct alpm_value v)
{
    return (struct alpm_result){ .scope = (uint8_t)(v.scope_vni >> 24),
                                 .vni = v.scope_vni & 0xffffff,
                                 .idx = v.idx };
}

/* VNI and address of a key, as both tables have them: 19 bytes of key and of mask. */
static void encode_key(const struct alpm_key *key, uint8_t *to, uint8_t *mask)
{
    unsigned len = key_len(key);

    put24(to, key_vni(key));
    key_addr(key, to + 3);
    memset(mask, 0xff, len / 8);
    if (len % 8) {
        mask[len / 8] = (uint8_t)(0xff00u >> (len % 8));
    }
}

void alpm_encode_row(const struct alpm *a, const struct alpm_key *key, uint16_t part,
                     struct alpm_value cover, struct phys_entry *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->table = PHYS_ROUTE_TCAM;
    ret->half = a->half;
    ret->priority = 1 + key_len(key);
    encode_key(key, ret->key, ret->mask);
    if (part == PHYS_PART_NONE) {
        return; /* of a delete */
    }
    ret->action = PHYS_SET_PART;
    ret->data[0] = (uint8_t)(part >> 8);
    ret->data[1] = (uint8_t)part;
    ret->data[2] = (uint8_t)(cover.scope_vni >> 24);
    put24(ret->data + 3, cover.scope_vni & 0xffffff);
    put24(ret->data + 6, cover.idx);
}

/* Without a result: of a delete. */
void alpm_encode_slot(const struct alpm *a, uint16_t part, const struct alpm_slot *slot,
                      struct phys_entry *ret)
{
    struct alpm_result r = value_result(slot->value);

    memset(ret, 0, sizeof *ret);
    ret->table = PHYS_ROUTE_PART;
    ret->half = a->half;
    ret->priority = 1 + key_len(&slot->key);
    ret->key[0] = (uint8_t)(part >> 8);
    ret->key[1] = (uint8_t)part;
    phys_mask_exact(PHYS_ROUTE_PART, ret->mask);
    encode_key(&slot->key, ret->key + 2, ret->mask + 2);
    switch (r.scope) {
    case PHYS_SCOPE_LOCAL:
        ret->action = PHYS_LOCAL;
        break;
    case PHYS_SCOPE_PEER:
        ret->action = PHYS_PEER;
        put24(ret->data, r.vni);
        ret->data[3] = (uint8_t)r.idx;
        break;
    case PHYS_SCOPE_TUNNEL:
        ret->action = PHYS_TUNNEL;
        put24(ret->data, r.vni);
        put24(ret->data + 3, r.idx);
        break;
    case PHYS_SCOPE_FALLBACK:
        ret->action = PHYS_TO_X86;
        ret->data[0] = (uint8_t)r.idx;
        break;
    default:
        break;
    }
}

/* ---- writes ---- */

void alpm_emit_write(struct phys_write *w, struct alpm_out *out)
{
    w->barrier = out->barrier;
    out->cost->barriers += out->barrier;
    out->barrier = false;
    out->sink(out->ctx, w);
}

void alpm_emit_barrier(struct alpm_out *out)
{
    out->barrier = true;
}

void alpm_emit_row(const struct alpm *a, enum phys_op op, const struct alpm_key *key,
                   uint16_t part, struct alpm_value cover, struct alpm_out *out)
{
    struct phys_write w = { .op = (uint8_t)op };

    alpm_encode_row(a, key, op == PHYS_DELETE ? PHYS_PART_NONE : part, cover, &w.entry);
    alpm_emit_write(&w, out);
}

void alpm_emit_slot(const struct alpm *a, enum phys_op op, uint16_t part,
                    struct alpm_slot slot, struct alpm_out *out)
{
    struct phys_write w = { .op = (uint8_t)op };

    if (op == PHYS_DELETE) {
        slot.value = (struct alpm_value){ 0 };
    }
    alpm_encode_slot(a, part, &slot, &w.entry);
    alpm_emit_write(&w, out);
}

static void emit_recs(const struct alpm *a, const struct alpm_recs *recs,
                      struct alpm_out *out)
{
    for (unsigned wave = 0; wave < recs->waves; wave++) {
        for (size_t i = 0; i < recs->count; i++) {
            const struct alpm_rec *r = &recs->at[i];

            if (r->wave != wave) {
                continue;
            }
            *(r->is_change ? &out->cost->slot_writes : &out->cost->move_writes) += 1;
            if (r->is_slot) {
                alpm_emit_slot(a, r->op, r->part,
                               (struct alpm_slot){ r->key, r->value }, out);
            } else {
                alpm_emit_row(a, r->op, &r->key, r->part,
                              r->row == ALPM_NONE ? r->value : a->row[r->row].cover,
                              out);
            }
        }
        alpm_emit_barrier(out);
    }
}

void alpm_emit_moves(struct alpm *a, struct alpm_out *out)
{
    struct alpm_work *w = &a->work;

    emit_recs(a, &w->fill, out);
    emit_recs(a, &w->swing, out);
    emit_recs(a, &w->clear, out);
    for (size_t i = 0; i < w->swing.count; i++) {
        if (w->swing.at[i].row != ALPM_NONE) {
            a->row[w->swing.at[i].row].flags &= (uint8_t)~ROW_FINAL;
        }
    }
}

/* The changes of one wave, deletes or all others. */
static void emit_wave(const struct alpm *a, unsigned wave, bool deletes,
                      struct alpm_out *out)
{
    const struct alpm_work *w = &a->work;

    for (size_t i = 0; i < w->chg_count; i++) {
        const struct alpm_chg *c = &w->chgs[i];

        if (c->wave == wave && c->op != ALPM_SAME &&
            (c->op == ALPM_DELETE) == deletes) {
            enum phys_op op = c->op == ALPM_INSERT   ? PHYS_INSERT
                              : c->op == ALPM_MODIFY ? PHYS_MODIFY
                                                     : PHYS_DELETE;

            out->cost->slot_writes++;
            alpm_emit_slot(a, op, a->row[c->row].part,
                           (struct alpm_slot){ c->key, c->value }, out);
        }
    }
}

static void emit_covers(struct alpm *a, struct alpm_out *out)
{
    uint32_t n = a->work.dirty;

    while (n != ALPM_NONE) {
        struct alpm_row *r = &a->row[n];

        n = r->link;
        r->link = 0;
        r->flags &= (uint8_t)~ROW_DIRTY;
        out->cost->cover_writes++;
        alpm_emit_row(a, PHYS_MODIFY, &r->key, r->part, r->cover, out);
    }
    a->work.dirty = ALPM_NONE;
}

/* Longest first what is new or other, then covers, then shortest first what goes: thus
 * a destination's answer changes once, at the longest of its routes that is touched.
 * Only what one row holds can hide each other, so only there order matters. */
void alpm_emit_changes(struct alpm *a, struct alpm_out *out)
{
    const struct alpm_work *w = &a->work;
    unsigned waves[2] = { 0, 0 };
    bool before_covers = false;
    bool before_deletes = false;

    for (size_t i = 0; i < w->chg_count; i++) {
        const struct alpm_chg *c = &w->chgs[i];

        if (c->op != ALPM_SAME && c->wave >= waves[c->op == ALPM_DELETE]) {
            waves[c->op == ALPM_DELETE] = c->wave + 1u;
        }
    }
    for (size_t i = 0; i < w->touched_count; i++) {
        const struct alpm_touched *t = &w->touched[i];
        bool has_cover = a->row[t->row].flags & ROW_DIRTY;
        bool has_puts = t->inserts + t->modifies > 0;

        before_covers |= has_puts && has_cover;
        before_deletes |= t->deletes && (has_puts || has_cover);
    }
    for (unsigned wave = 0; wave < waves[0]; wave++) {
        out->barrier |= wave > 0;
        emit_wave(a, wave, false, out);
    }
    out->barrier |= before_covers;
    emit_covers(a, out);
    out->barrier |= before_deletes;
    for (unsigned wave = 0; wave < waves[1]; wave++) {
        out->barrier |= wave > 0;
        emit_wave(a, wave, true, out);
    }
}
