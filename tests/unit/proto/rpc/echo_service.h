/*
 * echo_service - a server's methods that do what the rpc tests ask for, in plain bytes.
 *
 *   /test.Echo/Unary    the request back; "hang" never answers; "fail" ends with a full
 *                       error; "who" answers the peer's name; "auth" the authorization
 *                       header; "left" the milliseconds that are left
 *   /test.Echo/Stream   "COUNT SIZE": COUNT messages of SIZE bytes, numbered in their
 *                       first 4 bytes, as fast as the peer reads them
 *   /test.Echo/Collect  messages until the half-close; answers "COUNT BYTES"
 *   /test.Echo/Bidi     each message back, reading no faster than it can send
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/rpc/rpc_server.h"

/* What the methods saw; zero-initialise, keep while the server lives. */
struct echo {
    unsigned opened;
    unsigned closed;
    unsigned cancelled; /* of those closed */
    unsigned half_closed;
    uint32_t produced; /* messages that Stream queued */
    size_t max_queued; /* bytes, over all calls */
    struct rpc_call *last;
};

enum rc echo_add(struct rpc_server *server, struct echo *echo, struct err *err);
