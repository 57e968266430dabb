/* Arbitration by the specification, and packets. */
#include "tests/unit/agent/driver/test_switch_impl.h"

#include <stdlib.h>
#include <string.h>

#include "proto/api/p4runtime.pb-c.h"
#include "proto/rpc/rpc_pb.h"

static int compare(uint64_t high, uint64_t low, uint64_t high2, uint64_t low2)
{
    return high != high2 ? (high < high2 ? -1 : 1) : low < low2 ? -1 : low > low2;
}

/* The live client with the highest id, if no higher one ever came. */
static struct peer *primary_of(const struct test_switch *s, unsigned device)
{
    const struct test_device *d = &s->impl->devices[device];
    struct peer *p;

    LIST_FOREACH(p, &s->impl->peers, next)
    {
        if (p->is_in && p->device == device &&
            compare(p->high, p->low, d->high, d->low) == 0) {
            return p;
        }
    }
    return NULL;
}

bool test_switch_is_primary(const struct test_switch *s, unsigned device, uint64_t high,
                            uint64_t low)
{
    const struct peer *p = primary_of(s, device);

    return p && p->high == high && p->low == low;
}

uint64_t test_switch_primary(const struct test_switch *s, unsigned device)
{
    const struct peer *p = primary_of(s, device);

    return p ? p->high : 0;
}

static void notify(const struct peer *p, const struct peer *primary)
{
    P4__V1__StreamMessageResponse m = P4__V1__STREAM_MESSAGE_RESPONSE__INIT;
    P4__V1__MasterArbitrationUpdate a = P4__V1__MASTER_ARBITRATION_UPDATE__INIT;
    P4__V1__Uint128 id = P4__V1__UINT128__INIT;
    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
    const struct test_device *d = &p->sw->impl->devices[p->device];

    id.high = d->high;
    id.low = d->low;
    status.code = p == primary ? RPC_OK : primary ? RPC_ALREADY_EXISTS : RPC_NOT_FOUND;
    a.device_id = p->device + 1;
    a.election_id = &id;
    a.status = &status;
    m.update_case = P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_ARBITRATION;
    m.arbitration = &a;
    rpc_pb_send(p->call, &m.base);
}

static void notify_all(const struct test_switch *s, unsigned device)
{
    const struct peer *primary = primary_of(s, device);
    struct peer *p;

    LIST_FOREACH(p, &s->impl->peers, next)
    {
        if (p->is_in && p->device == device) {
            notify(p, primary);
        }
    }
}

static void take_arbitration(struct peer *p, const P4__V1__MasterArbitrationUpdate *a)
{
    const struct peer *before;
    struct test_device *d;
    int device = test_device_of(a->device_id);
    struct peer *other;

    if (device < 0) {
        rpc_call_finish(p->call, RPC_NOT_FOUND, "no such device", NULL, 0);
        return;
    }
    LIST_FOREACH(other, &p->sw->impl->peers, next)
    {
        if (other != p && other->is_in && other->device == (unsigned)device &&
            a->election_id &&
            compare(other->high, other->low, a->election_id->high,
                    a->election_id->low) == 0) {
            rpc_call_finish(p->call, RPC_INVALID_ARGUMENT, "election id is taken", NULL,
                            0);
            return;
        }
    }
    before = primary_of(p->sw, (unsigned)device);
    d = &p->sw->impl->devices[device];
    p->device = (unsigned)device;
    p->is_in = true;
    p->high = a->election_id ? a->election_id->high : 0;
    p->low = a->election_id ? a->election_id->low : 0;
    if (compare(p->high, p->low, d->high, d->low) > 0) {
        d->high = p->high;
        d->low = p->low;
    }
    if (primary_of(p->sw, (unsigned)device) != before) {
        notify_all(p->sw, (unsigned)device);
    } else {
        notify(p, before);
    }
}

