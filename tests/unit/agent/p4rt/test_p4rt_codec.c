/* The codec against bytes of another encoder: what Python's protobuf makes, with
 * proto/api/p4runtime.proto, of the entries that make_entry() and the tests name. */
#include "agent/p4rt/p4rt_codec.h"

#include <string.h>

#include "tests/unit/unit.h"

#define WIRE_HEAD "08011a020807"
#define WIRE_VM_NC_ENTITY                                                              \
    "123508948080101207080112030a01641207080212030a0100120a080312060a040a03000b1a10"   \
    "0a0e0896808008220710011a03010002"
#define WIRE_TCAM_ENTITY                                                               \
    "12600891808010120e08011a0a0a031234561203ffffff121e08021a1a0a06ffff0a0000001210ff" \
    "ffffffffffffffffffffffff0000001a270a250891808008220510011a0107220510021a01032207" \
    "10031a03010000220710041a030100102068"
#define WIRE_METER_ENTITY   "2a1c08818080a00112001a1208c0b2cd3b108080041880e59a7720808008"
#define WIRE_COUNTER_ENTITY "3a11088180809001120208051a0508ac021002"
#define WIRE_ACL_UPDATE                                                                \
    "224508011241123f08968080101207080112030a0107120a08041a060a01061201ff120c08061a08" \
    "0a"                                                                               \
    "0201bb1202ffff120a08071a060a01011201011a070a0508a58080082005"
#define WIRE_PART_UPDATE                                                               \
    "222708011223122108928080101208080112040a0201001a0e0a0c0895808008220510011a010020" \
    "01"
#define WIRE_DELETE_UPDATE                                                             \
    "222908031225122308948080101207080112030a01641207080212030a0100120a080312060a040a" \
    "03"                                                                               \
    "000b"

static size_t from_hex(const char *hex, uint8_t *to)
{
    size_t n = 0;

    for (; hex[0]; hex += 2) {
        unsigned v = 0;

        ck_assert_int_eq(sscanf(hex, "%2x", &v), 1);
        to[n++] = (uint8_t)v;
    }
    return n;
}

static void assert_wire(const struct buf *got, const char *hex)
{
    uint8_t want[2048];
    size_t len = from_hex(hex, want);

    ck_assert(!buf_failed(got));
    ck_assert_uint_eq(got->len, len);
    ck_assert_mem_eq(got->data, want, len);
}

enum which { VM_NC, TCAM, ACL, PART, ENTRIES };

static struct phys_entry make_entry(enum which which)
{
    struct phys_entry e = { 0 };

    switch (which) {
    case VM_NC:
        e.table = PHYS_VM_NC;
        e.action = PHYS_SET_NC;
        memcpy(e.key, "\0\0\x64\0\x0a\x03\0\x0b", 8);
        memcpy(e.data, "\x01\0\x02", 3);
        break;
    case TCAM:
        e.table = PHYS_ROUTE_TCAM;
        e.action = PHYS_SET_PART;
        e.priority = 104;
        memcpy(e.key, "\x12\x34\x56\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a", 16);
        memset(e.mask, 0xff, 16);
        memcpy(e.data, "\0\x07\x03\x01\0\0\x01\0\x10", 9);
        break;
    case ACL:
        e.table = PHYS_ACL;
        e.action = PHYS_DENY;
        e.priority = 5;
        e.key[2] = 7;
        e.key[35] = 6;
        e.mask[35] = 0xff;
        memcpy(e.key + 38, "\x01\xbb\x01", 3);
        memcpy(e.mask + 38, "\xff\xff\x01", 3);
        break;
    default:
        e.table = PHYS_ROUTE_PART;
        e.action = PHYS_TO_X86;
        e.priority = 1;
        e.key[0] = 1;
        break;
    }
    phys_mask_exact((enum phys_table)e.table, e.mask);
    return e;
}

static struct p4rt_entity make_meter(void)
{
    return (struct p4rt_entity){ .kind = P4RT_METER,
                                 .id = 0x14000001,
                                 .has_index = true,
                                 .has_config = true,
                                 .config = { 125000000, 65536, 250000000, 131072 } };
}

