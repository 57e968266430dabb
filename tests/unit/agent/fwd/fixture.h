/*
 * fixture - one gateway for tests of the packet functions: addresses, uplinks and some
 * entries, and a way to put one frame through it.
 *
 * Ours: VTEPs 192.0.2.1 and 2001:db8:f::1, VIPs 192.0.2.100 and 2001:db8:f::100.
 * Senders: 198.51.100.0/24, 203.0.113.7/32, 2001:db8:a::/48.
 * Uplinks (port): 0 (0) and 1 (1) v4, 2 (0) and 3 (1) v6; MTU 1500.
 * Entries of VNI 10: .4 is on a v4 NC, .6 on a v6 NC, both with MAC, .5 on a v4 NC
 * without one; further routes by the third byte (10.0.x.0/24, 2001:db8:10:x::/64): 1
 * peer 20   2 idc v4, VNI 5000   3 region v6, VNI 6000   4 internet   5 service 6 peer
 * to itself in four steps   7 derived v4, VNI 700   8 idc v4, VNI 10 VNI 30 is as 10's
 * first line, and allows inner tags.
 */
#pragma once

#include "agent/fwd/fwd.h"
#include "tests/unit/agent/fwd/frame.h"

struct fixture {
    struct fwd_config *config;
    struct fib *fib;
    struct fwd_worker *worker;
    struct fwd_view view;
};

/* What became of one frame; bytes are the fixture's until the next run. */
struct outcome {
    struct fwd_packet packet;
    struct fwd_answer answer;
    bool has_answer;
};

/* `change` may edit the node before it is compiled; null for the plain one. */
typedef void fixture_change_fn(struct fwd_node *node, struct fwd_uplink_spec *uplinks);
void fixture_init(struct fixture *x, fixture_change_fn *change);
void fixture_fini(struct fixture *x);

/* Puts `n` bytes through fwd_burst() alone, in a heap buffer of exactly the headroom
 * and the bytes, at time 0.  Asserts that a packet not forwarded is unchanged, and that
 * received = forwarded + local + drops.  outcome_fini() frees. */
void fixture_run(struct fixture *x, const uint8_t *bytes, unsigned n, uint16_t headroom,
                 uint8_t rx_flags, struct outcome *ret);
void outcome_fini(struct outcome *o);

/* Asserts received = forwarded + local + sum of drops. */
void fixture_check_counters(const struct fixture *x);

struct fwd_totals fixture_totals(const struct fixture *x);

extern const uint8_t fixture_nc4_mac[6]; /* of .4 */
extern const uint8_t fixture_nc6_mac[6]; /* of .6 */
