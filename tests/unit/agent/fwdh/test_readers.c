/* Workers forward while the writer moves everything that one packet needs: partition,
 * VM-NC entry, NC index, each made before the old one is broken and the old NC index
 * given to somebody else.  Every packet has to reach its NC all the time. */
#include "tests/unit/unit.h"

#include "agent/fwd/checksum.h"
#include "agent/fwdh/fwdh.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define VNI    5u
#define VM     0x0a000004u
#define NC     0xac100202u /* the right one */
#define OTHER  0xac100909u /* who gets its old index */
#define VIP    0xac1f0001u
#define SOURCE 0xac100101u

enum { READERS = 2, BURST = 32, FRAME = 114, ROOM = 32, ROUNDS = 3000 };

static struct hswitch *s;
static atomic_bool done;
static atomic_uint bursts;
static atomic_uint wrong;

static void publish(void)
{
    bool changed;

    ck_assert_int_eq(hswitch_publish(s, &changed, NULL), RC_OK);
    (void)hswitch_reclaim(s);
}

static void write_one(enum phys_op op, struct phys_entry e)
{
    struct err err = { 0 };

    phys_mask_exact((enum phys_table)e.table, e.mask);
    ck_assert_msg(hswitch_write(s, 0, op, &e, &err) == RC_OK, "%s", err.msg);
}

static void store24(uint8_t *to, uint32_t v)
{
    to[0] = (uint8_t)(v >> 16);
    store_be16(to + 1, (uint16_t)v);
}

static struct phys_entry tcam(unsigned part)
{
    struct phys_entry e = { .table = PHYS_ROUTE_TCAM,
                            .action = PHYS_SET_PART,
                            .priority = 25,
                            .key = { 0, 0, VNI },
                            .mask = { 255, 255, 255 },
                            .data = { 0, (uint8_t)part } };

    return e;
}

static struct phys_entry local(unsigned part)
{
    struct phys_entry e = { .table = PHYS_ROUTE_PART,
                            .action = PHYS_LOCAL,
                            .priority = 25,
                            .key = { 0, (uint8_t)part, 0, 0, VNI },
                            .mask = { 0, 0, 255, 255, 255 } };

    return e;
}

static struct phys_entry vm(enum phys_table table, uint32_t nc)
{
    struct phys_entry e = { .table = (uint8_t)table,
                            .action = table == PHYS_VM_NC ? PHYS_SET_NC : PHYS_SPILL_NC,
                            .key = { 0, 0, VNI } };

    store_be32(e.key + 4, VM);
    store24(e.data, nc);
    return e;
}

static struct phys_entry nc(uint32_t index, uint32_t address)
{
    struct phys_entry e = { .table = PHYS_NC, .action = PHYS_NC4 };

    store24(e.key, index);
    store_be32(e.data, address);
    return e;
}

static void setup(void)
{
    struct hswitch_options o = {
        .sizes = phys_sizes_tofino(), .workers = READERS, .port_count = 1, .seed = 1
    };
    struct phys_entry e;

    o.ports[0].mtu = 1500;
    ck_assert_int_eq(hswitch_new(&o, &s, NULL), RC_OK);
    write_one(PHYS_INSERT, (struct phys_entry){ .table = PHYS_VNI,
                                                .action = PHYS_SET_VNI,
                                                .key = { 0, 0, VNI } });
    for (unsigned b = 0; b < 256; b++) {
        write_one(PHYS_INSERT, (struct phys_entry){ .table = PHYS_NEXT_HOP,
                                                    .action = PHYS_OUT_PORT,
                                                    .key = { 1, (uint8_t)b } });
    }
    e = (struct phys_entry){ .table = PHYS_PORT_OUT,
                             .action = PHYS_SRC4,
                             .key = { 0, 0, 0, 1 },
                             .data = { 172, 31, 0, 1, 2, 0, 0, 0, 0, 1, 2 } };
    write_one(PHYS_INSERT, e);
    e = (struct phys_entry){ .table = PHYS_VTEP,
                             .action = PHYS_IS_VTEP,
                             .priority = 1,
                             .key = { 1 },
                             .mask = { 1, 255, 255, 255, 255 } };
    store_be32(e.key + 1, VIP);
    write_one(PHYS_INSERT, e);
    e.table = PHYS_SOURCE;
    e.action = PHYS_IS_SOURCE;
    store_be32(e.key + 1, SOURCE);
    write_one(PHYS_INSERT, e);
    write_one(PHYS_INSERT, nc(20, NC));
    write_one(PHYS_INSERT, vm(PHYS_VM_NC, 20));
    write_one(PHYS_INSERT, local(1));
    write_one(PHYS_INSERT, tcam(1));
    publish();
}

