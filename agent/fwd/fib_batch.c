/*
 * The workers' side: lookups go through the tables in steps, each of which touches
 * lines that the step before asked for, so their misses overlap.
 *
 *   begin   hash; ask for the VNI bucket and, on the guess that the route will say
 *           local, for the VM-NC bucket
 *   step    VNI bucket → slot, ask for the route line or the tree's head; VM-NC bucket
 *           → code, or ask for the second bucket
 *   end     lines are compared, trees go down level by level; local routes take the
 *           code.  Peers are collected and go round again, at most FIB_LOOKUPS_MAX
 * times
 *
 * The slot is read before VM-NC is, for the writer adds a VM before the route that
 * leads to it.  What does not find its place in two buckets (or meets one that changed
 * while it was read) takes the slow but complete exact_find().  An answer that drops is
 * given only if no route changed meanwhile: else a query could meet an old route and a
 * new VM-NC table, or the two halves of a peer chain of different ages, and fall into a
 * hole that never was.
 *
 * Both families go in lockstep, each through code of its own.  Lists are filled without
 * branches where both ways are common: what a packet needs is as good as random to the
 * branch predictor, and a wrong guess costs more than the work.
 */
#include "agent/fwd/fib_impl.h"

/* What VM-NC says of an address that it does not have; no place in the pool. */
#define NC_MISS (NC_POOLED | NC_INDEX_MASK)

/* What a batch's answers are written to. */
struct run {
    const struct fib *f;
    struct fib_batch *batch; /* TO_BATCH: takes the answers */
    struct fib_query *q;
    unsigned peer_count;
    bool has_drop;               /* of those kinds that are looked at again */
    uint8_t peer[FIB_BURST_MAX]; /* queries that go round again */
};

enum { REDO_MAX = 8 }; /* times that a drop is looked at again under a busy writer */

/* The trees that a batch walks, a level a round. */
struct walk {
    unsigned n;
    unsigned level;                  /* IPv4: of all */
    uint8_t level_of[FIB_BURST_MAX]; /* IPv6, for those below begin anew */
    uint8_t at[FIB_BURST_MAX];
    int64_t key[FIB_BURST_MAX];
    uint32_t node[FIB_BURST_MAX]; /* line within the tree */
    const struct lpm_tree *tree[FIB_BURST_MAX];
};

/* `is_v6` is a constant at every call. */
#define STAGE static inline __attribute__((always_inline))

static inline void prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

STAGE uint32_t lane_vni(const struct fib_lanes *l, unsigned k, const bool is_v6)
{
    return is_v6 ? l->vni[k] : (uint32_t)l->hi[k];
}

STAGE uint64_t vm_hash(const struct fib *f, const struct fib_lanes *l, unsigned k,
                       const bool is_v6)
{
    return is_v6 ? exact_hash_v6(&f->v6, l->hi[k], l->lo[k], l->vni[k])
                 : exact_hash1(&f->v4, l->hi[k]);
}

STAGE uint64_t vni_hash(const struct fib *f, const struct fib_lanes *l, unsigned k,
                        const bool is_v6)
{
    return exact_hash1(&f->vni, slot_key(lane_vni(l, k, is_v6), is_v6));
}

STAGE const struct exact *vm_table(const struct fib *f, const bool is_v6)
{
    return is_v6 ? &f->v6 : &f->v4;
}

static inline const uint8_t *slot_at(const struct fib *f, uint64_t slot)
{
    return f->lines.base + (uint64_t)slot_line(slot) * LINE_BYTES;
}

static void lane_add(struct fib_lanes *v4, struct fib_lanes *v6, unsigned tag,
                     const struct fib_query *q, uint32_t vni)
{
    struct lpm_addr a = fib_query_address(q);

    if (q->family == IP_V6) {
        v6->tag[v6->count] = (uint8_t)tag;
        v6->hi[v6->count] = a.hi;
        v6->lo[v6->count] = a.lo;
        v6->vni[v6->count++] = vni;
    } else {
        v4->tag[v4->count] = (uint8_t)tag;
        v4->hi[v4->count++] = a.hi | vni;
    }
}

