/* protobuf-c in arenas, fields found in raw bytes, and messages with a blob in them. */
#include "tests/unit/proto/rpc/rpc_fixture.h"

#include "proto/api/google_rpc.pb-c.h"
#include "proto/rpc/rpc_pb.h"

static struct fixture f;

/* google.rpc.ErrorInfo { reason: "full" domain: "xgw" }, by hand after protobuf's
 * encoding.md: tag 0x0a = field 1, length-delimited; 0x12 = field 2. */
static const uint8_t info_bytes[] = { 0x0a, 4, 'f', 'u', 'l', 'l',
                                      0x12, 3, 'x', 'g', 'w' };

START_TEST(a_message_unpacks_into_the_arena)
{
    struct rpc_arena arena = RPC_ARENA_INIT;
    ProtobufCMessage *msg = NULL;
    const Google__Rpc__ErrorInfo *info;

    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(rpc_pb_unpack(&arena, &google__rpc__error_info__descriptor,
                                       info_bytes, sizeof(info_bytes), &msg, NULL),
                         RC_OK);
        info = (const Google__Rpc__ErrorInfo *)msg;
        ck_assert_str_eq(info->reason, "full");
        ck_assert_str_eq(info->domain, "xgw");
        rpc_arena_reset(&arena);
    }
    rpc_arena_fini(&arena);
}
END_TEST

