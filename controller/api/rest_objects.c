/* Region, clusters and nodes. */
#include "controller/api/rest_internal.h"

#include "proto/model/name.h"

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

static uint64_t add_revision(const struct rest_request *r, json_t *json,
                             const char *kind, const char *name)
{
    uint64_t revision = core_object_revision(core_of(r), kind, name);

    json_object_set_new(json, "revision", json_integer((json_int_t)revision));
    return revision;
}

static void send_object(struct rest_request *r, json_t *json)
{
    rest_set_etag(r, (uint64_t)json_integer_value(json_object_get(json, "revision")));
    rest_reply_json(r, 200, json);
}

/* The path's name, where it could be none of a page of names: answered. */
static bool name_fits(struct rest_request *r)
{
    struct err err = { 0 };

    if (name_check(r->params[0], NODE_NAME_MAX, "name", &err) != RC_OK) {
        rest_problem(r, &err);
        return false;
    }
    return true;
}

void rest_send_page(struct rest_request *r, json_t *items, const char *next)
{
    json_t *json = json_pack("{s:o}", "items", items);
    char token[REST_PAGE_TOKEN_SIZE];

    if (json && next) {
        rest_page_token(next, strlen(next), token);
        json_object_set_new(json, "next_page_token", json_string(token));
    }
    rest_reply_json(r, 200, json);
}

/* Names are in order: whether this one comes before the page. */
bool rest_is_before(const struct rest_page *page, const char *name)
{
    char key[REST_PAGE_KEY_MAX + 1] = "";

    memcpy(key, page->key, page->key_len);
    return strcmp(name, key) < 0;
}

/* ---- region ---- */

/* Takes `json`. */
static void put_region(struct rest_request *r, struct command *command, json_t *json)
{
    struct region region;
    struct err err = { 0 };
    enum rc rc = rest_region_parse(json, &region, &err);

    json_decref(json);
    command->kind = COMMAND_PUT_REGION;
    command->region = &region;
    rest_put_parsed(r, command, rc, &err);
}

/* Takes `json`. */
static void put_cluster(struct rest_request *r, struct command *command, json_t *json)
{
    const struct cluster *old = core_cluster_find(core_of(r), r->params[0]);
    bool keeps_state = old && !json_object_get(json, "state");
    struct err err = { 0 };
    enum rc rc = rest_cluster_parse(json, r->params[0], &command->cluster, &err);

    if (keeps_state) {
        command->cluster.state = old->state; /* operations say what it is */
    }
    json_decref(json);
    command->kind = COMMAND_PUT_CLUSTER;
    rest_put_parsed(r, command, rc, &err);
}

/* Takes `json`. */
static void put_node(struct rest_request *r, struct command *command, json_t *json)
{
    struct err err = { 0 };
    enum rc rc = rest_node_parse(json, r->params[0], &command->node, &err);

    json_decref(json);
    command->kind = COMMAND_PUT_NODE;
    rest_put_parsed(r, command, rc, &err);
}

static void no_region(struct rest_request *r)
{
    struct err err = { 0 };

    err_set(&err, RC_NOT_FOUND, "the region is not described yet: PUT /v1/region");
    rest_problem(r, &err);
}

void rest_get_region(struct rest_request *r)
{
    const struct region *region = core_region(core_of(r));
    json_t *json;

    if (!region) {
        no_region(r);
        return;
    }
    json = rest_region_json(region);
    add_revision(r, json, "region", "");
    send_object(r, json);
}

void rest_put_region(struct rest_request *r)
{
    rest_put(r, put_region);
}

void rest_patch_region(struct rest_request *r)
{
    const struct region *region = core_region(core_of(r));

    if (!region) {
        no_region(r);
        return;
    }
    rest_patch(r, rest_region_json(region),
               core_object_revision(core_of(r), "region", ""), put_region);
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
    json_object_set_new(status, "on_sale",
                        json_boolean(health_is_on_sale(core_health(core), c->name)));
    rest_add_levels(r, status, "cluster", c->name);
    json_object_set_new(status, "placement", rest_cluster_use(core, c->name));
    if (core_cluster_work(core, c->name)) {
        json_object_set_new(status, "operation",
                            json_string(core_cluster_work(core, c->name)->id));
    }
    json_object_set_new(json, "status", status);
    add_revision(r, json, "cluster", c->name);
    return json;
}

