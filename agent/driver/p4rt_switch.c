#include "agent/driver/p4rt_switch_impl.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_pb.h"

#define PATH_STREAM "/p4.v1.P4Runtime/StreamChannel"

/* A request carries its errors back in the trailing metadata, base64 and all. */
#define METADATA_BYTES (4u << 20)
#define MESSAGE_BYTES  (1u << 30) /* a target may answer a read in one message */

static struct p4rt_switch *switch_of(struct rpc_call *call)
{
    return ((struct p4rt_device *)rpc_call_arg(call))->owner;
}

/* ---- the end of a connection ---- */

/* Twice as long each time, until we were primary once. */
static void redial_later(struct p4rt_switch *s)
{
    uint32_t ms = s->redial_ms << (s->failures < 6 ? s->failures : 6);
    struct timeval pause = { ms / 1000, ms % 1000 * 1000L };

    if (!s->is_closing) {
        event_add(s->redial, &pause);
    }
}

void p4rt_switch_redial(struct p4rt_switch *s, const struct err *cause)
{
    if (s->phase == P4RT_IDLE || s->is_closing) {
        return;
    }
    s->failures = s->was_primary ? 0 : s->failures + 1;
    s->phase = P4RT_IDLE;
    s->generation++;
    s->was_primary = false;
    for (unsigned i = 0; i < s->device_count; i++) {
        struct p4rt_device *d = &s->devices[i];

        d->is_primary = false;
        d->is_answered = false;
        if (d->stream) {
            rpc_call_cancel(d->stream, RPC_CANCELLED, "dialling anew");
        }
    }
    s->claimed = 0;
    redial_later(s);
    s->events->lost(s->ctx, cause);
}

/* ---- arbitration ---- */

static void send_claim(struct p4rt_device *d)
{
    P4__V1__StreamMessageRequest m = P4__V1__STREAM_MESSAGE_REQUEST__INIT;
    P4__V1__MasterArbitrationUpdate a = P4__V1__MASTER_ARBITRATION_UPDATE__INIT;
    P4__V1__Uint128 election = P4__V1__UINT128__INIT;

    election.high = d->owner->claimed;
    a.device_id = d->id;
    a.election_id = &election;
    m.update_case = P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_ARBITRATION;
    m.arbitration = &a;
    d->is_answered = false;
    if (!d->stream || rpc_pb_send(d->stream, &m.base) != RC_OK) {
        struct err err;

        err_set(&err, RC_UNREACHABLE, "switch: the stream of device %llu takes nothing",
                (unsigned long long)d->id);
        p4rt_switch_redial(d->owner, &err);
    }
}

void p4rt_switch_claim(struct p4rt_switch *s, uint64_t term)
{
    if (s->phase != P4RT_FOUND) {
        return;
    }
    s->claimed = term;
    s->was_primary = false;
    for (unsigned i = 0; i < s->device_count && s->phase == P4RT_FOUND; i++) {
        send_claim(&s->devices[i]);
    }
}

/* Told once every device has answered the claim, and at each change after that. */
static void tell_role(struct p4rt_switch *s)
{
    uint64_t highest = 0;
    bool is_primary = true;

    for (unsigned i = 0; i < s->device_count; i++) {
        const struct p4rt_device *d = &s->devices[i];

        if (!d->is_answered) {
            return;
        }
        is_primary &= d->is_primary;
        if (!d->is_primary && d->highest > highest) {
            highest = d->highest;
        }
    }
    s->was_primary = is_primary;
    s->events->role(s->ctx, is_primary, highest);
}

static void take_arbitration(struct p4rt_device *d,
                             const P4__V1__MasterArbitrationUpdate *a)
{
    bool was_answered = d->is_answered;
    bool was_primary = d->is_primary;

    if (d->owner->claimed == 0) {
        return; /* somebody else's affair: we asked for nothing yet */
    }
    d->is_answered = true;
    d->is_primary = a->status && a->status->code == RPC_OK;
    d->highest = a->election_id ? a->election_id->high : 0;
    if (d->is_primary && d->highest > d->owner->claimed) {
        d->is_primary = false; /* of somebody who is above us */
    }
    if (!was_answered || was_primary != d->is_primary) {
        tell_role(d->owner);
    }
}

/* 0 where the packet has none such. */
static uint16_t metadata_of(const P4__V1__PacketIn *p, uint32_t id)
{
    uint16_t value = 0;

    for (size_t i = 0; id != 0 && i < p->n_metadata; i++) {
        const P4__V1__PacketMetadata *m = p->metadata[i];

        for (size_t k = 0; m->metadata_id == id && k < m->value.len; k++) {
            value = (uint16_t)(value << 8 | m->value.data[k]);
        }
    }
    return value;
}

