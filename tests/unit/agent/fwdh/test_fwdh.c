/* What the packet path does beside what the reference compares: MACs that the switch
 * finds itself, ports that are not there, the flow hash. */
#include "tests/unit/unit.h"

#include "tests/unit/agent/fwdh/rig.h"

#include <string.h>

static const struct hswitch_port port = {
    .mac = { 2, 9, 9, 9, 9, 9 },
    .mtu = 1500,
    .address = { { .family = IP_V4, .b = { 172, 20, 0, 1 } } },
    .next_hop = { { .family = IP_V4, .b = { 172, 20, 0, 2 } } },
};

static uint8_t buffer[64 + RIG_FRAME];

static struct fwd_packet run(struct hswitch *s)
{
    struct fwd_packet p = { .data = buffer + 64, .length = RIG_FRAME, .headroom = 64 };

    rig_frame(p.data);
    hworker_online(s, &s->workers[0]);
    fwdh_burst(s, &s->workers[0], 1, &p, 1);
    hworker_offline(&s->workers[0]);
    return p;
}

/* Row of port_out whose MACs are the switch's to find. */
static struct phys_entry open_row(void)
{
    return (struct phys_entry){ .table = PHYS_PORT_OUT,
                                .action = PHYS_SRC4,
                                .key = { 0, 0, 0, 1 },
                                .data = { 172, 31, 0, 1 } };
}

START_TEST(macs_of_zero_are_the_ports_own_and_its_neighbours)
{
    static const uint8_t hop[6] = { 2, 0, 0, 0, 0, 7 };
    struct hswitch *s = rig_new(1, &port);
    struct fwd_packet p = run(s);

    ck_assert_uint_eq(p.verdict, FWD_FORWARD);
    ck_assert_mem_eq(p.data + 6, "\x02\0\0\0\0\x01", 6); /* as the row says */
    rig_write(s, PHYS_MODIFY, open_row());
    p = run(s);
    ck_assert_uint_eq(p.verdict, FWD_DROP);
    ck_assert_uint_eq(p.reason, DROP_NEXT_HOP_UNRESOLVED);
    fwd_config_set_mac(atomic_load(&s->half[0].config), 0, hop);
    p = run(s);
    ck_assert_uint_eq(p.verdict, FWD_FORWARD);
    ck_assert_mem_eq(p.data, hop, 6);
    ck_assert_mem_eq(p.data + 6, port.mac, 6);
    hswitch_free(s);
}
END_TEST

START_TEST(a_next_hop_without_a_port_or_a_neighbour_is_no_uplink)
{
    const struct hswitch_port bare = { .mtu = 1500 };
    struct hswitch *s = rig_new(1, &bare);
    struct phys_entry hop = { .table = PHYS_NEXT_HOP,
                              .action = PHYS_OUT_PORT,
                              .data = { 0, 1 } };

    rig_write(s, PHYS_MODIFY, open_row());
    ck_assert_uint_eq(run(s).reason, DROP_NO_UPLINK);
    for (unsigned b = 0; b < 256; b++) {
        hop.key[0] = 1;
        hop.key[1] = (uint8_t)b;
        rig_write(s, PHYS_MODIFY, hop);
    }
    ck_assert_uint_eq(run(s).reason, DROP_NO_UPLINK);
    hswitch_free(s);
}
END_TEST

START_TEST(the_flow_hash_does_not_mind_the_direction)
{
    struct fwd_packet p = { .data = buffer + 64, .length = RIG_FRAME };
    struct layers l = { .inner_l3 = 64,
                        .inner_l4 = 84,
                        .inner_size = 50,
                        .inner_family = IP_V4,
                        .inner_proto = PROTO_TCP };
    uint8_t *ip = p.data + 64;
    uint8_t *l4 = p.data + 84;
    uint32_t one;
    uint32_t other;

    rig_frame(p.data);
    store_be16(l4, 1234);
    store_be16(l4 + 2, 80);
    one = fwdh_flow_hash(&p, &l);
    store_be32(ip + 12, RIG_VM);
    store_be32(ip + 16, 0x0a000005);
    store_be16(l4, 80);
    store_be16(l4 + 2, 1234);
    ck_assert_uint_eq(fwdh_flow_hash(&p, &l), one);
    store_be16(l4, 81);
    ck_assert_uint_ne(fwdh_flow_hash(&p, &l), one);
    /* Fragments of a datagram stay together. */
    l.is_fragment = true;
    other = fwdh_flow_hash(&p, &l);
    store_be16(l4, 5);
    ck_assert_uint_eq(fwdh_flow_hash(&p, &l), other);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("fwdh");

    tcase_add_test(tc, macs_of_zero_are_the_ports_own_and_its_neighbours);
    tcase_add_test(tc, a_next_hop_without_a_port_or_a_neighbour_is_no_uplink);
    tcase_add_test(tc, the_flow_hash_does_not_mind_the_direction);
    return unit_run("fwdh", tc);
}
