#include "tests/unit/unit.h"

#include "tests/unit/proto/model/random_entry.h"

/* clang-format off */
#define V4(b0, b1, b2, b3) { .family = IP_V4, .b = { b0, b1, b2, b3 } }
/* clang-format on */
#define V6(x, last)                                                                    \
    {                                                                                  \
        .family = IP_V6, .b = { 0x20, 0x01, 0x0d, 0xb8, [5] = (x), [15] = (last) }     \
    }

/* Key and value spelled by hand from entry.h.  Digests: `xxhsum -H3` (Debian xxhash
 * 0.8.1) over table, VNI, key, value. */
static const struct {
    struct entry e;
    const char *key;
    const char *value;
    uint64_t digest;
} packed_cases[] = {
    { { .table = TABLE_TENANT,
        .vni = 100,
        .tenant = { VNI_INTERNET, "x86-1", "acme", "h-1", .half = 1 + VNI_HALF_1 } },
      "",
      "01057838362d310461636d6503682d310200",
      UINT64_C(0x4644a959fc2d0f5f) },
    { { .table = TABLE_TENANT, /* to be placed */
        .vni = 1,
        .tenant = { .reserve = { 100, 200, UINT64_C(100000000000), 10000000 } } },
      "",
      "00000000000100000064000000c8000000174876e8000000000000989680",
      UINT64_C(0x73ac5e25fb89826c) },
    { { .table = TABLE_TENANT, .vni = VNI_MAX, .tenant = { .cluster = "a" } },
      "",
      "00016100000000",
      UINT64_C(0x9d2d09f403f5adff) },
    { { .table = TABLE_VNI, .vni = 1, .vni_row = { VNI_FLAGS, VNI_HALF_BY_DST } },
      "",
      "0702",
      UINT64_C(0x4487adf7c3fbf1ad) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(10, 0, 0, 0), 24 }, { .scope = SCOPE_LOCAL } } },
      "040a00000018",
      "01",
      UINT64_C(0x9155c2663cd62ec9) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(10, 1, 0, 0), 16 }, { .scope = SCOPE_PEER, .vni = 7 } } },
      "040a01000010",
      "02000007",
      UINT64_C(0xfea2bed2576f5885) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(0, 0, 0, 0), 0 }, { .scope = SCOPE_INTERNET } } },
      "040000000000",
      "03",
      UINT64_C(0xcef5a8da33cbde34) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(192, 168, 0, 0), 16 },
                   { .scope = SCOPE_IDC,
                     .vni = 5000,
                     .endpoint = V4(172, 16, 0, 9) } } },
      "04c0a8000010",
      "0404ac100009001388",
      UINT64_C(0xf2a97fb9bf00d6ad) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V6(0, 0), 32 },
                   { .scope = SCOPE_REGION, .vni = 42, .endpoint = V6(1, 9) } } },
      "0620010db800000000000000000000000020",
      "050620010db800010000000000000000000900002a",
      UINT64_C(0x034893150aab31de) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(100, 64, 0, 0), 10 },
                   { .scope = SCOPE_SERVICE, .service = "dns" } } },
      "04644000000a",
      "0603646e73",
      UINT64_C(0x3f222a74e0ef5188) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(10, 2, 0, 0), 16 },
                   { .scope = SCOPE_DERIVED,
                     .vni = 7,
                     .endpoint = V4(172, 16, 0, 1) } } },
      "040a02000010",
      "0704ac100001000007",
      UINT64_C(0x3b4070617661dbd7) },
    { { .table = TABLE_VM_NC,
        .vni = 100,
        .vm_nc = { V4(10, 0, 0, 5), V4(172, 16, 1, 1), true, { 2, 0, 0, 0, 0, 5 } } },
      "040a000005",
      "04ac10010101020000000005",
      UINT64_C(0x333d01a95b4eb1c6) },
    { { .table = TABLE_VM_NC,
        .vni = 100,
        .vm_nc = { .vm = V4(10, 0, 0, 5), .nc = V6(0, 1) } },
      "040a000005",
      "0620010db800000000000000000000000100",
      UINT64_C(0x9e377f3ccf2053af) },
    { { .table = TABLE_VXLAN_ROUTE,
        .vni = 100,
        .route = { { V4(10, 3, 0, 0), 16 }, { .scope = SCOPE_FALLBACK } } },
      "040a03000010",
      "08",
      UINT64_C(0xa727643cdb195647) },
    { { .table = TABLE_ACL,
        .vni = 100,
        .acl = { 1000,
                 ACL_PERMIT,
                 { { V4(10, 0, 0, 0), 8 },
                   { V4(0, 0, 0, 0), 0 },
                   true,
                   IP_PROTO_TCP,
                   { 0, 65535 },
                   { 443, 443 } } } },
      "03e8040a00000008000000000001060000ffff01bb01bb",
      "01",
      UINT64_C(0x4aa89b5638f9b156) },
    { { .table = TABLE_ACL,
        .vni = 100,
        .acl = { 65535,
                 ACL_DENY,
                 { { V6(0, 0), 32 },
                   { V6(1, 9), 128 },
                   false,
                   0,
                   { 0, 65535 },
                   { 0, 65535 } } } },
      "ffff0620010db80000000000000000000000002020010db800010000000000000000000980000000"
      "00ffff0000ffff",
      "02",
      UINT64_C(0xbab411407e0e7826) },
    { { .table = TABLE_METER,
        .vni = 100,
        .meter = { 1000000000, 2000000000, 1250000, 2500000 } },
      "",
      "000000003b9aca000000000077359400001312d0002625a0",
      UINT64_C(0x9415091d57afb9f9) },
    { { .table = TABLE_VNI_CLUSTER, .vni = 100, .vni_cluster = { "x86-1" } },
      "",
      "057838362d31",
      UINT64_C(0xb3975b3a80785762) },
};

