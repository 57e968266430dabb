/*
 * flows - a stream of packets of flows of real sizes, for tests of what counts them.
 *
 * How many packets a flow has and how long they are comes from the histogram of 4
 * billion flows of a campus (flows/agh_2015 of the third-party data; XGW_DATA says
 * where), or without it from a tail of the same shape.  The packets of all flows are
 * mixed at random.  Seeded: the same stream every time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct flow {
    uint32_t packets;
    uint32_t packet_bytes;
};

struct flows {
    struct flow *flow;
    uint32_t flow_count;
    uint32_t *order; /* the flow of each packet */
    uint32_t packet_count;
    uint64_t bytes;
    bool is_real; /* of the data */
};

/* Aborts the test without memory. */
void flows_make(struct flows *f, uint32_t flow_count, uint64_t seed);
void flows_fini(struct flows *f);

uint64_t flows_random(uint64_t *state); /* splitmix64 */
