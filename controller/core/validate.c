/* validate: what a batch of entries must keep to, given the tip. */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define CHAIN_WORK  1000000u /* steps of one batch's chain checks: some 20 ms in all */
#define ROUTE_WORK  300000u  /* of one route's: it is not cut into slices */
#define CHAIN_UNITS 40u      /* of a route without any: a look-up for each length */

/* Index of the entry (op, table, vni, key); null key: the first of that VNI. */
static uint32_t find_index(const struct blob *ops, enum batch_op op, uint32_t vni,
                           enum table_id table, const struct row *key)
{
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    uint32_t index = 0;

    while (batch_next(&reader, &run)) {
        struct run_reader rows = run_reader_of(&run);
        struct row row;

        if (run.op != op || run.vni != vni || run.table != table) {
            index += run.count;
            continue;
        }
        for (; run_next(&rows, &row); index++) {
            if (!key || row_compare(key, &row) == 0) {
                return index;
            }
        }
    }
    return UINT32_MAX;
}

/* ---- what is looked at before the batch is applied ---- */

static enum rc check_run_before(struct core *c, const struct command *cmd,
                                const struct batch_run *run, uint32_t *index,
                                struct err *err)
{
    struct rows *old = table_set_rows(c->tip, run->vni, run->table);
    struct run_reader rows = run_reader_of(run);
    struct map_slot *freed;
    struct row row;
    struct row have;

    if (run->table == TABLE_TENANT && run->op == BATCH_PUT && !old) {
        freed = map_find(&c->results.freed, run->vni);
        if (freed && freed->a > c->now_ms) {
            return err_field(err, RC_CONFLICT, "vni", "vni_quarantine",
                             "vni %u was freed and may be used again in %llu s",
                             run->vni,
                             (unsigned long long)((freed->a - c->now_ms + 999) / 1000));
        }
    }
    if (cmd->kind != COMMAND_ENTRIES || !cmd->entries.create_only ||
        run->op != BATCH_PUT || !old) {
        *index += run->count;
        return RC_OK;
    }
    for (; run_next(&rows, &row); (*index)++) {
        if (rows_find(old, run->table, row.key, row.key_len, &have) &&
            (have.value_len != row.value_len ||
             memcmp(have.value, row.value, row.value_len) != 0)) {
            return err_field(err, RC_EXISTS, "", "create_only",
                             "vni %u: this %s entry exists and differs", run->vni,
                             table_name(run->table));
        }
    }
    return RC_OK;
}

/* A VNI that something in flight changes has no revision a caller could know. */
static enum rc check_revision(struct core *c, uint32_t vni, uint64_t want,
                              struct err *err)
{
    uint64_t have = c->base_revision;
    struct map_slot *slot = map_find(&c->revisions, vni);

    if (slot) {
        have = slot->a;
    }
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        if (map_find(&c->overlay, row_set_key(vni, (uint8_t)t))) {
            have = REVISION_IN_FLIGHT;
        }
    }
    if (have != want) {
        return err_field(err, RC_STALE, "vni", "if_revision",
                         "vni %u was changed since revision %llu: read again", vni,
                         (unsigned long long)want);
    }
    return RC_OK;
}

enum rc batch_check_before(struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;
    const struct blob *ops = p->ops;
    struct batch_reader reader;
    struct batch_run run;
    uint32_t index = 0;
    enum rc rc = RC_OK;

    if (!ops) {
        return RC_OK;
    }
    units_spend(&c->units, ops->len / 16);
    reader = batch_reader_of(ops->data, ops->len);
    while (!rc && batch_next(&reader, &run)) {
        if (cmd->if_revision) {
            rc = check_revision(c, run.vni, cmd->if_revision, &p->reply.err);
        }
        if (!rc) {
            rc = check_run_before(c, cmd, &run, &index, &p->reply.err);
        }
    }
    p->reply.bad_index = rc ? index : UINT32_MAX;
    return rc;
}

/* ---- what is looked at when it is applied ---- */

