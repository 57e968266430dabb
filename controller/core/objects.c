/* objects: the region, its clusters and nodes, sorted by name. */
#include "controller/core/core_internal.h"

static const char *const kinds[] = {
    [COMMAND_PUT_REGION] = "region",        [COMMAND_PUT_CLUSTER] = "cluster",
    [COMMAND_DELETE_CLUSTER] = "cluster",   [COMMAND_PUT_NODE] = "node",
    [COMMAND_DELETE_NODE] = "node",         [COMMAND_PUT_POLICY] = "policy",
    [COMMAND_MOVE] = "operation",           [COMMAND_CANCEL] = "operation",
    [COMMAND_STEP] = "operation",           [COMMAND_FORGET] = "operation",
    [COMMAND_PUT_LEVELS] = "levels",        [COMMAND_PUT_FESTIVAL] = "festival",
    [COMMAND_DELETE_FESTIVAL] = "festival", [COMMAND_ACK] = "ack",
    [COMMAND_FORGET_ACK] = "ack",           [COMMAND_PUT_CONSUMER] = "consumer",
    [COMMAND_DELETE_CONSUMER] = "consumer", [COMMAND_PROCEED] = "operation",
    [COMMAND_BUILD] = "operation",          [COMMAND_DRAIN] = "operation",
    [COMMAND_RETIRE] = "operation",
};

const char *object_kind(enum command_kind kind)
{
    return kinds[kind];
}

const char *object_change_name(const struct object_change *ch)
{
    switch (ch->kind) {
    case COMMAND_PUT_CLUSTER:
        return ch->cluster.name;
    case COMMAND_PUT_NODE:
        return ch->node.name;
    case COMMAND_MOVE:
    case COMMAND_CANCEL:
    case COMMAND_STEP:
    case COMMAND_PROCEED:
    case COMMAND_BUILD:
    case COMMAND_DRAIN:
    case COMMAND_RETIRE:
        return ch->operation->id;
    case COMMAND_PUT_FESTIVAL:
        return ch->festival.name;
    case COMMAND_PUT_CONSUMER:
        return ch->consumer.name;
    case COMMAND_ACK:
        return ch->ack.name;
    case COMMAND_DELETE_FESTIVAL:
    case COMMAND_DELETE_CLUSTER:
    case COMMAND_DELETE_NODE:
    case COMMAND_FORGET:
    case COMMAND_FORGET_ACK:
    case COMMAND_DELETE_CONSUMER:
        return ch->name;
    default:
        return "";
    }
}

static bool has_operation(enum command_kind kind)
{
    return kinds[kind] && strcmp(kinds[kind], "operation") == 0 &&
           kind != COMMAND_FORGET;
}

void object_change_fini(struct object_change *ch)
{
    if (ch->kind == COMMAND_PUT_REGION) {
        free(ch->region);
    } else if (ch->kind == COMMAND_PUT_POLICY) {
        free(ch->policy);
    } else if (has_operation(ch->kind) && ch->operation) {
        operation_fini(ch->operation);
        free(ch->operation);
    }
    ch->kind = COMMAND_ENTRIES;
}

void objects_fini(struct objects *o)
{
    free(o->clusters);
    free(o->cluster_revisions);
    free(o->nodes);
    free(o->node_revisions);
    free(o->festivals);
    free(o->festival_revisions);
    free(o->consumers);
    free(o->consumer_revisions);
    for (uint32_t i = 0; i < o->operation_count && o->operations; i++) {
        operation_fini(&o->operations[i]);
    }
    free(o->operations);
    free(o->operation_revisions);
    free(o->acks);
    free(o->ack_revisions);
    map_fini(&o->moves);
    *o = (struct objects){ 0 };
}

static void *copy_array(const void *from, size_t count, size_t size)
{
    void *to = malloc((count + 1) * size);

    if (to && count > 0) {
        memcpy(to, from, count * size);
    }
    return to;
}

