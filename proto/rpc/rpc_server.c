#include "proto/rpc/rpc_server.h"

#include <errno.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "proto/rpc/rpc_core.h"

enum {
    SLOT_COUNT = 8, /* calls that gRPC may hand over before we asked again; guess */
    MAX_CALLS = 4096,
    MAX_METHODS = 64,
};

/* An open request for the next call. */
struct rpc_slot {
    struct rpc_op op;
    struct rpc_server *server;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

struct rpc_server {
    struct rpc_loop *loop;
    LIST_ENTRY(rpc_server) in_loop;
    grpc_server *server;
    struct rpc_server_options options;
    struct rpc_method methods[MAX_METHODS];
    size_t method_count;
    struct rpc_slot slots[SLOT_COUNT];
    struct rpc_call_list calls;
    size_t call_count;
    bool is_started;
    bool is_stopping;
    bool is_killed;
    struct rpc_op stop_op;
    struct event *grace;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
};

static void on_request(struct rpc_op *op, bool ok);
static void on_stop(struct rpc_op *op, bool ok);

enum rc rpc_server_new(struct rpc_loop *loop, const struct rpc_server_options *options,
                       struct rpc_server **ret_server, struct err *err)
{
    struct rpc_server *server = calloc(1, sizeof(*server));
    struct rpc_args args = { 0 };
    grpc_channel_args list;

    if (!server) {
        return err_set(err, RC_NO_MEMORY, "rpc server: out of memory");
    }
    if (options) {
        server->options = *options;
    }
    if (server->options.max_queue_bytes == 0) {
        server->options.max_queue_bytes = RPC_MAX_QUEUE_BYTES;
    }
    if (server->options.max_calls == 0) {
        server->options.max_calls = MAX_CALLS;
    }
    if (server->options.unix_mode == 0) {
        server->options.unix_mode = 0600;
    }
    rpc_args_common(&args, server->options.max_message_bytes,
                    server->options.keepalive_ms, server->options.keepalive_timeout_ms);
    /* Two processes on one port would silently share it. */
    rpc_args_int(&args, GRPC_ARG_ALLOW_REUSEPORT, 0);
    rpc_args_int(&args, GRPC_ARG_MAX_CONCURRENT_STREAMS,
                 (int)server->options.max_calls);
    list = (grpc_channel_args){ .num_args = args.count, .args = args.list };
    server->loop = loop;
    server->server = grpc_server_create(&list, NULL);
    grpc_server_register_completion_queue(server->server, loop->cq, NULL);
    server->stop_op.done = on_stop;
    TAILQ_INIT(&server->calls);
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        server->slots[i].op.done = on_request;
        server->slots[i].server = server;
    }
    LIST_INSERT_HEAD(&loop->servers, server, in_loop);
    *ret_server = server;
    return RC_OK;
}

static const struct rpc_method *find_method(const struct rpc_server *server,
                                            grpc_slice path)
{
    for (size_t i = 0; i < server->method_count; i++) {
        if (grpc_slice_str_cmp(path, server->methods[i].path) == 0) {
            return &server->methods[i];
        }
    }
    return NULL;
}

enum rc rpc_server_add(struct rpc_server *server, const struct rpc_method *method,
                       struct err *err)
{
    struct rpc_method *to = &server->methods[server->method_count];

    for (size_t i = 0; i < server->method_count; i++) {
        if (strcmp(server->methods[i].path, method->path) == 0) {
            return err_set(err, RC_EXISTS, "method %s: added twice", method->path);
        }
    }
    if (server->method_count == MAX_METHODS) {
        return err_set(err, RC_FULL, "method %s: more than %d methods", method->path,
                       MAX_METHODS);
    }
    *to = *method;
    to->path = strdup(method->path);
    if (!to->path) {
        return err_set(err, RC_NO_MEMORY, "method %s: out of memory", method->path);
    }
    server->method_count++;
    return RC_OK;
}

