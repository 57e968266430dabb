#include "agent/driver/gateway_words.h"

#include <string.h>

static struct ip address(const ProtobufCBinaryData *w)
{
    struct ip ip = { .family = w->len == 16 ? IP_V6 : IP_V4 };

    memcpy(ip.b, w->data, w->len < 16 ? w->len : 16);
    return ip;
}

static void take_flows(const Xgw__Gateway__V1__Top *w, struct top_list *ret)
{
    for (size_t i = 0; i < w->n_flows && ret->count < TOP_LIST_MAX; i++) {
        const Xgw__Gateway__V1__TopFlow *from = w->flows[i];

        ret->items[ret->count++] = (struct top_item){ .vni = from->vni,
                                                      .src = address(&from->src),
                                                      .dst = address(&from->dst),
                                                      .proto = (uint8_t)from->proto,
                                                      .sport = (uint16_t)from->sport,
                                                      .dport = (uint16_t)from->dport,
                                                      .bytes = from->bytes,
                                                      .error = from->error };
    }
    ret->rest = w->flows_rest;
}

static void take_tenants(const Xgw__Gateway__V1__Top *w, struct top_list *ret)
{
    for (size_t i = 0; i < w->n_tenants && ret->count < TOP_LIST_MAX; i++) {
        ret->items[ret->count++] = (struct top_item){ .vni = w->tenants[i]->vni,
                                                      .bytes = w->tenants[i]->bytes,
                                                      .error = w->tenants[i]->error };
    }
    ret->rest = w->tenants_rest;
}

void gateway_words_top(const Xgw__Gateway__V1__Top *w, struct top_report *ret)
{
    memset(ret, 0, sizeof(*ret));
    take_flows(w, &ret->flows);
    take_tenants(w, &ret->tenants);
    ret->bytes = w->bytes;
    ret->interval_ms = w->interval_ms;
}

struct device_reading gateway_words_core(const char *part, uint64_t busy_ns)
{
    return (struct device_reading){ part, "busy",  READING_LOAD,
                                    true, busy_ns, 1000000000u };
}

void gateway_words_port(const char *part, const struct port_counts *p,
                        struct device_reading ret[PORT_READINGS])
{
    ret[0] = (struct device_reading){ part, "rx_bps",        READING_LOAD,
                                      true, p->rx_bytes * 8, p->link_bps };
    ret[1] = (struct device_reading){ part, "tx_bps",        READING_LOAD,
                                      true, p->tx_bytes * 8, p->link_bps };
    ret[2] = (struct device_reading){ part, "rx_pps",      READING_FIGURE,
                                      true, p->rx_packets, 0 };
    ret[3] = (struct device_reading){ part, "tx_pps",      READING_FIGURE,
                                      true, p->tx_packets, 0 };
}
