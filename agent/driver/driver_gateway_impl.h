/* driver_gateway_impl - shared by driver_gateway.c and driver_gateway_probe.c. */
#pragma once

#include "agent/driver/driver_gateway.h"
#include "proto/api/gateway.pb-c.h"
#include "proto/rpc/rpc_client.h"
#include "proto/rpc/rpc_pb.h"

struct reading;

struct gateway {
    struct driver driver;
    struct rpc_channel *channel;
    struct event *redial;
    struct rpc_call *control; /* null while there is none */
    struct reading *readings;
    struct rpc_call *counting;
    struct rpc_call *topping; /* asks for the heaviest flows */
    unsigned polls;
    struct top_report top; /* not handed on yet; interval_ms 0: none */
    unsigned probe_count;  /* under way */
    struct rpc_arena arena;
    bool is_up; /* `up` was told, `down` not yet */
    bool is_closing;
};

/* driver_gateway_top.c: asks for them, with every TOP_POLLS-th poll. */
void gateway_poll_top(struct gateway *g);

/* driver_gateway_probe.c: the driver's probe(). */
void gateway_probe(struct driver *d, uint64_t id, struct blob *frame);
