/* rig - a software switch with one VNI, one VM behind one NC, and a packet to it. */
#pragma once

#include "agent/fwdh/fwdh.h"

#define RIG_VNI    5u
#define RIG_VM     0x0a000004u
#define RIG_NC     0xac100202u /* behind NC index 20 */
#define RIG_VIP    0xac1f0001u
#define RIG_SOURCE 0xac100101u
#define RIG_FRAME  114 /* bytes of the packet */

/* Gives a switch with one port: route in partition 1, VM in vm_nc; no worker is online.
 * hswitch_free() ends it. */
struct hswitch *rig_new(unsigned workers, const struct hswitch_port *port);

/* One update of half 0, which must be taken. */
void rig_write(struct hswitch *s, enum phys_op op, struct phys_entry e);
void rig_publish(struct hswitch *s);

/* The rows that the packet needs. */
struct phys_entry rig_tcam(unsigned part);
struct phys_entry rig_local(unsigned part);
struct phys_entry rig_vm(enum phys_table table, uint32_t nc);
struct phys_entry rig_nc(uint32_t index, uint32_t address);

void rig_frame(uint8_t f[RIG_FRAME]);
