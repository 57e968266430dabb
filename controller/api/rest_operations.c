/* Operations: long work is begun, looked at, and cancelled.
 *
 * A request that begins one is answered with it (202) as soon as it is stored. */
#include "controller/api/rest_internal.h"

#include <string.h>

#define MS 1000

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

json_t *rest_time_json(uint64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / MS);
    struct tm tm;
    char text[32];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    return json_sprintf("%s.%03uZ", text, (unsigned)(unix_ms % MS));
}

static json_t *home_json(const struct home *h)
{
    return json_pack("{s:s, s:s*}", "cluster", h->x86, "h_home", h->h[0] ? h->h : NULL);
}

/* Consumers of steering that it waits for, by name. */
static json_t *awaits_json(const struct core *core, const struct operation *o)
{
    const struct consumer *x;
    json_t *names = json_array();

    for (uint32_t i = 0; (x = core_consumer_at(core, i)) != NULL; i++) {
        if (core_operation_awaits(core, o, x)) {
            json_array_append_new(names, json_string(x->name));
        }
    }
    return names;
}

static void add_move(const struct core *core, const struct operation *o, json_t *json)
{
    char parent[OPERATION_ID_MAX + 1];

    json_object_set_new(json, "vni", json_integer(o->move.vni));
    json_object_set_new(json, "from", home_json(&o->move.from));
    json_object_set_new(json, "to", home_json(&o->move.to));
    json_object_set_new(json, "drain_ms", json_integer(o->move.drain_ms));
    if (o->parent) {
        operation_name(o->parent, parent);
        json_object_set_new(json, "parent", json_string(parent));
    }
    if (o->state == OPERATION_RUNNING) {
        json_object_set_new(json, "awaits_consumers", awaits_json(core, o));
    }
    if (o->move.waived_by[0]) {
        json_object_set_new(json, "without_consumers",
                            json_pack("{s:o, s:o}", "who",
                                      rest_text_json(o->move.waived_by), "reason",
                                      rest_text_json(o->move.waived_why)));
    }
}

static void add_build(const struct core *core, const struct operation *o, json_t *json)
{
    const struct build *b = &o->build;
    struct core_work_status s;
    json_t *vnis = json_array();

    for (uint32_t i = 0; i < b->vni_count; i++) {
        json_array_append_new(vnis, json_integer(build_vni(b, i)));
    }
    json_object_set_new(json, "tenants", vnis);
    json_object_set_new(json, "hold_ms", json_integer(b->hold_ms));
    json_object_set_new(json, "drain_ms", json_integer(b->drain_ms));
    if (b->cut[0]) {
        json_object_set_new(json, "admitted",
                            json_pack("{s:i, s:i}", "percent",
                                      (int)build_stage_percent(b->stage), "tenants",
                                      (int)b->cut[b->stage]));
    }
    if (core_operation_work(core, o->id, &s)) {
        json_object_set_new(json, "progress",
                            json_pack("{s:i, s:i, s:i, s:i}", "tenants", (int)s.named,
                                      "there", (int)s.there, "held", (int)s.held,
                                      "moving", (int)s.moving));
    }
}

static void add_drain(const struct core *core, const struct operation *o, json_t *json)
{
    struct core_work_status s;

    json_object_set_new(json, "drain_ms", json_integer(o->drain.drain_ms));
    if (o->drain.to[0]) {
        json_object_set_new(json, "drain_to", json_string(o->drain.to));
    }
    if (core_operation_work(core, o->id, &s)) {
        json_object_set_new(json, "progress",
                            json_pack("{s:i, s:i, s:i}", "there", (int)s.there,
                                      "moving", (int)s.moving, "stuck", (int)s.stuck));
    }
}

