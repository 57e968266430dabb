/* tip: what follows from a change of its rows: rows that go with a tenant, and the
 * indices of peers and homes. */
#include "controller/core/core_internal.h"

static enum rc drop_rows(struct table_set *s, struct change_list *l, uint32_t vni,
                         enum table_id table, struct rows_change *total)
{
    struct table_change ch = { .vni = vni, .table = (uint8_t)table };

    ch.before = rows_ref(table_set_rows(s, vni, table));
    if (!ch.before) {
        return RC_OK;
    }
    ch.counts.deleted = rows_count(ch.before);
    if (!change_list_push(l, &ch)) {
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

enum rc tip_drop_tenant(struct table_set *s, struct change_list *l, uint32_t vni,
                        struct rows_change *total)
{
    enum rc rc = RC_OK;

    for (unsigned t = 0; t < OWNED_TABLES && !rc; t++) {
        rc = drop_rows(s, l, vni, owned_tables[t], total);
    }
    return rc;
}

enum rc tip_replay_drops(struct table_set *s, const struct blob *ops,
                         struct change_list *l, struct rows_change *total)
{
    struct batch_reader reader = batch_reader_of(ops->data, ops->len);
    struct batch_run run;
    enum rc rc = RC_OK;

    while (!rc && batch_next(&reader, &run)) {
        if (run.op == BATCH_DELETE && run.table == TABLE_TENANT) {
            for (unsigned t = 0; t < OWNED_TABLES && !rc; t++) {
                rc = drop_rows(s, l, run.vni, owned_tables[t], total);
            }
        }
    }
    return rc;
}

static void count_home(struct core *c, const char *cluster, size_t len, int step)
{
    char name[CLUSTER_NAME_MAX + 1] = "";
    struct map_slot *slot;

    if (len > 0) {
        memcpy(name, cluster, len);
        slot = core_need(map_add(&c->tip_homes, text_hash(name)));
        slot->a += (uint64_t)step;
    }
}

static void count_homes(struct core *c, const struct rows *tenant, int step)
{
    struct tenant_row row;

    if (tenant_row_of(tenant, &row)) {
        count_home(c, row.cluster, row.cluster_len, step);
        count_home(c, row.h_home, row.h_home_len, step);
    }
}

void tip_count_homes(struct core *c, const struct change_list *l, bool is_undo)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct table_change *ch = &l->at[i];

        if (ch->table == TABLE_TENANT) {
            count_homes(c, ch->before, is_undo ? 1 : -1);
            count_homes(c, ch->after, is_undo ? -1 : 1);
        }
    }
}

/* ---- a batch, in slices ---- */

#define SLICE_ENTRIES 1024u
#define SLICE_CHANGES 512u
#define CHANGE_UNITS  8u /* a change of another VNI than the one before it */

/* The list from `first` on. */
static struct change_list tail_of(const struct change_list *l, uint32_t first)
{
    return (struct change_list){ l->at + first, l->count - first, 0 };
}

/* The tip has what was appended since. */
static void note_changes(struct core *c, const struct change_list *l, uint32_t first)
{
    const struct change_list tail = tail_of(l, first);

    overlay_add(c, l, first);
    tip_count_homes(c, &tail, false);
}

/* Bytes of the runs at `p` that make one slice. */
static size_t slice_at(const uint8_t *p, size_t left, uint32_t *ret_entries)
{
    struct batch_reader reader = batch_reader_of(p, left);
    struct batch_run run;

    *ret_entries = 0;
    while (*ret_entries < SLICE_ENTRIES && batch_next(&reader, &run)) {
        *ret_entries += run.count;
    }
    return (size_t)(reader.in.p - p);
}

bool tip_apply(struct core *c, struct pending *p)
{
    const struct blob *ops = p->ops;
    struct rows_change *total = &p->reply.counts;

    while (ops && p->at.bytes < ops->len && c->units > 0) {
        const uint8_t *from = ops->data + p->at.bytes;
        const uint32_t first = p->changes.count;
        struct rows_change n = { 0 };
        uint32_t entries;
        size_t len = slice_at(from, ops->len - p->at.bytes, &entries);

        if (table_set_apply(c->tip, from, len, &p->changes, &n, &p->reply.err)) {
            return true;
        }
        total->added += n.added;
        total->changed += n.changed;
        total->deleted += n.deleted;
        total->unchanged += n.unchanged;
        note_changes(c, &p->changes, first);
        p->at.bytes += (uint32_t)len;
        units_spend(&c->units, entries + CHANGE_UNITS * (p->changes.count - first));
    }
    return !ops || p->at.bytes == ops->len;
}

bool tip_drop(struct core *c, struct pending *p)
{
    for (; p->at.change < p->changes.count; p->at.change++) {
        const struct table_change *ch = &p->changes.at[p->at.change];
        const uint32_t first = p->changes.count;
        enum rc rc;

        if (c->units == 0) {
            return false;
        }
        units_spend(&c->units, 1);
        if (ch->table != TABLE_TENANT || ch->after) {
            continue;
        }
        rc = tip_drop_tenant(c->tip, &p->changes, ch->vni, &p->reply.counts);
        note_changes(c, &p->changes, first);
        units_spend(&c->units, CHANGE_UNITS * (p->changes.count - first));
        if (rc) {
            err_set(&p->reply.err, rc, "batch: out of memory");
            return true;
        }
    }
    return true;
}

bool tip_take_back(struct core *c, struct pending *p)
{
    struct change_list *l = &p->changes;

    place_release(c, &p->placed);
    if (!peers_follow(&c->tip_peers, l, true, &p->at.peers, &c->units)) {
        return false;
    }
    while (l->count > 0) {
        uint32_t n = l->count < SLICE_CHANGES ? l->count : SLICE_CHANGES;
        const struct change_list tail = tail_of(l, l->count - n);

        if (c->units == 0) {
            return false;
        }
        tip_count_homes(c, &tail, true);
        table_set_undo(c->tip, &tail);
        overlay_drop(c, &tail);
        change_list_cut(l, n);
        p->at.peers.change = l->count; /* those that are left are followed, too */
        units_spend(&c->units, CHANGE_UNITS * n);
    }
    change_list_fini(l);
    return true;
}

enum rc tip_apply_record(struct core *c, const struct blob *ops, struct change_list *l,
                         struct err *err)
{
    struct rows_change total = { 0 };
    enum rc rc = table_set_apply(c->tip, ops->data, ops->len, l, &total, err);
    const uint32_t count = l->count;

    for (uint32_t i = 0; i < count && !rc; i++) {
        if (l->at[i].table == TABLE_TENANT && !l->at[i].after) {
            core_must(!tip_drop_tenant(c->tip, l, l->at[i].vni, &total));
        }
    }
    note_changes(c, l, 0);
    return rc;
}

void check_at_fini(struct check_at *at)
{
    batch_writer_fini(&at->place.made);
    map_fini(&at->tenants);
    room_gain_free(at->gain);
    *at = (struct check_at){ 0 };
}