static void to_hex(const uint8_t *bytes, size_t len, char *to)
{
    *to = '\0';
    for (size_t i = 0; i < len; i++) {
        to += sprintf(to, "%02x", bytes[i]);
    }
}

START_TEST(an_entry_packs_to_the_bytes_the_header_names)
{
    const struct entry *e = &packed_cases[_i].e;
    struct buf b = BUF_INIT;
    char hex[2 * (ENTRY_KEY_MAX + ENTRY_VALUE_MAX) + 1];
    struct row row;
    struct entry got;
    struct err err = { 0 };
    size_t key_len;

    ck_assert_msg(entry_check(e, &err) == RC_OK, "%s", err.msg);
    entry_pack_key(e, &b);
    key_len = b.len;
    to_hex(b.data, key_len, hex);
    ck_assert_str_eq(hex, packed_cases[_i].key);
    entry_pack_value(e, &b);
    to_hex(b.data + key_len, b.len - key_len, hex);
    ck_assert_str_eq(hex, packed_cases[_i].value);

    ck_assert_uint_eq(row_scan(e->table, b.data, b.len, true, &row), b.len);
    ck_assert_uint_eq(row.key_len, key_len);
    ck_assert_uint_eq(row_digest(e->table, e->vni, &row), packed_cases[_i].digest);
    ck_assert_int_eq(entry_unpack(e->table, e->vni, &row, &got, &err), RC_OK);
    ck_assert(entry_same(e, &got));
    buf_fini(&b);
}
END_TEST

START_TEST(the_key_hash_is_xxh3_of_the_key_alone)
{
    const uint8_t prefix[] = { 4, 10, 0, 0, 0, 24 };
    const uint8_t vm[] = { 4, 10, 0, 0, 5 };
    struct row row = { .key = prefix, .key_len = 6, .value = vm, .value_len = 5 };

    /* xxhsum -H3 */
    ck_assert_uint_eq(row_key_hash(&row), UINT64_C(0xb7e0698720fa1ada));
    row = (struct row){ .key = vm, .key_len = 5 };
    ck_assert_uint_eq(row_key_hash(&row), UINT64_C(0x472637833bc3f93f));
    row = (struct row){ .key = vm, .key_len = 0 };
    ck_assert_uint_eq(row_key_hash(&row), UINT64_C(0x2d06800538d394c2));
}
END_TEST

#define ROUTE(addr_, len_, ...)                                                        \
    {                                                                                  \
        .table = TABLE_VXLAN_ROUTE, .vni = 100, .route = {                             \
            { addr_, len_ },                                                           \
            { __VA_ARGS__ }                                                            \
        }                                                                              \
    }
#define VM(vm_, ...)                                                                   \
    {                                                                                  \
        .table = TABLE_VM_NC, .vni = 100, .vm_nc = {.vm = vm_, .nc = __VA_ARGS__ }     \
    }