json_t *rest_operation_json(const struct core *core, const struct operation *o)
{
    const char *waits = core_operation_waits(core, o->id);
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:o, s:o}", "id", o->id, "kind",
        operation_kind_name(o->kind), "state", operation_state_name(o->state), "step",
        operation_step_name(o), "step_number", (int)o->step, "step_count",
        (int)operation_step_count(o), "cancelled", (int)o->is_cancelled, "who", o->who,
        "created", rest_time_json(o->created_ms), "changed",
        rest_time_json(o->changed_ms));

    if (!json) {
        return NULL;
    }
    if (o->text[0]) {
        json_object_set_new(json, "reason", json_string(o->text));
    }
    if (o->state == OPERATION_RUNNING && waits[0]) {
        json_object_set_new(json, "waits_for", json_string(waits));
    }
    if (operation_cluster(o)[0]) {
        json_object_set_new(json, "cluster", json_string(operation_cluster(o)));
    }
    if (o->kind == OPERATION_MOVE) {
        add_move(core, o, json);
    } else if (o->kind == OPERATION_BUILD) {
        add_build(core, o, json);
    } else if (o->kind == OPERATION_DRAIN) {
        add_drain(core, o, json);
    }
    return json;
}

/* ---- beginning ---- */

/* A repeated request does not say what it began: the tenant's last one. */
static const struct operation *last_of(const struct core *core, uint32_t vni)
{
    const struct operation *last = NULL;
    const struct operation *o;

    for (uint32_t i = 0; (o = core_operation_at(core, i)) != NULL; i++) {
        last = o->kind == OPERATION_MOVE && o->move.vni == vni ? o : last;
    }
    return last;
}

void rest_answer_operation(struct rest_request *r, const struct core_reply *reply,
                           const struct operation *o)
{
    if (reply->err.code != RC_OK) {
        rest_problem(r, &reply->err);
    } else if (r->dry_run) {
        rest_reply_json(r, 200, json_pack("{s:s}", "state", "dry_run"));
    } else if (!o) {
        rest_refuse(r, 404, "not_found", "unknown_operation",
                    "the operation is over and forgotten");
    } else {
        rest_reply_json(r, 202, rest_operation_json(core_of(r), o));
    }
}

static void on_begun(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    const struct operation *o = core_operation_find(core_of(r), reply->operation);
    uint32_t vni = 0;

    if (!o && reply->repeated && rest_path_vni(r, &vni)) {
        o = last_of(core_of(r), vni);
    }
    rest_answer_operation(r, reply, o);
}

