/*
 * By which uplink, to which address, and the headers that change.
 */
#ifndef XGW_REWRITE_P4
#define XGW_REWRITE_P4

control NextHop(inout headers_t h, inout metadata_t m) {
    @id(0x01000018) action out_port(@id(1) bit<9> port) {
        m.port = port;
    }
    @id(0x01000045) action no_port() {
        m.drop = 1;
        m.reason = DROP_NO_UPLINK;
    }
    @id(0x02000018) @name("next_hop") table next_hop {
        key = {
            h.ip4.isValid(): exact @name("v4") @id(1);
            h.bridge.flow[7:0]: exact @name("bucket") @id(2);
        }
        actions = {
            @tableonly out_port;
            @defaultonly no_port;
        }
        const default_action = no_port();
        size = NEXT_HOP_SIZE;
    }
    apply {
        next_hop.apply();
    }
}

/* What the packet's own state makes of the answer: an underlay family that would change
 * (the chip cannot compute the UDP checksum which that needs) and an inner TTL that ends
 * here (the ICMP error is not the chip's to send) are for x86. */
control Outcome(inout headers_t h, inout metadata_t m) {
    @id(0x01000046) action as_answered() {
    }
    @id(0x01000047) action ask_x86() {
        h.bridge.scope = SCOPE_FALLBACK;
        h.bridge.idx = (bit<24>)CLASS_MISS;
    }
    @id(0x02000022) @name("outcome") table outcome {
        key = {
            h.bridge.scope: ternary @name("scope") @id(1);
            h.bridge.idx[16:16]: ternary @name("nc_v6") @id(2);
            h.ip4.isValid(): ternary @name("v4") @id(3);
            m.leaves: ternary @name("leaves") @id(4);
            h.iip4.isValid(): ternary @name("inner_v4") @id(5);
            h.iip4.ttl: ternary @name("ttl") @id(6);
            h.iip6.hops: ternary @name("hop_limit") @id(7);
        }
        actions = {
            as_answered;
            ask_x86;
        }
        const default_action = as_answered();
        const entries = {
            (SCOPE_MISS, _, _, _, _, _, _): as_answered();
            (SCOPE_FALLBACK, _, _, _, _, _, _): as_answered();
            (_, _, _, 1, true, 0 &&& 0xfe, _): ask_x86();
            (_, _, _, 1, false, _, 0 &&& 0xfe): ask_x86();
            (SCOPE_LOCAL, _, _, _, _, _, _): as_answered();
            (_, 1, true, _, _, _, _): ask_x86();
            (_, 0, false, _, _, _, _): ask_x86();
        }
    }
    apply {
        m.leaves = 0;
        if (h.bridge.scope == SCOPE_TUNNEL) {
            m.leaves = 1;
        } else if (h.bridge.vni != h.vxlan.vni) {
            m.leaves = 1;
        }
        outcome.apply();
    }
}

control Nc(inout headers_t h, inout metadata_t m) {
    @id(0x01000019) action nc4(@id(1) bit<32> addr) {
        h.ip4.dst = addr;
    }
    @id(0x0100001a) action nc6(@id(1) bit<128> addr) {
        h.ip6.dst = addr;
    }
    @id(0x01000048) action no_nc() {
        m.no_nc = 1;
    }
    @id(0x02000019) @name("nc") table nc {
        key = { m.nc: exact @name("idx") @id(1); }
        actions = {
            @tableonly nc4;
            @tableonly nc6;
            @defaultonly no_nc;
        }
        const default_action = no_nc();
        size = NC_SIZE;
    }
    apply {
        nc.apply();
    }
}

control Rewrite(inout headers_t h, inout metadata_t m) {
    @id(0x0100001b) action src4(@id(1) bit<32> addr, @id(2) mac_t smac,
                                @id(3) mac_t dmac) {
        h.ip4.src = addr;
        h.eth.src = smac;
        h.eth.dst = dmac;
    }
    @id(0x0100001e) action src6(@id(1) bit<128> addr, @id(2) mac_t smac,
                                @id(3) mac_t dmac) {
        h.ip6.src = addr;
        h.eth.src = smac;
        h.eth.dst = dmac;
    }
    /* A fallback: the NC stays the source. */
    @id(0x0100001d) action keep_src(@id(1) mac_t smac, @id(2) mac_t dmac) {
        h.eth.src = smac;
        h.eth.dst = dmac;
    }
    @id(0x01000049) action no_vip() {
        m.no_vip = 1;
    }
    @id(0x0200001a) @name("port_out") table port_out {
        key = {
            m.port: exact @name("port") @id(1);
            m.fallback: exact @name("fb") @id(2);
            h.ip4.isValid(): exact @name("v4") @id(3);
        }
        actions = {
            @tableonly src4;
            @tableonly src6;
            @tableonly keep_src;
            @defaultonly no_vip;
        }
        const default_action = no_vip();
        size = PORT_OUT_SIZE;
    }
    action decrement_outer4() {
        h.ip4.ttl = h.ip4.ttl - 1;
    }
    action decrement_outer6() {
        h.ip6.hops = h.ip6.hops - 1;
    }
    action decrement_inner4() {
        h.iip4.ttl = h.iip4.ttl - 1;
        m.inner_changed = 1;
    }
    action decrement_inner6() {
        h.iip6.hops = h.iip6.hops - 1;
        m.inner_changed = 1;
    }
    action vxlan_header() {
        h.vxlan.flags = 0x08;
        h.vxlan.reserved = 0;
        h.vxlan.vni = m.vni;
        h.vxlan.reserved2 = 0;
    }

    apply {
        m.inner_changed = 0;
        port_out.apply();
        if (h.ip4.isValid()) {
            decrement_outer4();
        } else {
            decrement_outer6();
        }
        if (m.fallback == 0) {
            if (m.leaves == 1) {
                if (h.iip4.isValid()) {
                    decrement_inner4();
                } else {
                    decrement_inner6();
                }
            }
            vxlan_header();
        }
    }
}

/* Why a packet does not go out after all, the first of the reasons.  Fallback, Nc and
 * Rewrite only say what they lack: a reason that each of them wrote would make them wait
 * for each other. */
control Verdict(inout headers_t h, inout metadata_t m) {
    action refuse(bit<8> reason) {
        m.drop = 1;
        m.reason = reason;
    }
    apply {
        if (m.no_member == 1) {
            refuse(DROP_FALLBACK_NO_MEMBER);
        } else if (m.color == METER_RED || m.class_color == METER_RED) {
            if (m.cls == CLASS_SERVICE) {
                refuse(DROP_FALLBACK_SERVICE_RED);
            } else {
                refuse(DROP_FALLBACK_MISS_RED);
            }
        } else if (m.no_nc == 1) {
            refuse(DROP_NO_NC);
        } else if (m.no_vip == 1) {
            refuse(DROP_NO_VIP);
        }
    }
}

control DropCount(in bit<8> reason) {
    COUNTER(drop_reason, DROP_COUNTERS, 8)
    apply {
        COUNT(drop_reason, reason);
    }
}

/* What came in by a port, whatever becomes of it, and what went out by one. */
control PortIn(in bit<9> port) {
    COUNTER(port_rx, PORT_COUNTERS, 9)
    apply {
        COUNT(port_rx, port);
    }
}

control PortOut(in bit<9> port) {
    COUNTER(port_tx, PORT_COUNTERS, 9)
    apply {
        COUNT(port_tx, port);
    }
}

#endif
