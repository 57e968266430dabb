/*
 * The workers' side: a burst goes through the lookups in stages, each of which touches
 * lines that the stage before asked for, so their misses overlap.
 *
 *   begin     hash; ask for the VNI bucket and, on the guess that the route will say
 *             local, for the VM-NC bucket
 *   slots     VNI bucket → slot; ask for the route line or the tree's head
 *   routes    lines are compared; trees go down level by level, all queries together
 *   actions   local → VM-NC bucket; peers are collected and go round again, at most
 *             FIB_LOOKUPS_MAX times
 *
 * What does not find its place at once (second bucket, a bucket that changed while it
 * was read) takes the slow but complete exact_find().  An answer that drops is given
 * only if no route changed meanwhile: else a query could meet an old route and a new
 * VM-NC table, or the two halves of a peer chain of different ages, and fall into a
 * hole that never was.
 */
#include "agent/fwd/fib_impl.h"

enum { REDO_MAX = 8 }; /* times that a drop is looked at again under a busy writer */

struct burst {
    const struct fib *f;
    struct fib_query *q;
    struct lpm_addr addr[FIB_BURST_MAX];
    uint64_t slot[FIB_BURST_MAX];
    uint32_t vni[FIB_BURST_MAX]; /* current */
    uint32_t action[FIB_BURST_MAX];
};

/* Indexes into the burst. */
struct work {
    unsigned n;
    uint8_t at[FIB_BURST_MAX];
};

static void work_add(struct work *w, unsigned i)
{
    w->at[w->n++] = (uint8_t)i;
}

static inline void prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

static inline struct lpm_addr addr_load(const struct fib_query *q)
{
    uint64_t hi;
    uint64_t lo;

    memcpy(&hi, q->dst, 8);
    memcpy(&lo, q->dst + 8, 8);
    hi = __builtin_bswap64(hi);
    lo = __builtin_bswap64(lo);
    if (q->family == IP_V4) {
        return (struct lpm_addr){ hi >> 32 << 32, 0 };
    }
    return (struct lpm_addr){ hi, lo };
}

static inline struct exact_entry vm_key(uint32_t vni, bool is_v6, struct lpm_addr a)
{
    struct fib_key k = { .addr = a, .is_v6 = is_v6 };

    return vm_entry(vni, &k, 0);
}

static inline uint64_t vm_hash(const struct fib *f, uint32_t vni, bool is_v6,
                               struct lpm_addr a)
{
    return is_v6 ? exact_hash_v6(&f->v6, a.hi, a.lo, vni)
                 : exact_hash1(&f->v4, a.hi | vni);
}

/* Asks for the two buckets that (vni, address) leads to. */
static inline void start(const struct fib *f, struct fib_query *q, uint32_t vni,
                         struct lpm_addr a)
{
    bool is_v6 = q->family == IP_V6;
    const void *vni_bucket =
        exact_home(&f->vni, exact_hash1(&f->vni, slot_key(vni, is_v6)));
    const void *vm_bucket =
        exact_home(is_v6 ? &f->v6 : &f->v4, vm_hash(f, vni, is_v6, a));

    prefetch(vni_bucket);
    prefetch(vm_bucket);
    q->scratch[0] = (uint64_t)(uintptr_t)vni_bucket;
    q->scratch[1] = (uint64_t)(uintptr_t)vm_bucket;
}

void fib_resolve_begin(const struct fib *f, struct fib_query q[], unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        start(f, &q[i], q[i].vni & VNI_MAX, addr_load(&q[i]));
    }
}

/* ---- answers ---- */

static void answer_local(const struct fib *f, struct fib_query *q, uint32_t code)
{
    q->kind = FIB_LOCAL;
    if (__builtin_expect((code & NC_POOLED_MASK) != NC_POOLED, 1)) {
        q->addr_family = IP_V4;
        q->has_mac = 0;
        q->scratch[0] = __builtin_bswap32(code);
        q->scratch[1] = 0;
        return;
    }
    const struct nc_value *v = pool_value(&f->ncs, code & NC_INDEX_MASK);

    memcpy(q->addr, v->addr, sizeof q->addr);
    q->addr_family = v->family;
    q->has_mac = v->has_mac;
    memcpy(q->mac, v->mac, sizeof q->mac);
}

