/* load: from what is stored to a region that serves. */
#include "controller/core/core_internal.h"

#include "proto/base/log.h"

static void fail(struct core *c, const struct err *err)
{
    if (c->phase == PHASE_FAILED) {
        return;
    }
    c->phase = PHASE_FAILED;
    c->failure = *err;
    effect_log(c, LOG_ERROR, "start refused", "cause=\"%s\"", err->msg);
    queue_fail_all(c, RC_UNREACHABLE, err->msg);
}

/* The rows put together so far are complete. */
static void flush_rows(struct core *c)
{
    struct load *l = &c->load;
    uint32_t vni = (uint32_t)(l->key >> 8);
    uint8_t table = (uint8_t)(l->key & 255);

    if (l->key == 0) {
        return;
    }
    if (l->is_unaligned || rows_page_count(l->rows) != l->pages) {
        checkpoint_note_unaligned(c, vni, table);
    }
    core_must(!table_set_put(c->tip, vni, table, l->rows));
    l->rows = NULL;
    l->key = 0;
    l->pages = 0;
    l->is_unaligned = false;
}

/* Every row means something, not only the page's lengths. */
static enum rc check_page(uint32_t vni, enum table_id table, const struct blob *v,
                          uint32_t *ret_count, struct err *err)
{
    uint32_t at = 0;

    for (*ret_count = 0; at < v->len; ++*ret_count) {
        struct entry e;
        struct row row;
        size_t n = row_scan(table, v->data + at, v->len - at, true, &row);
        enum rc rc;

        if (n == 0) {
            return err_set(err, RC_INVALID, "row at byte %u is cut", at);
        }
        rc = entry_unpack(table, vni, &row, &e, err);
        if (rc) {
            return rc;
        }
        at += (uint32_t)n;
    }
    return *ret_count > 0 ? RC_OK : err_set(err, RC_INVALID, "page is empty");
}

/* A page that overlaps the one before it, as a crash amid a checkpoint leaves them. */
static enum rc merge_page(struct load *l, uint32_t vni, enum table_id table,
                          const struct blob *v, uint32_t count)
{
    /* check_page() found at least one row. */
    struct rows_step *steps = core_need(calloc(count + 1u, sizeof(*steps)));
    struct rows_change counts;
    struct rows *merged = NULL;
    size_t at = 0;
    enum rc rc;

    for (uint32_t i = 0; i < count; i++) {
        at += row_scan(table, v->data + at, v->len - at, true, &steps[i].row);
    }
    rc = rows_edit(l->rows, table, vni, steps, count, &merged, &counts);
    free(steps);
    if (!rc) {
        rows_unref(l->rows);
        l->rows = merged;
        l->is_unaligned = true;
    }
    return rc;
}

static enum rc load_page(struct core *c, const struct store_kv *kv, struct err *err)
{
    struct load *l = &c->load;
    struct reader key = reader_of(kv->key.bytes + 3, kv->key.len - 3u);
    uint32_t vni = read_u24(&key);
    uint8_t table = read_u8(&key);
    struct rows *rows = NULL;
    struct row first;
    uint32_t count;
    enum rc rc;

    if (key.failed || vni < VNI_MIN || table >= TABLE_COUNT || table == TABLE_VNI ||
        table == TABLE_VNI_CLUSTER) {
        return err_set(err, RC_INVALID, "page key names no table and vni");
    }
    rc = check_page(vni, table, kv->value, &count, err);
    if (rc) {
        return err_wrap(err, rc, "page of vni %u, table %s", vni, table_name(table));
    }
    row_scan(table, kv->value->data, kv->value->len, true, &first);
    if (first.key_len != reader_left(&key) ||
        (first.key_len && memcmp(first.key, key.p, first.key_len) != 0)) {
        return err_set(err, RC_INVALID,
                       "page of vni %u, table %s: not the page of this key", vni,
                       table_name(table));
    }
    if (l->key != row_set_key(vni, table)) {
        flush_rows(c);
        l->key = row_set_key(vni, table);
    }
    rc = rows_load(table, vni, kv->value->data, kv->value->len, l->rows, &rows);
    if (!rc) {
        rows_unref(l->rows);
        l->rows = rows;
    } else if (rc == RC_INVALID && l->rows) {
        rc = merge_page(l, vni, table, kv->value, count);
    }
    l->pages++;
    return rc ? err_set(err, rc, "page of vni %u, table %s: %s", vni, table_name(table),
                        rc_name(rc))
              : RC_OK;
}

