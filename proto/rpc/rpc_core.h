/*
 * rpc_core - what the files of proto/rpc share among themselves.  Nobody else includes
 * it: gRPC's own headers end here.
 *
 * A finished operation travels thread → list → eventfd → loop.  Its `done` only
 * records what happened and marks the call ready; rpc_call_step() alone runs the
 * owner's callbacks and posts operations.  So there is one place where things happen
 * to a call, and it is never re-entered.
 */
#pragma once

#include <event2/event.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "proto/base/err.h"
#include "proto/rpc/rpc_call.h"
#include "proto/rpc/rpc_client.h"
#include "proto/rpc/rpc_loop.h"
#include "proto/rpc/rpc_server.h"

/* One gRPC tag.  Embedded in what it belongs to; at most one operation at a time. */
struct rpc_op {
    void (*done)(struct rpc_op *op, bool ok); /* loop thread */
    void (*arrived)(struct rpc_op *op); /* before it, gRPC's thread; may be null */
    struct rpc_op *next;
    bool ok;
    bool is_pending; /* between posting and `done` */
};

TAILQ_HEAD(rpc_call_list, rpc_call);
LIST_HEAD(rpc_server_list, rpc_server);
LIST_HEAD(rpc_channel_list, rpc_channel);

struct rpc_loop {
    struct event_base *base; /* borrowed */
    grpc_completion_queue *cq;
    pthread_t thread;
    int efd;
    struct event *wake; /* efd is readable */
    struct event *kick; /* calls are ready */
    struct rpc_call_list ready;
    struct rpc_server_list servers;
    struct rpc_channel_list channels;

    pthread_mutex_t lock; /* of the two below, shared with `thread` */
    struct rpc_op *head;
    struct rpc_op **tail;
};

/* Marks `op` as posted; its address is the tag to give to gRPC. */
void *rpc_op_post(struct rpc_op *op);

/* Posts a batch.  False (and a log line) when gRPC refuses it, which is our own
 * mistake; `op` is then not pending. */
bool rpc_op_batch(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_op *op);

/* A queued message; the head of the queue may be in gRPC's hands. */
struct rpc_out {
    STAILQ_ENTRY(rpc_out) link;
    grpc_byte_buffer *bytes;
    size_t len;
};

struct rpc_call {
    struct rpc_loop *loop;
    struct rpc_server *server;   /* null: a client's call */
    struct rpc_channel *channel; /* null: a server's call */
    grpc_call *call;
    enum rpc_kind kind;
    struct rpc_call_ops ops;
    rpc_done_fn *done; /* client's unary call: instead of `ops` */
    void *arg;
    void *data;
    gpr_timespec deadline;
    TAILQ_ENTRY(rpc_call) in_ready;
    TAILQ_ENTRY(rpc_call) in_owner; /* server's or channel's list */
    bool is_ready;                  /* in the loop's list */

    /* sending */
    struct rpc_op send_op;
    STAILQ_HEAD(, rpc_out) queue;
    size_t queued_bytes;
    size_t max_queue_bytes;
    bool wants_writable;    /* the owner was told that there is no room */
    bool initial_posted;    /* our initial metadata */
    bool message_in_flight; /* send_op carries the queue's head */
    bool wants_end;         /* finish or close_send was called */
    bool end_posted;
    bool is_send_broken; /* an operation failed: the end is near */
    bool is_cancelled;   /* by us */
    uint32_t initial_flags;
    grpc_metadata *headers; /* client: ours */
    size_t header_count;
    enum rpc_code code; /* server: to be sent */
    grpc_slice message; /* server: to be sent */
    grpc_slice details; /* server: to be sent as a trailer, if not empty */
    grpc_metadata trailer;

    /* receiving */
    struct rpc_op recv_op;
    grpc_byte_buffer *recv_bytes; /* written by gRPC */
    grpc_byte_buffer *inbox;      /* arrived, not yet shown */
    bool is_paused;
    bool recv_done;      /* nothing more to read */
    bool half_close_due; /* on_half_close is to be called */
    struct event *doubt; /* … after a while */
    bool is_opened;      /* on_open was called */

