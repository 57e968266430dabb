/*
 * lookup - the entry that decides, by the rows of one set: for trace and probes.
 *
 * By the tables' definitions and nothing faster, and sharing no code with any data
 * plane: what is said here is what these are held against.  Values only; any thread.
 */
#pragma once

#include <stdbool.h>

#include "proto/model/entry.h"
#include "proto/model/table_set.h"

/* The longest route of the VNI that covers the destination. */
bool lookup_route(const struct table_set *s, uint32_t vni, const struct ip *dst,
                  struct entry *ret);
bool lookup_vm(const struct table_set *s, uint32_t vni, const struct ip *vm,
               struct entry *ret);

/* A packet, as access rules see it. */
struct lookup_flow {
    struct ip src;
    struct ip dst;
    uint8_t proto;
    bool has_ports;
    uint16_t sport;
    uint16_t dport;
};
/* The rule that decides about it (entry.h); false: none matches. */
bool lookup_acl(const struct table_set *s, uint32_t vni, const struct lookup_flow *flow,
                struct entry *ret);

/* What can be no destination of a packet: check 32 of tests/reference. */
bool lookup_is_routable(const struct ip *ip);
