/*
 * ports - the ethernet devices of a gateway, by the names that its configuration uses.
 *
 *   up0=af_packet:veth7          a kernel interface; frames of up to 2,016 bytes
 *   up0=pcap:in.pcap,out.pcap    files: read once from the first, written to the second
 *   up0=null                     receives empty packets, swallows what it is sent
 *   up0=pci:0000:3b:00.0         a NIC bound for DPDK
 *   up0=vdev:net_memif0,role=…   anything else that DPDK makes from a --vdev string
 *
 * Each worker gets a receive queue of its own where the device has enough, else one
 * worker polls the whole port; likewise for transmit, else the queue is shared under a
 * lock.  Control thread, before the workers start; workers read.
 */
#pragma once

#include "agent/gateway/dpdk.h"
#include "proto/base/err.h"
#include "proto/model/object.h" /* PORT_NAME_MAX */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PORTS_MAX 8

struct port {
    char name[PORT_NAME_MAX + 1];
    uint16_t id; /* DPDK's */
    uint8_t mac[6];
    uint16_t rx_queues;
    uint16_t tx_queues;
    bool tx_is_shared;        /* fewer queues than senders */
    rte_spinlock_t tx_lock;   /* of queue 0, where it is shared */
    _Atomic uint64_t tx_lost; /* frames that the device did not take */
};

struct ports {
    struct port at[PORTS_MAX];
    unsigned count;
    struct rte_mempool *pool;
};

struct port_spec {
    char name[PORT_NAME_MAX + 1];
    char device[256]; /* what stands behind '=' */
};

/* Reads "NAME=KIND[:ARGS]"; RC_INVALID with the text. */
enum rc port_spec_parse(const char *text, struct port_spec *ret, struct err *err);

/* The EAL argument that makes the device ("--vdev=…", "--allow=…") into `to`; empty
 * where none is needed.  `index` numbers the specs. */
enum rc port_spec_eal(const struct port_spec *spec, unsigned index, char *to,
                      size_t size, struct err *err);

/* After rte_eal_init(): configures and starts every port for `senders` transmitting
 * threads (the workers and the control thread) with buffers of `mbuf_bytes` of packet
 * each.  Says which port failed and why. */
enum rc ports_start(struct ports *p, const struct port_spec *specs, unsigned count,
                    unsigned workers, unsigned mbufs, unsigned mbuf_bytes,
                    struct err *err);

/* Gives `mbufs` buffers of `room` bytes, headroom included, to be freed with
 * rte_mempool_free(); null without memory.  Where DPDK runs without huge pages the
 * buffers lie in memory of our own that is asked to be huge: in small pages each packet
 * costs misses of the TLB. */
struct rte_mempool *ports_pool_new(unsigned mbufs, uint16_t room);

/* Takes over a device that exists already (a bench's rings). */
enum rc ports_adopt(struct ports *p, const char *name, uint16_t id, unsigned workers,
                    struct err *err);

void ports_stop(struct ports *p);

/* Of the link as it is now; 0: down, or the device does not know. */
uint64_t port_link_bps(const struct port *p);

/* By name; UINT_MAX if there is none. */
unsigned ports_find(const struct ports *p, const char *name);

/* Sends `count` frames; frees and counts what the device does not take.  `sender` is
 * the worker's index, or the number of workers for the control thread. */
void port_send(struct port *p, unsigned sender, struct rte_mbuf **frames,
               uint16_t count);
