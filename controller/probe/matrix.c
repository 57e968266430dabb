/* matrix: the walk over a group's rows, and what it picks. */
#include "controller/probe/matrix_impl.h"

#include <stdlib.h>
#include <string.h>

#include "controller/probe/address.h"
#include "controller/probe/lookup.h"

/* What is followed, or tried, at most; guesses that a large region does not reach.  A
 * try takes some 10 us. */
#define TRIES_MAX      20000  /* addresses of a tenant's own rows */
#define PEER_TRIES_MAX 20000  /* of its peers' */
#define PEER_ROWS_MAX  500000 /* rows of peers … */
#define FOLLOW_MAX     64     /* … of one peer's, from one route … */
#define FOLLOW_ALL_MAX 512    /* … and of all behind that route */
#define RULE_ROWS_MAX  1000000
#define COVERS_MAX     8 /* routes around the present one that are remembered … */
#define COVER_TRIES    8 /* … and gaps in each that are looked into */
#define PORT_ANY       40000
#define PORT_DISCARD   9 /* as probe.c has it */

enum phase { PHASE_VNI, PHASE_ROUTES, PHASE_VMS, PHASE_RULES };

/* A route around the present one: what it decides shows in the gaps between those. */
struct cover {
    struct prefix dst;
    struct route_action action;
    unsigned tries;
};

struct matrix {
    uint32_t refs;
    bool is_h;
    uint32_t only; /* this VNI; 0: all */
    bool is_done;
    bool was_cut;
    uint32_t tries;
    uint32_t peer_tries;
    uint32_t peer_rows;
    uint32_t rule_rows;
    /* Where the walk is. */
    uint32_t vni;
    enum phase phase;
    struct rows *rows; /* referenced; null: the phase has not begun */
    struct rows_iter it;
    struct cover covers[COVERS_MAX]; /* the innermost last */
    unsigned cover_count;
    struct entry row_of_vni;
    struct picks picks;
};

/* What one step of the walk works with. */
struct walk {
    struct matrix *m;
    const struct table_set *s;
    uint32_t *units;
    uint32_t follow; /* rows left to follow from this route */
};

static void spend(const struct walk *w, uint32_t units)
{
    *w->units -= *w->units < units ? *w->units : units;
}

/* ---- tries ---- */

static bool may_try(struct matrix *m, uint32_t *count, uint32_t max)
{
    if (*count >= max) {
        m->was_cut = true;
        return false;
    }
    (*count)++;
    return true;
}

/* Keys that a look for the longest route asks after. */
static uint32_t keys_of(const struct ip *dst)
{
    return ip_size(dst) * 8 + 1;
}

static void find_way(const struct walk *w, uint32_t vni, const struct ip *dst,
                     struct probe_way *ret)
{
    way_find(w->s, vni, dst, ret);
    spend(w, (ret->hops + 1u) * keys_of(dst));
}

static unsigned out_index(const struct probe_way *way)
{
    return way->end < WAY_FORWARDS ? matrix_index(way->to.family) : 0;
}

/* A packet to it without more ado. */
static bool is_denied(const struct walk *w, uint32_t vni, const struct ip *dst)
{
    struct rows *rules = table_set_rows(w->s, vni, TABLE_ACL);
    struct lookup_flow flow = { .dst = *dst,
                                .proto = IP_PROTO_UDP,
                                .has_ports = true,
                                .sport = PORT_ANY,
                                .dport = PORT_DISCARD };
    struct entry rule;

    if (!w->m->is_h || !rules) {
        return false;
    }
    flow.src = address_beside(w->s, vni, dst);
    spend(w, rows_count(rules));
    return lookup_acl(w->s, vni, &flow, &rule) && rule.acl.action == ACL_DENY;
}

static void take(struct pick *p, uint32_t vni, const struct ip *dst)
{
    if (p->vni == 0) {
        *p = (struct pick){ .vni = vni, .dst = *dst };
    }
}

/* The half that its NC is looked up in, of a VNI that the walk is at. */
static unsigned half_of(const struct walk *w, const struct ip *dst)
{
    bool is_odd = dst->b[ip_size(dst) - 1] & 1;

    switch (w->m->row_of_vni.vni_row.half) {
    case VNI_HALF_BY_DST:
        return is_odd ? CELL_HALF_ODD : CELL_HALF_EVEN;
    case VNI_HALF_1:
        return CELL_HALF_1;
    default:
        return CELL_HALF_0;
    }
}