void rest_list_clusters(struct rest_request *r)
{
    const struct cluster *c;
    struct rest_page page;
    json_t *items;
    uint32_t i = 0;

    if (!rest_page_read(r, 1, CLUSTER_NAME_MAX, &page)) {
        return;
    }
    items = json_array();
    while ((c = core_cluster_at(core_of(r), i)) != NULL &&
           rest_is_before(&page, c->name)) {
        i++;
    }
    for (; c && json_array_size(items) < page.size;
         c = core_cluster_at(core_of(r), ++i)) {
        json_array_append_new(items, cluster_json(r, c));
    }
    rest_send_page(r, items, c ? c->name : NULL);
}

void rest_get_cluster(struct rest_request *r)
{
    const struct cluster *c = core_cluster_find(core_of(r), r->params[0]);

    if (c) {
        send_object(r, cluster_json(r, c));
    } else {
        not_found(r, "cluster");
    }
}

void rest_put_cluster(struct rest_request *r)
{
    rest_put(r, put_cluster);
}

void rest_patch_cluster(struct rest_request *r)
{
    const struct cluster *c = core_cluster_find(core_of(r), r->params[0]);

    if (c) {
        rest_patch(r, rest_cluster_json(c),
                   core_object_revision(core_of(r), "cluster", c->name), put_cluster);
    } else {
        not_found(r, "cluster");
    }
}

/* Deleting what is not there succeeds at this API, so that a repeat does no harm. */
static void delete_object(struct rest_request *r, enum command_kind kind)
{
    struct command command = { .kind = kind };
    struct err err = { 0 };

    if (!name_fits(r)) {
        return;
    }
    if (rest_command_init(r, &command, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    snprintf(command.name, sizeof(command.name), "%s", r->params[0]);
    rest_command(r, &command);
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
        "{s:s, s:b, s:b, s:b, s:b, s:b, s:I, s:I, s:i}", "state", states[s->state],
        "session", s->has_session, "syncing", s->is_syncing, "in_sync", s->in_sync,
        "ready", s->ready, "member", s->is_member, "applied", (json_int_t)s->applied,
        "desired", (json_int_t)s->desired, "exception_count", (int)s->exception_count);

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
        json_t *status_json = node_status_json(&status);

        rest_add_levels(r, status_json, "node", n->name);
        rest_add_observed(r, status_json, n->name);
        json_object_set_new(json, "status", status_json);
    }
    add_revision(r, json, "node", n->name);
    return json;
}

void rest_list_nodes(struct rest_request *r)
{
    const struct node *n;
    struct rest_page page;
    json_t *items;
    uint32_t i = 0;

    if (!rest_page_read(r, 1, NODE_NAME_MAX, &page)) {
        return;
    }
    items = json_array();
    while ((n = core_node_at(core_of(r), i)) != NULL &&
           rest_is_before(&page, n->name)) {
        i++;
    }
    for (; n && json_array_size(items) < page.size; n = core_node_at(core_of(r), ++i)) {
        json_array_append_new(items, node_json(r, n));
    }
    rest_send_page(r, items, n ? n->name : NULL);
}

void rest_get_node(struct rest_request *r)
{
    const struct node *n = core_node_find(core_of(r), r->params[0]);

    if (n) {
        send_object(r, node_json(r, n));
    } else {
        not_found(r, "node");
    }
}

void rest_put_node(struct rest_request *r)
{
    rest_put(r, put_node);
}

void rest_patch_node(struct rest_request *r)
{
    const struct node *n = core_node_find(core_of(r), r->params[0]);

    if (n) {
        rest_patch(r, rest_node_json(n),
                   core_object_revision(core_of(r), "node", n->name), put_node);
    } else {
        not_found(r, "node");
    }
}

void rest_delete_node(struct rest_request *r)
{
    delete_object(r, COMMAND_DELETE_NODE);
}
