/*
 * tenant: all tables of a tenant in one group, a pure function of intent and objects.
 *
 *   tenant       → its vni row: the flags; on XGW-H also `acl` where it has rules, and
 *                  the half
 *   vxlan_route  → itself, of XGW-H's closed part (resident.c); but a peer whose home
 * of this kind is another group becomes `derived`: the peer's steering address (its
 * XGW-H home's VIP, else the x86 one's; v4 if it has one) and its VNI vm_nc        →
 * itself; on XGW-H those that it can express acl, meter   → themselves on XGW-H,
 * nothing on XGW-x86
 *
 * Rows that come out unchanged are shared, not copied.
 */
#include "controller/core/core_internal.h"

/* Peer routes: of more, only those that changed are derived. */
#define DERIVE_ANEW 4096u
#define TASK_UNITS  8u /* what a tenant costs that has next to nothing */

/* What a kind of group holds. */
static const uint32_t kind_tables[GROUP_KINDS] = {
    [GROUP_X86] = 1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VNI,
    [GROUP_H] = 1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VNI |
                1u << TABLE_ACL | 1u << TABLE_METER,
};

/* The half of `g` that the VNI is in: its home's, or that of a move to or from here. */
static uint8_t half_at(const struct core *c, uint32_t vni, const struct group *g,
                       const struct tenant_row *row)
{
    const struct operation *move = objects_move(&c->objects, vni);
    uint8_t half = row->half;

    if (move && strcmp(move->move.to.h, g->name) == 0) {
        half = move->move.to.half;
    } else if (move && strcmp(move->move.from.h, g->name) == 0) {
        half = move->move.from.half;
    }
    return half ? half - 1 : VNI_HALF_0;
}

static struct rows *make_vni(const struct core *c, uint32_t vni, const struct group *g)
{
    struct tenant_row row;
    struct rows_step step = { 0 };
    struct rows_change counts;
    struct rows *made;
    uint8_t value[2] = { 0 };

    if (!tenant_row_of(committed_rows(c, vni, TABLE_TENANT), &row)) {
        return NULL;
    }
    value[0] = row.flags;
    if (g->kind == GROUP_H) {
        value[0] |= committed_rows(c, vni, TABLE_ACL) ? VNI_ACL : 0;
        value[1] = half_at(c, vni, g, &row);
    }
    step.row = (struct row){ .key = value, .value = value, .value_len = sizeof(value) };
    core_must(!rows_edit(NULL, TABLE_VNI, vni, &step, 1, &made, &counts));
    return made;
}

/* ---- routes of XGW-x86 ---- */

uint8_t derived_pack(const struct core *c, const struct group *home, uint32_t peer,
                     uint8_t value[DERIVED_MAX])
{
    const struct cluster *cluster = objects_cluster(&c->objects, home->name);
    const struct ip *vip =
        cluster->vip_v4.family != IP_NONE ? &cluster->vip_v4 : &cluster->vip_v6;
    unsigned size = ip_size(vip);

    value[0] = SCOPE_DERIVED;
    value[1] = vip->family;
    memcpy(value + 2, vip->b, size);
    value[2 + size] = (uint8_t)(peer >> 16);
    value[3 + size] = (uint8_t)(peer >> 8);
    value[4 + size] = (uint8_t)peer;
    return (uint8_t)(5 + size);
}

static void derive(struct making *m, const struct row *row)
{
    uint32_t peer = row_peer(row);
    struct homes homes = homes_of_vni(m->core, peer);
    uint8_t value[DERIVED_MAX];

    if (homes.of[GROUP_X86] && homes.of[GROUP_X86] != m->group) {
        making_differ(m, row, value,
                      derived_pack(m->core, homes_steering(&homes), peer, value));
    }
}

static void derive_changed(void *ctx, const struct row *before, const struct row *after)
{
    struct making *m = ctx;
    uint32_t count = m->count;

    if (row_peer(after)) {
        derive(m, after);
    }
    if (m->count == count) {
        making_differ(m, after ? after : before, after ? after->value : NULL,
                      after ? after->value_len : 0);
    }
}