bool objects_copy(const struct objects *from, struct objects *ret)
{
    struct objects o = *from;

    o.clusters = copy_array(from->clusters, o.cluster_count, sizeof(*o.clusters));
    o.cluster_revisions = copy_array(from->cluster_revisions, o.cluster_count, 8);
    o.nodes = copy_array(from->nodes, o.node_count, sizeof(*o.nodes));
    o.node_revisions = copy_array(from->node_revisions, o.node_count, 8);
    o.festivals = copy_array(from->festivals, o.festival_count, sizeof(*o.festivals));
    o.festival_revisions = copy_array(from->festival_revisions, o.festival_count, 8);
    o.consumers = copy_array(from->consumers, o.consumer_count, sizeof(*o.consumers));
    o.consumer_revisions = copy_array(from->consumer_revisions, o.consumer_count, 8);
    o.operations =
        copy_array(from->operations, o.operation_count, sizeof(*o.operations));
    o.operation_revisions = copy_array(from->operation_revisions, o.operation_count, 8);
    for (uint32_t i = 0; o.operations && i < o.operation_count; i++) {
        operation_hold(&o.operations[i]);
    }
    o.acks = copy_array(from->acks, o.ack_count, sizeof(*o.acks));
    o.ack_revisions = copy_array(from->ack_revisions, o.ack_count, 8);
    if (!o.clusters || !o.cluster_revisions || !o.nodes || !o.node_revisions ||
        !o.festivals || !o.festival_revisions || !o.consumers ||
        !o.consumer_revisions || !o.operations || !o.operation_revisions || !o.acks ||
        !o.ack_revisions || !map_copy(&from->moves, &o.moves)) {
        objects_fini(&o);
        return false;
    }
    *ret = o;
    return true;
}

static_assert(offsetof(struct cluster, name) == 0 && offsetof(struct node, name) == 0 &&
                  offsetof(struct operation, id) == 0 &&
                  offsetof(struct festival, name) == 0 &&
                  offsetof(struct consumer, name) == 0 &&
                  offsetof(struct alarm_ack, name) == 0,
              "an object begins with its name");

static const char *object_name(const void *object)
{
    return object;
}

static uint32_t search(const void *array, uint32_t count, size_t size, const char *name,
                       bool *ret_found)
{
    return names_search(array, count, size, object_name, name, ret_found);
}

static uint32_t cluster_search(const struct objects *o, const char *name, bool *found)
{
    return search(o->clusters, o->cluster_count, sizeof(*o->clusters), name, found);
}

static uint32_t node_search(const struct objects *o, const char *name, bool *found)
{
    return search(o->nodes, o->node_count, sizeof(*o->nodes), name, found);
}

const struct cluster *objects_cluster(const struct objects *o, const char *name)
{
    bool found;
    uint32_t at = cluster_search(o, name, &found);

    return found ? &o->clusters[at] : NULL;
}

const struct node *objects_node(const struct objects *o, const char *name)
{
    bool found;
    uint32_t at = node_search(o, name, &found);

    return found ? &o->nodes[at] : NULL;
}

static uint32_t operation_search(const struct objects *o, const char *id, bool *found)
{
    return search(o->operations, o->operation_count, sizeof(*o->operations), id, found);
}

static uint32_t festival_search(const struct objects *o, const char *name, bool *found)
{
    return search(o->festivals, o->festival_count, sizeof(*o->festivals), name, found);
}

const struct festival *objects_festival(const struct objects *o, const char *name)
{
    bool found;
    uint32_t at = festival_search(o, name, &found);

    return found ? &o->festivals[at] : NULL;
}

static uint32_t consumer_search(const struct objects *o, const char *name, bool *found)
{
    return search(o->consumers, o->consumer_count, sizeof(*o->consumers), name, found);
}

const struct consumer *objects_consumer(const struct objects *o, const char *name)
{
    bool found;
    uint32_t at = consumer_search(o, name, &found);

    return found ? &o->consumers[at] : NULL;
}

const struct operation *objects_operation(const struct objects *o, const char *id)
{
    bool found;
    uint32_t at = operation_search(o, id, &found);

    return found ? &o->operations[at] : NULL;
}

