/* What a peer puts into grpc-status-details-bin never hurts, and a found field lies
 * inside the message. */
#include "proto/rpc/rpc_pb.h"
#include "proto/rpc/rpc_status.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rpc_status status = { RPC_NOT_FOUND, "gone", data, size };
    const uint8_t *at = NULL;
    struct err err = { 0 };
    size_t len = 0;

    FUZZ_CLAIM(rpc_status_to_err(&status, &err) != RC_OK && err.msg[0]);
    if (rpc_pb_find(data, size, 3, &at, &len) == RC_OK) {
        FUZZ_CLAIM(at >= data && len <= size && at + len <= data + size);
    }
    return 0;
}
