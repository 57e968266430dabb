#include "agent/fwd/parse.h"

#include "agent/fwd/checksum.h"
#include "agent/fwd/wire.h"

enum {
    BFD_PORT = 3784,          /* RFC 5881 */
    BFD_ECHO_PORT = 3785,     /* RFC 5881 */
    BFD_MULTIHOP_PORT = 4784, /* RFC 5883 */
    ND_FIRST = 133,           /* router solicitation … redirect: RFC 4861 */
    ND_LAST = 137,
    EXT_MAX = 8, /* our limit; nobody sends more than three */
};

static bool is_tag(uint16_t ethertype)
{
    return ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_SVLAN;
}

/* Checks 3 to 8 for IPv4.  Sets outer_size, udp (behind the header) and the protocol.
 */
static unsigned parse_outer_ip4(const struct fwd_packet *p, struct layers *l,
                                uint8_t *ret_proto)
{
    const uint8_t *ip = p->data + l->outer_l3;
    uint32_t avail = p->length - l->outer_l3;
    uint32_t header;
    uint32_t total;

    if (avail < IP4_SIZE) {
        return DROP_OUTER_LENGTH;
    }
    if (ip[0] >> 4 != 4) {
        return DROP_OUTER_VERSION;
    }
    header = (ip[0] & 15u) * 4;
    total = load_be16(ip + 2);
    if (header < IP4_SIZE || total < header || total > avail) {
        return DROP_OUTER_LENGTH;
    }
    if ((p->rx_flags & FWD_RX_IP_CSUM_BAD) ||
        (!(p->rx_flags & FWD_RX_IP_CSUM_GOOD) &&
         csum_fold(csum_add(0, ip, header)) != 0xffff)) {
        return DROP_OUTER_CHECKSUM;
    }
    if (header != IP4_SIZE) {
        return DROP_OUTER_OPTIONS;
    }
    if (load_be16(ip + 6) & (IP4_MF | IP4_OFFSET)) {
        return DROP_OUTER_FRAG;
    }
    l->outer_size = total;
    l->udp = (uint16_t)(l->outer_l3 + IP4_SIZE);
    *ret_proto = ip[9];
    return 0;
}

/* The same for IPv6, with check 9: neighbour discovery is the control thread's. */
static unsigned parse_outer_ip6(const struct fwd_packet *p, struct layers *l,
                                uint8_t *ret_proto)
{
    const uint8_t *ip = p->data + l->outer_l3;
    uint32_t avail = p->length - l->outer_l3;
    uint32_t payload;
    uint8_t type;

    if (avail < IP6_SIZE) {
        return DROP_OUTER_LENGTH;
    }
    if (ip[0] >> 4 != 6) {
        return DROP_OUTER_VERSION;
    }
    payload = load_be16(ip + 4);
    if (payload > avail - IP6_SIZE) {
        return DROP_OUTER_LENGTH;
    }
    switch (ip[6]) {
    case PROTO_HOPOPTS:
    case PROTO_ROUTING:
    case PROTO_AH:
    case PROTO_DSTOPTS:
    case PROTO_MOBILITY:
    case PROTO_HIP:
    case PROTO_SHIM6:
        return DROP_OUTER_OPTIONS;
    case PROTO_FRAGMENT:
        return DROP_OUTER_FRAG;
    case PROTO_ICMP6:
        type = payload > 0 ? ip[IP6_SIZE] : 0;
        if (type >= ND_FIRST && type <= ND_LAST) {
            return PARSE_LOCAL + FWD_LOCAL_ND;
        }
        break;
    default:
        break;
    }
    l->outer_size = IP6_SIZE + payload;
    l->udp = (uint16_t)(l->outer_l3 + IP6_SIZE);
    *ret_proto = ip[6];
    return 0;
}

/* Checks 15 to 18, on a packet that is VXLAN to us. */
static unsigned check_outer(const struct fwd_config *c, const struct fwd_packet *p,
                            const struct layers *l)
{
    const uint8_t *ip = p->data + l->outer_l3;
    const uint8_t *udp = p->data + l->udp;
    bool is_v6 = l->outer_family == IP_V6;

    if (ip[is_v6 ? 7 : 8] < 2) {
        return DROP_OUTER_TTL;
    }
    if (is_v6 && !c->udp6_zero_csum && csum_load(udp + 6) == 0) {
        return DROP_OUTER_UDP6_ZERO_CSUM;
    }
    if (p->rx_flags & FWD_RX_L4_CSUM_BAD) {
        return DROP_OUTER_L4_CHECKSUM;
    }
    if (!(is_v6 ? fwd_config_source6(c, ip + 8) : fwd_config_source4(c, ip + 12))) {
        return DROP_SOURCE_CHECK;
    }
    return 0;
}

