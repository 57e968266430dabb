/* move_world - a region of three clusters with a node each, in which VNI 1 moves. */
#pragma once

#include "tests/unit/controller/core/fake_device.h"

#define TENANT(vni, c) "{\"table\":\"tenant\",\"vni\":" #vni ",\"cluster\":\"" c "\"}\n"
#define VM(vni, a)                                                                     \
    "{\"table\":\"vm_nc\",\"vni\":" #vni ",\"vm\":\"" a "\",\"nc\":\"172.16.1.1\"}\n"
#define LOCAL(vni, p)                                                                  \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"local\"}\n"
#define PEER(vni, p, to)                                                               \
    "{\"table\":\"vxlan_route\",\"vni\":" #vni ",\"prefix\":\"" p                      \
    "\",\"scope\":\"peer\",\"peer_vni\":" #to "}\n"

#define WHOLE 3 /* rows of VNI 1 on a cluster: vni, route, VM */

/* VNI 1 is at home on c1 and will move to c2; VNI 2 on c3 peers to it. */
struct world {
    struct rig *rig;
    struct device at[3];
};

void world_init(struct world *w);
void world_fini(struct world *w);
/* Dial and say HELLO, at the beginning and after a restart of the controller. */
void world_start_devices(struct world *w);
/* Begins a move with 5000 ms to drain. */
const struct core_reply *world_move(struct world *w, uint32_t vni, const char *to);
/* The only one; null: none. */
const struct operation *world_operation(const struct world *w);
uint32_t device_rows_of(const struct device *d, uint32_t vni);
struct device *world_home_of(struct world *w, uint32_t vni);
/* Where g3's route to VNI 1 leads: the cluster's node. */
struct device *world_steered_to(struct world *w);
/* What must hold at every moment, whoever stopped when. */
void world_check_whole(struct world *w);
/* Lets time pass until the operation is over; all is whole at each moment. */
const struct operation *world_finish(struct world *w);