/* A tenant comes only to a cluster that serves; who is there may stay. */
static enum rc check_serving(const struct core *c, uint32_t vni,
                             const struct cluster *home, const char *was,
                             size_t was_len, const char *field, struct err *err)
{
    const struct operation *move = objects_move(&c->tip_objects, vni);
    bool stays = strlen(home->name) == was_len && memcmp(home->name, was, was_len) == 0;

    /* A move was let in when it began. */
    if (stays || home->state == CLUSTER_SERVING ||
        (move && (strcmp(move->move.to.x86, home->name) == 0 ||
                  strcmp(move->move.to.h, home->name) == 0))) {
        return RC_OK;
    }
    return err_field(err, RC_CONFLICT, field, "cluster_not_serving",
                     "vni %u: cluster %s is %s and takes no new tenants", vni,
                     home->name, cluster_state_name(home->state));
}

/* The x86 home, and the XGW-H home that it stands behind; `old`: its row before. */
static enum rc check_homes(const struct core *c, uint32_t vni, const struct rows *old,
                           const struct rows *rows, struct err *err)
{
    struct tenant_row was = { 0 };
    enum rc rc;
    struct tenant_row tenant;
    char name[CLUSTER_NAME_MAX + 1] = "";
    char h_name[CLUSTER_NAME_MAX + 1] = "";
    const struct cluster *home;
    const struct cluster *h_home;

    core_must(tenant_row_of(rows, &tenant));
    tenant_row_of(old, &was);
    memcpy(name, tenant.cluster, tenant.cluster_len);
    memcpy(h_name, tenant.h_home, tenant.h_home_len);
    home = objects_cluster(&c->tip_objects, name);
    if (!home) {
        return err_field(err, RC_INVALID, "cluster", "unknown_cluster",
                         "vni %u: there is no cluster '%s'", vni, name);
    }
    if (home->kind != CLUSTER_X86) {
        return err_field(err, RC_INVALID, "cluster", "home_kind",
                         "vni %u: cluster %s is of kind %s: name it as h_home, and its "
                         "backing %s here",
                         vni, name, cluster_kind_name(home->kind), home->backing);
    }
    rc = check_serving(c, vni, home, was.cluster, was.cluster_len, "cluster", err);
    if (rc || !h_name[0]) {
        return rc;
    }
    h_home = objects_cluster(&c->tip_objects, h_name);
    if (!h_home) {
        return err_field(err, RC_INVALID, "h_home", "unknown_cluster",
                         "vni %u: there is no cluster '%s'", vni, h_name);
    }
    if (h_home->kind != CLUSTER_XGW_H) {
        return err_field(err, RC_INVALID, "h_home", "home_kind",
                         "vni %u: cluster %s is of kind %s, not xgw-h", vni, h_name,
                         cluster_kind_name(h_home->kind));
    }
    if (strcmp(h_home->backing, name) != 0) {
        return err_field(
            err, RC_INVALID, "cluster", "home_backing",
            "vni %u: behind cluster %s stands %s, so that is the x86 home, "
            "not %s",
            vni, h_name, h_home->backing, name);
    }
    return check_serving(c, vni, h_home, was.h_home, was.h_home_len, "h_home", err);
}

/* XGW-x86 has neither rules nor meters: where a tenant has no XGW-H home they would
 * hold nobody back, and nobody would notice. */
static enum rc check_guards(struct core *c, struct pending *p, uint32_t vni)
{
    static const enum table_id guards[] = { TABLE_ACL, TABLE_METER };
    struct tenant_row tenant;

    for (unsigned i = 0; i < 2; i++) {
        if (!table_set_rows(c->tip, vni, guards[i]) ||
            !tenant_row_of(table_set_rows(c->tip, vni, TABLE_TENANT), &tenant) ||
            tenant.h_home_len > 0) {
            continue;
        }
        p->reply.bad_index = find_index(p->ops, BATCH_PUT, vni, guards[i], NULL);
        if (p->reply.bad_index == UINT32_MAX) {
            p->reply.bad_index = find_index(p->ops, BATCH_PUT, vni, TABLE_TENANT, NULL);
        }
        return err_field(&p->reply.err, RC_CONFLICT, "h_home", "xgw_h_needed",
                         "vni %u: its %s entries hold on XGW-H only, and it has no "
                         "h_home",
                         vni, table_name(guards[i]));
    }
    return RC_OK;
}

