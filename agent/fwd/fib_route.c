/* The VNI table: flags from `vni` rows, and the routes of one VNI, built anew for each
 * family that changed and published by one store into its slot. */
#include <stdlib.h>

#include "agent/fwd/fib_impl.h"

enum { RETIRE_A_SLOT = 32 }; /* two slots of exact.c and a structure */

uint64_t slot_find(const struct fib *f, uint32_t vni, bool is_v6)
{
    struct exact_entry key = { .w0 = slot_key(vni, is_v6) };
    uint64_t slot;

    return vni && exact_find(&f->vni, &key, &slot) ? slot : 0;
}

static void changed(struct fib *f)
{
    atomic_fetch_add_explicit(&f->changes, 1, memory_order_release);
}

/* Stores or creates a slot.  The limit counts VNIs, not slots. */
static enum rc slot_store(struct fib *f, uint64_t slot)
{
    uint32_t vni = (uint32_t)slot & VNI_MAX;
    struct exact_entry entry = { .w0 = slot };
    bool is_new = !slot_find(f, vni, false) && !slot_find(f, vni, true);
    bool existed;
    uint64_t old;
    enum rc rc;

    if (is_new && f->vnis_held >= f->limits.max_vnis) {
        return RC_FULL;
    }
    rc = exact_put(&f->vni, &entry, &existed, &old);
    if (rc) {
        return rc;
    }
    f->vnis_held += is_new;
    changed(f);
    return RC_OK;
}

static void slot_delete(struct fib *f, uint32_t vni, bool is_v6)
{
    struct exact_entry key = { .w0 = slot_key(vni, is_v6) };
    uint64_t old;

    if (exact_del(&f->vni, &key, &old)) {
        f->vnis_held -= !slot_find(f, vni, !is_v6);
        changed(f);
    }
}

/* ---- `vni` rows ---- */

#define SLOT_VNI_BITS (SLOT_KNOWN | UINT64_C(7) << SLOT_FLAGS_SHIFT)

/* The IPv4 slot stands for every VNI with a `vni` row, so that an IPv6 packet of a VNI
 * without IPv6 routes is told from one of an unknown VNI. */
static enum rc vni_put(struct fib *f, uint32_t vni, uint8_t flags)
{
    uint64_t bits = SLOT_KNOWN | (uint64_t)flags << SLOT_FLAGS_SHIFT;
    uint64_t v4 = slot_find(f, vni, false);
    uint64_t v6 = slot_find(f, vni, true);
    enum rc rc;

    if (!retire_reserve(&f->retire, RETIRE_A_SLOT)) {
        return RC_NO_MEMORY;
    }
    rc = slot_store(f, ((v4 ? v4 : slot_key(vni, false)) & ~SLOT_VNI_BITS) | bits);
    if (rc == RC_OK && v6) {
        rc = slot_store(f, (v6 & ~SLOT_VNI_BITS) | bits); /* in place: cannot fail */
    }
    if (rc == RC_OK && !(v4 & SLOT_KNOWN)) {
        f->vnis_known++;
        marks_of_vni(f, vni, false, v4 | bits, true);
        marks_of_vni(f, vni, true, v6 | bits, true);
    }
    return rc;
}

void vni_put_pass(struct fib *f, const struct table_change *c, struct refusal *refused)
{
    struct row_cursor row = row_cursor_of(c->after, TABLE_VNI);

    while (row_cursor_next(&row)) {
        enum rc rc = RC_INVALID;

        /* No halves here. */
        if (row.row.value_len == 2 && row.row.value[0] <= VNI_FLAGS &&
            row.row.value[1] == VNI_HALF_0) {
            rc = vni_put(f, c->vni, row.row.value[0]);
        }
        if (rc) {
            refuse(refused, c, &row.row, BATCH_PUT, rc);
        }
    }
}

void vni_delete_pass(struct fib *f, const struct table_change *c,
                     struct refusal *refused)
{
    struct row_cursor row = row_cursor_of(c->before, TABLE_VNI);
    uint64_t v4 = slot_find(f, c->vni, false);
    uint64_t v6 = slot_find(f, c->vni, true);

    if (rows_count(c->after) > 0 || !(v4 & SLOT_KNOWN)) {
        return;
    }
    if (!retire_reserve(&f->retire, RETIRE_A_SLOT)) {
        if (row_cursor_next(&row)) {
            refuse(refused, c, &row.row, BATCH_DELETE, RC_NO_MEMORY);
        }
        return;
    }
    marks_of_vni(f, c->vni, false, 0, false);
    marks_of_vni(f, c->vni, true, 0, false);
    if (slot_kind(v4) == LPM_NONE) {
        slot_delete(f, c->vni, false);
    } else {
        (void)slot_store(f, v4 & ~SLOT_VNI_BITS); /* in place: cannot fail */
    }
    if (v6) {
        (void)slot_store(f, v6 & ~SLOT_VNI_BITS);
    }
    f->vnis_known--;
}

/* ---- routes ---- */

