/*
 * Headers, and what the controls tell each other.  Nothing of an architecture in here.
 */
#ifndef XGW_HEADERS_P4
#define XGW_HEADERS_P4

typedef bit<48> mac_t;

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_IPV6 = 0x86dd;
const bit<16> TYPE_SVLAN = 0x88a8;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_ICMPV6 = 58;
const bit<8> PROTO_SCTP = 132;
const bit<16> PORT_VXLAN = 4789; /* RFC 7348 */

header eth_h {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header vlan_h {
    bit<16> tci;
    bit<16> type;
}

header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<3>  flags; /* reserved, DF, MF */
    bit<13> frag;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> csum;
    bit<32> src;
    bit<32> dst;
}

/* The first four bytes of it, looked at before it is taken off. */
header ip4_start_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> len;
}

header ipv6_h {
    bit<4>   version;
    bit<8>   tc;
    bit<20>  flow;
    bit<16>  len; /* payload alone */
    bit<8>   next;
    bit<8>   hops;
    bit<128> src;
    bit<128> dst;
}

header udp_h {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> csum;
}

header vxlan_h {
    bit<8>  flags;
    bit<24> reserved;
    bit<24> vni;
    bit<8>  reserved2;
}

/* The first four bytes of TCP, UDP and SCTP alike; looked at, not taken off. */
header ports_h {
    bit<16> sport;
    bit<16> dport;
}

/*
 * Carries a packet's state across the chip's gresses, in front of it.  14 bytes, as many
 * as the outer Ethernet header that ingress A takes off, so a folded packet is never
 * longer than it came.
 */
header bridge_h {
    bit<24> vni;    /* the current one, after peer hops; h.vxlan.vni is the arriving one */
    bit<8>  scope;  /* SCOPE_*: what the routes said */
    bit<24> idx;    /* by scope: NC index, half of the new VNI, fallback class */
    bit<8>  family; /* 4 or 6: the outer header that follows */
    bit<8>  hops;   /* peer hops so far */
    bit<8>  flags;  /* of the arriving VNI: VNI_* */
    bit<16> flow;   /* hash of the inner flow, the same in both directions */
    bit<7>  probe;  /* 1: it goes to the control thread in the end, not out */
    bit<9>  port;   /* that it leaves by, or would */
}

/* To and from the control thread (P4Runtime packet I/O).  The port last: in a container
 * of the chip it then lies as everywhere else and needs no shift.
 *
 * A packet-out leaves by its port as it is, or, with `probe`, is taken for one that this
 * port received.  What becomes of a probe comes back as a packet-in with `probe`: its
 * port is the one it would leave by, `reason` why it was dropped (DROP_*), or
 * REASON_KEPT: it is for the control thread. */
@controller_header("packet_in") header packet_in_h {
    @id(4) bit<8> reason;
    @id(3) bit<8> probe; /* 0 or 1; a container of the chip to itself */
    @id(2) @padding bit<7> pad;
    @id(1) bit<9> ingress_port;
}

@controller_header("packet_out") header packet_out_h {
    @id(3) bit<1> probe;
    @id(2) @padding bit<6> pad;
    @id(1) bit<9> egress_port;
}

const bit<8> REASON_KEPT = 255;

struct headers_t {
    packet_out_h packet_out;
    packet_in_h  packet_in;
    bridge_h     bridge;
    eth_h        eth;
    vlan_h       vlan0;
    vlan_h       vlan1;
    ipv4_h       ip4;
    ipv6_h       ip6;
    udp_h        udp;
    vxlan_h      vxlan;
    eth_h        ieth;
    vlan_h       ivlan0;
    vlan_h       ivlan1;
    ipv4_h       iip4;
    ipv6_h       iip6;
}

/* As enum phys_scope of agent/xgwh/phys.h; HIT is ours, of a LOCAL that vm_nc found. */
const bit<8> SCOPE_MISS = 0;
const bit<8> SCOPE_LOCAL = 1;
const bit<8> SCOPE_PEER = 2;
const bit<8> SCOPE_TUNNEL = 3;
const bit<8> SCOPE_FALLBACK = 4;
const bit<8> SCOPE_HIT = 5;

/* As enum phys_class. */
const bit<1> CLASS_MISS = 0;
const bit<1> CLASS_SERVICE = 1;

const bit<2> HALF_BY_DST = 2;
const bit<8> MAX_PEER_HOPS = 3; /* four look-ups */

/* What the parser makes of a packet: PARSED_ALL, a reason to drop it (DROP_*), or one of
 * these. */
const bit<8> PARSED_ALL = 0;
const bit<8> PARSED_CONTROL = 255; /* ARP, ND: the control thread's */
const bit<8> PARSED_NOT_UDP = 254; /* the control thread's if it is for us */
const bit<8> PARSED_BFD = 253;     /* as well */
const bit<8> PARSED_X86 = 252;     /* inner IPv4 options, inner v6 extension headers */

struct metadata_t {
    /* parser */
    bit<8>   parsed;
    bit<1>   truncated;      /* the packet ended inside a header */
    bit<1>   bad_outer_csum; /* IPv4 header */
    bit<1>   bad_inner_csum;
    bit<1>   has_ports; /* no later fragment, and TCP, UDP or SCTP */
    /* the inner packet, pooled: v4 is ::ffff:a.b.c.d */
    bit<128> src;
    bit<128> dst;
    bit<128> both; /* src xor dst: the same in both directions */
    bit<8>   proto;
    bit<16>  sport;
    bit<16>  dport;
    bit<16>  ports; /* sport xor dport; 0 for any fragment */
    bit<2>   dst_kind; /* DST_* */
    bit<1>   is_v6; /* the inner packet */
    bit<32>  key32; /* of vm_nc */
    /* lengths */
    bit<16>  outer_off; /* 0: IP and UDP agree */
    bit<16>  room;   /* what UDP leaves for what the inner IP length counts */
    bit<16>  excess; /* of the inner IP packet over it */
    /* look-ups */
    bit<1>   no_vtep;
    bit<1>   no_source;
    bit<1>   no_vni;
    bit<1>   denied; /* by the ACL */
    bit<1>   no_member;
    bit<1>   no_nc;
    bit<1>   no_vip;
    bit<24>  vni; /* the current one */
    bit<8>   flags; /* VNI_* of the arriving VNI */
    bit<2>   half;
    bit<16>  meter_index; /* of the arriving VNI */
    bit<16>  part; /* of route_part */
    bit<17>  nc;
    bit<9>   port;
    bit<12>  tenant; /* fallback bucket of the arriving VNI */
    bit<1>   cls; /* of a fallback */
    bit<2>   color;
    bit<2>   class_color;
    /* verdict */
    bit<1>   drop;
    bit<8>   reason; /* DROP_* */
    bit<1>   to_cpu;
    bit<1>   fallback; /* goes to x86 */
    bit<1>   leaves;   /* its VPC or the region: the inner TTL is decremented */
    bit<1>   inner_changed; /* it was */
}

/* As proto/model/entry.h. */
const bit<8> VNI_INTERNET = 1;
const bit<8> VNI_ACL = 2;
const bit<8> VNI_INNER_VLAN = 4;

const bit<2> DST_UNICAST = 0;
const bit<2> DST_NOT_UNICAST = 1;
const bit<2> DST_MAPPED = 2; /* a v6 address of ::ffff:0:0/96, where v4 is pooled */

#endif