/* Checks 10 to 21: from "is it for us" to the VNI. */
static unsigned parse_vxlan(const struct fwd_config *c, const struct fwd_packet *p,
                            struct layers *l, uint8_t proto)
{
    const uint8_t *ip = p->data + l->outer_l3;
    const uint8_t *udp = p->data + l->udp;
    uint32_t payload = l->outer_l3 + l->outer_size - l->udp;
    uint16_t port;
    uint16_t size;
    unsigned ours;
    unsigned result;

    ours = l->outer_family == IP_V4 ? fwd_config_local4(c, ip + 16)
                                    : fwd_config_local6(c, ip + 24);
    if (ours == 0) {
        return DROP_NOT_OUR_ADDRESS;
    }
    if (proto != PROTO_UDP) {
        return PARSE_LOCAL + FWD_LOCAL_IP;
    }
    if (payload < UDP_SIZE) {
        return DROP_OUTER_LENGTH;
    }
    size = load_be16(udp + 4);
    if (size < UDP_SIZE || size != payload) {
        return DROP_OUTER_LENGTH;
    }
    port = load_be16(udp + 2);
    if (port != VXLAN_PORT) {
        return port == BFD_PORT || port == BFD_ECHO_PORT || port == BFD_MULTIHOP_PORT
                   ? PARSE_LOCAL + FWD_LOCAL_BFD
                   : (unsigned)DROP_NOT_VXLAN;
    }
    if (!(ours & ADDRESS_TUNNEL)) {
        return DROP_NOT_OUR_ADDRESS;
    }
    result = check_outer(c, p, l);
    if (result != 0) {
        return result;
    }
    if (size < UDP_SIZE + VXLAN_SIZE) {
        return DROP_VXLAN_TRUNCATED;
    }
    if (!(udp[UDP_SIZE] & VXLAN_FLAG_I)) {
        return DROP_VXLAN_I_FLAG;
    }
    if (udp[UDP_SIZE] & VXLAN_FLAG_P) {
        return DROP_VXLAN_GPE;
    }
    l->vni = load_be24(udp + UDP_SIZE + 4);
    l->inner_l2 = (uint16_t)(l->udp + UDP_SIZE + VXLAN_SIZE);
    return 0;
}

unsigned parse_outer(const struct fwd_config *c, const struct fwd_packet *p,
                     struct layers *ret)
{
    uint32_t l3 = ETH_SIZE;
    uint8_t proto = 0;
    uint16_t ethertype;
    unsigned tags = 0;
    unsigned result;

    *ret = (struct layers){ 0 };
    if (p->length < ETH_SIZE) {
        return DROP_L2_TRUNCATED;
    }
    ethertype = load_be16(p->data + 12);
    while (is_tag(ethertype)) {
        if (tags == 2) {
            return DROP_L2_VLAN_DEPTH;
        }
        if (p->length < l3 + VLAN_SIZE) {
            return DROP_L2_TRUNCATED;
        }
        ethertype = load_be16(p->data + l3 + 2);
        l3 += VLAN_SIZE;
        tags++;
    }
    ret->outer_l3 = (uint16_t)l3;
    if (ethertype == ETHERTYPE_IP4) {
        ret->outer_family = IP_V4;
        result = parse_outer_ip4(p, ret, &proto);
    } else if (ethertype == ETHERTYPE_IP6) {
        ret->outer_family = IP_V6;
        result = parse_outer_ip6(p, ret, &proto);
    } else {
        return ethertype == ETHERTYPE_ARP ? PARSE_LOCAL + FWD_LOCAL_ARP
                                          : (unsigned)DROP_L2_NOT_IP;
    }
    return result != 0 ? result : parse_vxlan(c, p, ret, proto);
}

/* Checks 26 to 29 and 32 for IPv4. */
static unsigned parse_inner_ip4(const uint8_t *ip, uint32_t avail, struct layers *l)
{
    uint32_t header;
    uint32_t total;
    uint16_t fragment;

    if (avail < IP4_SIZE) {
        return DROP_INNER_TRUNCATED;
    }
    if (ip[0] >> 4 != 4) {
        return DROP_INNER_VERSION;
    }
    header = (ip[0] & 15u) * 4;
    total = load_be16(ip + 2);
    if (header < IP4_SIZE || total < header || total > avail) {
        return DROP_INNER_LENGTH;
    }
    if (csum_fold(csum_add(0, ip, header)) != 0xffff) {
        return DROP_INNER_CHECKSUM;
    }
    fragment = load_be16(ip + 6) & (IP4_MF | IP4_OFFSET);
    l->inner_size = total;
    l->inner_l4 = (uint16_t)(l->inner_l3 + header);
    l->inner_proto = ip[9];
    l->is_fragment = fragment != 0;
    l->is_later_fragment = (fragment & IP4_OFFSET) != 0;
    return is_unicast4(ip + 16) ? 0 : DROP_INNER_NOT_UNICAST;
}

