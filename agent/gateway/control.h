/*
 * control - the control thread of a gateway: its gRPC socket, ARP/ND, reclamation.
 *
 * One libevent loop.  It owns the device (tables, configuration) and is the only one
 * that writes to it; workers are asked for nothing and waited for never: what they may
 * still read is kept until they have passed.
 */
#pragma once

#include "agent/gateway/device.h"
#include "agent/gateway/neigh.h"
#include "agent/gateway/ports.h"
#include "agent/gateway/probe_port.h"
#include "agent/gateway/worker.h"
#include "proto/rpc/rpc_server.h"

#define WORKERS_MAX 64

struct control;

struct control_config {
    struct event_base *base;
    struct rpc_loop *loop;
    const char *address; /* "unix:/run/xgw/gateway.sock" */
    struct device *device;
    struct ports *ports;
    struct worker *workers;
    struct fib_reader *readers; /* one a worker, in order */
    unsigned worker_count;
    struct rte_ring *from_workers;
    int wake_fd;               /* eventfd: from_workers is no longer empty */
    struct probe_port *probes; /* worker 0 reads it */
    bool is_tamperable;        /* for tests: serves Tamper */
    bool use_taps; /* hand BGP, BFD, ICMP to the kernel through a tap per port */
};

/* Starts to serve; everything in `config` is borrowed until control_free(). */
enum rc control_new(const struct control_config *config, struct control **ret,
                    struct err *err);
/* The workers must have stopped. */
void control_free(struct control *c);
