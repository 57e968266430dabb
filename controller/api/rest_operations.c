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

static json_t *operation_json(const struct core *core, const struct operation *o)
{
    const char *waits = core_operation_waits(core, o->id);
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:o, s:o, s:i, s:o, s:o, s:I}", "id",
        o->id, "kind", operation_kind_name(o->kind), "state",
        operation_state_name(o->state), "step", operation_step_name(o), "step_number",
        (int)o->step, "step_count", (int)operation_step_count(o), "cancelled",
        (int)o->is_cancelled, "who", o->who, "created", rest_time_json(o->created_ms),
        "changed", rest_time_json(o->changed_ms), "vni", (int)o->move.vni, "from",
        home_json(&o->move.from), "to", home_json(&o->move.to), "drain_ms",
        (json_int_t)o->move.drain_ms);

    if (json && o->text[0]) {
        json_object_set_new(json, "reason", json_string(o->text));
    }
    if (json && o->state == OPERATION_RUNNING && waits[0]) {
        json_object_set_new(json, "waits_for", json_string(waits));
    }
    if (json && o->state == OPERATION_RUNNING) {
        json_object_set_new(json, "awaits_consumers", awaits_json(core, o));
    }
    if (json && o->move.waived_by[0]) {
        json_object_set_new(json, "without_consumers",
                            json_pack("{s:o, s:o}", "who",
                                      rest_text_json(o->move.waived_by), "reason",
                                      rest_text_json(o->move.waived_why)));
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
        last = o->move.vni == vni ? o : last;
    }
    return last;
}

static void answer(struct rest_request *r, const struct core_reply *reply,
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
        rest_reply_json(r, 202, operation_json(core_of(r), o));
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
    answer(r, reply, o);
}

static void begin(struct rest_request *r, struct command *command,
                  void (*on_reply)(void *arg, const struct core_reply *reply))
{
    struct err err = { 0 };

    r->dry_run = command->dry_run;
    if (shell_command(r->rest->config.shell, command, on_reply, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}

static enum rc read_move(json_t *body, struct command *command, struct err *err)
{
    const char *to = json_string_value(json_object_get(body, "cluster"));
    json_t *drain = json_object_get(body, "drain_ms");
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
    command->move.drain_ms = MOVE_DRAIN_MS_DEFAULT;
    if (drain && (!json_is_integer(drain) || json_integer_value(drain) < 0 ||
                  json_integer_value(drain) > MOVE_DRAIN_MS_MAX)) {
        return err_field(err, RC_RANGE, "drain_ms", "range",
                         "drain_ms: 0 to %d milliseconds", MOVE_DRAIN_MS_MAX);
    }
    if (drain) {
        command->move.drain_ms = (uint32_t)json_integer_value(drain);
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
    begin(r, &command, on_begun);
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
        json_array_append_new(items, operation_json(core_of(r), o));
    }
    rest_send_page(r, items, o ? o->id : NULL);
}

void rest_get_operation(struct rest_request *r)
{
    const struct operation *o = core_operation_find(core_of(r), r->params[0]);

    if (o) {
        rest_reply_json(r, 200, operation_json(core_of(r), o));
    } else {
        rest_refuse(r, 404, "not_found", "unknown_operation", "no such operation");
    }
}

/* ---- ending ---- */

static void on_changed(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;

    answer(r, reply, core_operation_find(core_of(r), r->params[0]));
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
    begin(r, &command, on_changed);
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
    begin(r, &command, on_changed);
}