#define ACL(priority_, src_, dst_, ...)                                                \
    {                                                                                  \
        .table = TABLE_ACL, .vni = 100, .acl = {                                       \
            priority_,                                                                 \
            ACL_PERMIT,                                                                \
            { src_, dst_, __VA_ARGS__ }                                                \
        }                                                                              \
    }
/* clang-format off */
#define ANY4      { V4(0, 0, 0, 0), 0 }
#define ANY6      { { .family = IP_V6 }, 0 }
#define ANY_PORTS { 0, 65535 }, { 0, 65535 }
/* clang-format on */
#define METER(...)                                                                     \
    {                                                                                  \
        .table = TABLE_METER, .vni = 100, .meter = { __VA_ARGS__ }                     \
    }
#define MAPPED                                                                         \
    {                                                                                  \
        .family = IP_V6, .b = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }                \
    }

static const struct {
    struct entry e;
    enum rc rc;
    const char *field;
    const char *rule;
} refused[] = {
    { { .table = 99, .vni = 1 }, RC_INVALID, "table", "table_known" },
    { { .table = TABLE_VNI, .vni = 0 }, RC_RANGE, "vni", "vni_range" },
    { { .table = TABLE_VNI, .vni = VNI_MAX + 1 }, RC_RANGE, "vni", "vni_range" },
    { { .table = TABLE_VNI, .vni = 1, .vni_row = { .flags = 8 } },
      RC_INVALID,
      "flags",
      "flag_known" },
    { { .table = TABLE_VNI, .vni = 1, .vni_row = { 0, VNI_HALF_COUNT } },
      RC_RANGE,
      "half",
      "half_known" },
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .flags = VNI_ACL, .cluster = "a", .name = "x" } },
      RC_INVALID,
      "flags",
      "flag_derived" },
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .cluster = "a", .name = "x", .h_home = "1h" } },
      RC_INVALID,
      "h_home",
      "name_syntax" },
    { ACL(0, ANY4, ANY4, false, 0, ANY_PORTS), RC_RANGE, "priority", "priority_range" },
    { ACL(1, { { 0 }, 0 }, ANY4, false, 0, ANY_PORTS), RC_INVALID, "src", "family" },
    { ACL(1, { V4(10, 0, 0, 1), 8 }, ANY4, false, 0, ANY_PORTS), RC_INVALID, "src",
      "host_bits" },
    { ACL(1, ANY4, { V4(10, 0, 0, 0), 33 }, false, 0, ANY_PORTS), RC_RANGE, "dst",
      "prefix_length" },
    { ACL(1, ANY4, ANY6, false, 0, ANY_PORTS), RC_INVALID, "dst", "family_mismatch" },
    { ACL(1, ANY6, { MAPPED, 128 }, false, 0, ANY_PORTS), RC_INVALID, "dst",
      "family_mismatch" },
    { ACL(1, ANY4, ANY4, false, 6, ANY_PORTS), RC_INVALID, "proto", "proto_any" },
    { ACL(1, ANY4, ANY4, true, 6, { 2, 1 }, { 0, 65535 }), RC_RANGE, "sport",
      "port_range" },
    { ACL(1, ANY4, ANY4, false, 0, { 0, 65535 }, { 53, 53 }), RC_INVALID, "dport",
      "port_protocol" },
    { ACL(1, ANY4, ANY4, true, 132, { 1, 65535 }, { 0, 65535 }), RC_INVALID, "sport",
      "port_protocol" },
    { { .table = TABLE_ACL,
        .vni = 1,
        .acl = { 1, 3, { ANY4, ANY4, false, 0, ANY_PORTS } } },
      RC_INVALID,
      "action",
      "action_known" },
    { METER(1, 0, 9600, 9600), RC_RANGE, "peak_bps", "meter_rate" },
    { METER(METER_BPS_MAX + 1, METER_BPS_MAX, 9600, 9600), RC_RANGE, "committed_bps",
      "meter_rate" },
    { METER(2, 1, 9600, 9600), RC_INVALID, "peak_bps", "meter_order" },
    { METER(0, 1, 9599, 9600), RC_RANGE, "committed_burst", "meter_burst" },
    { METER(0, 1, 9600, METER_BURST_MAX + 1), RC_RANGE, "peak_burst", "meter_burst" },
    { METER(0, 1, 9601, 9600), RC_INVALID, "peak_burst", "meter_order" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .cluster = "a", .half = 1 } },
      RC_INVALID,
      "half",
      "half_needs_h_home" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { 0, "a", "", "h", .half = 4 } },
      RC_RANGE,
      "half",
      "half_known" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .reserve.bps = RESERVE_MAX + 1 } },
      RC_RANGE,
      "reserved_bps",
      "number_range" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .reserve.pps = RESERVE_MAX + 1 } },
      RC_RANGE,
      "reserved_pps",
      "number_range" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .cluster = "", .h_home = "h" } },
      RC_RANGE,
      "cluster",
      "name_length" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .cluster = "1a", .name = "x" } },
      RC_INVALID,
      "cluster",
      "name_syntax" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .cluster = "a b", .name = "x" } },
      RC_INVALID,
      "cluster",
      "name_syntax" },
    { { .table = TABLE_TENANT, .vni = 1, .tenant = { .cluster = "a", .name = "x\ty" } },
      RC_INVALID,
      "name",
      "name_text" },
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .cluster = "a", .name = "\xc0\x80" } }, /* overlong */
      RC_INVALID,
      "name",
      "name_text" },
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .cluster = "a", .name = "\xed\xa0\x80" } }, /* D800 */
      RC_INVALID,
      "name",
      "name_text" },
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .cluster = "a", .name = "\xc2\x85" } }, /* NEL, C1 */
      RC_INVALID,
      "name",
      "name_text" },
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .cluster = "a", .name = "\xf4\x90\x80\x80" } },
      RC_INVALID,
      "name",
      "name_text" }, /* above U+10FFFF */
    { { .table = TABLE_TENANT,
        .vni = 1,
        .tenant = { .cluster = "a", .name = "\xe4\xba" } }, /* cut */
      RC_INVALID,
      "name",
      "name_text" },
    { { .table = TABLE_VNI_CLUSTER, .vni = 1, .vni_cluster = { "" } },
      RC_RANGE,
      "cluster",
      "name_length" },
    { { .table = TABLE_VNI_CLUSTER, .vni = 1, .vni_cluster = { "a b" } },
      RC_INVALID,
      "cluster",
      "name_syntax" },
    { ROUTE({ 0 }, 0, .scope = SCOPE_LOCAL), RC_INVALID, "prefix", "family" },
    { ROUTE(V4(10, 0, 0, 0), 33, .scope = SCOPE_LOCAL), RC_RANGE, "prefix",
      "prefix_length" },
    { ROUTE(V4(10, 0, 0, 1), 24, .scope = SCOPE_LOCAL), RC_INVALID, "prefix",
      "host_bits" },
    { ROUTE(MAPPED, 128, .scope = SCOPE_LOCAL), RC_INVALID, "prefix",
      "family_mismatch" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = 0), RC_INVALID, "scope", "scope_known" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_COUNT), RC_INVALID, "scope",
      "scope_known" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_PEER), RC_RANGE, "peer_vni",
      "vni_range" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_PEER, .vni = 100), RC_INVALID,
      "peer_vni", "peer_self" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_IDC, .vni = 5), RC_INVALID, "endpoint",
      "family" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_REGION, .endpoint = V4(10, 0, 0, 9)),
      RC_RANGE, "endpoint_vni", "vni_range" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_DERIVED, .vni = 1,
            .endpoint = V4(224, 0, 0, 9)),
      RC_INVALID, "endpoint", "unicast_address" },
    { ROUTE(V4(10, 0, 0, 0), 8, .scope = SCOPE_SERVICE), RC_RANGE, "service",
      "name_length" },
    { VM({ 0 }, V4(10, 0, 0, 1)), RC_INVALID, "vm", "family" },
    { VM(V4(0, 0, 0, 0), V4(10, 0, 0, 1)), RC_INVALID, "vm", "unicast_address" },
    { VM(V4(127, 0, 0, 1), V4(10, 0, 0, 1)), RC_INVALID, "vm", "unicast_address" },
    { VM(V4(239, 255, 255, 255), V4(10, 0, 0, 1)), RC_INVALID, "vm",
      "unicast_address" },
    { VM(V4(255, 255, 255, 255), V4(10, 0, 0, 1)), RC_INVALID, "vm",
      "unicast_address" },
    { VM(MAPPED, V4(10, 0, 0, 1)), RC_INVALID, "vm", "family_mismatch" },
    { VM(V4(10, 0, 0, 1), { .family = IP_V6 }), RC_INVALID, "nc", "unicast_address" },
    { VM(V4(10, 0, 0, 1), { .family = IP_V6, .b = { [15] = 1 } }), RC_INVALID, "nc",
      "unicast_address" },
    { VM(V4(10, 0, 0, 1), { .family = IP_V6, .b = { 0xff, 2, [15] = 1 } }), RC_INVALID,
      "nc", "unicast_address" },
    { { .table = TABLE_VM_NC,
        .vni = 1,
        .vm_nc = { V4(10, 0, 0, 1), V4(10, 0, 0, 2), true, { 1, 0, 0, 0, 0, 1 } } },
      RC_INVALID,
      "mac",
      "mac_unicast" },
    { { .table = TABLE_VM_NC,
        .vni = 1,
        .vm_nc = { V4(10, 0, 0, 1), V4(10, 0, 0, 2), true, { 0 } } },
      RC_INVALID,
      "mac",
      "mac_unicast" },
};

