#include "tests/unit/unit.h"

#include <string.h>

#include "proto/rpc/agent_codec.h"

/* What `protoc --encode` (protobuf 3.21) makes of each message in text form; the text
 * stands in make_ctl() and make_agent() below. */
static const char *const ctl_wire[] = {
    "0a15080512057838362d3118e80722020908280630904e",
    "12150809120d08021004186420012d000000a012020803",
    "1a0c080710ac0218017a03010203",
    "220d31302e302e302e313a37303030",
    "a2010408031064",
    "c2010408031064",
    "e201120809120e000102030405060708090a0b0800",
    "c202110803120d08021004186420012d000000a0",
    ("b204280a120809120e000102030405060708090a0b0800"
     "0a12080a120e000102030405060708090a0b0800"),
};
static const char *const agent_wire[] = {
    ("0a5a0a0467772d311001180421887766554433221128ac023001380141030000000000"
     "00004a004a0b09010000000000000010024a0b09030000000000000010044a0c090500"
     "00000000000010d8044a004a004a005203302e315807"),
    ("122d080912230a060802100418641202010f1a100a000000000000000b000000000000"
     "00220303900312040a020803"),
    "1a18080710ac02180120022a0d0801100318642205040a000001",
    "221808ac02110100000000000000180120012802300338044005",
    ("a20134080310071a0b09010000000000000010021a001a0c09050000000000000010d804"
     "1a001a0b09070000000000000010011a001a00"),
    ("3a7e09010000000000000010e80718ac02221e0a08706f72742f757030120672785f6270"
     "73180220e80728f40330053807220a12046469736b180328082a070a036d747510023238"
     "08904e10b9601a1f08ffffff0712040a0000011a040a000002200628ffff0330bb0338a8"
     "464001204d2a0d08073880808080808080024005"),
    "c20123080310051a0564ffffff07220407ffbf012a0301ac0232064080e497d012400948e807",
    "e201190809200132037570303a0e000102030405060708090a0b0800",
    "c20209080310077a03010203",
};
/* Their kinds, in order. */
static const int ctl_kinds[] = { CTL_ASSIGN,   CTL_QUERY, CTL_BATCH,
                                 CTL_REDIRECT, CTL_AUDIT, CTL_COUNTERS,
                                 CTL_PROBE,    CTL_ROWS,  CTL_PROBES };
static const int agent_kinds[] = { AGENT_HELLO,    AGENT_DIGESTS, AGENT_ACK,
                                   AGENT_BEAT,     AGENT_AUDIT,   AGENT_TELEMETRY,
                                   AGENT_COUNTERS, AGENT_PROBE,   AGENT_ROWS };

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

static const uint8_t probe_frame[14] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 8, 0 };

static void make_ctl(int kind, struct ctl_msg *m)
{
    memset(m, 0, sizeof(*m));
    m->kind = (enum ctl_msg_kind)kind;
    switch (m->kind) {
    case CTL_ASSIGN:
        m->assign.term = 5;
        strcpy(m->assign.group, "x86-1");
        m->assign.beat_ms = 1000;
        m->assign.hello_id = 6;
        m->assign.telemetry_ms = 10000;
        m->assign.config = blob_copy("\x09\x08", 2);
        break;
    case CTL_QUERY:
        m->query.query_id = 9;
        m->query.item_count = 2;
        m->query.items[0] =
            (struct query_item){ 2, { 4, 100 }, { 1, UINT32_C(0xa0000000) } };
        m->query.items[1] = (struct query_item){ .table = 3 };
        break;
    case CTL_BATCH:
        m->batch.seq = 7;
        m->batch.revision = 300;
        m->batch.ready = true;
        m->batch.ops = blob_copy("\x01\x02\x03", 3);
        break;
    case CTL_REDIRECT:
        strcpy(m->redirect, "10.0.0.1:7000");
        break;
    case CTL_AUDIT:
        m->audit = (struct ctl_audit){ .audit_id = 3, .vni = 100 };
        break;
    case CTL_COUNTERS:
        m->counters = (struct ctl_counters){ .ask_id = 3, .from_vni = 100 };
        break;
    case CTL_PROBE:
        m->probe = (struct ctl_probe){ 9, blob_copy(probe_frame, 14) };
        break;
    case CTL_ROWS:
        m->rows =
            (struct ctl_rows){ 3, { 2, { 4, 100 }, { 1, UINT32_C(0xa0000000) } } };
        break;
    case CTL_PROBES:
        m->probes.count = 2;
        m->probes.at[0] = (struct ctl_probe){ 9, blob_copy(probe_frame, 14) };
        m->probes.at[1] = (struct ctl_probe){ 10, blob_copy(probe_frame, 14) };
        break;
    }
}

