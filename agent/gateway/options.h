/* options - the settings of xgw-gateway: one table (proto/base/config.h). */
#pragma once

#include "agent/fwdh/switch.h"
#include "agent/gateway/ports.h"
#include "proto/base/config.h"

enum { HUGEPAGES_AUTO, HUGEPAGES_ON, HUGEPAGES_OFF };
enum { PIPELINE_X86, PIPELINE_H, PIPELINE_LB };
enum { PROFILE_TOFINO, PROFILE_BENCH };

struct options {
    uint32_t pipeline;
    char control[128];
    char ports[1024];
    uint32_t workers;
    char cores[64];
    bool busy_poll;
    bool taps;
    bool tamper;
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
    /* of --pipeline h */
    uint32_t profile;
    char addresses[1024];
    uint32_t mtu;
    bool udp6_zero_csum;
    char tls_ca[256];
    char tls_cert[256];
    char tls_key[256];
};

extern const struct config_table options_table;
extern const char *const options_pipelines[]; /* names of PIPELINE_… */

/* The list of `ports`, separated by spaces.  Gives the specs; at most PORTS_MAX. */
enum rc options_ports(const struct options *o, struct port_spec specs[PORTS_MAX],
                      unsigned *ret_count, struct err *err);

/* What `addresses` and `mtu` say of the ports, which are open: XGW-H knows no other
 * configuration but P4Runtime's. */
enum rc options_switch(const struct options *o, const struct ports *ports,
                       struct hswitch_options *ret, struct err *err);
