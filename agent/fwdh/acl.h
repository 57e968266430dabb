/*
 * acl - the ACL in software: rules of a VNI by falling priority, the first that matches
 * decides; none: permit.
 *
 * A snapshot in one run of cache lines, made anew when rules change: the chip has room
 * for a thousand of them.  Readers find the rules of their VNI by hash; a VNI without
 * rules costs one probe.
 */
#pragma once

#include "agent/fwd/lines.h"
#include "agent/fwdh/records.h"
#include "proto/base/err.h"

/* What rules match on, packed into words so that a rule is a few compares. */
struct hacl_key {
    uint64_t src[2]; /* pooled, host order */
    uint64_t dst[2];
    uint64_t rest; /* protocol(8) source port(16) destination port(16) has_ports(1) */
};

struct hacl_rule {
    struct hacl_key key;
    struct hacl_key mask;
    uint32_t vni;
    uint32_t priority;
    bool denies;
};

struct hacl_slot {
    uint32_t vni; /* UINT32_MAX: free */
    uint16_t first;
    uint16_t count;
};

struct hacl {
    uint32_t lines;
    uint32_t mask; /* of the slots; a power of two less one */
    uint32_t rule_count;
    uint32_t rules_at; /* bytes from here */
    struct hacl_slot slot[];
};

/* Makes a snapshot of all rules in `records`; index of its first line in `*ret`, 0
 * when there is no rule.  RC_NO_MEMORY. */
enum rc hacl_build(const struct hrecords *records, struct lines *lines, uint32_t *ret);

/* Rule `i` of all, below `rule_count`, as the entry that it is (but for its half). */
void hacl_entry(const struct hacl *a, uint32_t i, struct phys_entry *ret);
/* The rule of the entry's key, mask and priority; HRECORDS_NONE: there is none. */
uint32_t hacl_find_entry(const struct hacl *a, const struct phys_entry *e);

static inline uint64_t hacl_rest(uint8_t proto, uint16_t sport, uint16_t dport,
                                 bool has_ports)
{
    return (uint64_t)proto << 40 | (uint64_t)sport << 24 | (uint64_t)dport << 8 |
           has_ports;
}

/* The rules of a VNI; null when it has none. */
const struct hacl_slot *hacl_find(const struct hacl *a, uint32_t vni);

/* Do they let the packet pass? */
bool hacl_permits(const struct hacl *a, const struct hacl_slot *slot,
                  const struct hacl_key *key);
