/* Audits: begun, looked at. */
#include "controller/api/rest_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS            1000
#define NUMBER_DIGITS 20

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

static json_t *time_or_null(uint64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / MS);
    struct tm tm;
    char text[32];

    if (unix_ms == 0) {
        return json_null();
    }
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    return json_sprintf("%s.%03uZ", text, (unsigned)(unix_ms % MS));
}

/* The entry as it stands in an import's line; null: there is none. */
static json_t *entry_json(const struct audit_difference *d, const uint8_t *value,
                          uint8_t value_len, bool is_there)
{
    struct row row = {
        .key = d->key, .key_len = d->key_len, .value = value, .value_len = value_len
    };
    struct entry entry;
    struct buf text = BUF_INIT;
    json_t *json = NULL;

    if (is_there &&
        entry_unpack((enum table_id)d->table, d->vni, &row, &entry, NULL) == RC_OK) {
        entry_print_json(&entry, ENTRY_PUT, &text);
        json = json_loads(buf_cstr(&text), 0, NULL);
    }
    buf_fini(&text);
    return json ? json : json_null();
}

static json_t *differences_json(const struct audit_findings *f)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < f->listed; i++) {
        const struct audit_difference *d = &f->at[i];

        json_array_append_new(
            list,
            json_pack(
                "{s:s, s:s, s:i, s:o, s:o}", "kind", audit_kind_name(d->kind), "table",
                table_name((enum table_id)d->table), "vni", (int)d->vni, "expected",
                entry_json(d, d->expected, d->expected_len, d->kind != AUDIT_EXTRA),
                "found",
                entry_json(d, d->found, d->found_len, d->kind != AUDIT_MISSING)));
    }
    return list;
}

static json_t *audit_json(const struct audit_record *r, bool names)
{
    const struct audit_findings *f = r->found;
    json_t *json = json_pack(
        "{s:o, s:s, s:s, s:s, s:o, s:s, s:b, s:s, s:s, s:o, s:o, s:I}", "id",
        json_sprintf("%" PRIu64, r->number), "node", r->node, "cluster", r->cluster,
        "side", r->side == 'a' ? "a" : "b", "vni",
        r->vni ? json_integer((json_int_t)r->vni) : json_null(), "who", r->who,
        "repairs", (int)r->repairs, "state", audit_state_name(r->state), "result",
        audit_result_name(r->result), "asked", time_or_null(r->asked_ms), "ended",
        time_or_null(r->ended_ms), "read_ms", (json_int_t)r->read_ms);

    json_object_set_new(json, "missing",
                        json_integer((json_int_t)f->count[AUDIT_MISSING]));
    json_object_set_new(json, "extra", json_integer((json_int_t)f->count[AUDIT_EXTRA]));
    json_object_set_new(json, "different",
                        json_integer((json_int_t)f->count[AUDIT_DIFFERENT]));
    json_object_set_new(json, "refused", json_integer((json_int_t)f->refused));
    json_object_set_new(json, "counted_by_digests", json_boolean(f->is_cut));
    if (r->text[0]) {
        json_object_set_new(json, "reason", json_string(r->text));
    }
    if (names) {
        json_object_set_new(json, "differences", differences_json(f));
    }
    return json;
}

/* Null: it is forgotten, or there is no memory. */
static json_t *audit_of(const struct rest_request *r, uint64_t number, bool names)
{
    struct audit_record record;
    json_t *json = NULL;

    if (core_audit(core_of(r), number, &record) == RC_OK) {
        json = audit_json(&record, names);
        audit_record_fini(&record);
    }
    return json;
}

/* ---- beginning ---- */

static void on_begun(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    json_t *items;

    if (reply->err.code != RC_OK) {
        rest_problem(r, &reply->err);
        return;
    }
    if (r->dry_run) {
        rest_reply_json(r, 200, json_pack("{s:s}", "state", "dry_run"));
        return;
    }
    items = json_array();
    for (uint32_t i = 0; i < reply->audit_count; i++) {
        json_t *json = audit_of(r, reply->audit_first + i, false);

        if (json) {
            json_array_append_new(items, json);
        }
    }
    rest_reply_json(r, 202, json_pack("{s:o}", "items", items));
}

