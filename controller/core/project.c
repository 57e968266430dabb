/*
 * project: each group's desired set, a pure function of intent and objects.
 *
 *                x86                                XGW-H: of its closed part
 * (resident.c) tenant       → vni row with its flags           and `acl` where it has
 * rules, and the half vxlan_route  → itself; but a peer whose
 * home of this kind is another group becomes `derived`: the peer's steering address
 * (its XGW-H home's VIP, else the x86 one's; v4 if it has one) and its VNI vm_nc →
 * itself                           those that it can express acl, meter   nothing →
 * themselves
 *
 * Rows that come out unchanged are shared, not copied.
 *
 * Order.  Within a tenant every prefix of what a device is sent is safe: VM-NC, rules
 * and meter come before the routes and leave after them; of routes the longest come
 * first and leave last, so that a `fallback` stands before what would cover it; the
 * `vni` row comes last and leaves first.  (A reconnecting device that lacks more than
 * was sent meanwhile is repaired a table after the other, VM-NC before routes, a VNI's
 * routes at once: controller/sync.)
 *
 * A new policy concerns all tenants with an XGW-H home: they are projected again in
 * slices.  Until then a group misses what it should hold (waits.c, reads.c).
 */
#include "controller/core/core_internal.h"

/* Devices' tables in the order in which a tenant's come. */
static const enum table_id in_order[] = { TABLE_VM_NC, TABLE_ACL, TABLE_METER,
                                          TABLE_VXLAN_ROUTE, TABLE_VNI };

enum { TABLES = sizeof(in_order) / sizeof(in_order[0]) };

/* What a kind of group holds. */
static const uint32_t kind_tables[GROUP_KINDS] = {
    [GROUP_X86] = 1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VNI,
    [GROUP_H] = 1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VNI |
                1u << TABLE_ACL | 1u << TABLE_METER,
};

/* ---- rows ---- */

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

static struct rows *project_vni(const struct core *c, uint32_t vni,
                                const struct group *g)
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

static struct rows *routes_with_derived(const struct core *c, uint32_t vni,
                                        const struct group *g)
{
    struct rows *routes = committed_rows(c, vni, TABLE_VXLAN_ROUTE);
    struct rows *out = table_set_rows(c->peers.out, vni, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(out, TABLE_VXLAN_ROUTE);
    uint8_t(*values)[DERIVED_MAX];
    struct rows_step *steps;
    struct rows_change counts;
    struct rows *made = NULL;
    uint32_t count = 0;
    struct row row;

    if (!out) {
        return rows_ref(routes);
    }
    steps = core_need(malloc(rows_count(out) * sizeof(*steps)));
    values = core_need(malloc(rows_count(out) * sizeof(*values)));
    while (rows_next(&it, &row)) {
        uint32_t peer = row_peer(&row);
        struct homes homes = homes_of_vni(c, peer);

        if (homes.of[GROUP_X86] && homes.of[GROUP_X86] != g) {
            steps[count].row = row;
            steps[count].row.value_len =
                derived_pack(c, homes_steering(&homes), peer, values[count]);
            steps[count].row.value = values[count];
            count++;
        }
    }
    if (count == 0) {
        made = rows_ref(routes);
    } else {
        core_must(
            !rows_edit(routes, TABLE_VXLAN_ROUTE, vni, steps, count, &made, &counts));
    }
    free(steps);
    free(values);
    return made;
}

/* `ch`: all that changed of this table since it was projected last; null: not known. */
static struct rows *project_routes(const struct core *c, uint32_t vni,
                                   const struct group *g, const struct table_change *ch)
{
    struct rows *have = table_set_rows(g->desired, vni, TABLE_VXLAN_ROUTE);

    if (g->kind == GROUP_X86) {
        return routes_with_derived(c, vni, g);
    }
    if (ch && have == ch->before && resident_is_plain(c, g, ch)) {
        return rows_ref(ch->after);
    }
    return ch ? resident_routes_changed(c, g, have, ch) : resident_routes(c, vni, g);
}

static struct rows *project_vms(const struct core *c, uint32_t vni,
                                const struct group *g, const struct table_change *ch)
{
    if (g->kind == GROUP_X86) {
        return rows_ref(committed_rows(c, vni, TABLE_VM_NC));
    }
    return ch ? resident_vms_changed(c, table_set_rows(g->desired, vni, TABLE_VM_NC),
                                     ch)
              : resident_vms(c, vni);
}

static struct rows *project_rows(const struct core *c, uint32_t vni,
                                 enum table_id table, const struct group *g,
                                 const struct table_change *ch)
{
    switch (table) {
    case TABLE_VNI:
        return project_vni(c, vni, g);
    case TABLE_VXLAN_ROUTE:
        return project_routes(c, vni, g, ch);
    case TABLE_VM_NC:
        return project_vms(c, vni, g, ch);
    default:
        return rows_ref(committed_rows(c, vni, table));
    }
}

/* ---- changes ---- */

struct emit {
    struct batch_writer *to;
    enum table_id table;
    uint32_t vni;
    bool puts;
    bool deletes;
};

static void emit_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct emit *e = ctx;

    if (after && e->puts) {
        batch_add_row(e->to, BATCH_PUT, e->table, e->vni, after);
    } else if (before && !after && e->deletes) {
        batch_add_row(e->to, BATCH_DELETE, e->table, e->vni, before);
    }
}

