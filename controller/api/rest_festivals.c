/* Festivals: windows with more load than usual, planned ahead. */
#include "controller/api/rest_internal.h"

#include "controller/health/outlook.h"
#include "proto/model/name.h"

#include <math.h>
#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

static const char *state_of(const struct festival *f, uint64_t now_s)
{
    return f->is_over            ? "over"
           : now_s < f->starts_s ? "planned"
           : now_s < f->ends_s   ? "active"
                                 : "ending";
}

static json_t *outlook_json(const struct outlook *o)
{
    return o->subject[0]
               ? json_pack("{s:s, s:s, s:f, s:b}", "subject", o->subject, "resource",
                           o->resource, "percent", o->percent, "fits", o->fits)
               : json_null();
}

/* What a client may put. */
static json_t *plain_json(const struct festival *f)
{
    json_t *tenants = json_array();

    for (unsigned i = 0; i < f->tenant_count; i++) {
        json_array_append_new(tenants, json_integer(f->tenants[i]));
    }
    return json_pack("{s:s, s:I, s:I, s:i, s:o, s:o}", "name", f->name, "starts",
                     (json_int_t)f->starts_s, "ends", (json_int_t)f->ends_s,
                     "growth_percent", (int)f->growth_percent, "levels",
                     rest_marks_json(&f->marks), "tenants", tenants);
}

static json_t *festival_json(const struct rest_request *r, const struct festival *f)
{
    const struct core *core = core_of(r);
    uint64_t now_s = shell_unix_ms() / 1000;
    json_t *json = plain_json(f);
    struct outlook o = { 0 };

    if (!f->is_over && now_s < f->ends_s) {
        outlook_make(core_health(core), now_s, f, &o);
    }
    json_object_set_new(json, "status",
                        json_pack("{s:s, s:o}", "state", state_of(f, now_s), "outlook",
                                  outlook_json(&o)));
    json_object_set_new(
        json, "revision",
        json_integer((json_int_t)core_object_revision(core, "festival", f->name)));
    return json;
}

void rest_list_festivals(struct rest_request *r)
{
    char key[REST_PAGE_KEY_MAX + 1] = "";
    char token[REST_PAGE_TOKEN_SIZE];
    const struct festival *f;
    struct rest_page page;
    json_t *items;
    json_t *json;
    uint32_t i = 0;

    if (!rest_page_read(r, 1, REGION_NAME_MAX, &page)) {
        return;
    }
    memcpy(key, page.key, page.key_len);
    items = json_array();
    for (; (f = core_festival_at(core_of(r), i)) != NULL &&
           json_array_size(items) < page.size;
         i++) {
        if (strcmp(f->name, key) >= 0) {
            json_array_append_new(items, festival_json(r, f));
        }
    }
    json = json_pack("{s:o}", "items", items);
    if (f) {
        rest_page_token(f->name, strlen(f->name), token);
        json_object_set_new(json, "next_page_token", json_string(token));
    }
    rest_reply_json(r, 200, json);
}

/* The festival of the path; null: answered. */
static const struct festival *path_festival(struct rest_request *r)
{
    const struct festival *f = core_festival_find(core_of(r), r->params[0]);
    struct err err = { 0 };

    if (!f) {
        err_set(&err, RC_NOT_FOUND, "no festival '%s'", r->params[0]);
        rest_problem(r, &err);
    }
    return f;
}

void rest_get_festival(struct rest_request *r)
{
    const struct festival *f = path_festival(r);

    if (f) {
        rest_set_etag(r, core_object_revision(core_of(r), "festival", f->name));
        rest_reply_json(r, 200, festival_json(r, f));
    }
}

/* ---- put ---- */

static enum rc read_integer(json_t *json, const char *key, int64_t most, int64_t *io,
                            struct err *err)
{
    json_t *value = json_object_get(json, key);

    if (!value) {
        return *io >= 0
                   ? RC_OK
                   : err_field(err, RC_INVALID, key, "required", "%s: is needed", key);
    }
    if (!json_is_integer(value)) {
        return err_field(err, RC_INVALID, key, "type", "%s: not a whole number", key);
    }
    *io = json_integer_value(value);
    return *io >= 0 && *io <= most
               ? RC_OK
               : err_field(err, RC_RANGE, key, "number_range", "%s: not from 0 to %lld",
                           key, (long long)most);
}

