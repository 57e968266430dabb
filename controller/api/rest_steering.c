/* Steering: which cluster's VIPs a VNI's traffic is to be sent to, who outside follows
 * that, and up to which revision. */
#include "controller/api/rest_internal.h"

#include "proto/model/name.h"

#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

/* ---- the table ---- */

static json_t *steering_json(const struct core *core, uint32_t vni)
{
    const struct cluster *k = core_steering(core, vni);

    return k ? json_pack("{s:i, s:s, s:o, s:o}", "vni", (int)vni, "cluster", k->name,
                         "vip_v4", rest_ip_json(&k->vip_v4), "vip_v6",
                         rest_ip_json(&k->vip_v6))
             : NULL;
}

static json_t *revision_json(const struct core *core)
{
    return json_integer((json_int_t)core_steering_revision(core));
}

void rest_list_steering(struct rest_request *r)
{
    const struct core *core = core_of(r);
    char token[REST_PAGE_TOKEN_SIZE];
    uint8_t next[3];
    struct rest_page page;
    uint32_t vni = VNI_MIN;
    json_t *items;
    json_t *json;

    if (!rest_page_read(r, sizeof(next), sizeof(next), &page)) {
        return;
    }
    if (page.key_len > 0) {
        vni = (uint32_t)page.key[0] << 16 | (uint32_t)page.key[1] << 8 | page.key[2];
    }
    items = json_array();
    for (vni = core_tenant_next(core, vni); vni && json_array_size(items) < page.size;
         vni = vni == VNI_MAX ? 0 : core_tenant_next(core, vni + 1)) {
        json_array_append_new(items, steering_json(core, vni));
    }
    json = json_pack("{s:o, s:o}", "revision", revision_json(core), "items", items);
    if (vni) {
        next[0] = (uint8_t)(vni >> 16);
        next[1] = (uint8_t)(vni >> 8);
        next[2] = (uint8_t)vni;
        rest_page_token(next, sizeof(next), token);
        json_object_set_new(json, "next_page_token", json_string(token));
    }
    rest_reply_json(r, 200, json);
}

void rest_get_steering(struct rest_request *r)
{
    const struct core *core = core_of(r);
    struct err err = { 0 };
    json_t *json;
    uint32_t vni;

    if (!rest_path_vni(r, &vni)) {
        return;
    }
    json = steering_json(core, vni);
    if (!json) {
        err_field(&err, RC_NOT_FOUND, "vni", "unknown_tenant", "vni %u is no tenant",
                  vni);
        rest_problem(r, &err);
        return;
    }
    json_object_set_new(json, "revision", revision_json(core));
    rest_reply_json(r, 200, json);
}

/* ---- consumers ---- */

static json_t *consumer_json(const struct core *core, const struct consumer *x)
{
    const struct operation *o;
    struct consumer_status s;
    json_t *awaited = json_array();

    for (uint32_t i = 0; (o = core_operation_at(core, i)) != NULL; i++) {
        if (core_operation_awaits(core, o, x)) {
            json_array_append_new(awaited, json_string(o->id));
        }
    }
    core_consumer_status(core, x, &s);
    return json_pack("{s:s, s:{s:I, s:o, s:i, s:o}, s:I}", "name", x->name, "status",
                     "acknowledged_revision", (json_int_t)s.acked, "last_seen",
                     s.seen_ms ? rest_time_json(s.seen_ms) : json_null(),
                     "awaited_seconds", (int)s.awaited_s, "awaited_by", awaited,
                     "revision",
                     (json_int_t)core_object_revision(core, "consumer", x->name));
}

void rest_list_consumers(struct rest_request *r)
{
    const struct core *core = core_of(r);
    const struct consumer *x;
    struct rest_page page;
    json_t *items;
    uint32_t i = 0;

    if (!rest_page_read(r, 1, REGION_NAME_MAX, &page)) {
        return;
    }
    items = json_array();
    while ((x = core_consumer_at(core, i)) != NULL && rest_is_before(&page, x->name)) {
        i++;
    }
    for (; x && json_array_size(items) < page.size; x = core_consumer_at(core, ++i)) {
        json_array_append_new(items, consumer_json(core, x));
    }
    rest_send_page(r, items, x ? x->name : NULL);
}

