/*
 * Reads a packet from the outer Ethernet header to the inner ports: what arrives at a
 * port of ours.  It stops at the first thing that cannot be right and says in m.parsed
 * what that was; which reason a packet is dropped for is decided in checks.p4, where
 * the look-ups are known too.  m is zero before.
 */
#ifndef XGW_PARSER_P4
#define XGW_PARSER_P4

/* ICMPv6 types of neighbour discovery, 133 to 137. */
#define ND_TYPES(state) 0x85: state; 0x86 &&& 0xfe: state; 0x88 &&& 0xfe: state

#define INNER_IP4 \
    pkt.extract(h.iip4); \
    PARSER_CHECKSUM_ADD(inner_csum, h.iip4); \
    PARSER_CHECKSUM_BAD(inner_csum, m.bad_inner_csum);

parser PacketParser(packet_in pkt, inout headers_t h, inout metadata_t m) {
    PARSER_CHECKSUM(outer_csum)
    PARSER_CHECKSUM(inner_csum)

    state start {
        pkt.extract(h.eth);
        transition select(h.eth.type) {
            TYPE_VLAN: vlan0;
            TYPE_SVLAN: vlan0;
            TYPE_IPV4: ip4;
            TYPE_IPV6: ip6;
            TYPE_ARP: control_traffic;
            default: l2_not_ip;
        }
    }
    state vlan0 {
        pkt.extract(h.vlan0);
        transition select(h.vlan0.type) {
            TYPE_VLAN: vlan1;
            TYPE_SVLAN: vlan1;
            TYPE_IPV4: ip4;
            TYPE_IPV6: ip6;
            TYPE_ARP: control_traffic;
            default: l2_not_ip;
        }
    }
    state vlan1 {
        pkt.extract(h.vlan1);
        transition select(h.vlan1.type) {
            TYPE_VLAN: l2_vlan_depth;
            TYPE_SVLAN: l2_vlan_depth;
            TYPE_IPV4: ip4;
            TYPE_IPV6: ip6;
            TYPE_ARP: control_traffic;
            default: l2_not_ip;
        }
    }

    state ip4 {
        pkt.extract(h.ip4);
        PARSER_CHECKSUM_ADD(outer_csum, h.ip4);
        PARSER_CHECKSUM_BAD(outer_csum, m.bad_outer_csum);
        transition select(h.ip4.version, h.ip4.ihl) {
            (4, 5): ip4_payload;
            (4, 0 &&& 0xc): outer_length;
            (4, 4): outer_length;
            (4, _): outer_options;
            default: outer_version;
        }
    }
    state ip4_payload {
        transition select(h.ip4.flags, h.ip4.frag, h.ip4.proto) {
            (0 &&& 1, 0, PROTO_UDP): udp;
            (0 &&& 1, 0, _): not_udp;
            default: outer_frag;
        }
    }
    state ip6 {
        pkt.extract(h.ip6);
        transition select(h.ip6.version, h.ip6.next) {
            (6, PROTO_UDP): udp;
            (6, PROTO_ICMPV6): outer_icmp6;
            (6, 44): outer_frag;
            (6, 0): outer_options;
            (6, 43): outer_options;
            (6, 51): outer_options;
            (6, 60): outer_options;
            (6, 135): outer_options;
            (6, 139): outer_options;
            (6, 140): outer_options;
            (6, _): not_udp;
            default: outer_version;
        }
    }
    state outer_icmp6 {
        transition select(pkt.lookahead<bit<8>>()) {
            ND_TYPES(control_traffic);
            default: not_udp;
        }
    }

    state udp {
        pkt.extract(h.udp);
        transition select(h.udp.dport) {
            PORT_VXLAN: vxlan;
            3784: bfd;
            3785: bfd;
            4784: bfd;
            default: not_vxlan;
        }
    }
    state vxlan {
        pkt.extract(h.vxlan);
        /* Bits I and P (GPE); every other one is ignored (RFC 7348, section 5). */
        transition select(h.vxlan.flags) {
            0x08 &&& 0x0c: inner;
            0x0c &&& 0x0c: gpe;
            default: no_i_flag;
        }
    }

    state inner {
        pkt.extract(h.ieth);
        transition select(h.ieth.type) {
            TYPE_VLAN: ivlan0;
            TYPE_SVLAN: ivlan0;
            TYPE_IPV4: iip4;
            TYPE_IPV6: iip6;
            default: inner_not_ip;
        }
    }
    state ivlan0 {
        pkt.extract(h.ivlan0);
        transition select(h.ivlan0.type) {
            TYPE_VLAN: ivlan1;
            TYPE_SVLAN: ivlan1;
            TYPE_IPV4: iip4;
            TYPE_IPV6: iip6;
            default: inner_not_ip;
        }
    }
    state ivlan1 {
        pkt.extract(h.ivlan1);
        transition select(h.ivlan1.type) {
            TYPE_VLAN: inner_vlan;
            TYPE_SVLAN: inner_vlan;
            TYPE_IPV4: iip4;
            TYPE_IPV6: iip6;
            default: inner_not_ip;
        }
    }

    /* Ports, unless the packet says that it is too short for them: up to 23 bytes.  The
     * length is looked at before the header is taken off: behind it the chip remembers
     * four bytes for its questions and no more. */
    state iip4 {
        ip4_start_h first = pkt.lookahead<ip4_start_h>();
        transition select(first.version, first.ihl, first.len) {
            (4, 5, 0x0000 &&& 0xfff0): iip4_without_ports;
            (4, 5, 0x0010 &&& 0xfff8): iip4_without_ports;
            (4, 5, _): iip4_plain;
            default: iip4_odd;
        }
    }
    state iip4_without_ports {
        INNER_IP4
        transition accept;
    }
    state iip4_plain {
        INNER_IP4
        transition select(h.iip4.frag, h.iip4.proto) {
            (0, PROTO_TCP): ports;
            (0, PROTO_UDP): ports;
            (0, PROTO_SCTP): ports;
            default: accept;
        }
    }
    state iip4_odd {
        INNER_IP4
        transition select(h.iip4.version, h.iip4.ihl) {
            (4, 0 &&& 0xc): inner_length;
            (4, 4): inner_length;
            (4, _): for_x86;
            default: inner_version;
        }
    }
    state iip6 {
        pkt.extract(h.iip6);
        transition select(h.iip6.version, h.iip6.next) {
            (6, PROTO_TCP): iip6_ports;
            (6, PROTO_UDP): iip6_ports;
            (6, PROTO_SCTP): iip6_ports;
            (6, PROTO_ICMPV6): inner_icmp6;
            (6, 0): for_x86;
            (6, 43): for_x86;
            (6, 44): for_x86;
            (6, 51): for_x86;
            (6, 60): for_x86;
            (6, 135): for_x86;
            (6, 139): for_x86;
            (6, 140): for_x86;
            (6, _): accept;
            default: inner_version;
        }
    }
    state iip6_ports {
        transition select(h.iip6.len) {
            0x0000 &&& 0xfffc: accept;
            default: ports;
        }
    }
    state inner_icmp6 {
        transition select(h.iip6.len) {
            0: accept;
            default: inner_icmp6_type;
        }
    }
    state inner_icmp6_type {
        transition select(pkt.lookahead<bit<8>>()) {
            ND_TYPES(inner_nd);
            default: accept;
        }
    }
    state ports {
        ports_h p = pkt.lookahead<ports_h>();
        m.has_ports = 1;
        m.sport = p.sport;
        m.dport = p.dport;
        transition accept;
    }

#define STOP(name, what) state name { m.parsed = what; transition accept; }
    STOP(control_traffic, PARSED_CONTROL)
    STOP(not_udp, PARSED_NOT_UDP)
    STOP(bfd, PARSED_BFD)
    STOP(for_x86, PARSED_X86)
    STOP(l2_not_ip, DROP_L2_NOT_IP)
    STOP(l2_vlan_depth, DROP_L2_VLAN_DEPTH)
    STOP(outer_length, DROP_OUTER_LENGTH)
    STOP(outer_version, DROP_OUTER_VERSION)
    STOP(outer_options, DROP_OUTER_OPTIONS)
    STOP(outer_frag, DROP_OUTER_FRAG)
    STOP(not_vxlan, DROP_NOT_VXLAN)
    STOP(no_i_flag, DROP_VXLAN_I_FLAG)
    STOP(gpe, DROP_VXLAN_GPE)
    STOP(inner_vlan, DROP_INNER_VLAN)
    STOP(inner_not_ip, DROP_INNER_NOT_IP)
    STOP(inner_version, DROP_INNER_VERSION)
    STOP(inner_length, DROP_INNER_LENGTH)
    STOP(inner_nd, DROP_INNER_ND)
#undef STOP
}
#undef INNER_IP4

/* Reads what PacketParser accepted, behind a bridge header: no more questions.  A tagged
 * inner packet is for x86, so its addresses do not matter any more. */
parser FoldedParser(packet_in pkt, inout headers_t h) {
    state start {
        pkt.extract(h.bridge);
        transition select(h.bridge.family) {
            4: ip4;
            default: ip6;
        }
    }
    state ip4 {
        pkt.extract(h.ip4);
        transition tunnel;
    }
    state ip6 {
        pkt.extract(h.ip6);
        transition tunnel;
    }
    state tunnel {
        pkt.extract(h.udp);
        pkt.extract(h.vxlan);
        pkt.extract(h.ieth);
        transition select(h.ieth.type) {
            TYPE_IPV4: iip4;
            TYPE_IPV6: iip6;
            default: accept;
        }
    }
    state iip4 {
        pkt.extract(h.iip4);
        transition accept;
    }
    state iip6 {
        pkt.extract(h.iip6);
        transition accept;
    }
}

#endif
