/*
 * probe - packets that a node must treat as its entries say, and whether it did.
 *
 *   rows of the node's group, its configuration ──▶ probe_make_to ▶ packet, and what
 *                                                                   must come of it
 *   what the node's pipeline says ────────────────▶ probe_judge ──▶ agrees, or not
 *
 * What must come of a packet is worked out here from the rows, by the rules of
 * tests/reference/README.md and with none of the data plane's code.  Meters are taken
 * for open and next hops for resolved.
 *
 * A probe is a UDP datagram between two addresses of the tenant, marked as README.md
 * says so that nobody takes it for traffic, with one twist of its frame at most
 * (twist.h).  The device hands back what comes out and sends it nowhere
 * (proto/model/agent_msg.h, ctl_probe).  Which probes a node needs: matrix.h.
 *
 * Pure: no clock, no region, no session.  Values only; any thread.
 */
#pragma once

#include "controller/probe/twist.h"
#include "controller/probe/way.h"
#include "proto/model/agent_msg.h"
#include "proto/model/object.h"
#include "proto/model/table_set.h"
#include "proto/model/vxlan_packet.h"

/* What a packet meets at a node. */
struct probe_node {
    const struct table_set *tables;     /* of its group */
    const struct device_config *config; /* as it was told */
};

/* What must come of a packet. */
struct probe_want {
    uint8_t outcome;                  /* enum probe_outcome */
    char reason[DROP_REASON_MAX + 1]; /* of a drop; else "" */
    bool is_fallback;                 /* XGW-H hands it to XGW-x86 … */
    uint8_t member_count;             /* … to any of so many members; else 0 */
    struct ip members[FALLBACK_MEMBERS_MAX];
    struct vxlan_packet packet; /* forwarded; of a fallback, to the first member */
};

struct probe {
    struct vxlan_packet sent;
    uint8_t twist;        /* enum twist */
    uint16_t filler;      /* bytes that make it longer */
    struct probe_way way; /* where `want` comes of one; else its `end` is WAY_ENDS */
    struct probe_want want;
};

/* The bytes that are sent, and those that must come out towards `to`, which is
 * want.packet's or one of the members; both return how many. */
size_t probe_frame(const struct probe *p, uint8_t ret[PROBE_FRAME_MAX]);
size_t probe_frame_out(const struct probe *p, const struct ip *to,
                       uint8_t ret[PROBE_FRAME_MAX]);

/* A packet of the VNI to one destination, over one family of the underlay, which the
 * node's VTEP has.  `number` tells it from others. */
void probe_make_to(const struct probe_node *node, uint32_t vni, const struct ip *dst,
                   uint8_t underlay, uint64_t number, struct probe *ret);

/* The same without its want, for a packet that is to be changed before. */
void probe_begin(const struct probe_node *node, uint32_t vni, const struct ip *dst,
                 uint8_t underlay, uint64_t number, struct probe *ret);

/* Fills in what must come of `p->sent` with its twist. */
void probe_expect(const struct probe_node *node, struct probe *p);

enum probe_verdict {
    PROBE_AGREES,
    PROBE_DIFFERS,
    PROBE_SAYS_NOTHING /* not now: a meter is red, a next hop unresolved, no answer */
};

#define PROBE_WHY_MAX 255

/* `why` says which probe, what was expected and what was found; "" if it agrees. */
enum probe_verdict probe_judge(const struct probe *p, const struct probe_result *found,
                               char why[PROBE_WHY_MAX + 1]);

#define PROBE_TEXT_MAX 127

/* "a packet to 172.16.9.9", "fallback", "drop route_miss". */
void probe_print_want(const struct probe_want *w, char to[PROBE_TEXT_MAX + 1]);
/* The same of what came out; what is other than it must be, or why there is nothing. */
void probe_print_found(const struct probe *p, const struct probe_result *found,
                       char to[PROBE_TEXT_MAX + 1]);
