/* grpc_api_internal - shared by grpc_api.c (unary calls), grpc_import.c, grpc_probes.c,
 * grpc_top.c, grpc_trace.c, grpc_watch.c. */
#pragma once

#include "controller/api/grpc_api.h"
#include "proto/api/controller.pb-c.h"
#include "proto/rpc/rpc_pb.h"

struct watch;

struct grpc_api {
    struct shell *shell;
    const struct auth *auth;
    struct rpc_arena arena;
    struct watch *watches;
};

/* The API of a call. */
struct grpc_api *grpc_api_of(struct rpc_call *call);

/* Checks the caller's token; finishes the call and returns false when its role is below
 * `least` or the controller still loads. */
bool grpc_api_allow(struct rpc_call *call, enum role least,
                    char who[AUTH_NAME_MAX + 1]);

/* The request in the API's arena, which the caller resets; null when the call was
 * finished with INVALID_ARGUMENT. */
#define GRPC_TAKE(type, call, descriptor, msg)                                         \
    ((const type *)rpc_pb_take((call), &grpc_api_of(call)->arena, &(descriptor), (msg)))

enum rc grpc_import_register(struct grpc_api *a, struct rpc_server *server,
                             struct err *err);
enum rc grpc_watch_register(struct grpc_api *a, struct rpc_server *server,
                            struct err *err);
enum rc grpc_top_register(struct grpc_api *a, struct rpc_server *server,
                          struct err *err);
enum rc grpc_probes_register(struct grpc_api *a, struct rpc_server *server,
                             struct err *err);
enum rc grpc_trace_register(struct grpc_api *a, struct rpc_server *server,
                            struct err *err);
void grpc_watch_event(void *ctx, const struct store_event *event);