/* What the address is an example of, besides its way. */
static void take_more(const struct walk *w, uint32_t vni, const struct ip *dst,
                      const struct probe_way *way)
{
    struct picks *p = &w->m->picks;
    unsigned in = matrix_index(dst->family);
    uint8_t flags = w->m->row_of_vni.vni_row.flags;

    take(flags & VNI_INNER_VLAN ? &p->tags[in] : &p->untagged[in], vni, dst);
    take(flags & VNI_ACL ? &p->ports[in] : &p->unruled[in], vni, dst);
    if (w->m->is_h && (way->end == WAY_LOCAL || way->end == WAY_LOCAL_MAC) &&
        way->hops == 0) {
        take(&p->halves[half_of(w, dst)][in], vni, dst);
    }
}

/* The address becomes the pick of its way, where that has none yet. */
static void consider(const struct walk *w, uint32_t vni, const struct ip *dst,
                     bool is_peers)
{
    struct matrix *m = w->m;
    struct probe_way way;

    if (!lookup_is_routable(dst) ||
        !may_try(m, is_peers ? &m->peer_tries : &m->tries,
                 is_peers ? PEER_TRIES_MAX : TRIES_MAX) ||
        is_denied(w, vni, dst)) {
        return;
    }
    find_way(w, vni, dst, &way);
    take(&m->picks.ways[way.end][way.hops][matrix_index(dst->family)][out_index(&way)],
         vni, dst);
    take_more(w, vni, dst, &way);
}

static bool lacks(const struct walk *w, enum way_end end, unsigned hops, uint8_t inner,
                  uint8_t out)
{
    unsigned o = end < WAY_FORWARDS ? matrix_index(out) : 0;

    return w->m->picks.ways[end][hops][matrix_index(inner)][o].vni == 0;
}

/* ---- routes ---- */

static enum way_end end_of(const struct route_action *a)
{
    switch (a->scope) {
    case SCOPE_IDC:
        return WAY_IDC;
    case SCOPE_REGION:
        return WAY_REGION;
    case SCOPE_DERIVED:
        return WAY_DERIVED;
    case SCOPE_INTERNET:
        return WAY_INTERNET;
    case SCOPE_FALLBACK:
        return WAY_FALLBACK;
    default:
        return WAY_SERVICE;
    }
}

/* Some addresses of a prefix, as long as `lacks` holds: others may have longer routes
 * or VMs of their own. */
static void consider_inside(const struct walk *w, uint32_t vni, const struct prefix *p,
                            enum way_end end, unsigned hops, uint8_t out)
{
    struct prefix middle = *p;
    struct ip at[4] = { address_inside(p), address_last(p), p->addr };

    if (middle.len < ip_size(&p->addr) * 8) {
        middle.addr.b[middle.len / 8] |= (uint8_t)(0x80 >> middle.len % 8);
    }
    at[3] = middle.addr;
    for (unsigned i = 0; i < 4 && lacks(w, end, hops, p->addr.family, out); i++) {
        consider(w, vni, &at[i], hops > 0);
    }
}

/* One more, or one less; false: there is none within. */
static bool step(struct ip *ip, int by, const struct prefix *within)
{
    for (unsigned i = ip_size(ip); i > 0; i--) {
        uint8_t old = ip->b[i - 1];

        ip->b[i - 1] = (uint8_t)(old + by);
        if (old != (by > 0 ? 0xff : 0)) {
            break;
        }
    }
    return prefix_contains(within, ip);
}

/* Beside a prefix, within another one. */
static void consider_beside(const struct walk *w, uint32_t vni, const struct prefix *p,
                            const struct prefix *within, bool is_peers)
{
    struct ip behind = address_last(p);
    struct ip before = p->addr;

    if (step(&behind, 1, within)) {
        consider(w, vni, &behind, is_peers);
    }
    if (step(&before, -1, within)) {
        consider(w, vni, &before, is_peers);
    }
}

static void follow_peer(struct walk *w, uint32_t vni, const struct prefix *within,
                        uint32_t peer, unsigned hops);

