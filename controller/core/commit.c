/*
 * commit: what a store event makes of the region.
 *
 * The tip has a change already when its event comes; committing it moves the view that
 * readers see, the counts and digests, the peers, and then every group's desired set.
 */
#include "controller/core/core_internal.h"

struct rows *committed_rows(const struct core *c, uint32_t vni, enum table_id table)
{
    struct map_slot *slot = map_find(&c->overlay, row_set_key(vni, (uint8_t)table));

    return slot ? slot->p : table_set_rows(c->tip, vni, table);
}

void overlay_add(struct core *c, const struct change_list *l, uint64_t tag)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct table_change *ch = &l->at[i];
        struct map_slot *slot =
            core_need(map_add(&c->overlay, row_set_key(ch->vni, ch->table)));

        if (slot->b == 0) {
            slot->p = rows_ref(ch->before);
        }
        slot->b = tag;
        if (ch->table == TABLE_TENANT && !ch->after) {
            c->tenants_gone++;
        }
    }
}

void overlay_clear(struct core *c)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&c->overlay, &at))) {
        rows_unref(slot->p);
    }
    map_fini(&c->overlay);
    c->tenants_gone = 0;
}

static void overlay_commit(struct core *c, const struct table_change *ch, uint64_t tag)
{
    struct map_slot *slot = map_find(&c->overlay, row_set_key(ch->vni, ch->table));

    if (!slot) {
        return;
    }
    rows_unref(slot->p);
    if (slot->b == tag) {
        map_remove(&c->overlay, slot);
    } else {
        slot->p = rows_ref(ch->after);
    }
}

static void commit_change(struct core *c, uint64_t revision, uint64_t tag,
                          const struct table_change *ch)
{
    struct map_slot *slot;

    checkpoint_note(c, ch->vni, ch->table, ch->before);
    c->count[ch->table] += (uint64_t)rows_count(ch->after) - rows_count(ch->before);
    c->digest[ch->table] += rows_digest(ch->after) - rows_digest(ch->before);
    if (tag) {
        overlay_commit(c, ch, tag);
        if (ch->table == TABLE_TENANT && !ch->after) {
            c->tenants_gone--;
        }
    }
    if (ch->table == TABLE_TENANT) {
        demand_tenant(c, ch->vni, ch->after);
    }
    if (ch->table == TABLE_VXLAN_ROUTE) {
        peer_index_update(&c->peers, ch->vni, ch->before, ch->after);
    } else if (ch->table == TABLE_VM_NC) {
        resident_note_vms(c, ch->vni, ch->before, ch->after);
    }
    if (ch->table == TABLE_VXLAN_ROUTE || ch->table == TABLE_VM_NC) {
        activity_note(&c->activity, c->now_ms, ch->table, ch->before, ch->after);
    }
    slot = core_need(map_add(&c->revisions, ch->vni));
    slot->a = revision;
}

void commit_changes(struct core *c, uint64_t revision, uint64_t tag,
                    const struct change_list *l)
{
    c->revision = revision;
    for (uint32_t i = 0; i < l->count; i++) {
        commit_change(c, revision, tag, &l->at[i]);
    }
    project_changes(c, revision, l);
    operations_note(c);
}

static bool same_vips(const struct cluster *a, const struct cluster *b)
{
    return ip_compare(&a->vip_v4, &b->vip_v4) == 0 &&
           ip_compare(&a->vip_v6, &b->vip_v6) == 0;
}

void commit_object(struct core *c, uint64_t revision, const struct object_change *ch)
{
    const struct cluster *old = NULL;
    struct cluster before = { 0 };
    struct operation was = { .state = OPERATION_DONE };

    c->revision = revision;
    if (ch->kind == COMMAND_PUT_CLUSTER) {
        old = objects_cluster(&c->objects, ch->cluster.name);
        before = old ? *old : before;
    }
    if (ch->kind == COMMAND_STEP &&
        objects_operation(&c->objects, object_change_name(ch))) {
        was = *objects_operation(&c->objects, object_change_name(ch));
    }
    core_must(objects_apply(&c->objects, ch, revision));
    switch (ch->kind) {
    case COMMAND_PUT_CLUSTER:
        if (!old) {
            group_add(c, ch->cluster.name, ch->cluster.kind);
        } else if (!same_vips(&before, &ch->cluster)) {
            project_cluster(c, revision, group_find(c, ch->cluster.name));
        }
        break;
    case COMMAND_DELETE_CLUSTER:
        group_remove(c, ch->name);
        break;
    case COMMAND_PUT_NODE:
        device_add(c, ch->node.name);
        break;
    case COMMAND_DELETE_NODE:
        device_remove(c, ch->name);
        break;
    case COMMAND_PUT_POLICY:
        project_policy(c, revision);
        break;
    case COMMAND_MOVE:
    case COMMAND_STEP:
        project_move(c, revision, &was, ch->operation);
        operations_committed(c, ch->operation);
        return;
    case COMMAND_CANCEL:
        operations_note(c);
        return;
    case COMMAND_FORGET:
        return;
    default:
        break;
    }
    watch_objects(c);
    place_refresh(c);
    sessions_objects_changed(c);
}

/* ---- what others wrote: we follow ---- */

