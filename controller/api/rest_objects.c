/* Region, clusters and nodes. */
#include "controller/api/rest_internal.h"

#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

static void not_found(struct rest_request *r, const char *kind)
{
    struct err err = { 0 };

    err_set(&err, RC_NOT_FOUND, "no %s '%s'", kind, r->params[0]);
    rest_problem(r, &err);
}

static void add_revision(const struct rest_request *r, json_t *json, const char *kind,
                         const char *name)
{
    uint64_t revision = core_object_revision(core_of(r), kind, name);

    json_object_set_new(json, "revision", json_integer((json_int_t)revision));
}

/* ---- region ---- */

void rest_get_region(struct rest_request *r)
{
    const struct region *region = core_region(core_of(r));
    struct err err = { 0 };
    json_t *json;

    if (!region) {
        err_set(&err, RC_NOT_FOUND, "the region is not described yet: PUT /v1/region");
        rest_problem(r, &err);
        return;
    }
    json = rest_region_json(region);
    add_revision(r, json, "region", "");
    rest_reply_json(r, 200, json);
}

void rest_put_region(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_PUT_REGION };
    struct region region;
    struct err err = { 0 };
    json_t *body = rest_body(r);

    if (!body) {
        return;
    }
    if (rest_command_init(r, &command, &err) != RC_OK ||
        rest_region_parse(body, &region, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    command.region = &region;
    rest_command(r, &command, rest_render_change);
}

/* ---- clusters ---- */

static json_t *cluster_json(const struct rest_request *r, const struct cluster *c)
{
    const struct core *core = core_of(r);
    json_t *json = rest_cluster_json(c);
    json_t *status = json_object();

    for (int table = TABLE_VNI; table < TABLE_COUNT; table++) {
        struct digest d = core_group_digest(core, c->name, (enum table_id)table);

        json_object_set_new(status, table_name((enum table_id)table),
                            json_integer((json_int_t)d.count));
    }
    json_object_set_new(json, "status", status);
    add_revision(r, json, "cluster", c->name);
    return json;
}

void rest_list_clusters(struct rest_request *r)
{
    const struct cluster *c;
    json_t *items = json_array();

    for (uint32_t i = 0; (c = core_cluster_at(core_of(r), i)) != NULL; i++) {
        json_array_append_new(items, cluster_json(r, c));
    }
    rest_reply_json(r, 200, json_pack("{s:o}", "items", items));
}

void rest_get_cluster(struct rest_request *r)
{
    const struct cluster *c = core_cluster_find(core_of(r), r->params[0]);

    if (!c) {
        not_found(r, "cluster");
        return;
    }
    rest_reply_json(r, 200, cluster_json(r, c));
}

void rest_put_cluster(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_PUT_CLUSTER };
    struct err err = { 0 };
    json_t *body = rest_body(r);

    if (!body) {
        return;
    }
    if (rest_command_init(r, &command, &err) != RC_OK ||
        rest_cluster_parse(body, r->params[0], &command.cluster, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    rest_command(r, &command, rest_render_change);
}

/* Deleting what is not there succeeds at this API (CONTROL, Interfaces). */
static void delete_object(struct rest_request *r, enum command_kind kind)
{
    struct command command = { .kind = kind };
    struct err err = { 0 };

    if (rest_command_init(r, &command, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    snprintf(command.name, sizeof(command.name), "%s", r->params[0]);
    rest_command(r, &command, rest_render_change);
}

void rest_delete_cluster(struct rest_request *r)
{
    delete_object(r, COMMAND_DELETE_CLUSTER);
}

/* ---- nodes ---- */

static json_t *exceptions_json(const struct node_status *s)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < s->exception_listed; i++) {
        static const char *const reasons[] = { "", "full", "no_memory", "refused",
                                               "unknown" };
        const struct exception *e = &s->exceptions[i];
        struct row row = { .key = e->key, .key_len = e->key_len };
        struct entry entry;
        struct buf text = BUF_INIT;
        json_t *item;

        if (entry_unpack((enum table_id)e->table, e->vni, &row, &entry, NULL) !=
            RC_OK) {
            continue;
        }
        entry_print_json(&entry, ENTRY_DELETE, &text);
        item = json_loads(buf_cstr(&text), 0, NULL);
        buf_fini(&text);
        json_object_del(item, "op");
        json_object_set_new(item, "reason", json_string(reasons[e->reason % 5]));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *node_status_json(const struct node_status *s)
{
    static const char *const states[] = { "joining", "online", "suspect", "offline" };
    json_t *json = json_pack(
        "{s:s, s:b, s:b, s:b, s:b, s:I, s:I, s:i}", "state", states[s->state],
        "session", s->has_session, "syncing", s->is_syncing, "in_sync", s->in_sync,
        "ready", s->ready, "applied", (json_int_t)s->applied, "desired",
        (json_int_t)s->desired, "exception_count", (int)s->exception_count);

    json_object_set_new(json, "exceptions", exceptions_json(s));
    json_object_set_new(json, "rx_packets", json_integer((json_int_t)s->rx_packets));
    json_object_set_new(json, "tx_packets", json_integer((json_int_t)s->tx_packets));
    json_object_set_new(json, "drops", json_integer((json_int_t)s->drops));
    return json;
}

static json_t *node_json(const struct rest_request *r, const struct node *n)
{
    struct node_status status;
    json_t *json = rest_node_json(n);

    if (core_node_status(core_of(r), n->name, &status) == RC_OK) {
        json_object_set_new(json, "status", node_status_json(&status));
    }
    add_revision(r, json, "node", n->name);
    return json;
}

void rest_list_nodes(struct rest_request *r)
{
    const struct node *n;
    json_t *items = json_array();

    for (uint32_t i = 0; (n = core_node_at(core_of(r), i)) != NULL; i++) {
        json_array_append_new(items, node_json(r, n));
    }
    rest_reply_json(r, 200, json_pack("{s:o}", "items", items));
}

void rest_get_node(struct rest_request *r)
{
    const struct node *n = core_node_find(core_of(r), r->params[0]);

    if (!n) {
        not_found(r, "node");
        return;
    }
    rest_reply_json(r, 200, node_json(r, n));
}

void rest_put_node(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_PUT_NODE };
    struct err err = { 0 };
    json_t *body = rest_body(r);

    if (!body) {
        return;
    }
    if (rest_command_init(r, &command, &err) != RC_OK ||
        rest_node_parse(body, r->params[0], &command.node, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    rest_command(r, &command, rest_render_change);
}

void rest_delete_node(struct rest_request *r)
{
    delete_object(r, COMMAND_DELETE_NODE);
}
