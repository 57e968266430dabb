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

void fib_batch_begin(const struct fib *f, struct fib_batch *b)
{
    (void)f;
    /* Spoils the answers, so that nobody reads one before its end. */
    memset(&b->plain_count, 0xa5, sizeof(*b) - offsetof(struct fib_batch, plain_count));
    assert(b->v4.count + b->v6.count <= FIB_BURST_MAX);
    b->v4.begun = b->v4.count;
    b->v6.begun = b->v6.count;
    b->seen = 1;
}

/* Plain ones are told as such after the probe, at the end, or as others, by their tag,
 * so that all ways of telling it are read. */
static void answer(const struct fib *f, struct fib_batch *b, uint8_t tag,
                   const struct fib_query *asked, bool is_end)
{
    struct fib_query q = *asked;
    bool is_plain;

    resolve(f, &q);
    is_plain = q.kind == FIB_LOCAL && !q.vni_changed && q.addr_family == IP_V4 &&
               !q.has_mac && tag % 3 != 0;
    if (is_end != !(is_plain && tag % 3 == 1)) {
        return; /* not now */
    }
    if (is_plain) {
        memcpy(&b->plain_nc[b->plain_count], q.addr, 4);
        b->plain[b->plain_count++] = tag;
        return;
    }
    b->query[b->other_count] = q;
    b->other[b->other_count++] = tag;
}

static void store_be64(uint8_t *to, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++) {
        to[i] = (uint8_t)(v >> (56 - 8 * i));
    }
}

static void answer_all(const struct fib *f, struct fib_batch *b, bool is_end)
{
    struct fib_query q = { 0 };

    for (unsigned i = 0; i < b->v4.count; i++) {
        q.family = IP_V4;
        q.vni = (uint32_t)b->v4.hi[i];
        memset(q.dst, 0, 16);
        store_be64(q.dst, b->v4.hi[i] >> 32 << 32);
        answer(f, b, b->v4.tag[i], &q, is_end);
    }
    for (unsigned i = 0; i < b->v6.count; i++) {
        q.family = IP_V6;
        q.vni = b->v6.vni[i];
        store_be64(q.dst, b->v6.hi[i]);
        store_be64(q.dst + 8, b->v6.lo[i]);
        answer(f, b, b->v6.tag[i], &q, is_end);
    }
}

void fib_batch_probe(const struct fib *f, struct fib_batch *b)
{
    assert(b->seen == 1);
    assert(b->v4.begun == b->v4.count && b->v6.begun == b->v6.count);
    b->seen = 2;
    b->plain_count = b->other_count = 0;
    answer_all(f, b, false);
}

void fib_batch_step(const struct fib *f, struct fib_batch *b)
{
    (void)f;
    assert(b->seen == 2);
    b->seen = 3;
}

void fib_batch_end(const struct fib *f, struct fib_batch *b)
{
    assert(b->seen == 3);
    b->seen = 4;
    answer_all(f, b, true);
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        resolve(f, &q[i]);
    }
}
