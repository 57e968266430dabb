/* Tenants, their routes and their VMs.  An entry's JSON is the same here, in files and
 * in answers: bodies are completed with what the path says and read by the one parser
 * of proto/model/entry_text.h. */
#include "controller/api/rest_internal.h"

#include "proto/model/batch.h"

#include <stdlib.h>
#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

/* ---- one entry ---- */

static struct blob *batch_of(enum entry_op op, const struct entry *e)
{
    struct batch_writer w;
    struct blob *ops;

    batch_writer_init(&w);
    batch_add_entry(&w, op, e);
    ops = batch_writer_finish(&w);
    batch_writer_fini(&w);
    return ops;
}

/* A rule's key in a path: PRIORITY,SRC,DST[,PROTO[,SPORT[,DPORT]]], where what is empty
 * or absent is any.  The parser of entries judges what stands there. */
static void add_rule_fields(const char *key, json_t *json)
{
    static const char *const names[] = { "priority", "src",   "dst",
                                         "proto",    "sport", "dport" };
    unsigned i = 0;

    for (const char *end = key; end && i < 6; key = end + 1, i++) {
        size_t len;

        end = strchr(key, ',');
        len = end ? (size_t)(end - key) : strlen(key);
        if (i == 0 && len > 0 && len < 6 && strspn(key, "0123456789") == len) {
            json_object_set_new(json, names[i], json_integer(atoi(key)));
        } else if (len > 0) {
            json_object_set_new(json, names[i], json_stringn(key, len));
        }
    }
}

/* The path's fields as an entry: {"op":"delete"} needs only these. */
static json_t *path_entry(const struct rest_request *r, uint32_t vni, const char *table,
                          const char *key)
{
    json_t *json = json_pack("{s:s, s:i}", "table", table, "vni", (int)vni);

    if (json && key && strcmp(key, "rule") == 0) {
        add_rule_fields(r->params[1], json);
    } else if (json && key) {
        json_object_set_new(json, key, json_string(r->params[1]));
    }
    return json;
}

static void submit(struct rest_request *r, struct command *command, enum entry_op op,
                   const struct entry *e)
{
    struct err err = { 0 };
    struct blob *ops = batch_of(op, e);

    command->kind = COMMAND_ENTRIES;
    command->entries.ops = ops;
    if (ops) {
        rest_command(r, command);
    } else {
        err_set(&err, RC_NO_MEMORY, "no memory");
        rest_problem(r, &err);
    }
    blob_unref(ops);
}

/* Fields that answers carry and requests may bring back. */
static void strip(json_t *body)
{
    json_object_del(body, "revision");
    json_object_del(body, "routes");
    json_object_del(body, "vms");
    json_object_del(body, "rules");
}

/* Takes the fields of `path` (taken) into `body`.  Twice is fine if it is the same:
 * what GET gave can be PUT back. */
static enum rc complete(json_t *body, json_t *path, struct err *err)
{
    const char *name;
    json_t *value;
    enum rc rc = RC_OK;

    strip(body);
    json_object_foreach(path, name, value)
    {
        json_t *said = json_object_get(body, name);

        if (rc == RC_OK && said && !json_equal(said, value)) {
            rc = err_field(err, RC_INVALID, name, "path_differs",
                           "%s: not what the path says", name);
        }
    }
    if (rc == RC_OK && json_object_get(body, "op")) {
        rc = err_field(err, RC_INVALID, "op", "unexpected_field",
                       "op: the method says it");
    }
    json_object_update(body, path);
    json_decref(path);
    return rc;
}

static void put_entry(struct rest_request *r, const char *table, const char *key)
{
    struct command command = { 0 };
    struct entry e;
    struct err err = { 0 };
    enum entry_op op;
    uint32_t vni;
    json_t *body;

    if (!rest_path_vni(r, &vni) || !(body = rest_body(r))) {
        return;
    }
    if (complete(body, path_entry(r, vni, table, key), &err) == RC_OK &&
        rest_entry_parse(json_incref(body), &op, &e, &err) == RC_OK &&
        rest_command_init(r, &command, &err) == RC_OK) {
        submit(r, &command, ENTRY_PUT, &e);
    } else {
        rest_problem(r, &err);
    }
}

/* An entry's key from the path; false: answered. */
static bool path_key(struct rest_request *r, enum table_id table, const char *key,
                     struct entry *ret)
{
    struct err err = { 0 };
    enum entry_op op;
    uint32_t vni;
    json_t *json;

    if (!rest_path_vni(r, &vni)) {
        return false;
    }
    json = path_entry(r, vni, table_name(table), key);
    json_object_set_new(json, "op", json_string("delete")); /* the key alone */
    if (rest_entry_parse(json, &op, ret, &err) != RC_OK) {
        rest_problem(r, &err);
        return false;
    }
    return true;
}

static void delete_entry(struct rest_request *r, enum table_id table, const char *key)
{
    struct command command = { 0 };
    struct entry e;
    struct err err = { 0 };

    if (!path_key(r, table, key, &e)) {
        return;
    }
    if (rest_command_init(r, &command, &err) == RC_OK) {
        submit(r, &command, ENTRY_DELETE, &e);
    } else {
        rest_problem(r, &err);
    }
}

