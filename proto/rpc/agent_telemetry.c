/* TELEMETRY to and from its wire form. */
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/agent_codec.h"
#include "proto/rpc/agent_wire.h"

/* The arrays of one message on its way out; some 50 KiB. */
struct telemetry_wire {
    Xgw__Agent__V1__Reading readings[READINGS_MAX];
    Xgw__Agent__V1__Reading *reading_list[READINGS_MAX];
    Xgw__Agent__V1__DropCount drops[DROP_REASONS_MAX];
    Xgw__Agent__V1__DropCount *drop_list[DROP_REASONS_MAX];
    Xgw__Agent__V1__Top top;
    Xgw__Agent__V1__TopItem items[2][TOP_LIST_MAX];
    Xgw__Agent__V1__TopItem *item_list[2][TOP_LIST_MAX];
};

static ProtobufCBinaryData address_wire(const struct ip *ip)
{
    return (ProtobufCBinaryData){ ip_size(ip), (uint8_t *)ip->b };
}

static void fill_items(struct telemetry_wire *w, unsigned list,
                       const struct top_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct top_item *from = &l->items[i];
        Xgw__Agent__V1__TopItem *to = &w->items[list][i];

        xgw__agent__v1__top_item__init(to);
        to->vni = from->vni;
        to->src = address_wire(&from->src);
        to->dst = address_wire(&from->dst);
        to->proto = from->proto;
        to->sport = from->sport;
        to->dport = from->dport;
        to->bytes = from->bytes;
        to->error = from->error;
        w->item_list[list][i] = to;
    }
}

static Xgw__Agent__V1__Top *fill_top(struct telemetry_wire *w,
                                     const struct top_report *top)
{
    xgw__agent__v1__top__init(&w->top);
    w->top.interval_ms = top->interval_ms;
    w->top.no_flows = top->no_flows;
    w->top.bytes = top->bytes;
    fill_items(w, 0, &top->flows);
    fill_items(w, 1, &top->tenants);
    w->top.n_flows = top->flows.count;
    w->top.flows = w->item_list[0];
    w->top.flows_rest = top->flows.rest;
    w->top.n_tenants = top->tenants.count;
    w->top.tenants = w->item_list[1];
    w->top.tenants_rest = top->tenants.rest;
    return &w->top;
}

static void fill(struct telemetry_wire *w, const struct telemetry *t,
                 Xgw__Agent__V1__Telemetry *ret)
{
    for (uint32_t i = 0; i < t->reading_count; i++) {
        const struct telemetry_reading *from = &t->readings[i];
        Xgw__Agent__V1__Reading *r = &w->readings[i];

        xgw__agent__v1__reading__init(r);
        r->part = (char *)from->part;
        r->resource = (char *)from->resource;
        r->kind = from->kind;
        r->capacity = from->capacity;
        r->mean = from->mean;
        r->below = from->mean - from->min;
        r->above = from->max - from->mean;
        w->reading_list[i] = r;
    }
    for (uint32_t i = 0; i < t->drop_count; i++) {
        xgw__agent__v1__drop_count__init(&w->drops[i]);
        w->drops[i].reason = (char *)t->drops[i].reason;
        w->drops[i].packets = t->drops[i].packets;
        w->drop_list[i] = &w->drops[i];
    }
    ret->boot_id = t->boot_id;
    ret->span_ms = t->span_ms;
    ret->received = t->received;
    ret->n_readings = t->reading_count;
    ret->readings = w->reading_list;
    ret->n_drops = t->drop_count;
    ret->drops = w->drop_list;
    ret->top = t->top.interval_ms ? fill_top(w, &t->top) : NULL;
}

enum rc agent_telemetry_encode(const struct telemetry *t, struct buf *to)
{
    Xgw__Agent__V1__AgentMessage message = XGW__AGENT__V1__AGENT_MESSAGE__INIT;
    Xgw__Agent__V1__Telemetry body = XGW__AGENT__V1__TELEMETRY__INIT;
    struct telemetry_wire *w;
    enum rc rc;

    if (t->reading_count > READINGS_MAX || t->drop_count > DROP_REASONS_MAX ||
        t->top.flows.count > TOP_LIST_MAX || t->top.tenants.count > TOP_LIST_MAX) {
        return RC_RANGE;
    }
    w = malloc(sizeof(*w));
    if (!w) {
        return RC_NO_MEMORY;
    }
    fill(w, t, &body);
    message.m_case = XGW__AGENT__V1__AGENT_MESSAGE__M_TELEMETRY;
    message.telemetry = &body;
    rc = agent_wire_pack(&message.base, to);
    free(w);
    return rc;
}

static bool take_text(char *to, size_t size, const char *from)
{
    size_t len = strlen(from);

    if (len >= size || !telemetry_text_is_valid(from)) {
        return false;
    }
    memcpy(to, from, len + 1);
    return true;
}