uint64_t objects_revision(const struct objects *o, const char *kind, const char *name)
{
    bool found;
    uint32_t at;

    if (strcmp(kind, "region") == 0) {
        return o->has_region ? o->region_revision : 0;
    }
    if (strcmp(kind, "policy") == 0) {
        return o->policy_revision;
    }
    if (strcmp(kind, "levels") == 0) {
        return o->levels_revision;
    }
    if (strcmp(kind, "festival") == 0) {
        at = festival_search(o, name, &found);
        return found ? o->festival_revisions[at] : 0;
    }
    if (strcmp(kind, "consumer") == 0) {
        at = consumer_search(o, name, &found);
        return found ? o->consumer_revisions[at] : 0;
    }
    if (strcmp(kind, "cluster") == 0) {
        at = cluster_search(o, name, &found);
        return found ? o->cluster_revisions[at] : 0;
    }
    if (strcmp(kind, "ack") == 0) {
        at = search(o->acks, o->ack_count, sizeof(*o->acks), name, &found);
        return found ? o->ack_revisions[at] : 0;
    }
    if (strcmp(kind, "operation") == 0) {
        at = operation_search(o, name, &found);
        return found ? o->operation_revisions[at] : 0;
    }
    at = node_search(o, name, &found);
    return found ? o->node_revisions[at] : 0;
}

/* Puts or deletes one object of an array and its revision. */
static bool array_apply(void **array, uint64_t **revisions, uint32_t *count,
                        size_t size, const char *name, const void *object,
                        uint64_t revision)
{
    bool found;
    uint32_t at = search(*array, *count, size, name, &found);
    uint8_t *objects = *array;

    if (!object) {
        if (found) {
            uint32_t rest = --*count - at;

            memmove(objects + at * size, objects + (at + (size_t)1) * size,
                    rest * size);
            memmove(*revisions + at, *revisions + at + 1, rest * sizeof(uint64_t));
        }
        return true;
    }
    if (!found) {
        uint64_t *more = realloc(*revisions, ((size_t)*count + 1) * sizeof(uint64_t));

        if (!more) {
            return false;
        }
        *revisions = more;
        objects = realloc(objects, ((size_t)*count + 1) * size);
        if (!objects) {
            return false;
        }
        *array = objects;
        memmove(objects + (at + (size_t)1) * size, objects + at * size,
                (*count - at) * size);
        memmove(more + at + 1, more + at, (*count - at) * sizeof(uint64_t));
        ++*count;
    }
    memcpy(objects + at * size, object, size);
    (*revisions)[at] = revision;
    return true;
}

static bool apply_operation(struct objects *o, const struct object_change *ch,
                            uint64_t revision)
{
    const struct operation *now = ch->kind == COMMAND_FORGET ? NULL : ch->operation;
    const struct operation *have = objects_operation(o, object_change_name(ch));
    struct operation was = have ? *have : (struct operation){ 0 };
    void *array = o->operations;

    if (now && !objects_note_operation(o, have ? &was : NULL, now)) {
        return false;
    }
    if (!array_apply(&array, &o->operation_revisions, &o->operation_count,
                     sizeof(*o->operations), object_change_name(ch), now, revision)) {
        return false;
    }
    o->operations = array;
    if (now) {
        operation_hold(now);
    }
    operation_fini(&was);
    return true;
}

