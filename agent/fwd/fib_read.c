/* Read-back: what a packet would find, as packed values. */
#include <stdlib.h>

#include "agent/fwd/fib_impl.h"

static uint32_t route_lookup(const struct fib *f, uint32_t vni, const struct fib_key *k)
{
    uint64_t slot = slot_find(f, vni, k->is_v6);

    return slot ? lpm_lookup(f->lines.base, slot, k->addr) : ACTION_NONE;
}

static bool vm_lookup(const struct fib *f, uint32_t vni, const struct fib_key *k,
                      uint32_t *ret_code)
{
    struct exact_entry key = vm_entry(vni, k, 0);
    uint64_t got;

    if (!vni || !exact_find(k->is_v6 ? &f->v6 : &f->v4, &key, &got)) {
        return false;
    }
    *ret_code = (uint32_t)got;
    return true;
}

enum rc fib_get(const struct fib *f, enum table_id table, uint32_t vni,
                const uint8_t *key, uint8_t key_len, struct buf *ret_value)
{
    struct fib_key k;
    struct nc_value nc;
    uint64_t slot;
    uint32_t code;

    switch (table) {
    case TABLE_VNI:
        slot = slot_find(f, vni, false);
        if (!(slot & SLOT_KNOWN)) {
            return RC_NOT_FOUND;
        }
        buf_u8(ret_value, slot_flags(slot));
        return RC_OK;
    case TABLE_VXLAN_ROUTE:
        if (route_key_parse(key, key_len, &k)) {
            return RC_INVALID;
        }
        code = route_lookup(f, vni, &k);
        if (code == ACTION_NONE) {
            return RC_NOT_FOUND;
        }
        action_pack(f, code, ret_value);
        return RC_OK;
    case TABLE_VM_NC:
        if (vm_key_parse(key, key_len, &k)) {
            return RC_INVALID;
        }
        if (!vm_lookup(f, vni, &k, &code)) {
            return RC_NOT_FOUND;
        }
        nc = nc_decode(f, code);
        nc_pack(&nc, ret_value);
        return RC_OK;
    default:
        return RC_INVALID;
    }
}

/* ---- audit ---- */

struct audit {
    const struct fib *f;
    enum table_id table;
    uint32_t vni;
    fib_mismatch_fn *mismatch;
    void *arg;
    uint32_t count;
    struct buf value; /* as read back */
};

static void report(struct audit *a, const struct row *row)
{
    a->count++;
    if (a->mismatch) {
        a->mismatch(a->arg, a->table, a->vni, row ? row->key : NULL,
                    row ? row->key_len : 0);
    }
}

static void audit_row(struct audit *a, const struct row *row)
{
    buf_reset(&a->value);
    if (fib_get(a->f, a->table, a->vni, row->key, row->key_len, &a->value) ||
        buf_failed(&a->value) || a->value.len != row->value_len ||
        memcmp(a->value.data, row->value, row->value_len) != 0) {
        report(a, row);
    }
}

/* A route whose range is open while sorted rows are walked. */
struct open_route {
    struct row row;
    struct fib_key key;
};

typedef unsigned __int128 u128;

static u128 addr_of(const struct fib_key *k)
{
    return (u128)k->addr.hi << 64 | k->addr.lo;
}

static u128 last_of(const struct fib_key *k)
{
    return k->len >= 128 ? addr_of(k) : addr_of(k) | (~(u128)0 >> k->len);
}

/* Where the structure's own answers may change, sorted, and how far they were used. */
struct boundaries {
    u128 *at;
    uint32_t count;
    uint32_t next;
};

static int compare_u128(const void *a, const void *b)
{
    u128 x = *(const u128 *)a;
    u128 y = *(const u128 *)b;

    return x < y ? -1 : x > y;
}