static enum rc read_name(json_t *body, const char *field, char *to, size_t size,
                         struct err *err)
{
    json_t *value = json_object_get(body, field);
    const char *text = json_string_value(value);

    if (value && (!text || strlen(text) >= size)) {
        return err_field(err, RC_INVALID, field, "name_length", "%s: no name", field);
    }
    if (text) {
        memcpy(to, text, strlen(text) + 1);
    }
    return RC_OK;
}

static enum rc read_scope(json_t *body, struct command *command, struct err *err)
{
    json_t *vni = json_object_get(body, "vni");
    json_t *repair = json_object_get(body, "repair");
    const char *key;
    json_t *value;
    enum rc rc;

    json_object_foreach(body, key, value)
    {
        if (strcmp(key, "cluster") != 0 && strcmp(key, "node") != 0 &&
            strcmp(key, "vni") != 0 && strcmp(key, "repair") != 0) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    rc = read_name(body, "cluster", command->audit.cluster,
                   sizeof(command->audit.cluster), err);
    rc = rc ? rc
            : read_name(body, "node", command->audit.node, sizeof(command->audit.node),
                        err);
    if (rc == RC_OK && vni &&
        (!json_is_integer(vni) || json_integer_value(vni) < VNI_MIN ||
         json_integer_value(vni) > VNI_MAX)) {
        rc = err_field(err, RC_RANGE, "vni", "range", "vni: 1 to %u", VNI_MAX);
    }
    if (rc == RC_OK && repair && !json_is_boolean(repair)) {
        rc = err_field(err, RC_INVALID, "repair", "boolean",
                       "repair: neither true nor false");
    }
    command->audit.vni = vni ? (uint32_t)json_integer_value(vni) : 0;
    command->audit.repairs = !repair || json_is_true(repair);
    return rc;
}

void rest_begin_audit(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_AUDIT };
    struct err err = { 0 };
    json_t *body = rest_body(r);

    if (!body) {
        return;
    }
    if (rest_command_init(r, &command, &err) || read_scope(body, &command, &err)) {
        rest_problem(r, &err);
        return;
    }
    r->dry_run = command.dry_run;
    if (shell_command(r->rest->config.shell, &command, on_begun, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}

/* ---- looking ---- */

/* A page goes on with the first number that is not below the token's. */
void rest_list_audits(struct rest_request *r)
{
    char key[REST_PAGE_KEY_MAX + 1] = "";
    char token[REST_PAGE_TOKEN_SIZE];
    struct rest_page page;
    uint64_t number;
    json_t *items;
    json_t *json;

    if (!rest_page_read(r, 1, NUMBER_DIGITS, &page)) {
        return;
    }
    memcpy(key, page.key, page.key_len);
    number = core_audit_next(core_of(r), page.key_len ? strtoull(key, NULL, 10) : 1);
    items = json_array();
    while (number && json_array_size(items) < page.size) {
        json = audit_of(r, number, false);
        if (json) {
            json_array_append_new(items, json);
        }
        number = core_audit_next(core_of(r), number + 1);
    }
    json = json_pack("{s:o}", "items", items);
    if (number) {
        snprintf(key, sizeof(key), "%" PRIu64, number);
        rest_page_token(key, strlen(key), token);
        json_object_set_new(json, "next_page_token", json_string(token));
    }
    rest_reply_json(r, 200, json);
}

void rest_get_audit(struct rest_request *r)
{
    char *end = NULL;
    uint64_t number = strtoull(r->params[0], &end, 10);
    json_t *json = *end == '\0' && number ? audit_of(r, number, true) : NULL;

    if (json) {
        rest_reply_json(r, 200, json);
    } else {
        rest_refuse(r, 404, "not_found", "unknown_audit", "no such audit");
    }
}

void rest_add_observed(const struct rest_request *r, json_t *status, const char *node)
{
    const struct audit_node *n = core_audit_node(core_of(r), node);

    json_object_set_new(status, "observed",
                        n && n->seen.revision
                            ? json_integer((json_int_t)n->seen.revision)
                            : json_null());
    json_object_set_new(status, "observed_at", time_or_null(n ? n->seen.at_ms : 0));
}
