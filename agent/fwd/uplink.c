#include "agent/fwd/uplink.h"

#include "agent/fwd/mix.h"
#include "agent/fwd/wire.h"

static bool has_ports(uint8_t proto)
{
    return proto == PROTO_TCP || proto == PROTO_UDP || proto == PROTO_SCTP;
}

/* A hash of (VNI, inner addresses, protocol, ports); without the ports for every
 * fragment of a datagram, so that all take one way, and for protocols that have none.
 */
static uint64_t flow_hash(const struct fwd_packet *p, const struct layers *l)
{
    const uint8_t *ip = p->data + l->inner_l3;
    uint32_t end = l->inner_l3 + l->inner_size;
    uint64_t rest = (uint64_t)l->vni << 40 | (uint64_t)l->inner_proto << 32;

    if (has_ports(l->inner_proto) && !l->is_fragment && l->inner_l4 + 4u <= end) {
        rest |= load_be32(p->data + l->inner_l4);
    }
    return mix(mix_addresses(ip, l->inner_family == IP_V4) ^ MIX_SALT_0,
               rest ^ MIX_SALT_1);
}

static uint64_t ip_fold(const struct ip *ip)
{
    return mix(load_be64(ip->b) ^ MIX_SALT_1,
               load_be64(ip->b + 8) ^ (ip->family == IP_V4 ? MIX_SALT_0 : MIX_SALT_2));
}

uint64_t uplink_seed(uint16_t port, const struct ip *address, const struct ip *next_hop)
{
    return mix(ip_fold(address) ^ MIX_SALT_2, ip_fold(next_hop) ^ MIX_SALT_3 ^ port);
}

void uplink_set_read(struct uplink_set *set, const struct fwd_config *c, uint8_t family)
{
    set->configured = 0;
    set->count = 0;
    for (unsigned i = 0; i < c->uplink_count; i++) {
        uint64_t word;

        if (c->uplink[i].family != family) {
            continue;
        }
        set->configured++;
        word = atomic_load_explicit(&c->next_hop_mac[i], memory_order_relaxed);
        if (word & FWD_MAC_KNOWN) {
            word = __builtin_bswap64(word << 16);
            memcpy(set->mac[set->count], &word, sizeof(word));
            set->index[set->count] = (uint8_t)i;
            set->count++;
        }
    }
}

unsigned uplink_pick_by(const struct uplink_set *set, const struct fwd_config *c,
                        uint64_t hash)
{
    uint64_t best = 0;
    unsigned pick = 0;

    for (unsigned i = 0; i < set->count; i++) {
        uint64_t score = mix(hash ^ c->uplink[set->index[i]].seed, MIX_SALT_0);

        if (score >= best) {
            best = score;
            pick = i;
        }
    }
    return pick;
}

unsigned uplink_pick(const struct uplink_set *set, const struct fwd_config *c,
                     const struct fwd_packet *p, const struct layers *l)
{
    return set->count == 1 ? 0 : uplink_pick_by(set, c, flow_hash(p, l));
}
