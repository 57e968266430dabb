/*
 * driver_gateway - the driver of xgw-gateway, over its Unix socket.
 *
 * One Control stream is the writer; reads and counters are calls of their own, so a
 * read-back of millions of rows does not stand in the way of a write.  It redials by
 * itself every GATEWAY_REDIAL_MS while the gateway is away.  The loop's thread.
 */
#pragma once

#include "agent/driver/driver.h"
#include "proto/rpc/rpc_loop.h"

#define GATEWAY_REDIAL_MS 100

/* `address` is "unix:/run/xgw/gateway.sock"; it is copied.  `events` and `ctx` are kept
 * until close.  Nothing happens before open().  Gives `*ret`, to be ended with
 * cls->close(). */
enum rc driver_gateway_new(struct rpc_loop *loop, const char *address,
                           const struct driver_events *events, void *ctx,
                           struct driver **ret, struct err *err);