static bool boundaries_of(const struct audit *a, bool is_v6, struct boundaries *ret)
{
    uint64_t slot = slot_find(a->f, a->vni, is_v6);
    uint32_t lines = lpm_lines(&a->f->lines, slot);

    *ret = (struct boundaries){ 0 };
    if (lines == 0) {
        return true;
    }
    ret->at = malloc((size_t)lines * 16 * sizeof *ret->at);
    if (!ret->at) {
        return false;
    }
    ret->count = lpm_boundaries(&a->f->lines, slot, ret->at);
    qsort(ret->at, ret->count, sizeof *ret->at, compare_u128);
    return true;
}

static bool probe(struct audit *a, bool is_v6, u128 addr, const struct row *want)
{
    struct fib_key k = { .is_v6 = is_v6 };
    uint32_t action;

    k.addr = (struct lpm_addr){ (uint64_t)(addr >> 64), (uint64_t)addr };
    action = route_lookup(a->f, a->vni, &k);
    buf_reset(&a->value);
    if (action != ACTION_NONE) {
        action_pack(a->f, action, &a->value);
    }
    return !buf_failed(&a->value) && a->value.len == (want ? want->value_len : 0) &&
           (!want || memcmp(a->value.data, want->value, want->value_len) == 0);
}

/* Every address of [from, to] must resolve to `want` (null: to nothing).  Between two
 * neighbouring boundaries of the structure its answer cannot change, so the ends and
 * the boundaries inside speak for all. */
static void audit_range(struct audit *a, bool is_v6, struct boundaries *b, u128 from,
                        u128 to, const struct row *want)
{
    bool is_right = probe(a, is_v6, from, want) && probe(a, is_v6, to, want);

    while (b->next < b->count && b->at[b->next] <= to) {
        u128 at = b->at[b->next++];

        is_right = is_right && (at < from || probe(a, is_v6, at, want));
    }
    if (!is_right) {
        report(a, want);
    }
}

static void audit_routes(struct audit *a, const struct rows *rows, bool is_v6)
{
    struct row_cursor c = row_cursor_of(rows, TABLE_VXLAN_ROUTE);
    struct open_route open[130];
    unsigned depth = 0;
    u128 at = 0; /* audited up to here */
    bool is_done = false;
    struct boundaries b;

    if (!boundaries_of(a, is_v6, &b)) {
        report(a, NULL); /* without memory nothing can be vouched for */
        return;
    }
    for (;;) {
        struct open_route next = { 0 };
        bool has_next = false;

        while (!has_next && row_cursor_next(&c)) {
            has_next = route_key_parse(c.row.key, c.row.key_len, &next.key) == RC_OK &&
                       next.key.is_v6 == is_v6;
        }
        next.row = c.row;
        while (depth &&
               (!has_next || last_of(&open[depth - 1].key) < addr_of(&next.key))) {
            u128 last = last_of(&open[--depth].key);

            if (!is_done && at <= last) {
                audit_range(a, is_v6, &b, at, last, &open[depth].row);
                is_done = last == ~(u128)0;
                at = last + 1;
            }
        }
        if (!has_next) {
            break;
        }
        if (at < addr_of(&next.key)) {
            audit_range(a, is_v6, &b, at, addr_of(&next.key) - 1,
                        depth ? &open[depth - 1].row : NULL);
            at = addr_of(&next.key);
        }
        open[depth++] = next;
    }
    if (!is_done) {
        audit_range(a, is_v6, &b, at, ~(u128)0, NULL);
    }
    free(b.at);
}

uint32_t fib_audit(const struct fib *f, enum table_id table, uint32_t vni,
                   const struct rows *rows, fib_mismatch_fn *mismatch, void *arg)
{
    struct audit a = {
        .f = f, .table = table, .vni = vni, .mismatch = mismatch, .arg = arg
    };

    if (table == TABLE_VXLAN_ROUTE) {
        audit_routes(&a, rows, false);
        audit_routes(&a, rows, true);
    } else {
        struct row_cursor c = row_cursor_of(rows, table);

        while (row_cursor_next(&c)) {
            audit_row(&a, &c.row);
        }
        if (table == TABLE_VNI && !rows && (slot_find(f, vni, false) & SLOT_KNOWN)) {
            report(&a, NULL);
        }
    }
    buf_fini(&a.value);
    return a.count;
}