static struct p4rt_entity make_counter(void)
{
    return (struct p4rt_entity){ .kind = P4RT_COUNTER,
                                 .id = 0x12000001,
                                 .has_index = true,
                                 .index = 5,
                                 .packets = 2,
                                 .bytes = 300 };
}

static void assert_entry(const struct phys_entry *got, const struct phys_entry *want)
{
    ck_assert_uint_eq(got->table, want->table);
    ck_assert_uint_eq(got->action, want->action);
    ck_assert_uint_eq(got->priority, want->priority);
    ck_assert_mem_eq(got->key, want->key, sizeof(got->key));
    ck_assert_mem_eq(got->mask, want->mask, sizeof(got->mask));
    ck_assert_mem_eq(got->data, want->data, sizeof(got->data));
}

static const char write_wire[] = WIRE_HEAD
    "223b08011237" WIRE_VM_NC_ENTITY
    "226608021262" WIRE_TCAM_ENTITY WIRE_ACL_UPDATE WIRE_PART_UPDATE WIRE_DELETE_UPDATE
    "22220802121e" WIRE_METER_ENTITY;

START_TEST(a_write_request_is_what_another_encoder_makes_of_it)
{
    struct p4rt_write_head head = { .device_id = 1, .election_high = 7 };
    struct phys_entry entries[ENTRIES];
    struct p4rt_entity meter = make_meter();
    struct buf b = BUF_INIT;

    for (int i = 0; i < ENTRIES; i++) {
        entries[i] = make_entry((enum which)i);
    }
    p4rt_write_begin(&b, &head);
    p4rt_write_entry(&b, PHYS_INSERT, &entries[VM_NC]);
    p4rt_write_entry(&b, PHYS_MODIFY, &entries[TCAM]);
    p4rt_write_entry(&b, PHYS_INSERT, &entries[ACL]);
    p4rt_write_entry(&b, PHYS_INSERT, &entries[PART]);
    p4rt_write_entry(&b, PHYS_DELETE, &entries[VM_NC]);
    p4rt_write_cell(&b, &meter);
    assert_wire(&b, write_wire);
    buf_fini(&b);
}
END_TEST

START_TEST(a_write_request_of_another_encoder_is_read)
{
    static const enum phys_op ops[] = { PHYS_INSERT, PHYS_MODIFY, PHYS_INSERT,
                                        PHYS_INSERT };
    uint8_t wire[2048];
    size_t len = from_hex(write_wire, wire);
    struct p4rt_write_head head;
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity got;
    struct phys_entry want;
    enum phys_op op;

    ck_assert_int_eq(p4rt_write_open(wire, len, &head, &c, NULL), RC_OK);
    ck_assert_uint_eq(head.device_id, 1);
    ck_assert(head.has_election && !head.has_role);
    ck_assert_uint_eq(head.election_high, 7);
    ck_assert_uint_eq(head.election_low, 0);
    ck_assert_uint_eq(head.update_count, 6);
    for (int i = 0; i < ENTRIES; i++) {
        want = make_entry((enum which)i);
        ck_assert(p4rt_next(&c, &piece));
        ck_assert_int_eq(p4rt_update_decode(piece, &op, &got, NULL), RC_OK);
        ck_assert_int_eq(op, ops[i]);
        ck_assert_int_eq(got.kind, P4RT_TABLE);
        assert_entry(&got.entry, &want);
    }
    want = make_entry(VM_NC);
    want.action = PHYS_NO_ACTION;
    memset(want.data, 0, sizeof(want.data));
    ck_assert(p4rt_next(&c, &piece));
    ck_assert_int_eq(p4rt_update_decode(piece, &op, &got, NULL), RC_OK);
    ck_assert_int_eq(op, PHYS_DELETE);
    assert_entry(&got.entry, &want);
    ck_assert(p4rt_next(&c, &piece));
    ck_assert_int_eq(p4rt_update_decode(piece, &op, &got, NULL), RC_OK);
    ck_assert_int_eq(got.kind, P4RT_METER);
    ck_assert_uint_eq(got.id, 0x14000001);
    ck_assert(got.has_index && got.index == 0 && got.has_config);
    ck_assert_uint_eq(got.config.cir, 125000000);
    ck_assert_uint_eq(got.config.cburst, 65536);
    ck_assert_uint_eq(got.config.pir, 250000000);
    ck_assert_uint_eq(got.config.pburst, 131072);
    ck_assert(!p4rt_next(&c, &piece));
}
END_TEST