/* A home that is another at once would leave packets without an answer while nodes
 * follow: only a move changes it, make before break. */
static enum rc check_stays(const struct core *c, struct pending *p,
                           const struct table_change *ch)
{
    const struct operation *move = objects_move(&c->tip_objects, ch->vni);
    struct tenant_row was;
    struct tenant_row now;
    bool h_stays;

    if (p->command.kind == COMMAND_STEP || !tenant_row_of(ch->before, &was) ||
        !tenant_row_of(ch->after, &now)) {
        return RC_OK;
    }
    h_stays = was.h_home_len == now.h_home_len &&
              memcmp(was.h_home, now.h_home, now.h_home_len) == 0;
    if (h_stays && was.cluster_len == now.cluster_len &&
        memcmp(was.cluster, now.cluster, now.cluster_len) == 0) {
        return RC_OK;
    }
    if (move) {
        return err_field(&p->reply.err, RC_CONFLICT, h_stays ? "cluster" : "h_home",
                         "tenant_is_moving", "vni %u: operation %s moves it", ch->vni,
                         move->id);
    }
    return err_field(
        &p->reply.err, RC_CONFLICT, h_stays ? "cluster" : "h_home", "home_needs_move",
        "vni %u is at home on %.*s%s%.*s: only a move changes that, xgwctl "
        "tenant move",
        ch->vni, was.h_home_len, was.h_home, was.h_home_len ? " before " : "",
        was.cluster_len, was.cluster);
}

static enum rc check_tenant(struct core *c, struct pending *p,
                            const struct table_change *ch)
{
    struct err *err = &p->reply.err;
    const struct sources *sources;

    if (ch->after) {
        enum rc rc = check_homes(c, ch->vni, ch->before, ch->after, err);

        rc = rc ? rc : check_stays(c, p, ch);
        if (rc) {
            p->reply.bad_index =
                find_index(p->ops, BATCH_PUT, ch->vni, TABLE_TENANT, NULL);
        }
        return rc;
    }
    sources = peer_index_sources(&c->tip_peers, ch->vni);
    if (!sources) {
        return RC_OK;
    }
    p->reply.bad_index = find_index(p->ops, BATCH_DELETE, ch->vni, TABLE_TENANT, NULL);
    return err_field(err, RC_CONFLICT, "vni", "inbound_peers",
                     "vni %u: routes of %u other vni lead to it, vni %u first", ch->vni,
                     sources_count(sources), sources_next(sources, VNI_MIN));
}

static enum rc check_peer(struct core *c, struct pending *p, uint32_t vni,
                          const struct row *after)
{
    uint32_t peer = row_peer(after);

    if (!peer || table_set_rows(c->tip, peer, TABLE_TENANT)) {
        return RC_OK;
    }
    p->reply.bad_index = find_index(p->ops, BATCH_PUT, vni, TABLE_VXLAN_ROUTE, after);
    return err_field(&p->reply.err, RC_INVALID, "peer_vni", "peer_unknown",
                     "vni %u: peer vni %u is no tenant", vni, peer);
}

static enum rc check_chain(struct core *c, struct pending *p, uint32_t vni,
                           const struct row *before, const struct row *after)
{
    const struct row *row = after ? after : before;
    uint32_t left = p->at.chain_work < ROUTE_WORK ? p->at.chain_work : ROUTE_WORK;
    uint32_t work = left;
    enum rc rc;

    /* A route that shields can only end chains; one that goes may uncover a peer. */
    if (after && (!row_peer(after) || row_peer(before) == row_peer(after))) {
        return RC_OK;
    }
    units_spend(&c->units, CHAIN_UNITS);
    rc = chains_check(c, vni, row, &work, &p->reply.err);
    p->at.chain_work -= left - work;
    if (rc) {
        p->reply.bad_index = find_index(p->ops, BATCH_PUT, vni, TABLE_VXLAN_ROUTE, row);
        if (p->reply.bad_index == UINT32_MAX) {
            p->reply.bad_index =
                find_index(p->ops, BATCH_DELETE, vni, TABLE_VXLAN_ROUTE, row);
        }
    }
    return rc;
}

