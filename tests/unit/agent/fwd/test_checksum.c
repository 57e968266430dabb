#include "agent/fwd/checksum.h"

#include "agent/fwd/wire.h"
#include "tests/unit/unit.h"

/* The definition, word by word in network order (RFC 1071, section 1). */
static uint16_t plain_sum(const uint8_t *p, size_t len)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

static uint16_t host(uint16_t in_memory_order)
{
    return __builtin_bswap16(in_memory_order);
}

START_TEST(the_sum_of_rfc_1071_section_3_is_ddf2)
{
    static const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

    ck_assert_uint_eq(host(csum_fold(csum_add(0, bytes, sizeof(bytes)))), 0xddf2);
}
END_TEST

START_TEST(the_update_of_rfc_1624_section_4_gives_zero)
{
    /* "HC = 0xDD2F, m = 0x5555, m' = 0x3285": equation 3 gives 0x0000, where RFC 1141
     * gave 0xFFFF. */
    static const uint8_t old[] = { 0x55, 0x55 };
    static const uint8_t now[] = { 0x32, 0x85 };
    static const uint8_t field[] = { 0xdd, 0x2f };

    ck_assert_uint_eq(csum_update(csum_load(field), csum_change(0, old, now, 2)), 0);
}
END_TEST

START_TEST(udp_keeps_zero_and_sends_a_zero_sum_as_all_ones)
{
    static const uint8_t old[] = { 0x55, 0x55 };
    static const uint8_t now[] = { 0x32, 0x85 };
    static const uint8_t field[] = { 0xdd, 0x2f };
    uint64_t delta = csum_change(0, old, now, 2);

    ck_assert_uint_eq(csum_update_udp(0, delta), 0);
    ck_assert_uint_eq(csum_update_udp(csum_load(field), delta), 0xffff);
}
END_TEST

START_TEST(any_length_and_alignment_sums_as_defined)
{
    uint8_t bytes[64 + 8];

    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 151 + 200);
    }
    for (unsigned start = 0; start < 8; start++) {
        for (unsigned len = 0; len <= 64; len++) {
            ck_assert_uint_eq(host(csum_fold(csum_add(0, bytes + start, len))),
                              plain_sum(bytes + start, len));
        }
    }
}
END_TEST

START_TEST(a_sum_of_the_longest_packet_does_not_overflow)
{
    uint8_t *bytes = malloc(65536);

    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0xff, 65536);
    ck_assert_uint_eq(csum_fold(csum_add(0, bytes, 65536)), 0xffff);
    free(bytes);
}
END_TEST

START_TEST(an_update_equals_a_recomputation_for_random_changes)
{
    uint8_t bytes[40];
    uint64_t x = 88172645463325252u;

    for (unsigned round = 0; round < 20000; round++) {
        uint8_t now[8];
        unsigned at;
        uint16_t before;

        for (unsigned i = 0; i < sizeof(bytes); i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            bytes[i] = (uint8_t)x;
        }
        at = (unsigned)(x >> 8) % 16 * 2;
        memcpy(now, &x, sizeof(now));
        before = (uint16_t)~csum_fold(csum_add(0, bytes, sizeof(bytes)));
        before = csum_update(before, csum_change(0, bytes + at, now, sizeof(now)));
        memcpy(bytes + at, now, sizeof(now));
        ck_assert_uint_eq(host(before), (uint16_t)~plain_sum(bytes, sizeof(bytes)));
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("checksum");

    tcase_add_test(tc, the_sum_of_rfc_1071_section_3_is_ddf2);
    tcase_add_test(tc, the_update_of_rfc_1624_section_4_gives_zero);
    tcase_add_test(tc, udp_keeps_zero_and_sends_a_zero_sum_as_all_ones);
    tcase_add_test(tc, any_length_and_alignment_sums_as_defined);
    tcase_add_test(tc, a_sum_of_the_longest_packet_does_not_overflow);
    tcase_add_test(tc, an_update_equals_a_recomputation_for_random_changes);
    return unit_run("checksum", tc);
}