START_TEST(a_bad_entry_is_refused_with_its_field_and_rule)
{
    struct err err = { 0 };

    ck_assert_int_eq(entry_check(&refused[_i].e, &err), refused[_i].rc);
    ck_assert_str_eq(err.field, refused[_i].field);
    ck_assert_str_eq(err.rule, refused[_i].rule);
    ck_assert(err.msg[0]);
}
END_TEST

/* Packed bytes that no entry packs to. */
static const struct {
    enum table_id table;
    const char *key;
    const char *value;
} malformed[] = {
    { TABLE_VM_NC, "050a000005", "04ac10010100" },   /* tag */
    { TABLE_VM_NC, "040a0000", "04ac10010100" },     /* cut */
    { TABLE_VM_NC, "040a00000500", "04ac10010100" }, /* too long */
    { TABLE_VM_NC, "040a000005", "04ac10010102" },   /* has_mac 2 */
    { TABLE_VM_NC, "040a000005", "04ac10010101" },   /* no mac */
    { TABLE_VM_NC, "040a000005", "04ac1001010000" }, /* trailing byte */
    { TABLE_VXLAN_ROUTE, "040a00000118", "01" },     /* host bits */
    { TABLE_VXLAN_ROUTE, "040a00000021", "01" },     /* length 33 */
    { TABLE_VXLAN_ROUTE, "040a00000018", "09" },     /* scope */
    { TABLE_ACL, "03e8040a00000008000000000002060000ffff01bb01bb",
      "01" }, /* has_proto 2 */
    { TABLE_ACL, "03e8040a00000008000000000001060000ffff01bb01", "01" }, /* cut */
    { TABLE_ACL, "03e8040a00000008000000000001060000ffff01bb01bb", "0101" },
    { TABLE_ACL, "03e8050a00000008000000000001060000ffff01bb01bb", "01" }, /* tag */
    { TABLE_METER, "", "000000003b9aca000000000077359400001312d0002625" }, /* cut */
    { TABLE_METER, "00", "000000003b9aca000000000077359400001312d0002625a0" },
    { TABLE_VNI_CLUSTER, "", "" },
    { TABLE_VNI_CLUSTER, "", "0261" },   /* cut */
    { TABLE_VNI_CLUSTER, "", "016100" }, /* trailing byte */
    { TABLE_VNI_CLUSTER, "04", "0161" },
    { TABLE_VNI, "", "00" },
    { TABLE_VXLAN_ROUTE, "040a00000018", "02000000" },   /* peer 0 */
    { TABLE_VXLAN_ROUTE, "040a00000018", "0603640073" }, /* zero in a name */
    { TABLE_TENANT, "",
      "000161016100"
      "00" },
    { TABLE_TENANT, "00", "0001610000" },
    { TABLE_TENANT, "", "000261000000" }, /* zero in a name */
    { TABLE_TENANT, "", "0801610000" },   /* flag */
    { TABLE_VNI, "", "000000" },
};

