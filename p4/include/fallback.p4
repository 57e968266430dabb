/*
 * What the chip does not answer goes to a member of the x86 cluster, metered in two
 * classes.  The tenant's bucket comes first, and what it refuses does not spend the
 * class: one tenant that scans unused addresses cannot take the others' share.
 */
#ifndef XGW_FALLBACK_P4
#define XGW_FALLBACK_P4

/* Which bucket is the tenant's: of the arriving VNI, for it is the sender that pays. */
control TenantBucket(inout headers_t h, inout metadata_t m) {
    HASH(crc, CRC16, 12)
    apply {
        HASH_RUN(crc, m.tenant, CRC16, 12, { h.vxlan.vni });
    }
}

control Fallback(inout headers_t h, inout metadata_t m) {
    METER(fb_service, FALLBACK_BUCKETS, 12)
    METER(fb_miss, FALLBACK_BUCKETS, 12)
    METER(fb_class, 2, 1)

    @id(0x01000017) action member(@id(1) bit<17> nc) {
        m.nc = nc;
    }
    @id(0x01000044) action no_member() {
        m.no_member = 1;
    }
    @id(0x02000017) @name("fallback_group") table fallback_group {
        key = {
            h.ip4.isValid(): exact @name("v4") @id(1);
            h.bridge.flow[15:6]: exact @name("bucket") @id(2);
        }
        actions = {
            @tableonly member;
            @defaultonly no_member;
        }
        const default_action = no_member();
        size = FALLBACK_SLOTS;
    }
    apply {
        fallback_group.apply();
        if (m.cls == CLASS_SERVICE) {
            METER_RUN(fb_service, m.tenant, m.color);
        } else {
            METER_RUN(fb_miss, m.tenant, m.color);
        }
        if (m.color != METER_RED) {
            METER_RUN(fb_class, m.cls, m.class_color);
        }
    }
}

#endif
