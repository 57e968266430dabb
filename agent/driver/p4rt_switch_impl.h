/* p4rt_switch_impl - what p4rt_switch.c and p4rt_pipeline.c share; nobody else's. */
#pragma once

#include "agent/driver/p4rt_switch.h"
#include "proto/api/p4runtime.pb-c.h"
#include "proto/rpc/rpc_pb.h"

struct p4rt_device {
    struct p4rt_switch *owner;
    uint64_t id;
    struct rpc_call *stream;
    struct rpc_call *pipeline; /* a pipeline call under way */
    uint32_t generation;       /* of the connection that call belongs to */
    enum p4rt_program program;
    uint8_t push_step;
    bool is_answered; /* the claim was */
    bool is_primary;
    uint64_t highest; /* term of the primary */
};

/* IDLE: between connections.  LOOKING: for the programs. */
enum p4rt_phase { P4RT_IDLE, P4RT_LOOKING, P4RT_FOUND };

struct p4rt_switch {
    const struct p4rt_switch_events *events;
    void *ctx;
    struct rpc_channel *channel;
    struct event *redial;
    uint32_t redial_ms;
    uint32_t failures; /* dials since we were primary */
    struct rpc_arena arena;
    struct blob *p4info;
    struct blob *device_config;
    bool replaces_other;
    bool cannot_reconcile;
    struct p4rt_info own_info;
    struct p4rt_info info;
    enum p4rt_phase phase;
    uint32_t generation; /* answers to an older one's calls say nothing */
    uint64_t claimed;
    struct err push_err; /* the first of the devices' */
    bool was_primary;
    bool is_closing;
    uint8_t device_count;
    struct p4rt_device devices[P4RT_DEVICES_MAX];
};

/* Asks every device for its program; ends in `found` or `lost`. */
void p4rt_pipeline_look(struct p4rt_switch *s);
