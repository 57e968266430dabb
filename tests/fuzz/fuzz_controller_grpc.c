/* Messages of the controller's gRPC API, by the first byte: as in a call, unpacked into
 * an arena, made a command, its batch checked. */
#include "controller/api/grpc_command.h"
#include "proto/rpc/rpc_pb.h"
#include "tests/fuzz/fuzz.h"

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &xgw__controller__v1__import_request__descriptor,
    &xgw__controller__v1__apply_request__descriptor,
    &xgw__controller__v1__watch_request__descriptor,
    &xgw__controller__v1__get_import_request__descriptor,
};

static void check(enum rc rc, const struct command *command, const struct err *err)
{
    struct err why = { 0 };
    uint32_t count;
    uint32_t index = UINT32_MAX;

    if (rc != RC_OK) {
        FUZZ_CLAIM(err->code == rc && err->msg[0] && err->rule[0]);
        FUZZ_CLAIM(!command->entries.ops);
        return;
    }
    FUZZ_CLAIM(command->kind == COMMAND_ENTRIES && command->entries.ops->len > 0);
    FUZZ_CLAIM(memchr(command->request_id, 0, sizeof(command->request_id)));
    if (batch_check(command->entries.ops->data, command->entries.ops->len, false,
                    &count, &index, &why) != RC_OK) {
        FUZZ_CLAIM(why.code != RC_OK && why.msg[0]);
    }
    blob_unref(command->entries.ops);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rpc_arena arena = { .limit = 8 << 20 };
    struct command command = { 0 };
    struct err err = { 0 };
    ProtobufCMessage *msg = NULL;

    if (size == 0) {
        return 0;
    }
    if (rpc_pb_unpack(&arena, descriptors[data[0] % 4], data + 1, size - 1, &msg,
                      &err) != RC_OK) {
        FUZZ_CLAIM(err.code != RC_OK && err.msg[0]);
    } else if (data[0] % 4 == 0) {
        const Xgw__Controller__V1__ImportRequest *import = (const void *)msg;
        enum rc rc = grpc_command_of_import(import, &command, &err);

        check(rc, &command, &err);
    } else if (data[0] % 4 == 1) {
        const Xgw__Controller__V1__ApplyRequest *apply = (const void *)msg;
        enum rc rc = grpc_command_of_apply(apply, &command, &err);

        check(rc, &command, &err);
    }
    rpc_arena_reset(&arena);
    return 0;
}