struct collect {
    struct row *at;
    uint32_t count;
    uint32_t cap;
};

static void collect_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct collect *l = ctx;

    (void)before;
    if (!after) {
        return;
    }
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->at = core_need(realloc(l->at, l->cap * sizeof(*l->at)));
    }
    l->at[l->count++] = *after;
}

/* Puts from the last to the first: what is covered before what covers it. */
static void emit_backwards(struct emit *e, const struct rows *before,
                           const struct rows *after)
{
    struct collect l = { 0 };

    rows_compare_walk(before, after, e->table, collect_visit, &l);
    while (l.count > 0) {
        batch_add_row(e->to, BATCH_PUT, e->table, e->vni, &l.at[--l.count]);
    }
    free(l.at);
}

/* A tenant's tables on their way from one state to another. */
struct step {
    uint32_t mask; /* 1 << table of those that change */
    struct rows *before[TABLE_COUNT];
    struct rows *after[TABLE_COUNT];
};

static void emit_table(struct group *g, uint32_t vni, const struct step *s,
                       enum table_id table, bool puts, bool deletes)
{
    struct emit e = { &g->writer, table, vni, puts, deletes };
    const struct rows *before = s->before[table];
    const struct rows *after = s->after[table];
    bool arrives = s->mask >> TABLE_VNI & 1 && !s->before[TABLE_VNI];

    if (!(s->mask >> table & 1)) {
        return;
    }
    if (table == TABLE_VXLAN_ROUTE && puts && !arrives) {
        emit_backwards(&e, before, after);
        e.puts = false;
    }
    rows_compare_walk(before, after, table, emit_visit, &e);
}

static void emit_step(struct group *g, uint32_t vni, const struct step *s)
{
    bool leaves = s->mask >> TABLE_VNI & 1 && !s->after[TABLE_VNI];

    if (leaves) {
        emit_table(g, vni, s, TABLE_VNI, false, true);
    }
    for (unsigned i = 0; i < TABLES; i++) {
        bool is_late = in_order[i] == TABLE_VXLAN_ROUTE;

        emit_table(g, vni, s, in_order[i], true, is_late);
    }
    for (unsigned i = 0; i < TABLES; i++) {
        if (in_order[i] != TABLE_VXLAN_ROUTE && in_order[i] != TABLE_VNI) {
            emit_table(g, vni, s, in_order[i], false, true);
        }
    }
}

/* Takes the rows of `s->after`; those that stay as they are fall out of the mask. */
static void apply_step(struct core *c, struct group *g, uint32_t vni, struct step *s)
{
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        if (!(s->mask >> t & 1)) {
            continue;
        }
        s->before[t] = rows_ref(table_set_rows(g->desired, vni, (enum table_id)t));
        if (s->before[t] == s->after[t] ||
            (rows_digest(s->before[t]) == rows_digest(s->after[t]) &&
             rows_count(s->before[t]) == rows_count(s->after[t]))) {
            s->mask &= ~(1u << t); /* maybe other pages: take the new, to share them */
            rows_unref(s->before[t]);
            core_must(!table_set_put(g->desired, vni, (enum table_id)t, s->after[t]));
        }
    }
    g->is_touched = g->is_touched || s->mask != 0;
    demand_step(c, g, vni, s->mask, s->before, s->after);
    if (g->session_count > 0 && s->mask) {
        emit_step(g, vni, s);
    }
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        if (s->mask >> t & 1) {
            core_must(!table_set_put(g->desired, vni, (enum table_id)t, s->after[t]));
            rows_unref(s->before[t]);
        }
    }
}

