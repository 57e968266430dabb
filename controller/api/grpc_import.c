/* Import: a stream of batches, answered in order.  At most IMPORT_IN_FLIGHT are in the
 * core at once; beyond that reading is paused, which the client feels as its queue
 * filling up. */
#include "controller/api/grpc_api_internal.h"

#include "controller/api/grpc_command.h"

#include <stdlib.h>
#include <string.h>

#define IMPORT_IN_FLIGHT 16

struct import {
    struct rpc_call *call; /* null once it is closed */
    struct grpc_api *api;
    uint32_t in_flight;
    bool is_over;     /* no more batches are taken */
    bool is_finished; /* the call was told its end: nothing is sent any more */
    struct err end;   /* why it is over, told once nothing is in flight */
    char who[AUTH_NAME_MAX + 1];
};

/* One batch in the core. */
struct import_batch {
    struct import *import;
    uint64_t next_line;
};

static void import_drop(struct import *im)
{
    if (!im->call && im->in_flight == 0) {
        free(im);
    }
}

static void send_reply(struct import *im, const struct core_reply *reply,
                       uint64_t next_line)
{
    Xgw__Controller__V1__ImportReply msg = XGW__CONTROLLER__V1__IMPORT_REPLY__INIT;

    msg.revision = reply->revision;
    msg.next_line = next_line;
    msg.added = reply->counts.added;
    msg.changed = reply->counts.changed;
    msg.deleted = reply->counts.deleted;
    msg.unchanged = reply->counts.unchanged;
    msg.code = (uint32_t)reply->err.code;
    msg.error = (char *)reply->err.msg;
    msg.field = (char *)reply->err.field;
    msg.rule = (char *)reply->err.rule;
    msg.bad_index = reply->bad_index;
    if (rpc_pb_send(im->call, &msg.base) != RC_OK) {
        rpc_call_cancel(im->call, RPC_RESOURCE_EXHAUSTED, "answers are not read");
    }
}

/* The end, once each batch before it has its answer. */
static void finish_if_done(struct import *im)
{
    if (im->call && im->is_over && im->in_flight == 0 && !im->is_finished) {
        im->is_finished = true;
        rpc_call_finish_err(im->call, &im->end);
    }
}

static void on_reply(void *arg, const struct core_reply *reply)
{
    struct import_batch *b = arg;
    struct import *im = b->import;

    im->in_flight--;
    if (im->call && !im->is_finished) {
        send_reply(im, reply, b->next_line);
        if (reply->err.code != RC_OK) {
            /* The last answer: the core refuses what follows as a gap. */
            im->is_over = true;
            im->is_finished = true;
            rpc_call_finish(im->call, RPC_OK, NULL, NULL, 0);
        } else if (!im->is_over) {
            rpc_call_resume(im->call);
        }
    }
    finish_if_done(im);
    free(b);
    import_drop(im);
}

static void submit(struct import *im, const Xgw__Controller__V1__ImportRequest *request)
{
    struct command command = { 0 };
    struct import_batch *b = malloc(sizeof(*b));
    enum rc rc = b ? grpc_command_of_import(request, &command, &im->end)
                   : err_set(&im->end, RC_NO_MEMORY, "no memory");

    if (rc == RC_OK) {
        b->import = im;
        b->next_line = request->next_line;
        strcpy(command.who, im->who);
        if (++im->in_flight >= IMPORT_IN_FLIGHT) {
            rpc_call_pause(im->call);
        }
        rc = shell_command(im->api->shell, &command, on_reply, b);
        if (rc != RC_OK) {
            im->in_flight--;
            err_set(&im->end, rc, "too many requests are waiting: try again");
        }
    }
    if (rc != RC_OK) {
        free(b);
        im->is_over = true;
        finish_if_done(im);
    }
    blob_unref(command.entries.ops);
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct grpc_api *a = grpc_api_of(call);
    struct import *im = rpc_call_data(call);
    const Xgw__Controller__V1__ImportRequest *request;

    if (!im || im->is_over) {
        return;
    }
    request = GRPC_TAKE(Xgw__Controller__V1__ImportRequest, call,
                        xgw__controller__v1__import_request__descriptor, msg);
    if (request) {
        submit(im, request);
    } else { /* rpc_pb_take() has ended the call */
        im->is_over = true;
        im->is_finished = true;
    }
    rpc_arena_reset(&a->arena);
}

static void on_open(struct rpc_call *call)
{
    struct import *im = NULL;
    char who[AUTH_NAME_MAX + 1];

    rpc_call_set_data(call, NULL);
    if (!grpc_api_allow(call, ROLE_OPERATOR, who)) {
        return;
    }
    im = calloc(1, sizeof(*im));
    if (!im) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory", NULL, 0);
        return;
    }
    im->call = call;
    im->api = grpc_api_of(call);
    strcpy(im->who, who);
    rpc_call_set_data(call, im);
}

static void on_half_close(struct rpc_call *call)
{
    struct import *im = rpc_call_data(call);

    if (im) {
        im->is_over = true;
        finish_if_done(im);
    }
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct import *im = rpc_call_data(call);

    (void)status;
    if (im) {
        im->call = NULL; /* batches in the core go on: they were sent */
        im->is_over = true;
        import_drop(im);
    }
}

enum rc grpc_import_register(struct grpc_api *a, struct rpc_server *server,
                             struct err *err)
{
    struct rpc_method method = { .path = "/xgw.controller.v1.Controller/Import",
                                 .kind = RPC_BIDI,
                                 .ops = { .on_open = on_open,
                                          .on_message = on_message,
                                          .on_half_close = on_half_close,
                                          .on_closed = on_closed },
                                 .arg = a };

    return rpc_server_add(server, &method, err);
}
