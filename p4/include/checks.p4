/*
 * What a packet is, who sent it to whom, and the first check that it fails, in the order
 * of the table in tests/reference/README.md: first everything is looked up side by side,
 * then one table with a row for each check names the reason.  So a check costs the chip
 * no stage.
 */
#ifndef XGW_CHECKS_P4
#define XGW_CHECKS_P4

/* The inner addresses as one 128-bit space, protocol and ports. */
control Pool(inout headers_t h, inout metadata_t m) {
    action pool4() {
        m.src = 96w0xffff ++ h.iip4.src;
        m.dst = 96w0xffff ++ h.iip4.dst;
        m.proto = h.iip4.proto;
    }
    action pool6() {
        m.src = h.iip6.src;
        m.dst = h.iip6.dst;
        m.proto = h.iip6.next;
    }
    apply {
        if (h.iip6.isValid()) {
            pool6();
        } else {
            pool4();
        }
    }
}

/* Hash of the inner flow, equal for both directions, so that both meet one x86 member.
 * No ports for any fragment: all of a datagram go one way. */
control FlowHash(inout headers_t h, inout metadata_t m) {
    HASH(crc, CRC16, 16)
    action fold() {
        m.both = m.src ^ m.dst;
        m.ports = m.sport ^ m.dport;
    }
    action fold_fragment() {
        m.both = m.src ^ m.dst;
        m.ports = 0;
    }
    apply {
        if (m.has_ports == 0 || (h.iip4.isValid() && h.iip4.flags[0:0] == 1)) {
            fold_fragment();
        } else {
            fold();
        }
        HASH_RUN(crc, h.bridge.flow, CRC16, 16, { m.both, m.proto, m.ports });
    }
}

/* Lengths against each other; what no header says (the packet's own) the chip does not
 * know in ingress.  `room` may end below zero, where `checks` refuses the packet: the
 * chip cannot stop there when it subtracts a constant. */
control Lengths(inout headers_t h, inout metadata_t m) {
    apply {
        if (h.ip4.isValid()) {
            m.outer_off = h.ip4.len - h.udp.len;
        } else {
            m.outer_off = h.ip6.len - h.udp.len;
        }
        /* UDP, VXLAN and Ethernet headers, inner tags, and IPv6's own, whose length does
         * not count it. */
        if (h.iip6.isValid()) {
            if (h.ivlan1.isValid()) {
                m.room = h.udp.len - 78;
            } else if (h.ivlan0.isValid()) {
                m.room = h.udp.len - 74;
            } else {
                m.room = h.udp.len - 70;
            }
        } else {
            if (h.ivlan1.isValid()) {
                m.room = h.udp.len - 38;
            } else if (h.ivlan0.isValid()) {
                m.room = h.udp.len - 34;
            } else {
                m.room = h.udp.len - 30;
            }
        }
        if (h.ip4.isValid()) {
            m.outer_off = m.outer_off - 20;
        }
        if (h.iip4.isValid()) {
            m.excess = h.iip4.len |-| m.room;
        } else {
            m.excess = h.iip6.len |-| m.room;
        }
    }
}

