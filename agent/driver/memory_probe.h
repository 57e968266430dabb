/*
 * memory_probe - what driver_memory's device makes of a probe.
 *
 * It forwards nothing, so it knows packets that proto/model/vxlan_packet writes and no
 * others: such a one it looks up in its tables and rewrites as tests/reference says for
 * its kind.  What is no such packet is dropped as `inner_not_ip`.  Meters are never
 * red, and next hops are always there.
 */
#pragma once

#include "proto/model/agent_msg.h"

struct memory_probe_view {
    const struct table_set *tables;
    const struct device_config *config; /* null: none yet */
    bool is_ready;
};

/* Gives a frame in `*ret` where the outcome is one. */
void memory_probe(const struct memory_probe_view *view, const struct blob *frame,
                  struct probe_result *ret);

/* A forwarded packet gets another VNI, as of a device whose tables are not what they
 * seem. */
void memory_probe_spoil(struct probe_result *r);
