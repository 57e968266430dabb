/*
 * XGW-H for Tofino 1 (TNA): one folded path through two pipeline profiles.
 *
 *   wire -> ingress A (pipe 0/2) -> egress B (1/3) -> loopback -> ingress B -> egress A -> wire
 *           checks, vni, acl,       routes            vm_nc,     (loops to     spill, nc,
 *           meter                                     next hop    egress B      fallback,
 *                                                                 for a peer)   rewrite
 *
 * Pipe 1 returns to 0 and 3 to 2: half 0 of the tenants lives in 0 and 1, half 1 in 2 and
 * 3 (agent/xgwh/phys.h).  All ports of pipes 1 and 3 are in loopback by configuration; an
 * uplink is a port of the same number in pipe 0 and in pipe 2.
 */
#define XGW_TNA
#include "include/target.p4"
#include "include/sizes.p4"
#include "include/headers.p4"
#include "include/drop_reasons.p4"
#include "include/parser.p4"
#include "include/checks.p4"
#include "include/acl.p4"
#include "include/route.p4"
#include "include/vm_nc.p4"
#include "include/fallback.p4"
#include "include/rewrite.p4"

const PortId_t CPU_PORT = 320; /* PCIe of a chip with 4 pipes: in pipe 2 */
/* Recirculation in pipes 0 and 2: probes come back by it from egress A, for each half's
 * tables are in its own pipe and the CPU's port in one of them alone. */
const PortId_t BACK_PORT_0 = 68;
const PortId_t BACK_PORT_2 = 324;

/* To the port of the same number in pipe 1 (left) or 3.  An action takes a container's
 * bits from two places at most, so the half is not one of them. */
#define FOLD(port, to) \
    action fold_left() { \
        to.ucast_egress_port = 2w1 ++ port[6:0]; \
    } \
    action fold_right() { \
        to.ucast_egress_port = 2w3 ++ port[6:0]; \
    }

struct tna_metadata_t {
    metadata_t m;
    bit<16> inner_rest; /* sum of what the inner IPv4 checksum covers but for the TTL */
    bit<16> udp_rest;   /* the same of the outer UDP checksum and what the rewrite changes */
    bit<1>  udp_summed; /* there is a UDP checksum to follow */
    bit<9>  in_port;    /* that received the packet; of a probe, that it names */
    bit<1>  probe;
}

/* --- profile A, ingress --- */

parser IngressParserA(packet_in pkt, out headers_t h, out tna_metadata_t v,
                      out ingress_intrinsic_metadata_t i) {
    PacketParser() packet;
    state start {
        pkt.extract(i);
        pkt.advance(PORT_METADATA_SIZE);
        v.m.parsed = PARSED_ALL;
        v.m.has_ports = 0;
        v.m.sport = 0;
        v.m.dport = 0;
        v.m.bad_outer_csum = 0;
        v.m.bad_inner_csum = 0;
        transition select(i.ingress_port) {
            CPU_PORT: from_control_thread;
            BACK_PORT_0: from_egress;
            BACK_PORT_2: from_egress;
            default: from_wire;
        }
    }
    state from_control_thread {
        pkt.extract(h.packet_out);
        transition select(h.packet_out.probe) {
            1: from_wire;
            default: accept;
        }
    }
    state from_egress {
        pkt.extract(h.packet_in);
        transition accept;
    }
    state from_wire {
        packet.apply(pkt, h, v.m);
        transition accept;
    }
}