static void take_packet(struct p4rt_device *d, const P4__V1__PacketIn *p)
{
    struct p4rt_switch *s = d->owner;
    struct p4rt_packet packet = {
        .port = metadata_of(p, s->info.packet_in_port),
        .is_probe = metadata_of(p, s->info.packet_in_probe) != 0,
        .reason = (uint8_t)metadata_of(p, s->info.packet_in_reason),
        .bytes = p->payload.data,
        .len = p->payload.len,
    };

    if (s->events->packet_in) {
        s->events->packet_in(s->ctx, (uint8_t)(d - s->devices), &packet);
    }
}

static void on_stream_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct p4rt_device *d = rpc_call_arg(call);
    struct p4rt_switch *s = d->owner;
    const P4__V1__StreamMessageResponse *m;
    ProtobufCMessage *base;
    struct err err = { 0 };

    if (call != d->stream || s->is_closing || s->phase == P4RT_IDLE) {
        return;
    }
    if (rpc_pb_unpack(&s->arena, &p4__v1__stream_message_response__descriptor,
                      msg->data, msg->len, &base, &err) != RC_OK) {
        err_wrap(&err, err.code, "switch");
        p4rt_switch_redial(s, &err);
    } else {
        m = (const P4__V1__StreamMessageResponse *)base;
        if (m->update_case == P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_ARBITRATION) {
            take_arbitration(d, m->arbitration);
        } else if (m->update_case == P4__V1__STREAM_MESSAGE_RESPONSE__UPDATE_PACKET) {
            take_packet(d, m->packet);
        } /* a StreamError is about a packet, which may get lost anyway */
    }
    rpc_arena_reset(&s->arena);
}

static void on_stream_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct p4rt_device *d = rpc_call_arg(call);
    struct p4rt_switch *s = switch_of(call);
    struct err err = { 0 };

    if (call != d->stream) {
        return;
    }
    d->stream = NULL;
    if (s->is_closing || s->phase == P4RT_IDLE) {
        return;
    }
    if (rpc_status_to_err(status, &err) == RC_OK) {
        err_set(&err, RC_UNREACHABLE, "switch: closed the stream of device %llu",
                (unsigned long long)d->id);
    } else {
        err_wrap(&err, err.code, "switch: device %llu", (unsigned long long)d->id);
    }
    p4rt_switch_redial(s, &err);
}

/* ---- dialling ---- */

static void dial(struct p4rt_switch *s)
{
    static const struct rpc_call_ops ops = { .on_message = on_stream_message,
                                             .on_closed = on_stream_closed };

    for (unsigned i = 0; i < s->device_count; i++) {
        if (s->devices[i].stream || s->devices[i].pipeline) {
            redial_later(s); /* the last connection's end is still to come */
            return;
        }
    }
    s->phase = P4RT_LOOKING;
    s->generation++;
    for (unsigned i = 0; i < s->device_count; i++) {
        struct p4rt_device *d = &s->devices[i];

        if (rpc_stream(s->channel, PATH_STREAM, NULL, &ops, d, &d->stream) != RC_OK) {
            struct err err;

            err_set(&err, RC_NO_MEMORY, "switch: cannot dial");
            p4rt_switch_redial(s, &err);
            return;
        }
    }
    p4rt_pipeline_look(s);
}

static void on_redial(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    dial(arg);
}

void p4rt_switch_open(struct p4rt_switch *s)
{
    event_active(s->redial, EV_TIMEOUT, 0);
}

/* ---- packets ---- */

enum rc p4rt_switch_packet_out(struct p4rt_switch *s, uint8_t device,
                               const struct p4rt_packet *packet)
{
    P4__V1__StreamMessageRequest m = P4__V1__STREAM_MESSAGE_REQUEST__INIT;
    P4__V1__PacketOut p = P4__V1__PACKET_OUT__INIT;
    P4__V1__PacketMetadata meta = P4__V1__PACKET_METADATA__INIT;
    P4__V1__PacketMetadata probe = P4__V1__PACKET_METADATA__INIT;
    P4__V1__PacketMetadata *metas[] = { &meta, &probe };
    uint16_t port = packet->port;
    uint8_t value[2] = { (uint8_t)(port >> 8), (uint8_t)port };
    uint8_t is_probe = packet->is_probe;

    if (!p4rt_switch_is_primary(s) || device >= s->device_count) {
        return RC_UNREACHABLE;
    }
    if (s->info.packet_out_port == 0 ||
        (packet->is_probe && s->info.packet_out_probe == 0)) {
        return RC_NOT_FOUND;
    }
    probe.metadata_id = s->info.packet_out_probe;
    probe.value = (ProtobufCBinaryData){ 1, &is_probe };
    meta.metadata_id = s->info.packet_out_port;
    meta.value.data = port > 0xff ? value : value + 1;
    meta.value.len = port > 0xff ? 2 : 1;
    p.payload.data = (uint8_t *)packet->bytes; /* protobuf-c does not write to it */
    p.payload.len = packet->len;
    p.n_metadata = s->info.packet_out_probe != 0 ? 2 : 1;
    p.metadata = metas;
    m.update_case = P4__V1__STREAM_MESSAGE_REQUEST__UPDATE_PACKET;
    m.packet = &p;
    return rpc_pb_send(s->devices[device].stream, &m.base);
}