static uint16_t number_of(const P4__V1__PacketOut *packet, uint32_t id)
{
    uint16_t number = 0;

    for (size_t i = 0; i < packet->n_metadata; i++) {
        const P4__V1__PacketMetadata *m = packet->metadata[i];

        for (size_t k = 0; m->metadata_id == id && k < m->value.len; k++) {
            number = (uint16_t)(number << 8 | m->value.data[k]);
        }
    }
    return number;
}

static void take_packet(struct peer *p, const P4__V1__PacketOut *packet)
{
    struct test_switch_impl *i = p->sw->impl;

    if (primary_of(p->sw, p->device) != p) {
        return;
    }
    buf_reset(&i->packet);
    buf_add(&i->packet, packet->payload.data, packet->payload.len);
    i->packet_port = number_of(packet, 1);
    i->packet_is_probe = number_of(packet, 3) != 0;
}

static void on_open(struct rpc_call *call)
{
    struct test_switch *s = rpc_call_arg(call);
    struct peer *p = calloc(1, sizeof(*p));

    p->sw = s;
    p->call = call;
    LIST_INSERT_HEAD(&s->impl->peers, p, next);
    rpc_call_set_data(call, p);
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct peer *p = rpc_call_data(call);
    struct rpc_arena arena = RPC_ARENA_INIT;
    ProtobufCMessage *base =
        rpc_pb_take(call, &arena, &p4__v1__stream_message_request__descriptor, msg);
    const P4__V1__StreamMessageRequest *m = (const P4__V1__StreamMessageRequest *)base;

    if (m && m->update_case == P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_ARBITRATION) {
        take_arbitration(p, m->arbitration);
    } else if (m && m->update_case == P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_PACKET) {
        take_packet(p, m->packet);
    }
    rpc_arena_fini(&arena);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct peer *p = rpc_call_data(call);
    struct test_switch *s = p->sw;
    unsigned device = p->device;
    bool was_in = p->is_in;

    (void)status;
    LIST_REMOVE(p, next);
    free(p);
    if (was_in) {
        notify_all(s, device);
    }
}

static void on_half_close(struct rpc_call *call)
{
    rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
}

const struct rpc_call_ops test_switch_stream_ops = { .on_open = on_open,
                                                     .on_message = on_message,
                                                     .on_half_close = on_half_close,
                                                     .on_closed = on_closed };

void test_switch_packet_in(struct test_switch *s, unsigned device,
                           const struct p4rt_packet *from)
{
    P4__V1__StreamMessageResponse m = P4__V1__STREAM_MESSAGE_RESPONSE__INIT;
    P4__V1__PacketIn packet = P4__V1__PACKET_IN__INIT;
    P4__V1__PacketMetadata metas[3];
    P4__V1__PacketMetadata *list[3];
    uint8_t port[2] = { (uint8_t)(from->port >> 8), (uint8_t)from->port };
    uint8_t probe = from->is_probe;
    uint8_t reason = from->reason;
    struct peer *p = primary_of(s, device);

    if (!p) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        p4__v1__packet_metadata__init(&metas[i]);
        list[i] = &metas[i];
    }
    metas[0].metadata_id = 1;
    metas[0].value.data = from->port > 0xff ? port : port + 1;
    metas[0].value.len = from->port > 0xff ? 2 : 1;
    metas[1].metadata_id = 3;
    metas[1].value = (ProtobufCBinaryData){ 1, &probe };
    metas[2].metadata_id = 4;
    metas[2].value = (ProtobufCBinaryData){ 1, &reason };
    packet.n_metadata = 3;
    packet.metadata = list;
    packet.payload.data = (uint8_t *)from->bytes;
    packet.payload.len = from->len;
    m.update_case = P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_PACKET;
    m.packet = &packet;
    rpc_pb_send(p->call, &m.base);
}

const struct buf *test_switch_packet_out(const struct test_switch *s,
                                         struct p4rt_packet *ret)
{
    *ret = (struct p4rt_packet){ .port = s->impl->packet_port,
                                 .is_probe = s->impl->packet_is_probe };
    return &s->impl->packet;
}