control IngressA(inout headers_t h, inout tna_metadata_t v,
                 in ingress_intrinsic_metadata_t i,
                 in ingress_intrinsic_metadata_from_parser_t p,
                 inout ingress_intrinsic_metadata_for_deparser_t d,
                 inout ingress_intrinsic_metadata_for_tm_t t) {
    Pool() pool;
    FlowHash() flow_hash;
    Lengths() lengths;
    Checks() checks;
    Acl() acl;
    VniMeter() vni_meter;
    DropCount() drop_count;
    PortIn() port_in;

    action to_control_thread(bit<8> reason) {
        h.bridge.setInvalid();
        h.packet_in.setValid();
        h.packet_in.reason = reason;
        h.packet_in.ingress_port = v.in_port;
        t.ucast_egress_port = CPU_PORT;
        t.bypass_egress = 1;
    }
    FOLD(v.in_port, t)
    action into_bridge() {
        h.bridge.vni = h.vxlan.vni;
        h.bridge.idx = 0;
        h.bridge.hops = 0;
        h.bridge.flags = v.m.flags;
        h.eth.setInvalid();
        h.vlan0.setInvalid();
        h.vlan1.setInvalid();
    }

    action from_probe() {
        h.packet_in.probe = 1;
    }
    action from_port() {
        h.packet_in.probe = 0;
    }

    apply {
        port_in.apply(i.ingress_port);
        if (h.packet_out.isValid() && h.packet_out.probe == 1) {
            v.probe = 1;
            v.in_port = h.packet_out.egress_port;
        } else {
            v.probe = 0;
            v.in_port = i.ingress_port;
        }
        if (h.packet_in.isValid()) { /* a probe that went all the way */
            t.ucast_egress_port = CPU_PORT;
            t.bypass_egress = 1;
        } else if (h.packet_out.isValid() && v.probe == 0) {
            t.ucast_egress_port = h.packet_out.egress_port;
            t.bypass_egress = 1;
            h.packet_out.setInvalid();
        } else {
            h.packet_out.setInvalid();
            if (p.parser_err != 0) {
                v.m.truncated = 1;
            } else {
                v.m.truncated = 0;
            }
            h.bridge.setValid();
            /* Constants: the chip cannot copy one bit to another place of a container. */
            if (v.probe == 1) {
                h.bridge.probe = 1;
                h.bridge.port = 0;
            } else {
                h.bridge.probe = 0;
                h.bridge.port = 0;
            }
            pool.apply(h, v.m);
            flow_hash.apply(h, v.m);
            lengths.apply(h, v.m);
            acl.apply(h, v.m);
            checks.apply(h, v.m);
            if (v.m.to_cpu == 1) {
                to_control_thread(REASON_KEPT);
            } else {
                if (v.m.drop == 0) {
                    vni_meter.apply(h, v.m);
                }
                if (v.m.fallback == 1) {
                    h.bridge.scope = SCOPE_FALLBACK;
                } else {
                    h.bridge.scope = SCOPE_MISS;
                }
                if (h.ip4.isValid()) {
                    h.bridge.family = 4;
                } else {
                    h.bridge.family = 6;
                }
                into_bridge();
                if (v.m.half == 1 || (v.m.half == HALF_BY_DST && v.m.dst[0:0] == 1)) {
                    fold_right();
                } else {
                    fold_left();
                }
            }
            if (v.m.drop == 1) {
                drop_count.apply(v.m.reason);
                if (v.probe == 1) {
                    to_control_thread(v.m.reason);
                } else {
                    d.drop_ctl = 1;
                }
            }
            if (v.probe == 1) {
                from_probe();
            } else {
                from_port();
            }
        }
    }
}

control IngressDeparser(packet_out pkt, inout headers_t h, in tna_metadata_t v,
                        in ingress_intrinsic_metadata_for_deparser_t d) {
    apply {
        pkt.emit(h);
    }
}

/* --- profile B, egress --- */

parser EgressParserB(packet_in pkt, out headers_t h, out tna_metadata_t v,
                     out egress_intrinsic_metadata_t i) {
    FoldedParser() packet;
    state start {
        pkt.extract(i);
        packet.apply(pkt, h);
        transition accept;
    }
}

control EgressB(inout headers_t h, inout tna_metadata_t v, in egress_intrinsic_metadata_t i,
                in egress_intrinsic_metadata_from_parser_t p,
                inout egress_intrinsic_metadata_for_deparser_t d,
                inout egress_intrinsic_metadata_for_output_port_t o) {
    Pool() pool;
    Route() route;
    apply {
        pool.apply(h, v.m);
        v.m.vni = h.bridge.vni;
        if (h.bridge.scope != SCOPE_FALLBACK) {
            route.apply(h, v.m);
        }
    }
}

control EgressDeparserB(packet_out pkt, inout headers_t h, in tna_metadata_t v,
                        in egress_intrinsic_metadata_for_deparser_t d) {
    apply {
        pkt.emit(h);
    }
}

/* --- profile B, ingress --- */

parser IngressParserB(packet_in pkt, out headers_t h, out tna_metadata_t v,
                      out ingress_intrinsic_metadata_t i) {
    FoldedParser() packet;
    state start {
        pkt.extract(i);
        pkt.advance(PORT_METADATA_SIZE);
        packet.apply(pkt, h);
        transition accept;
    }
}

