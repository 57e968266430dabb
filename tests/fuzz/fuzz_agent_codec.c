/* A session message of either side that is taken survives writing and reading again
 * unchanged, and nothing in it is out of bounds.  The first byte chooses the side. */
#include "proto/rpc/agent_codec.h"
#include "tests/fuzz/fuzz.h"

static void encode_ctl(const struct ctl_msg *m, struct buf *to)
{
    struct blob *tail;

    FUZZ_CLAIM(ctl_msg_encode(m, to, &tail) == RC_OK);
    if (tail) {
        buf_add(to, tail->data, tail->len);
    }
}

static void check_ctl(const uint8_t *data, size_t size)
{
    struct buf once = BUF_INIT;
    struct buf twice = BUF_INIT;
    struct err err = { 0 };
    struct ctl_msg m;
    struct ctl_msg again;

    if (ctl_msg_decode(data, size, &m, &err) != RC_OK) {
        FUZZ_CLAIM(err.code == RC_INVALID && err.msg[0] && err.field[0]);
        return;
    }
    for (uint32_t i = 0; m.kind == CTL_QUERY && i < m.query.item_count; i++) {
        FUZZ_CLAIM(query_item_is_valid(&m.query.items[i]));
    }
    encode_ctl(&m, &once);
    FUZZ_CLAIM(ctl_msg_decode(once.data, once.len, &again, &err) == RC_OK);
    encode_ctl(&again, &twice);
    FUZZ_CLAIM(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    ctl_msg_fini(&m);
    ctl_msg_fini(&again);
    buf_fini(&once);
    buf_fini(&twice);
}

static void check_agent(const uint8_t *data, size_t size)
{
    struct buf once = BUF_INIT;
    struct buf twice = BUF_INIT;
    struct err err = { 0 };
    struct agent_msg m;
    struct agent_msg again;

    if (agent_msg_decode(data, size, &m, &err) != RC_OK) {
        FUZZ_CLAIM(err.code == RC_INVALID && err.msg[0] && err.field[0]);
        return;
    }
    FUZZ_CLAIM(agent_msg_encode(&m, &once) == RC_OK);
    FUZZ_CLAIM(agent_msg_decode(once.data, once.len, &again, &err) == RC_OK);
    FUZZ_CLAIM(agent_msg_encode(&again, &twice) == RC_OK);
    FUZZ_CLAIM(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    agent_msg_fini(&m);
    agent_msg_fini(&again);
    buf_fini(&once);
    buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (data[0] & 1) {
        check_ctl(data + 1, size - 1);
    } else {
        check_agent(data + 1, size - 1);
    }
    return 0;
}