bool objects_apply(struct objects *o, const struct object_change *ch, uint64_t revision)
{
    void *array;
    bool done = true;

    switch (ch->kind) {
    case COMMAND_PUT_REGION:
        o->has_region = true;
        o->region = *ch->region;
        o->region_revision = revision;
        break;
    case COMMAND_PUT_POLICY:
        o->policy = *ch->policy;
        o->policy_revision = revision;
        break;
    case COMMAND_PUT_LEVELS:
        o->levels = ch->levels;
        o->levels_revision = revision;
        break;
    case COMMAND_PUT_FESTIVAL:
    case COMMAND_DELETE_FESTIVAL:
        array = o->festivals;
        done = array_apply(&array, &o->festival_revisions, &o->festival_count,
                           sizeof(*o->festivals), object_change_name(ch),
                           ch->kind == COMMAND_PUT_FESTIVAL ? &ch->festival : NULL,
                           revision);
        o->festivals = array;
        break;
    case COMMAND_PUT_CONSUMER:
    case COMMAND_DELETE_CONSUMER:
        array = o->consumers;
        done = array_apply(&array, &o->consumer_revisions, &o->consumer_count,
                           sizeof(*o->consumers), object_change_name(ch),
                           ch->kind == COMMAND_PUT_CONSUMER ? &ch->consumer : NULL,
                           revision);
        o->consumers = array;
        break;
    case COMMAND_ACK:
    case COMMAND_FORGET_ACK:
        array = o->acks;
        done = array_apply(&array, &o->ack_revisions, &o->ack_count, sizeof(*o->acks),
                           object_change_name(ch),
                           ch->kind == COMMAND_ACK ? &ch->ack : NULL, revision);
        o->acks = array;
        break;
    case COMMAND_PUT_CLUSTER:
    case COMMAND_DELETE_CLUSTER:
        array = o->clusters;
        done = array_apply(&array, &o->cluster_revisions, &o->cluster_count,
                           sizeof(*o->clusters), object_change_name(ch),
                           ch->kind == COMMAND_PUT_CLUSTER ? &ch->cluster : NULL,
                           revision);
        o->clusters = array;
        break;
    case COMMAND_PUT_NODE:
    case COMMAND_DELETE_NODE:
        array = o->nodes;
        done = array_apply(&array, &o->node_revisions, &o->node_count,
                           sizeof(*o->nodes), object_change_name(ch),
                           ch->kind == COMMAND_PUT_NODE ? &ch->node : NULL, revision);
        o->nodes = array;
        break;
    case COMMAND_MOVE:
    case COMMAND_CANCEL:
    case COMMAND_STEP:
    case COMMAND_PROCEED:
    case COMMAND_BUILD:
    case COMMAND_DRAIN:
    case COMMAND_RETIRE:
    case COMMAND_FORGET:
        done = apply_operation(o, ch, revision);
        break;
    default:
        break;
    }
    return done;
}

/* ---- rules ---- */

static bool same_address(const struct ip *a, const struct ip *b)
{
    return a->family != IP_NONE && ip_compare(a, b) == 0;
}

/* The cluster or node (by name, not `self`) that has the address already. */
static const char *address_owner(const struct objects *o, const struct ip *ip,
                                 const char *self, bool self_is_node)
{
    for (uint32_t i = 0; o->clusters && i < o->cluster_count; i++) {
        const struct cluster *x = &o->clusters[i];

        if ((self_is_node || strcmp(x->name, self) != 0) &&
            (same_address(ip, &x->vip_v4) || same_address(ip, &x->vip_v6))) {
            return x->name;
        }
    }
    for (uint32_t i = 0; i < o->node_count; i++) {
        const struct node *x = &o->nodes[i];

        if ((!self_is_node || strcmp(x->name, self) != 0) &&
            (same_address(ip, &x->vtep_v4) || same_address(ip, &x->vtep_v6) ||
             same_address(ip, &x->fallback_v4) || same_address(ip, &x->fallback_v6))) {
            return x->name;
        }
    }
    return NULL;
}

static enum rc check_address(const struct objects *o, const struct ip *ip,
                             const char *field, const char *self, bool self_is_node,
                             struct err *err)
{
    const char *owner = ip->family ? address_owner(o, ip, self, self_is_node) : NULL;
    char text[IP_TEXT_MAX];

    if (!owner) {
        return RC_OK;
    }
    ip_print(ip, text);
    return err_field(err, RC_CONFLICT, field, "address_in_use",
                     "%s: %s is an address of %s", self, text, owner);
}