control IngressB(inout headers_t h, inout tna_metadata_t v,
                 in ingress_intrinsic_metadata_t i,
                 in ingress_intrinsic_metadata_from_parser_t p,
                 inout ingress_intrinsic_metadata_for_deparser_t d,
                 inout ingress_intrinsic_metadata_for_tm_t t) {
    VmKey() vm_key;
    VmNc() vm_nc;
    Outcome() outcome;
    NextHop() next_hop;
    DropCount() drop_count;
    bit<1> dst_bit;

    FOLD(i.ingress_port, t)
    action one_hop_more() {
        h.bridge.hops = h.bridge.hops + 1;
    }
    /* The uplink's port in the pipe of this half; port_out knows it by its number in
     * pipe 0.  `probe` is written with it, for they share a container. */
    action out_left() {
        t.ucast_egress_port = 2w0 ++ v.m.port[6:0];
        h.bridge.probe = 0;
        h.bridge.port = 2w0 ++ v.m.port[6:0];
    }
    action out_right() {
        t.ucast_egress_port = 2w2 ++ v.m.port[6:0];
        h.bridge.probe = 0;
        h.bridge.port = 2w0 ++ v.m.port[6:0];
    }
    /* A probe by the same pipe, and back. */
    action probe_left() {
        t.ucast_egress_port = BACK_PORT_0;
        h.bridge.probe = 1;
        h.bridge.port = 2w0 ++ v.m.port[6:0];
    }
    action probe_right() {
        t.ucast_egress_port = BACK_PORT_2;
        h.bridge.probe = 1;
        h.bridge.port = 2w0 ++ v.m.port[6:0];
    }
    action to_control_thread() {
        h.packet_in.setValid();
        h.packet_in.reason = v.m.reason;
        h.packet_in.probe = 1;
        h.packet_in.ingress_port = 0;
        h.bridge.setInvalid();
        t.ucast_egress_port = CPU_PORT;
        t.bypass_egress = 1;
    }

    apply {
        v.m.drop = 0;
        v.m.reason = 0;
        v.m.vni = h.bridge.vni;
        if (h.iip6.isValid()) {
            dst_bit = h.iip6.dst[0:0];
        } else {
            dst_bit = h.iip4.dst[0:0];
        }
        vm_key.apply(h, v.m);
        if (h.bridge.scope == SCOPE_PEER) {
            if (h.bridge.hops == MAX_PEER_HOPS) {
                v.m.drop = 1;
                v.m.reason = DROP_PEER_LIMIT;
            } else {
                /* Once more through egress B, of the new VNI's half. */
                one_hop_more();
                if (h.bridge.idx[1:0] == 1 ||
                    (h.bridge.idx[1:0] == HALF_BY_DST && dst_bit == 1)) {
                    fold_right();
                } else {
                    fold_left();
                }
            }
        } else {
            if (h.bridge.scope == SCOPE_LOCAL) {
                vm_nc.apply(h, v.m);
            }
            outcome.apply(h, v.m);
            next_hop.apply(h, v.m);
            if (h.bridge.probe == 1) {
                if (i.ingress_port[8:8] == 1) {
                    probe_right();
                } else {
                    probe_left();
                }
            } else if (i.ingress_port[8:8] == 1) {
                out_right();
            } else {
                out_left();
            }
        }
        if (v.m.drop == 1) {
            drop_count.apply(v.m.reason);
            if (h.bridge.probe == 1) {
                to_control_thread();
            } else {
                d.drop_ctl = 1;
            }
        }
    }
}

/* --- profile A, egress --- */

/* As FoldedParser, with the sums that RFC 1624 needs.  A result is taken in a later state
 * than the last part of it, or the compiler takes it too early. */
parser EgressParserA(packet_in pkt, out headers_t h, out tna_metadata_t v,
                     out egress_intrinsic_metadata_t i) {
    Checksum() udp_sum;
    Checksum() inner_sum;
    state start {
        pkt.extract(i);
        pkt.extract(h.bridge);
        transition select(h.bridge.family) {
            4: ip4;
            default: ip6;
        }
    }
    state ip4 {
        pkt.extract(h.ip4);
        udp_sum.subtract({ h.ip4.src, h.ip4.dst });
        transition udp;
    }
    state ip6 {
        pkt.extract(h.ip6);
        udp_sum.subtract({ h.ip6.src, h.ip6.dst });
        transition udp;
    }
    state udp {
        pkt.extract(h.udp);
        udp_sum.subtract({ h.udp.csum });
        transition vxlan;
    }
    state vxlan {
        pkt.extract(h.vxlan);
        udp_sum.subtract({ h.vxlan.flags, h.vxlan.reserved, h.vxlan.vni,
                           h.vxlan.reserved2 });
        transition inner;
    }
    state inner {
        pkt.extract(h.ieth);
        transition select(h.ieth.type) {
            TYPE_IPV4: iip4;
            TYPE_IPV6: iip6;
            default: sums;
        }
    }
    /* An inner IPv4 checksum makes up for the TTL in the outer one. */
    state iip4 {
        pkt.extract(h.iip4);
        inner_sum.subtract({ h.iip4.csum, h.iip4.ttl, h.iip4.proto });
        transition sums4;
    }
    state iip6 {
        pkt.extract(h.iip6);
        udp_sum.subtract({ h.iip6.next, h.iip6.hops });
        transition sums;
    }
    state sums4 {
        v.inner_rest = inner_sum.get();
        v.udp_rest = udp_sum.get();
        transition accept;
    }
    state sums {
        v.udp_rest = udp_sum.get();
        transition accept;
    }
}

