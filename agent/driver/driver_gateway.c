#include "agent/driver/driver_gateway_impl.h"
#include "agent/driver/gateway_words.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_CONTROL  "/xgw.gateway.v1.Gateway/Control"
#define PATH_READ     "/xgw.gateway.v1.Gateway/Read"
#define PATH_COUNTERS "/xgw.gateway.v1.Gateway/GetCounters"

#define FIELD_WRITE     2  /* ControlRequest.write */
#define FIELD_OPS       15 /* Write.ops */
#define FIELD_READ_ROWS 15 /* ReadReply.rows */

/* One read-back under way. */
struct reading {
    struct reading *next;
    struct gateway *gateway;
    struct rpc_call *call;
    uint64_t id;
};

static struct gateway *gateway_of(struct rpc_call *call)
{
    return rpc_call_arg(call);
}

/* A peer that sends what we cannot read is ended, and dialled again later. */
static void end_control(struct gateway *g, const char *why)
{
    if (g->control) {
        rpc_call_cancel(g->control, RPC_INVALID_ARGUMENT, why);
    }
}

static void tell_up(struct gateway *g, const Xgw__Gateway__V1__Status *status)
{
    struct device_state state = {
        .boot_id = status->boot_id,
        .term = status->term,
        .applied = status->applied,
        .ready = status->ready,
        .config_digest = status->config_digest,
    };

    g->is_up = true;
    g->driver.events->up(g->driver.ctx, &state);
}

static bool refusal_of(const Xgw__Gateway__V1__Refusal *r, struct exception *ret)
{
    if (r->key.len > ENTRY_KEY_MAX || r->table >= TABLE_COUNT || r->vni > VNI_MAX ||
        r->reason < EXCEPTION_FULL || r->reason > EXCEPTION_UNKNOWN) {
        return false;
    }
    memset(ret, 0, sizeof(*ret));
    ret->reason = (uint8_t)r->reason;
    ret->table = (uint8_t)r->table;
    ret->vni = r->vni;
    ret->key_len = (uint8_t)r->key.len;
    memcpy(ret->key, r->key.data, r->key.len);
    return true;
}

static void tell_done(struct gateway *g, const Xgw__Gateway__V1__Done *msg)
{
    struct driver_done done = { .id = msg->id, .rc = (enum rc)msg->code };
    struct exception *list = NULL;

    if (msg->code > RC_BUG) {
        end_control(g, "unknown code");
        return;
    }
    if (msg->n_refusals > 0) {
        list = calloc(msg->n_refusals, sizeof(*list));
        if (!list) {
            end_control(g, "no memory for refusals");
            return;
        }
        for (size_t i = 0; i < msg->n_refusals; i++) {
            if (!refusal_of(msg->refusals[i], &list[i])) {
                free(list);
                end_control(g, "malformed refusal");
                return;
            }
        }
    }
    if (done.rc != RC_OK) {
        err_set(&done.err, done.rc, "%s", msg->error);
    }
    done.exceptions = list;
    done.exception_count = (uint32_t)msg->n_refusals;
    g->driver.events->done(g->driver.ctx, &done);
    free(list);
}

static void on_control_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    struct gateway *g = gateway_of(call);
    ProtobufCMessage *base;
    struct err err = { 0 };

    if (call != g->control || g->is_closing) {
        return;
    }
    if (rpc_pb_unpack(&g->arena, &xgw__gateway__v1__control_reply__descriptor,
                      msg->data, msg->len, &base, &err) != RC_OK) {
        end_control(g, err.msg);
    } else {
        const Xgw__Gateway__V1__ControlReply *reply =
            (const Xgw__Gateway__V1__ControlReply *)base;

        switch (reply->m_case) {
        case XGW__GATEWAY__V1__CONTROL_REPLY__M_STATUS:
            tell_up(g, reply->status);
            break;
        case XGW__GATEWAY__V1__CONTROL_REPLY__M_DONE:
            tell_done(g, reply->done);
            break;
        default:
            end_control(g, "empty reply");
            break;
        }
    }
    rpc_arena_reset(&g->arena);
}

static void redial_later(struct gateway *g)
{
    struct timeval pause = { 0, GATEWAY_REDIAL_MS * 1000L };

    if (!g->is_closing) {
        event_add(g->redial, &pause);
    }
}

