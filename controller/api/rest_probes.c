/* Probes: begun, looked at. */
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

/* ---- as JSON ---- */

static json_t *cell_json(const struct matrix_cell *cell, const struct probes_cell *c)
{
    char name[MATRIX_NAME_MAX + 1];

    matrix_cell_print(cell, name, sizeof(name));
    if (c->reach != MATRIX_COVERED) {
        return json_pack("{s:s, s:b, s:s}", "cell", name, "covered", 0, "reason",
                         matrix_reach_text(c->reach));
    }
    return json_pack("{s:s, s:b, s:i, s:s, s:s}", "cell", name, "covered", 1, "probe",
                     (int)c->number, "expected", c->want, "verdict",
                     probes_verdict_name(c->verdict));
}

/* What was never asked of these rows is left out. */
static json_t *coverage_json(const struct probes_record *r)
{
    struct matrix_cell cells[MATRIX_CELLS_MAX];
    uint16_t count = matrix_cells(cells);
    json_t *list = json_array();

    for (uint16_t i = 0; i < count && i < r->cell_count; i++) {
        if (r->cells[i].reach != MATRIX_UNSEEN) {
            json_array_append_new(list, cell_json(&cells[i], &r->cells[i]));
        }
    }
    return list;
}

static json_t *differences_json(const struct probes_record *r)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < r->listed; i++) {
        json_array_append_new(list, json_string(r->differs[i]));
    }
    return list;
}

static json_t *probes_json(const struct probes_record *r, bool whole)
{
    json_t *json = json_pack(
        "{s:o, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I}", "id",
        json_sprintf("%" PRIu64, r->number), "node", r->node, "cluster", r->cluster,
        "vni", r->vni ? json_integer((json_int_t)r->vni) : json_null(), "who", r->who,
        "state", probes_state_name(r->state), "result", probes_result_name(r->result),
        "asked", time_or_null(r->asked_ms), "ended", time_or_null(r->ended_ms),
        "probes", (json_int_t)r->probes, "agreed", (json_int_t)r->agreed, "differed",
        (json_int_t)r->differed, "unsaid", (json_int_t)r->unsaid);

    if (r->why[0]) {
        json_object_set_new(json, "reason", json_string(r->why));
    }
    if (whole) {
        json_object_set_new(json, "differences", differences_json(r));
        json_object_set_new(json, "coverage", coverage_json(r));
    }
    return json;
}

/* Null: it is forgotten, or there is no memory. */
static json_t *probes_of(const struct rest_request *r, uint64_t number, bool whole)
{
    struct probes_record *record = malloc(sizeof(*record));
    json_t *json = NULL;

    if (record && core_probes(core_of(r), number, record) == RC_OK) {
        json = probes_json(record, whole);
    }
    free(record);
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
    for (uint32_t i = 0; i < reply->probes_count; i++) {
        json_t *json = probes_of(r, reply->probes_first + i, false);

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
    const char *key;
    json_t *value;
    enum rc rc;

    json_object_foreach(body, key, value)
    {
        if (strcmp(key, "cluster") != 0 && strcmp(key, "node") != 0 &&
            strcmp(key, "vni") != 0) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    rc = read_name(body, "cluster", command->probe.cluster,
                   sizeof(command->probe.cluster), err);
    rc = rc ? rc
            : read_name(body, "node", command->probe.node, sizeof(command->probe.node),
                        err);
    if (rc == RC_OK && vni &&
        (!json_is_integer(vni) || json_integer_value(vni) < VNI_MIN ||
         json_integer_value(vni) > VNI_MAX)) {
        rc = err_field(err, RC_RANGE, "vni", "range", "vni: 1 to %u", VNI_MAX);
    }
    command->probe.vni = rc == RC_OK && vni ? (uint32_t)json_integer_value(vni) : 0;
    return rc;
}

void rest_begin_probes(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_PROBE };
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
void rest_list_probes(struct rest_request *r)
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
    number = core_probes_next(core_of(r), page.key_len ? strtoull(key, NULL, 10) : 1);
    items = json_array();
    while (number && json_array_size(items) < page.size) {
        json = probes_of(r, number, false);
        if (json) {
            json_array_append_new(items, json);
        }
        number = core_probes_next(core_of(r), number + 1);
    }
    json = json_pack("{s:o}", "items", items);
    if (number) {
        snprintf(key, sizeof(key), "%" PRIu64, number);
        rest_page_token(key, strlen(key), token);
        json_object_set_new(json, "next_page_token", json_string(token));
    }
    rest_reply_json(r, 200, json);
}

void rest_get_probes(struct rest_request *r)
{
    char *end = NULL;
    uint64_t number = strtoull(r->params[0], &end, 10);
    json_t *json = *end == '\0' && number ? probes_of(r, number, true) : NULL;

    if (json) {
        rest_reply_json(r, 200, json);
    } else {
        rest_refuse(r, 404, "not_found", "unknown_probes", "no such probes");
    }
}
