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
    unsigned probe_count; /* under way */
    struct rpc_arena arena;
    bool is_up; /* `up` was told, `down` not yet */
    bool is_closing;
};

/* driver_gateway_probe.c: the driver's probe(). */
void gateway_probe(struct driver *d, uint64_t id, struct blob *frame);