static void on_control_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct gateway *g = gateway_of(call);
    struct err err = { 0 };

    g->control = NULL;
    if (g->is_closing) {
        return;
    }
    if (rpc_status_to_err(status, &err) == RC_OK) {
        err_set(&err, RC_UNREACHABLE, "gateway: closed its control stream");
    } else {
        err_wrap(&err, err.code, "gateway");
    }
    redial_later(g);
    if (g->is_up) {
        g->is_up = false;
        g->driver.events->down(g->driver.ctx, &err);
    }
}

static void dial(struct gateway *g)
{
    static const struct rpc_call_ops ops = { .on_message = on_control_message,
                                             .on_closed = on_control_closed };
    Xgw__Gateway__V1__Open open = XGW__GATEWAY__V1__OPEN__INIT;
    Xgw__Gateway__V1__ControlRequest request = XGW__GATEWAY__V1__CONTROL_REQUEST__INIT;

    if (rpc_stream(g->channel, PATH_CONTROL, NULL, &ops, g, &g->control) != RC_OK) {
        redial_later(g);
        return;
    }
    request.m_case = XGW__GATEWAY__V1__CONTROL_REQUEST__M_OPEN;
    request.open = &open;
    if (rpc_pb_send(g->control, &request.base) != RC_OK) {
        end_control(g, "cannot send");
    }
}

static void on_redial(evutil_socket_t fd, short what, void *arg)
{
    struct gateway *g = arg;

    (void)fd;
    (void)what;
    if (!g->control) {
        dial(g);
    }
}

static void gateway_open(struct driver *d)
{
    dial((struct gateway *)d);
}

/* A write that cannot be sent ends the stream: the session hears `down`, then `up`
 * with what the device really holds, and starts over from there. */
static void gateway_write(struct driver *d, const struct driver_write *w)
{
    struct gateway *g = (struct gateway *)d;
    Xgw__Gateway__V1__Write msg = XGW__GATEWAY__V1__WRITE__INIT;
    enum rc rc;

    if (!g->control) {
        return; /* `down` is on its way or was told */
    }
    msg.id = w->id;
    msg.term = w->term;
    msg.revision = w->revision;
    msg.ready = w->ready;
    if (w->ops) {
        rc = rpc_pb_send_blob(g->control, FIELD_WRITE, &msg.base, FIELD_OPS, w->ops);
    } else {
        Xgw__Gateway__V1__ControlRequest request =
            XGW__GATEWAY__V1__CONTROL_REQUEST__INIT;

        request.m_case = XGW__GATEWAY__V1__CONTROL_REQUEST__M_WRITE;
        request.write = &msg;
        rc = rpc_pb_send(g->control, &request.base);
    }
    if (rc != RC_OK) {
        end_control(g, "the gateway does not take writes");
    }
}

static void gateway_configure(struct driver *d, uint64_t id, uint64_t term,
                              struct blob *config)
{
    struct gateway *g = (struct gateway *)d;
    Xgw__Gateway__V1__Configure msg = XGW__GATEWAY__V1__CONFIGURE__INIT;
    Xgw__Gateway__V1__ControlRequest request = XGW__GATEWAY__V1__CONTROL_REQUEST__INIT;

    if (!g->control) {
        return;
    }
    msg.id = id;
    msg.term = term;
    msg.config.data = config->data;
    msg.config.len = config->len;
    request.m_case = XGW__GATEWAY__V1__CONTROL_REQUEST__M_CONFIGURE;
    request.configure = &msg;
    if (rpc_pb_send(g->control, &request.base) != RC_OK) {
        end_control(g, "the gateway does not take its configuration");
    }
}

static void on_read_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    const struct reading *r = rpc_call_arg(call);
    struct gateway *g = r->gateway;
    const uint8_t *rows;
    size_t len;

    if (!g->is_closing &&
        rpc_pb_find(msg->data, msg->len, FIELD_READ_ROWS, &rows, &len) == RC_OK) {
        g->driver.events->rows(g->driver.ctx, r->id, rows, len);
    }
}

static void on_read_closed(struct rpc_call *call, const struct rpc_status *status)
{
    struct reading *r = rpc_call_arg(call);
    struct gateway *g = r->gateway;
    struct reading **at = &g->readings;
    struct err err = { 0 };
    enum rc rc = rpc_status_to_err(status, &err);
    uint64_t id = r->id;

    while (*at != r) {
        at = &(*at)->next;
    }
    *at = r->next;
    free(r);
    if (!g->is_closing) {
        g->driver.events->read_end(g->driver.ctx, id, rc, &err);
    }
}

