/*
 * One query: what codes and actions mean in an answer, and the complete way through the
 * tables, slow and in order.  Batches (fib_batch.c) take it where they meet a change.
 */
#include "agent/fwd/fib_impl.h"

struct lpm_addr fib_query_address(const struct fib_query *q)
{
    uint64_t hi;
    uint64_t lo;

    memcpy(&hi, q->dst, 8);
    memcpy(&lo, q->dst + 8, 8);
    hi = __builtin_bswap64(hi);
    if (q->family != IP_V6) {
        return (struct lpm_addr){ hi >> 32 << 32, 0 };
    }
    return (struct lpm_addr){ hi, __builtin_bswap64(lo) };
}

static void answer_pooled(const struct fib *f, struct fib_query *q, uint32_t code)
{
    const struct nc_value *v = pool_value(&f->ncs, code & NC_INDEX_MASK);

    memcpy(q->addr, v->addr, sizeof q->addr);
    q->addr_family = v->family;
    q->has_mac = v->has_mac;
    memcpy(q->mac, v->mac, sizeof q->mac);
}

void fib_answer_local(const struct fib *f, struct fib_query *q, uint32_t code)
{
    uint64_t addr[2] = { __builtin_bswap32(code), 0 };

    q->kind = FIB_LOCAL;
    if (__builtin_expect((code & NC_POOLED_MASK) == NC_POOLED, 0)) {
        answer_pooled(f, q, code);
        return;
    }
    q->addr_family = IP_V4;
    q->has_mac = 0;
    memcpy(q->addr, addr, sizeof addr);
}

void fib_answer_final(const struct fib *f, struct fib_query *q, uint32_t action)
{
    const struct tunnel_value *t;

    switch (action >> 24) {
    case ACTION_TUNNEL:
        t = pool_value(&f->tunnels, action & ACTION_PAYLOAD);
        q->kind = FIB_TUNNEL;
        q->scope = t->scope;
        q->out_vni = t->vni;
        q->vni_changed = q->out_vni != q->vni;
        q->addr_family = t->family;
        q->has_mac = 0;
        memcpy(q->addr, t->addr, sizeof q->addr);
        return;
    case ACTION_SERVICE:
        q->kind = FIB_SERVICE;
        q->scope = SCOPE_SERVICE;
        q->service = action & ACTION_PAYLOAD;
        return;
    default:
        break;
    }
    if (action == ACTION_INTERNET) {
        q->kind = FIB_INTERNET;
        q->scope = SCOPE_INTERNET;
    } else {
        q->kind = FIB_DROP_ROUTE_MISS;
        q->scope = 0;
    }
}

void fib_resolve_complete(const struct fib *f, struct fib_query *q)
{
    bool is_v6 = q->family == IP_V6;
    struct lpm_addr a = fib_query_address(q);
    uint32_t vni = q->vni & VNI_MAX;
    uint64_t slot = slot_find(f, vni, is_v6);
    uint64_t known = slot || !is_v6 ? slot : slot_find(f, vni, false);

    q->out_vni = vni;
    q->vni_changed = 0;
    q->scope = 0;
    q->lookups = 0;
    q->vni_flags = 0;
    if (!(known & SLOT_KNOWN)) {
        q->kind = FIB_DROP_VNI_UNKNOWN;
        return;
    }
    q->vni_flags = slot_flags(known);
    for (;;) {
        uint32_t action = slot ? lpm_lookup(f->lines.base, slot, a) : ACTION_NONE;
        struct exact_entry key;
        uint64_t code;

        q->lookups++;
        if (action == ACTION_LOCAL) {
            q->scope = SCOPE_LOCAL;
            key =
                vm_entry(q->out_vni, &(struct fib_key){ .addr = a, .is_v6 = is_v6 }, 0);
            if (exact_find(is_v6 ? &f->v6 : &f->v4, &key, &code)) {
                fib_answer_local(f, q, (uint32_t)code);
            } else {
                q->kind = FIB_DROP_VM_NC_MISS;
            }
            return;
        }
        if (action >> 24 != ACTION_PEER) {
            fib_answer_final(f, q, action);
            return;
        }
        q->scope = SCOPE_PEER;
        if (q->lookups == FIB_LOOKUPS_MAX) {
            q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
            return;
        }
        q->out_vni = action & ACTION_PAYLOAD;
        q->vni_changed = q->out_vni != q->vni;
        slot = slot_find(f, q->out_vni, is_v6);
    }
}