/* ---- looking ---- */

struct rpc_channel *p4rt_switch_channel(const struct p4rt_switch *s)
{
    return s->channel;
}

uint8_t p4rt_switch_devices(const struct p4rt_switch *s)
{
    return s->device_count;
}

uint64_t p4rt_switch_device_id(const struct p4rt_switch *s, uint8_t device)
{
    return s->devices[device].id;
}

uint64_t p4rt_switch_term(const struct p4rt_switch *s)
{
    return s->claimed;
}

bool p4rt_switch_is_primary(const struct p4rt_switch *s)
{
    return s->phase == P4RT_FOUND && s->was_primary;
}

enum p4rt_program p4rt_switch_program(const struct p4rt_switch *s, uint8_t device)
{
    return s->devices[device].program;
}

const struct p4rt_info *p4rt_switch_info(const struct p4rt_switch *s)
{
    return &s->info;
}

/* ---- life ---- */

static void fini(struct p4rt_switch *s)
{
    if (s->redial) {
        event_free(s->redial);
    }
    rpc_arena_fini(&s->arena);
    blob_unref(s->p4info);
    blob_unref(s->device_config);
    free(s);
}

/* Freeing the channel cancels its calls, whose last callbacks come from the loop. */
static void free_later(evutil_socket_t fd, short what, void *arg)
{
    struct p4rt_switch *s = arg;
    struct timeval pause = { 0, 1000 };

    (void)fd;
    (void)what;
    for (unsigned i = 0; i < s->device_count; i++) {
        if (s->devices[i].stream || s->devices[i].pipeline) {
            event_add(s->redial, &pause);
            return;
        }
    }
    fini(s);
}

void p4rt_switch_free(struct p4rt_switch *s)
{
    struct event_base *base;

    if (!s) {
        return;
    }
    base = event_get_base(s->redial);
    s->is_closing = true;
    event_del(s->redial);
    event_assign(s->redial, base, -1, 0, free_later, s);
    rpc_channel_free(s->channel);
    event_active(s->redial, EV_TIMEOUT, 0);
}

static enum rc init(struct p4rt_switch *s, struct rpc_loop *loop,
                    const struct p4rt_switch_options *o, struct err *err)
{
    struct rpc_channel_options channel = {
        .address = o->address,
        .tls = o->tls,
        .tls_name = o->tls_name,
        .max_message_bytes = MESSAGE_BYTES,
        .max_metadata_bytes = METADATA_BYTES,
        .max_queue_bytes = 4u << 20,
        .keepalive_ms = o->keepalive_ms,
        .keepalive_timeout_ms = 20000,
        .backoff_ms = o->redial_ms,
        .max_backoff_ms = o->redial_ms * 5,
    };

    if (o->device_count < 1 || o->device_count > P4RT_DEVICES_MAX ||
        (o->device_count == 2 && o->device_id[0] == o->device_id[1])) {
        return err_field(err, RC_INVALID, "devices", "devices",
                         "one or two different device ids are needed");
    }
    s->device_count = o->device_count;
    for (unsigned i = 0; i < s->device_count; i++) {
        s->devices[i].owner = s;
        s->devices[i].id = o->device_id[i];
    }
    s->redial_ms = o->redial_ms ? o->redial_ms : 100;
    s->p4info = blob_ref(o->p4info);
    s->device_config = blob_ref(o->device_config);
    s->replaces_other = o->replaces_other_program;
    s->cannot_reconcile = o->cannot_reconcile;
    s->redial = event_new(rpc_loop_base(loop), -1, 0, on_redial, s);
    if (!s->redial) {
        return err_set(err, RC_NO_MEMORY, "switch: no memory");
    }
    if (p4rt_info_read(s->p4info->data, s->p4info->len, NULL, &s->own_info, err) !=
        RC_OK) {
        return err_wrap(err, RC_INVALID, "our own p4info");
    }
    s->info = s->own_info;
    return rpc_channel_new(loop, &channel, &s->channel, err);
}

enum rc p4rt_switch_new(struct rpc_loop *loop,
                        const struct p4rt_switch_options *options,
                        const struct p4rt_switch_events *events, void *ctx,
                        struct p4rt_switch **ret, struct err *err)
{
    struct p4rt_switch *s = calloc(1, sizeof(*s));
    enum rc rc;

    if (!s) {
        return err_set(err, RC_NO_MEMORY, "switch: no memory");
    }
    s->events = events;
    s->ctx = ctx;
    rc = init(s, loop, options, err);
    if (rc != RC_OK) {
        fini(s);
        return rc;
    }
    *ret = s;
    return RC_OK;
}
