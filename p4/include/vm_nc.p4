/*
 * (VNI, inner destination) -> NC index.  A v4 address is its own 32-bit key, a v6 address
 * is compressed to its CRC32, with a tag for the family; v6 addresses whose key another
 * one of their VNI has stand whole in vm_nc_conflict and are looked up there first.  What
 * vm_nc has no room for is in vm_nc_spill, in another pipe.
 */
#ifndef XGW_VM_NC_P4
#define XGW_VM_NC_P4

control VmKey(inout headers_t h, inout metadata_t m) {
    HASH(crc, CRC32, 32)
    action key4() {
        m.is_v6 = 0;
        m.key32 = h.iip4.dst;
    }
    action key6() {
        m.is_v6 = 1;
        HASH_RUN(crc, m.key32, CRC32, 32, { h.iip6.dst });
    }
    apply {
        if (h.iip6.isValid()) {
            key6();
        } else {
            key4();
        }
    }
}

control VmNc(inout headers_t h, inout metadata_t m) {
    @id(0x01000016) action set_nc(@id(1) bit<17> nc) {
        h.bridge.scope = SCOPE_HIT;
        h.bridge.idx = (bit<24>)nc;
    }
    @id(0x02000013) @name("vm_nc_conflict") table vm_nc_conflict {
        key = {
            m.vni: exact @name("vni") @id(1);
            h.iip6.dst: exact @name("dst") @id(2);
        }
        actions = {
            @tableonly set_nc;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = CONFLICT_SIZE;
    }
    @id(0x02000014) @name("vm_nc") table vm_nc {
        key = {
            m.vni: exact @name("vni") @id(1);
            m.is_v6: exact @name("tag") @id(2);
            m.key32: exact @name("key") @id(3);
        }
        actions = {
            @tableonly set_nc;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = VM_NC_SIZE;
    }
    apply {
        if (h.iip6.isValid()) {
            if (!vm_nc_conflict.apply().hit) {
                vm_nc.apply();
            }
        } else {
            vm_nc.apply();
        }
    }
}

/* Where the packet goes, behind all look-ups but the last: an NC or endpoint, or x86. */
control Destination(inout headers_t h, inout metadata_t m) {
    VmKey() vm_key;

    @id(0x0100001c) action spill_nc(@id(1) bit<17> nc) {
        m.fallback = 0;
        m.nc = nc;
    }
    @id(0x01000043) action spill_miss() {
        m.fallback = 1;
    }
    @id(0x0200001c) @name("vm_nc_spill") table vm_nc_spill {
        key = {
            m.vni: exact @name("vni") @id(1);
            m.is_v6: exact @name("tag") @id(2);
            m.key32: exact @name("key") @id(3);
        }
        actions = {
            @tableonly spill_nc;
            @defaultonly spill_miss;
        }
        const default_action = spill_miss();
        size = VM_NC_SPILL_SIZE;
    }
    apply {
        vm_key.apply(h, m);
        m.nc = h.bridge.idx[16:0];
        m.cls = CLASS_MISS;
        m.fallback = 1;
        if (h.bridge.scope == SCOPE_LOCAL) { /* VmNc missed */
            vm_nc_spill.apply();
            if (m.nc[16:16] == 1 && h.ip4.isValid()) {
                m.fallback = 1; /* as in Outcome */
            } else if (m.nc[16:16] == 0 && h.ip6.isValid()) {
                m.fallback = 1;
            }
        } else if (h.bridge.scope == SCOPE_HIT || h.bridge.scope == SCOPE_TUNNEL) {
            m.fallback = 0;
        } else if (h.bridge.scope == SCOPE_FALLBACK) {
            m.cls = h.bridge.idx[0:0];
        } else if ((h.bridge.flags & VNI_INTERNET) != 0) {
            m.cls = CLASS_SERVICE; /* SNAT traffic, not a stray miss */
        }
    }
}

#endif
