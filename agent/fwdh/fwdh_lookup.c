/* fwdh_lookup - routes, VM-NC and NC: what is looked up behind the choice of the half.
 */
#include "agent/fwdh/fwdh_impl.h"

/* ---- routes ---- */

/* What a route says, whichever table it stood in. */
struct result {
    uint8_t scope; /* enum phys_scope */
    uint8_t half, cls;
    uint32_t vni, nc;
};

static struct result of_cover(const struct htrie_row *row)
{
    return (struct result){ .scope = row->scope,
                            .half = (uint8_t)row->idx,
                            .cls = row->idx & 1,
                            .vni = row->vni,
                            .nc = row->idx & (HNC_COUNT - 1) };
}

static struct result of_row(const struct hpart_result *row)
{
    static const uint8_t scopes[PHYS_ACTIONS] = { [PHYS_LOCAL] = PHYS_SCOPE_LOCAL,
                                                  [PHYS_PEER] = PHYS_SCOPE_PEER,
                                                  [PHYS_TUNNEL] = PHYS_SCOPE_TUNNEL,
                                                  [PHYS_TO_X86] = PHYS_SCOPE_FALLBACK };

    return (struct result){ .scope = scopes[row->action],
                            .half = row->half,
                            .cls = row->cls,
                            .vni = row->vni,
                            .nc = row->nc };
}

/* The second level, with the first one's result where nothing in it matches. */
static struct result second_level(const struct call *c, const struct flow *f)
{
    const struct htrie_row *row = &f->route.best->row;
    const struct hpart *part = hparts_at(&c->s->half[f->half].parts, row->part);
    const struct hpart_result *hit =
        part ? hpart_match(part, &c->s->masks, &f->route.key) : NULL;

    return hit ? of_row(hit) : of_cover(row);
}

/* Where it stands in memory which run of lines the partition is. */
static void prefetch_place(const struct call *c, const struct flow *f)
{
    if (f->route.best) {
        __builtin_prefetch(&c->s->half[f->half].parts.at[f->route.best->row.part]);
    }
}

static void prefetch_part(const struct call *c, const struct flow *f)
{
    if (f->route.best) {
        hpart_prefetch(hparts_at(&c->s->half[f->half].parts, f->route.best->row.part),
                       &f->route.key);
    }
}

static void start_local(const struct call *c, struct chunk *ch, struct flow *f)
{
    const struct exact *table = &c->s->half[f->half].vm_nc;
    uint64_t key;

    f->key32 = f->is_v6 ? hswitch_crc(c->s, f->route.key.hi, f->route.key.lo)
                        : (uint32_t)f->route.key.lo;
    key = hvm_key(f->vni, f->is_v6, f->key32);
    __builtin_prefetch(
        exact_home_in(table, atomic_load_explicit(&table->dir, memory_order_acquire),
                      exact_hash1(table, key)));
    ch->local[ch->local_count++] = f;
}

static void found(const struct call *c, struct chunk *ch, struct flow *f, uint32_t nc)
{
    f->nc = nc;
    f->outcome = TO_NC;
    __builtin_prefetch(&c->s->half[f->half].nc[nc]);
    ch->found[ch->found_count++] = f;
}

static void settle(struct flow *f, enum outcome outcome, uint8_t cls, uint8_t reason)
{
    f->outcome = (uint8_t)outcome;
    f->cls = cls;
    f->reason = reason;
}

/* Follows one result; true: a peer, to be looked up again. */
static bool follow(const struct call *c, struct chunk *ch, struct flow *f,
                   const struct result *r, bool is_last)
{
    switch (r->scope) {
    case PHYS_SCOPE_LOCAL:
        start_local(c, ch, f);
        return false;
    case PHYS_SCOPE_TUNNEL:
        f->vni = r->vni;
        f->is_tunnel = true;
        found(c, ch, f, r->nc);
        return false;
    case PHYS_SCOPE_PEER:
        if (is_last) {
            settle(f, TO_DROP, 0, DROP_PEER_LIMIT);
            return false;
        }
        f->vni = r->vni;
        f->route.key.vni = r->vni;
        choose_half(f, r->half);
        return true;
    case PHYS_SCOPE_FALLBACK:
        settle(f, TO_X86, r->cls, 0);
        return false;
    default:
        settle(f, TO_X86,
               f->flags & VNI_INTERNET ? PHYS_CLASS_SERVICE : PHYS_CLASS_MISS, 0);
        return false;
    }
}

