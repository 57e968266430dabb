/*
 * report - what the control threads of all pipelines answer alike: how busy each worker
 * is, and whose packets it sees.
 *
 * Control thread.
 */
#pragma once

#include "agent/gateway/top.h"
#include "proto/api/gateway.pb-c.h"
#include "proto/rpc/rpc_pb.h"
#include "proto/rpc/rpc_server.h"

struct report_cores {
    Xgw__Gateway__V1__CoreCounter cores[RTE_MAX_LCORE];
    Xgw__Gateway__V1__CoreCounter *list[RTE_MAX_LCORE];
    char names[RTE_MAX_LCORE][16];
};

/* Fills `r` and lets `to` point into it. */
void report_cores(struct report_cores *r, const struct worker *workers, unsigned count,
                  Xgw__Gateway__V1__Counters *to);

/* Answers a GetTop. */
void report_top(struct rpc_call *call, struct rpc_arena *arena, const struct top *t,
                const struct rpc_msg *msg);