static void answer_consumer(struct rest_request *r)
{
    const struct consumer *x = core_consumer_find(core_of(r), r->params[0]);

    if (!x) {
        rest_refuse(r, 404, "not_found", "unknown_consumer", "no such consumer");
        return;
    }
    rest_set_etag(r, core_object_revision(core_of(r), "consumer", x->name));
    rest_reply_json(r, 200, consumer_json(core_of(r), x));
}

void rest_get_consumer(struct rest_request *r)
{
    answer_consumer(r);
}

/* There is nothing to say of it but its name; what an answer has is taken back. */
static enum rc consumer_parse(json_t *json, const char *name, struct consumer *ret,
                              struct err *err)
{
    json_t *given = json_object_get(json, "name");
    enum rc rc = name_check(name, REGION_NAME_MAX, "name", err);
    const char *key;
    json_t *value;

    json_object_foreach(json, key, value)
    {
        if (!rc && strcmp(key, "name") != 0 && strcmp(key, "status") != 0 &&
            strcmp(key, "revision") != 0) {
            rc = err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                           key);
        }
    }
    if (!rc && given &&
        (!json_is_string(given) || strcmp(json_string_value(given), name) != 0)) {
        rc = err_field(err, RC_INVALID, "name", "name_differs",
                       "name: not that of the path");
    }
    if (!rc) {
        memcpy(ret->name, name, strlen(name) + 1);
    }
    return rc;
}

/* Takes `json`. */
static void put(struct rest_request *r, struct command *command, json_t *json)
{
    struct err err = { 0 };
    enum rc rc = consumer_parse(json, r->params[0], &command->consumer, &err);

    json_decref(json);
    command->kind = COMMAND_PUT_CONSUMER;
    rest_put_parsed(r, command, rc, &err);
}

void rest_put_consumer(struct rest_request *r)
{
    rest_put(r, put);
}

void rest_delete_consumer(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_DELETE_CONSUMER };
    struct err err = { 0 };

    if (name_check(r->params[0], REGION_NAME_MAX, "name", &err) != RC_OK ||
        rest_command_init(r, &command, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    memcpy(command.name, r->params[0], strlen(r->params[0]) + 1);
    rest_command(r, &command);
}

static void on_acknowledged(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;

    if (reply->err.code != RC_OK) {
        rest_problem(r, &reply->err);
    } else {
        answer_consumer(r);
    }
}

static enum rc read_ack(json_t *body, uint64_t *ret, struct err *err)
{
    json_t *revision = json_object_get(body, "acknowledged_revision");
    const char *key;
    json_t *value;

    json_object_foreach(body, key, value)
    {
        if (value != revision) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    if (!revision) {
        return err_field(err, RC_INVALID, "acknowledged_revision", "required",
                         "acknowledged_revision: is needed");
    }
    if (!json_is_integer(revision) || json_integer_value(revision) < 1) {
        return err_field(err, RC_INVALID, "acknowledged_revision", "number",
                         "acknowledged_revision: not a whole number above 0");
    }
    *ret = (uint64_t)json_integer_value(revision);
    return RC_OK;
}

void rest_ack_steering(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_CONSUMER_ACK };
    json_t *body = rest_body(r);
    struct err err = { 0 };

    if (!body) {
        return;
    }
    if (name_check(r->params[0], REGION_NAME_MAX, "name", &err) != RC_OK ||
        read_ack(body, &command.consumer_ack.revision, &err) != RC_OK) {
        rest_problem(r, &err);
        return;
    }
    memcpy(command.consumer_ack.name, r->params[0], strlen(r->params[0]) + 1);
    snprintf(command.who, sizeof(command.who), "%s", r->who);
    if (shell_command(r->rest->config.shell, &command, on_acknowledged, r) != RC_OK) {
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
        rest_problem(r, &err);
    }
}
