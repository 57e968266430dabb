/*
 * resident: which of a tenant's rows an XGW-H group holds.
 *
 * The policy chooses by service; the set is then made closed, so that a destination
 * gets from XGW-H, with fallback, the answer that it gets from XGW-x86:
 *
 *   - A route that is not chosen is left off where nothing resident covers it, or what
 *     covers it most closely goes to XGW-x86 itself (scope internet, service,
 *     fallback).  Else a route of scope `fallback` stands in its place.
 *   - VM-NC entries go with the local routes.  One that the chip cannot express (it
 *     names the VM's MAC) stays on XGW-x86: a miss goes there.
 *   - A VNI's IPv6 VM-NC entries are resident all or none, for a live address that is
 *     not there may hit another's 32-bit key.  While one of them cannot be, none is,
 *     and the IPv6 local routes are not chosen either.
 *
 * In key order a prefix comes before those it covers, so one walk with a stack of what
 * covers the present row decides everything.
 */
#include "controller/core/core_internal.h"

/* ---- rules ---- */

static struct resident_rules rules_by(const struct core *c, const struct policy *policy,
                                      uint32_t vni)
{
    struct resident_rules r = { .policy = policy };
    const struct map_slot *macs = map_find(&c->v6_macs, vni);

    for (unsigned s = SCOPE_LOCAL; s <= SCOPE_SERVICE; s++) {
        r.on_h[s] = policy_of_service(r.policy, scope_name((enum route_scope)s)) ==
                    POLICY_XGW_H;
    }
    r.has_v6_vms = r.on_h[SCOPE_LOCAL] && !(macs && macs->a > 0);
    return r;
}

static struct resident_rules rules_of(const struct core *c, uint32_t vni)
{
    return rules_by(c, &c->objects.policy, vni);
}

static bool service_on_h(const struct resident_rules *r, const struct row *row)
{
    struct route_action a = { .scope = SCOPE_SERVICE };

    memcpy(a.service, row->value + 2, row->value[1]);
    return policy_of_route(r->policy, &a) == POLICY_XGW_H;
}

static bool is_chosen(const struct resident_rules *r, const struct row *row)
{
    uint8_t scope = row->value[0];

    if (scope == SCOPE_LOCAL && row->key[0] == IP_V6) {
        return r->has_v6_vms;
    }
    return scope == SCOPE_SERVICE ? service_on_h(r, row) : r->on_h[scope];
}

/* Whether XGW-H itself answers what such a route matches. */
static bool is_answered(uint8_t scope)
{
    return scope != SCOPE_INTERNET && scope != SCOPE_SERVICE && scope != SCOPE_FALLBACK;
}

/* Null: this peer is looked up in the group itself, or the row is no peer. */
static const struct group *peer_elsewhere(const struct core *c, const struct group *g,
                                          const struct row *row)
{
    uint32_t peer = row_peer(row);
    struct homes homes = peer ? homes_of_vni(c, peer) : (struct homes){ 0 };

    return peer && homes.of[g->kind] != g ? homes_steering(&homes) : NULL;
}

/* ---- routes ---- */

static bool covers(const uint8_t *outer, const uint8_t *inner)
{
    unsigned size = outer[0] == IP_V4 ? 4 : 16;
    unsigned len = outer[1 + size];
    unsigned whole = len / 8;

    if (outer[0] != inner[0] || len > inner[1 + size] ||
        memcmp(outer + 1, inner + 1, whole) != 0) {
        return false;
    }
    return len % 8 == 0 ||
           ((outer[1 + whole] ^ inner[1 + whole]) & (0xff00u >> len % 8) & 0xff) == 0;
}

static void cover(struct making *m, const uint8_t *key, bool answered)
{
    assert(m->depth < COVER_MAX);
    m->cover[m->depth].key = key;
    m->cover[m->depth].is_answered = answered;
    m->depth++;
}

static void visit_route(struct making *m, const struct row *row)
{
    static const uint8_t fallback = SCOPE_FALLBACK;
    const struct group *home;
    uint8_t value[DERIVED_MAX];

    while (m->depth > 0 && !covers(m->cover[m->depth - 1].key, row->key)) {
        m->depth--;
    }
    if (!is_chosen(&m->rules, row)) {
        if (m->depth > 0 && m->cover[m->depth - 1].is_answered) {
            making_differ(m, row, &fallback, 1);
            cover(m, row->key, false);
        } else {
            making_differ(m, row, NULL, 0);
        }
        return;
    }
    home = m->is_count ? NULL : peer_elsewhere(m->core, m->group, row);
    if (home) {
        making_differ(m, row, value, derived_pack(m->core, home, row_peer(row), value));
    }
    cover(m, row->key, is_answered(row->value[0]));
}

void resident_routes_begin(const struct core *c, uint32_t vni, const struct group *g,
                           struct making *m)
{
    struct rows *intent = committed_rows(c, vni, TABLE_VXLAN_ROUTE);