/* Projects the tables of `mask` again; null `ch`: from scratch. */
static void project_tables(struct core *c, struct group *g, uint32_t vni, uint32_t mask,
                           const struct table_change *ch)
{
    struct step s = { .mask = mask & kind_tables[g->kind] };

    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        if (s.mask >> t & 1) {
            s.after[t] = project_rows(c, vni, (enum table_id)t, g,
                                      ch && ch->table == t ? ch : NULL);
        }
    }
    apply_step(c, g, vni, &s);
}

/* The tenant's rows stood in `before` and now do in `after`: they come before they go.
 * Those that stay are looked at again where the tenant itself changed. */
static void project_tenant(struct core *c, uint32_t vni, const struct holders *before,
                           const struct holders *after, bool has_changed)
{
    for (unsigned i = 0; i < after->count; i++) {
        struct group *g = after->at[i];
        bool is_new = !holders_have(before, g);

        g->has_gained = g->has_gained || is_new;
        if (is_new || has_changed) {
            project_tables(c, g, vni, UINT32_MAX, NULL);
        }
    }
    for (unsigned i = 0; i < before->count; i++) {
        if (!holders_have(after, before->at[i])) {
            struct step gone = { .mask = kind_tables[before->at[i]->kind] };

            apply_step(c, before->at[i], vni, &gone);
        }
    }
}

/* The routes of all that peer to `vni`. */
static void project_sources(struct core *c, uint32_t vni)
{
    const struct peer_sources *s = peer_index_sources(&c->peers, vni);

    for (uint32_t i = 0; s && i < s->count; i++) {
        struct holders h = holders_of_vni(c, s->at[i].vni);

        for (unsigned k = 0; k < h.count; k++) {
            project_tables(c, h.at[k], s->at[i].vni, 1u << TABLE_VXLAN_ROUTE, NULL);
        }
    }
}

static void tell_group(struct core *c, struct group *g, uint64_t revision)
{
    struct blob *ops = NULL;

    g->revision = revision;
    if (g->session_count > 0) {
        ops = core_need(batch_writer_finish(&g->writer));
        sessions_change(c, g, revision, ops);
        blob_unref(ops);
    }
    g->is_touched = false;
    g->has_gained = false;
}

/* Groups that gained a tenant hear of it before those that lost it, and of them x86
 * before XGW-H, which relies on it. */
static void tell_groups(struct core *c, uint64_t revision)
{
    for (unsigned turn = 0; turn < GROUP_KINDS + 1; turn++) {
        for (uint32_t i = 0; i < c->group_count; i++) {
            struct group *g = c->groups[i];

            if (g->is_touched &&
                (turn == GROUP_KINDS || (g->has_gained && g->kind == turn))) {
                tell_group(c, g, revision);
            }
        }
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i]->has_gained = false;
    }
}

static void project_homes(struct core *c, const struct table_change *ch)
{
    struct homes was = homes_of_tenant(c, ch->before);
    struct homes is = homes_of_vni(c, ch->vni);
    struct holders before = holders_of(c, ch->vni, ch->before);
    struct holders after = holders_of_vni(c, ch->vni);

    project_tenant(c, ch->vni, &before, &after, true);
    if (memcmp(&was, &is, sizeof(was)) != 0) {
        project_sources(c, ch->vni);
    }
    if (!ch->after) {
        resident_forget(c, ch->vni);
    }
}

/* The rows of other tables changed, in one group that holds them. */
static void project_held(struct core *c, struct group *g, const struct table_change *ch,
                         bool turned)
{
    uint32_t mask = 1u << ch->table;
    bool anew;

    if (g->kind == GROUP_X86) {
        project_tables(c, g, ch->vni, mask, ch);
        return;
    }
    /* From scratch where the present rows are by other rules. */
    anew = turned || (c->policy_job.next_vni && ch->vni >= c->policy_job.next_vni);
    mask |= ch->table == TABLE_ACL ? 1u << TABLE_VNI : 0; /* its flag */
    mask |= anew ? 1u << TABLE_VXLAN_ROUTE | 1u << TABLE_VM_NC : 0;
    project_tables(c, g, ch->vni, mask, anew ? NULL : ch);
}

