/*
 * Marks: which VM-NC entries answer alone.
 *
 * An entry is marked while the VNI has a row and its route to that very address says
 * `local`.  Workers then take its value and look at neither (fib_batch.c).  A mark goes
 * before the route or the row does and comes after them, so that it never says more
 * than they do; an entry without one is only looked up the long way.  What a change of
 * routes costs is the VMs under the prefixes that changed.
 */
#include "agent/fwd/fib_impl.h"

typedef unsigned __int128 u128;

enum {
    SKIP_MAX = 32, /* rows that are stepped over one by one: a guess */
    GROUP = 32,    /* entries whose lines are asked for before the first is changed */
};

static struct exact *vm_table(struct fib *f, bool is_v6)
{
    return is_v6 ? &f->v6 : &f->v4;
}

static u128 addr_of(const struct fib_key *k)
{
    return (u128)k->addr.hi << 64 | k->addr.lo;
}

/* The VM-NC rows of one VNI and family, in order. */
struct vm_walk {
    const struct rows *rows;
    struct rows_iter it;
    struct fib_key vm; /* where it stands */
    bool is_v6;
    bool has_row;
    bool is_done; /* no row, or the other family's */
};

static void walk_next(struct vm_walk *w)
{
    struct row row;

    w->has_row = rows_next(&w->it, &row);
    w->is_done = !w->has_row || vm_key_parse(row.key, row.key_len, &w->vm) ||
                 w->vm.is_v6 != w->is_v6;
}

static void walk_seek(struct vm_walk *w, u128 addr)
{
    unsigned size = w->is_v6 ? 16 : 4;
    uint8_t key[ENTRY_KEY_MAX] = { w->is_v6 ? IP_V6 : IP_V4 };

    for (unsigned i = 0; i < size; i++) {
        key[1 + i] = (uint8_t)(addr >> (120 - 8 * i));
    }
    w->it = rows_seek(w->rows, TABLE_VM_NC, key, (uint8_t)(1 + size));
    walk_next(w);
}

static struct vm_walk walk_of(const struct fib *f, uint32_t vni, bool is_v6)
{
    struct vm_walk w = { .rows = table_set_rows(f->records, vni, TABLE_VM_NC),
                         .is_v6 = is_v6,
                         .is_done = true };
    unsigned skipped = 0;

    if (w.rows) {
        w.it = rows_begin(w.rows, TABLE_VM_NC);
        do { /* IPv4 comes first */
            walk_next(&w);
        } while (is_v6 && w.is_done && w.has_row && ++skipped < SKIP_MAX);
        if (is_v6 && w.is_done && w.has_row) {
            walk_seek(&w, 0);
        }
    }
    return w;
}

static void walk_forward(struct vm_walk *w, u128 addr)
{
    for (unsigned n = 0; !w->is_done && addr_of(&w->vm) < addr; n++) {
        if (n == SKIP_MAX) {
            walk_seek(w, addr);
            return;
        }
        walk_next(w);
    }
}

bool mark_is_due(const struct fib *f, uint64_t slot, const struct fib_key *vm)
{
    return (slot & SLOT_KNOWN) &&
           lpm_lookup(f->lines.base, slot, vm->addr) == ACTION_LOCAL;
}

/* Marks that are due by `slot` and to be set, or not due and to be taken. */
struct marking {
    struct fib *f;
    struct exact *table;
    uint32_t vni;
    uint64_t slot;
    bool is_set;
    unsigned count;
    struct exact_entry group[GROUP]; /* those that are asked for */
};

static void marking_end(struct marking *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        exact_mark(m->table, &m->group[i], m->is_set);
    }
    m->count = 0;
}

static void marking_add(struct marking *m, const struct fib_key *vm)
{
    if (mark_is_due(m->f, m->slot, vm) != m->is_set) {
        return;
    }
    m->group[m->count] = vm_entry(m->vni, vm, 0);
    exact_prefetch(m->table, &m->group[m->count++]);
    if (m->count == GROUP) {
        marking_end(m);
    }
}

static void marking_begin(struct marking *m, struct fib *f, uint32_t vni, bool is_v6,
                          uint64_t slot, bool is_set)
{
    m->f = f;
    m->table = vm_table(f, is_v6);
    m->vni = vni;
    m->slot = slot;
    m->is_set = is_set;
    m->count = 0;
}

/* Of the VMs under the prefixes of one family that change. */
static void mark_changed(struct marking *m, const struct table_change *c, bool is_v6)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VXLAN_ROUTE);
    struct vm_walk w = walk_of(m->f, c->vni, is_v6);
    struct delta_step s;

    while (!w.is_done && delta_next(&d, &s)) {
        const struct row *row = s.after.key ? &s.after : &s.before;
        struct fib_key prefix;
        u128 last;

        if (route_key_parse(row->key, row->key_len, &prefix) || prefix.is_v6 != is_v6) {
            continue;
        }
        last = addr_of(&prefix) | (prefix.len < 128 ? ~(u128)0 >> prefix.len : 0);
        /* Prefixes come in order: within one that was before this one nothing is left.
         */
        walk_forward(&w, addr_of(&prefix));
        while (!w.is_done && addr_of(&w.vm) <= last) {
            marking_add(m, &w.vm);
            walk_next(&w);
        }
    }
    marking_end(m);
}

void marks_take(struct fib *f, const struct table_change *c, bool is_v6, uint64_t slot)
{
    struct marking m;

    if (slot & SLOT_KNOWN) { /* else none is marked */
        marking_begin(&m, f, c->vni, is_v6, slot, false);
        mark_changed(&m, c, is_v6);
    }
}

void marks_set(struct fib *f, const struct table_change *c, bool is_v6, uint64_t slot)
{
    struct marking m;

    if (slot & SLOT_KNOWN) {
        marking_begin(&m, f, c->vni, is_v6, slot, true);
        mark_changed(&m, c, is_v6);
    }
}

void fib_flip_mark(struct fib *f, uint32_t vni, const uint8_t *key, uint8_t key_len)
{
    struct fib_key vm;

    if (vm_key_parse(key, key_len, &vm) == RC_OK) {
        struct exact_entry entry = vm_entry(vni, &vm, 0);
        struct exact *table = vm_table(f, vm.is_v6);

        exact_mark(table, &entry, !exact_is_marked(table, &entry));
    }
}

void marks_of_vni(struct fib *f, uint32_t vni, bool is_v6, uint64_t slot, bool is_set)
{
    struct marking m;
    struct vm_walk w;

    if (is_set && (slot_kind(slot) == LPM_NONE || !(slot & SLOT_KNOWN))) {
        return;
    }
    marking_begin(&m, f, vni, is_v6, slot, is_set);
    for (w = walk_of(f, vni, is_v6); !w.is_done; walk_next(&w)) {
        marking_add(&m, &w.vm);
    }
    marking_end(&m);
}