static void make_agent(int kind, struct agent_msg *m)
{
    memset(m, 0, sizeof(*m));
    m->kind = (enum agent_msg_kind)kind;
    switch (m->kind) {
    case AGENT_HELLO:
        m->hello = (struct agent_hello){
            .device_id = "gw-1",
            .device_kind = DEVICE_X86,
            .term_seen = 4,
            .boot_id = UINT64_C(0x1122334455667788),
            .applied = 300,
            .ready = true,
            .believed = true,
            .config_digest = 3,
            .root = { { 0, 0 }, { 1, 2 }, { 3, 4 }, { 5, 600 } },
            .version = "0.1",
            .hello_id = 7,
        };
        break;
    case AGENT_DIGESTS:
        m->digests.query_id = 9;
        m->digests.item_count = 2;
        m->digests.items = calloc(2, sizeof(struct digests_item));
        m->digests.items[0].of = (struct query_item){ 2, { 4, 100 }, { 0, 0 } };
        m->digests.items[0].child_count = 2;
        m->digests.items[0].children[0] = (struct tree_child){ 1, { 10, 3 } };
        m->digests.items[0].children[1] = (struct tree_child){ 15, { 11, 400 } };
        m->digests.items[1].of.table = 3;
        break;
    case AGENT_ACK:
        m->ack = (struct agent_ack){ .seq = 7,
                                     .applied = 300,
                                     .ready = true,
                                     .exception_count = 2,
                                     .exception_listed = 1 };
        m->ack.exceptions = calloc(1, sizeof(struct exception));
        m->ack.exceptions[0] = (struct exception){
            EXCEPTION_FULL, TABLE_VM_NC, 100, 5, { 4, 10, 0, 0, 1 }
        };
        break;
    case AGENT_BEAT:
        m->beat = (struct agent_beat){ 300, 1, true, { 1, 2, 3, 4, 5 } };
        break;
    case AGENT_AUDIT:
        m->audit = (struct agent_audit){
            3, RC_FULL, { { 1, 2 }, { 0, 0 }, { 5, 600 }, { 0, 0 }, { 7, 1 } }
        };
        break;
    case AGENT_TELEMETRY:
        m->telemetry = calloc(1, sizeof(*m->telemetry));
        *m->telemetry = (struct telemetry){
            .boot_id = 1,
            .span_ms = 1000,
            .received = 300,
            .reading_count = 2,
            .readings = { { "port/up0", "rx_bps", READING_LOAD, 1000, 495, 500, 507 },
                          { "", "disk", READING_FIGURE, 0, 8, 8, 8 } },
            .drop_count = 1,
            .drops = { { "mtu", 2 } }
        };
        m->telemetry->top = (struct top_report){
            .interval_ms = 10000,
            .bytes = 12345,
            .flows = { 1,
                       77,
                       { { VNI_MAX,
                           { IP_V4, { 10, 0, 0, 1 } },
                           { IP_V4, { 10, 0, 0, 2 } },
                           6,
                           65535,
                           443,
                           9000,
                           1 } } },
            .tenants = { 1, 0, { { .vni = 7, .bytes = TOP_BYTES_MAX, .error = 5 } } },
        };
        break;
    case AGENT_ROWS:
        m->rows = (struct agent_rows){ 3, RC_FULL, blob_copy("\x01\x02\x03", 3) };
        break;
    case AGENT_COUNTERS:
        m->counters = (struct agent_counters){ .ask_id = 3,
                                               .rc = RC_CONFLICT,
                                               .item_count = 2,
                                               .rest_packets = 9,
                                               .rest_bytes = 1000 };
        m->counters.items = calloc(2, sizeof(struct vni_counter));
        m->counters.items[0] = (struct vni_counter){ 100, 7, 1, 64 };
        m->counters.items[1] =
            (struct vni_counter){ VNI_MAX, 24575, 300, UINT64_C(5000000000) };
        break;
    case AGENT_PROBE:
        m->probe = (struct agent_probe){
            9,
            { .outcome = PROBE_FORWARDED,
              .port = "up0",
              .frame = blob_copy(probe_frame, 14) },
        };
        break;
    }
}