static enum rc load_journal(struct core *c, const struct store_kv *kv, struct err *err)
{
    const struct blob *v = kv->value;
    struct change_list l = { 0 };
    struct rows_change total;
    uint32_t count;
    uint32_t index;
    uint64_t seq;
    enum rc rc = RC_OK;

    flush_rows(c);
    if (!record_seq(&kv->key, &seq)) {
        return err_set(err, RC_INVALID, "journal key without a number");
    }
    if (v->len > 0) {
        rc = batch_check(v->data, v->len, false, &count, &index, err);
        rc = rc ? rc : table_set_apply(c->tip, v->data, v->len, &l, &total, err);
        rc = rc ? rc : tip_replay_drops(c->tip, v, &l, &total);
    }
    for (uint32_t i = 0; i < l.count; i++) {
        checkpoint_note(c, l.at[i].vni, l.at[i].table, l.at[i].before);
    }
    change_list_fini(&l);
    if (rc) {
        return err_wrap(err, rc, "journal record %llu", (unsigned long long)seq);
    }
    checkpoint_journal(c, v->len);
    c->load.last_seq = seq;
    return RC_OK;
}

static enum rc load_meta(struct core *c, const struct store_kv *kv, struct err *err)
{
    struct reader r = reader_of(kv->value->data, kv->value->len);
    struct store_key folded = record_key_meta("folded");
    struct store_key term = record_key_meta("term");
    uint64_t value = read_u64(&r);

    if (store_key_compare(&kv->key, &folded) == 0) {
        c->load.folded = value;
    } else if (store_key_compare(&kv->key, &term) == 0) {
        c->load.stored_term = value;
    } else {
        return RC_OK;
    }
    return r.failed ? err_set(err, RC_INVALID, "stored meta value is damaged") : RC_OK;
}

static enum rc load_kv(struct core *c, const struct store_kv *kv, struct err *err)
{
    switch (record_kind(&kv->key)) {
    case 'e':
        return load_page(c, kv, err);
    case 'j':
        return load_journal(c, kv, err);
    case 'm':
        return load_meta(c, kv, err);
    case 'o':
        return object_load(c, kv, err);
    case 'f':
    case 'i':
    case 'r':
        return results_load(c, kv, err);
    default:
        return RC_OK;
    }
}

void load_kvs(struct core *c, const struct store_kv *kvs, uint32_t count)
{
    struct err err = { 0 };

    for (uint32_t i = 0; i < count && c->phase == PHASE_LOADING; i++) {
        if (load_kv(c, &kvs[i], &err)) {
            fail(c, &err);
        }
    }
}

static void index_routes(struct core *c, uint32_t vni)
{
    struct rows *routes = table_set_rows(c->tip, vni, TABLE_VXLAN_ROUTE);
    struct rows_iter it = rows_begin(routes, TABLE_VXLAN_ROUTE);
    struct peer_update tip_peers;
    struct peer_update peers;
    struct row row;

    peer_update_begin(&tip_peers, &c->tip_peers, vni);
    peer_update_begin(&peers, &c->peers, vni);
    while (routes && rows_next(&it, &row)) {
        peer_update_row(&tip_peers, NULL, &row, &c->units);
        peer_update_row(&peers, NULL, &row, &c->units);
        activity_note(&c->activity, c->now_ms, TABLE_VXLAN_ROUTE, NULL, &row);
    }
    peer_update_end(&tip_peers);
    peer_update_end(&peers);
}

