#include "agent/fwd/flow_key.h"

static bool has_ports(uint8_t proto)
{
    return proto == PROTO_TCP || proto == PROTO_UDP || proto == PROTO_SCTP;
}

void flow_key_of(const struct fwd_packet *p, const struct layers *l,
                 struct flow_key *ret)
{
    const uint8_t *ip = p->data + l->inner_l3;
    const uint8_t *l4 = p->data + l->inner_l4;
    uint32_t end = l->inner_l3 + l->inner_size;

    *ret = (struct flow_key){ .vni = l->vni,
                              .family = l->inner_family,
                              .proto = l->inner_proto };
    if (l->inner_family == IP_V4) {
        memcpy(ret->src, ip + 12, 4);
        memcpy(ret->dst, ip + 16, 4);
    } else {
        memcpy(ret->src, ip + 8, 16);
        memcpy(ret->dst, ip + 24, 16);
    }
    if (has_ports(l->inner_proto) && !l->is_fragment && l->inner_l4 + 4u <= end) {
        ret->sport = load_be16(l4);
        ret->dport = load_be16(l4 + 2);
    }
}
