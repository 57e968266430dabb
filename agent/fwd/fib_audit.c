/* Whether all of a VNI's addresses resolve as its rows say, and what they resolve to
 * where they do not. */
#include <stdlib.h>

#include "agent/fwd/fib_impl.h"

struct audit {
    const struct fib *f;
    enum table_id table;
    uint32_t vni;
    uint64_t slot; /* routes: of the VNI and family */
    fib_mismatch_fn *mismatch;
    fib_found_fn *found; /* null: nobody wants to know */
    void *arg;
    uint32_t count;
    struct buf value;         /* as read back */
    struct segment *segments; /* wrong ones of routes that are open, shortest first */
    uint32_t segment_count, segment_cap;
    bool is_memory_out; /* for segments: what was found is not told */
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

typedef unsigned __int128 u128;

/* A route whose range is open while sorted rows are walked. */
struct open_route {
    struct row row;
    struct fib_key key;
    bool has_right; /* some of its addresses resolve to it */
};

/* Addresses that resolve to something else than the route that they are of. */
struct segment {
    u128 from;
    u128 to;
    uint32_t action;
    uint32_t depth; /* of the route, from 1 */
};

static u128 addr_of(const struct fib_key *k)
{
    return (u128)k->addr.hi << 64 | k->addr.lo;
}

static u128 last_of(const struct fib_key *k)
{
    return k->len >= 128 ? addr_of(k) : addr_of(k) | (~(u128)0 >> k->len);
}

/* Packs a route's key (entry.h); returns its length. */
static uint8_t route_key(bool is_v6, u128 addr, unsigned len, uint8_t to[ENTRY_KEY_MAX])
{
    unsigned size = is_v6 ? 16 : 4;

    to[0] = is_v6 ? 6 : 4;
    for (unsigned i = 0; i < size; i++) {
        to[1 + i] = (uint8_t)(addr >> (120 - 8 * i));
    }
    to[1 + size] = (uint8_t)len;
    return (uint8_t)(size + 2);
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

/* Those of [from, to]. */
static bool boundaries_of(const struct audit *a, u128 from, u128 to,
                          struct boundaries *ret)
{
    uint32_t count = lpm_boundaries(&a->f->lines, a->slot, from, to, NULL);

    *ret = (struct boundaries){ .count = count };
    if (count == 0) {
        return true;
    }
    ret->at = malloc(count * sizeof *ret->at);
    if (!ret->at) {
        return false;
    }
    lpm_boundaries(&a->f->lines, a->slot, from, to, ret->at);
    qsort(ret->at, count, sizeof *ret->at, compare_u128);
    return true;
}

static uint32_t action_at(const struct audit *a, u128 addr)
{
    struct lpm_addr at = { (uint64_t)(addr >> 64), (uint64_t)addr };

    return a->slot ? lpm_lookup(a->f->lines.base, a->slot, at) : ACTION_NONE;
}

/* Whether that is what `want` says (null: nothing); a->value is the action's. */
static bool is_value_of(struct audit *a, uint32_t action, const struct row *want)
{
    buf_reset(&a->value);
    if (action != ACTION_NONE && action_pack_sound(a->f, action, &a->value)) {
        return false;
    }
    return !buf_failed(&a->value) && a->value.len == (want ? want->value_len : 0) &&
           (!want || memcmp(a->value.data, want->value, want->value_len) == 0);
}

/* Tells [from, to], which resolves to `action`, as prefixes. */
static void tell_found(struct audit *a, u128 from, u128 to, uint32_t action)
{
    bool is_v6 = (a->slot & SLOT_V6) != 0;
    unsigned least = is_v6 ? 0 : 96; /* host bits of one address */
    uint8_t key[ENTRY_KEY_MAX];

    buf_reset(&a->value);
    if (!a->found || action == ACTION_NONE ||
        action_pack_sound(a->f, action, &a->value) || buf_failed(&a->value)) {
        return;
    }
    for (;;) {
        unsigned host = least;
        u128 mask = ((u128)1 << host) - 1;

        while (host < 128 && (from >> host & 1) == 0) {
            u128 wider = host == 127 ? ~(u128)0 : ((u128)2 << host) - 1;

            if ((from | wider) > to) {
                break;
            }
            mask = wider;
            host++;
        }
        a->found(a->arg, a->vni, key, route_key(is_v6, from, 128 - host, key),
                 a->value.data, (uint8_t)a->value.len);
        if ((from | mask) >= to) {
            return;
        }
        from = (from | mask) + 1;
    }
}

static void keep_segment(struct audit *a, const struct segment *s)
{
    if (a->segment_count == a->segment_cap) {
        uint32_t cap = a->segment_cap ? a->segment_cap * 2 : 16;
        struct segment *more = realloc(a->segments, cap * sizeof(*more));

        if (!more) {
            a->is_memory_out = true;
            return;
        }
        a->segments = more;
        a->segment_cap = cap;
    }
    a->segments[a->segment_count++] = *s;
}

/* The route at `depth` is through: what its addresses resolve to is told, as another
 * value of it where that is one for all of them, else as what it is. */
static void close_route(struct audit *a, const struct open_route *r, uint32_t depth)
{
    uint32_t first = a->segment_count;
    bool is_one = !r->has_right;

    while (first > 0 && a->segments[first - 1].depth == depth) {
        first--;
        is_one = is_one &&
                 a->segments[first].action == a->segments[a->segment_count - 1].action;
    }
    if (first < a->segment_count && is_one && !a->is_memory_out) {
        tell_found(a, addr_of(&r->key), last_of(&r->key), a->segments[first].action);
    }
    for (uint32_t i = first; i < a->segment_count && !is_one; i++) {
        tell_found(a, a->segments[i].from, a->segments[i].to, a->segments[i].action);
    }
    a->segment_count = first;
}

/* Every address of [from, to] must resolve to `want` (null: to nothing).  The
 * structure's answer changes at its boundaries only, so one address of each part
 * between them speaks for all. */
static void audit_range(struct audit *a, struct boundaries *b, u128 from, u128 to,
                        struct open_route *want, uint32_t depth)
{
    const struct row *row = want ? &want->row : NULL;
    bool is_right = true;

    for (u128 at = from;;) {
        struct segment s = { .from = at, .to = to, .depth = depth };

        while (b->next < b->count && b->at[b->next] <= at) {
            b->next++;
        }
        if (b->next < b->count && b->at[b->next] <= to) {
            s.to = b->at[b->next] - 1;
        }
        s.action = action_at(a, at);
        if (is_value_of(a, s.action, row)) {
            if (want) {
                want->has_right = true;
            }
        } else {
            is_right = false;
            if (want) {
                keep_segment(a, &s);
            } else {
                tell_found(a, s.from, s.to, s.action);
            }
        }
        if (s.to == to) {
            break;
        }
        at = s.to + 1;
    }
    if (!is_right) {
        report(a, row);
    }
}

static struct rows_iter routes_seek(const struct rows *rows, bool is_v6, u128 addr)
{
    uint8_t key[ENTRY_KEY_MAX];

    return rows_seek(rows, TABLE_VXLAN_ROUTE, key, route_key(is_v6, addr, 0, key));
}

/* The next route of the family; false behind the last. */
static bool routes_next(struct rows_iter *it, bool is_v6, struct open_route *ret)
{
    while (rows_next(it, &ret->row)) {
        if (route_key_parse(ret->row.key, ret->row.key_len, &ret->key) == RC_OK &&
            ret->key.is_v6 == is_v6) {
            return true;
        }
    }
    return false;
}

/* The last address of a part that begins with the row `it` stands at and has about
 * `max_rows` rows. */
static u128 part_end(struct rows_iter it, bool is_v6, uint32_t max_rows)
{
    struct open_route r;
    u128 addr = 0;

    for (uint32_t n = 0; routes_next(&it, is_v6, &r); n++) {
        if (n >= max_rows && addr_of(&r.key) != addr) {
            return addr_of(&r.key) - 1;
        }
        addr = addr_of(&r.key);
    }
    return ~(u128)0;
}

/* The routes that begin before `addr` and cover it, shortest first. */
static unsigned covers_of(const struct rows *rows, bool is_v6, u128 addr,
                          struct open_route open[])
{
    uint8_t key[ENTRY_KEY_MAX];
    unsigned depth = 0;

    for (unsigned len = 0; addr != 0 && len <= (is_v6 ? 128 : 32); len++) {
        u128 base = len == 0 ? 0 : addr >> (128 - len) << (128 - len);
        uint8_t key_len;

        if (base == addr) {
            break; /* it and all longer ones begin there */
        }
        key_len = route_key(is_v6, base, len, key);
        if (rows_find(rows, TABLE_VXLAN_ROUTE, key, key_len, &open[depth].row)) {
            route_key_parse(open[depth].row.key, key_len, &open[depth].key);
            open[depth].has_right = false;
            depth++;
        }
    }
    return depth;
}

/* Audits [from, to]; the rows that begin there come from `it`. */
static void audit_addresses(struct audit *a, const struct rows *rows,
                            struct rows_iter it, bool is_v6, u128 from, u128 to)
{
    struct open_route open[130];
    struct open_route next = { 0 };
    unsigned depth = covers_of(rows, is_v6, from, open);
    u128 at = from; /* audited up to here */
    bool is_done = false;
    struct boundaries b;

    if (!boundaries_of(a, from, to, &b)) {
        report(a, NULL); /* without memory nothing can be vouched for */
        return;
    }
    for (;;) {
        bool has_next = routes_next(&it, is_v6, &next) && addr_of(&next.key) <= to;

        while (depth &&
               (!has_next || last_of(&open[depth - 1].key) < addr_of(&next.key))) {
            u128 last = last_of(&open[depth - 1].key);

            last = last < to ? last : to;
            if (!is_done && at <= last) {
                audit_range(a, &b, at, last, &open[depth - 1], depth);
                is_done = last == to;
                at = last + 1;
            }
            close_route(a, &open[depth - 1], depth);
            depth--;
        }
        if (!has_next) {
            break;
        }
        if (at < addr_of(&next.key)) {
            audit_range(a, &b, at, addr_of(&next.key) - 1,
                        depth ? &open[depth - 1] : NULL, depth);
            at = addr_of(&next.key);
        }
        next.has_right = false;
        open[depth++] = next;
    }
    if (!is_done) {
        audit_range(a, &b, at, to, NULL, 0);
    }
    free(b.at);
}

static void addr_store(u128 addr, uint8_t to[16])
{
    for (unsigned i = 0; i < 16; i++) {
        to[i] = (uint8_t)(addr >> (120 - 8 * i));
    }
}

static u128 addr_fetch(const uint8_t from[16])
{
    u128 addr = 0;

    for (unsigned i = 0; i < 16; i++) {
        addr = addr << 8 | from[i];
    }
    return addr;
}

bool fib_audit_routes(const struct fib *f, uint32_t vni, const struct rows *rows,
                      struct fib_audit_at *at, uint32_t max_rows,
                      fib_mismatch_fn *mismatch, fib_found_fn *found, void *arg)
{
    struct audit a = { .f = f,
                       .table = TABLE_VXLAN_ROUTE,
                       .vni = vni,
                       .mismatch = mismatch,
                       .found = found,
                       .arg = arg };
    bool is_v6 = at->is_v6;
    u128 from = addr_fetch(at->addr);
    struct rows_iter it = routes_seek(rows, is_v6, from);
    struct rows_iter ahead = it;
    struct open_route first;
    u128 to = ~(u128)0;

    a.slot = slot_find(f, vni, is_v6);
    if (slot_kind(a.slot) != LPM_NONE || routes_next(&ahead, is_v6, &first)) {
        to = part_end(it, is_v6, max_rows);
        audit_addresses(&a, rows, it, is_v6, from, to);
    } /* else there are neither routes nor a structure */
    at->mismatches += a.count;
    addr_store(to + 1, at->addr); /* 0 behind the last: the next family's first */
    at->is_v6 = is_v6 || to == ~(u128)0;
    buf_fini(&a.value);
    free(a.segments);
    return !is_v6 || to != ~(u128)0;
}

static uint32_t audit_all_routes(const struct fib *f, uint32_t vni,
                                 const struct rows *rows, fib_mismatch_fn *mismatch,
                                 void *arg)
{
    struct fib_audit_at at = { 0 };

    while (fib_audit_routes(f, vni, rows, &at, UINT32_MAX, mismatch, NULL, arg)) {
    }
    return at.mismatches;
}

uint32_t fib_audit(const struct fib *f, enum table_id table, uint32_t vni,
                   const struct rows *rows, fib_mismatch_fn *mismatch, void *arg)
{
    struct audit a = {
        .f = f, .table = table, .vni = vni, .mismatch = mismatch, .arg = arg
    };
    struct row_cursor c = row_cursor_of(rows, table);

    if (table == TABLE_VXLAN_ROUTE) {
        return audit_all_routes(f, vni, rows, mismatch, arg);
    }
    while (row_cursor_next(&c)) {
        audit_row(&a, &c.row);
    }
    if (table == TABLE_VNI && !rows && (slot_find(f, vni, false) & SLOT_KNOWN)) {
        report(&a, NULL);
    }
    buf_fini(&a.value);
    return a.count;
}