static bool take_reading(const Xgw__Agent__V1__Reading *w, struct telemetry_reading *r)
{
    if (!take_text(r->part, sizeof(r->part), w->part) ||
        !take_text(r->resource, sizeof(r->resource), w->resource) || !r->resource[0] ||
        w->kind < READING_TABLE || w->kind > READING_FIGURE || w->below > w->mean ||
        w->above > UINT64_MAX - w->mean) {
        return false;
    }
    r->kind = (uint8_t)w->kind;
    r->capacity = w->capacity;
    r->min = w->mean - w->below;
    r->mean = w->mean;
    r->max = w->mean + w->above;
    return true;
}

static bool take_address(const ProtobufCBinaryData *w, struct ip *ret)
{
    if (w->len != 0 && w->len != 4 && w->len != 16) {
        return false;
    }
    ret->family = w->len == 16 ? IP_V6 : w->len == 4 ? IP_V4 : IP_NONE;
    if (w->len) {
        memcpy(ret->b, w->data, w->len);
    }
    return true;
}

static bool take_items(Xgw__Agent__V1__TopItem **items, size_t count, bool is_flows,
                       struct top_list *ret)
{
    if (count > TOP_LIST_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const Xgw__Agent__V1__TopItem *w = items[i];
        struct top_item *to = &ret->items[i];

        if (w->vni > VNI_MAX || w->proto > 255 || w->sport > 65535 ||
            w->dport > 65535 || w->error > w->bytes || w->bytes > TOP_BYTES_MAX ||
            !take_address(&w->src, &to->src) || !take_address(&w->dst, &to->dst) ||
            to->src.family != to->dst.family ||
            is_flows != (to->src.family != IP_NONE)) {
            return false;
        }
        to->vni = w->vni;
        to->proto = (uint8_t)w->proto;
        to->sport = (uint16_t)w->sport;
        to->dport = (uint16_t)w->dport;
        to->bytes = w->bytes;
        to->error = w->error;
    }
    ret->count = (uint32_t)count;
    return true;
}

static bool take_top(const Xgw__Agent__V1__Top *w, struct top_report *ret)
{
    if (w->interval_ms == 0 || w->interval_ms > TELEMETRY_SPAN_MAX ||
        w->bytes > TOP_BYTES_MAX || w->flows_rest > TOP_BYTES_MAX ||
        w->tenants_rest > TOP_BYTES_MAX ||
        !take_items(w->flows, w->n_flows, true, &ret->flows) ||
        !take_items(w->tenants, w->n_tenants, false, &ret->tenants)) {
        return false;
    }
    ret->interval_ms = w->interval_ms;
    ret->no_flows = w->no_flows;
    ret->bytes = w->bytes;
    ret->flows.rest = w->flows_rest;
    ret->tenants.rest = w->tenants_rest;
    return true;
}

static enum rc take(const Xgw__Agent__V1__Telemetry *w, struct telemetry *t,
                    struct err *err)
{
    for (size_t i = 0; i < w->n_readings; i++) {
        if (!take_reading(w->readings[i], &t->readings[i])) {
            return err_field(err, RC_INVALID, "telemetry.readings", "bounds",
                             "telemetry.readings: outside its bounds");
        }
    }
    for (size_t i = 0; i < w->n_drops; i++) {
        if (!take_text(t->drops[i].reason, sizeof(t->drops[i].reason),
                       w->drops[i]->reason) ||
            !t->drops[i].reason[0]) {
            return err_field(err, RC_INVALID, "telemetry.drops", "bounds",
                             "telemetry.drops: outside its bounds");
        }
        t->drops[i].packets = w->drops[i]->packets;
    }
    if (w->top && !take_top(w->top, &t->top)) {
        return err_field(err, RC_INVALID, "telemetry.top", "bounds",
                         "telemetry.top: outside its bounds");
    }
    t->boot_id = w->boot_id;
    t->span_ms = w->span_ms;
    t->received = w->received;
    t->reading_count = (uint32_t)w->n_readings;
    t->drop_count = (uint32_t)w->n_drops;
    return RC_OK;
}

enum rc agent_telemetry_take(const Xgw__Agent__V1__Telemetry *w, struct telemetry **ret,
                             struct err *err)
{
    struct telemetry *t;
    enum rc rc;

    if (w->n_readings > READINGS_MAX || w->n_drops > DROP_REASONS_MAX ||
        w->span_ms == 0 || w->span_ms > TELEMETRY_SPAN_MAX) {
        return err_field(err, RC_INVALID, "telemetry", "bounds",
                         "telemetry: outside its bounds");
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return err_set(err, RC_NO_MEMORY, "out of memory");
    }
    rc = take(w, t, err);
    if (rc == RC_OK) {
        *ret = t;
    } else {
        free(t);
    }
    return rc;
}
