/*
 * chains: no destination address may see a VNI twice, nor more than three peers.
 *
 * Only what a change can have made is looked at: chains through the changed VNI for
 * addresses inside the changed prefix.  First the peer routes alone are followed, each
 * step narrowing the region to the longer of two nested prefixes; a path found so is a
 * suspect.  It is real only if some address of its region has, in every VNI of the
 * path, the path's route as its longest match: a sweep over the more specific routes
 * of all of them looks for the first address that none of them takes away.
 */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define PEERS_MAX 3 /* in one chain: a node makes at most 4 lookups (fib.h) */

struct hop {
    uint32_t vni;
    struct prefix route; /* the peer route that is taken there */
};

/* A path may grow to PEERS_MAX + 1 peer routes, which is one too many.  Hops before
 * the changed VNI are put in front, so it is kept in the middle of an array. */
struct path {
    struct hop at[2 * (PEERS_MAX + 1)];
    int first;
    int count;
};

struct search {
    struct core *c;
    uint32_t *work;
    struct path path;
    struct err *err;
    enum rc rc;
};

static bool spend(struct search *s, uint32_t n)
{
    if (*s->work < n) {
        s->rc = err_field(s->err, RC_RANGE, "prefix", "peer_complexity",
                          "too many overlapping peer routes to check: split the "
                          "batch, or let fewer tenants peer through one another");
        return false;
    }
    *s->work -= n;
    return true;
}

static struct prefix prefix_of_key(const uint8_t *key)
{
    struct prefix p = { .addr = { .family = key[0] } };
    unsigned size = ip_size(&p.addr);

    memcpy(p.addr.b, key + 1, size);
    p.len = key[1 + size];
    return p;
}

static uint8_t key_of_prefix(const struct prefix *p, uint8_t key[ENTRY_KEY_MAX])
{
    unsigned size = ip_size(&p->addr);

    key[0] = p->addr.family;
    memcpy(key + 1, p->addr.b, size);
    key[1 + size] = p->len;
    return (uint8_t)(size + 2);
}

/* The longer of two prefixes when they overlap. */
static bool intersect(const struct prefix *a, const struct prefix *b,
                      struct prefix *ret)
{
    if (a->addr.family != b->addr.family) {
        return false;
    }
    if (a->len <= b->len ? !prefix_covers(a, b) : !prefix_covers(b, a)) {
        return false;
    }
    *ret = a->len >= b->len ? *a : *b;
    return true;
}

/* The first address behind a prefix; false when there is none. */
static bool address_after(const struct prefix *p, struct ip *ret)
{
    struct ip ip = p->addr;
    int at = (p->len - 1) / 8;
    unsigned carry;

    if (p->len == 0) {
        return false;
    }
    carry = 1u << (7 - (p->len - 1) % 8);
    for (; at >= 0 && carry; at--) {
        carry += ip.b[at];
        ip.b[at] = (uint8_t)carry;
        carry >>= 8;
    }
    *ret = ip;
    return carry == 0;
}

/* ---- the sweep ---- */

/* The more specific routes of one VNI inside the region, in order. */
struct holes {
    struct rows_iter it;
    uint8_t route_len; /* of the path's route: only longer ones are holes */
    struct prefix next;
    bool has_next;
};

static void holes_next(struct holes *h)
{
    struct row row;

    h->has_next = false;
    while (rows_next(&h->it, &row)) {
        struct prefix p = prefix_of_key(row.key);

        if (p.len > h->route_len) {
            h->next = p;
            h->has_next = true;
            return;
        }
    }
}

/* Some route of `rows` longer than `len` covers all of `region`. */
static bool is_shielded(const struct rows *rows, uint8_t len,
                        const struct prefix *region)
{
    uint8_t key[ENTRY_KEY_MAX];
    struct row row;

    for (unsigned l = len + 1u; l <= region->len; l++) {
        struct prefix p = { region->addr, (uint8_t)l };

        prefix_mask(&p);
        if (rows_find(rows, TABLE_VXLAN_ROUTE, key, key_of_prefix(&p, key), &row)) {
            return true;
        }
    }
    return false;
}