/* A route of a peer, inside what leads there. */
static void follow_route(struct walk *w, uint32_t vni, const struct prefix *within,
                         const struct entry *e, unsigned hops)
{
    const struct prefix *p = e->route.dst.len > within->len ? &e->route.dst : within;
    const struct route_action *a = &e->route.action;

    if (a->scope == SCOPE_PEER) {
        follow_peer(w, vni, p, a->vni, hops + 1);
    } else if (a->scope == SCOPE_LOCAL) {
        consider_inside(w, vni, p, WAY_VM_MISS, hops, 0);
    } else {
        consider_inside(w, vni, p, end_of(a), hops, a->endpoint.family);
    }
}

static bool may_follow(struct walk *w)
{
    if (w->follow == 0 || w->m->peer_rows >= PEER_ROWS_MAX) {
        w->m->was_cut = true;
        return false;
    }
    w->follow--;
    w->m->peer_rows++;
    spend(w, 1);
    return true;
}

/* The rows of the peer's table from the prefix on; `ret` gives those within. */
static bool next_within(struct walk *w, enum table_id table, uint32_t vni,
                        const struct prefix *within, struct rows_iter *it,
                        struct entry *ret)
{
    struct row row;

    while (rows_next(it, &row)) {
        const struct ip *at =
            table == TABLE_VM_NC ? &ret->vm_nc.vm : &ret->route.dst.addr;

        if (!may_follow(w)) {
            return false;
        }
        if (!entry_unpack(table, vni, &row, ret, NULL)) {
            return prefix_contains(within, at);
        }
    }
    return false;
}

static struct rows_iter seek(const struct walk *w, enum table_id table, uint32_t vni,
                             const struct prefix *within)
{
    struct entry key = { .table = (uint8_t)table, .vni = vni };
    struct buf packed = BUF_INIT;
    struct rows_iter it = { 0 };

    if (table == TABLE_VM_NC) {
        key.vm_nc.vm = within->addr;
    } else {
        key.route.dst = *within;
    }
    entry_pack_key(&key, &packed);
    if (!buf_failed(&packed)) {
        it = rows_seek(table_set_rows(w->s, vni, table), table, packed.data,
                       (uint8_t)packed.len);
    }
    buf_fini(&packed);
    return it;
}

static void follow_vms(struct walk *w, uint32_t vni, const struct prefix *within,
                       uint32_t peer, unsigned hops)
{
    struct rows_iter it = seek(w, TABLE_VM_NC, peer, within);
    struct entry e;

    for (unsigned i = 0;
         i < FOLLOW_MAX && next_within(w, TABLE_VM_NC, peer, within, &it, &e); i++) {
        if (lacks(w, e.vm_nc.has_mac ? WAY_LOCAL_MAC : WAY_LOCAL, hops,
                  within->addr.family, e.vm_nc.nc.family)) {
            consider(w, vni, &e.vm_nc.vm, true);
        }
    }
}

/* What `vni` reaches in `peer` by a route for `within`, `hops` peers away. */
static void follow_peer(struct walk *w, uint32_t vni, const struct prefix *within,
                        uint32_t peer, unsigned hops)
{
    struct ip first = address_inside(within);
    struct rows_iter it;
    struct entry e;

    if (hops > WAY_HOPS_MAX) {
        consider_inside(w, vni, within, WAY_PEER_LIMIT, hops, 0);
        return;
    }
    if (lookup_route(w->s, peer, &first, &e)) {
        follow_route(w, vni, within, &e, hops);
    } else {
        consider_inside(w, vni, within, WAY_ROUTE_MISS, hops, 0);
    }
    spend(w, keys_of(&first));
    it = seek(w, TABLE_VXLAN_ROUTE, peer, within);
    for (unsigned i = 0;
         i < FOLLOW_MAX && next_within(w, TABLE_VXLAN_ROUTE, peer, within, &it, &e);
         i++) {
        follow_route(w, vni, within, &e, hops);
        if (i < COVER_TRIES) {
            consider_beside(w, vni, &e.route.dst, within, true);
        }
    }
    follow_vms(w, vni, within, peer, hops);
}

