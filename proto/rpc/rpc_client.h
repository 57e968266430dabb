/*
 * rpc_client - channels to a server, and calls on them.
 *
 * A channel connects when a call needs it and reconnects by itself: a call while there
 * is no connection fails at once with UNAVAILABLE, or waits with `wait_for_ready`.  All
 * on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/rpc/rpc_call.h"
#include "proto/rpc/rpc_loop.h"
#include "proto/rpc/rpc_tls.h"

struct rpc_channel;

/* Zero in a number means its default. */
struct rpc_channel_options {
    const char *address;       /* "host:port", "[::1]:8443", "unix:/path"; not kept */
    const struct rpc_tls *tls; /* null: plain text */
    const char *tls_name; /* name the certificate must carry; null: the address's */
    uint32_t max_message_bytes;    /* received; 16 MiB */
    uint32_t max_metadata_bytes;   /* received, with the status details; 16 KiB */
    uint32_t max_queue_bytes;      /* unsent, per call; 4 MiB */
    uint32_t keepalive_ms;         /* 1000 */
    uint32_t keepalive_timeout_ms; /* 1000 */
    uint32_t backoff_ms;           /* first pause between connection attempts; 100 */
    uint32_t max_backoff_ms;       /* 1000 */
};

struct rpc_header {
    const char *name; /* lower case; "-bin" at its end for binary values */
    const char *value;
};

/* Does not wait for a connection.  Gives `*ret_channel`. */
enum rc rpc_channel_new(struct rpc_loop *loop,
                        const struct rpc_channel_options *options,
                        struct rpc_channel **ret_channel, struct err *err);

/* Cancels the channel's calls, whose on_closed or on_done follow from the loop.  Null
 * is fine. */
void rpc_channel_free(struct rpc_channel *channel);

struct rpc_call_options {
    uint32_t deadline_ms;             /* from now; 0: none */
    bool wait_for_ready;              /* wait for a connection instead of failing */
    bool paused;                      /* starts as after rpc_call_pause() */
    const struct rpc_header *headers; /* copied */
    size_t header_count;
};

/* Opens a streaming call of any kind.  `ops` is copied; `arg` is what rpc_call_arg()
 * and, at first, rpc_call_data() answer.  Gives `*ret_call`, valid until on_closed
 * returned.  `options` may be null. */
enum rc rpc_stream(struct rpc_channel *channel, const char *path,
                   const struct rpc_call_options *options,
                   const struct rpc_call_ops *ops, void *arg,
                   struct rpc_call **ret_call);

/* The one answer of a unary call: `reply` is null unless the status is OK. */
typedef void rpc_done_fn(const struct rpc_status *status, const struct rpc_msg *reply,
                         void *arg);

/* A unary call.  `on_done` comes exactly once, from the loop, unless this fails.
 * `ret_call` (may be null) serves to cancel it, until on_done was called. */
enum rc rpc_unary(struct rpc_channel *channel, const char *path,
                  const struct rpc_part *parts, size_t count,
                  const struct rpc_call_options *options, rpc_done_fn *on_done,
                  void *arg, struct rpc_call **ret_call);