static enum rc check_of_xgw_h(const struct core *c, const struct cluster *x,
                              const struct cluster *old, struct err *err)
{
    const struct cluster *backing = objects_cluster(&c->tip_objects, x->backing);
    struct map_slot *slot = map_find(&c->tip_homes, text_hash(x->name));

    if (x->kind != CLUSTER_XGW_H) {
        return RC_OK;
    }
    if (!backing || backing->kind != CLUSTER_X86) {
        return err_field(err, RC_INVALID, "backing", "unknown_cluster",
                         "cluster %s: there is no x86 cluster '%s'", x->name,
                         x->backing);
    }
    if (old && old->profile != x->profile && slot && slot->a > 0) {
        return err_field(err, RC_CONFLICT, "profile", "cluster_in_use",
                         "cluster %s: it is the home of %llu tenants, placed by tables "
                         "of profile %s: move them first",
                         x->name, (unsigned long long)slot->a,
                         table_profile_name(old->profile));
    }
    if (old && strcmp(old->backing, x->backing) != 0 &&
        objects_move_needs(&c->tip_objects, x->name)) {
        return err_field(err, RC_CONFLICT, "backing", "cluster_in_use",
                         "cluster %s: a tenant is moving from it or to it", x->name);
    }
    if (old && strcmp(old->backing, x->backing) != 0 && slot && slot->a > 0) {
        return err_field(err, RC_CONFLICT, "backing", "cluster_in_use",
                         "cluster %s: it is the home of %llu tenants, whose x86 home "
                         "is %s: move them first",
                         x->name, (unsigned long long)slot->a, old->backing);
    }
    return RC_OK;
}

/* Load balancers know so many nodes at most. */
static enum rc check_members(const struct objects *o, const struct node *added,
                             bool has_balancers, struct err *err)
{
    uint32_t count = added && device_kind_cluster(added->kind) != CLUSTER_LB &&
                     !objects_node(o, added->name);

    for (uint32_t i = 0; i < o->cluster_count; i++) {
        has_balancers = has_balancers || o->clusters[i].kind == CLUSTER_LB;
    }
    for (uint32_t i = 0; i < o->node_count; i++) {
        count += device_kind_cluster(o->nodes[i].kind) != CLUSTER_LB;
    }
    if (has_balancers && count > CLUSTER_MEMBERS_MAX) {
        return err_field(
            err, RC_RANGE, added ? "cluster" : "kind", "cluster_members_max",
            "%u nodes behind load balancers: at most %d", count, CLUSTER_MEMBERS_MAX);
    }
    return RC_OK;
}

/* Only where a cluster's nodes may be sent to can tenants be at home. */
static enum rc check_state(const struct core *c, const struct cluster *x,
                           const struct cluster *old, bool is_own, struct err *err)
{
    const struct operation *work = objects_work(&c->tip_objects, x->name);
    struct map_slot *slot = map_find(&c->tip_homes, text_hash(x->name));

    if (!old || old->state == x->state || is_own) {
        return RC_OK;
    }
    if (work) {
        return err_field(err, RC_CONFLICT, "state", "cluster_in_work",
                         "cluster %s: operation %s says what its state is", x->name,
                         work->id);
    }
    if (slot && slot->a > 0 && !cluster_is_announced(x->state)) {
        return err_field(err, RC_CONFLICT, "state", "cluster_in_use",
                         "cluster %s: it is the home of %llu tenants, who would not be "
                         "reached: drain it first",
                         x->name, (unsigned long long)slot->a);
    }
    return RC_OK;
}

static enum rc check_cluster(const struct core *c, const struct cluster *x, bool is_own,
                             struct err *err)
{
    const struct objects *o = &c->tip_objects;
    const struct cluster *old = objects_cluster(o, x->name);
    enum rc rc = cluster_check(x, err);

    if (rc) {
        return rc;
    }
    if (old && old->kind != x->kind) {
        return err_field(err, RC_CONFLICT, "kind", "kind_is_fixed",
                         "cluster %s: its kind cannot change", x->name);
    }
    rc = check_state(c, x, old, is_own, err);
    rc = rc ? rc : check_of_xgw_h(c, x, old, err);
    rc = rc ? rc : check_members(o, NULL, x->kind == CLUSTER_LB, err);
    rc = rc ? rc : check_address(o, &x->vip_v4, "vip_v4", x->name, false, err);
    return rc ? rc : check_address(o, &x->vip_v6, "vip_v6", x->name, false, err);
}