    *m = (struct making){ .core = c, .group = g, .vni = vni };
    m->table = TABLE_VXLAN_ROUTE;
    m->rules = rules_of(c, vni);
    making_begin(m, intent, intent, visit_route);
}

/* ---- a few routes changed ---- */

/* With more changed routes, or when more prefixes than this would have to be looked up
 * (some 2 ms), the walk over all routes is made, in slices. */
#define FEW_ROUTES 256
#define FEW_FINDS  20000u
#define SMALL_ROWS 8192u /* of a VNI: whatever changes, little is to be compared */

struct few {
    struct row before[FEW_ROUTES]; /* null key: it was not there */
    struct row after[FEW_ROUTES];
    uint32_t count; /* more than FEW_ROUTES: too many */
    uint32_t finds;
    struct making making;
};

/* Whether XGW-H answers what the longest of `rows` that covers `key`, but `key` itself
 * unless `with_key`, matches.  What covers a route most closely decides alone: one that
 * is not chosen goes to XGW-x86, with a fallback or without. */
static bool is_answered_above(struct few *f, const struct rows *rows,
                              const struct row *key, bool with_key)
{
    const struct resident_rules *r = &f->making.rules;
    unsigned size = key->key[0] == IP_V4 ? 4 : 16;
    struct prefix p = { .addr = { .family = key->key[0] } };
    uint8_t packed[ENTRY_KEY_MAX];
    struct row row;

    for (int len = key->key[1 + size] - !with_key; rows && len >= 0; len--) {
        memcpy(p.addr.b, key->key + 1, size);
        p.len = (uint8_t)len;
        prefix_mask(&p);
        packed[0] = p.addr.family;
        memcpy(packed + 1, p.addr.b, size);
        packed[1 + size] = p.len;
        f->finds++;
        if (rows_find(rows, TABLE_VXLAN_ROUTE, packed, (uint8_t)(2 + size), &row)) {
            return is_chosen(r, &row) && is_answered(row.value[0]);
        }
    }
    return false;
}

static void few_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct few *f = ctx;

    if (f->count < FEW_ROUTES) {
        f->before[f->count] = before ? *before : (struct row){ 0 };
        f->after[f->count] = after ? *after : (struct row){ 0 };
    }
    f->count += f->count <= FEW_ROUTES;
}

/* What stands for `row` of the intent. */
static void put_row(struct making *m, const struct row *row, bool answered_above)
{
    static const uint8_t fallback = SCOPE_FALLBACK;
    const struct group *home;
    uint8_t value[DERIVED_MAX];

    if (!is_chosen(&m->rules, row)) {
        making_differ(m, row, &fallback, answered_above); /* no length: left off */
        return;
    }
    home = peer_elsewhere(m->core, m->group, row);
    if (home) {
        making_differ(m, row, value, derived_pack(m->core, home, row_peer(row), value));
    } else {
        making_differ(m, row, row->value, row->value_len);
    }
}

/* All that `key` covers is looked at again. */
static void put_covered(struct few *f, const struct rows *intent, const struct row *key)
{
    struct rows_iter it = rows_seek(intent, TABLE_VXLAN_ROUTE, key->key, key->key_len);
    struct row row;

    while (intent && f->finds <= FEW_FINDS && rows_next(&it, &row) &&
           covers(key->key, row.key)) {
        f->finds++;
        if (!is_chosen(&f->making.rules, &row)) {
            put_row(&f->making, &row, is_answered_above(f, intent, &row, false));
        }
    }
}

static void few_look(struct few *f, const struct table_change *ch, uint32_t i)
{
    const struct row *after = f->after[i].key ? &f->after[i] : NULL;
    const struct row *key = after ? after : &f->before[i];

    if (after) {
        put_row(&f->making, after, is_answered_above(f, ch->after, after, false));
    } else {
        making_differ(&f->making, key, NULL, 0);
    }
    if (is_answered_above(f, ch->before, key, true) !=
        is_answered_above(f, ch->after, key, true)) {
        put_covered(f, ch->after, key);
    }
}

bool resident_is_small(const struct table_change *ch)
{
    const struct rows_change *n = &ch->counts;

    return n->added + n->changed + n->deleted <= FEW_ROUTES ||
           rows_count(ch->before) + rows_count(ch->after) <= SMALL_ROWS;
}

bool resident_routes_changed(const struct core *c, const struct group *g,
                             struct rows *have, const struct table_change *ch,
                             struct rows **ret)
{
    struct few *f = core_need(calloc(1, sizeof(*f)));
    bool is_few;

    f->making = (struct making){ .core = c, .group = g, .vni = ch->vni };
    f->making.table = TABLE_VXLAN_ROUTE;
    f->making.rules = rules_of(c, ch->vni);
    making_begin(&f->making, have, NULL, NULL);
    rows_compare_walk(ch->before, ch->after, TABLE_VXLAN_ROUTE, few_visit, f);
    for (uint32_t i = 0;
         f->count <= FEW_ROUTES && f->finds <= FEW_FINDS && i < f->count; i++) {
        few_look(f, ch, i);
    }
    is_few = f->count <= FEW_ROUTES && f->finds <= FEW_FINDS;
    if (is_few) {
        *ret = making_take(&f->making);
    }
    making_fini(&f->making);
    free(f);
    return is_few;
}

