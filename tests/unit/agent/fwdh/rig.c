#include "tests/unit/agent/fwdh/rig.h"

#include "agent/fwd/checksum.h"
#include "tests/unit/unit.h"

#include <string.h>

void rig_publish(struct hswitch *s)
{
    bool changed;

    ck_assert_int_eq(hswitch_publish(s, &changed, NULL), RC_OK);
    (void)hswitch_reclaim(s);
}

void rig_write(struct hswitch *s, enum phys_op op, struct phys_entry e)
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

struct phys_entry rig_tcam(unsigned part)
{
    struct phys_entry e = { .table = PHYS_ROUTE_TCAM,
                            .action = PHYS_SET_PART,
                            .priority = 25,
                            .key = { 0, 0, RIG_VNI },
                            .mask = { 255, 255, 255 },
                            .data = { 0, (uint8_t)part } };

    return e;
}

struct phys_entry rig_local(unsigned part)
{
    struct phys_entry e = { .table = PHYS_ROUTE_PART,
                            .action = PHYS_LOCAL,
                            .priority = 25,
                            .key = { 0, (uint8_t)part, 0, 0, RIG_VNI },
                            .mask = { 0, 0, 255, 255, 255 } };

    return e;
}

struct phys_entry rig_vm(enum phys_table table, uint32_t nc)
{
    struct phys_entry e = { .table = (uint8_t)table,
                            .action = table == PHYS_VM_NC ? PHYS_SET_NC : PHYS_SPILL_NC,
                            .key = { 0, 0, RIG_VNI } };

    store_be32(e.key + 4, RIG_VM);
    store24(e.data, nc);
    return e;
}

struct phys_entry rig_nc(uint32_t index, uint32_t address)
{
    struct phys_entry e = { .table = PHYS_NC, .action = PHYS_NC4 };

    store24(e.key, index);
    store_be32(e.data, address);
    return e;
}

struct hswitch *rig_new(unsigned workers, const struct hswitch_port *port)
{
    struct hswitch_options o = { .sizes = phys_sizes_tofino(),
                                 .workers = workers,
                                 .port_count = 1,
                                 .ports = { *port },
                                 .seed = 1 };
    struct hswitch *s;
    struct phys_entry e;

    ck_assert_int_eq(hswitch_new(&o, &s, NULL), RC_OK);
    rig_write(s, PHYS_INSERT,
              (struct phys_entry){ .table = PHYS_VNI,
                                   .action = PHYS_SET_VNI,
                                   .key = { 0, 0, RIG_VNI } });
    for (unsigned b = 0; b < 256; b++) {
        rig_write(s, PHYS_INSERT,
                  (struct phys_entry){ .table = PHYS_NEXT_HOP,
                                       .action = PHYS_OUT_PORT,
                                       .key = { 1, (uint8_t)b } });
    }
    e = (struct phys_entry){ .table = PHYS_PORT_OUT,
                             .action = PHYS_SRC4,
                             .key = { 0, 0, 0, 1 },
                             .data = { 172, 31, 0, 1, 2, 0, 0, 0, 0, 1, 2 } };
    rig_write(s, PHYS_INSERT, e);
    e = (struct phys_entry){ .table = PHYS_VTEP,
                             .action = PHYS_IS_VTEP,
                             .priority = 1,
                             .key = { 1 },
                             .mask = { 1, 255, 255, 255, 255 } };
    store_be32(e.key + 1, RIG_VIP);
    rig_write(s, PHYS_INSERT, e);
    e.table = PHYS_SOURCE;
    e.action = PHYS_IS_SOURCE;
    store_be32(e.key + 1, RIG_SOURCE);
    rig_write(s, PHYS_INSERT, e);
    rig_write(s, PHYS_INSERT, rig_nc(20, RIG_NC));
    rig_write(s, PHYS_INSERT, rig_vm(PHYS_VM_NC, 20));
    rig_write(s, PHYS_INSERT, rig_local(1));
    rig_write(s, PHYS_INSERT, rig_tcam(1));
    rig_publish(s);
    return s;
}

void rig_frame(uint8_t f[RIG_FRAME])
{
    uint8_t *ip = f + 14;
    uint8_t *udp = ip + 20;
    uint8_t *inner_ip = udp + 16 + 14;

    memset(f, 0, RIG_FRAME);
    store_be16(f + 12, ETHERTYPE_IP4);
    ip[0] = 0x45;
    store_be16(ip + 2, RIG_FRAME - 14);
    ip[8] = 64;
    ip[9] = PROTO_UDP;
    store_be32(ip + 12, RIG_SOURCE);
    store_be32(ip + 16, RIG_VIP);
    csum_store(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, 20)));
    store_be16(udp + 2, VXLAN_PORT);
    store_be16(udp + 4, RIG_FRAME - 34);
    udp[8] = VXLAN_FLAG_I;
    store_be32(udp + 12, RIG_VNI << 8);
    store_be16(udp + 16 + 12, ETHERTYPE_IP4);
    inner_ip[0] = 0x45;
    store_be16(inner_ip + 2, 50);
    inner_ip[8] = 64;
    inner_ip[9] = PROTO_TCP;
    store_be32(inner_ip + 12, 0x0a000005);
    store_be32(inner_ip + 16, RIG_VM);
    csum_store(inner_ip + 10, (uint16_t)~csum_fold(csum_add(0, inner_ip, 20)));
}
