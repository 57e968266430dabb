#include "controller/api/grpc_command.h"

#include "proto/model/name.h"

#include <string.h>

static enum rc take_ops(const ProtobufCBinaryData *from, struct command *ret,
                        struct err *err)
{
    if (from->len > BATCH_MAX_BYTES) {
        return err_field(err, RC_RANGE, "ops", "batch_bytes",
                         "batch of %zu bytes: at most %u", from->len, BATCH_MAX_BYTES);
    }
    if (from->len == 0) {
        return err_field(err, RC_INVALID, "ops", "batch_size", "no entries");
    }
    ret->kind = COMMAND_ENTRIES;
    ret->entries.ops = blob_copy(from->data, (uint32_t)from->len);
    return ret->entries.ops ? RC_OK : err_set(err, RC_NO_MEMORY, "no memory");
}

enum rc grpc_command_of_apply(const Xgw__Controller__V1__ApplyRequest *request,
                              struct command *ret, struct err *err)
{
    const char *id = request->request_id;

    if (display_name_check(id, sizeof(ret->request_id) - 1, "request_id", err) !=
        RC_OK) {
        return err ? err->code : RC_INVALID;
    }
    if (request->wait_ms > GRPC_WAIT_MS_MAX) {
        return err_field(err, RC_RANGE, "wait_ms", "number_range",
                         "wait_ms: not a number from 0 to %d", GRPC_WAIT_MS_MAX);
    }
    strcpy(ret->request_id, id);
    ret->dry_run = request->dry_run;
    ret->confirm = request->confirm;
    ret->entries.create_only = request->create_only;
    return take_ops(&request->ops, ret, err);
}

enum rc grpc_command_of_import(const Xgw__Controller__V1__ImportRequest *request,
                               struct command *ret, struct err *err)
{
    static const uint8_t none[sizeof(ret->entries.import_digest)];

    if (request->input_digest.len != sizeof(none) ||
        memcmp(request->input_digest.data, none, sizeof(none)) == 0) {
        return err_field(err, RC_INVALID, "input_digest", "length",
                         "input_digest: 16 bytes, not all zero");
    }
    if (request->first_line == 0 || request->next_line <= request->first_line) {
        return err_field(err, RC_RANGE, "next_line", "line_order", "lines %llu to %llu",
                         (unsigned long long)request->first_line,
                         (unsigned long long)request->next_line);
    }
    ret->confirm = request->confirm;
    ret->entries.create_only = request->create_only;
    memcpy(ret->entries.import_digest, request->input_digest.data, sizeof(none));
    ret->entries.import_first_line = request->first_line;
    ret->entries.import_next_line = request->next_line;
    return take_ops(&request->ops, ret, err);
}
