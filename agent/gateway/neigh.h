/*
 * neigh - who our next hops are, and who we are to those who ask: ARP (RFC 826) and
 * IPv6 neighbour discovery (RFC 4861) for the uplinks of a gateway.
 *
 * Frames in, frames out, time as an argument; no DPDK, no socket.  It answers for an
 * uplink's own address only, on that uplink's port; it learns from answers to its own
 * questions and from requests of the next hop itself, and from nobody else.  Next hops
 * are asked until they answer, and again every NEIGH_REFRESH_MS by unicast; one that
 * does not answer NEIGH_PROBES times is unresolved.
 *
 * The control thread owns it.
 */
#pragma once

#include "agent/fwd/fwd_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEIGH_ASK_MS     200   /* between questions while unresolved */
#define NEIGH_REFRESH_MS 15000 /* half of Linux' default reachable time */
#define NEIGH_PROBES     3     /* unanswered refreshes until it is gone */
#define NEIGH_FRAME_MAX  90    /* Ethernet, IPv6, ND with one option */

/* One a way out, in the order of fwd_config's uplinks. */
struct neigh_entry {
    uint64_t next_ms; /* when to ask again; UINT64_MAX = never (static) */
    uint8_t unanswered;
    bool is_known;
    uint8_t mac[6];
};

struct neigh {
    struct fwd_config *config; /* borrowed; null before the first */
    struct neigh_entry entry[FWD_UPLINK_MAX];
};

/* Takes a new configuration (borrowed until the next call); what is known of next hops
 * that both have stays known. */
void neigh_configure(struct neigh *n, struct fwd_config *config, uint64_t now_ms);

struct neigh_out {
    uint16_t port;
    uint8_t frame[NEIGH_FRAME_MAX];
    size_t len; /* 0: nothing to send */
};

/* A frame that came in on `port`; an answer may have to go out.  Damaged frames, and
 * frames about addresses that are not ours, do nothing. */
void neigh_receive(struct neigh *n, uint16_t port, const uint8_t *frame, size_t len,
                   uint64_t now_ms, struct neigh_out *ret);

/* The next question that is due; false when there is none. */
bool neigh_ask(struct neigh *n, uint64_t now_ms, struct neigh_out *ret);

/* When neigh_ask() has something to do; UINT64_MAX = never. */
uint64_t neigh_next_wake(const struct neigh *n);