/* Keys of this change that could not be taken, in key order. */
struct refused_keys {
    const uint8_t **at;
    enum rc *reason;
    uint32_t count;
    uint32_t cap;
};

static bool refused_add(struct refused_keys *k, const uint8_t *key, enum rc reason)
{
    if (k->count == k->cap) {
        uint32_t cap = k->cap ? k->cap * 2 : 16;
        const uint8_t **at = realloc(k->at, cap * sizeof *at);
        enum rc *reasons;

        if (!at) {
            return false;
        }
        k->at = at;
        reasons = realloc(k->reason, cap * sizeof *reasons);
        if (!reasons) {
            return false;
        }
        k->reason = reasons;
        k->cap = cap;
    }
    k->at[k->count] = key;
    k->reason[k->count++] = reason;
    return true;
}

static bool of_family(const struct row *row, bool is_v6)
{
    return row->key_len > 0 && (row->key[0] == IP_V6) == is_v6;
}

static bool step_of_family(const struct delta_step *s, bool is_v6)
{
    return of_family(s->after.key ? &s->after : &s->before, is_v6);
}

/* Takes a reference on every new action.  `*ret_growth` = routes more than before. */
static enum rc acquire_all(struct fib *f, const struct table_change *c, bool is_v6,
                           struct refused_keys *refused, int64_t *ret_growth,
                           uint32_t *ret_steps, uint32_t *ret_taken)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VXLAN_ROUTE);
    struct delta_step s;
    uint64_t room = f->limits.max_routes - f->routes;
    uint64_t added = 0;
    uint64_t deleted = 0;
    bool is_tight = room < rows_count(c->after);

    *ret_taken = 0;
    *ret_steps = 0;
    /* The deletes of this change make room for its adds. */
    for (struct delta look = d; is_tight && delta_next(&look, &s);) {
        room += step_of_family(&s, is_v6) && !s.after.key;
    }
    while (delta_next(&d, &s)) {
        struct fib_key key;
        uint32_t action;
        enum rc rc = RC_OK;

        if (!step_of_family(&s, is_v6)) {
            continue;
        }
        ++*ret_steps;
        if (s.after.key) {
            if (route_key_parse(s.after.key, s.after.key_len, &key)) {
                rc = RC_INVALID;
            } else if (!s.before.key && added >= room) {
                rc = RC_FULL;
            } else {
                rc = action_acquire(f, &s.after, &action);
            }
            if (rc && !refused_add(refused, s.after.key, rc)) {
                return RC_NO_MEMORY;
            }
            added += rc == RC_OK && !s.before.key;
        } else {
            deleted++;
        }
        ++*ret_taken;
    }
    *ret_growth = (int64_t)added - (int64_t)deleted;
    return RC_OK;
}

/* Gives back what acquire_all() took for its first `taken` steps. */
static void undo_all(struct fib *f, const struct table_change *c, bool is_v6,
                     const struct refused_keys *refused, uint32_t taken)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VXLAN_ROUTE);
    struct delta_step s;
    uint32_t next = 0;

    while (taken > 0 && delta_next(&d, &s)) {
        uint32_t action;

        if (!step_of_family(&s, is_v6)) {
            continue;
        }
        taken--;
        if (s.after.key && next < refused->count && refused->at[next] == s.after.key) {
            next++;
        } else if (s.after.key && action_find(f, &s.after, &action) == RC_OK) {
            action_undo(f, action);
        }
    }
}

/* Releases what the old rows held and reports what was refused, row by row. */
static void settle_all(struct fib *f, const struct table_change *c, bool is_v6,
                       const struct refused_keys *refused, struct refusal *to)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VXLAN_ROUTE);
    struct delta_step s;
    uint32_t next = 0;

    while ((c->before || next < refused->count) && delta_next(&d, &s)) {
        uint32_t action;

        if (!step_of_family(&s, is_v6)) {
            continue;
        }
        if (s.after.key && next < refused->count && refused->at[next] == s.after.key) {
            refuse(to, c, &s.after, BATCH_PUT, refused->reason[next++]);
        } else if (s.before.key && action_find(f, &s.before, &action) == RC_OK) {
            action_release(f, action);
        }
    }
}

static void refuse_all(const struct table_change *c, bool is_v6, struct refusal *to,
                       enum rc reason)
{
    struct delta d = delta_of(c->before, c->after, TABLE_VXLAN_ROUTE);
    struct delta_step s;

    while (delta_next(&d, &s)) {
        if (step_of_family(&s, is_v6)) {
            refuse(to, c, s.after.key ? &s.after : &s.before,
                   s.after.key ? BATCH_PUT : BATCH_DELETE, reason);
        }
    }
}

static bool scratch_reserve(struct fib *f, uint32_t count)
{
    struct lpm_route *grown;
    uint32_t cap = count + count / 4 + 16;

    if (count <= f->scratch_cap) {
        return true;
    }
    grown = realloc(f->scratch, cap * sizeof *grown);
    if (!grown) {
        return false;
    }
    f->scratch = grown;
    f->scratch_cap = cap;
    return true;
}

/* The routes of one family as the builder wants them: the new rows, but for refused
 * ones what stood there before. */
