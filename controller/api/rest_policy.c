/* The policy: which services XGW-H holds.
 *
 *   {"services": {"local": "xgw-h", "internet": "xgw-x86", "service:dns": "xgw-x86"}}
 *
 * An answer names every scope's service and those with a rule of their own; a request
 * names what it wants, and what is absent (or null, in a patch) is the default.
 */
#include "controller/api/rest_internal.h"

#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

static json_t *policy_json(const struct policy *p)
{
    json_t *services = json_object();

    for (unsigned s = SCOPE_LOCAL; s <= SCOPE_SERVICE; s++) {
        const char *name = scope_name((enum route_scope)s);

        json_object_set_new(services, name,
                            json_string(policy_place_name(policy_of_service(p, name))));
    }
    for (unsigned i = 0; i < p->rule_count; i++) {
        json_object_set_new(services, p->rules[i].service,
                            json_string(policy_place_name(p->rules[i].place)));
    }
    return json_pack("{s:o}", "services", services);
}

/* `service` first: the others' default follows from it. */
static enum rc read_rule(json_t *services, const char *service, struct policy *ret,
                         struct err *err)
{
    json_t *value = json_object_get(services, service);
    const char *text = json_string_value(value);
    char field[80];
    int place = text ? policy_place_parse(text, strlen(text)) : -1;
    enum rc rc;

    if (!value || json_is_null(value)) {
        return RC_OK;
    }
    snprintf(field, sizeof(field), "services.%s", service);
    if (place < 0) {
        return err_field(err, RC_INVALID, field, "place_known",
                         "%s: neither xgw-h nor xgw-x86", field);
    }
    if (strlen(service) > POLICY_SERVICE_MAX) {
        return err_field(err, RC_RANGE, field, "name_length", "%s: too long", field);
    }
    rc = policy_set(ret, service, (enum policy_place)place, err);
    if (rc != RC_OK) {
        snprintf(err->field, sizeof(err->field), "%s", field);
    }
    return rc;
}

static enum rc policy_parse(json_t *json, struct policy *ret, struct err *err)
{
    json_t *services = json_object_get(json, "services");
    const char *key;
    json_t *value;
    enum rc rc;

    memset(ret, 0, sizeof(*ret));
    json_object_foreach(json, key, value)
    {
        if (strcmp(key, "services") != 0 && strcmp(key, "revision") != 0 &&
            strcmp(key, "pending") != 0) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    if (!json_is_object(services)) {
        return err_field(err, RC_INVALID, "services", services ? "type" : "required",
                         "services: an object of services and places");
    }
    rc = read_rule(services, "service", ret, err);
    json_object_foreach(services, key, value)
    {
        rc = rc ? rc : read_rule(services, key, ret, err);
    }
    return rc;
}

/* Takes `json`. */
static void put(struct rest_request *r, struct command *command, json_t *json)
{
    struct policy policy;
    struct err err = { 0 };
    enum rc rc = policy_parse(json, &policy, &err);

    json_decref(json);
    command->kind = COMMAND_PUT_POLICY;
    command->policy = &policy;
    rest_put_parsed(r, command, rc, &err);
}

void rest_get_policy(struct rest_request *r)
{
    const struct core *core = core_of(r);
    uint64_t revision = core_object_revision(core, "policy", "");
    json_t *json = policy_json(core_policy(core));

    json_object_set_new(json, "pending", json_boolean(core_policy_is_pending(core)));
    json_object_set_new(json, "revision", json_integer((json_int_t)revision));
    rest_set_etag(r, revision);
    rest_reply_json(r, 200, json);
}

void rest_put_policy(struct rest_request *r)
{
    rest_put(r, put);
}

void rest_patch_policy(struct rest_request *r)
{
    const struct core *core = core_of(r);

    rest_patch(r, policy_json(core_policy(core)),
               core_object_revision(core, "policy", ""), put);
}
