/*
 * XGW-H for BMv2: the parser, tables and rewrite of xgw_h.p4 in one pass.  It has no
 * pipes, so no bridge header leaves it, one set of tables holds both halves, and a peer
 * hop is a resubmit.  Verdicts and packets are those of the chip; tests compare both with
 * the reference forwarder.
 */
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

const bit<9> CPU_PORT = 510; /* simple_switch_grpc --cpu-port 510 */

/* What a resubmitted packet remembers: it has passed the checks, ACL and meter. */
struct v1_metadata_t {
    @field_list(1) bit<24> peer_vni;
    @field_list(1) bit<8> peer_hops;
    @field_list(1) bit<8> vni_flags;
    @field_list(1) bit<1> is_probe; /* the port that it came by is forgotten */
    metadata_t m;
    bit<1> rewritten; /* the outer IPv4 checksum follows */
}

#define IP4_FIELDS(ip) \
    ip.version, ip.ihl, ip.tos, ip.len, ip.id, ip.flags, ip.frag, ip.ttl, ip.proto

parser V1Parser(packet_in pkt, out headers_t h, inout v1_metadata_t v,
                inout standard_metadata_t s) {
    PacketParser() packet;
    state start {
        transition select(s.ingress_port, v.is_probe) {
            (CPU_PORT, _): from_control_thread;
            (_, 1): from_control_thread;
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
    state from_wire {
        packet.apply(pkt, h, v.m);
        transition accept;
    }
}

control V1VerifyChecksum(inout headers_t h, inout v1_metadata_t v) {
    apply {
    }
}

/* What the chip's parser says beside the headers. */
control ParserVerdict(in headers_t h, inout metadata_t m, in standard_metadata_t s) {
    bit<16> sum;
    apply {
        if (s.parser_error != error.NoError) {
            m.truncated = 1;
        }
        if (h.ip4.isValid()) {
            hash(sum, HashAlgorithm.csum16, 16w0,
                 { IP4_FIELDS(h.ip4), h.ip4.csum, h.ip4.src, h.ip4.dst }, 32w65536);
            if (sum != 0) {
                m.bad_outer_csum = 1;
            }
        }
        if (h.iip4.isValid()) {
            hash(sum, HashAlgorithm.csum16, 16w0,
                 { IP4_FIELDS(h.iip4), h.iip4.csum, h.iip4.src, h.iip4.dst }, 32w65536);
            if (sum != 0) {
                m.bad_inner_csum = 1;
            }
        }
    }
}

/* The complement of the sum of what the rewrite changes under the outer UDP checksum, but
 * for the inner packet. */
control CoveredSum(in headers_t h, out bit<16> sum) {
    apply {
        if (h.ip4.isValid()) {
            hash(sum, HashAlgorithm.csum16, 16w0,
                 { h.ip4.src, h.ip4.dst, h.vxlan.flags, h.vxlan.reserved, h.vxlan.vni,
                   h.vxlan.reserved2 }, 32w65536);
        } else {
            hash(sum, HashAlgorithm.csum16, 16w0,
                 { h.ip6.src, h.ip6.dst, h.vxlan.flags, h.vxlan.reserved, h.vxlan.vni,
                   h.vxlan.reserved2 }, 32w65536);
        }
    }
}

/* RFC 1624 by hand, which the chip's deparser does by itself. */
control FollowUdpChecksum(inout headers_t h, in metadata_t m, in bit<16> before,
                          in bit<16> after) {
    bit<32> sum;
    apply {
        if (h.udp.csum != 0) {
            sum = (bit<32>)(~h.udp.csum) + (bit<32>)before + (bit<32>)(~after);
            /* An inner IPv4 header's checksum makes up for its TTL; v6 has none. */
            if (m.inner_changed == 1 && h.iip6.isValid()) {
                sum = sum + 0xfffe; /* - 1 */
            }
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            h.udp.csum = ~sum[15:0];
            if (h.udp.csum == 0) {
                h.udp.csum = 0xffff;
            }
        }
    }
}

control V1Ingress(inout headers_t h, inout v1_metadata_t v, inout standard_metadata_t s) {
    ParserVerdict() parser_verdict;
    Pool() pool;
    FlowHash() flow_hash;
    Lengths() lengths;
    Checks() checks;
    Acl() acl;
    VniMeter() vni_meter;
    Route() route;
    VmKey() vm_key;
    VmNc() vm_nc;
    Outcome() outcome;
    Destination() destination;
    TenantBucket() tenant_bucket;
    Fallback() fallback;
    NextHop() next_hop;
    Nc() nc;
    CoveredSum() covered_sum;
    Rewrite() rewrite;
    Verdict() verdict;
    FollowUdpChecksum() follow_udp_checksum;
    DropCount() drop_count;
    PortIn() port_in;
    bit<16> before = 0;
    bit<16> after = 0;

    action to_control_thread(bit<8> reason, bit<9> port) {
        h.packet_out.setInvalid();
        h.bridge.setInvalid();
        h.packet_in.setValid();
        h.packet_in.reason = reason;
        h.packet_in.probe = 7w0 ++ v.is_probe;
        h.packet_in.pad = 0;
        h.packet_in.ingress_port = port;
        s.egress_spec = CPU_PORT;
    }

    apply {
        if (v.peer_hops == 0) { /* not a second time */
            port_in.apply(s.ingress_port);
        }
        if (h.packet_out.isValid()) {
            v.is_probe = h.packet_out.probe;
        }
        if (h.packet_out.isValid() && v.is_probe == 0) {
            s.egress_spec = h.packet_out.egress_port;
            h.packet_out.setInvalid();
            return;
        }

        /* Ingress A. */
        parser_verdict.apply(h, v.m, s);
        pool.apply(h, v.m);
        h.bridge.setValid();
        h.bridge.vni = h.vxlan.vni;
        h.bridge.scope = SCOPE_MISS;
        h.bridge.idx = 0;
        h.bridge.hops = v.peer_hops;
        if (v.peer_hops == 0) {
            lengths.apply(h, v.m);
            acl.apply(h, v.m);
            checks.apply(h, v.m);
            if (v.m.to_cpu == 1) {
                to_control_thread(REASON_KEPT, s.ingress_port);
                return;
            }
            if (v.m.drop == 0) {
                vni_meter.apply(h, v.m);
            }
            h.bridge.flags = v.m.flags;
        } else {
            h.bridge.vni = v.peer_vni;
            h.bridge.flags = v.vni_flags;
        }
        flow_hash.apply(h, v.m);

        /* Egress B. */
        if (v.m.drop == 0) {
            v.m.vni = h.bridge.vni;
            if (v.m.fallback == 1) {
                h.bridge.scope = SCOPE_FALLBACK;
            } else {
                route.apply(h, v.m);
            }
        }

        /* Ingress B. */
        if (v.m.drop == 0 && h.bridge.scope == SCOPE_PEER) {
            if (h.bridge.hops == MAX_PEER_HOPS) {
                v.m.drop = 1;
                v.m.reason = DROP_PEER_LIMIT;
            } else {
                v.peer_vni = h.bridge.vni;
                v.peer_hops = h.bridge.hops + 1;
                v.vni_flags = h.bridge.flags;
                resubmit_preserving_field_list(1);
                return;
            }
        }
        if (v.m.drop == 0) {
            v.m.vni = h.bridge.vni;
            if (h.bridge.scope == SCOPE_LOCAL) {
                vm_key.apply(h, v.m);
                vm_nc.apply(h, v.m);
            }
            outcome.apply(h, v.m);
            next_hop.apply(h, v.m);
        }

        /* Egress A. */
        if (v.m.drop == 0) {
            destination.apply(h, v.m);
            if (v.m.fallback == 1) {
                tenant_bucket.apply(h, v.m);
                fallback.apply(h, v.m);
            }
            covered_sum.apply(h, before);
            nc.apply(h, v.m);
            rewrite.apply(h, v.m);
            verdict.apply(h, v.m);
        }
        if (v.m.drop == 0) {
            covered_sum.apply(h, after);
            follow_udp_checksum.apply(h, v.m, before, after);
            h.bridge.setInvalid();
            h.vlan0.setInvalid();
            h.vlan1.setInvalid();
            if (h.ip4.isValid()) {
                h.eth.type = TYPE_IPV4;
            } else {
                h.eth.type = TYPE_IPV6;
            }
            v.rewritten = 1;
            s.egress_spec = v.m.port;
        }
        if (v.m.drop == 1) {
            drop_count.apply(v.m.reason);
            mark_to_drop(s);
        }
        if (v.is_probe == 1) {
            to_control_thread(v.m.reason, v.m.port);
        }
    }
}

control V1Egress(inout headers_t h, inout v1_metadata_t v, inout standard_metadata_t s) {
    PortOut() port_out;
    apply {
        port_out.apply(s.egress_port);
    }
}

control V1ComputeChecksum(inout headers_t h, inout v1_metadata_t v) {
    apply {
        update_checksum(v.rewritten == 1 && h.ip4.isValid(),
                        { IP4_FIELDS(h.ip4), h.ip4.src, h.ip4.dst }, h.ip4.csum,
                        HashAlgorithm.csum16);
        update_checksum(v.m.inner_changed == 1 && h.iip4.isValid(),
                        { IP4_FIELDS(h.iip4), h.iip4.src, h.iip4.dst }, h.iip4.csum,
                        HashAlgorithm.csum16);
    }
}

control V1Deparser(packet_out pkt, in headers_t h) {
    apply {
        pkt.emit(h);
    }
}

V1Switch(V1Parser(), V1VerifyChecksum(), V1Ingress(), V1Egress(), V1ComputeChecksum(),
         V1Deparser()) main;
