/*
 * fwd_config - what a node is, compiled for the packet path: which addresses are ours,
 * who may send to us, where packets leave.
 *
 * The control thread makes one from a `struct fwd_node`, publishes its
 * pointer with release order and frees the old one once every worker has passed a
 * quiescent state.  Workers only read.  Nothing in it changes after it was made, but
 * for the next hops' MACs: one atomic word an uplink, which the control thread's ARP/ND
 * resolver writes and workers read once a burst.
 *
 * It knows no port and sends nothing: `fwd_uplink.port` is a number that the caller
 * gave and gets back.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/fwd/wire.h"
#include "proto/base/err.h"
#include "proto/base/ip.h"

#define FWD_UPLINK_MAX 16

/* Bytes of outer IP packet: what IPv6 needs (RFC 8200, section 5), and the longest IPv4
 * packet. */
#define FWD_MTU_MIN 1280u
#define FWD_MTU_MAX 65535u

struct device_config;

/* What an address of ours is for; a mask, for one address may be several things. */
enum {
    ADDRESS_TUNNEL = 1 << 0, /* a VTEP or VIP: VXLAN to it is forwarded */
    ADDRESS_PORT = 1 << 1,   /* an uplink's own: control traffic only */
};

/* A port and a next hop: one way out, for one family. */
struct fwd_uplink {
    uint64_t seed;  /* of its place in the flow hash; from port, address, next hop */
    uint32_t mtu;   /* bytes of outer IP packet */
    uint16_t port;  /* as the caller numbers them */
    uint8_t family; /* IP_V4, IP_V6 */
    uint8_t mac[6]; /* ours on that port */
    struct ip address;
    struct ip next_hop;
    bool has_static_mac; /* the configuration gave it; the resolver leaves it alone */
};

struct fwd_local4 {
    uint32_t address; /* as loaded from the wire; 0 = empty slot */
    uint32_t kind;    /* mask of ADDRESS_* */
};

struct fwd_local6 {
    uint8_t address[16];
    uint32_t kind; /* 0 = empty slot */
};

struct fwd_range4 {
    uint32_t first; /* host order, both inclusive */
    uint32_t last;
};

struct fwd_range6 {
    uint64_t first[2]; /* high, low; host order, both inclusive */
    uint64_t last[2];
};

struct fwd_config {
    /* read for every packet */
    _Alignas(64) const struct fwd_local4 *local4; /* open addressing, mask + 1 slots */
    const struct fwd_local6 *local6;
    uint32_t local4_mask;
    uint32_t local6_mask;
    const struct fwd_range4 *source4; /* sorted, disjoint */
    const struct fwd_range6 *source6;
    uint32_t source4_count;
    uint32_t source6_count;
    bool has_vip4;
    bool has_vip6;
    bool udp6_zero_csum; /* RFC 6935: over v6, zero UDP checksums come and go */
    uint8_t uplink_count;
    _Alignas(64) uint8_t vip4[4]; /* the first VIP of each family: our outer source */
    uint8_t vip6[16];
    struct fwd_uplink uplink[FWD_UPLINK_MAX];

    /* read for ICMP errors only */
    bool has_icmp4;
    bool has_icmp6;
    uint8_t icmp4[4];
    uint8_t icmp6[16];

    /* written by the control thread: FWD_MAC_KNOWN and the 48 bits, or 0 */
    _Alignas(64) _Atomic uint64_t next_hop_mac[FWD_UPLINK_MAX];
};

#define FWD_MAC_KNOWN (UINT64_C(1) << 63)

/* An uplink as its owner describes it. */
struct fwd_uplink_spec {
    uint16_t port;  /* as the caller numbers its ports */
    uint8_t mac[6]; /* of that port */
    uint32_t mtu;   /* bytes of outer IP packet, FWD_MTU_MIN to FWD_MTU_MAX */
    struct ip address;
    struct ip next_hop;    /* of the same family */
    bool has_next_hop_mac; /* static; else the resolver finds it */
    uint8_t next_hop_mac[6];
};

/* A node in plain values, from which a configuration is compiled.  Borrows the arrays.
 */
struct fwd_node {
    const struct ip *vteps;
    const struct ip *vips; /* the first of each family is the outer source */
    const struct prefix *underlay_sources;
    const struct fwd_uplink_spec *uplinks;
    uint32_t vtep_count;
    uint32_t vip_count;
    uint32_t underlay_source_count;
    uint32_t uplink_count;
    struct ip icmp_source4; /* IP_NONE: no ICMP errors of that family */
    struct ip icmp_source6;
    bool udp6_zero_csum;
};

/* Gives a compiled copy of `node`, to be freed with fwd_config_free().  Next hops
 * without a static MAC start unresolved.  RC_RANGE: more than FWD_UPLINK_MAX uplinks,
 * an MTU out of bounds; RC_INVALID: an address of no or the wrong family; RC_NO_MEMORY.
 */
enum rc fwd_config_new(const struct fwd_node *node, struct fwd_config **ret,
                       struct err *err);
/* A port as the shell opened it. */
struct fwd_port {
    uint16_t number; /* as the caller numbers its ports */
    uint8_t mac[6];
};

/* The same from what the device was told.  ports[i] is the port that device->uplinks[i]
 * names: the caller knows ports by name, we do not.  An uplink of both families becomes
 * two, v4 first. */
enum rc fwd_config_of_device(const struct device_config *device,
                             const struct fwd_port ports[], struct fwd_config **ret,
                             struct err *err);

/* Null is fine.  No worker may hold it. */
void fwd_config_free(struct fwd_config *c);

/* Control thread: what the resolver learned or lost about one uplink's next hop.  A
 * static MAC stays what it is. */
void fwd_config_set_mac(struct fwd_config *c, unsigned uplink, const uint8_t mac[6]);
void fwd_config_clear_mac(struct fwd_config *c, unsigned uplink);

/* Control thread: takes over what is known of next hops that both have (same port, same
 * next hop), so that publishing a new configuration loses no packet to resolution. */
void fwd_config_inherit_macs(struct fwd_config *now, const struct fwd_config *before);

/* The workers' questions.  `address` is 4 or 16 bytes as they lie in the packet. */

static inline uint32_t fwd_local4_hash(uint32_t address)
{
    return (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* A mask of ADDRESS_*; 0 if not ours. */
static inline unsigned fwd_config_local4(const struct fwd_config *c,
                                         const uint8_t *address)
{
    uint32_t key;

    memcpy(&key, address, sizeof(key));
    for (uint32_t i = fwd_local4_hash(key);; i++) {
        const struct fwd_local4 *slot = &c->local4[i & c->local4_mask];

        if (slot->address == key || slot->kind == 0) {
            return slot->kind; /* the table is never full: an empty slot ends it */
        }
    }
}
unsigned fwd_config_local6(const struct fwd_config *c, const uint8_t *address);

/* Does it lie in `underlay_source`? */
static inline bool fwd_config_source4(const struct fwd_config *c,
                                      const uint8_t *address)
{
    uint32_t key = load_be32(address);
    const struct fwd_range4 *base = c->source4;
    uint32_t n = c->source4_count;

    if (n == 0) {
        return false;
    }
    while (n > 1) { /* to the last range that starts at or before `key` */
        uint32_t half = n / 2;

        base = base[half].first <= key ? base + half : base;
        n -= half;
    }
    return base->first <= key && key <= base->last;
}
bool fwd_config_source6(const struct fwd_config *c, const uint8_t *address);
