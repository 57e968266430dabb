/*
 * rpc_call - one call, at either end of it.
 *
 * A server's call comes to on_open from a registered method (rpc_server.h); a client's
 * is made by rpc_client.h.  From there both are driven alike:
 *
 *   sending     rpc_call_send() queues a message.  The queue is bounded: beyond
 *               max_queue_bytes it answers RC_FULL, and on_writable comes once the
 *               queue has drained to half of the bound.  A peer that does not read is
 *               felt here.
 *   receiving   on_message for each message, one at a time.  rpc_call_pause() stops
 *               reading, which the peer feels as its queue filling up;
 *               rpc_call_resume() goes on.
 *   ending      on_closed comes exactly once, last, and the call is freed when it
 *               returns.  After that the pointer is dead: forget it there.
 *
 * Everything on the loop's thread (rpc_loop.h), but for on_arrival.  No callback runs
 * inside these calls.
 *
 * Mistakes people make: keeping `msg->data` after on_message returned (use
 * rpc_msg_blob()); sending in a loop without looking at RC_FULL; waiting for on_closed
 * on the server without having called rpc_call_finish().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/blob.h"
#include "proto/base/err.h"
#include "proto/rpc/rpc_status.h"

struct rpc_call;

/* A received message; contiguous; lent for the duration of on_message. */
struct rpc_msg {
    const uint8_t *data; /* never null, even when len is 0 */
    size_t len;
    struct blob *blob; /* holds `data`, or null: use rpc_msg_blob() */
};

/* The message as a blob of its own, to be kept: a reference where possible, else a
 * copy.  Gives one reference; null when memory is out. */
struct blob *rpc_msg_blob(const struct rpc_msg *msg);

/* All members may be null. */
struct rpc_call_ops {
    /* Server: a call came in; metadata, peer and deadline can be read.  Client: the
     * peer's first answer (its initial metadata) arrived.  A call that is refused may
     * also show this, with on_closed right behind it. */
    void (*on_open)(struct rpc_call *call);
    void (*on_message)(struct rpc_call *call, const struct rpc_msg *msg);
    /* A message arrived, which on_message will show (unless the call ends first); the
     * next one is not listened for before it does.  The one callback that is not on the
     * loop's thread but on gRPC's, at once, however busy the loop is: it may look at
     * rpc_call_data() and at nothing else of the call. */
    void (*on_arrival)(struct rpc_call *call);
    /* Server: the peer sends no more messages.  Not called on cancel (told apart by
     * waiting 20 ms for one; where it must be certain that a stream was complete, let a
     * message say so), and not for unary and server-stream methods, whose one request
     * is all there is. */
    void (*on_half_close)(struct rpc_call *call);
    /* The queue has room again after rpc_call_send() answered RC_FULL or
     * rpc_call_is_writable() answered false. */
    void (*on_writable)(struct rpc_call *call);
    /* The end.  While a client's call is paused, a good end waits behind the message
     * that is not shown yet; a bad end does not wait.  Client: the status that the
     * server sent, or gRPC's own (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, …).
     * Server: the status that was given to rpc_call_finish() if it was handed to the
     * transport, else CANCELLED: the peer cancelled, its deadline passed, or it is
     * gone. */
    void (*on_closed)(struct rpc_call *call, const struct rpc_status *status);
};

/* A piece of a message.  With `blob`, nothing is copied: the send holds a reference
 * until gRPC is done.  Without, `data` is copied at once. */
struct rpc_part {
    const void *data; /* with a blob: inside it, or null for all of it */
    size_t len;
    struct blob *blob; /* borrowed; a reference of our own is taken */
};

/* Queues one message made of the parts in order.  RC_FULL: the queue holds something
 * and would pass its bound (nothing was taken; on_writable will come).  RC_INVALID: the
 * call is finished, half-closed or closing; on_closed is on its way. */
enum rc rpc_call_send(struct rpc_call *call, const struct rpc_part *parts,
                      size_t count);

/* rpc_call_send() of one copied run of bytes. */
enum rc rpc_call_send_bytes(struct rpc_call *call, const void *bytes, size_t len);

/* Whether a message would be taken now.  False promises an on_writable. */
bool rpc_call_is_writable(struct rpc_call *call);
size_t rpc_call_queued_bytes(const struct rpc_call *call);

/* Stops and restarts on_message and on_half_close.  Neither is counted. */
void rpc_call_pause(struct rpc_call *call);
void rpc_call_resume(struct rpc_call *call);

/* Client: no more messages from us, once the queue has been sent. */
void rpc_call_close_send(struct rpc_call *call);

/* Server: ends the call with a status once the queue has been sent.  `message` may be
 * null; `details` (may be null) is copied.  A second finish is ignored. */
void rpc_call_finish(struct rpc_call *call, enum rpc_code code, const char *message,
                     const void *details, size_t details_len);

/* Server: ends the call as `err` says: code by the table in rpc_status.h, message, and
 * field and rule in the details.  RC_OK ends it well. */
void rpc_call_finish_err(struct rpc_call *call, const struct err *err);

/* Server, unary: one reply, and OK. */
enum rc rpc_call_reply(struct rpc_call *call, const struct rpc_part *parts,
                       size_t count);

/* Either end: drops the queue and ends the call now.  The peer sees `code` (a server's
 * peer may see RPC_CANCELLED instead); our on_closed follows from the loop. */
void rpc_call_cancel(struct rpc_call *call, enum rpc_code code, const char *message);

/* The owner's pointer: starts as the method's or the client's `arg`. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);

/* The `arg` of the method (server) or of the call's options (client), unchanged. */
void *rpc_call_arg(const struct rpc_call *call);

/* Server: the common name of the peer's verified certificate, "" if it has none. */
const char *rpc_call_peer_name(const struct rpc_call *call);

/* Server: the first value of a request header (lower-case name, "authorization"), or
 * null.  Client: of the trailing metadata, in on_closed only.  The value is cut at a
 * zero byte; use it for text.  Valid until the next call of this function. */
const char *rpc_call_metadata(struct rpc_call *call, const char *name);

/* Milliseconds until the deadline, 0 if it passed, -1 if there is none. */
int64_t rpc_call_ms_left(const struct rpc_call *call);
