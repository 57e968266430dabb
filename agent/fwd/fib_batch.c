/*
 * The workers' side: lookups go through the tables in steps, each of which touches
 * lines that the step before asked for, so their misses overlap.
 *
 *   begin   hash; ask for the VM-NC bucket
 *   probe   a marked entry there is the answer: the VNI has a row and its route says
 *           local (fib_mark.c).  Else ask for the VNI's bucket, and VM-NC's second one
 *   step    the second bucket; else the VNI's → slot, ask for the route line or the
 *           tree's head
 *   end     lines are compared, trees go down level by level.  Peers are collected and
 *           go round again, at most FIB_LOOKUPS_MAX times
 *
 * A probe never says no: what it does not find, or meets while it changes, goes by the
 * routes and the complete exact_find().  An answer that drops is given only if no route
 * changed meanwhile: else a query could meet an old route and a new VM-NC table, or the
 * two halves of a peer chain of different ages, and fall into a hole that never was.
 *
 * Both families go in lockstep, each through code of its own.  Lists are filled without
 * branches where both ways are common: what a packet needs is as good as random to the
 * branch predictor, and a wrong guess costs more than the work.
 */
#include "agent/fwd/fib_lanes.h"

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

/* Where answers go to: a batch's, or the query that stands for the tag, in the first
 * round or a later one. */
enum mode { TO_BATCH, TO_QUERY, TO_QUERY_AGAIN };

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

/* ---- answers ---- */