/* Moves `*at` to the first address at or behind it that is in no hole; false when that
 * is outside the region.  `*ret_moved` says whether it moved. */
static bool holes_pass(struct search *s, struct holes *h, const struct prefix *region,
                       struct ip *at, bool *ret_moved)
{
    while (h->has_next) {
        struct ip behind;
        bool has_behind = address_after(&h->next, &behind);

        if (!spend(s, 1)) {
            return false;
        }
        if (ip_compare(&h->next.addr, at) > 0) {
            return true;
        }
        if (!has_behind || !prefix_contains(region, &behind)) {
            if (prefix_contains(&h->next, at)) {
                return false;
            }
        } else if (ip_compare(&behind, at) > 0) {
            *at = behind;
            *ret_moved = true;
        }
        holes_next(h);
    }
    return true;
}

/* Whether an address of `region` takes the path's route at each of its hops. */
static bool path_is_real(struct search *s, const struct prefix *region,
                         struct ip *ret_address)
{
    struct holes holes[2 * (PEERS_MAX + 1)];
    struct ip at = region->addr;
    bool moved = true;

    for (int i = 0; i < s->path.count; i++) {
        const struct hop *hop = &s->path.at[s->path.first + i];
        struct rows *rows = table_set_rows(s->c->tip, hop->vni, TABLE_VXLAN_ROUTE);
        struct prefix from = { region->addr, 0 };
        uint8_t key[ENTRY_KEY_MAX];

        if (is_shielded(rows, hop->route.len, region)) {
            return false;
        }
        holes[i].route_len =
            hop->route.len > region->len ? hop->route.len : region->len;
        holes[i].it =
            rows_seek(rows, TABLE_VXLAN_ROUTE, key, key_of_prefix(&from, key));
        holes_next(&holes[i]);
    }
    while (moved) {
        moved = false;
        for (int i = 0; i < s->path.count; i++) {
            if (!holes_pass(s, &holes[i], region, &at, &moved)) {
                return false;
            }
        }
    }
    *ret_address = at;
    return true;
}

/* ---- the search for suspects ---- */

typedef void route_visit(struct search *s, const struct prefix *route, uint32_t peer,
                         const struct prefix *region, void *ctx);

static void visit_route(struct search *s, const struct row *row, uint32_t only_peer,
                        const struct prefix *region, route_visit *visit, void *ctx)
{
    struct prefix route = prefix_of_key(row->key);
    struct prefix both;
    uint32_t peer = row_peer(row);

    if (spend(s, 1) && (only_peer == 0 || only_peer == peer) &&
        intersect(region, &route, &both)) {
        visit(s, &route, peer, &both, ctx);
    }
}

/* Each peer route of `vni` that overlaps `region` (and leads to `only_peer`, if not
 * 0): those inside stand together; those around it are looked for by length. */
static void each_route(struct search *s, uint32_t vni, uint32_t only_peer,
                       const struct prefix *region, route_visit *visit, void *ctx)
{
    struct rows *out = table_set_rows(s->c->tip_peers.out, vni, TABLE_VXLAN_ROUTE);
    uint8_t key[ENTRY_KEY_MAX];
    struct rows_iter it;
    struct row row;

    if (rows_count(out) <= 32) {
        it = rows_begin(out, TABLE_VXLAN_ROUTE);
        while (!s->rc && rows_next(&it, &row)) {
            visit_route(s, &row, only_peer, region, visit, ctx);
        }
        return;
    }
    for (unsigned len = 0; len < region->len && !s->rc; len++) {
        struct prefix p = { region->addr, (uint8_t)len };

        prefix_mask(&p);
        if (rows_find(out, TABLE_VXLAN_ROUTE, key, key_of_prefix(&p, key), &row)) {
            visit_route(s, &row, only_peer, region, visit, ctx);
        }
    }
    it = rows_seek(out, TABLE_VXLAN_ROUTE, key, key_of_prefix(region, key));
    while (!s->rc && rows_next(&it, &row)) {
        struct prefix p = prefix_of_key(row.key);

        if (p.addr.family != region->addr.family || !prefix_contains(region, &p.addr)) {
            return;
        }
        visit_route(s, &row, only_peer, region, visit, ctx);
    }
}

