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

enum rc tip_drop_tenants(struct table_set *s, struct change_list *l,
                         struct rows_change *total)
{
    const uint32_t count = l->count;
    enum rc rc = RC_OK;

    for (uint32_t i = 0; i < count && !rc; i++) {
        uint32_t vni = l->at[i].vni;

        if (l->at[i].table == TABLE_TENANT && !l->at[i].after) {
            for (unsigned t = 0; t < OWNED_TABLES && !rc; t++) {
                rc = drop_rows(s, l, vni, owned_tables[t], total);
            }
        }
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

void tip_follow(struct core *c, const struct change_list *l, bool is_undo)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct table_change *ch = &l->at[is_undo ? l->count - 1 - i : i];
        struct rows *from = is_undo ? ch->after : ch->before;
        struct rows *to = is_undo ? ch->before : ch->after;

        if (ch->table == TABLE_VXLAN_ROUTE) {
            peer_index_update(&c->tip_peers, ch->vni, from, to);
        } else if (ch->table == TABLE_TENANT) {
            count_homes(c, from, -1);
            count_homes(c, to, 1);
        }
    }
}