/* An action that ends the way without VM-NC. */
static void answer_final(const struct fib *f, struct fib_query *q, uint32_t action)
{
    const struct tunnel_value *t;

    switch (action >> 24) {
    case ACTION_TUNNEL:
        t = pool_value(&f->tunnels, action & ACTION_PAYLOAD);
        q->kind = FIB_TUNNEL;
        q->scope = t->scope;
        q->out_vni = t->vni;
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

/* ---- one query, the complete way ---- */

static void resolve_once(const struct fib *f, struct fib_query *q)
{
    bool is_v6 = q->family == IP_V6;
    struct lpm_addr a = addr_load(q);
    uint32_t vni = q->vni & VNI_MAX;
    uint64_t slot = slot_find(f, vni, is_v6);
    uint64_t known = slot || !is_v6 ? slot : slot_find(f, vni, false);

    q->out_vni = vni;
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
            key = vm_key(q->out_vni, is_v6, a);
            if (exact_find(is_v6 ? &f->v6 : &f->v4, &key, &code)) {
                answer_local(f, q, (uint32_t)code);
            } else {
                q->kind = FIB_DROP_VM_NC_MISS;
            }
            return;
        }
        if (action >> 24 != ACTION_PEER) {
            answer_final(f, q, action);
            return;
        }
        q->scope = SCOPE_PEER;
        if (q->lookups == FIB_LOOKUPS_MAX) {
            q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
            return;
        }
        q->out_vni = action & ACTION_PAYLOAD;
        slot = slot_find(f, q->out_vni, is_v6);
    }
}

/* ---- stages ---- */

/* Slot of the current VNI, 0 if none; asks for what it points to. */
static inline void stage_slot(struct burst *b, unsigned i)
{
    const struct fib *f = b->f;
    struct fib_query *q = &b->q[i];
    uint64_t key = slot_key(b->vni[i], q->family == IP_V6);
    uint64_t slot = 0;
    uint32_t hdr;

    if (exact_scan_vni((const void *)(uintptr_t)q->scratch[0], key, &hdr, &slot) <= 0) {
        slot = slot_find(f, b->vni[i], q->family == IP_V6);
    }
    b->slot[i] = slot;
    if (slot_kind(slot) != LPM_NONE) {
        const uint8_t *at = f->lines.base + (uint64_t)slot_line(slot) * LINE_BYTES;

        prefetch(at);
        if (slot_kind(slot) != LPM_LINE) {
            prefetch(at + LINE_BYTES);
        }
    }
}

/* The arriving VNI: is it known?  False ends the query's way. */
static inline bool stage_vni(struct burst *b, unsigned i)
{
    struct fib_query *q = &b->q[i];
    uint64_t known = b->slot[i];

    if (__builtin_expect(!known && q->family == IP_V6, 0)) {
        known = slot_find(b->f, b->vni[i], false);
    }
    q->out_vni = b->vni[i];
    q->scope = 0;
    if (__builtin_expect(!(known & SLOT_KNOWN), 0)) {
        q->kind = FIB_DROP_VNI_UNKNOWN;
        q->lookups = 0;
        q->vni_flags = 0;
        return false;
    }
    q->vni_flags = slot_flags(known);
    q->lookups = 1;
    return true;
}

static inline const struct lpm_tree *tree_of(const struct burst *b, unsigned i)
{
    return (const void *)(b->f->lines.base +
                          (uint64_t)slot_line(b->slot[i]) * LINE_BYTES);
}

/* All trees of the burst, a level a round. */
static void stage_trees(struct burst *b, struct work *w)
{
    uint32_t node[FIB_BURST_MAX];

    for (unsigned k = 0; k < w->n; k++) {
        node[k] = 1;
    }
    for (unsigned level = 0; w->n > 0; level++) {
        unsigned left = 0;

        for (unsigned k = 0; k < w->n; k++) {
            unsigned i = w->at[k];
            const struct lpm_tree *t = tree_of(b, i);
            unsigned kind = slot_kind(b->slot[i]);
            bool is_v6 = (b->slot[i] & SLOT_V6) != 0;

            if (level + 1 == t->levels) {
                b->action[i] = tree_leaf(t, kind, is_v6, node[k], b->addr[i]);
                continue;
            }
            node[left] = tree_step(t, kind, is_v6, level, node[k], b->addr[i]);
            prefetch((const uint8_t *)t + (uint64_t)node[left] * LINE_BYTES);
            w->at[left++] = (uint8_t)i;
        }
        w->n = left;
    }
}