static size_t from_hex(const char *hex, uint8_t *to)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        unsigned v = 0;

        ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &v), 1);
        to[i] = (uint8_t)v;
    }
    return len;
}

START_TEST(unpacking_refuses_what_packing_never_writes)
{
    uint8_t key[64];
    uint8_t value[128];
    struct row row = { .key = key, .value = value };
    struct entry e;
    struct err err = { 0 };

    row.key_len = (uint8_t)from_hex(malformed[_i].key, key);
    row.value_len = (uint8_t)from_hex(malformed[_i].value, value);
    memset(&e, 0x5a, sizeof(e));
    ck_assert_int_ne(entry_unpack(malformed[_i].table, 100, &row, &e, &err), RC_OK);
    ck_assert(err.msg[0]);
    ck_assert_uint_eq(e.vni, 0x5a5a5a5a);
}
END_TEST

START_TEST(every_random_entry_survives_packing_and_no_cut_is_taken)
{
    uint64_t seed = 42;
    struct buf b = BUF_INIT;

    for (int i = 0; i < 5000; i++) {
        struct entry e = random_entry(&seed);
        struct err err = { 0 };
        struct entry got;
        struct row row;

        ck_assert_msg(entry_check(&e, &err) == RC_OK, "entry %d: %s", i, err.msg);
        buf_reset(&b);
        entry_pack_key(&e, &b);
        ck_assert_uint_le(b.len, ENTRY_KEY_MAX);
        entry_pack_value(&e, &b);
        ck_assert_uint_eq(row_scan(e.table, b.data, b.len, true, &row), b.len);
        ck_assert_uint_le(row.value_len, ENTRY_VALUE_MAX);
        ck_assert_int_eq(entry_unpack(e.table, e.vni, &row, &got, &err), RC_OK);
        ck_assert(entry_same(&e, &got));
        for (size_t cut = 0; cut < b.len; cut++) {
            uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees an overrun */

            memcpy(exact + 1, b.data, cut);
            ck_assert_uint_eq(row_scan(e.table, exact + 1, cut, true, &row), 0);
            free(exact);
        }
    }
    buf_fini(&b);
}
END_TEST