static bool is_extension(uint8_t next)
{
    switch (next) {
    case PROTO_HOPOPTS:
    case PROTO_ROUTING:
    case PROTO_FRAGMENT:
    case PROTO_AH:
    case PROTO_DSTOPTS:
    case PROTO_MOBILITY:
    case PROTO_HIP:
    case PROTO_SHIM6:
        return true;
    default:
        return false;
    }
}

/* Bytes of the extension header `kind` at `ext`, of which at least two are there. */
static uint32_t extension_size(uint8_t kind, const uint8_t *ext)
{
    if (kind == PROTO_FRAGMENT) {
        return 8; /* RFC 8200, section 4.5 */
    }
    if (kind == PROTO_AH) {
        return (ext[1] + 2u) * 4; /* RFC 4302, section 2.2 */
    }
    return (ext[1] + 1u) * 8; /* RFC 8200, section 4.3 and RFC 6564 */
}

/* Check 30: walks to the first header that is no extension, or behind the fragment
 * header of a later fragment. */
static unsigned walk_extensions(const uint8_t *ip, struct layers *l)
{
    uint32_t at = IP6_SIZE;
    uint8_t next = ip[6];

    for (unsigned count = 0; !l->is_later_fragment && is_extension(next); count++) {
        const uint8_t *ext = ip + at;
        uint32_t left = l->inner_size - at;
        uint32_t size;

        if (count == EXT_MAX || left < 8) {
            return DROP_INNER_EXT; /* no extension header is shorter than 8 bytes */
        }
        size = extension_size(next, ext);
        if (size > left) {
            return DROP_INNER_EXT;
        }
        if (next == PROTO_FRAGMENT) {
            l->is_fragment = true;
            l->is_later_fragment = (load_be16(ext + 2) & 0xfff8) != 0;
        }
        next = ext[0];
        at += size;
    }
    l->inner_l4 = (uint16_t)(l->inner_l3 + at);
    l->inner_proto = next;
    return 0;
}

/* Checks 26 to 32 for IPv6. */
static unsigned parse_inner_ip6(const uint8_t *ip, uint32_t avail, struct layers *l)
{
    uint32_t payload;
    unsigned result;
    uint8_t type;

    if (avail < IP6_SIZE) {
        return DROP_INNER_TRUNCATED;
    }
    if (ip[0] >> 4 != 6) {
        return DROP_INNER_VERSION;
    }
    payload = load_be16(ip + 4);
    if (payload > avail - IP6_SIZE) {
        return DROP_INNER_LENGTH;
    }
    l->inner_size = IP6_SIZE + payload;
    result = walk_extensions(ip, l);
    if (result != 0) {
        return result;
    }
    if (l->inner_proto == PROTO_ICMP6 && !l->is_later_fragment &&
        l->inner_l4 < l->inner_l3 + l->inner_size) {
        type = ip[l->inner_l4 - l->inner_l3];
        if (type >= ND_FIRST && type <= ND_LAST) {
            return DROP_INNER_ND;
        }
    }
    return is_unicast6(ip + 24) ? 0 : DROP_INNER_NOT_UNICAST;
}

unsigned parse_inner(const struct fwd_packet *p, struct layers *l)
{
    const uint8_t *frame = p->data + l->inner_l2;
    uint32_t size = l->outer_l3 + l->outer_size - l->inner_l2;
    uint32_t l3 = ETH_SIZE;
    uint16_t ethertype;

    if (size < ETH_SIZE) {
        return DROP_INNER_TRUNCATED;
    }
    ethertype = load_be16(frame + 12);
    while (is_tag(ethertype)) {
        if (l->inner_tags == 2) {
            return DROP_INNER_VLAN;
        }
        l->inner_tags++;
        if (size < l3 + VLAN_SIZE) {
            return DROP_INNER_TRUNCATED;
        }
        ethertype = load_be16(frame + l3 + 2);
        l3 += VLAN_SIZE;
    }
    l->inner_l3 = (uint16_t)(l->inner_l2 + l3);
    if (ethertype == ETHERTYPE_IP4) {
        l->inner_family = IP_V4;
        return parse_inner_ip4(frame + l3, size - l3, l);
    }
    if (ethertype == ETHERTYPE_IP6) {
        l->inner_family = IP_V6;
        return parse_inner_ip6(frame + l3, size - l3, l);
    }
    return DROP_INNER_NOT_IP;
}