/* One slice of a change's routes; true: all of them, or `p->reply.err`. */
static bool check_routes(struct core *c, struct pending *p,
                         const struct table_change *ch)
{
    struct check_at *at = &p->at;
    struct row b;
    struct row a;

    if (!table_set_rows(c->tip_peers.out, ch->vni, TABLE_VXLAN_ROUTE)) {
        return true;
    }
    if (!at->is_comparing) {
        rows_compare_begin(&at->compare, ch->before, ch->after, TABLE_VXLAN_ROUTE);
        at->is_comparing = true;
    }
    while (rows_compare_next(&at->compare, &c->units, &b, &a)) {
        uint32_t work = at->chain_work;

        if (check_peer(c, p, ch->vni, a.key ? &a : NULL) ||
            check_chain(c, p, ch->vni, b.key ? &b : NULL, a.key ? &a : NULL)) {
            return true;
        }
        units_spend(&c->units, 1);
        units_spend(&c->units, (work - at->chain_work) / 4);
    }
    at->is_comparing = !at->compare.is_over;
    return !at->is_comparing;
}

/* Every put of what a tenant owns must find its tenant in what the batch leaves behind.
 */
static enum rc check_owners(struct core *c, struct pending *p)
{
    const struct blob *ops = p->ops;
    struct batch_reader reader;
    struct batch_run run;
    uint32_t index = 0;

    if (!ops) {
        return RC_OK;
    }
    units_spend(&c->units, ops->len / 16);
    reader = batch_reader_of(ops->data, ops->len);
    for (; batch_next(&reader, &run); index += run.count) {
        if (run.op == BATCH_PUT && run.table != TABLE_TENANT &&
            !table_set_rows(c->tip, run.vni, TABLE_TENANT)) {
            p->reply.bad_index = index;
            return err_field(&p->reply.err, RC_INVALID, "vni", "unknown_tenant",
                             "vni %u is no tenant: put it first", run.vni);
        }
    }
    return RC_OK;
}

/* ---- mass deletes ---- */

static uint64_t entry_count(const struct table_set *s)
{
    uint64_t count = table_set_count(s, TABLE_TENANT);

    for (unsigned t = 0; t < OWNED_TABLES; t++) {
        count += table_set_count(s, owned_tables[t]);
    }
    return count;
}

/* Deleted and former entries of one tenant: a and b of its slot. */
static enum rc count_tenant(struct map *tenants, const struct core *c,
                            const struct table_change *ch)
{
    struct map_slot *slot = map_add(tenants, ch->vni);

    if (!slot) {
        return RC_NO_MEMORY;
    }
    if (slot->b == 0) {
        for (unsigned t = 0; t < OWNED_TABLES; t++) {
            slot->b += rows_count(table_set_rows(c->tip, ch->vni, owned_tables[t]));
        }
    }
    slot->b += ch->counts.deleted;
    slot->b -= ch->counts.added;
    slot->a += ch->counts.deleted;
    return RC_OK;
}

/* A single entry is never a mass. */
static bool may_be_mass(const struct pending *p)
{
    return !p->command.confirm && p->reply.counts.deleted >= 2;
}

static enum rc check_mass_delete(struct core *c, struct pending *p)
{
    const struct rows_change *total = &p->reply.counts;
    uint64_t before = entry_count(c->tip) + total->deleted - total->added;
    struct err *err = &p->reply.err;
    struct map_slot *slot;
    uint32_t at = 0;