/* The route decides about an address of its own. */
static void take_route(const struct walk *w, struct pick *to, const struct prefix *p)
{
    struct ip dst = address_inside(p);
    struct probe_way way;

    if (to->vni == 0 && lookup_is_routable(&dst) &&
        may_try(w->m, &w->m->tries, TRIES_MAX) && !is_denied(w, w->m->vni, &dst)) {
        find_way(w, w->m->vni, &dst, &way);
        if (way.hops == 0 && way.end != WAY_ROUTE_MISS &&
            prefix_compare(&way.route, p) == 0) {
            take(to, w->m->vni, &dst);
        }
    }
}

/* What it decides has no example yet. */
static bool lacks_route(const struct walk *w, const struct cover *c)
{
    uint8_t inner = c->dst.addr.family;

    switch (c->action.scope) {
    case SCOPE_PEER:
        return true; /* it may be a long way */
    case SCOPE_LOCAL:
        return lacks(w, WAY_VM_MISS, 0, inner, 0);
    default:
        return lacks(w, end_of(&c->action), 0, inner, c->action.endpoint.family);
    }
}

/* Those around it stay, and it is the innermost of those around the next one. */
static void look_around(struct walk *w, const struct entry *e)
{
    struct matrix *m = w->m;
    const struct prefix *p = &e->route.dst;

    while (m->cover_count > 0 &&
           !prefix_covers(&m->covers[m->cover_count - 1].dst, p)) {
        m->cover_count--;
    }
    if (m->cover_count > 0) {
        struct cover *c = &m->covers[m->cover_count - 1];

        take_route(w, &m->picks.routes[CELL_ROUTE_NESTED][matrix_index(p->addr.family)],
                   p);
        if (lacks_route(w, c) && c->tries++ < COVER_TRIES) {
            consider_beside(w, m->vni, p, &c->dst, false);
        }
    }
    if (m->cover_count < COVERS_MAX) {
        m->covers[m->cover_count++] =
            (struct cover){ .dst = *p, .action = e->route.action };
    }
}

static void look_at_route(struct walk *w, const struct entry *e)
{
    struct matrix *m = w->m;
    const struct prefix *p = &e->route.dst;
    const struct route_action *a = &e->route.action;
    unsigned in = matrix_index(p->addr.family);

    look_around(w, e);
    if (p->len == 0) {
        take_route(w, &m->picks.routes[CELL_ROUTE_DEFAULT][in], p);
    } else if (p->len == ip_size(&p->addr) * 8) {
        take_route(w, &m->picks.routes[CELL_ROUTE_HOST][in], p);
    }
    if (a->scope == SCOPE_PEER) {
        w->follow = FOLLOW_ALL_MAX;
        follow_peer(w, m->vni, p, a->vni, 1);
    } else if (a->scope == SCOPE_LOCAL) {
        consider_inside(w, m->vni, p, WAY_VM_MISS, 0, 0);
    } else {
        consider_inside(w, m->vni, p, end_of(a), 0, a->endpoint.family);
    }
}

/* ---- VMs, rules, meters ---- */

static void look_at_vm(struct walk *w, const struct entry *e)
{
    const struct ip *vm = &e->vm_nc.vm;
    struct picks *p = &w->m->picks;
    unsigned in = matrix_index(vm->family);

    if (lacks(w, e->vm_nc.has_mac ? WAY_LOCAL_MAC : WAY_LOCAL, 0, vm->family,
              e->vm_nc.nc.family) ||
        (w->m->is_h && p->halves[half_of(w, vm)][in].vni == 0)) {
        consider(w, w->m->vni, vm, false);
    }
    if (lacks(w, WAY_VM_MISS, 0, vm->family, 0)) {
        const struct prefix host = { *vm, (uint8_t)(ip_size(vm) * 8) };
        const struct prefix all = { .addr.family = vm->family };

        consider_beside(w, w->m->vni, &host, &all, false);
    }
}

unsigned matrix_twist_of(unsigned proto)
{
    return proto == CELL_PROTO_TCP    ? TWIST_IN_TCP
           : proto == CELL_PROTO_ICMP ? TWIST_IN_PING
                                      : TWIST_NONE;
}

/* A packet that the rule matches. */
static struct pick packet_for(const struct walk *w, const struct acl_match *m)
{
    struct pick p = { .vni = w->m->vni,
                      .sport = PORT_ANY,
                      .dport = PORT_DISCARD,
                      .dst = address_some(w->s, w->m->vni, m->dst.addr.family) };

