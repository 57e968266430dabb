#include "tests/unit/unit.h"

#include <string.h>

#include "proto/base/ip.h"

/* RFC 5952, sections 1-5 and RFC 4291, section 2.2; "" where the text is no address. */
static const struct {
    const char *text;
    const char *canonical;
} ip_cases[] = {
    { "10.0.0.1", "10.0.0.1" },
    { "0.0.0.0", "0.0.0.0" },
    { "255.255.255.255", "255.255.255.255" },
    { "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },  /* 5952, 1: tie, first run */
    { "2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" }, /* 4.1: leading zeros */
    { "2001:db8::1:0:0:1", "2001:db8::1:0:0:1" },
    { "2001:db8::0:1:0:0:1", "2001:db8::1:0:0:1" },
    { "2001:0db8::1:0:0:1", "2001:db8::1:0:0:1" },
    { "2001:DB8:0:0:1::1", "2001:db8::1:0:0:1" }, /* 4.3: lower case */
    { "2001:db8:aaaa:bbbb:cccc:dddd:eeee:0001", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1" },
    { "2001:db8:0:0:0:0:2:1", "2001:db8::2:1" },        /* 4.2.1: as short as can be */
    { "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" }, /* 4.2.2: not for one group */
    { "2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
    { "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },          /* 4.2.3: the longest */
    { "0:0:0:0:0:ffff:192.0.2.1", "::ffff:192.0.2.1" }, /* 5: mixed */
    { "::ffff:c000:201", "::ffff:192.0.2.1" },
    { "64:ff9b::192.0.2.1", "64:ff9b::c000:201" },
    { "::13.1.68.3", "::d01:4403" },
    { "::", "::" },
    { "::1", "::1" },
    { "1::", "1::" },
    { "fe80::", "fe80::" },
    { "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
    { "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
    { "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8" },
    { "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304" },
    { "", "" },
    { "1", "" },
    { "10.0.0", "" },
    { "10.0.0.1.", "" },
    { "10.0.0.1.2", "" },
    { "10.0.0.256", "" },
    { "10.0.0.01", "" },
    { "010.0.0.1", "" },
    { "10.0.0.0000", "" },
    { "10.0.0.4294967296", "" },
    { "10..0.1", "" },
    { " 10.0.0.1", "" },
    { "10.0.0.1 ", "" },
    { "10.0.0.0x1", "" },
    { "+1.2.3.4", "" },
    { ":", "" },
    { ":::", "" },
    { "::1::", "" },
    { "1::2::3", "" },
    { ":1:2:3:4:5:6:7", "" },
    { "1:2:3:4:5:6:7:", "" },
    { "1:2:3:4:5:6:7", "" },
    { "1:2:3:4:5:6:7:8:9", "" },
    { "1:2:3:4:5:6:7:8::", "" },
    { "::1:2:3:4:5:6:7:8", "" },
    { "1:2:3:4::5:6:7:8", "" },
    { "12345::", "" },
    { "00001::", "" },
    { "g::", "" },
    { "fe80::1%eth0", "" },
    { "[::1]", "" },
    { "1:2:3:4:5:6:7:1.2.3.4", "" },
    { "::1.2.3", "" },
    { "::1.2.3.4:5", "" },
    { "::1.2.3.04", "" },
    { "::12345.2.3.4", "" },
};

START_TEST(an_address_prints_as_rfc_5952_says_or_is_refused)
{
    const char *text = ip_cases[_i].text;
    const char *want = ip_cases[_i].canonical;
    struct ip ip = { .family = 99 };
    struct err err = { 0 };
    char got[IP_TEXT_MAX];
    enum rc rc = ip_parse(text, strlen(text), &ip, &err);

    if (!*want) {
        ck_assert_msg(rc == RC_INVALID, "%s was taken", text);
        ck_assert_uint_eq(ip.family, 99);
        ck_assert_str_eq(err.rule, "ip_syntax");
        ck_assert(err.msg[0]);
        return;
    }
    ck_assert_msg(rc == RC_OK, "%s: %s", text, err.msg);
    ck_assert_uint_eq(ip_print(&ip, got), strlen(want));
    ck_assert_str_eq(got, want);
}
END_TEST

static const struct {
    const char *text;
    enum rc rc;
    const char *want; /* canonical text, or the rule */
} prefix_cases[] = {
    { "10.0.0.0/8", RC_OK, "10.0.0.0/8" },
    { "0.0.0.0/0", RC_OK, "0.0.0.0/0" },
    { "10.1.2.3/32", RC_OK, "10.1.2.3/32" },
    { "::/0", RC_OK, "::/0" },
    { "2001:DB8::/32", RC_OK, "2001:db8::/32" },
    { "2001:db8::1/128", RC_OK, "2001:db8::1/128" },
    { "10.0.0.0/33", RC_RANGE, "prefix_length" },
    { "10.0.0.0/99999999999", RC_RANGE, "prefix_length" },
    { "::/129", RC_RANGE, "prefix_length" },
    { "10.0.0.0", RC_INVALID, "prefix_syntax" },
    { "10.0.0.0/", RC_INVALID, "prefix_syntax" },
    { "10.0.0.0/08", RC_INVALID, "prefix_syntax" },
    { "10.0.0.0/-1", RC_INVALID, "prefix_syntax" },
    { "10.0.0.0/8 ", RC_INVALID, "prefix_syntax" },
    { "10.0.0/8", RC_INVALID, "prefix_syntax" },
    { "/8", RC_INVALID, "prefix_syntax" },
    { "10.0.0.1/8", RC_INVALID, "host_bits" },
    { "10.0.0.1/31", RC_INVALID, "host_bits" },
    { "2001:db8::/28", RC_INVALID, "host_bits" },
};

START_TEST(a_prefix_is_canonical_or_names_the_rule_it_broke)
{
    const char *text = prefix_cases[_i].text;
    struct prefix p = { .len = 77 };
    struct err err = { 0 };
    char got[PREFIX_TEXT_MAX];

    ck_assert_int_eq(prefix_parse(text, strlen(text), &p, &err), prefix_cases[_i].rc);
    if (prefix_cases[_i].rc == RC_OK) {
        prefix_print(&p, got);
        ck_assert_str_eq(got, prefix_cases[_i].want);
    } else {
        ck_assert_uint_eq(p.len, 77);
        ck_assert_str_eq(err.rule, prefix_cases[_i].want);
    }
}
END_TEST

START_TEST(host_bits_are_answered_with_the_canonical_prefix)
{
    struct prefix p;
    struct err err = { 0 };

    prefix_parse("2001:db8:8000::/33", 18, &p, &err);
    ck_assert_int_eq(err.code, RC_OK);
    prefix_parse("10.1.2.3/20", 11, &p, &err);
    ck_assert_ptr_nonnull(strstr(err.msg, "10.1.0.0/20"));
}
END_TEST

START_TEST(a_prefix_contains_exactly_the_addresses_that_share_its_bits)
{
    for (unsigned len = 0; len <= 32; len++) {
        struct prefix p = { ip_v4(0xc0a81700), (uint8_t)len };

        prefix_mask(&p);
        ck_assert(!prefix_has_host_bits(&p));
        for (unsigned bit = 0; bit < 32; bit++) {
            struct ip ip = ip_v4(0xc0a81700u ^ 1u << (31 - bit));
            struct prefix q = { ip, 32 };

            ck_assert_int_eq(prefix_contains(&p, &ip), bit >= len);
            ck_assert_int_eq(prefix_covers(&p, &q), bit >= len);
            ck_assert_int_eq(prefix_covers(&q, &p), 0);
        }
    }
}
END_TEST

START_TEST(families_never_mix_and_v4_comes_first)
{
    const uint8_t zero[16] = { 0 };
    struct prefix all4 = { ip_v4(0), 0 };
    struct prefix all6 = { ip_v6(zero), 0 };
    struct ip none = { 0 };
    char text[IP_TEXT_MAX];

    ck_assert(!prefix_contains(&all4, &all6.addr));
    ck_assert(!prefix_contains(&all6, &all4.addr));
    ck_assert(!prefix_contains(&all4, &none));
    ck_assert_int_lt(ip_compare(&all4.addr, &all6.addr), 0);
    ck_assert_int_lt(prefix_compare(&all4, &(struct prefix){ ip_v4(0), 8 }), 0);
    ck_assert_uint_eq(ip_print(&none, text), 1);
    ck_assert_str_eq(text, "-");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("ip");

    tcase_add_loop_test(tc, an_address_prints_as_rfc_5952_says_or_is_refused, 0,
                        ARRAY_LEN(ip_cases));
    tcase_add_loop_test(tc, a_prefix_is_canonical_or_names_the_rule_it_broke, 0,
                        ARRAY_LEN(prefix_cases));
    tcase_add_test(tc, host_bits_are_answered_with_the_canonical_prefix);
    tcase_add_test(tc, a_prefix_contains_exactly_the_addresses_that_share_its_bits);
    tcase_add_test(tc, families_never_mix_and_v4_comes_first);
    return unit_run("ip", tc);
}
