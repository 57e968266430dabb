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
    bool has_drop; /* of those kinds that are looked at again */
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

static inline struct lpm_addr addr_load(const struct fib_query *q, bool is_v6)
{
    uint64_t hi;
    uint64_t lo;

    memcpy(&hi, q->dst, 8);
    memcpy(&lo, q->dst + 8, 8);
    hi = __builtin_bswap64(hi);
    if (!is_v6) {
        return (struct lpm_addr){ hi >> 32 << 32, 0 };
    }
    return (struct lpm_addr){ hi, __builtin_bswap64(lo) };
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

/* The directories of one moment: a bucket found by an older one is as good a start. */
struct homes {
    const struct exact *vni;
    const struct exact *vm;
    const struct exact_dir *vni_dir;
    const struct exact_dir *vm_dir;
};

static inline struct homes homes_of(const struct fib *f, bool is_v6)
{
    const struct exact *vm = vm_table(f, is_v6);

    return (struct homes){
        &f->vni,
        vm,
        atomic_load_explicit(&f->vni.dir, memory_order_acquire),
        atomic_load_explicit(&vm->dir, memory_order_acquire),
    };
}

/* Asks for the two buckets that (vni, address) leads to. */
static inline void start(const struct fib *f, const struct homes *h,
                         struct fib_query *q, uint32_t vni, bool is_v6,
                         struct lpm_addr a)
{
    const void *vni_bucket = exact_home_in(h->vni, h->vni_dir, vni_hash(f, vni, is_v6));
    const void *vm_bucket = exact_home_in(h->vm, h->vm_dir, vm_hash(f, vni, is_v6, a));

    prefetch(vni_bucket);
    prefetch(vm_bucket);
    q->scratch[0] = vni_bucket;
    q->scratch[1] = vm_bucket;
}

void fib_resolve_begin(const struct fib *f, struct fib_query q[],
                       const struct fib_split *split)
{
    struct homes h = homes_of(f, false);

    for (unsigned k = 0; k < split->v4_count; k++) {
        struct fib_query *x = &q[split->v4[k]];

        start(f, &h, x, x->vni & VNI_MAX, false, addr_load(x, false));
    }
    h = homes_of(f, true);
    for (unsigned k = 0; k < split->v6_count; k++) {
        struct fib_query *x = &q[split->v6[k]];

        start(f, &h, x, x->vni & VNI_MAX, true, addr_load(x, true));
    }
}

/* ---- answers ---- */

static void answer_pooled(const struct fib *f, struct fib_query *q, uint32_t code)
{
    const struct nc_value *v = pool_value(&f->ncs, code & NC_INDEX_MASK);

    memcpy(q->addr, v->addr, sizeof q->addr);
    q->addr_family = v->family;
    q->has_mac = v->has_mac;
    memcpy(q->mac, v->mac, sizeof q->mac);
}

static inline void answer_local(const struct fib *f, struct fib_query *q, uint32_t code)
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

/* ---- one query, the complete way ---- */

static void resolve_once(const struct fib *f, struct fib_query *q)
{
    bool is_v6 = q->family == IP_V6;
    struct lpm_addr a = addr_load(q, is_v6);
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
        q->vni_changed = q->out_vni != q->vni;
        slot = slot_find(f, q->out_vni, is_v6);
    }
}

/* ---- stages; `is_v6` is a constant at every call ---- */

#define STAGE static inline __attribute__((always_inline)) void

static inline const void *slot_at(const struct burst *b, unsigned i)
{
    return b->f->lines.base + (uint64_t)slot_line(b->slot[i]) * LINE_BYTES;
}

/* The trees that a burst walks, a level a round. */
struct walk {
    unsigned n;
    unsigned level;
    uint32_t node[FIB_BURST_MAX]; /* line within the tree */
    uint8_t at[FIB_BURST_MAX];
    const struct lpm_tree *tree[FIB_BURST_MAX];
};