static enum rc read_tenants(json_t *list, struct festival *f, struct err *err)
{
    json_t *value;
    size_t i;

    if (list && !json_is_array(list)) {
        return err_field(err, RC_INVALID, "tenants", "type", "tenants: not a list");
    }
    if (json_array_size(list) > FESTIVAL_TENANTS_MAX) {
        return err_field(err, RC_RANGE, "tenants", "list_length",
                         "tenants: more than %d", FESTIVAL_TENANTS_MAX);
    }
    json_array_foreach(list, i, value)
    {
        json_int_t vni = json_integer_value(value);

        if (vni < VNI_MIN || vni > VNI_MAX) {
            return err_field(err, RC_RANGE, "tenants", "vni_range",
                             "tenants: not VNIs from 1 to 16777215");
        }
        f->tenants[f->tenant_count++] = (uint32_t)vni;
    }
    return RC_OK;
}

static enum rc check_fields(json_t *json, struct err *err)
{
    static const char *const fields[] = { "name",           "starts",  "ends",
                                          "growth_percent", "levels",  "tenants",
                                          "status",         "revision" };
    const char *key;
    json_t *value;

    json_object_foreach(json, key, value)
    {
        bool is_known = false;

        for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
            is_known = is_known || strcmp(fields[i], key) == 0;
        }
        if (!is_known) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    return RC_OK;
}

static enum rc festival_parse(json_t *json, const char *name, struct festival *f,
                              struct err *err)
{
    const char *given = json_string_value(json_object_get(json, "name"));
    json_t *levels = json_object_get(json, "levels");
    int64_t starts = -1;
    int64_t ends = -1;
    int64_t growth;
    enum rc rc = check_fields(json, err);

    festival_default(f);
    growth = f->growth_percent;
    rc = rc ? rc : name_check(name, REGION_NAME_MAX, "name", err);
    if (!rc && given && strcmp(given, name) != 0) {
        rc = err_field(err, RC_INVALID, "name", "name_differs",
                       "name: not that of the path");
    }
    rc = rc ? rc : read_integer(json, "starts", UINT32_MAX, &starts, err);
    rc = rc ? rc : read_integer(json, "ends", UINT32_MAX, &ends, err);
    rc = rc ? rc
            : read_integer(json, "growth_percent", FESTIVAL_GROWTH_MAX, &growth, err);
    if (!rc && levels && !json_is_object(levels)) {
        rc = err_field(err, RC_INVALID, "levels", "type", "levels: not an object");
    }
    rc = rc ? rc : rest_marks_parse(levels, "levels.", &f->marks, err);
    rc = rc ? rc : read_tenants(json_object_get(json, "tenants"), f, err);
    if (rc == RC_OK) {
        snprintf(f->name, sizeof(f->name), "%s", name);
        f->starts_s = (uint64_t)starts;
        f->ends_s = (uint64_t)ends;
        f->growth_percent = (uint16_t)growth;
    }
    return rc;
}

/* Takes `json`. */
static void put(struct rest_request *r, struct command *command, json_t *json)
{
    struct err err = { 0 };
    enum rc rc = festival_parse(json, r->params[0], &command->festival, &err);

    json_decref(json);
    command->kind = COMMAND_PUT_FESTIVAL;
    rest_put_parsed(r, command, rc, &err);
}

void rest_put_festival(struct rest_request *r)
{
    rest_put(r, put);
}

void rest_patch_festival(struct rest_request *r)
{
    const struct festival *f = path_festival(r);

    if (f) {
        rest_patch(r, plain_json(f),
                   core_object_revision(core_of(r), "festival", f->name), put);
    }
}

void rest_delete_festival(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_DELETE_FESTIVAL };
    struct err err = { 0 };

    if (name_check(r->params[0], REGION_NAME_MAX, "name", &err) != RC_OK ||
        rest_command_init(r, &command, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    snprintf(command.name, sizeof(command.name), "%s", r->params[0]);
    rest_command(r, &command);
}