control Checks(inout headers_t h, inout metadata_t m) {
    @id(0x01000022) action is_vtep() {
        m.no_vtep = 0;
    }
    @id(0x01000034) action not_vtep() {
        m.no_vtep = 1;
    }
    @id(0x02000010) @name("vtep") table vtep {
        key = {
            h.ip4.isValid(): exact @name("v4") @id(1);
            h.ip4.dst: ternary @name("ip4") @id(2);
            h.ip6.dst: ternary @name("ip6") @id(3);
        }
        actions = {
            @tableonly is_vtep;
            @defaultonly not_vtep;
        }
        const default_action = not_vtep();
        size = VTEP_SIZE;
    }

    @id(0x01000023) action is_source() {
        m.no_source = 0;
    }
    @id(0x01000035) action not_source() {
        m.no_source = 1;
    }
    @id(0x0200001b) @name("source") table source {
        key = {
            h.ip4.isValid(): exact @name("v4") @id(1);
            h.ip4.src: ternary @name("ip4") @id(2);
            h.ip6.src: ternary @name("ip6") @id(3);
        }
        actions = {
            @tableonly is_source;
            @defaultonly not_source;
        }
        const default_action = not_source();
        size = SOURCE_SIZE;
    }

    @id(0x01000021) action set_vni(@id(1) bit<8> flags, @id(2) bit<2> half,
                                   @id(3) @name("meter") bit<16> index) {
        m.no_vni = 0;
        m.flags = flags;
        m.half = half;
        m.meter_index = index;
    }
    @id(0x01000036) action unknown_vni() {
        m.no_vni = 1;
        m.flags = 0;
        m.half = 0;
        m.meter_index = 0;
    }
    @id(0x02000015) @name("vni") table vni {
        key = { h.vxlan.vni: exact @name("vni") @id(1); }
        actions = {
            @tableonly set_vni;
            @defaultonly unknown_vni;
        }
        const default_action = unknown_vni();
        size = VNI_SIZE;
    }

    /* Inner destinations that nobody routes (RFC 6890), and v6 ones that the pooling
     * would take for v4. */
    @id(0x01000037) action dst_kind(@id(1) bit<2> kind) {
        m.dst_kind = kind;
    }
    @id(0x02000020) @name("inner_dst") table inner_dst {
        key = {
            h.iip6.isValid(): exact @name("v6") @id(1);
            m.dst: ternary @name("dst") @id(2);
        }
        actions = { dst_kind; }
        const default_action = dst_kind(DST_UNICAST);
        const entries = {
            (false, 128w0x00000000 &&& 128w0xff000000): dst_kind(DST_NOT_UNICAST);
            (false, 128w0x7f000000 &&& 128w0xff000000): dst_kind(DST_NOT_UNICAST);
            (false, 128w0xe0000000 &&& 128w0xe0000000): dst_kind(DST_NOT_UNICAST);
            (true, 128w0 &&& ~128w1): dst_kind(DST_NOT_UNICAST); /* ::, ::1 */
            (true, 128w0xff << 120 &&& 128w0xff << 120): dst_kind(DST_NOT_UNICAST);
            (true, 128w0x3fa << 118 &&& 128w0x3ff << 118): dst_kind(DST_NOT_UNICAST);
            (true, 128w0xffff << 32 &&& ~128w0xffffffff): dst_kind(DST_MAPPED);
        }
    }

    @id(0x01000038) action pass() {
        m.drop = 0;
        m.reason = 0;
        m.to_cpu = 0;
        m.fallback = 0;
    }
    @id(0x01000039) action refuse(@id(1) bit<8> reason) {
        m.drop = 1;
        m.reason = reason;
        m.to_cpu = 0;
        m.fallback = 0;
    }
    @id(0x0100003a) action control_thread() {
        m.drop = 0;
        m.reason = 0;
        m.to_cpu = 1;
        m.fallback = 0;
    }
    /* What the chip cannot look at, x86 does. */
    @id(0x0100003b) action let_x86() {
        m.drop = 0;
        m.reason = 0;
        m.to_cpu = 0;
        m.fallback = 1;
    }

/* A row's columns, by what it looks at; `_` is everything else.  A field of a header that
 * may be missing is looked at together with a column that says it is there. */
#define ANY_A _, _, _, _, _, _, _
#define ANY_B _, _, _, _, _, _
#define ANY_C _, _
#define ANY_D _, _, _, _, _, _, _, _
#define PARSED(what) what, _, _, _, _, _, _, ANY_B, ANY_C, ANY_D
#define PARSED_OF(what, of_flags) what, _, _, _, _, _, _, ANY_B, _, of_flags, ANY_D
#define CUT(has4, has6, has_udp) _, 1, has4, has6, has_udp, _, _, ANY_B, ANY_C, ANY_D
#define CUT_LATER _, 1, _, _, _, _, _, ANY_B, ANY_C, ANY_D
#define BAD_OUTER_CSUM _, _, true, _, _, _, _, _, 1, _, _, _, _, ANY_C, ANY_D
#define NO_VTEP ANY_A, _, _, 1, _, _, _, ANY_C, ANY_D
#define UDP_OFF(bit) \
    _, _, _, _, true, _, _, ANY_B, ANY_C, _, _, _, bit &&& bit, _, _, _, _
#define UDP_LEN(length) \
    _, _, _, _, true, _, _, ANY_B, ANY_C, _, _, _, _, length, _, _, _
#define TTL4(ttl) _, _, true, _, _, _, _, ANY_B, ANY_C, ttl, _, _, _, _, _, _, _
#define TTL6(ttl) _, _, _, true, _, _, _, ANY_B, ANY_C, _, ttl, _, _, _, _, _, _
#define NO_SOURCE ANY_A, _, _, _, 1, _, _, ANY_C, ANY_D
#define NO_VNI ANY_A, _, _, _, _, 1, _, ANY_C, ANY_D
#define TAGGED(tpid, of_flags) \
    _, _, _, _, true, _, _, tpid, _, _, _, _, _, _, of_flags, ANY_D
#define ROOM4(length) _, _, _, _, _, true, _, ANY_B, ANY_C, _, _, _, _, _, length, _, _
#define ROOM6(length) _, _, _, _, _, _, true, ANY_B, ANY_C, _, _, _, _, _, length, _, _
#define INNER4_LEN(length) \
    _, _, _, _, _, true, _, ANY_B, ANY_C, _, _, _, _, _, _, length, _
#define EXCESS4(bit) \
    _, _, _, _, _, true, _, ANY_B, ANY_C, _, _, _, _, _, _, _, bit &&& bit
#define EXCESS6(bit) \
    _, _, _, _, _, _, true, ANY_B, ANY_C, _, _, _, _, _, _, _, bit &&& bit
#define BAD_INNER_CSUM PARSED_ALL, _, _, _, _, true, _, _, _, _, _, _, 1, ANY_C, ANY_D
#define KIND(kind) ANY_A, ANY_B, kind, _, ANY_D
#define NO_CSUM6 _, _, _, true, true, _, _, ANY_B, ANY_C, _, _, 0, _, _, _, _, _
/* x != 0 of 16 bits, and x < a bound, as rows. */
#define EACH_BIT(macro, action) \
    (macro(0x0001)): action; (macro(0x0002)): action; \
    (macro(0x0004)): action; (macro(0x0008)): action; \
    (macro(0x0010)): action; (macro(0x0020)): action; \
    (macro(0x0040)): action; (macro(0x0080)): action; \
    (macro(0x0100)): action; (macro(0x0200)): action; \
    (macro(0x0400)): action; (macro(0x0800)): action; \
    (macro(0x1000)): action; (macro(0x2000)): action; \
    (macro(0x4000)): action; (macro(0x8000)): action;
#define BELOW_8      0x00 &&& 0xfff8
#define BELOW_16     0x00 &&& 0xfff0
#define FROM_16_TO_19 0x10 &&& 0xfffc
#define FROM_16_TO_23 0x10 &&& 0xfff8
#define FROM_24_TO_27 0x18 &&& 0xfffc
#define FROM_28_TO_29 0x1c &&& 0xfffe
/* No packet has as much room; these are below zero (30 bytes of UDP and more are there
 * by then, so by 8 of tags at most, and 40 of IPv6). */
#define MINUS_1_TO_8  0xfff8 &&& 0xfff8
#define MINUS_1_TO_64 0xffc0 &&& 0xffc0

    @id(0x02000021) @name("checks") table checks {
        key = {
            m.parsed: ternary @name("parsed") @id(1);
            m.truncated: ternary @name("truncated") @id(2);
            h.ip4.isValid(): ternary @name("v4") @id(3);
            h.ip6.isValid(): ternary @name("v6") @id(4);
            h.udp.isValid(): ternary @name("udp") @id(5);
            h.iip4.isValid(): ternary @name("inner_v4") @id(6);
            h.iip6.isValid(): ternary @name("inner_v6") @id(7);
            h.ieth.type: ternary @name("inner_type") @id(8);
            m.bad_outer_csum: ternary @name("bad_outer_csum") @id(9);
            m.no_vtep: ternary @name("no_vtep") @id(10);
            m.no_source: ternary @name("no_source") @id(11);
            m.no_vni: ternary @name("no_vni") @id(12);
            m.bad_inner_csum: ternary @name("bad_inner_csum") @id(13);
            m.dst_kind: ternary @name("dst_kind") @id(14);
            m.flags: ternary @name("vni_flags") @id(15);
            h.ip4.ttl: ternary @name("ttl") @id(16);
            h.ip6.hops: ternary @name("hop_limit") @id(17);
            h.udp.csum: ternary @name("udp_csum") @id(18);
            m.outer_off: ternary @name("outer_off") @id(19);
            h.udp.len: ternary @name("udp_len") @id(20);
            m.room: ternary @name("room") @id(21);
            h.iip4.len: ternary @name("inner_len") @id(22);
            m.excess: ternary @name("excess") @id(23);
        }
        actions = {
            pass;
            refuse;
            control_thread;
            let_x86;
        }
        const default_action = pass();
        const entries = {
            (CUT(false, false, _)): refuse(DROP_L2_TRUNCATED);
            (PARSED(DROP_L2_VLAN_DEPTH)): refuse(DROP_L2_VLAN_DEPTH);
            (PARSED(DROP_L2_NOT_IP)): refuse(DROP_L2_NOT_IP);
            (CUT(_, _, false)): refuse(DROP_OUTER_LENGTH);
            (PARSED(DROP_OUTER_VERSION)): refuse(DROP_OUTER_VERSION);
            (PARSED(DROP_OUTER_LENGTH)): refuse(DROP_OUTER_LENGTH);
            /* Of a header with options the chip does not know the sum. */
            (PARSED(DROP_OUTER_OPTIONS)): refuse(DROP_OUTER_OPTIONS);
            (BAD_OUTER_CSUM): refuse(DROP_OUTER_CHECKSUM);
            (PARSED(DROP_OUTER_FRAG)): refuse(DROP_OUTER_FRAG);
            (PARSED(PARSED_CONTROL)): control_thread();
            (NO_VTEP): refuse(DROP_NOT_OUR_ADDRESS);
            (PARSED(PARSED_NOT_UDP)): control_thread();
            (UDP_LEN(BELOW_8)): refuse(DROP_OUTER_LENGTH);
            EACH_BIT(UDP_OFF, refuse(DROP_OUTER_LENGTH))
            (PARSED(PARSED_BFD)): control_thread();
            (PARSED(DROP_NOT_VXLAN)): refuse(DROP_NOT_VXLAN);
            (TTL4(0 &&& 0xfe)): refuse(DROP_OUTER_TTL);
            (TTL6(0 &&& 0xfe)): refuse(DROP_OUTER_TTL);
            (NO_SOURCE): refuse(DROP_SOURCE_CHECK);
            (UDP_LEN(BELOW_16)): refuse(DROP_VXLAN_TRUNCATED);
            (PARSED(DROP_VXLAN_I_FLAG)): refuse(DROP_VXLAN_I_FLAG);
            (PARSED(DROP_VXLAN_GPE)): refuse(DROP_VXLAN_GPE);
            (NO_VNI): refuse(DROP_UNKNOWN_VNI);
            (UDP_LEN(FROM_16_TO_23)): refuse(DROP_INNER_TRUNCATED);
            (UDP_LEN(FROM_24_TO_27)): refuse(DROP_INNER_TRUNCATED);
            (UDP_LEN(FROM_28_TO_29)): refuse(DROP_INNER_TRUNCATED);
            (TAGGED(TYPE_VLAN, 0 &&& VNI_INNER_VLAN)): refuse(DROP_INNER_VLAN);
            (TAGGED(TYPE_SVLAN, 0 &&& VNI_INNER_VLAN)): refuse(DROP_INNER_VLAN);
            (PARSED(DROP_INNER_VLAN)): refuse(DROP_INNER_VLAN);
            (PARSED(DROP_INNER_NOT_IP)): refuse(DROP_INNER_NOT_IP);
            (ROOM4(BELOW_16)): refuse(DROP_INNER_TRUNCATED);
            (ROOM4(FROM_16_TO_19)): refuse(DROP_INNER_TRUNCATED);
            (ROOM4(MINUS_1_TO_8)): refuse(DROP_INNER_TRUNCATED);
            (ROOM6(MINUS_1_TO_64)): refuse(DROP_INNER_TRUNCATED);
            (PARSED(DROP_INNER_VERSION)): refuse(DROP_INNER_VERSION);
            (PARSED(DROP_INNER_LENGTH)): refuse(DROP_INNER_LENGTH);
            (INNER4_LEN(BELOW_16)): refuse(DROP_INNER_LENGTH);
            (INNER4_LEN(FROM_16_TO_19)): refuse(DROP_INNER_LENGTH);
            EACH_BIT(EXCESS4, refuse(DROP_INNER_LENGTH))
            EACH_BIT(EXCESS6, refuse(DROP_INNER_LENGTH))
            (CUT_LATER): refuse(DROP_INNER_TRUNCATED);
            (BAD_INNER_CSUM): refuse(DROP_INNER_CHECKSUM);
            (PARSED(DROP_INNER_ND)): refuse(DROP_INNER_ND);
            (KIND(DST_NOT_UNICAST)): refuse(DROP_INNER_NOT_UNICAST);
            /* Here nobody sees the ports, and x86 does not look at the ACL again. */
            (PARSED_OF(PARSED_X86, VNI_ACL &&& VNI_ACL)): refuse(DROP_ACL_DENY);
            (PARSED(PARSED_X86)): let_x86();
            (TAGGED(TYPE_VLAN, _)): let_x86();
            (TAGGED(TYPE_SVLAN, _)): let_x86();
            (KIND(DST_MAPPED)): let_x86();
            (NO_CSUM6): let_x86(); /* if it is allowed at all, x86 knows */
        }
    }

    apply {
        vtep.apply();
        source.apply();
        vni.apply();
        inner_dst.apply();
        checks.apply();
    }
}

#endif
