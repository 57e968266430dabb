/* Tenants, their routes and their VMs.  An entry's JSON is the same here, in files and
 * in answers: bodies are completed with what the path says and read by the one parser
 * of proto/model/entry_text.h. */
#include "controller/api/rest_internal.h"

#include <stdlib.h>
#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

/* The VNI of the path; false: answered. */
static bool path_vni(struct rest_request *r, uint32_t *ret)
{
    struct err err = { 0 };
    uint64_t vni = 0;

    for (const char *p = r->params[0]; *p; p++) {
        if (*p < '0' || *p > '9' || vni > VNI_MAX) {
            vni = 0;
            break;
        }
        vni = vni * 10 + (uint64_t)(*p - '0');
    }
    if (vni < VNI_MIN || vni > VNI_MAX) {
        err_field(&err, RC_RANGE, "vni", "vni_range", "vni '%s': not 1 to 16777215",
                  r->params[0]);
        rest_problem(r, &err);
        return false;
    }
    *ret = (uint32_t)vni;
    return true;
}

/* ---- one entry ---- */

/* Reads `json` (takes it) as an entry, after the path's fields were set in it. */
static enum rc parse_entry(json_t *json, struct entry *ret, struct err *err)
{
    char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;
    enum entry_op op;
    enum rc rc = line ? entry_parse_json(line, strlen(line), &op, ret, err)
                      : err_set(err, RC_NO_MEMORY, "no memory");

    free(line);
    json_decref(json);
    return rc;
}

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

/* The path's fields as an entry: {"op":"delete"} needs only these. */
static json_t *path_entry(const struct rest_request *r, uint32_t vni, const char *table,
                          const char *key)
{
    json_t *json = json_pack("{s:s, s:i}", "table", table, "vni", (int)vni);

    if (json && key) {
        json_object_set_new(json, key, json_string(r->params[1]));
    }
    return json;
}

static void submit(struct rest_request *r, enum entry_op op, const struct entry *e)
{
    struct command command = { .kind = COMMAND_ENTRIES };
    struct err err = { 0 };
    enum rc rc = rest_command_init(r, &command, &err);

    if (rc == RC_OK) {
        command.entries.ops = batch_of(op, e);
        rc = command.entries.ops ? RC_OK : err_set(&err, RC_NO_MEMORY, "no memory");
    }
    if (rc == RC_OK) {
        rest_command(r, &command, rest_render_change);
    } else {
        rest_problem(r, &err);
    }
    blob_unref(command.entries.ops);
}

/* Fields that answers carry and requests may bring back. */
static void strip(json_t *body)
{
    json_object_del(body, "revision");
    json_object_del(body, "routes");
    json_object_del(body, "vms");
}