/* The queries of one family, by what they wait for. */
struct family {
    struct work turn;        /* a VNI bucket */
    struct work turn_second; /* its second one */
    struct work lines;       /* a line of routes */
    struct work trees;       /* a tree */
    struct work none;        /* no routes at all */
    struct work vm_second;   /* a second VM-NC bucket */
    struct walk walk;
};

/* Takes a query's slot: what it points to is asked for, and the query sorted. */
STAGE slot_take(struct burst *b, unsigned i, uint64_t slot, struct family *to)
{
    unsigned kind = slot_kind(slot);
    const uint8_t *at = b->f->lines.base + (uint64_t)slot_line(slot) * LINE_BYTES;

    b->slot[i] = slot;
    prefetch(at);
    prefetch(at + (kind > LPM_LINE ? LINE_BYTES : 0)); /* the root behind the head */
    work_add(&to->lines, i, kind == LPM_LINE);
    work_add(&to->trees, i, kind > LPM_LINE);
    if (__builtin_expect(kind == LPM_NONE, 0)) {
        work_add(&to->none, i, true);
    }
}

/* The first turn: is the arriving VNI known? */
STAGE vni_take(struct burst *b, unsigned i, uint64_t slot, const bool is_v6,
               struct family *to)
{
    struct fib_query *q = &b->q[i];
    uint64_t known = slot;

    if (is_v6 && __builtin_expect(!known, 0)) {
        known = slot_find(b->f, b->vni[i], false);
    }
    q->out_vni = b->vni[i];
    q->vni_changed = 0;
    if (__builtin_expect(!(known & SLOT_KNOWN), 0)) {
        q->kind = FIB_DROP_VNI_UNKNOWN;
        q->lookups = 0;
        q->vni_flags = 0;
        q->scope = 0;
        b->has_drop = true;
        return;
    }
    q->lookups = 1;
    q->vni_flags = slot_flags(known);
    slot_take(b, i, slot, to);
}

/* VNI buckets to slots. */
STAGE stage_slots(struct burst *b, struct family *w, const bool is_v6,
                  const bool is_first)
{
    const struct fib *f = b->f;

    w->turn_second.n = w->lines.n = w->trees.n = w->none.n = w->vm_second.n = 0;
    for (unsigned k = 0; k < w->turn.n; k++) {
        unsigned i = w->turn.at[k];
        struct fib_query *q = &b->q[i];
        uint64_t slot = 0;
        uint32_t hdr;

        if (is_first) {
            b->vni[i] = q->vni & VNI_MAX;
            b->addr[i] = addr_load(q, is_v6);
        }
        if (__builtin_expect(exact_scan_vni(q->scratch[0], slot_key(b->vni[i], is_v6),
                                            &hdr, &slot) <= 0,
                             0)) {
            q->scratch[0] = exact_away(&f->vni, vni_hash(f, b->vni[i], is_v6));
            prefetch(q->scratch[0]);
            work_add(&w->turn_second, i, true);
        } else if (is_first) {
            vni_take(b, i, slot, is_v6, w);
        } else {
            slot_take(b, i, slot, w);
        }
    }
    w->turn.n = 0;
}

STAGE stage_slots_second(struct burst *b, struct family *w, const bool is_v6,
                         const bool is_first)
{
    for (unsigned k = 0; k < w->turn_second.n; k++) {
        unsigned i = w->turn_second.at[k];
        uint64_t slot = 0;
        uint32_t hdr;

        if (exact_scan_vni(b->q[i].scratch[0], slot_key(b->vni[i], is_v6), &hdr,
                           &slot) <= 0) {
            slot = slot_find(b->f, b->vni[i], is_v6); /* not there, or it moves */
        }
        if (is_first) {
            vni_take(b, i, slot, is_v6, w);
        } else {
            slot_take(b, i, slot, w);
        }
    }
}

STAGE walk_begin(struct burst *b, struct family *w)
{
    struct walk *t = &w->walk;

    t->n = w->trees.n;
    t->level = 0;
    for (unsigned k = 0; k < t->n; k++) {
        t->at[k] = w->trees.at[k];
        t->tree[k] = slot_at(b, t->at[k]);
        t->node[k] = 1;
    }
}