void rest_begin_operation(struct rest_request *r, struct command *command,
                          void (*on_reply)(void *arg, const struct core_reply *reply))
{
    struct err err = { 0 };

    r->dry_run = command->dry_run;
    if (shell_command(r->rest->config.shell, command, on_reply, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}

enum rc rest_read_ms(json_t *body, const char *key, uint32_t most, uint32_t *ret,
                     struct err *err)
{
    json_t *ms = json_object_get(body, key);

    if (ms && (!json_is_integer(ms) || json_integer_value(ms) < 0 ||
               json_integer_value(ms) > most)) {
        return err_field(err, RC_RANGE, key, "range", "%s: 0 to %u milliseconds", key,
                         most);
    }
    *ret = ms ? (uint32_t)json_integer_value(ms) : *ret;
    return RC_OK;
}

enum rc rest_read_drain_ms(json_t *body, uint32_t *ret, struct err *err)
{
    *ret = MOVE_DRAIN_MS_DEFAULT;
    return rest_read_ms(body, "drain_ms", MOVE_DRAIN_MS_MAX, ret, err);
}

static enum rc read_move(json_t *body, struct command *command, struct err *err)
{
    const char *to = json_string_value(json_object_get(body, "cluster"));
    json_t *ignore = json_object_get(body, "ignore_steering");
    const char *key;
    json_t *value;

    json_object_foreach(body, key, value)
    {
        if (strcmp(key, "cluster") != 0 && strcmp(key, "drain_ms") != 0 &&
            strcmp(key, "ignore_steering") != 0) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    if (!to || strlen(to) > CLUSTER_NAME_MAX) {
        return err_field(err, RC_INVALID, "cluster", "required",
                         "cluster: the name of the cluster to move to");
    }
    if (rest_read_drain_ms(body, &command->move.drain_ms, err)) {
        return err->code;
    }
    if (ignore && !json_is_boolean(ignore)) {
        return err_field(err, RC_INVALID, "ignore_steering", "boolean",
                         "ignore_steering: neither true nor false");
    }
    command->move.ignores_steering = json_is_true(ignore);
    memcpy(command->move.cluster, to, strlen(to));
    return RC_OK;
}

void rest_move_tenant(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_MOVE };
    struct err err = { 0 };
    json_t *body;
    uint32_t vni;

    if (!rest_path_vni(r, &vni)) {
        return;
    }
    body = rest_body(r);
    if (!body) {
        return;
    }
    command.move.vni = vni;
    if (rest_command_init(r, &command, &err) || read_move(body, &command, &err)) {
        rest_problem(r, &err);
        return;
    }
    rest_begin_operation(r, &command, on_begun);
}

/* ---- looking ---- */

void rest_list_operations(struct rest_request *r)
{
    const struct operation *o;
    struct rest_page page;
    json_t *items;
    uint32_t i = 0;

    if (!rest_page_read(r, 1, OPERATION_ID_MAX, &page)) {
        return;
    }
    items = json_array();
    while ((o = core_operation_at(core_of(r), i)) != NULL &&
           rest_is_before(&page, o->id)) {
        i++;
    }
    for (; o && json_array_size(items) < page.size;
         o = core_operation_at(core_of(r), ++i)) {
        json_array_append_new(items, rest_operation_json(core_of(r), o));
    }
    rest_send_page(r, items, o ? o->id : NULL);
}

void rest_get_operation(struct rest_request *r)
{
    const struct operation *o = core_operation_find(core_of(r), r->params[0]);

    if (o) {
        rest_reply_json(r, 200, rest_operation_json(core_of(r), o));
    } else {
        rest_refuse(r, 404, "not_found", "unknown_operation", "no such operation");
    }
}

/* ---- ending ---- */

static void on_changed(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;

    rest_answer_operation(r, reply, core_operation_find(core_of(r), r->params[0]));
}

void rest_cancel_operation(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_CANCEL };
    struct err err = { 0 };

    if (strlen(r->params[0]) > OPERATION_ID_MAX) {
        rest_refuse(r, 404, "not_found", "unknown_operation", "no such operation");
        return;
    }
    if (rest_command_init(r, &command, &err)) {
        rest_problem(r, &err);
        return;
    }
    memcpy(command.name, r->params[0], strlen(r->params[0]));
    rest_begin_operation(r, &command, on_changed);
}

/* ---- going on without those who do not answer ---- */

static enum rc read_proceed(json_t *body, struct command *command, struct err *err)
{
    json_t *without = json_object_get(body, "without_consumers");
    json_t *reason = json_object_get(body, "reason");
    const char *key;
    json_t *value;

    json_object_foreach(body, key, value)
    {
        if (value != without && value != reason) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    if (!json_is_true(without)) {
        return err_field(err, RC_INVALID, "without_consumers", "required",
                         "without_consumers: true, for that is what it would do");
    }
    if (!json_is_string(reason) || json_string_length(reason) == 0) {
        return err_field(err, RC_INVALID, "reason", "required",
                         "reason: why it goes on without them");
    }
    if (json_string_length(reason) > OPERATION_TEXT_MAX) {
        return err_field(err, RC_INVALID, "reason", "length",
                         "reason: more than %d bytes", OPERATION_TEXT_MAX);
    }
    memcpy(command->proceed.why, json_string_value(reason), json_string_length(reason));
    return RC_OK;
}

void rest_proceed_operation(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_PROCEED };
    struct err err = { 0 };
    json_t *body;

    if (strlen(r->params[0]) > OPERATION_ID_MAX) {
        rest_refuse(r, 404, "not_found", "unknown_operation", "no such operation");
        return;
    }
    body = rest_body(r);
    if (!body) {
        return;
    }
    if (rest_command_init(r, &command, &err) || read_proceed(body, &command, &err)) {
        rest_problem(r, &err);
        return;
    }
    memcpy(command.proceed.id, r->params[0], strlen(r->params[0]));
    rest_begin_operation(r, &command, on_changed);
}
