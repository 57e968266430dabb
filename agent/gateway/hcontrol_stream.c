/* hcontrol_stream - StreamChannel: who is primary, packets in and out. */
#include "agent/gateway/hcontrol_internal.h"

#include "agent/fwd/drop_reason.h"
#include "proto/api/p4runtime.pb-c.h"

#include <stdlib.h>

#define REASON_KEPT 255 /* p4/include/headers.p4: for the control thread */

static struct hcontrol *control_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

/* ---- arbitration ---- */

/* Tells a stream where it stands: OK, somebody else is primary, or nobody is. */
static void tell(const struct hstream *s)
{
    const struct arbiter *a = &s->control->server.device[s->half].arbiter;
    const struct arbiter_stream *primary = arbiter_primary(a);
    P4__V1__StreamMessageResponse response = P4__V1__STREAM_MESSAGE_RESPONSE__INIT;
    P4__V1__MasterArbitrationUpdate update = P4__V1__MASTER_ARBITRATION_UPDATE__INIT;
    P4__V1__Uint128 id = P4__V1__UINT128__INIT;
    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;

    id.high = a->highest.high;
    id.low = a->highest.low;
    status.code = primary == &s->arbiter ? RPC_OK
                  : primary              ? RPC_ALREADY_EXISTS
                                         : RPC_NOT_FOUND;
    update.device_id = (uint64_t)s->half + HSERVER_DEVICE_FIRST;
    update.election_id = a->highest.is_set ? &id : NULL;
    update.status = &status;
    response.update_case = P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_ARBITRATION;
    response.arbitration = &update;
    (void)rpc_pb_send(s->call, &response.base); /* a stream that is ending needs none */
}

static void tell_all(struct hcontrol *c, int half)
{
    for (struct arbiter_stream *s = c->server.device[half].arbiter.streams; s;
         s = s->next) {
        tell((const struct hstream *)s);
    }
}

static void on_arbitration(struct hstream *s,
                           const P4__V1__MasterArbitrationUpdate *update)
{
    struct hcontrol *c = s->control;
    struct election id = { false, 0, 0 };
    int half = hserver_half(update->device_id);
    bool changed = false;

    if (half < 0) {
        rpc_call_finish(s->call, RPC_NOT_FOUND,
                        "no such device: 1 and 2 are the halves", NULL, 0);
        return;
    }
    if (update->role && (update->role->id != 0 || update->role->name[0] != '\0')) {
        rpc_call_finish(s->call, RPC_UNIMPLEMENTED, "no role but the default one", NULL,
                        0);
        return;
    }
    if (s->half >= 0 && s->half != half) {
        rpc_call_finish(s->call, RPC_FAILED_PRECONDITION,
                        "a stream is of one device only", NULL, 0);
        return;
    }
    if (update->election_id) {
        id = (struct election){ true, update->election_id->high,
                                update->election_id->low };
    }
    switch (arbiter_join(&c->server.device[half].arbiter, &s->arbiter, id, &changed)) {
    case ARBITER_TAKEN:
        rpc_call_finish(s->call, RPC_INVALID_ARGUMENT,
                        "another controller has this election id", NULL, 0);
        return;
    case ARBITER_ZERO:
        rpc_call_finish(s->call, RPC_INVALID_ARGUMENT, "an election id of 0 is none",
                        NULL, 0);
        return;
    case ARBITER_OK:
        break;
    }
    s->half = half;
    if (changed) {
        tell_all(c, half);
    } else {
        tell(s);
    }
}

/* ---- packets ---- */

static void refuse_packet(const struct hstream *s, enum rpc_code code, char *why)
{
    P4__V1__StreamMessageResponse response = P4__V1__STREAM_MESSAGE_RESPONSE__INIT;
    P4__V1__StreamError error = P4__V1__STREAM_ERROR__INIT;

    error.canonical_code = (int32_t)code;
    error.message = why;
    response.update_case = P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_ERROR;
    response.error = &error;
    (void)rpc_pb_send(s->call, &response.base);
}

/* The number that a metadata field carries; false: there is none such. */
static bool metadata_of(const P4__V1__PacketOut *packet, uint32_t id, uint64_t *ret)
{
    for (size_t i = 0; i < packet->n_metadata; i++) {
        const P4__V1__PacketMetadata *m = packet->metadata[i];

        if (m->metadata_id == id && m->value.len <= 8) {
            *ret = 0;
            for (size_t b = 0; b < m->value.len; b++) {
                *ret = *ret << 8 | m->value.data[b];
            }
            return true;
        }
    }
    return false;
}

/* By a port as it is, or through the packet path as if the port had received it. */
static bool send_out(struct hstream *s, const P4__V1__PacketOut *packet)
{
    const struct p4rt_info *info = &s->control->server.device[s->half].running.info;
    struct hcontrol *c = s->control;
    uint64_t port = 0;
    uint64_t is_probe = 0;

    if (!metadata_of(packet, info->packet_out_port, &port)) {
        return false;
    }
    if (info->packet_out_probe == 0 ||
        !metadata_of(packet, info->packet_out_probe, &is_probe) || !is_probe) {
        return frames_send(&c->frames, port, packet->payload.data, packet->payload.len);
    }
    return port < c->config.ports->count &&
           probe_port_send(c->config.probes, (uint16_t)port, packet->payload.data,
                           packet->payload.len, &c->server.device[s->half]) == RC_OK;
}