static void encode_ctl(const struct ctl_msg *m, struct buf *to)
{
    struct blob *tail;

    ck_assert_int_eq(ctl_msg_encode(m, to, &tail), RC_OK);
    if (tail) {
        ck_assert_ptr_eq(tail, m->batch.ops); /* lent, not copied */
        buf_add(to, tail->data, tail->len);
    }
}

START_TEST(controller_messages_are_what_protoc_writes_and_come_back_whole)
{
    struct ctl_msg m;
    struct ctl_msg got;
    uint8_t want[256];
    size_t len = from_hex(ctl_wire[_i], want);
    struct buf out = BUF_INIT;
    struct buf again = BUF_INIT;

    make_ctl(ctl_kinds[_i], &m);
    encode_ctl(&m, &out);
    ck_assert_uint_eq(out.len, len);
    ck_assert_mem_eq(out.data, want, len);

    ck_assert_int_eq(ctl_msg_decode(want, len, &got, NULL), RC_OK);
    ck_assert_int_eq(got.kind, m.kind);
    encode_ctl(&got, &again);
    ck_assert_uint_eq(again.len, len);
    ck_assert_mem_eq(again.data, want, len);
    ctl_msg_fini(&m);
    ctl_msg_fini(&got);
    buf_fini(&out);
    buf_fini(&again);
}
END_TEST

START_TEST(agent_messages_are_what_protoc_writes_and_come_back_whole)
{
    struct agent_msg m;
    struct agent_msg got;
    uint8_t want[256];
    size_t len = from_hex(agent_wire[_i], want);
    struct buf out = BUF_INIT;
    struct buf again = BUF_INIT;

    make_agent(agent_kinds[_i], &m);
    ck_assert_int_eq(agent_msg_encode(&m, &out), RC_OK);
    ck_assert_uint_eq(out.len, len);
    ck_assert_mem_eq(out.data, want, len);

    ck_assert_int_eq(agent_msg_decode(want, len, &got, NULL), RC_OK);
    ck_assert_int_eq(got.kind, m.kind);
    ck_assert_int_eq(agent_msg_encode(&got, &again), RC_OK);
    ck_assert_uint_eq(again.len, len);
    ck_assert_mem_eq(again.data, want, len);
    agent_msg_fini(&m);
    agent_msg_fini(&got);
    buf_fini(&out);
    buf_fini(&again);
}
END_TEST

