#include "proto/rpc/rpc_health.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "proto/api/health.pb-c.h"
#include "proto/rpc/rpc_pb.h"

typedef Grpc__Health__V1__HealthCheckRequest Request;
typedef Grpc__Health__V1__HealthCheckResponse Response;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus Serving;

#define SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define UNKNOWN     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

enum { REQUEST_MEMORY = 4096 }; /* a service's name is all there is in it */

struct service {
    LIST_ENTRY(service) link;
    char *name;
    bool is_serving;
};

struct watcher {
    LIST_ENTRY(watcher) link;
    struct rpc_call *call;
    char *name;
    int told; /* last status sent, -1 before */
};

struct rpc_health {
    LIST_HEAD(, service) services;
    LIST_HEAD(, watcher) watchers;
};

static struct service *find_service(const struct rpc_health *health, const char *name)
{
    struct service *s;

    LIST_FOREACH(s, &health->services, link)
    {
        if (strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

static void on_check(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct rpc_health *health = rpc_call_arg(call);
    struct rpc_arena arena = { .limit = REQUEST_MEMORY };
    Response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    const Request *request = (const Request *)rpc_pb_take(
        call, &arena, &grpc__health__v1__health_check_request__descriptor, msg);

    if (request) {
        const struct service *s = find_service(health, request->service);

        if (s) {
            response.status = s->is_serving ? SERVING : NOT_SERVING;
            rpc_pb_reply(call, &response.base);
        } else {
            rpc_call_finish(call, RPC_NOT_FOUND, "unknown service", NULL, 0);
        }
    }
    rpc_arena_fini(&arena);
}

/* A watcher that does not read misses states in between, never the last one: it is
 * told again when its queue has drained. */
static void tell_watcher(struct rpc_health *health, struct watcher *w)
{
    const struct service *s = find_service(health, w->name);
    Serving now = !s ? UNKNOWN : s->is_serving ? SERVING : NOT_SERVING;
    Response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = now;
    if (w->told != (int)now && rpc_pb_send(w->call, &response.base) == RC_OK) {
        w->told = (int)now;
    }
}

static void on_watch(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct rpc_health *health = rpc_call_arg(call);
    struct rpc_arena arena = { .limit = REQUEST_MEMORY };
    const Request *request = (const Request *)rpc_pb_take(
        call, &arena, &grpc__health__v1__health_check_request__descriptor, msg);
    struct watcher *w = request ? calloc(1, sizeof(*w)) : NULL;

    if (w) {
        w->name = strdup(request->service);
        w->call = call;
        w->told = -1;
    }
    rpc_arena_fini(&arena);
    if (!w || !w->name) {
        free(w);
        /* Does nothing where the request was refused before. */
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "out of memory", NULL, 0);
        return;
    }
    rpc_call_set_data(call, w);
    LIST_INSERT_HEAD(&health->watchers, w, link);
    tell_watcher(health, w);
}

static void on_watch_writable(struct rpc_call *call)
{
    tell_watcher(rpc_call_arg(call), rpc_call_data(call));
}

static void on_watch_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct watcher *w = rpc_call_data(call);

    (void)status;
    if (rpc_call_data(call) != rpc_call_arg(call)) {
        LIST_REMOVE(w, link);
        free(w->name);
        free(w);
    }
}

enum rc rpc_health_new(struct rpc_server *server, struct rpc_health **ret_health,
                       struct err *err)
{
    struct rpc_health *health = calloc(1, sizeof(*health));
    const struct rpc_method check = {
        .path = "/grpc.health.v1.Health/Check",
        .kind = RPC_UNARY,
        .ops = { .on_message = on_check },
        .arg = health,
    };
    const struct rpc_method watch = {
        .path = "/grpc.health.v1.Health/Watch",
        .kind = RPC_SERVER_STREAM,
        .ops = { .on_message = on_watch,
                 .on_writable = on_watch_writable,
                 .on_closed = on_watch_closed },
        .arg = health,
    };
    enum rc rc;

    if (!health) {
        return err_set(err, RC_NO_MEMORY, "health service: out of memory");
    }
    LIST_INIT(&health->services);
    LIST_INIT(&health->watchers);
    rc = rpc_health_set(health, "", false);
    if (rc == RC_OK) {
        rc = rpc_server_add(server, &check, err);
    }
    if (rc == RC_OK) {
        rc = rpc_server_add(server, &watch, err);
    }
    if (rc != RC_OK) {
        rpc_health_free(health);
        return rc;
    }
    *ret_health = health;
    return RC_OK;
}

enum rc rpc_health_set(struct rpc_health *health, const char *service, bool is_serving)
{
    struct service *s = find_service(health, service);
    struct watcher *w;

    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s) {
            return RC_NO_MEMORY;
        }
        s->name = strdup(service);
        if (!s->name) {
            free(s);
            return RC_NO_MEMORY;
        }
        LIST_INSERT_HEAD(&health->services, s, link);
    }
    s->is_serving = is_serving;
    LIST_FOREACH(w, &health->watchers, link)
    {
        if (strcmp(w->name, service) == 0) {
            tell_watcher(health, w);
        }
    }
    return RC_OK;
}

void rpc_health_free(struct rpc_health *health)
{
    struct service *s;

    if (!health) {
        return;
    }
    while ((s = LIST_FIRST(&health->services)) != NULL) {
        LIST_REMOVE(s, link);
        free(s->name);
        free(s);
    }
    free(health);
}
