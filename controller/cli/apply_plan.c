#include "controller/cli/apply_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/model/entry_text.h"

struct planner {
    const char *name;
    const struct cli_yaml *yaml;
    struct apply_plan plan;
    json_t *seen; /* labels */
    struct err *err;
};

static int line_of(const struct planner *p, const char *path)
{
    return cli_yaml_line(p->yaml, path);
}

static enum rc fail(const struct planner *p, const char *path, const char *field,
                    const char *rule, const char *what)
{
    return err_field(p->err, RC_INVALID, field, rule, "%s:%d: %s: %s", p->name,
                     line_of(p, path), field, what);
}

static bool is_in(const char *const *list, const char *word)
{
    for (; *list; list++) {
        if (strcmp(*list, word) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- one object ---- */

/* Its fields alone: answers' fields are dropped, unknown ones refused. */
static enum rc take_fields(const struct planner *p, const struct cli_kind *kind,
                           json_t *from, const char *path, json_t *body)
{
    const char *key;
    json_t *value;

    json_object_foreach(from, key, value)
    {
        char at[CLI_YAML_PATH + 64];
        bool is_nested = strcmp(kind->singular, "tenant") == 0 &&
                         (strcmp(key, "routes") == 0 || strcmp(key, "vms") == 0 ||
                          strcmp(key, "acl") == 0 || strcmp(key, "meter") == 0);

        if (is_nested || is_in(kind->answers, key)) {
            continue;
        }
        if (!is_in(kind->fields, key)) {
            snprintf(at, sizeof(at), "%s.%s", path, key);
            return fail(p, at, key, "unknown_field", "no such field");
        }
        json_object_set(body, key, value);
    }
    return RC_OK;
}

/* Region, policy, clusters and nodes: the controller checks what they say. */
static enum rc name_object(const struct planner *p, const char *path,
                           struct apply_item *item)
{
    const char *name = json_string_value(json_object_get(item->body, "name"));
    const char *cluster = json_string_value(json_object_get(item->body, "cluster"));

    if (strcmp(item->kind->singular, "policy") == 0) {
        snprintf(item->label, sizeof(item->label), "policy");
        return RC_OK;
    }
    cluster =
        cluster ? cluster : json_string_value(json_object_get(item->body, "backing"));
    if (!name || !name[0] || strlen(name) >= 64) {
        return fail(p, path, "name", "required",
                    "a text of 1 to 63 characters is "
                    "needed");
    }
    if (item->kind->key_count == 0) {
        snprintf(item->label, sizeof(item->label), "region");
        return RC_OK;
    }
    snprintf(item->keys[0], sizeof(item->keys[0]), "%s", name);
    snprintf(item->label, sizeof(item->label), "%s %s", item->kind->singular, name);
    if (cluster && strlen(cluster) < 64) {
        snprintf(item->needs[0], sizeof(item->needs[0]), "cluster %s", cluster);
    }
    return RC_OK;
}

/* The entry's own parser checks everything that one entry can break. */
static enum rc parse_entry(const struct planner *p, const char *path,
                           const struct apply_item *item, struct entry *ret)
{
    static const char *const tables[] = { "tenant", "vxlan_route", "vm_nc", "acl",
                                          "meter" };
    static const char *const names[] = { "tenant", "route", "vm", "acl", "meter" };
    json_t *json = json_copy(item->body);
    char at[CLI_YAML_PATH + 80];
    enum entry_op op;
    char *text;
    enum rc rc;

    for (unsigned i = 0; i < 5; i++) {
        if (strcmp(item->kind->singular, names[i]) == 0) {
            json_object_set_new(json, "table", json_string(tables[i]));
        }
    }
    text = json_dumps(json, JSON_COMPACT);
    rc = text ? entry_parse_json(text, strlen(text), &op, ret, p->err)
              : err_set(p->err, RC_NO_MEMORY, "no memory for an entry");
    free(text);
    json_decref(json);
    if (rc != RC_OK) {
        snprintf(at, sizeof(at), "%s.%s", path, p->err->field);
        return err_wrap(p->err, rc, "%s:%d", p->name, line_of(p, at));
    }
    return RC_OK;
}

/* PRIORITY,SRC,DST,PROTO,SPORT,DPORT, without the empty ones at the end.  The body says
 * only what is not in the path, for there each can be written in several ways. */
static enum rc name_rule(const struct planner *p, const struct entry *e,
                         struct apply_item *item)
{
    static const char *const names[] = { "priority", "src",   "dst",
                                         "proto",    "sport", "dport" };
    struct buf text = BUF_INIT;
    struct buf key = BUF_INIT;
    json_t *json;

    entry_print_json(e, ENTRY_DELETE, &text);
    json = json_loads(buf_cstr(&text), 0, NULL);
    for (unsigned i = 0; i < 6; i++) {
        buf_text(&key, i > 0 ? "," : "");
        if (json_object_get(json, names[i])) {
            cli_cell(json_object_get(json, names[i]), &key);
        }
        json_object_del(item->body, names[i]);
    }
    while (key.len > 0 && key.data[key.len - 1] == ',') {
        key.len--;
    }
    snprintf(item->keys[1], sizeof(item->keys[1]), "%s", buf_cstr(&key));
    json_decref(json);
    buf_fini(&text);
    buf_fini(&key);
    return json ? RC_OK : err_set(p->err, RC_NO_MEMORY, "no memory for a rule");
}

static enum rc name_entry(const struct planner *p, const char *path,
                          struct apply_item *item)
{
    struct entry e;
    enum rc rc = parse_entry(p, path, item, &e);

    if (rc != RC_OK) {
        return rc;
    }
    snprintf(item->keys[0], sizeof(item->keys[0]), "%u", e.vni);
    if (e.table == TABLE_TENANT) {
        snprintf(item->label, sizeof(item->label), "tenant %u", e.vni);
        snprintf(item->needs[0], sizeof(item->needs[0]), "cluster %s",
                 e.tenant.cluster);
        if (e.tenant.h_home[0]) {
            snprintf(item->needs[1], sizeof(item->needs[1]), "cluster %s",
                     e.tenant.h_home);
        }
        return RC_OK;
    }
    if (e.table == TABLE_METER) {
        snprintf(item->needs[0], sizeof(item->needs[0]), "tenant %u", e.vni);
        snprintf(item->label, sizeof(item->label), "meter %u", e.vni);
        return RC_OK;
    }
    if (e.table == TABLE_VXLAN_ROUTE) {
        prefix_print(&e.route.dst, item->keys[1]);
        if (e.route.action.scope == SCOPE_PEER) {
            snprintf(item->needs[1], sizeof(item->needs[1]), "tenant %u",
                     e.route.action.vni);
        }
    } else if (e.table == TABLE_ACL) {
        rc = name_rule(p, &e, item);
    } else {
        ip_print(&e.vm_nc.vm, item->keys[1]);
    }
    snprintf(item->needs[0], sizeof(item->needs[0]), "tenant %u", e.vni);
    snprintf(item->label, sizeof(item->label), "%s %u %s", item->kind->singular, e.vni,
             item->keys[1]);
    return rc;
}

static enum rc add_item(struct planner *p, const struct apply_item *item,
                        const char *path)
{
    struct apply_plan *plan = &p->plan;

    if (json_object_get(p->seen, item->label)) {
        return fail(p, path, item->label, "duplicate", "described twice");
    }
    if (plan->count == plan->room) {
        size_t room = plan->room ? plan->room * 2 : 64;
        struct apply_item *items = realloc(plan->items, room * sizeof(*items));

        if (!items) {
            return err_set(p->err, RC_NO_MEMORY, "no memory for a plan");
        }
        plan->items = items;
        plan->room = room;
    }
    json_object_set_new(p->seen, item->label, json_true());
    plan->items[plan->count++] = *item;
    return RC_OK;
}

/* `vni`: of the tenant around it, or null. */
static enum rc plan_object(struct planner *p, const struct cli_kind *kind, json_t *json,
                           json_t *vni, const char *path)
{
    struct apply_item item = { .kind = kind, .line = line_of(p, path) };
    enum rc rc;

    if (!json_is_object(json)) {
        return fail(p, path, path, "type", "not a mapping");
    }
    item.body = json_object();
    rc = take_fields(p, kind, json, path, item.body);
    if (rc == RC_OK && vni && json_object_get(item.body, "vni") &&
        !json_equal(json_object_get(item.body, "vni"), vni)) {
        rc = fail(p, path, "vni", "vni_differs", "not that of the tenant around it");
    }
    if (rc == RC_OK && vni) {
        json_object_set(item.body, "vni", vni);
    }
    if (rc == RC_OK) {
        rc = strcmp(kind->fields[0], "vni") == 0 ? name_entry(p, path, &item)
                                                 : name_object(p, path, &item);
    }
    rc = rc == RC_OK ? add_item(p, &item, path) : rc;
    if (rc != RC_OK) {
        json_decref(item.body);
    }
    return rc;
}

/* ---- documents ---- */

static enum rc plan_list(struct planner *p, const struct cli_kind *kind, json_t *list,
                         json_t *vni, const char *path)
{
    json_t *json;
    size_t i;

    if (json_is_null(list)) {
        return RC_OK;
    }
    if (!json_is_array(list)) {
        return fail(p, path, kind->plural, "type", "not a list");
    }
    json_array_foreach(list, i, json)
    {
        char at[CLI_YAML_PATH];
        enum rc rc;

        snprintf(at, sizeof(at), "%s[%zu]", path, i);
        rc = plan_object(p, kind, json, vni, at);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

/* Routes, VMs, rules and the meter inside tenants.  In answers they are numbers, which
 * say nothing. */
static enum rc plan_nested(struct planner *p, const struct cli_kind *kind,
                           json_t *document, const char *path)
{
    json_t *tenant;
    size_t i;

    json_array_foreach(json_object_get(document, "tenants"), i, tenant)
    {
        json_t *list = json_object_get(tenant, kind->plural);
        char at[CLI_YAML_PATH];
        enum rc rc;

        snprintf(at, sizeof(at), "%s.tenants[%zu].%s", path, i, kind->plural);
        if (!list || json_is_integer(list)) {
            continue;
        }
        rc = kind->key_count > kind->parent_count
                 ? plan_list(p, kind, list, json_object_get(tenant, "vni"), at)
                 : plan_object(p, kind, list, json_object_get(tenant, "vni"), at);
        if (rc != RC_OK) {
            return rc;
        }
    }
    return RC_OK;
}

static enum rc check_document(const struct planner *p, json_t *document,
                              const char *path)
{
    const char *key;
    json_t *value;

    if (!json_is_object(document) && !json_is_null(document)) {
        return fail(p, path, path, "type", "a document is a mapping");
    }
    json_object_foreach(document, key, value)
    {
        const struct cli_kind *kind = cli_kind_find(key);
        char at[CLI_YAML_PATH + 160];

        if (!kind || !kind->fields || strcmp(kind->plural, key) != 0) {
            snprintf(at, sizeof(at), "%s.%s", path, key);
            return fail(p, at, key, "unknown_field",
                        "not region, policy, clusters, nodes, tenants, routes, "
                        "vms, acl, meter, levels, festivals or consumers");
        }
    }
    return RC_OK;
}

/* Clusters from `first` on: those behind which another stands come after the others. */
static void backed_last(struct apply_plan *plan, size_t first)
{
    size_t end = plan->count;

    for (size_t i = first, seen = first; seen < end; seen++) {
        struct apply_item item = plan->items[i];

        if (!json_object_get(item.body, "backing")) {
            i++;
            continue;
        }
        memmove(&plan->items[i], &plan->items[i + 1],
                (end - i - 1) * sizeof(plan->items[0]));
        plan->items[end - 1] = item;
    }
}

static enum rc plan_kind(struct planner *p, const struct cli_kind *kind,
                         json_t *document, const char *path)
{
    json_t *json = json_object_get(document, kind->plural);
    char at[CLI_YAML_PATH];
    size_t first = p->plan.count;
    enum rc rc = RC_OK;

    snprintf(at, sizeof(at), "%s.%s", path, kind->plural);
    if (json && kind->key_count == 0) {
        rc = plan_object(p, kind, json, NULL, at);
    } else if (json) {
        rc = plan_list(p, kind, json, NULL, at);
    }
    if (rc == RC_OK && strcmp(kind->singular, "cluster") == 0) {
        backed_last(&p->plan, first);
    }
    return rc == RC_OK && kind->parent_count > 0 ? plan_nested(p, kind, document, path)
                                                 : rc;
}

enum rc apply_plan_make(const char *name, const struct cli_yaml *yaml,
                        struct apply_plan *ret, struct err *err)
{
    struct planner p = {
        .name = name, .yaml = yaml, .seen = json_object(), .err = err
    };
    json_t *document;
    char path[32];
    size_t i;
    enum rc rc = p.seen ? RC_OK : err_set(err, RC_NO_MEMORY, "no memory for a plan");

    json_array_foreach(yaml->documents, i, document)
    {
        snprintf(path, sizeof(path), "[%zu]", i);
        rc = rc == RC_OK ? check_document(&p, document, path) : rc;
    }
    for (unsigned k = 0; k < CLI_KINDS && cli_kinds[k].fields; k++) {
        json_array_foreach(yaml->documents, i, document)
        {
            snprintf(path, sizeof(path), "[%zu]", i);
            rc = rc == RC_OK ? plan_kind(&p, &cli_kinds[k], document, path) : rc;
        }
    }
    json_decref(p.seen);
    if (rc != RC_OK) {
        apply_plan_fini(&p.plan);
        return rc;
    }
    *ret = p.plan;
    return RC_OK;
}

void apply_plan_fini(struct apply_plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        json_decref(p->items[i].body);
    }
    free(p->items);
    memset(p, 0, sizeof(*p));
}