/* ---- begin ---- */

/* The directories of one moment: a bucket found by an older one is as good a start. */
STAGE void begin(const struct fib *f, struct fib_lanes *l, const bool is_v6)
{
    const struct exact *vm = vm_table(f, is_v6);
    const struct exact_dir *vni_dir =
        atomic_load_explicit(&f->vni.dir, memory_order_acquire);
    const struct exact_dir *vm_dir =
        atomic_load_explicit(&vm->dir, memory_order_acquire);

    for (unsigned k = l->begun, n = l->count; k < n; k++) {
        const void *vni = exact_home_in(&f->vni, vni_dir, vni_hash(f, l, k, is_v6));
        const void *own = exact_home_in(vm, vm_dir, vm_hash(f, l, k, is_v6));

        prefetch(vni);
        prefetch(own);
        l->vni_bucket[k] = vni;
        l->vm_bucket[k] = own;
    }
    l->begun = l->count;
}

void fib_batch_begin(const struct fib *f, struct fib_batch *b)
{
    begin(f, &b->v4, false);
    begin(f, &b->v6, true);
}

/* ---- step ---- */

STAGE int vm_scan(const struct fib_lanes *l, unsigned k, const bool is_v6,
                  uint64_t *ret_code)
{
    uint32_t hdr;

    return is_v6 ? exact_scan_v6(l->vm_bucket[k], l->hi[k], l->lo[k], l->vni[k], &hdr,
                                 ret_code)
                 : exact_scan_v4(l->vm_bucket[k], l->hi[k], &hdr, ret_code);
}

/* Takes a lane's slot: what it points to is asked for.  Then VM-NC. */
STAGE void slot_take(const struct fib *f, const uint8_t *base, struct fib_lanes *l,
                     unsigned k, uint64_t slot, const bool is_v6)
{
    const uint8_t *at = base + (uint64_t)slot_line(slot) * LINE_BYTES;
    uint64_t code = 0;

    l->slot[k] = slot;
    prefetch(at);
    prefetch(at + slot_is_tree(slot) * LINE_BYTES); /* the root behind the head */
    if (__builtin_expect(vm_scan(l, k, is_v6, &code) <= 0, 0)) {
        const void *away = exact_away(vm_table(f, is_v6), vm_hash(f, l, k, is_v6));

        prefetch(away);
        l->vm_bucket[k] = away;
        l->vm_second[l->vm_second_count++] = (uint8_t)k;
    }
    l->code[k] = (uint32_t)code;
}

/* Nothing here waits for what another lane's lines say: a list's end that depends on
 * each of them would. */
STAGE void step(const struct fib *f, struct fib_lanes *l, const bool is_v6)
{
    const uint8_t *base = f->lines.base;

    l->vni_second_count = l->vm_second_count = 0;
    for (unsigned k = 0, n = l->count; k < n; k++) {
        uint64_t slot;

        if (__builtin_expect(exact_scan_slot(l->vni_bucket[k],
                                             slot_key(lane_vni(l, k, is_v6), is_v6),
                                             &slot),
                             1)) {
            slot_take(f, base, l, k, slot, is_v6);
        } else {
            l->vni_bucket[k] = exact_away(&f->vni, vni_hash(f, l, k, is_v6));
            prefetch(l->vni_bucket[k]);
            l->vni_second[l->vni_second_count++] = (uint8_t)k;
        }
    }
}

void fib_batch_step(const struct fib *f, struct fib_batch *b)
{
    b->seen = atomic_load_explicit(&f->changes, memory_order_acquire);
    step(f, &b->v4, false);
    step(f, &b->v6, true);
}

/* ---- end ---- */

