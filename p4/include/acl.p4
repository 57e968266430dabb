/*
 * What the arriving VNI allows (stateless, permit unless a rule says otherwise), then what
 * it may spend.  In this order: what the ACL refuses costs the tenant nothing.  The rules
 * are looked at beside the checks, not behind them: that costs the chip no stage.
 */
#ifndef XGW_ACL_P4
#define XGW_ACL_P4

control Acl(inout headers_t h, inout metadata_t m) {
    @id(0x01000024) action permit() {
        m.denied = 0;
    }
    @id(0x01000025) action deny() {
        m.denied = 1;
    }
    @id(0x02000016) @name("acl") table acl {
        key = {
            h.vxlan.vni: exact @name("vni") @id(1);
            m.src: ternary @name("src") @id(2);
            m.dst: ternary @name("dst") @id(3);
            m.proto: ternary @name("proto") @id(4);
            m.sport: ternary @name("sport") @id(5);
            m.dport: ternary @name("dport") @id(6);
            /* A rule with ports asks for 1: no later fragment matches it. */
            m.has_ports: ternary @name("has_ports") @id(7);
        }
        actions = {
            permit;
            deny;
        }
        const default_action = permit();
        size = ACL_SIZE;
    }
    apply {
        acl.apply();
    }
}

/* Of a packet that has passed the checks. */
control VniMeter(inout headers_t h, inout metadata_t m) {
    COUNTER(vni_counter, VNI_METERS, 16)
    METER(vni_meter, VNI_METERS, 16)
    apply {
        if (m.denied == 1) {
            m.drop = 1;
            m.reason = DROP_ACL_DENY;
        } else {
            COUNT(vni_counter, m.meter_index);
            METER_RUN(vni_meter, m.meter_index, m.color);
            if (m.color == METER_RED) {
                m.drop = 1;
                m.reason = DROP_METER_RED;
            }
        }
    }
}

#endif
