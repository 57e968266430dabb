#include "agent/xgwh/phys.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define KEY(id, name, bits, match, offset)                                             \
    {                                                                                  \
        id, name, bits, match, offset, bits                                            \
    }
#define PARAM(id, name, bits, offset) KEY(id, name, bits, PHYS_EXACT, offset)

/* Ids follow P4Runtime: the first byte is the kind, 0x02 a table and 0x01 an action;
 * NoAction's is that of core.p4. */

static const struct phys_table_desc tables[PHYS_TABLES] = {
    [PHYS_VTEP] = { .id = 0x02000010,
                    .name = "vtep",
                    .field_count = 3,
                    .key_len = 21,
                    .has_priority = true,
                    .action_count = 1,
                    .actions = { PHYS_IS_VTEP },
                    .fields = { KEY(1, "v4", 1, PHYS_EXACT, 0),
                                KEY(2, "ip4", 32, PHYS_TERNARY, 1),
                                KEY(3, "ip6", 128, PHYS_TERNARY, 5) } },
    [PHYS_SOURCE] = { .id = 0x0200001b,
                      .name = "source",
                      .field_count = 3,
                      .key_len = 21,
                      .has_priority = true,
                      .action_count = 1,
                      .actions = { PHYS_IS_SOURCE },
                      .fields = { KEY(1, "v4", 1, PHYS_EXACT, 0),
                                  KEY(2, "ip4", 32, PHYS_TERNARY, 1),
                                  KEY(3, "ip6", 128, PHYS_TERNARY, 5) } },
    [PHYS_VNI] = { .id = 0x02000015,
                   .name = "vni",
                   .field_count = 1,
                   .key_len = 3,
                   .action_count = 1,
                   .actions = { PHYS_SET_VNI },
                   .fields = { KEY(1, "vni", 24, PHYS_EXACT, 0) } },
    [PHYS_ACL] = { .id = 0x02000016,
                   .name = "acl",
                   .field_count = 7,
                   .key_len = 41,
                   .has_priority = true,
                   .action_count = 2,
                   .actions = { PHYS_PERMIT, PHYS_DENY },
                   .fields = { KEY(1, "vni", 24, PHYS_EXACT, 0),
                               KEY(2, "src", 128, PHYS_TERNARY, 3),
                               KEY(3, "dst", 128, PHYS_TERNARY, 19),
                               KEY(4, "proto", 8, PHYS_TERNARY, 35),
                               KEY(5, "sport", 16, PHYS_TERNARY, 36),
                               KEY(6, "dport", 16, PHYS_TERNARY, 38),
                               KEY(7, "has_ports", 1, PHYS_TERNARY, 40) } },
    [PHYS_ROUTE_TCAM] = { .id = 0x02000011,
                          .name = "route_tcam",
                          .field_count = 2,
                          .key_len = 19,
                          .has_priority = true,
                          .halved = true,
                          .action_count = 1,
                          .actions = { PHYS_SET_PART },
                          .fields = { KEY(1, "vni", 24, PHYS_TERNARY, 0),
                                      KEY(2, "dst", 128, PHYS_TERNARY, 3) } },
    [PHYS_ROUTE_PART] = { .id = 0x02000012,
                          .name = "route_part",
                          .field_count = 3,
                          .key_len = 21,
                          .has_priority = true,
                          .halved = true,
                          .action_count = 4,
                          .actions = { PHYS_LOCAL, PHYS_PEER, PHYS_TUNNEL,
                                       PHYS_TO_X86 },
                          .fields = { { 1, "part", 16, PHYS_EXACT, 0, 14 },
                                      KEY(2, "vni", 24, PHYS_TERNARY, 2),
                                      KEY(3, "dst", 128, PHYS_TERNARY, 5) } },
    [PHYS_VM_NC_CONFLICT] = { .id = 0x02000013,
                              .name = "vm_nc_conflict",
                              .field_count = 2,
                              .key_len = 19,
                              .halved = true,
                              .action_count = 1,
                              .actions = { PHYS_SET_NC },
                              .fields = { KEY(1, "vni", 24, PHYS_EXACT, 0),
                                          KEY(2, "dst", 128, PHYS_EXACT, 3) } },
    [PHYS_VM_NC] = { .id = 0x02000014,
                     .name = "vm_nc",
                     .field_count = 3,
                     .key_len = 8,
                     .halved = true,
                     .action_count = 1,
                     .actions = { PHYS_SET_NC },
                     .fields = { KEY(1, "vni", 24, PHYS_EXACT, 0),
                                 KEY(2, "tag", 1, PHYS_EXACT, 3),
                                 KEY(3, "key", 32, PHYS_EXACT, 4) } },
    [PHYS_VM_NC_SPILL] = { .id = 0x0200001c,
                           .name = "vm_nc_spill",
                           .field_count = 3,
                           .key_len = 8,
                           .halved = true,
                           .action_count = 1,
                           .actions = { PHYS_SPILL_NC },
                           .fields = { KEY(1, "vni", 24, PHYS_EXACT, 0),
                                       KEY(2, "tag", 1, PHYS_EXACT, 3),
                                       KEY(3, "key", 32, PHYS_EXACT, 4) } },
    [PHYS_NC] = { .id = 0x02000019,
                  .name = "nc",
                  .field_count = 1,
                  .key_len = 3,
                  .action_count = 2,
                  .actions = { PHYS_NC4, PHYS_NC6 },
                  .fields = { KEY(1, "idx", PHYS_NC_BITS, PHYS_EXACT, 0) } },
    [PHYS_NEXT_HOP] = { .id = 0x02000018,
                        .name = "next_hop",
                        .field_count = 2,
                        .key_len = 2,
                        .action_count = 1,
                        .actions = { PHYS_OUT_PORT },
                        .fields = { KEY(1, "v4", 1, PHYS_EXACT, 0),
                                    KEY(2, "bucket", 8, PHYS_EXACT, 1) } },
    [PHYS_PORT_OUT] = { .id = 0x0200001a,
                        .name = "port_out",
                        .field_count = 3,
                        .key_len = 4,
                        .action_count = 3,
                        .actions = { PHYS_SRC4, PHYS_SRC6, PHYS_KEEP_SRC },
                        .fields = { KEY(1, "port", 9, PHYS_EXACT, 0),
                                    KEY(2, "fb", 1, PHYS_EXACT, 2),
                                    KEY(3, "v4", 1, PHYS_EXACT, 3) } },
    [PHYS_FALLBACK] = { .id = 0x02000017,
                        .name = "fallback_group",
                        .field_count = 2,
                        .key_len = 3,
                        .action_count = 1,
                        .actions = { PHYS_MEMBER },
                        .fields = { KEY(1, "v4", 1, PHYS_EXACT, 0),
                                    KEY(2, "bucket", 10, PHYS_EXACT, 1) } },
};