static enum rc collect(struct fib *f, const struct table_change *c, bool is_v6,
                       const struct refused_keys *refused, uint32_t *ret_count)
{
    struct row_cursor row = row_cursor_of(c->after, TABLE_VXLAN_ROUTE);
    uint32_t next = 0;

    *ret_count = 0;
    if (!scratch_reserve(f, rows_count(c->after))) {
        return RC_NO_MEMORY;
    }
    while (row_cursor_next(&row)) {
        struct lpm_route *r = &f->scratch[*ret_count];
        struct row use = row.row;
        struct fib_key key;

        if (!of_family(&row.row, is_v6)) {
            continue;
        }
        if (next < refused->count && refused->at[next] == row.row.key) {
            next++;
            if (!rows_find(c->before, TABLE_VXLAN_ROUTE, row.row.key, row.row.key_len,
                           &use)) {
                continue;
            }
        }
        if (route_key_parse(use.key, use.key_len, &key) ||
            action_find(f, &use, &r->action)) {
            return RC_BUG; /* a reference is held on each of them */
        }
        r->addr = (unsigned __int128)key.addr.hi << 64 | key.addr.lo;
        r->len = key.len;
        ++*ret_count;
    }
    return row.failed ? RC_INVALID : RC_OK;
}

/* Builds and publishes one family of one VNI. */
static enum rc publish(struct fib *f, const struct table_change *c, bool is_v6,
                       const struct refused_keys *refused, uint32_t steps)
{
    uint64_t old = slot_find(f, c->vni, is_v6);
    uint64_t vni_bits = (old ? old : slot_find(f, c->vni, false)) & SLOT_VNI_BITS;
    struct lpm_built built;
    uint64_t slot;
    uint32_t count;
    enum rc rc;

    if (!retire_reserve(&f->retire, steps + RETIRE_A_SLOT)) {
        return RC_NO_MEMORY;
    }
    rc = collect(f, c, is_v6, refused, &count);
    if (rc == RC_OK) {
        rc = lpm_build(&f->lines, f->scratch, count, is_v6, &built);
    }
    if (rc) {
        return rc;
    }
    slot = slot_key(c->vni, is_v6) | vni_bits |
           (uint64_t)built.kind << SLOT_KIND_SHIFT | (uint64_t)built.line << 32;
    if (slot_kind(old) != LPM_NONE) {
        marks_take(f, c, is_v6, slot);
    }
    if (built.kind == LPM_NONE && (is_v6 || !(vni_bits & SLOT_KNOWN))) {
        slot_delete(f, c->vni, is_v6);
    } else {
        rc = slot_store(f, slot); /* where one stood it cannot fail */
        if (rc) {
            lines_free(&f->lines, built.line, built.count);
            return rc;
        }
        if (slot_kind(old) == LPM_NONE) {
            marks_of_vni(f, c->vni, is_v6, slot, true);
        } else {
            marks_set(f, c, is_v6, slot);
        }
    }
    if (slot_kind(old) != LPM_NONE) {
        retire_add(&f->retire, RETIRED_LINES, slot_line(old),
                   lpm_lines(&f->lines, old));
    }
    return RC_OK;
}

static void route_family(struct fib *f, const struct table_change *c, bool is_v6,
                         struct refusal *to)
{
    struct refused_keys refused = { 0 };
    uint32_t steps;
    uint32_t taken;
    int64_t growth = 0;
    enum rc rc = acquire_all(f, c, is_v6, &refused, &growth, &steps, &taken);

    if (rc == RC_OK && steps > refused.count) {
        rc = publish(f, c, is_v6, &refused, steps);
    }
    if (rc) {
        undo_all(f, c, is_v6, &refused, taken);
        refuse_all(c, is_v6, to, rc);
    } else if (steps > 0) {
        f->routes = (uint64_t)((int64_t)f->routes + growth);
        settle_all(f, c, is_v6, &refused, to);
    }
    free(refused.at);
    free(refused.reason);
}

/* What the rows say must be there to be referred to. */
static enum rc hold_actions(struct fib *f, const struct rows *rows)
{
    struct row_cursor row = row_cursor_of(rows, TABLE_VXLAN_ROUTE);
    uint32_t action;
    enum rc rc = RC_OK;

    while (rc == RC_OK && row_cursor_next(&row)) {
        rc = action_find(f, &row.row, &action);
        rc = rc == RC_NOT_FOUND ? action_acquire(f, &row.row, &action) : rc;
    }
    return rc;
}

enum rc route_rebuild(struct fib *f, const struct table_change *c)
{
    const struct refused_keys none = { 0 };
    enum rc rc = hold_actions(f, c->after);

    rc = rc ? rc : publish(f, c, false, &none, 0);
    return rc ? rc : publish(f, c, true, &none, 0);
}

void route_pass(struct fib *f, const struct table_change *c, unsigned families,
                struct refusal *refused)
{
    if (families & 1) {
        route_family(f, c, false, refused);
    }
    if (families & 2) {
        route_family(f, c, true, refused);
    }
}
