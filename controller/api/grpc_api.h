/*
 * grpc_api - the service xgw.controller.v1.Controller (proto/api/controller.proto):
 * imports, applies, watches and status over gRPC.
 *
 * A handler turns a message into a command and a reply into a message; it decides
 * nothing else.  The loop's thread.
 */
#pragma once

#include "controller/api/auth.h"
#include "controller/shell.h"
#include "proto/rpc/rpc_server.h"

struct grpc_api;

/* Adds the methods to a server that has not started.  Borrows all until it is freed. */
enum rc grpc_api_new(struct rpc_server *server, struct shell *shell,
                     const struct auth *auth, struct grpc_api **ret, struct err *err);
/* After the server has stopped. */
void grpc_api_free(struct grpc_api *a);
