/*
 * rpc_health - the standard service grpc.health.v1.Health (Check and Watch).
 *
 * Register it on a server, then say how each service is; "" is the server as a whole.
 * The loop's thread.
 */
#pragma once

#include <stdbool.h>

#include "proto/base/err.h"
#include "proto/rpc/rpc_server.h"

struct rpc_health;

/* Adds both methods to a server that has not started.  "" starts as not serving.  Gives
 * `*ret_health`, to be freed after the server has stopped. */
enum rc rpc_health_new(struct rpc_server *server, struct rpc_health **ret_health,
                       struct err *err);

/* Sets or adds a service and tells those who watch it.  `service` is copied. */
enum rc rpc_health_set(struct rpc_health *health, const char *service, bool is_serving);

void rpc_health_free(struct rpc_health *health);
