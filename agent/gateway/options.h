/* options - the settings of xgw-gateway: one table (proto/base/config.h). */
#pragma once

#include "agent/gateway/ports.h"
#include "proto/base/config.h"

enum { HUGEPAGES_AUTO, HUGEPAGES_ON, HUGEPAGES_OFF };
enum { PIPELINE_X86 };

struct options {
    uint32_t pipeline;
    char control[128];
    char ports[1024];
    uint32_t workers;
    char cores[64];
    bool busy_poll;
    bool taps;
    bool wait_ready;
    uint32_t icmp_rate;
    uint32_t hugepages;
    uint32_t memory_mb;
    uint32_t mbufs;
    uint32_t mbuf_bytes;
    uint32_t max_routes;
    uint32_t max_vm_nc;
    uint32_t max_vnis;
    uint32_t log_level;
};

extern const struct config_table options_table;

/* The list of `ports`, separated by spaces.  Gives the specs; at most PORTS_MAX. */
enum rc options_ports(const struct options *o, struct port_spec specs[PORTS_MAX],
                      unsigned *ret_count, struct err *err);