static enum rc check_node(const struct core *c, const struct node *x, struct err *err)
{
    const struct objects *o = &c->tip_objects;
    const struct cluster *cluster;
    enum rc rc = node_check(x, err);

    if (rc) {
        return rc;
    }
    cluster = objects_cluster(o, x->cluster);
    if (!cluster) {
        return err_field(err, RC_INVALID, "cluster", "unknown_cluster",
                         "node %s: there is no cluster '%s'", x->name, x->cluster);
    }
    if (device_kind_cluster(x->kind) != cluster->kind) {
        return err_field(err, RC_INVALID, "kind", "kind_fits_cluster",
                         "node %s: a node of kind %s fits no cluster of kind %s",
                         x->name, device_kind_name(x->kind),
                         cluster_kind_name(cluster->kind));
    }
    rc = place_check_node(o, x, err);
    rc = rc ? rc : check_members(o, x, false, err);
    rc = rc ? rc : check_address(o, &x->vtep_v4, "vtep_v4", x->name, true, err);
    rc = rc ? rc : check_address(o, &x->vtep_v6, "vtep_v6", x->name, true, err);
    rc = rc ? rc : check_address(o, &x->fallback_v4, "fallback_v4", x->name, true, err);
    return rc ? rc
              : check_address(o, &x->fallback_v6, "fallback_v6", x->name, true, err);
}

static enum rc check_delete_cluster(const struct core *c, const char *name,
                                    struct err *err)
{
    const struct objects *o = &c->tip_objects;
    struct map_slot *slot = map_find(&c->tip_homes, text_hash(name));

    if (slot && slot->a > 0) {
        return err_field(err, RC_CONFLICT, "name", "cluster_in_use",
                         "cluster %s is the home of %llu tenants", name,
                         (unsigned long long)slot->a);
    }
    if (objects_work(o, name)) {
        return err_field(err, RC_CONFLICT, "name", "cluster_in_work",
                         "cluster %s: operation %s is at work on it", name,
                         objects_work(o, name)->id);
    }
    if (objects_move_needs(o, name)) {
        return err_field(err, RC_CONFLICT, "name", "cluster_in_use",
                         "cluster %s: a tenant is moving from it or to it", name);
    }
    for (uint32_t i = 0; i < o->cluster_count; i++) {
        if (strcmp(o->clusters[i].backing, name) == 0) {
            return err_field(err, RC_CONFLICT, "name", "cluster_in_use",
                             "cluster %s: backs cluster %s", name, o->clusters[i].name);
        }
    }
    for (uint32_t i = 0; i < o->node_count; i++) {
        if (strcmp(o->nodes[i].cluster, name) == 0) {
            return err_field(err, RC_CONFLICT, "name", "cluster_in_use",
                             "cluster %s: node %s belongs to it", name,
                             o->nodes[i].name);
        }
    }
    return RC_OK;
}

static void pack_ack(const struct objects *o, const struct object_change *ch,
                     bool is_old, struct buf *to)
{
    bool found = true;
    uint32_t at =
        is_old ? search(o->acks, o->ack_count, sizeof(*o->acks), ch->ack.name, &found)
               : 0;

    if (found) {
        alarm_ack_pack(is_old ? &o->acks[at] : &ch->ack, to);
    }
}

static void pack_object(const struct core *c, const struct object_change *ch,
                        bool is_old, struct buf *to)
{
    const struct objects *o = &c->tip_objects;
    const struct festival *festival;
    const struct consumer *consumer;
    const struct cluster *cluster;
    const struct node *node;

    switch (ch->kind) {
    case COMMAND_PUT_REGION:
        if (!is_old || o->has_region) {
            region_pack(is_old ? &o->region : ch->region, to);
        }
        break;
    case COMMAND_PUT_POLICY:
        policy_pack(is_old ? &o->policy : ch->policy, to);
        break;
    case COMMAND_PUT_LEVELS:
        level_settings_pack(is_old ? &o->levels : &ch->levels, to);
        break;
    case COMMAND_PUT_FESTIVAL:
        festival = is_old ? objects_festival(o, ch->festival.name) : &ch->festival;
        if (festival) {
            festival_pack(festival, to);
        }
        break;
    case COMMAND_PUT_CONSUMER:
        consumer = is_old ? objects_consumer(o, ch->consumer.name) : &ch->consumer;
        if (consumer) {
            consumer_pack(consumer, to);
        }
        break;
    case COMMAND_ACK:
        pack_ack(o, ch, is_old, to);
        break;
    case COMMAND_PUT_CLUSTER:
        cluster = is_old ? objects_cluster(o, ch->cluster.name) : &ch->cluster;
        if (cluster) {
            cluster_pack(cluster, to);
        }
        break;
    case COMMAND_PUT_NODE:
        node = is_old ? objects_node(o, ch->node.name) : &ch->node;
        if (node) {
            node_pack(node, to);
        }
        break;
    default:
        break;
    }
}