/* Text for protoc, and the field that must be named. */
static const struct {
    const char *hex;
    bool is_agent;
    const char *field;
} refused[] = {
    { "", true, "message" },
    { "ff", true, "message" },
    { "0a", true, "message" },           /* cut behind the tag */
    { "0a05", true, "message" },         /* longer than the bytes */
    { "0801", true, "message" },         /* a lone number */
    { "2a00", true, "message" },         /* only an unknown member */
    { "22002200", true, "message" },     /* two members */
    { "0a00", true, "hello.device_id" }, /* empty id */
    { "0a030a0161", true, "hello.device_kind" },
    { "0a050a01611001", true, "hello.root" },
    { "0a030a0107", true, "hello.device_id" }, /* a control character */
    { "1200", true, "digests.items" },
    { "12021200", true, "digests.items.of" },         /* no `of` */
    { "120612040a021005", true, "digests.items.of" }, /* depth 5 */
    { "1a042a020805", true, "ack.exceptions" },       /* reason 5 */
    { "1a062a0408011800", true, "ack.exceptions" },   /* VNI 0 */
    { "1a023001", true, "ack.standing" },             /* 1 of none */
    { "a20102101a", true, "audit.code" },
    { "a201101a001a001a001a001a001a001a001a00", true, "audit.found" }, /* 8 tables */
    { "3a0e09010000000000000010e8073200", true, "telemetry.top" },     /* no interval */
    { "3a1309010000000000000010e80732050881dddb01", true,
      "telemetry.top" }, /* a longer one than an hour */
    { "3a1409010000000000000010e807320608011a020807", true,
      "telemetry.top" }, /* a flow without addresses */
    { "3a1709010000000000000010e807320908012a050880808008", true,
      "telemetry.top" }, /* VNI 2^24 */
    { "3a1809010000000000000010e807320a08012a06080738014002", true,
      "telemetry.top" }, /* more error than bytes */
    { "3a1e09010000000000000010e807321008012a0c1204616263641a0461626364", true,
      "telemetry.top" }, /* a tenant with addresses */
    { "3a2a09010000000000000010e807321c08011a181204616263641a10616263646162636461626364"
      "61626364",
      true, "telemetry.top" }, /* IPv4 to IPv6 */
    { "3a1c09010000000000000010e807320e08011a0a12036162631a03616263", true,
      "telemetry.top" }, /* three bytes */
    { "3a2209010000000000000010e807321408011a101204616263641a046162636428808004", true,
      "telemetry.top" }, /* port 65536 */
    { "3a1909010000000000000010e807320b0801208180808080808002", true,
      "telemetry.top" }, /* above 2^50 */
    { "c20102101a", true, "counters.code" },
    { "c201031a0101", true, "counters.vni" }, /* the other lists are shorter */
    { "c201101a020504220201012a02000032020000", true, "counters.vni" },
    { "c2010e1a01052201012a01003201003805", true,
      "counters.vni" }, /* next is not behind */
    { "c201053880808008", true, "counters.vni" },
    { "c2010c1a01002201012a0100320100", true, "counters.vni" },
    { "e201052001320178", true, "probe.outcome" },         /* forwarded: no frame */
    { "e201022002", true, "probe.outcome" },               /* dropped: no reason */
    { "e2010720022a03612062", true, "probe.reason" },      /* "a b" */
    { "e201022004", true, "probe.outcome" },               /* 4 */
    { "e20109100620022a036d7475", true, "probe.outcome" }, /* and an error */
    { "e20102101a", true, "probe.outcome" },               /* code 26 */
    { "e2010720032a036d7475", true, "probe.outcome" },     /* kept, for a reason */
    { "e201052003320107", true, "probe.port" },
    { "e2010510061a0101", true, "probe.error" },
    { "0a00", false, "assign.beat_ms" },
    { "1200", false, "query.items" },
    { "120412020807", false, "query.items" },         /* table 7 */
    { "120412021005", false, "query.items" },         /* depth 5 */
    { "1206120410011801", false, "query.items" },     /* bits below depth 1 */
    { "120412022001", false, "query.items" },         /* a bucket above a VNI */
    { "12081206100418642008", false, "query.items" }, /* bucket depth 8 */
    { "1a00", false, "batch.seq" },
    { "1a020f00", false, "batch" }, /* wire type 7 */
    { "1a020d01", false, "batch" }, /* a cut fixed32 */
    { "2200", false, "redirect" },
    { "22022020", false, "redirect" },
    { "a201051080808008", false, "audit.vni" },
    { "c20200", false, "rows.of" },
    { "c2020412021003", false, "rows.of" }, /* no VNI's */
    { "c20202101a", true, "rows.code" },
    { "c20100", false, "counters.from_vni" },
    { "e2010708091203616263", false, "probe.frame" }, /* no Ethernet header */
    { "b20400", false, "probes.probes" },
    { "b204090a0708091203616263", false, "probes.frame" },
    { "b204b4010a120809120e000102030405060708090a0b08000a120809120e0001020304050607"
      "08090a0b08000a120809120e000102030405060708090a0b08000a120809120e000102030405"
      "060708090a0b08000a120809120e000102030405060708090a0b08000a120809120e00010203"
      "0405060708090a0b08000a120809120e000102030405060708090a0b08000a120809120e0001"
      "02030405060708090a0b08000a120809120e000102030405060708090a0b0800",
      false, "probes.probes" }, /* nine */
};

START_TEST(damage_and_numbers_out_of_bounds_are_refused_with_the_field)
{
    struct err err = { 0 };
    struct agent_msg agent;
    struct ctl_msg ctl;
    uint8_t bytes[256];
    size_t len;

    len = from_hex(refused[_i].hex, bytes);
    ck_assert_int_eq(refused[_i].is_agent ? agent_msg_decode(bytes, len, &agent, &err)
                                          : ctl_msg_decode(bytes, len, &ctl, &err),
                     RC_INVALID);
    ck_assert_str_eq(err.field, refused[_i].field);
}
END_TEST