/* gRPC takes over a socket file even from a server that is alive: ask first. */
static bool somebody_answers(const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd;
    bool answers;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        return false;
    }
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    answers = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    close(fd);
    return answers;
}

enum rc rpc_server_listen(struct rpc_server *server, const char *address,
                          const struct rpc_tls *tls, uint16_t *ret_port,
                          struct err *err)
{
    const bool is_unix = strncmp(address, "unix:", 5) == 0;
    grpc_server_credentials *creds = NULL;
    mode_t before = 0;
    enum rc rc;
    int port;

    if (is_unix && somebody_answers(address + 5)) {
        return err_field(err, RC_EXISTS, "address", "address_in_use",
                         "listen %s: another process answers there", address);
    }
    rc = rpc_tls_server(tls, &creds, err);
    if (rc != RC_OK) {
        return err_wrap(err, rc, "listen %s", address);
    }
    if (is_unix) {
        /* The file must never be wider than its final mode, not for a moment. */
        before = umask(~(mode_t)server->options.unix_mode & 0777);
    }
    errno = 0;
    port = grpc_server_add_http2_port(server->server, address, creds);
    if (is_unix) {
        umask(before);
    }
    grpc_server_credentials_release(creds);
    if (port == 0) {
        return err_field(err, RC_EXISTS, "address", "address_in_use",
                         "listen %s: cannot be bound (in use, or no such address)",
                         address);
    }
    if (ret_port) {
        *ret_port = (uint16_t)port;
    }
    return RC_OK;
}

static void post_request(struct rpc_slot *slot)
{
    struct rpc_server *server = slot->server;
    grpc_call_error e;

    grpc_call_details_init(&slot->details);
    grpc_metadata_array_init(&slot->metadata);
    e = grpc_server_request_call(server->server, &slot->call, &slot->details,
                                 &slot->metadata, server->loop->cq, server->loop->cq,
                                 rpc_op_post(&slot->op));
    if (e != GRPC_CALL_OK) {
        slot->op.is_pending = false;
        log_error("rpc request refused", "error=%s", grpc_call_error_to_string(e));
    }
}

enum rc rpc_server_start(struct rpc_server *server, struct err *err)
{
    if (server->is_started || server->is_stopping) {
        return err_set(err, RC_BUG, "rpc server: started twice or after its end");
    }
    server->is_started = true;
    grpc_server_start(server->server);
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        post_request(&server->slots[i]);
    }
    return RC_OK;
}

/* The verified common name; one with a zero byte in it is somebody's trick. */
static void read_peer_name(struct rpc_call *call)
{
    grpc_auth_context *auth = grpc_call_auth_context(call->call);
    grpc_auth_property_iterator it;
    const grpc_auth_property *name;

    if (!auth) {
        return;
    }
    it = grpc_auth_context_find_properties_by_name(auth, GRPC_X509_CN_PROPERTY_NAME);
    name = grpc_auth_property_iterator_next(&it);
    if (name && grpc_auth_context_peer_is_authenticated(auth) &&
        name->value_length < sizeof(call->peer_name) &&
        !memchr(name->value, '\0', name->value_length)) {
        memcpy(call->peer_name, name->value, name->value_length);
    }
    grpc_auth_context_release(auth);
}

static void adopt(struct rpc_server *server, struct rpc_slot *slot,
                  struct rpc_call *call)
{
    const struct rpc_method *method = find_method(server, slot->details.method);

    call->server = server;
    call->deadline = slot->details.deadline;
    call->max_queue_bytes = server->options.max_queue_bytes;
    grpc_metadata_array_destroy(&call->metadata);
    call->metadata = slot->metadata;
    grpc_metadata_array_init(&slot->metadata);
    read_peer_name(call);
    TAILQ_INSERT_TAIL(&server->calls, call, in_owner);
    server->call_count++;
    rpc_call_start(call);
    if (!method) {
        rpc_call_finish(call, RPC_UNIMPLEMENTED, "no such method", NULL, 0);
    } else if (server->call_count > server->options.max_calls) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many calls", NULL, 0);
    } else {
        call->kind = method->kind;
        call->ops = method->ops;
        call->arg = method->arg;
        call->data = method->arg;
    }
}

