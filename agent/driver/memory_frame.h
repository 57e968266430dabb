/*
 * memory_frame - what driver_memory's device reads of a frame, byte by byte.
 *
 * The checks are those of tests/reference, by their numbers, up to the tables; what a
 * frame says is given as a vxlan_packet, as far as one can say it, and the inside as it
 * came.  Values only.
 */
#pragma once

#include "proto/model/agent_msg.h"
#include "proto/model/vxlan_packet.h"

struct memory_frame {
    struct vxlan_packet packet; /* ports, TTLs, addresses; no payload */
    const uint8_t *vxlan;       /* the header, in the frame */
    const uint8_t *inner;       /* from the inner Ethernet header on, in the frame */
    size_t inner_len;
    size_t inner_ip; /* where in it the IP header is */
    bool has_tags;   /* inside */
    bool hides_ports;
    bool has_ports;
    uint8_t proto; /* of the upper layer */
    bool is_kept;  /* by the node's own control, and all else is of no use */
};

/* What reading has to know of the node. */
struct memory_node {
    const struct table_set *tables;
    const struct device_config *config;
};

/* The reason of a drop; null: it is kept, or the routes are next. */
const char *memory_frame_read(const struct memory_node *node, const uint8_t *frame,
                              size_t len, struct memory_frame *ret);

/* Writes it with another outer header and, inside, TTL and destination MAC of `out`.
 * `as_it_is`: but the VXLAN header and all inside are as they came.  Returns the
 * length; 0: there is no room in PROBE_FRAME_MAX. */
size_t memory_frame_write(const struct memory_frame *f, const struct vxlan_packet *out,
                          bool as_it_is, uint8_t to[PROBE_FRAME_MAX]);