control EgressA(inout headers_t h, inout tna_metadata_t v, in egress_intrinsic_metadata_t i,
                in egress_intrinsic_metadata_from_parser_t p,
                inout egress_intrinsic_metadata_for_deparser_t d,
                inout egress_intrinsic_metadata_for_output_port_t o) {
    Destination() destination;
    TenantBucket() tenant_bucket;
    Fallback() fallback;
    Nc() nc;
    Rewrite() rewrite;
    Verdict() verdict;
    DropCount() drop_count;
    PortOut() port_out;

    action back() {
        h.packet_in.setValid();
        h.packet_in.reason = v.m.reason;
        h.packet_in.probe = 1;
        h.packet_in.ingress_port = v.m.port;
    }

    apply {
        v.m.drop = 0;
        v.m.reason = 0;
        v.m.color = 0;
        v.m.class_color = 0;
        v.m.no_member = 0;
        v.m.no_nc = 0;
        v.m.no_vip = 0;
        v.m.vni = h.bridge.vni;
        v.m.port = h.bridge.port;
        if (h.bridge.probe == 1) {
            v.probe = 1;
        } else {
            v.probe = 0;
        }
        v.m.leaves = 0;
        if (h.bridge.scope == SCOPE_TUNNEL) {
            v.m.leaves = 1;
        } else if (h.bridge.vni != h.vxlan.vni) {
            v.m.leaves = 1;
        }
        if (h.udp.csum != 0) {
            v.udp_summed = 1;
        } else {
            v.udp_summed = 0;
        }
        destination.apply(h, v.m);
        tenant_bucket.apply(h, v.m);
        if (v.m.fallback == 1) {
            fallback.apply(h, v.m);
        }
        nc.apply(h, v.m);
        rewrite.apply(h, v.m);
        verdict.apply(h, v.m);
        h.eth.setValid();
        if (h.ip4.isValid()) {
            h.eth.type = TYPE_IPV4;
        } else {
            h.eth.type = TYPE_IPV6;
        }
        h.bridge.setInvalid();
        if (v.m.drop == 1) {
            drop_count.apply(v.m.reason);
            if (v.probe == 0) {
                d.drop_ctl = 1;
            }
        }
        if (v.probe == 1) {
            back();
        } else if (v.m.drop == 0) {
            port_out.apply(i.egress_port);
        }
    }
}

control EgressDeparserA(packet_out pkt, inout headers_t h, in tna_metadata_t v,
                        in egress_intrinsic_metadata_for_deparser_t d) {
    Checksum() outer_sum;
    Checksum() inner_sum;
    Checksum() udp_sum;
    apply {
        h.ip4.csum = outer_sum.update({ h.ip4.version, h.ip4.ihl, h.ip4.tos, h.ip4.len,
                                        h.ip4.id, h.ip4.flags, h.ip4.frag, h.ip4.ttl,
                                        h.ip4.proto, h.ip4.src, h.ip4.dst });
        if (v.m.inner_changed == 1) {
            h.iip4.csum = inner_sum.update({ h.iip4.ttl, h.iip4.proto, v.inner_rest });
        }
        if (v.udp_summed == 1) {
            h.udp.csum = udp_sum.update({ h.ip4.src, h.ip4.dst, h.ip6.src, h.ip6.dst,
                                          h.vxlan.flags, h.vxlan.reserved, h.vxlan.vni,
                                          h.vxlan.reserved2, h.iip6.next, h.iip6.hops,
                                          v.udp_rest }, true);
        }
        pkt.emit(h);
    }
}

Pipeline(IngressParserA(), IngressA(), IngressDeparser(), EgressParserA(), EgressA(),
         EgressDeparserA()) pipe_a;
Pipeline(IngressParserB(), IngressB(), IngressDeparser(), EgressParserB(), EgressB(),
         EgressDeparserB()) pipe_b;
Switch(pipe_a, pipe_b) main;