/* One level of all trees; those that come to a leaf have their action. */
STAGE walk_step(struct burst *b, struct family *w, const bool is_v6)
{
    struct walk *t = &w->walk;
    unsigned left = 0;

    for (unsigned k = 0; k < t->n; k++) {
        unsigned i = t->at[k];
        const struct lpm_tree *tree = t->tree[k];
        unsigned kind = is_v6 ? slot_kind(b->slot[i]) : LPM_TREE;
        uint32_t at = t->node[k];

        if (t->level + 1 == tree->levels) {
            b->action[i] = tree_leaf(tree, kind, is_v6, at, b->addr[i]);
            continue;
        }
        at = tree_step(tree, kind, is_v6, t->level, at, b->addr[i]);
        prefetch((const uint8_t *)tree + (uint64_t)at * LINE_BYTES);
        t->tree[left] = tree;
        t->node[left] = at;
        t->at[left++] = (uint8_t)i;
    }
    t->n = left;
    t->level++;
}

/* VM-NC entries that were not in their first bucket. */
STAGE stage_second(struct burst *b, struct family *family, const bool is_v6)
{
    const struct fib *f = b->f;
    const struct work *w = &family->vm_second;

    for (unsigned k = 0; k < w->n; k++) {
        unsigned i = w->at[k];
        struct fib_query *q = &b->q[i];
        struct lpm_addr a = b->addr[i];
        const void *bucket = q->scratch[1];
        struct exact_entry key;
        uint32_t hdr;
        uint64_t code;
        int hit = is_v6 ? exact_scan_v6(bucket, a.hi, a.lo, b->vni[i], &hdr, &code)
                        : exact_scan_v4(bucket, a.hi | b->vni[i], &hdr, &code);

        if (__builtin_expect(hit <= 0, 0)) { /* not there, or it moves: the long way */
            key = vm_key(b->vni[i], is_v6, a);
            hit = exact_find(vm_table(f, is_v6), &key, &code);
        }
        if (hit > 0) {
            answer_local(f, q, (uint32_t)code);
        } else {
            q->kind = FIB_DROP_VM_NC_MISS;
            b->has_drop = true;
        }
    }
}

/* What an action other than local means.  True: another turn, in the peer's VNI. */
static bool action_take(struct burst *b, unsigned i, uint32_t action, bool is_v6)
{
    struct fib_query *q = &b->q[i];
    struct homes h;

    if (action >> 24 != ACTION_PEER) {
        answer_final(b->f, q, action);
        b->has_drop |= q->kind < FIB_LOCAL;
        return false;
    }
    if (q->lookups == FIB_LOOKUPS_MAX) {
        q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
        q->scope = SCOPE_PEER;
        b->has_drop = true;
        return false;
    }
    b->vni[i] = q->out_vni = action & ACTION_PAYLOAD;
    q->vni_changed = q->out_vni != q->vni;
    q->lookups++;
    h = homes_of(b->f, is_v6);
    start(b->f, &h, q, b->vni[i], is_v6, b->addr[i]);
    return true;
}

/* By action: VM-NC in the bucket that begin asked for, final, or another turn, which
 * is added to `to->turn`. */
STAGE action_follow(struct burst *b, struct family *to, unsigned i, uint32_t action,
                    const bool is_v6)
{
    const struct fib *f = b->f;
    struct fib_query *q = &b->q[i];
    struct lpm_addr a = b->addr[i];
    const void *bucket = q->scratch[1];
    uint32_t hdr;
    uint64_t code = 0;
    int hit;

    if (__builtin_expect(action != ACTION_LOCAL, 0)) {
        work_add(&to->turn, i, action_take(b, i, action, is_v6));
        return;
    }
    hit = is_v6 ? exact_scan_v6(bucket, a.hi, a.lo, b->vni[i], &hdr, &code)
                : exact_scan_v4(bucket, a.hi | b->vni[i], &hdr, &code);
    q->scope = SCOPE_LOCAL;
    if (__builtin_expect(hit > 0, 1)) {
        answer_local(f, q, (uint32_t)code);
    } else {
        bucket = exact_away(vm_table(f, is_v6), vm_hash(f, b->vni[i], is_v6, a));
        prefetch(bucket);
        q->scratch[1] = bucket;
        work_add(&to->vm_second, i, true);
    }
}