START_TEST(a_read_response_goes_both_ways)
{
    static const char wire_hex[] = "0a37" WIRE_VM_NC_ENTITY "0a62" WIRE_TCAM_ENTITY
                                   "0a13" WIRE_COUNTER_ENTITY "0a1e" WIRE_METER_ENTITY;
    struct phys_entry vm_nc = make_entry(VM_NC);
    struct phys_entry tcam = make_entry(TCAM);
    struct p4rt_entity counter = make_counter();
    struct p4rt_entity meter = make_meter();
    struct buf b = BUF_INIT;
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_entity got;

    p4rt_response_entry(&b, &vm_nc);
    p4rt_response_entry(&b, &tcam);
    p4rt_response_cell(&b, &counter);
    p4rt_response_cell(&b, &meter);
    assert_wire(&b, wire_hex);
    ck_assert_int_eq(p4rt_response_open(b.data, b.len, &c, NULL), RC_OK);
    ck_assert(p4rt_next(&c, &piece));
    ck_assert_int_eq(p4rt_entity_decode(piece, &got, NULL), RC_OK);
    assert_entry(&got.entry, &vm_nc);
    ck_assert(p4rt_next(&c, &piece));
    ck_assert_int_eq(p4rt_entity_decode(piece, &got, NULL), RC_OK);
    assert_entry(&got.entry, &tcam);
    ck_assert(p4rt_next(&c, &piece));
    ck_assert_int_eq(p4rt_entity_decode(piece, &got, NULL), RC_OK);
    ck_assert_int_eq(got.kind, P4RT_COUNTER);
    ck_assert_uint_eq(got.index, 5);
    ck_assert_uint_eq(got.packets, 2);
    ck_assert_uint_eq(got.bytes, 300);
    buf_fini(&b);
}
END_TEST

START_TEST(a_read_request_goes_both_ways)
{
    static const char wire_hex[] =
        "08021207120508948080101212121008998080101209080112050a"
        "0301000112083a06088180809001120a2a0808818080a0011200";
    struct p4rt_query all = { .kind = P4RT_TABLE, .id = 0x02000014 };
    struct p4rt_query one = { .kind = P4RT_TABLE, .has_key = true };
    struct p4rt_query counters = { .kind = P4RT_COUNTER, .id = 0x12000001 };
    struct p4rt_query meter = { .kind = P4RT_METER,
                                .id = 0x14000001,
                                .has_index = true };
    struct buf b = BUF_INIT;
    struct p4rt_cursor c;
    struct p4rt_piece piece;
    struct p4rt_query got[4];
    uint64_t device;

    one.entry.table = PHYS_NC;
    memcpy(one.entry.key, "\x01\0\x01", 3);
    p4rt_read_begin(&b, 2);
    p4rt_read_add(&b, &all);
    p4rt_read_add(&b, &one);
    p4rt_read_add(&b, &counters);
    p4rt_read_add(&b, &meter);
    assert_wire(&b, wire_hex);
    ck_assert_int_eq(p4rt_read_open(b.data, b.len, &device, &c, NULL), RC_OK);
    ck_assert_uint_eq(device, 2);
    for (int i = 0; i < 4; i++) {
        ck_assert(p4rt_next(&c, &piece));
        ck_assert_int_eq(p4rt_query_decode(piece, &got[i], NULL), RC_OK);
    }
    ck_assert(got[0].kind == P4RT_TABLE && got[0].id == 0x02000014 && !got[0].has_key);
    ck_assert(got[1].has_key && got[1].entry.table == PHYS_NC);
    ck_assert_mem_eq(got[1].entry.key, one.entry.key, 3);
    ck_assert_mem_eq(got[1].entry.mask, "\x01\xff\xff", 3);
    ck_assert(got[2].kind == P4RT_COUNTER && !got[2].has_index);
    ck_assert(got[3].kind == P4RT_METER && got[3].has_index && got[3].index == 0);
    buf_fini(&b);
}
END_TEST