static const struct phys_action_desc actions[PHYS_ACTIONS] = {
    [PHYS_NO_ACTION] = { 21257015, "NoAction", 0, 0, { { 0 } } },
    [PHYS_IS_VTEP] = { 0x01000022, "is_vtep", 0, 0, { { 0 } } },
    [PHYS_IS_SOURCE] = { 0x01000023, "is_source", 0, 0, { { 0 } } },
    [PHYS_SET_VNI] = { 0x01000021,
                       "set_vni",
                       3,
                       4,
                       { PARAM(1, "flags", 8, 0), PARAM(2, "half", 2, 1),
                         PARAM(3, "meter", 16, 2) } },
    [PHYS_PERMIT] = { 0x01000024, "permit", 0, 0, { { 0 } } },
    [PHYS_DENY] = { 0x01000025, "deny", 0, 0, { { 0 } } },
    [PHYS_SET_PART] = { 0x01000011,
                        "set_part",
                        4,
                        9,
                        { PARAM(1, "part", 16, 0), PARAM(2, "scope", 8, 2),
                          PARAM(3, "vni", 24, 3), PARAM(4, "idx", 24, 6) } },
    [PHYS_LOCAL] = { 0x01000012, "local", 0, 0, { { 0 } } },
    [PHYS_PEER] = { 0x01000013,
                    "peer",
                    2,
                    4,
                    { PARAM(1, "vni", 24, 0), PARAM(2, "half", 2, 3) } },
    [PHYS_TUNNEL] = { 0x01000014,
                      "tunnel",
                      2,
                      6,
                      { PARAM(1, "vni", 24, 0), PARAM(2, "nc", PHYS_NC_BITS, 3) } },
    [PHYS_TO_X86] = { 0x01000015, "to_x86", 1, 1, { PARAM(1, "cls", 1, 0) } },
    [PHYS_SET_NC] = { 0x01000016, "set_nc", 1, 3, { PARAM(1, "nc", PHYS_NC_BITS, 0) } },
    [PHYS_SPILL_NC] = { 0x0100001c,
                        "spill_nc",
                        1,
                        3,
                        { PARAM(1, "nc", PHYS_NC_BITS, 0) } },
    [PHYS_NC4] = { 0x01000019, "nc4", 1, 4, { PARAM(1, "addr", 32, 0) } },
    [PHYS_NC6] = { 0x0100001a, "nc6", 1, 16, { PARAM(1, "addr", 128, 0) } },
    [PHYS_OUT_PORT] = { 0x01000018, "out_port", 1, 2, { PARAM(1, "port", 9, 0) } },
    [PHYS_SRC4] = { 0x0100001b,
                    "src4",
                    3,
                    16,
                    { PARAM(1, "addr", 32, 0), PARAM(2, "smac", 48, 4),
                      PARAM(3, "dmac", 48, 10) } },
    [PHYS_SRC6] = { 0x0100001e,
                    "src6",
                    3,
                    28,
                    { PARAM(1, "addr", 128, 0), PARAM(2, "smac", 48, 16),
                      PARAM(3, "dmac", 48, 22) } },
    [PHYS_KEEP_SRC] = { 0x0100001d,
                        "keep_src",
                        2,
                        12,
                        { PARAM(1, "smac", 48, 0), PARAM(2, "dmac", 48, 6) } },
    [PHYS_MEMBER] = { 0x01000017, "member", 1, 3, { PARAM(1, "nc", PHYS_NC_BITS, 0) } },
};

