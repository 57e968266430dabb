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

#define DEPTH_MAX 130 /* nested prefixes: 0 to 128 */

/* ---- rules ---- */

struct rules {
    const struct policy *policy;
    bool on_h[SCOPE_COUNT]; /* of scope service: the default of those without a rule */
    bool has_v6_vms;
};

static struct rules rules_by(const struct core *c, const struct policy *policy,
                             uint32_t vni)
{
    struct rules r = { .policy = policy };
    const struct map_slot *macs = map_find(&c->v6_macs, vni);

    for (unsigned s = SCOPE_LOCAL; s <= SCOPE_SERVICE; s++) {
        r.on_h[s] = policy_of_service(r.policy, scope_name((enum route_scope)s)) ==
                    POLICY_XGW_H;
    }
    r.has_v6_vms = r.on_h[SCOPE_LOCAL] && !(macs && macs->a > 0);
    return r;
}

static struct rules rules_of(const struct core *c, uint32_t vni)
{
    return rules_by(c, &c->objects.policy, vni);
}

static bool service_on_h(const struct rules *r, const struct row *row)
{
    struct route_action a = { .scope = SCOPE_SERVICE };

    memcpy(a.service, row->value + 2, row->value[1]);
    return policy_of_route(r->policy, &a) == POLICY_XGW_H;
}

static bool is_chosen(const struct rules *r, const struct row *row)
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

struct walk {
    const struct core *c;
    const struct group *g;
    uint32_t vni;
    struct rules rules;
    struct {
        const uint8_t *key;
        bool is_answered;
    } cover[DEPTH_MAX];
    unsigned depth;
    /* What differs from the intent. */
    struct rows_step *steps;
    uint32_t count;
    uint32_t cap;
    struct buf values; /* of those steps that have one, in order */
};

/* A step to another value; null: the row is left off. */
static void differ(struct walk *w, const struct row *row, const uint8_t *value,
                   uint8_t value_len)
{
    struct rows_step *step;

    if (w->count == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->steps = core_need(realloc(w->steps, w->cap * sizeof(*w->steps)));
    }
    step = &w->steps[w->count++];
    step->row = *row;
    step->row.value = NULL;
    step->row.value_len = value_len;
    buf_add(&w->values, value, value_len);
}

static void cover(struct walk *w, const uint8_t *key, bool answered)
{
    assert(w->depth < DEPTH_MAX);
    w->cover[w->depth].key = key;
    w->cover[w->depth].is_answered = answered;
    w->depth++;
}

static void walk_row(struct walk *w, const struct row *row)
{
    static const uint8_t fallback = SCOPE_FALLBACK;
    const struct group *home;
    uint8_t value[DERIVED_MAX];

    while (w->depth > 0 && !covers(w->cover[w->depth - 1].key, row->key)) {
        w->depth--;
    }
    if (!is_chosen(&w->rules, row)) {
        if (w->depth > 0 && w->cover[w->depth - 1].is_answered) {
            differ(w, row, &fallback, 1);
            cover(w, row->key, false);
        } else {
            differ(w, row, NULL, 0);
        }
        return;
    }
    home = peer_elsewhere(w->c, w->g, row);
    if (home) {
        differ(w, row, value, derived_pack(w->c, home, row_peer(row), value));
    }
    cover(w, row->key, is_answered(row->value[0]));
}

/* The intent with the steps done. */
static struct rows *walk_finish(struct walk *w, struct rows *intent,
                                enum table_id table)
{
    struct rows *made = NULL;
    struct rows_change counts;
    size_t at = 0;

    core_must(!buf_failed(&w->values));
    for (uint32_t i = 0; i < w->count; i++) {
        struct row *row = &w->steps[i].row;

        if (row->value_len > 0) {
            row->value = w->values.data + at;
            at += row->value_len;
        }
    }
    if (w->count == 0) {
        made = rows_ref(intent);
    } else {
        core_must(
            !rows_edit(intent, table, w->vni, w->steps, w->count, &made, &counts));
    }
    free(w->steps);
    buf_fini(&w->values);
    return made;
}

