/* validate: what a batch of entries must keep to, alone and against the tip. */
#include "controller/core/core_internal.h"

#include <stdio.h>

#define CHAIN_WORK 1000000u /* steps of one batch's chain checks: some 20 ms */

/* ---- what needs no state ---- */

/* Keys of a batch, to find one that comes twice. */
struct seen {
    struct seen_key {
        uint64_t hash; /* 0: empty */
        uint32_t vni;
        uint8_t table;
        uint8_t key_len;
        const uint8_t *key;
    } * at;
    uint32_t mask;
};

/* False: the key was there already. */
static bool seen_add(struct seen *s, const struct batch_run *run, const struct row *row)
{
    uint64_t hash = row_key_hash(row) ^
                    row_set_key(run->vni, run->table) * UINT64_C(0x9e3779b97f4a7c15);
    struct seen_key *k;

    hash |= 1;
    for (uint32_t i = (uint32_t)(hash >> 32) & s->mask;; i = (i + 1) & s->mask) {
        k = &s->at[i];
        if (k->hash == 0) {
            break;
        }
        if (k->hash == hash && k->vni == run->vni && k->table == run->table &&
            k->key_len == row->key_len && !memcmp(k->key, row->key, row->key_len)) {
            return false;
        }
    }
    *k = (struct seen_key){ hash, run->vni, run->table, row->key_len, row->key };
    return true;
}

static enum rc check_run(const struct batch_run *run, struct seen *seen,
                         uint32_t *index, struct err *err)
{
    struct run_reader rows = run_reader_of(run);
    struct row row;

    if (run->table != TABLE_TENANT && run->table != TABLE_VXLAN_ROUTE &&
        run->table != TABLE_VM_NC) {
        return err_field(err, RC_INVALID, "table", "table",
                         "table %s is derived: it takes no entries",
                         table_name(run->table));
    }
    for (; run_next(&rows, &row); (*index)++) {
        if (run->table == TABLE_VXLAN_ROUTE && row.value &&
            row.value[0] == SCOPE_DERIVED) {
            return err_field(err, RC_INVALID, "scope", "scope",
                             "scope derived is the controller's own");
        }
        if (!seen_add(seen, run, &row)) {
            return err_field(err, RC_INVALID,
                             run->table == TABLE_VXLAN_ROUTE ? "prefix"
                             : run->table == TABLE_VM_NC     ? "vm"
                                                             : "vni",
                             "duplicate_key",
                             "vni %u: the same %s key twice in one batch", run->vni,
                             table_name(run->table));
        }
    }
    return RC_OK;
}

enum rc batch_check_static(const struct command *cmd, uint32_t *ret_index,
                           struct err *err)
{
    const struct blob *ops = cmd->entries.ops;
    struct batch_reader reader;
    struct batch_run run;
    struct seen seen = { .mask = 15 };
    uint32_t count;
    uint32_t index = 0;
    enum rc rc;

