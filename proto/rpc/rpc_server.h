/*
 * rpc_server - methods by path, on any number of addresses.
 *
 *   rpc_server_new → rpc_server_add for each method → rpc_server_listen → start
 *   … → rpc_server_stop (or rpc_loop_free, which stops without grace)
 *
 * A path that nobody registered ends with UNIMPLEMENTED.  All on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/rpc/rpc_call.h"
#include "proto/rpc/rpc_loop.h"
#include "proto/rpc/rpc_tls.h"

struct rpc_server;

enum rpc_kind {
    RPC_UNARY,         /* one on_message, then rpc_call_reply() or finish */
    RPC_SERVER_STREAM, /* one on_message, then any number of sends, then finish */
    RPC_CLIENT_STREAM, /* messages until on_half_close, then rpc_call_reply() or finish
                        */
    RPC_BIDI,          /* both at once */
};

struct rpc_method {
    const char *path; /* "/package.Service/Method"; copied */
    enum rpc_kind kind;
    struct rpc_call_ops ops; /* copied */
    void *arg;               /* kept until the server has stopped: rpc_call_arg() */
};

/* Zero in a number means its default. */
struct rpc_server_options {
    uint32_t max_message_bytes;    /* received; 16 MiB.  Bigger: RESOURCE_EXHAUSTED */
    uint32_t max_queue_bytes;      /* unsent, per call; 4 MiB */
    uint32_t max_calls;            /* at once; 4096.  Beyond: RESOURCE_EXHAUSTED */
    uint32_t keepalive_ms;         /* 1000: how long a quiet peer is left unasked */
    uint32_t keepalive_timeout_ms; /* 1000: then it is gone */
    uint32_t unix_mode;            /* of Unix sockets; 0600 */
};

/* `options` may be null and is not kept.  Gives `*ret_server`, which ends by
 * rpc_server_stop(). */
enum rc rpc_server_new(struct rpc_loop *loop, const struct rpc_server_options *options,
                       struct rpc_server **ret_server, struct err *err);

/* Before start.  RC_EXISTS when the path is taken. */
enum rc rpc_server_add(struct rpc_server *server, const struct rpc_method *method,
                       struct err *err);

/* Before start.  `address`: "127.0.0.1:0", "[::1]:8443", "unix:/run/xgw/gw.sock".
 * `tls` null means plain text, for Unix sockets and tests.  `ret_port` may be null.
 * RC_EXISTS when another process listens there (a socket file nobody answers on is
 * replaced). */
enum rc rpc_server_listen(struct rpc_server *server, const char *address,
                          const struct rpc_tls *tls, uint16_t *ret_port,
                          struct err *err);

enum rc rpc_server_start(struct rpc_server *server, struct err *err);

/* Refuses new calls at once; cancels those that still run after `grace_ms`; then frees
 * the server and calls `on_stopped` (may be null).  The pointer is void from now on for
 * everything but calls that still run. */
void rpc_server_stop(struct rpc_server *server, uint32_t grace_ms,
                     void (*on_stopped)(void *arg), void *arg);