/* The revision of a VNI is that of each of its entries. */
static uint64_t vni_revision(const struct rest_request *r, uint32_t vni)
{
    struct tenant_status t;

    return core_tenant(core_of(r), vni, &t) == RC_OK ? t.mod_revision : 0;
}

static void get_entry(struct rest_request *r, enum table_id table, const char *key)
{
    struct entry e;
    struct err err = { 0 };
    struct buf text = BUF_INIT;
    struct row row;
    uint32_t vni;

    if (!path_key(r, table, key, &e)) {
        return;
    }
    vni = e.vni;
    entry_pack_key(&e, &text);
    if (buf_failed(&text) ||
        !rows_find(core_rows(core_of(r), vni, table), table, text.data,
                   (uint8_t)text.len, &row) ||
        entry_unpack(table, vni, &row, &e, &err) != RC_OK) {
        err_set(&err, RC_NOT_FOUND, "VNI %u has no %s%s%s", vni, table_name(table),
                key ? " " : "", key ? r->params[1] : "");
        buf_fini(&text);
        rest_problem(r, &err);
        return;
    }
    buf_reset(&text);
    entry_print_json(&e, ENTRY_PUT, &text);
    rest_set_etag(r, vni_revision(r, vni));
    rest_reply_buf(r, &text);
}

/* ---- lists ---- */

/* Ends a list's text with the token of the next page (no `next`: it was the last), and
 * answers. */
static void send_list(struct rest_request *r, struct buf *text, const uint8_t *next,
                      size_t next_len)
{
    char token[REST_PAGE_TOKEN_SIZE];

    buf_text(text, "]");
    if (next_len > 0) {
        rest_page_token(next, next_len, token);
        buf_printf(text, ",\"next_page_token\":\"%s\"", token);
    }
    buf_text(text, "}");
    rest_reply_buf(r, text);
}

static void no_tenant(struct rest_request *r, uint32_t vni)
{
    struct err err = { 0 };

    err_set(&err, RC_NOT_FOUND, "no tenant with VNI %u", vni);
    rest_problem(r, &err);
}

/* Keys of the table have at most `key_most` bytes (proto/model/entry.h). */
static void list_entries(struct rest_request *r, enum table_id table, uint8_t key_most)
{
    struct buf text = BUF_INIT;
    struct rest_page page;
    struct rows_iter it;
    struct row row = { 0 };
    struct entry e;
    uint32_t vni;
    uint32_t n = 0;
    bool more;

    if (!rest_path_vni(r, &vni) || !rest_page_read(r, 1, key_most, &page)) {
        return;
    }
    if (vni_revision(r, vni) == 0) {
        no_tenant(r, vni);
        return;
    }
    it = rows_seek(core_rows(core_of(r), vni, table), table, page.key, page.key_len);
    buf_text(&text, "{\"items\":[");
    while ((more = rows_next(&it, &row)) && n < page.size) {
        if (entry_unpack(table, vni, &row, &e, NULL) == RC_OK) {
            buf_text(&text, n > 0 ? "," : "");
            entry_print_json(&e, ENTRY_PUT, &text);
            n++;
        }
    }
    send_list(r, &text, row.key, more ? row.key_len : 0);
}

/* ---- tenants ---- */

static void print_tenant(const struct tenant_status *t, struct buf *to)
{
    struct entry e = { .table = TABLE_TENANT, .vni = t->vni };

    e.tenant.flags = t->flags;
    memcpy(e.tenant.cluster, t->cluster, sizeof(e.tenant.cluster));
    memcpy(e.tenant.name, t->name, sizeof(e.tenant.name));
    memcpy(e.tenant.h_home, t->h_home, sizeof(e.tenant.h_home));
    e.tenant.half = t->half;
    e.tenant.reserve = t->reserve;
    entry_print_json(&e, ENTRY_PUT, to);
    to->len -= !buf_failed(to); /* the brace */
    buf_printf(to, ",\"routes\":%u,\"vms\":%u,\"rules\":%u,\"revision\":%llu}",
               t->route_count, t->vm_nc_count, t->rule_count,
               (unsigned long long)t->mod_revision);
}

void rest_list_tenants(struct rest_request *r)
{
    struct buf text = BUF_INIT;
    struct rest_page page;
    struct tenant_status t;
    uint8_t next[3];
    uint32_t vni = VNI_MIN;
    uint32_t n = 0;

    if (!rest_page_read(r, sizeof(next), sizeof(next), &page)) {
        return;
    }
    if (page.key_len > 0) {
        vni = (uint32_t)page.key[0] << 16 | (uint32_t)page.key[1] << 8 | page.key[2];
    }
    buf_text(&text, "{\"items\":[");
    for (vni = core_tenant_next(core_of(r), vni); vni != 0 && n < page.size;
         vni = vni == VNI_MAX ? 0 : core_tenant_next(core_of(r), vni + 1)) {
        if (core_tenant(core_of(r), vni, &t) == RC_OK) {
            buf_text(&text, n > 0 ? "," : "");
            print_tenant(&t, &text);
            n++;
        }
    }
    next[0] = (uint8_t)(vni >> 16);
    next[1] = (uint8_t)(vni >> 8);
    next[2] = (uint8_t)vni;
    send_list(r, &text, next, vni != 0 ? sizeof(next) : 0);
}