    *ret_index = UINT32_MAX;
    if (!ops || ops->len == 0) {
        return RC_OK;
    }
    if (ops->len > BATCH_MAX_BYTES) {
        return err_field(err, RC_RANGE, "", "batch_bytes",
                         "batch of %u bytes: at most %u", ops->len, BATCH_MAX_BYTES);
    }
    rc = batch_check(ops->data, ops->len, false, &count, ret_index, err);
    if (rc) {
        return rc;
    }
    if (count > BATCH_MAX_ENTRIES) {
        return err_field(err, RC_RANGE, "", "batch_entries",
                         "batch of %u entries: at most %u", count, BATCH_MAX_ENTRIES);
    }
    while (seen.mask < 2 * count) {
        seen.mask = 2 * seen.mask + 1;
    }
    seen.at = calloc((size_t)seen.mask + 1, sizeof(*seen.at));
    if (!seen.at) {
        return err_set(err, RC_NO_MEMORY, "batch: out of memory");
    }
    reader = batch_reader_of(ops->data, ops->len);
    while (!rc && batch_next(&reader, &run)) {
        rc = check_run(&run, &seen, &index, err);
    }
    free(seen.at);
    *ret_index = rc ? index : UINT32_MAX;
    return rc;
}

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
    if (!cmd->entries.create_only || run->op != BATCH_PUT || !old) {
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

static enum rc check_before(struct core *c, struct pending *p)
{
    const struct command *cmd = &p->command;
    const struct blob *ops = cmd->entries.ops;
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    uint32_t index = 0;
    enum rc rc = RC_OK;

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

static enum rc check_tenant(struct core *c, struct pending *p,
                            const struct table_change *ch)
{
    struct err *err = &p->reply.err;
    const struct peer_sources *sources;
    struct tenant_row tenant;
    char name[CLUSTER_NAME_MAX + 1] = "";

    if (ch->after) {
        core_must(tenant_row_of(ch->after, &tenant));
        memcpy(name, tenant.cluster, tenant.cluster_len);
        if (objects_cluster(&c->tip_objects, name)) {
            return RC_OK;
        }
        p->reply.bad_index =
            find_index(p->command.entries.ops, BATCH_PUT, ch->vni, TABLE_TENANT, NULL);
        return err_field(err, RC_INVALID, "cluster", "unknown_cluster",
                         "vni %u: there is no cluster '%s'", ch->vni, name);
    }
    sources = peer_index_sources(&c->tip_peers, ch->vni);
    if (!sources) {
        return RC_OK;
    }
    p->reply.bad_index =
        find_index(p->command.entries.ops, BATCH_DELETE, ch->vni, TABLE_TENANT, NULL);
    return err_field(err, RC_CONFLICT, "vni", "inbound_peers",
                     "vni %u: routes of %u other vni lead to it, vni %u first", ch->vni,
                     sources->count, sources->at[0].vni);
}

struct peer_check {
    struct core *c;
    uint32_t missing; /* the peer that is no tenant; 0: none */
    struct row row;
};

static void peer_visit(void *ctx, const struct row *before, const struct row *after)
{
    struct peer_check *check = ctx;
    uint32_t peer = row_peer(after);

    (void)before;
    if (peer && !check->missing && !table_set_rows(check->c->tip, peer, TABLE_TENANT)) {
        check->missing = peer;
        check->row = *after;
    }
}

static enum rc check_routes(struct core *c, struct pending *p,
                            const struct table_change *ch, uint32_t *work)
{
    struct peer_check peers = { .c = c };
    struct row bad;
    enum rc rc;

    if (!table_set_rows(c->tip_peers.out, ch->vni, TABLE_VXLAN_ROUTE)) {
        return RC_OK;
    }
    rows_compare_walk(ch->before, ch->after, TABLE_VXLAN_ROUTE, peer_visit, &peers);
    if (peers.missing) {
        p->reply.bad_index = find_index(p->command.entries.ops, BATCH_PUT, ch->vni,
                                        TABLE_VXLAN_ROUTE, &peers.row);
        return err_field(&p->reply.err, RC_INVALID, "peer_vni", "peer_unknown",
                         "vni %u: peer vni %u is no tenant", ch->vni, peers.missing);
    }
    rc = chains_check(c, ch, work, &bad, &p->reply.err);
    if (rc) {
        p->reply.bad_index = find_index(p->command.entries.ops, BATCH_PUT, ch->vni,
                                        TABLE_VXLAN_ROUTE, &bad);
        if (p->reply.bad_index == UINT32_MAX) {
            p->reply.bad_index = find_index(p->command.entries.ops, BATCH_DELETE,
                                            ch->vni, TABLE_VXLAN_ROUTE, &bad);
        }
    }
    return rc;
}

/* Every put of a route or VM must find its tenant in what the batch leaves behind. */
static enum rc check_owners(struct core *c, struct pending *p)
{
    const struct blob *ops = p->command.entries.ops;
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    uint32_t index = 0;

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
    return table_set_count(s, TABLE_TENANT) + table_set_count(s, TABLE_VXLAN_ROUTE) +
           table_set_count(s, TABLE_VM_NC);
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
        slot->b =
            (uint64_t)rows_count(table_set_rows(c->tip, ch->vni, TABLE_VXLAN_ROUTE)) +
            rows_count(table_set_rows(c->tip, ch->vni, TABLE_VM_NC));
    }
    slot->b += ch->counts.deleted;
    slot->b -= ch->counts.added;
    slot->a += ch->counts.deleted;
    return RC_OK;
}

static enum rc check_mass_delete(struct core *c, struct pending *p)
{
    const struct rows_change *total = &p->reply.counts;
    uint64_t before = entry_count(c->tip) + total->deleted - total->added;
    struct map tenants = { 0 };
    struct map_slot *slot;
    uint32_t at = 0;
    enum rc rc = RC_OK;

    /* A single entry is never a mass. */
    if (p->command.confirm || total->deleted < 2) {
        return RC_OK;
    }
    if ((uint64_t)total->deleted * 10 > before) {
        return err_field(&p->reply.err, RC_DENIED, "confirm", "mass_delete",
                         "deletes %u of the region's %llu entries (more than 10 %%): "
                         "confirm it",
                         total->deleted, (unsigned long long)before);
    }
    for (uint32_t i = 0; i < p->changes.count && !rc; i++) {
        if (p->changes.at[i].table != TABLE_TENANT &&
            p->changes.at[i].counts.deleted > 0) {
            rc = count_tenant(&tenants, c, &p->changes.at[i]);
        }
    }
    while (!rc && (slot = map_each(&tenants, &at))) {
        if (slot->a >= 2 && slot->a * 2 > slot->b) {
            rc = err_field(&p->reply.err, RC_DENIED, "confirm", "mass_delete",
                           "deletes %llu of vni %llu's %llu entries (more than half): "
                           "confirm it",
                           (unsigned long long)slot->a, (unsigned long long)slot->key,
                           (unsigned long long)slot->b);
        }
    }
    map_fini(&tenants);
    return rc;
}

/* ---- all together ---- */

static bool list_push(struct change_list *l, const struct table_change *ch)
{
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct table_change *grown = realloc(l->at, cap * sizeof(*grown));

        if (!grown) {
            return false;
        }
        l->at = grown;
        l->cap = cap;
    }
    l->at[l->count++] = *ch;
    return true;
}