static void stage_routes(struct burst *b, const struct work *w)
{
    struct work trees = { 0 };

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        const void *at = tree_of(b, i);

        switch (slot_kind(b->slot[i])) {
        case LPM_LINE:
            b->action[i] = b->slot[i] & SLOT_V6
                               ? lpm_line6_find(at, b->addr[i].hi)
                               : lpm_line4_find(at, (uint32_t)(b->addr[i].hi >> 32));
            break;
        case LPM_NONE:
            b->action[i] = ACTION_NONE;
            break;
        default:
            work_add(&trees, i);
        }
    }
    stage_trees(b, &trees);
}

/* VM-NC in the bucket that begin asked for; what is not there waits for its second. */
static void stage_vm(struct burst *b, const struct work *w)
{
    const struct fib *f = b->f;
    struct work second = { 0 };

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        struct fib_query *q = &b->q[i];
        struct lpm_addr a = b->addr[i];
        const void *bucket = (const void *)(uintptr_t)q->scratch[1];
        bool is_v6 = q->family == IP_V6;
        uint32_t hdr;
        uint64_t code;
        int hit = is_v6 ? exact_scan_v6(bucket, a.hi, a.lo, b->vni[i], &hdr, &code)
                        : exact_scan_v4(bucket, a.hi | b->vni[i], &hdr, &code);

        q->scope = SCOPE_LOCAL;
        if (__builtin_expect(hit > 0, 1)) {
            answer_local(f, q, (uint32_t)code);
        } else {
            prefetch(
                exact_away(is_v6 ? &f->v6 : &f->v4, vm_hash(f, b->vni[i], is_v6, a)));
            work_add(&second, i);
        }
    }
    for (unsigned k = 0; k < second.n; k++) {
        unsigned i = second.at[k];
        struct fib_query *q = &b->q[i];
        bool is_v6 = q->family == IP_V6;
        struct exact_entry key = vm_key(b->vni[i], is_v6, b->addr[i]);
        uint64_t code;

        if (exact_find(is_v6 ? &f->v6 : &f->v4, &key, &code)) {
            answer_local(f, q, (uint32_t)code);
        } else {
            q->kind = FIB_DROP_VM_NC_MISS;
        }
    }
}

/* Sorts by action: VM-NC, final, or another turn in the peer's VNI, which stays in
 * `w`. */
static void stage_actions(struct burst *b, struct work *w)
{
    struct work local = { 0 };
    unsigned left = 0;

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        struct fib_query *q = &b->q[i];
        uint32_t action = b->action[i];

        if (action == ACTION_LOCAL) {
            work_add(&local, i);
        } else if (action >> 24 != ACTION_PEER) {
            answer_final(b->f, q, action);
        } else if (q->lookups == FIB_LOOKUPS_MAX) {
            q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
            q->scope = SCOPE_PEER;
        } else {
            b->vni[i] = q->out_vni = action & ACTION_PAYLOAD;
            q->lookups++;
            start(b->f, q, b->vni[i], b->addr[i]);
            w->at[left++] = (uint8_t)i;
        }
    }
    stage_vm(b, &local);
    w->n = left;
}

static void redo_drop(const struct fib *f, struct fib_query *q, uint64_t seen)
{
    for (unsigned tries = 0; tries < REDO_MAX && q->kind < FIB_LOCAL; tries++) {
        uint64_t now = atomic_load_explicit(&f->changes, memory_order_acquire);

        if (now == seen) {
            return;
        }
        seen = now;
        resolve_once(f, q);
    }
}

void fib_resolve_end(const struct fib *f, struct fib_query q[], unsigned n)
{
    struct burst b;
    struct work w = { 0 };
    uint64_t seen = atomic_load_explicit(&f->changes, memory_order_acquire);

    b.f = f;
    b.q = q;
    for (unsigned i = 0; i < n; i++) {
        b.vni[i] = q[i].vni & VNI_MAX;
        b.addr[i] = addr_load(&q[i]);
        stage_slot(&b, i);
        if (stage_vni(&b, i)) {
            work_add(&w, i);
        }
    }
    for (;;) {
        stage_routes(&b, &w);
        stage_actions(&b, &w);
        if (w.n == 0) {
            break;
        }
        for (unsigned k = 0; k < w.n; k++) {
            stage_slot(&b, w.at[k]);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        q[i].vni_changed = q[i].out_vni != q[i].vni;
        if (__builtin_expect(q[i].kind < FIB_LOCAL, 0)) {
            redo_drop(f, &q[i], seen);
            q[i].vni_changed = q[i].out_vni != q[i].vni;
        }
    }
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    fib_resolve_begin(f, q, n);
    fib_resolve_end(f, q, n);
}
