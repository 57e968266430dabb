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

/* Indexes into the burst.  Lists are filled without branches: the place past the end
 * is always written and counts only if the condition holds.  What a packet needs is as
 * good as random to the branch predictor, and a wrong guess costs more than the work.
 */
struct work {
    unsigned n;
    uint8_t at[FIB_BURST_MAX + 1];
};

static inline void work_add(struct work *w, unsigned i, bool is_in)
{
    w->at[w->n] = (uint8_t)i;
    w->n += is_in;
}

static inline void prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

static inline struct lpm_addr addr_load(const struct fib_query *q)
{
    uint64_t v6 = q->family == IP_V6 ? UINT64_MAX : 0; /* a mask, not a branch */
    uint64_t hi;
    uint64_t lo;

    memcpy(&hi, q->dst, 8);
    memcpy(&lo, q->dst + 8, 8);
    return (struct lpm_addr){ __builtin_bswap64(hi) & (v6 | UINT64_C(0xffffffff) << 32),
                              __builtin_bswap64(lo) & v6 };
}

static inline struct exact_entry vm_key(uint32_t vni, bool is_v6, struct lpm_addr a)
{
    struct fib_key k = { .addr = a, .is_v6 = is_v6 };

    return vm_entry(vni, &k, 0);
}

static inline const struct exact *vm_table(const struct fib *f, bool is_v6)
{
    return is_v6 ? &f->v6 : &f->v4;
}

static inline uint64_t vm_hash(const struct fib *f, uint32_t vni, bool is_v6,
                               struct lpm_addr a)
{
    return is_v6 ? exact_hash_v6(&f->v6, a.hi, a.lo, vni)
                 : exact_hash1(&f->v4, a.hi | vni);
}

static inline uint64_t vni_hash(const struct fib *f, uint32_t vni, bool is_v6)
{
    return exact_hash1(&f->vni, slot_key(vni, is_v6));
}

/* Asks for the two buckets that (vni, address) leads to. */
static inline void start(const struct fib *f, struct fib_query *q, uint32_t vni,
                         bool is_v6, struct lpm_addr a)
{
    const void *vni_bucket = exact_home(&f->vni, vni_hash(f, vni, is_v6));
    const void *vm_bucket = exact_home(vm_table(f, is_v6), vm_hash(f, vni, is_v6, a));

    prefetch(vni_bucket);
    prefetch(vm_bucket);
    q->scratch[0] = (uint64_t)(uintptr_t)vni_bucket;
    q->scratch[1] = (uint64_t)(uintptr_t)vm_bucket;
}

/* By family: [0] IPv4, [1] IPv6. */
static inline void sort_families(const struct fib_query q[], unsigned n,
                                 struct work ret[2])
{
    ret[0].n = ret[1].n = 0;
    for (unsigned i = 0; i < n; i++) {
        bool is_v6 = q[i].family == IP_V6;

        work_add(&ret[0], i, !is_v6);
        work_add(&ret[1], i, is_v6);
    }
}

