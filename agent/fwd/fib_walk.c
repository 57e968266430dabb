/* What stands in the structures, slot by slot, for audits: what no record leads to
 * shows here alone. */
#include "agent/fwd/fib_impl.h"

static void put_be(uint64_t v, unsigned bytes, uint8_t *to)
{
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
    }
}

static void tell_vm(const struct exact_entry *x, bool is_v6, struct fib_slot *ret)
{
    ret->table = TABLE_VM_NC;
    ret->vni = is_v6 ? x->vni : (uint32_t)x->w0 & VNI_MAX;
    ret->key[0] = is_v6 ? IP_V6 : IP_V4;
    ret->key_len = is_v6 ? 17 : 5;
    if (is_v6) {
        put_be(x->w0, 8, ret->key + 1);
        put_be(x->w1, 8, ret->key + 9);
    } else {
        put_be(x->w0 >> 32, 4, ret->key + 1);
    }
    ret->code = x->val;
}

static void tell_vni(const struct exact_entry *x, struct fib_slot *ret)
{
    ret->table = TABLE_VNI;
    ret->vni = (uint32_t)x->w0 & VNI_MAX;
    ret->is_known = (x->w0 & SLOT_KNOWN) != 0;
    ret->has_routes = slot_kind(x->w0) != LPM_NONE;
    ret->code = slot_flags(x->w0);
}

bool fib_walk(const struct fib *f, struct fib_walk_at *at, uint32_t *budget,
              struct fib_slot *ret)
{
    const struct exact *tables[] = { &f->vni, &f->v4, &f->v6, &f->clusters };

    while (at->table < 4) {
        struct exact_cursor c = { at->hash, at->bucket, at->slot, false };
        struct exact_entry x;
        bool is_there;

        *ret = (struct fib_slot){ 0 };
        is_there = exact_next(tables[at->table], &c, budget, &x, &ret->is_found);
        if (is_there && at->table == 3) {
            ret->table = TABLE_VNI_CLUSTER;
            ret->vni = (uint32_t)x.w0 & VNI_MAX;
            ret->code = cluster_in(x.w0);
        } else if (is_there && at->table > 0) {
            tell_vm(&x, at->table == 2, ret);
        } else if (is_there) {
            tell_vni(&x, ret);
        }
        *at = c.is_over ? (struct fib_walk_at){ .table = at->table + 1 }
                        : (struct fib_walk_at){ at->table, c.hash, c.bucket, c.slot };
        if (is_there || *budget == 0) {
            return is_there;
        }
    }
    return false;
}

enum rc fib_slot_value(const struct fib *f, const struct fib_slot *slot,
                       struct buf *ret_value)
{
    struct nc_value nc;

    if (slot->table == TABLE_VNI) {
        if (!slot->is_known) {
            return RC_NOT_FOUND;
        }
        buf_u8(ret_value, (uint8_t)slot->code);
        buf_u8(ret_value, VNI_HALF_0);
        return RC_OK;
    }
    if (slot->table == TABLE_VNI_CLUSTER) {
        return cluster_pack_sound(f, slot->code, ret_value);
    }
    if (!nc_is_sound(f, slot->code)) {
        return RC_NOT_FOUND;
    }
    nc = nc_decode(f, slot->code);
    nc_pack(&nc, ret_value);
    return RC_OK;
}