struct plain {
    const struct core *c;
    const struct group *g;
    struct resident_rules rules;
    bool is_plain;
};

static void plain_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct plain *p = ctx;

    (void)before;
    if (after && p->is_plain) {
        p->is_plain = is_chosen(&p->rules, after) && !peer_elsewhere(p->c, p->g, after);
    }
}

bool resident_is_plain(const struct core *c, const struct group *g,
                       const struct table_change *ch)
{
    struct plain p = {
        .c = c, .g = g, .rules = rules_of(c, ch->vni), .is_plain = true
    };

    rows_compare_walk(ch->before, ch->after, TABLE_VXLAN_ROUTE, plain_visit, &p);
    return p.is_plain;
}

/* ---- VM-NC ---- */

static bool vm_has_mac(const struct row *row)
{
    unsigned nc = row->value[0] == IP_V4 ? 5 : 17;

    return row->value[nc];
}

static bool vm_is_resident(const struct resident_rules *r, const struct row *row)
{
    return !vm_has_mac(row) && (row->key[0] == IP_V4 || r->has_v6_vms);
}

static void visit_vm(struct making *m, const struct row *row)
{
    if (!vm_is_resident(&m->rules, row)) {
        making_differ(m, row, NULL, 0);
    }
}

void resident_vms_begin(const struct core *c, uint32_t vni, struct making *m)
{
    struct rows *intent = committed_rows(c, vni, TABLE_VM_NC);

    *m = (struct making){ .core = c, .vni = vni, .table = TABLE_VM_NC };
    m->rules = rules_of(c, vni);
    intent = m->rules.on_h[SCOPE_LOCAL] ? intent : NULL;
    making_begin(m, intent, intent, visit_vm);
}

static void vm_changed(void *ctx, const struct row *before, const struct row *after)
{
    struct making *m = ctx;

    if (after && vm_is_resident(&m->rules, after)) {
        making_differ(m, after, after->value, after->value_len);
    } else {
        making_differ(m, after ? after : before, NULL, 0);
    }
}

struct rows *resident_vms_changed(const struct core *c, struct rows *have,
                                  const struct table_change *ch)
{
    struct making m = { .core = c, .vni = ch->vni, .table = TABLE_VM_NC };
    struct rows *made;

    m.rules = rules_of(c, ch->vni);
    if (!m.rules.on_h[SCOPE_LOCAL]) {
        return NULL;
    }
    making_begin(&m, have, NULL, NULL);
    rows_compare_walk(ch->before, ch->after, TABLE_VM_NC, vm_changed, &m);
    made = making_take(&m);
    if (rows_count(made) == rows_count(ch->after)) { /* all of them: shared */
        rows_unref(made);
        made = rows_ref(ch->after);
    }
    return made;
}

/* ---- by another policy ---- */

void resident_count_begin(const struct core *c, uint32_t vni, enum table_id table,
                          const struct policy *policy, struct making *m)
{
    struct rows *intent = committed_rows(c, vni, table);

    *m = (struct making){ .core = c, .vni = vni, .table = table };
    m->is_count = true;
    m->rules = rules_by(c, policy, vni);
    if (table == TABLE_VM_NC && !m->rules.on_h[SCOPE_LOCAL]) {
        m->left_off = rows_count(intent);
        intent = NULL;
    }
    making_begin(m, NULL, intent, table == TABLE_VM_NC ? visit_vm : visit_route);
}

/* ---- what the rules need to know of VM-NC entries ---- */

int64_t resident_mac_change(const struct row *before, const struct row *after)
{
    return (after && after->key[0] == IP_V6 && vm_has_mac(after)) -
           (before && before->key[0] == IP_V6 && vm_has_mac(before));
}

void resident_note_macs(struct core *c, uint32_t vni, int64_t change)
{
    struct map_slot *slot = map_find(&c->v6_macs, vni);

    if (change == 0) {
        return;
    }
    slot = slot ? slot : core_need(map_add(&c->v6_macs, vni));
    if ((slot->a == 0) != (slot->a + (uint64_t)change == 0)) {
        slot->b = c->revision; /* all of its IPv6 entries come or go */
    }
    slot->a += (uint64_t)change;
}

void resident_forget(struct core *c, uint32_t vni)
{
    struct map_slot *slot = map_find(&c->v6_macs, vni);

    if (slot) {
        assert(slot->a == 0); /* its entries went with the tenant */
        map_remove(&c->v6_macs, slot);
    }
}

bool resident_v6_turned(const struct core *c, uint32_t vni)
{
    const struct map_slot *slot = map_find(&c->v6_macs, vni);

    return slot && slot->b == c->revision;
}