static void on_packet_out(struct hstream *s, const P4__V1__PacketOut *packet)
{
    static char not_primary[] = "not the primary";
    static char no_port[] = "no such port, or no room for the frame";
    const struct hdevice *d = s->half < 0 ? NULL : &s->control->server.device[s->half];

    if (!d || arbiter_primary(&d->arbiter) != &s->arbiter) {
        refuse_packet(s, RPC_PERMISSION_DENIED, not_primary);
    } else if (!d->running.config || !send_out(s, packet)) {
        refuse_packet(s, RPC_INVALID_ARGUMENT, no_port);
    }
}

#define METADATA_MAX 3

struct packet_in {
    P4__V1__PacketMetadata metadata[METADATA_MAX];
    P4__V1__PacketMetadata *list[METADATA_MAX];
    uint8_t values[METADATA_MAX];
    unsigned count;
};

static void add_metadata(struct packet_in *p, uint32_t id, uint8_t value)
{
    P4__V1__PacketMetadata *m = &p->metadata[p->count];

    if (id != 0) {
        p4__v1__packet_metadata__init(m);
        m->metadata_id = id;
        p->values[p->count] = value;
        m->value = (ProtobufCBinaryData){ .data = &p->values[p->count], .len = 1 };
        p->list[p->count++] = m;
    }
}

/* A controller that does not read misses some. */
static void send_in(const struct hdevice *d, struct packet_in *p, const uint8_t *frame,
                    size_t len)
{
    const struct hstream *s = (const struct hstream *)arbiter_primary(&d->arbiter);
    P4__V1__StreamMessageResponse response = P4__V1__STREAM_MESSAGE_RESPONSE__INIT;
    P4__V1__PacketIn packet = P4__V1__PACKET_IN__INIT;

    if (!s || !rpc_call_is_writable(s->call)) {
        return;
    }
    packet.payload.data = (uint8_t *)frame; /* protobuf-c does not write to it */
    packet.payload.len = len;
    packet.n_metadata = p->count;
    packet.metadata = p->list;
    response.update_case = P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_PACKET;
    response.packet = &packet;
    (void)rpc_pb_send(s->call, &response.base);
}

void hcontrol_packet_in(struct hcontrol *c, unsigned port, const uint8_t *frame,
                        size_t len)
{
    const struct hdevice *d = &c->server.device[port % HSWITCH_HALVES];
    struct packet_in p = { .count = 0 };

    if (d->running.config) {
        add_metadata(&p, d->running.info.packet_in_port, (uint8_t)port);
        add_metadata(&p, d->running.info.packet_in_probe, 0);
        add_metadata(&p, d->running.info.packet_in_reason, 0);
        send_in(d, &p, frame, len);
    }
}

void hcontrol_probed(void *arg, const struct probe_frame *f)
{
    const struct hdevice *d = f->tag;
    const struct p4rt_info *info = &d->running.info;
    struct packet_in p = { .count = 0 };

    (void)arg;
    if (!d->running.config) {
        return; /* the program has gone meanwhile */
    }
    add_metadata(&p, info->packet_in_port, (uint8_t)f->port);
    add_metadata(&p, info->packet_in_probe, 1);
    add_metadata(&p, info->packet_in_reason,
                 f->verdict == FWD_FORWARD ? DROP_NONE
                 : f->verdict == FWD_LOCAL ? REASON_KEPT
                                           : f->reason);
    send_in(d, &p, rte_pktmbuf_mtod(f->frame, const uint8_t *), f->frame->data_len);
}

/* ---- the call ---- */

static void on_open(struct rpc_call *call)
{
    struct hcontrol *c = control_of(call);
    struct hstream *s = NULL;

    if (c->stream_count < HCONTROL_STREAMS_MAX) {
        s = calloc(1, sizeof(*s));
    }
    rpc_call_set_data(call, s);
    if (!s) {
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many controllers", NULL, 0);
        return;
    }
    c->stream_count++;
    s->control = c;
    s->call = call;
    s->half = -1;
}

static void on_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct hcontrol *c = control_of(call);
    struct hstream *s = rpc_call_data(call);
    const P4__V1__StreamMessageRequest *request;

    if (!s) {
        return; /* refused; it ends */
    }
    request = (const P4__V1__StreamMessageRequest *)rpc_pb_take(
        call, &c->arena, &p4__v1__stream_message_request__descriptor, msg);
    if (request) {
        switch (request->update_case) {
        case P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_ARBITRATION:
            on_arbitration(s, request->arbitration);
            break;
        case P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_PACKET:
            on_packet_out(s, request->packet);
            break;
        default:
            rpc_call_finish(call, RPC_UNIMPLEMENTED, "not a message for this switch",
                            NULL, 0);
        }
    }
    rpc_arena_reset(&c->arena);
}

static void on_half_close(struct rpc_call *call)
{
    rpc_call_finish(call, RPC_OK, NULL, NULL, 0);
}

static void on_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct hstream *s = rpc_call_data(call);
    struct hcontrol *c = control_of(call);

    (void)status;
    if (!s) {
        return;
    }
    c->stream_count--;
    if (s->half >= 0 &&
        arbiter_leave(&c->server.device[s->half].arbiter, &s->arbiter)) {
        tell_all(c, s->half);
    }
    free(s);
}

enum rc hcontrol_stream_register(struct hcontrol *c, struct err *err)
{
    struct rpc_method method = {
        .path = "/p4.v1.P4Runtime/StreamChannel",
        .kind = RPC_BIDI,
        .ops = { .on_open = on_open,
                 .on_message = on_message,
                 .on_half_close = on_half_close,
                 .on_closed = on_closed },
        .arg = c,
    };

    return rpc_server_add(c->rpc, &method, err);
}
