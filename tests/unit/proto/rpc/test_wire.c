/* Protobuf's encoding against the examples of its own page (encoding.md). */
#include "proto/rpc/wire.h"
#include "tests/unit/unit.h"

#include <string.h>

static const struct {
    uint64_t value;
    uint8_t bytes[WIRE_VARINT_MAX];
    size_t len;
} varints[] = {
    { 0, { 0x00 }, 1 },
    { 1, { 0x01 }, 1 },
    { 127, { 0x7f }, 1 },
    { 150, { 0x96, 0x01 }, 2 },
    { 300, { 0xac, 0x02 }, 2 },
    { UINT64_MAX, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 10 },
};

START_TEST(a_varint_is_written_and_read_as_the_page_says)
{
    uint8_t bytes[1 + WIRE_VARINT_MAX] = { 0x08 }; /* field 1, a varint */
    size_t len = wire_varint(bytes + 1, varints[_i].value);
    struct reader r = reader_of(bytes, 1 + len);
    struct wire_field f;

    ck_assert_uint_eq(len, varints[_i].len);
    ck_assert_mem_eq(bytes + 1, varints[_i].bytes, len);
    ck_assert(wire_next(&r, &f));
    ck_assert_uint_eq(f.number, 1);
    ck_assert_uint_eq(f.type, WIRE_VARINT);
    ck_assert_uint_eq(f.value, varints[_i].value);
    ck_assert_uint_eq(reader_left(&r), 0);
}
END_TEST

START_TEST(fields_come_one_after_the_other)
{
    /* 2: "testing" (the page's example); 1: fixed32; 3: fixed64; 2^29 - 1: 5 */
    static const uint8_t bytes[] = { 0x12, 0x07, 't',  'e',  's', 't', 'i',  'n',
                                     'g',  0x0d, 1,    2,    3,   4,   0x19, 1,
                                     2,    3,    4,    5,    6,   7,   8,    0xf8,
                                     0xff, 0xff, 0xff, 0x0f, 0x05 };
    struct reader r = reader_of(bytes, sizeof(bytes));
    struct wire_field f;

    ck_assert(wire_next(&r, &f));
    ck_assert_uint_eq(f.number, 2);
    ck_assert_uint_eq(f.type, WIRE_BYTES);
    ck_assert_uint_eq(f.len, 7);
    ck_assert_mem_eq(f.bytes, "testing", 7);
    ck_assert(wire_next(&r, &f));
    ck_assert_uint_eq(f.type, WIRE_FIXED32);
    ck_assert(wire_next(&r, &f));
    ck_assert_uint_eq(f.type, WIRE_FIXED64);
    ck_assert(wire_next(&r, &f));
    ck_assert_uint_eq(f.number, 0x1fffffff);
    ck_assert_uint_eq(f.value, 5);
    ck_assert_uint_eq(reader_left(&r), 0);
}
END_TEST

START_TEST(a_head_announces_a_field_of_bytes)
{
    uint8_t head[2 * WIRE_VARINT_MAX];

    ck_assert_uint_eq(wire_head(head, 2, 7), 2);
    ck_assert_mem_eq(head, "\x12\x07", 2);
    ck_assert_uint_eq(wire_head(head, 15, 300), 3);
    ck_assert_mem_eq(head, "\x7a\xac\x02", 3);
}
END_TEST

static const struct {
    const char *bytes;
    size_t len;
} damaged[] = {
    { "\x08", 1 },                                              /* no value */
    { "\x08\x96", 2 },                                          /* cut in the value */
    { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11 },     /* above 2^64 */
    { "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12 }, /* eleven bytes */
    { "\x0d\x01\x02\x03", 4 },                                  /* 3 of 4 bytes */
    { "\x09\x01\x02\x03\x04\x05\x06\x07", 8 },                  /* 7 of 8 */
    { "\x12\x07testin", 8 },                                    /* 6 of 7 */
    { "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },     /* 2^64 - 1 bytes */
    { "\x00\x01", 2 },                                          /* field 0 */
    { "\x0b\x0c", 2 },                                          /* a group */
    { "\x0e", 1 },                                              /* no such wire type */
};

START_TEST(what_is_no_field_is_refused_and_nothing_is_given)
{
    struct reader r = reader_of(damaged[_i].bytes, damaged[_i].len);
    struct wire_field f = { .number = 77 };

    ck_assert(!wire_next(&r, &f));
    ck_assert_uint_eq(f.number, 77);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("wire");

    tcase_add_loop_test(tc, a_varint_is_written_and_read_as_the_page_says, 0,
                        ARRAY_LEN(varints));
    tcase_add_test(tc, fields_come_one_after_the_other);
    tcase_add_test(tc, a_head_announces_a_field_of_bytes);
    tcase_add_loop_test(tc, what_is_no_field_is_refused_and_nothing_is_given, 0,
                        ARRAY_LEN(damaged));
    return unit_run("wire", tc);
}