/* As many partitions are on their way from memory at a time; those of all packets would
 * push each other out of the first level of the cache. */
#define PARTS_AHEAD 16u

static void route_chunk(const struct call *c, struct chunk *ch)
{
    struct htrie_query *queries[FWD_BURST];

    for (unsigned lookup = 1; ch->live_count > 0; lookup++) {
        unsigned kept = 0;

        for (unsigned i = 0; i < ch->live_count; i++) {
            queries[i] = &ch->live[i]->route;
        }
        htrie_walk(&c->s->masks, queries, ch->live_count);
        for (unsigned i = 0; i < ch->live_count; i++) {
            prefetch_place(c, ch->live[i]);
        }
        for (unsigned i = 0; i < ch->live_count + PARTS_AHEAD; i++) {
            struct flow *f = i < PARTS_AHEAD ? NULL : ch->live[i - PARTS_AHEAD];
            struct result r = { .scope = PHYS_SCOPE_MISS };

            if (i < ch->live_count) {
                prefetch_part(c, ch->live[i]);
            }
            if (f && f->route.best) {
                r = second_level(c, f);
            }
            if (f && follow(c, ch, f, &r, lookup == LOOKUPS_MAX)) {
                htrie_start(&c->s->half[f->half].trie, &f->route);
                ch->live[kept++] = f;
            }
        }
        ch->live_count = kept;
    }
}

/* ---- VM-NC ---- */

static bool find_vm(const struct call *c, const struct flow *f, uint64_t *ret)
{
    const struct hhalf *h = &c->s->half[f->half];
    struct exact_entry key = { .w0 = hvm_key(f->vni, f->is_v6, f->key32) };
    struct exact_entry whole = { .w0 = f->route.key.hi,
                                 .w1 = f->route.key.lo,
                                 .vni = f->vni | HCONFLICT_VNI };

    return (f->is_v6 && exact_find(&h->conflict, &whole, ret)) ||
           exact_find(&h->vm_nc, &key, ret) || exact_find(&h->spill, &key, ret);
}

static void local_chunk(const struct call *c, struct chunk *ch)
{
    for (unsigned i = 0; i < ch->local_count; i++) {
        struct flow *f = ch->local[i];
        uint64_t nc;

        if (find_vm(c, f, &nc)) {
            found(c, ch, f, (uint32_t)nc);
        } else {
            settle(f, TO_X86, PHYS_CLASS_MISS, 0);
        }
    }
}

static void nc_chunk(const struct call *c, struct chunk *ch)
{
    for (unsigned i = 0; i < ch->found_count; i++) {
        struct flow *f = ch->found[i];

        if (!hnc_read(&c->s->half[f->half].nc[f->nc], f->to)) {
            settle(f, TO_DROP, 0, DROP_NO_NC);
        }
    }
}

/* All lookups of a chunk, without a trace but in the flows.  The writer moves things in
 * steps, each after the one before: what a packet takes from one table must be of the
 * same step as what it takes from the next, or a partition could be empty already and
 * an NC index somebody else's.  A step ends with a new epoch; if one ended meanwhile,
 * all is looked up again. */
void fwdh_look_up(const struct call *c, struct chunk *ch)
{
    uint64_t epoch;

    do {
        epoch = atomic_load_explicit(&c->s->retire.epoch, memory_order_acquire);
        ch->live_count = ch->local_count = ch->found_count = 0;
        for (unsigned i = 0; i < ch->routed_count; i++) {
            struct flow *f = ch->routed[i];

            f->vni = f->layers.vni;
            f->is_tunnel = false;
            f->route.key.vni = f->vni;
            choose_half(f, f->vni_half);
            htrie_start(&c->s->half[f->half].trie, &f->route);
            ch->live[ch->live_count++] = f;
        }
        route_chunk(c, ch);
        local_chunk(c, ch);
        nc_chunk(c, ch);
    } while (atomic_load_explicit(&c->s->retire.epoch, memory_order_acquire) != epoch);
}