static enum rc drop_rows(struct table_set *s, struct change_list *l, uint32_t vni,
                         enum table_id table, struct rows_change *total)
{
    struct table_change ch = { .vni = vni, .table = (uint8_t)table };

    ch.before = rows_ref(table_set_rows(s, vni, table));
    if (!ch.before) {
        return RC_OK;
    }
    ch.counts.deleted = rows_count(ch.before);
    if (!list_push(l, &ch)) {
        rows_unref(ch.before);
        return RC_NO_MEMORY;
    }
    if (table_set_put(s, vni, table, NULL)) {
        l->count--;
        rows_unref(ch.before);
        return RC_NO_MEMORY;
    }
    total->deleted += ch.counts.deleted;
    return RC_OK;
}

enum rc batch_drop_tenants(struct table_set *s, struct change_list *l,
                           struct rows_change *total)
{
    const uint32_t count = l->count;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; i < count && !rc; i++) {
        uint32_t vni = l->at[i].vni;

        if (l->at[i].table == TABLE_TENANT && !l->at[i].after) {
            rc = drop_rows(s, l, vni, TABLE_VXLAN_ROUTE, total);
            rc = rc ? rc : drop_rows(s, l, vni, TABLE_VM_NC, total);
        }
    }
    return rc;
}

static void count_home(struct core *c, const struct rows *tenant, int step)
{
    struct tenant_row row;
    char name[CLUSTER_NAME_MAX + 1] = "";
    struct map_slot *slot;

    if (tenant_row_of(tenant, &row)) {
        memcpy(name, row.cluster, row.cluster_len);
        slot = core_need(map_add(&c->tip_homes, text_hash(name)));
        slot->a += (uint64_t)step;
    }
}

void tip_follow(struct core *c, const struct change_list *l, bool is_undo)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct table_change *ch = &l->at[is_undo ? l->count - 1 - i : i];
        struct rows *from = is_undo ? ch->after : ch->before;
        struct rows *to = is_undo ? ch->before : ch->after;

        if (ch->table == TABLE_VXLAN_ROUTE) {
            peer_index_update(&c->tip_peers, ch->vni, from, to);
        } else if (ch->table == TABLE_TENANT) {
            count_home(c, from, -1);
            count_home(c, to, 1);
        }
    }
}

static enum rc check_changes(struct core *c, struct pending *p)
{
    uint32_t work = CHAIN_WORK;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; i < p->changes.count && !rc; i++) {
        const struct table_change *ch = &p->changes.at[i];

        if (ch->table == TABLE_TENANT) {
            rc = check_tenant(c, p, ch);
        }
    }
    for (uint32_t i = 0; i < p->changes.count && !rc; i++) {
        if (p->changes.at[i].table == TABLE_VXLAN_ROUTE) {
            rc = check_routes(c, p, &p->changes.at[i], &work);
        }
    }
    return rc ? rc : check_mass_delete(c, p);
}

enum rc batch_evaluate(struct core *c, struct pending *p)
{
    const struct blob *ops = p->command.entries.ops;
    struct err *err = &p->reply.err;
    enum rc rc;

    if (!ops || ops->len == 0) {
        return RC_OK;
    }
    rc = check_before(c, p);
    if (rc) {
        return rc;
    }
    rc = table_set_apply(c->tip, ops->data, ops->len, &p->changes, &p->reply.counts,
                         err);
    if (rc) {
        return rc;
    }
    rc = check_owners(c, p);
    if (!rc && batch_drop_tenants(c->tip, &p->changes, &p->reply.counts)) {
        rc = err_set(err, RC_NO_MEMORY, "batch: out of memory");
    }
    tip_follow(c, &p->changes, false);
    rc = rc ? rc : check_changes(c, p);
    if (rc) {
        tip_follow(c, &p->changes, true);
        table_set_undo(c->tip, &p->changes);
        change_list_fini(&p->changes);
        p->reply.counts = (struct rows_change){ 0 };
    }
    return rc;
}