static void put_entry(struct rest_request *r, const char *table, const char *key)
{
    struct entry e;
    struct err err = { 0 };
    uint32_t vni;
    json_t *body;
    json_t *path;
    const char *name;
    json_t *value;

    if (!path_vni(r, &vni) || !(body = rest_body(r))) {
        return;
    }
    strip(body);
    path = path_entry(r, vni, table, key);
    /* Twice is fine if it is the same: what GET gave can be PUT back. */
    json_object_foreach(path, name, value)
    {
        json_t *said = json_object_get(body, name);

        if (said && !json_equal(said, value)) {
            err_field(&err, RC_INVALID, name, "path_differs",
                      "%s: not what the path says", name);
        }
    }
    json_object_update(body, path);
    json_decref(path);
    if (err.code != RC_OK || parse_entry(json_incref(body), &e, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    submit(r, ENTRY_PUT, &e);
}

static void delete_entry(struct rest_request *r, const char *table, const char *key)
{
    struct entry e;
    struct err err = { 0 };
    uint32_t vni;
    json_t *json;

    if (!path_vni(r, &vni)) {
        return;
    }
    json = path_entry(r, vni, table, key);
    json_object_set_new(json, "op", json_string("delete"));
    if (parse_entry(json, &e, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    submit(r, ENTRY_DELETE, &e);
}

static void get_entry(struct rest_request *r, enum table_id table, const char *key)
{
    struct entry e;
    struct err err = { 0 };
    struct buf text = BUF_INIT;
    struct row row;
    uint32_t vni;
    json_t *json;

    if (!path_vni(r, &vni)) {
        return;
    }
    json = path_entry(r, vni, table_name(table), key);
    json_object_set_new(json, "op", json_string("delete")); /* the key alone */
    if (parse_entry(json, &e, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    entry_pack_key(&e, &text);
    if (!rows_find(core_rows(core_of(r), vni, table), table, text.data,
                   (uint8_t)text.len, &row) ||
        entry_unpack(table, vni, &row, &e, &err) != RC_OK) {
        err_set(&err, RC_NOT_FOUND, "VNI %u has no %s '%s'", vni, table_name(table),
                r->params[1]);
        buf_fini(&text);
        rest_problem(r, &err);
        return;
    }
    buf_reset(&text);
    entry_print_json(&e, ENTRY_PUT, &text);
    rest_reply_text(r, 200, "application/json", text.data, text.len);
    buf_fini(&text);
}

/* ---- lists ---- */

static bool page_size(struct rest_request *r, uint32_t *ret)
{
    struct err err = { 0 };

    *ret = REST_PAGE_SIZE;
    if (rest_query_u32(r, "pageSize", 1, REST_PAGE_MAX, ret, &err) != RC_OK) {
        rest_problem(r, &err);
        return false;
    }
    return true;
}

/* A page token is the next key in hexadecimal; false: answered. */
static bool page_token(struct rest_request *r, uint8_t key[ENTRY_KEY_MAX],
                       uint8_t *ret_len)
{
    const char *text = rest_query(r, "pageToken");
    struct err err = { 0 };
    size_t len = text ? strlen(text) : 0;

    *ret_len = 0;
    for (size_t i = 0; i < len / 2 && len <= 2 * ENTRY_KEY_MAX; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
            break;
        }
        key[(*ret_len)++] = (uint8_t)byte;
    }
    if (*ret_len * 2u != len) {
        err_field(&err, RC_INVALID, "pageToken", "page_token",
                  "pageToken: not one that a list gave");
        rest_problem(r, &err);
        return false;
    }
    return true;
}

/* Ends a list's text with the token of the next page, and answers. */
static void send_list(struct rest_request *r, struct buf *text, const uint8_t *next,
                      size_t next_len)
{
    struct err err = { 0 };

    buf_text(text, "]");
    if (next_len > 0) {
        buf_text(text, ",\"next_page_token\":\"");
        for (size_t i = 0; i < next_len; i++) {
            buf_printf(text, "%02x", next[i]);
        }
        buf_text(text, "\"");
    }
    buf_text(text, "}");
    if (buf_failed(text)) {
        err_set(&err, RC_NO_MEMORY, "no memory");
        rest_problem(r, &err);
    } else {
        rest_reply_text(r, 200, "application/json", text->data, text->len);
    }
    buf_fini(text);
}

static void list_entries(struct rest_request *r, enum table_id table)
{
    struct buf text = BUF_INIT;
    uint8_t key[ENTRY_KEY_MAX];
    uint8_t key_len;
    struct rows_iter it;
    struct row row = { 0 };
    struct entry e;
    uint32_t size;
    uint32_t vni;
    uint32_t n = 0;
    bool more;

    if (!path_vni(r, &vni) || !page_size(r, &size) || !page_token(r, key, &key_len)) {
        return;
    }
    it = rows_seek(core_rows(core_of(r), vni, table), table, key, key_len);
    buf_text(&text, "{\"items\":[");
    while ((more = rows_next(&it, &row)) && n < size) {
        if (entry_unpack(table, vni, &row, &e, NULL) == RC_OK) {
            buf_text(&text, n > 0 ? "," : "");
            entry_print_json(&e, ENTRY_PUT, &text);
        }
        n++;
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
    entry_print_json(&e, ENTRY_PUT, to);
    to->len -= !buf_failed(to); /* the brace */
    buf_printf(to, ",\"routes\":%u,\"vms\":%u,\"revision\":%llu}", t->route_count,
               t->vm_nc_count, (unsigned long long)t->mod_revision);
}

void rest_list_tenants(struct rest_request *r)
{
    const char *token = rest_query(r, "pageToken");
    struct buf text = BUF_INIT;
    struct tenant_status t;
    uint8_t next[3];
    uint8_t key[ENTRY_KEY_MAX];
    uint8_t key_len;
    uint32_t size;
    uint32_t vni = VNI_MIN;
    uint32_t n = 0;

    if (!page_size(r, &size) || !page_token(r, key, &key_len)) {
        return;
    }
    if (token && key_len == 3) {
        vni = (uint32_t)key[0] << 16 | (uint32_t)key[1] << 8 | key[2];
    }
    buf_text(&text, "{\"items\":[");
    for (vni = core_tenant_next(core_of(r), vni); vni != 0 && n < size;
         vni = vni == VNI_MAX ? 0 : core_tenant_next(core_of(r), vni + 1)) {
        if (core_tenant(core_of(r), vni, &t) == RC_OK) {
            buf_text(&text, n > 0 ? "," : "");
            print_tenant(&t, &text);
        }
        n++;
    }
    next[0] = (uint8_t)(vni >> 16);
    next[1] = (uint8_t)(vni >> 8);
    next[2] = (uint8_t)vni;
    send_list(r, &text, next, vni != 0 ? 3 : 0);
}

void rest_get_tenant(struct rest_request *r)
{
    struct buf text = BUF_INIT;
    struct tenant_status t;
    struct err err = { 0 };
    uint32_t vni;

    if (!path_vni(r, &vni)) {
        return;
    }
    if (core_tenant(core_of(r), vni, &t) != RC_OK) {
        err_set(&err, RC_NOT_FOUND, "no tenant with VNI %u", vni);
        rest_problem(r, &err);
        return;
    }
    print_tenant(&t, &text);
    rest_reply_text(r, 200, "application/json", text.data, text.len);
    buf_fini(&text);
}

void rest_put_tenant(struct rest_request *r)
{
    put_entry(r, "tenant", NULL);
}

void rest_delete_tenant(struct rest_request *r)
{
    delete_entry(r, "tenant", NULL);
}

/* ---- routes and VMs ---- */

void rest_list_routes(struct rest_request *r)
{
    list_entries(r, TABLE_VXLAN_ROUTE);
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
    delete_entry(r, "vxlan_route", "prefix");
}

void rest_list_vms(struct rest_request *r)
{
    list_entries(r, TABLE_VM_NC);
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
    delete_entry(r, "vm_nc", "vm");
}

/* ---- a batch ---- */

/* NDJSON lines to a packed batch; the number of the bad line in `*ret_line`. */
static enum rc read_batch(const char *text, size_t len, struct batch_writer *w,
                          uint64_t *ret_line, struct err *err)
{
    const char *end = text + len;

    for (uint64_t line = 1; text < end; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((newline ? newline : end) - text);
        enum entry_op op;
        struct entry e;
        enum rc rc;

        *ret_line = line;
        if (size == 0) {
            return err_field(err, RC_INVALID, "", "empty_line", "an empty line");
        }
        rc = entry_parse_json(text, size, &op, &e, err);
        if (rc != RC_OK) {
            return rc;
        }
        batch_add_entry(w, op, &e);
        if (w->entry_count > BATCH_MAX_ENTRIES ||
            batch_writer_bytes(w) > BATCH_MAX_BYTES) {
            return err_field(err, RC_RANGE, "", "batch_size",
                             "a batch has at most %d entries and %u packed bytes",
                             BATCH_MAX_ENTRIES, BATCH_MAX_BYTES);
        }
        text += size + 1;
    }
    *ret_line = 0;
    return RC_OK;
}

void rest_post_entries(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_ENTRIES };
    struct batch_writer w;
    struct err err = { 0 };
    uint64_t line = 0;
    size_t len;
    const char *text = rest_body_bytes(r, &len);
    enum rc rc = rest_command_init(r, &command, &err);

    batch_writer_init(&w);
    if (rc == RC_OK) {
        rc = rest_query_bool(r, "createOnly", &command.entries.create_only, &err);
    }
    rc = rc == RC_OK ? read_batch(text, len, &w, &line, &err) : rc;
    if (rc == RC_OK && w.entry_count == 0) {
        rc = err_field(&err, RC_INVALID, "", "batch_size", "no entries");
    }
    if (rc == RC_OK) {
        command.entries.ops = batch_writer_finish(&w);
        rc = command.entries.ops ? RC_OK : err_set(&err, RC_NO_MEMORY, "no memory");
    }
    batch_writer_fini(&w);
    if (rc == RC_OK) {
        rest_command(r, &command, rest_render_change);
    } else {
        rest_problem_at(r, &err, line);
    }
    blob_unref(command.entries.ops);
}