void fib_resolve_begin(const struct fib *f, struct fib_query q[], unsigned n)
{
    struct work family[2];

    sort_families(q, n, family);
    for (unsigned k = 0; k < family[0].n; k++) {
        struct fib_query *x = &q[family[0].at[k]];

        start(f, x, x->vni & VNI_MAX, false, addr_load(x));
    }
    for (unsigned k = 0; k < family[1].n; k++) {
        struct fib_query *x = &q[family[1].at[k]];

        start(f, x, x->vni & VNI_MAX, true, addr_load(x));
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

/* ---- stages; `is_v6` is a constant at every call ---- */

#define STAGE static inline __attribute__((always_inline)) void

/* Asks for what a slot points to. */
static inline void slot_prefetch(const struct fib *f, uint64_t slot)
{
    const uint8_t *at = f->lines.base + (uint64_t)slot_line(slot) * LINE_BYTES;

    prefetch(at);
    if (slot_kind(slot) > LPM_LINE) {
        prefetch(at + LINE_BYTES); /* the root behind the tree's head */
    }
}

/* Slots of the current VNIs, 0 if there is none. */
STAGE stage_slots(struct burst *b, const struct work *w, const bool is_v6)
{
    const struct fib *f = b->f;
    struct work second = { .n = 0 };

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        uint64_t slot = 0;
        uint32_t hdr;
        int hit = exact_scan_vni((const void *)(uintptr_t)b->q[i].scratch[0],
                                 slot_key(b->vni[i], is_v6), &hdr, &slot);

        b->slot[i] = slot;
        if (__builtin_expect(hit > 0, 1)) {
            slot_prefetch(f, slot);
        } else {
            prefetch(exact_away(&f->vni, vni_hash(f, b->vni[i], is_v6)));
            work_add(&second, i, true);
        }
    }
    for (unsigned k = 0; k < second.n; k++) {
        unsigned i = second.at[k];

        b->slot[i] = slot_find(f, b->vni[i], is_v6);
        slot_prefetch(f, b->slot[i]);
    }
}

/* The arriving VNIs: those that are not known end here. */
STAGE stage_vnis(struct burst *b, struct work *w, const bool is_v6)
{
    unsigned left = 0;

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        struct fib_query *q = &b->q[i];
        uint64_t known = b->slot[i];
        bool is_known;

        if (is_v6 && __builtin_expect(!known, 0)) {
            known = slot_find(b->f, b->vni[i], false);
        }
        is_known = (known & SLOT_KNOWN) != 0;
        q->kind = FIB_DROP_VNI_UNKNOWN;
        q->out_vni = b->vni[i];
        q->scope = 0;
        q->lookups = is_known;
        q->vni_flags = is_known ? slot_flags(known) : 0;
        w->at[left] = (uint8_t)i;
        left += is_known;
    }
    w->n = left;
}

static inline const void *slot_at(const struct burst *b, unsigned i)
{
    return b->f->lines.base + (uint64_t)slot_line(b->slot[i]) * LINE_BYTES;
}

/* All trees of the list, a level a round. */
STAGE stage_trees(struct burst *b, struct work *w, const bool is_v6)
{
    const struct lpm_tree *tree[FIB_BURST_MAX];
    uint32_t node[FIB_BURST_MAX];

    for (unsigned k = 0; k < w->n; k++) {
        tree[k] = slot_at(b, w->at[k]);
        node[k] = 1;
    }
    for (unsigned level = 0; w->n > 0; level++) {
        unsigned left = 0;

        for (unsigned k = 0; k < w->n; k++) {
            unsigned i = w->at[k];
            const struct lpm_tree *t = tree[k];
            unsigned kind = is_v6 ? slot_kind(b->slot[i]) : LPM_TREE;
            uint32_t at = node[k];

            if (level + 1 == t->levels) {
                b->action[i] = tree_leaf(t, kind, is_v6, at, b->addr[i]);
                continue;
            }
            at = tree_step(t, kind, is_v6, level, at, b->addr[i]);
            prefetch((const uint8_t *)t + (uint64_t)at * LINE_BYTES);
            tree[left] = t;
            node[left] = at;
            w->at[left++] = (uint8_t)i;
        }
        w->n = left;
    }
}

STAGE stage_routes(struct burst *b, const struct work *w, const bool is_v6)
{
    struct work lines = { .n = 0 };
    struct work trees = { .n = 0 };

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        unsigned kind = slot_kind(b->slot[i]);

        b->action[i] = ACTION_NONE; /* stays for LPM_NONE */
        work_add(&lines, i, kind == LPM_LINE);
        work_add(&trees, i, kind > LPM_LINE);
    }
    for (unsigned k = 0; k < lines.n; k++) {
        unsigned i = lines.at[k];

        b->action[i] =
            is_v6 ? lpm_line6_find(slot_at(b, i), b->addr[i].hi)
                  : lpm_line4_find(slot_at(b, i), (uint32_t)(b->addr[i].hi >> 32));
    }
    stage_trees(b, &trees, is_v6);
}

