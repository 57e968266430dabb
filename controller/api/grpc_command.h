/*
 * grpc_command - requests of the gRPC API as commands of the core.
 *
 * Checks what a message alone can get wrong; the entries are the core's to check.  No
 * calls, no sockets.  Any thread.
 */
#pragma once

#include "controller/core/core.h"
#include "proto/api/controller.pb-c.h"

#define GRPC_WAIT_MS     30000 /* default of wait_ms */
#define GRPC_WAIT_MS_MAX 600000

/* Fill a command; `command->entries.ops` is then a reference to give back.  RC_INVALID
 * or RC_RANGE with field and rule, RC_NO_MEMORY; ops is then null. */
enum rc grpc_command_of_apply(const Xgw__Controller__V1__ApplyRequest *request,
                              struct command *ret, struct err *err);
enum rc grpc_command_of_import(const Xgw__Controller__V1__ImportRequest *request,
                               struct command *ret, struct err *err);