STAGE stage_lines(struct burst *b, struct family *w, const bool is_v6)
{
    for (unsigned k = 0; k < w->lines.n; k++) {
        unsigned i = w->lines.at[k];
        uint32_t action =
            is_v6 ? lpm_line6_find(slot_at(b, i), b->addr[i].hi)
                  : lpm_line4_find(slot_at(b, i), (uint32_t)(b->addr[i].hi >> 32));

        action_follow(b, w, i, action, is_v6);
    }
    for (unsigned k = 0; k < w->none.n; k++) {
        action_follow(b, w, w->none.at[k], ACTION_NONE, is_v6);
    }
}

STAGE stage_trees(struct burst *b, struct family *w, const bool is_v6)
{
    for (unsigned k = 0; k < w->trees.n; k++) {
        unsigned i = w->trees.at[k];

        action_follow(b, w, i, b->action[i], is_v6);
    }
}

/* One turn of both families: each stage does some work while what the one before asked
 * for is on its way, the short lists of trees between the long ones of lines. */
STAGE turn(struct burst *b, struct family *v4, struct family *v6, const bool is_first)
{
    stage_slots(b, v4, false, is_first);
    stage_slots(b, v6, true, is_first);
    stage_slots_second(b, v4, false, is_first);
    stage_slots_second(b, v6, true, is_first);
    walk_begin(b, v4);
    walk_begin(b, v6);
    walk_step(b, v4, false);
    walk_step(b, v6, true);
    stage_lines(b, v4, false);
    walk_step(b, v4, false);
    walk_step(b, v6, true);
    stage_lines(b, v6, true);
    while (v4->walk.n + v6->walk.n > 0) {
        walk_step(b, v4, false);
        walk_step(b, v6, true);
    }
    stage_trees(b, v4, false);
    stage_trees(b, v6, true);
    stage_second(b, v4, false);
    stage_second(b, v6, true);
}

static void more_turns(struct burst *b, struct family *v4, struct family *v6)
{
    while (v4->turn.n + v6->turn.n > 0) {
        turn(b, v4, v6, false);
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

static void redo_drops(const struct fib *f, struct fib_query q[],
                       const struct fib_split *split, uint64_t seen)
{
    for (unsigned k = 0; k < split->v4_count; k++) {
        redo_drop(f, &q[split->v4[k]], seen);
    }
    for (unsigned k = 0; k < split->v6_count; k++) {
        redo_drop(f, &q[split->v6[k]], seen);
    }
}

void fib_resolve_end(const struct fib *f, struct fib_query q[],
                     const struct fib_split *split)
{
    struct burst b;
    struct family v4;
    struct family v6;
    uint64_t seen = atomic_load_explicit(&f->changes, memory_order_acquire);

    b.f = f;
    b.q = q;
    b.has_drop = false;
    v4.turn.n = split->v4_count;
    v6.turn.n = split->v6_count;
    memcpy(v4.turn.at, split->v4, sizeof split->v4);
    memcpy(v6.turn.at, split->v6, sizeof split->v6);
    turn(&b, &v4, &v6, true);
    more_turns(&b, &v4, &v6);
    if (b.has_drop) {
        redo_drops(f, q, split, seen);
    }
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    struct fib_split split = { 0 };

    for (unsigned i = 0; i < n; i++) {
        fib_split_add(&split, i, q[i].family == IP_V6);
    }
    fib_resolve_begin(f, q, &split);
    fib_resolve_end(f, q, &split);
}