STAGE void vni_seconds(const struct fib *f, struct fib_lanes *l, const bool is_v6)
{
    for (unsigned i = 0, n = l->vni_second_count; i < n; i++) {
        unsigned k = l->vni_second[i];
        uint32_t vni = lane_vni(l, k, is_v6);
        uint64_t slot;

        if (!exact_scan_slot(l->vni_bucket[k], slot_key(vni, is_v6), &slot)) {
            slot = slot_find(f, vni, is_v6); /* not there, or it moves */
        }
        slot_take(f, f->lines.base, l, k, slot, is_v6);
    }
}

/* Sorts the lanes by what their slots lead to. */
STAGE void sort(struct fib_lanes *l, const bool is_first)
{
    /* In registers: a store of a byte may be one to anything, as far as the compiler
     * knows. */
    unsigned line = 0;
    unsigned tree = 0;
    unsigned odd = 0;

    for (unsigned k = 0, n = l->count; k < n; k++) {
        uint64_t slot = l->slot[k];
        unsigned is_tree = slot_is_tree(slot);

        l->line[line] = (uint8_t)k;
        l->tree[tree] = (uint8_t)k;
        if (__builtin_expect(
                slot_kind(slot) == LPM_NONE || (is_first && !(slot & SLOT_KNOWN)), 0)) {
            l->odd[odd++] = (uint8_t)k;
            continue;
        }
        line += is_tree ^ 1;
        tree += is_tree;
    }
    l->line_count = line;
    l->tree_count = tree;
    l->odd_count = odd;
}

STAGE void vm_seconds(const struct fib *f, struct fib_lanes *l, const bool is_v6)
{
    for (unsigned n = 0; n < l->vm_second_count; n++) {
        unsigned k = l->vm_second[n];
        struct exact_entry key;
        uint64_t code;
        int hit = vm_scan(l, k, is_v6, &code);

        if (__builtin_expect(hit <= 0, 0)) { /* not there, or it moves: the long way */
            key = is_v6 ? (struct exact_entry){ l->hi[k], l->lo[k], l->vni[k], 0 }
                        : (struct exact_entry){ .w0 = l->hi[k] };
            hit = exact_find(vm_table(f, is_v6), &key, &code);
        }
        l->code[k] = hit > 0 ? (uint32_t)code : NC_MISS;
    }
}

/* Where answers go to: a batch's, or the query that stands for the tag, in the first
 * round or a later one. */
enum mode { TO_BATCH, TO_QUERY, TO_QUERY_AGAIN };

/* The query that a lane's answer goes to. */
STAGE struct fib_query *query_of(struct run *r, const struct fib_lanes *l, unsigned k,
                                 const bool is_v6, const enum mode mode)
{
    struct fib_query *q = &r->q[l->tag[k]];
    uint64_t dst[2];

    if (mode == TO_BATCH) {
        struct fib_batch *b = r->batch;

        b->other[b->other_count] = l->tag[k];
        q = &b->query[b->other_count++];
        dst[0] = is_v6 ? __builtin_bswap64(l->hi[k])
                       : __builtin_bswap32((uint32_t)(l->hi[k] >> 32));
        dst[1] = is_v6 ? __builtin_bswap64(l->lo[k]) : 0;
        memcpy(q->dst, dst, sizeof dst);
        q->vni = lane_vni(l, k, is_v6);
        q->family = is_v6 ? IP_V6 : IP_V4;
    }
    if (mode != TO_QUERY_AGAIN) {
        q->out_vni = lane_vni(l, k, is_v6);
        q->vni_changed = 0;
        q->lookups = 0;
        q->vni_flags = slot_flags(l->slot[k]);
    }
    return q;
}

/* Not plain: a VM behind what lies in the pool, another kind of action, a peer. */
static void answer_other(struct run *r, struct fib_query *q, uint32_t action,
                         uint32_t code)
{
    q->lookups++;
    if (action == ACTION_LOCAL) {
        q->scope = SCOPE_LOCAL;
        if (code == NC_MISS) {
            q->kind = FIB_DROP_VM_NC_MISS;
            r->has_drop = true;
        } else {
            fib_answer_local(r->f, q, code);
        }
        return;
    }
    if (action >> 24 != ACTION_PEER) {
        fib_answer_final(r->f, q, action);
        r->has_drop |= q->kind < FIB_LOCAL;
        return;
    }
    q->scope = SCOPE_PEER;
    if (q->lookups == FIB_LOOKUPS_MAX) {
        q->kind = FIB_DROP_TOO_MANY_LOOKUPS;
        r->has_drop = true;
        return;
    }
    q->out_vni = action & ACTION_PAYLOAD;
    q->vni_changed = q->out_vni != q->vni;
    r->peer[r->peer_count++] = (uint8_t)(q - r->q);
}