static void fail_path(struct search *s, uint32_t last, const char *rule,
                      const char *what, const struct ip *address)
{
    char vnis[96];
    char text[IP_TEXT_MAX];
    size_t len = 0;

    for (int i = 0; i < s->path.count; i++) {
        len += (size_t)snprintf(vnis + len, sizeof(vnis) - len, "%u, ",
                                s->path.at[s->path.first + i].vni);
    }
    snprintf(vnis + len, sizeof(vnis) - len, "%u", last);
    ip_print(address, text);
    s->rc = err_field(s->err, RC_INVALID, "peer_vni", rule,
                      "%s: destination %s goes through vni %s", what, text, vnis);
}

static bool path_has(const struct path *p, uint32_t vni)
{
    for (int i = 0; i < p->count; i++) {
        if (p->at[p->first + i].vni == vni) {
            return true;
        }
    }
    return false;
}

static void go_back(struct search *s, uint32_t last, const struct prefix *region);

struct back {
    uint32_t vni;
    uint32_t last;
};

static void back_visit(struct search *s, const struct prefix *route, uint32_t peer,
                       const struct prefix *region, void *ctx)
{
    const struct back *b = ctx;

    (void)peer;
    s->path.first--;
    s->path.count++;
    s->path.at[s->path.first] = (struct hop){ b->vni, *route };
    go_back(s, b->last, region);
    s->path.first++;
    s->path.count--;
}

/* Puts hops in front of the path until it has one peer too many. */
static void go_back(struct search *s, uint32_t last, const struct prefix *region)
{
    const struct sources *sources;
    struct ip address;

    if (s->path.count > PEERS_MAX) {
        if (path_is_real(s, region, &address)) {
            fail_path(s, last, "peer_chain", "more than 3 peers in a chain", &address);
        }
        return;
    }
    sources = peer_index_sources(&s->c->tip_peers, s->path.at[s->path.first].vni);
    for (uint32_t vni = sources_next(sources, VNI_MIN); vni && !s->rc;
         vni = sources_next(sources, vni + 1)) {
        struct back b = { vni, last };

        /* A VNI that would come twice is a loop, and found as such. */
        if (spend(s, 1) && !path_has(&s->path, b.vni)) {
            each_route(s, b.vni, s->path.at[s->path.first].vni, region, back_visit, &b);
        }
    }
}

static void go_on(struct search *s, uint32_t vni, const struct prefix *region);

static void forward_visit(struct search *s, const struct prefix *route, uint32_t peer,
                          const struct prefix *region, void *ctx)
{
    const uint32_t *vni = ctx;
    struct ip address;

    s->path.at[s->path.first + s->path.count++] = (struct hop){ *vni, *route };
    if (path_has(&s->path, peer)) {
        if (path_is_real(s, region, &address)) {
            fail_path(s, peer, "peer_loop", "peer loop", &address);
        }
    } else {
        /* Onwards first: what is a loop is to be called one. */
        if (s->path.count <= PEERS_MAX) {
            go_on(s, peer, region);
        }
        if (!s->rc) {
            go_back(s, peer, region);
        }
    }
    s->path.count--;
}

static void go_on(struct search *s, uint32_t vni, const struct prefix *region)
{
    each_route(s, vni, 0, region, forward_visit, &vni);
}

/* ---- which region a change touches ---- */

enum rc chains_check(struct core *c, uint32_t vni, const struct row *row,
                     uint32_t *work, struct err *err)
{
    struct search s = { .c = c, .work = work, .err = err };
    struct prefix region = prefix_of_key(row->key);

    s.path.first = PEERS_MAX + 1;
    go_on(&s, vni, &region);
    return s.rc;
}