/* True: `*ret`, at once; false: it is being made. */
static bool x86_routes(struct core *c, struct projecting *p,
                       const struct table_change *ch, struct rows **ret)
{
    struct rows *routes = committed_rows(c, p->vni, TABLE_VXLAN_ROUTE);
    struct rows *peers = table_set_rows(c->peers.out, p->vni, TABLE_VXLAN_ROUTE);
    struct making *m = &p->making;

    if (!peers) {
        *ret = rows_ref(routes);
        return true;
    }
    *m = (struct making){ .core = c, .group = p->group, .vni = p->vni };
    m->table = TABLE_VXLAN_ROUTE;
    if (ch && rows_count(peers) > DERIVE_ANEW) {
        making_begin(m, table_set_rows(p->group->desired, p->vni, TABLE_VXLAN_ROUTE),
                     NULL, NULL);
        rows_compare_walk(ch->before, ch->after, TABLE_VXLAN_ROUTE, derive_changed, m);
        *ret = making_take(m);
        return true;
    }
    making_begin(m, routes, peers, derive);
    return false;
}

/* ---- each table ---- */

static bool h_routes(struct core *c, struct projecting *p,
                     const struct table_change *ch, struct rows **ret)
{
    struct rows *have = table_set_rows(p->group->desired, p->vni, TABLE_VXLAN_ROUTE);

    if (ch && !resident_is_small(ch)) {
        ch = NULL;
    }
    if (ch && have == ch->before && resident_is_plain(c, p->group, ch)) {
        *ret = rows_ref(ch->after);
        return true;
    }
    if (ch && resident_routes_changed(c, p->group, have, ch, ret)) {
        return true;
    }
    resident_routes_begin(c, p->vni, p->group, &p->making);
    return false;
}

static bool h_vms(struct core *c, struct projecting *p, const struct table_change *ch,
                  struct rows **ret)
{
    if (!ch) {
        resident_vms_begin(c, p->vni, &p->making);
        return false;
    }
    *ret = resident_vms_changed(
        c, table_set_rows(p->group->desired, p->vni, TABLE_VM_NC), ch);
    return true;
}

/* What the group is to hold of a table.  True: `*ret`, at once; false: it is being
 * made. */
static bool make_table(struct core *c, struct projecting *p, enum table_id table,
                       struct rows **ret)
{
    const struct table_change *ch =
        p->change && p->change->table == table ? p->change : NULL;
    bool is_h = p->group->kind == GROUP_H;

    if (p->is_gone) {
        *ret = NULL;
        return true;
    }
    switch (table) {
    case TABLE_VNI:
        *ret = make_vni(c, p->vni, p->group);
        return true;
    case TABLE_VXLAN_ROUTE:
        return is_h ? h_routes(c, p, ch, ret) : x86_routes(c, p, ch, ret);
    case TABLE_VM_NC:
        if (is_h) {
            return h_vms(c, p, ch, ret);
        }
        /* fall through */
    default:
        *ret = rows_ref(committed_rows(c, p->vni, table));
        return true;
    }
}

/* One slice of what is to be made; true: all tables are. */
static bool make_tables(struct core *c, struct projecting *p)
{
    for (; p->table < TABLE_COUNT; p->table++) {
        struct rows **made = &p->transit.after[p->table];

        if (!(p->transit.mask >> p->table & 1)) {
            continue;
        }
        if (!p->making.visit && make_table(c, p, (enum table_id)p->table, made)) {
            continue;
        }
        if (!making_work(&p->making, &c->units)) {
            return false;
        }
        *made = making_take(&p->making);
    }
    return true;
}

void projecting_begin(struct core *c, struct projecting *p)
{
    p->is_running = true;
    p->transit.group = p->group;
    p->transit.vni = p->vni;
    p->transit.mask = p->mask & kind_tables[p->group->kind];
    units_spend(&c->units, TASK_UNITS);
}

bool projecting_work(struct core *c, struct projecting *p)
{
    if (!p->is_moving) {
        if (!make_tables(c, p)) {
            return false;
        }
        transit_begin(&p->transit);
        p->is_moving = true;
    }
    if (!transit_work(c, &p->transit)) {
        return false;
    }
    *p = (struct projecting){ 0 };
    return true;
}

void projecting_fini(struct projecting *p)
{
    making_fini(&p->making);
    transit_fini(&p->transit);
    *p = (struct projecting){ 0 };
}
