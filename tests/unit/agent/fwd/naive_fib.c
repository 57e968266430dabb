#include "tests/unit/agent/fwd/naive_fib.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct fib {
    const struct entry *entries;
    unsigned count;
};

struct fib *naive_fib_new(const struct entry *entries, unsigned count)
{
    struct fib *f = malloc(sizeof(*f));

    if (f != NULL) {
        f->entries = entries;
        f->count = count;
    }
    return f;
}

void naive_fib_free(struct fib *f)
{
    free(f);
}

static const struct entry *find_vni(const struct fib *f, uint32_t vni)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (f->entries[i].table == TABLE_VNI && f->entries[i].vni == vni) {
            return &f->entries[i];
        }
    }
    return NULL;
}

static const struct route_action *find_route(const struct fib *f, uint32_t vni,
                                             const struct ip *dst)
{
    const struct entry *best = NULL;

    for (unsigned i = 0; i < f->count; i++) {
        const struct entry *e = &f->entries[i];

        if (e->table == TABLE_VXLAN_ROUTE && e->vni == vni &&
            prefix_contains(&e->route.dst, dst) &&
            (best == NULL || e->route.dst.len > best->route.dst.len)) {
            best = e;
        }
    }
    return best == NULL ? NULL : &best->route.action;
}

static const struct entry *find_vm(const struct fib *f, uint32_t vni,
                                   const struct ip *dst)
{
    for (unsigned i = 0; i < f->count; i++) {
        const struct entry *e = &f->entries[i];

        if (e->table == TABLE_VM_NC && e->vni == vni &&
            ip_compare(&e->vm_nc.vm, dst) == 0) {
            return e;
        }
    }
    return NULL;
}

static void set_address(struct fib_query *q, const struct ip *ip)
{
    q->addr_family = ip->family;
    memcpy(q->addr, ip->b, 16);
}

static void answer_local(const struct fib *f, struct fib_query *q, const struct ip *dst)
{
    const struct entry *vm = find_vm(f, q->out_vni, dst);

    if (vm == NULL) {
        q->kind = FIB_DROP_VM_NC_MISS;
        return;
    }
    q->kind = FIB_LOCAL;
    set_address(q, &vm->vm_nc.nc);
    q->has_mac = vm->vm_nc.has_mac;
    memcpy(q->mac, vm->vm_nc.mac, 6);
}

static void answer_route(const struct fib *f, struct fib_query *q,
                         const struct route_action *a, const struct ip *dst)
{
    q->scope = a->scope;
    switch ((enum route_scope)a->scope) {
    case SCOPE_LOCAL:
        answer_local(f, q, dst);
        break;
    case SCOPE_IDC:
    case SCOPE_REGION:
    case SCOPE_DERIVED:
        q->kind = FIB_TUNNEL;
        q->out_vni = a->vni;
        set_address(q, &a->endpoint);
        break;
    case SCOPE_INTERNET:
        q->kind = FIB_INTERNET;
        break;
    case SCOPE_SERVICE:
        q->kind = FIB_SERVICE;
        break;
    case SCOPE_PEER:
    case SCOPE_FALLBACK: /* no route of this kind of node */
    case SCOPE_COUNT:
        q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
        break;
    }
}

static void resolve(const struct fib *f, struct fib_query *q)
{
    const struct entry *row = find_vni(f, q->vni);
    struct ip dst = { .family = q->family };
    const struct route_action *a = NULL;

    memcpy(dst.b, q->dst, ip_size(&dst));
    q->out_vni = q->vni;
    q->vni_flags = row == NULL ? 0 : row->vni_row.flags;
    q->lookups = 0;
    q->scope = 0;
    q->vni_changed = 0;
    q->has_mac = 0;
    if (row == NULL) {
        q->kind = FIB_DROP_VNI_UNKNOWN;
        return;
    }
    while (q->lookups < FIB_LOOKUPS_MAX) {
        a = find_route(f, q->out_vni, &dst);
        q->lookups++;
        if (a == NULL || a->scope != SCOPE_PEER || q->lookups == FIB_LOOKUPS_MAX) {
            break;
        }
        q->out_vni = a->vni;
    }
    if (a == NULL) {
        q->kind = FIB_DROP_ROUTE_MISS;
    } else {
        answer_route(f, q, a, &dst);
    }
    q->vni_changed = q->out_vni != q->vni;
}

void fib_resolve_begin(const struct fib *f, struct fib_query q[],
                       const struct fib_split *split)
{
    (void)f;
    /* Spoils the answers, so that nobody reads one before its end. */
    for (unsigned i = 0; i < split->v4_count + split->v6_count; i++) {
        memset(&q[i].kind, 0xa5, sizeof(q[i]) - offsetof(struct fib_query, kind));
    }
}

/* Each place stands in the list of its family, and in no other. */
static void check_split(const struct fib_query q[], const uint8_t *at, unsigned count,
                        uint8_t family)
{
    for (unsigned i = 0; i < count; i++) {
        assert(q[at[i]].family == family);
        assert(i == 0 || at[i - 1] < at[i]);
    }
}

void fib_resolve_end(const struct fib *f, struct fib_query q[],
                     const struct fib_split *split)
{
    check_split(q, split->v4, split->v4_count, IP_V4);
    check_split(q, split->v6, split->v6_count, IP_V6);
    for (unsigned i = 0; i < split->v4_count + split->v6_count; i++) {
        resolve(f, &q[i]);
    }
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        resolve(f, &q[i]);
    }
}