static void walk_routes(struct walk *w, struct rows *intent)
{
    struct rows_iter it = rows_begin(intent, TABLE_VXLAN_ROUTE);
    struct row row;

    while (intent && rows_next(&it, &row)) {
        walk_row(w, &row);
    }
}

struct rows *resident_routes(const struct core *c, uint32_t vni, const struct group *g)
{
    struct rows *intent = committed_rows(c, vni, TABLE_VXLAN_ROUTE);
    struct walk w = { .c = c, .g = g, .vni = vni, .rules = rules_of(c, vni) };

    walk_routes(&w, intent);
    return walk_finish(&w, intent, TABLE_VXLAN_ROUTE);
}

/* ---- a few routes changed ---- */

#define FEW_ROUTES 256 /* with more, the walk over all of them is quicker */

/* Whether XGW-H answers what the longest of `rows` that covers `key`, but `key` itself
 * unless `with_key`, matches.  What covers a route most closely decides alone: one that
 * is not chosen goes to XGW-x86, with a fallback or without. */
static bool is_answered_above(const struct rules *r, const struct rows *rows,
                              const struct row *key, bool with_key)
{
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
        if (rows_find(rows, TABLE_VXLAN_ROUTE, packed, (uint8_t)(2 + size), &row)) {
            return is_chosen(r, &row) && is_answered(row.value[0]);
        }
    }
    return false;
}

struct few {
    struct row before[FEW_ROUTES]; /* null key: it was not there */
    struct row after[FEW_ROUTES];
    uint32_t count; /* more than FEW_ROUTES: too many */
};

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
static void put_row(struct walk *w, const struct row *row, bool answered_above)
{
    static const uint8_t fallback = SCOPE_FALLBACK;
    const struct group *home;
    uint8_t value[DERIVED_MAX];

    if (!is_chosen(&w->rules, row)) {
        differ(w, row, &fallback, answered_above); /* no length: left off */
        return;
    }
    home = peer_elsewhere(w->c, w->g, row);
    if (home) {
        differ(w, row, value, derived_pack(w->c, home, row_peer(row), value));
    } else {
        differ(w, row, row->value, row->value_len);
    }
}

/* All that `key` covers is looked at again. */
static void put_covered(struct walk *w, const struct rows *intent,
                        const struct row *key)
{
    struct rows_iter it = rows_seek(intent, TABLE_VXLAN_ROUTE, key->key, key->key_len);
    struct row row;

    while (intent && rows_next(&it, &row) && covers(key->key, row.key)) {
        if (!is_chosen(&w->rules, &row)) {
            put_row(w, &row, is_answered_above(&w->rules, intent, &row, false));
        }
    }
}

struct rows *resident_routes_changed(const struct core *c, const struct group *g,
                                     struct rows *have, const struct table_change *ch)
{
    struct walk w = { .c = c, .g = g, .vni = ch->vni, .rules = rules_of(c, ch->vni) };
    struct few *few = core_need(calloc(1, sizeof(*few)));

    rows_compare_walk(ch->before, ch->after, TABLE_VXLAN_ROUTE, few_visit, few);
    if (few->count > FEW_ROUTES) {
        free(few);
        return resident_routes(c, ch->vni, g);
    }
    for (uint32_t i = 0; i < few->count; i++) {
        const struct row *after = few->after[i].key ? &few->after[i] : NULL;
        const struct row *key = after ? after : &few->before[i];

        if (after) {
            put_row(&w, after, is_answered_above(&w.rules, ch->after, after, false));
        } else {
            differ(&w, key, NULL, 0);
        }
        if (is_answered_above(&w.rules, ch->before, key, true) !=
            is_answered_above(&w.rules, ch->after, key, true)) {
            put_covered(&w, ch->after, key);
        }
    }
    free(few);
    return walk_finish(&w, have, TABLE_VXLAN_ROUTE);
}

