#include "proto/model/vxlan_packet.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

/* Made by scapy: VNI 0x123456, inner TTL 64, outer 63, ports 40000 to 9 in 50000. */
static const struct {
    uint8_t outer;
    uint8_t inner;
    bool has_csum;
    const char *hex;
} vectors[] = {
    { IP_V4, IP_V4, false,
      "020000000001020000000002080045000053000040003f11b796c0000201c0000202c350"
      "12b5003f0000080000001234560002000000000502584757000108004500002100004000"
      "401126ca0a0000010a0000029c400009000d0ab370726f6265" },
    { IP_V6, IP_V6, true,
      "02000000000102000000000286dd6000c3500053113ffd01000000000000000000000000"
      "0001fd010000000000000000000000000002c35012b500537b4508000000123456000200"
      "0000000502584757000186dd60000000000d1140fd000000000000000000000000000001"
      "fd0000000000000000000000000000029c400009000d24b170726f6265" },
    { IP_V4, IP_V6, true,
      "020000000001020000000002080045000067000040003f11b782c0000201c0000202c350"
      "12b50053f147080000001234560002000000000502584757000186dd60000000000d1140"
      "fd000000000000000000000000000001fd0000000000000000000000000000029c400009"
      "000d24b170726f6265" },
    { IP_V6, IP_V4, false,
      "02000000000102000000000286dd6000c350003f113ffd01000000000000000000000000"
      "0001fd010000000000000000000000000002c35012b5003f000008000000123456000200"
      "0000000502584757000108004500002100004000401126ca0a0000010a0000029c400009"
      "000d0ab370726f6265" },
};

static struct ip address(uint8_t family, bool is_outer, uint8_t last)
{
    uint8_t v6[16] = { 0xfd, is_outer, [15] = last };

    return family == IP_V6 ? ip_v6(v6)
                           : ip_v4((is_outer ? 0xc0000200u : 0x0a000000u) + last);
}

static struct vxlan_packet packet_of(int i)
{
    struct vxlan_packet p;

    memset(&p, 0, sizeof(p));
    p.outer_src = address(vectors[i].outer, true, 1);
    p.outer_dst = address(vectors[i].outer, true, 2);
    p.outer_ttl = 63;
    p.outer_sport = 50000;
    p.has_outer_csum = vectors[i].has_csum;
    p.vni = 0x123456;
    memcpy(p.inner_dst_mac, "\x02\x00\x00\x00\x00\x05", 6);
    memcpy(p.inner_src_mac, "\x02XGW\x00\x01", 6);
    p.src = address(vectors[i].inner, false, 1);
    p.dst = address(vectors[i].inner, false, 2);
    p.ttl = 64;
    p.sport = 40000;
    p.dport = 9;
    p.payload_len = 5;
    memcpy(p.payload, "probe", 5);
    return p;
}

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

START_TEST(a_packet_is_the_bytes_that_scapy_writes_and_is_read_back_from_them)
{
    struct vxlan_packet p = packet_of(_i);
    struct vxlan_packet again;
    uint8_t want[VXLAN_PACKET_MAX];
    uint8_t got[VXLAN_PACKET_MAX];
    size_t len = from_hex(vectors[_i].hex, want);
    char text[128] = "";

    ck_assert_uint_eq(vxlan_packet_build(&p, got), len);
    ck_assert_mem_eq(got, want, len);
    memset(want, 0xee, 12); /* the link's own addresses */
    ck_assert_int_eq(vxlan_packet_parse(want, len, &again, NULL), RC_OK);
    ck_assert(!vxlan_packet_differs(&again, &p, text, sizeof(text)));
}
END_TEST

START_TEST(a_frame_with_any_other_bit_or_length_is_another_packet_or_none)
{
    struct vxlan_packet p = packet_of(_i);
    struct vxlan_packet got;
    uint8_t frame[VXLAN_PACKET_MAX + 1] = { 0 };
    size_t len = from_hex(vectors[_i].hex, frame);
    char text[128];
    struct err err = { 0 };

    for (size_t bit = VXLAN_PACKET_IP * 8; bit < len * 8; bit++) {
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        text[0] = '\0';
        err.msg[0] = '\0';
        if (vxlan_packet_parse(frame, len, &got, &err) == RC_OK) {
            ck_assert_msg(vxlan_packet_differs(&got, &p, text, sizeof(text)), "bit %zu",
                          bit);
            ck_assert_str_ne(text, "");
        } else {
            ck_assert_str_ne(err.msg, "");
        }
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut <= len + 1; cut++) {
        ck_assert_int_eq(vxlan_packet_parse(frame, cut, &got, NULL),
                         cut == len ? RC_OK : RC_INVALID);
    }
}
END_TEST

START_TEST(a_difference_is_said_in_words)
{
    struct vxlan_packet want = packet_of(0);
    struct vxlan_packet got = want;
    char text[128];

    got.outer_dst = ip_v4(0xc0000209);
    got.vni = 5;
    ck_assert(vxlan_packet_differs(&got, &want, text, sizeof(text)));
    ck_assert_str_eq(text, "outer destination is 192.0.2.9, not 192.0.2.2");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("vxlan_packet");

    tcase_add_loop_test(
        tc, a_packet_is_the_bytes_that_scapy_writes_and_is_read_back_from_them, 0,
        ARRAY_LEN(vectors));
    tcase_add_loop_test(tc,
                        a_frame_with_any_other_bit_or_length_is_another_packet_or_none,
                        0, ARRAY_LEN(vectors));
    tcase_add_test(tc, a_difference_is_said_in_words);
    return unit_run("vxlan_packet", tc);
}