    if (!may_be_mass(p)) {
        return RC_OK;
    }
    if ((uint64_t)total->deleted * 10 > before) {
        return err_field(err, RC_DENIED, "confirm", "mass_delete",
                         "deletes %u of the region's %llu entries (more than 10 %%): "
                         "confirm it",
                         total->deleted, (unsigned long long)before);
    }
    while ((slot = map_each(&p->at.tenants, &at))) {
        if (slot->a >= 2 && slot->a * 2 > slot->b) {
            return err_field(err, RC_DENIED, "confirm", "mass_delete",
                             "deletes %llu of vni %llu's %llu entries (more than "
                             "half): confirm it",
                             (unsigned long long)slot->a, (unsigned long long)slot->key,
                             (unsigned long long)slot->b);
        }
    }
    return RC_OK;
}

/* ---- room ---- */

/* The core's own steps are durable already in what they decided. */
static bool may_gain(const struct pending *p)
{
    return !command_is_own(&p->command) &&
           p->reply.counts.added + p->reply.counts.changed;
}

static enum rc check_room(struct core *c, struct pending *p)
{
    enum table_id table;
    uint32_t vni;
    enum rc rc = may_gain(p) ? room_gain_take(c, p, &vni, &table) : RC_OK;

    if (rc) {
        p->reply.bad_index = find_index(p->ops, BATCH_PUT, vni, table, NULL);
    }
    return rc;
}

/* ---- all together ---- */

enum rule {
    RULE_OWNERS,
    RULE_TENANTS,
    RULE_ROUTES,
    RULE_COUNT,
    RULE_MASS,
    RULE_GAIN,
    RULE_ROOM,
    RULES
};

static enum rc check_tenants(struct core *c, struct pending *p,
                             const struct table_change *ch)
{
    enum rc rc = RC_OK;

    if (ch->table == TABLE_TENANT) {
        units_spend(&c->units, 4);
        rc = check_tenant(c, p, ch);
    }
    if (!rc && (ch->table == TABLE_TENANT || ch->table == TABLE_ACL ||
                ch->table == TABLE_METER)) {
        units_spend(&c->units, 4);
        rc = check_guards(c, p, ch->vni);
    }
    return rc;
}

/* One slice of the present rule on one change; true: done. */
static bool check_change(struct core *c, struct pending *p,
                         const struct table_change *ch)
{
    switch ((enum rule)p->at.phase) {
    case RULE_TENANTS:
        check_tenants(c, p, ch);
        return true;
    case RULE_ROUTES:
        return ch->table != TABLE_VXLAN_ROUTE || check_routes(c, p, ch);
    case RULE_COUNT:
        if (may_be_mass(p) && ch->table != TABLE_TENANT && ch->counts.deleted > 0) {
            units_spend(&c->units, 4);
            if (count_tenant(&p->at.tenants, c, ch)) {
                err_set(&p->reply.err, RC_NO_MEMORY, "batch: out of memory");
            }
        }
        return true;
    case RULE_GAIN:
        if (may_gain(p)) {
            units_spend(&c->units, 8);
            room_gain_add(c, p, ch);
        }
        return true;
    default:
        return true;
    }
}

bool batch_check_state(struct core *c, struct pending *p)
{
    const struct err *err = &p->reply.err;
    struct check_at *at = &p->at;

    for (; at->phase < RULES && !err->code; at->phase++, at->change = 0) {
        if (at->phase == RULE_OWNERS) {
            at->chain_work = CHAIN_WORK;
            check_owners(c, p);
            continue;
        }
        if (at->phase == RULE_MASS) {
            check_mass_delete(c, p);
            continue;
        }
        if (at->phase == RULE_ROOM) {
            check_room(c, p);
            continue;
        }
        for (; at->change < p->changes.count && !err->code; at->change++) {
            if (c->units == 0 || !check_change(c, p, &p->changes.at[at->change])) {
                return false;
            }
            units_spend(&c->units, 1);
        }
    }
    if (err->code) {
        p->reply.counts = (struct rows_change){ 0 };
    }
    return true;
}
