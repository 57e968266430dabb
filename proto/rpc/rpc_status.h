/*
 * rpc_status - how a call ends: gRPC's code, a sentence, and details that programs
 * read.
 *
 * The one table between `enum rc` and gRPC status codes is in rpc_status.c.  An error's
 * field, rule and exact rc travel in the standard trailer grpc-status-details-bin as a
 * google.rpc.Status with BadRequest (field, rule, sentence) and ErrorInfo (domain
 * "xgw", reason = rc_name), so any gRPC client can read them.  Values only; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* The codes of gRPC, doc/statuscodes.md, with their numbers. */
enum rpc_code {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16,
};

/* What on_closed and on_done receive.  Pointers are valid for the callback only. */
struct rpc_status {
    enum rpc_code code;
    const char *message;    /* "" if none */
    const uint8_t *details; /* grpc-status-details-bin as received; null if none */
    size_t details_len;
};

/* "INVALID_ARGUMENT", …; "CODE_99" style is never returned: unknown gives "UNKNOWN". */
const char *rpc_code_name(enum rpc_code code);

enum rpc_code rpc_code_of_rc(enum rc rc);
enum rc rpc_rc_of_code(enum rpc_code code);

/* Encodes `err` as google.rpc.Status into `to`; returns its length, or 0 when `size` is
 * too small or the err is RC_OK.  RPC_DETAILS_MAX bytes are always enough. */
#define RPC_DETAILS_MAX 1536
size_t rpc_details_encode(const struct err *err, uint8_t *to, size_t size);

/* Turns how a call ended into an err: code, sentence, and field and rule if the details
 * carry them.  Details that do not parse are ignored.  Returns the rc; RC_OK for OK. */
enum rc rpc_status_to_err(const struct rpc_status *status, struct err *err);