static const char *const meter_names[PHYS_METERS] = {
    [PHYS_METER_VNI] = "vni_meter",
    [PHYS_METER_FB_SERVICE] = "fb_service",
    [PHYS_METER_FB_MISS] = "fb_miss",
    [PHYS_METER_FB_CLASS] = "fb_class",
};

static const char *const counter_names[PHYS_COUNTERS] = {
    [PHYS_COUNTER_DROP] = "drop_reason",
    [PHYS_COUNTER_VNI] = "vni_counter",
    [PHYS_COUNTER_PORT_RX] = "port_rx",
    [PHYS_COUNTER_PORT_TX] = "port_tx",
};

/* The tables that grow with the tenants are multiplied by `scale`; partitions are as
 * many as their number's 16 bits can name. */
#define SIZES(scale, parts)                                                            \
    {                                                                                  \
        .table = { [PHYS_VTEP] = 64,                                                   \
                   [PHYS_SOURCE] = 512,                                                \
                   [PHYS_VNI] = (scale)*262144,                                        \
                   [PHYS_ACL] = 1024,                                                  \
                   [PHYS_ROUTE_TCAM] = (scale)*9216,                                   \
                   [PHYS_ROUTE_PART] = (parts)*16,                                     \
                   [PHYS_VM_NC_CONFLICT] = (scale)*8192,                               \
                   [PHYS_VM_NC] = (scale)*524288,                                      \
                   [PHYS_VM_NC_SPILL] = (scale)*393216,                                \
                   [PHYS_NC] = 131072,                                                 \
                   [PHYS_NEXT_HOP] = 512,                                              \
                   [PHYS_PORT_OUT] = 1024,                                             \
                   [PHYS_FALLBACK] = 2048 },                                           \
        .partitions = (parts), .partition_slots = 16, .meters = 24576,                 \
        .fallback_buckets = 4096, .hash_load = 877                                     \
    }

static const struct phys_sizes tofino = SIZES(1, 9216);
static const struct phys_sizes bench = SIZES(8, 65536);

const struct phys_table_desc *phys_table_desc(enum phys_table table)
{
    return &tables[table];
}

const struct phys_action_desc *phys_action_desc(enum phys_action action)
{
    return &actions[action];
}

const char *phys_meter_name(enum phys_meter meter)
{
    return meter_names[meter];
}

const char *phys_counter_name(enum phys_counter counter)
{
    return counter_names[counter];
}

void phys_mask_exact(enum phys_table table, uint8_t mask[PHYS_KEY_MAX])
{
    const struct phys_table_desc *d = &tables[table];

    for (unsigned i = 0; i < d->field_count; i++) {
        const struct phys_field *f = &d->fields[i];

        if (f->match == PHYS_EXACT) {
            memset(mask + f->offset, 0xff, (f->bits + 7u) / 8u);
            mask[f->offset] = (uint8_t)(0xffu >> (7u - (f->bits - 1u) % 8u));
        }
    }
}

int phys_table_of_id(uint32_t id)
{
    for (unsigned i = 0; i < COUNT(tables); i++) {
        if (tables[i].id == id) {
            return (int)i;
        }
    }
    return -1;
}

int phys_action_of_id(uint32_t id)
{
    for (unsigned i = 0; i < COUNT(actions); i++) {
        if (actions[i].id == id) {
            return (int)i;
        }
    }
    return -1;
}

const struct phys_sizes *phys_sizes_tofino(void)
{
    return &tofino;
}

const struct phys_sizes *phys_sizes_bench(void)
{
    return &bench;
}