/* The query that a lane's answer goes to. */
static struct fib_query *query_of(struct run *r, const struct fib_lanes *l, unsigned k,
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
        q->vni_flags = 0;
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

/* The VM of lane `k` is local. */
static void answer_vm(struct run *r, const struct fib_lanes *l, unsigned k,
                      uint32_t code, const bool is_v6, const enum mode mode)
{
    struct fib_batch *b = r->batch;

    if (mode == TO_BATCH && (code & NC_POOLED_MASK) != NC_POOLED) {
        b->plain[b->plain_count] = l->tag[k];
        b->plain_nc[b->plain_count++] = __builtin_bswap32(code);
        return;
    }
    answer_other(r, query_of(r, l, k, is_v6, mode), ACTION_LOCAL, code);
}

static void follow(struct run *r, const struct fib_lanes *l, unsigned k,
                   uint32_t action, const bool is_v6, const enum mode mode)
{
    uint32_t code = NC_MISS;
    struct fib_query *q;

    if (action == ACTION_LOCAL && lane_find_vm(r->f, l, k, is_v6, &code) &&
        mode == TO_BATCH) {
        answer_vm(r, l, k, code, is_v6, mode); /* its mark is on its way, or was */
        return;
    }
    q = query_of(r, l, k, is_v6, mode);
    if (mode != TO_QUERY_AGAIN) {
        q->vni_flags = slot_flags(l->slot[k]);
    }
    answer_other(r, q, action, code);
}

/* ---- probe and second buckets ---- */

STAGE void probe(struct run *r, struct fib_lanes *l, const bool is_v6,
                 const enum mode mode)
{
    unsigned plain = mode == TO_BATCH ? r->batch->plain_count : 0;

    l->slow_count = 0;
    for (unsigned k = 0, n = l->count; k < n; k++) {
        uint64_t code;
        uint32_t hdr;

        if (__builtin_expect(lane_scan(l, k, is_v6, &hdr, &code) <= 0, 0)) {
            lane_is_slow(r->f, l, k, hdr, is_v6);
            continue;
        }
        if (mode == TO_BATCH &&
            __builtin_expect((code & NC_POOLED_MASK) != NC_POOLED, 1)) {
            r->batch->plain[plain] = l->tag[k];
            r->batch->plain_nc[plain++] = __builtin_bswap32((uint32_t)code);
            continue;
        }
        answer_other(r, query_of(r, l, k, is_v6, mode), ACTION_LOCAL, (uint32_t)code);
    }
    if (mode == TO_BATCH) {
        r->batch->plain_count = plain;
    }
}

/* Slow lanes that are answered by VM-NC's second bucket. */
STAGE void probe_seconds(struct run *r, struct fib_lanes *l, const bool is_v6,
                         const enum mode mode)
{
    unsigned left = 0;

    for (unsigned i = 0, n = l->slow_count; i < n; i++) {
        unsigned k = l->slow[i];
        uint64_t code;
        uint32_t hdr;

        if (l->bucket[k] && lane_scan(l, k, is_v6, &hdr, &code) > 0) {
            answer_vm(r, l, k, (uint32_t)code, is_v6, mode);
        } else {
            l->slow[left++] = (uint8_t)k;
        }
    }
    l->slow_count = left;
}

/* ---- routes ---- */

STAGE void lines(struct run *r, const struct fib_lanes *l, const bool is_v6,
                 const enum mode mode)
{
    const uint8_t *base = r->f->lines.base;

    for (unsigned i = 0, n = l->line_count; i < n; i++) {
        unsigned k = l->line[i];
        const void *line = base + (uint64_t)slot_line(l->slot[k]) * LINE_BYTES;
        uint32_t action = is_v6 ? lpm_line6_find(line, l->hi[k])
                                : lpm_line4_find(line, (uint32_t)(l->hi[k] >> 32));

        follow(r, l, k, action, is_v6, mode);
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
                     const bool is_v6, const enum mode mode)
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
                follow(r, l, k, action, is_v6, mode);
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
    struct walk w4;
    struct walk w6;

    lanes_sort(r->f, v4, false, mode != TO_QUERY_AGAIN);
    lanes_sort(r->f, v6, true, mode != TO_QUERY_AGAIN);
    walk_begin(r->f, v4, &w4, false);
    walk_begin(r->f, v6, &w6, true);
    walk_step(r, v4, &w4, false, mode);
    walk_step(r, v6, &w6, true, mode);
    lines(r, v4, false, mode);
    walk_step(r, v4, &w4, false, mode);
    walk_step(r, v6, &w6, true, mode);
    lines(r, v6, true, mode);
    while (w4.n + w6.n > 0) {
        walk_step(r, v4, &w4, false, mode);
        walk_step(r, v6, &w6, true, mode);
    }
    odds(r, v4, false, mode);
    odds(r, v6, true, mode);
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
        lanes_begin(r->f, &v4, false);
        lanes_begin(r->f, &v6, true);
        probe(r, &v4, false, TO_QUERY_AGAIN);
        probe(r, &v6, true, TO_QUERY_AGAIN);
        probe_seconds(r, &v4, false, TO_QUERY_AGAIN);
        probe_seconds(r, &v6, true, TO_QUERY_AGAIN);
        lanes_step(r->f, &v4, false);
        lanes_step(r->f, &v6, true);
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

/* ---- a batch ---- */

static struct run run_of(const struct fib *f, struct fib_batch *b)
{
    struct run r;

    r.f = f;
    r.batch = b;
    r.q = b->query;
    r.peer_count = 0;
    r.has_drop = false;
    return r;
}

void fib_batch_begin(const struct fib *f, struct fib_batch *b)
{
    lanes_begin(f, &b->v4, false);
    lanes_begin(f, &b->v6, true);
}

void fib_batch_probe(const struct fib *f, struct fib_batch *b)
{
    struct run r = run_of(f, b);

    b->plain_count = b->other_count = 0;
    probe(&r, &b->v4, false, TO_BATCH);
    probe(&r, &b->v6, true, TO_BATCH);
}

void fib_batch_step(const struct fib *f, struct fib_batch *b)
{
    struct run r = run_of(f, b);

    b->seen = atomic_load_explicit(&f->changes, memory_order_acquire);
    probe_seconds(&r, &b->v4, false, TO_BATCH);
    probe_seconds(&r, &b->v6, true, TO_BATCH);
    lanes_step(f, &b->v4, false);
    lanes_step(f, &b->v6, true);
}

void fib_batch_end(const struct fib *f, struct fib_batch *b)
{
    struct run r = run_of(f, b);

    end(&r, &b->v4, &b->v6, TO_BATCH);
    finish(&r, b->other_count, b->seen);
}

/* All of them by their routes: the answers have the VNI's flags. */
static void all_slow(const struct fib *f, struct fib_lanes *l, bool is_v6)
{
    lanes_begin(f, l, is_v6);
    l->slow_count = 0;
    for (unsigned k = 0; k < l->count; k++) {
        lane_is_slow(f, l, k, 0, is_v6);
    }
}

void fib_resolve_burst(const struct fib *f, struct fib_query q[], unsigned n)
{
    struct run r = { .f = f, .q = q };
    struct fib_lanes v4;
    struct fib_lanes v6;
    uint64_t seen;

    v4.count = v4.begun = v6.count = v6.begun = 0;
    for (unsigned i = 0; i < n; i++) {
        lane_add(&v4, &v6, i, &q[i], q[i].vni & VNI_MAX);
    }
    all_slow(f, &v4, false);
    all_slow(f, &v6, true);
    seen = atomic_load_explicit(&f->changes, memory_order_acquire);
    lanes_step(f, &v4, false);
    lanes_step(f, &v6, true);
    end(&r, &v4, &v6, TO_QUERY);
    finish(&r, n, seen);
}
