/* The reasons that the chip can name: enum drop_reason of agent/fwd/drop_reason.h, by
 * which its counters are read.  tests/p4/test_contract.py holds both together. */
#ifndef XGW_DROP_REASONS_P4
#define XGW_DROP_REASONS_P4

const bit<8> DROP_L2_TRUNCATED = 3;
const bit<8> DROP_L2_VLAN_DEPTH = 4;
const bit<8> DROP_L2_NOT_IP = 5;
const bit<8> DROP_OUTER_LENGTH = 6;
const bit<8> DROP_OUTER_VERSION = 7;
const bit<8> DROP_OUTER_CHECKSUM = 8;
const bit<8> DROP_OUTER_OPTIONS = 9;
const bit<8> DROP_OUTER_FRAG = 10;
const bit<8> DROP_NOT_OUR_ADDRESS = 11;
const bit<8> DROP_NOT_VXLAN = 12;
const bit<8> DROP_OUTER_TTL = 13;
const bit<8> DROP_SOURCE_CHECK = 16;
const bit<8> DROP_VXLAN_TRUNCATED = 17;
const bit<8> DROP_VXLAN_I_FLAG = 18;
const bit<8> DROP_VXLAN_GPE = 19;
const bit<8> DROP_UNKNOWN_VNI = 20;
const bit<8> DROP_INNER_TRUNCATED = 21;
const bit<8> DROP_INNER_VLAN = 22;
const bit<8> DROP_INNER_NOT_IP = 23;
const bit<8> DROP_INNER_VERSION = 24;
const bit<8> DROP_INNER_LENGTH = 25;
const bit<8> DROP_INNER_CHECKSUM = 26;
const bit<8> DROP_INNER_ND = 28;
const bit<8> DROP_INNER_NOT_UNICAST = 29;
const bit<8> DROP_ACL_DENY = 30;
const bit<8> DROP_METER_RED = 31;
const bit<8> DROP_PEER_LIMIT = 33;
const bit<8> DROP_FALLBACK_NO_MEMBER = 37;
const bit<8> DROP_FALLBACK_SERVICE_RED = 38;
const bit<8> DROP_FALLBACK_MISS_RED = 39;
const bit<8> DROP_NO_NC = 40;
const bit<8> DROP_NO_VIP = 42;
const bit<8> DROP_NO_UPLINK = 43;

#endif
