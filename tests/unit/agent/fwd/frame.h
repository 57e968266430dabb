/*
 * frame - VXLAN packets made and checked byte by byte, for tests of the packet
 * functions.
 *
 * Shares no code with them: sums are taken word by word as RFC 1071 section 1 defines
 * them, and everything is recomputed, never updated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum udp_csum { CSUM_RIGHT, CSUM_ZERO, CSUM_WRONG };

/* What a packet looks like; frame_make() of a zeroed one would be nonsense, so start
 * from frame_spec(). */
struct frame_spec {
    int outer; /* 4 or 6 */
    const char *outer_src;
    const char *outer_dst;
    unsigned tos; /* or traffic class */
    unsigned flow_label;
    unsigned ttl;
    unsigned ip_id;
    unsigned sport;
    enum udp_csum csum;
    unsigned outer_tags;    /* 802.1Q tags around everything */
    unsigned outer_padding; /* bytes behind the outer IP packet */
    uint32_t vni;
    int inner; /* 4 or 6 */
    const char *inner_src;
    const char *inner_dst;
    unsigned inner_tags;
    unsigned inner_ttl;
    unsigned inner_proto;
    unsigned inner_frag; /* v4: flags and offset; v6: fragment header if not 0 */
    unsigned inner_padding;
    unsigned payload; /* bytes behind the inner IP header */
    unsigned seed;    /* of the payload; its first four bytes are ports */
};

struct frame {
    uint8_t b[12000];
    unsigned n;
    unsigned l3, udp, vxlan, inner_l2, inner_l3, inner_l4;
    bool is_v6;
    bool is_inner_v6;
};

/* NC 198.51.100.1 (or 2001:db8:a::1) sends to the VIP: VNI 10, a UDP datagram of 40
 * bytes from 10.0.0.1 to 10.0.0.4 (or 2001:db8:10::1 to ::4). */
struct frame_spec frame_spec(int outer, int inner);
void frame_make(const struct frame_spec *s, struct frame *f);

/* Finds the layers of a frame without outer tags, and checks every length and checksum
 * in it: aborts the test with `what` if one is wrong.  A zero UDP checksum must be
 * allowed by `zero_ok`; with `udp_wrong` the UDP checksum is not looked at. */
void frame_read(const uint8_t *data, unsigned n, struct frame *f, bool zero_ok,
                bool udp_wrong, const char *what);

/* After a patch: makes length-independent sums right again. */
void frame_fix_outer(struct frame *f); /* IPv4 header checksum */
void frame_fix_inner(struct frame *f);
void frame_fix_udp(struct frame *f); /* unless it is zero */

/* The UDP checksum that the frame should have; 0 is given as 0xffff. */
unsigned frame_udp_sum(const struct frame *f);

/* RFC 1071: over `n` bytes, on top of `sum`; not complemented. */
uint32_t plain_sum(uint32_t sum, const uint8_t *p, unsigned n);

unsigned get16(const uint8_t *p);
uint32_t get32(const uint8_t *p);
void put16(uint8_t *p, unsigned v);
