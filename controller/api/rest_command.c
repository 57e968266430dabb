/* Commands: into the core, its answer, the wait for the nodes, merge patches. */
#include "controller/api/rest_internal.h"

#include <string.h>

/* The change is stored, but not all of it is where it should be: nothing that the
 * request did wrong, so the status is not that of the code. */
static void answer_unapplied(struct rest_request *r, const struct err *why)
{
    int status = why->code == RC_UNREACHABLE ? 503 : why->code == RC_FULL ? 507 : 502;
    json_t *json = rest_problem_of(why, status);

    json_object_set_new(json, "revision", json_integer((json_int_t)r->reply.revision));
    rest_problem_send(r, json);
}

static void on_waited(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;

    if (reply->err.code != RC_OK) {
        answer_unapplied(r, &reply->err);
        return;
    }
    r->reply.applied = reply->applied;
    memcpy(r->reply.missing, reply->missing, sizeof(r->reply.missing));
    rest_render_change(r);
}

static void on_reply(void *arg, const struct core_reply *reply)
{
    struct rest_request *r = arg;
    struct command wait = { .kind = COMMAND_WAIT };

    if (reply->err.code == RC_STALE && r->retries_left > 0) {
        /* A patch was made of what somebody changed meanwhile: make it anew. */
        r->retries_left--;
        r->route->handle(r);
        return;
    }
    r->reply = *reply;
    if (reply->err.code != RC_OK) {
        rest_problem_at(r, &reply->err,
                        !r->is_batch || reply->bad_index == UINT32_MAX
                            ? 0
                            : reply->bad_index + 1ull);
        return;
    }
    if (r->is_waiting && !reply->applied) {
        wait.wait.revision = reply->revision;
        wait.wait.deadline_ms = shell_now_ms() + r->wait_ms;
        if (shell_command(r->rest->config.shell, &wait, on_waited, r) == RC_OK) {
            return;
        }
        /* Too many wait; the change is stored all the same: 202. */
    }
    rest_render_change(r);
}

void rest_command(struct rest_request *r, struct command *command)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(r->http);
    const char *wait = rest_query(r, "wait");
    struct err err = { 0 };
    enum rc rc = RC_OK;

    r->dry_run = command->dry_run;
    r->wait_ms = REST_WAIT_MS;
    r->is_waiting = wait && strcmp(wait, "applied") == 0 && !command->dry_run;
    if (wait && strcmp(wait, "applied") != 0 && strcmp(wait, "none") != 0) {
        rc = err_field(&err, RC_INVALID, "wait", "choice", "wait: not none or applied");
    }
    if (rc == RC_OK) {
        rc = rest_query_u32(r, "waitMs", 1, REST_WAIT_MS_MAX, &r->wait_ms, &err);
    }
    if (rc == RC_OK) {
        evbuffer_drain(in, evbuffer_get_length(in)); /* not kept while it waits */
        if (shell_command(r->rest->config.shell, command, on_reply, r) == RC_OK) {
            return; /* `r` may be gone by now */
        }
        err_set(&err, RC_NO_MEMORY, "too many requests are waiting: try again");
    }
    rest_problem(r, &err);
}

void rest_render_change(struct rest_request *r)
{
    const struct core_reply *reply = &r->reply;
    const struct rows_change *n = &reply->counts;
    const char *state = r->dry_run ? "dry_run" : reply->applied ? "applied" : "pending";
    json_t *json =
        json_pack("{s:I, s:s, s:I, s:I, s:I, s:I}", "revision",
                  (json_int_t)reply->revision, "state", state, "added",
                  (json_int_t)n->added, "changed", (json_int_t)n->changed, "deleted",
                  (json_int_t)n->deleted, "unchanged", (json_int_t)n->unchanged);

    if (json && reply->repeated) {
        json_object_set_new(json, "repeated", json_true());
    }
    if (json && reply->missing[0]) {
        json_object_set_new(json, "missing", json_string(reply->missing));
    }
    if (!r->dry_run && !r->is_batch && n->added + n->changed > 0) {
        rest_set_etag(r, reply->revision);
    }
    rest_reply_json(r, r->is_waiting && !reply->applied ? 202 : 200, json);
}

/* RFC 7396, section 2. */
static void merge(json_t *target, json_t *patch)
{
    const char *key;
    json_t *value;

    json_object_foreach(patch, key, value)
    {
        json_t *old = json_object_get(target, key);

        if (json_is_null(value)) {
            json_object_del(target, key);
        } else if (!json_is_object(value)) {
            json_object_set(target, key, value);
        } else if (json_is_object(old)) {
            merge(old, value);
        } else {
            json_t *fresh = json_object();

            merge(fresh, value);
            json_object_set_new(target, key, fresh);
        }
    }
}

json_t *rest_patched(struct rest_request *r, json_t *current, uint64_t revision,
                     struct command *command)
{
    json_t *body = rest_body(r);

    if (!body) {
        json_decref(current);
        return NULL;
    }
    merge(current, body);
    if (command->if_revision == 0) {
        command->if_revision = revision;
        if (!r->is_patch) {
            r->is_patch = true;
            r->retries_left = REST_PATCH_RETRIES;
        }
    }
    return current;
}

void rest_put(struct rest_request *r, rest_put_fn *put)
{
    struct command command = { 0 };
    struct err err = { 0 };
    json_t *body = rest_body(r);

    if (body && rest_command_init(r, &command, &err) == RC_OK) {
        put(r, &command, json_incref(body));
    } else if (body) {
        rest_problem(r, &err);
    }
}

void rest_patch(struct rest_request *r, json_t *current, uint64_t revision,
                rest_put_fn *put)
{
    struct command command = { 0 };
    struct err err = { 0 };

    if (rest_command_init(r, &command, &err) != RC_OK) {
        json_decref(current);
        rest_problem(r, &err);
        return;
    }
    current = rest_patched(r, current, revision, &command);
    if (current) {
        put(r, &command, current);
    }
}

void rest_put_parsed(struct rest_request *r, struct command *command, enum rc rc,
                     const struct err *err)
{
    if (rc == RC_OK) {
        rest_command(r, command);
    } else {
        rest_problem(r, err);
    }
}
