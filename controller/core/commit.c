/*
 * commit: what a store event makes of the region.
 *
 * The tip has a change already when its event comes; committing it moves the view that
 * readers see, the counts and digests; the rest is a job (jobs.c).
 */
#include "controller/core/core_internal.h"

struct rows *committed_rows(const struct core *c, uint32_t vni, enum table_id table)
{
    struct map_slot *slot = map_find(&c->overlay, row_set_key(vni, (uint8_t)table));

    if (!slot) {
        return table_set_rows(c->tip, vni, table);
    }
    if (c->job.is_visible && slot->b >> 32) {
        return c->job.changes.at[(slot->b >> 32) - 1].after;
    }
    return slot->p;
}

/* The overlay's committed rows of a key change: null `slot->p` when there are none. */
static void overlay_set(struct core *c, struct map_slot *slot, struct rows *rows)
{
    const uint32_t vni = (uint32_t)(slot->key >> 8);

    rows_ref(rows);
    rows_unref(slot->p);
    slot->p = rows;
    if ((slot->key & 255) == TABLE_TENANT) {
        core_must(!table_set_put(c->tenants, vni, TABLE_TENANT, rows_ref(rows)));
    }
}

static void overlay_end(struct core *c, struct map_slot *slot)
{
    if ((uint32_t)--slot->b == 0) {
        overlay_set(c, slot, NULL);
        map_remove(&c->overlay, slot);
    }
}

static struct map_slot *overlay_find(const struct core *c,
                                     const struct table_change *ch)
{
    return map_find(&c->overlay, row_set_key(ch->vni, ch->table));
}

void overlay_add(struct core *c, const struct change_list *l, uint32_t from)
{
    for (uint32_t i = from; i < l->count; i++) {
        const struct table_change *ch = &l->at[i];
        struct map_slot *slot =
            core_need(map_add(&c->overlay, row_set_key(ch->vni, ch->table)));

        if (slot->b == 0) {
            overlay_set(c, slot, ch->before);
        }
        slot->b++;
    }
}

void overlay_drop(struct core *c, const struct change_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        overlay_end(c, overlay_find(c, &l->at[i]));
    }
}

void overlay_fini(struct core *c)
{
    struct map_slot *slot;
    uint32_t at = 0;

    while ((slot = map_each(&c->overlay, &at))) {
        rows_unref(slot->p);
    }
    map_fini(&c->overlay);
    table_set_free(c->tenants);
}

bool commit_prepare(struct core *c)
{
    struct job *j = &c->job;

    for (; j->prepared < j->changes.count; j->prepared++) {
        const struct table_change *ch = &j->changes.at[j->prepared];
        struct map_slot *slot = overlay_find(c, ch);

        if (c->units == 0) {
            return false;
        }
        checkpoint_note(c, ch->vni, ch->table, ch->before);
        j->count[ch->table] += (uint64_t)rows_count(ch->after) - rows_count(ch->before);
        j->digest[ch->table] += rows_digest(ch->after) - rows_digest(ch->before);
        slot->b = (uint32_t)slot->b | (uint64_t)(j->prepared + 1) << 32;
        units_spend(&c->units, 4);
    }
    if (!j->is_visible) {
        j->is_visible = true;
        c->revision = j->revision;
        for (unsigned t = 0; t < TABLE_COUNT; t++) {
            c->count[t] += j->count[t];
            c->digest[t] += j->digest[t];
        }
    }
    return true;
}

bool commit_clean(struct core *c)
{
    struct job *j = &c->job;

    for (; j->cleaned < j->changes.count; j->cleaned++) {
        const struct table_change *ch = &j->changes.at[j->cleaned];
        struct map_slot *slot = overlay_find(c, ch);

        if (c->units == 0) {
            return false;
        }
        if (slot->b >> 32 == j->cleaned + 1) { /* the last one of this key */
            slot->b = (uint32_t)slot->b;
            if (slot->b > 1) {
                overlay_set(c, slot, ch->after);
            }
        }
        overlay_end(c, slot);
        slot = core_need(map_add(&c->revisions, ch->vni));
        slot->a = j->revision;
        units_spend(&c->units, 4);
    }
    return true;
}

