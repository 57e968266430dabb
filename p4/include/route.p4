/*
 * Longest prefix match on (VNI, pooled address), ALPM in two tables: the longest row of
 * route_tcam says the partition, and the result of the longest route that covers the
 * partition's root; a route of route_part overwrites that.  So a miss inside needs no
 * second look.  Results go straight into the bridge: a copy would cost a stage.
 */
#ifndef XGW_ROUTE_P4
#define XGW_ROUTE_P4

/* Without these pins half of route_part can go unplaced with exit status 0 (fit.py tells;
 * README.md, "Compiling"), and vm_nc takes the memory for route_tcam's action data. */
#ifdef XGW_TNA
#define TCAM_STAGE 3072 /* rows: 6 groups of 512, 4 blocks each */
#define ROUTE_TCAM_STAGES \
    @stage(1, TCAM_STAGE) @stage(2, TCAM_STAGE) @stage(3, TCAM_STAGE)
#define ROUTE_STAGE 18432 /* slots */
#define ROUTE_PART_STAGES \
    @stage(4, ROUTE_STAGE) @stage(5, ROUTE_STAGE) @stage(6, ROUTE_STAGE) \
    @stage(7, ROUTE_STAGE) @stage(8, ROUTE_STAGE) @stage(9, ROUTE_STAGE) \
    @stage(10, ROUTE_STAGE) @stage(11, ROUTE_STAGE)
#else
#define ROUTE_TCAM_STAGES
#define ROUTE_PART_STAGES
#endif

control Route(inout headers_t h, inout metadata_t m) {
    bit<ROUTE_PARTITION_BITS> part;

    @id(0x01000011) action set_part(@id(1) @name("part") bit<16> number, @id(2) bit<8> scope,
                                    @id(3) bit<24> vni, @id(4) bit<24> idx) {
        m.part = number;
        h.bridge.scope = scope;
        h.bridge.vni = vni;
        h.bridge.idx = idx;
    }
    /* Partition 0 is kept empty, so that route_part misses too. */
    @id(0x01000040) action no_part() {
        m.part = 0;
        h.bridge.scope = SCOPE_MISS;
    }
    ROUTE_TCAM_STAGES
    @id(0x02000011) @name("route_tcam") table route_tcam {
        key = {
            m.vni: ternary @name("vni") @id(1);
            m.dst: ternary @name("dst") @id(2);
        }
        actions = {
            @tableonly set_part;
            @defaultonly no_part;
        }
        const default_action = no_part();
        size = ROUTE_PARTITIONS;
    }

    @id(0x01000012) action local() {
        h.bridge.scope = SCOPE_LOCAL;
        h.bridge.vni = m.vni;
    }
    @id(0x01000013) action peer(@id(1) bit<24> vni, @id(2) bit<2> half) {
        h.bridge.scope = SCOPE_PEER;
        h.bridge.vni = vni;
        h.bridge.idx = (bit<24>)half;
    }
    @id(0x01000014) action tunnel(@id(1) bit<24> vni, @id(2) bit<17> nc) {
        h.bridge.scope = SCOPE_TUNNEL;
        h.bridge.vni = vni;
        h.bridge.idx = (bit<24>)nc;
    }
    @id(0x01000015) action to_x86(@id(1) bit<1> cls) {
        h.bridge.scope = SCOPE_FALLBACK;
        h.bridge.idx = (bit<24>)cls;
    }
    /* Not the Atcam extern: it takes no more than 42,684 entries of this width. */
    ROUTE_PART_STAGES
    @atcam_partition_index("part") @atcam_number_partitions(ROUTE_PARTITIONS)
    @id(0x02000012) @name("route_part") table route_part {
        key = {
            part: exact @name("part") @id(1);
            m.vni: ternary @name("vni") @id(2);
            m.dst: ternary @name("dst") @id(3);
        }
        actions = {
            local;
            peer;
            tunnel;
            to_x86;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = ROUTE_SLOTS;
    }

    apply {
        route_tcam.apply();
        part = m.part[ROUTE_PARTITION_BITS - 1:0];
        route_part.apply();
    }
}

#endif