STAGE void follow(struct run *r, const struct fib_lanes *l, unsigned k, uint32_t action,
                  unsigned *plain, const bool is_v6, const enum mode mode)
{
    uint32_t code = l->code[k];

    if (mode == TO_BATCH &&
        __builtin_expect(action == ACTION_LOCAL && (code & NC_POOLED_MASK) != NC_POOLED,
                         1)) {
        r->batch->plain[*plain] = l->tag[k];
        r->batch->plain_nc[(*plain)++] = __builtin_bswap32(code);
        return;
    }
    answer_other(r, query_of(r, l, k, is_v6, mode), action, code);
}

STAGE void lines(struct run *r, const struct fib_lanes *l, unsigned *plain,
                 const bool is_v6, const enum mode mode)
{
    const uint8_t *base = r->f->lines.base;

    for (unsigned i = 0, n = l->line_count; i < n; i++) {
        unsigned k = l->line[i];
        const void *line = base + (uint64_t)slot_line(l->slot[k]) * LINE_BYTES;
        uint32_t action = is_v6 ? lpm_line6_find(line, l->hi[k])
                                : lpm_line4_find(line, (uint32_t)(l->hi[k] >> 32));

        follow(r, l, k, action, plain, is_v6, mode);
    }
}

STAGE void walk_begin(const struct fib *f, const struct fib_lanes *l, struct walk *w,
                      const bool is_v6)
{
    w->n = l->tree_count;
    w->level = 0;
    for (unsigned n = 0; n < w->n; n++) {
        w->at[n] = l->tree[n];
        w->tree[n] = (const void *)slot_at(f, l->slot[w->at[n]]);
        w->node[n] = 1;
        w->key[n] = tree_key(is_v6, l->hi[w->at[n]]);
        w->level_of[n] = 0;
    }
}

/* One level of all trees; those that come to a leaf have their action. */
STAGE void walk_step(struct run *r, const struct fib_lanes *l, struct walk *w,
                     unsigned *plain, const bool is_v6, const enum mode mode)
{
    unsigned left = 0;

    for (unsigned n = 0, count = w->n; n < count; n++) {
        unsigned k = w->at[n];
        const struct lpm_tree *tree = w->tree[n];
        unsigned level = is_v6 ? w->level_of[n] : w->level;
        uint32_t at = w->node[n];
        int64_t key = w->key[n];

        if (level + 1 == tree->levels) {
            uint32_t action = tree_leaf(tree, is_v6, at, key);

            if (!is_v6 || __builtin_expect(!(action & TREE_BELOW), 1)) {
                follow(r, l, k, action, plain, is_v6, mode);
                continue;
            }
            tree = tree_below(tree, action);
            prefetch(tree);
            at = 1;
            key = key6_of(l->lo[k]);
            level = 0;
        } else {
            at = tree_step(tree, is_v6, level, at, key);
            level++;
        }
        prefetch((const uint8_t *)tree + (uint64_t)at * LINE_BYTES);
        w->tree[left] = tree;
        w->node[left] = at;
        w->key[left] = key;
        w->level_of[left] = (uint8_t)level;
        w->at[left++] = (uint8_t)k;
    }
    w->n = left;
    w->level++;
}