void commit_show(struct core *c)
{
    uint32_t units = c->units;

    c->units = UINT32_MAX;
    core_must(commit_prepare(c));
    c->units = units;
}

void commit_changes(struct core *c, uint64_t revision, bool is_own,
                    struct change_list *l, struct placed_list *placed)
{
    if (l->count > 0) {
        jobs_commit(c, revision, is_own, l, placed);
        return;
    }
    c->revision = revision;
    if (placed && c->job.kind == JOB_MOVE) {
        c->job.placed = *placed; /* until the target has it */
        *placed = (struct placed_list){ 0 };
    } else if (placed) {
        place_release(c, placed);
    }
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
            if (ch->cluster.kind == CLUSTER_LB) {
                steering_fill(c);
            }
        } else if (!same_vips(&before, &ch->cluster)) {
            jobs_cluster(c, revision, group_find(c, ch->cluster.name));
        }
        break;
    case COMMAND_DELETE_CLUSTER:
        group_remove(c, ch->name);
        break;
    case COMMAND_PUT_NODE:
        device_put(c, &ch->node);
        break;
    case COMMAND_DELETE_NODE:
        device_remove(c, ch->name);
        break;
    case COMMAND_PUT_POLICY:
        jobs_policy(c, revision);
        break;
    case COMMAND_MOVE:
    case COMMAND_STEP:
        if (ch->operation->kind == OPERATION_MOVE) {
            jobs_move(c, revision, &was, ch->operation);
        }
        operations_committed(c, ch->operation);
        return;
    case COMMAND_BUILD:
    case COMMAND_DRAIN:
    case COMMAND_RETIRE:
        operations_committed(c, ch->operation);
        return;
    case COMMAND_CANCEL:
    case COMMAND_PROCEED:
    case COMMAND_PUT_CONSUMER:
        operations_note(c);
        return;
    case COMMAND_DELETE_CONSUMER:
        consumers_gone(c, ch->name);
        return;
    case COMMAND_FORGET:
        return;
    case COMMAND_ACK:
        watch_acked(c, &ch->ack);
        return;
    case COMMAND_FORGET_ACK:
        watch_forgot(c, ch->name);
        return;
    default:
        break;
    }
    watch_objects(c);
    place_refresh(c);
    sessions_objects_changed(c);
    steering_note_devices(c);
}

/* ---- what others wrote: we follow ---- */

static void foreign_journal(struct core *c, uint64_t revision,
                            const struct store_kv *kv, uint64_t seq)
{
    struct change_list l = { 0 };
    struct err err = { 0 };
    uint32_t count;
    uint32_t index;

    if (batch_check(kv->value->data, kv->value->len, false, &count, &index, &err) ||
        tip_apply_record(c, kv->value, &l, &err)) {
        /* Nothing half-known may be served. */
        err_wrap(&err, err.code, "journal record %llu", (unsigned long long)seq);
        c->failure = err;
        core_depose(c, err.msg);
        change_list_fini(&l);
        return;
    }
    commit_changes(c, revision, false, &l, NULL);
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
    if (strncmp(text, "/o/ack/", 7) == 0) {
        ret->kind = kv->value ? COMMAND_ACK : COMMAND_FORGET_ACK;
        if (kv->value) {
            return !alarm_ack_unpack(kv->value->data, kv->value->len, &ret->ack, &err);
        }
    } else if (strncmp(text, "/o/consumer/", 12) == 0) {
        ret->kind = kv->value ? COMMAND_PUT_CONSUMER : COMMAND_DELETE_CONSUMER;
        if (kv->value) {
            return !consumer_unpack(kv->value->data, kv->value->len, &ret->consumer,
                                    &err);
        }
    } else if (strncmp(text, "/o/cluster/", 11) == 0) {
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
    enum rc rc;

    if (audits_load(c, kv, &rc, NULL) || probes_load(c, kv, &rc, NULL)) {
        return;
    }
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

    if (c->queue.head) {
        queue_undo_all(c); /* whatever flies will fail: the term has changed */
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