static void index_vms(struct core *c, uint32_t vni)
{
    struct rows *vms = table_set_rows(c->tip, vni, TABLE_VM_NC);
    struct rows_iter it = rows_begin(vms, TABLE_VM_NC);
    int64_t macs = 0;
    struct row row;

    while (vms && rows_next(&it, &row)) {
        macs += resident_mac_change(NULL, &row);
        activity_note(&c->activity, c->now_ms, TABLE_VM_NC, NULL, &row);
    }
    resident_note_macs(c, vni, macs);
}

/* Counts, digests and indices of what was loaded. */
static enum rc index_tip(struct core *c, struct err *err)
{
    const uint32_t mask = INTENT_TABLES;
    const struct tree_node root = { 0 };
    uint32_t vni = table_set_next(c->tip, VNI_MIN, mask);

    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        struct digest d = table_set_digest(c->tip, (enum table_id)t, root);

        c->count[t] = d.count;
        c->digest[t] = d.sum;
    }
    while (vni) {
        struct rows *tenant = table_set_rows(c->tip, vni, TABLE_TENANT);
        struct table_change ch = { vni, TABLE_TENANT, NULL, tenant, { 0 } };
        struct change_list one = { &ch, 1, 1 };

        if (!tenant || !homes_of_vni(c, vni).of[GROUP_X86]) {
            return err_set(err, RC_INVALID, "vni %u: entries without a %s", vni,
                           tenant ? "cluster" : "tenant");
        }
        tip_count_homes(c, &one, false);
        demand_tenant(c, vni, tenant);
        index_routes(c, vni);
        index_vms(c, vni);
        vni = vni < VNI_MAX ? table_set_next(c->tip, vni + 1, mask) : 0;
    }
    return RC_OK;
}

/* The term, and the tickets of the chain but the next mutation's. */
static void write_term(struct core *c)
{
    struct store_txn *txn = core_need(store_txn_new(tag_new(c, TAG_TERM)));
    struct blob *term = core_need(record_pack_u64(c->config.term));
    struct blob *ticket = core_need(blob_copy("", 0));

    core_must(!store_txn_put(txn, record_key_meta("term"), term));
    for (uint64_t i = 1; i < CHAIN_SLOTS; i++) {
        core_must(!store_txn_put(txn, record_key_ticket(c->next_seq + i), ticket));
    }
    core_must(!store_txn_delete(txn, record_key_ticket(c->next_seq)));
    blob_unref(term);
    blob_unref(ticket);
    txn_submit(c, txn);
}

void load_ready(struct core *c, uint64_t revision)
{
    struct err err = { 0 };

    flush_rows(c);
    if (c->phase != PHASE_LOADING) {
        return;
    }
    c->revision = revision;
    c->base_revision = revision;
    c->committed_seq =
        c->load.folded > c->load.last_seq ? c->load.folded : c->load.last_seq;
    c->next_seq = c->committed_seq + 1;
    if (c->load.stored_term > c->config.term) {
        err_set(&err, RC_STALE, "term %llu is behind the stored %llu",
                (unsigned long long)c->config.term,
                (unsigned long long)c->load.stored_term);
        fail(c, &err);
        return;
    }
    core_must(objects_copy(&c->objects, &c->tip_objects));
    for (uint32_t i = 0; i < c->objects.cluster_count; i++) {
        group_add(c, c->objects.clusters[i].name, c->objects.clusters[i].kind);
    }
    for (uint32_t i = 0; i < c->objects.node_count; i++) {
        device_put(c, &c->objects.nodes[i]);
    }
    steering_presume_members(c);
    watch_objects(c);
    watch_load_acks(c);
    place_refresh(c);
    if (index_tip(c, &err)) {
        fail(c, &err);
        return;
    }
    operations_note(c);
    activity_start(&c->activity, c->now_ms);
    jobs_project_all(c);
    c->phase = PHASE_STARTING;
    write_term(c);
}
