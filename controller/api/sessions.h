/*
 * sessions - the gRPC service that agents dial (proto/api/agent.proto).
 *
 * One call is one session.  Bytes become messages here; what they mean is the core's.
 * The device id is the common name of the client's certificate, or, without TLS (tests
 * on one machine), the one its HELLO names.  A reader that lags is felt as credit that
 * does not come back; the queue of one call is bounded by the window.  The loop's
 * thread.
 */
#pragma once

#include "controller/shell.h"
#include "proto/rpc/rpc_server.h"

struct sessions;

/* Adds the method to a server that has not started, and tells the shell where to send.
 * With `is_plain`, device ids are believed.  Both are borrowed until sessions_free().
 */
enum rc sessions_new(struct rpc_server *server, struct shell *shell, bool is_plain,
                     struct sessions **ret, struct err *err);
/* After the server has stopped. */
void sessions_free(struct sessions *s);

uint32_t sessions_count(const struct sessions *s);