static void make_frame(uint8_t *f)
{
    uint8_t *ip = f + 14;
    uint8_t *udp = ip + 20;
    uint8_t *inner_ip = udp + 16 + 14;

    memset(f, 0, FRAME);
    store_be16(f + 12, ETHERTYPE_IP4);
    ip[0] = 0x45;
    store_be16(ip + 2, FRAME - 14);
    ip[8] = 64;
    ip[9] = PROTO_UDP;
    store_be32(ip + 12, SOURCE);
    store_be32(ip + 16, VIP);
    csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, 20)));
    store_be16(udp + 2, VXLAN_PORT);
    store_be16(udp + 4, FRAME - 34);
    udp[8] = VXLAN_FLAG_I;
    store_be32(udp + 12, VNI << 8);
    store_be16(udp + 16 + 12, ETHERTYPE_IP4);
    inner_ip[0] = 0x45;
    store_be16(inner_ip + 2, 50);
    inner_ip[8] = 64;
    inner_ip[9] = PROTO_TCP;
    store_be32(inner_ip + 12, 0x0a000005);
    store_be32(inner_ip + 16, VM);
    csum_store(inner_ip + 10, (uint16_t)~csum_fold(csum_add(0, inner_ip, 20)));
}

static void *forward(void *arg)
{
    struct hworker *w = arg;
    uint8_t frame[FRAME];
    uint8_t buffer[BURST][ROOM + FRAME];
    struct fwd_packet p[BURST];

    make_frame(frame);
    hworker_online(s, w);
    while (!atomic_load(&done)) {
        for (unsigned i = 0; i < BURST; i++) {
            memcpy(buffer[i] + ROOM, frame, FRAME);
            p[i] = (struct fwd_packet){ .data = buffer[i] + ROOM,
                                        .length = FRAME,
                                        .headroom = ROOM };
        }
        fwdh_burst(s, w, 1, p, BURST);
        for (unsigned i = 0; i < BURST; i++) {
            if (p[i].verdict != FWD_FORWARD || load_be32(p[i].data + 30) != NC) {
                atomic_fetch_add(&wrong, 1);
            }
        }
        atomic_fetch_add(&bursts, 1);
        hworker_quiescent(s, w);
    }
    hworker_offline(w);
    return NULL;
}

static void step(enum phys_op op, struct phys_entry e)
{
    write_one(op, e);
    publish(); /* each a request of its own */
}

START_TEST(what_moves_step_by_step_is_never_missed_and_never_somebody_elses)
{
    pthread_t thread[READERS];
    unsigned part = 1;
    uint32_t index = 20;
    enum phys_table table = PHYS_VM_NC;

    for (unsigned i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, forward, &s->workers[i]), 0);
    }
    for (unsigned round = 0; round < ROUNDS || atomic_load(&bursts) < 1000; round++) {
        unsigned to_part = 3 - part;
        uint32_t to_index = 41 - index;
        enum phys_table to_table = table == PHYS_VM_NC ? PHYS_VM_NC_SPILL : PHYS_VM_NC;

        step(PHYS_INSERT, local(to_part));
        step(PHYS_MODIFY, tcam(to_part));
        step(PHYS_DELETE, local(part));
        step(PHYS_INSERT, vm(to_table, index));
        step(PHYS_DELETE, vm(table, index));
        step(PHYS_INSERT, nc(to_index, NC));
        step(PHYS_MODIFY, vm(to_table, to_index));
        step(PHYS_DELETE, nc(index, 0));
        step(PHYS_INSERT, nc(index, OTHER));
        step(PHYS_DELETE, nc(index, 0));
        part = to_part;
        index = to_index;
        table = to_table;
    }
    atomic_store(&done, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(thread[i], NULL);
    }
    ck_assert_uint_eq(atomic_load(&wrong), 0);
    (void)hswitch_reclaim(s);
    ck_assert(!hswitch_reclaim(s));
    hswitch_free(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("readers");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc,
                   what_moves_step_by_step_is_never_missed_and_never_somebody_elses);
    return unit_run("readers", tc);
}