static void on_request(struct rpc_op *op, bool ok)
{
    struct rpc_slot *slot = (struct rpc_slot *)op; /* its first member */
    struct rpc_server *server = slot->server;
    struct rpc_call *call = NULL;

    if (ok) {
        call = rpc_call_new(server->loop, slot->call);
        if (call) {
            adopt(server, slot, call);
        } else {
            grpc_call_cancel_with_status(slot->call, GRPC_STATUS_RESOURCE_EXHAUSTED,
                                         "out of memory", NULL);
            grpc_call_unref(slot->call);
        }
    }
    grpc_call_details_destroy(&slot->details);
    grpc_metadata_array_destroy(&slot->metadata);
    if (!server->is_stopping) {
        post_request(slot);
    } else {
        rpc_server_settle(server);
    }
}

/* ---- the end ---- */

static bool has_ended(const struct rpc_server *server)
{
    if (!server->is_stopping || server->stop_op.is_pending || server->call_count > 0) {
        return false;
    }
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        if (server->slots[i].op.is_pending) {
            return false;
        }
    }
    return true;
}

void rpc_server_settle(struct rpc_server *server)
{
    void (*on_stopped)(void *arg) = server->on_stopped;
    void *arg = server->on_stopped_arg;

    if (!has_ended(server)) {
        return;
    }
    grpc_server_destroy(server->server);
    if (server->grace) {
        event_free(server->grace);
    }
    for (size_t i = 0; i < server->method_count; i++) {
        free((void *)server->methods[i].path);
    }
    LIST_REMOVE(server, in_loop);
    free(server);
    if (on_stopped) {
        on_stopped(arg);
    }
}

void rpc_server_forget(struct rpc_server *server, struct rpc_call *call)
{
    TAILQ_REMOVE(&server->calls, call, in_owner);
    server->call_count--;
}

static void on_stop(struct rpc_op *op, bool ok)
{
    struct rpc_server *server =
        (struct rpc_server *)(void *)((char *)op -
                                      offsetof(struct rpc_server, stop_op));

    (void)ok;
    rpc_server_settle(server);
}

static void on_grace_over(evutil_socket_t fd, short what, void *arg)
{
    struct rpc_server *server = arg;

    (void)fd;
    (void)what;
    server->is_killed = true;
    grpc_server_cancel_all_calls(server->server);
}

void rpc_server_stop(struct rpc_server *server, uint32_t grace_ms,
                     void (*on_stopped)(void *arg), void *arg)
{
    const struct timeval wait = { .tv_sec = grace_ms / 1000,
                                  .tv_usec = (suseconds_t)(grace_ms % 1000) * 1000 };

    if (server->is_stopping) {
        return;
    }
    server->is_stopping = true;
    server->on_stopped = on_stopped;
    server->on_stopped_arg = arg;
    grpc_server_shutdown_and_notify(server->server, server->loop->cq,
                                    rpc_op_post(&server->stop_op));
    if (grace_ms > 0) {
        server->grace = event_new(server->loop->base, -1, 0, on_grace_over, server);
    }
    if (!server->grace || event_add(server->grace, &wait) < 0) {
        on_grace_over(-1, 0, server);
    }
}

void rpc_server_kill(struct rpc_server *server)
{
    if (!server->is_stopping) {
        rpc_server_stop(server, 0, NULL, NULL);
    } else if (!server->is_killed) {
        on_grace_over(-1, 0, server);
    }
}

struct rpc_server *rpc_server_next(struct rpc_server *server)
{
    return LIST_NEXT(server, in_loop);
}
