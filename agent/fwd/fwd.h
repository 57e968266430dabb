/*
 * fwd - the packet functions: bytes and read-only tables in, verdict out.
 *
 * One call, fwd_burst(), takes packets through all that a gateway of the x86 kind
 * does with them: parse, look up, rewrite, or drop with a reason, and answers senders
 * with ICMP errors (the rules: tests/reference/README.md).  It moves nothing between
 * ports, knows no clock, no lock and no DPDK, and on the packet path it never
 * allocates, logs, waits or reads a global.
 *
 * The nouns: a *view* is the tables of one moment; a *worker* is what one core counts
 * and limits by itself; a *packet* comes with its bytes and goes with a verdict; an
 * *answer* is a packet that we originate, in a buffer the caller lent.
 *
 * Threads: any number of workers call fwd_burst() at once on one view, each with a
 * `struct fwd_worker` of its own.  The caller is online at the fib (fib_reader_online)
 * during the call and passes a quiescent state between calls; view and config stay
 * valid until then.
 *
 * Mistakes people make: lending packets whose data is shared with another packet
 * (rewriting is in place); passing fewer bytes of headroom than FWD_HEADROOM, so that
 * packets that cross from a v4 to a v6 underlay are dropped for want of room.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/fwd/drop_reason.h"
#include "agent/fwd/fib.h"
#include "agent/fwd/fwd_config.h"

/* A v6 outer header is 20 bytes longer than a v4 one. */
#define FWD_HEADROOM 20

/* Room an answer needs: Ethernet, outer IPv6, UDP, VXLAN, inner Ethernet with two tags,
 * and the 1,280 bytes of the longest error (RFC 4443, section 2.4 c). */
#define FWD_ANSWER_SIZE (14 + 40 + 8 + 8 + 22 + 1280)

/* Packets that go through the stages together; longer calls are cut, and up to three
 * pieces are under way at once.
 * Measured (bench_lookup, 2026-11-30): 64, with turns of 128, costs some 40 cycles a
 * packet less than 32 with turns of 64 at 1 M + 1 M entries, where a stage of 32 is
 * shorter than a miss takes, and as much at 1,000. */
#define FWD_BURST 64

/* What the tables say at one moment.  A value; the caller makes a new one per burst
 * from the pointers that the control thread published. */
struct fwd_view {
    const struct fwd_config *config; /* may be null while not ready */
    const struct fib *fib;           /* likewise */
    bool is_ready;                   /* false: everything is dropped as not_ready */
};

/* What the NIC found out about a packet's outer headers. */
enum {
    FWD_RX_IP_CSUM_GOOD = 1 << 0, /* IPv4 header checksum checked: not checked again */
    FWD_RX_IP_CSUM_BAD = 1 << 1,
    FWD_RX_L4_CSUM_BAD = 1 << 2, /* of UDP; 0 = unknown or good */
};

enum fwd_verdict {
    FWD_FORWARD = 1, /* send `data`, `length` out of `uplink` */
    FWD_DROP = 2,    /* free it; `reason` says why, and it is counted */
    FWD_LOCAL = 3,   /* hand it, unchanged, to the control thread */
};

enum fwd_local_kind {
    FWD_LOCAL_ARP = 1,
    FWD_LOCAL_ND = 2,  /* ICMPv6 types 133 to 137, to any address */
    FWD_LOCAL_BFD = 3, /* UDP to one of our addresses, ports 3784, 3785, 4784 */
    FWD_LOCAL_IP = 4,  /* any other protocol to one of our addresses: BGP, ICMP, … */
};

struct fwd_packet {
    /* in; data and length change when the packet is forwarded */
    uint8_t *data;     /* the outer Ethernet header; the caller's, rewritten in place */
    uint32_t length;   /* bytes at `data`, all contiguous */
    uint16_t headroom; /* writable bytes in front of `data` */
    uint16_t port;     /* where it came in; carried for the caller, not looked at */

    /* out */
    union {
        struct {
            uint8_t verdict; /* enum fwd_verdict */
            uint8_t reason;  /* enum drop_reason of a drop, else DROP_NONE */
            uint8_t local;   /* enum fwd_local_kind of a local one, else 0 */
            uint8_t uplink;  /* of a forwarded one: index into config->uplink */
        };
        uint32_t outcome; /* all four */
    };

    uint8_t rx_flags; /* in: mask of FWD_RX_* */
};

/* A packet that we originate: an ICMP error back to where a dropped packet came from.
 */
struct fwd_answer {
    uint8_t *data;   /* in: the caller's, at least FWD_ANSWER_SIZE bytes */
    uint32_t length; /* out */
    uint32_t about;  /* out: index of the packet that it answers */
    uint8_t uplink;  /* out */
};

/* Buffers lent for the answers of one call; `count` of `room` are filled afterwards, in
 * order.  Without room left an answer is not made, and counted. */
struct fwd_answers {
    struct fwd_answer *at;
    uint32_t room;
    uint32_t count;
};

/* Always received = forwarded + local + sum of drops.  Written by the worker with plain
 * (relaxed) stores, readable from any thread at any time; each counter is exact, a set
 * of them read while the worker runs may be a burst apart. */
struct fwd_counters {
    _Atomic uint64_t received;
    _Atomic uint64_t forwarded;
    _Atomic uint64_t local;
    _Atomic uint64_t icmp_sent;
    _Atomic uint64_t icmp_limited;      /* answers that the rate limit held back */
    _Atomic uint64_t icmp_no_buffer;    /* answers that no buffer was lent for */
    _Atomic uint64_t drops[DROP_COUNT]; /* by reason; [DROP_NONE] stays 0 */
};

/* A token bucket in the clock's own unit: a token is `1e9 / rate_pps` nanoseconds. */
struct fwd_limiter {
    uint64_t token_ns; /* what one answer costs; 0 = unlimited */
    uint64_t depth_ns; /* the bucket's size */
    uint64_t full_ns;  /* the time at which the bucket is full again */
};

/* Linux' defaults for net.ipv4.icmp_msgs_per_sec and icmp_msgs_burst. */
#define FWD_ICMP_RATE_PPS 1000
#define FWD_ICMP_BURST    50

/* One per core, on its own cache lines.  Only its worker writes. */
struct fwd_worker {
    _Alignas(64) struct fwd_limiter icmp;
    _Alignas(64) struct fwd_counters count;
};

/* Zeroes the counters and fills the bucket: at most `burst` answers at once and
 * `rate_pps` a second on the long run.  `rate_pps` 0 sets no limit (comparisons). */
void fwd_worker_init(struct fwd_worker *w, uint32_t rate_pps, uint32_t burst);

/* Gives each of packets[0..n) its verdict.  `now_ns` is any monotonic clock, in
 * nanoseconds; it only feeds the rate limit.  `answers` may be null (no answer is
 * made).  The caller has asked for the first two lines of the packets.  Reads nothing
 * past `length` of a packet, writes nothing in front of `headroom`.  A packet that is
 * not forwarded is left unchanged. */
void fwd_burst(const struct fwd_view *view, struct fwd_worker *w, uint64_t now_ns,
               struct fwd_packet packets[], uint32_t n, struct fwd_answers *answers);

/* Adds what one worker counted to `sum` (plain numbers, the reader's own). */
struct fwd_totals {
    uint64_t received;
    uint64_t forwarded;
    uint64_t local;
    uint64_t icmp_sent;
    uint64_t icmp_limited;
    uint64_t icmp_no_buffer;
    uint64_t drops[DROP_COUNT];
};
void fwd_worker_sum(const struct fwd_worker *w, struct fwd_totals *sum);
