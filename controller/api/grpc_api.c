#include "controller/api/grpc_api_internal.h"

#include "controller/api/grpc_command.h"

#include <stdlib.h>
#include <string.h>

struct grpc_api *grpc_api_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

bool grpc_api_allow(struct rpc_call *call, enum role least, char who[AUTH_NAME_MAX + 1])
{
    struct grpc_api *a = grpc_api_of(call);
    enum role role = auth_check(a->auth, rpc_call_metadata(call, "authorization"), who);

    if (role == ROLE_NONE) {
        rpc_call_finish(call, RPC_UNAUTHENTICATED, "no valid bearer token", NULL, 0);
        return false;
    }
    if (role < least) {
        struct err err = { 0 };

        err_field(&err, RC_DENIED, "authorization", "role", "needs role %s, %s has %s",
                  role_name(least), who, role_name(role));
        rpc_call_finish_err(call, &err);
        return false;
    }
    if (!core_is_ready(shell_core(a->shell))) {
        rpc_call_finish(call, RPC_UNAVAILABLE, "the region is still being loaded", NULL,
                        0);
        return false;
    }
    return true;
}

/* ---- Apply ---- */

struct apply {
    struct rpc_call *call; /* null: the caller is gone */
    struct grpc_api *api;
    struct core_reply reply;
    uint32_t wait_ms;
    bool is_waiting;
};

static void apply_end(struct apply *p)
{
    if (p->call) {
        rpc_call_set_data(p->call, NULL);
    }
    free(p);
}

static void apply_answer(struct apply *p, bool applied, const char *missing)
{
    Xgw__Controller__V1__ApplyReply msg = XGW__CONTROLLER__V1__APPLY_REPLY__INIT;

    msg.revision = p->reply.revision;
    msg.added = p->reply.counts.added;
    msg.changed = p->reply.counts.changed;
    msg.deleted = p->reply.counts.deleted;
    msg.unchanged = p->reply.counts.unchanged;
    msg.repeated_request = p->reply.repeated;
    msg.applied = applied;
    msg.missing = (char *)missing;
    rpc_pb_reply(p->call, &msg.base);
}

static void on_waited(void *arg, const struct core_reply *reply)
{
    struct apply *p = arg;

    if (p->call && reply->err.code != RC_OK) {
        rpc_call_finish_err(p->call, &reply->err);
    } else if (p->call) {
        apply_answer(p, reply->applied, reply->missing);
    }
    apply_end(p);
}

static void on_applied(void *arg, const struct core_reply *reply)
{
    struct apply *p = arg;
    struct command wait = { .kind = COMMAND_WAIT };

    p->reply = *reply;
    if (p->call && reply->err.code != RC_OK) {
        rpc_call_finish_err(p->call, &reply->err);
    } else if (p->call && p->is_waiting && !reply->applied) {
        wait.wait.revision = reply->revision;
        wait.wait.deadline_ms = shell_now_ms() + p->wait_ms;
        if (shell_command(p->api->shell, &wait, on_waited, p) == RC_OK) {
            return;
        }
        apply_answer(p, false, ""); /* too many wait; the change is stored */
    } else if (p->call) {
        apply_answer(p, reply->applied, "");
    }
    apply_end(p);
}

static void apply_start(struct rpc_call *call,
                        const Xgw__Controller__V1__ApplyRequest *request,
                        struct command *command)
{
    struct grpc_api *a = grpc_api_of(call);
    struct apply *p = calloc(1, sizeof(*p));
    struct err err = { 0 };
    enum rc rc = p ? grpc_command_of_apply(request, command, &err)
                   : err_set(&err, RC_NO_MEMORY, "no memory");

    if (rc == RC_OK) {
        p->call = call;
        p->api = a;
        p->is_waiting = request->wait_applied && !request->dry_run;
        p->wait_ms = request->wait_ms ? request->wait_ms : GRPC_WAIT_MS;
        rpc_call_set_data(call, p);
        rc = shell_command(a->shell, command, on_applied, p);
        if (rc != RC_OK) {
            err_set(&err, rc, "too many requests are waiting: try again");
        }
    }
    if (rc != RC_OK) {
        rpc_call_set_data(call, NULL);
        free(p);
        rpc_call_finish_err(call, &err);
    }
    blob_unref(command->entries.ops);
}

static void on_apply(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct command command = { 0 };
    const Xgw__Controller__V1__ApplyRequest *request;

    rpc_call_set_data(call, NULL);
    if (!grpc_api_allow(call, ROLE_OPERATOR, command.who)) {
        return;
    }
    request = GRPC_TAKE(Xgw__Controller__V1__ApplyRequest, call,
                        xgw__controller__v1__apply_request__descriptor, msg);
    if (request) {
        apply_start(call, request, &command);
    }
    rpc_arena_reset(&grpc_api_of(call)->arena);
}