START_TEST(a_batch_past_its_bound_is_refused_and_one_at_its_bound_is_not)
{
    for (uint32_t over = 0; over < 2; over++) {
        struct ctl_msg m = { .kind = CTL_BATCH, .batch = { .seq = 1 } };
        struct ctl_msg got = { 0 };
        struct buf out = BUF_INIT;
        struct err err = { 0 };

        m.batch.ops = blob_new(BATCH_MAX_BYTES + over);
        memset(m.batch.ops->data, 7, m.batch.ops->len);
        encode_ctl(&m, &out);
        ck_assert_int_eq(ctl_msg_decode(out.data, out.len, &got, &err),
                         over ? RC_INVALID : RC_OK);
        if (!over) {
            ck_assert_uint_eq(got.batch.ops->len, BATCH_MAX_BYTES);
            ck_assert_mem_eq(got.batch.ops->data, m.batch.ops->data, BATCH_MAX_BYTES);
        } else {
            ck_assert_str_eq(err.field, "batch.ops");
        }
        ctl_msg_fini(&m);
        ctl_msg_fini(&got);
        buf_fini(&out);
    }
}
END_TEST

START_TEST(children_must_be_ascending_in_range_and_not_empty)
{
    static const struct {
        uint8_t depth, a, b;
        uint64_t count;
        enum rc rc;
    } cases[] = {
        { 0, 0, 63, 1, RC_OK },      { 0, 0, 64, 1, RC_INVALID },
        { 0, 5, 5, 1, RC_INVALID },  { 0, 6, 5, 1, RC_INVALID },
        { 4, 0, 15, 1, RC_OK },      { 4, 0, 16, 1, RC_INVALID },
        { 4, 0, 15, 0, RC_INVALID },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct digests_item item = {
            .of = { .table = 1, .node = { cases[i].depth, 0 } }, .child_count = 2
        };
        struct agent_msg m = { .kind = AGENT_DIGESTS };
        struct agent_msg got = { .kind = AGENT_BEAT };
        struct buf out = BUF_INIT;

        item.children[0] = (struct tree_child){ cases[i].a, { 1, 1 } };
        item.children[1] = (struct tree_child){ cases[i].b, { 1, cases[i].count } };
        m.digests = (struct agent_digests){ 1, &item, 1 };
        ck_assert_int_eq(agent_msg_encode(&m, &out), RC_OK);
        ck_assert_int_eq(agent_msg_decode(out.data, out.len, &got, NULL), cases[i].rc);
        agent_msg_fini(&got);
        buf_fini(&out);
    }
}
END_TEST

START_TEST(every_cut_and_every_flipped_bit_is_survived)
{
    const unsigned agents = ARRAY_LEN(agent_wire);

    for (unsigned kind = 0; kind < agents + ARRAY_LEN(ctl_wire); kind++) {
        bool is_agent = kind < agents;
        uint8_t bytes[256];
        size_t len =
            from_hex(is_agent ? agent_wire[kind] : ctl_wire[kind - agents], bytes);

        for (size_t bit = 0; bit < len * 8; bit++) {
            for (size_t cut = 0; cut < 2; cut++) {
                struct agent_msg agent = { .kind = AGENT_BEAT };
                struct ctl_msg ctl = { .kind = CTL_REDIRECT };
                size_t n = cut ? bit / 8 : len;

                bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                if (is_agent) {
                    agent_msg_decode(bytes, n, &agent, NULL);
                } else {
                    ctl_msg_decode(bytes, n, &ctl, NULL);
                }
                bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                agent_msg_fini(&agent);
                ctl_msg_fini(&ctl);
            }
        }
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("agent_codec");

    tcase_add_loop_test(tc,
                        controller_messages_are_what_protoc_writes_and_come_back_whole,
                        0, ARRAY_LEN(ctl_wire));
    tcase_add_loop_test(tc, agent_messages_are_what_protoc_writes_and_come_back_whole,
                        0, ARRAY_LEN(agent_wire));
    tcase_add_loop_test(tc, damage_and_numbers_out_of_bounds_are_refused_with_the_field,
                        0, ARRAY_LEN(refused));
    tcase_add_test(tc, a_batch_past_its_bound_is_refused_and_one_at_its_bound_is_not);
    tcase_add_test(tc, children_must_be_ascending_in_range_and_not_empty);
    tcase_add_test(tc, every_cut_and_every_flipped_bit_is_survived);
    return unit_run("agent_codec", tc);
}