/* No routes; of the arriving VNI perhaps no row either. */
STAGE void odds(struct run *r, const struct fib_lanes *l, const bool is_v6,
                const enum mode mode)
{
    const bool is_first = mode != TO_QUERY_AGAIN;

    for (unsigned i = 0, n = l->odd_count; i < n; i++) {
        unsigned k = l->odd[i];
        struct fib_query *q = query_of(r, l, k, is_v6, mode);
        uint64_t known = l->slot[k];

        if (is_v6 && !known) {
            known = slot_find(r->f, l->vni[k], false);
        }
        if (is_first && !(known & SLOT_KNOWN)) {
            q->kind = FIB_DROP_VNI_UNKNOWN;
            q->vni_flags = 0;
            q->scope = 0;
            r->has_drop = true;
            continue;
        }
        if (is_first) {
            q->vni_flags = slot_flags(known);
        }
        answer_other(r, q, ACTION_NONE, NC_MISS);
    }
}

/* Both families: each stage does some work while what the one before asked for is on
 * its way, the short lists of trees between the long ones of lines. */
STAGE void end(struct run *r, struct fib_lanes *v4, struct fib_lanes *v6,
               const enum mode mode)
{
    unsigned plain = 0;
    struct walk w4;
    struct walk w6;

    vni_seconds(r->f, v4, false);
    vni_seconds(r->f, v6, true);
    sort(v4, mode != TO_QUERY_AGAIN);
    sort(v6, mode != TO_QUERY_AGAIN);
    walk_begin(r->f, v4, &w4, false);
    walk_begin(r->f, v6, &w6, true);
    vm_seconds(r->f, v4, false);
    vm_seconds(r->f, v6, true);
    walk_step(r, v4, &w4, &plain, false, mode);
    walk_step(r, v6, &w6, &plain, true, mode);
    lines(r, v4, &plain, false, mode);
    walk_step(r, v4, &w4, &plain, false, mode);
    walk_step(r, v6, &w6, &plain, true, mode);
    lines(r, v6, &plain, true, mode);
    while (w4.n + w6.n > 0) {
        walk_step(r, v4, &w4, &plain, false, mode);
        walk_step(r, v6, &w6, &plain, true, mode);
    }
    odds(r, v4, false, mode);
    odds(r, v6, true, mode);
    if (mode == TO_BATCH) {
        r->batch->plain_count = plain;
    }
}

/* Queries whose route is a peer's, in the VNIs that they come to. */
static void follow_peers(struct run *r)
{
    struct fib_lanes v4;
    struct fib_lanes v6;

    while (r->peer_count > 0) {
        v4.count = v4.begun = v6.count = v6.begun = 0;
        for (unsigned n = 0; n < r->peer_count; n++) {
            lane_add(&v4, &v6, r->peer[n], &r->q[r->peer[n]], r->q[r->peer[n]].out_vni);
        }
        r->peer_count = 0;
        begin(r->f, &v4, false);
        begin(r->f, &v6, true);
        step(r->f, &v4, false);
        step(r->f, &v6, true);
        end(r, &v4, &v6, TO_QUERY_AGAIN);
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
        fib_resolve_complete(f, q);
    }
}

static void finish(struct run *r, unsigned n, uint64_t seen)
{
    follow_peers(r);
    for (unsigned i = 0; r->has_drop && i < n; i++) {
        redo_drop(r->f, &r->q[i], seen);
    }
}

void fib_batch_end(const struct fib *f, struct fib_batch *b)
{
    struct run r;

    r.f = f;
    r.batch = b;
    r.q = b->query;
    r.peer_count = 0;
    r.has_drop = false;
    b->other_count = 0;
    end(&r, &b->v4, &b->v6, TO_BATCH);
    finish(&r, b->other_count, b->seen);
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    struct run r = { .f = f, .q = q };
    struct fib_batch b;

    fib_batch_init(&b);
    for (unsigned i = 0; i < n; i++) {
        lane_add(&b.v4, &b.v6, i, &q[i], q[i].vni & VNI_MAX);
    }
    fib_batch_begin(f, &b);
    fib_batch_step(f, &b);
    end(&r, &b.v4, &b.v6, TO_QUERY);
    finish(&r, n, b.seen);
}