static void on_apply_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct apply *p = rpc_call_data(call);

    (void)status;
    if (p) {
        p->call = NULL; /* the command goes on; its reply frees it */
    }
}

/* ---- GetStatus, GetImport ---- */

static void on_get_status(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct grpc_api *a = grpc_api_of(call);
    const struct core *core = shell_core(a->shell);
    Xgw__Controller__V1__Status status = XGW__CONTROLLER__V1__STATUS__INIT;
    uint64_t entries[TABLE_COUNT];
    uint64_t digests[TABLE_COUNT];
    char who[AUTH_NAME_MAX + 1];

    (void)msg;
    if (!grpc_api_allow(call, ROLE_VIEWER, who)) {
        return;
    }
    for (int table = 0; table < TABLE_COUNT; table++) {
        entries[table] = core_count(core, (enum table_id)table);
        digests[table] = core_digest(core, (enum table_id)table).sum;
    }
    status.revision = core_revision(core);
    status.term = shell_term(a->shell);
    status.ready = true;
    status.entries = entries;
    status.n_entries = TABLE_COUNT;
    status.digest = digests;
    status.n_digest = TABLE_COUNT;
    status.version = (char *)XGW_VERSION;
    rpc_pb_reply(call, &status.base);
}

static void on_get_import(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct grpc_api *a = grpc_api_of(call);
    Xgw__Controller__V1__GetImportReply reply =
        XGW__CONTROLLER__V1__GET_IMPORT_REPLY__INIT;
    const Xgw__Controller__V1__GetImportRequest *request;
    char who[AUTH_NAME_MAX + 1];

    if (!grpc_api_allow(call, ROLE_VIEWER, who)) {
        return;
    }
    request = GRPC_TAKE(Xgw__Controller__V1__GetImportRequest, call,
                        xgw__controller__v1__get_import_request__descriptor, msg);
    if (request && request->input_digest.len != 16) {
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "input_digest: not 16 bytes", NULL,
                        0);
    } else if (request) {
        reply.next_line =
            core_import_next_line(shell_core(a->shell), request->input_digest.data);
        rpc_pb_reply(call, &reply.base);
    }
    rpc_arena_reset(&a->arena);
}

static enum rc add_unary(struct grpc_api *a, struct rpc_server *server,
                         const char *path, const struct rpc_call_ops *ops,
                         struct err *err)
{
    struct rpc_method method = {
        .path = path, .kind = RPC_UNARY, .ops = *ops, .arg = a
    };

    return rpc_server_add(server, &method, err);
}

enum rc grpc_api_new(struct rpc_server *server, struct shell *shell,
                     const struct auth *auth, struct grpc_api **ret, struct err *err)
{
    static const struct rpc_call_ops apply = { .on_message = on_apply,
                                               .on_closed = on_apply_closed };
    static const struct rpc_call_ops status = { .on_message = on_get_status };
    static const struct rpc_call_ops import = { .on_message = on_get_import };
    struct grpc_api *a = calloc(1, sizeof(*a));
    enum rc rc;

    if (!a) {
        return err_set(err, RC_NO_MEMORY, "api: no memory");
    }
    a->shell = shell;
    a->auth = auth;
    rc = add_unary(a, server, "/xgw.controller.v1.Controller/Apply", &apply, err);
    if (rc == RC_OK) {
        rc = add_unary(a, server, "/xgw.controller.v1.Controller/GetStatus", &status,
                       err);
    }
    if (rc == RC_OK) {
        rc = add_unary(a, server, "/xgw.controller.v1.Controller/GetImport", &import,
                       err);
    }
    rc = rc == RC_OK ? grpc_import_register(a, server, err) : rc;
    rc = rc == RC_OK ? grpc_watch_register(a, server, err) : rc;
    rc = rc == RC_OK ? grpc_top_register(a, server, err) : rc;
    rc = rc == RC_OK ? grpc_trace_register(a, server, err) : rc;
    rc = rc == RC_OK ? grpc_probes_register(a, server, err) : rc;
    if (rc != RC_OK) {
        grpc_api_free(a);
        return rc;
    }
    shell_set_watch(shell, grpc_watch_event, a);
    *ret = a;
    return RC_OK;
}

void grpc_api_free(struct grpc_api *a)
{
    if (!a) {
        return;
    }
    shell_set_watch(a->shell, NULL, NULL);
    rpc_arena_fini(&a->arena);
    free(a);
}