static void gateway_read(struct driver *d, uint64_t read_id, uint32_t vni)
{
    static const struct rpc_call_ops ops = { .on_message = on_read_message,
                                             .on_closed = on_read_closed };
    struct gateway *g = (struct gateway *)d;
    Xgw__Gateway__V1__ReadRequest request = XGW__GATEWAY__V1__READ_REQUEST__INIT;

    struct reading *r = calloc(1, sizeof(*r));

    if (!r || rpc_stream(g->channel, PATH_READ, NULL, &ops, r, &r->call) != RC_OK) {
        free(r);
        end_control(g, "no memory to read back");
        return;
    }
    r->gateway = g;
    r->id = read_id;
    r->next = g->readings;
    g->readings = r;
    request.vni = vni;
    if (rpc_pb_send(r->call, &request.base) != RC_OK) {
        rpc_call_cancel(r->call, RPC_CANCELLED, "cannot ask");
        return;
    }
    rpc_call_close_send(r->call);
}

/* The gateway's counters as readings; their texts lie in its reply. */
struct readings {
    struct device_reading at[READINGS_MAX];
    uint32_t count;
    char texts[READINGS_MAX][READING_PART_MAX + 1];
    uint32_t text_count;
    struct device_drop drops[DROP_REASONS_MAX];
};

/* "port/up0", "table.vni"; cut where it is too long. */
static const char *join(struct readings *r, const char *prefix, const char *name)
{
    char *text = r->texts[r->text_count];

    if (r->text_count + 1 < READINGS_MAX) {
        r->text_count++;
    }
    snprintf(text, sizeof(r->texts[0]), "%s%s", prefix, name);
    return text;
}

static void add(struct readings *r, const struct device_reading *reading)
{
    if (r->count < READINGS_MAX) {
        r->at[r->count++] = *reading;
    }
}

static void add_port(struct readings *r, const Xgw__Gateway__V1__PortCounters *p)
{
    const struct port_counts counts = { p->rx_packets, p->rx_bytes, p->tx_packets,
                                        p->tx_bytes, p->link_bps };
    struct device_reading readings[PORT_READINGS];

    gateway_words_port(join(r, "port/", p->name), &counts, readings);
    for (unsigned i = 0; i < PORT_READINGS; i++) {
        add(r, &readings[i]);
    }
}

static void add_readings(struct readings *r, const Xgw__Gateway__V1__Counters *c)
{
    for (size_t i = 0; i < c->n_tables; i++) {
        const Xgw__Gateway__V1__TableUse *t = c->tables[i];

        add(r, &(struct device_reading){ "", join(r, "table.", t->name), READING_TABLE,
                                         false, t->used, t->capacity });
    }
    add(r, &(struct device_reading){ "", "tables_memory", READING_FIGURE, false,
                                     c->tables_bytes, 0 });
    for (size_t i = 0; i < c->n_ports; i++) {
        add_port(r, c->ports[i]);
    }
    for (size_t i = 0; i < c->n_cores; i++) {
        struct device_reading core = gateway_words_core(
            join(r, "core/", c->cores[i]->name), c->cores[i]->busy_ns);

        add(r, &core);
    }
}

/* What the ports lost before anybody looked at it counts as dropped, too. */
static void add_drops(struct readings *r, const Xgw__Gateway__V1__Counters *c,
                      struct device_totals *totals)
{
    uint64_t missed = 0;

    for (size_t i = 0; i < c->n_ports; i++) {
        missed += c->ports[i]->rx_missed;
    }
    r->drops[0] = (struct device_drop){ "rx_missed", missed };
    totals->drop_count = 1;
    for (size_t i = 0; i < c->n_drops && totals->drop_count < DROP_REASONS_MAX; i++) {
        r->drops[totals->drop_count++] =
            (struct device_drop){ c->drops[i]->reason, c->drops[i]->packets };
    }
    totals->drop_list = r->drops;
}

