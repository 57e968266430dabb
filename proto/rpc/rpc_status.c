#include "proto/rpc/rpc_status.h"

#include <stdio.h>
#include <string.h>

#include "proto/api/google_rpc.pb-c.h"
#include "proto/rpc/rpc_pb.h"

#define TYPE_BAD_REQUEST "type.googleapis.com/google.rpc.BadRequest"
#define TYPE_ERROR_INFO  "type.googleapis.com/google.rpc.ErrorInfo"

/* The one table.  Read forward it maps rc to code; backward, the first row with a code
 * wins (the details carry the exact rc between our own programs). */
static const struct {
    enum rc rc;
    enum rpc_code code;
} table[] = {
    { RC_OK, RPC_OK },
    { RC_INVALID, RPC_INVALID_ARGUMENT },
    { RC_RANGE, RPC_OUT_OF_RANGE },
    { RC_NOT_FOUND, RPC_NOT_FOUND },
    { RC_EXISTS, RPC_ALREADY_EXISTS },
    { RC_CONFLICT, RPC_FAILED_PRECONDITION },
    { RC_DENIED, RPC_PERMISSION_DENIED },
    { RC_FULL, RPC_RESOURCE_EXHAUSTED },
    { RC_STALE, RPC_ABORTED },
    { RC_UNREACHABLE, RPC_UNAVAILABLE },
    { RC_TIMEOUT, RPC_DEADLINE_EXCEEDED },
    { RC_NO_MEMORY, RPC_RESOURCE_EXHAUSTED },
    { RC_BUG, RPC_INTERNAL },
    { RC_DENIED, RPC_UNAUTHENTICATED },
    { RC_UNREACHABLE, RPC_CANCELLED },
    { RC_INVALID, RPC_UNIMPLEMENTED },
    { RC_BUG, RPC_DATA_LOSS },
    { RC_BUG, RPC_UNKNOWN },
};

enum { TABLE_ROWS = sizeof(table) / sizeof(table[0]) };

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

const char *rpc_code_name(enum rpc_code code)
{
    return (unsigned)code <= RPC_UNAUTHENTICATED ? code_names[code] : "UNKNOWN";
}

enum rpc_code rpc_code_of_rc(enum rc rc)
{
    for (int i = 0; i < TABLE_ROWS; i++) {
        if (table[i].rc == rc) {
            return table[i].code;
        }
    }
    return RPC_UNKNOWN;
}

enum rc rpc_rc_of_code(enum rpc_code code)
{
    for (int i = 0; i < TABLE_ROWS; i++) {
        if (table[i].code == code) {
            return table[i].rc;
        }
    }
    return RC_BUG;
}

/* protobuf-c's members are mutable strings; packing only reads them. */
static char *text(const char *s)
{
    return (char *)s;
}

static Google__Protobuf__Any pack_any(const char *type, const ProtobufCMessage *msg,
                                      uint8_t *to)
{
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;

    any.type_url = text(type);
    any.value.data = to;
    any.value.len = protobuf_c_message_pack(msg, to);
    return any;
}

size_t rpc_details_encode(const struct err *err, uint8_t *to, size_t size)
{
    Google__Rpc__BadRequest__FieldViolation violation =
        GOOGLE__RPC__BAD_REQUEST__FIELD_VIOLATION__INIT;
    Google__Rpc__BadRequest__FieldViolation *violations[] = { &violation };
    Google__Rpc__BadRequest bad = GOOGLE__RPC__BAD_REQUEST__INIT;
    Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
    Google__Protobuf__Any any[2];
    Google__Protobuf__Any *details[] = { &any[0], &any[1] };
    uint8_t bytes[2][RPC_DETAILS_MAX / 2];

    if (err->code == RC_OK) {
        return 0;
    }
    status.code = (int32_t)rpc_code_of_rc(err->code);
    status.message = text(err->msg);
    status.details = details;
    info.reason = text(rc_name(err->code));
    info.domain = text("xgw");
    any[status.n_details++] = pack_any(TYPE_ERROR_INFO, &info.base, bytes[0]);
    if (err->field[0] || err->rule[0]) {
        violation.field = text(err->field);
        violation.reason = text(err->rule);
        violation.description = text(err->msg);
        bad.n_field_violations = 1;
        bad.field_violations = violations;
        any[status.n_details++] = pack_any(TYPE_BAD_REQUEST, &bad.base, bytes[1]);
    }
    if (google__rpc__status__get_packed_size(&status) > size) {
        return 0;
    }
    return google__rpc__status__pack(&status, to);
}

static void read_info(struct rpc_arena *arena, const ProtobufCBinaryData *value,
                      struct err *err)
{
    ProtobufCMessage *msg = NULL;
    const Google__Rpc__ErrorInfo *info;

    if (rpc_pb_unpack(arena, &google__rpc__error_info__descriptor, value->data,
                      value->len, &msg, NULL) != RC_OK) {
        return;
    }
    info = (const Google__Rpc__ErrorInfo *)msg;
    for (int rc = RC_INVALID; rc <= RC_BUG && strcmp(info->domain, "xgw") == 0; rc++) {
        if (strcmp(info->reason, rc_name((enum rc)rc)) == 0) {
            err->code = (enum rc)rc;
        }
    }
}

static void read_violation(struct rpc_arena *arena, const ProtobufCBinaryData *value,
                           struct err *err)
{
    ProtobufCMessage *msg = NULL;
    const Google__Rpc__BadRequest *bad;

    if (rpc_pb_unpack(arena, &google__rpc__bad_request__descriptor, value->data,
                      value->len, &msg, NULL) != RC_OK) {
        return;
    }
    bad = (const Google__Rpc__BadRequest *)msg;
    if (bad->n_field_violations > 0) {
        snprintf(err->field, sizeof(err->field), "%s", bad->field_violations[0]->field);
        snprintf(err->rule, sizeof(err->rule), "%s", bad->field_violations[0]->reason);
    }
}

static void read_details(const struct rpc_status *status, struct err *err)
{
    struct rpc_arena arena = { .limit = 256u << 10 };
    ProtobufCMessage *msg = NULL;

    if (rpc_pb_unpack(&arena, &google__rpc__status__descriptor, status->details,
                      status->details_len, &msg, NULL) == RC_OK) {
        const Google__Rpc__Status *s = (const Google__Rpc__Status *)msg;

        for (size_t i = 0; i < s->n_details; i++) {
            if (strcmp(s->details[i]->type_url, TYPE_ERROR_INFO) == 0) {
                read_info(&arena, &s->details[i]->value, err);
            } else if (strcmp(s->details[i]->type_url, TYPE_BAD_REQUEST) == 0) {
                read_violation(&arena, &s->details[i]->value, err);
            }
        }
    }
    rpc_arena_fini(&arena);
}

enum rc rpc_status_to_err(const struct rpc_status *status, struct err *err)
{
    struct err local = { 0 };

    err = err ? err : &local;
    if (status->code == RPC_OK) {
        *err = (struct err){ .code = RC_OK };
        return RC_OK;
    }
    err_set(err, rpc_rc_of_code(status->code), "%s",
            status->message && status->message[0] ? status->message
                                                  : rpc_code_name(status->code));
    if (status->details) {
        read_details(status, err);
    }
    return err->code;
}