/* The stored form; `*ret_same` when the tip has that already. */
static enum rc make_value(const struct core *c, const struct object_change *ch,
                          struct blob **ret, bool *ret_same, struct err *err)
{
    struct buf before = BUF_INIT;
    struct buf after = BUF_INIT;
    enum rc rc = RC_OK;

    pack_object(c, ch, true, &before);
    pack_object(c, ch, false, &after);
    if (!buf_failed(&before) && !buf_failed(&after) && after.len > 0) {
        *ret = blob_copy(after.data, after.len);
    }
    if (!*ret) {
        rc = err_set(err, RC_NO_MEMORY, "out of memory");
    } else {
        *ret_same =
            before.len == after.len && memcmp(before.data, after.data, after.len) == 0;
    }
    buf_fini(&before);
    buf_fini(&after);
    return rc;
}

static enum rc check_object(struct core *c, const struct command *cmd,
                            struct object_change *ret, struct err *err)
{
    enum rc rc = RC_OK;

    ret->kind = cmd->kind;
    switch (cmd->kind) {
    case COMMAND_PUT_REGION:
        rc = region_check(cmd->region, err);
        rc = rc ? rc : place_check_region(&c->tip_objects, cmd->region, err);
        ret->region = rc ? NULL : malloc(sizeof(*ret->region));
        if (!rc && !ret->region) {
            return err_set(err, RC_NO_MEMORY, "out of memory");
        }
        if (!rc) {
            *ret->region = *cmd->region;
        }
        return rc;
    case COMMAND_PUT_POLICY:
        rc = policy_check(cmd->policy, err);
        ret->policy = rc ? NULL : malloc(sizeof(*ret->policy));
        if (!rc && !ret->policy) {
            return err_set(err, RC_NO_MEMORY, "out of memory");
        }
        if (!rc) {
            *ret->policy = *cmd->policy;
        }
        return rc;
    case COMMAND_PUT_LEVELS:
        ret->levels = cmd->levels;
        return level_settings_check(&cmd->levels, err);
    case COMMAND_PUT_FESTIVAL:
        ret->festival = cmd->festival;
        return festival_evaluate(c, cmd, err);
    case COMMAND_PUT_CONSUMER:
        ret->consumer = cmd->consumer;
        return consumer_evaluate(c, &cmd->consumer, err);
    case COMMAND_PUT_CLUSTER:
        ret->cluster = cmd->cluster;
        return check_cluster(c, &cmd->cluster, cmd->parent, err);
    case COMMAND_PUT_NODE:
        ret->node = cmd->node;
        return check_node(c, &cmd->node, err);
    case COMMAND_ACK:
        return watch_check_ack(c, cmd, &ret->ack, err);
    case COMMAND_FORGET_ACK:
        memcpy(ret->name, cmd->name, sizeof(ret->name));
        return watch_check_forget(c, cmd->name, err);
    case COMMAND_DELETE_CLUSTER:
        memcpy(ret->name, cmd->name, sizeof(ret->name));
        return check_delete_cluster(c, cmd->name, err);
    default:
        memcpy(ret->name, cmd->name, sizeof(ret->name));
        return RC_OK;
    }
}

