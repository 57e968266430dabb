/*
 * hcontrol - the control thread of `--pipeline h`: the P4Runtime server's sockets, ARP
 * and ND of the ports, packets to and from the controller, reclamation.
 *
 * One libevent loop.  It owns the switch's tables and is the only one that writes to
 * them; workers are waited for never.  Frames that are for us come up from the workers:
 * ARP and ND are answered here (once `vtep` has rows), and every one of them goes to
 * the primary of its port's half as a packet-in.
 *
 * Beside P4Runtime it answers two calls of the gateway's own service, as no chip does:
 * GetCounters (ports, cores, and of drops those around the packet path: no_buffer) and
 * GetTop.  Tests have a third one, Tamper.
 */
#pragma once

#include "agent/gateway/hserver.h"
#include "agent/gateway/ports.h"
#include "agent/gateway/worker.h"
#include "proto/rpc/rpc_server.h"

struct hcontrol;

/* A port's own counters; `ports` is a struct ports: for hswitch_options. */
void hcontrol_port_counts(void *ports, unsigned port, struct hcount *ret_rx,
                          struct hcount *ret_tx);

struct hcontrol_config {
    struct event_base *base;
    struct rpc_loop *loop;
    const char *address;       /* "unix:…" or "host:port" */
    const struct rpc_tls *tls; /* null: plain text */
    struct hswitch *tables;
    struct ports *ports;
    struct worker *workers;
    unsigned worker_count;     /* number of the sender that we are */
    struct probe_port *probes; /* worker 0 reads it */
    struct rte_ring *from_workers;
    int wake_fd;        /* eventfd: from_workers is no longer empty */
    bool is_tamperable; /* for tests: serves Tamper */
};

/* Starts to serve; everything in `config` is borrowed until hcontrol_free(). */
enum rc hcontrol_new(const struct hcontrol_config *config, struct hcontrol **ret,
                     struct err *err);
/* The workers must have stopped, the loop too; null is fine. */
void hcontrol_free(struct hcontrol *c);