/* VM-NC in the bucket that begin asked for; what is not there waits for its second. */
STAGE stage_vms(struct burst *b, const struct work *w, const bool is_v6)
{
    const struct fib *f = b->f;
    struct work second = { .n = 0 };

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        struct fib_query *q = &b->q[i];
        struct lpm_addr a = b->addr[i];
        const void *bucket = (const void *)(uintptr_t)q->scratch[1];
        uint32_t hdr;
        uint64_t code = 0;
        int hit = is_v6 ? exact_scan_v6(bucket, a.hi, a.lo, b->vni[i], &hdr, &code)
                        : exact_scan_v4(bucket, a.hi | b->vni[i], &hdr, &code);

        q->scope = SCOPE_LOCAL;
        if (__builtin_expect(hit > 0, 1)) {
            answer_local(f, q, (uint32_t)code);
        } else {
            prefetch(exact_away(vm_table(f, is_v6), vm_hash(f, b->vni[i], is_v6, a)));
            work_add(&second, i, true);
        }
    }
    for (unsigned k = 0; k < second.n; k++) {
        unsigned i = second.at[k];
        struct fib_query *q = &b->q[i];
        struct exact_entry key = vm_key(b->vni[i], is_v6, b->addr[i]);
        uint64_t code;

        if (exact_find(vm_table(f, is_v6), &key, &code)) {
            answer_local(f, q, (uint32_t)code);
        } else {
            q->kind = FIB_DROP_VM_NC_MISS;
        }
    }
}

/* By action: VM-NC, final, or another turn in the peer's VNI, which stays in `w`. */
STAGE stage_actions(struct burst *b, struct work *w, const bool is_v6)
{
    struct work local = { .n = 0 };
    struct work other = { .n = 0 };
    unsigned left = 0;

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];

        work_add(&local, i, b->action[i] == ACTION_LOCAL);
        work_add(&other, i, b->action[i] != ACTION_LOCAL);
    }
    stage_vms(b, &local, is_v6);
    for (unsigned k = 0; k < other.n; k++) {
        unsigned i = other.at[k];
        struct fib_query *q = &b->q[i];
        uint32_t action = b->action[i];

        if (action >> 24 != ACTION_PEER) {
            answer_final(b->f, q, action);
        } else if (q->lookups == FIB_LOOKUPS_MAX) {
            q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
            q->scope = SCOPE_PEER;
        } else {
            b->vni[i] = q->out_vni = action & ACTION_PAYLOAD;
            q->lookups++;
            start(b->f, q, b->vni[i], is_v6, b->addr[i]);
            w->at[left++] = (uint8_t)i;
        }
    }
    w->n = left;
}

/* All queries of one family. */
STAGE resolve_family(struct burst *b, struct work *w, const bool is_v6)
{
    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];

        b->vni[i] = b->q[i].vni & VNI_MAX;
        b->addr[i] = addr_load(&b->q[i]);
    }
    stage_slots(b, w, is_v6);
    stage_vnis(b, w, is_v6);
    while (w->n > 0) {
        stage_routes(b, w, is_v6);
        stage_actions(b, w, is_v6);
        stage_slots(b, w, is_v6); /* of peers */
    }
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
    struct work family[2];
    uint64_t seen = atomic_load_explicit(&f->changes, memory_order_acquire);

    b.f = f;
    b.q = q;
    sort_families(q, n, family);
    resolve_family(&b, &family[0], false);
    resolve_family(&b, &family[1], true);
    for (unsigned i = 0; i < n; i++) {
        if (__builtin_expect(q[i].kind < FIB_LOCAL, 0)) {
            redo_drop(f, &q[i], seen);
        }
        q[i].vni_changed = q[i].out_vni != q[i].vni;
    }
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    fib_resolve_begin(f, q, n);
    fib_resolve_end(f, q, n);
}
