/*
 * icmp_error - tells a sender that its packet was too big or lived too long.
 *
 * "ICMP errors" of tests/reference/README.md (RFC 792, 1122, 1812, 4443).  The error
 * goes inside VXLAN to where the packet came from.  Whether one is due is asked before
 * anything is spent on it; limits are the caller's.  Pure; any thread.
 */
#pragma once

#include "agent/fwd/parse.h"

enum icmp_error_kind {
    ICMP_ERROR_TIME_EXCEEDED,
    ICMP_ERROR_TOO_BIG, /* v4: fragmentation needed */
};

/* May an error be sent about this packet at all?  False for ICMP errors, later
 * fragments, group MACs, senders that are no unicast address, and where the region has
 * no ICMP source of the inner family. */
bool icmp_error_is_due(const struct fwd_config *c, const struct fwd_packet *p,
                       const struct layers *l);

struct icmp_error {
    enum icmp_error_kind kind;
    uint32_t mtu;            /* told to the sender; only for ICMP_ERROR_TOO_BIG */
    uint32_t uplink_mtu;     /* of the answer's way: the quote is cut to fit it */
    const uint8_t *source;   /* inner: the region's address, of the inner family */
    const uint8_t *vip;      /* outer source, of the arriving outer family */
    const uint8_t *port_mac; /* 6 bytes each */
    const uint8_t *next_hop_mac;
    bool udp6_zero_csum;
};

/* Writes the whole frame to `to` (FWD_ANSWER_SIZE bytes of room); returns its length.
 * `p` is as it arrived, and parsed without complaint. */
uint32_t icmp_error_write(const struct icmp_error *e, const struct fwd_packet *p,
                          const struct layers *l, uint8_t *to);
