/*
 * memory_probe - what driver_memory's device makes of a probe.
 *
 * It forwards nothing, but says of any frame what tests/reference says for its kind: it
 * reads it byte by byte (memory_frame.h), looks up in its tables, and writes what would
 * come out.  Outer headers it writes anew, as of a plain host, whatever came.  Meters
 * are never red, next hops are always there, and ICMP errors are not told.
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