static void project_change(struct core *c, const struct table_change *ch)
{
    bool turned = ch->table == TABLE_VM_NC && resident_v6_turned(c, ch->vni);
    struct holders h;

    if (ch->table == TABLE_TENANT) {
        project_homes(c, ch);
        return;
    }
    h = holders_of_vni(c, ch->vni);
    for (unsigned i = 0; i < h.count; i++) {
        project_held(c, h.at[i], ch, turned);
    }
}

void project_move(struct core *c, uint64_t revision, const struct operation *before,
                  const struct operation *after)
{
    uint32_t vni = after->move.vni;
    struct rows *tenant = committed_rows(c, vni, TABLE_TENANT);
    struct holders was;
    struct holders now;

    if (!tenant || (before->step == MOVE_PROBE && after->step == MOVE_STEER &&
                    after->state == OPERATION_RUNNING)) {
        return; /* the tenant's change comes with it: holders stay the same */
    }
    was = holders_beside(c, tenant, move_also(before));
    now = holders_of(c, vni, tenant);
    project_tenant(c, vni, &was, &now, false);
    tell_groups(c, revision);
}

/* Of one VNI the VM-NC entries first, for its routes may wait for them. */
void project_changes(struct core *c, uint64_t revision, const struct change_list *l)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < l->count; i++) {
            if ((l->at[i].table == TABLE_VM_NC) == (pass == 0)) {
                project_change(c, &l->at[i]);
            }
        }
    }
    tell_groups(c, revision);
}

void project_cluster(struct core *c, uint64_t revision, struct group *g)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&c->peers.in, &at))) {
        struct homes homes = homes_of_vni(c, (uint32_t)slot->key);

        if (homes_steering(&homes) == g) {
            project_sources(c, (uint32_t)slot->key);
        }
    }
    tell_groups(c, revision);
}

/* ---- a new policy ---- */

#define SLICE_ROWS 20000u /* walked in one step: some 2 ms */

void project_policy(struct core *c, uint64_t revision)
{
    c->policy_job.next_vni = VNI_MIN;
    c->policy_job.revision = revision;
}

bool project_is_behind(const struct core *c, const struct group *g, uint64_t revision)
{
    return g->kind == GROUP_H && c->policy_job.next_vni &&
           c->policy_job.revision <= revision;
}

bool project_has_work(const struct core *c)
{
    return c->phase == PHASE_SERVING && c->policy_job.next_vni;
}

bool project_work(struct core *c)
{
    const uint32_t mask = 1u << TABLE_VM_NC | 1u << TABLE_VXLAN_ROUTE;
    uint32_t vni = c->policy_job.next_vni;
    uint64_t rows = 0;

    if (!project_has_work(c)) {
        return false;
    }
    for (vni = core_tenant_next(c, vni); vni && rows < SLICE_ROWS;
         vni = vni < VNI_MAX ? core_tenant_next(c, vni + 1) : 0) {
        struct holders h = holders_of_vni(c, vni);

        rows += 8;
        for (unsigned i = 0; i < h.count; i++) {
            if (h.at[i]->kind == GROUP_H) {
                rows += rows_count(committed_rows(c, vni, TABLE_VXLAN_ROUTE)) +
                        rows_count(committed_rows(c, vni, TABLE_VM_NC));
                project_tables(c, h.at[i], vni, mask, NULL);
            }
        }
    }
    c->policy_job.next_vni = vni;
    tell_groups(c, c->revision);
    return true;
}

/* ---- the start ---- */

void project_all(struct core *c)
{
    const uint32_t tenants = 1u << TABLE_TENANT;
    uint32_t vni = table_set_next(c->tip, VNI_MIN, tenants);

    while (vni) {
        const struct holders none = { 0 };
        struct holders h = holders_of_vni(c, vni);

        project_tenant(c, vni, &none, &h, true);
        vni = vni < VNI_MAX ? table_set_next(c->tip, vni + 1, tenants) : 0;
    }
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i]->revision = c->revision;
        c->groups[i]->is_touched = false;
        c->groups[i]->has_gained = false;
    }
}