START_TEST(keys_sort_by_family_address_and_length)
{
    static const char *const in_order[] = {
        "040000000000",
        "040a00000008",
        "040a00000018",
        "040a00000108",
        "040b00000008",
        "060000000000000000000000000000000000",
        "0620010db800000000000000000000000020",
    };
    uint8_t bytes[2][32];

    for (size_t i = 0; i < ARRAY_LEN(in_order); i++) {
        for (size_t j = 0; j < ARRAY_LEN(in_order); j++) {
            struct row a = { .key = bytes[0],
                             .key_len = (uint8_t)from_hex(in_order[i], bytes[0]) };
            struct row b = { .key = bytes[1],
                             .key_len = (uint8_t)from_hex(in_order[j], bytes[1]) };
            int order = row_compare(&a, &b);

            ck_assert_int_eq((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
    ck_assert_int_lt(row_compare(&(struct row){ .key = bytes[0], .key_len = 3 },
                                 &(struct row){ .key = bytes[0], .key_len = 4 }),
                     0);
}
END_TEST

START_TEST(names_of_tables_and_scopes_read_back)
{
    for (int i = 0; i < TABLE_COUNT; i++) {
        const char *name = table_name((enum table_id)i);

        ck_assert_int_eq(table_parse(name, strlen(name)), i);
    }
    for (int i = SCOPE_LOCAL; i < SCOPE_COUNT; i++) {
        const char *name = scope_name((enum route_scope)i);

        ck_assert_int_eq(scope_parse(name, strlen(name)), i);
    }
    ck_assert_int_eq(table_parse("vm_nc2", 6), -1);
    ck_assert_int_eq(table_parse("", 0), -1);
    ck_assert_int_eq(scope_parse("locale", 6), -1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("entry");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, an_entry_packs_to_the_bytes_the_header_names, 0,
                        ARRAY_LEN(packed_cases));
    tcase_add_test(tc, the_key_hash_is_xxh3_of_the_key_alone);
    tcase_add_loop_test(tc, a_bad_entry_is_refused_with_its_field_and_rule, 0,
                        ARRAY_LEN(refused));
    tcase_add_loop_test(tc, unpacking_refuses_what_packing_never_writes, 0,
                        ARRAY_LEN(malformed));
    tcase_add_test(tc, every_random_entry_survives_packing_and_no_cut_is_taken);
    tcase_add_test(tc, keys_sort_by_family_address_and_length);
    tcase_add_test(tc, names_of_tables_and_scopes_read_back);
    return unit_run("entry", tc);
}
