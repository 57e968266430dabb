/* Clusters are built, drained and retired: requests that begin an operation. */
#include "controller/api/rest_internal.h"

#include <string.h>

static const struct core *core_of(const struct rest_request *r)
{
    return shell_core(r->rest->config.shell);
}

/* A repeated request does not say what it began: the cluster's last one. */
static const struct operation *last_of(const struct core *core, const char *cluster)
{
    const struct operation *last = NULL;
    const struct operation *o;

    for (uint32_t i = 0; (o = core_operation_at(core, i)) != NULL; i++) {
        last = strcmp(operation_cluster(o), cluster) == 0 ? o : last;
    }
    return last;
}

static void on_begun(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    const struct operation *o = core_operation_find(core_of(r), reply->operation);

    if (!o && reply->repeated) {
        o = last_of(core_of(r), r->params[0]);
    }
    rest_answer_operation(r, reply, o);
}

static enum rc check_keys(json_t *body, const char *const *keys, struct err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(body, key, value)
    {
        unsigned i = 0;

        while (keys[i] && strcmp(keys[i], key) != 0) {
            i++;
        }
        if (!keys[i]) {
            return err_field(err, RC_INVALID, key, "unknown_field", "%s: no such field",
                             key);
        }
    }
    return RC_OK;
}

static enum rc read_tenants(json_t *body, struct build *ret, struct err *err)
{
    json_t *list = json_object_get(body, "tenants");
    size_t count = json_array_size(list);
    json_t *value;
    size_t i;

    if (!json_is_array(list) || count < 1 || count > BUILD_TENANTS_MAX) {
        return err_field(err, RC_INVALID, "tenants", "list_length",
                         "tenants: a list of 1 to %d VNIs", BUILD_TENANTS_MAX);
    }
    ret->vnis = blob_new(count * sizeof(uint32_t));
    if (!ret->vnis) {
        return err_set(err, RC_NO_MEMORY, "out of memory");
    }
    ret->vni_count = (uint32_t)count;
    json_array_foreach(list, i, value)
    {
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
        uint32_t vni = (uint32_t)number;

        if (number < VNI_MIN || number > VNI_MAX) {
            return err_field(err, RC_INVALID, "tenants", "vni_range",
                             "tenants: number %zu is no VNI", i + 1);
        }
        memcpy(ret->vnis->data + i * sizeof(vni), &vni, sizeof(vni));
    }
    return RC_OK;
}

static enum rc read_build(json_t *body, struct command *command, struct err *err)
{
    static const char *const keys[] = { "tenants", "hold_ms", "drain_ms", NULL };
    struct build *b = &command->build;
    enum rc rc = check_keys(body, keys, err);

    b->hold_ms = BUILD_HOLD_MS_REGION;
    rc = rc ? rc
            : rest_read_ms(body, "hold_ms", ADMISSION_HOLD_MS_MAX, &b->hold_ms, err);
    rc = rc ? rc : rest_read_drain_ms(body, &b->drain_ms, err);
    return rc ? rc : read_tenants(body, b, err);
}

static enum rc read_drain(json_t *body, struct command *command, struct err *err)
{
    static const char *const keys[] = { "to", "drain_ms", NULL };
    json_t *to = json_object_get(body, "to");
    struct drain *d = &command->drain;
    enum rc rc = check_keys(body, keys, err);

    rc = rc ? rc : rest_read_drain_ms(body, &d->drain_ms, err);
    if (!rc && to &&
        (!json_is_string(to) || json_string_length(to) > CLUSTER_NAME_MAX)) {
        rc = err_field(err, RC_INVALID, "to", "name_syntax",
                       "to: not a name of a cluster");
    }
    if (!rc && to) {
        memcpy(d->to, json_string_value(to), json_string_length(to));
    }
    return rc;
}

static enum rc read_retire(json_t *body, struct command *command, struct err *err)
{
    static const char *const keys[] = { NULL };

    (void)command;
    return check_keys(body, keys, err);
}

/* `cluster`: where the command has the name. */
static void begin(struct rest_request *r, struct command *command, char *cluster,
                  enum rc (*read)(json_t *body, struct command *command,
                                  struct err *err))
{
    struct err err = { 0 };
    json_t *body;

    if (strlen(r->params[0]) > CLUSTER_NAME_MAX) {
        rest_refuse(r, 404, "not_found", "unknown_cluster", "no such cluster");
        return;
    }
    body = rest_body(r);
    if (!body) {
        return;
    }
    memcpy(cluster, r->params[0], strlen(r->params[0]) + 1);
    if (rest_command_init(r, command, &err) || read(body, command, &err)) {
        rest_problem(r, &err);
    } else {
        rest_begin_operation(r, command, on_begun);
    }
    if (command->kind == COMMAND_BUILD) {
        blob_unref(command->build.vnis);
    }
}

void rest_build_cluster(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_BUILD };

    begin(r, &command, command.build.cluster, read_build);
}

void rest_drain_cluster(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_DRAIN };

    begin(r, &command, command.drain.cluster, read_drain);
}

void rest_retire_cluster(struct rest_request *r)
{
    struct command command = { .kind = COMMAND_RETIRE };

    begin(r, &command, command.retire.cluster, read_retire);
}