START_TEST(every_cut_and_every_flipped_byte_is_handled)
{
    struct rpc_arena arena = { .limit = 4096 };

    for (size_t len = 0; len <= sizeof(info_bytes); len++) {
        for (unsigned bit = 0; bit < 8 * sizeof(info_bytes); bit++) {
            uint8_t *bytes = malloc(len + 1); /* exact, so that ASan sees a read past */
            ProtobufCMessage *msg = NULL;
            const uint8_t *at;
            size_t at_len;

            memcpy(bytes, info_bytes, len);
            if (bit / 8 < len) {
                bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
            rpc_pb_unpack(&arena, &google__rpc__error_info__descriptor, bytes, len,
                          &msg, NULL);
            if (rpc_pb_find(bytes, len, 1, &at, &at_len) == RC_OK) {
                ck_assert(at >= bytes && at + at_len <= bytes + len);
            }
            rpc_arena_reset(&arena);
            free(bytes);
        }
    }
    rpc_arena_fini(&arena);
}
END_TEST

START_TEST(garbage_is_invalid_and_names_the_message)
{
    static const uint8_t garbage[] = { 0xff, 0xff, 0xff };
    struct rpc_arena arena = RPC_ARENA_INIT;
    ProtobufCMessage *msg = NULL;
    struct err err = { 0 };

    ck_assert_int_eq(rpc_pb_unpack(&arena, &google__rpc__error_info__descriptor,
                                   garbage, sizeof(garbage), &msg, &err),
                     RC_INVALID);
    ck_assert_str_eq(err.rule, "protobuf");
    ck_assert_ptr_nonnull(strstr(err.msg, "google.rpc.ErrorInfo"));
    ck_assert_ptr_null(msg);
    rpc_arena_fini(&arena);
}
END_TEST

/* 20,000 empty submessages in 40,000 bytes ask for some 1 MB of structs. */
START_TEST(a_message_that_unfolds_beyond_the_limit_is_refused)
{
    static uint8_t bomb[40000];
    struct rpc_arena arena = { .limit = 100000 };
    ProtobufCMessage *msg = NULL;

    for (size_t i = 0; i < sizeof(bomb); i += 2) {
        bomb[i] = 0x1a; /* Status.details, field 3 */
    }
    ck_assert_int_eq(rpc_pb_unpack(&arena, &google__rpc__status__descriptor, bomb,
                                   sizeof(bomb), &msg, NULL),
                     RC_FULL);
    rpc_arena_reset(&arena);
    arena.limit = 10 << 20;
    ck_assert_int_eq(rpc_pb_unpack(&arena, &google__rpc__status__descriptor, bomb,
                                   sizeof(bomb), &msg, NULL),
                     RC_OK);
    ck_assert_uint_eq(((Google__Rpc__Status *)msg)->n_details, sizeof(bomb) / 2);
    rpc_arena_fini(&arena);
}
END_TEST

START_TEST(a_field_is_found_without_unpacking)
{
    /* field 1 varint 300, field 2 fixed64, field 5 fixed32, field 3 "a", field 3 "bc"
     */
    static const uint8_t bytes[] = { 0x08, 0xac, 0x02, 0x11, 1,    2, 3,   4,
                                     5,    6,    7,    8,    0x2d, 9, 9,   9,
                                     9,    0x1a, 1,    'a',  0x1a, 2, 'b', 'c' };
    static const uint8_t group[] = { 0x0b };
    const uint8_t *at = NULL;
    size_t len = 0;

    ck_assert_int_eq(rpc_pb_find(bytes, sizeof(bytes), 3, &at, &len), RC_OK);
    ck_assert_uint_eq(len, 2); /* the last one counts */
    ck_assert_mem_eq(at, "bc", 2);
    ck_assert_int_eq(rpc_pb_find(bytes, sizeof(bytes), 4, &at, &len), RC_NOT_FOUND);
    ck_assert_int_eq(rpc_pb_find(bytes, sizeof(bytes), 1, &at, &len), RC_NOT_FOUND);
    ck_assert_int_eq(rpc_pb_find(bytes, sizeof(bytes) - 1, 3, &at, &len), RC_INVALID);
    ck_assert_int_eq(rpc_pb_find(group, sizeof(group), 1, &at, &len), RC_INVALID);
    ck_assert_int_eq(rpc_pb_find(NULL, 0, 1, &at, &len), RC_NOT_FOUND);
}
END_TEST

static struct blob *echoed;

static void keep_message(struct rpc_call *call, const struct rpc_msg *msg)
{
    (void)call;
    echoed = rpc_msg_blob(msg);
}

/* The bytes that travelled, read by protobuf-c as the outer message. */
START_TEST(a_blob_rides_in_a_nested_field_uncopied)
{
    const struct rpc_call_ops ops = { .on_message = keep_message };
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    struct blob *blob = blob_new(300000);
    struct rpc_arena arena = RPC_ARENA_INIT;
    ProtobufCMessage *msg = NULL;
    struct rpc_call *call = NULL;

    for (size_t i = 0; i < blob->len; i++) {
        blob->data[i] = (uint8_t)(i * 7);
    }
    any.type_url = (char *)"t";
    fixture_up(&f, NULL, NULL);
    rpc_stream(f.channel, "/test.Echo/Bidi", NULL, &ops, NULL, &call);
    ck_assert_int_eq(rpc_pb_send_blob(call, 3, &any.base, 2, blob), RC_OK);
    ck_assert_uint_eq(atomic_load(&blob->refs), 2);
    RUN_UNTIL(&f, echoed);
    ck_assert_int_eq(rpc_pb_unpack(&arena, &google__rpc__status__descriptor,
                                   echoed->data, echoed->len, &msg, NULL),
                     RC_OK);
    {
        const Google__Rpc__Status *s = (const Google__Rpc__Status *)msg;

        ck_assert_uint_eq(s->n_details, 1);
        ck_assert_str_eq(s->details[0]->type_url, "t");
        ck_assert_uint_eq(s->details[0]->value.len, blob->len);
        ck_assert_mem_eq(s->details[0]->value.data, blob->data, blob->len);
    }
    fixture_down(&f);
    ck_assert_uint_eq(atomic_load(&blob->refs), 1);
    blob_unref(echoed);
    blob_unref(blob);
    rpc_arena_fini(&arena);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rpc_pb");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_message_unpacks_into_the_arena);
    tcase_add_test(tc, every_cut_and_every_flipped_byte_is_handled);
    tcase_add_test(tc, garbage_is_invalid_and_names_the_message);
    tcase_add_test(tc, a_message_that_unfolds_beyond_the_limit_is_refused);
    tcase_add_test(tc, a_field_is_found_without_unpacking);
    tcase_add_test(tc, a_blob_rides_in_a_nested_field_uncopied);
    return unit_run("rpc_pb", tc);
}
