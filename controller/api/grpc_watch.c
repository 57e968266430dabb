/* Watch: committed batches as they come.  A watcher that does not keep up is ended with
 * RESOURCE_EXHAUSTED and starts over from a read: nothing is skipped in silence. */
#include "controller/api/grpc_api_internal.h"

#include "controller/core/record.h"

#include <stdlib.h>

#define REPLY_OPS_FIELD 15

struct watch {
    struct watch *next;
    struct rpc_call *call;
    uint64_t from_revision;
};

static void send_event(struct watch *w, uint64_t revision, struct blob *ops)
{
    Xgw__Controller__V1__WatchReply reply = XGW__CONTROLLER__V1__WATCH_REPLY__INIT;

    reply.revision = revision;
    if (rpc_pb_send_blob(w->call, 0, &reply.base, REPLY_OPS_FIELD, ops) != RC_OK) {
        rpc_call_cancel(w->call, RPC_RESOURCE_EXHAUSTED,
                        "too slow: read again, then watch from there");
    }
}

void grpc_watch_event(void *ctx, const struct store_event *event)
{
    struct grpc_api *a = ctx;
    uint64_t seq;

    for (uint32_t i = 0; i < event->kv_count; i++) {
        /* Folded records are deleted: no change of the region. */
        if (!event->kvs[i].value || !record_is_journal(&event->kvs[i], &seq)) {
            continue;
        }
        for (struct watch *w = a->watches; w; w = w->next) {
            if (event->revision >= w->from_revision) {
                send_event(w, event->revision, event->kvs[i].value);
            }
        }
    }
}

/* History is not kept: a watch begins with what is committed from now on. */
static void start(struct rpc_call *call, uint64_t from_revision)
{
    struct grpc_api *a = grpc_api_of(call);
    uint64_t next = core_revision(shell_core(a->shell)) + 1;
    struct watch *w;

    if (from_revision > 0 && from_revision < next) {
        struct err err = { 0 };

        err_field(&err, RC_STALE, "from_revision", "compacted",
                  "revision %llu is past: read, then watch from %llu",
                  (unsigned long long)from_revision, (unsigned long long)next);
        rpc_call_finish_err(call, &err);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    w->call = call;
    w->from_revision = from_revision;
    w->next = a->watches;
    a->watches = w;
    rpc_call_set_data(call, w);
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct grpc_api *a = grpc_api_of(call);
    const Xgw__Controller__V1__WatchRequest *request;
    char who[AUTH_NAME_MAX + 1];

    rpc_call_set_data(call, NULL);
    if (!grpc_api_allow(call, ROLE_VIEWER, who)) {
        return;
    }
    request = GRPC_TAKE(Xgw__Controller__V1__WatchRequest, call,
                        xgw__controller__v1__watch_request__descriptor, msg);
    if (request) {
        start(call, request->from_revision);
    }
    rpc_arena_reset(&a->arena);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct grpc_api *a = grpc_api_of(call);

    (void)status;
    for (struct watch **at = &a->watches; *at; at = &(*at)->next) {
        if ((*at)->call == call) {
            struct watch *w = *at;

            *at = w->next;
            free(w);
            return;
        }
    }
}

enum rc grpc_watch_register(struct grpc_api *a, struct rpc_server *server,
                            struct err *err)
{
    struct rpc_method method = { .path = "/xgw.controller.v1.Controller/Watch",
                                 .kind = RPC_SERVER_STREAM,
                                 .ops = { .on_message = on_message,
                                          .on_closed = on_closed },
                                 .arg = a };

    return rpc_server_add(server, &method, err);
}
