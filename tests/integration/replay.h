/*
 * replay - a pcap file through packet functions, a line of JSON a packet on standard
 * output in the form of tests/reference/README.md ("Files").
 *
 * Every packet lies in a buffer of exactly its size and the headroom it needs, so a
 * sanitizer sees a read past the end.  One owner, one thread.
 */
#pragma once

#include "agent/fwd/fwd.h"

#define REPLAY_BURST_MAX 256

/* Gives each of packets[0..n) its verdict; fills `answers`. */
typedef void replay_burst_fn(void *arg, struct fwd_packet packets[], uint32_t n,
                             struct fwd_answers *answers);
/* The port that an uplink's number means. */
typedef unsigned replay_port_fn(void *arg, unsigned uplink);

struct replay {
    replay_burst_fn *burst;
    replay_port_fn *port;
    void *arg;
    uint32_t burst_size; /* packets a call, 1 to REPLAY_BURST_MAX */
    uint16_t in_port;    /* of all packets */
};

enum rc replay_file(const struct replay *r, const char *pcap, struct err *err);