void rest_get_tenant(struct rest_request *r)
{
    struct buf text = BUF_INIT;
    struct tenant_status t;
    uint32_t vni;

    if (!rest_path_vni(r, &vni)) {
        return;
    }
    if (core_tenant(core_of(r), vni, &t) != RC_OK) {
        no_tenant(r, vni);
        return;
    }
    print_tenant(&t, &text);
    rest_set_etag(r, t.mod_revision);
    rest_reply_buf(r, &text);
}

void rest_put_tenant(struct rest_request *r)
{
    put_entry(r, "tenant", NULL);
}

/* Another home and no word of the half: the half is the controller's to choose. */
static void free_half(const struct tenant_status *t, const json_t *body, json_t *merged)
{
    const char *h_home = json_string_value(json_object_get(merged, "h_home"));

    if (!json_object_get(body, "half") &&
        strcmp(h_home ? h_home : "", t->h_home) != 0) {
        json_object_del(merged, "half");
    }
}

void rest_patch_tenant(struct rest_request *r)
{
    struct command command = { 0 };
    struct buf text = BUF_INIT;
    struct tenant_status t;
    struct err err = { 0 };
    struct entry e;
    enum entry_op op;
    uint32_t vni;
    json_t *json;

    if (!rest_path_vni(r, &vni)) {
        return;
    }
    if (core_tenant(core_of(r), vni, &t) != RC_OK) {
        no_tenant(r, vni);
        return;
    }
    if (rest_command_init(r, &command, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    print_tenant(&t, &text);
    json = json_loads(buf_cstr(&text), 0, NULL);
    buf_fini(&text);
    json = rest_patched(r, json, t.mod_revision, &command);
    if (!json) {
        return;
    }
    free_half(&t, r->body, json);
    if (complete(json, path_entry(r, vni, "tenant", NULL), &err) != RC_OK) {
        json_decref(json);
        rest_problem(r, &err);
    } else if (rest_entry_parse(json, &op, &e, &err) != RC_OK) {
        rest_problem(r, &err);
    } else {
        submit(r, &command, ENTRY_PUT, &e);
    }
}

void rest_delete_tenant(struct rest_request *r)
{
    delete_entry(r, TABLE_TENANT, NULL);
}

/* ---- routes and VMs ---- */

void rest_list_routes(struct rest_request *r)
{
    list_entries(r, TABLE_VXLAN_ROUTE, 18);
}

void rest_get_route(struct rest_request *r)
{
    get_entry(r, TABLE_VXLAN_ROUTE, "prefix");
}

void rest_put_route(struct rest_request *r)
{
    put_entry(r, "vxlan_route", "prefix");
}

void rest_delete_route(struct rest_request *r)
{
    delete_entry(r, TABLE_VXLAN_ROUTE, "prefix");
}

void rest_list_vms(struct rest_request *r)
{
    list_entries(r, TABLE_VM_NC, 17);
}

void rest_get_vm(struct rest_request *r)
{
    get_entry(r, TABLE_VM_NC, "vm");
}

void rest_put_vm(struct rest_request *r)
{
    put_entry(r, "vm_nc", "vm");
}

void rest_delete_vm(struct rest_request *r)
{
    delete_entry(r, TABLE_VM_NC, "vm");
}

/* ---- rules and the meter ---- */

void rest_list_rules(struct rest_request *r)
{
    list_entries(r, TABLE_ACL, ENTRY_KEY_MAX);
}

void rest_get_rule(struct rest_request *r)
{
    get_entry(r, TABLE_ACL, "rule");
}

void rest_put_rule(struct rest_request *r)
{
    put_entry(r, "acl", "rule");
}

void rest_delete_rule(struct rest_request *r)
{
    delete_entry(r, TABLE_ACL, "rule");
}

void rest_get_meter(struct rest_request *r)
{
    get_entry(r, TABLE_METER, NULL);
}

void rest_put_meter(struct rest_request *r)
{
    put_entry(r, "meter", NULL);
}

void rest_delete_meter(struct rest_request *r)
{
    delete_entry(r, TABLE_METER, NULL);
}

/* ---- a batch ---- */

void rest_post_entries(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_ENTRIES };
    struct blob *ops = NULL;
    struct err err = { 0 };
    uint64_t line = 0;
    size_t len;
    const char *text = rest_body_bytes(r, &len);
    enum rc rc = rest_command_init(r, &command, &err);

    r->is_batch = true;
    if (rc == RC_OK) {
        rc = rest_query_bool(r, "createOnly", &command.entries.create_only, &err);
    }
    rc = rc == RC_OK ? rest_batch_read(text, len, &ops, &line, &err) : rc;
    if (rc == RC_OK) {
        command.entries.ops = ops;
        rest_command(r, &command);
    } else {
        rest_problem_at(r, &err, line);
    }
    blob_unref(ops);
}
