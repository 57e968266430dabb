/* Read-back: what a packet would find, as packed values. */
#include <stdlib.h>

#include "agent/fwd/fib_impl.h"

/* A code that no value stands behind must not be followed: it is as good as none. */
bool nc_is_sound(const struct fib *f, uint32_t code)
{
    return (code & NC_POOLED_MASK) != NC_POOLED || (code & NC_INDEX_MASK) < f->ncs.top;
}

enum rc action_pack_sound(const struct fib *f, uint32_t action, struct buf *to)
{
    uint32_t payload = action & ACTION_PAYLOAD;
    unsigned kind = action >> 24;
    bool is_sound = kind == ACTION_TUNNEL    ? payload < f->tunnels.top
                    : kind == ACTION_SERVICE ? payload < f->services.top
                    : kind == ACTION_PLAIN
                        ? payload == ACTION_LOCAL || payload == ACTION_INTERNET
                        : kind == ACTION_PEER && payload != 0;

    if (!is_sound) {
        return RC_NOT_FOUND;
    }
    action_pack(f, action, to);
    return RC_OK;
}

enum rc cluster_pack_sound(const struct fib *f, uint32_t cluster, struct buf *to)
{
    const char *name;

    if (cluster >= f->cluster_names.top) {
        return RC_NOT_FOUND;
    }
    name = fib_cluster_name(f, cluster);
    buf_u8(to, (uint8_t)strlen(name));
    buf_text(to, name);
    return RC_OK;
}

static uint32_t route_lookup(const struct fib *f, uint32_t vni, const struct fib_key *k)
{
    uint64_t slot = slot_find(f, vni, k->is_v6);

    return slot ? lpm_lookup(f->lines.base, slot, k->addr) : ACTION_NONE;
}

static bool vm_lookup(const struct fib *f, uint32_t vni, const struct fib_key *k,
                      uint32_t *ret_code)
{
    struct exact_entry key = vm_entry(vni, k, 0);
    uint64_t got;

    if (!vni || !exact_find(k->is_v6 ? &f->v6 : &f->v4, &key, &got)) {
        return false;
    }
    *ret_code = (uint32_t)got;
    return true;
}

enum rc fib_get(const struct fib *f, enum table_id table, uint32_t vni,
                const uint8_t *key, uint8_t key_len, struct buf *ret_value)
{
    struct fib_key k;
    struct nc_value nc;
    uint64_t slot;
    uint32_t code;

    switch (table) {
    case TABLE_VNI:
        slot = slot_find(f, vni, false);
        if (!(slot & SLOT_KNOWN)) {
            return RC_NOT_FOUND;
        }
        buf_u8(ret_value, slot_flags(slot));
        buf_u8(ret_value, VNI_HALF_0);
        return RC_OK;
    case TABLE_VXLAN_ROUTE:
        if (route_key_parse(key, key_len, &k)) {
            return RC_INVALID;
        }
        code = route_lookup(f, vni, &k);
        if (code == ACTION_NONE) {
            return RC_NOT_FOUND;
        }
        return action_pack_sound(f, code, ret_value);
    case TABLE_VM_NC:
        if (vm_key_parse(key, key_len, &k)) {
            return RC_INVALID;
        }
        if (!vm_lookup(f, vni, &k, &code)) {
            return RC_NOT_FOUND;
        }
        if (!nc_is_sound(f, code)) {
            return RC_NOT_FOUND;
        }
        nc = nc_decode(f, code);
        nc_pack(&nc, ret_value);
        return RC_OK;
    case TABLE_VNI_CLUSTER:
        code = fib_cluster_of(f, vni);
        if (code == FIB_CLUSTER_NONE) {
            return RC_NOT_FOUND;
        }
        return cluster_pack_sound(f, code, ret_value);
    default:
        return RC_INVALID;
    }
}

/* ---- one row ---- */

static bool holds_vni(const struct fib *f, uint32_t vni, const struct row *row)
{
    uint64_t v4 = slot_find(f, vni, false);
    uint64_t v6 = slot_find(f, vni, true);

    return row->value_len == 2 && row->value[1] == VNI_HALF_0 && (v4 & SLOT_KNOWN) &&
           slot_flags(v4) == row->value[0] &&
           (v6 == 0 || ((v6 & SLOT_KNOWN) && slot_flags(v6) == row->value[0]));
}

static bool holds_vm(const struct fib *f, uint32_t vni, const struct row *row)
{
    struct nc_value want;
    struct nc_value got;
    struct exact_entry key;
    struct fib_key k;
    uint32_t code;

    if (vm_key_parse(row->key, row->key_len, &k) || nc_parse(row, &want) ||
        !vm_lookup(f, vni, &k, &code) || !nc_is_sound(f, code)) {
        return false;
    }
    key = vm_entry(vni, &k, 0);
    if (exact_is_marked(k.is_v6 ? &f->v6 : &f->v4, &key) !=
        mark_is_due(f, slot_find(f, vni, k.is_v6), &k)) {
        return false;
    }
    got = nc_decode(f, code);
    return memcmp(&got, &want, sizeof(got)) == 0;
}

static bool holds_cluster(const struct fib *f, uint32_t vni, const struct row *row)
{
    uint32_t cluster = fib_cluster_of(f, vni);
    const char *name =
        cluster < f->cluster_names.top ? fib_cluster_name(f, cluster) : "";

    return row->value_len > 1 && strlen(name) == row->value[0] &&
           memcmp(name, row->value + 1, row->value[0]) == 0;
}

bool fib_holds(const struct fib *f, enum table_id table, uint32_t vni,
               const struct row *row)
{
    switch (table) {
    case TABLE_VNI:
        return holds_vni(f, vni, row);
    case TABLE_VM_NC:
        return holds_vm(f, vni, row);
    case TABLE_VNI_CLUSTER:
        return holds_cluster(f, vni, row);
    default:
        return false;
    }
}