    if (!prefix_contains(&m->dst, &p.dst)) {
        p.dst = address_inside(&m->dst);
    }
    p.src = address_beside(w->s, w->m->vni, &p.dst);
    if (!prefix_contains(&m->src, &p.src)) {
        p.src = address_inside(&m->src);
    }
    p.sport =
        p.sport < m->sport.first || p.sport > m->sport.last ? m->sport.first : p.sport;
    p.dport =
        p.dport < m->dport.first || p.dport > m->dport.last ? m->dport.first : p.dport;
    return p;
}

/* Which rule decides about the packet; false: none does. */
static bool decide(const struct walk *w, const struct pick *p, unsigned proto,
                   struct entry *ret)
{
    unsigned twist = matrix_twist_of(proto);
    const struct lookup_flow flow = { .src = p->src,
                                      .dst = p->dst,
                                      .proto = twist_proto(twist, p->dst.family),
                                      .has_ports = twist_has_ports(twist),
                                      .sport = p->sport,
                                      .dport = p->dport };
    uint32_t rules = rows_count(table_set_rows(w->s, p->vni, TABLE_ACL));

    w->m->rule_rows += rules;
    spend(w, rules);
    return lookup_acl(w->s, p->vni, &flow, ret);
}

static void look_at_rule(struct walk *w, const struct entry *e)
{
    const struct acl_match *match = &e->acl.match;
    unsigned what = e->acl.action == ACL_DENY ? CELL_RULE_DENY : CELL_RULE_PERMIT;
    struct pick p = packet_for(w, match);
    struct entry rule;

    for (unsigned proto = 0; proto < MATRIX_PROTOS; proto++) {
        uint8_t number = twist_proto(matrix_twist_of(proto), match->dst.addr.family);
        struct pick *to =
            &w->m->picks.rules[what][proto][matrix_index(match->dst.addr.family)];

        if (to->vni != 0 || (match->has_proto && match->proto != number) ||
            !lookup_is_routable(&p.dst)) {
            continue;
        }
        if (w->m->rule_rows >= RULE_ROWS_MAX) {
            w->m->was_cut = true;
        } else if (decide(w, &p, proto, &rule) &&
                   rule.acl.priority == e->acl.priority &&
                   rule.acl.action == e->acl.action) {
            *to = p;
        }
    }
}

/* Of a VNI that has rules: packets that none of them matches. */
static void look_beside_rules(struct walk *w)
{
    static const uint8_t families[] = { IP_V4, IP_V6 };

    for (unsigned in = 0; in < 2; in++) {
        const struct acl_match any = { .src.addr.family = families[in],
                                       .dst.addr.family = families[in],
                                       .sport.last = UINT16_MAX,
                                       .dport.last = UINT16_MAX };
        struct pick p = packet_for(w, &any);
        struct entry rule;

        for (unsigned proto = 0; proto < MATRIX_PROTOS; proto++) {
            struct pick *to = &w->m->picks.rules[CELL_RULE_NONE][proto][in];

            if (to->vni == 0 && w->m->rule_rows < RULE_ROWS_MAX &&
                !decide(w, &p, proto, &rule)) {
                *to = p;
            }
        }
    }
}

static void look_at_meter(struct walk *w)
{
    static const uint8_t families[] = { IP_V4, IP_V6 };

    for (unsigned in = 0; in < 2; in++) {
        struct ip dst = address_some(w->s, w->m->vni, families[in]);

        if (!is_denied(w, w->m->vni, &dst)) {
            take(&w->m->picks.meters[in], w->m->vni, &dst);
        }
    }
}

/* Addresses that hardly anybody has a route for. */
static void look_beside_routes(struct walk *w)
{
    static const uint8_t families[] = { IP_V4, IP_V6 };

    for (unsigned in = 0; in < 2; in++) {
        for (unsigned i = 0;
             i < ADDRESS_NOWHERE_COUNT && lacks(w, WAY_ROUTE_MISS, 0, families[in], 0);
             i++) {
            struct ip dst = address_nowhere(families[in], i);

            consider(w, w->m->vni, &dst, false);
        }
    }
}

/* ---- the walk ---- */

