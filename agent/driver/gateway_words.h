/*
 * gateway_words - what a gateway's own service says, as a driver's values; and what
 * both drivers tell of a port.
 *
 * Values only; any thread.
 */
#pragma once

#include "agent/driver/driver.h"
#include "proto/api/gateway.pb-c.h"

/* A Top; a list that is longer than TOP_LIST_MAX is cut. */
void gateway_words_top(const Xgw__Gateway__V1__Top *w, struct top_report *ret);

/* How busy a worker is: a counter.  `part` is borrowed. */
struct device_reading gateway_words_core(const char *part, uint64_t busy_ns);

struct port_counts {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
    uint64_t link_bps; /* 0: not known */
};

/* `part`, "port/NAME", is borrowed. */
#define PORT_READINGS 4
void gateway_words_port(const char *part, const struct port_counts *p,
                        struct device_reading ret[PORT_READINGS]);