enum rc object_evaluate(struct core *c, const struct command *cmd,
                        struct object_change *ret, struct blob **ret_value,
                        bool *ret_same, struct err *err)
{
    struct object_change ch = { .kind = cmd->kind };
    bool is_delete =
        cmd->kind == COMMAND_DELETE_CLUSTER || cmd->kind == COMMAND_DELETE_NODE ||
        cmd->kind == COMMAND_DELETE_FESTIVAL || cmd->kind == COMMAND_FORGET_ACK ||
        cmd->kind == COMMAND_DELETE_CONSUMER;
    uint64_t have;
    enum rc rc = check_object(c, cmd, &ch, err);

    if (!rc) {
        have = objects_revision(&c->tip_objects, object_kind(cmd->kind),
                                object_change_name(&ch));
        if (cmd->if_revision && have != cmd->if_revision) {
            rc = err_field(err, RC_STALE, "", "if_revision",
                           "%s %s was changed since revision %llu: read again",
                           object_kind(cmd->kind), object_change_name(&ch),
                           (unsigned long long)cmd->if_revision);
        }
        *ret_value = NULL;
        *ret_same = is_delete && have == 0;
    }
    if (!rc && !is_delete) {
        rc = make_value(c, &ch, ret_value, ret_same, err);
    }
    if (rc) {
        object_change_fini(&ch);
        return rc;
    }
    *ret = ch;
    return RC_OK;
}

enum rc object_load(struct core *c, const struct store_kv *kv, struct err *err)
{
    struct object_change ch = { .kind = COMMAND_ENTRIES };
    char text[STORE_KEY_MAX + 1] = "";
    const struct blob *v = kv->value;
    enum rc rc;

    if (audits_load(c, kv, &rc, err) || probes_load(c, kv, &rc, err)) {
        return rc;
    }
    memcpy(text, kv->key.bytes, kv->key.len);
    if (strcmp(text, "/o/region") == 0) {
        ch.kind = COMMAND_PUT_REGION;
        ch.region = core_need(calloc(1, sizeof(*ch.region)));
        rc = region_unpack(v->data, v->len, ch.region, err);
    } else if (strcmp(text, "/o/policy") == 0) {
        ch.kind = COMMAND_PUT_POLICY;
        ch.policy = core_need(calloc(1, sizeof(*ch.policy)));
        rc = policy_unpack(v->data, v->len, ch.policy, err);
    } else if (strcmp(text, "/o/levels") == 0) {
        ch.kind = COMMAND_PUT_LEVELS;
        rc = level_settings_unpack(v->data, v->len, &ch.levels, err);
    } else if (strncmp(text, "/o/festival/", 12) == 0) {
        ch.kind = COMMAND_PUT_FESTIVAL;
        rc = festival_unpack(v->data, v->len, &ch.festival, err);
    } else if (strncmp(text, "/o/consumer/", 12) == 0) {
        ch.kind = COMMAND_PUT_CONSUMER;
        rc = consumer_unpack(v->data, v->len, &ch.consumer, err);
    } else if (strncmp(text, "/o/ack/", 7) == 0) {
        ch.kind = COMMAND_ACK;
        rc = alarm_ack_unpack(v->data, v->len, &ch.ack, err);
    } else if (strncmp(text, "/o/cluster/", 11) == 0) {
        ch.kind = COMMAND_PUT_CLUSTER;
        rc = cluster_unpack(v->data, v->len, &ch.cluster, err);
    } else if (strncmp(text, "/o/node/", 8) == 0) {
        ch.kind = COMMAND_PUT_NODE;
        rc = node_unpack(v->data, v->len, &ch.node, err);
    } else if (strncmp(text, "/o/operation/", 13) == 0) {
        ch.kind = COMMAND_STEP;
        ch.operation = core_need(calloc(1, sizeof(*ch.operation)));
        rc = operation_unpack(v->data, v->len, ch.operation, err);
    } else {
        rc = err_set(err, RC_INVALID, "unknown kind of object");
    }
    if (rc) {
        err_wrap(err, rc, "stored object %s", text);
    } else {
        core_must(objects_apply(&c->objects, &ch, kv->mod_revision));
    }
    object_change_fini(&ch);
    return rc;
}