/* False: a packet with this VNI gets no further than that. */
static bool read_vni(struct walk *w)
{
    struct rows_iter it =
        rows_begin(table_set_rows(w->s, w->m->vni, TABLE_VNI), TABLE_VNI);
    struct row row;

    return rows_next(&it, &row) &&
           !entry_unpack(TABLE_VNI, w->m->vni, &row, &w->m->row_of_vni, NULL);
}

static void enter(struct matrix *m, const struct table_set *s, enum phase phase,
                  enum table_id table)
{
    rows_unref(m->rows);
    m->rows = rows_ref(table_set_rows(s, m->vni, table));
    m->it = rows_begin(m->rows, table);
    m->phase = phase;
    m->cover_count = 0;
}

static void leave_vni(struct matrix *m)
{
    rows_unref(m->rows);
    m->rows = NULL;
    m->phase = PHASE_VNI;
    m->is_done = m->only != 0 || m->vni >= VNI_MAX;
    m->vni++;
}

/* False: there is none left. */
static bool next_vni(struct walk *w)
{
    struct matrix *m = w->m;
    uint32_t vni = table_set_next(w->s, m->vni, 1u << TABLE_VNI);

    spend(w, 4);
    if (vni == 0 || (m->only && vni != m->only)) {
        return false;
    }
    m->vni = vni;
    if (!read_vni(w)) {
        leave_vni(m);
        return true;
    }
    look_beside_routes(w);
    enter(m, w->s, PHASE_ROUTES, TABLE_VXLAN_ROUTE);
    return true;
}

static void look_at(struct walk *w, const struct row *row)
{
    static const uint8_t tables[] = { [PHASE_ROUTES] = TABLE_VXLAN_ROUTE,
                                      [PHASE_VMS] = TABLE_VM_NC,
                                      [PHASE_RULES] = TABLE_ACL };
    struct entry e;

    if (entry_unpack((enum table_id)tables[w->m->phase], w->m->vni, row, &e, NULL)) {
        return;
    }
    switch (w->m->phase) {
    case PHASE_ROUTES:
        look_at_route(w, &e);
        break;
    case PHASE_VMS:
        look_at_vm(w, &e);
        break;
    default:
        look_at_rule(w, &e);
        break;
    }
}

/* The phase behind one whose rows were all looked at. */
static void next_phase(struct walk *w)
{
    struct matrix *m = w->m;

    switch (m->phase) {
    case PHASE_ROUTES:
        enter(m, w->s, PHASE_VMS, TABLE_VM_NC);
        break;
    case PHASE_VMS:
        enter(m, w->s, PHASE_RULES, TABLE_ACL);
        if (m->rows) {
            look_beside_rules(w);
        }
        break;
    default:
        if (table_set_rows(w->s, m->vni, TABLE_METER)) {
            look_at_meter(w);
        }
        leave_vni(m);
        break;
    }
}

bool matrix_work(struct matrix *m, const struct table_set *s, uint32_t *units)
{
    struct walk w = { .m = m, .s = s, .units = units };
    struct row row;

    while (!m->is_done && *units > 0) {
        if (m->phase == PHASE_VNI) {
            m->is_done = !next_vni(&w);
        } else if (rows_next(&m->it, &row)) {
            spend(&w, 1);
            look_at(&w, &row);
        } else {
            next_phase(&w);
        }
    }
    return m->is_done;
}

/* ---- life ---- */

struct matrix *matrix_new(bool is_h, uint32_t vni)
{
    struct matrix *m = calloc(1, sizeof(*m));

    if (m) {
        *m = (struct matrix){
            .refs = 1, .is_h = is_h, .only = vni, .vni = vni ? vni : VNI_MIN
        };
    }
    return m;
}

struct matrix *matrix_ref(struct matrix *m)
{
    m->refs++;
    return m;
}

void matrix_unref(struct matrix *m)
{
    if (m && --m->refs == 0) {
        rows_unref(m->rows);
        free(m);
    }
}

bool matrix_is_done(const struct matrix *m)
{
    return m->is_done;
}

const struct picks *matrix_picks(const struct matrix *m)
{
    return &m->picks;
}

bool matrix_is_h(const struct matrix *m)
{
    return m->is_h;
}

bool matrix_is_of_one(const struct matrix *m)
{
    return m->only != 0;
}

bool matrix_was_cut(const struct matrix *m)
{
    return m->was_cut;
}