struct plain {
    const struct core *c;
    const struct group *g;
    struct rules rules;
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

static bool vm_is_resident(const struct rules *r, const struct row *row)
{
    return !vm_has_mac(row) && (row->key[0] == IP_V4 || r->has_v6_vms);
}

static void walk_vms(struct walk *w, struct rows *intent)
{
    struct rows_iter it = rows_begin(intent, TABLE_VM_NC);
    struct row row;

    while (intent && rows_next(&it, &row)) {
        if (!vm_is_resident(&w->rules, &row)) {
            differ(w, &row, NULL, 0);
        }
    }
}

struct rows *resident_vms(const struct core *c, uint32_t vni)
{
    struct rows *intent = committed_rows(c, vni, TABLE_VM_NC);
    struct walk w = { .vni = vni, .rules = rules_of(c, vni) };

    if (!w.rules.on_h[SCOPE_LOCAL]) {
        return NULL;
    }
    walk_vms(&w, intent);
    return walk_finish(&w, intent, TABLE_VM_NC);
}

static void vm_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct walk *w = ctx;

    if (after && vm_is_resident(&w->rules, after)) {
        differ(w, after, after->value, after->value_len);
    } else {
        differ(w, after ? after : before, NULL, 0);
    }
}

struct rows *resident_vms_changed(const struct core *c, struct rows *have,
                                  const struct table_change *ch)
{
    struct walk w = { .vni = ch->vni, .rules = rules_of(c, ch->vni) };
    struct rows *made;

    if (!w.rules.on_h[SCOPE_LOCAL]) {
        return NULL;
    }
    rows_compare_walk(ch->before, ch->after, TABLE_VM_NC, vm_visit, &w);
    made = walk_finish(&w, have, TABLE_VM_NC);
    if (rows_count(made) == rows_count(ch->after)) { /* all of them: shared */
        rows_unref(made);
        made = rows_ref(ch->after);
    }
    return made;
}

/* ---- by another policy ---- */

/* Rows that the walk leaves of `intent`; ends it. */
static uint64_t walk_left(struct walk *w, const struct rows *intent)
{
    uint64_t left = rows_count(intent);

    core_must(!buf_failed(&w->values));
    for (uint32_t i = 0; i < w->count; i++) {
        left -= w->steps[i].row.value_len == 0;
    }
    free(w->steps);
    buf_fini(&w->values);
    return left;
}

void resident_count(const struct core *c, uint32_t vni, const struct group *g,
                    const struct policy *policy, struct resident_size *io)
{
    struct rows *routes = committed_rows(c, vni, TABLE_VXLAN_ROUTE);
    struct rows *vms = committed_rows(c, vni, TABLE_VM_NC);
    struct rules rules = rules_by(c, policy, vni);
    struct walk w = { .c = c, .g = g, .vni = vni, .rules = rules };

    walk_routes(&w, routes);
    io->routes += walk_left(&w, routes);
    if (rules.on_h[SCOPE_LOCAL]) {
        w = (struct walk){ .vni = vni, .rules = rules };
        walk_vms(&w, vms);
        io->vms += walk_left(&w, vms);
    }
}

/* ---- what the rules need to know of VM-NC entries ---- */

static void mac_visit(void *ctx, const struct row *before, const struct row *after)
{
    int64_t *change = ctx;

    *change += after && after->key[0] == IP_V6 && vm_has_mac(after);
    *change -= before && before->key[0] == IP_V6 && vm_has_mac(before);
}

void resident_note_vms(struct core *c, uint32_t vni, const struct rows *before,
                       const struct rows *after)
{
    struct map_slot *slot = map_find(&c->v6_macs, vni);
    int64_t change = 0;

    rows_compare_walk(before, after, TABLE_VM_NC, mac_visit, &change);
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
