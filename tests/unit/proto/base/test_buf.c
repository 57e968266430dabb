#include "tests/unit/unit.h"

#include <string.h>

#include "proto/base/blob.h"
#include "proto/base/buf.h"

START_TEST(numbers_are_big_endian_and_read_back)
{
    static const uint8_t want[] = { 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
                                    0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                                    0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12 };
    struct buf b = BUF_INIT;
    struct reader r;

    buf_u8(&b, 0x01);
    buf_u16(&b, 0x0203);
    buf_u24(&b, 0x040506);
    buf_u32(&b, 0x0708090a);
    buf_u64(&b, UINT64_C(0x0b0c0d0e0f101112));
    ck_assert_uint_eq(b.len, sizeof(want));
    ck_assert_mem_eq(b.data, want, sizeof(want));

    r = reader_of(b.data, b.len);
    ck_assert_uint_eq(read_u8(&r), 0x01);
    ck_assert_uint_eq(read_u16(&r), 0x0203);
    ck_assert_uint_eq(read_u24(&r), 0x040506);
    ck_assert_uint_eq(read_u32(&r), 0x0708090a);
    ck_assert_uint_eq(read_u64(&r), UINT64_C(0x0b0c0d0e0f101112));
    ck_assert_uint_eq(reader_left(&r), 0);
    ck_assert(!r.failed);
    buf_fini(&b);
}
END_TEST

START_TEST(a_short_read_gives_zero_and_stays_failed)
{
    const uint8_t bytes[] = { 1, 2, 3 };
    struct reader r = reader_of(bytes, sizeof(bytes));

    ck_assert_uint_eq(read_u32(&r), 0);
    ck_assert(r.failed);
    ck_assert_uint_eq(read_u8(&r), 0);
    ck_assert_ptr_null(read_bytes(&r, 0));
    r = reader_of(NULL, 0);
    ck_assert_ptr_nonnull(read_bytes(&r, 0));
    ck_assert_ptr_null(read_bytes(&r, 1));
}
END_TEST

START_TEST(text_grows_and_ends_with_a_zero)
{
    struct buf b = BUF_INIT;
    char line[1001];

    ck_assert_str_eq(buf_cstr(&b), "");
    memset(line, 'x', 1000);
    line[1000] = '\0';
    buf_text(&b, "a");
    buf_printf(&b, "%s%d", line, 42);
    ck_assert_uint_eq(strlen(buf_cstr(&b)), 1003);
    ck_assert_str_eq(buf_cstr(&b) + 1001, "42");
    buf_reset(&b);
    ck_assert_str_eq(buf_cstr(&b), "");
    buf_fini(&b);
}
END_TEST

START_TEST(running_out_of_memory_is_remembered_and_further_appends_ignored)
{
    struct buf b = BUF_INIT;

    buf_text(&b, "kept");
    buf_add(&b, "x", SIZE_MAX); /* the sum comes round to what there is room for */
    ck_assert(buf_failed(&b));
    buf_reset(&b);
    buf_text(&b, "kept");
    buf_add(&b, "x", SIZE_MAX / 2); /* no machine has it */
    ck_assert(buf_failed(&b));
    buf_text(&b, "ignored");
    ck_assert_uint_eq(b.len, 4);
    ck_assert_str_eq(buf_cstr(&b), "");
    buf_reset(&b);
    ck_assert(!buf_failed(&b));
    buf_fini(&b);
}
END_TEST

START_TEST(a_blob_lives_as_long_as_its_last_holder)
{
    struct blob *b = blob_copy("abc", 3);

    ck_assert_ptr_eq(blob_ref(b), b);
    blob_unref(b);
    ck_assert_uint_eq(b->len, 3);
    ck_assert_mem_eq(b->data, "abc", 3);
    blob_unref(b);
    blob_unref(NULL);
    ck_assert_ptr_null(blob_ref(NULL));
    ck_assert_ptr_null(blob_new(SIZE_MAX / 2));
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("buf");

    tcase_add_test(tc, numbers_are_big_endian_and_read_back);
    tcase_add_test(tc, a_short_read_gives_zero_and_stays_failed);
    tcase_add_test(tc, text_grows_and_ends_with_a_zero);
    tcase_add_test(tc, running_out_of_memory_is_remembered_and_further_appends_ignored);
    tcase_add_test(tc, a_blob_lives_as_long_as_its_last_holder);
    return unit_run("buf", tc);
}
