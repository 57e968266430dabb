/*
 * report - what the control threads of all pipelines answer alike: what ports carried
 * and lost, how busy each worker is, and whose packets it sees.
 *
 * Control thread.
 */
#pragma once

#include "agent/gateway/top.h"
#include "proto/api/gateway.pb-c.h"
#include "proto/rpc/rpc_pb.h"
#include "proto/rpc/rpc_server.h"

struct report {
    Xgw__Gateway__V1__CoreCounter cores[RTE_MAX_LCORE];
    Xgw__Gateway__V1__CoreCounter *core_list[RTE_MAX_LCORE];
    char core_names[RTE_MAX_LCORE][16];
    Xgw__Gateway__V1__PortCounters ports[PORTS_MAX];
    Xgw__Gateway__V1__PortCounters *port_list[PORTS_MAX];
};

/* Ports and cores: fills `r` and lets `to` point into it. */
void report_parts(struct report *r, const struct worker *workers, unsigned worker_count,
                  const struct ports *ports, Xgw__Gateway__V1__Counters *to);

/* Frames that a device did not take, or that could not be made contiguous: they left no
 * verdict in the packet functions' counters and are drops for want of a buffer. */
uint64_t report_lost(const struct worker *workers, unsigned worker_count,
                     const struct ports *ports);

/* Answers a GetTop. */
void report_top(struct rpc_call *call, struct rpc_arena *arena, const struct top *t,
                const struct rpc_msg *msg);