    /* the peer's side */
    struct rpc_op initial_op; /* client */
    grpc_metadata_array initial;
    bool initial_ok;
    struct rpc_op close_op; /* server: RECV_CLOSE; client: RECV_STATUS */
    bool close_done;
    int was_cancelled;            /* server */
    grpc_metadata_array metadata; /* server: request's; client: trailing */
    grpc_status_code peer_code;   /* client */
    grpc_slice peer_message;      /* client */
    grpc_byte_buffer *reply;      /* client's unary call */

    char peer_name[128];
    char *metadata_value; /* last answer of rpc_call_metadata() */
};

/* A call with everything empty.  Takes `call`; null when memory is out, and then
 * `call` is still the caller's. */
struct rpc_call *rpc_call_new(struct rpc_loop *loop, grpc_call *call);

/* Puts the call among those that rpc_call_step() will look at. */
void rpc_call_mark(struct rpc_call *call);

/* Runs due callbacks, posts what can be posted, and frees the call at its end. */
void rpc_call_step(struct rpc_call *call);

/* Server: posts RECV_CLOSE.  Client: posts the receipt of metadata and status. */
void rpc_call_start(struct rpc_call *call);

/* Frees a call that was never started. */
void rpc_call_drop(struct rpc_call *call);

/* A call is about to be freed; then, a call was freed: its owner may have been waiting
 * for that, and may be gone afterwards. */
void rpc_server_forget(struct rpc_server *server, struct rpc_call *call);
void rpc_server_settle(struct rpc_server *server);
void rpc_channel_forget(struct rpc_channel *channel, struct rpc_call *call);
void rpc_channel_settle(struct rpc_channel *channel);

/* For rpc_loop_free(): stops at once, or hurries a stop that is under way. */
void rpc_server_kill(struct rpc_server *server);
struct rpc_server *rpc_server_next(struct rpc_server *server);
struct rpc_channel *rpc_channel_first_open(struct rpc_loop *loop);

/* Messages between gRPC and us. */
void rpc_bytes_add(grpc_byte_buffer *bytes, const struct rpc_part *part);
grpc_byte_buffer *rpc_bytes_of_parts(const struct rpc_part *parts, size_t count);

/* rpc_call_send() of a ready-made message, which is taken, also on failure. */
enum rc rpc_call_queue(struct rpc_call *call, grpc_byte_buffer *bytes);

bool rpc_call_takes_messages(const struct rpc_call *call);

/* A copy with a final zero, to be freed; null when memory is out. */
char *rpc_text_of_slice(grpc_slice slice);

/* `bytes` as a contiguous message; the blob in it, if any, is the caller's to release.
 * False when memory is out. */
bool rpc_msg_of_bytes(grpc_byte_buffer *bytes, struct rpc_msg *ret_msg);

/* rpc_unary() with a ready-made request, which is taken, also on failure. */
enum rc rpc_unary_bytes(struct rpc_channel *channel, const char *path,
                        grpc_byte_buffer *request,
                        const struct rpc_call_options *options, rpc_done_fn *on_done,
                        void *arg, struct rpc_call **ret_call);

/* Channel arguments, collected. */
struct rpc_args {
    grpc_arg list[24];
    size_t count;
};
void rpc_args_int(struct rpc_args *args, const char *key, int value);
void rpc_args_text(struct rpc_args *args, const char *key, const char *value);

/* What both ends need: sizes, keepalive, no compression. */
void rpc_args_common(struct rpc_args *args, uint32_t max_message_bytes,
                     uint32_t keepalive_ms, uint32_t keepalive_timeout_ms);

#define RPC_MAX_MESSAGE_BYTES  (16u << 20)
#define RPC_MAX_QUEUE_BYTES    (4u << 20)
#define RPC_MAX_METADATA_BYTES (16u << 10)

/* Credentials; null `tls` gives plain text. */
enum rc rpc_tls_server(const struct rpc_tls *tls, grpc_server_credentials **ret,
                       struct err *err);
enum rc rpc_tls_client(const struct rpc_tls *tls, grpc_channel_credentials **ret,
                       struct err *err);