static void on_counters(const struct rpc_status *status, const struct rpc_msg *reply,
                        void *arg)
{
    struct gateway *g = arg;
    struct device_totals totals = { 0 };
    const Xgw__Gateway__V1__Counters *counters;
    ProtobufCMessage *base;
    struct readings *readings;

    (void)status;
    g->counting = NULL;
    if (g->is_closing || !reply ||
        rpc_pb_unpack(&g->arena, &xgw__gateway__v1__counters__descriptor, reply->data,
                      reply->len, &base, NULL) != RC_OK) {
        rpc_arena_reset(&g->arena);
        return;
    }
    counters = (const Xgw__Gateway__V1__Counters *)base;
    for (size_t i = 0; i < counters->n_ports; i++) {
        totals.rx_packets += counters->ports[i]->rx_packets;
        totals.rx_bytes += counters->ports[i]->rx_bytes;
        totals.tx_packets += counters->ports[i]->tx_packets;
        totals.tx_bytes += counters->ports[i]->tx_bytes;
    }
    for (size_t i = 0; i < counters->n_drops; i++) {
        totals.drops += counters->drops[i]->packets;
    }
    readings = calloc(1, sizeof(*readings));
    if (readings) { /* without memory there are the totals still */
        add_readings(readings, counters);
        add_drops(readings, counters, &totals);
        totals.readings = readings->at;
        totals.reading_count = readings->count;
    }
    totals.top = g->top.interval_ms ? &g->top : NULL;
    g->driver.events->totals(g->driver.ctx, &totals);
    g->top.interval_ms = 0;
    free(readings);
    rpc_arena_reset(&g->arena);
}

static void gateway_poll_totals(struct driver *d)
{
    struct gateway *g = (struct gateway *)d;
    Xgw__Gateway__V1__GetCountersRequest request =
        XGW__GATEWAY__V1__GET_COUNTERS_REQUEST__INIT;
    struct rpc_call_options options = { .deadline_ms = 1000 };

    if (!g->is_up || g->counting) {
        return;
    }
    if (rpc_pb_unary(g->channel, PATH_COUNTERS, &request.base, &options, on_counters, g,
                     &g->counting) != RC_OK) {
        g->counting = NULL; /* the next poll tries again */
    }
    gateway_poll_top(g);
}

/* Freeing the channel cancels its calls, whose last callbacks come from the loop: the
 * memory goes with a last turn of it. */
static void free_later(evutil_socket_t fd, short what, void *arg)
{
    struct gateway *g = arg;

    (void)fd;
    (void)what;
    if (g->control || g->readings || g->counting || g->topping || g->probe_count > 0) {
        struct timeval pause = { 0, 1000 };

        event_add(g->redial, &pause);
        return;
    }
    event_free(g->redial);
    rpc_arena_fini(&g->arena);
    free(g);
}

static void gateway_close(struct driver *d)
{
    struct gateway *g = (struct gateway *)d;
    struct event_base *base = event_get_base(g->redial);

    g->is_closing = true;
    event_del(g->redial);
    event_assign(g->redial, base, -1, 0, free_later, g);
    rpc_channel_free(g->channel);
    event_active(g->redial, EV_TIMEOUT, 0);
}

static const struct driver_class gateway_class = {
    .name = "gateway",
    .open = gateway_open,
    .write = gateway_write,
    .configure = gateway_configure,
    .read = gateway_read,
    .poll_totals = gateway_poll_totals,
    .probe = gateway_probe,
    .close = gateway_close,
};

enum rc driver_gateway_new(struct rpc_loop *loop, const char *address,
                           const struct driver_events *events, void *ctx,
                           struct driver **ret, struct err *err)
{
    struct rpc_channel_options options = {
        .address = address,
        .max_queue_bytes = 64u << 20, /* the session bounds what is in flight */
        .keepalive_ms = 10000,        /* a Unix socket tells when its peer dies */
        .keepalive_timeout_ms = 20000,
        .backoff_ms = GATEWAY_REDIAL_MS,
        .max_backoff_ms = GATEWAY_REDIAL_MS * 5,
    };
    struct gateway *g = calloc(1, sizeof(*g));
    enum rc rc;

    if (!g) {
        return err_set(err, RC_NO_MEMORY, "gateway driver: no memory");
    }
    g->driver.cls = &gateway_class;
    g->driver.events = events;
    g->driver.ctx = ctx;
    g->redial = event_new(rpc_loop_base(loop), -1, 0, on_redial, g);
    rc = g->redial ? rpc_channel_new(loop, &options, &g->channel, err)
                   : err_set(err, RC_NO_MEMORY, "gateway driver: no memory");
    if (rc != RC_OK) {
        if (g->redial) {
            event_free(g->redial);
        }
        free(g);
        return rc;
    }
    *ret = &g->driver;
    return RC_OK;
}