START_TEST(per_update_errors_go_both_ways)
{
    static const char any[] =
        "0a1f747970652e676f6f676c65617069732e636f6d2f70342e76312e4572726f72";
    char wire_hex[512];
    struct buf b = BUF_INIT;
    struct p4rt_failure first;
    uint8_t codes[4] = { 99, 99, 99, 99 };

    snprintf(
        wire_hex, sizeof(wire_hex),
        "0802120d32206f662033206661696c65641a32%s120f0808120b766d5f6e633a2066756c6c"
        "1a21%s1a2d%s120a08061206657869737473",
        any, any, any);
    p4rt_errors_begin(&b, RPC_UNKNOWN, "2 of 3 failed");
    p4rt_errors_add(&b, RPC_RESOURCE_EXHAUSTED, "vm_nc: full");
    p4rt_errors_add(&b, RPC_OK, NULL);
    p4rt_errors_add(&b, RPC_ALREADY_EXISTS, "exists");
    assert_wire(&b, wire_hex);
    ck_assert_int_eq(p4rt_errors_decode(b.data, b.len, codes, 3, &first), RC_OK);
    ck_assert_uint_eq(codes[0], RPC_RESOURCE_EXHAUSTED);
    ck_assert_uint_eq(codes[1], RPC_OK);
    ck_assert_uint_eq(codes[2], RPC_ALREADY_EXISTS);
    ck_assert_uint_eq(codes[3], 99);
    ck_assert_uint_eq(first.index, 0);
    ck_assert_int_eq(first.code, RPC_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(first.message, "vm_nc: full");
    ck_assert_int_eq(p4rt_errors_decode(b.data, b.len, codes, 2, &first), RC_INVALID);
    ck_assert_int_eq(p4rt_errors_decode(b.data, b.len, codes, 4, &first), RC_INVALID);
    ck_assert_int_eq(p4rt_errors_decode(b.data, 17, codes, 3, &first), RC_NOT_FOUND);
    ck_assert_int_eq(p4rt_errors_decode(b.data, b.len - 1, codes, 3, &first),
                     RC_INVALID);
    buf_fini(&b);
}
END_TEST

/* Table vm_nc's key with these values; the specification's examples of bytestrings are
 * about bit<8>, bit<12> and bit<16>, here it is vni: bit<24> and tag: bit<1>. */
static const struct {
    const char *what;
    const char *entity; /* Entity of an insert; its inner length is set by the test */
    enum rc rc;
    const char *rule;
} bad_entries[] = {
    { "leading zeros are fine",
      "1233089480801012090801"
      "12050a0300006412070802"
      "12030a0100120a08031206"
      "0a040a03000b1a0e0a0c08"
      "9680800822051001"
      "1a0102",
      RC_OK, "" },
    { "more leading zeros than the field has bytes",
      "1237089480801012"
      "0b080112070a050000000064"
      "1209080212050a03000001"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102",
      RC_OK, "" },
    { "a value that needs more bits",
      "12320894808010120708011203"
      "0a01641207080212030a0102"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102",
      RC_RANGE, "bytestring" },
    { "a value that needs more bytes",
      "1235089480801012"
      "0a080112060a0401000064"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102",
      RC_RANGE, "bytestring" },
    { "a value of no bytes",
      "1231089480801012"
      "06080112020a00"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102",
      RC_RANGE, "bytestring" },
    { "no field 2",
      "12290894808010"
      "1207080112030a0164"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102",
      RC_INVALID, "field_missing" },
    { "field 1 twice",
      "123b0894808010"
      "1207080112030a0164"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102",
      RC_INVALID, "field_twice" },
    { "field 4",
      "12100894808010"
      "1207080412030a0164" /* the outer length is made to fit below */,
      RC_INVALID, "field_unknown" },
    { "an exact field with a mask", "12130894808010120a08011a060a01641201ff",
      RC_INVALID, "match_type" },
    { "a priority where there is none",
      "12340894808010"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102"
      "2005",
      RC_INVALID, "priority" },
    { "an action of another table",
      "12320894808010"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a0e0a0c089c808008220510011a0102",
      RC_INVALID, "action_unknown" },
    { "a parameter short",
      "122b0894808010"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a070a050896808008",
      RC_INVALID, "param_missing" },
    { "a parameter too wide: 18 bits",
      "12340894808010"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a100a0e0896808008220710011a03020000",
      RC_RANGE, "bytestring" },
    { "no action",
      "12220894808010"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b",
      RC_INVALID, "action_missing" },
    { "metadata",
      "12350894808010"
      "1207080112030a0164"
      "1207080212030a0101"
      "120a080312060a040a03000b"
      "1a0e0a0c0896808008220510011a0102"
      "5a0141",
      RC_INVALID, "unsupported" },
    { "no such table", "120508ffffff0f", RC_INVALID, "table_unknown" },
    { "no table", "1200", RC_INVALID, "table_missing" },
    { "a register", "5a00", RC_INVALID, "entity_unsupported" },
    { "nothing", "", RC_INVALID, "entity_unsupported" },
    { "cut short", "12050894808010aa", RC_INVALID, "protobuf" },
    /* route_tcam */
    { "a bit that the mask does not have", "12130891808010120a08011a060a01031201012001",
      RC_INVALID, "masked_bits" },
    { "a mask of zeros", "12130891808010120a08011a060a01001201002001", RC_INVALID,
      "dont_care" },
    { "no priority where there must be one", "12110891808010120a08011a060a0103120103",
      RC_INVALID, "priority" },
    { "a negative priority",
      "121c0891808010120a08011a060a010312010320ffffffffffffffffff01", RC_INVALID,
      "priority" },
};

START_TEST(what_the_specification_forbids_is_refused_with_field_and_rule)
{
    uint8_t wire[512] = { 0x08, PHYS_INSERT, 0x12 };
    uint8_t *entity = wire + 4;
    size_t len = from_hex(bad_entries[_i].entity, entity);
    struct p4rt_entity got = { .id = 77 };
    struct err err = { 0 };
    enum phys_op op = PHYS_DELETE;
    enum rc rc;

    if (len > 1 && entity[0] == 0x12 && strcmp(bad_entries[_i].rule, "protobuf") != 0) {
        entity[1] = (uint8_t)(len - 2);
    }
    wire[3] = (uint8_t)len;
    rc = p4rt_update_decode((struct p4rt_piece){ wire, len + 4 }, &op, &got, &err);
    ck_assert_msg(rc == bad_entries[_i].rc, "%s: %d %s", bad_entries[_i].what, rc,
                  err.msg);
    if (rc != RC_OK) {
        ck_assert_uint_eq(got.id, 77);
        ck_assert_int_eq(op, PHYS_DELETE);
        ck_assert(err.field[0] && err.msg[0]);
        ck_assert_str_eq(err.rule, bad_entries[_i].rule);
    }
}
END_TEST

START_TEST(a_delete_looks_at_the_key_alone)
{
    uint8_t wire[256];
    /* An action that vm_nc has not, and metadata. */
    size_t len = from_hex("08031237"
                          "12350894808010"
                          "1207080112030a0164"
                          "1207080212030a0101"
                          "120a080312060a040a03000b"
                          "1a0e0a0c089c808008220510011a0102"
                          "5a0141",
                          wire);
    struct p4rt_entity got;
    enum phys_op op;

    wire[3] = (uint8_t)(len - 4);
    wire[5] = (uint8_t)(len - 6);
    ck_assert_int_eq(
        p4rt_update_decode((struct p4rt_piece){ wire, len }, &op, &got, NULL), RC_OK);
    ck_assert_int_eq(op, PHYS_DELETE);
    ck_assert_int_eq(got.entry.action, PHYS_NO_ACTION);
}
END_TEST

/* Every bit of every field of every table and action. */
static struct phys_entry widest(unsigned table, unsigned action)
{
    const struct phys_table_desc *d = phys_table_desc((enum phys_table)table);
    const struct phys_action_desc *a = phys_action_desc((enum phys_action)action);
    struct phys_entry e = { .table = (uint8_t)table, .action = (uint8_t)action };

    e.priority = d->has_priority ? INT32_MAX : 0;
    for (unsigned i = 0; i < d->field_count; i++) {
        const struct phys_field *f = &d->fields[i];

        memset(e.key + f->offset, 0xff, (f->bits + 7u) / 8u);
        e.key[f->offset] = (uint8_t)(0xff >> (7 - (f->bits - 1) % 8));
    }
    memcpy(e.mask, e.key, sizeof(e.mask));
    for (unsigned i = 0; i < a->param_count; i++) {
        const struct phys_field *f = &a->params[i];

        memset(e.data + f->offset, 0xff, (f->bits + 7u) / 8u);
        e.data[f->offset] = (uint8_t)(0xff >> (7 - (f->bits - 1) % 8));
    }
    return e;
}

START_TEST(every_table_and_action_survives_the_way_there_and_back)
{
    for (unsigned t = 0; t < PHYS_TABLES; t++) {
        const struct phys_table_desc *d = phys_table_desc((enum phys_table)t);

        for (unsigned i = 0; i < d->action_count; i++) {
            struct phys_entry e = widest(t, d->actions[i]);
            struct buf b = BUF_INIT;
            struct p4rt_cursor c;
            struct p4rt_piece piece;
            struct p4rt_entity got;

            p4rt_response_entry(&b, &e);
            ck_assert_uint_le(b.len + 16, P4RT_UPDATE_MAX);
            ck_assert_int_eq(p4rt_response_open(b.data, b.len, &c, NULL), RC_OK);
            ck_assert(p4rt_next(&c, &piece));
            ck_assert_int_eq(p4rt_entity_decode(piece, &got, NULL), RC_OK);
            assert_entry(&got.entry, &e);
            buf_fini(&b);
        }
    }
}
END_TEST

START_TEST(no_prefix_of_a_message_and_no_changed_byte_reads_out_of_bounds)
{
    uint8_t wire[1024];
    size_t len = from_hex(write_wire, wire);

    for (size_t cut = 0; cut <= len; cut++) {
        uint8_t *copy = malloc(cut + 1); /* of its own, so that ASan sees its end */
        struct p4rt_write_head head;
        struct p4rt_cursor c;
        struct p4rt_piece piece;
        struct p4rt_entity got;
        enum phys_op op;

        memcpy(copy, wire, cut);
        if (cut > 0) {
            copy[cut / 2] ^= (uint8_t)(1u << cut % 8);
        }
        if (p4rt_write_open(copy, cut, &head, &c, NULL) == RC_OK) {
            while (p4rt_next(&c, &piece)) {
                p4rt_update_decode(piece, &op, &got, NULL);
            }
        }
        free(copy);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("p4rt_codec");

    tcase_add_test(tc, a_write_request_is_what_another_encoder_makes_of_it);
    tcase_add_test(tc, a_write_request_of_another_encoder_is_read);
    tcase_add_test(tc, a_read_response_goes_both_ways);
    tcase_add_test(tc, a_read_request_goes_both_ways);
    tcase_add_test(tc, per_update_errors_go_both_ways);
    tcase_add_loop_test(tc,
                        what_the_specification_forbids_is_refused_with_field_and_rule,
                        0, ARRAY_LEN(bad_entries));
    tcase_add_test(tc, a_delete_looks_at_the_key_alone);
    tcase_add_test(tc, every_table_and_action_survives_the_way_there_and_back);
    tcase_add_test(tc, no_prefix_of_a_message_and_no_changed_byte_reads_out_of_bounds);
    return unit_run("p4rt_codec", tc);
}