static void foreign_journal(struct core *c, uint64_t revision,
                            const struct store_kv *kv, uint64_t seq)
{
    struct change_list l = { 0 };
    struct rows_change total = { 0 };
    struct err err = { 0 };
    uint32_t count;
    uint32_t index;

    if (batch_check(kv->value->data, kv->value->len, false, &count, &index, &err) ||
        table_set_apply(c->tip, kv->value->data, kv->value->len, &l, &total, &err)) {
        /* Nothing half-known may be served. */
        err_wrap(&err, err.code, "journal record %llu", (unsigned long long)seq);
        c->failure = err;
        core_depose(c, err.msg);
        change_list_fini(&l);
        return;
    }
    core_must(!tip_drop_tenants(c->tip, &l, &total));
    tip_follow(c, &l, false);
    commit_changes(c, revision, 0, &l);
    checkpoint_journal(c, kv->value->len);
    c->committed_seq = seq;
    c->next_seq = seq + 1;
    change_list_fini(&l);
}

static bool foreign_object(const struct store_kv *kv, struct object_change *ret)
{
    char text[STORE_KEY_MAX + 1] = "";
    const char *name;
    const char *slash;
    struct err err;

    memcpy(text, kv->key.bytes, kv->key.len);
    slash = strchr(text + 3, '/');
    name = slash ? slash + 1 : "";
    *ret = (struct object_change){ .kind = COMMAND_ENTRIES };
    if (strcmp(text, "/o/region") == 0 && kv->value) {
        ret->region = core_need(calloc(1, sizeof(*ret->region)));
        ret->kind = COMMAND_PUT_REGION;
        return !region_unpack(kv->value->data, kv->value->len, ret->region, &err);
    }
    if (strcmp(text, "/o/policy") == 0 && kv->value) {
        ret->policy = core_need(calloc(1, sizeof(*ret->policy)));
        ret->kind = COMMAND_PUT_POLICY;
        return !policy_unpack(kv->value->data, kv->value->len, ret->policy, &err);
    }
    if (strcmp(text, "/o/levels") == 0 && kv->value) {
        ret->kind = COMMAND_PUT_LEVELS;
        return !level_settings_unpack(kv->value->data, kv->value->len, &ret->levels,
                                      &err);
    }
    if (strncmp(text, "/o/festival/", 12) == 0) {
        ret->kind = kv->value ? COMMAND_PUT_FESTIVAL : COMMAND_DELETE_FESTIVAL;
        if (kv->value) {
            return !festival_unpack(kv->value->data, kv->value->len, &ret->festival,
                                    &err);
        }
        memcpy(ret->name, name, strnlen(name, sizeof(ret->name) - 1));
        return true;
    }
    if (strncmp(text, "/o/cluster/", 11) == 0) {
        ret->kind = kv->value ? COMMAND_PUT_CLUSTER : COMMAND_DELETE_CLUSTER;
        if (kv->value) {
            return !cluster_unpack(kv->value->data, kv->value->len, &ret->cluster,
                                   &err);
        }
    } else if (strncmp(text, "/o/node/", 8) == 0) {
        ret->kind = kv->value ? COMMAND_PUT_NODE : COMMAND_DELETE_NODE;
        if (kv->value) {
            return !node_unpack(kv->value->data, kv->value->len, &ret->node, &err);
        }
    } else if (strncmp(text, "/o/operation/", 13) == 0) {
        ret->kind = kv->value ? COMMAND_STEP : COMMAND_FORGET;
        if (kv->value) {
            ret->operation = core_need(calloc(1, sizeof(*ret->operation)));
            return !operation_unpack(kv->value->data, kv->value->len, ret->operation,
                                     &err);
        }
    } else {
        return false;
    }
    memcpy(ret->name, name, strnlen(name, sizeof(ret->name) - 1));
    return true;
}

static void foreign_put(struct core *c, uint64_t revision, const struct store_kv *kv)
{
    struct object_change ch;

    if (foreign_object(kv, &ch)) {
        core_must(objects_apply(&c->tip_objects, &ch, revision));
        commit_object(c, revision, &ch);
    }
    object_change_fini(&ch);
}

void commit_foreign(struct core *c, const struct store_event *ev)
{
    struct err err;
    uint64_t seq;

    if (c->queue.head && c->queue.flying > 0) {
        queue_undo(c,
                   c->queue.head); /* whatever flies will fail: the term has changed */
        c->queue.is_draining = c->queue.answers > 0;
    }
    c->revision = ev->revision;
    /* Objects first, as we do ourselves: a step of a move says where its rows stay. */
    for (uint32_t i = 0; i < ev->kv_count; i++) {
        if (record_kind(&ev->kvs[i].key) == 'o') {
            foreign_put(c, ev->revision, &ev->kvs[i]);
        }
    }
    for (uint32_t i = 0; i < ev->kv_count && c->phase != PHASE_DEPOSED; i++) {
        const struct store_kv *kv = &ev->kvs[i];

        switch (record_kind(&kv->key)) {
        case 'j':
            if (record_is_journal(kv, &seq)) {
                foreign_journal(c, ev->revision, kv, seq);
            }
            break;
        case 'r':
        case 'i':
        case 'f':
            if (kv->value) {
                results_load(c, kv, &err);
            }
            break;
        default:
            break;
        }
    }
}
