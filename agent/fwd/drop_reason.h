/*
 * drop_reason - why a packet went no further: one name, one counter, one metric each.
 *
 * Names, order and the order of the checks behind them are those of the table in
 * tests/reference/README.md, which every execution of the forwarding rules follows.
 * A new reason goes in at the place its check has in that table.
 */
#pragma once

/* X(enumerator, "name") in the order of the checks. */
#define DROP_REASONS(X)                                                                \
    X(NOT_READY, "not_ready")                                                          \
    X(NO_BUFFER, "no_buffer")                                                          \
    X(L2_TRUNCATED, "l2_truncated")                                                    \
    X(L2_VLAN_DEPTH, "l2_vlan_depth")                                                  \
    X(L2_NOT_IP, "l2_not_ip")                                                          \
    X(OUTER_LENGTH, "outer_length")                                                    \
    X(OUTER_VERSION, "outer_version")                                                  \
    X(OUTER_CHECKSUM, "outer_checksum")                                                \
    X(OUTER_OPTIONS, "outer_options")                                                  \
    X(OUTER_FRAG, "outer_frag")                                                        \
    X(NOT_OUR_ADDRESS, "not_our_address")                                              \
    X(NOT_VXLAN, "not_vxlan")                                                          \
    X(OUTER_TTL, "outer_ttl")                                                          \
    X(OUTER_UDP6_ZERO_CSUM, "outer_udp6_zero_csum")                                    \
    X(OUTER_L4_CHECKSUM, "outer_l4_checksum")                                          \
    X(SOURCE_CHECK, "source_check")                                                    \
    X(VXLAN_TRUNCATED, "vxlan_truncated")                                              \
    X(VXLAN_I_FLAG, "vxlan_i_flag")                                                    \
    X(VXLAN_GPE, "vxlan_gpe")                                                          \
    X(UNKNOWN_VNI, "unknown_vni")                                                      \
    X(INNER_TRUNCATED, "inner_truncated")                                              \
    X(INNER_VLAN, "inner_vlan")                                                        \
    X(INNER_NOT_IP, "inner_not_ip")                                                    \
    X(INNER_VERSION, "inner_version")                                                  \
    X(INNER_LENGTH, "inner_length")                                                    \
    X(INNER_CHECKSUM, "inner_checksum")                                                \
    X(INNER_EXT, "inner_ext")                                                          \
    X(INNER_ND, "inner_nd")                                                            \
    X(INNER_NOT_UNICAST, "inner_not_unicast")                                          \
    X(ACL_DENY, "acl_deny")                                                            \
    X(METER_RED, "meter_red")                                                          \
    X(ROUTE_MISS, "route_miss")                                                        \
    X(PEER_LIMIT, "peer_limit")                                                        \
    X(NO_SNAT, "no_snat")                                                              \
    X(SERVICE_UNBOUND, "service_unbound")                                              \
    X(VM_NC_MISS, "vm_nc_miss")                                                        \
    X(FALLBACK_NO_MEMBER, "fallback_no_member")                                        \
    X(FALLBACK_SERVICE_RED, "fallback_service_red")                                    \
    X(FALLBACK_MISS_RED, "fallback_miss_red")                                          \
    X(NO_NC, "no_nc")                                                                  \
    X(INNER_TTL, "inner_ttl")                                                          \
    X(NO_VIP, "no_vip")                                                                \
    X(NO_UPLINK, "no_uplink")                                                          \
    X(NEXT_HOP_UNRESOLVED, "next_hop_unresolved")                                      \
    X(NO_MEMBER, "no_member")                                                          \
    X(MTU, "mtu")

enum drop_reason {
    DROP_NONE = 0, /* not dropped */
#define X(id, name) DROP_##id,
    DROP_REASONS(X)
#undef X
        DROP_COUNT
};

/* "outer_length", …; "none" for DROP_NONE, null beyond the enum.  Static text. */
const char *drop_reason_name(unsigned reason);
