/* What a writer may send to a gateway, as the control socket takes it: length (2 bytes)
 * and a ControlRequest, again and again.  A request that is refused changes nothing; a
 * read-back gives what the records hold; `applied` is what the last good write said. */
#include "agent/gateway/device.h"
#include "proto/api/gateway.pb-c.h"
#include "proto/rpc/rpc_pb.h"
#include "tests/fuzz/fuzz.h"

static enum rc bind_port(void *arg, const struct device_config *config,
                         struct fwd_port ports[UPLINKS_MAX], struct err *err)
{
    (void)arg;
    for (unsigned i = 0; i < config->uplink_count; i++) {
        if (strcmp(config->uplinks[i].port, "up0") != 0) {
            return err_field(err, RC_NOT_FOUND, "uplinks.port", "port_unknown", "none");
        }
        ports[i].number = 0;
    }
    return RC_OK;
}

static uint64_t sum_of(const struct table_set *s)
{
    struct tree_node root = { 0 };
    uint64_t sum = 0;

    for (int t = 0; t < TABLE_COUNT; t++) {
        sum += table_set_digest(s, (enum table_id)t, root).sum;
    }
    return sum;
}

static void check_read_back(const struct device *d)
{
    struct table_set *got = table_set_new();
    struct device_reading r;
    struct batch_writer w;
    bool has_more;

    device_reading_init(&r, 0, 0);
    batch_writer_init(&w);
    do {
        struct blob *b;

        has_more = device_read(d, &r, 7, 200, &w);
        b = batch_writer_finish(&w);
        FUZZ_CLAIM(b &&
                   table_set_apply(got, b->data, b->len, NULL, NULL, NULL) == RC_OK);
        blob_unref(b);
    } while (has_more);
    FUZZ_CLAIM(sum_of(got) == sum_of(d->records));
    batch_writer_fini(&w);
    device_reading_fini(&r);
    table_set_free(got);
}

static void do_write(struct device *d, const Xgw__Gateway__V1__Write *msg)
{
    struct device_write w = { .term = msg->term,
                              .revision = msg->revision,
                              .ready = msg->ready,
                              .ops = msg->ops.data,
                              .len = msg->ops.len };
    struct refusals refused = { 0 };
    struct err err = { 0 };
    uint64_t before = sum_of(d->records);
    uint64_t applied = d->applied;
    bool was_ready = atomic_load(&d->is_ready);

    if (device_write(d, &w, &refused, &err) != RC_OK) {
        FUZZ_CLAIM(err.msg[0] != '\0' && refused.count == 0);
        FUZZ_CLAIM(sum_of(d->records) == before && d->applied == applied);
        FUZZ_CLAIM(atomic_load(&d->is_ready) == was_ready);
    } else {
        FUZZ_CLAIM(d->applied == (w.revision ? w.revision : applied));
        FUZZ_CLAIM(!w.ready || atomic_load(&d->fwd));
        fib_reclaim(d->fib, UINT64_MAX);
    }
    refusals_fini(&refused);
}

static void do_configure(struct device *d, const Xgw__Gateway__V1__Configure *msg)
{
    struct fwd_config *before = atomic_load(&d->fwd);
    struct device_old old;
    struct err err = { 0 };

    if (device_configure(d, msg->term, msg->config.data, msg->config.len, bind_port,
                         NULL, &old, &err) != RC_OK) {
        FUZZ_CLAIM(err.msg[0] != '\0' && !old.fwd && atomic_load(&d->fwd) == before);
    } else {
        FUZZ_CLAIM(old.fwd == before &&
                   d->config_digest ==
                       device_config_bytes_digest(msg->config.data, msg->config.len));
        device_old_fini(&old);
    }
}

static void take(struct device *d, struct rpc_arena *arena, const uint8_t *data,
                 size_t len)
{
    const Xgw__Gateway__V1__ControlRequest *request;
    ProtobufCMessage *base;

    if (rpc_pb_unpack(arena, &xgw__gateway__v1__control_request__descriptor, data, len,
                      &base, NULL) != RC_OK) {
        return;
    }
    request = (const Xgw__Gateway__V1__ControlRequest *)base;
    if (request->m_case == XGW__GATEWAY__V1__CONTROL_REQUEST__M_WRITE) {
        do_write(d, request->write);
    } else if (request->m_case == XGW__GATEWAY__V1__CONTROL_REQUEST__M_CONFIGURE) {
        do_configure(d, request->configure);
    }
}

static void run(uint8_t kind, const uint8_t *data, size_t size)
{
    struct fib_limits limits = { .max_routes = 100,
                                 .max_vm_nc = 100,
                                 .max_vnis = 50,
                                 .memory_bytes = 1u << 22,
                                 .seed = 1 };
    struct rpc_arena arena = { 0 };
    struct device d;

    FUZZ_CLAIM(device_init(&d, kind, &limits, 1, NULL) == RC_OK);
    while (size >= 2) {
        size_t len = (size_t)data[0] << 8 | data[1];

        len = len < size - 2 ? len : size - 2;
        take(&d, &arena, data + 2, len);
        rpc_arena_reset(&arena);
        data += 2 + len;
        size -= 2 + len;
    }
    check_read_back(&d);
    rpc_arena_fini(&arena);
    device_fini(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(DEVICE_X86, data, size);
    run(DEVICE_LB, data, size);
    return 0;
}
